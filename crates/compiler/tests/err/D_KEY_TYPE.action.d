BEGIN { @a[exit(0)] = count(); }
