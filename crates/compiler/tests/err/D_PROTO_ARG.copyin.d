syscall::read:entry { trace(copyin("x", 1)); }
