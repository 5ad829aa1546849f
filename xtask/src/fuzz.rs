//! `cargo xtask fuzz [TARGET…] [--seconds N]`: builds the fuzz targets, runs each alone for a while, and reports a table.
//!
//! Owns how they are run: seeds, limits, what counts as a finding. What they do is theirs (`fuzz/targets`). Inputs that
//! were worth keeping stay in `fuzz/corpus`, so that the next run goes on where this one ended; an input that found
//! something is in `fuzz/artifacts/TARGET` and is named in the table.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A target and what its inputs look like.
struct Target {
    name: &'static str,
    /// Longest input in bytes: where the reader's work grows with it, long ones only make it slow.
    max_len: u32,
    /// Words that the fuzzer should know, a file in `fuzz/dict`.
    dict: Option<&'static str>,
}

const fn target(name: &'static str, max_len: u32, dict: Option<&'static str>) -> Target {
    Target { name, max_len, dict }
}

const TARGETS: &[Target] = &[
    target("bpf", 4096, None),
    target("btf", 65536, None),
    target("compile", 4096, Some("d")),
    target("ctype", 4096, Some("text")),
    target("elf", 65536, None),
    target("dwarf", 65536, None),
    target("ir_text", 16384, Some("ir")),
    target("kallsyms", 8192, Some("text")),
    target("kernel", 4096, Some("text")),
    target("ldcache", 4096, None),
    target("output", 4096, None),
    target("proc_maps", 4096, Some("text")),
    target("stapsdt", 65536, None),
    target("syntax", 16384, Some("d")),
    target("tracefs_format", 8192, Some("text")),
    target("unwind_table", 65536, None),
    target("x86_len", 4096, None),
];

/// Seconds for each target where the command line does not say.
const SECONDS: u32 = 600;
/// A single input that takes longer is a finding.
const TIMEOUT_SECONDS: u32 = 10;
/// A process that grows beyond this is a finding.
const MEMORY_MB: u32 = 2048;

const USAGE: &str = "usage: cargo xtask fuzz [TARGET…] [--seconds N]";

/// One line of the table.
struct Outcome {
    name: &'static str,
    executions: String,
    edges: String,
    seconds: u64,
    findings: Vec<PathBuf>,
    /// Why it did not run to its end, if not because of a finding.
    trouble: Option<String>,
}

/// Runs the targets named in `args`, or all; true if none found anything.
pub fn run(root: &Path, args: &[String]) -> bool {
    let (chosen, seconds) = match choose(args) {
        Ok(chosen) => chosen,
        Err(why) => {
            eprintln!("{why}\n{USAGE}\ntargets: {}", TARGETS.iter().map(|t| t.name).collect::<Vec<_>>().join(" "));
            return false;
        }
    };
    let dir = root.join("fuzz");
    if !build(root, &chosen) {
        return false;
    }
    let mut outcomes = Vec::new();
    for (n, target) in chosen.iter().enumerate() {
        eprintln!("== {} ({} of {}, {seconds} s)", target.name, n + 1, chosen.len());
        let outcome = seed(root, target.name).and_then(|()| fuzz(&dir, target, seconds));
        outcomes.push(outcome.unwrap_or_else(|error| Outcome {
            name: target.name,
            executions: "-".into(),
            edges: "-".into(),
            seconds: 0,
            findings: Vec::new(),
            trouble: Some(error.to_string()),
        }));
    }
    report(root, &outcomes)
}

fn choose(args: &[String]) -> Result<(Vec<&'static Target>, u32), String> {
    let mut seconds = SECONDS;
    let mut chosen = Vec::new();
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        if arg == "--seconds" {
            let number = args.next().and_then(|n| n.parse().ok()).filter(|&n| n > 0);
            seconds = number.ok_or("--seconds takes a number of seconds")?;
        } else {
            let known = TARGETS.iter().find(|t| t.name == arg);
            chosen.push(known.ok_or_else(|| format!("there is no fuzz target {arg}"))?);
        }
    }
    if chosen.is_empty() {
        chosen.extend(TARGETS);
    }
    Ok((chosen, seconds))
}

