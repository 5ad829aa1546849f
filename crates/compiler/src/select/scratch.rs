//! Scratch memory: claiming a slot of this CPU by an atomic bit, giving it back, and handing out pieces of it.
//!
//! A BPF program can be interrupted on its CPU by another of ours, so "one buffer for each CPU" is not enough: each CPU has
//! several slots and a word of claim bits.

use super::{Held, Select};
use crate::vcode::{B, Base, Rhs, V};
use probity_bpf::helpers::Helper;
use probity_bpf::insn::{AluOp, AtomicOp, Cond, Size, Width};
use probity_ir::{Drop, SLOT_STRIDE, SLOTS};

/// Key in the table of needs: the unit as a whole, for `this->` strings.
pub const UNIT: usize = usize::MAX;

/// From where on a clause needs scratch memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Need {
    /// From its body on.
    Body,
    /// From its predicate on.
    Predicate,
}

/// A claimed slot.
#[derive(Clone, Copy, Debug)]
pub struct Scratch {
    /// Its memory.
    pub ptr: V,
    /// The claim word.
    word: V,
    /// Its bit there.
    bit: V,
    /// Bytes from its start that outlive the statement.
    pub keep: u32,
}

impl Select<'_> {
    /// Claims a slot; goes to `lost` when none is free.
    pub(super) fn claim(&mut self, lost: B) {
        let cpu = self.cpu_row();
        let off = self.b.alu(AluOp::Lsh, cpu, Rhs::Imm(SLOT_STRIDE.trailing_zeros() as i32));
        let word = self.b.map_value(self.plan.layout.state_map, self.plan.layout.claims_offset);
        let word = self.b.add_ptr(word, Rhs::Reg(off));
        let (slot, bit) = (self.b.name(), self.b.name());
        let got = self.b.block();
        for n in 0..SLOTS {
            let mask = self.b.imm(1 << n);
            let old = self.b.fetch(AtomicOp::FetchOr, Base::Reg(word), 0, mask);
            let again = if n + 1 == SLOTS { lost } else { self.b.cold() };
            let mine = if n == 0 { self.b.block() } else { self.b.cold() };
            self.b.branch(Cond::Set, Width::W64, old, Rhs::Imm(1 << n), again, mine);
            self.b.start(mine);
            let number = self.b.imm(n.into());
            let mask = self.b.imm(1 << n);
            self.b.set(slot, number);
            self.b.set(bit, mask);
            self.b.jump(got);
            if n + 1 < SLOTS {
                self.b.start(again);
            }
        }
        self.b.start(got);
        let (slot, bit) = (self.b.get(slot), self.b.get(bit));
        let map = self.plan.scratch(self.scratch_base());
        let first = self.b.alu(AluOp::Lsh, cpu, Rhs::Imm(SLOTS.trailing_zeros() as i32));
        let number = self.b.alu(AluOp::Add, first, Rhs::Reg(slot));
        let key = self.b.piece(4);
        self.b.store(Size::W, Base::Frame(key), 0, Rhs::Reg(number));
        let (map, at) = (self.b.map(map), self.b.addr(Base::Frame(key), 0));
        let ptr = self.b.call(Helper::MapLookupElem, &[map, at]);
        self.b.free(key);
        let (null, some) = (self.b.cold(), self.b.block());
        self.b.branch_null(ptr, null, some);
        self.b.start(null);
        let scratch = Scratch { ptr, word, bit, keep: 0 };
        self.release(scratch);
        self.b.jump(lost);
        self.b.start(some);
        self.scratch = Some(scratch);
        self.scratch_top = self.scratch_base();
    }

    /// Claims a slot for the current clause, which is skipped (and counted) when none is free.
    pub(super) fn claim_for_clause(&mut self, next: B) {
        let lost = self.b.cold();
        self.claim(lost);
        let go_on = self.b.here();
        self.b.start(lost);
        self.count_drop(Drop::Scratch);
        self.b.jump(next);
        self.resume(go_on);
        if let Some(scratch) = self.scratch {
            self.held.push(Held::Scratch(scratch));
        }
    }

    /// Gives a slot back.
    pub(super) fn release(&mut self, scratch: Scratch) {
        let others = self.b.alu(AluOp::Xor, scratch.bit, Rhs::Imm(-1));
        self.b.atomic(AtomicOp::And, Base::Reg(scratch.word), 0, others);
    }

    /// Where strings start in a slot.
    pub(super) fn scratch_base(&self) -> u32 {
        2 * self.plan.copyin
    }

    /// The claimed slot; where there is none, the need is noted and the code made again.
    pub(super) fn scratch_ptr(&mut self) -> V {
        if let Some(scratch) = self.scratch {
            return scratch.ptr;
        }
        let need = if self.in_predicate { Need::Predicate } else { Need::Body };
        let noted = self.needs.entry(self.at).or_insert(need);
        *noted = need.max(*noted);
        self.b.imm(0)
    }

    /// A piece of the slot, until the end of the statement.
    pub(super) fn scratch_piece(&mut self, size: u32) -> (Base, i32) {
        let ptr = self.scratch_ptr();
        let at = self.scratch_top;
        self.scratch_top += size.next_multiple_of(8);
        self.plan.scratch(self.scratch_top);
        (Base::Reg(ptr), at as i32)
    }

    /// Makes all pieces of the slot given so far last until the slot is given back.
    pub(super) fn keep_scratch(&mut self) {
        let top = self.scratch_top;
        if let Some(scratch) = &mut self.scratch {
            scratch.keep = top;
        }
    }
}
