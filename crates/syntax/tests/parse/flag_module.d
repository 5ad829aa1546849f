// test: flag=m
a, b:c, uprobe:/bin/sh /pid/ { }
