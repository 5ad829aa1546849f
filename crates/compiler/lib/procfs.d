/*
 * Processes and threads: `psinfo_t`, `lwpsinfo_t` and the variables that are of these types. Members that Linux has nothing to say
 * about have no value here: to use one is an error. Where kernels differ a member has several values, and the first that the running
 * kernel knows is taken.
 */

typedef struct timestruc_t {
	time_t tv_sec;
	long tv_nsec;
} timestruc_t;

typedef struct lwpsinfo_t {
	int pr_flag;
	id_t pr_lwpid;
	uintptr_t pr_addr;
	uintptr_t pr_wchan;
	char pr_stype;
	char pr_state;
	char pr_sname;
	char pr_nice;
	short pr_syscall;
	char pr_oldpri;
	char pr_cpu;
	int pr_pri;
	ushort_t pr_pctcpu;
	timestruc_t pr_start;
	timestruc_t pr_time;
	string pr_clname;
	char pr_name[16];
	processorid_t pr_onpro;
	processorid_t pr_bindpro;
	psetid_t pr_bindpset;
	int pr_lgrp;
} lwpsinfo_t;

typedef struct psinfo_t {
	int pr_flag;
	int pr_nlwp;
	pid_t pr_pid;
	pid_t pr_ppid;
	pid_t pr_pgid;
	pid_t pr_sid;
	uid_t pr_uid;
	uid_t pr_euid;
	gid_t pr_gid;
	gid_t pr_egid;
	uintptr_t pr_addr;
	size_t pr_size;
	size_t pr_rssize;
	struct tty_struct *pr_ttydev;
	ushort_t pr_pctcpu;
	ushort_t pr_pctmem;
	timestruc_t pr_start;
	timestruc_t pr_time;
	timestruc_t pr_ctime;
	string pr_fname;
	string pr_psargs;
	int pr_wstat;
	int pr_argc;
	uintptr_t pr_argv;
	uintptr_t pr_envp;
	char pr_dmodel;
	taskid_t pr_taskid;
	projid_t pr_projid;
	int pr_nzomb;
	poolid_t pr_poolid;
	zoneid_t pr_zoneid;
	ctid_t pr_contract;
	lwpsinfo_t pr_lwp;
} psinfo_t;

inline char PR_MODEL_ILP32 = 1;
inline char PR_MODEL_LP64 = 2;

inline int PR_STOPPED = 0x00000001;
inline int PR_ISTOP = 0x00000002;
inline int PR_DSTOP = 0x00000004;
inline int PR_ISSYS = 0x00001000;
inline int PR_IDLE = 0x10000000;

/*
 * What a thread can sleep on, as `pr_stype` tells it where a kernel does. Linux does not: it has no table of them, and a sleeping
 * thread's `pr_stype` is SOBJ_NONE.
 */
inline char SOBJ_NONE = 0;
inline char SOBJ_MUTEX = 1;
inline char SOBJ_RWLOCK = 2;
inline char SOBJ_CV = 3;
inline char SOBJ_SEMA = 4;
inline char SOBJ_USER = 5;
inline char SOBJ_USER_PI = 6;
inline char SOBJ_SHUTTLE = 7;

inline char SSLEEP = 1;
inline char SRUN = 2;
inline char SZOMB = 3;
inline char SSTOP = 4;
inline char SIDL = 5;
inline char SONPROC = 6;
inline char SWAIT = 7;

/* What a nanosecond count since boot is as seconds and nanoseconds. */
translator timestruc_t < uint64_t N > {
	tv_sec = N / 1000000000;
	tv_nsec = N % 1000000000;
};

/* The bits of a task's state that lasted from kernel to kernel: 1 and 2 asleep, 4 and 8 stopped, 0x10 and 0x20 dead, 0x80 dead. */
inline char _task_state[uint_t S] =
    S == 0 ? SRUN : S & 3 ? SSLEEP : S & 0xc ? SSTOP : S & 0xb0 ? SZOMB : S & 0x300 ? SWAIT : SRUN;
