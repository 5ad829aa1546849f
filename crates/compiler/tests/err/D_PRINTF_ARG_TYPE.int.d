BEGIN { printf("a\n%-5s", pid); }
