syscall::read:entry { trace(copyin(arg1, 100000)); }
