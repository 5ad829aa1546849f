//! Reports by users of other tools about wrong values (`shared/FIELD.md`, part A; the numbers are its). Others of its reports stand where
//! their subject does: R01 to R04 in `user_types.rs`, R06 in `declared.rs`, R10 in `memory.rs`, R15 and R16 in `field_output.rs`, R18 in
//! `subroutines.rs`, R20 in `output.rs`.

use crate::tools::{answer, c_program, permitted};

/// A program that calls `f(text, length)` with a literal that nothing has touched before, then makes system calls of known arguments.
const CALLS: &str = r#"
#include <signal.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>
static const char far[3 * 4096] __attribute__((aligned(4096))) = { [4096] = 'h', 'e', 'l', 'l', 'o', ' ', 't', 'h', 'e', 'r', 'e' };
__attribute__((noinline)) void f(const char *s, size_t n) { __asm__ volatile("" :: "r"(s), "r"(n)); }
int main(void) {
  f(far + 4096, 5);
  syscall(SYS_kill, 4194303, SIGCHLD);
}
"#;

/// R08: a length of any integer type cuts where it says. R09: memory that is not resident yet is read, never shown as empty.
#[test]
fn strings_of_a_length_in_memory_that_nothing_touched() {
    if !permitted() {
        return;
    }
    let program = c_program("untouched", CALLS, &["-O1", "-g"]);
    let d = "pid$target:a.out:f:entry { printf(\"<%s> %d\\n\", stringof(copyin(arg0, arg1)), (int)arg1); }";
    let out = answer(&["-q", "-c", program.to_str().expect("a path"), "-n", d]);
    assert_eq!(out.trim(), "<hello> 5");
}

/// R11: a tracepoint's fields are where its format says.
#[test]
fn fields_are_where_the_format_says() {
    if !permitted() {
        return;
    }
    let program = c_program("untouched", CALLS, &["-O1", "-g"]);
    let d = "syscall::kill:entry /pid == $target/ { printf(\"%d %d\\n\", args[0], args[1]); }";
    let out = answer(&["-q", "-c", program.to_str().expect("a path"), "-n", d]);
    assert_eq!(out.trim(), "4194303 17");
}

/// R12: dynamic fields (`__data_loc`) are the exact strings.
#[test]
fn dynamic_fields_are_exact() {
    if !permitted() {
        return;
    }
    let d = "sdt:sched::sched_process_exec /pid == $target/ { printf(\"<%s>\\n\", stringof(args[0])); }";
    let out = answer(&["-q", "-c", "sh -c 'exec /bin/true'", "-n", d]);
    assert_eq!(out.trim(), "</bin/true>");
}

/// R13: bit-fields of the kernel's structs, and members after them, by BTF.
#[test]
fn bit_fields_of_the_kernel() {
    if !permitted() {
        return;
    }
    let d = "syscall::kill:entry /pid == $target/ {
        printf(\"%d %d %d\\n\", curthread->sched_reset_on_fork, curthread->tgid == pid, curthread->pid == tid); }";
    let program = c_program("untouched", CALLS, &["-O1", "-g"]);
    let out = answer(&["-q", "-c", program.to_str().expect("a path"), "-n", d]);
    assert_eq!(out.trim(), "0 1 1");
}

/// R32: what a thread left behind is freed with it: ten thousand of them leave nothing that fills up.
#[test]
fn variables_end_with_their_threads() {
    if !permitted() {
        return;
    }
    let source = r#"
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>
static void *run(void *p) { syscall(SYS_getpriority, 7, 0); return p; }
int main(void) {
  for (int i = 0; i < 10000; i++) { pthread_t t; pthread_create(&t, 0, run, 0); pthread_join(t, 0); }
}
"#;
    let program = c_program("threads", source, &["-O1", "-pthread"]);
    let d = "syscall::getpriority:entry /pid == $target && self->seen == 0/ { self->seen = tid; n++; } END { printf(\"%d\\n\", n); }";
    let out = answer(&["-q", "-x", "dynvarsize=16k", "-c", program.to_str().expect("a path"), "-n", d]);
    assert_eq!(out.trim(), "10000");
}
