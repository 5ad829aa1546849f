syscall::read:entry { trace(args); }