/// Builds by cargo-fuzz, which knows the compiler's flags for coverage.
///
/// Without a sanitizer: the code under test is safe Rust, in which a stray access is a panic already, and so the stable
/// compiler does. Arithmetic overflow panics in these builds.
fn build(root: &Path, chosen: &[&Target]) -> bool {
    let there = Command::new("cargo").args(["fuzz", "--version"]).output().is_ok_and(|o| o.status.success());
    if !there {
        eprintln!(
            "cargo-fuzz is missing: cargo install cargo-fuzz --locked\n(it builds libFuzzer, with a C++ compiler)"
        );
        return false;
    }
    let mut command = Command::new("cargo");
    command.args(["fuzz", "build", "--sanitizer", "none", "--target-dir", "fuzz/target"]).current_dir(root);
    if let [one] = chosen {
        command.arg(one.name);
    }
    let built = command.status().is_ok_and(|status| status.success());
    if !built {
        eprintln!("the fuzz targets do not build; libFuzzer needs a C++ compiler (c++, such as Debian's g++)");
    }
    built
}

fn binary(dir: &Path, name: &str) -> PathBuf {
    let triple = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    dir.join("target").join(triple).join("release").join(name)
}

fn fuzz(dir: &Path, target: &Target, seconds: u32) -> std::io::Result<Outcome> {
    let at = |kind: &str| dir.join(kind).join(target.name);
    for kind in ["corpus", "artifacts", "machine", "seeds"] {
        fs::create_dir_all(at(kind))?;
    }
    let before = files(&at("artifacts"));
    let log_path = at("artifacts").with_extension("log");
    let log = File::create(&log_path)?;
    let mut command = Command::new(binary(dir, target.name));
    command.args([at("corpus"), at("seeds"), at("machine")]).current_dir(dir);
    command.args([
        "-fork=0".into(),
        "-print_final_stats=1".into(),
        format!("-max_total_time={seconds}"),
        format!("-timeout={TIMEOUT_SECONDS}"),
        format!("-rss_limit_mb={MEMORY_MB}"),
        format!("-max_len={}", target.max_len),
        format!("-artifact_prefix={}/", at("artifacts").display()),
    ]);
    command.args(target.dict.map(|dict| format!("-dict={}", dir.join(format!("dict/{dict}.dict")).display())));
    command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
    let begin = std::time::Instant::now();
    let status = command.status()?;
    let text = String::from_utf8_lossy(&fs::read(&log_path)?).into_owned();
    let findings: Vec<PathBuf> = files(&at("artifacts")).difference(&before).cloned().collect();
    let trouble = (!status.success() && findings.is_empty()).then(|| format!("{status}, see {}", log_path.display()));
    Ok(Outcome {
        name: target.name,
        executions: last_after(&text, "stat::number_of_executed_units:").unwrap_or("-").into(),
        edges: last_after(&text, " cov:").unwrap_or("-").into(),
        seconds: begin.elapsed().as_secs(),
        findings,
        trouble,
    })
}

/// The word after the last `key` in the fuzzer's log.
fn last_after<'t>(log: &'t str, key: &str) -> Option<&'t str> {
    log.rsplit_once(key)?.1.split_whitespace().next()
}

fn files(dir: &Path) -> BTreeSet<PathBuf> {
    fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path()).filter(|path| path.is_file()).collect()
}

fn report(root: &Path, outcomes: &[Outcome]) -> bool {
    println!("{:<16} {:>12} {:>9} {:>8}  findings", "target", "executions", "coverage", "seconds");
    for o in outcomes {
        let found = match &o.trouble {
            Some(trouble) => trouble.clone(),
            None => o.findings.len().to_string(),
        };
        println!("{:<16} {:>12} {:>9} {:>8}  {found}", o.name, o.executions, o.edges, o.seconds);
        for path in &o.findings {
            println!("  {}", path.strip_prefix(root).unwrap_or(path).display());
        }
    }
    println!("(coverage: edges of the program's control flow that some input has reached)");
    let findings = outcomes.iter().flat_map(|o| o.findings.iter().map(move |path| (o.name, path)));
    for (name, path) in findings.clone() {
        let bin = binary(&root.join("fuzz"), name);
        println!("to see it again: {} {}", bin.display(), path.display());
    }
    findings.count() == 0 && outcomes.iter().all(|o| o.trouble.is_none())
}

