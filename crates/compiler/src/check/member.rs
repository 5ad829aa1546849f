//! Objects in memory: members, elements, dereferences, addresses.

use super::conv::Class;
use super::foreign::{Kind, foreign, or_help};
use super::tree::*;
use super::{Checker, Res};
use probity_ir::{BinOp, Member, Space, TypeId, TypeKind};
use probity_syntax::ast::{self, BinaryOp};
use probity_syntax::{Diagnostic, Span, near, tags};

impl Checker<'_> {
    /// The member of a struct by name, through anonymous ones, with its offset from the start of `ty`.
    pub(super) fn find_member(&mut self, ty: TypeId, name: &str) -> Option<Member> {
        self.find_member_at(ty, name, 0)
    }

    fn find_member_at(&mut self, ty: TypeId, name: &str, depth: u32) -> Option<Member> {
        self.complete(ty);
        let TypeKind::Struct { members, .. } = self.types.get(self.types.resolve(ty)) else { return None };
        if let Some(m) = members.iter().find(|m| m.name == name && !name.is_empty()) {
            return Some(m.clone());
        }
        let anonymous: Vec<(TypeId, u32)> =
            members.iter().filter(|m| m.name.is_empty()).map(|m| (m.ty, m.bit_offset)).collect();
        // A table from foreign data may nest without end.
        if depth > 32 {
            return None;
        }
        anonymous.into_iter().find_map(|(inner, offset)| {
            let mut m = self.find_member_at(inner, name, depth + 1)?;
            m.bit_offset = m.bit_offset.checked_add(offset)?;
            Some(m)
        })
    }

    pub(super) fn member(&mut self, ty: TypeId, name: &ast::Name) -> Res<Member> {
        if let Some(m) = self.find_member(ty, &name.text) {
            return Ok(m);
        }
        let mut names = Vec::new();
        self.member_names(ty, &mut names, 0);
        let message = format!("`{}` has no member `{}`", self.name(ty), name.text);
        let d = Diagnostic::error(tags::D_TYPE_MEMBER, name.span, message);
        let d = match near(&name.text, names.iter().map(String::as_str)) {
            _ if foreign(Kind::Member, &name.text).is_some() => or_help(d, foreign(Kind::Member, &name.text)),
            Some(near) => d.suggest(name.span, near, format!("use `{near}`")),
            None => d,
        };
        self.report(d)
    }

    pub(super) fn member_names(&self, ty: TypeId, names: &mut Vec<String>, depth: u32) {
        let TypeKind::Struct { members, .. } = self.types.get(self.types.resolve(ty)) else { return };
        for m in members {
            if !m.name.is_empty() {
                names.push(m.name.clone());
            } else if depth < 32 {
                self.member_names(m.ty, names, depth + 1);
            }
        }
    }

    /// The object of type `ty` at an address.
    pub(super) fn object(
        &mut self,
        addr: TExpr,
        space: Space,
        ty: TypeId,
        bits: Option<Bits>,
        span: Span,
    ) -> Res<TExpr> {
        self.needs_process(space, span)?;
        // What user memory, or a copy of it, holds are user pointers, whatever the declaration can say. In the tracer's own clauses
        // there is nothing to copy but the kernel's.
        let users = space != Space::Kernel && !(space == Space::Scratch && self.runs_in_tracer());
        let ty = match self.class(ty) {
            Class::Pointer(to, Space::Kernel) if users => self.types.pointer(to, Space::User),
            _ => ty,
        };
        Ok(TExpr { kind: TKind::Object(Box::new(addr), space, bits), ty, span })
    }

    /// `base.m` and `base->m`
    pub(super) fn access(&mut self, base: TExpr, arrow: bool, name: &ast::Name, span: Span) -> Res<TExpr> {
        if let TKind::Xlated { translator, source } = &base.kind
            && matches!(self.class(base.ty), Class::Pointer(..)) == arrow
        {
            let (translator, source) = (*translator, (**source).clone());
            return self.translated_member(translator, source, name, span);
        }
        if !arrow && matches!(base.kind, TKind::Stack { .. }) {
            return self.stack_member(base, name, span);
        }
        let (addr, space, ty) = if arrow {
            let base = self.decay(base);
            match self.class(base.ty) {
                Class::Pointer(to, space) => (base, space, to),
                _ => {
                    let message = format!("operator `->` needs a pointer, not `{}`", self.name(base.ty));
                    return self.err(tags::D_OP_PTR, span, message);
                }
            }
        } else {
            let ty = base.ty;
            match (self.class_complete(ty), base.kind) {
                (Class::Struct, TKind::Object(addr, space, _)) => (*addr, space, ty),
                (Class::Pointer(..), _) => {
                    let message = format!("operator `.` needs a struct or union, not `{}`", self.name(ty));
                    let d = Diagnostic::error(tags::D_OP_SOU, span, message);
                    return self.report(d.help("use `->` to reach a member through a pointer"));
                }
                _ => {
                    let message = format!("operator `.` needs a struct or union, not `{}`", self.name(ty));
                    return self.err(tags::D_OP_SOU, span, message);
                }
            }
        };
        let op = if arrow { "->" } else { "." };
        match self.class_complete(ty) {
            Class::Struct => {}
            Class::Forward => {
                let shown = self.name(ty);
                let message = format!("the members of `{shown}` are not known here");
                let d = Diagnostic::error(tags::D_OP_INCOMPLETE, span, message);
                return self.report(or_help(d, foreign(Kind::Type, &shown)));
            }
            _ => {
                let message = format!("operator `{op}` needs a struct or union, not `{}`", self.name(ty));
                return self.err(tags::D_OP_SOU, span, message);
            }
        }
        let m = self.member(ty, name)?;
        if m.bit_offset % 8 + m.bit_size > 64 {
            return self.unsupported(span, "bit-fields that span more than 64 bits are");
        }
        let unit = self.types.size(m.ty).unwrap_or(8).clamp(1, 8) as u32;
        let (offset, bits) = match m.bit_size {
            0 => (m.bit_offset / 8, None),
            // The ABI puts a field into an aligned unit of its type, which is all inside of the struct; packed ones may differ.
            size if m.bit_offset % (8 * unit) + size <= 8 * unit => {
                let start = m.bit_offset / (8 * unit);
                (start * unit, Some(Bits { offset: m.bit_offset - start * 8 * unit, size, unit: unit as u8 }))
            }
            size => {
                let offset = m.bit_offset % 8;
                let unit = (offset + size).div_ceil(8).next_power_of_two() as u8;
                (m.bit_offset / 8, Some(Bits { offset, size, unit }))
            }
        };
        let at = self.offset(addr, i64::from(offset), span);
        if self.class(m.ty) == Class::String {
            self.needs_process(space, span)?;
            let len = u32::try_from(self.options.strsize).ok();
            let kind = TKind::ReadStr { addr: Box::new(at), space, max: None, len };
            return Ok(TExpr { kind, ty: m.ty, span });
        }
        self.object(at, space, m.ty, bits, span)
    }

    /// An address some bytes further on. Offsets of nested members are added up here.
    pub(super) fn offset(&mut self, addr: TExpr, by: i64, span: Span) -> TExpr {
        let long = self.basic.long;
        if by == 0 {
            return addr;
        }
        let ty = addr.ty;
        match addr.kind {
            TKind::Int(v) if v != 0 => TExpr::int(v.wrapping_add(by), ty, span),
            TKind::Bin(BinOp::Add, a, b) if matches!(b.kind, TKind::Int(_)) => {
                let TKind::Int(v) = b.kind else { return *b };
                let sum = TExpr::int(v.wrapping_add(by), long, span);
                TExpr { kind: TKind::Bin(BinOp::Add, a, Box::new(sum)), ty, span }
            }
            kind => {
                let base = TExpr { kind, ..addr };
                let by = TExpr::int(by, long, span);
                TExpr { kind: TKind::Bin(BinOp::Add, Box::new(base), Box::new(by)), ty, span }
            }
        }
    }

    /// `*e`
    pub(super) fn deref(&mut self, e: TExpr, span: Span) -> Res<TExpr> {
        if self.class(e.ty) == Class::String {
            let zero = TExpr::int(0, self.basic.long, span);
            return self.subscript(e, zero, span);
        }
        let e = self.decay(e);
        if let (TKind::Xlated { .. }, Class::Pointer(to, _)) = (&e.kind, self.class(e.ty)) {
            return Ok(TExpr { ty: to, span, ..e });
        }
        match self.class(e.ty) {
            Class::Pointer(to, space) => match self.class_complete(to) {
                Class::Void => {
                    self.err(tags::D_DEREF_VOID, span, "cannot dereference a pointer to `void`: cast it first")
                }
                Class::Func => self.err(tags::D_DEREF_FUNC, span, "cannot dereference a pointer to a function"),
                Class::Forward => {
                    let message = format!("the definition of `{}` is not known here", self.name(to));
                    self.err(tags::D_OP_INCOMPLETE, span, message)
                }
                Class::String => {
                    let string = self.basic.string;
                    self.needs_process(space, span)?;
                    let kind = TKind::ReadStr { addr: Box::new(e), space, max: None, len: None };
                    Ok(TExpr { kind, ty: string, span })
                }
                _ => self.object(e, space, to, None, span),
            },
            _ => {
                let message = format!("cannot dereference a value of type `{}`: it is no pointer", self.name(e.ty));
                self.err(tags::D_DEREF_NONPTR, span, message)
            }
        }
    }

    /// `p[i]`
    pub(super) fn subscript(&mut self, base: TExpr, key: TExpr, span: Span) -> Res<TExpr> {
        if let (Class::Array(_, len), Some(i)) = (self.class(base.ty), self.constant(&key))
            // Arrays of no or one element are often the start of more.
            && len > 1
            && !(0..i64::from(len)).contains(&i)
        {
            let message = format!("index {i} is outside the array: it has {len} elements");
            return self.err(tags::D_ARR_BOUNDS, key.span, message);
        }
        if !self.is_int(&key) {
            let message = format!("an array's index must be an integer, not `{}`", self.name(key.ty));
            return self.err(tags::D_OP_INT, key.span, message);
        }
        if self.class(base.ty) == Class::String {
            let long = self.basic.long;
            let key = self.convert(key, long);
            let ty = self.types.add(TypeKind::Int { size: 1, signed: true, kind: probity_ir::IntKind::Char });
            return Ok(TExpr { kind: TKind::CharAt(Box::new(base), Box::new(key)), ty, span });
        }
        let key = match self.class(base.ty) {
            Class::Array(_, len) if len > 1 && self.constant(&key).is_none() => {
                let (long, at) = (self.basic.long, key.span);
                let key = self.convert(key, long);
                TExpr { kind: TKind::Bounded(Box::new(key), len), ty: long, span: at }
            }
            _ => key,
        };
        let base = self.decay(base);
        if !matches!(self.class(base.ty), Class::Pointer(..)) {
            let message = format!("a value of type `{}` cannot be indexed", self.name(base.ty));
            return self.err(tags::D_ARR_BADREF, span, message);
        }
        let sum = self.binary(BinaryOp::Add, span, base, key, span)?;
        self.deref(sum, span)
    }

    /// `&e`
    pub(super) fn address_of(&mut self, e: TExpr, span: Span) -> Res<TExpr> {
        match e.kind {
            TKind::Xlated { .. } if self.class(e.ty) == Class::Struct => {
                let ty = self.types.pointer(e.ty, Space::Kernel);
                Ok(TExpr { ty, span, ..e })
            }
            TKind::Object(ref addr, ..) if matches!(&addr.kind, TKind::AddrOf(whole) if whole.ty == e.ty) => {
                let d = Diagnostic::error(tags::D_ADDROF_VAR, span, "a variable of D has no address");
                self.report(d.help("an element of an array and a member of a struct have one: `&a[0]`, `&s.m`"))
            }
            TKind::Object(_, _, Some(_)) => self.err(tags::D_ADDROF_BITFIELD, span, "a bit-field has no address"),
            TKind::Object(addr, space, None) => {
                let ty = self.types.pointer(e.ty, space);
                Ok(TExpr { kind: addr.kind, ty, span })
            }
            TKind::Var(_)
            | TKind::Elem(..)
            | TKind::ProbePart(_)
            | TKind::Comm
            | TKind::Builtin(_)
            | TKind::RawArg(_) => self.err(tags::D_ADDROF_VAR, span, "a variable of D has no address"),
            _ => self.err(tags::D_ADDROF_LVAL, span, "the operand of `&` must be an object in memory"),
        }
    }
}
