//! The clause's scratch memory: taking some of it, reading and writing inside of what was taken, copying into it and from it.
//!
//! It is the start of the claimed slot. What a clause has taken ends at its *top*, which is a number known here as long as
//! every length so far was; the first [`NULL`] bytes are nobody's, so that no pointer to it is 0. Behind it there is as much
//! again that nobody takes: so an offset and a length that are each bounded stay inside of the slot together.

use super::Select;
use super::text::Mem;
use crate::vcode::{Base, Rhs, V};
use probity_bpf::helpers::Helper;
use probity_bpf::insn::{AluOp, Cond, Width};
use probity_ir::{ExprId, Fault, Space, TempId, Val};

/// Bytes at the start that are nobody's.
pub const NULL: u32 = 8;
/// How much of the scratch memory is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Top {
    /// So many bytes.
    Known(u32),
    /// As many as [`Select::top_name`] says.
    Computed,
}

impl Select<'_> {
    /// Begins a clause: nothing is taken.
    pub(super) fn reset_top(&mut self) {
        self.top = Top::Known(NULL);
        let none = self.b.imm(NULL.into());
        self.b.set(self.top_name, none);
    }

    /// What is taken, after branches of which one ended with `other`.
    pub(super) fn join_top(&mut self, other: Top) {
        if self.top != other {
            self.top = Top::Computed;
        }
    }

    fn top(&mut self) -> V {
        match self.top {
            Top::Known(n) => self.b.imm(n.into()),
            Top::Computed => self.b.get(self.top_name),
        }
    }

    /// The address of `size` bytes at a pointer's place; faults where they are not all in what was taken.
    pub(super) fn scratch_place(&mut self, at: V, size: u32) -> Option<(Base, i32)> {
        let room = self.plan.copyin;
        let most = match self.top {
            Top::Known(top) => top,
            Top::Computed => room,
        };
        let Some(most) = most.checked_sub(NULL).and_then(|n| n.checked_sub(size)) else {
            self.fault(Fault::BadAddress, at);
            return None;
        };
        if let (Top::Known(_), Some(at)) = (self.top, self.b.known(at))
            && let Some(off) = u32::try_from(at).ok().and_then(|n| n.checked_sub(NULL))
            && off <= most
        {
            return Some((Base::Reg(self.scratch_ptr()), (off + NULL) as i32));
        }
        let above = self.b.alu(AluOp::Add, at, Rhs::Imm(-(NULL as i32)));
        self.fault_if(Cond::Gt, above, Rhs::Imm(most as i32), Fault::BadAddress, at);
        if self.top == Top::Computed {
            let top = self.top();
            let end = self.b.alu(AluOp::Add, at, Rhs::Imm(size as i32));
            self.fault_if(Cond::Gt, end, Rhs::Reg(top), Fault::BadAddress, at);
        }
        let bounded = self.b.min(at, room - size);
        let ptr = self.scratch_ptr();
        Some((Base::Reg(self.b.add_ptr(ptr, Rhs::Reg(bounded))), 0))
    }

    /// The bytes from a pointer's place to the top; faults where it points to none.
    fn scratch_rest(&mut self, at: V) -> V {
        self.scratch_place(at, 1);
        let top = self.top();
        self.b.alu(AluOp::Sub, top, Rhs::Reg(at))
    }

    /// The string at a pointer, which ends at its NUL or at the top: its address, and how many bytes to read, which is from 1
    /// to `most`, a NUL included.
    pub(super) fn scratch_str(&mut self, at: V, most: u32, max: Option<V>) -> Option<(V, Rhs)> {
        let (base, off) = self.scratch_place(at, 1)?;
        let mut rest = self.scratch_rest(at);
        if let Some(max) = max {
            let (less, join, name) = (self.b.block(), self.b.block(), self.b.name());
            self.b.set(name, rest);
            self.b.branch(Cond::Lt, Width::W64, max, Rhs::Reg(rest), less, join);
            self.b.start(less);
            self.b.set(name, max);
            self.b.jump(join);
            self.b.start(join);
            rest = self.b.get(name);
        }
        let bytes = self.b.min(rest, most - 1);
        let size = self.b.alu(AluOp::Add, bytes, Rhs::Imm(1));
        Some((self.b.addr(base, off), Rhs::Reg(size)))
    }

    /// Takes `len` bytes, rounded up to whole words, of which at least the last is cleared; all of them if `fill`. Gives
    /// the offset of the first.
    fn take(&mut self, len: V, fill: bool) -> V {
        let room = self.plan.copyin;
        if let (Top::Known(top), Some(known)) = (self.top, self.b.known(len)) {
            let end =
                u32::try_from(known).ok().and_then(|n| n.checked_next_multiple_of(8)).and_then(|n| top.checked_add(n));
            let Some(end) = end.filter(|&end| end <= room) else {
                self.fault(Fault::NoScratch, len);
                return self.b.imm(0);
            };
            let ptr = Base::Reg(self.scratch_ptr());
            let from = if fill || known % 8 == 0 { top } else { end - 8 };
            if fill || known % 8 != 0 {
                self.clear(ptr, from as i32, end - from);
            }
            self.top = Top::Known(end);
            let end = self.b.imm(end.into());
            self.b.set(self.top_name, end);
            return self.b.imm(top.into());
        }
        let top = self.top();
        self.fault_if(Cond::Gt, len, Rhs::Imm(room as i32), Fault::NoScratch, len);
        let end = self.b.alu(AluOp::Add, top, Rhs::Reg(len));
        let end = self.b.alu(AluOp::Add, end, Rhs::Imm(7));
        let end = self.b.alu(AluOp::And, end, Rhs::Imm(-8));
        self.fault_if(Cond::Gt, end, Rhs::Imm(room as i32), Fault::NoScratch, len);
        let size = self.b.alu(AluOp::Sub, end, Rhs::Reg(top));
        let size = self.b.min(size, room);
        let at = self.b.min(top, room);
        let ptr = self.scratch_ptr();
        let to = self.b.add_ptr(ptr, Rhs::Reg(at));
        let zeros = self.b.map_value(self.plan.rodata_map, 0);
        self.b.call(Helper::ProbeReadKernel, &[to, size, zeros]);
        self.top = Top::Computed;
        self.b.set(self.top_name, end);
        top
    }

    /// `alloca`
    pub(super) fn alloc(&mut self, dst: TempId, len: ExprId) {
        let len = self.int(len);
        let at = self.take(len, true);
        self.set_temp(dst, at);
    }

    /// `copyin`
    pub(super) fn copy_in(&mut self, dst: TempId, addr: ExprId, len: ExprId, space: Space) {
        let from = self.address(addr);
        let len = self.int(len);
        let at = self.take(len, false);
        let ptr = self.scratch_ptr();
        let (to, size) = match (self.b.known(at), self.b.known(len)) {
            (Some(at), Some(_)) => (self.b.addr(Base::Reg(ptr), at as i32), len),
            _ => {
                let (at, size) = (self.b.min(at, self.plan.copyin), self.b.min(len, self.plan.copyin));
                (self.b.add_ptr(ptr, Rhs::Reg(at)), size)
            }
        };
        let failed = self.probe_read(Base::Reg(to), 0, Rhs::Reg(size), from, space);
        self.fault_if(Cond::Ne, failed, Rhs::Imm(0), Fault::BadAddress, from);
        self.set_temp(dst, at);
    }

    /// Where `len` bytes from a pointer's place are, and their number, provably inside. Faults where the place is outside, or
    /// the length goes beyond the top.
    fn scratch_run(&mut self, at: V, len: V) -> Option<(V, V)> {
        let (base, off) = self.scratch_place(at, 1)?;
        let top = self.top();
        let rest = self.b.alu(AluOp::Sub, top, Rhs::Reg(at));
        self.fault_if(Cond::Gt, len, Rhs::Reg(rest), Fault::BadSize, len);
        let len = self.b.min(len, self.plan.copyin);
        Some((self.b.addr(base, off), len))
    }

    /// `bcopy`, `copyinto`
    pub(super) fn copy_to(&mut self, to: ExprId, from: ExprId, space: Space, len: ExprId) {
        if let Val::Str { cap } = self.val(from) {
            let room = cap.max(1).next_multiple_of(8);
            let mem = Mem { cap: room, ..self.buffer(room) };
            self.put(mem, from, true);
            let (to, len) = (self.int(to), self.int(len));
            let Some((to, len)) = self.scratch_run(to, len) else { return };
            // Behind the string there are zeros.
            let zeros = self.b.map_value(self.plan.rodata_map, 0);
            self.b.call(Helper::ProbeReadKernel, &[to, len, zeros]);
            let len = self.b.min(len, room);
            let from = self.b.addr(mem.base, mem.off);
            self.b.call(Helper::ProbeReadKernel, &[to, len, from]);
            return;
        }
        let from = if space == Space::Scratch { self.int(from) } else { self.address(from) };
        let (to, len) = (self.int(to), self.int(len));
        let Some((to, size)) = self.scratch_run(to, len) else { return };
        if space != Space::Scratch {
            let failed = self.probe_read(Base::Reg(to), 0, Rhs::Reg(size), from, space);
            return self.fault_if(Cond::Ne, failed, Rhs::Imm(0), Fault::BadAddress, from);
        }
        let Some((from, _)) = self.scratch_run(from, len) else { return };
        self.b.call(Helper::ProbeReadKernel, &[to, size, from]);
    }

    /// `copyout`, `copyoutstr`
    pub(super) fn copy_out(&mut self, to: ExprId, from: ExprId, space: Space, len: ExprId, text: bool) {
        let room = self.plan.copyin.max(NULL);
        if let Val::Str { cap } = self.val(from) {
            let padded = cap.max(1).next_multiple_of(8);
            let mem = Mem { cap: padded, ..self.buffer(padded) };
            self.put(mem, from, true);
            let (to, len) = (self.int(to), self.int(len));
            let from = self.b.addr(mem.base, mem.off);
            let (first, rest) = if text {
                let size = self.buffer(padded);
                let with_nul = self.copy_str(size.base, size.off, cap, from);
                (self.lesser(with_nul, len), None)
            } else {
                self.fault_if(Cond::Gt, len, Rhs::Imm((padded + self.plan.zeros) as i32), Fault::BadSize, len);
                (len, Some(padded))
            };
            self.write_user(to, from, first, padded);
            if let Some(padded) = rest {
                // Behind the string there are zeros.
                let (more, done) = (self.b.cold(), self.b.block());
                self.b.branch(Cond::Gt, Width::W64, len, Rhs::Imm(padded as i32), more, done);
                self.b.start(more);
                let beyond = self.b.alu(AluOp::Add, to, Rhs::Imm(padded as i32));
                let zeros = self.b.map_value(self.plan.rodata_map, 0);
                let count = self.b.alu(AluOp::Add, len, Rhs::Imm(-(padded as i32)));
                self.write_user(beyond, zeros, count, self.plan.zeros);
                self.b.jump(done);
                self.b.start(done);
            }
            return;
        }
        let from = if space == Space::Scratch { self.int(from) } else { self.address(from) };
        let (to, len) = (self.int(to), self.int(len));
        let from = if space == Space::Scratch {
            let Some((from, _)) = self.scratch_run(from, len) else { return };
            from
        } else {
            // By way of a piece of the slot as large as scratch memory is.
            let (base, off) = self.scratch_piece(room);
            self.fault_if(Cond::Gt, len, Rhs::Imm(room as i32), Fault::BadSize, len);
            let size = self.b.min(len, room);
            let failed = self.probe_read(base, off, Rhs::Reg(size), from, space);
            self.fault_if(Cond::Ne, failed, Rhs::Imm(0), Fault::BadAddress, from);
            self.b.addr(base, off)
        };
        self.write_user(to, from, len, room);
    }

    fn lesser(&mut self, a: V, b: V) -> V {
        let (less, join, name) = (self.b.block(), self.b.block(), self.b.name());
        self.b.set(name, a);
        self.b.branch(Cond::Lt, Width::W64, b, Rhs::Reg(a), less, join);
        self.b.start(less);
        self.b.set(name, b);
        self.b.jump(join);
        self.b.start(join);
        self.b.get(name)
    }

    /// Writes at most `most` bytes to the process, nothing if `len` is 0; faults with the address.
    fn write_user(&mut self, to: V, from: V, len: V, most: u32) {
        let (some, done) = (self.b.block(), self.b.block());
        self.b.branch(Cond::Eq, Width::W64, len, Rhs::Imm(0), done, some);
        self.b.start(some);
        // The verifier must see that it is not zero.
        let less = self.b.alu(AluOp::Add, len, Rhs::Imm(-1));
        let less = self.b.min(less, most - 1);
        let size = self.b.alu(AluOp::Add, less, Rhs::Imm(1));
        // The tracer's own memory is nobody's to write to.
        if self.unit.phase != probity_ir::Phase::Run {
            self.fault(Fault::BadAddress, to);
        }
        let failed = self.b.call(Helper::ProbeWriteUser, &[to, from, size]);
        self.fault_if(Cond::Ne, failed, Rhs::Imm(0), Fault::BadAddress, to);
        self.b.jump(done);
        self.b.start(done);
    }
}
