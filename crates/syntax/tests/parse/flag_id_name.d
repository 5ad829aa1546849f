// test: flag=i
BEGIN
