BEGIN { trace(((struct opaque *)0)->x); }
