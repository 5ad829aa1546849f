//! Memory of the program's own: where variables and elements are, reading parts of them without a call, writing to parts.
//!
//! An address that is a place's own with an offset in it which provably stays inside is read by loads; all others are numbers
//! that the kernel's helpers read from. A store always stays inside: its offset is known, or compared with the place's size.

use super::Select;
use super::array::NO_EXIST;
use super::key::BuiltKey;
use super::location::bytes;
use super::text::{Mem, Text, Value};
use crate::fold::range;
use crate::layout::padded;
use crate::vcode::{Base, Rhs, V};
use probity_bpf::insn::{AluOp, Cond, Size};
use probity_ir::{ArrayId, ClauseCode, Dest, Drop, Expr, ExprId, Fault, Place, Scope, Stmt, Val, VarId, VarPlace};

/// An address in a place: a known number of bytes and others that are computed.
struct Own<'a> {
    place: &'a Place,
    at: i64,
    by: Vec<ExprId>,
}

/// A value that is to be stored, evaluated.
enum Stored<'a> {
    Int(Rhs),
    Value(Value<'a>),
}

/// Bytes of a place.
fn size_of(program: &probity_ir::Program, place: &Place) -> u32 {
    let val = match place {
        Place::Var(v) => program.vars[v.0 as usize].val,
        Place::Elem(a, _) => program.arrays[a.0 as usize].val,
    };
    match val {
        Val::Int => 8,
        Val::Str { cap: n } | Val::Bytes { len: n } => n,
    }
}

/// Takes an address apart, where it is one in a place.
fn own(exprs: &[Expr], id: ExprId) -> Option<Own<'_>> {
    match &exprs[id.0 as usize] {
        Expr::AddrOf(place) => Some(Own { place, at: 0, by: Vec::new() }),
        Expr::Bin(probity_ir::BinOp::Add, a, b) => {
            let (mut sum, other) = match (own(exprs, *a), own(exprs, *b)) {
                (Some(sum), None) => (sum, *b),
                (None, Some(sum)) => (sum, *a),
                _ => return None,
            };
            match exprs[other.0 as usize] {
                Expr::Const(c) => sum.at = sum.at.checked_add(c)?,
                _ => sum.by.push(other),
            }
            Some(sum)
        }
        _ => None,
    }
}

impl<'a> Select<'a> {
    /// Where a place is: the bytes of its value, zeros if it is absent.
    fn place(&mut self, place: &'a Place) -> Mem {
        match place {
            Place::Var(v) => self.var_string(*v),
            Place::Elem(array, key) => self.elem_string(*array, key),
        }
    }

    /// Where `size` bytes at an address are, if they are provably all in one place.
    pub(super) fn own_memory(&mut self, addr: ExprId, size: u32) -> Option<(Base, i32)> {
        let exprs = &self.clause.exprs;
        let own = own(exprs, addr)?;
        let len = size_of(self.program, own.place);
        let (mut lo, mut hi) = (i128::from(own.at), i128::from(own.at));
        for &by in &own.by {
            let (least, most) = range(exprs, by);
            lo += i128::from(least);
            hi += i128::from(most);
        }
        if own.at < 0 || lo < i128::from(own.at) || hi + i128::from(size) > i128::from(len) {
            return None;
        }
        let at = own.at as i32;
        if let (Place::Var(v), true) = (own.place, own.by.is_empty())
            && let VarPlace::Global(off) = self.plan.layout.var(*v)
        {
            return Some(self.b.map_place(self.plan.layout.state_map, off + at as u32));
        }
        let mem = self.place(own.place);
        if own.by.is_empty() {
            return Some((mem.base, mem.off + at));
        }
        let mut by = self.int(own.by[0]);
        for &more in &own.by[1..] {
            let more = self.int(more);
            by = self.b.alu(AluOp::Add, by, Rhs::Reg(more));
        }
        let by = self.b.min(by, len - size - own.at as u32);
        let start = self.b.addr(mem.base, mem.off);
        Some((Base::Reg(self.b.add_ptr(start, Rhs::Reg(by))), at))
    }

