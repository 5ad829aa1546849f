//! Types of the traced program, from its debugging information: typed arguments, results, members, names (field reports R01 to R04,
//! R34, R72); and the derived providers proc, sched, rawtp and cpc.

use crate::tools::{answer, c_program, permitted, run};
use std::path::Path;
use std::process::Command;

const TYPED: &str = r#"
#include <stdint.h>
enum colour { RED, GREEN = 5, BLUE };
struct inner { short s; char name[8]; };
struct list { struct list *next; unsigned a : 3; int b : 5; struct inner in; enum colour col; };
struct big { long a[4]; };
#define KEPT __attribute__((noinline, noipa))
KEPT int narrow(int a, int8_t b, unsigned char c) { __asm__ volatile(""); return a + b + c; }
KEPT int floats(double d, int x, float y, const char *s) { __asm__ volatile(""); return x + s[0]; }
KEPT int many(int a, int b, int c, int d, int e, int f, int g, short h) { __asm__ volatile(""); return g + h; }
KEPT int list(struct list *l) { __asm__ volatile(""); return l->b; }
KEPT long by_value(struct big b, int z) { __asm__ volatile(""); return b.a[3] + z; }
KEPT int six(int a, int b, int c, int d, int e, int f) { __asm__ volatile(""); return f; }
KEPT int three(char a, char b, char c) { __asm__ volatile(""); return c; }
int main(void) {
  struct list m = { 0, 5, -7, { 3, "hello" }, GREEN }, l = { &m, 1, -2, { -9, "world" }, BLUE };
  struct big b = { { 1, 2, 3, -4 } };
  narrow(-5, -1, 200); floats(1.5, 42, 2.5f, "str"); many(1, 2, 3, 4, 5, 6, -7, -8); list(&l); by_value(b, 11);
  six(1, 2, 3, 4, 5, 6); three(-1, 2, 3);
  return 0; }
"#;

const LEVELS: [&[&str]; 2] = [&["-g", "-O0"], &["-g", "-O2"]];

fn typed(level: usize) -> String {
    c_program(&format!("typed{level}"), TYPED, LEVELS[level]).display().to_string()
}

#[test]
fn arguments_have_their_declared_types() {
    if !permitted() {
        return;
    }
    for (level, flags) in LEVELS.iter().enumerate() {
        let program = typed(level);
        let d = r#"pid$target:a.out:narrow:entry { printf("%d %d %d %d %d %d\n", arg0, arg1, arg2, args[0], args[1], args[2]); }
            pid$target:a.out:narrow:return { printf("returns %d %d\n", arg1, args[1]); }
            pid$target:a.out:floats:entry { printf("x %d %d s %s\n", arg1, args[1], copyinstr(arg3)); }
            pid$target:a.out:many:entry { printf("7 %d 8 %d %d\n", args[6], args[7], arg7); }
            pid$target:a.out:by_value:entry { printf("big %d %d\n", args[0].a[3], args[1]); }"#;
        let out = answer(&["-qn", d, "-c", &program]);
        let expected = "-5 -1 200 -5 -1 200\nreturns 194 194\nx 42 42 s str\n7 -7 8 -8 -8\nbig -4 11\n";
        assert_eq!(out.trim_end_matches('\n').to_owned() + "\n", expected, "{flags:?}");
    }
}

#[test]
fn members_of_the_programs_structs() {
    if !permitted() {
        return;
    }
    for (level, flags) in LEVELS.iter().enumerate() {
        let program = typed(level);
        let d = r#"pid$target:a.out:list:entry {
              printf("%d %d %d %s %s %d\n", args[0]->a, args[0]->b, args[0]->in.s, args[0]->in.name, args[0]->next->in.name, args[0]->col);
              this->l = (struct pid`list *)arg0;
              printf("%d %d %d\n", this->l->next->b, sizeof (struct pid$target`list), offsetof(struct pid`list, in)); }"#;
        let out = answer(&["-qn", d, "-c", &program]);
        assert_eq!(out.trim_end(), "1 -2 -9 world hello 6\n-7 24 10", "{flags:?}");
    }
}

#[test]
fn what_is_not_readable_says_why() {
    if !permitted() {
        return;
    }
    let program = typed(0);
    for (d, part) in [
        ("pid$target:a.out:floats:entry { trace(arg0); }", "d is floating-point"),
        ("pid$target:a.out:floats:entry { trace(args[2]); }", "y is floating-point"),
        ("pid$target:a.out:three:entry { trace(args[3]); }", "three:entry has 3 typed arguments"),
        ("pid$target:a.out:three:entry { trace(((struct pid`nonesuch *)arg0)->x); }", "does not define it"),
    ] {
        let run = run(&["-qn", d, "-c", &program]);
        assert!(run.status != 0 && run.err.contains(part), "{d}: {}", run.err);
    }
}

