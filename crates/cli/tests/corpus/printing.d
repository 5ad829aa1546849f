/* trace, print and tracemem of values of every type. */
struct inner { short a; char name[6]; };
enum level { LOW, HIGH = 3 };
struct outer { int n; struct inner in[2]; enum level level; unsigned bits:3; };
struct outer o;
BEGIN
{
	o.n = -1; o.in[1].a = 7; o.in[1].name[0] = 'x'; o.level = HIGH; o.bits = 5;
	print(o);
	print(o.n);
	print(o.level);
	trace(o.in[1].a); trace("text"); trace((char)65);
	printf("\n");
	this->m = (char *)alloca(20);
	this->m[0] = 'A'; this->m[19] = 'Z';
	tracemem(this->m, 20);
	tracemem(this->m, 20, 4);
	exit(0);
}
