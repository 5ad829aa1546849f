BEGIN { printf("%k", pid); }
