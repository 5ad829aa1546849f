//! Operators: what operands they take, the type of the result, constants folded.

use super::conv::{Class, normal};
use super::tree::*;
use super::{Checker, Res};
use probity_ir::{BinOp, Space, StrOp, TypeId, TypeKind, UnOp};
use probity_syntax::ast::{self, BinaryOp, UnaryOp};
use probity_syntax::{Diagnostic, Span, tags};

impl Checker<'_> {
    /// `-e`, `~e`, `!e`, `+e`
    pub(super) fn unary(&mut self, op: UnaryOp, operand: TExpr, span: Span) -> Res<TExpr> {
        let text = op.text();
        if op == UnaryOp::Not {
            let ty = operand.ty;
            let Some(truth) = self.truth(operand) else {
                let message = format!("operator `!` needs a scalar, not `{}`", self.name(ty));
                return self.err(tags::D_OP_SCALAR, span, message);
            };
            return Ok(match truth.kind {
                TKind::Int(v) => TExpr::int(i64::from(v == 0), truth.ty, span),
                TKind::Truth(e) => TExpr { kind: TKind::Un(UnOp::LogNot, e), ty: truth.ty, span },
                _ => TExpr { kind: TKind::Un(UnOp::LogNot, Box::new(truth)), ty: self.basic.int, span },
            });
        }
        if self.is_float(operand.ty) {
            return self.float_sign(op, operand, span);
        }
        if !self.is_int(&operand) {
            let tag = if op == UnaryOp::BitNot { tags::D_OP_INT } else { tags::D_OP_ARITH };
            let message = format!("operator `{text}` needs an integer, not `{}`", self.name(operand.ty));
            return self.err(tag, span, message);
        }
        let whole = operand.clone();
        let operand = self.promote(operand);
        let ty = operand.ty;
        let shape = self.size_sign(ty);
        let un = match op {
            UnaryOp::Neg => UnOp::Neg,
            UnaryOp::BitNot => UnOp::Not,
            _ => return Ok(TExpr { span, ..operand }),
        };
        if self.options.dropin && !self.is_bool(whole.ty) {
            return Ok(self.wide_unary(un, whole, span));
        }
        if let TKind::Int(v) = operand.kind {
            let v = if un == UnOp::Neg { v.wrapping_neg() } else { !v };
            return Ok(TExpr::int(normal(v, shape), ty, span));
        }
        Ok(TExpr { kind: TKind::Un(un, Box::new(operand)), ty, span })
    }

    /// `a op b`, assignments aside.
    pub(super) fn binary(&mut self, op: BinaryOp, op_span: Span, a: TExpr, b: TExpr, span: Span) -> Res<TExpr> {
        for e in [&a, &b] {
            if self.class(e.ty) == Class::Void {
                let message = format!("operator `{}` cannot take a `void` value", op.text());
                return self.err(tags::D_OP_ACT, e.span, message);
            }
        }
        let (a, b) = match op {
            // Whether there is anything that is translated is a question with an answer.
            BinaryOp::Eq | BinaryOp::Ne if a.kind == TKind::Int(0) || b.kind == TKind::Int(0) => {
                (self.translated_address(a), self.translated_address(b))
            }
            _ => (a, b),
        };
        match op {
            BinaryOp::And | BinaryOp::Or | BinaryOp::Xor => self.logical(op, op_span, a, b, span),
            BinaryOp::Eq | BinaryOp::Ne | BinaryOp::Lt | BinaryOp::Le | BinaryOp::Gt | BinaryOp::Ge => {
                self.compare(op, op_span, a, b, span)
            }
            BinaryOp::Add | BinaryOp::Sub => self.add(op, op_span, a, b, span),
            _ => {
                if !self.is_int(&a) || !self.is_int(&b) {
                    let bad = if self.is_int(&a) { b.ty } else { a.ty };
                    let arith = matches!(op, BinaryOp::Mul | BinaryOp::Div);
                    let tag = if arith { tags::D_OP_ARITH } else { tags::D_OP_INT };
                    if self.is_float(bad) {
                        return self.no_float_arithmetic(op.text(), tag, bad, op_span);
                    }
                    let message = format!("operator `{}` needs integers, not `{}`", op.text(), self.name(bad));
                    return self.err(tag, op_span, message);
                }
                if self.is_wide(&a, &b) {
                    return self.wide(op, a, b, span, op_span);
                }
                if matches!(op, BinaryOp::Shl | BinaryOp::Shr) {
                    let (mut a, b) = (self.promote(a), self.promote(b));
                    // C leaves open what a count of 32 does to 32 bits. D computes in 64: `1 << 40` means what it says.
                    let far = self.constant(&b).is_some_and(|n| (32..64).contains(&n));
                    if far && self.size_sign(a.ty).0 == 4 {
                        let wide = if self.size_sign(a.ty).1 { self.basic.long } else { self.basic.ulong };
                        a = self.convert(a, wide);
                    }
                    let ty = a.ty;
                    let signed = self.size_sign(ty).1;
                    let bin = match op {
                        BinaryOp::Shl => BinOp::Shl,
                        _ if signed => BinOp::ShrS,
                        _ => BinOp::ShrU,
                    };
                    return self.bin(bin, a, b, ty, span, op_span);
                }
                let (a, b, ty) = self.usual(a, b);
                let signed = self.size_sign(ty).1;
                let bin = match op {
                    BinaryOp::Mul => BinOp::Mul,
                    BinaryOp::Div if signed => BinOp::DivS,
                    BinaryOp::Div => BinOp::DivU,
                    BinaryOp::Mod if signed => BinOp::RemS,
                    BinaryOp::Mod => BinOp::RemU,
                    BinaryOp::BitAnd => BinOp::And,
                    BinaryOp::BitXor => BinOp::Xor,
                    _ => BinOp::Or,
                };
                self.bin(bin, a, b, ty, span, op_span)
            }
        }
    }

    /// A binary node on operands that are converted already; folds constants.
    pub(super) fn bin(&mut self, op: BinOp, a: TExpr, b: TExpr, ty: TypeId, span: Span, op_span: Span) -> Res<TExpr> {
        let divides = matches!(op, BinOp::DivS | BinOp::DivU | BinOp::RemS | BinOp::RemU);
        if divides && b.kind == TKind::Int(0) {
            return self.err(tags::D_DIV_ZERO, op_span.to(b.span), "division by zero");
        }
        if let (TKind::Int(x), TKind::Int(y)) = (&a.kind, &b.kind) {
            let v = fold(op, *x, *y);
            let shape = self.size_sign(ty);
            // C leaves open what a product does that outgrows an `int`; scripts write seconds as `n * 1000000000`, and D computes
            // in 64 bits.
            if shape == (4, true) && normal(v, shape) != v && op == BinOp::Mul {
                let long = self.basic.long;
                return Ok(TExpr::int(v, long, span));
            }
            return Ok(TExpr::int(normal(v, shape), ty, span));
        }
        Ok(TExpr { kind: TKind::Bin(op, Box::new(a), Box::new(b)), ty, span })
    }

    fn logical(&mut self, op: BinaryOp, op_span: Span, a: TExpr, b: TExpr, span: Span) -> Res<TExpr> {
        let (ta, tb) = (a.ty, b.ty);
        let int = self.basic.int;
        let (Some(a), Some(b)) = (self.truth(a), self.truth(b)) else {
            let message =
                format!("operator `{}` needs scalars, not `{}` and `{}`", op.text(), self.name(ta), self.name(tb));
            return self.err(tags::D_OP_SCALAR, op_span, message);
        };
        if let (TKind::Int(x), TKind::Int(y)) = (&a.kind, &b.kind) {
            let v = match op {
                BinaryOp::And => x & y,
                BinaryOp::Or => x | y,
                _ => x ^ y,
            };
            return Ok(TExpr::int(v, int, span));
        }
        let (a, b) = (Box::new(a), Box::new(b));
        let kind = match op {
            BinaryOp::And => TKind::And(a, b),
            BinaryOp::Or => TKind::Or(a, b),
            // Both are 0 or 1.
            _ => TKind::Bin(BinOp::Ne, a, b),
        };
        Ok(TExpr { kind, ty: int, span })
    }

    fn compare(&mut self, op: BinaryOp, op_span: Span, a: TExpr, b: TExpr, span: Span) -> Res<TExpr> {
        let int = self.basic.int;
        let (a, b) = self.null_as_string(a, b);
        let (ta, tb) = (a.ty, b.ty);
        let a_string = self.class(ta) == Class::String;
        let b_string = self.class(tb) == Class::String;
        if a_string || b_string {
            if !self.is_stringlike(ta) || !self.is_stringlike(tb) {
                let (text, hint) = (op.text(), "compare a string with a string; `stringof` makes one of a pointer");
                let d = Diagnostic::error(
                    tags::D_OP_INCOMPAT,
                    op_span,
                    format!("operands of `{text}` do not go together: `{}` and `{}`", self.name(ta), self.name(tb)),
                );
                return self.report(d.help(hint));
            }
            let (Some(a), Some(b)) = (self.as_string(a)?, self.as_string(b)?) else {
                return self.incompatible(op_span, ta, op.text(), tb);
            };
            let cmp = match op {
                BinaryOp::Eq => StrOp::Eq,
                BinaryOp::Ne => StrOp::Ne,
                BinaryOp::Lt => StrOp::Lt,
                BinaryOp::Le => StrOp::Le,
                BinaryOp::Gt => StrOp::Gt,
                _ => StrOp::Ge,
            };
            return Ok(TExpr { kind: TKind::StrCmp(cmp, Box::new(a), Box::new(b)), ty: int, span });
        }
        if self.is_float(ta) || self.is_float(tb) {
            return self.compare_floats(Self::comparison(op), a, b, op_span, span);
        }
        let (Some(a), Some(b)) = (self.scalar(a), self.scalar(b)) else {
            return self.incompatible(op_span, ta, op.text(), tb);
        };
        let (a, b, common) = match (self.class(a.ty), self.class(b.ty)) {
            (Class::Int(..), Class::Int(..)) => self.usual(a, b),
            (Class::Pointer(x, _), Class::Pointer(y, _)) => {
                if !self.pointees_mix(x, y) {
                    return self.incompatible(op_span, ta, op.text(), tb);
                }
                let ty = a.ty;
                (a, b, ty)
            }
            _ => {
                let ulong = self.basic.ulong;
                (self.convert(a, ulong), self.convert(b, ulong), ulong)
            }
        };
        let signed = self.size_sign(common).1;
        let (bin, negate) = match (op, signed) {
            (BinaryOp::Eq, _) => (BinOp::Eq, false),
            (BinaryOp::Ne, _) => (BinOp::Ne, false),
            (BinaryOp::Lt, true) => (BinOp::LtS, false),
            (BinaryOp::Lt, false) => (BinOp::LtU, false),
            (BinaryOp::Le, true) => (BinOp::LeS, false),
            (BinaryOp::Le, false) => (BinOp::LeU, false),
            // `a > b` is not `b < a` here: that would change the order of side effects.
            (BinaryOp::Gt, true) => (BinOp::LeS, true),
            (BinaryOp::Gt, false) => (BinOp::LeU, true),
            (_, true) => (BinOp::LtS, true),
            (_, false) => (BinOp::LtU, true),
        };
        let value = self.bin(bin, a, b, int, span, op_span)?;
        if negate { self.unary(UnaryOp::Not, value, span) } else { Ok(value) }
    }

    fn add(&mut self, op: BinaryOp, op_span: Span, a: TExpr, b: TExpr, span: Span) -> Res<TExpr> {
        let (ta, tb) = (a.ty, b.ty);
        let bin = if op == BinaryOp::Add { BinOp::Add } else { BinOp::Sub };
        if let Some(&ty) = [ta, tb].iter().find(|ty| self.is_float(**ty)) {
            return self.no_float_arithmetic(op.text(), tags::D_OP_INCOMPAT, ty, op_span);
        }
        // The string from a byte on.
        let string = |c: &Self, e: &TExpr| c.class(e.ty) == Class::String;
        if op == BinaryOp::Add && (string(self, &a) && self.is_int(&b) || string(self, &b) && self.is_int(&a)) {
            let (text, by) = if string(self, &a) { (a, b) } else { (b, a) };
            let (long, string, at) = (self.basic.long, self.basic.string, by.span);
            let by = self.convert(by, long);
            let most = u32::try_from(self.options.strsize).unwrap_or(u32::MAX);
            // Nothing is known of what is in front of a string.
            let by = match self.constant(&by) {
                Some(n) if (0..i64::from(most)).contains(&n) => by,
                _ => TExpr { kind: TKind::Bounded(Box::new(by), most), ty: long, span: at },
            };
            return Ok(TExpr { kind: TKind::Sub(probity_ir::Sub::Substr, vec![text, by]), ty: string, span });
        }
        let (Some(a), Some(b)) = (self.scalar(a), self.scalar(b)) else {
            return self.incompatible(op_span, ta, op.text(), tb);
        };
        match (self.class(a.ty), self.class(b.ty)) {
            (Class::Int(..), Class::Int(..)) if self.is_wide(&a, &b) => self.wide(op, a, b, span, op_span),
            (Class::Int(..), Class::Int(..)) => {
                let (a, b, ty) = self.usual(a, b);
                self.bin(bin, a, b, ty, span, op_span)
            }
            (Class::Pointer(to, _), Class::Int(..)) | (Class::Int(..), Class::Pointer(to, _))
                if self.class(to) == Class::Void =>
            {
                let d = Diagnostic::error(
                    tags::D_OP_INCOMPAT,
                    op_span,
                    format!("operator `{}` cannot be applied to a pointer to `void`", op.text()),
                );
                self.report(d.help("cast it first, as in `(char *)p + 1`"))
            }
            (Class::Pointer(to, _), Class::Int(..)) => {
                let (ty, by) = (a.ty, self.scaled(b, to)?);
                if let TKind::Int(by) = by.kind {
                    // Offsets that are known add up to one.
                    let by = if op == BinaryOp::Sub { by.wrapping_neg() } else { by };
                    let sum = self.offset(a, by, span);
                    return Ok(TExpr { ty, span, ..sum });
                }
                self.bin(bin, a, by, ty, span, op_span)
            }
            (Class::Int(..), Class::Pointer(to, _)) if op == BinaryOp::Add => {
                let (ty, by) = (b.ty, self.scaled(a, to)?);
                self.bin(bin, by, b, ty, span, op_span)
            }
            (Class::Pointer(x, s), Class::Pointer(y, t))
                if op == BinaryOp::Sub && s == t && self.pointees_mix(x, y) =>
            {
                let size = self.step_size(x, span)?;
                let long = self.basic.long;
                let difference = self.bin(BinOp::Sub, a, b, long, span, op_span)?;
                let size = TExpr::int(size, long, span);
                self.bin(BinOp::DivS, difference, size, long, span, op_span)
            }
            _ => self.incompatible(op_span, ta, op.text(), tb),
        }
    }

    /// An integer in units of the size of what a pointer points to.
    pub(super) fn scaled(&mut self, e: TExpr, to: TypeId) -> Res<TExpr> {
        let span = e.span;
        let size = self.step_size(to, span)?;
        let long = self.basic.long;
        let e = self.convert(e, long);
        if size == 1 {
            return Ok(e);
        }
        let size = TExpr::int(size, long, span);
        self.bin(BinOp::Mul, e, size, long, span, span)
    }

    fn step_size(&mut self, to: TypeId, span: Span) -> Res<i64> {
        match self.class_complete(to) {
            Class::Void => Ok(1),
            _ => match self.types.size(to) {
                Some(size) => Ok(size.max(1) as i64),
                None => {
                    let message = format!("the size of `{}` is not known", self.name(to));
                    self.err(tags::D_OP_INCOMPLETE, span, message)
                }
            },
        }
    }

    /// `c ? a : b`
    pub(super) fn ternary(&mut self, c: TExpr, a: TExpr, b: TExpr, span: Span) -> Res<TExpr> {
        let Some(c) = self.truth(c) else {
            return self.err(tags::D_OP_SCALAR, span, "the condition of `?:` must be a scalar");
        };
        let (ta, tb) = (a.ty, b.ty);
        if self.class(ta) == Class::Void || self.class(tb) == Class::Void {
            return self.err(
                tags::D_OP_ACT,
                span,
                "the operands of `?:` must have values; use `if` to choose an action",
            );
        }
        let string = self.basic.string;
        let is_string = |k: Class| k == Class::String;
        let (a, b, ty) = if is_string(self.class(ta)) || is_string(self.class(tb)) {
            let zero = |e: &TExpr| matches!(e.kind, TKind::Int(0));
            let (za, zb) = (zero(&a), zero(&b));
            let empty = TExpr { kind: TKind::Str(Vec::new()), ty: string, span };
            let a = if za { Some(empty.clone()) } else { self.as_string(a)? };
            let b = if zb { Some(empty) } else { self.as_string(b)? };
            let (Some(a), Some(b)) = (a, b) else { return self.incompatible(span, ta, "?:", tb) };
            (a, b, string)
        } else if self.is_float(ta) || self.is_float(tb) {
            let size = self.float_size(ta).max(self.float_size(tb)).unwrap_or(8);
            let ty = self.types.add(TypeKind::Float { size });
            (self.convert_float(a, ty, span)?, self.convert_float(b, ty, span)?, ty)
        } else {
            let (Some(a), Some(b)) = (self.scalar(a), self.scalar(b)) else {
                return self.incompatible(span, ta, "?:", tb);
            };
            match (self.class(a.ty), self.class(b.ty)) {
                (Class::Int(..), Class::Int(..)) => self.usual(a, b),
                // NULL has no memory of its own; of scratch memory and another one only the number is left.
                (Class::Pointer(x, s), Class::Pointer(y, t))
                    if self.pointees_mix(x, y)
                        && (s == t
                            || [&a, &b].iter().any(|e| e.kind == TKind::Int(0))
                            || (s == Space::Scratch) != (t == Space::Scratch)) =>
                {
                    let null = |e: &TExpr| e.kind == TKind::Int(0);
                    let space = match (s == t || null(&b), null(&a)) {
                        (true, _) => s,
                        (_, true) => t,
                        _ => Space::Kernel,
                    };
                    let to = if self.class(x) == Class::Void { y } else { x };
                    let ty = self.types.pointer(to, space);
                    (a, b, ty)
                }
                (Class::Pointer(..), Class::Int(..)) if b.kind == TKind::Int(0) => {
                    let ty = a.ty;
                    (a, b, ty)
                }
                (Class::Int(..), Class::Pointer(..)) if a.kind == TKind::Int(0) => {
                    let ty = b.ty;
                    (a, b, ty)
                }
                _ => return self.incompatible(span, ta, "?:", tb),
            }
        };
        if let TKind::Int(v) = c.kind {
            return Ok(TExpr { span, ty, ..if v != 0 { a } else { b } });
        }
        Ok(TExpr { kind: TKind::Cond(Box::new(c), Box::new(a), Box::new(b)), ty, span })
    }

    /// `(T)e`
    pub(super) fn cast(&mut self, ty: TypeId, userland: bool, e: TExpr, span: Span) -> Res<TExpr> {
        let from = e.ty;
        let target = self.class(ty);
        if target == Class::Void {
            return Ok(TExpr { ty, span, ..e });
        }
        let whole = matches!(e.kind, TKind::Xlated { .. }) || target == Class::Struct;
        if whole && self.same_type(ty, from) && target != Class::Forward {
            return Ok(TExpr { ty, span, ..e });
        }
        if matches!(e.kind, TKind::Xlated { .. }) {
            return self.bad_cast(span, from, ty);
        }
        if target == Class::Float || self.class(from) == Class::Float {
            return self.convert_float(e, ty, span);
        }
        if target == Class::String {
            return match self.class(from) {
                Class::String | Class::Pointer(..) | Class::Array(..) => {
                    let e = self.stringof(e, span)?;
                    Ok(TExpr { ty, ..e })
                }
                _ => self.bad_cast(span, from, ty),
            };
        }
        let Some(e) = self.scalar(e) else { return self.bad_cast(span, from, ty) };
        // A cast cuts, unless it is one to 64 bits.
        let narrow = self.size_sign(ty).0 < 8;
        let e = match e.kind {
            TKind::Shown(inner) if narrow => TExpr { kind: TKind::Convert(inner), ..e },
            kind => TExpr { kind, ..e },
        };
        match (target, self.class(e.ty)) {
            (Class::Int(..), _) => {
                let e = self.convert(e, ty);
                Ok(TExpr { span, ty, ..e })
            }
            (Class::Pointer(to, _), from) => {
                let space = match from {
                    _ if userland => Space::User,
                    Class::Pointer(_, space) => space,
                    _ => Space::Kernel,
                };
                let ty = self.types.pointer(to, space);
                let e = self.convert(e, ty);
                Ok(TExpr { span, ty, ..e })
            }
            _ => self.bad_cast(span, from, ty),
        }
    }

    fn bad_cast<T>(&mut self, span: Span, from: TypeId, to: TypeId) -> Res<T> {
        let message = format!("cannot cast `{}` to `{}`", self.name(from), self.name(to));
        // DTrace has read the token behind it.
        let text = self.sources.get(span.source).map_or("", |s| &s.text);
        let rest = text.get(span.hi as usize..).unwrap_or("");
        let next = span.hi + (rest.len() - rest.trim_start().len()) as u32;
        let d = Diagnostic::error(tags::D_CAST_INVAL, span, message);
        self.report(d.dtrace_at(Span::new(span.source, next, next)))
    }

    /// `target op= value` with both sides checked; the target is a variable or element.
    pub(super) fn compound(
        &mut self,
        op: BinaryOp,
        op_span: Span,
        target: TExpr,
        value: TExpr,
        span: Span,
    ) -> Res<TExpr> {
        let ty = target.ty;
        let text = format!("{}=", op.text());
        if self.is_float(ty) || self.is_float(value.ty) {
            return self.no_float_arithmetic(
                &text,
                tags::D_OP_ARITH,
                if self.is_float(ty) { ty } else { value.ty },
                op_span,
            );
        }
        if !matches!(self.class(ty), Class::Int(..) | Class::Pointer(..)) {
            let message = format!("operator `{text}` needs an integer on its left, not `{}`", self.name(ty));
            return self.err(tags::D_OP_ARITH, op_span, message);
        }
        for e in [&target, &value] {
            if matches!(self.class(e.ty), Class::Pointer(to, _) if matches!(self.class(to), Class::Void | Class::Func))
            {
                let message = format!("operator `{text}` cannot compute with a `{}`", self.name(e.ty));
                let d = Diagnostic::error(tags::D_OP_VFPTR, op_span, message);
                return self.report(d.help("cast it first, as in `(char *)p`"));
            }
        }
        let mut add = None;
        // A value that changes the target itself must find it as it was: `i += i++` reads `i` first.
        let own = value.any(&mut |e| match &e.kind {
            TKind::Assign { target: t, .. } | TKind::Step { target: t, .. } => match (&t.kind, &target.kind) {
                (TKind::Var(a), TKind::Var(b)) => a == b,
                (TKind::Elem(a, _), TKind::Elem(b, _)) => a == b,
                _ => false,
            },
            _ => false,
        });
        if matches!(op, BinaryOp::Add | BinaryOp::Sub) && self.is_int(&value) && !self.is_bool(ty) && !own {
            let long = self.basic.long;
            let by = match self.class(ty) {
                Class::Pointer(to, _) => self.scaled(value.clone(), to)?,
                _ => self.convert(value.clone(), long),
            };
            let by = if op == BinaryOp::Sub { self.unary(UnaryOp::Neg, by, span)? } else { by };
            add = Some(Box::new(by));
        }
        let old = TExpr { kind: TKind::Old, ty, span: target.span };
        let result = self.binary(op, op_span, old, value, span)?;
        let from = result.ty;
        let Some(result) = self.assign_to(ty, result)? else { return self.incompatible(op_span, ty, &text, from) };
        if add.is_some() {
            self.mark_added(&target);
        }
        Ok(TExpr { kind: TKind::Assign { target: Box::new(target), value: Box::new(result), add }, ty, span })
    }

    fn mark_added(&mut self, target: &TExpr) {
        match &target.kind {
            TKind::Var(id) => self.vars[id.0 as usize].added = true,
            TKind::Elem(id, _) => self.arrays[id.0 as usize].added = true,
            _ => {}
        }
    }

    /// `++e`, `e--`, …
    pub(super) fn step(&mut self, op: UnaryOp, target: TExpr, span: Span) -> Res<TExpr> {
        let ty = target.ty;
        let size = match self.class(ty) {
            Class::Int(..) => 1,
            Class::Pointer(to, _) => match self.types.size(to) {
                Some(size) => size as i64,
                None => {
                    let message = format!("operator `{}` needs to know the size of `{}`", op.text(), self.name(to));
                    return self.err(tags::D_OP_VFPTR, span, message);
                }
            },
            _ => {
                let message = format!("operator `{}` needs a scalar, not `{}`", op.text(), self.name(ty));
                return self.err(tags::D_OP_SCALAR, span, message);
            }
        };
        let by = if matches!(op, UnaryOp::PreInc | UnaryOp::PostInc) { size } else { -size };
        let pre = matches!(op, UnaryOp::PreInc | UnaryOp::PreDec);
        self.mark_added(&target);
        Ok(TExpr { kind: TKind::Step { target: Box::new(target), by, pre }, ty, span })
    }

    /// `sizeof`
    pub(super) fn sizeof(&mut self, ty: TypeId, span: Span) -> Res<TExpr> {
        let size = match self.class_complete(ty) {
            Class::String => Some(self.options.strsize),
            _ => self.types.size(ty),
        };
        match size {
            Some(size) => {
                let ulong = self.basic.ulong;
                Ok(TExpr::int(size as i64, ulong, span))
            }
            None => {
                let message = format!("the size of `{}` is not known", self.name(ty));
                self.err(tags::D_SIZEOF_TYPE, span, message)
            }
        }
    }

    /// `offsetof`
    pub(super) fn offsetof(&mut self, ty: TypeId, members: &[ast::Name], span: Span) -> Res<TExpr> {
        let mut ty = ty;
        let mut bits = 0u64;
        for name in members {
            if self.class_complete(ty) != Class::Struct {
                let message = format!("`{}` is no struct or union that is known", self.name(ty));
                return self.err(tags::D_OFFSETOF_TYPE, span, message);
            }
            let Some(member) = self.find_member(ty, &name.text) else {
                let before = self.diags.len();
                let reported = self.member(ty, name);
                // The tag of DTrace, for which this is no reference to a member.
                self.diags[before..].iter_mut().for_each(|d| d.tag = tags::D_UNKNOWN);
                return reported.and(Err(super::Reported));
            };
            if member.bit_size != 0 {
                let message = format!("`{}` is a bit-field: it has no offset in bytes", name.text);
                return self.err(tags::D_OFFSETOF_BITFIELD, name.span, message);
            }
            bits += u64::from(member.bit_offset);
            ty = member.ty;
        }
        let ulong = self.basic.ulong;
        Ok(TExpr::int((bits / 8) as i64, ulong, span))
    }

    /// Gives an enumeration constant or other integer its C type by value.
    pub(super) fn literal(&mut self, lit: &ast::IntLit, span: Span) -> TExpr {
        let v = lit.value;
        let decimal = lit.base == ast::Base::Decimal;
        let fits = |bits: u32| v < 1u64 << bits;
        let b = &self.basic;
        let ty = match (lit.unsigned, lit.longs > 0) {
            (false, false) if fits(31) => b.int,
            (false, false) if fits(32) && !decimal => b.uint,
            (true, false) if fits(32) => b.uint,
            (false, _) if fits(63) => b.long,
            _ => b.ulong,
        };
        let e = TExpr::int(v as i64, ty, span);
        if lit.negative {
            let negative = (v as i64).wrapping_neg();
            let (int, long) = (self.basic.int, self.basic.long);
            let ty = if i32::try_from(negative).is_ok() && lit.longs == 0 { int } else { long };
            return TExpr::int(negative, ty, span);
        }
        e
    }

    /// Whether a type has floating-point numbers.
    pub(super) fn is_float(&self, ty: TypeId) -> bool {
        matches!(self.types.get(self.types.resolve(ty)), TypeKind::Float { .. })
    }
}

/// Integer arithmetic as the generated code does it. The divisor is not 0.
fn fold(op: BinOp, x: i64, y: i64) -> i64 {
    let (ux, uy) = (x as u64, y as u64);
    match op {
        BinOp::Add => x.wrapping_add(y),
        BinOp::Sub => x.wrapping_sub(y),
        BinOp::Mul => x.wrapping_mul(y),
        BinOp::DivS => x.wrapping_div(y),
        BinOp::DivU => (ux / uy) as i64,
        BinOp::RemS => x.wrapping_rem(y),
        BinOp::RemU => (ux % uy) as i64,
        BinOp::And => x & y,
        BinOp::Or => x | y,
        BinOp::Xor => x ^ y,
        BinOp::Shl => x.wrapping_shl(y as u32),
        BinOp::ShrS => x.wrapping_shr(y as u32),
        BinOp::ShrU => ux.wrapping_shr(y as u32) as i64,
        BinOp::Eq => i64::from(x == y),
        BinOp::Ne => i64::from(x != y),
        BinOp::LtS => i64::from(x < y),
        BinOp::LtU => i64::from(ux < uy),
        BinOp::LeS => i64::from(x <= y),
        BinOp::LeU => i64::from(ux <= uy),
    }
}
