//! Which probe fired, which clauses apply to it, and tables by probe.

use super::build::{Cost, Key};
use super::{Index, Select, has_index};
use crate::fold::may_fault;
use crate::vcode::{B, Base, Rhs, V};
use probity_bpf::helpers::Helper;
use probity_bpf::insn::{AluOp, Cond, Size, Width};
use probity_ir::{Builtin, COMPAT_BASE, ClauseCode, Expr, ExprId, Location, ProbePart, Selector, Stmt, Unit, applies};
use std::collections::BTreeMap;

/// Most probes of a unit that are told apart by comparing.
const CHAIN: usize = 4;

/// Which clauses apply.
pub enum Masks {
    /// All.
    All,
    /// Those whose bit is set in these words of 32.
    Words(Vec<V>),
}

/// The indexes at which a unit has probes.
pub fn present(unit: &Unit) -> impl Iterator<Item = u32> {
    unit.probes.iter().enumerate().filter(|(_, p)| p.is_some()).map(|(i, _)| i as u32)
}

/// A part of the description of the probe at `index`.
pub fn part_of(unit: &Unit, index: u32, part: ProbePart) -> &[u8] {
    let Some(Some(probe)) = unit.probes.get(index as usize) else { return b"" };
    match part {
        ProbePart::Provider => probe.desc.provider.as_bytes(),
        ProbePart::Module => probe.desc.module.as_bytes(),
        ProbePart::Function => probe.desc.function.as_bytes(),
        ProbePart::Name => probe.desc.name.as_bytes(),
    }
}

/// Whether a clause writes records, which tell which probe fired; a fault's does too.
fn writes_records(clause: &ClauseCode) -> bool {
    fn in_stmt(stmt: &Stmt) -> bool {
        match stmt {
            Stmt::Emit { .. }
            | Stmt::CopyIn { .. }
            | Stmt::Alloc { .. }
            | Stmt::Copy { .. }
            | Stmt::CopyOut { .. }
            | Stmt::Store { .. }
            | Stmt::Act { .. } => true,
            Stmt::If { then, otherwise, .. } => then.iter().chain(otherwise).any(in_stmt),
            _ => false,
        }
    }
    (0..clause.exprs.len() as u32).any(|e| may_fault(&clause.exprs, ExprId(e))) || clause.body.iter().any(in_stmt)
}

/// Whether a value is found by way of the current task.
fn reads_task(loc: &Location) -> bool {
    match loc {
        Location::CurrentTask => true,
        Location::Memory { base, .. } | Location::Btf { base, .. } | Location::Address { base, .. } => reads_task(base),
        Location::Narrow { of, .. } => reads_task(of),
        Location::Sum { base, plus, .. } => reads_task(base) || reads_task(plus),
        _ => false,
    }
}

