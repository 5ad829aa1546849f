BEGIN { trace(basename("x")); }
