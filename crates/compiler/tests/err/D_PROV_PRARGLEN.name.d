provider p { probe go(int a) : (int b); };