#[test]
fn each_function_of_a_clause_has_its_own_types() {
    if !permitted() {
        return;
    }
    let program = typed(0);
    let both = "pid$target:a.out:six:entry, pid$target:a.out:three:entry";
    let out = answer(&[
        "-qn",
        &format!("{both} {{ printf(\"%s %d %d\\n\", probefunc, args[0], sizeof (args[0])); }}"),
        "-c",
        &program,
    ]);
    assert_eq!(out.trim_end(), "six 1 4\nthree -1 1");
    let run = run(&["-qn", &format!("{both} {{ trace(args[4]); }}"), "-c", &program]);
    assert!(run.err.contains("three:entry has 3 typed arguments"), "{}", run.err);
}

#[test]
fn debugging_information_in_a_file_of_its_own() {
    if !permitted() {
        return;
    }
    let program = c_program("split", TYPED, &["-g", "-O0"]);
    let tool = |args: &[&str]| Command::new("objcopy").args(args).current_dir(program.parent().unwrap()).status();
    if !tool(&["--only-keep-debug", "split", "split.debug"]).is_ok_and(|status| status.success()) {
        eprintln!("skipped: no objcopy");
        return;
    }
    let strip = ["--strip-debug", "--add-gnu-debuglink=split.debug", "split"];
    assert!(tool(&strip).unwrap().success());
    let d = "pid$target:a.out:narrow:entry { printf(\"%d %d\\n\", args[0], args[1]); }";
    let path = program.display().to_string();
    assert_eq!(answer(&["-qn", d, "-c", &path]).trim_end(), "-5 -1");
    // Of another build, it is not believed.
    let debug = program.with_file_name("split.debug");
    let mut bytes = std::fs::read(&debug).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    std::fs::write(&debug, bytes).unwrap();
    assert!(run(&["-qn", d, "-c", &path]).status != 0);
}

#[test]
fn a_uprobe_has_types_too() {
    if !permitted() {
        return;
    }
    let program = typed(1);
    let d = format!(
        "uprobe:{program}:list:entry {{ printf(\"%d %d\\n\", args[0]->b, ((struct pid`list *)arg0)->next->b); }}"
    );
    assert_eq!(answer(&["-qn", &d, "-c", &program]).trim_end(), "-2 -7");
}

fn has(path: &str) -> bool {
    Path::new(path).exists()
}

#[test]
fn the_life_of_a_process() {
    if !permitted() || !has("/sys/kernel/btf/vmlinux") {
        return;
    }
    let d = r#"proc:::create /pid == $target/ { printf("create %d\n", ((struct task_struct *)arg0)->tgid != pid); child = ((struct task_struct *)arg0)->tgid; }
        proc:::start /pid == child/ { printf("start\n"); }
        proc:::exec /pid == child/ { printf("exec %s\n", args[0]); }
        proc:::exec-failure /pid == child/ { printf("failure %d\n", args[0]); }
        proc:::exec-success /pid == child/ { printf("success %s\n", execname); }
        proc:::exit /pid == child/ { printf("exit %d\n", args[0]); }"#;
    let out = answer(&["-qn", d, "-c", "env -i PATH=/nonesuch:/usr/bin:/bin sh -c 'env true; :'"]);
    let lines: Vec<&str> = out.lines().filter(|line| !line.is_empty()).collect();
    let own = |line: &&str| ["create", "start"].iter().any(|word| line.starts_with(word));
    let own: Vec<&str> = lines.iter().copied().filter(own).collect();
    assert_eq!(own[..2], ["create 1", "start"], "{out}");
    assert!(lines.contains(&"exec /nonesuch/true") && lines.contains(&"failure -2"), "{out}");
    assert!(lines.contains(&"success true") && lines.contains(&"exit 1"), "{out}");
}