inline char _task_sname[uint_t S] =
    S == 0 ? 'R' : S & 3 ? 'S' : S & 0xc ? 'T' : S & 0xb0 ? 'Z' : S & 0x300 ? 'W' : 'R';

translator lwpsinfo_t < struct task_struct *T > {
	/* Bit 21 of a task's flags is a kernel thread's; the idle tasks are the threads with the number 0. */
	pr_flag = (T->__state & 0xc ? PR_STOPPED : 0) | (T->flags & 0x200000 ? PR_ISSYS : 0) | (T->pid == 0 ? PR_IDLE : 0);
	pr_lwpid = T->pid;
	pr_addr = (uintptr_t)T;
	pr_wchan = 0;
	pr_stype = SOBJ_NONE;
	pr_state = _task_state[T->__state];
	pr_sname = _task_sname[T->__state];
	pr_pri = T->prio;
	pr_clname = T->policy == 0 ? "TS" : T->policy == 1 ? "FIFO" : T->policy == 2 ? "RR" : T->policy == 3 ? "BATCH"
	    : T->policy == 5 ? "IDLE" : T->policy == 6 ? "DL" : T->policy == 7 ? "EXT" : "<unknown>";
	pr_name = T->comm;
	pr_start = xlate <timestruc_t> (T->start_time);
	pr_onpro = T->thread_info.cpu;
	pr_onpro = T->cpu;
	pr_bindpset = 0;
};

/* Another process's memory cannot be read where a probe fires: psargs.d, which is read where it is asked for, defines this anew. */
inline string _kept_args[struct task_struct *T] = T->mm == NULL ? stringof(T->comm) : "<unknown>";

translator psinfo_t < struct task_struct *T > {
	pr_nlwp = T->signal->nr_threads;
	pr_pid = T->tgid;
	pr_ppid = T->real_parent->tgid;
	/* The kinds of a process's numbers: thread, process, group, session. */
	pr_pgid = T->signal->pids[2]->numbers[0].nr;
	pr_sid = T->signal->pids[3]->numbers[0].nr;
	pr_uid = T->cred->uid.val;
	pr_euid = T->cred->euid.val;
	pr_gid = T->cred->gid.val;
	pr_egid = T->cred->egid.val;
	pr_addr = (uintptr_t)T;
	pr_ttydev = T->signal->tty != NULL ? T->signal->tty : (struct tty_struct *)-1;
	pr_start = xlate <timestruc_t> (T->group_leader->start_time);
	pr_fname = T->comm;
	/* A kernel thread has none: its name is all. */
	pr_psargs = T->mm != NULL && T->mm == curthread->mm ? _psargs(T->mm->arg_start, T->mm->arg_end)
	    : T->flags & 0x200000 ? stringof(T->comm) : _kept_args[T];
	pr_wstat = T->exit_code;
	/* The first words on a new program's stack: the number of its arguments, the arguments, NULL, the environment. */
	pr_argc = *(userland long *)(T->mm == curthread->mm ? T->mm->start_stack : 0);
	pr_argv = T->mm->start_stack + 8;
	pr_envp = T->mm->start_stack + 16 + 8 * *(userland long *)(T->mm == curthread->mm ? T->mm->start_stack : 0);
	pr_dmodel = PR_MODEL_LP64;
	pr_taskid = 0;
	pr_projid = 0;
	pr_nzomb = 0;
	pr_poolid = 0;
	pr_zoneid = 0;
	pr_contract = 0;
	pr_lwp = xlate <lwpsinfo_t> (T);
};

inline psinfo_t *curpsinfo = xlate <psinfo_t *> (curthread);
inline lwpsinfo_t *curlwpsinfo = xlate <lwpsinfo_t *> (curthread);

inline string cwd = d_path(&curthread->fs->pwd);
inline string root = d_path(&curthread->fs->root);
inline string execargs = curpsinfo->pr_psargs;
