BEGIN { x = 2; x[1] = 3; }