#[test]
fn signals_are_sent_discarded_and_handled() {
    if !permitted() || !has("/sys/kernel/btf/vmlinux") {
        return;
    }
    let d = r#"proc:::signal-send /pid == $target && ((struct task_struct *)arg0)->tgid == $target/ { printf("send %d\n", args[2]); }
        proc:::signal-discard /pid == $target/ { printf("discard %d\n", args[2]); }
        proc:::signal-handle /pid == $target/ { printf("handle %d\n", args[0]); }"#;
    // The shell ends by a signal, which is the status.
    let command = "sh -c 'trap : USR1; trap \"\" HUP; kill -USR1 $$; kill -HUP $$; kill -TERM $$'";
    let out = run(&["-qn", d, "-c", command]).out;
    let lines: Vec<&str> = out.lines().filter(|line| !line.is_empty()).collect();
    assert_eq!(lines[..3], ["send 10", "handle 10", "discard 1"], "{out}");
    assert!(lines.contains(&"send 15") && lines.contains(&"handle 15"), "{out}");
}

#[test]
fn the_scheduler_and_raw_tracepoints() {
    if !permitted() || !has("/sys/kernel/btf/vmlinux") {
        return;
    }
    let d = "sched:::wakeup /((struct task_struct *)arg0)->tgid == $target/ { @w = count(); }
        sched:::sleep /pid == $target/ { @s = count(); }
        sched:::surrender /pid == $target/ { @y = count(); }
        sched:::change-pri /args[2] != arg1 || args[1]->pr_pid < 0/ { trace(args[2]); }
        rawtp:::sched_wakeup /args[0]->tgid == $target/ { @r = count(); }
        END { printa(\"%@d %@d %@d\\n\", @w, @s, @r); }";
    let out = answer(&["-qn", d, "-c", "sleep 0.1"]);
    let counts: Vec<u64> = out.split_ascii_whitespace().map(|word| word.parse().unwrap()).collect();
    assert!(counts[0] >= 1 && counts[1] >= 1 && counts[0] == counts[2], "{out}");
}

#[test]
fn counters_of_events() {
    if !permitted() {
        return;
    }
    let out = answer(&["-qn", "cpc:::page_faults-user-1 /pid == $target/ { @ = count(); }", "-c", "true"]);
    assert!(out.trim().parse::<u64>().unwrap() > 0, "{out}");
    let run = run(&["-n", "cpc:::cpu_clock-all-100 {}"]);
    assert!(run.status != 0 && run.err.contains("too often"), "{}", run.err);
}

/// Notes as `sys/sdt.h` writes them, so that it need not be installed: two places of one probe, and one that asks its semaphore.
const NOTES: &str = r#"
#define NOTE(name, sem, args, ...) __asm__ volatile( \
  "990: nop\n.pushsection .note.stapsdt,\"?\",\"note\"\n.balign 4\n.4byte 992f-991f,994f-993f,3\n" \
  "991: .asciz \"stapsdt\"\n992: .balign 4\n993: .8byte 990b\n.8byte _.stapsdt.base\n.8byte " sem "\n" \
  ".asciz \"shop\"\n.asciz \"" name "\"\n.asciz \"" args "\"\n994: .balign 4\n.popsection\n" \
  ".ifndef _.stapsdt.base\n.pushsection .stapsdt.base,\"aG\",\"progbits\",.stapsdt.base,comdat\n.weak _.stapsdt.base\n" \
  ".hidden _.stapsdt.base\n_.stapsdt.base: .space 1\n.size _.stapsdt.base,1\n.popsection\n.endif\n" :: __VA_ARGS__)
unsigned short counter;
__attribute__((noinline)) void sell(int price, const char *what) {
  NOTE("sold__item", "0", "-4@%0 8@%1", "r"(price), "r"(what));
  NOTE("sold__item", "0", "-4@$7 8@%0", "r"(what));
  if (counter) NOTE("asked", "counter", "-4@%0", "r"(price)); }
int main(void) { for (int i = 0; i < 3; i++) sell(-i, "tea"); return counter; }
"#;

#[test]
fn probes_that_programs_declare() {
    if !permitted() {
        return;
    }
    let program = c_program("notes", NOTES, &["-O1"]).display().to_string();
    let d = "shop$target:::sold-item { printf(\"%s %s %d %s\\n\", probefunc, probename, arg0, copyinstr(arg1)); }
        shop$target:::asked { @ = sum(arg0); } END { printa(\"asked %@d\\n\", @); }";
    // Its status is the counter.
    let out = run(&["-qn", d, "-c", &program]).out;
    let mut expected = String::new();
    for price in [0, -1, -2] {
        expected += &format!("sell sold-item {price} tea\nsell sold-item 7 tea\n");
    }
    assert_eq!(out.trim(), format!("{expected}asked -3"), "{out}");
    // Nobody asks: the counter is 0 again, and was 0 before.
    assert!(std::process::Command::new(&program).status().unwrap().success());
}

#[test]
fn an_instruction_asked_for_by_itself_must_be_probeable() {
    if !permitted() {
        return;
    }
    const SOURCE: &str = "__attribute__((noinline)) void stops(int x) { if (x) __asm__ volatile(\"hlt\"); }
        int main(int argc, char **argv) { stops(argc > 9); return 0; }";
    let program = c_program("stops", SOURCE, &["-O1", "-fcf-protection=none"]).display().to_string();
    let all = "pid$target:a.out::";
    let out = answer(&["-qn", &format!("{all} {{ @ = count(); }} END {{ printa(\"%@d\\n\", @); }}"), "-c", &program]);
    assert!(out.trim().parse::<u64>().unwrap() > 5, "{out}");
    // test %edi,%edi; jne; ret; hlt
    let listed = answer(&["-ln", "pid$target:a.out:stops:", "-c", &program]);
    let offsets: Vec<&str> = listed.lines().filter_map(|line| line.split_ascii_whitespace().last()).collect();
    let refused: Vec<&&str> = offsets
        .iter()
        .filter(|offset| u64::from_str_radix(offset, 16).is_ok())
        .filter(|offset| {
            run(&["-qn", &format!("{all}, pid$target:a.out:stops:{offset} {{}}"), "-c", &program]).status != 0
        })
        .collect();
    assert_eq!(refused.len(), 1, "{listed}");
}

#[test]
fn a_process_that_has_ended_is_not_grabbed() {
    if !permitted() {
        return;
    }
    let mut child = std::process::Command::new("true").spawn().unwrap();
    // Until it is waited for, it is a zombie.
    let stat = format!("/proc/{}/stat", child.id());
    while !std::fs::read_to_string(&stat).unwrap().contains(") Z ") {
        std::thread::yield_now();
    }
    let run = run(&["-n", "BEGIN { exit(0); }", "-p", &child.id().to_string()]);
    assert!(run.status != 0 && run.err.contains("has ended"), "{}", run.err);
    child.wait().unwrap();
}

#[test]
fn long_doubles_are_kept_and_printed() {
    if !permitted() {
        return;
    }
    let source =
        "struct s { int a; long double b; } g = { 7, 2.5L }; __attribute__((noinline)) void f(struct s *p) { p->a++; }
        int main(void) { f(&g); return 0; }";
    let program = c_program("longdouble", source, &["-O0"]);
    let d = "struct q { int a; long double b; }; long double ld; long double m[int];
        pid$target:a.out:f:entry { x = ((struct q *)copyin(arg0, sizeof (struct q)))->b; ld = x; m[3] = x; self->y = ld;
            this->z = self->y; printf(\"%Lf %Lf %Lf %Lf \", ld, m[3], self->y, this->z); print(this->z); m[3] = 0; ld = 0;
            trace(m[3]); trace(ld); exit(0); }";
    let out = answer(&["-qn", d, "-c", program.to_str().unwrap_or_default()]);
    assert_eq!(out, "2.500000 2.500000 2.500000 2.500000 (long double)2.5\n00");
}
