//! Memory of the program's own on the real kernel: structs, arrays and bit-fields in all scopes, elements of all kinds, `alloca` and its
//! kin, bounds.

use crate::tools::{answer, c_program, permitted};

const TYPES: &str = "struct in { int x, y; };
    struct s { int a; char b; struct in p; int bf:5; unsigned int bg:9; char name[8]; };
    struct s g; struct s t; self struct s h; this struct s l;
    int arr[4]; int md[3][5]; self int sa[4]; this int ta[4]; int last[int][4];\n";

fn run(body: &str) -> String {
    answer(&[
        "-qn",
        &format!("{TYPES} BEGIN {{ {body} exit(0); }} ERROR {{ printf(\"fault %d %d\\n\", arg4, arg5); exit(0); }}"),
    ])
}

#[test]
fn structs_and_arrays_in_every_scope() {
    if !permitted() {
        return;
    }
    let body = "g.a = 7; g.p.y = 9; g.bf = -3; g.bg = 511; g.name = \"hello, world\"; t = g; self->h = t; this->l = self->h;
        printf(\"%d %d %d %d %s|\", this->l.a, self->h.p.y, t.bf, t.bg, t.name);
        i = 2; arr[i] = 5; arr[i]++; arr[i] += 10; md[i][i + 1] = 77; self->sa[i] = 11; this->ta[i] = 13; this->ta[3] = 12;
        printf(\"%d %d %d %d %d %d|\", arr[2], arr[1], md[2][3], self->sa[2], this->ta[2], this->ta[i + 1]);
        printf(\"%d %d %d\", g.bf = 14, g.bf++ + ++g.bf, g.bg);";
    assert_eq!(run(body), "7 9 -3 511 hello, |16 0 77 11 13 12|14 -2 511");
}

#[test]
fn elements_and_keys_of_every_kind() {
    if !permitted() {
        return;
    }
    let body =
        "g.a = 1; t.a = 1; k[g] = 5; k[t] += 2; last[1][3] = 99; i = 2; last[2][i] = 98; v[3] = g; v[3].p.x = 42;
        printf(\"%d %d %d %d %d %d|\", k[g], last[1][3], last[2][2], last[3][0], v[3].p.x, v[4].a);
        v[3] = 0; printf(\"%d\\n\", v[3].a);
        @[g.p] = count();";
    let out = run(body);
    assert!(out.starts_with("7 99 98 0 42 0|0\n"), "{out}");
    assert!(out.contains("00 00 00 00 00 00 00 00"), "{out}");
}

#[test]
fn indexes_are_checked() {
    if !permitted() {
        return;
    }
    for (statement, want) in [
        ("i = 4; arr[i] = 1;", "fault 11 4\n"),
        ("i = -1; trace(arr[i]);", "fault 11 -1\n"),
        ("i = 3; trace(md[i][0]);", "fault 11 3\n"),
        ("s = \"abc\"; i = 4; trace(s[i]);", "fault 1 4\n"),
        ("p = (int *)alloca(4); trace(p[1]); trace(p[2]);", "fault 1 16\n"),
        ("p = (char *)alloca(8); p[-1] = 1;", "fault 1 7\n"),
        ("p = (char *)alloca(8); p = NULL; *p = 1;", "fault 1 0\n"),
        ("n = 5000; p = alloca(n);", "fault 5 5000\n"),
        ("p = alloca(8); q = alloca(16); bcopy(q, p, 32);", "fault 10 32\n"),
        ("*(int *)8 = 3;", "fault 1 8\n"),
    ] {
        let out = run(statement);
        assert!(out.ends_with(want), "{statement}: {out}");
    }
}

#[test]
fn scratch_memory() {
    if !permitted() {
        return;
    }
    let body = "p = (char *)alloca(10); p[0] = 'a'; p[9] = 'z'; q = (struct s *)alloca(sizeof (struct s)); q->p.y = 3; q->bg = 300;
        printf(\"%c%c %d %d %d|\", p[0], p[9], q->p.y, q->bg, (int)((char *)q - p));
        bcopy(\"hello\", p, 6); bcopy(p + 1, p + 6, 3); printf(\"%s %c|\", stringof(p), p[6]);
        n = 5; r = (char *)alloca(n); bcopy(p, r, n); printf(\"%s|\", (string)r);
        g = *q; printf(\"%d|\", g.p.y); w = (string *)alloca(sizeof (string)); *w = \"text\"; printf(\"%s|\", *w);
        e = &arr[0]; e[2] = 8; printf(\"%d\", arr[2]);";
    assert_eq!(run(body), "az 3 300 16|hello e|hello|3|text|8");
}

#[test]
fn long_copies_come_in_whole() {
    if !permitted() {
        return;
    }
    let program = c_program(
        "copyin",
        "#include <fcntl.h>\n#include <unistd.h>\n#include <string.h>\nint main(void) { static char b[4000]; memset(b, 'x', sizeof b);
         b[3999] = 'y'; int fd = open(\"/dev/null\", O_WRONLY); return write(fd, b, sizeof b) != sizeof b; }",
        &[],
    );
    let d = "syscall::write:entry /pid == $target && arg2 == 4000/ { p = (char *)copyin(arg1, arg2); n = arg2 - 1;
        q = (char *)alloca(8); copyinto(arg1 + 3995, 5, q);
        printf(\"%c%c%c %s\", p[0], p[n], p[3998], stringof(q)); exit(0); }";
    assert_eq!(answer(&["-qn", d, "-c", program.to_str().unwrap_or_default()]), "xyx xxxxy");
}

#[test]
fn parts_of_the_current_task_are_read_whatever_they_are() {
    if !permitted() {
        return;
    }
    // Bytes of pointers, and of another type's members at the task's address: the verifier lets none of them be read directly.
    let d = "struct other { char c[3000]; int x; };
        BEGIN { trace(((char *)curthread->comm)[32] & 0); trace(*((char *)curthread + 2049) & 0);
                trace(((struct other *)curthread)->x & 0); trace(curthread->pid == pid); exit(0); }";
    assert_eq!(answer(&["-qn", d]), "0001");
}

#[test]
fn the_tracers_own_clauses_read_no_processs_memory() {
    if !permitted() {
        return;
    }
    // Neither the tracer's own, where its arguments are, nor the kernel's, which is no process's.
    let ways = [
        "trace(*(char *)copyin(ADDR, 8));",
        "trace(copyinstr(ADDR));",
        "trace(copyinstr(ADDR, 5));",
        "this->p = alloca(8); copyinto(ADDR, 8, this->p); trace(*(char *)this->p);",
    ];
    for addr in ["curthread->mm->arg_start", "(uintptr_t)curthread"] {
        for probe in ["BEGIN", "END", "tick-10ms"] {
            for way in ways {
                let (way, begin) = (way.replace("ADDR", addr), if probe == "END" { "BEGIN { exit(0); }" } else { "" });
                let d = format!(
                    "{begin} {probe} {{ a = (uint64_t)({addr}); {way} exit(7); }} \
                     ERROR {{ printf(\"%d %d\", arg4, arg5 == a); exit(0); }}"
                );
                let run = crate::tools::run(&["-qn", &d]);
                assert_eq!((run.status, run.out.as_str()), (0, "1 1"), "{d}: {}", run.err);
            }
        }
    }
}
