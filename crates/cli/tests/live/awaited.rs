//! `-W`: processes that are waited for.

use crate::tools::{GETPPID, c_program, copy_program, done, permitted, probity};
use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Child, ChildStderr, Command, Stdio};

/// A copy of a program under a name that no other test's process has.
fn named(name: &str) -> PathBuf {
    let program = c_program("awaited", GETPPID, &[]);
    let copy = program.with_file_name(name);
    copy_program(&program, &copy);
    copy
}

/// Starts the command and waits until it waits.
fn waiting(args: &[&str]) -> (Child, BufReader<ChildStderr>, String) {
    let mut child = probity(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the command starts");
    let mut err = BufReader::new(child.stderr.take().expect("a pipe"));
    let mut line = String::new();
    err.read_line(&mut line).expect("it says something");
    (child, err, line)
}

#[test]
fn a_process_is_traced_from_its_start_to_its_end() {
    if !permitted() {
        return;
    }
    let name = format!("pw1-{}", std::process::id() % 10_000);
    let program = named(&name);
    // Its libraries are opened before anything of its own runs.
    let d = "syscall::openat:entry /pid == $target && !n++/ { trace(\"opens\"); } \
             proc:::exit /pid == $target/ { trace(\"ends\"); }";
    for face in [&[][..], &["dtrace"]] {
        let all: Vec<&str> = face.iter().copied().chain(["-W", &name, "-xevaltime=exec", "-n", d]).collect();
        let (child, mut err, line) = waiting(&all);
        assert_eq!(line.split_once(": ").map(|l| l.1), Some(format!("waiting for '{name}' to start\n").as_str()));
        let status = Command::new(&program).args(["0", "0"]).status().expect("it starts");
        assert!(status.success(), "{status}");
        let run = done(child.wait_with_output().expect("it ends"));
        let mut rest = String::new();
        err.read_to_string(&mut rest).expect("UTF-8");
        assert_eq!(run.status, 0, "{rest}");
        assert!(run.out.contains("opens") && run.out.contains("ends"), "{}{rest}", run.out);
    }
}

#[test]
fn functions_are_found_and_long_names_are_compared_whole() {
    if !permitted() {
        return;
    }
    let name = format!("probity-awaited-long-{}", std::process::id());
    let (program, other) = (named(&name), named(&format!("{name}-other")));
    let (child, mut err, _) = waiting(&["-W", &name, "-n", "pid$target:a.out:main:entry { trace(arg0); }"]);
    // It is stopped for a moment and runs on.
    assert!(Command::new(&other).args(["0", "0"]).status().expect("it starts").success());
    assert!(Command::new(&program).args(["0", "0"]).status().expect("it starts").success());
    let run = done(child.wait_with_output().expect("it ends"));
    let mut rest = String::new();
    err.read_to_string(&mut rest).expect("UTF-8");
    assert!(run.status == 0 && run.out.contains("main:entry"), "{}{rest}", run.out);
}

#[test]
fn what_is_held_runs_on_when_the_tracer_is_killed() {
    if !permitted() {
        return;
    }
    let name = format!("pw2-{}", std::process::id() % 10_000);
    let program = named(&name);
    let never = format!("{name}x");
    let (mut child, ..) = waiting(&["-W", &name, "-W", &never, "-xevaltime=exec", "-n", "BEGIN"]);
    let mut held = Command::new(&program).args(["0", "0"]).spawn().expect("it starts");
    // Held by ptrace alone (`t`), the signal that stopped it taken back: the one that does is pending.
    let status = || std::fs::read_to_string(format!("/proc/{}/status", held.id())).unwrap_or_default();
    let field = |name: &str| {
        let line = status().lines().find_map(|l| l.strip_prefix(name).map(str::to_owned));
        line.unwrap_or_default().trim().to_owned()
    };
    let continues = || u64::from_str_radix(&field("ShdPnd:"), 16).is_ok_and(|pending| pending >> 17 & 1 == 1);
    let mut tries = 0;
    while !(field("State:").starts_with('t') && continues()) && tries < 1000 {
        std::thread::sleep(std::time::Duration::from_millis(10));
        tries += 1;
    }
    assert!(field("State:").starts_with('t') && continues(), "{}", status());
    child.kill().expect("it is killed");
    child.wait().expect("it ends");
    assert!(held.wait().expect("it ends").success());
}
