// test: flag=P
a:b { } c { }
