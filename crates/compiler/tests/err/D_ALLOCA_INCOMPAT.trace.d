syscall::read:entry { trace(copyin(arg1, 4)); }