/// Makes seeds from this machine's files and the repository's tests. What is not there is left out.
fn seed(root: &Path, name: &str) -> std::io::Result<()> {
    let to = root.join("fuzz/machine").join(name);
    fs::create_dir_all(&to)?;
    let tests = |extension: &'static str| {
        let mut found = Vec::new();
        let mut todo = vec![root.join("crates")];
        while let Some(dir) = todo.pop() {
            for path in fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path()) {
                if path.is_dir() {
                    todo.push(path);
                } else if path.extension().is_some_and(|e| e == extension) {
                    found.push(path);
                }
            }
        }
        found
    };
    let events = "/sys/kernel/tracing/events";
    let sources: Vec<PathBuf> = match name {
        "syntax" | "compile" => tests("d"),
        "ir_text" => tests("ir"),
        "elf" | "dwarf" | "stapsdt" | "unwind_table" | "x86_len" => {
            vec!["/bin/true".into(), "/usr/bin/printenv".into()]
        }
        "ldcache" => vec!["/etc/ld.so.cache".into()],
        "proc_maps" => vec!["/proc/self/maps".into()],
        "kallsyms" => vec!["/proc/kallsyms".into()],
        "kernel" => {
            let proc = ["maps", "status", "mountinfo"].map(|file| format!("/proc/self/{file}").into());
            proc.into_iter().chain(["/proc/sys/kernel/osrelease".into()]).collect()
        }
        "tracefs_format" => {
            ["sched/sched_process_exec", "irq/irq_handler_entry", "kmem/kmalloc", "signal/signal_generate"]
                .map(|event| format!("{events}/{event}/format").into())
                .to_vec()
        }
        "btf" => {
            let whole = fs::read("/sys/kernel/btf/vmlinux").unwrap_or_default();
            for (n, from) in [0, 1000, 5000].into_iter().enumerate() {
                if let Some(part) = cut_btf(&whole, from, 200) {
                    fs::write(to.join(format!("vmlinux{n}")), part)?;
                }
            }
            Vec::new()
        }
        _ => Vec::new(),
    };
    let text = TARGETS.iter().any(|t| t.name == name && t.dict.is_some());
    for path in sources {
        let Ok(mut bytes) = fs::read(&path) else { continue };
        // Of a long text a few lines show all there is to it.
        if text {
            bytes.truncate(4096);
        }
        let stem: String = path.display().to_string().replace(|c: char| !c.is_ascii_alphanumeric(), "_");
        fs::write(to.join(stem), bytes)?;
    }
    Ok(())
}

