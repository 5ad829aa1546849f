int f(static int); BEGIN { }
