//! How a run ends: exit(), the command's end, signals, closed pipes.

use crate::tools::{answer, done, permitted, probity, run};
use probity::kernel::process::Process;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

#[test]
fn exit_sets_the_status() {
    if !permitted() {
        return;
    }
    assert_eq!(run(&["-qn", "BEGIN { exit(3); }"]).status, 3);
    assert_eq!(run(&["-qn", "BEGIN { exit(0); } END { exit(4); }"]).status, 4);
    assert_eq!(run(&["-qn", "tick-10ms { exit(5); }"]).status, 5);
}

#[test]
fn nothing_runs_after_exit() {
    if !permitted() {
        return;
    }
    let d = "BEGIN { printf(\"a\\n\"); exit(0); printf(\"b\\n\"); } BEGIN { printf(\"c\\n\"); } syscall:::entry { printf(\"d\\n\"); }
             END { printf(\"e\\n\"); }";
    assert_eq!(answer(&["-qn", d]), "a\nb\ne\n");
}

#[test]
fn the_commands_status_is_passed_on() {
    if !permitted() {
        return;
    }
    let d = "syscall::getpid:entry { @ = count(); }";
    assert_eq!(run(&["-qn", d, "-c", "sh -c 'exit 3'"]).status, 3);
    assert_eq!(run(&["-qn", d, "-c", "sh -c 'kill -9 $$'"]).status, 137);
    assert_eq!(run(&["-qn", "BEGIN { exit(1); }", "-c", "sh -c 'exit 3'"]).status, 1);
    // DTrace does not.
    assert_eq!(run(&["dtrace", "-qn", d, "-c", "sh -c 'exit 3'"]).status, 0);
}

/// Starts a tracer and waits until it says "ready".
fn ready(d: &str) -> (Child, BufReader<std::process::ChildStdout>) {
    let mut child = probity(&["-qn", d]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("a tracer");
    let mut out = BufReader::new(child.stdout.take().expect("a pipe"));
    let mut line = String::new();
    out.read_line(&mut line).expect("a line");
    assert_eq!(line, "ready\n");
    (child, out)
}

#[test]
fn interrupt_ends_in_order() {
    if !permitted() {
        return;
    }
    let d =
        "tick-10ms /!said/ { said = 1; printf(\"ready\\n\"); } tick-10ms { @ = count(); } END { printf(\"end\\n\"); }";
    let (mut child, mut out) = ready(d);
    Process::grab(child.id()).and_then(|p| p.signal(2)).expect("SIGINT is delivered");
    let mut text = String::new();
    out.read_to_string(&mut text).expect("the rest");
    assert!(child.wait().expect("it ends").success());
    let mut lines = text.lines().filter(|l| !l.is_empty());
    assert_eq!(lines.next(), Some("end"), "{text}");
    assert!(lines.next().is_some_and(|l| l.trim().parse::<u64>().is_ok()), "the final aggregation: {text}");
}

#[test]
fn a_second_interrupt_ends_at_once() {
    if !permitted() {
        return;
    }
    // Nobody reads the pipe, so the first interrupt finds the tracer stuck in a write.
    let d = "BEGIN { printf(\"ready\\n\"); } tick-1ms { printf(\"%d %s\\n\", timestamp, probename); } syscall:::entry { printf(\"%d\\n\", pid); }";
    let (mut child, _out) = ready(d);
    std::thread::sleep(Duration::from_millis(600));
    let process = Process::grab(child.id()).expect("it runs");
    process.signal(2).expect("SIGINT is delivered");
    std::thread::sleep(Duration::from_millis(100));
    // It may have ended in order already, if the pipe had room.
    let _ = process.signal(2);
    let deadline = Instant::now() + Duration::from_secs(20);
    while child.try_wait().expect("it is ours").is_none() {
        assert!(Instant::now() < deadline, "a second SIGINT does not end it");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn output_does_not_wait_for_the_end() {
    if !permitted() {
        return;
    }
    // `ready` reads through a pipe while the tracer runs.
    let (mut child, _out) = ready("BEGIN { printf(\"ready\\n\"); }");
    child.kill().expect("it runs");
    child.wait().expect("it is reaped");
}

#[test]
fn a_closed_pipe_ends_it_quietly() {
    if !permitted() {
        return;
    }
    let (mut child, out) = ready("BEGIN { printf(\"ready\\n\"); } tick-5ms { printf(\"more\\n\"); }");
    drop(out);
    let deadline = Instant::now() + Duration::from_secs(20);
    while child.try_wait().expect("it is ours").is_none() {
        assert!(Instant::now() < deadline, "it goes on writing to nobody");
        std::thread::sleep(Duration::from_millis(10));
    }
    let run = done(child.wait_with_output().expect("it has ended"));
    assert_eq!(run.err, "");
}

#[test]
fn a_target_that_ends_ends_it() {
    if !permitted() {
        return;
    }
    let mut target = std::process::Command::new("sleep").arg("0.3").spawn().expect("a target");
    let out = answer(&["-qn", "BEGIN { printf(\"%d\\n\", $target); }", "-p", &target.id().to_string()]);
    assert_eq!(out, format!("{}\n", target.id()));
    target.wait().expect("it is reaped");
}
