/* inline with and without parameters, translators, xlate. */
struct from { int raw; char tag[4]; };
typedef struct to { int twice; string name; int raw; } to_t;
translator to_t < struct from *F > {
	twice = F->raw * 2;
	name = stringof(F->tag);
	raw = F->raw;
};
struct from f[2];
inline int LIMIT = 3 * 4;
inline string GREETING = "hi";
inline int square[int a] = a * a;
inline string pick[int n, string a, string b] = n ? a : b;

BEGIN
{
	printf("%d %s %d %s\n", LIMIT, GREETING, square[LIMIT], pick[0, "a", "b"]);
	f[1].raw = 21; f[1].tag[0] = 'o'; f[1].tag[1] = 'k';
	printf("%d %s\n", xlate <to_t> (&f[1]).twice, xlate <to_t *> (&f[1])->name);
	this->t = xlate <to_t *> (&f[1]);
	printf("%d\n", this->t->raw);
	exit(0);
}
