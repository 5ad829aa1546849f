provider p { probe go(int); probe go(int); };
