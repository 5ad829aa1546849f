BEGIN
{
	if (a) b;
	if (a) { b; c } else d;
	if (a) b; else if (c) { d } else { e }
	if (a) ; else ;
	this int x, *y; this uint64_t z; self string s;
	this->x = 1;
	int local;
	struct s *p;
	uint32_t v; task_t *t;
	{ nested; { } }
	if (a / b / c) { d / e }
}
