inline int f = 1; inline int f = 2;
