BEGIN
{
	a + b * c - d / e % f;
	a << 1 + 2 >> 3 < 4 == 5 & 6 ^ 7 | 8 && 9 ^^ 10 || 11;
	a ? b : c ? d : e;
	a ? b, c : d;
	a = b += c -= d *= e /= f %= g <<= h >>= i &= j ^= k |= l;
	-a + +b - !c + ~d;
	- -a; a - -b; a+++b; a-- - --b; ++a; --a;
	*p; **p; &x; &x->y; *p++; (*p).m; (*p)->q.r[1][2, "k"];
	self->x = this->y; self->a[1, "x"] = 0; this->int; a.struct->union;
	@ = count(); @a = sum(1); @b[pid, execname] = lquantize(arg0, 0, 10, 1);
	f(); f(1, (2, 3)); stringof(arg0); stringof arg0; copyinstr(arg0)[2];
	(int)a; (struct foo *)arg0; (uint32_t)x + 1; (foo *)x; (foo)1; (foo) bar; (a) + 1;
	((struct mod`s *)x)->y; (vmlinux`task_t *)curthread; ((task_t *)a)->b;
	sizeof (int); sizeof a; sizeof (a) + 1; sizeof (struct x *); sizeof (char[4]);
	offsetof(struct foo, bar.baz); offsetof(task_t, pid);
	xlate <psinfo_t>(curthread); xlate <psinfo_t *>(curthread)->pr_pid;
	`sym; vmlinux`sym; pid12`libc`sym; 8021q`sym; &`sym + 1;
	1 ? "a" : "b"; ((((1)))); a, b, c;
	(int (*)(int, char))f; (char *[3])x;
	return(3);
	uregs[R_SP]; args[0]->a.b; a["k"]++; ((a));
}
