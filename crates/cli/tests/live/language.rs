//! D on the real kernel: what the interpreter cannot show, and a sample of what it does.

use crate::tools::{answer, c_program, permitted};

/// Runs expressions in BEGIN and compares what `printf` makes of them.
#[test]
fn expressions() {
    if !permitted() {
        return;
    }
    for (format, expression, want) in [
        ("%d", "1 + 2 * 3 - 4 / 2", "5"),
        ("%d", "-7 / 2", "-3"),
        ("%d", "-7 % 3", "-1"),
        ("%u", "(unsigned int)-1", "4294967295"),
        ("%d", "(char)200", "-56"),
        ("%d", "(uint8_t)200 + 100", "300"),
        ("%x", "0xff & ~0xf", "f0"),
        ("%d", "1ll << 40 >> 38", "4"),
        ("%d", "3 > 2 && 2 > 1 || 0", "1"),
        ("%d", "1 ^^ 1", "0"),
        ("%d", "-1 < 1u ? 1 : 2", "2"),
        ("%d", "(int64_t)-1 < 1u ? 1 : 2", "1"),
        ("%s", "\"abc\" < \"abd\" ? \"less\" : \"not\"", "less"),
        ("%d", "strlen(\"hello\")", "5"),
        ("%s", "strjoin(\"foo\", strjoin(\"-\", \"bar\"))", "foo-bar"),
        ("%d", "sizeof (int) + sizeof (uint64_t)", "12"),
        ("%s", "probename", "BEGIN"),
        ("%s", "probeprov", "dtrace"),
        ("%d", "id", "1"),
        ("%d", "pid == $pid", "1"),
        ("%d", "tid == pid", "1"),
        ("%d", "ppid == $ppid", "1"),
        ("%d", "uid == $uid", "1"),
        ("%d", "gid == $gid", "1"),
        ("%s", "execname", "probity"),
        ("%d", "errno", "0"),
        ("%d", "timestamp > 0 && walltimestamp > 1700000000000000000", "1"),
        ("%d", "curthread->pid == tid && curthread->tgid == pid", "1"),
        ("%d", "cpu >= 0", "1"),
    ] {
        let d = format!("BEGIN {{ printf(\"{format}\\n\", {expression}); exit(0); }}");
        assert_eq!(answer(&["-qn", &d]), format!("{want}\n"), "{expression}");
    }
}

