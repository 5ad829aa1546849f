BEGIN { trace(`untyped); }
