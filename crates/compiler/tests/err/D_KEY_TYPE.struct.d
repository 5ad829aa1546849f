BEGIN { @a[*curthread] = count(); }