    /// Whether an address is in a place of this one's.
    pub(super) fn is_in(&self, addr: ExprId, place: &Place) -> bool {
        own(&self.clause.exprs, addr).is_some_and(|own| match (own.place, place) {
            (Place::Var(a), Place::Var(b)) => a == b,
            (Place::Elem(a, _), Place::Elem(b, _)) => a == b,
            _ => false,
        })
    }

    /// A place's address as a number.
    pub(super) fn addr_of(&mut self, place: &'a Place) -> V {
        let mem = self.place(place);
        let ptr = match mem.base {
            // A register of its own, so that what is marked as a pointer here is nothing else.
            Base::Reg(v) => self.b.ptr_copy(v, mem.off),
            base => self.b.addr(base, mem.off),
        };
        self.b.mark_pointer(ptr);
        self.b.scalar(ptr)
    }

    /// An index that is in bounds.
    pub(super) fn bounded(&mut self, index: ExprId, len: u32) -> V {
        let index = self.int(index);
        match len {
            0 => self.fault(Fault::BadIndex, index),
            _ => {
                self.fault_if(Cond::Gt, index, Rhs::Imm((len - 1).min(i32::MAX as u32) as i32), Fault::BadIndex, index)
            }
        }
        index
    }

    /// A byte of a string.
    pub(super) fn char_at(&mut self, of: ExprId, index: ExprId) -> V {
        let text = self.text(of);
        let at = self.int(index);
        let byte = match text {
            Text::Const(bytes) => {
                let len = bytes.len() as u32;
                self.fault_if(Cond::Gt, at, Rhs::Imm(len as i32), Fault::BadAddress, at);
                let start = self.constant_text(bytes);
                let at = self.b.min(at, len);
                let ptr = self.b.add_ptr(start, Rhs::Reg(at));
                self.b.load(Size::B, Base::Reg(ptr), 0)
            }
            Text::Mem(mem) if matches!(self.expr(index), Expr::Const(0)) => self.b.load(Size::B, mem.base, mem.off),
            Text::Mem(mem) => {
                // Its own length says where it ends: what is behind that is anything.
                let copy = self.scratch_piece(mem.cap.next_multiple_of(8));
                let from = self.b.addr(mem.base, mem.off);
                let with_nul = self.copy_str(copy.0, copy.1, mem.cap, from);
                self.fault_if(Cond::Ge, at, Rhs::Reg(with_nul), Fault::BadAddress, at);
                let at = self.b.min(at, mem.cap.saturating_sub(1));
                let start = self.b.addr(copy.0, copy.1);
                let ptr = self.b.add_ptr(start, Rhs::Reg(at));
                self.b.load(Size::B, Base::Reg(ptr), 0)
            }
        };
        self.b.sign_extend(byte, 1)
    }

    // Stores.

