provider p1 { probe go(int); };
