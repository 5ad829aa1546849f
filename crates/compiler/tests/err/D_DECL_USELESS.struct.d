struct { int x; }; BEGIN { }
