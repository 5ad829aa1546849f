//! Typed expressions to IR. Side effects become statements before the one that the expression stands in; what was
//! evaluated before a side effect and read after it is held in a temporary.

use super::clause::ClauseLower;
use super::float::{self, Number};
use super::memory::Change;
use super::shape::{is_string, text_of};
use crate::check::tree::*;
use probity_ir::Scope;
use probity_ir::{
    BinOp, Builtin, Expr, ExprId, KernelAct, Location, Space, Stack, Stmt, TypeId, TypeKind, TypeTable, UnOp, Val,
    VarId,
};

impl ClauseLower<'_> {
    pub(super) fn size_sign(&self, ty: TypeId) -> (u8, bool) {
        let types = &self.cx.checked.types;
        match types.get(types.resolve(ty)) {
            TypeKind::Int { size, signed, .. } | TypeKind::Enum { size, signed, .. } => (*size, *signed),
            TypeKind::Float { size } => (*size, false),
            _ => (8, false),
        }
    }

    fn number(&self, ty: TypeId) -> Number {
        let types = &self.cx.checked.types;
        let (size, signed) = self.size_sign(ty);
        match types.get(types.resolve(ty)) {
            TypeKind::Float { .. } => Number::Float(size),
            _ => Number::Int(size, signed),
        }
    }

    /// Makes an integer normal for its type.
    pub(super) fn ext(&mut self, of: ExprId, ty: TypeId) -> ExprId {
        match self.size_sign(ty) {
            (size @ (1 | 2 | 4), signed) => self.add(Expr::Ext { of, size, signed }),
            _ => of,
        }
    }

    /// An operand for a record: scalars, strings, and whole objects.
    pub(super) fn expr_or_bytes(&mut self, e: &TExpr) -> (ExprId, Val) {
        let types = &self.cx.checked.types;
        if let TKind::Object(addr, space, _) = &e.kind
            && matches!(
                types.get(types.resolve(e.ty)),
                TypeKind::Array { .. } | TypeKind::Struct { .. } | TypeKind::Float { size: 16 }
            )
        {
            let len = types.size(e.ty).and_then(|n| u32::try_from(n).ok()).unwrap_or(0);
            let (addr, space) = (self.expr(addr), *space);
            return (self.add(Expr::ReadBytes { addr, space, len }), Val::Bytes { len });
        }
        let val = self.val(e);
        (self.expr(e), val)
    }

    /// Evaluates for side effects only.
    pub(super) fn discard(&mut self, e: &TExpr) {
        match &e.kind {
            TKind::Assign { .. } | TKind::Step { .. } => {
                self.change(e, false);
            }
            TKind::Comma(a, b) => {
                self.discard(a);
                self.discard(b);
            }
            TKind::Hold(slot, value, body) => {
                self.keep(*slot, value);
                self.discard(body);
            }
            TKind::Convert(a) | TKind::Shown(a) => self.discard(a),
            TKind::Cond(c, a, b) if e.has_effect() => {
                let cond = self.expr(c);
                let (then, ()) = self.in_block(|c| c.discard(a));
                let (otherwise, ()) = self.in_block(|c| c.discard(b));
                self.push_if(cond, then, otherwise);
            }
            // Without effect, but it can still fault.
            _ if e.operands().is_empty() && !e.has_effect() => {}
            TKind::Object(addr, ..) if !self.is_scalar(e.ty) => self.discard(addr),
            _ => {
                let string = is_string(&self.cx.checked.types, e.ty);
                let id = self.expr(e);
                if !self.is_scalar(e.ty) {
                    return;
                }
                // What is none is no fault where nothing is done with it.
                let id = if string {
                    let empty = self.add(Expr::Str(Vec::new()));
                    self.add(Expr::StrCmp(probity_ir::StrOp::Ne, id, empty))
                } else {
                    id
                };
                let t = self.temp();
                self.effect(Stmt::SetTemp(t, id));
            }
        }
    }

    pub(super) fn is_scalar(&self, ty: TypeId) -> bool {
        let types = &self.cx.checked.types;
        !matches!(
            types.get(types.resolve(ty)),
            TypeKind::Array { .. }
                | TypeKind::Struct { .. }
                | TypeKind::Float { size: 16 }
                | TypeKind::Func { .. }
                | TypeKind::Void
        )
    }

    /// Two operands, left to right.
    fn both(&mut self, a: &TExpr, b: &TExpr) -> (ExprId, ExprId) {
        let mut x = self.expr(a);
        if b.has_effect() {
            let val = self.val(a);
            x = self.hold(x, val);
        }
        (x, self.expr(b))
    }

    pub(super) fn list(&mut self, all: &[TExpr]) -> Vec<ExprId> {
        let mut out = Vec::new();
        for (i, e) in all.iter().enumerate() {
            let mut id = self.expr(e);
            if all[i + 1..].iter().any(TExpr::has_effect) {
                let val = self.val(e);
                id = self.hold(id, val);
            }
            out.push(id);
        }
        out
    }

    /// Lowers an expression that has a value.
    pub(super) fn expr(&mut self, e: &TExpr) -> ExprId {
        match &e.kind {
            TKind::Int(v) => self.constant(*v),
            TKind::Str(bytes) => {
                // A NUL ends a string. What does not fit is cut where it is stored, so that the cut can be told.
                let end = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
                self.add(Expr::Str(bytes[..end].to_vec()))
            }
            TKind::RawArg(n) => match self.cx.signature.raw.get(*n as usize).cloned() {
                Some(place) => self.place(&place),
                None => self.constant(0),
            },
            TKind::Arg(n) => match self.cx.signature.args.get(*n as usize).map(|a| a.location.clone()) {
                Some(place) => self.place(&place),
                None => self.constant(0),
            },
            TKind::Errno => self.errno(),
            TKind::Caller => match self.cx.signature.caller.clone() {
                Some(place) => self.place(&place),
                None => self.add(Expr::Builtin(Builtin::Caller)),
            },
            TKind::Ucaller => match self.cx.signature.ucaller.clone() {
                Some(place) => self.place(&place),
                None => self.add(Expr::Builtin(Builtin::Ucaller)),
            },
            TKind::Ppid(parent, tgid) => {
                let base = Box::new(Location::CurrentTask);
                let base = Box::new(Location::Btf { base, offset: *parent, size: 8, signed: false });
                self.add(Expr::Loc(Location::Btf { base, offset: *tgid, size: 4, signed: true }))
            }
            TKind::Builtin(b) => self.add(Expr::Builtin(*b)),
            TKind::Stack { user, frames, strsize } => {
                let entry = if *user { self.cx.signature.ucaller.clone() } else { None };
                // At a return the program counter is the caller's already.
                let entry = entry.filter(|place| !matches!(place, Location::Pc { .. }));
                self.add(Expr::Stack(Stack { user: *user, frames: *frames, strsize: *strsize, entry }))
            }
            TKind::Part { of, offset } => {
                let (size, signed) = self.size_sign(e.ty);
                let of = self.expr(of);
                self.add(Expr::Part { of, offset: *offset, size, signed })
            }
            TKind::Symbol(_, a) => self.expr(a),
            TKind::Place(place) => self.add(Expr::Loc(place.clone())),
            TKind::Comm => self.add(Expr::Comm),
            TKind::ProbePart(part) => match &self.cx.texts.single {
                Some(desc) => {
                    let text = text_of(desc, *part).as_bytes().to_vec();
                    self.add(Expr::Str(text))
                }
                None => self.add(Expr::ProbeText(*part)),
            },
            TKind::Var(v) => self.read_var(*v),
            TKind::Elem(array, key) => {
                let key = self.list(key);
                let id = self.add(Expr::Elem(*array, key));
                let info = &self.cx.checked.arrays[array.0 as usize];
                if info.added { self.ext(id, info.ty) } else { id }
            }
            TKind::AddrOf(whole) => self.addr_of(whole),
            TKind::Bounded(index, len) => {
                let index = self.expr(index);
                self.add(Expr::Bounded { index, len: *len })
            }
            TKind::CharAt(of, index) => {
                let (of, index) = self.both(of, index);
                self.add(Expr::CharAt { of, index })
            }
            TKind::Un(op, a) => {
                let x = self.expr(a);
                let id = self.add(Expr::Un(*op, x));
                if *op == UnOp::LogNot { id } else { self.ext(id, e.ty) }
            }
            TKind::Bin(op, a, b) => {
                let (x, y) = self.both(a, b);
                let id = self.add(Expr::Bin(*op, x, y));
                match op {
                    // These can leave the range of a narrower type.
                    BinOp::Add | BinOp::Sub | BinOp::Mul | BinOp::Shl | BinOp::DivS => self.ext(id, e.ty),
                    _ => id,
                }
            }
            TKind::Convert(a) | TKind::Shown(a) => {
                let x = self.expr(a);
                let (from, to) = (self.size_sign(a.ty), self.size_sign(e.ty));
                // A type that holds all values of the other needs no extension.
                let fits = to.0 >= 8 || from == to || from.0 < to.0 && (!from.1 || to.1);
                if fits { x } else { self.ext(x, e.ty) }
            }
            TKind::FloatConvert(a) => {
                let x = self.expr(a);
                let (from, to) = (self.number(a.ty), self.number(e.ty));
                float::convert(self, x, from, to)
            }
            TKind::FloatCmp(op, a, b) => {
                let (x, y) = self.both(a, b);
                let size = self.size_sign(a.ty).0;
                float::compare(self, *op, x, y, size)
            }
            TKind::Truth(a) => {
                let x = self.expr(a);
                self.truth(x)
            }
            TKind::And(a, b) => self.short_circuit(a, b, true),
            TKind::Or(a, b) => self.short_circuit(a, b, false),
            TKind::Cond(c, a, b) => self.conditional(e, c, a, b),
            TKind::StrCmp(op, a, b) => {
                let (x, y) = self.both(a, b);
                self.add(Expr::StrCmp(*op, x, y))
            }
            TKind::Object(addr, space, _) if is_string(&self.cx.checked.types, e.ty) => {
                let Val::Str { cap } = self.val(e) else { return self.constant(0) };
                let (addr, space) = (self.expr(addr), *space);
                self.add(Expr::ReadStr { addr, space, cap, max: None })
            }
            TKind::Object(addr, space, bits) => self.load(e.ty, addr, *space, *bits),
            TKind::ReadStr { addr, space, max, .. } => {
                let Val::Str { cap } = self.val(e) else { return self.constant(0) };
                let space = *space;
                let (addr, max) = match max {
                    Some(max) => {
                        let (addr, max) = self.both(addr, max);
                        (addr, Some(max))
                    }
                    None => (self.expr(addr), None),
                };
                self.add(Expr::ReadStr { addr, space, cap, max })
            }
            TKind::ScratchAddr(a) => {
                let at = self.expr(a);
                let at = self.hold(at, Val::Int);
                let addr = self.add(Expr::ScratchAddr(at));
                // NULL stays NULL.
                let null = self.constant(0);
                self.add(Expr::Cond(at, addr, null))
            }
            TKind::StrLen(a) => {
                let x = self.text_operand(a);
                self.add(Expr::StrLen(x))
            }
            TKind::StrJoin(a, b) => {
                let Val::Str { cap } = self.val(e) else { return self.constant(0) };
                let (a, b) = self.both(a, b);
                self.add(Expr::StrJoin { a, b, cap })
            }
            TKind::Sub(sub, args) => self.subroutine(e, *sub, args),
            TKind::Strtok(s, delimiters) => self.strtok(e, s.as_deref(), delimiters),
            TKind::CopyIn(addr, space, len) => {
                let (addr, len) = self.both(addr, len);
                let dst = self.temp();
                self.effect(Stmt::CopyIn { dst, addr, len, space: *space });
                self.add(Expr::Temp(dst))
            }
            TKind::Memory(call, args) => self.memory_call(*call, args),
            TKind::Speculation => {
                let dst = self.temp();
                self.effect(Stmt::Act { act: KernelAct::SpecStart, dst: Some(dst), args: Vec::new() });
                self.add(Expr::Temp(dst))
            }
            TKind::Assign { .. } | TKind::Step { .. } => match self.change(e, true) {
                Some(value) => value,
                None => self.constant(0),
            },
            TKind::Old => match self.old.last() {
                Some(old) => *old,
                None => self.constant(0),
            },
            TKind::Comma(a, b) => {
                self.discard(a);
                self.expr(b)
            }
            TKind::Hold(slot, value, body) => {
                self.keep(*slot, value);
                self.expr(body)
            }
            // The checker leaves neither translated data nor a value that nothing holds.
            TKind::Held(slot) => match self.held.get(slot) {
                Some(id) => *id,
                None => self.constant(0),
            },
            TKind::Xlated { source, .. } => self.expr(source),
        }
    }

    /// Evaluates what a [`TKind::Hold`] holds.
    fn keep(&mut self, slot: u32, value: &TExpr) {
        let val = self.val(value);
        let id = self.expr(value);
        let id = self.hold(id, val);
        self.held.insert(slot, id);
    }

    fn read_var(&mut self, v: VarId) -> ExprId {
        let id = self.add(Expr::Var(v));
        let info = &self.cx.checked.vars[v.0 as usize];
        if info.added && info.scope == Scope::Global { self.ext(id, info.ty) } else { id }
    }

    fn truth(&mut self, x: ExprId) -> ExprId {
        let zero = self.constant(0);
        self.add(Expr::Bin(BinOp::Ne, x, zero))
    }

    fn errno(&mut self) -> ExprId {
        let Some(place) = self.cx.signature.errno.clone() else { return self.constant(0) };
        // -4095 … -1, in one unsigned comparison.
        let value = self.place(&place);
        let limit = self.constant(-4096);
        let failed = self.add(Expr::Bin(BinOp::LtU, limit, value));
        let negated = self.add(Expr::Un(UnOp::Neg, value));
        let zero = self.constant(0);
        self.add(Expr::Cond(failed, negated, zero))
    }

    fn short_circuit(&mut self, a: &TExpr, b: &TExpr, and: bool) -> ExprId {
        let x = self.expr(a);
        if !b.has_effect() {
            let y = self.expr(b);
            return self.add(if and { Expr::And(x, y) } else { Expr::Or(x, y) });
        }
        let x = self.truth(x);
        let t = self.temp();
        self.effect(Stmt::SetTemp(t, x));
        let (inner, ()) = self.in_block(|c| {
            let y = c.expr(b);
            let y = c.truth(y);
            c.effect(Stmt::SetTemp(t, y));
        });
        let cond = self.add(Expr::Temp(t));
        if and {
            self.push_if(cond, inner, Vec::new());
        } else {
            self.push_if(cond, Vec::new(), inner);
        }
        self.add(Expr::Temp(t))
    }

    fn conditional(&mut self, e: &TExpr, c: &TExpr, a: &TExpr, b: &TExpr) -> ExprId {
        let cond = self.expr(c);
        if !a.has_effect() && !b.has_effect() {
            let (x, y) = (self.expr(a), self.expr(b));
            return self.add(Expr::Cond(cond, x, y));
        }
        let string = match self.val(e) {
            Val::Str { cap } => Some(self.hidden_var(cap)),
            _ => None,
        };
        let t = self.temp();
        let branch = |s: &mut Self, value: &TExpr| {
            s.in_block(|s| {
                let x = s.expr(value);
                match string {
                    Some(v) => s.effect(Stmt::SetVar(v, x)),
                    None => s.effect(Stmt::SetTemp(t, x)),
                }
            })
            .0
        };
        let then = branch(self, a);
        let otherwise = branch(self, b);
        self.push_if(cond, then, otherwise);
        self.add(match string {
            Some(v) => Expr::Var(v),
            None => Expr::Temp(t),
        })
    }

    /// Whether so many bytes of the current task are all in one member, and all of it where it is a pointer: the verifier reads no
    /// others.
    fn is_of_task(&self, addr: &TExpr, at: u32, size: u32) -> bool {
        let mut task = addr;
        while let TKind::Bin(_, base, _) = &task.kind {
            task = base;
        }
        let types = &self.cx.checked.types;
        match types.get(types.resolve(task.ty)) {
            // A cast may have made something else of it.
            TypeKind::Pointer { to, .. } => {
                let is_task =
                    matches!(types.get(types.resolve(*to)), TypeKind::Struct { name, .. } if name == "task_struct");
                is_task && in_member(types, *to, at, size, 0)
            }
            _ => false,
        }
    }

    /// A scalar in memory.
    fn load(&mut self, ty: TypeId, addr: &TExpr, space: Space, bits: Option<Bits>) -> ExprId {
        if !self.is_scalar(ty) {
            return self.whole_object(addr, space, ty);
        }
        let (size, signed) = self.size_sign(ty);
        if let Some(bits) = bits {
            let addr = self.expr(addr);
            return self.bit_field(addr, space, bits, signed);
        }
        // Members of the current task need no helper call: the verifier knows the task.
        if let Some(offset) = task_offset(addr).filter(|&at| self.is_of_task(addr, at, size.into())) {
            let base = Box::new(Location::CurrentTask);
            return self.add(Expr::Loc(Location::Btf { base, offset, size, signed }));
        }
        // What is wrong with a member of NULL is NULL.
        let null = matches!(&addr.kind, TKind::Bin(BinOp::Add, a, _) if matches!(a.kind, TKind::Int(0)));
        let addr = if null { self.constant(0) } else { self.expr(addr) };
        self.add(Expr::Load { addr, size, signed, space })
    }

    /// Assignments and steps; the value where it is wanted.
    fn change(&mut self, e: &TExpr, wanted: bool) -> Option<ExprId> {
        match &e.kind {
            TKind::Step { target, by, pre } if matches!(target.kind, TKind::Object(..)) => {
                self.change_object(target, Change::By(*by, *pre), wanted)
            }
            TKind::Assign { target, value, .. } if matches!(target.kind, TKind::Object(..)) => {
                self.change_object(target, Change::To(value), wanted)
            }
            TKind::Step { target, by, pre } => {
                let by = self.constant(*by);
                self.add_to(target, by, wanted.then_some(*pre))
            }
            TKind::Assign { target, add: Some(by), .. } if self.can_add(target) => {
                // The key's side effects come first, but those of a value alone need no temporary.
                let by = self.expr(by);
                self.add_to(target, by, wanted.then_some(true))
            }
            TKind::Assign { target, value, .. } => {
                let key = match &target.kind {
                    TKind::Elem(_, key) => self.held_key(key, value),
                    _ => Vec::new(),
                };
                if value.any(&mut |e| e.kind == TKind::Old) {
                    let old = self.read_target(target, &key);
                    let held = if value.has_effect() { self.hold(old, Val::Int) } else { old };
                    self.old.push(held);
                    let value_id = self.expr(value);
                    self.old.pop();
                    return self.store(target, key, value, value_id, wanted);
                }
                let value_id = self.expr(value);
                self.store(target, key, value, value_id, wanted)
            }
            _ => None,
        }
    }

    pub(super) fn held_key(&mut self, key: &[TExpr], value: &TExpr) -> Vec<ExprId> {
        let ids = self.list(key);
        if !value.has_effect() {
            return ids;
        }
        ids.into_iter()
            .zip(key)
            .map(|(id, e)| {
                let val = self.val(e);
                self.hold(id, val)
            })
            .collect()
    }

    fn read_target(&mut self, target: &TExpr, key: &[ExprId]) -> ExprId {
        match &target.kind {
            TKind::Var(v) => self.read_var(*v),
            TKind::Elem(array, _) => {
                let id = self.add(Expr::Elem(*array, key.to_vec()));
                let info = &self.cx.checked.arrays[array.0 as usize];
                if info.added { self.ext(id, info.ty) } else { id }
            }
            _ => self.constant(0),
        }
    }

    fn store(
        &mut self,
        target: &TExpr,
        key: Vec<ExprId>,
        value: &TExpr,
        mut id: ExprId,
        wanted: bool,
    ) -> Option<ExprId> {
        let string = is_string(&self.cx.checked.types, value.ty);
        if wanted && !string {
            id = self.hold(id, Val::Int);
        }
        let again = match &target.kind {
            TKind::Var(v) => {
                self.effect(Stmt::SetVar(*v, id));
                (wanted && string).then_some(Expr::Var(*v))
            }
            TKind::Elem(array, _) => {
                self.effect(Stmt::SetElem(*array, key.clone(), id));
                (wanted && string).then_some(Expr::Elem(*array, key))
            }
            _ => None,
        };
        match again {
            Some(read) => Some(self.add(read)),
            None => wanted.then_some(id),
        }
    }

    /// Whether the target can be added to in one step that loses no concurrent addition.
    fn can_add(&self, target: &TExpr) -> bool {
        match &target.kind {
            TKind::Var(v) => self.cx.checked.vars[v.0 as usize].scope == Scope::Global,
            TKind::Elem(..) => true,
            _ => false,
        }
    }

    /// Adds to a target. `wanted` asks for the value: after the addition, or before it.
    fn add_to(&mut self, target: &TExpr, by: ExprId, wanted: Option<bool>) -> Option<ExprId> {
        let ty = target.ty;
        if !self.can_add(target) {
            let TKind::Var(v) = &target.kind else { return None };
            let old = self.read_var(*v);
            let old = if wanted.is_some() { self.hold(old, Val::Int) } else { old };
            let sum = self.add(Expr::Bin(BinOp::Add, old, by));
            let sum = self.ext(sum, ty);
            let sum = if wanted == Some(true) { self.hold(sum, Val::Int) } else { sum };
            self.effect(Stmt::SetVar(*v, sum));
            return wanted.map(|after| if after { sum } else { old });
        }
        // What is added is read again for the new value.
        let by = if wanted == Some(true) { self.hold(by, Val::Int) } else { by };
        let old = wanted.map(|_| self.temp());
        match &target.kind {
            TKind::Var(v) => self.effect(Stmt::AddVar { var: *v, by, old }),
            TKind::Elem(array, key) => {
                let key = self.list(key);
                self.effect(Stmt::AddElem { array: *array, key, by, old });
            }
            _ => return None,
        }
        let old = self.add(Expr::Temp(old?));
        let value = if wanted == Some(true) { self.add(Expr::Bin(BinOp::Add, old, by)) } else { old };
        Some(self.ext(value, ty))
    }
}

