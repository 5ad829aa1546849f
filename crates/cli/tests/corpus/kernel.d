/* The kernel's types and the running thread, and what the libraries make of them. */
BEGIN
{
	printf("%d %d\n", curthread->tgid == pid, ((struct task_struct *)curthread)->pid == tid);
	printf("%s %d\n", stringof(curthread->comm) == execname ? "same" : "other", sizeof (struct vmlinux`list_head));
	printf("%d %d %d\n", curpsinfo->pr_pid == pid, curlwpsinfo->pr_lwpid == tid, curcpu->cpu_id == cpu);
	printf("%d %d\n", ppid == curpsinfo->pr_ppid, uid == curpsinfo->pr_uid);
	printf("%d %d\n", progenyof(ppid), progenyof(pid));
	printf("%d\n", strlen(cwd) > 0 && strlen(root) > 0);
	exit(0);
}
