// test: args=12,-7,name,a~b,"q~q",libc target=77
BEGIN, pid$target:$$6:malloc:entry, $3:::, tick-$1s
/pid == $target && $$1 == "12"/
{
	trace($1); trace($2 - 1); $3 = $$3; trace($4); trace($5); trace($$0);
	trace($pid); trace($$pid); pid$target`libc`sym; $1;
}
