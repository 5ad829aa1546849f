//! Random typed expressions, written twice: in D and in C. Nothing here is undefined in C as gcc compiles it with `-fwrapv`:
//! shift counts are masked, divisors are not 0 nor -1, side effects stand in statements of their own.

use std::fmt::Write as _;

/// The struct behind the pointer, in both languages. `{P}` is the pointer.
pub const STRUCT: &str = "
enum colour { RED, GREEN = 7, BLUE = -3, LAST };
struct part { short s; char c; };
struct s {
	int i; unsigned int u; long l; unsigned long ul;
	signed char sc; unsigned char uc; short sh; unsigned short us;
	unsigned int b5 : 5; int sb7 : 7; unsigned int b1 : 1; int sb1 : 1; unsigned int b14 : 14;
	unsigned int b32 : 32; int sb31 : 31; unsigned int : 0; short s9 : 9; unsigned char c3 : 3; unsigned long w40 : 40;
	long sw50 : 50;
	int ia[4]; unsigned short usa[4]; unsigned char uca[8]; struct part parts[3];
	union { int ui; unsigned char ub[4]; };
	struct { long in; unsigned short out : 11; };
	char name[8];
};
";

/// Bytes of memory behind the pointer; more than the struct has, for pointers that move.
pub const MEMORY: usize = 256;

/// A type as far as C's conversions ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ty {
    size: u8,
    signed: bool,
}

const INT: Ty = Ty { size: 4, signed: true };
const UINT: Ty = Ty { size: 4, signed: false };
const LONG: Ty = Ty { size: 8, signed: true };
const ULONG: Ty = Ty { size: 8, signed: false };

/// The variables' types.
pub const VARS: &[(&str, Ty)] = &[
    ("_Bool", Ty { size: 1, signed: false }),
    ("signed char", Ty { size: 1, signed: true }),
    ("unsigned char", Ty { size: 1, signed: false }),
    ("char", Ty { size: 1, signed: true }),
    ("short", Ty { size: 2, signed: true }),
    ("unsigned short", Ty { size: 2, signed: false }),
    ("int", INT),
    ("unsigned int", UINT),
    ("long", LONG),
    ("unsigned long", ULONG),
    ("long long", LONG),
    ("unsigned long long", ULONG),
    ("int", INT),
    ("unsigned int", UINT),
    ("enum colour", UINT),
];

/// Members that are read, and what their values promote to.
const MEMBERS: &[(&str, Ty)] = &[
    ("i", INT),
    ("u", UINT),
    ("l", LONG),
    ("ul", ULONG),
    ("sc", INT),
    ("uc", INT),
    ("sh", INT),
    ("us", INT),
    ("b5", INT),
    ("sb7", INT),
    ("b1", INT),
    ("sb1", INT),
    ("b14", INT),
    ("b32", UINT),
    ("sb31", INT),
    ("s9", INT),
    ("c3", INT),
    ("ui", INT),
    ("in", LONG),
    ("out", INT),
    ("ub[2]", INT),
    ("parts[1].s", INT),
    ("parts[2].c", INT),
];

#[derive(Clone, Debug)]
pub struct Expr {
    pub d: String,
    pub c: String,
    ty: Ty,
}

/// What a program does, in order.
#[derive(Clone, Debug)]
pub struct Stmt {
    pub d: String,
    pub c: String,
}

pub struct Rng(u64);

