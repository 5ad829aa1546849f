long struct s { int i; }; unsigned enum e { A }; int a[...];
struct foo`bar { }; struct foo`bar { int x; }; enum foo`e { A }; struct s { }; enum e { };
BEGIN { typedef int t; ok; }
syscall::open:entry,
{ }
END { ok }
