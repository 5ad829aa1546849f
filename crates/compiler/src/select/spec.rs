//! What a program does in the kernel besides computing and recording: signals, overridden returns, and speculations.
//!
//! Speculations: handing out ids, handles of active ones, room, and the end of one. All state is in the state map and changes by
//! atomic instructions, so that CPUs and interrupts need no lock; see [`probity_ir::layout`].

use super::Select;
use crate::vcode::{B, Base, Rhs, V, WAIT_MAX};
use probity_bpf::helpers::Helper;
use probity_bpf::insn::{AluOp, AtomicOp, Cond, Size, Width};
use probity_ir::{Drop, ExprId, Fault, KernelAct, SPEC_ID_BITS, SPEC_SLOT, TempId};

/// How often a bit of the bitmap is tried for: another CPU or an interrupt may take it between the look and the attempt.
const TRIES: u32 = 6;

impl Select<'_> {
    /// Does what the program does besides computing and recording.
    pub(super) fn act(&mut self, act: KernelAct, dst: Option<TempId>, args: &[ExprId]) {
        let first = args.first().copied();
        let result = match (act, first) {
            (KernelAct::SpecStart, _) => self.spec_start(),
            (KernelAct::SpecUse, Some(id)) => self.spec_use(id),
            (KernelAct::SpecRoom { bytes }, Some(handle)) => self.spec_room(bytes, handle),
            (KernelAct::SpecEnd, Some(id)) => self.spec_end(id),
            (KernelAct::Raise, Some(signal)) => self.send_signal(signal),
            (KernelAct::Chill, Some(ns)) => self.chill(ns),
            (KernelAct::Return, Some(value)) => self.override_return(value),
            (_, None) => self.b.imm(0),
        };
        if let Some(dst) = dst {
            self.set_temp(dst, result);
        }
    }

    fn send_signal(&mut self, signal: ExprId) -> V {
        let signal = self.int(signal);
        let result = self.b.call(Helper::SendSignal, &[signal]);
        self.fault_if(Cond::Ne, result, Rhs::Imm(0), Fault::IllegalOp, signal);
        self.b.imm(0)
    }

    fn chill(&mut self, ns: ExprId) -> V {
        let ns = self.int(ns);
        self.fault_if(Cond::Gt, ns, Rhs::Imm(WAIT_MAX as i32), Fault::IllegalOp, ns);
        let map = self.plan.wait_map();
        self.b.wait(map, ns);
        self.b.imm(0)
    }

    fn override_return(&mut self, value: ExprId) -> V {
        let value = self.int(value);
        let result = self.b.call(Helper::OverrideReturn, &[self.ctx, value]);
        self.fault_if(Cond::Ne, result, Rhs::Imm(0), Fault::IllegalOp, value);
        self.b.imm(0)
    }

    /// The slot of the speculation number `index` (from 0), which is masked, so that the verifier sees its bound.
    fn spec_slot(&mut self, index: V) -> V {
        let mask = self.program.nspec.max(1).next_power_of_two() - 1;
        let index = self.b.alu(AluOp::And, index, Rhs::Imm(mask as i32));
        let off = self.b.alu(AluOp::Lsh, index, Rhs::Imm(SPEC_SLOT.trailing_zeros() as i32));
        let slots = self.b.map_value(self.plan.layout.state_map, self.plan.layout.spec_slots);
        self.b.add_ptr(slots, Rhs::Reg(off))
    }

    /// A handle.
    fn spec_handle(&mut self, turn: V, id: V) -> V {
        let high = self.b.alu(AluOp::Lsh, turn, Rhs::Imm(SPEC_ID_BITS as i32));
        self.b.alu(AluOp::Or, high, Rhs::Reg(id))
    }

    /// Takes the lowest free bit of the bitmap, whose slot is this program's alone from then on until it is active.
    fn spec_start(&mut self) -> V {
        let words = self.program.nspec.max(1).div_ceil(64);
        let (place, first, result) = (self.b.name(), self.b.name(), self.b.name());
        let (attempt, none, join) = (self.b.block(), self.b.cold(), self.b.block());
        for n in 0..words {
            let off = self.plan.layout.spec_offset + 8 * n;
            let word = self.b.map_value(self.plan.layout.state_map, off);
            let bits = self.b.load(Size::DW, Base::Reg(word), 0);
            let next = if n + 1 == words { none } else { self.b.block() };
            let free = self.b.block();
            self.b.branch(Cond::Ne, Width::W64, bits, Rhs::Imm(-1), free, next);
            self.b.start(free);
            let from = self.b.imm(i64::from(64 * n));
            self.b.set(place, word);
            self.b.set(first, from);
            self.b.jump(attempt);
            if n + 1 < words {
                self.b.start(next);
            }
        }
        self.b.start(attempt);
        let (word, first) = (self.b.get(place), self.b.get(first));
        let taken = self.b.name();
        let got = self.b.block();
        for n in 0..TRIES {
            let bits = self.b.load(Size::DW, Base::Reg(word), 0);
            // The lowest zero bit, alone.
            let up = self.b.alu(AluOp::Add, bits, Rhs::Imm(1));
            let zeros = self.b.alu(AluOp::Xor, bits, Rhs::Imm(-1));
            let low = self.b.alu(AluOp::And, up, Rhs::Reg(zeros));
            let old = self.b.fetch(AtomicOp::FetchOr, Base::Reg(word), 0, low);
            let was = self.b.alu(AluOp::And, old, Rhs::Reg(low));
            // A word that has been filled meanwhile has no zero bit: nothing is taken then.
            let (free, mine) = (self.b.block(), self.b.block());
            let again = if n + 1 == TRIES { none } else { self.b.cold() };
            self.b.branch(Cond::Ne, Width::W64, low, Rhs::Imm(0), free, none);
            self.b.start(free);
            self.b.branch(Cond::Eq, Width::W64, was, Rhs::Imm(0), mine, again);
            self.b.start(mine);
            self.b.set(taken, low);
            self.b.jump(got);
            if n + 1 < TRIES {
                self.b.start(again);
            }
        }
        self.b.start(got);
        let low = self.b.get(taken);
        let bit = self.b.log2(low);
        let index = self.b.alu(AluOp::Add, bit, Rhs::Reg(first));
        // The verifier knows the bit exactly on each of the many ways to it, and would check all that follows for each.
        let index = self.b.unknown(index);
        let slot = self.spec_slot(index);
        self.b.store(Size::DW, Base::Reg(slot), 8, Rhs::Imm(0));
        let one = self.b.imm(1);
        // Active from here on; an exchange, so that the room is seen as free before.
        self.b.fetch(AtomicOp::FetchAdd, Base::Reg(slot), 0, one);
        let id = self.b.alu(AluOp::Add, index, Rhs::Imm(1));
        self.b.set(result, id);
        self.b.jump(join);
        self.b.start(none);
        self.count_drop(Drop::NoSpeculation);
        let zero = self.b.imm(0);
        self.b.set(result, zero);
        self.b.jump(join);
        self.b.start(join);
        self.b.get(result)
    }

    /// Goes on where an id is from 1 to `nspec` and active; its number from 0, its slot and its turn.
    fn spec_active(&mut self, id: V, idle: B) -> (V, V) {
        let index = self.b.alu(AluOp::Sub, id, Rhs::Imm(1));
        let (there, active) = (self.b.block(), self.b.block());
        self.b.branch(Cond::Lt, Width::W64, index, Rhs::Imm(self.program.nspec as i32), there, idle);
        self.b.start(there);
        let slot = self.spec_slot(index);
        let turn = self.b.load(Size::DW, Base::Reg(slot), 0);
        self.b.branch(Cond::Set, Width::W64, turn, Rhs::Imm(1), active, idle);
        self.b.start(active);
        (slot, turn)
    }

    fn spec_use(&mut self, id: ExprId) -> V {
        let id = self.int(id);
        let result = self.b.name();
        let (idle, join) = (self.b.block(), self.b.block());
        let (_, turn) = self.spec_active(id, idle);
        let handle = self.spec_handle(turn, id);
        self.b.set(result, handle);
        self.b.jump(join);
        self.zero_at(idle, result, join);
        self.b.start(join);
        self.b.get(result)
    }

    /// In block `at`: the result is 0.
    fn zero_at(&mut self, at: B, result: super::build::Name, join: B) {
        self.b.start(at);
        let zero = self.b.imm(0);
        self.b.set(result, zero);
        self.b.jump(join);
    }

    fn spec_room(&mut self, bytes: u32, handle: ExprId) -> V {
        let handle = self.int(handle);
        let id = self.b.alu(AluOp::And, handle, Rhs::Imm((1 << SPEC_ID_BITS) - 1));
        let index = self.b.alu(AluOp::Sub, id, Rhs::Imm(1));
        let slot = self.spec_slot(index);
        let size = self.b.imm(bytes.into());
        let before = self.b.fetch(AtomicOp::FetchAdd, Base::Reg(slot), 8, size);
        let most = i64::try_from(self.program.specsize).unwrap_or(i64::MAX).saturating_sub(bytes.into());
        let most = self.b.rhs(most);
        let result = self.b.name();
        let (fits, full, join) = (self.b.block(), self.b.cold(), self.b.block());
        self.b.branch(Cond::Sle, Width::W64, before, most, fits, full);
        self.b.start(fits);
        let one = self.b.imm(1);
        self.b.set(result, one);
        self.b.jump(join);
        self.b.start(full);
        // A smaller record may still fit.
        let back = self.b.imm(-i64::from(bytes));
        self.b.atomic(AtomicOp::Add, Base::Reg(slot), 8, back);
        self.count_drop(Drop::Speculation);
        let zero = self.b.imm(0);
        self.b.set(result, zero);
        self.b.jump(join);
        self.b.start(join);
        self.b.get(result)
    }

    fn spec_end(&mut self, id: ExprId) -> V {
        let id = self.int(id);
        let most = Rhs::Imm(self.program.nspec as i32);
        self.fault_if(Cond::Gt, id, most, Fault::IllegalOp, id);
        let result = self.b.name();
        let (idle, join) = (self.b.block(), self.b.block());
        let (slot, turn) = self.spec_active(id, idle);
        let next = self.b.alu(AluOp::Add, turn, Rhs::Imm(1));
        let old = self.b.cmpxchg(Base::Reg(slot), 0, turn, next);
        let mine = self.b.block();
        // Two CPUs may end it at once: one of them does.
        self.b.branch(Cond::Eq, Width::W64, old, Rhs::Reg(turn), mine, idle);
        self.b.start(mine);
        let index = self.b.alu(AluOp::Sub, id, Rhs::Imm(1));
        let words = self.program.nspec.max(1).div_ceil(64).next_power_of_two();
        let word = self.b.alu(AluOp::Rsh, index, Rhs::Imm(6));
        let word = self.b.alu(AluOp::And, word, Rhs::Imm(words as i32 - 1));
        let off = self.b.alu(AluOp::Lsh, word, Rhs::Imm(3));
        let map = self.b.map_value(self.plan.layout.state_map, self.plan.layout.spec_offset);
        let map = self.b.add_ptr(map, Rhs::Reg(off));
        let one = self.b.imm(1);
        let count = self.b.alu(AluOp::And, index, Rhs::Imm(63));
        let bit = self.b.alu(AluOp::Lsh, one, Rhs::Reg(count));
        let others = self.b.alu(AluOp::Xor, bit, Rhs::Imm(-1));
        self.b.atomic(AtomicOp::And, Base::Reg(map), 0, others);
        let handle = self.spec_handle(turn, id);
        self.b.set(result, handle);
        self.b.jump(join);
        self.zero_at(idle, result, join);
        self.b.start(join);
        self.b.get(result)
    }
}
