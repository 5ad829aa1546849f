BEGIN { trace(`no_such_symbol); }
