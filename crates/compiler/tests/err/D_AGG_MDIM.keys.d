BEGIN { @[1][2] = count(); }
