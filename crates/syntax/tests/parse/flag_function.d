// test: flag=f
read, a:read, uprobe:/bin/sh:main { }
