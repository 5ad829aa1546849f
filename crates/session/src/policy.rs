//! Buffer policies: `switch` hands records out as they come, `fill` ends tracing when a CPU's buffer is full, `ring` keeps a CPU's newest
//! records and hands them out at the end.
//!
//! The kernel's rings are read all the time, whatever the policy: what a policy counts are the sizes that DTrace's records have
//! (four bytes of number, then each value at its own size), so that a script's `bufsize` means what it means there.

use probity_compiler::Options;
use probity_ir::{Action, Operand, Phase, Program, Record, RingKind, Show, Val};
use std::collections::VecDeque;

/// What becomes of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is handed out.
    Pass,
    /// It is kept for the end, or not recorded.
    Keep,
}

/// The records of one CPU.
#[derive(Debug, Default)]
struct Buffer {
    used: u64,
    kept: VecDeque<Vec<u8>>,
}

/// A policy at work.
#[derive(Debug)]
pub struct Policy {
    kind: Kind,
    size: u64,
    /// By record number.
    sizes: Vec<u64>,
    cpus: Vec<Buffer>,
    full: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Switch,
    Fill,
    Ring,
}

impl Policy {
    /// The policy that the options name, for buffers of `bufsize` bytes.
    pub fn new(options: &Options, program: &Program) -> Policy {
        let (name, size) = (options.bufpolicy.as_str(), options.bufsize);
        let kind = match name {
            "fill" => Kind::Fill,
            "ring" => Kind::Ring,
            _ => Kind::Switch,
        };
        let sizes = if kind == Kind::Switch {
            Vec::new()
        } else {
            program.records.iter().map(|r| size_of(r, options.strsize)).collect()
        };
        Policy { kind, size, sizes, cpus: Vec::new(), full: false }
    }

    /// Whether buffers of CPUs are told apart.
    pub fn by_cpu(&self) -> bool {
        self.kind != Kind::Switch
    }

    /// Whether what END records cannot find room.
    pub fn end_too_large(&self, program: &Program) -> bool {
        let end = |r: &Record| program.units.get(r.unit.0 as usize).is_some_and(|u| u.phase == Phase::End);
        let needed: u64 = program.records.iter().zip(&self.sizes).filter(|(r, _)| end(r)).map(|(_, s)| s).sum();
        self.kind == Kind::Fill && needed > self.size
    }

    /// Takes a record, as a ring holds it. Faults and decisions on speculations always pass.
    pub fn take(&mut self, program: &Program, bytes: &[u8]) -> Verdict {
        if self.kind == Kind::Switch {
            return Verdict::Pass;
        }
        let number = bytes.get(8..12).and_then(|b| b.try_into().ok()).map_or(u32::MAX, u32::from_ne_bytes);
        let cpu = bytes.get(12..14).and_then(|b| b.try_into().ok()).map_or(0, u16::from_ne_bytes);
        let Some(record) = program.records.get(number as usize) else { return Verdict::Pass };
        let phase = program.units.get(record.unit.0 as usize).map(|u| u.phase);
        // There is room for END from the start.
        if self.kind == Kind::Fill && (phase == Some(Phase::End) || record.ring == RingKind::Control) {
            return Verdict::Pass;
        }
        let size = self.sizes.get(number as usize).copied().unwrap_or(0);
        let cpu = usize::from(cpu);
        if self.cpus.len() <= cpu {
            self.cpus.resize_with(cpu + 1, Buffer::default);
        }
        let buffer = &mut self.cpus[cpu];
        match self.kind {
            Kind::Fill if buffer.used + size > self.size => {
                self.full = true;
                Verdict::Keep
            }
            Kind::Fill => {
                buffer.used += size;
                Verdict::Pass
            }
            _ => {
                buffer.used += size;
                buffer.kept.push_back(bytes.to_vec());
                while buffer.used > self.size {
                    let Some(old) = buffer.kept.pop_front() else { break };
                    let number = old.get(8..12).and_then(|b| b.try_into().ok()).map_or(0, u32::from_ne_bytes);
                    buffer.used -= self.sizes.get(number as usize).copied().unwrap_or(0);
                }
                Verdict::Keep
            }
        }
    }

