/* What goes wrong ends the clause, fires ERROR and is reported; the next clause runs. */
int list[3];
ERROR { printf("fault %d value %d\n", arg4, arg5); }
BEGIN { i = 0; trace(1 / i); printf("not here\n"); }
BEGIN { trace(*(int *)64); }
BEGIN { i = 3; list[i] = 1; printf("not here\n"); }
BEGIN { this->p = (char *)alloca(8); trace(*(int *)(this->p + 6)); }
BEGIN { trace(*(int *)NULL); }
BEGIN { printf("still here\n"); exit(0); }
