// test: flag=n
read:entry, BEGIN, a:b:c:d, tick-1s { } int x; typedef int t; t y; END
