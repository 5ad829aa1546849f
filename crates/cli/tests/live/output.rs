//! What is printed: typed values, memory, floating-point numbers, strings of all lengths.

use crate::tools::{answer, c_program, permitted, run};

/// A program that calls `f` with the address of a struct that has all kinds of members.
const RECORD: &str = r#"
#include <stdint.h>
#include <string.h>
enum colour { RED = 1, GREEN = 2 };
struct record {
  int a; char name[8]; unsigned flag : 3; int field : 5;
  union { uint32_t whole; uint16_t half; } u;
  struct { long x; short list[3]; } in;
  enum colour colour; double d; float f; long double ld; void *p; struct { int deep; };
};
__attribute__((noipa)) void f(struct record *r) { __asm__ volatile("" : : "r"(r) : "memory"); }
int main(void) {
  struct record r;
  memset(&r, 0, sizeof r);
  r.a = -7; strcpy(r.name, "ab\tc"); r.flag = 5; r.field = -3; r.u.whole = 0x10002; r.in.x = 1l << 40;
  r.in.list[1] = -1; r.colour = GREEN; r.d = 0.1; r.f = -1.5f; r.ld = 1e300L; r.p = (void *)0x1234; r.deep = 9;
  f(&r);
}
"#;

const DECLARE: &str = "enum colour { RED = 1, GREEN = 2 };
struct record { int a; char name[8]; unsigned flag : 3; int field : 5; union { uint32_t whole; uint16_t half; } u;
  struct { long x; short list[3]; } in; enum colour colour; double d; float f; long double ld; void *p; struct { int deep; }; };
";

