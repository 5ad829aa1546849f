//! The numbers of enablings: a clause together with a probe, DTrace's `epid`. Shared by the code that computes `epid` and the
//! consumer that names an enabling in a message.

use crate::program::{ClauseCode, ClauseId, Program, Unit, UnitId};

/// Whether a clause runs for the probe at `index` of its unit.
pub fn applies(unit: &Unit, code: &ClauseCode, index: u32) -> bool {
    unit.probes.get(index as usize).is_some_and(Option::is_some)
        && (code.probes.is_empty() || code.probes.binary_search(&index).is_ok())
}

/// The enabling's number: from 1, by clause in the order of the source, then by unit, then by probe.
pub fn epid(program: &Program, unit: UnitId, clause: ClauseId, index: u32) -> u32 {
    // How many probes with an index below `end` of unit `u` clause `c` is enabled for, in whatever variants of its code.
    let count = |u: usize, c: ClauseId, end: usize| {
        let Some(body) = program.units.get(u) else { return 0 };
        let codes: Vec<&ClauseCode> = body.clauses.iter().filter(|code| code.clause == c).collect();
        (0..body.probes.len().min(end)).filter(|&i| codes.iter().any(|code| applies(body, code, i as u32))).count()
    };
    let all = |u, c| count(u, c, usize::MAX);
    let earlier: usize = (0..clause.0)
        .flat_map(|c| (0..program.units.len()).map(move |u| (u, ClauseId(c))))
        .map(|(u, c)| all(u, c))
        .sum();
    let before: usize = (0..unit.0 as usize).map(|u| all(u, clause)).sum();
    (earlier + before + count(unit.0 as usize, clause, index as usize)) as u32 + 1
}
