syscall::read:entry { this->p = copyin(arg1, 8); trace(*(int *)(this->p + 4)); }
