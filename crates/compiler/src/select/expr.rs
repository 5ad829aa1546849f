//! Integers and conditions. Conditions become branches; 0 and 1 are made only where a number is wanted.

use super::Select;
use crate::fold::range;
use crate::vcode::{B, Rhs, V};
use probity_bpf::insn::{AluOp, Cond, Width};
use probity_ir::{BinOp, Expr, ExprId, StrOp, UnOp, Val};

impl<'a> Select<'a> {
    /// The value of an integer expression.
    pub(super) fn int(&mut self, id: ExprId) -> V {
        match self.expr(id) {
            Expr::Const(c) => self.b.imm(*c),
            Expr::Loc(loc) => {
                let v = self.location(loc);
                self.b.scalar(v)
            }
            Expr::Builtin(builtin) => self.builtin(*builtin),
            Expr::Temp(t) => self.temp(*t),
            Expr::Var(var) => self.var(*var),
            Expr::Elem(array, key) => self.elem(*array, key),
            Expr::Un(UnOp::Neg, a) => {
                let a = self.int(*a);
                self.b.neg(a)
            }
            Expr::Un(UnOp::Not, a) => {
                let a = self.int(*a);
                self.b.alu(AluOp::Xor, a, Rhs::Imm(-1))
            }
            Expr::Bin(op, a, b) => match alu_op(*op) {
                Some(op) => {
                    let (a, b) = (self.int(*a), self.rhs(*b));
                    self.b.alu(op, a, shift_count(op, b))
                }
                None if comparison(*op).is_some() => self.truth(id),
                None => self.divide(*op, *a, *b),
            },
            Expr::Ext { of, size, signed } => self.extended(*of, *size, *signed),
            Expr::Un(UnOp::LogNot, _) | Expr::And(..) | Expr::Or(..) | Expr::StrCmp(..) => self.truth(id),
            Expr::Cond(c, a, b) => {
                let (yes, no, join) = (self.b.block(), self.b.block(), self.b.block());
                let name = self.b.name();
                self.branch(*c, yes, no);
                for (block, e) in [(yes, *a), (no, *b)] {
                    self.b.start(block);
                    let v = self.int(e);
                    self.b.set(name, v);
                    self.b.jump(join);
                }
                self.b.start(join);
                self.b.get(name)
            }
            Expr::Load { addr, size, signed, space } => self.load(*addr, *size, *signed, *space),
            Expr::StrLen(a) => self.str_len(*a),
            Expr::ScratchAddr(a) => {
                let at = self.int(*a);
                let scratch = self.scratch_ptr();
                let ptr = self.b.ptr_copy(scratch, 0);
                self.b.mark_pointer(ptr);
                let base = self.b.scalar(ptr);
                self.b.alu(AluOp::Add, base, Rhs::Reg(at))
            }
            Expr::Sub { sub, args, .. } if !sub.is_text() => self.sub_int(*sub, args),
            Expr::AddrOf(place) => self.addr_of(place),
            Expr::Bounded { index, len } => self.bounded(*index, *len),
            Expr::CharAt { of, index } => self.char_at(*of, *index),
            Expr::ProbeIndex => self.index(),
            Expr::Part { of, offset, size, signed } => self.part(*of, *offset, *size, *signed),
            Expr::Str(_)
            | Expr::Comm
            | Expr::ProbeText(_)
            | Expr::ReadStr { .. }
            | Expr::StrJoin { .. }
            | Expr::Sub { .. }
            | Expr::ReadBytes { .. }
            | Expr::Stack(_)
            | Expr::UserAddr(_) => {
                self.fail("a string stands where an integer is needed (a bug in the checker)".into());
                self.b.imm(0)
            }
        }
    }

    /// The value as a second operand.
    pub(super) fn rhs(&mut self, id: ExprId) -> Rhs {
        match self.expr(id) {
            Expr::Const(c) => self.b.rhs(*c),
            _ => Rhs::Reg(self.int(id)),
        }
    }