impl Rng {
    pub fn new(seed: u64) -> Rng {
        Rng(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x2545_f491_4f6c_dd1d)
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub fn below(&mut self, n: usize) -> usize {
        (self.next() >> 11) as usize % n
    }
}

fn promoted(ty: Ty) -> Ty {
    if ty.size < 4 { INT } else { ty }
}

fn usual(a: Ty, b: Ty) -> Ty {
    let (a, b) = (promoted(a), promoted(b));
    match a.size.cmp(&b.size) {
        std::cmp::Ordering::Greater => a,
        std::cmp::Ordering::Less => b,
        std::cmp::Ordering::Equal => Ty { size: a.size, signed: a.signed && b.signed },
    }
}

fn same(text: String, ty: Ty) -> Expr {
    Expr { d: text.clone(), c: text, ty }
}

fn two(f: impl Fn(&str, &str) -> String, a: &Expr, b: &Expr, ty: Ty) -> Expr {
    Expr { d: f(&a.d, &b.d), c: f(&a.c, &b.c), ty }
}

fn one(f: impl Fn(&str) -> String, a: &Expr, ty: Ty) -> Expr {
    Expr { d: f(&a.d), c: f(&a.c), ty }
}

impl Rng {
    fn literal(&mut self) -> Expr {
        const EDGES: &[u64] = &[
            0,
            1,
            2,
            3,
            7,
            8,
            31,
            32,
            63,
            127,
            128,
            255,
            256,
            32767,
            32768,
            65535,
            65536,
            0x7fff_ffff,
            0x8000_0000,
            0xffff_ffff,
            0x1_0000_0000,
            0x7fff_ffff_ffff_ffff,
            0x8000_0000_0000_0000,
            u64::MAX,
        ];
        let v = if self.below(3) == 0 { self.next() >> self.below(64) } else { EDGES[self.below(EDGES.len())] };
        let base = self.below(3);
        let suffix = ["", "", "", "u", "l", "ul", "ll", "ull", "U", "LU"][self.below(10)];
        let lower = suffix.to_ascii_lowercase();
        let unsigned = lower.contains('u');
        let long = lower.contains('l');
        // A decimal constant that only an unsigned type holds is one that compilers disagree about.
        let (base, unsigned) = if base == 0 && v >> 63 == 1 { (1, unsigned) } else { (base, unsigned) };
        let text = match base {
            0 => format!("{v}{suffix}"),
            1 => format!("0x{v:x}{suffix}"),
            _ => format!("0{v:o}{suffix}"),
        };
        let ty = match (long, unsigned) {
            (false, false) if v < 1 << 31 => INT,
            (false, false) if v < 1 << 32 && base != 0 => UINT,
            (false, true) if v < 1 << 32 => UINT,
            (_, false) if v < 1 << 63 => LONG,
            _ => ULONG,
        };
        same(text, ty)
    }

    fn character(&mut self) -> Expr {
        const CHARS: &[&str] = &[
            "'a'", "'Z'", "'0'", "'\\n'", "'\\0'", "'\\x41'", "'\\101'", "'\\377'", "'\\\\'", "'ab'", "'abc'", "'abcd'",
        ];
        same(CHARS[self.below(CHARS.len())].into(), INT)
    }

    fn leaf(&mut self) -> Expr {
        match self.below(10) {
            0..4 => {
                let i = self.below(VARS.len());
                same(format!("v{i}"), VARS[i].1)
            }
            4 | 5 => self.literal(),
            6 => match self.below(4) {
                0 => self.character(),
                1 => same(["RED", "GREEN", "BLUE", "LAST"][self.below(4)].into(), INT),
                2 => {
                    let i = self.below(VARS.len());
                    same(format!("sizeof (v{i})"), ULONG)
                }
                _ => {
                    let what = [
                        "struct s",
                        "struct part",
                        "int",
                        "short",
                        "enum colour",
                        "char *",
                        "struct part [3]",
                        "_Bool",
                    ];
                    same(format!("sizeof ({})", what[self.below(what.len())]), ULONG)
                }
            },
            _ => {
                let (name, ty) = MEMBERS[self.below(MEMBERS.len())];
                same(format!("{{P}}->{name}"), ty)
            }
        }
    }

    fn small(&mut self, mask: u32, depth: u32) -> Expr {
        let e = self.expr(depth);
        one(|e| format!("(int)(({e}) & {mask})"), &e, INT)
    }

