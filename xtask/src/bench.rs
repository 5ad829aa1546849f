//! `cargo xtask bench`: what asking costs, as ratios in one run: to the distribution's bpftrace where it is found, and to the same
//! questions written by hand in BPF C (`xtask/bench/`), compiled with clang and loaded with libbpf.
//!
//! Machines are noisy, so contenders take turns and medians (of start-up) or minima (of cost per event) are compared.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Instant;

/// Turns of each start-up measurement.
const TURNS: usize = 20;
/// Turns of each cost measurement; each takes the best of many rounds itself.
const COST_TURNS: usize = 8;
/// What measured commands are put before, so that whatever else uses the machine disturbs them less.
const PREFERRED: [&str; 3] = ["nice", "-n", "-5"];

struct Bench {
    probity: PathBuf,
    /// The peers' root, if they are here (`../shared/peers/setup`).
    peers: Option<PathBuf>,
    dir: PathBuf,
}

/// Builds and runs all benches, or those whose names are given.
pub fn run(root: &Path, only: &[String]) -> bool {
    let built = Command::new("cargo").args(["build", "--release", "-q"]).current_dir(root).status();
    if !built.is_ok_and(|s| s.success()) {
        eprintln!("bench: the release build fails");
        return false;
    }
    let home = std::env::var("HOME").unwrap_or_default();
    let peers = std::env::var("PEERS").map_or_else(|_| PathBuf::from(home).join(".cache/probity-peers"), PathBuf::from);
    let target = std::env::var("CARGO_TARGET_DIR").map_or_else(|_| root.join("target"), PathBuf::from);
    // Below /tmp, because the peers' root shares it.
    let dir = PathBuf::from(format!("/tmp/probity-bench.{}", std::process::id()));
    let bench = Bench {
        probity: target.join("release/probity"),
        peers: peers.join("usr/bin/bpftrace").exists().then_some(peers),
        dir: dir.clone(),
    };
    let wanted = |name: &str| only.is_empty() || only.iter().any(|o| o == name);
    if let Err(e) = fs::create_dir_all(&dir) {
        eprintln!("bench: {}: {e}", dir.display());
        return false;
    }
    let mut ok = true;
    if wanted("size") {
        ok &= bench.size();
    }
    if wanted("start") {
        ok &= bench.start();
    }
    if wanted("attach") {
        ok &= bench.attach();
    }
    if wanted("event") {
        ok &= bench.event(root);
    }
    let _ = fs::remove_dir_all(&dir);
    ok
}

impl Bench {
    fn size(&self) -> bool {
        let bytes = fs::metadata(&self.probity).map_or(0, |m| m.len());
        let ldd = Command::new("ldd").arg(&self.probity).output().map(|o| text(&o)).unwrap_or_default();
        let libraries = ldd.lines().filter(|l| l.contains("=>")).count();
        println!("size      {bytes} bytes, {libraries} shared libraries");
        bytes > 0 && libraries == 0
    }

    fn start(&self) -> bool {
        let ours = || timed(self.ours(&["-qn", "BEGIN { exit(0); }"]));
        let theirs = || self.bpftrace(&["-e", "BEGIN { exit(); }"]).map(timed);
        let (mut a, mut b) = (Vec::new(), Vec::new());
        for turn in 0..TURNS {
            a.push(ours());
            if turn % 4 == 0 {
                b.extend(theirs());
            }
        }
        report("start", "BEGIN { exit(0); }", &mut a, &mut b);
        println!("          peak RSS {} MB", self.peak_rss());
        true
    }

    fn attach(&self) -> bool {
        let mut a: Vec<_> = (0..TURNS)
            .map(|_| timed(self.ours(&["-qn", "syscall:::entry { @[probefunc] = count(); } BEGIN { exit(0); }"])))
            .collect();
        let program = "tracepoint:syscalls:sys_enter_* { @[probe] = count(); } BEGIN { exit(); }";
        let mut b: Vec<_> = self.bpftrace(&["-e", program]).map(timed).into_iter().collect();
        report("attach", "syscall:::entry, start to end", &mut a, &mut b);
        let pid = ["-qn", "pid$target:libc.so.6::entry { @ = count(); } BEGIN { exit(0); }", "-c", "sleep 9"];
        let mut a: Vec<_> = (0..TURNS).map(|_| timed(self.ours(&pid))).collect();
        let program = "uprobe:/lib/x86_64-linux-gnu/libc.so.6:* { @ = count(); } BEGIN { exit(); }";
        let mut b: Vec<_> = self.bpftrace(&["-e", program]).map(timed).into_iter().collect();
        report("attach", "pid$target:libc.so.6::entry, start to end", &mut a, &mut b);
        true
    }

