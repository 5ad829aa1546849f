//! What has been recorded speculatively and is not yet decided: kept by speculation until its commit or discard is read.
//!
//! Records and decisions come in the order of time, but a program that found its speculation active can be overtaken by the
//! commit on another CPU, so what has been decided is remembered for a while.

use probity_ir::{Action, HEADER, Program, RingKind, SPEC_ID_BITS};
use std::collections::{HashMap, VecDeque};

/// How long a decision is remembered, in ns. A record that comes later than that is counted as dropped.
const REMEMBERED: u64 = 10_000_000_000;

/// What is to be done with a speculative record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is kept.
    Kept,
    /// Its speculation is committed already: it is output.
    Committed,
    /// Its speculation is discarded already.
    Discarded,
}

/// Records of one speculation, one after another, and their sizes.
#[derive(Debug, Default)]
struct Held {
    bytes: Vec<u8>,
    sizes: Vec<u32>,
}

/// All speculations that are not decided.
#[derive(Debug, Default)]
pub struct Speculations {
    held: HashMap<u64, Held>,
    decided: HashMap<u64, bool>,
    /// Decisions in the order of time.
    by_time: VecDeque<(u64, u64)>,
    /// Records whose commit or discard was lost, since the last report.
    lost: u64,
}

fn id(handle: u64) -> u64 {
    handle & ((1 << SPEC_ID_BITS) - 1)
}

/// The handle in a speculative record.
pub fn handle_of(record: &[u8]) -> u64 {
    let at = HEADER as usize;
    record.get(at..at + 8).and_then(|b| b.try_into().ok()).map_or(0, u64::from_ne_bytes)
}

impl Speculations {
    /// Takes a speculative record.
    pub fn record(&mut self, bytes: &[u8]) -> Fate {
        let handle = handle_of(bytes);
        match self.decided.get(&handle) {
            Some(true) => Fate::Committed,
            Some(false) => Fate::Discarded,
            None => {
                let held = self.held.entry(handle).or_default();
                held.bytes.extend_from_slice(bytes);
                held.sizes.push(bytes.len() as u32);
                Fate::Kept
            }
        }
    }

    /// Takes a decision; `output` gets what was committed, in order, until it returns `false`.
    pub fn decide(&mut self, time: u64, handle: u64, commit: bool, mut output: impl FnMut(&[u8]) -> bool) {
        while self.by_time.front().is_some_and(|&(t, _)| t.saturating_add(REMEMBERED) < time) {
            if let Some((_, old)) = self.by_time.pop_front() {
                self.decided.remove(&old);
            }
        }
        self.decided.insert(handle, commit);
        self.by_time.push_back((time, handle));
        if let Some(held) = self.held.remove(&handle).filter(|_| commit) {
            let mut rest = held.bytes.as_slice();
            for &size in &held.sizes {
                let (record, after) = rest.split_at(size as usize);
                rest = after;
                if !output(record) {
                    break;
                }
            }
        }
        // An id is used again only after its last use was decided.
        self.forget(|other| id(other) == id(handle) && other < handle);
    }

    /// The end of tracing: what is still open is discarded, unless `active` says that its decision was lost.
    pub fn end(&mut self, active: impl Fn(u64) -> bool) {
        self.forget(|handle| !active(handle));
        self.held.clear();
    }

    /// Drops what belongs to speculations whose decision never came.
    fn forget(&mut self, lost: impl Fn(u64) -> bool) {
        let count = &mut self.lost;
        self.held.retain(|&handle, held| {
            let gone = lost(handle);
            *count += if gone { held.sizes.len() as u64 } else { 0 };
            !gone
        });
    }

    /// How many records were lost since the last call.
    pub fn take_lost(&mut self) -> u64 {
        std::mem::take(&mut self.lost)
    }
}

/// What a record has to do with speculations.
pub enum Speculative {
    /// Nothing.
    No,
    /// It is recorded speculatively.
    Record,
    /// It decides a speculation.
    Decision {
        /// Whether by `commit`.
        commit: bool,
    },
}

/// What the record in a ring has to do with speculations.
pub fn speculative(program: &Program, bytes: &[u8]) -> Speculative {
    // Most programs never speculate.
    if program.nspec == 0 {
        return Speculative::No;
    }
    let number = bytes.get(8..12).and_then(|b| b.try_into().ok()).map_or(u32::MAX, u32::from_ne_bytes);
    let Some(record) = program.records.get(number as usize) else { return Speculative::No };
    match (record.ring, record.actions.first()) {
        (RingKind::Speculation, _) => Speculative::Record,
        (_, Some(Action::Commit(_))) => Speculative::Decision { commit: true },
        (_, Some(Action::Discard(_))) => Speculative::Decision { commit: false },
        _ => Speculative::No,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(handle: u64, n: u8) -> Vec<u8> {
        let mut bytes = vec![0; HEADER as usize];
        bytes.extend(handle.to_ne_bytes());
        bytes.push(n);
        bytes
    }

    fn commit(s: &mut Speculations, time: u64, handle: u64) -> Vec<u8> {
        let mut out = Vec::new();
        s.decide(time, handle, true, |r| {
            out.push(r[r.len() - 1]);
            true
        });
        out
    }

    #[test]
    fn committed_in_order_and_late_ones_follow() {
        let mut s = Speculations::default();
        let (a, b) = (1 << 16 | 1, 1 << 16 | 2);
        for (handle, n) in [(a, 1), (b, 2), (a, 3)] {
            assert_eq!(s.record(&record(handle, n)), Fate::Kept);
        }
        assert_eq!(commit(&mut s, 1, a), [1, 3]);
        assert_eq!(s.record(&record(a, 4)), Fate::Committed);
        s.decide(2, b, false, |_| panic!("nothing is output"));
        assert_eq!(s.record(&record(b, 5)), Fate::Discarded);
        assert_eq!(s.take_lost(), 0);
    }

    #[test]
    fn what_was_never_decided_is_counted() {
        let mut s = Speculations::default();
        s.record(&record(1 << 16 | 1, 1));
        s.record(&record(1 << 16 | 2, 2));
        s.record(&record(3 << 16 | 1, 3));
        assert_eq!(commit(&mut s, 1, 3 << 16 | 1), [3]);
        assert_eq!(s.take_lost(), 1);
        s.end(|handle| handle == 1 << 16 | 2);
        assert_eq!(s.take_lost(), 0);
    }

    #[test]
    fn decisions_are_forgotten_in_time() {
        let mut s = Speculations::default();
        commit(&mut s, 1, 1 << 16 | 1);
        commit(&mut s, 2 + REMEMBERED, 1 << 16 | 2);
        assert_eq!(s.decided.len(), 1);
    }
}
