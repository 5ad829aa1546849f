BEGIN { @a = count(); @a; }
