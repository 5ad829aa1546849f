BEGIN { trace(*curthread ? 1 : 2); }
