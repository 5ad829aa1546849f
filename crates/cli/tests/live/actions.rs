//! Actions that the consumer or the kernel carries out: commands, other output files, options, signals, packets; and what the
//! options about buffers and rates mean.

use crate::tools::{answer, permitted, probity, run};
use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};

fn file(name: &str) -> PathBuf {
    let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("actions-{}", std::process::id()));
    std::fs::create_dir_all(&dir).expect("a directory");
    dir.join(name)
}

#[test]
fn commands_run_in_their_turn() {
    if !permitted() {
        return;
    }
    let d = "BEGIN { printf(\"a\\n\"); system(\"echo %s %d\", \"b\", 2); printf(\"c\\n\"); exit(0); }";
    assert_eq!(answer(&["-wqn", d]), "a\nb 2\nc\n");
    let refused = run(&["-qn", d]);
    assert_eq!(refused.status, 1);
    assert!(refused.out.is_empty() && refused.err.contains("-w") && refused.err.contains("system("), "{}", refused.err);
    // Compiling them is no harm.
    assert_eq!(run(&["-en", d]).status, 0);
}

#[test]
fn output_goes_elsewhere_and_comes_back() {
    if !permitted() {
        return;
    }
    let path = file("freopen.1");
    let _ = std::fs::remove_file(&path);
    let stem = path.display().to_string().trim_end_matches(".1").to_string();
    let d = format!(
        "BEGIN {{ printf(\"a\\n\"); freopen(\"{stem}.%d\", 1); printf(\"b\\n\"); freopen(\"\"); printf(\"c\\n\");
           freopen(\"%s\", \"/\"); printf(\"d\\n\"); freopen(\"{stem}.1\"); printf(\"e\\n\"); exit(0); }}"
    );
    let ran = run(&["-wqn", &d]);
    assert_eq!(ran.out, "a\nc\nd\n");
    assert!(ran.err.contains("couldn't freopen() \"/\": Is a directory"), "{}", ran.err);
    assert_eq!(std::fs::read_to_string(&path).expect("the file"), "b\ne\n");

    let cut = format!("BEGIN {{ freopen(\"{stem}.1\"); printf(\"f\\n\"); ftruncate(); printf(\"g\\n\"); exit(0); }}");
    answer(&["-wqn", &cut]);
    assert_eq!(std::fs::read_to_string(&path).expect("the file"), "g\n");
}

#[test]
fn options_are_set_while_tracing() {
    if !permitted() {
        return;
    }
    let d = "BEGIN { @a[1] = sum(1); @a[2] = sum(2); printa(\"%d \", @a); setopt(\"aggsortrev\"); printa(\"%d \", @a);
               setopt(\"bufsize\", \"1m\"); setopt(\"nonsense\"); setopt(\"quiet\", \"maybe\"); exit(0); }";
    let ran = run(&["-qn", d]);
    assert_eq!(ran.out, "1 2 2 1 ");
    // Names and values are the consumer's, however short strings are.
    let cut = run(&["-q", "-xstrsize=4", "-n", d]);
    assert_eq!((cut.out.as_str(), cut.err.as_str()), ("1 2 2 1 ", ran.err.as_str()));
    for why in [
        "\"bufsize\" to \"1m\": Operation illegal",
        "\"nonsense\" to \"1\": Invalid option name",
        "\"maybe\": Invalid value",
    ] {
        assert!(ran.err.contains(why), "{why}: {}", ran.err);
    }
}

#[test]
fn signals_reach_the_process_that_runs() {
    if !permitted() {
        return;
    }
    let d = "syscall::getppid:entry /pid == $target/ { raise(SIGUSR1); n++; } END { printf(\"%d\\n\", n); }";
    let ran = run(&["-wqn", d, "-c", "python3 -c \"import os; os.getppid(); os.getppid()\""]);
    // The first of them kills it: 128 and the signal's number.
    assert_eq!((ran.status, ran.out.as_str()), (138, "1\n"), "{}", ran.err);

    let mut sleeper = std::process::Command::new("/bin/sh")
        .args(["-c", "while :; do sleep 0.02; done"])
        .stdin(Stdio::null())
        .spawn()
        .expect("a shell starts");
    let stop = format!("syscall::clone*:entry, syscall::vfork:entry /pid == {}/ {{ stop(); exit(0); }}", sleeper.id());
    let ran = run(&["-wqn", &stop]);
    let deadline = Instant::now() + Duration::from_secs(5);
    let state = loop {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", sleeper.id())).expect("the process is there");
        let state = stat.rsplit(") ").next().and_then(|s| s.chars().next());
        if state == Some('T') || Instant::now() > deadline {
            break state;
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    let _ = sleeper.kill();
    let _ = sleeper.wait();
    assert_eq!((ran.status, state), (0, Some('T')), "{}", ran.err);
}

#[test]
fn what_cannot_be_done_says_why() {
    if !permitted() {
        return;
    }
    for (d, why) in [
        ("BEGIN { panic(); }", "no BPF program stop the kernel"),
        ("BEGIN { breakpoint(); }", "no BPF program stop the kernel"),
        ("BEGIN { return(1); }", "return() not allowed for dtrace:::BEGIN"),
        ("BEGIN { raise(99); }", "there is no signal 99"),
        ("BEGIN { chill(600000000); }", "half a second"),
        ("BEGIN { freopen(\".\"); }", "directory"),
    ] {
        let ran = run(&["-wqn", d]);
        assert!(ran.status == 1 && ran.err.contains(why), "{d}: {}", ran.err);
    }
    let anonymous = run(&["-A", "-n", "BEGIN"]);
    assert!(anonymous.status != 0 && anonymous.err.contains("anonymous"), "{}", anonymous.err);
}

#[test]
fn a_program_waits() {
    if !permitted() {
        return;
    }
    let d = "BEGIN { t = timestamp; chill(20000000); } tick-1ms { printf(\"%d\\n\", timestamp - t); exit(0); }";
    let waited: i64 = answer(&["-wqn", d]).trim().parse().expect("a number");
    assert!(waited >= 20_000_000, "{waited}");
    let long = run(&["-wqn", "BEGIN { x = 600000000; chill(x); } BEGIN { exit(0); }"]);
    assert!(long.err.contains("illegal operation"), "{}", long.err);
}

#[test]
fn packets_are_in_pcap_files() {
    if !permitted() {
        return;
    }
    let path = file("packets");
    let _ = std::fs::remove_file(&path);
    let d = format!(
        "rawtp:net::net_dev_queue /pid == $target/ {{ freopen(\"{}\"); pcap((struct sk_buff *)arg0, PCAP_ETHER); freopen(\"\"); n++; }}
         END {{ printf(\"%d\\n\", n); }}",
        path.display()
    );
    let send = "python3 -c \"import socket; s=socket.socket(socket.AF_INET,socket.SOCK_DGRAM); s.sendto(b'probity'*200,('127.0.0.1',9))\"";
    let out = answer(&["-wqn", &d, "-x", "pcapsize=96", "-c", send]);
    let count: usize = out.trim().parse().expect("a number");
    assert!(count >= 1, "{out}");
    let bytes = std::fs::read(&path).expect("the file");
    let word = |at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
    assert_eq!((word(0), word(16), word(20)), (0xa1b2_3c4d, 96, 1));
    let (mut at, mut found, mut seen) = (24, 0, false);
    while at < bytes.len() {
        let (have, whole) = (word(at + 8) as usize, word(at + 12));
        assert!(have <= 96);
        // Ethernet, IP and UDP in front of what was sent.
        seen |= whole == 14 + 20 + 8 + 1400 && bytes[at + 16 + 42..].starts_with(b"probity");
        at += 16 + have;
        found += 1;
    }
    assert!(found == count && seen && at == bytes.len(), "{found} of {count}, {seen}");
}

#[test]
fn buffers_end_or_keep_the_newest() {
    if !permitted() {
        return;
    }
    let d = "int i; tick-2ms { printf(\"%d\\n\", i++); } tick-2ms /i >= 2000/ { exit(1); }";
    let fill = run(&["-qn", d, "-x", "bufpolicy=fill", "-b", "64"]);
    assert_eq!((fill.status, fill.out.as_str()), (0, "0\n1\n2\n3\n4\n5\n6\n7\n"), "{}", fill.err);
    let d = "int i; tick-2ms { printf(\"%d\\n\", i++); } tick-2ms /i == 50/ { exit(0); }";
    let ring = run(&["-qn", d, "-x", "bufpolicy=ring", "-b", "40"]);
    assert_eq!((ring.status, ring.out.as_str()), (0, "46\n47\n48\n49\n"), "{}", ring.err);
    let bad = run(&["-qn", d, "-x", "bufpolicy=other"]);
    assert!(bad.status == 1 && bad.err.contains("bufpolicy"), "{}", bad.err);
}

#[test]
fn one_cpu_alone() {
    if !permitted() {
        return;
    }
    let cpus = probity::kernel::cpu::online().expect("CPUs are listed");
    let cpu = *cpus.last().expect("there is one");
    let d = "BEGIN, END { @[cpu] = count(); } tick-10ms { @[cpu] = count(); } profile-997 { @[cpu] = count(); }
             tick-200ms { exit(0); } END { printa(\"%d\\n\", @); }";
    let out = answer(&["-qn", d, "-x", &format!("cpu={cpu}")]);
    assert_eq!(out, format!("{cpu}\n"));
    let none = run(&["-qn", d, "-x", "cpu=99999"]);
    assert!(none.status == 1 && none.err.contains("no CPU 99999"), "{}", none.err);
}

#[test]
fn slow_rates_are_kept() {
    if !permitted() {
        return;
    }
    let start = Instant::now();
    answer(&["-qn", "BEGIN { exit(0); }", "-x", "switchrate=1500ms"]);
    let slow = start.elapsed();
    let start = Instant::now();
    let mut quick = probity(&["-qn", "BEGIN { exit(0); }"]);
    assert!(quick.status().expect("it runs").success());
    assert!(slow >= Duration::from_millis(1500) && start.elapsed() < slow, "{slow:?}");
}

/// What is not UTF-8 is written as it is, by printf() and to a shell.
#[test]
fn formats_are_bytes() {
    if !permitted() {
        return;
    }
    let d = r#"BEGIN { printf("\xc0\xa8 \377 %s\n", "\xe9"); system("printf '\xc0\xff' | od -An -tx1"); exit(0); }"#;
    let out = crate::tools::probity(&["-wqn", d]).output().unwrap().stdout;
    assert!(out.starts_with(b"\xc0\xa8 \xff \xe9\n"), "{}", out.escape_ascii());
    assert!(out.escape_ascii().to_string().contains("c0 ff"), "{}", out.escape_ascii());
}
