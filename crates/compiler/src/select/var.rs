//! Variables: global ones by direct address, thread-local ones in task storage, `this->` ones in registers.

use super::Select;
use super::build::{Cost, Key, Name};
use super::text::{Mem, Text, Value};
use crate::vcode::{B, Base, Rhs, V};
use probity_bpf::helpers::Helper;
use probity_bpf::insn::{AtomicOp, Cond, Size, Width};
use probity_ir::{Drop, Expr, ExprId, Location, Place, TempId, Val, VarId, VarPlace};

/// `BPF_LOCAL_STORAGE_GET_F_CREATE`.
const CREATE: i64 = 1;

impl<'a> Select<'a> {
    /// An integer variable's value.
    pub(super) fn var(&mut self, var: VarId) -> V {
        match self.plan.layout.var(var) {
            VarPlace::Global(off) => {
                let (base, off) = self.b.map_place(self.plan.layout.state_map, off);
                self.b.load(Size::DW, base, off)
            }
            VarPlace::Thread(off) => self.thread_word(off),
            VarPlace::Clause => self.b.get(Name::Clause(var)),
        }
    }

    /// Where a string variable is.
    pub(super) fn var_string(&mut self, var: VarId) -> Mem {
        let cap = match self.program.vars[var.0 as usize].val {
            Val::Str { cap } => cap,
            Val::Bytes { len } => len,
            Val::Int => 8,
        };
        let place = |base, off| Mem { base, off, cap, padded: false };
        match self.plan.layout.var(var) {
            VarPlace::Global(off) => {
                let at = self.b.map_value(self.plan.layout.state_map, off);
                place(Base::Reg(at), 0)
            }
            VarPlace::Thread(off) => {
                let name = self.b.name();
                let (none, join) = (self.b.cold(), self.b.block());
                let ptr = self.thread_or(none);
                let at = self.b.add_ptr(ptr, Rhs::Imm(off as i32));
                self.b.set(name, at);
                self.b.jump(join);
                self.b.start(none);
                let zeros = self.b.map_value(self.plan.rodata_map, 0);
                self.b.set(name, zeros);
                self.b.jump(join);
                self.b.start(join);
                place(Base::Reg(self.b.get(name)), 0)
            }
            VarPlace::Clause => match self.this_strings.get(&var) {
                Some(&mem) => Mem { cap, ..mem },
                None => {
                    let zeros = self.b.map_value(self.plan.rodata_map, 0);
                    place(Base::Reg(zeros), 0)
                }
            },
        }
    }

    /// Sets a variable.
    pub(super) fn set_var(&mut self, var: VarId, e: ExprId) {
        let place = self.plan.layout.var(var);
        let val = self.program.vars[var.0 as usize].val;
        if val != Val::Int {
            return self.set_string(var, place, val, e);
        }
        match place {
            VarPlace::Global(off) => {
                let v = self.rhs(e);
                let (base, off) = self.b.map_place(self.plan.layout.state_map, off);
                self.b.store(Size::DW, base, off, v);
            }
            VarPlace::Clause => {
                let v = self.int(e);
                self.b.set(Name::Clause(var), v);
            }
            VarPlace::Thread(off) if matches!(self.expr(e), Expr::Const(0)) => {
                // Zero is what a thread without storage has anyway.
                let join = self.b.block();
                let ptr = self.thread_or(join);
                self.b.store(Size::DW, Base::Reg(ptr), off as i32, Rhs::Imm(0));
                self.b.jump(join);
                self.b.start(join);
            }
            VarPlace::Thread(off) => {
                let v = self.rhs(e);
                let lost = self.b.cold();
                let ptr = self.thread_create(lost);
                self.b.store(Size::DW, Base::Reg(ptr), off as i32, v);
                self.thread_lost(ptr, lost);
            }
        }
    }

