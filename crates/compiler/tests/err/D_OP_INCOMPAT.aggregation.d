BEGIN { @a = count(); trace(@a + 3); }
