//! Memory of the program's own to IR: where an object is, writing to parts of it, bit-fields.

use super::clause::ClauseLower;
use super::shape::{byte_size, is_string};
use crate::check::tree::*;
use probity_ir::{BinOp, Dest, Expr, ExprId, Place, Space, Stmt, TypeId, Val};

/// An object that is written to: its place, and at which offset there.
struct Target {
    to: Dest,
    offset: ExprId,
    /// What it is read at.
    addr: ExprId,
    space: Space,
}

/// How an object changes.
pub(super) enum Change<'a> {
    /// To a value, which may have the old one in it.
    To(&'a TExpr),
    /// By so much; whether the value is that after it.
    By(i64, bool),
}

/// The variable or element that an address is in, and what is added to its start.
fn root_of(addr: &TExpr) -> Option<(&TExpr, Vec<&TExpr>)> {
    match &addr.kind {
        TKind::AddrOf(whole) => Some((whole, Vec::new())),
        TKind::Bin(BinOp::Add, a, b) => {
            let (found, other) = match (root_of(a), root_of(b)) {
                (Some(found), _) => (found, b),
                (None, Some(found)) => (found, a),
                _ => return None,
            };
            let (whole, mut terms) = found;
            terms.push(other);
            Some((whole, terms))
        }
        _ => None,
    }
}

