//! The back end's entry: a checked program to a BPF object and its layout.

use crate::emit::{EmitError, emit};
use crate::layout::plan;
use crate::select::{LIMITS, select};
use crate::{alloc, fold, verify};
use probity_bpf::{Object, ProgSpec, ProgType};
use probity_ir::{Layout, Program};
use std::collections::BTreeSet;

/// From how many integer temporaries on a clause keeps them in scratch memory at once.
const MANY_TEMPS: usize = 200;

/// The kernel's `MAX_USED_MAPS`.
const MAX_MAPS: usize = 64;

/// Sizes and facts of the target system that the generated code depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodegenOptions {
    /// Number of possible CPUs.
    pub ncpu: u32,
    /// Bytes of one CPU's data ring (`bufsize`); rounded up to a power of two of at least a page.
    pub ring_size: u32,
    /// Most keys of an aggregation's map, all CPUs together (from `aggsize`).
    pub agg_entries: u32,
    /// Most elements of an associative array (from `dynvarsize`).
    pub dyn_entries: u32,
    /// Bytes of scratch memory that `copyin` may use in one firing (from `scratchsize`).
    pub scratch: u32,
}

/// Why a checked program has no code: a limit of BPF, told with the source line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodegenError {
    /// What is too much, and what would help.
    pub message: String,
    /// The clause's position in its unit and the source line, where known.
    pub line: Option<u32>,
}

fn refuse(message: String, program: &Program, unit: usize) -> CodegenError {
    let first = program.units[unit].clauses.first();
    let line = first.and_then(|c| program.clauses.get(c.clause.0 as usize)).map(|c| c.line);
    CodegenError { message, line }
}

/// Generates the object for a checked program.
pub fn codegen(program: &Program, options: &CodegenOptions) -> Result<(Object, Layout), CodegenError> {
    let mut program = fold::fold(program);
    for unit in &mut program.units {
        // A program that may sleep costs more, and to wait for it to end takes longer: only for memory that may not be resident.
        unit.prog.sleepable &= unit.clauses.iter().any(fold::reads_user_memory);
    }
    let program = &program;
    let mut plan = plan(program, options)?;
    let mut progs = Vec::new();
    for unit in 0..program.units.len() {
        let prog = generate(program, unit, &mut plan)?;
        plan.layout.progs.push(progs.len() as u32);
        progs.push(prog);
    }
    let (maps, layout) = plan.finish();
    let object = Object { maps, progs };
    if cfg!(debug_assertions) {
        verify::verify(&object)?;
    }
    Ok((object, layout))
}

fn generate(program: &Program, unit: usize, plan: &mut crate::layout::Plan) -> Result<ProgSpec, CodegenError> {
    let spec = &program.units[unit];
    let mut last = EmitError::Long;
    // So many temporaries never fit; to find that out by trying takes seconds.
    let ints = |c: &probity_ir::ClauseCode| c.temps.iter().filter(|&&t| t == probity_ir::Val::Int).count();
    let many = spec.clauses.iter().any(|c| ints(c) > MANY_TEMPS);
    for limits in LIMITS.into_iter().filter(|l| !many || !l.temps) {
        let mut code = select(program, unit, plan, limits)?;
        code.clean();
        let out = alloc::allocate(&code)
            .map_err(|e| refuse(format!("a bug in the code generator: no registers: {e:?}"), program, unit))?;
        match emit(&code, &out) {
            Ok(assembled) => {
                let Some(prog_type) = prog_type(spec.prog.prog_type) else {
                    let message = format!("program type {} is not one that traces", spec.prog.prog_type);
                    return Err(refuse(message, program, unit));
                };
                let maps: BTreeSet<u32> = assembled.insns.iter().filter_map(|i| i.map_index()).collect();
                if maps.len() > MAX_MAPS {
                    let message = format!(
                        "the clauses of these probes use {} maps, and a BPF program can use {MAX_MAPS}: \
                         use fewer aggregations and associative arrays",
                        maps.len()
                    );
                    return Err(refuse(message, program, unit));
                }
                let mut prog = ProgSpec::new(&spec.name, prog_type, assembled.insns);
                prog.attach_type = Some(spec.prog.attach_type).filter(|&t| t != 0);
                prog.attach_btf_id = Some(spec.prog.btf_id).filter(|&id| id != 0);
                prog.sleepable = spec.prog.sleepable;
                prog.lines = assembled.lines;
                return Ok(prog);
            }
            // Less on the stack, more in scratch memory.
            Err(error) => last = error,
        }
    }
    Err(match last {
        EmitError::Stack(bytes) => refuse(
            format!("a clause needs {bytes} bytes of stack, and BPF has 512: use fewer or smaller keys and strings"),
            program,
            unit,
        ),
        EmitError::Long => refuse(
            "the clauses of these probes make too long a program: split the script, or reduce strsize".into(),
            program,
            unit,
        ),
    })
}

fn prog_type(number: u32) -> Option<ProgType> {
    const KNOWN: [ProgType; 8] = [
        ProgType::Kprobe,
        ProgType::Tracepoint,
        ProgType::PerfEvent,
        ProgType::RawTracepoint,
        ProgType::RawTracepointWritable,
        ProgType::Tracing,
        ProgType::Lsm,
        ProgType::Syscall,
    ];
    KNOWN.into_iter().find(|&t| t as u32 == number)
}

/// The object as text: each program with its unit's name, source lines and instructions.
pub fn listing(object: &Object, layout: &Layout, program: &Program) -> String {
    let mut out = String::new();
    for (unit, &prog) in program.units.iter().zip(&layout.progs) {
        let Some(spec) = object.progs.get(prog as usize) else { continue };
        out += &format!("unit {} ({} instructions)\n", unit.name, spec.insns.len());
        for probe in unit.probes.iter().flatten().take(4) {
            out += &format!("  {}\n", probe.desc);
        }
        let count = unit.probes.iter().flatten().count();
        if count > 4 {
            out += &format!("  … {} probes in all\n", count);
        }
        out += &probity_bpf::disasm::program(spec, &object.maps);
        out.push('\n');
    }
    out
}
