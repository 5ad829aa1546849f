int x; int *p, **q, a[3], b[2][3], *ap[3], (*pa)[3], f(void), g(int, char *x, ...), (*fp)(int);
unsigned long ul; long unsigned int lui; long long ll; unsigned u; short s; signed char sc; unsigned char uc;
long double ld; _Bool flag; string str; const volatile char *const restrict cv;
int assoc[int, string], *m[uint64_t a, struct foo *]; string names[unknown_t x, int];
self int si; this string ts; self x2; self task_t *tt; this struct foo sf;
extern int e; static register_t r;
typedef int myint; typedef struct foo foo_s, *foo_p;
myint mi; foo_p fpv;
struct foo { int a; unsigned b:3, :2, c:5; struct { int x; }; union { int u1; long u2; } u; char n[16]; int (*cb)(void *); };
union un { int i; char c[4]; } unv;
struct foo; struct { int a; } anon;
enum color { RED, GREEN = 2, BLUE = GREEN << 1, };
enum color col; enum { ONE = 1 } one;
vmlinux`size_t vs; struct mod`tag mt; unknown_t unk; unknown_t *unkp;
int*compact;
BEGIN { trace((myint)1); trace(sizeof (foo_s)); }
