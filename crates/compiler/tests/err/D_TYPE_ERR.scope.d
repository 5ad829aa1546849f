BEGIN { trace(sizeof (struct nomod`thing)); }