    fn extended(&mut self, of: ExprId, size: u8, signed: bool) -> V {
        if size == 4 {
            let v = self.low(of);
            return if signed { self.b.sign_extend(v, 4) } else { self.b.low32(v) };
        }
        let v = self.int(of);
        self.extend(v, size, signed)
    }

    /// The low `size` bytes, extended.
    pub(super) fn extend(&mut self, v: V, size: u8, signed: bool) -> V {
        match (size, signed) {
            (1 | 2 | 4, true) => self.b.sign_extend(v, size),
            (1, false) => self.b.alu(AluOp::And, v, Rhs::Imm(0xff)),
            (2, false) => self.b.alu(AluOp::And, v, Rhs::Imm(0xffff)),
            (4, false) => self.b.low32(v),
            _ => v,
        }
    }

    /// A value whose low 32 bits are those of the expression; the others may be anything.
    fn low(&mut self, id: ExprId) -> V {
        match self.expr(id) {
            Expr::Ext { of, size: 4, .. } => self.low(*of),
            Expr::Bin(op @ (BinOp::Add | BinOp::Sub | BinOp::Mul | BinOp::And | BinOp::Or | BinOp::Xor), a, b) => {
                let a = self.low(*a);
                let b = match self.expr(*b) {
                    Expr::Const(c) => self.b.rhs(i64::from(*c as i32)),
                    _ => Rhs::Reg(self.low(*b)),
                };
                match alu_op(*op) {
                    Some(op) => self.b.alu(op, a, b),
                    None => a,
                }
            }
            _ => self.int(id),
        }
    }

    /// The value as 0 or 1.
    fn truth(&mut self, id: ExprId) -> V {
        let (yes, no, join) = (self.b.block(), self.b.block(), self.b.block());
        let name = self.b.name();
        self.branch(id, yes, no);
        for (block, val) in [(yes, 1), (no, 0)] {
            self.b.start(block);
            let v = self.b.imm(val);
            self.b.set(name, v);
            self.b.jump(join);
        }
        self.b.start(join);
        self.b.get(name)
    }

    /// Goes to `then` if the expression is not zero, else to `other`.
    pub(super) fn branch(&mut self, id: ExprId, then: B, other: B) {
        match self.expr(id) {
            Expr::Const(c) => self.b.jump(if *c != 0 { then } else { other }),
            Expr::Un(UnOp::LogNot, a) => self.branch(*a, other, then),
            Expr::And(a, b) => {
                let middle = self.b.block();
                self.branch(*a, middle, other);
                self.b.start(middle);
                self.branch(*b, then, other);
            }
            Expr::Or(a, b) => {
                let middle = self.b.block();
                self.branch(*a, then, middle);
                self.b.start(middle);
                self.branch(*b, then, other);
            }
            Expr::StrCmp(op, a, b) => self.compare_strings(*op, *a, *b, then, other),
            Expr::Bin(op, a, b) if comparison(*op).is_some() => self.compare(*op, *a, *b, then, other),
            Expr::Bin(BinOp::And, a, b) => {
                let (a, b) = (self.int(*a), self.rhs(*b));
                self.b.branch(Cond::Set, Width::W64, a, b, then, other);
            }
            Expr::Var(var) if super::is_thread(self.program, *var) => self.branch_thread_var(*var, then, other),
            Expr::Ext { of, size: 4, .. } => {
                let v = self.low(*of);
                self.b.branch(Cond::Ne, Width::W32, v, Rhs::Imm(0), then, other);
            }
            _ => {
                let v = self.int(id);
                self.b.branch(Cond::Ne, Width::W64, v, Rhs::Imm(0), then, other);
            }
        }
    }

