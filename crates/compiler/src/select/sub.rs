//! Subroutines: the short ones in line, the others as calls of routines.

use super::Select;
use crate::vcode::{Rhs, V};
use probity_bpf::helpers::Helper;
use probity_bpf::insn::AluOp;
use probity_ir::{ExprId, Fault, Sub};

impl Select<'_> {
    /// A subroutine whose result is an integer.
    pub(super) fn sub_int(&mut self, sub: Sub, args: &[ExprId]) -> V {
        match sub {
            Sub::Swap2 | Sub::Swap4 | Sub::Swap8 => {
                let bits = match sub {
                    Sub::Swap2 => 16,
                    Sub::Swap4 => 32,
                    _ => 64,
                };
                let v = self.int(args[0]);
                self.b.to_be(v, bits)
            }
            // The helper's result is a register of 64 bits whose upper half is not promised to be zero.
            Sub::Random => {
                let v = self.b.call(Helper::GetPrandomU32, &[]);
                self.b.low32(v)
            }
            _ => {
                let zero = self.b.imm(0);
                self.fault(Fault::IllegalOp, zero);
                self.b.alu(AluOp::Add, zero, Rhs::Imm(0))
            }
        }
    }
}
