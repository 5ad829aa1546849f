syscall::read:entry { x = copyin(arg1, 4); x = (void *)curthread; }
