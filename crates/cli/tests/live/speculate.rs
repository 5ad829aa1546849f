//! Speculation across CPUs under load: every record is committed, discarded or counted as dropped.

use crate::tools::{GETPPID, c_program, missed, number, permitted, run};

/// The sum of the counts in lines on standard error that have `words`.
fn dropped(err: &str, words: &str) -> i64 {
    let lines = err.lines().filter(|l| l.contains(words) && !l.contains("note:"));
    lines.filter_map(|l| l.split_whitespace().find_map(|w| w.parse::<i64>().ok())).sum()
}

fn lines(out: &str, text: &str) -> i64 {
    out.lines().filter(|l| *l == text).count() as i64
}

#[test]
fn what_fits_is_committed_and_the_rest_is_counted() {
    if !permitted() {
        return;
    }
    let program = c_program("spec-full", GETPPID, &["-O1"]);
    let d = "int n; BEGIN { spec = speculation(); }
             syscall::getppid:entry /ppid == $target/ { speculate(spec); printf(\"S\\n\"); }
             END { commit(spec); }";
    let command = format!("{} 4 10000", program.display());
    let run = run(&["-qn", d, "-x", "specsize=160k", "-b", "16m", "-c", &command]);
    assert_eq!(run.status, 0, "{}", run.err);
    let (kept, lost) = (lines(&run.out, "S"), dropped(&run.err, "speculative drop"));
    // A record is its header of 16 bytes.
    assert_eq!((kept, lost), (160 * 1024 / 16, 40_000 - 160 * 1024 / 16), "{}", run.err);
}

#[test]
fn commits_overtake_nothing() {
    if !permitted() {
        return;
    }
    let program = c_program("spec-race", GETPPID, &["-O1"]);
    // Records of all CPUs race with a commit and a new speculation of the same id each millisecond.
    let d = "int64_t n; int64_t turns; BEGIN { spec = speculation(); }
             syscall::getppid:entry /ppid == $target/ { speculate(spec); n++; printf(\"S\\n\"); }
             tick-1ms { commit(spec); }
             tick-1ms { spec = speculation(); turns++; }
             END { commit(spec); }
             END { printf(\"N %d\\nT %d\\n\", n, turns); }";
    let command = format!("{} 4 20000", program.display());
    let run = run(&["-qn", d, "-x", "specsize=64m", "-b", "64m", "-c", &command]);
    assert_eq!(run.status, 0, "{}", run.err);
    assert_eq!(dropped(&run.err, "drop"), 0, "{}", run.err);
    assert_eq!(lines(&run.out, "S"), number(&run.out, "N "), "{}", run.err);
    assert!(number(&run.out, "T ") > 0 && number(&run.out, "N ") > 1000, "{}", run.err);
}

#[test]
fn each_thread_its_own() {
    if !permitted() {
        return;
    }
    let program = c_program("spec-own", GETPPID, &["-O1"]);
    let d = "int64_t c; int64_t d; int64_t none;
             syscall::getppid:entry /ppid == $target/ { self->spec = speculation(); self->n++; }
             syscall::getppid:entry /ppid == $target && !self->spec/ { none++; }
             syscall::getppid:entry /self->spec/ { speculate(self->spec); printf(\"E\\n\"); }
             syscall::getppid:return /self->spec/ { speculate(self->spec); printf(\"R\\n\"); }
             syscall::getppid:return /self->spec && self->n % 3 == 0/ { commit(self->spec); c++; self->spec = 0; }
             syscall::getppid:return /self->spec/ { discard(self->spec); d++; self->spec = 0; }
             END { printf(\"C %d\\nD %d\\nNONE %d\\n\", c, d, none); }";
    let command = format!("{} 4 9000", program.display());
    let run = run(&["-qn", d, "-x", "nspec=3", "-b", "64m", "-c", &command]);
    assert_eq!(run.status, 0, "{}", run.err);
    let (c, d, none) = (number(&run.out, "C "), number(&run.out, "D "), number(&run.out, "NONE "));
    let missed = missed(&run.err);
    assert!((0..=missed).contains(&(36_000 - c - d - none)), "{}{}", run.out, run.err);
    if missed > 0 {
        return; // A thread whose firing was missed keeps its speculation from the others, or writes half of it.
    }
    assert_eq!(dropped(&run.err, "failed speculation"), none, "{}", run.err);
    assert_eq!((lines(&run.out, "E"), lines(&run.out, "R")), (c, c), "{}", run.err);
}

#[test]
fn ids_and_mistakes() {
    if !permitted() {
        return;
    }
    let d = "BEGIN { a = speculation(); b = speculation(); c = speculation(); printf(\"%d %d %d\\n\", a, b, c); }
             BEGIN { speculate(b); printf(\"b\\n\"); } BEGIN { speculate(a); printf(\"a\\n\"); }
             BEGIN { speculate(7); printf(\"never\\n\"); } BEGIN { discard(a); commit(b); commit(b); }
             BEGIN { d = speculation(); printf(\"%d\\n\", d); } BEGIN { commit(9); } BEGIN { exit(0); }";
    let run = run(&["-qn", d, "-x", "nspec=2"]);
    assert_eq!(run.out, "1 2 0\nb\n1\n");
    assert_eq!(dropped(&run.err, "failed speculation"), 1, "{}", run.err);
    assert!(run.err.contains("illegal operation"), "{}", run.err);
}
