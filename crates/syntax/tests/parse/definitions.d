inline int VERSION = 3;
inline string names[int n, string s] = n == 0 ? "zero" : s;
inline struct foo *fooof[uintptr_t p] = (struct foo *)p;
translator psinfo_t < struct task_struct *T > {
	pr_pid = T->pid;
	pr_fname = stringof(T->comm);
};
translator foo < int i > { };
provider myprov {
	probe start(int a, char *);
	probe done__it(struct foo *f) : (bufinfo_t *b, int);
	probe return();
	probe none(void);
};
provider empty { };
#pragma D attributes Evolving/Evolving/ISA provider myprov provider
#pragma D attributes Stable/Stable/Common VERSION
#pragma D binding "1.0" VERSION
#pragma D depends_on library procfs.d
#pragma D option cppargs="-D x=1"
# 12 "other.d"
#line 3
#ident "x"
#pragma ident	"%Z%"
#pragma weak foo
#
BEGIN { }
