struct s { int x; int x; }; BEGIN { }
