syscall::read:entry { x = args[1]; } END { trace(*x); }
