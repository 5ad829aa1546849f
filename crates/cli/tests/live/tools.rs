//! Running the command and the programs that it traces.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Mutex;

/// Whether BPF may be used; says that the test is skipped if not.
pub fn permitted() -> bool {
    let permitted = probity::kernel::can_bpf();
    if !permitted {
        eprintln!("skipped: BPF is not permitted here (needs root, or CAP_BPF and CAP_PERFMON)");
    }
    permitted
}

/// The command with arguments. It is killed where it takes far longer than any test's should.
pub fn probity(args: &[&str]) -> Command {
    crate::limit::watch();
    let mut command = Command::new(env!("CARGO_BIN_EXE_probity"));
    command.args(args).stdin(Stdio::null()).env("TZ", "UTC");
    command
}

/// What a run gave.
#[derive(Debug)]
pub struct Run {
    /// Exit status; -1 for a signal.
    pub status: i32,
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub err: String,
}

/// Runs the command to its end.
pub fn run(args: &[&str]) -> Run {
    done(probity(args).output().expect("the command starts"))
}

/// Reads what a process left.
pub fn done(output: Output) -> Run {
    Run {
        status: output.status.code().unwrap_or(-1),
        out: String::from_utf8_lossy(&output.stdout).into_owned(),
        err: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// Runs the command, which must succeed, and returns its output.
pub fn answer(args: &[&str]) -> String {
    let run = run(args);
    assert_eq!(run.status, 0, "{args:?}: {}{}", run.out, run.err);
    run.out
}

/// Compiles a C program once for all tests of a run; flags come after the source's name.
pub fn c_program(name: &str, source: &str, flags: &[&str]) -> PathBuf {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    // The process's number keeps runs of the tests apart (nextest has one process for each test).
    let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("live-{}", std::process::id()));
    std::fs::create_dir_all(&dir).expect("a directory for test programs");
    let (file, program) = (dir.join(format!("{name}.c")), dir.join(name));
    if !program.exists() {
        std::fs::write(&file, source).expect("the source is written");
        let status = Command::new("gcc").arg("-o").arg(&program).arg(&file).args(flags).status();
        assert!(status.expect("gcc is installed").success(), "{name} does not compile");
    }
    program
}

/// Copies a program. Another process writes the copy: one that a thread of ours forks meanwhile would have the file open for
/// writing for a moment, and what is open for writing cannot be run.
pub fn copy_program(from: &Path, to: &Path) {
    let status = Command::new("cp").arg(from).arg(to).status();
    assert!(status.expect("cp is there").success(), "{} is not copied", from.display());
}

/// As many processes as the first argument says call getppid by its number, as often as the second says; the third is how often
/// each calls a function too. They end with their parent, so that they do not hold its output when it is killed. With a fourth argument the tracer, which is the parent, is stopped meanwhile, so that what it does not
/// read in time must overflow on any machine.
pub const GETPPID: &str = r#"
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
__attribute__((noinline)) int work(int x) { __asm__ volatile(""); return x + 1; }
int main(int argc, char **argv) {
  int procs = atoi(argv[1]), n = atoi(argv[2]), calls = argc > 3 ? atoi(argv[3]) : 0;
  prctl(PR_SET_NAME, "getppids");
  if (argc > 4) kill(getppid(), SIGSTOP);
  for (int i = 0; i < procs; i++)
    if (!fork()) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      for (int j = 0; j < n; j++) { syscall(SYS_getppid); if (j < calls) work(j); }
      _exit(0);
    }
  while (wait(0) > 0);
  if (argc > 4) kill(getppid(), SIGCONT);
}
"#;

/// The number behind a word at the start of a line.
pub fn number(text: &str, word: &str) -> i64 {
    let line = text.lines().find_map(|l| l.strip_prefix(word));
    line.and_then(|l| l.trim().parse().ok()).unwrap_or_else(|| panic!("no number after {word:?} in {text:?}"))
}

/// The sum of all counts of drops in messages.
pub fn drops(text: &str) -> i64 {
    text.lines()
        .filter(|l| l.contains("drop"))
        .filter_map(|l| l.split(": ").last()?.split(' ').next()?.parse::<i64>().ok())
        .sum()
}

/// The firings that the kernel did not run a program for because it was in it already, as a message says. From Linux 7 on, programs at
/// tracepoints can be preempted: other threads' firings on that CPU are then missed until the program goes on.
pub fn missed(err: &str) -> i64 {
    let lines = err.lines().filter(|l| l.contains("missed firing"));
    lines.filter_map(|l| l.split_whitespace().find_map(|w| w.parse::<i64>().ok())).sum()
}
