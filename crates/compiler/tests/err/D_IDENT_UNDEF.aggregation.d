BEGIN { @a; }