impl Select<'_> {
    /// The clauses that run for the probe at `index`, in words of 32 bits.
    fn mask(&self, index: u32) -> Vec<u32> {
        let mut words = vec![0u32; self.unit.clauses.len().div_ceil(32).max(1)];
        for (i, clause) in self.unit.clauses.iter().enumerate() {
            words[i / 32] |= u32::from(applies(self.unit, clause, index)) << (i % 32);
        }
        words
    }

    /// Finds the index of the probe that fired; goes to `exit` where there is none.
    pub(super) fn select_probe(&mut self, exit: B) -> Masks {
        let masks: BTreeMap<u32, Vec<u32>> = present(self.unit).map(|i| (i, self.mask(i))).collect();
        let all_equal = masks.values().all(|m| Some(m) == masks.values().next());
        match &self.unit.selector {
            Selector::One => {
                self.index = Index::Const(0);
                return Masks::All;
            }
            Selector::Cookie => {
                let cookie = self.call_with_ctx(Helper::GetAttachCookie);
                let cookie = self.extend(cookie, 4, false);
                self.index = Index::Reg(cookie);
                if all_equal {
                    return Masks::All;
                }
                if masks.len() <= CHAIN {
                    return self.chain(cookie, None, &masks, exit);
                }
            }
            Selector::Syscall { number, compat, limit } => {
                let number = self.location(number);
                self.b.mark_number(number);
                if masks.len() <= CHAIN {
                    return self.chain(number, compat.as_ref(), &masks, exit);
                }
                let known = self.b.block();
                let bound = (*limit).min(COMPAT_BASE) as i32;
                self.b.branch(Cond::Ge, Width::W64, number, Rhs::Imm(bound), exit, known);
                self.b.start(known);
                if let Some(compat) = compat
                    && all_equal
                    && !self.needs_index()
                    && *limit == 2 * COMPAT_BASE
                {
                    self.known_call(number, compat, exit);
                    return Masks::All;
                }
                let index = match compat {
                    Some(compat) => {
                        let index = self.compat_index(number, compat);
                        if *limit < 2 * COMPAT_BASE {
                            let known = self.b.block();
                            self.b.branch(Cond::Ge, Width::W64, index, Rhs::Imm(*limit as i32), exit, known);
                            self.b.start(known);
                        }
                        index
                    }
                    None => number,
                };
                self.index = Index::Reg(index);
                let holes = masks.len() < *limit as usize;
                if all_equal && !holes {
                    return Masks::All;
                }
            }
        }
        self.table(exit)
    }

    /// Whether any code wants to know which probe fired.
    fn needs_index(&self) -> bool {
        let by_name = |e: &Expr| {
            matches!(e, Expr::ProbeIndex | Expr::ProbeText(_) | Expr::Builtin(Builtin::ProbeId | Builtin::Epid))
        };
        self.unit.clauses.iter().any(|c| c.exprs.iter().any(by_name) || writes_records(c))
    }

    /// Goes to `exit` where a number is no probe's. Most are a probe's in both tables, or in none: only for others it matters
    /// whether the call is a 32-bit one.
    fn known_call(&mut self, number: V, (flags, mask): &(Location, u64), exit: B) {
        const NATIVE: u32 = 1;
        const FOREIGN: u32 = 2;
        let has = |index: u32| matches!(self.unit.probes.get(index as usize), Some(Some(_)));
        let rows: Vec<u8> = (0..COMPAT_BASE)
            .map(|n| (u32::from(has(n)) * NATIVE + u32::from(has(n + COMPAT_BASE)) * FOREIGN) as u8)
            .collect();
        let at = self.plan.constant(&rows);
        let bounded = self.b.alu(AluOp::And, number, Rhs::Imm(COMPAT_BASE as i32 - 1));
        let base = self.b.map_value(self.plan.rodata_map, at);
        let row = self.b.add_ptr(base, Rhs::Reg(bounded));
        let tables = self.b.load(Size::B, Base::Reg(row), 0);
        let (some, foreign, native, known) = (self.b.cold(), self.b.cold(), self.b.cold(), self.b.block());
        let both = Rhs::Imm((NATIVE | FOREIGN) as i32);
        self.b.branch(Cond::Eq, Width::W64, tables, both, known, some);
        self.b.start(some);
        let flags = self.location(flags);
        let mask = self.b.rhs(*mask as i64);
        self.b.branch(Cond::Set, Width::W64, flags, mask, foreign, native);
        for (block, table) in [(foreign, FOREIGN), (native, NATIVE)] {
            self.b.start(block);
            self.b.branch(Cond::Set, Width::W64, tables, Rhs::Imm(table as i32), known, exit);
        }
        self.b.start(known);
    }

    /// `number`, plus the base of 32-bit calls if the call is one.
    fn compat_index(&mut self, number: V, (flags, mask): &(Location, u64)) -> V {
        let flags = self.location(flags);
        let name = self.b.name();
        let (yes, join) = (self.b.cold(), self.b.block());
        self.b.set(name, number);
        let mask = self.b.rhs(*mask as i64);
        self.b.branch(Cond::Set, Width::W64, flags, mask, yes, join);
        self.b.start(yes);
        let index = self.b.alu(AluOp::Add, number, Rhs::Imm(COMPAT_BASE as i32));
        self.b.set(name, index);
        self.b.jump(join);
        self.b.start(join);
        self.b.get(name)
    }

    /// Compares with each index in turn. A number is compared first and only then, whether it is that of a 32-bit call.
    fn chain(
        &mut self,
        number: V,
        compat: Option<&(Location, u64)>,
        masks: &BTreeMap<u32, Vec<u32>>,
        exit: B,
    ) -> Masks {
        let all_equal = masks.values().all(|m| Some(m) == masks.values().next());
        let words = masks.values().next().map_or(1, Vec::len);
        let names: Vec<_> = (0..words).map(|_| self.b.name()).collect();
        let index_name = self.b.name();
        // Each arm may look at the task; whichever did, it is the same.
        let (task, task_key) = (self.b.name(), Key::Loc(Location::CurrentTask));
        let found = self.b.block();
        let mut numbers: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for &index in masks.keys() {
            let number = if compat.is_some() { index % COMPAT_BASE } else { index };
            numbers.entry(number).or_default().push(index);
        }
        let last = numbers.keys().next_back().copied();
        for (&n, indexes) in &numbers {
            let hit = self.b.block();
            let miss = if Some(n) == last { exit } else { self.b.block() };
            self.b.branch(Cond::Eq, Width::W64, number, Rhs::Imm(n as i32), hit, miss);
            self.b.start(hit);
            let native = indexes.iter().copied().find(|&i| compat.is_none() || i < COMPAT_BASE);
            let foreign = indexes.iter().copied().find(|&i| compat.is_some() && i >= COMPAT_BASE);
            let mut arms = Vec::new();
            if let Some((flags, mask)) = compat {
                let flags = self.location(flags);
                let (yes, no) = (self.b.block(), self.b.block());
                let mask = self.b.rhs(*mask as i64);
                self.b.branch(Cond::Set, Width::W64, flags, mask, yes, no);
                arms.push((yes, foreign));
                arms.push((no, native));
            } else {
                arms.push((self.b.here(), native));
            }
            for (block, index) in arms {
                if block != self.b.here() {
                    self.b.start(block);
                }
                let Some(index) = index else {
                    self.b.jump(exit);
                    continue;
                };
                if let Some(known) = self.b.find(&task_key, Cost::Dear) {
                    self.b.set(task, known);
                }
                let v = self.b.imm(index.into());
                self.b.set(index_name, v);
                if !all_equal {
                    for (name, &word) in names.iter().zip(&masks[&index]) {
                        let word = self.b.imm(i64::from(word as i32));
                        self.b.set(*name, word);
                    }
                }
                self.b.jump(found);
            }
            if miss != exit {
                self.b.start(miss);
            }
        }
        if numbers.is_empty() {
            self.b.jump(exit);
        }
        self.b.start(found);
        if compat.is_some_and(|(flags, _)| reads_task(flags)) {
            let known = self.b.get(task);
            self.b.keep(task_key, known);
        }
        self.index = match masks.keys().next() {
            Some(&only) if masks.len() == 1 => Index::Const(only),
            _ => Index::Reg(self.b.get(index_name)),
        };
        if all_equal {
            return Masks::All;
        }
        Masks::Words(names.into_iter().map(|n| self.b.get(n)).collect())
    }

    /// Looks the clauses up in a table.
    fn table(&mut self, exit: B) -> Masks {
        let rows: Vec<Vec<u32>> = (0..self.unit.probes.len() as u32).map(|i| self.mask(i)).collect();
        let words = self.unit.clauses.len().div_ceil(32).max(1).next_power_of_two();
        let size = rows.len().next_power_of_two();
        let mut bytes = vec![0u8; size * words * 4];
        for (i, row) in rows.iter().enumerate() {
            for (w, word) in row.iter().enumerate() {
                let at = (i * words + w) * 4;
                bytes[at..at + 4].copy_from_slice(&word.to_ne_bytes());
            }
        }
        let row = self.table_row(&bytes, size, words as u32 * 4);
        let used = self.unit.clauses.len().div_ceil(32).max(1);
        let words: Vec<V> = (0..used).map(|w| self.b.load(Size::W, Base::Reg(row), w as i32 * 4)).collect();
        let mut any = words[0];
        for &word in &words[1..] {
            any = self.b.alu(AluOp::Or, any, Rhs::Reg(word));
        }
        let go_on = self.b.block();
        self.b.branch(Cond::Eq, Width::W64, any, Rhs::Imm(0), exit, go_on);
        self.b.start(go_on);
        let first = self.mask(present(self.unit).next().unwrap_or(0));
        if present(self.unit).all(|i| self.mask(i) == first) {
            return Masks::All;
        }
        Masks::Words(words)
    }

    /// The address of the firing probe's row in a table of `rows` rows (a power of two) of `size` bytes (likewise).
    fn table_row(&mut self, bytes: &[u8], rows: usize, size: u32) -> V {
        let index = self.index();
        let at = self.plan.constant(bytes);
        let bounded = self.b.alu(AluOp::And, index, Rhs::Imm(rows as i32 - 1));
        let off = self.b.alu(AluOp::Lsh, bounded, Rhs::Imm(size.trailing_zeros() as i32));
        let base = self.b.map_value(self.plan.rodata_map, at);
        self.b.add_ptr(base, Rhs::Reg(off))
    }

    /// Skips the current clause if it does not apply.
    pub(super) fn check_applies(&mut self, masks: &Masks, next: B) {
        let Masks::Words(words) = masks else { return };
        if present(self.unit).all(|i| applies(self.unit, self.clause, i)) {
            return;
        }
        let body = self.b.block();
        let bit = Rhs::Imm((1u32 << (self.at % 32)) as i32);
        self.b.branch(Cond::Set, Width::W32, words[self.at / 32], bit, body, next);
        self.b.start(body);
    }

    /// The firing probe's index.
    pub(super) fn index(&mut self) -> V {
        match (self.index, self.only_probe()) {
            (Index::Const(i), _) | (_, Some(i)) => self.b.imm(i.into()),
            (Index::Reg(v), None) => v,
        }
    }

    /// The only probe that the current clause can run for.
    fn only_probe(&self) -> Option<u32> {
        if let Index::Const(i) = self.index {
            return Some(i);
        }
        let mut all = present(self.unit).filter(|&i| applies(self.unit, self.clause, i));
        let first = all.next();
        first.filter(|_| all.next().is_none())
    }

    /// A number that belongs to the firing probe.
    pub(super) fn probe_number(&mut self, of: impl Fn(u32) -> u32) -> V {
        if let Some(only) = self.only_probe() {
            return self.b.imm(of(only).into());
        }
        let rows = self.unit.probes.len().next_power_of_two();
        let mut bytes = vec![0u8; rows * 4];
        for i in present(self.unit).filter(|&i| applies(self.unit, self.clause, i)) {
            bytes[i as usize * 4..][..4].copy_from_slice(&of(i).to_ne_bytes());
        }
        let row = self.table_row(&bytes, rows, 4);
        self.b.load(Size::W, Base::Reg(row), 0)
    }

    /// Room for the longest text of a part, with its NUL.
    pub(super) fn probe_text_cap(&self, part: ProbePart) -> u32 {
        present(self.unit).map(|i| part_of(self.unit, i, part).len() as u32 + 1).max().unwrap_or(1)
    }

    /// The address of the text, zero-padded to the capacity returned.
    pub(super) fn probe_text(&mut self, part: ProbePart) -> (V, u32) {
        let cap = self.probe_text_cap(part).next_power_of_two().max(8);
        let rows = self.unit.probes.len().next_power_of_two();
        let mut bytes = vec![0u8; rows * cap as usize];
        for i in present(self.unit) {
            let text = part_of(self.unit, i, part);
            bytes[i as usize * cap as usize..][..text.len()].copy_from_slice(text);
        }
        (self.table_row(&bytes, rows, cap), cap)
    }

    /// Stores the index, of which a record's header keeps 16 bits.
    pub(super) fn index_rhs(&mut self) -> Rhs {
        match (self.index, self.only_probe()) {
            (Index::Const(i), _) | (_, Some(i)) => Rhs::Imm(i as i32),
            (Index::Reg(v), None) if has_index(&self.unit.selector) => Rhs::Reg(v),
            (Index::Reg(_), None) => Rhs::Imm(0),
        }
    }
}
