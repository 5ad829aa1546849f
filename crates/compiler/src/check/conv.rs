//! C's conversions, and D's between strings and characters in memory.

use super::tree::*;
use super::{Checker, Res};
use probity_ir::{BinOp, IntKind, Space, TypeId, TypeKind};
use probity_syntax::{Diagnostic, Span, tags};

/// What the checker needs to know of a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    /// An integer or enumeration: size, signed.
    Int(u8, bool),
    /// A pointer.
    Pointer(TypeId, Space),
    String,
    Array(TypeId, u32),
    Struct,
    Float,
    Void,
    Func,
    /// Its definition is not known.
    Forward,
}

impl Checker<'_> {
    pub(super) fn class(&self, ty: TypeId) -> Class {
        match self.types.get(self.types.resolve(ty)) {
            TypeKind::Void => Class::Void,
            TypeKind::Int { size, signed, .. } | TypeKind::Enum { size, signed, .. } => Class::Int(*size, *signed),
            TypeKind::Float { .. } => Class::Float,
            TypeKind::Pointer { to, space } => Class::Pointer(*to, *space),
            TypeKind::Array { of, len } => Class::Array(*of, *len),
            TypeKind::Struct { .. } => Class::Struct,
            TypeKind::Func { .. } => Class::Func,
            TypeKind::String => Class::String,
            TypeKind::Typedef { .. } | TypeKind::Forward { .. } => Class::Forward,
        }
    }

    /// Like [`Checker::class`], and asks for the definition of what is known by name only.
    pub(super) fn class_complete(&mut self, ty: TypeId) -> Class {
        self.complete(ty);
        self.class(ty)
    }

    pub(super) fn complete(&mut self, ty: TypeId) -> bool {
        let id = self.types.resolve(ty);
        match self.types.get(id) {
            TypeKind::Forward { keyword, name, .. } => {
                let (keyword, name) = (*keyword, name.clone());
                if self.env.complete(id, &mut self.types) {
                    return true;
                }
                // A type of the program's own may have been defined since.
                match self.tags.get(&(keyword, name)) {
                    Some(&own) if own != id && !matches!(self.types.get(own), TypeKind::Forward { .. }) => {
                        let kind = self.types.get(own).clone();
                        self.types.complete(id, kind);
                        true
                    }
                    _ => false,
                }
            }
            _ => true,
        }
    }

    /// Whether values of a type are bytes in memory: structs, arrays, and floating-point numbers larger than a register.
    pub(super) fn is_whole(&self, ty: TypeId) -> bool {
        match self.class(ty) {
            Class::Struct | Class::Array(..) => true,
            Class::Float => self.types.size(ty) == Some(16),
            _ => false,
        }
    }

    pub(super) fn is_bool(&self, ty: TypeId) -> bool {
        matches!(self.types.get(self.types.resolve(ty)), TypeKind::Int { kind: IntKind::Bool, .. })
    }

    pub(super) fn is_char(&self, ty: TypeId) -> bool {
        matches!(self.types.get(self.types.resolve(ty)), TypeKind::Int { size: 1, kind, .. } if *kind != IntKind::Bool)
    }

    pub(super) fn is_int(&self, e: &TExpr) -> bool {
        matches!(self.class(e.ty), Class::Int(..))
    }

    /// A string, or characters that can be read as one.
    pub(super) fn is_stringlike(&self, ty: TypeId) -> bool {
        match self.class(ty) {
            Class::String => true,
            Class::Pointer(to, _) => self.is_char(to),
            Class::Array(of, _) => self.is_char(of),
            _ => false,
        }
    }

    pub(super) fn name(&self, ty: TypeId) -> String {
        self.types.name(ty)
    }

    /// An array becomes the address of its first element; everything else stays.
    pub(super) fn decay(&mut self, e: TExpr) -> TExpr {
        match (self.class(e.ty), e.kind) {
            (Class::Array(of, _), TKind::Object(addr, space, _)) => {
                let ty = self.types.pointer(of, space);
                TExpr { kind: addr.kind, ty, span: e.span }
            }
            (_, kind) => TExpr { kind, ..e },
        }
    }

    /// A scalar: an integer or pointer.
    pub(super) fn scalar(&mut self, e: TExpr) -> Option<TExpr> {
        let e = self.decay(e);
        matches!(self.class(e.ty), Class::Int(..) | Class::Pointer(..)).then_some(e)
    }

    /// The string that a value stands for.
    pub(super) fn as_string(&mut self, e: TExpr) -> Res<Option<TExpr>> {
        let span = e.span;
        let string = self.basic.string;
        Ok(match self.class(e.ty) {
            Class::String => Some(e),
            Class::Array(of, len) if self.is_char(of) => match e.kind {
                TKind::Object(addr, space, _) => {
                    self.needs_process(space, span)?;
                    let len = (len > 0).then_some(len);
                    Some(TExpr { kind: TKind::ReadStr { addr, space, max: None, len }, ty: string, span })
                }
                _ => None,
            },
            Class::Pointer(to, space) if self.is_char(to) => {
                self.needs_process(space, span)?;
                Some(self.read_str(e, space, span))
            }
            _ => None,
        })
    }

    /// The string at an address. What `copyin` fetched ends where the copy does, NUL or not.
    pub(super) fn read_str(&mut self, addr: TExpr, space: Space, span: Span) -> TExpr {
        let max = match &addr.kind {
            TKind::CopyIn(_, _, len) if !len.has_effect() => Some(len.clone()),
            _ => None,
        };
        let kind = TKind::ReadStr { addr: Box::new(addr), space, max, len: None };
        TExpr { kind, ty: self.basic.string, span }
    }

    /// What is shown of a value: of a pointer into scratch memory the address.
    pub(super) fn shown(&mut self, e: TExpr) -> TExpr {
        match self.class(e.ty) {
            Class::Pointer(to, Space::Scratch) => {
                let (ty, span) = (self.types.pointer(to, Space::Kernel), e.span);
                TExpr { kind: TKind::ScratchAddr(Box::new(e)), ty, span }
            }
            _ => e,
        }
    }

    /// Refuses offsets into scratch memory where a value leaves the clause: they mean nothing there.
    pub(super) fn leaves(&mut self, e: &TExpr) -> Res<()> {
        if matches!(e.kind, TKind::CopyIn(..)) {
            let d = Diagnostic::error(
                tags::D_ALLOCA_INCOMPAT,
                e.span,
                "a pointer to scratch memory means nothing outside of its clause",
            );
            return self.report(d.help("use what it points to: `*(int *)copyin(…)`, `stringof(copyin(…))`"));
        }
        Ok(())
    }

    /// The truth of a predicate or condition, where D takes strings too: one is true if it is not empty.
    pub(super) fn condition(&mut self, e: TExpr) -> Option<TExpr> {
        // An array's address is never 0: asking whether it is one is a mistake.
        if matches!(self.class(e.ty), Class::Array(..)) {
            return None;
        }
        let (span, int) = (e.span, self.basic.int);
        if self.class(e.ty) == Class::String {
            let empty = TExpr { kind: TKind::Str(Vec::new()), ty: e.ty, span };
            let kind = TKind::StrCmp(probity_ir::StrOp::Ne, Box::new(e), Box::new(empty));
            return Some(TExpr { kind, ty: int, span });
        }
        self.truth(e)
    }

    /// Whether a value is not 0, as 0 or 1. `None` where it has no truth.
    pub(super) fn truth(&mut self, e: TExpr) -> Option<TExpr> {
        let (span, int) = (e.span, self.basic.int);
        if self.is_float(e.ty) {
            return self.float_truth(e).ok();
        }
        let e = self.translated_address(e);
        let e = self.scalar(e)?;
        Some(match e.kind {
            TKind::Int(v) => TExpr::int(i64::from(v != 0), int, span),
            TKind::Truth(_) | TKind::And(..) | TKind::Or(..) | TKind::StrCmp(..) | TKind::FloatCmp(..) => e,
            TKind::Bin(BinOp::Eq | BinOp::Ne | BinOp::LtS | BinOp::LtU | BinOp::LeS | BinOp::LeU, ..) => e,
            TKind::Un(probity_ir::UnOp::LogNot, _) => e,
            _ => TExpr { kind: TKind::Truth(Box::new(e)), ty: int, span },
        })
    }

    /// Converts an integer or pointer to an integer or pointer type.
    pub(super) fn convert(&mut self, e: TExpr, ty: TypeId) -> TExpr {
        let span = e.span;
        if self.is_bool(ty) && !self.is_bool(e.ty) {
            let truth = self.truth(e).unwrap_or_else(|| TExpr::int(0, ty, span));
            return TExpr { ty, ..truth };
        }
        let (from, to) = (self.size_sign(e.ty), self.size_sign(ty));
        if let TKind::Int(v) = e.kind {
            return TExpr::int(normal(v, to), ty, span);
        }
        if let (TKind::Shown(inner), 8) = (&e.kind, to.0) {
            // It has not been cut yet.
            return TExpr { ty, ..(**inner).clone() };
        }
        // What is read and what is computed has the size of its type, so only a type of that size can be put in its place.
        let bits = matches!(e.kind, TKind::Object(_, _, Some(_)));
        // A bit-field that is converted is none any more, and is promoted as its new type.
        if !bits && (from == to || from.0 == 8 && to.0 == 8) {
            return TExpr { ty, ..e };
        }
        TExpr { kind: TKind::Convert(Box::new(e)), ty, span }
    }

    pub(super) fn size_sign(&self, ty: TypeId) -> (u8, bool) {
        match self.class(ty) {
            Class::Int(size, signed) => (size, signed),
            _ => (8, false),
        }
    }

    /// C's integer promotion.
    pub(super) fn promote(&mut self, e: TExpr) -> TExpr {
        let (size, _) = self.size_sign(e.ty);
        let enumeration = matches!(self.types.get(self.types.resolve(e.ty)), TypeKind::Enum { .. });
        // All values of a narrower bit-field are an int's, whatever its declared type.
        let narrow = matches!(e.kind, TKind::Object(_, _, Some(bits)) if bits.size < 32 && size == 4);
        match self.class(e.ty) {
            Class::Int(..) if size < 4 || narrow || enumeration && size == 4 => {
                let ty = self.basic.int;
                self.convert(e, ty)
            }
            _ => e,
        }
    }

    /// C's usual arithmetic conversions of two integers.
    pub(super) fn usual(&mut self, a: TExpr, b: TExpr) -> (TExpr, TExpr, TypeId) {
        let (a, b) = (self.promote(a), self.promote(b));
        let ((sa, ga), (sb, gb)) = (self.size_sign(a.ty), self.size_sign(b.ty));
        // The wider type wins; of two equally wide ones the unsigned.
        let ty = match (sa.cmp(&sb), ga, gb) {
            (std::cmp::Ordering::Greater, ..) => a.ty,
            (std::cmp::Ordering::Less, ..) => b.ty,
            (_, false, _) => a.ty,
            (_, _, false) => b.ty,
            _ => a.ty,
        };
        let (a, b) = (self.convert(a, ty), self.convert(b, ty));
        (a, b, ty)
    }

    /// Whether two types are the same but for names and whose memory pointers point into.
    pub(super) fn same_type(&self, a: TypeId, b: TypeId) -> bool {
        self.same_at(a, b, 0)
    }

    fn same_at(&self, a: TypeId, b: TypeId, depth: u32) -> bool {
        let (a, b) = (self.types.resolve(a), self.types.resolve(b));
        if a == b || depth > 8 {
            return true;
        }
        match (self.types.get(a), self.types.get(b)) {
            (TypeKind::Int { size: x, .. }, TypeKind::Int { size: y, .. }) => x == y,
            (TypeKind::Pointer { to: x, .. }, TypeKind::Pointer { to: y, .. }) => self.same_at(*x, *y, depth + 1),
            (TypeKind::Array { of: x, len: m }, TypeKind::Array { of: y, len: n }) => {
                m == n && self.same_at(*x, *y, depth + 1)
            }
            (
                TypeKind::Struct { name: x, .. } | TypeKind::Forward { name: x, .. } | TypeKind::Enum { name: x, .. },
                TypeKind::Struct { name: y, .. } | TypeKind::Forward { name: y, .. } | TypeKind::Enum { name: y, .. },
            ) => x == y && !x.is_empty(),
            (TypeKind::Func { .. }, TypeKind::Func { .. }) => true,
            _ => false,
        }
    }

    fn is_void(&self, ty: TypeId) -> bool {
        self.class(ty) == Class::Void
    }

    /// Whether pointers to these types may be mixed.
    pub(super) fn pointees_mix(&self, a: TypeId, b: TypeId) -> bool {
        self.is_void(a) || self.is_void(b) || self.same_type(a, b)
    }

    /// Converts a value for assignment to a type; `None` where C and D have no such conversion.
    pub(super) fn assign_to(&mut self, ty: TypeId, e: TExpr) -> Res<Option<TExpr>> {
        let span = e.span;
        Ok(match self.class(ty) {
            // All of it becomes zero; an element is deleted.
            Class::Float if self.is_whole(ty) && e.kind == TKind::Int(0) && self.is_int(&e) => Some(e),
            Class::Float if self.is_whole(ty) && self.same_type(ty, e.ty) => Some(e),
            Class::Float if matches!(self.class(e.ty), Class::Int(..) | Class::Float) => {
                Some(self.convert_float(e, ty, span)?)
            }
            Class::Int(..) => match self.class(e.ty) {
                Class::Int(..) => Some(self.convert(e, ty)),
                Class::Float => Some(self.convert_float(e, ty, span)?),
                // Old programs forget addresses that they keep as integers by assigning NULL.
                Class::Pointer(..) if e.kind == TKind::Int(0) => Some(TExpr::int(0, ty, span)),
                _ => None,
            },
            Class::String => match e.kind {
                TKind::Int(0) => Some(TExpr { kind: TKind::Str(Vec::new()), ty, span }),
                _ => self.as_string(e)?.map(|e| TExpr { ty, ..e }),
            },
            Class::Pointer(to, space) => {
                let e = self.decay(e);
                match self.class(e.ty) {
                    // Of integers only constants are addresses without a cast: 0, most of all.
                    Class::Int(..) if matches!(e.kind, TKind::Int(_)) => Some(self.convert(e, ty)),
                    Class::Pointer(from, theirs) if self.pointees_mix(to, from) => {
                        if e.kind == TKind::Int(0) {
                            return Ok(Some(TExpr { ty, ..e }));
                        }
                        if theirs != space {
                            if theirs == Space::Scratch || space == Space::Scratch {
                                let d = Diagnostic::error(
                                    tags::D_ALLOCA_INCOMPAT,
                                    span,
                                    "a pointer to scratch memory and one to other memory cannot be kept in one variable",
                                );
                                return self.report(d.help("use another variable"));
                            }
                            let words = |s| match s {
                                Space::Kernel => "kernel",
                                Space::User => "user",
                                // No pointer has it.
                                Space::Absent => "no",
                                Space::Scratch => "scratch",
                            };
                            let message = format!(
                                "a pointer into {} memory cannot be kept as one into {} memory",
                                words(theirs),
                                words(space)
                            );
                            return self.report(
                                Diagnostic::error(tags::D_OP_INCOMPAT, span, message)
                                    .help("read what it points to and keep the value, or use another variable"),
                            );
                        }
                        Some(TExpr { ty, ..e })
                    }
                    _ => None,
                }
            }
            // All of it becomes zero; an element is deleted.
            Class::Struct if e.kind == TKind::Int(0) => Some(e),
            Class::Struct if self.class(e.ty) == Class::Struct && self.same_type(ty, e.ty) => Some(e),
            Class::Array(of, _) if self.is_char(of) => self.as_string(e)?,
            _ => None,
        })
    }

    /// The operands of an operator do not go together.
    pub(super) fn incompatible<T>(&mut self, span: Span, a: TypeId, op: &str, b: TypeId) -> Res<T> {
        let message = format!("operands of `{op}` do not go together: `{}` and `{}`", self.name(a), self.name(b));
        self.err(tags::D_OP_INCOMPAT, span, message)
    }

    /// The value of a constant expression.
    pub(super) fn constant(&self, e: &TExpr) -> Option<i64> {
        match &e.kind {
            TKind::Int(v) => Some(*v),
            // A member of NULL, whose base stays visible for the fault's sake.
            TKind::Bin(BinOp::Add, a, b) if matches!(a.kind, TKind::Int(0)) => self.constant(b),
            _ => None,
        }
    }
}

/// An integer as a type of that size and sign holds it.
pub(super) fn normal(v: i64, (size, signed): (u8, bool)) -> i64 {
    match (size, signed) {
        (1, true) => v as i8 as i64,
        (1, false) => v as u8 as i64,
        (2, true) => v as i16 as i64,
        (2, false) => v as u16 as i64,
        (4, true) => v as i32 as i64,
        (4, false) => v as u32 as i64,
        _ => v,
    }
}
