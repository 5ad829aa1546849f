//! Stacks, names of addresses, registers and time on CPUs, on the real kernel.

use crate::tools::{answer, c_program, number, permitted, probity, run};
use std::process::{Command, Stdio};

/// A chain of functions with frame pointers, deep and shallow, and a leaf that starts without `endbr64` or `push %rbp`.
const CHAIN: &str = r#"
#include <unistd.h>
#include <sys/syscall.h>
volatile long sink;
__attribute__((noinline)) long leaf(long n) { return n * 3 + sink; }
__attribute__((noinline)) long middle(long n) { long r = leaf(n); return r + 1 + sink; }
__attribute__((noinline)) long outer(long n) { long r = middle(n); return r + 1 + sink; }
__attribute__((noinline)) long deep(long n) {
    long r = n == 0 ? syscall(SYS_getpgid, 0) : deep(n - 1);
    return r + 1 + sink;
}
int main(int argc, char **argv) {
    sink = outer(argc) + deep(299);
    return 0;
}
"#;

const FRAMES: [&str; 3] = ["-O2", "-fno-omit-frame-pointer", "-fno-optimize-sibling-calls"];

fn chain() -> String {
    let mut flags = FRAMES.to_vec();
    flags.push("-fcf-protection=none");
    c_program("stacks_chain", CHAIN, &flags).display().to_string()
}

/// The functions of a stack's lines.
fn functions(text: &str) -> Vec<String> {
    let name = |line: &str| line.trim().split('`').nth(1).map(|s| s.split('+').next().unwrap_or(s).to_string());
    text.lines().filter_map(name).collect()
}

#[test]
fn the_caller_is_there_at_a_functions_entry() {
    if !permitted() {
        return;
    }
    let program = chain();
    for function in ["leaf", "middle"] {
        let d = format!("pid$target:a.out:{function}:entry {{ ustack(4); ufunc(ucaller); exit(0); }}");
        let names = functions(&answer(&["-qn", &d, "-c", &program]));
        let all = ["leaf", "middle", "outer", "main"];
        let from = all.iter().position(|n| *n == function).unwrap();
        let mut want = all[from..].to_vec();
        if names.len() > want.len() + 1 {
            // What called main.
            want.push(&names[want.len()]);
        }
        want.push(all[from + 1]);
        assert_eq!(names, want);
    }
}

#[test]
fn deeper_stacks_are_said_to_be_deeper() {
    if !permitted() {
        return;
    }
    let program = chain();
    let d =
        "syscall::getpgid:entry /pid == $target/ { ustack(50); printf(\"depth %d\\n\", ustack(50).depth); exit(0); }";
    let text = answer(&["-qn", d, "-c", &program]);
    assert_eq!(functions(&text).iter().filter(|n| *n == "deep").count(), 49, "{text}");
    assert_eq!(number(&text, "depth"), 50);
    assert!(text.contains("… (deeper than 50 frames)"), "{text}");
    // The option; DTrace's own words have no such line.
    let text = answer(&[
        "-qn",
        "syscall::getpgid:entry /pid == $target/ { ustack(); exit(0); }",
        "-x",
        "ustackframes=7",
        "-c",
        &program,
    ]);
    assert_eq!(text.lines().filter(|l| l.contains('`')).count(), 7, "{text}");
    assert!(text.contains("deeper than 7"), "{text}");
    let text =
        answer(&["dtrace", "-qn", "syscall::getpgid:entry /pid == $target/ { ustack(3); exit(0); }", "-c", &program]);
    assert!(!text.contains('…') && functions(&text).len() == 3, "{text}");
}

#[test]
fn no_junk_is_shown_as_a_frame() {
    if !permitted() {
        return;
    }
    // The frame pointer register is used for something else.
    let source = CHAIN.replace("volatile long sink;", "volatile long sink; register long junk asm(\"rbp\");");
    let source = source.replace("sink = outer", "junk = 0x4f42444e41535f53; sink = outer");
    let flags = ["-O2", "-fomit-frame-pointer", "-ffixed-rbp", "-fno-optimize-sibling-calls"];
    let program = c_program("stacks_junk", &source, &flags).display().to_string();
    let d = "syscall::getpgid:entry /pid == $target/ { ustack(); exit(0); }";
    let text = answer(&["-qn", d, "-c", &program]);
    for line in text.lines().filter(|l| !l.is_empty()) {
        let known = line.contains('`') || line.contains("…");
        assert!(known, "a word that is no frame: {line:?} in {text}");
    }
}

