//! Arithmetic as DTrace does it, for its drop-in: in 64 bits, cut to a type only where a value is stored, cast or shown; the type is the wider
//! operand's, without C's promotion to `int`. `probity` itself computes as C does.

use super::conv::{Class, normal};
use super::tree::*;
use super::{Checker, Res};
use probity_ir::{BinOp, TypeId, TypeKind, UnOp};
use probity_syntax::Span;
use probity_syntax::ast::BinaryOp;

impl Checker<'_> {
    /// The type of a result: that of the operand with more bits, of equally wide ones the unsigned.
    fn rank(&self, a: TypeId, b: TypeId) -> TypeId {
        let of = |ty: TypeId| match self.types.get(self.types.resolve(ty)) {
            TypeKind::Enum { .. } => self.basic.int,
            _ => ty,
        };
        let weight = |ty: TypeId| {
            let (size, signed) = self.size_sign(ty);
            (size, !signed)
        };
        let (a, b) = (of(a), of(b));
        if weight(b) > weight(a) { b } else { a }
    }

    /// The 64 bits of a value that is shown as a narrower type.
    fn whole(&mut self, e: TExpr, ty: TypeId) -> TExpr {
        match e.kind {
            TKind::Shown(inner) => TExpr { ty, ..*inner },
            kind => self.convert(TExpr { kind, ..e }, ty),
        }
    }

    fn shown_as(&mut self, e: TExpr, ty: TypeId) -> TExpr {
        let span = e.span;
        let shape = self.size_sign(ty);
        match e.kind {
            _ if shape.0 == 8 => TExpr { ty, ..e },
            // A constant that its type cannot hold has a wider one.
            TKind::Int(v) if normal(v, shape) == v => TExpr::int(v, ty, span),
            TKind::Int(_) => e,
            _ => TExpr { kind: TKind::Shown(Box::new(e)), ty, span },
        }
    }

    /// `a op b` of two integers.
    pub(super) fn wide(&mut self, op: BinaryOp, a: TExpr, b: TExpr, span: Span, op_span: Span) -> Res<TExpr> {
        let ty = self.rank(a.ty, b.ty);
        let signed = self.size_sign(ty).1;
        let inner = if signed { self.basic.long } else { self.basic.ulong };
        let (a, b) = (self.whole(a, inner), self.whole(b, inner));
        let bin = match op {
            BinaryOp::Add => BinOp::Add,
            BinaryOp::Sub => BinOp::Sub,
            BinaryOp::Mul => BinOp::Mul,
            BinaryOp::Div if signed => BinOp::DivS,
            BinaryOp::Div => BinOp::DivU,
            BinaryOp::Mod if signed => BinOp::RemS,
            BinaryOp::Mod => BinOp::RemU,
            BinaryOp::Shl => BinOp::Shl,
            BinaryOp::Shr if signed => BinOp::ShrS,
            BinaryOp::Shr => BinOp::ShrU,
            BinaryOp::BitAnd => BinOp::And,
            BinaryOp::BitXor => BinOp::Xor,
            _ => BinOp::Or,
        };
        let value = self.bin(bin, a, b, inner, span, op_span)?;
        Ok(self.shown_as(value, ty))
    }

    /// `-e` and `~e` of an integer.
    pub(super) fn wide_unary(&mut self, op: UnOp, e: TExpr, span: Span) -> TExpr {
        let ty = self.rank(e.ty, e.ty);
        let long = self.basic.long;
        let e = self.whole(e, long);
        let value = match e.kind {
            TKind::Int(v) => TExpr::int(if op == UnOp::Neg { v.wrapping_neg() } else { !v }, long, span),
            _ => TExpr { kind: TKind::Un(op, Box::new(e)), ty: long, span },
        };
        match value.kind {
            // As a constant of its type, not a wider one: `-1u` stays unsigned.
            TKind::Int(v) => TExpr::int(normal(v, self.size_sign(ty)), ty, span),
            _ => self.shown_as(value, ty),
        }
    }

    /// Whether arithmetic is DTrace's.
    pub(super) fn is_wide(&self, a: &TExpr, b: &TExpr) -> bool {
        let int = |e: &TExpr| matches!(self.class(e.ty), Class::Int(..)) && !self.is_bool(e.ty);
        self.options.dropin && int(a) && int(b)
    }
}
