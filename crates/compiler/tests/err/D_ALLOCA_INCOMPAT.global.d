syscall::read:entry { x = copyin(arg1, 4); }
