//! Floating-point values: constants, conversions, comparisons. A value is its bits in an integer: a `float`'s in the low 32. D has no
//! arithmetic on them, which is said here.

use super::conv::{Class, normal};
use super::tree::*;
use super::{Checker, Res};
use probity_ir::{BinOp, StrOp, TypeId, TypeKind};
use probity_syntax::ast::{BinaryOp, FloatKind, FloatLit, UnaryOp};
use probity_syntax::{Diagnostic, Span, tags};

impl Checker<'_> {
    /// The size of a floating-point type.
    pub(super) fn float_size(&self, ty: TypeId) -> Option<u8> {
        match self.types.get(self.types.resolve(ty)) {
            TypeKind::Float { size } => Some(*size),
            _ => None,
        }
    }

    /// A constant. One of type `long double` is a double here.
    pub(super) fn float_literal(&mut self, lit: &FloatLit, span: Span) -> TExpr {
        let size = if lit.kind == FloatKind::Float { 4 } else { 8 };
        let ty = self.types.add(TypeKind::Float { size });
        TExpr::int(bits_of(lit.value, size), ty, span)
    }

    /// Whether a value is a number that can be converted to or from floating point; `long double` cannot.
    fn convertible(&self, ty: TypeId) -> bool {
        matches!(self.class(ty), Class::Int(..)) || matches!(self.float_size(ty), Some(4 | 8))
    }

    /// Converts between numbers of which one at least is floating-point.
    pub(super) fn convert_float(&mut self, e: TExpr, ty: TypeId, span: Span) -> Res<TExpr> {
        if !self.convertible(e.ty) || !self.convertible(ty) {
            let message = format!("cannot convert `{}` to `{}`", self.name(e.ty), self.name(ty));
            let d = Diagnostic::error(tags::D_CAST_INVAL, span, message);
            return self.report(match self.float_size(e.ty).or(self.float_size(ty)) {
                Some(16) => d.help("a `long double` can be copied and printed only: with trace(), print() or `%Lf`"),
                _ => d.help("a floating-point value can be converted to and from integers only"),
            });
        }
        if self.is_bool(ty) && !self.is_bool(e.ty) {
            let truth = self.float_truth(e)?;
            return Ok(TExpr { ty, ..truth });
        }
        let (from, to) = (self.float_size(e.ty), self.float_size(ty));
        if from == to {
            return Ok(TExpr { ty, span, ..e });
        }
        if let TKind::Int(v) = e.kind {
            let v = match (from, to) {
                (Some(size), Some(to)) => bits_of(value_of(v, size), to),
                (None, Some(4)) if self.size_sign(e.ty).1 => i64::from((v as f32).to_bits()),
                (None, Some(4)) => i64::from((v as u64 as f32).to_bits()),
                (None, Some(_)) if self.size_sign(e.ty).1 => (v as f64).to_bits() as i64,
                (None, Some(_)) => (v as u64 as f64).to_bits() as i64,
                (Some(size), None) => to_int(value_of(v, size), self.size_sign(ty)),
                (None, None) => v,
            };
            return Ok(TExpr::int(v, ty, span));
        }
        Ok(TExpr { kind: TKind::FloatConvert(Box::new(e)), ty, span })
    }

    /// Whether a value is not 0.0.
    pub(super) fn float_truth(&mut self, e: TExpr) -> Res<TExpr> {
        let zero = TExpr::int(0, e.ty, e.span);
        let span = e.span;
        self.compare_floats(StrOp::Ne, e, zero, span, span)
    }

    /// A comparison of two numbers of which one at least is floating-point, in C's common type.
    pub(super) fn compare_floats(&mut self, op: StrOp, a: TExpr, b: TExpr, at: Span, span: Span) -> Res<TExpr> {
        let size = self.float_size(a.ty).max(self.float_size(b.ty)).unwrap_or(8);
        if !self.convertible(a.ty) || !self.convertible(b.ty) {
            let message = format!("cannot compare `{}` with `{}`", self.name(a.ty), self.name(b.ty));
            return self.err(tags::D_OP_INCOMPAT, at, message);
        }
        let (ty, int) = (self.types.add(TypeKind::Float { size }), self.basic.int);
        let (sa, sb) = (a.span, b.span);
        let (a, b) = (self.convert_float(a, ty, sa)?, self.convert_float(b, ty, sb)?);
        if let (TKind::Int(x), TKind::Int(y)) = (&a.kind, &b.kind) {
            let (x, y) = (value_of(*x, size), value_of(*y, size));
            let v = match op {
                StrOp::Eq => x == y,
                StrOp::Ne => x != y,
                StrOp::Lt => x < y,
                StrOp::Le => x <= y,
                StrOp::Gt => x > y,
                StrOp::Ge => x >= y,
            };
            return Ok(TExpr::int(v.into(), int, span));
        }
        Ok(TExpr { kind: TKind::FloatCmp(op, Box::new(a), Box::new(b)), ty: int, span })
    }

    /// `-e` and `+e`.
    pub(super) fn float_sign(&mut self, op: UnaryOp, e: TExpr, span: Span) -> Res<TExpr> {
        let size = self.float_size(e.ty).unwrap_or(8);
        if size == 16 || !matches!(op, UnaryOp::Neg | UnaryOp::Plus) {
            return self.no_float_arithmetic(op.text(), tags::D_OP_INT, e.ty, span);
        }
        if op == UnaryOp::Plus {
            return Ok(TExpr { span, ..e });
        }
        let (ty, sign) = (e.ty, if size == 4 { 1 << 31 } else { i64::MIN });
        if let TKind::Int(v) = e.kind {
            return Ok(TExpr::int(v ^ sign, ty, span));
        }
        let sign = TExpr::int(sign, ty, span);
        Ok(TExpr { kind: TKind::Bin(BinOp::Xor, Box::new(e), Box::new(sign)), ty, span })
    }

    /// An operator that is given a floating-point value and cannot take it.
    pub(super) fn no_float_arithmetic<T>(&mut self, op: &str, tag: &'static str, ty: TypeId, span: Span) -> Res<T> {
        let message = format!("operator `{op}` cannot take `{}`: D has no floating-point arithmetic", self.name(ty));
        let d = Diagnostic::error(tag, span, message);
        self.report(d.help("floating-point values can be compared, converted and printed; compute with `(int64_t)x`"))
    }

    /// The comparison that an operator is.
    pub(super) fn comparison(op: BinaryOp) -> StrOp {
        match op {
            BinaryOp::Eq => StrOp::Eq,
            BinaryOp::Ne => StrOp::Ne,
            BinaryOp::Lt => StrOp::Lt,
            BinaryOp::Le => StrOp::Le,
            BinaryOp::Gt => StrOp::Gt,
            _ => StrOp::Ge,
        }
    }
}

/// The bits of a number as its type has them.
fn bits_of(x: f64, size: u8) -> i64 {
    if size == 4 { i64::from((x as f32).to_bits()) } else { x.to_bits() as i64 }
}

fn value_of(bits: i64, size: u8) -> f64 {
    if size == 4 { f32::from_bits(bits as u32).into() } else { f64::from_bits(bits as u64) }
}

/// Cuts off what is behind the point. What C leaves open: beyond the type's range its nearest value, of no number 0.
fn to_int(x: f64, (size, signed): (u8, bool)) -> i64 {
    let v = match (size, signed) {
        (1, true) => i64::from(x as i8),
        (2, true) => i64::from(x as i16),
        (4, true) => i64::from(x as i32),
        (1, false) => i64::from(x as u8),
        (2, false) => i64::from(x as u16),
        (4, false) => i64::from(x as u32),
        (_, true) => x as i64,
        (_, false) => x as u64 as i64,
    };
    normal(v, (size, signed))
}
