//! The machine as it is: an unmounted tracefs, an idle CPU, listing that changes nothing (G4).

use crate::tools::{answer, done, permitted, run};
use std::process::Command;

#[test]
fn without_a_mounted_tracefs() {
    if !permitted() {
        return;
    }
    // In a mount namespace of its own, so that this machine's mounts stay as they are.
    let d = "sdt:sched::sched_switch { @ = count(); } tick-100ms { exit(0); }";
    let script = "umount -l /sys/kernel/tracing /sys/kernel/debug/tracing /sys/kernel/debug 2>/dev/null; \
                  before=$(cat /proc/self/mountinfo | wc -l); \"$0\" -qn \"$1\" || exit 1; \
                  test $before = $(cat /proc/self/mountinfo | wc -l)";
    let output = Command::new("unshare").args(["-m", "sh", "-c", script, env!("CARGO_BIN_EXE_probity"), d]).output();
    let r = done(output.expect("unshare is there"));
    assert_eq!(r.status, 0, "{}{}", r.out, r.err);
    assert!(r.out.trim().parse::<u64>().is_ok_and(|n| n > 0), "{}", r.out);
    assert_eq!(r.err, "");
}

#[test]
fn ticks_come_on_an_idle_machine() {
    if !permitted() {
        return;
    }
    let from = std::time::Instant::now();
    let out = answer(&["-qn", "tick-50ms { printf(\"t\\n\"); n++; } tick-50ms /n == 4/ { exit(0); }"]);
    assert_eq!(out.lines().filter(|l| *l == "t").count(), 4, "{out}");
    assert!(from.elapsed().as_millis() >= 200);
}

#[test]
fn listing_and_checking_create_nothing() {
    if !permitted() {
        return;
    }
    let r = run(&["-ln", "syscall::read:*"]);
    assert_eq!(r.status, 0, "{}", r.err);
    assert!(r.out.contains("syscall") && r.out.contains("entry") && r.out.contains("return"), "{}", r.out);
    let r = run(&["-lvn", "syscall::read:entry"]);
    assert!(r.out.contains("args[0]: unsigned int") && r.out.contains("args[1]: char *"), "{}", r.out);
    assert_eq!(run(&["-en", "syscall::read:entry { trace(arg0); }"]).status, 0);
    assert_eq!(run(&["--check", "-n", "syscall::read:entry { trace(arg0) }}"]).status, 1);
    assert_eq!(run(&["-ln", "nosuch:::probe"]).status, 1);
    let all = run(&["-l"]);
    assert!(all.out.lines().count() > 1000, "{}", all.out.lines().count());
}

#[test]
fn the_code_can_be_seen() {
    if !permitted() {
        return;
    }
    let r = run(&["-eSn", "syscall::read:entry /pid == 7/ { @ = count(); }"]);
    assert_eq!(r.status, 0, "{}", r.err);
    assert!(r.out.contains("exit"), "{}", r.out);
}