    /// Through pointers: differences, comparisons, elements.
    fn pointer(&mut self, depth: u32) -> Expr {
        let (a, b) = (self.small(3, depth), self.small(3, depth));
        match self.below(11) {
            0 => two(|a, b| format!("(({{P}} + {a}) - ({{P}} + {b}))"), &a, &b, LONG),
            1 => two(|a, b| format!("((long)({{P}} + {a}) - (long)({{P}} - {b}))"), &a, &b, LONG),
            2 => {
                let op = ["<", "<=", ">", ">=", "==", "!="][self.below(6)];
                two(|a, b| format!("({{P}} + {a} {op} {{P}} + {b})"), &a, &b, INT)
            }
            3 => one(|a| format!("{{P}}->ia[{a}]"), &a, INT),
            4 => one(|a| format!("*({{P}}->usa + {a})"), &a, INT),
            5 => one(|a| format!("{{P}}->uca[{a} + 4]"), &a, INT),
            6 => same("*(int *)((char *){P} + 8)".into(), INT),
            7 => one(|a| format!("(&{{P}}->ia[{a}] - {{P}}->ia)"), &a, LONG),
            8 => two(|a, b| format!("({{P}} ? {a} : {b})"), &a, &b, INT),
            9 => one(|a| format!("(!{{P}} || ({{P}} && {a}))"), &a, INT),
            _ => two(|a, b| format!("((unsigned char *)&{{P}}->u)[({a}) & ({b})]"), &a, &b, INT),
        }
    }

    fn string(&mut self) -> Expr {
        const TEXTS: &[&str] = &["", "a", "ab", "abc", "abd", "b", "~", "A", "a\\tb", "\\xff", "name"];
        let mut text = || -> (String, String) {
            match self.below(4) {
                0 => ("stringof ({P}->name)".into(), "cut(p->name)".into()),
                _ => {
                    let t = format!("\"{}\"", TEXTS[self.below(TEXTS.len())]);
                    (t.clone(), t)
                }
            }
        };
        let ((d1, c1), (d2, c2)) = (text(), text());
        if self.below(3) == 0 {
            return Expr { d: format!("strlen({d1})"), c: format!("strlen({c1})"), ty: ULONG };
        }
        let op = ["<", "<=", ">", ">=", "==", "!="][self.below(6)];
        Expr { d: format!("({d1} {op} {d2})"), c: format!("(strcmp({c1}, {c2}) {op} 0)"), ty: INT }
    }

    pub fn expr(&mut self, depth: u32) -> Expr {
        if depth == 0 {
            return self.leaf();
        }
        match self.below(26) {
            0 | 1 => {
                let e = self.expr(depth - 1);
                let op = ["-", "~", "+"][self.below(3)];
                one(|e| format!("{op}({e})"), &e, promoted(e.ty))
            }
            2 => {
                let e = self.expr(depth - 1);
                one(|e| format!("!({e})"), &e, INT)
            }
            3 | 4 => {
                let e = self.expr(depth - 1);
                let (name, ty) = VARS[self.below(VARS.len() - 1)];
                one(|e| format!("({name})({e})"), &e, ty)
            }
            5..8 => {
                let (a, b) = (self.expr(depth - 1), self.expr(depth - 1));
                let op = ["<", "<=", ">", ">=", "==", "!="][self.below(6)];
                two(|a, b| format!("({a} {op} {b})"), &a, &b, INT)
            }
            8 | 9 => {
                let a = self.expr(depth - 1);
                let b = self.expr(depth - 1);
                let op = ["/", "%"][self.below(2)];
                // Never 0, and never -1 in a signed type.
                let by = if self.below(2) == 0 {
                    one(|b| format!("((({b}) & 0xff) + 1)"), &b, promoted(b.ty))
                } else {
                    one(|b| format!("((({b}) & 0xff) - 300)"), &b, promoted(b.ty))
                };
                two(|a, b| format!("(({a}) {op} {b})"), &a, &by, usual(a.ty, by.ty))
            }
            10 | 11 => {
                let (a, b) = (self.expr(depth - 1), self.expr(depth - 1));
                let op = ["<<", ">>"][self.below(2)];
                let ty = promoted(a.ty);
                let mask = u32::from(ty.size) * 8 - 1;
                two(|a, b| format!("(({a}) {op} (({b}) & {mask}))"), &a, &b, ty)
            }
            12 => {
                let (c, a, b) = (self.expr(depth - 1), self.expr(depth - 1), self.expr(depth - 1));
                let ty = usual(a.ty, b.ty);
                Expr {
                    d: format!("(({}) ? {} : {})", c.d, a.d, b.d),
                    c: format!("(({}) ? {} : {})", c.c, a.c, b.c),
                    ty,
                }
            }
            13 => {
                let (a, b) = (self.expr(depth - 1), self.expr(depth - 1));
                let op = ["&&", "||"][self.below(2)];
                two(|a, b| format!("({a} {op} {b})"), &a, &b, INT)
            }
            14 => {
                let (a, b) = (self.expr(depth - 1), self.expr(depth - 1));
                // A comma's value is promoted in D's tables as it is in C's.
                two(|a, b| format!("({a}, {b})"), &a, &b, b.ty)
            }
            15 | 16 => self.pointer(depth - 1),
            17 => self.string(),
            18 => {
                let wide = [("w40", ULONG), ("sw50", LONG)][self.below(2)];
                // gcc computes in 40 bits with the member itself.
                let name = if wide.1.signed { "long" } else { "unsigned long" };
                same(format!("({name}){{P}}->{}", wide.0), wide.1)
            }
            _ => {
                let (a, b) = (self.expr(depth - 1), self.expr(depth - 1));
                let op = ["+", "-", "*", "&", "|", "^"][self.below(6)];
                two(|a, b| format!("({a} {op} {b})"), &a, &b, usual(a.ty, b.ty))
            }
        }
    }

