//! G1: after `kill -9` at any moment nothing of ours is left in the kernel.

use crate::tools::{permitted, probity};
use probity::kernel::sys;
use std::collections::BTreeSet;
use std::process::Stdio;
use std::time::{Duration, Instant};

/// The programs and maps that a process holds, from the notes that the kernel keeps for each descriptor.
fn held(pid: u32) -> (BTreeSet<u32>, BTreeSet<u32>) {
    let (mut progs, mut maps) = (BTreeSet::new(), BTreeSet::new());
    for entry in std::fs::read_dir(format!("/proc/{pid}/fdinfo")).into_iter().flatten().flatten() {
        let text = std::fs::read_to_string(entry.path()).unwrap_or_default();
        let id = |key: &str| text.lines().find_map(|l| l.strip_prefix(key)?.trim().parse::<u32>().ok());
        progs.extend(id("prog_id:"));
        maps.extend(id("map_id:"));
    }
    (progs, maps)
}

/// The first bytes of malloc in a process.
fn malloc_text(pid: u32) -> Vec<u8> {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).expect("a target's map");
    let line = maps.lines().find(|l| l.contains("libc.so.6") && l.contains("r-xp")).expect("libc is mapped");
    let range = line.split(' ').next().and_then(|r| r.split_once('-')).expect("a range");
    let (from, to) = (u64::from_str_radix(range.0, 16), u64::from_str_radix(range.1, 16));
    let (from, to) = (from.expect("hex"), to.expect("hex"));
    let mut text = vec![0; (to - from) as usize];
    probity::kernel::System::live().read_memory(pid, from, &mut text).expect("libc's text is readable");
    text
}

#[test]
fn after_kill_9() {
    if !permitted() {
        return;
    }
    let mut target = std::process::Command::new("sleep").arg("60").spawn().expect("a target");
    std::thread::sleep(Duration::from_millis(50));
    let before = malloc_text(target.id());
    let d = "uprobe:libc.so.6:malloc:entry { @[execname] = count(); } syscall:::entry { @s = count(); }
             profile-97 { @p[cpu] = count(); } self int x; uprobe:libc.so.6:free:return { self->x = 1; }";
    let (mut progs, mut maps) = (BTreeSet::new(), BTreeSet::new());
    for turn in 0..16 {
        let mut tracer = probity(&["-qn", d]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("a tracer");
        // Half of the moments are anywhere, half are after it has programs, whatever the machine's speed.
        let deadline = Instant::now() + Duration::from_secs(20);
        while turn % 2 == 1 && held(tracer.id()).0.is_empty() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_millis(3 * turn));
        let (p, m) = held(tracer.id());
        progs.extend(p);
        maps.extend(m);
        tracer.kill().expect("SIGKILL is delivered");
        tracer.wait().expect("the tracer is reaped");
    }
    assert!(!progs.is_empty() && !maps.is_empty(), "no run got as far as having programs");
    // The kernel frees after grace periods of several kinds.
    let deadline = Instant::now() + Duration::from_secs(20);
    let left = || {
        let alive_p: BTreeSet<u32> = sys::prog_ids().into_iter().collect();
        let alive_m: BTreeSet<u32> = sys::map_ids().into_iter().collect();
        (progs.intersection(&alive_p).count(), maps.intersection(&alive_m).count())
    };
    while left() != (0, 0) && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(left(), (0, 0), "programs and maps left");
    let after = malloc_text(target.id());
    target.kill().expect("the target is ours");
    target.wait().expect("the target is reaped");
    let changed = before.iter().zip(&after).filter(|(a, b)| a != b).count();
    // Other tests may trace libc at the same time; their breakpoints are int3 and go away with them.
    let breakpoints = before.iter().zip(&after).filter(|(a, b)| a != b && **b == 0xcc).count();
    assert_eq!(changed, breakpoints, "the target's text was changed");
    for file in ["uprobe_events", "kprobe_events"] {
        if let Ok(events) = std::fs::read_to_string(format!("/sys/kernel/tracing/{file}")) {
            assert!(!events.contains("probity"), "{file}: {events}");
        }
    }
}
