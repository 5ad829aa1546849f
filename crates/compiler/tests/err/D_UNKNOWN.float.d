sdt:::sched_switch { trace(args[2]); }
