syscall::read:entry { x = args[1]; x = &curthread->comm[0]; }
