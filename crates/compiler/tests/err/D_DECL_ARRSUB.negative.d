struct s { int x[-1]; }; BEGIN { }
