syscall::read:return { trace(self->t); }
