//! D's expressions against C's: random ones must have the value that gcc gives the same C (DTrace's language promises C's
//! arithmetic). D goes through the whole compiler and the interpreter; no root is needed.
//!
//! `PROBITY_PROP=200` sets the number of programs, `PROBITY_PROP_SEED=7` runs one and prints it.
#![allow(clippy::print_stderr, clippy::disallowed_methods, clippy::disallowed_types)]

mod generate;
#[path = "../front/world.rs"]
mod world;

use generate::{MEMORY, Rng, STRUCT, Stmt};
use probity_bpf::interp::Machine;
use probity_compiler::{Input, Source};
use probity_ir::VarPlace;
use probity_syntax::{Origin, render_pretty};
use std::process::Command;

/// Programs of an ordinary test run, and values of each.
const PROGRAMS: u64 = 40;
const RESULTS: usize = 12;
/// Where the struct is in the interpreter's kernel memory, as far from its neighbours as pointers move.
const ADDRESS: u64 = 0xffff_8880_0010_0000;

struct Case {
    seed: u64,
    stmts: Vec<Stmt>,
    memory: Vec<u8>,
}

fn case(seed: u64) -> Case {
    let mut rng = Rng::new(seed + 1);
    let stmts = rng.program(RESULTS);
    let memory = (0..MEMORY).map(|_| if rng.below(3) == 0 { [0, 255, 1, 128][rng.below(4)] } else { rng.next() as u8 });
    let memory = memory.collect();
    Case { seed, stmts, memory }
}

/// The values that our code leaves.
fn ours(case: &Case) -> Result<Vec<i64>, String> {
    let text = generate::d_text(&case.stmts, RESULTS);
    let input = Input { sources: vec![Source { origin: Origin::File("c.d".into()), text }], ..Input::default() };
    let (compiled, sources, diags) = probity_compiler::compile(&input, &world::World);
    let said: Vec<String> = diags.iter().filter(|d| d.is_error()).map(|d| render_pretty(d, &sources, false)).collect();
    let Some(compiled) = compiled else { return Err(said.join("\n")) };
    let mut machine = Machine::new(&compiled.object);
    let state_map = compiled.layout.state_map as usize;
    let mut state = machine.map_lookup(state_map, &[0; 4]).ok_or("no state")?;
    // Tracing has begun.
    state[..8].copy_from_slice(&0u64.to_le_bytes());
    machine.map_update(state_map, &[0; 4], &state, 0).map_err(|e| format!("{e:?}"))?;
    machine.env.kernel.map(ADDRESS, case.memory.clone());
    let mut ctx: Vec<u8> = ADDRESS.to_le_bytes().to_vec();
    ctx.resize(96, 0);
    machine.run(&compiled.object.progs[0], &mut ctx).map_err(|fault| format!("the interpreter stops: {fault}"))?;
    if let Some(ring) = compiled.layout.fault_ring
        && let Some(record) = machine.take_records(ring as usize).first()
    {
        return Err(format!("a fault: {record:?}"));
    }
    let state = machine.map_lookup(state_map, &[0; 4]).ok_or("no state")?;
    let vars = &compiled.program.vars;
    (0..RESULTS)
        .map(|i| {
            let at = vars.iter().position(|v| v.name == format!("r{i}")).ok_or(format!("no r{i}"))?;
            let VarPlace::Global(offset) = compiled.layout.vars[at] else { return Err("not global".into()) };
            let bytes = state.get(offset as usize..offset as usize + 8).ok_or("outside")?;
            Ok(i64::from_le_bytes(bytes.try_into().map_err(|_| "short")?))
        })
        .collect()
}

/// The values that gcc's code prints, case after case.
fn theirs(cases: &[Case]) -> Vec<i64> {
    let dir = std::env::temp_dir().join(format!("probity-c-{}", std::process::id()));
    std::fs::create_dir_all(&dir).expect("a directory");
    let mut text = format!("#include <stdio.h>\n#include <string.h>\n{STRUCT}\n");
    text += "static const char *cut(const char *s) { static char b[2][9]; static int n; n ^= 1; memcpy(b[n], s, 8); return b[n]; }\n";
    for (i, case) in cases.iter().enumerate() {
        text += &generate::c_function(i, &case.stmts, RESULTS, &case.memory);
    }
    text += "int main(void) {\n";
    (0..cases.len()).for_each(|i| text += &format!(" f{i}();\n"));
    text += " return 0;\n}\n";
    let (source, program) = (dir.join("c.c"), dir.join("c"));
    std::fs::write(&source, text).expect("a file");
    let flags = ["-O0", "-w", "-fwrapv", "-fsigned-char", "-std=gnu11", "-o"];
    let built = Command::new("gcc").args(flags).arg(&program).arg(&source).output().expect("gcc");
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let output = Command::new(&program).output().expect("the program");
    assert!(output.status.success(), "the C program ends with {}", output.status);
    let _ = std::fs::remove_dir_all(&dir);
    String::from_utf8_lossy(&output.stdout).lines().map(|l| l.parse().expect("a number")).collect()
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
fn expressions_have_the_values_that_gcc_gives() {
    if Command::new("gcc").arg("--version").output().is_err() {
        eprintln!("skipped: there is no gcc to compare with");
        return;
    }
    let seeds = match number("PROBITY_PROP_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("PROBITY_PROP").unwrap_or(PROGRAMS),
    };
    let one = seeds.end - seeds.start == 1;
    let cases: Vec<Case> = seeds.map(case).collect();
    let expected = theirs(&cases);
    let mut wrong = Vec::new();
    for (case, expected) in cases.iter().zip(expected.chunks(RESULTS)) {
        if one {
            eprintln!("{}", generate::d_text(&case.stmts, RESULTS));
        }
        match ours(case) {
            Ok(values) => {
                for (i, (ours, gcc)) in values.iter().zip(expected).enumerate() {
                    if ours != gcc {
                        let start = format!("r{i} = ");
                        let text = case.stmts.iter().find(|s| s.d.starts_with(&start)).map_or("", |s| &s.d);
                        wrong.push(format!(
                            "seed {}: {text}\n  gcc {gcc} ({gcc:#x}), ours {ours} ({ours:#x})",
                            case.seed
                        ));
                    }
                }
            }
            Err(message) => wrong.push(format!("seed {}: {message}", case.seed)),
        }
    }
    let all = wrong.len();
    wrong.sort_by_key(String::len);
    wrong.truncate(20);
    assert!(all == 0, "{all} of {} values differ, the shortest of them:\n{}", expected.len(), wrong.join("\n"));
}
