enum { A }; enum { A }; BEGIN { }
