//! The time that one run of the command may take: a test that is wrong, or a tracer that hangs, fails instead of holding up all others.

use probity::kernel::process::Process;
use std::collections::HashMap;
use std::path::Path;
use std::sync::Once;
use std::time::{Duration, Instant};

/// Far more than any run takes, on a loaded machine too.
const LIMIT: Duration = Duration::from_secs(120);

/// Watches, from now on, all commands that this process starts.
pub fn watch() {
    static STARTED: Once = Once::new();
    STARTED.call_once(|| {
        std::thread::spawn(|| {
            let mut seen = HashMap::new();
            loop {
                end_those_over(LIMIT, &mut seen);
                std::thread::sleep(Duration::from_secs(2));
            }
        });
    });
}

/// Ends the commands that have been there for longer.
fn end_those_over(limit: Duration, seen: &mut HashMap<u32, Instant>) {
    let parents = parents();
    let ours = std::process::id();
    // A grabbed process stays the one that was looked at, whatever becomes of its number.
    let running: Vec<(u32, Process)> = parents
        .iter()
        .filter(|(_, parent)| **parent == ours)
        .filter_map(|(pid, _)| Some((*pid, Process::grab(*pid).ok()?)))
        .filter(|(pid, _)| {
            let exe = std::fs::read_link(format!("/proc/{pid}/exe"));
            exe.is_ok_and(|exe| exe == Path::new(env!("CARGO_BIN_EXE_probity")))
        })
        .collect();
    seen.retain(|pid, _| running.iter().any(|(other, _)| other == pid));
    for (pid, process) in running {
        if seen.entry(pid).or_insert_with(Instant::now).elapsed() > limit {
            end(&process, &parents);
        }
    }
}

/// Ends a command and the programs that it has started, which may hold its pipes.
fn end(process: &Process, parents: &HashMap<u32, u32>) {
    let args = std::fs::read(format!("/proc/{}/cmdline", process.pid())).unwrap_or_default();
    let args = String::from_utf8_lossy(&args).replace('\0', " ");
    eprintln!("killed, because it has run for more than {} s: {args}", LIMIT.as_secs());
    // What it does: who reads this has nothing else to go by.
    for task in std::fs::read_dir(format!("/proc/{}/task", process.pid())).into_iter().flatten().flatten() {
        let of = |file: &str| std::fs::read_to_string(task.path().join(file)).unwrap_or_default();
        eprintln!("{} waits in {}\n{}", of("stat").trim(), of("wchan"), of("stack"));
    }
    let programs: Vec<Process> =
        below(process.pid(), parents).into_iter().filter_map(|pid| Process::grab(pid).ok()).collect();
    for process in std::iter::once(process).chain(&programs) {
        let _ = process.signal(9);
    }
}

/// The parent of each process.
fn parents() -> HashMap<u32, u32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter_map(|pid| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let parent = stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()?;
        Some((pid, parent))
    })
    .collect()
}

/// The processes below one.
fn below(pid: u32, parents: &HashMap<u32, u32>) -> Vec<u32> {
    let mut found = vec![pid];
    let mut at = 0;
    while at < found.len() {
        let parent = found[at];
        found.extend(parents.iter().filter(|(_, p)| **p == parent).map(|(child, _)| *child));
        at += 1;
    }
    found.split_off(1)
}

#[test]
fn a_command_over_its_time_is_ended_with_its_programs() {
    if !crate::tools::permitted() {
        return;
    }
    let mut command = crate::tools::probity(&["-qn", "BEGIN { printf(\"on\\n\"); }", "-c", "sleep 1000"]);
    let mut child = command.stdout(std::process::Stdio::piped()).spawn().expect("it starts");
    let mut out = std::io::BufReader::new(child.stdout.take().expect("a pipe"));
    std::io::BufRead::read_line(&mut out, &mut String::new()).expect("a line");
    // Only those are ended that are over their time.
    end_those_over(LIMIT, &mut HashMap::from([(child.id(), Instant::now())]));
    assert!(child.try_wait().expect("it is ours").is_none());
    end(&Process::grab(child.id()).expect("it runs"), &parents());
    assert!(!child.wait().expect("it is ours").success());
    // Its program held the pipe.
    std::io::Read::read_to_string(&mut out, &mut String::new()).expect("the end");
}
