int n; BEGIN { @[ustack(n)] = count(); }