    fn event(&self, root: &Path) -> bool {
        let source = root.join("xtask/bench");
        let at = |name: &str| self.dir.join(name).display().to_string();
        let from = |name: &str| source.join(name).display().to_string();
        let built = sh("gcc", &["-O2", "-o", &at("work"), &from("work.c")])
            && sh("gcc", &["-O2", "-o", &at("hand"), &from("hand.c"), "-lbpf"])
            && sh(
                "clang",
                &[
                    "-O2",
                    "-g",
                    "-target",
                    "bpf",
                    "-D__TARGET_ARCH_x86",
                    "-I/usr/include/x86_64-linux-gnu",
                    "-c",
                    &from("hand.bpf.c"),
                    "-o",
                    &at("hand.o"),
                ],
            );
        if !built {
            eprintln!("bench: events need gcc, clang and libbpf-dev (apt)");
            return false;
        }
        let work = at("work");
        let questions = [
            (
                "count",
                "getppid 20000 60",
                "syscall:::entry { @[execname] = count(); }".to_string(),
                "tracepoint:raw_syscalls:sys_enter { @[comm] = count(); }".to_string(),
            ),
            (
                "read",
                "read 10000 60",
                "syscall::read:entry { self->t = timestamp; } syscall::read:return /self->t/ \
                 { @ = quantize(timestamp - self->t); self->t = 0; }"
                    .to_string(),
                "tracepoint:syscalls:sys_enter_read { @t[tid] = nsecs; } tracepoint:syscalls:sys_exit_read /@t[tid]/ \
                 { @ = hist(nsecs - @t[tid]); delete(@t[tid]); }"
                    .to_string(),
            ),
            (
                "call",
                "call 500 60",
                format!("uprobe:{work}:target:entry {{ @ = count(); }}"),
                format!("uprobe:{work}:target {{ @ = count(); }}"),
            ),
        ];
        for (name, load, d, bt) in &questions {
            let command = format!("{work} {load}");
            let mut best = [f64::MAX; 4];
            for _ in 0..COST_TURNS {
                let words: Vec<&str> = load.split(' ').collect();
                let plain = preferred(&work).args(&words).output();
                let hand = preferred(&at("hand")).args([&at("hand.o"), *name, &work, &work]).args(&words).output();
                let probity = self.probity.display().to_string();
                let ours = preferred(&probity).args(["-qn", d, "-c", &command]).stdin(Stdio::null()).output();
                let theirs = self.peers.as_ref().map(|peers| {
                    let root = peers.display().to_string();
                    preferred("chroot").args([&root, "bpftrace", "-e", bt, "-c", &command]).output()
                });
                for (slot, output) in [Some(plain), Some(hand), Some(ours), theirs].into_iter().enumerate() {
                    if let Some(ns) = output.and_then(Result::ok).and_then(|o| ns_of(&o)) {
                        best[slot] = best[slot].min(ns);
                    }
                }
            }
            let [plain, hand, ours, theirs] = best;
            let cost = |traced: f64| traced - plain;
            println!(
                "event     {name:6} plain {plain:.0} ns; cost by hand {:.0} ns, probity {:.0} ns (ratio {:.2}), bpftrace {}",
                cost(hand),
                cost(ours),
                cost(ours) / cost(hand),
                match theirs {
                    f64::MAX => "-".to_string(),
                    t => format!("{:.0} ns (ratio {:.2})", cost(t), cost(ours) / cost(t)),
                }
            );
        }
        true
    }

    fn ours(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.probity);
        command.args(args).stdin(Stdio::null());
        command
    }

    fn bpftrace(&self, args: &[&str]) -> Option<Command> {
        let mut command = Command::new("chroot");
        command.arg(self.peers.as_ref()?).arg("bpftrace").args(args).stdin(Stdio::null());
        Some(command)
    }

    fn peak_rss(&self) -> String {
        let script = "import os,sys\n\
                      p=os.fork()\n\
                      if p==0:\n d=os.open(os.devnull,os.O_WRONLY); os.dup2(d,1); os.execv(sys.argv[1],[sys.argv[1],'-qn','BEGIN { exit(0); }'])\n\
                      print(os.wait4(p,0)[2].ru_maxrss/1024)";
        let output = Command::new("python3").args(["-c", script]).arg(&self.probity).output();
        output.map_or_else(|_| "?".into(), |o| text(&o).trim().to_string())
    }
}

/// Milliseconds that a command takes; a failure is said.
fn timed(mut command: Command) -> f64 {
    let from = Instant::now();
    let output = command.output();
    let took = from.elapsed().as_secs_f64() * 1e3;
    match output {
        Ok(o) if o.status.success() => {}
        Ok(o) => eprintln!("bench: {command:?} fails: {}", String::from_utf8_lossy(&o.stderr)),
        Err(e) => eprintln!("bench: {command:?}: {e}"),
    }
    took
}

fn report(name: &str, what: &str, ours: &mut [f64], theirs: &mut [f64]) {
    let a = median(ours);
    let peer = match theirs.is_empty() {
        true => "-".to_string(),
        false => format!("{:.1} ms (ratio {:.3})", median(theirs), a / median(theirs)),
    };
    println!("{name:9} {what}: {a:.1} ms; bpftrace {peer}");
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// A command that is measured.
fn preferred(program: &str) -> Command {
    let mut command = Command::new(PREFERRED[0]);
    command.args(&PREFERRED[1..]).arg(program).stdin(Stdio::null());
    command
}

fn sh(program: &str, args: &[&str]) -> bool {
    Command::new(program).args(args).status().is_ok_and(|s| s.success())
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The load's own measurement: `ns 123.4` on its standard error.
fn ns_of(output: &Output) -> Option<f64> {
    let all = [&output.stderr[..], &output.stdout[..]].concat();
    String::from_utf8_lossy(&all).lines().rev().find_map(|l| l.strip_prefix("ns ")?.trim().parse().ok())
}
