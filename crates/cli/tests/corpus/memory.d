/* alloca, bcopy, pointers into memory of the program's own, addresses of variables, strings as arrays. */
struct pt { int x, y; };
struct pt g[2];
char text[8];

BEGIN
{
	this->p = (struct pt *)alloca(2 * sizeof (struct pt));
	this->p->x = 5;
	this->p[1].y = this->p->x + 1;
	*(int *)this->p += 1;
	printf("%d %d %d\n", this->p[0].x, this->p[1].x, this->p[1].y);
	g[1].y = 40;
	bcopy(&g[1], this->p, sizeof (struct pt));
	printf("%d %d\n", this->p->x, this->p->y);
	this->q = &g[1];
	printf("%d %d\n", this->q->y, (&g[1])->y + 2);
	s = "hello";
	printf("%c %c %d %d\n", s[0], s[4], s[5], strlen(s));
	text[0] = 'h'; text[1] = 'i';
	printf("%s %d\n", text, strlen(text));
	printf("%d\n", (uintptr_t)(this->p + 1) - (uintptr_t)this->p);
	exit(0);
}
