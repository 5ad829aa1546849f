// test: flag=i
1, 3-7 /1/ {}