    fn set_string(&mut self, var: VarId, place: VarPlace, val: Val, e: ExprId) {
        let cap = match val {
            Val::Str { cap } => cap,
            Val::Bytes { len } => len,
            Val::Int => 8,
        };
        if matches!(self.expr(e), Expr::Var(same) if *same == var) {
            return;
        }
        let size = crate::layout::padded(val);
        // Bytes are set to the constant 0 as a whole.
        let zero = matches!(self.expr(e), Expr::Const(_));
        let value = if zero { Value::Text(Text::Const(b"")) } else { self.value_of(e, Some(&Place::Var(var))) };
        let none = self.var_may_be_none(var);
        let to = |base, off| Mem { base, off, cap, padded: false };
        match place {
            VarPlace::Global(off) => {
                let at = self.b.map_value(self.plan.layout.state_map, off);
                let to = to(Base::Reg(at), 0);
                self.prepare(to, none);
                self.put_or_clear(to, value, zero.then_some(size));
                self.pass_value(to, value, e);
            }
            VarPlace::Thread(off) => {
                let lost = self.b.cold();
                let ptr = self.thread_create(lost);
                let to = to(Base::Reg(ptr), off as i32);
                self.prepare(to, none);
                self.put_or_clear(to, value, zero.then_some(size));
                self.pass_value(to, value, e);
                self.thread_lost(ptr, lost);
            }
            VarPlace::Clause => {
                if let Some(&mem) = self.this_strings.get(&var) {
                    let to = Mem { cap, ..mem };
                    self.prepare(to, none);
                    self.put_or_clear(to, value, zero.then_some(size));
                    self.pass_value(to, value, e);
                }
            }
        }
    }

    fn put_or_clear(&mut self, to: Mem, value: Value<'a>, clear: Option<u32>) {
        match clear {
            Some(size) => self.clear(to.base, to.off, size),
            None => self.put_value(to, value),
        }
    }

    /// Ends a statement that may have lost something: the usual path goes on, `lost` counts and joins it.
    pub(super) fn lost(&mut self, lost: B, cause: Drop) {
        let join = self.b.block();
        self.b.jump(join);
        self.b.start(lost);
        self.count_drop(cause);
        self.b.jump(join);
        self.b.start(join);
    }

    /// As [`Select::lost`], for thread storage: after it, the storage at `ptr` is known to be there, unless it was lost.
    pub(super) fn thread_lost(&mut self, ptr: V, lost: B) {
        let (name, join) = (self.b.name(), self.b.block());
        self.b.set(name, ptr);
        self.b.jump(join);
        self.b.start(lost);
        let lost = self.b.reachable();
        self.count_drop(Drop::Thread);
        let null = self.b.imm(0);
        self.b.set(name, null);
        self.b.jump(join);
        self.b.start(join);
        if lost {
            let maybe = self.b.get(name);
            self.b.keep(Key::ThreadMaybe, maybe);
        }
    }

    /// Adds to a global variable.
    pub(super) fn add_var(&mut self, var: VarId, by: ExprId, old: Option<TempId>) {
        let VarPlace::Global(off) = self.plan.layout.var(var) else {
            return self.fail("only a global variable can be added to atomically (a bug in lowering)".into());
        };
        let by = self.int(by);
        let (base, off) = self.b.map_place(self.plan.layout.state_map, off);
        match old {
            None => self.b.atomic(AtomicOp::Add, base, off, by),
            Some(t) => {
                let before = self.b.fetch(AtomicOp::FetchAdd, base, off, by);
                self.set_temp(t, before);
            }
        }
    }

    // Thread storage.

    /// A task's storage, made where there is none.
    pub(super) fn storage_of(&mut self, task: V) -> V {
        self.task_storage(task, CREATE)
    }

    fn thread_storage(&mut self, flags: i64) -> V {
        let task = self.location(&Location::CurrentTask);
        self.task_storage(task, flags)
    }

    fn task_storage(&mut self, task: V, flags: i64) -> V {
        let map = self.b.map(self.plan.thread_map.unwrap_or(0));
        let (value, flags) = (self.b.imm(0), self.b.imm(flags));
        self.b.call(Helper::TaskStorageGet, &[map, task, value, flags])
    }

