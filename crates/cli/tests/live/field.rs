//! Reports by users of other tools about output, exit and messages (`shared/FIELD.md`, part E; the numbers are its). Others of its reports
//! stand where their subject does.

use crate::tools::{answer, c_program, permitted, probity, run};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::time::{Duration, Instant};

/// R64: quotes, control characters, bytes that are no UTF-8, and empty strings, each back as the bytes they were.
#[test]
fn json_loses_no_byte() {
    if !permitted() {
        return;
    }
    let bytes = |v: &Value| -> Vec<u8> {
        match v {
            Value::String(s) => s.as_bytes().to_vec(),
            Value::Object(o) => {
                let hex = o["bytes"].as_str().expect("bytes in hexadecimal");
                (0..hex.len()).step_by(2).map(|i| u8::from_str_radix(&hex[i..i + 2], 16).expect(hex)).collect()
            }
            v => panic!("{v} is no string"),
        }
    };
    let cases: [(&str, &[u8]); 5] = [
        (r#"a\"b\\c"#, b"a\"b\\c"),
        (r"\001\t\n\177", b"\x01\t\n\x7f"),
        (r"h\303\251", "hé".as_bytes()),
        (r"\377\200", b"\xff\x80"),
        ("", b""),
    ];
    for (written, want) in cases {
        let d = format!("BEGIN {{ trace(\"{written}\"); @[\"{written}\"] = count(); exit(0); }}");
        let out = answer(&["--format", "json", "-n", &d]);
        let objects: Vec<Value> = out.lines().map(|l| serde_json::from_str(l).expect(l)).collect();
        let of = |t: &str| objects.iter().find(|o| o["type"] == t).unwrap_or_else(|| panic!("no {t} in {out}"));
        assert_eq!(bytes(&of("record")["items"][0]["value"]), want, "{out}");
        assert_eq!(bytes(&of("aggregation")["entries"][0]["key"][0]), want, "{out}");
    }
}

/// R63: a line is out soon after it happened though standard output is a pipe.
#[test]
fn a_line_comes_when_it_happens() {
    if !permitted() {
        return;
    }
    let mut child = probity(&["-qn", "tick-200ms { printf(\"%d\\n\", walltimestamp); } tick-3s { exit(0); }"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("the command starts");
    let mut latest = Duration::ZERO;
    let mut lines = 0;
    for line in BufReader::new(child.stdout.take().expect("a pipe")).lines() {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("a clock");
        let line = line.expect("text");
        let Ok(then) = line.parse::<u64>() else { continue };
        latest = latest.max(now.saturating_sub(Duration::from_nanos(then)));
        lines += 1;
    }
    assert!(child.wait().expect("it ends").success());
    assert!(lines >= 10, "{lines} lines");
    // The default switchrate is a second.
    assert!(latest < Duration::from_secs(1), "the latest line was {latest:?} late");
}

/// R65: many keys and a flood of events do not make it deaf: `exit()` ends it, and the answer is printed in seconds.
#[test]
fn many_keys_end_in_seconds() {
    if !permitted() {
        return;
    }
    let program = c_program(
        "keys",
        "#include <sys/syscall.h>\n#include <unistd.h>\nint main(void) { for (long i = 0; i < 300000; i++) syscall(SYS_getpriority, i); }",
        &["-O1"],
    );
    let start = Instant::now();
    let d = "syscall::getpriority:entry /pid == $target/ { @[arg0] = count(); }";
    let r = run(&["-q", "-x", "aggsize=256m", "-c", program.to_str().expect("a path"), "-n", d]);
    assert_eq!(r.status, 0, "{}", r.err);
    assert_eq!(r.out.lines().filter(|l| !l.trim().is_empty()).count(), 300_000, "{}", r.err);
    assert!(start.elapsed() < Duration::from_secs(60), "{:?}", start.elapsed());
}

/// R66: a message names cause and remedy; nothing else is printed on a healthy machine.
#[test]
fn a_healthy_machine_gets_no_warnings() {
    if !permitted() {
        return;
    }
    let r = run(&["-qn", "BEGIN { printf(\"hello\\n\"); exit(0); }"]);
    assert_eq!((r.status, r.out.as_str(), r.err.as_str()), (0, "hello\n", ""));
}

/// R69: the kernel keeps 15 bytes of a process's name; one that fills them is marked, because it may be cut.
#[test]
fn long_names_are_marked() {
    if !permitted() {
        return;
    }
    let program = c_program(
        "averyverylongprogramname",
        "#include <sys/syscall.h>\n#include <unistd.h>\nint main(void) { syscall(SYS_getpriority, 7); }",
        &[],
    );
    let d = "syscall::getpriority:entry /pid == $target/ { printf(\"<%s>\\n\", execname); }";
    let r = run(&["-q", "-c", program.to_str().expect("a path"), "-n", d]);
    assert_eq!(r.out.trim(), "<averyverylongpr…>", "{}", r.err);
}