/// A small BTF blob: `count` types of a large one, from the `from`-th, with the names they use. Types that are not in it
/// stay referred to, as a damaged file would.
fn cut_btf(whole: &[u8], from: usize, count: usize) -> Option<Vec<u8>> {
    let word = |at: usize| Some(u32::from_le_bytes(whole.get(at..at.checked_add(4)?)?.try_into().ok()?));
    let header = word(4)? as usize;
    let types = header + word(8)? as usize;
    let types_end = types + word(12)? as usize;
    let names = header + word(16)? as usize;
    let mut strings = vec![0u8];
    let mut kept = Vec::new();
    let mut name_of = |at: usize| {
        let name = whole.get(names + word(at)? as usize..)?.split(|&b| b == 0).next()?;
        if name.is_empty() {
            return Some(0u32);
        }
        let offset = strings.len() as u32;
        strings.extend_from_slice(name);
        strings.push(0);
        Some(offset)
    };
    let mut at = types;
    for n in 0..from + count {
        if at >= types_end {
            break;
        }
        let info = word(at + 4)?;
        let vlen = (info & 0xffff) as usize;
        // After the 12 bytes that all kinds have: fixed bytes, then bytes for each of vlen members, named or not.
        let (fixed, each, named) = match info >> 24 & 0x1f {
            1 | 14 | 17 => (4, 0, false),
            3 => (12, 0, false),
            4 | 5 | 19 => (0, 12, true),
            6 => (0, 8, true),
            13 => (0, 8, true),
            15 => (0, 12, false),
            _ => (0, 0, false),
        };
        let len = 12 + fixed + each * vlen;
        if n >= from {
            let start = kept.len();
            kept.extend_from_slice(whole.get(at..at + len)?);
            let members = (0..vlen).filter(|_| named).map(|m| 12 + fixed + each * m);
            for place in std::iter::once(0).chain(members) {
                kept[start + place..start + place + 4].copy_from_slice(&name_of(at + place)?.to_le_bytes());
            }
        }
        at += len;
    }
    let mut blob = whole.get(..4)?.to_vec();
    for value in [24, 0, kept.len(), kept.len(), strings.len()] {
        blob.extend_from_slice(&(value as u32).to_le_bytes());
    }
    blob.extend(kept);
    blob.extend(strings);
    Some(blob)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_target_is_in_the_table_and_in_the_manifest() {
        let dir = crate::root().join("fuzz");
        let sources: BTreeSet<String> = files(&dir.join("targets"))
            .iter()
            .filter_map(|path| Some(path.file_stem()?.to_string_lossy().into_owned()))
            .collect();
        let table: BTreeSet<String> = TARGETS.iter().map(|t| t.name.to_string()).collect();
        assert_eq!(sources, table);
        let manifest = fs::read_to_string(dir.join("Cargo.toml")).unwrap();
        for t in TARGETS {
            assert!(manifest.contains(&format!("path = \"targets/{}.rs\"", t.name)), "{}", t.name);
            assert!(t.dict.is_none_or(|dict| dir.join(format!("dict/{dict}.dict")).exists()), "{}", t.name);
        }
    }

    #[test]
    fn the_command_line() {
        let args = |list: &[&str]| choose(&list.iter().map(|s| s.to_string()).collect::<Vec<_>>());
        assert_eq!(args(&[]).map(|(chosen, seconds)| (chosen.len(), seconds)), Ok((TARGETS.len(), SECONDS)));
        assert_eq!(args(&["elf", "--seconds", "5"]).map(|(chosen, seconds)| (chosen.len(), seconds)), Ok((1, 5)));
        assert!(args(&["--seconds", "0"]).is_err() && args(&["nothing"]).is_err());
    }

    #[test]
    fn the_fuzzers_log() {
        let log = "#1\tINITED cov: 3 ft: 3\n#9\tDONE   cov: 12 ft: 30 corp: 2\nstat::number_of_executed_units: 9\n";
        assert_eq!(last_after(log, " cov:"), Some("12"));
        assert_eq!(last_after(log, "stat::number_of_executed_units:"), Some("9"));
        assert_eq!(last_after("", "x"), None);
    }

    #[test]
    fn a_piece_of_btf() {
        // Header; int "a" (kind 1, 4 bytes more); struct "b" with one member "c"; strings.
        let strings = b"\0a\0b\0c\0";
        let types = [1u32, 1 << 24, 4, 32, 3, 4 << 24 | 1, 4, 5, 1, 0];
        let mut whole = vec![0x9f, 0xeb, 1, 0];
        for value in [24, 0, 40, 40, strings.len() as u32].into_iter().chain(types) {
            whole.extend(value.to_le_bytes());
        }
        whole.extend(strings);
        assert_eq!(cut_btf(&whole, 0, 9), Some(whole.clone()));
        let part = cut_btf(&whole, 1, 1).unwrap();
        assert_eq!(part[24..28], 1u32.to_le_bytes());
        assert!(part.ends_with(b"\0b\0c\0"));
        assert_eq!(cut_btf(b"", 0, 1), None);
    }
}
