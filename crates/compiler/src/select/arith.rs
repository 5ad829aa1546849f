//! Division. BPF before 6.6 has none that is signed, and its division by zero gives 0, where D's is a fault.

use super::Select;
use crate::fold::range;
use crate::vcode::{Rhs, V};
use probity_bpf::insn::{AluOp, Cond};
use probity_ir::{BinOp, Expr, ExprId, Fault};

impl Select<'_> {
    /// A quotient or remainder.
    pub(super) fn divide(&mut self, op: BinOp, a: ExprId, b: ExprId) -> V {
        let x = self.int(a);
        let constant = match self.expr(b) {
            Expr::Const(c) => Some(*c),
            _ => None,
        };
        let y = match constant {
            Some(c) => self.b.rhs(c),
            None => Rhs::Reg(self.int(b)),
        };
        match (constant, y) {
            (Some(0), _) => {
                let zero = self.b.imm(0);
                self.fault(Fault::DivideByZero, zero);
                return self.b.imm(0);
            }
            (None, Rhs::Reg(y)) => {
                let zero = self.b.imm(0);
                self.fault_if(Cond::Eq, y, Rhs::Imm(0), Fault::DivideByZero, zero);
            }
            _ => {}
        }
        let x = self.b.scalar(x);
        match op {
            BinOp::DivU => self.b.alu(AluOp::Div, x, y),
            BinOp::RemU => self.b.alu(AluOp::Mod, x, y),
            _ => self.divide_signed(op, x, range(&self.clause.exprs, a).0 >= 0, constant, y),
        }
    }

    /// By magnitudes: `(a ^ s) - s` with `s` the sign as 0 or -1 is |a|, and applies a sign as well. The magnitude of the least
    /// integer is 2^63 unsigned, so that dividing it by -1 wraps to itself as it must.
    fn divide_signed(&mut self, op: BinOp, x: V, positive: bool, constant: Option<i64>, y: Rhs) -> V {
        let sx = (!positive).then(|| self.b.alu(AluOp::Arsh, x, Rhs::Imm(63)));
        let ax = self.with_sign(x, sx);
        let (ay, sy) = match (constant, y) {
            (Some(c), _) => {
                let sign = (c < 0).then(|| self.b.imm(-1));
                (self.b.rhs(c.unsigned_abs() as i64), sign)
            }
            (None, Rhs::Reg(y)) => {
                let sign = self.b.alu(AluOp::Arsh, y, Rhs::Imm(63));
                (Rhs::Reg(self.with_sign(y, Some(sign))), Some(sign))
            }
            (None, y) => (y, None),
        };
        if op == BinOp::RemS {
            let r = self.b.alu(AluOp::Mod, ax, ay);
            return self.with_sign(r, sx);
        }
        let q = self.b.alu(AluOp::Div, ax, ay);
        let sign = match (sx, sy) {
            (Some(a), Some(b)) => Some(self.b.alu(AluOp::Xor, a, Rhs::Reg(b))),
            (a, b) => a.or(b),
        };
        self.with_sign(q, sign)
    }

    /// `v` negated where `sign` is -1.
    fn with_sign(&mut self, v: V, sign: Option<V>) -> V {
        let Some(sign) = sign else { return v };
        let flipped = self.b.alu(AluOp::Xor, v, Rhs::Reg(sign));
        self.b.alu(AluOp::Sub, flipped, Rhs::Reg(sign))
    }

    /// |v| as an unsigned number, and its sign as 0 or -1.
    pub(super) fn magnitude(&mut self, v: V) -> (V, V) {
        let v = self.b.scalar(v);
        let sign = self.b.alu(AluOp::Arsh, v, Rhs::Imm(63));
        (self.with_sign(v, Some(sign)), sign)
    }
}