#[test]
fn variables() {
    if !permitted() {
        return;
    }
    let d = "BEGIN { x = 5; x++; this->t = x * 2; self->s = \"thread\"; a[1, \"k\"] = this->t; a[2, \"k\"] = 9; a[2, \"k\"] = 0;
               s = execname; self->n[\"a\"] = 4; }
             BEGIN { printf(\"%d %d %s %d %d %s %d\\n\", x, this->t, self->s, a[1, \"k\"], a[2, \"k\"], s, self->n[\"a\"]); }
             BEGIN { if (x == 6) { printf(\"six\\n\"); } else { printf(\"other\\n\"); }
               if (x == 7) { printf(\"seven\\n\"); } else if (x > 5) { printf(\"more\\n\"); } exit(0); }";
    assert_eq!(answer(&["-qn", d]), "6 12 thread 12 0 probity 4\nsix\nmore\n");
}

#[test]
fn aggregating_functions() {
    if !permitted() {
        return;
    }
    let d = "BEGIN { @c = count(); @s = sum(-5); @s = sum(3); @mi = min(-100); @mi = min(7); @ma = max(-100); @ma = max(-5);
               @av = avg(10); @av = avg(-20); @sd = stddev(2); @sd = stddev(4); @sd = stddev(9);
               printa(\"%@d \", @c); printa(\"%@d \", @s); printa(\"%@d \", @mi); printa(\"%@d \", @ma); printa(\"%@d \", @av); printa(\"%@d\\n\", @sd);
               @l = lquantize(15, 0, 100, 10); @l = lquantize(-3, 0, 100, 10); @l = lquantize(100, 0, 100, 10);
               @ll = llquantize(345, 10, 0, 6, 20); @q = quantize(-5); @q = quantize(0); @q = quantize(1, 3); exit(0); }";
    let out = answer(&["-qn", d]);
    assert_eq!(out.lines().next(), Some("1 -2 -100 -5 -5 2"), "{out}");
    for want in ["< 0 |", ">= 100 |", "10 |", "-8 |", "-4 |", "300 |"] {
        assert!(out.contains(want), "{want}: {out}");
    }
}

#[test]
fn faults_end_the_clause_and_fire_error() {
    if !permitted() {
        return;
    }
    let d = "BEGIN { printf(\"before\\n\"); x = *(int *)16; printf(\"after\\n\"); } BEGIN { z = 0; y = 10 / z; } BEGIN { printf(\"next\\n\"); exit(0); }
             ERROR { printf(\"error %d %d %d %x\\n\", arg1, arg2, arg4, arg5); }";
    let run = crate::tools::run(&["-qn", d]);
    assert_eq!(run.status, 0, "{}", run.err);
    assert!(!run.out.contains("after"), "{}", run.out);
    assert!(run.out.contains("error 1 0 1 10\n"), "{}", run.out);
    assert!(run.out.contains("error 1 1 4 0\n"), "{}", run.out);
    assert!(run.out.contains("next\n"), "{}", run.out);
    assert!(run.err.contains("invalid address (0x10)") && run.err.contains("divide-by-zero"), "{}", run.err);
}

#[test]
fn strings_from_user_memory() {
    if !permitted() {
        return;
    }
    let program = c_program(
        "strings",
        "#include <fcntl.h>\n#include <unistd.h>\nint main(void) { char p[400]; char q[] = \"/nonexistent/file\"; for (int i = 0; i < 399; i++) p[i] = 'a' + i % 26;
         p[0] = '/'; p[399] = 0; open(q, O_RDONLY); open(p, O_RDONLY); open((char *)8, O_RDONLY); }",
        &[],
    );
    let command = program.display().to_string();
    let d = "syscall::open*:entry /pid == $target && copyinstr(arg1) == \"/nonexistent/file\"/ { printf(\"%s %d\\n\", copyinstr(arg1), strlen(copyinstr(arg1))); }
             syscall::openat:entry /pid == $target/ { self->a = arg1; }
             syscall::openat:return /self->a && errno == 2/ { printf(\"ENOENT %d\\n\", strlen(copyinstr(self->a))); self->a = 0; }";
    let run = crate::tools::run(&["dtrace", "-qn", d, "-c", &command]);
    assert!(run.out.contains("/nonexistent/file 17\n"), "{}{}", run.out, run.err);
    assert!(run.out.contains("ENOENT 17\n"), "{}", run.out);
    // An unreadable string is said to be so, never printed as empty (G6).
    assert!(run.err.contains("invalid address (0x8)"), "{}", run.err);
}

#[test]
fn a_cut_string_is_marked() {
    if !permitted() {
        return;
    }
    let out = answer(&["-qn", "BEGIN { s = \"0123456789abcdef\"; printf(\"%s\\n\", s); exit(0); }", "-x", "strsize=8"]);
    assert_eq!(out, "0123456…\n");
}

/// What stands before an assignment that is not always made has its value in any case.
#[test]
fn values_before_branches_with_effects() {
    if !permitted() {
        return;
    }
    for (args, want) in [
        ("x, y ? (x = 5) : 7", "1 7"),
        ("x, y && (x = 5)", "1 0"),
        ("x, !y || (x = 5)", "1 1"),
        ("x, !y ? (x = 5) : 7", "1 5"),
        ("x, (y ? (x = 5) : 0, x)", "1 1"),
    ] {
        let d = format!("BEGIN {{ x = 1; y = 0; printf(\"%d %d\\n\", {args}); exit(0); }}");
        assert_eq!(answer(&["-qn", &d]), format!("{want}\n"), "{args}");
    }
}
