provider p { probe go(int a) : (int); };
BEGIN { }
