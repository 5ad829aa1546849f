BEGIN { trace(curthread->t_procp); }
