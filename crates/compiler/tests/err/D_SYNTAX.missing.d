BEGIN { trace(1; }
