#!/usr/sbin/dtrace -s
/* One of each way to name probes. */
#pragma D option quiet
#pragma D option bufsize=10m /* ten */

BEGIN {}
END, ERROR { }
tick-1s,profile-4999hz { trace(1) }
syscall::read*:entry,
syscall::[!r]?ead:return
/pid == 1234 && execname == "a/b"/
{
	@[execname] = count();
}
syscall::read:/pid/{}
uprobe:/usr/lib/*/libc.so.6:malloc:entry /arg0 / 2 > 4/ { trace(arg0) }
uprobe:/bin/x:main:entry/arg0/{}
sdt:sched::sched_switch{}
123 {}
1-5 /1/ {;;}
int* { }
fbt::foo.isra.0:entry { }
a\:b:c[x,y]:d:e /* here */ { } // there
BEGIN /* no predicate */ /* really */ { }
BEGIN
/ (1 / 2) / /* closes */
{ }
:::BEGIN { } ;
proc::: { }
