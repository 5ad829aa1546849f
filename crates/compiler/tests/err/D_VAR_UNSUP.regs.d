BEGIN { trace(regs[0]); }