#[test]
fn print_shows_every_member_with_its_type() {
    if !permitted() {
        return;
    }
    let program = c_program("record", RECORD, &["-O1"]);
    let d = format!(
        "{DECLARE} pid$target:record:f:entry {{ this->r = (struct record *)copyin(arg0, sizeof (struct record)); print(this->r); }}"
    );
    let text = answer(&["-qn", &d, "-c", program.to_str().expect("a path")]);
    let (first, rest) = text.split_once('\n').expect("lines");
    assert!(first.starts_with("0x") && first.ends_with(" = *"), "{first}");
    let want = r#"(struct record) {
 .a = (int)-7,
 .name = (char [8])"ab\tc",
 .flag = (unsigned int)5,
 .field = (int)-3,
 .u = (union) {
  .whole = (uint32_t)65538,
  .half = (uint16_t)2,
 },
 .in = (struct) {
  .x = (long)1099511627776,
  .list = (short [3]) [
   (short)-1,
  ],
 },
 .colour = (enum colour)GREEN,
 .d = (double)0.1,
 .f = (float)-1.5,
"#;
    assert!(rest.starts_with(want), "{rest}");
    assert!(rest.contains(" .p = (void *)0x1234,\n (struct) {\n  .deep = (int)9,\n },\n}\n"), "{rest}");
    let json = answer(&["--format", "json", "-qn", &d, "-c", program.to_str().expect("a path")]);
    let want = r#""value":{"a":-7,"name":"ab\tc","flag":5,"field":-3,"u":{"whole":65538,"half":2},"in":{"x":1099511627776,"list":[0,-1,0]},"colour":"GREEN","d":0.1,"f":-1.5,"#;
    assert!(json.contains(want) && json.contains(r#""p":"0x1234","deep":9}"#), "{json}");
}

#[test]
fn floating_point_values_are_exact() {
    if !permitted() {
        return;
    }
    let program = c_program("record", RECORD, &["-O1"]);
    let d = format!(
        "{DECLARE} pid$target:record:f:entry {{ this->r = (struct record *)copyin(arg0, sizeof (struct record));
           this->d = this->r->d; this->f = this->r->f;
           printf(\"%f %.20f %g %e|%d %d %d|\", this->f, this->d, (float)this->d, (double)this->r->a, (int)this->f, this->d < 0.2, this->f == -1.5);
           printf(\"%Lg|%+8.2f|%-8.1f|%08.3f|%G\", this->r->ld, this->d, this->d, this->f, 1e-10); }}"
    );
    let text = answer(&["-qn", &d, "-c", program.to_str().expect("a path")]);
    assert_eq!(
        text,
        "-1.500000 0.10000000000000000555 0.1 -7.000000e+00|-1 1 1|1e+300|   +0.10|0.1     |-001.500|1E-10"
    );
    // What was `5.001` to wrappers that looked for a zero status (FIELD R20) is a comparison now; arithmetic says no.
    assert_eq!(answer(&["-qn", "BEGIN /5 >= 4.999 && !(5 >= 5.001)/ { printf(\"yes\"); exit(0); }"]), "yes");
    let wrong = run(&["-n", "BEGIN { x = 1.5 * 2; }"]);
    assert!(wrong.status != 0 && wrong.err.contains("no floating-point arithmetic"), "{}", wrong.err);
}

#[test]
fn tracemem_shows_memory() {
    if !permitted() {
        return;
    }
    let d = "BEGIN { i = 3; tracemem(&curthread->comm, 16, i); tracemem(&curthread->comm, 8, -1); tracemem(&curthread->comm, 8, 0); exit(0); }";
    let head = "             0  1  2  3  4  5  6  7  8  9  a  b  c  d  e  f  0123456789abcdef\n";
    let want = format!(
        "\n{head}         0: 70 72 6f{}  pro\n\n{head}         0: 70 72 6f 62 69 74 79 00{}  probity.\n",
        " ".repeat(39),
        " ".repeat(24)
    );
    assert_eq!(answer(&["-qn", d]), want);
}

/// Strings that just fit are whole, strings that do not are marked: in every place that shows one.
#[test]
fn strings_are_whole_or_marked() {
    if !permitted() {
        return;
    }
    let source = r#"
#include <stdlib.h>
#include <string.h>
__attribute__((noipa)) void f(const char *s) { __asm__ volatile("" : : "r"(s) : "memory"); }
int main(void) { int n[] = {0, 1, 30, 31, 32, 33, 100};
  for (int i = 0; i < 7; i++) { char *s = malloc(200); memset(s, 'x', n[i]); s[n[i]] = 0; f(s); } }
"#;
    let program = c_program("lengths", source, &["-O1"]);
    let program = program.to_str().expect("a path");
    let d = "#pragma D option strsize=32
        pid$target:lengths:f:entry { this->s = copyinstr(arg0); g = this->s; printf(\"%s|%d|\", this->s, strlen(g)); trace(g);
          printf(\"|%-5s|%.3s\\n\", g, g); a[g] = 1; @[g] = count(); @t[strjoin(g, \"y\")] = count(); }
        END { printa(\"%s %@d\\n\", @); printa(\"%s %@d\\n\", @t); }";
    let text = answer(&["-q", "-x", "aggsortkey", "-n", d, "-c", program]);
    let mut want = String::new();
    for n in [0usize, 1, 30, 31, 32, 33, 100] {
        let whole = "x".repeat(n.min(31));
        // A string of exactly 31 bytes fills the room: nobody can tell that it is whole, so it is marked too.
        let shown = if n >= 31 { format!("{whole}…") } else { whole.clone() };
        want += &format!("{shown}|{}|{shown}|{shown:<5}|{}\n", n.min(31), &whole[..n.min(3)]);
    }
    assert!(text.starts_with(&want), "{text}\n{want}");
    let keys: Vec<&str> = text[want.len()..].lines().collect();
    let x = |n: usize| "x".repeat(n);
    assert_eq!(keys[..4], [" 1".to_string(), "x 1".into(), format!("{} 1", x(30)), format!("{}… 4", x(31))], "{text}");
    let y = |n: usize| format!("{}y", x(n));
    let mut joined =
        vec![format!("{} 1", y(0)), format!("{} 1", y(1)), format!("{}… 1", y(30)), format!("{}… 4", x(31))];
    let mut got: Vec<String> = keys[4..].iter().map(|s| s.to_string()).collect();
    joined.sort();
    got.sort();
    assert_eq!(got, joined, "{text}");
    let json = answer(&["--format", "json", "-n", d, "-c", program]);
    assert!(json.contains(&format!(r#"{{"text":"{}","truncated":true}}"#, x(31))), "{json}");
    assert!(json.contains(&format!(r#""value":"{}""#, x(30))), "{json}");
}

/// A program can use 64 maps; more aggregations than that share some, and each keeps to its own keys.
#[test]
fn many_aggregations_keep_their_own_keys() {
    if !permitted() {
        return;
    }
    let mut d = String::from("BEGIN { ");
    for n in 0..70 {
        d += &format!("@a{n}[1] = sum({n}); @a{n}[{n}] = sum(1000); ");
    }
    d += "clear(@a7); trunc(@a8); exit(0); } END { trunc(@a9); ";
    for n in [6, 7, 8, 9, 10, 69] {
        d += &format!("printf(\"{n}:\"); printa(\" %d=%@d\", @a{n}); printf(\"\\n\"); ");
        d += &format!("clear(@a{n}); ");
    }
    d += "}";
    let text = answer(&["-q", "-x", "aggsortkey", "-n", &d]);
    let want = "6: 1=6 6=1000\n7: 1=0 7=0\n8:\n9:\n10: 1=10 10=1000\n69: 1=69 69=1000\n";
    assert!(text.starts_with(want), "{text}");
}
