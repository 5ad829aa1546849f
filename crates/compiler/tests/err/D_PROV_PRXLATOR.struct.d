struct s { int x; };
provider p { probe go(int a) : (struct s *a); };
