BEGIN { ustack(1, -1); }
