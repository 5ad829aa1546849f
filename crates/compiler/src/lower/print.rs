//! `print()` and `tracemem()`: memory to bytes of the record.

use super::clause::ClauseLower;
use crate::check::tree::TExpr;
use probity_ir::{Action, BinOp, Expr, ExprId, IntKind, Operand, Show, Space, Stmt, TypeId, Val};

impl ClauseLower<'_> {
    pub(super) fn print(&mut self, value: &TExpr, object: Option<(Space, u32)>, ty: TypeId) -> Action {
        let Some((space, len)) = object else {
            return Action::Print { addr: None, value: self.operand(value), ty };
        };
        let addr = self.expr(value);
        // It is read twice, and both must be the same.
        let addr = self.hold(addr, Val::Int);
        let shown = match space {
            Space::Scratch => self.add(Expr::ScratchAddr(addr)),
            _ => addr,
        };
        let at = Operand { field: self.field(shown, Val::Int), show: Show::Pointer };
        let bytes = self.add(Expr::ReadBytes { addr, space, len });
        let value = Operand { field: self.field(bytes, Val::Bytes { len }), show: Show::Bytes { ty: Some(ty) } };
        Action::Print { addr: Some(at), value, ty }
    }

    pub(super) fn tracemem(&mut self, addr: &TExpr, space: Space, len: u32, fewer: Option<&TExpr>) -> Action {
        let mut at = self.expr(addr);
        let Some(fewer) = fewer else {
            let data = self.memory(at, space, len);
            return Action::Tracemem { data, size: None };
        };
        if fewer.has_effect() {
            at = self.hold(at, Val::Int);
        }
        let count = self.expr(fewer);
        let count = self.hold(count, Val::Int);
        // Negative means all, like too many.
        let most = self.constant(i64::from(len));
        let below = self.add(Expr::Bin(BinOp::LtU, count, most));
        let count = self.add(Expr::Cond(below, count, most));
        let count = self.hold(count, Val::Int);
        // Bytes that are not asked for may not be there: only the others are read, by way of scratch memory.
        let data = match space {
            Space::Scratch => self.memory(at, space, len),
            Space::Kernel | Space::User | Space::Absent => {
                let dst = self.temp();
                self.effect(Stmt::Alloc { dst, len: most });
                let copy = self.add(Expr::Temp(dst));
                self.effect(Stmt::Copy { to: copy, from: at, space, len: count });
                self.memory(copy, Space::Scratch, len)
            }
        };
        let show = Show::Int { size: 8, signed: true, kind: IntKind::Number };
        let size = Operand { field: self.field(count, Val::Int), show };
        Action::Tracemem { data, size: Some(size) }
    }

    fn memory(&mut self, addr: ExprId, space: Space, len: u32) -> Operand {
        let bytes = self.add(Expr::ReadBytes { addr, space, len });
        Operand { field: self.field(bytes, Val::Bytes { len }), show: Show::Bytes { ty: None } }
    }
}
