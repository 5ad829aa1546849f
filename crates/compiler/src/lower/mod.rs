//! The typed tree to [`probity_ir::Program`]: variables, arrays and aggregations; units with their probes; each clause's
//! code (`clause`, `expr`) in the units that its probes are in.

mod clause;
mod expr;
mod float;
mod memory;
mod place;
mod print;
mod shape;
mod sub;

use crate::bind::Bound;
use crate::check::Checked;
use crate::options::Options;
use probity_ir::{Agg, Array, Clause, ClauseId, MAX_SPECULATIONS, Program, Selector, Unit, UnitId, Var};
use probity_syntax::Sources;
pub(crate) use shape::exprs_of;
use shape::{Shapes, Texts, UnitMap};
use std::collections::HashSet;

/// Lowers a checked program.
pub fn lower(checked: &Checked, bound: &Bound, options: &Options, sources: &Sources) -> Program {
    let strsize = u32::try_from(options.strsize).unwrap_or(u32::MAX).clamp(2, 1 << 20);
    let shapes = Shapes::of(checked, bound, strsize);
    let cpu = options.cpu.map(|cpu| u32::try_from(cpu).unwrap_or(u32::MAX));
    let mut program = Program { cpu, ..Program::default() };
    if checked.speculates {
        program.nspec = u32::try_from(options.nspec).unwrap_or(u32::MAX).clamp(1, MAX_SPECULATIONS);
        program.specsize = options.specsize;
    }
    for (i, v) in checked.vars.iter().enumerate() {
        program.vars.push(Var { name: v.name.clone(), scope: v.scope, val: shapes.var(&checked.types, i, v.ty) });
    }
    for (i, a) in checked.arrays.iter().enumerate() {
        program.arrays.push(Array {
            name: a.name.clone(),
            scope: a.scope,
            key: shapes.array_key(&checked.types, i, &a.key),
            val: shapes.elem(&checked.types, i, a.ty),
        });
    }
    let units = make_units(checked, bound, &mut program);
    let ours = checked.clauses.iter().filter(|c| crate::upkeep::is_ours(sources, c.span));
    let mut ours: Vec<UnitId> = ours.flat_map(|c| &c.variants).filter_map(|v| units[v.unit]).collect();
    ours.dedup();
    program.upkeep = crate::upkeep::of(program.arrays.iter().map(|a| a.name.as_str()), ours);
    if let Some((probe, signature)) = &checked.switch {
        program.oncpu = Some(UnitId(program.units.len() as u32));
        program.units.push(Unit {
            name: "oncpu".into(),
            prog: signature.prog.clone(),
            selector: Selector::One,
            probes: vec![Some(probe.clone())],
            phase: signature.phase,
            clauses: Vec::new(),
        });
    }
    for (i, a) in checked.aggs.iter().enumerate() {
        let (key, of) = shapes.agg_key(i);
        program.aggs.push(Agg {
            name: a.name.clone(),
            // Every aggregation that is left has been assigned somewhere, if only in a clause without probes.
            func: a.func.unwrap_or(probity_ir::AggFunc::Count),
            key,
            resettable: a.reset,
            probes_of: of.and_then(|u| units[u]),
        });
    }
    for clause in &checked.clauses {
        if clause.variants.is_empty() {
            continue;
        }
        let id = ClauseId(program.clauses.len() as u32);
        let line = sources.locate(clause.span).map_or(1, |l| l.line);
        program.clauses.push(Clause { span: (clause.span.source.0, clause.span.lo, clause.span.hi), line });
        for variant in &clause.variants {
            let Some(unit) = units[variant.unit] else { continue };
            let texts = Texts::of(bound, variant);
            // A clause that runs twice in a firing has records of its own for each run.
            for probes in &variant.layers {
                let cx = clause::Context {
                    checked,
                    shapes: &shapes,
                    texts: &texts,
                    sources,
                    options,
                    signature: &bound.probes[variant.layers[0][0]].signature,
                    unit,
                    clause: id,
                };
                let mut code = clause::lower_clause(cx, variant, &mut program);
                let all = probes.len() == bound.units[variant.unit].probes.len();
                if !all {
                    code.probes = probes.iter().map(|p| bound.probes[*p].index).collect();
                    code.probes.sort_unstable();
                }
                program.units[unit.0 as usize].clauses.push(code);
            }
        }
    }
    program
}

/// Makes a unit of every group of probes that has clauses.
fn make_units(checked: &Checked, bound: &Bound, program: &mut Program) -> UnitMap {
    let used: HashSet<usize> = checked.clauses.iter().flat_map(|c| &c.variants).map(|v| v.unit).collect();
    let mut names = HashSet::new();
    let mut map = vec![None; bound.units.len()];
    for (at, unit) in bound.units.iter().enumerate() {
        let Some(&first) = unit.probes.first().filter(|_| used.contains(&at)) else { continue };
        let signature = &bound.probes[first].signature;
        let len = unit.probes.iter().map(|p| bound.probes[*p].index as usize + 1).max().unwrap_or(0);
        let mut probes = vec![None; len];
        for p in &unit.probes {
            probes[bound.probes[*p].index as usize] = Some(bound.probes[*p].probe.clone());
        }
        // One probe needs no cookie.
        let selector = match &signature.selector {
            Selector::Cookie if unit.probes.len() == 1 => Selector::One,
            other => other.clone(),
        };
        map[at] = Some(UnitId(program.units.len() as u32));
        program.units.push(Unit {
            name: unit_name(&signature.group, &mut names),
            prog: signature.prog.clone(),
            selector,
            probes,
            phase: signature.phase,
            clauses: Vec::new(),
        });
    }
    map
}

/// A name of letters, digits and underscores that no other unit has.
fn unit_name(group: &str, names: &mut HashSet<String>) -> String {
    let clean: String = group.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    let clean = if clean.is_empty() { "unit".to_string() } else { clean };
    let mut name = clean.clone();
    let mut n = 2;
    while !names.insert(name.clone()) {
        name = format!("{clean}_{n}");
        n += 1;
    }
    name
}