    /// Writes to a part of a place.
    pub(super) fn store(&mut self, to: &'a Dest, offset: ExprId, value: ExprId, size: u32) {
        match to {
            Dest::Place(place @ Place::Var(var)) => {
                let (at, value) = self.offset_and_value(Some(place), offset, value, size);
                let Some(at) = self.inside(offset, at, size_of(self.program, place), size) else { return };
                match self.plan.layout.var(*var) {
                    VarPlace::Global(off) => {
                        let (base, off) = match at {
                            Rhs::Imm(at) => self.b.map_place(self.plan.layout.state_map, off + at as u32),
                            Rhs::Reg(_) => (Base::Reg(self.b.map_value(self.plan.layout.state_map, off)), 0),
                        };
                        let at = if matches!(at, Rhs::Imm(_)) { Rhs::Imm(0) } else { at };
                        self.write(base, off, at, value, size);
                    }
                    VarPlace::Thread(off) => {
                        let lost = self.b.cold();
                        let ptr = self.thread_create(lost);
                        self.write(Base::Reg(ptr), off as i32, at, value, size);
                        self.thread_lost(ptr, lost);
                    }
                    VarPlace::Clause => {
                        if let Some(&mem) = self.this_strings.get(var) {
                            self.write(mem.base, mem.off, at, value, size);
                        }
                    }
                }
            }
            Dest::Place(place @ Place::Elem(array, key)) => {
                let room = self.key_of(*array, key);
                let (at, value) = self.offset_and_value(Some(place), offset, value, size);
                if let Some(at) = self.inside(offset, at, size_of(self.program, place), size) {
                    let lost = self.b.cold();
                    let ptr = self.element(*array, room, lost);
                    self.write(Base::Reg(ptr), 0, at, value, size);
                    self.free_key(room);
                    self.lost(lost, Drop::Dynamic);
                }
            }
            Dest::Scratch => {
                let (at, value) = self.offset_and_value(None, offset, value, size);
                let at = self.reg(at);
                if let Some((base, off)) = self.scratch_place(at, size) {
                    self.write(base, off, Rhs::Imm(0), value, size);
                }
            }
            Dest::Global => {
                let (at, value) = self.offset_and_value(None, offset, value, size);
                let addr = self.reg(at);
                let (first, len) = self.plan.globals();
                if len < size {
                    return self.fault(Fault::BadAddress, addr);
                }
                let start = self.b.map_value(self.plan.layout.state_map, first);
                let number = self.b.ptr_copy(start, 0);
                self.b.mark_pointer(number);
                let number = self.b.scalar(number);
                let at = self.b.alu(AluOp::Sub, addr, Rhs::Reg(number));
                self.fault_if(Cond::Gt, at, Rhs::Imm((len - size) as i32), Fault::BadAddress, addr);
                let at = self.b.min(at, len - size);
                self.write(Base::Reg(start), 0, Rhs::Reg(at), value, size);
            }
        }
    }

    fn reg(&mut self, v: Rhs) -> V {
        match v {
            Rhs::Imm(n) => self.b.imm(n.into()),
            Rhs::Reg(v) => v,
        }
    }

    /// The offset, and then the value. What is read from the same place is copied first.
    fn offset_and_value(&mut self, to: Option<&Place>, offset: ExprId, value: ExprId, size: u32) -> (Rhs, Stored<'a>) {
        let at = self.rhs(offset);
        let stored = match self.val(value) {
            Val::Int => Stored::Int(self.rhs(value)),
            Val::Bytes { .. } => Stored::Value(self.value_of(value, to)),
            Val::Str { .. } => {
                let room = size.next_multiple_of(8);
                let mem = Mem { cap: size.max(1), ..self.buffer(room) };
                self.put(mem, value, true);
                Stored::Value(Value::Bytes(mem, size))
            }
        };
        (at, stored)
    }

    /// The offset, provably so that `size` bytes from there are inside of `len`; faults where they are not, and gives nothing
    /// where they never are.
    fn inside(&mut self, offset: ExprId, at: Rhs, len: u32, size: u32) -> Option<Rhs> {
        let most = len.checked_sub(size);
        match (at, most) {
            (Rhs::Imm(n), Some(most)) if (0..=i64::from(most)).contains(&n.into()) => Some(at),
            (Rhs::Reg(v), Some(most)) => {
                let (lo, hi) = range(&self.clause.exprs, offset);
                if lo < 0 || hi > i64::from(most) {
                    self.fault_if(Cond::Gt, v, Rhs::Imm(most as i32), Fault::BadAddress, v);
                }
                Some(Rhs::Reg(self.b.min(v, most)))
            }
            _ => {
                let at = self.reg(at);
                self.fault(Fault::BadAddress, at);
                None
            }
        }
    }

    fn write(&mut self, base: Base, off: i32, at: Rhs, value: Stored<'a>, size: u32) {
        let (base, off) = match at {
            Rhs::Imm(at) => (base, off + at),
            Rhs::Reg(at) => {
                let start = self.b.addr(base, off);
                (Base::Reg(self.b.add_ptr(start, Rhs::Reg(at))), 0)
            }
        };
        match value {
            Stored::Int(v) => self.b.store(bytes(size as u8), base, off, v),
            Stored::Value(value) => self.put_value(Mem { base, off, cap: size, padded: false }, value),
        }
    }

