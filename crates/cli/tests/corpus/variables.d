/* Variables of every type and scope: by value, assigned whole, as elements, deleted by 0. */
struct pair { int a; string s; };
struct pt { int x, y; };
struct pt g;
this struct pt t;
self struct pt v;
int list[4];
this int scratch[3];
self int mine[2];
struct pt table[int, string];
int64_t byte_of[char];

BEGIN
{
	g.x = 1; g.y = 2;
	this->t = g;
	this->t.x += 10;
	self->v = this->t;
	self->v.y *= 3;
	printf("%d,%d %d,%d %d,%d\n", g.x, g.y, this->t.x, this->t.y, self->v.x, self->v.y);
	list[0] = 4; list[3] = list[0]++ + 1;
	printf("%d %d %d\n", list[0], list[1], list[3]);
	i = 2;
	this->scratch[i] = 7;
	self->mine[i - 1] = this->scratch[2] << 1;
	printf("%d %d\n", this->scratch[i], self->mine[1]);
	table[1, "a"] = g;
	table[1, "b"].y = 5;
	printf("%d %d %d\n", table[1, "a"].y, table[1, "b"].x, table[1, "b"].y);
	table[1, "a"] = 0;
	printf("%d\n", table[1, "a"].y);
	byte_of['x'] = 120;
	printf("%d %d\n", byte_of['x'], byte_of['y']);
	self->n["k"]++;
	self->n["k"] += 2;
	printf("%d\n", self->n["k"]);
	self->n["k"] = 0;
	printf("%d\n", self->n["k"]);
}

BEGIN
{
	/* this-> lives across the clauses of one firing, self-> with the thread */
	printf("%d %d\n", this->t.x, self->v.y);
	exit(0);
}
