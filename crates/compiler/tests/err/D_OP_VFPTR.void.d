syscall::read:entry { this->p = copyin(arg1, 4); this->p++; }