/// Whether `size` bytes at an offset in a type are all in one scalar, and are the whole of it where it is a pointer.
fn in_member(types: &TypeTable, ty: TypeId, at: u32, size: u32, depth: u32) -> bool {
    let whole = types.size(ty).and_then(|n| u32::try_from(n).ok()).unwrap_or(0);
    if depth > 32 || at.checked_add(size).is_none_or(|end| end > whole) {
        return false;
    }
    match types.get(types.resolve(ty)) {
        TypeKind::Struct { members, .. } => members.iter().any(|m| {
            let start = m.bit_offset / 8;
            m.bit_size == 0 && at >= start && in_member(types, m.ty, at - start, size, depth + 1)
        }),
        TypeKind::Array { of, .. } => match types.size(*of) {
            Some(each @ 1..) => in_member(types, *of, (u64::from(at) % each) as u32, size, depth + 1),
            _ => false,
        },
        TypeKind::Pointer { .. } => at == 0 && size == 8,
        TypeKind::Int { .. } | TypeKind::Enum { .. } => true,
        _ => false,
    }
}

/// The offset in the current task that an address is at, if it is one that is known when compiling.
fn task_offset(addr: &TExpr) -> Option<u32> {
    match &addr.kind {
        TKind::Builtin(Builtin::CurThread) => Some(0),
        TKind::Bin(BinOp::Add, base, by) => match (&base.kind, &by.kind) {
            (TKind::Builtin(Builtin::CurThread), TKind::Int(n)) => u32::try_from(*n).ok(),
            _ => None,
        },
        _ => None,
    }
}