#[test]
fn processes_that_have_ended_have_names() {
    if !permitted() {
        return;
    }
    let program = c_program("stacks_short", CHAIN, &FRAMES).display().to_string();
    let d = "syscall::getpgid:entry /execname == \"stacks_short\"/ { @s[ustack(2)] = count(); @f[ufunc(ucaller)] = count(); \
             @m[umod(ucaller)] = count(); } syscall::exit_group:entry /execname == \"stacks_short\" && ++n == 3/ { exit(0); } \
             tick-60s { exit(1); }";
    let tracer = probity(&["-qn", &format!("BEGIN {{ printf(\"ready\\n\"); }} {d}")])
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .unwrap();
    // It says that it is ready when all is attached; run the programs from then on until it has seen three.
    let mut tracer = tracer;
    let mut out = std::io::BufReader::new(tracer.stdout.take().unwrap());
    let mut line = String::new();
    std::io::BufRead::read_line(&mut out, &mut line).unwrap();
    for _ in 0..3 {
        assert!(Command::new(&program).status().unwrap().success());
    }
    let mut text = String::new();
    std::io::Read::read_to_string(&mut out, &mut text).unwrap();
    assert!(tracer.wait().unwrap().success());
    assert!(text.contains("stacks_short`deep"), "{text}");
    assert!(!text.contains(" 0x"), "an address without a name: {text}");
    // One key for all three processes' module would be three keys of one: each is of a process of its own.
    assert_eq!(text.lines().filter(|l| l.trim_start().starts_with("stacks_short  ")).count(), 3, "{text}");
}

#[test]
fn stacks_are_values() {
    if !permitted() {
        return;
    }
    let program = chain();
    let d = "pid$target:a.out:leaf:entry { printf(\"%k|\", ustack(2)); printf(\"depth %d user %d pid %d\\n\", ustack(2).depth, \
             ustack(2).is_user, ustack(2).pid == pid); @[ustack(2)] = count(); usym(ustack(2).addrs[1]); exit(0); }";
    let text = answer(&["-qn", d, "-c", &program]);
    assert!(text.contains("depth 2 user 1 pid 1"), "{text}");
    assert_eq!(functions(&text), ["leaf", "middle", "middle", "leaf", "middle"], "{text}");
    let json =
        answer(&["--format", "json", "-qn", "pid$target:a.out:leaf:entry { ustack(2); exit(0); }", "-c", &program]);
    assert!(json.contains("\"stack\":[{\"address\":\"0x") && json.contains("\"truncated\":true"), "{json}");
    assert_eq!(answer(&["-qn", "BEGIN { trace(stackdepth); trace(ustackdepth); trace(caller); exit(0); }"]), "000");
}

#[test]
fn kernel_stacks_begin_where_the_event_is() {
    if !permitted() {
        return;
    }
    let d = "syscall::getpgid:entry /pid == $target/ { stack(); printf(\"depth %d\\n\", stackdepth); sym(caller); exit(0); }";
    let text = answer(&["-qn", d, "-c", &chain()]);
    assert!(!text.contains("bpf_"), "the way into the program is no part of the stack: {text}");
    let depth = number(&text, "depth");
    assert!(depth > 1, "{text}");
    let frames = text.lines().take_while(|l| !l.starts_with("depth")).filter(|l| !l.is_empty()).count();
    assert_eq!(frames as i64, depth, "{text}");
}

#[test]
fn registers_of_the_user() {
    if !permitted() {
        return;
    }
    let d = "pid$target:a.out:leaf:entry { ufunc(uregs[R_PC]); printf(\" %d %d\\n\", uregs[R_RDI] == arg0, \
             *(uint64_t *)copyin(uregs[R_SP], 8) == ucaller); exit(0); }";
    let text = answer(&["-qn", d, "-c", &chain()]);
    assert!(text.contains("`leaf ") && text.trim_end().ends_with(" 1 1"), "{text}");
}

#[test]
fn sleeping_takes_no_time_on_a_cpu() {
    if !permitted() {
        return;
    }
    let source =
        "#include <time.h>\nint main(void) { struct timespec t = {0, 200000000}; nanosleep(&t, 0); return 0; }";
    let program = c_program("stacks_sleep", source, &[]).display().to_string();
    let d = "syscall::clock_nanosleep:entry /pid == $target/ { self->t = timestamp; self->v = vtimestamp; } \
             syscall::clock_nanosleep:return /self->t/ { printf(\"wall %d\\n\", timestamp - self->t); \
             printf(\"cpu %d\\n\", vtimestamp - self->v); printf(\"same %d\\n\", vtimestamp - vtimestamp); exit(0); }";
    let text = answer(&["-qn", d, "-c", &program]);
    assert!(number(&text, "wall") >= 200_000_000, "{text}");
    assert!((1..20_000_000).contains(&number(&text, "cpu")), "{text}");
    assert_eq!(number(&text, "same"), 0);
}

#[test]
fn a_fault_in_error_is_counted() {
    if !permitted() {
        return;
    }
    let run = run(&[
        "-qn",
        "BEGIN { trace(*(int *)0); } ERROR { printf(\"%d %d %d\\n\", arg1 == 1, arg2, arg4); trace(1 / (arg5 - arg5)); } BEGIN { exit(0); }",
    ]);
    assert_eq!(run.status, 0, "{}", run.err);
    assert!(run.err.contains("1 error in ERROR probe enabling"), "{}", run.err);
    assert_eq!(run.err.matches("divide-by-zero").count(), 1, "{}", run.err);
}
