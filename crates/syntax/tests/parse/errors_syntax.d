BEGIN { trace(1 trace(2); a b; c }
BEGIN { + ; while (1) { x; } y; for (;;) ; else; }
BEGIN { self; this->; a[]; @[]; (a)(b); f(1,; int; x.; }
BEGIN / pid == / { }
BEGIN / pid == 1 { trace(1); }
BEGIN / pid == 1 /
END { x }
BEGIN trace(1);
END { if a; if (b c; int x = 5; if; goto x; offsetof(int); xlate (x); }
a:b:c:d:e { } 0 { } 5-2 { ok }
, { }
foo { ok; }
int int x; struct; unsigned void v; signed unsigned s; short long sl; unsigned float uf; long string ls; short char sc;
static extern int se; int; long long long lll; int for; int a[int, ...]; enum { A B };
inline int x; translator x; provider { }; provider p { foo; }; provider p { probe x(...); };
}
END { ok }
END
