//! `vtimestamp`: a thread's time on CPUs, counted at each switch by a program of its own, and read in firings, whose own time
//! is taken out again.
//!
//! A CPU's word in the state map has the time of its last switch, a thread's storage the time of its turns that are over. The
//! time of now is both together; a switch in between shows as a changed word, and it is read again.

use super::Select;
use super::build::{Cost, Key};
use crate::vcode::{B, Base, Rhs, V};
use probity_bpf::helpers::Helper;
use probity_bpf::insn::{AluOp, AtomicOp, Cond, Size, Width};
use probity_ir::{Builtin, Drop, Expr};

/// Where a switch's context has the task that stops running, a pointer that the verifier knows by type.
const PREVIOUS: i32 = 8;
/// How often the time is read anew after a switch in between.
const TRIES: u32 = 3;

impl Select<'_> {
    /// The code of the unit that accounts for the time.
    pub(super) fn account(&mut self, exit: B) {
        let now = self.time();
        let word = self.switched();
        let last = self.b.load(Size::DW, Base::Reg(word), 0);
        self.b.store(Size::DW, Base::Reg(word), 0, Rhs::Reg(now));
        let turn = self.b.alu(AluOp::Sub, now, Rhs::Reg(last));
        let ctx = self.ctx;
        let task = self.b.load(Size::DW, Base::Reg(ctx), PREVIOUS);
        self.b.mark_pointer(task);
        let storage = self.storage_of(task);
        let (lost, some) = (self.b.cold(), self.b.block());
        self.b.branch_null(storage, lost, some);
        self.b.start(lost);
        self.count_drop(Drop::Thread);
        self.b.jump(exit);
        self.b.start(some);
        self.b.atomic(AtomicOp::Add, Base::Reg(storage), self.plan.oncpu as i32, turn);
        self.b.jump(exit);
    }

    /// Whether any of the unit's clauses reads the time.
    fn reads_vtime(&self) -> bool {
        let wanted = Expr::Builtin(Builtin::Vtimestamp);
        self.unit.clauses.iter().any(|c| c.exprs.contains(&wanted))
    }

    /// Takes the firing's time, before its clauses. A firing whose thread has no room for it is lost and counted.
    pub(super) fn start_vtime(&mut self, exit: B) {
        if !self.reads_vtime() {
            return;
        }
        let lost = self.b.cold();
        let storage = self.thread_create(lost);
        let go_on = self.b.here();
        self.b.start(lost);
        if self.b.reachable() {
            self.count_drop(Drop::Thread);
        }
        self.b.jump(exit);
        self.b.resume(go_on);
        let time = self.read_vtime(storage);
        self.b.keep(Key::Vtime, time);
        self.vtime = Some((storage, time));
    }

    /// Takes the firing's own duration out of the thread's time.
    pub(super) fn end_vtime(&mut self) {
        let Some((storage, start)) = self.vtime.take() else { return };
        let end = self.read_vtime(storage);
        let back = self.b.alu(AluOp::Sub, start, Rhs::Reg(end));
        self.b.atomic(AtomicOp::Add, Base::Reg(storage), self.plan.oncpu as i32, back);
    }

    /// The firing's time.
    pub(super) fn vtimestamp(&mut self) -> V {
        match self.b.find(&Key::Vtime, Cost::Dear) {
            Some(v) => v,
            None => self.b.imm(0),
        }
    }

    fn read_vtime(&mut self, storage: V) -> V {
        let (name, done) = (self.b.name(), self.b.block());
        let word = self.switched();
        for n in 0..TRIES {
            let since = self.b.load(Size::DW, Base::Reg(word), 0);
            let before = self.b.load(Size::DW, Base::Reg(storage), self.plan.oncpu as i32);
            // Not the firing's timestamp, which may have been taken before the thread was interrupted.
            let now = self.b.call(Helper::KtimeGetNs, &[]);
            let turn = self.b.alu(AluOp::Sub, now, Rhs::Reg(since));
            let time = self.b.alu(AluOp::Add, before, Rhs::Reg(turn));
            self.b.set(name, time);
            if n + 1 == TRIES {
                self.b.jump(done);
                break;
            }
            let still = self.b.load(Size::DW, Base::Reg(word), 0);
            let again = self.b.cold();
            self.b.branch(Cond::Eq, Width::W64, still, Rhs::Reg(since), done, again);
            self.b.start(again);
        }
        self.b.start(done);
        self.b.get(name)
    }

    /// The address of this CPU's word.
    fn switched(&mut self) -> V {
        let cpu = self.cpu_row();
        let off = self.b.alu(AluOp::Lsh, cpu, Rhs::Imm(3));
        let at = self.plan.layout.switched_offset.unwrap_or(0);
        let base = self.b.map_value(self.plan.layout.state_map, at);
        self.b.add_ptr(base, Rhs::Reg(off))
    }
}
