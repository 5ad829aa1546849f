//! Subroutines: the short ones in line, the others as calls of routines on a block of the scratch slot.

use super::Select;
use super::text::Mem;
use crate::routine::{A, CAP, OPERAND, RESULT, Routine, Status};
use crate::vcode::{Base, Rhs, V};
use probity_bpf::helpers::Helper;
use probity_bpf::insn::{Cond, Size};
use probity_ir::{ExprId, Fault, Sub, Val};

/// A block that a routine has worked on.
struct Called {
    routine: Routine,
    base: Base,
    off: i32,
    status: V,
}

impl<'a> Select<'a> {
    /// A subroutine whose result is an integer.
    pub(super) fn sub_int(&mut self, sub: Sub, args: &[ExprId]) -> V {
        match (sub, args) {
            (Sub::Swap2, [a]) => self.network_order(*a, 16),
            (Sub::Swap4, [a]) => self.network_order(*a, 32),
            (Sub::Swap8, [a]) => self.network_order(*a, 64),
            // The upper half of the helper's result is not promised to be zero.
            (Sub::Random, _) => {
                let v = self.b.call(Helper::GetPrandomU32, &[]);
                self.b.low32(v)
            }
            _ => match self.call_routine(sub, args, 0) {
                Some(called) => {
                    self.refuse_illegal(&called);
                    self.b.load(Size::DW, called.base, called.off + 8 * i32::from(RESULT))
                }
                None => {
                    let zero = self.b.imm(0);
                    self.fault(Fault::IllegalOp, zero);
                    self.b.imm(0)
                }
            },
        }
    }

    fn network_order(&mut self, a: ExprId, bits: u8) -> V {
        let v = self.int(a);
        self.b.network_order(v, bits)
    }

    /// A subroutine whose result is a string. Where none is not `allowed`, it is a fault; else it is the empty string.
    pub(super) fn sub_text(&mut self, sub: Sub, args: &[ExprId], cap: u32, allowed: bool) -> Mem {
        let cap = cap.max(1);
        let Some(called) = self.call_routine(sub, args, cap) else {
            return self.buffer(cap.next_multiple_of(8));
        };
        self.refuse_illegal(&called);
        if sub.may_be_none() && !allowed {
            let zero = self.b.imm(0);
            self.fault_if(Cond::Eq, called.status, Rhs::Imm(Status::None as i32), Fault::BadAddress, zero);
        }
        let cap = cap.min(called.routine.size);
        Mem { base: called.base, off: called.off + called.routine.out(), cap, padded: false }
    }

    fn refuse_illegal(&mut self, called: &Called) {
        let sub = called.routine.sub;
        if sub.may_be_illegal() || matches!(sub, Sub::Index | Sub::Rindex | Sub::Strstr) {
            let zero = self.b.imm(0);
            self.fault_if(Cond::Eq, called.status, Rhs::Imm(Status::Illegal as i32), Fault::IllegalOp, zero);
        }
        if sub == Sub::Path {
            let place = self.b.load(Size::DW, called.base, called.off + 8 * i32::from(RESULT));
            self.fault_if(Cond::Eq, called.status, Rhs::Imm(Status::Unreadable as i32), Fault::BadAddress, place);
        }
    }

    /// Puts the operands into a block and calls the routine.
    fn call_routine(&mut self, sub: Sub, args: &[ExprId], cap: u32) -> Option<Called> {
        self.none_ok = false;
        let room = |s: &Self, id| match s.val(id) {
            Val::Int => 0,
            Val::Str { cap } => cap,
            Val::Bytes { len } => len,
        };
        let size = args.iter().map(|&id| room(self, id)).max().unwrap_or(0).max(cap);
        let routine = Routine::new(sub, size)?;
        let (base, off) = self.scratch_piece(routine.block());
        let word = |n: i16| off + 8 * i32::from(n);
        let (mut buffers, mut operand) = ([A, routine.b()].into_iter(), OPERAND);
        for &id in args {
            match self.val(id) {
                Val::Int => {
                    let value = self.rhs(id);
                    self.b.store(Size::DW, base, word(operand), value);
                    operand += 1;
                }
                val => {
                    let cap = match val {
                        Val::Bytes { len } => len,
                        _ => routine.size,
                    };
                    let at = off + buffers.next()?;
                    self.put(Mem { base, off: at, cap, padded: false }, id, false);
                }
            }
        }
        // What an operand that is left out stands for.
        let rest = match (sub, args.len()) {
            (Sub::Index | Sub::Strstr, 2) => Some(0),
            (Sub::Rindex, 2) | (Sub::Substr, 2) => Some(i64::MAX),
            (Sub::Mac, _) => Some(i64::from(room(self, args[0]))),
            _ => None,
        };
        if let Some(rest) = rest {
            let rest = self.b.rhs(rest);
            self.b.store(Size::DW, base, word(operand), rest);
        }
        self.b.store(Size::DW, base, word(CAP), Rhs::Imm(cap as i32));
        let block = self.b.addr(base, off);
        let status = self.b.call_routine(routine, block);
        Some(Called { routine, base, off, status })
    }
}