    fn compare(&mut self, op: BinOp, a: ExprId, b: ExprId, then: B, other: B) {
        // x == 0 and x != 0 are conditions themselves.
        if let (BinOp::Eq | BinOp::Ne, Expr::Const(0)) = (op, self.expr(b)) {
            return match op {
                BinOp::Ne => self.branch(a, then, other),
                _ => self.branch(a, other, then),
            };
        }
        let Some(cond) = comparison(op) else { return };
        if let Expr::Const(c) = *self.expr(a) {
            let b = self.int(b);
            let a = self.b.rhs(c);
            return self.b.branch(cond.swap(), Width::W64, b, a, then, other);
        }
        if self.compares_low(op, a, b) {
            let a = self.low(a);
            let b = match self.expr(b) {
                Expr::Const(c) => Rhs::Imm(*c as i32),
                _ => Rhs::Reg(self.low(b)),
            };
            return self.b.branch(cond, Width::W32, a, b, then, other);
        }
        let (a, b) = (self.int(a), self.rhs(b));
        self.b.branch(cond, Width::W64, a, b, then, other);
    }

    /// Whether comparing the low halves gives the same: both sides are 32-bit values of one signedness, and one of them is
    /// extended only for the comparison.
    fn compares_low(&self, op: BinOp, a: ExprId, b: ExprId) -> bool {
        let ext = |id| matches!(self.expr(id), Expr::Ext { size: 4, .. });
        let fits = |id, lo: i64, hi: i64| {
            let (least, most) = range(&self.clause.exprs, id);
            lo <= least && most <= hi
        };
        let signed = |id| fits(id, i32::MIN.into(), i32::MAX.into());
        let unsigned = |id| fits(id, 0, u32::MAX.into());
        if !ext(a) && !ext(b) {
            return false;
        }
        match op {
            BinOp::Eq | BinOp::Ne => (signed(a) && signed(b)) || (unsigned(a) && unsigned(b)),
            BinOp::LtS | BinOp::LeS => signed(a) && signed(b),
            BinOp::LtU | BinOp::LeU => (unsigned(a) && unsigned(b)) || (signed(a) && signed(b)),
            _ => false,
        }
    }

    /// Compares strings given by a list of operators, for `expr` only.
    pub(super) fn order(op: StrOp) -> Cond {
        match op {
            StrOp::Eq => Cond::Eq,
            StrOp::Ne => Cond::Ne,
            StrOp::Lt => Cond::Lt,
            StrOp::Le => Cond::Le,
            StrOp::Gt => Cond::Gt,
            StrOp::Ge => Cond::Ge,
        }
    }

    /// Whether an expression is an integer.
    pub(super) fn is_int(&self, id: ExprId) -> bool {
        self.val(id) == Val::Int
    }
}

fn alu_op(op: BinOp) -> Option<AluOp> {
    Some(match op {
        BinOp::Add => AluOp::Add,
        BinOp::Sub => AluOp::Sub,
        BinOp::Mul => AluOp::Mul,
        BinOp::And => AluOp::And,
        BinOp::Or => AluOp::Or,
        BinOp::Xor => AluOp::Xor,
        BinOp::Shl => AluOp::Lsh,
        BinOp::ShrS => AluOp::Arsh,
        BinOp::ShrU => AluOp::Rsh,
        _ => return None,
    })
}

/// Shift counts are taken modulo 64; the verifier refuses others as immediates.
fn shift_count(op: AluOp, b: Rhs) -> Rhs {
    match (op, b) {
        (AluOp::Lsh | AluOp::Rsh | AluOp::Arsh, Rhs::Imm(n)) => Rhs::Imm(n & 63),
        _ => b,
    }
}

fn comparison(op: BinOp) -> Option<Cond> {
    Some(match op {
        BinOp::Eq => Cond::Eq,
        BinOp::Ne => Cond::Ne,
        BinOp::LtS => Cond::Slt,
        BinOp::LtU => Cond::Lt,
        BinOp::LeS => Cond::Sle,
        BinOp::LeU => Cond::Le,
        _ => return None,
    })
}
