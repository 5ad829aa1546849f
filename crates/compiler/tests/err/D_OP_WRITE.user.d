syscall::read:entry { *(userland int *)arg1 = 1; }
