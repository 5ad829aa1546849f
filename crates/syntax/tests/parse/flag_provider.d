// test: flag=P
syscall /pid/ { trace(1) } dtrace
