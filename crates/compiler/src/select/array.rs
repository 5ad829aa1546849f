//! Associative arrays: elements of hash maps.

use super::Select;
use super::key::BuiltKey;
use super::text::Mem;
use crate::layout::padded;
use crate::vcode::{B, Base, Rhs, V};
use probity_bpf::helpers::Helper;
use probity_bpf::insn::{AtomicOp, Cond, Size, Width};
use probity_ir::{ArrayId, Drop, Expr, ExprId, TempId, Val};

/// `BPF_ANY`.
const ANY: i64 = 0;
/// `BPF_NOEXIST`.
pub const NO_EXIST: i64 = 1;
/// `-ENOENT`.
const ENOENT: i32 = -2;

impl Select<'_> {
    /// Looks a key up; null where it is absent.
    pub(super) fn look_up(&mut self, map: u32, key: BuiltKey) -> V {
        let map = self.b.map(map);
        let at = self.b.addr(key.base, key.off);
        self.b.call(Helper::MapLookupElem, &[map, at])
    }

    /// Adds an element; gives 0 or an error.
    pub(super) fn insert(&mut self, map: u32, key: BuiltKey, value: V, flags: i64) -> V {
        let map = self.b.map(map);
        let at = self.b.addr(key.base, key.off);
        let flags = self.b.imm(flags);
        self.b.call(Helper::MapUpdateElem, &[map, at, value, flags])
    }

    pub(super) fn room(&mut self, array: ArrayId) -> BuiltKey {
        let size = self.plan.arrays[array.0 as usize].key.size.max(8);
        self.key_room(size)
    }

    pub(super) fn members(&mut self, array: ArrayId, room: BuiltKey, key: &[ExprId]) {
        let fields = self.plan.arrays[array.0 as usize].key.fields.clone();
        self.put_members(room, &fields, key);
    }

    /// Builds the key of an element that is only looked for; goes to `absent` where the thread has none.
    fn key_to_find(&mut self, array: ArrayId, key: &[ExprId], absent: B) -> BuiltKey {
        let room = self.room(array);
        self.members(array, room, key);
        if self.plan.arrays[array.0 as usize].thread {
            let serial = self.thread_serial();
            let has = self.b.block();
            self.b.branch(Cond::Eq, Width::W64, serial, Rhs::Imm(0), absent, has);
            self.b.start(has);
            self.b.store(Size::DW, room.base, room.off, Rhs::Reg(serial));
        }
        room
    }

    /// Completes the key of an element that is to be made; goes to `lost` where the thread can have none.
    pub(super) fn own_key(&mut self, array: ArrayId, room: BuiltKey, lost: B) {
        if self.plan.arrays[array.0 as usize].thread {
            let serial = self.thread_serial_create(lost);
            self.b.store(Size::DW, room.base, room.off, Rhs::Reg(serial));
        }
    }

    /// The element, or to `absent`.
    fn find_elem(&mut self, array: ArrayId, key: &[ExprId], absent: B) -> V {
        let room = self.key_to_find(array, key, absent);
        let map = self.plan.arrays[array.0 as usize].map;
        let ptr = self.look_up(map, room);
        self.free_key(room);
        let some = self.b.block();
        self.b.branch_null(ptr, absent, some);
        self.b.start(some);
        ptr
    }

    /// An integer element's value, 0 where it is absent.
    pub(super) fn elem(&mut self, array: ArrayId, key: &[ExprId]) -> V {
        let (name, join) = (self.b.name(), self.b.block());
        let zero = self.b.imm(0);
        self.b.set(name, zero);
        let ptr = self.find_elem(array, key, join);
        let v = self.b.load(Size::DW, Base::Reg(ptr), 0);
        self.b.set(name, v);
        self.b.jump(join);
        self.b.start(join);
        self.b.get(name)
    }

    /// Where a string element is; an empty string where it is absent.
    pub(super) fn elem_string(&mut self, array: ArrayId, key: &[ExprId]) -> Mem {
        let val = self.plan.arrays[array.0 as usize].val;
        let (name, absent, join) = (self.b.name(), self.b.cold(), self.b.block());
        let ptr = self.find_elem(array, key, absent);
        self.b.set(name, ptr);
        self.b.jump(join);
        self.b.start(absent);
        let zeros = self.b.map_value(self.plan.rodata_map, 0);
        self.b.set(name, zeros);
        self.b.jump(join);
        self.b.start(join);
        Mem { base: Base::Reg(self.b.get(name)), off: 0, cap: padded(val), padded: true }
    }

    /// Sets an element; zero and the empty string delete it.
    pub(super) fn set_elem(&mut self, array: ArrayId, key: &[ExprId], e: ExprId) {
        let plan = self.plan.arrays[array.0 as usize].clone();
        let room = self.room(array);
        self.members(array, room, key);
        let (done, lost) = (self.b.block(), self.b.cold());
        let constant = match self.expr(e) {
            Expr::Const(c) => Some(*c != 0),
            Expr::Str(bytes) => Some(!crate::fold::text(bytes).is_empty()),
            _ => None,
        };
        match plan.val {
            Val::Int => {
                let v = if constant == Some(false) { Rhs::Imm(0) } else { self.rhs(e) };
                let delete = self.delete_if(constant, v);
                if constant != Some(false) {
                    self.own_key(array, room, lost);
                    let ptr = self.look_up(plan.map, room);
                    let (some, none) = (self.b.block(), self.b.block());
                    self.b.branch_null(ptr, none, some);
                    self.b.start(some);
                    self.b.store(Size::DW, Base::Reg(ptr), 0, v);
                    self.b.jump(done);
                    self.b.start(none);
                    let slot = self.b.piece(8);
                    self.b.store(Size::DW, Base::Frame(slot), 0, v);
                    let value = self.b.addr(Base::Frame(slot), 0);
                    let failed = self.insert(plan.map, room, value, ANY);
                    self.b.free(slot);
                    self.b.branch(Cond::Eq, Width::W64, failed, Rhs::Imm(0), done, lost);
                }
                self.delete(array, room, delete, done, lost);
            }
            _ => {
                let mut delete = None;
                if constant == Some(false) {
                    let block = self.b.block();
                    self.b.jump(block);
                    delete = Some(block);
                } else {
                    let size = padded(plan.val);
                    let cap = match plan.val {
                        Val::Str { cap } => cap.max(1),
                        _ => size,
                    };
                    let to = Mem { cap, ..self.buffer(size) };
                    // None is stored as the empty string is: not at all.
                    self.none_ok = true;
                    self.put(to, e, true);
                    if constant.is_none() && matches!(plan.val, Val::Str { .. }) {
                        let first = self.b.load(Size::B, to.base, to.off);
                        delete = self.delete_if(None, Rhs::Reg(first));
                    }
                    self.own_key(array, room, lost);
                    let value = self.b.addr(to.base, to.off);
                    let failed = self.insert(plan.map, room, value, ANY);
                    self.b.branch(Cond::Eq, Width::W64, failed, Rhs::Imm(0), done, lost);
                }
                self.delete(array, room, delete, done, lost);
            }
        }
        self.free_key(room);
        self.b.start(lost);
        self.count_drop(Drop::Dynamic);
        self.b.jump(done);
        self.b.start(done);
    }

    /// Branches off where the value is zero; gives the block that deletes, if any.
    fn delete_if(&mut self, constant: Option<bool>, v: Rhs) -> Option<B> {
        match (constant, v) {
            (Some(true), _) => None,
            (None, Rhs::Reg(v)) => {
                let (keep, delete) = (self.b.block(), self.b.block());
                self.b.branch(Cond::Ne, Width::W64, v, Rhs::Imm(0), keep, delete);
                self.b.start(keep);
                Some(delete)
            }
            _ => {
                let delete = self.b.block();
                self.b.jump(delete);
                Some(delete)
            }
        }
    }

    fn delete(&mut self, array: ArrayId, room: BuiltKey, delete: Option<B>, done: B, lost: B) {
        let Some(delete) = delete else { return };
        self.b.start(delete);
        let plan = self.plan.arrays[array.0 as usize].clone();
        if plan.thread {
            let serial = self.thread_serial();
            let has = self.b.block();
            self.b.branch(Cond::Eq, Width::W64, serial, Rhs::Imm(0), done, has);
            self.b.start(has);
            self.b.store(Size::DW, room.base, room.off, Rhs::Reg(serial));
        }
        let map = self.b.map(plan.map);
        let at = self.b.addr(room.base, room.off);
        let failed = self.b.call(Helper::MapDeleteElem, &[map, at]);
        // That it was not there is no failure; that its bucket was locked by what this program interrupted is.
        let other = self.b.cold();
        self.b.branch(Cond::Eq, Width::W64, failed, Rhs::Imm(0), done, other);
        self.b.start(other);
        self.b.branch(Cond::Eq, Width::W64, failed, Rhs::Imm(ENOENT), done, lost);
    }

    /// Adds to an element, which is made if it is absent.
    pub(super) fn add_elem(&mut self, array: ArrayId, key: &[ExprId], by: ExprId, old: Option<TempId>) {
        let map = self.plan.arrays[array.0 as usize].map;
        let room = self.room(array);
        self.members(array, room, key);
        let by = self.int(by);
        let (done, lost) = (self.b.block(), self.b.cold());
        let before = self.b.name();
        if old.is_some() {
            let zero = self.b.imm(0);
            self.b.set(before, zero);
        }
        self.own_key(array, room, lost);
        let ptr_name = self.b.name();
        let ptr = self.look_up(map, room);
        let (found, absent) = (self.b.block(), self.b.cold());
        self.b.set(ptr_name, ptr);
        self.b.branch_null(ptr, absent, found);

        self.b.start(absent);
        let slot = self.b.piece(8);
        self.b.store(Size::DW, Base::Frame(slot), 0, Rhs::Reg(by));
        let value = self.b.addr(Base::Frame(slot), 0);
        let failed = self.insert(map, room, value, NO_EXIST);
        self.b.free(slot);
        let again = self.b.cold();
        self.b.branch(Cond::Eq, Width::W64, failed, Rhs::Imm(0), done, again);
        // Another CPU made it in between, or there is no room.
        self.b.start(again);
        let ptr = self.look_up(map, room);
        self.b.set(ptr_name, ptr);
        self.b.branch_null(ptr, lost, found);

        self.b.start(found);
        let ptr = Base::Reg(self.b.get(ptr_name));
        if old.is_some() {
            let v = self.b.fetch(AtomicOp::FetchAdd, ptr, 0, by);
            self.b.set(before, v);
        } else {
            self.b.atomic(AtomicOp::Add, ptr, 0, by);
        }
        self.b.jump(done);
        self.free_key(room);
        self.b.start(lost);
        self.count_drop(Drop::Dynamic);
        self.b.jump(done);
        self.b.start(done);
        if let Some(t) = old {
            let v = self.b.get(before);
            self.set_temp(t, v);
        }
    }
}
