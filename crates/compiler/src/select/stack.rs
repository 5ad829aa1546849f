//! Stacks: the walk by the kernel's helper straight to where the value is wanted, a function's caller put in where the walk
//! misses it, and the callers.

use super::Select;
use super::build::{Cost, Key};
use super::text::Mem;
use crate::vcode::{Base, Rhs, V};
use probity_bpf::helpers::Helper;
use probity_bpf::insn::{AluOp, Cond, Size, Width};
use probity_ir::{Builtin, Ctx, ENTRY_BOUNDS, ExprId, Fault, Phase, Stack, stack};

/// `BPF_F_USER_STACK`.
const USER_STACK: i64 = 1 << 8;
/// Frames that a stack from a raw tracepoint's program always begins with: the program itself and `bpf_trace_run`.
const RAW_SKIP: i32 = 2;

impl Select<'_> {
    /// Whether a stack can be walked at all: the consumer's own probes have none that means anything.
    fn has_stack(&self) -> bool {
        matches!(self.unit.phase, Phase::Run | Phase::Timer)
    }

    /// The helper's flags.
    fn stack_flags(&mut self, user: bool) -> Rhs {
        match (user, self.unit.prog.ctx) {
            (true, _) => Rhs::Imm(USER_STACK as i32),
            (false, Ctx::Args) => Rhs::Reg(self.entry_frames()),
            (false, _) => Rhs::Imm(0),
        }
    }

    /// How many frames lie between a raw tracepoint and its program. After [`RAW_SKIP`] come, or do not: the tracepoint's own function
    /// that calls BPF (unless it has left its frame to that), and the one that calls several programs in turn.
    fn entry_frames(&mut self) -> V {
        if let Some(v) = self.b.find(&Key::Entry, Cost::Dear) {
            return v;
        }
        let slot = self.b.piece(16);
        self.b.store(Size::DW, Base::Frame(slot), 0, Rhs::Imm(0));
        self.b.store(Size::DW, Base::Frame(slot), 8, Rhs::Imm(0));
        self.get_stack(Base::Frame(slot), 0, 16, Rhs::Imm(RAW_SKIP));
        let (first, second) =
            (self.b.load(Size::DW, Base::Frame(slot), 0), self.b.load(Size::DW, Base::Frame(slot), 8));
        self.b.free(slot);
        let first = self.is_entry(first);
        let second = self.is_entry(second);
        let both = self.b.alu(AluOp::And, second, Rhs::Reg(first));
        let sum = self.b.alu(AluOp::Add, first, Rhs::Reg(both));
        let frames = self.b.alu(AluOp::Add, sum, Rhs::Imm(RAW_SKIP));
        self.b.keep(Key::Entry, frames);
        frames
    }

    /// 1 if an address is in one of the functions of the entry map, else 0: the number of bounds that are not above it is odd. Without
    /// branches, so that the verifier has one path to follow.
    fn is_entry(&mut self, addr: V) -> V {
        let map = self.plan.entry_map();
        let mut at = self.b.imm(0);
        let mut step = ENTRY_BOUNDS / 2;
        while step > 0 {
            let base = self.b.map_value(map, (step - 1) * 8);
            let off = self.b.alu(AluOp::Lsh, at, Rhs::Imm(3));
            let place = self.b.add_ptr(base, Rhs::Reg(off));
            let bound = self.b.load(Size::DW, Base::Reg(place), 0);
            // Kernel addresses are in one half of all, so the difference's sign tells which is larger.
            let distance = self.b.alu(AluOp::Sub, addr, Rhs::Reg(bound));
            let above = self.b.alu(AluOp::Rsh, distance, Rhs::Imm(63));
            let not_above = self.b.alu(AluOp::Xor, above, Rhs::Imm(1));
            let by = self.b.alu(AluOp::Lsh, not_above, Rhs::Imm(step.trailing_zeros() as i32));
            at = self.b.alu(AluOp::Add, at, Rhs::Reg(by));
            step /= 2;
        }
        // What is no kernel address (there is no frame) is in none.
        let kernel = self.b.alu(AluOp::Rsh, addr, Rhs::Imm(63));
        let odd = self.b.alu(AluOp::And, at, Rhs::Imm(1));
        self.b.alu(AluOp::And, odd, Rhs::Reg(kernel))
    }

    /// Walks a stack to memory of at least its size.
    pub(super) fn put_stack(&mut self, to: Mem, wanted: &Stack) {
        let place = |at: u32| to.off + at as i32;
        let frames = wanted.frames;
        let whose = if wanted.user {
            let pid = self.builtin(Builtin::Pid);
            let high = self.b.alu(AluOp::Lsh, pid, Rhs::Imm(32));
            Rhs::Reg(self.b.alu(AluOp::Or, high, Rhs::Imm(1)))
        } else {
            Rhs::Imm(0)
        };
        self.b.store(Size::DW, to.base, place(stack::IS_USER), whose);
        let (depth, more) = if self.has_stack() {
            let (name, more) = (self.b.name(), self.b.name());
            let got = self.walk(to, wanted);
            let depth = self.b.alu(AluOp::Rsh, got, Rhs::Imm(3));
            let zero = self.b.imm(0);
            self.b.set(name, depth);
            self.b.set(more, zero);
            let (cut, whole) = (self.b.block(), self.b.block());
            self.b.branch(Cond::Gt, Width::W64, depth, Rhs::Imm(frames as i32), cut, whole);
            self.b.start(cut);
            self.b.store(Size::DW, to.base, place(stack::FRAMES + 8 * frames), Rhs::Imm(0));
            let (most, one) = (self.b.imm(frames.into()), self.b.imm(1));
            self.b.set(name, most);
            self.b.set(more, one);
            self.b.jump(whole);
            self.b.start(whole);
            (Rhs::Reg(self.b.get(name)), Rhs::Reg(self.b.get(more)))
        } else {
            self.clear(to.base, place(stack::FRAMES), 8 * (frames + 1));
            (Rhs::Imm(0), Rhs::Imm(0))
        };
        self.b.store(Size::W, to.base, place(stack::DEPTH), depth);
        self.b.store(Size::W, to.base, place(stack::STRSIZE), Rhs::Imm(wanted.strsize as i32));
        self.b.store(Size::DW, to.base, place(stack::MORE), more);
    }

    /// Fills in the frames, and one more to know of; gives the number of bytes.
    fn walk(&mut self, to: Mem, wanted: &Stack) -> V {
        let at = to.off + stack::FRAMES as i32;
        let (room, flags) = (8 * (wanted.frames + 1), self.stack_flags(wanted.user));
        let entry = wanted.entry.as_ref().map(|place| {
            let v = self.location(place);
            self.b.scalar(v)
        });
        let got = self.get_stack(to.base, at, room, flags);
        let Some(caller) = entry else { return got };
        // The frame pointer is still the caller's, so the walk finds the caller's caller next, unless the kernel has put in
        // the caller itself.
        let name = self.b.name();
        self.b.set(name, got);
        let (some, missing, join) = (self.b.block(), self.b.block(), self.b.block());
        self.b.branch(Cond::Lt, Width::W64, got, Rhs::Imm(8), join, some);
        self.b.start(some);
        let second = self.b.load(Size::DW, to.base, at + 8);
        self.b.branch(Cond::Eq, Width::W64, second, Rhs::Reg(caller), join, missing);
        self.b.start(missing);
        let two = self.b.imm(16);
        let all = if room > 16 {
            // At an entry of user code only, where the flags are constant.
            let flags = Rhs::Imm((USER_STACK | 1) as i32);
            let others = self.get_stack(to.base, at + 16, room - 16, flags);
            self.b.alu(AluOp::Add, others, Rhs::Imm(16))
        } else {
            two
        };
        self.b.store(Size::DW, to.base, at + 8, Rhs::Reg(caller));
        self.b.set(name, all);
        self.b.jump(join);
        self.b.start(join);
        self.b.get(name)
    }

    /// Calls the helper; gives the bytes it found, and faults where it could not look: mostly because another program that is walking
    /// a stack was interrupted by this one. It zeroes what it does not fill.
    fn get_stack(&mut self, base: Base, off: i32, room: u32, flags: Rhs) -> V {
        let at = self.b.addr(base, off);
        let (ctx, room) = (self.ctx, self.b.imm(room.into()));
        let flags = match flags {
            Rhs::Imm(n) => self.b.imm(n.into()),
            Rhs::Reg(v) => v,
        };
        let got = self.b.call(Helper::GetStack, &[ctx, at, room, flags]);
        self.fault_if(Cond::Slt, got, Rhs::Imm(0), Fault::BadStack, got);
        got
    }

    /// The second entry of the stack: where the probed function was called from. 0 where there is none.
    pub(super) fn caller(&mut self, user: bool) -> V {
        if !self.has_stack() {
            return self.b.imm(0);
        }
        let key = Key::Caller(user);
        if let Some(v) = self.b.find(&key, Cost::Dear) {
            return v;
        }
        let slot = self.b.piece(16);
        self.b.store(Size::DW, Base::Frame(slot), 8, Rhs::Imm(0));
        let flags = self.stack_flags(user);
        self.get_stack(Base::Frame(slot), 0, 16, flags);
        let v = self.b.load(Size::DW, Base::Frame(slot), 8);
        self.b.free(slot);
        if user {
            // Code without frame pointers leaves anything in the frame register. What is no user address is said to be none.
            let (some, good) = (self.b.block(), self.b.block());
            self.b.branch(Cond::Eq, Width::W64, v, Rhs::Imm(0), good, some);
            self.b.start(some);
            let page = self.b.alu(AluOp::Rsh, v, Rhs::Imm(12));
            self.fault_if(Cond::Eq, page, Rhs::Imm(0), Fault::BadStack, v);
            let high = self.b.alu(AluOp::Rsh, v, Rhs::Imm(47));
            self.fault_if(Cond::Ne, high, Rhs::Imm(0), Fault::BadStack, v);
            self.b.jump(good);
            self.b.start(good);
        }
        self.b.keep(key, v);
        v
    }

    /// An integer in bytes.
    pub(super) fn part(&mut self, of: ExprId, offset: u32, size: u8, signed: bool) -> V {
        let mem = self.bytes_of(of);
        let v = self.b.load(super::location::bytes(size), mem.base, mem.off + offset as i32);
        if signed && size < 8 { self.b.sign_extend(v, size) } else { v }
    }

    /// An address with the process that it is of.
    pub(super) fn put_user_addr(&mut self, to: Mem, addr: ExprId) {
        let addr = self.rhs(addr);
        self.b.store(Size::DW, to.base, to.off + 8, addr);
        let pid = self.builtin(Builtin::Pid);
        self.b.store(Size::DW, to.base, to.off, Rhs::Reg(pid));
    }
}