    /// Statements; `results` of them keep a value in `r0`, `r1`, ….
    pub fn program(&mut self, results: usize) -> Vec<Stmt> {
        let mut out = Vec::new();
        let mut push = |d: String, c: String| out.push(Stmt { d, c });
        for (i, (name, _)) in VARS.iter().enumerate() {
            let v = self.literal();
            let (text, cast) = (v.d, if *name == "enum colour" { "(enum colour)" } else { "" });
            push(format!("v{i} = {cast}({text})"), format!("v{i} = {cast}({text})"));
        }
        let mut next = 0;
        while next < results {
            // Enumerations and _Bool have their own rules for `op=`.
            let i = 1 + self.below(VARS.len() - 2);
            let depth = 1 + self.below(4) as u32;
            match self.below(8) {
                0 => {
                    let e = self.expr(depth);
                    let op = ["=", "+=", "-=", "*=", "&=", "|=", "^="][self.below(7)];
                    push(format!("v{i} {op} {}", e.d), format!("v{i} {op} {}", e.c));
                }
                1 => {
                    let step = ["++v#", "--v#", "v#++", "v#--"][self.below(4)].replace('#', &i.to_string());
                    push(format!("r{next} = {step}"), format!("r{next} = {step}"));
                    next += 1;
                }
                2 => {
                    push(format!("r{next} = v{i}"), format!("r{next} = v{i}"));
                    next += 1;
                }
                3 => {
                    let e = self.expr(depth);
                    push(format!("v0 = {}", e.d), format!("v0 = {}", e.c));
                }
                _ => {
                    let e = self.expr(depth);
                    push(format!("r{next} = (long long)({})", e.d), format!("r{next} = (long long)({})", e.c));
                    next += 1;
                }
            }
        }
        out
    }
}

/// The D program.
pub fn d_text(stmts: &[Stmt], results: usize) -> String {
    let mut out = STRUCT.to_string();
    for (i, (name, _)) in VARS.iter().enumerate() {
        let _ = writeln!(out, "{name} v{i};");
    }
    out.extend((0..results).map(|i| format!("long long r{i};\n")));
    out += "tick-1s\n{\n";
    for s in stmts {
        let _ = writeln!(out, "\t{};", s.d.replace("{P}", "((struct s *)arg0)"));
    }
    out + "}\n"
}

/// The C function that does the same and prints the results, one a line.
pub fn c_function(number: usize, stmts: &[Stmt], results: usize, memory: &[u8]) -> String {
    let mut out = String::new();
    let bytes: Vec<String> = memory.iter().map(u8::to_string).collect();
    let _ = writeln!(
        out,
        "static void f{number}(void) {{\n static unsigned char m[] __attribute__((aligned(16))) = {{{}}};",
        bytes.join(",")
    );
    let _ = writeln!(out, " struct s *p = (struct s *)m;");
    for (i, (name, _)) in VARS.iter().enumerate() {
        let _ = writeln!(out, " {name} v{i};");
    }
    out.extend((0..results).map(|i| format!(" long long r{i};\n")));
    for s in stmts {
        let _ = writeln!(out, " {};", s.c.replace("{P}", "p"));
    }
    for i in 0..results {
        let _ = writeln!(out, " printf(\"%lld\\n\", r{i});");
    }
    out + "}\n"
}