    /// Whether a buffer of `fill` is full.
    pub fn full(&self) -> bool {
        self.full
    }

    /// What `ring` has kept, in the order of time; from then on everything passes.
    pub fn end(&mut self) -> Vec<Vec<u8>> {
        let mut all: Vec<Vec<u8>> = self.cpus.drain(..).flat_map(|b| b.kept).collect();
        all.sort_by_key(|r| r.first_chunk().map_or(0, |b| u64::from_ne_bytes(*b)));
        if self.kind == Kind::Ring {
            self.kind = Kind::Switch;
        }
        all
    }
}

/// The size of a record in DTrace's buffers.
fn size_of(record: &Record, strsize: u64) -> u64 {
    let mut size = 4u64;
    for (i, &val) in record.fields.iter().enumerate() {
        let width = match val {
            Val::Int => int_size(record, i as u32),
            Val::Str { .. } => {
                size += strsize;
                continue;
            }
            Val::Bytes { len } => {
                size += u64::from(len);
                continue;
            }
        };
        size = size.next_multiple_of(width) + width;
    }
    size
}

/// The size of the integer in a field, by what it is shown as.
fn int_size(record: &Record, field: u32) -> u64 {
    let of = |operand: &Operand| match operand.show {
        Show::Int { size, .. } if operand.field.0 == field => Some(u64::from(size).max(1)),
        _ => None,
    };
    let found = record.actions.iter().find_map(|action| match action {
        Action::Trace(o) | Action::Exit(o) | Action::Normalize(_, o) | Action::Trunc(_, Some(o)) => of(o),
        Action::Printf { operands, .. } | Action::System { operands, .. } | Action::Freopen { operands, .. } => {
            operands.iter().find_map(of)
        }
        _ => None,
    });
    found.unwrap_or(8)
}

#[cfg(test)]
mod tests {
    use super::*;
    use probity_ir::{ClauseId, FieldId, IntKind, UnitId};

    fn program() -> Program {
        let show = |size| Show::Int { size, signed: true, kind: IntKind::Number };
        let record = |size| Record {
            clause: ClauseId(0),
            unit: UnitId(0),
            ring: RingKind::Data,
            fields: vec![Val::Int],
            actions: vec![Action::Trace(Operand { field: FieldId(0), show: show(size) })],
        };
        Program { records: vec![record(4), record(8)], ..Program::default() }
    }

    fn record(time: u64, number: u32, cpu: u16) -> Vec<u8> {
        let mut bytes = time.to_ne_bytes().to_vec();
        bytes.extend(number.to_ne_bytes());
        bytes.extend(cpu.to_ne_bytes());
        bytes.extend([0; 10]);
        bytes
    }

    #[test]
    fn ring_keeps_the_newest_of_each_cpu() {
        let program = program();
        let options = Options { bufpolicy: "ring".into(), bufsize: 20, ..Options::default() };
        let mut policy = Policy::new(&options, &program);
        for time in 0..5 {
            assert_eq!(policy.take(&program, &record(time, 0, 0)), Verdict::Keep);
        }
        policy.take(&program, &record(2, 1, 1));
        policy.take(&program, &record(7, 1, 1));
        let times: Vec<u64> =
            policy.end().iter().map(|r| u64::from_ne_bytes(*r.first_chunk().expect("a header"))).collect();
        assert_eq!(times, [3, 4, 7]);
        assert_eq!(policy.take(&program, &record(9, 0, 0)), Verdict::Pass);
    }

    #[test]
    fn fill_is_full_when_a_record_does_not_fit() {
        let program = program();
        let options = Options { bufpolicy: "fill".into(), bufsize: 24, ..Options::default() };
        let mut policy = Policy::new(&options, &program);
        assert_eq!(policy.take(&program, &record(0, 0, 0)), Verdict::Pass);
        assert_eq!(policy.take(&program, &record(1, 1, 0)), Verdict::Pass);
        assert!(!policy.full());
        assert_eq!(policy.take(&program, &record(2, 0, 0)), Verdict::Keep);
        assert!(policy.full());
    }
}
