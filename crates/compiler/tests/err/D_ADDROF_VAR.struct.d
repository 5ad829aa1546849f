struct s { int x; }; struct s v; BEGIN { p = &v; }
