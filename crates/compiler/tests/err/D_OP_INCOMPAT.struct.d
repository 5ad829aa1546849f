struct s { int x; }; struct s v; BEGIN { v = 3; }
