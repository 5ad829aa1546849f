/* Elements and thread-local variables that are set to 0 are gone; strings and structs too. */
struct pt { int x, y; };
struct pt points[int];
string names[int, int];
BEGIN
{
	names[1, 2] = "one"; names[2, 1] = "two";
	names[1, 2] = 0;
	printf("<%s> <%s>\n", names[1, 2], names[2, 1]);
	points[4].x = 4; points[5].x = 5;
	points[4] = 0;
	printf("%d %d\n", points[4].x, points[5].x);
	self->s = "text"; self->s = 0;
	printf("<%s>\n", self->s);
	count[3]++; count[3]--; count[3]--;
	printf("%d\n", count[3]);
	exit(0);
}
