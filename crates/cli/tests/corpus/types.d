/* Declarations as in C: structs, unions, enums, typedefs, anonymous members, bit-fields, arrays of arrays, function pointers. */
struct point { int x; int y; };
typedef struct point point_t;
enum colour { RED, GREEN = 5, BLUE, };
union word { uint32_t whole; uint16_t halves[2]; uint8_t bytes[4]; };
struct packed { unsigned int low:3; int mid:5; unsigned long long high:40; };
struct holder {
	char name[8];
	union { int number; char letter; };
	struct { short a, b; } inner;
	int grid[2][3];
	int (*call)(int, char *);
	struct holder *next;
	_Bool yes;
};
point_t origin;
struct holder held;
union word w;
struct packed p;

BEGIN
{
	printf("%d %d %d\n", RED, GREEN, BLUE);
	printf("%d %d %d %d\n", sizeof (point_t), sizeof (struct holder), sizeof (union word), sizeof (struct packed));
	printf("%d %d %d\n", offsetof(struct holder, inner), offsetof(struct holder, grid), offsetof(struct holder, next));
	origin.x = -3;
	origin.y = origin.x * 2;
	printf("%d %d\n", origin.x, origin.y);
	held.number = 0x141;
	held.inner.b = 77777;
	held.grid[1][2] = 9;
	held.grid[0][0] = held.grid[1][2] + 1;
	held.yes = 256;
	printf("%c %d %d %d %d\n", held.letter, held.inner.b, held.grid[1][2], held.grid[0][0], held.yes);
	w.whole = 0x04030201;
	printf("%x %x %x\n", w.halves[1], w.bytes[0], w.bytes[3]);
	p.low = 9;
	p.mid = -16;
	p.high = 0x123456789abc;
	printf("%d %d %x\n", p.low, p.mid, p.high);
	p.mid++;
	printf("%d %d %x\n", p.low, p.mid, p.high);
	exit(0);
}
