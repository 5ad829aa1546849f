//! Random programs through the code generator: what the interpreter makes of its code must be what a direct evaluator
//! makes of the program, and the kernel's verifier must accept all of it.
//!
//! `PROBITY_PROP=2000` sets the number of programs, `PROBITY_PROP_SEED=7` runs one and prints it.
#![allow(clippy::print_stderr, clippy::disallowed_methods)]

mod eval;
mod firings;
mod generate;
mod rng;
mod run;
mod shrink;
mod speculate;

use eval::Firing;
use probity_bpf::disasm;
use probity_compiler::codegen;
use probity_ir::{Program, text};
use run::{Mismatch, Seen};

/// Programs of an ordinary test run.
const PROGRAMS: u64 = 300;
/// Firings of a program.
const FIRINGS: usize = 30;

/// How it went with one program.
enum Verdict {
    Agrees(Seen),
    /// A documented limit of BPF.
    Limit(String),
    Differs(Mismatch),
}

fn judge(program: &Program, seed: u64, firings: &[Firing]) -> Verdict {
    let options = run::options(seed);
    match codegen(program, &options) {
        Err(error) if error.message.contains("a bug in") => {
            Verdict::Differs(Mismatch { firing: 0, unit: 0, what: error.message })
        }
        Err(error) => Verdict::Limit(error.message),
        Ok((object, layout)) => match run::run(program, &options, &object, &layout, firings) {
            Ok(seen) => Verdict::Agrees(seen),
            Err(mismatch) => Verdict::Differs(mismatch),
        },
    }
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

fn seeds() -> std::ops::Range<u64> {
    match number("PROBITY_PROP_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("PROBITY_PROP").unwrap_or(PROGRAMS),
    }
}

/// Everything that is needed to see what went wrong, with the program made small.
fn report(program: Program, seed: u64, firings: Vec<Firing>) -> String {
    let fails = |p: &Program, f: &[Firing]| matches!(judge(p, seed, f), Verdict::Differs(_));
    let (program, firings) = shrink::shrink(program, firings, fails);
    let Verdict::Differs(mismatch) = judge(&program, seed, &firings) else { return "it fails no more".into() };
    let mut out = format!("seed {seed}, firing {} of {}: {}\n", mismatch.firing, firings.len(), mismatch.what);
    for firing in &firings {
        let words = firing.ctx.chunks(8).take(9).map(|w| w.iter().rev().fold(0u64, |n, &b| n << 8 | u64::from(b)));
        let words: Vec<String> = words.map(|w| format!("{w:#x}")).collect();
        out += &format!("firing of unit {}, lost {}, context {}\n", firing.unit.0, firing.lost, words.join(" "));
    }
    out += &text::print(&program);
    if let Ok((object, layout)) = codegen(&program, &run::options(seed)) {
        out += &disasm::program(&object.progs[layout.progs[mismatch.unit] as usize], &object.maps);
    }
    out
}

#[test]
fn generated_code_does_what_the_program_says() {
    let (mut total, mut limits, mut programs) = (Seen::default(), Vec::new(), 0);
    let mut failures = Vec::new();
    for seed in seeds() {
        programs += 1;
        let program = generate::program(seed);
        let firings = firings::firings(&program, seed, run::options(seed).ncpu, FIRINGS);
        match judge(&program, seed, &firings) {
            Verdict::Agrees(seen) => {
                total.firings += seen.firings;
                total.records += seen.records;
                total.faults += seen.faults;
                total.drops += seen.drops;
                total.steps += seen.steps;
            }
            Verdict::Limit(message) => limits.push(format!("seed {seed}: {message}")),
            Verdict::Differs(mismatch) => {
                let what: String = mismatch.what.chars().take(200).collect();
                eprintln!("seed {seed}: {}", what.replace('\n', " "));
                failures.push((seed, program, firings));
            }
        }
    }
    eprintln!("{programs} programs, {} over a limit, {} differ; {total:?}", limits.len(), failures.len());
    limits.iter().take(5).for_each(|l| eprintln!("  limit: {l}"));
    let seeds: Vec<u64> = failures.iter().map(|f| f.0).collect();
    if let Some((seed, program, firings)) = failures.into_iter().next() {
        panic!("seeds {seeds:?} differ\n{}", report(program, seed, firings));
    }
    assert!(limits.len() as u64 * 50 <= programs.max(50), "too many programs are over a limit: {limits:#?}");
    assert!(programs < 100 || (total.records > 1000 && total.faults > 10 && total.drops > 10), "{total:?}");
}

#[test]
fn the_kernel_accepts_generated_code() {
    if !probity_kernel::can_bpf() {
        eprintln!("skipped: not permitted to load BPF programs");
        return;
    }
    let (mut loaded, mut refused) = (0, Vec::new());
    for seed in seeds() {
        let program = generate::program(seed);
        let Ok((object, _)) = codegen(&program, &run::options(seed)) else { continue };
        match probity_kernel::load(&object) {
            Ok(_) => loaded += 1,
            Err(error) => refused.push((seed, program, object, error)),
        }
    }
    eprintln!("{loaded} objects loaded, {} refused", refused.len());
    let seeds: Vec<u64> = refused.iter().map(|r| r.0).collect();
    if let Some((seed, program, object, error)) = refused.into_iter().next() {
        let log = error.verifier_log().unwrap_or_default();
        let tail = log.lines().rev().take(60).collect::<Vec<_>>();
        let tail = tail.into_iter().rev().collect::<Vec<_>>().join("\n");
        let name = error.to_string();
        let code: String = object.progs.iter().map(|p| disasm::program(p, &object.maps)).collect();
        let text = text::print(&program);
        panic!("seeds {seeds:?} are refused\nseed {seed}: {name}\n{text}\n{code}\n{tail}");
    }
}
