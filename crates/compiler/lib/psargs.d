/*
 * The arguments of processes other than the one that runs, for `pr_psargs`. Their memory cannot be read where a probe fires, so they are
 * kept: those of the processes that exist are filled in when tracing starts, and these clauses, which run at all times, follow what
 * happens to them from then on. A process is known by its number and by when it was started, in the ticks of /proc/PID/stat.
 */

string _args[pid_t, uint64_t];

inline string _args_of[struct task_struct *L] = _args[L->tgid, L->start_boottime / 10000000];
inline string _kept_args[struct task_struct *T] =
    _args_of[T->group_leader] != "" ? _args_of[T->group_leader] : T->mm == NULL ? stringof(T->comm) : "<unknown>";

/* What was kept is gone in any case, even where the new cannot be. */
rawtp:sched::sched_process_exec
{
	_args[curthread->tgid, curthread->group_leader->start_boottime / 10000000] = "";
	_args[curthread->tgid, curthread->group_leader->start_boottime / 10000000] =
	    _psargs(curthread->mm->arg_start, curthread->mm->arg_end);
}

rawtp:sched::sched_process_fork
/args[1]->tgid != args[0]->tgid/
{
	_args[args[1]->tgid, args[1]->start_boottime / 10000000] = _args_of[args[0]->group_leader];
}

rawtp:sched::sched_process_free
/args[0]->pid == args[0]->tgid/
{
	_args[args[0]->tgid, args[0]->start_boottime / 10000000] = "";
}