impl ClauseLower<'_> {
    /// The address of a variable or element.
    pub(super) fn addr_of(&mut self, whole: &TExpr) -> ExprId {
        let place = match &whole.kind {
            TKind::Var(v) => Place::Var(*v),
            TKind::Elem(array, key) => Place::Elem(*array, self.list(key)),
            // The checker takes addresses of nothing else.
            _ => return self.constant(0),
        };
        self.add(Expr::AddrOf(place))
    }

    /// The value of a whole object.
    pub(super) fn whole_object(&mut self, addr: &TExpr, space: Space, ty: TypeId) -> ExprId {
        let len = byte_size(&self.cx.checked.types, ty);
        let addr = self.expr(addr);
        self.add(Expr::ReadBytes { addr, space, len })
    }

    /// Where an object is. What is in it is evaluated now if other things happen before it is used.
    fn target(&mut self, addr: &TExpr, space: Space, hold: bool) -> Target {
        if let (Some((whole, terms)), Space::Kernel) = (root_of(addr), space) {
            let place = match &whole.kind {
                TKind::Elem(array, key) => {
                    let mut ids = self.list(key);
                    if hold || terms.iter().any(|t| t.has_effect()) {
                        ids = ids.into_iter().zip(key).map(|(id, e)| self.hold(id, self.val(e))).collect();
                    }
                    Place::Elem(*array, ids)
                }
                TKind::Var(v) => Place::Var(*v),
                _ => Place::Var(probity_ir::VarId(0)),
            };
            let mut offset = None;
            for (i, term) in terms.iter().enumerate() {
                let mut id = self.expr(term);
                if hold || terms[i + 1..].iter().any(|t| t.has_effect()) {
                    id = self.hold(id, Val::Int);
                }
                offset = Some(match offset {
                    Some(sum) => self.add(Expr::Bin(BinOp::Add, sum, id)),
                    None => id,
                });
            }
            let start = self.add(Expr::AddrOf(place.clone()));
            let (offset, addr) = match offset {
                Some(offset) => (offset, self.add(Expr::Bin(BinOp::Add, start, offset))),
                None => (self.constant(0), start),
            };
            return Target { to: Dest::Place(place), offset, addr, space };
        }
        let mut addr = self.expr(addr);
        if hold {
            addr = self.hold(addr, Val::Int);
        }
        let to = if space == Space::Scratch { Dest::Scratch } else { Dest::Global };
        Target { to, offset: addr, addr, space }
    }

    /// Changes an object in memory; gives its value where that is wanted.
    pub(super) fn change_object(&mut self, target: &TExpr, change: Change<'_>, wanted: bool) -> Option<ExprId> {
        let TKind::Object(addr, space, bits) = &target.kind else { return None };
        let (space, bits, ty) = (*space, *bits, target.ty);
        let Change::To(value) = change else {
            let Change::By(by, pre) = change else { return None };
            let t = self.target(addr, space, false);
            let old = self.read_part(&t, ty, bits);
            let old = if wanted { self.hold(old, Val::Int) } else { old };
            let by = self.constant(by);
            let sum = self.add(Expr::Bin(BinOp::Add, old, by));
            let sum = self.part_value(sum, ty, bits);
            let sum = if wanted && pre { self.hold(sum, Val::Int) } else { sum };
            self.write_part(t, ty, bits, sum);
            return wanted.then_some(if pre { sum } else { old });
        };
        if let Some(done) = self.set_whole(target, value, wanted) {
            return done;
        }
        let t = self.target(addr, space, value.has_effect());
        let types = &self.cx.checked.types;
        if !self.is_scalar(ty) || is_string(types, ty) {
            let size = if is_string(types, ty) { self.strsize() } else { byte_size(types, ty) };
            let id = match value.kind {
                // A struct that is set to 0.
                TKind::Int(_) => self.add(Expr::Str(Vec::new())),
                _ => self.expr(value),
            };
            let Target { to, offset, addr, space } = t;
            self.effect(Stmt::Store { to, offset, value: id, size });
            let read = if is_string(&self.cx.checked.types, ty) {
                Expr::ReadStr { addr, space, cap: size, max: None }
            } else {
                Expr::ReadBytes { addr, space, len: size }
            };
            return wanted.then(|| self.add(read));
        }
        let compound = value.any(&mut |e| e.kind == TKind::Old);
        if compound {
            let old = self.read_part(&t, ty, bits);
            let old = if value.has_effect() { self.hold(old, Val::Int) } else { old };
            self.old.push(old);
        }
        let mut id = self.expr(value);
        if compound {
            self.old.pop();
        }
        if wanted {
            id = self.hold(id, Val::Int);
        }
        self.write_part(t, ty, bits, id);
        wanted.then(|| self.part_value(id, ty, bits))
    }

    /// Assigns a struct to a variable or element as a whole: an element can be deleted so.
    fn set_whole(&mut self, target: &TExpr, value: &TExpr, wanted: bool) -> Option<Option<ExprId>> {
        let TKind::Object(addr, space, _) = &target.kind else { return None };
        let TKind::AddrOf(whole) = &addr.kind else { return None };
        if whole.ty != target.ty || self.val(value) != self.val(target) && !matches!(value.kind, TKind::Int(_)) {
            return None;
        }
        match &whole.kind {
            TKind::Var(v) => {
                let id = self.expr(value);
                self.effect(Stmt::SetVar(*v, id));
            }
            TKind::Elem(array, key) => {
                let key = self.held_key(key, value);
                let id = self.expr(value);
                self.effect(Stmt::SetElem(*array, key, id));
            }
            _ => return None,
        }
        Some(wanted.then(|| self.whole_object(addr, *space, target.ty)))
    }

    /// A scalar in an object.
    fn read_part(&mut self, t: &Target, ty: TypeId, bits: Option<Bits>) -> ExprId {
        let (size, signed) = self.size_sign(ty);
        match bits {
            Some(bits) => self.bit_field(t.addr, t.space, bits, signed),
            None => self.add(Expr::Load { addr: t.addr, size, signed, space: t.space }),
        }
    }

    /// A value as the object holds it afterwards.
    fn part_value(&mut self, id: ExprId, ty: TypeId, bits: Option<Bits>) -> ExprId {
        let Some(bits) = bits else { return self.ext(id, ty) };
        let by = self.constant(i64::from(64 - bits.size));
        let high = self.add(Expr::Bin(BinOp::Shl, id, by));
        let op = if self.size_sign(ty).1 { BinOp::ShrS } else { BinOp::ShrU };
        self.add(Expr::Bin(op, high, by))
    }

    fn write_part(&mut self, t: Target, ty: TypeId, bits: Option<Bits>, id: ExprId) {
        let Target { to, offset, addr, space } = t;
        let Some(bits) = bits else {
            let size = u32::from(self.size_sign(ty).0);
            return self.effect(Stmt::Store { to, offset, value: id, size });
        };
        // The bits of the others in the same unit stay.
        let mask = if bits.size >= 64 { -1 } else { ((1i64 << bits.size) - 1) << bits.offset };
        let (keep, mine) = (self.constant(!mask), self.constant(mask));
        let word = self.add(Expr::Load { addr, size: bits.unit, signed: false, space });
        let word = self.add(Expr::Bin(BinOp::And, word, keep));
        let by = self.constant(bits.offset.into());
        let value = self.add(Expr::Bin(BinOp::Shl, id, by));
        let value = self.add(Expr::Bin(BinOp::And, value, mine));
        let value = self.add(Expr::Bin(BinOp::Or, word, value));
        self.effect(Stmt::Store { to, offset, value, size: bits.unit.into() });
    }

    /// A bit-field's value.
    pub(super) fn bit_field(&mut self, addr: ExprId, space: Space, bits: Bits, signed: bool) -> ExprId {
        let word = self.add(Expr::Load { addr, size: bits.unit, signed: false, space });
        let up = self.constant(i64::from(64 - bits.offset - bits.size));
        let high = self.add(Expr::Bin(BinOp::Shl, word, up));
        let down = self.constant(i64::from(64 - bits.size));
        let op = if signed { BinOp::ShrS } else { BinOp::ShrU };
        self.add(Expr::Bin(op, high, down))
    }

    /// Takes or copies memory; the value is that of `alloca`.
    pub(super) fn memory_call(&mut self, call: MemoryCall, args: &[TExpr]) -> ExprId {
        let ids = self.list(args);
        match (call, &ids[..]) {
            (MemoryCall::Alloca, &[len]) => {
                let dst = self.temp();
                self.effect(Stmt::Alloc { dst, len });
                return self.add(Expr::Temp(dst));
            }
            (MemoryCall::Copy(space), &[from, to, len]) => self.effect(Stmt::Copy { to, from, space, len }),
            (MemoryCall::CopyInto(space), &[from, len, to]) => {
                self.effect(Stmt::Copy { to, from, space, len });
            }
            (MemoryCall::CopyOut(space, text), &[from, to, len]) => {
                self.effect(Stmt::CopyOut { to, from, space, len, text });
            }
            // The checker has counted.
            _ => {}
        }
        self.constant(0)
    }

    fn strsize(&self) -> u32 {
        u32::try_from(self.cx.options.strsize).unwrap_or(u32::MAX)
    }
}