    /// The current thread's storage; goes to `none` where there is none.
    pub(super) fn thread_or(&mut self, none: B) -> V {
        // Without a way in, `none` is dropped as unreachable.
        if let Some(v) = self.b.find(&Key::ThreadSome, Cost::Dear) {
            return v;
        }
        let ptr = match self.b.find(&Key::ThreadMaybe, Cost::Dear) {
            Some(v) => v,
            None => {
                let v = self.thread_storage(0);
                self.b.keep(Key::ThreadMaybe, v);
                v
            }
        };
        let some = self.b.block();
        self.b.branch_null(ptr, none, some);
        self.b.start(some);
        self.b.keep(Key::ThreadSome, ptr);
        ptr
    }

    /// The current thread's storage, made where there is none; goes to `lost` where that fails.
    pub(super) fn thread_create(&mut self, lost: B) -> V {
        if let Some(v) = self.b.find(&Key::ThreadSome, Cost::Dear) {
            return v;
        }
        let name = self.b.name();
        let got = self.b.block();
        if let Some(maybe) = self.b.find(&Key::ThreadMaybe, Cost::Dear) {
            let (some, none) = (self.b.block(), self.b.block());
            self.b.branch_null(maybe, none, some);
            self.b.start(some);
            self.b.set(name, maybe);
            self.b.jump(got);
            self.b.start(none);
        }
        let made = self.thread_storage(CREATE);
        let some = self.b.block();
        self.b.branch_null(made, lost, some);
        self.b.start(some);
        self.b.set(name, made);
        self.b.jump(got);
        self.b.start(got);
        // What was looked up before may be null although there is storage now.
        self.b.forget(&Key::ThreadMaybe);
        let ptr = self.b.get(name);
        self.b.keep(Key::ThreadSome, ptr);
        ptr
    }

    /// A word of the current thread's storage, 0 where there is none.
    fn thread_word(&mut self, off: u32) -> V {
        let (name, join) = (self.b.name(), self.b.block());
        if let Some(ptr) = self.b.find(&Key::ThreadSome, Cost::Dear) {
            return self.b.load(Size::DW, Base::Reg(ptr), off as i32);
        }
        let zero = self.b.imm(0);
        self.b.set(name, zero);
        let ptr = self.thread_or(join);
        let v = self.b.load(Size::DW, Base::Reg(ptr), off as i32);
        self.b.set(name, v);
        self.b.jump(join);
        self.b.start(join);
        self.b.get(name)
    }

    /// A condition on a thread-local integer: where it holds, there is storage.
    pub(super) fn branch_thread_var(&mut self, var: VarId, then: B, other: B) {
        let VarPlace::Thread(off) = self.plan.layout.var(var) else { return };
        let ptr = self.thread_or(other);
        let v = self.b.load(Size::DW, Base::Reg(ptr), off as i32);
        self.b.branch(Cond::Ne, Width::W64, v, Rhs::Imm(0), then, other);
    }

    /// The current thread's serial number, 0 where it has none yet (then the thread has no array elements).
    pub(super) fn thread_serial(&mut self) -> V {
        self.thread_word(self.plan.serial)
    }

    /// The current thread's serial number, given now if it has none; goes to `lost` where there is no room.
    pub(super) fn thread_serial_create(&mut self, lost: B) -> V {
        let off = self.plan.serial as i32;
        let ptr = Base::Reg(self.thread_create(lost));
        let name = self.b.name();
        let serial = self.b.load(Size::DW, ptr, off);
        self.b.set(name, serial);
        let (fresh, join) = (self.b.cold(), self.b.block());
        self.b.branch(Cond::Eq, Width::W64, serial, Rhs::Imm(0), fresh, join);
        self.b.start(fresh);
        let one = self.b.imm(1);
        let counter = self.b.map_value(self.plan.layout.state_map, self.plan.serial_counter);
        let last = self.b.fetch(AtomicOp::FetchAdd, Base::Reg(counter), 0, one);
        let mine = self.b.alu(probity_bpf::insn::AluOp::Add, last, Rhs::Imm(1));
        // Another program may have interrupted this one in the same thread and given it a number.
        let zero = self.b.imm(0);
        let before = self.b.cmpxchg(ptr, off, zero, mine);
        self.b.set(name, before);
        let won = self.b.cold();
        self.b.branch(Cond::Ne, Width::W64, before, Rhs::Imm(0), join, won);
        self.b.start(won);
        self.b.set(name, mine);
        self.b.jump(join);
        self.b.start(join);
        self.b.get(name)
    }
}
