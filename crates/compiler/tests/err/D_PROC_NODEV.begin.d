BEGIN { trace(copyinstr(1)); }