    /// An element's key.
    fn key_of(&mut self, array: ArrayId, key: &[ExprId]) -> BuiltKey {
        let room = self.room(array);
        self.members(array, room, key);
        room
    }

    /// An element, made if it is absent; goes to `lost` where that fails.
    fn element(&mut self, array: ArrayId, room: BuiltKey, lost: crate::vcode::B) -> V {
        let map = self.plan.arrays[array.0 as usize].map;
        self.own_key(array, room, lost);
        let name = self.b.name();
        let ptr = self.look_up(map, room);
        let (found, absent) = (self.b.block(), self.b.cold());
        self.b.set(name, ptr);
        self.b.branch_null(ptr, absent, found);
        self.b.start(absent);
        let zeros = self.b.map_value(self.plan.rodata_map, 0);
        // Another CPU may make it in between.
        self.insert(map, room, zeros, NO_EXIST);
        let ptr = self.look_up(map, room);
        self.b.set(name, ptr);
        self.b.branch_null(ptr, lost, found);
        self.b.start(found);
        self.b.get(name)
    }

    // `this->` memory.

    /// Whether a `this->` variable's bytes can be on the stack: every part of it that is read or written is at a known and
    /// aligned place.
    pub(super) fn fits_stack(&self, var: VarId) -> bool {
        let size = padded(self.program.vars[var.0 as usize].val);
        size <= self.limits.string && self.unit.clauses.iter().all(|c| is_plain(c, var))
    }
}

/// Whether a clause uses a variable's bytes at known, aligned offsets only.
fn is_plain(clause: &ClauseCode, var: VarId) -> bool {
    let exprs = &clause.exprs;
    let of = |id: ExprId| own(exprs, id).filter(|o| matches!(o.place, Place::Var(v) if *v == var));
    let aligned = |at: i64, size: u32| at % i64::from(size.clamp(1, 8)) == 0;
    exprs.iter().all(|e| match e {
        Expr::Bin(_, a, b) => {
            [(a, b), (b, a)].into_iter().all(|(x, y)| of(*x).is_none() || matches!(exprs[y.0 as usize], Expr::Const(_)))
        }
        Expr::Load { addr, size, .. } => of(*addr).is_none_or(|o| aligned(o.at, (*size).into())),
        _ => true,
    }) && plain_stores(exprs, &clause.body, var)
}

fn plain_stores(exprs: &[Expr], body: &[Stmt], var: VarId) -> bool {
    body.iter().all(|s| match s {
        Stmt::Store { to: Dest::Place(Place::Var(v)), offset, size, .. } if *v == var => {
            let aligned = |at: i64| !matches!(size, 1 | 2 | 4 | 8) || at % i64::from(*size) == 0;
            matches!(exprs[offset.0 as usize], Expr::Const(at) if aligned(at))
        }
        Stmt::If { then, otherwise, .. } => plain_stores(exprs, then, var) && plain_stores(exprs, otherwise, var),
        _ => true,
    })
}

/// Whether a clause uses a variable in any way.
pub fn uses_var(clause: &ClauseCode, var: VarId) -> bool {
    let of = |place: &Place| matches!(place, Place::Var(v) if *v == var);
    fn sets(body: &[Stmt], var: VarId) -> bool {
        body.iter().any(|s| match s {
            Stmt::SetVar(v, _) | Stmt::AddVar { var: v, .. } => *v == var,
            Stmt::Store { to: Dest::Place(Place::Var(v)), .. } => *v == var,
            Stmt::If { then, otherwise, .. } => sets(then, var) || sets(otherwise, var),
            _ => false,
        })
    }
    let reads = |e: &Expr| match e {
        Expr::Var(v) => *v == var,
        Expr::AddrOf(place) => of(place),
        _ => false,
    };
    clause.exprs.iter().any(reads) || sets(&clause.body, var)
}

/// Whether a variable is one of a firing's whose bytes are in memory.
pub fn is_this_memory(var: &probity_ir::Var) -> bool {
    var.scope == Scope::Clause && var.val != Val::Int
}
