//! G2: what was not recorded is counted, by cause and CPU, in text and in JSON.

use crate::tools::{GETPPID, c_program, done, drops, number, permitted, probity, run};
use serde_json::Value;

#[test]
fn a_flood_is_accounted_for_to_the_last_record() {
    if !permitted() {
        return;
    }
    let program = c_program("flood", GETPPID, &["-O1"]);
    let d = "syscall::getppid:entry /ppid == $target/ { printf(\"x %d %s %s\\n\", pid, execname, probefunc); @f = count(); }
             END { printa(\"FIRED %@d\\n\", @f); }";
    let command = format!("{} 2 100000 0 stop", program.display());
    let run = run(&["-qn", d, "-b", "64k", "-c", &command]);
    let printed = run.out.lines().filter(|l| l.starts_with("x ")).count() as i64;
    assert!(run.out.lines().filter(|l| l.starts_with("x ")).all(|l| l.ends_with(" getppids getppid")));
    assert_eq!(number(&run.out, "FIRED "), 200_000, "{}", run.err);
    assert_eq!(printed + drops(&run.err), 200_000, "{}", run.err);
    assert!(drops(&run.err) > 0, "buffers of 64k must overflow, or this test shows nothing: {}", run.err);
    assert!(run.err.contains("on CPU "), "{}", run.err);
}

/// Runs with JSON output; returns the objects, and the sum of the drops of one cause.
fn json(d: &str, options: &[&str], cause: &str) -> (Vec<Value>, i64) {
    let mut args = vec!["--format", "json", "-n", d];
    args.extend(options);
    let run = done(probity(&args).output().expect("the command starts"));
    assert_eq!(run.status, 0, "{}{}", run.out, run.err);
    let objects: Vec<Value> = run.out.lines().map(|l| serde_json::from_str(l).expect(l)).collect();
    let count = |o: &Value| o["count"].as_i64().unwrap_or(0);
    let of_cause = |o: &&Value| o["type"] == "drops" && o["cause"] == cause;
    let sum = objects.iter().filter(of_cause).map(count).sum();
    assert!(objects.iter().filter(of_cause).all(|o| o["cpu"].is_number()), "drops name their CPU: {}", run.out);
    (objects, sum)
}

#[test]
fn data_drops_in_json() {
    if !permitted() {
        return;
    }
    let program = c_program("flood_json", GETPPID, &["-O1"]);
    let d = "syscall::getppid:entry /ppid == $target/ { trace(pid); @f = count(); }";
    let (objects, dropped) = json(d, &["-b", "16k", "-c", &format!("{} 2 100000 0 stop", program.display())], "data");
    let records = objects.iter().filter(|o| o["type"] == "record").count() as i64;
    assert!(dropped > 0);
    assert_eq!(records + dropped, 200_000);
}

#[test]
fn a_full_aggregation_counts_what_it_lost() {
    if !permitted() {
        return;
    }
    let program = c_program("full", GETPPID, &["-O1"]);
    // Keys that never come twice.
    let d = "syscall::getppid:entry /ppid == $target/ { @[n++] = count(); @f = count(); }";
    let (objects, dropped) =
        json(d, &["-x", "aggsize=16k", "-c", &format!("{} 2 20000", program.display())], "aggregation");
    let kept = objects
        .iter()
        .filter(|o| o["type"] == "aggregation")
        .flat_map(|o| o["entries"].as_array().cloned().unwrap_or_default())
        .filter(|e| e["key"].as_array().is_some_and(|k| !k.is_empty()))
        .map(|e| e["value"].as_i64().unwrap_or(0))
        .sum::<i64>();
    assert!(dropped > 0 && kept > 0, "{dropped} {kept}");
    assert_eq!(kept + dropped, 40_000);
}

#[test]
fn a_full_array_counts_what_it_lost() {
    if !permitted() {
        return;
    }
    let program = c_program("full_array", GETPPID, &["-O1"]);
    let d = "syscall::getppid:entry /ppid == $target/ { a[n++] = 1; }";
    let (_, dropped) = json(d, &["-x", "dynvarsize=16k", "-c", &format!("{} 1 20000", program.display())], "dynamic");
    assert!(dropped > 0 && dropped < 20_000, "{dropped}");
}

#[test]
fn a_full_control_ring_counts_what_it_lost() {
    if !permitted() {
        return;
    }
    let program = c_program("full_control", GETPPID, &["-O1"]);
    let d = "syscall::getppid:entry /ppid == $target/ { @ = count(); normalize(@, 1); }";
    let (_, dropped) = json(d, &["-c", &format!("{} 2 20000 0 stop", program.display())], "control");
    assert!(dropped > 0, "{dropped}");
}

#[test]
fn exit_is_not_lost_in_a_flood() {
    if !permitted() {
        return;
    }
    let program = c_program("flood_exit", GETPPID, &["-O1"]);
    let d = "syscall::getppid:entry /ppid == $target/ { printf(\"%d\\n\", pid); n++; }
             syscall::getppid:entry /n > 50000 && ppid == $target/ { exit(7); }";
    let from = std::time::Instant::now();
    let run = run(&["-qn", d, "-b", "64k", "-c", &format!("{} 2 20000000", program.display())]);
    assert_eq!(run.status, 7, "{}", run.err);
    // Far less than the load would take; no measure of speed.
    assert!(from.elapsed().as_secs() < 60);
}

#[test]
fn ticks_that_were_missed_are_counted() {
    if !permitted() {
        return;
    }
    // The tracer is stopped for far more ticks than it makes up for.
    let command = "sh -c 'kill -STOP $PPID; sleep 1; kill -CONT $PPID; sleep 0.1'";
    let run = run(&["-qn", "tick-2ms { @ = count(); } END { printa(\"N %@d\\n\", @); }", "-c", command]);
    assert!(run.err.contains("missed firing"), "{}{}", run.out, run.err);
    assert!(number(&run.out, "N ") > 0, "{}", run.out);
}

#[test]
fn errors_are_objects_too() {
    if !permitted() {
        return;
    }
    for (args, tag) in [
        (&["--format", "json", "-n", "BEGIN { trace(1 }"][..], "D_SYNTAX"),
        (&["--format", "json", "-n", "BEGIN", "-p", "4194303"][..], ""),
    ] {
        let run = run(args);
        assert_eq!((run.status, run.err.as_str()), (1, ""));
        let object: Value = serde_json::from_str(run.out.trim()).expect(&run.out);
        assert_eq!(object["type"], "error");
        assert!(tag.is_empty() || object["tag"] == tag && object["line"] == 1, "{object}");
    }
}
