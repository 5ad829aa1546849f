provider pid { probe entry(int a); };
pid123::malloc:entry { trace(args[1]); }
