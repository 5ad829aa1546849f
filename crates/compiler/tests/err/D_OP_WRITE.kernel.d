BEGIN { curthread->pid = 0; }
