BEGIN { x = *curthread; }
