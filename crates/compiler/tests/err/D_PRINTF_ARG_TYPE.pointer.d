syscall::read:entry { printf("%s", args[1]); }
