/* Predicates, lists and globs of probes, clauses in program order, the probe's own names. */
BEGIN /0/ { printf("never\n"); }
BEGIN /execname != "" && pid == tid/ { printf("%s:%s:%s:%s\n", probeprov, probemod, probefunc, probename); }
dtrace:::BEGIN, dtrace:::END { printf("%s ", probename); n++; }
dtrace:::[BE][EN]* /n > 0/ { printf("%d\n", n); }
BEGIN { exit(n); }
END { printf("bye\n"); }
