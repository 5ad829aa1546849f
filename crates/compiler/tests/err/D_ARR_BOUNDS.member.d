struct s { int x[3]; }; this struct s v; BEGIN { this->v.x[3] = 1; }
