BEGIN { trace(uregs[pid]); }
