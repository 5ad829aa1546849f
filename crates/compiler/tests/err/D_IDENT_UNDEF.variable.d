BEGIN { trace(exename); }
