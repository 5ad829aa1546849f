inline int f[int a] = a + 1; BEGIN { trace(f["x"]); }
