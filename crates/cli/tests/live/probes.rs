//! Each provider: probes that fire when the event happens, as often as it happens, with the right arguments.

use crate::tools::{answer, c_program, number, permitted};

const CALLS: &str = r#"
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <pthread.h>
__attribute__((noinline)) long eight(long a, long b, long c, long d, long e, long f, long g, long h) {
  __asm__ volatile("" ::: "memory"); return a + b + c + d + e + f + g + h; }
__attribute__((noinline)) const char *name(const char *s) { __asm__ volatile("" ::: "memory"); return s; }
static void *other(void *x) { for (int i = 0; i < 5; i++) eight(1, 2, 3, 4, 5, 6, 7, 8); return x; }
int main(void) {
  pthread_t t;
  for (int i = 0; i < 10; i++) eight(1, 2, 3, 4, 5, 6, 7, 8);
  pthread_create(&t, 0, other, 0); pthread_join(t, 0);
  name("hello");
  char *volatile p = malloc(12345); free(p);
  syscall(SYS_write, 1, "", 0L);
  return 0; }
"#;

#[test]
fn pid_probes() {
    if !permitted() {
        return;
    }
    for (kind, flags) in [("pie", &["-O1", "-pie", "-pthread"][..]), ("fixed", &["-O1", "-no-pie", "-pthread"][..])] {
        let program = c_program(&format!("calls_{kind}"), CALLS, flags).display().to_string();
        let d = "pid$target:a.out:eight:entry { @n = count(); @s = sum(arg0 + arg1 + arg2 + arg3 + arg4 + arg5 + arg6 + arg7); }
                 pid$target:a.out:eight:return { @r = sum(arg1); }
                 pid$target:a.out:eight:0 { @o = count(); }
                 pid$target:a.out:name:entry { printf(\"name %s\\n\", copyinstr(arg0)); }
                 pid$target:libc.so.6:malloc:entry /arg0 == 12345/ { printf(\"malloc\\n\"); }
                 END { printa(\"N %@d\\n\", @n); printa(\"S %@d\\n\", @s); printa(\"R %@d\\n\", @r); printa(\"O %@d\\n\", @o); }";
        let out = answer(&["-qn", d, "-c", &program]);
        assert_eq!(number(&out, "N "), 15, "{kind} {out}");
        assert_eq!(number(&out, "S "), 36 * 15, "{kind} {out}");
        assert_eq!(number(&out, "R "), 36 * 15, "{kind} {out}");
        assert_eq!(number(&out, "O "), 15, "{kind} {out}");
        assert!(out.contains("name hello\n") && out.contains("malloc\n"), "{kind} {out}");
    }
}

#[test]
fn a_glob_over_a_library() {
    if !permitted() {
        return;
    }
    let program = c_program("calls_glob", CALLS, &["-O1", "-pthread"]).display().to_string();
    let d = "pid$target:libc.so.6::entry { @[probefunc] = count(); } END { printa(\"%s %@d\\n\", @); }";
    let out = answer(&["-qn", d, "-c", &program]);
    assert!(out.lines().any(|l| l.starts_with("malloc ") || l.starts_with("__libc_malloc ")), "{out}");
    assert!(out.lines().count() > 5, "{out}");
}

#[test]
fn uprobes_reach_every_process() {
    if !permitted() {
        return;
    }
    let program = c_program("calls_all", CALLS, &["-O1", "-pthread"]).display().to_string();
    let d = format!(
        "uprobe:{program}:eight:entry {{ @n = count(); }} uprobe:{program}:eight:return {{ @r = sum(arg1); }}
         END {{ printa(\"N %@d\\n\", @n); printa(\"R %@d\\n\", @r); }}"
    );
    let out = answer(&["-qn", &d, "-c", &format!("sh -c '{program}; {program}'")]);
    assert_eq!((number(&out, "N "), number(&out, "R ")), (30, 36 * 30), "{out}");
}

#[test]
fn a_bare_name_is_looked_up() {
    if !permitted() {
        return;
    }
    let program = c_program("calls_bare", CALLS, &["-O1", "-pthread"]).display().to_string();
    let d = "uprobe:libc.so.6:malloc:entry /pid == $target && arg0 == 12345/ { @ = count(); } END { printa(\"N %@d\\n\", @); }";
    assert_eq!(number(&answer(&["-qn", d, "-c", &program]), "N "), 1);
}

#[test]
fn system_calls() {
    if !permitted() {
        return;
    }
    let program = c_program("calls_sys", CALLS, &["-O1", "-pthread"]).display().to_string();
    let d = "syscall::write:entry /pid == $target && args[2] == 0/ { printf(\"fd %d %d\\n\", args[0], arg2); }
             syscall::write:return /pid == $target/ { printf(\"ret %d %d %d\\n\", arg0, arg1, errno); }
             syscall:::entry /pid == $target/ { @[probefunc] = count(); }
             END { printa(\"%s %@d\\n\", @); }";
    let out = answer(&["-qn", d, "-c", &program]);
    assert!(out.contains("fd 1 0\nret 0 0 0\n"), "{out}");
    assert!(out.contains("exit_group 1\n"), "{out}");
}

#[test]
fn compat_system_calls() {
    if !permitted() {
        return;
    }
    // int 0x80 goes through the 32-bit entry, also from a 64-bit program: 20 is getpid there, 64 getppid.
    let program = c_program(
        "compat",
        "int main(void) { long r; for (int i = 0; i < 7; i++) __asm__ volatile(\"int $0x80\" : \"=a\"(r) : \"a\"(64L) : \"memory\", \"r8\", \"r9\", \"r10\", \"r11\"); return r <= 0; }",
        &["-O1"],
    );
    let command = program.display().to_string();
    let d = "syscall:ia32:getppid:entry /pid == $target/ { @c = count(); } syscall:vmlinux::entry /pid == $target/ { @n[probefunc] = count(); }
             END { printa(\"C %@d\\n\", @c); printa(\"%s %@d\\n\", @n); }";
    let run = crate::tools::run(&["-qn", d, "-c", &command]);
    if run.status != 0 && run.err.contains("D_PDESC_ZERO") {
        eprintln!("skipped: this kernel has no 32-bit system calls");
        return;
    }
    assert_eq!(number(&run.out, "C "), 7, "{}{}", run.out, run.err);
    // As 64-bit calls these would be semget.
    assert!(!run.out.contains("semget"), "{}", run.out);
}

#[test]
fn tracepoints_with_typed_fields() {
    if !permitted() {
        return;
    }
    let d =
        "sdt:sched::sched_process_exec /args[1] == $target/ { printf(\"exec %s %d\\n\", stringof(args[0]), args[1]); }
             sdt:sched::sched_process_exit /pid == $target/ { printf(\"exit %s\\n\", stringof(args[0])); }
             sdt:signal::signal_generate /args[2] != 0/ { @ = count(); }";
    let out = answer(&["-qn", d, "-c", "sh -c 'exec sleep 0.01'"]);
    assert!(out.contains("sleep"), "{out}");
    assert!(out.contains("exit sleep\n"), "{out}");
}

#[test]
fn profile_samples_where_the_time_goes() {
    if !permitted() {
        return;
    }
    let program = c_program("spin", "int main(void) { for (volatile long i = 0; i < 600000000; i++); }", &["-O1"]);
    let d = "profile-997 /pid == $target && arg1/ { @ = count(); } END { printa(\"N %@d\\n\", @); }";
    let out = answer(&["-qn", d, "-c", &program.display().to_string()]);
    assert!(number(&out, "N ") > 20, "{out}");
}
