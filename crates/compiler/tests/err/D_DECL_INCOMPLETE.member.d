struct s { struct nothing x; }; BEGIN { }
