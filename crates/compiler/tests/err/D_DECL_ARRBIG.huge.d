struct s { int x[0x7fffffff]; }; BEGIN { }
