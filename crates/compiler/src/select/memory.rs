//! Foreign memory: integers, bytes and strings read by helpers.

use super::Select;
use super::location::bytes;
use crate::vcode::{Base, Rhs, V};
use probity_bpf::helpers::Helper;
use probity_bpf::insn::{AluOp, Cond, Size, Width};
use probity_ir::{Expr, ExprId, Fault, Space};

/// Bytes that are cleared by stores; more are copied from the read-only zeros.
const STORES: u32 = 256;
/// What the helpers return of memory that cannot be read.
const EFAULT: i64 = -14;

impl Select<'_> {
    /// An address, which may stay a pointer to the verifier.
    pub(super) fn address(&mut self, id: ExprId) -> V {
        match self.expr(id) {
            Expr::Loc(loc) => self.location(loc),
            _ => self.int(id),
        }
    }

    /// Reads `size` bytes to `base + off`; gives what the helper returns, 0 or an error.
    pub(super) fn probe_read(&mut self, base: Base, off: i32, size: Rhs, addr: V, space: Space) -> V {
        if space == Space::Absent {
            return self.b.imm(EFAULT);
        }
        let to = self.b.addr(base, off);
        let size = match size {
            Rhs::Imm(n) => self.b.imm(n.into()),
            Rhs::Reg(v) => v,
        };
        let helper = match space {
            Space::User if self.unit.prog.sleepable => Helper::CopyFromUser,
            Space::User => Helper::ProbeReadUser,
            _ => Helper::ProbeReadKernel,
        };
        self.b.call(helper, &[to, size, addr])
    }

    /// Reads bytes, or faults with the address.
    pub(super) fn read_bytes(&mut self, base: Base, off: i32, len: u32, addr: V, space: Space) {
        let failed = self.probe_read(base, off, Rhs::Imm(len as i32), addr, space);
        self.fault_if(Cond::Ne, failed, Rhs::Imm(0), Fault::BadAddress, addr);
    }

    /// Reads an integer, or faults with the address.
    pub(super) fn read_int(&mut self, addr: V, size: u8, signed: bool, space: Space) -> V {
        let slot = self.b.piece(8);
        self.read_bytes(Base::Frame(slot), 0, size.into(), addr, space);
        let v = self.b.load(bytes(size), Base::Frame(slot), 0);
        self.b.free(slot);
        if signed && size < 8 { self.b.sign_extend(v, size) } else { v }
    }

    /// Reads a string of at most `cap` bytes, its NUL included; gives the number of bytes written. Faults with the address.
    pub(super) fn read_str(&mut self, base: Base, off: i32, cap: Rhs, addr: V, space: Space) -> V {
        let got = self.probe_read_str(base, off, cap, addr, space);
        if space != Space::User || !self.unit.prog.sleepable {
            self.fault_if(Cond::Slt, got, Rhs::Imm(0), Fault::BadAddress, addr);
            return got;
        }
        // A program that may sleep makes the pages resident (the string's first one and the next) and tries again.
        let (absent, join, name) = (self.b.cold(), self.b.block(), self.b.name());
        self.b.set(name, got);
        self.b.branch(Cond::Slt, Width::W64, got, Rhs::Imm(0), absent, join);
        self.b.start(absent);
        let slot = self.b.piece(8);
        self.probe_read(Base::Frame(slot), 0, Rhs::Imm(1), addr, space);
        let number = self.b.scalar(addr);
        let page = self.b.alu(AluOp::Or, number, Rhs::Imm(4095));
        let following = self.b.alu(AluOp::Add, page, Rhs::Imm(1));
        self.probe_read(Base::Frame(slot), 0, Rhs::Imm(1), following, space);
        self.b.free(slot);
        let got = self.probe_read_str(base, off, cap, addr, space);
        self.fault_if(Cond::Slt, got, Rhs::Imm(0), Fault::BadAddress, addr);
        self.b.set(name, got);
        self.b.jump(join);
        self.b.start(join);
        self.b.get(name)
    }

    pub(super) fn probe_read_str(&mut self, base: Base, off: i32, cap: Rhs, addr: V, space: Space) -> V {
        if space == Space::Absent {
            return self.b.imm(EFAULT);
        }
        let to = self.b.addr(base, off);
        let size = match cap {
            Rhs::Imm(n) => self.b.imm(n.into()),
            Rhs::Reg(v) => v,
        };
        let helper = if space == Space::User { Helper::ProbeReadUserStr } else { Helper::ProbeReadKernelStr };
        self.b.call(helper, &[to, size, addr])
    }

    /// Copies a string that is in memory of ours, at most `cap` bytes with its NUL; gives the number of bytes written.
    pub(super) fn copy_str(&mut self, base: Base, off: i32, cap: u32, from: V) -> V {
        self.probe_read_str(base, off, Rhs::Imm(cap as i32), from, Space::Kernel)
    }

    /// Copies bytes that are in memory of ours.
    pub(super) fn copy_bytes(&mut self, base: Base, off: i32, len: u32, from: V) {
        if len > 0 {
            self.probe_read(base, off, Rhs::Imm(len as i32), from, Space::Kernel);
        }
    }

    /// Sets `len` bytes (a multiple of 8) to zero.
    pub(super) fn clear(&mut self, base: Base, off: i32, len: u32) {
        if len <= STORES {
            for at in (0..len).step_by(8) {
                self.b.store(Size::DW, base, off + at as i32, Rhs::Imm(0));
            }
            return;
        }
        let zeros = self.b.map_value(self.plan.rodata_map, 0);
        self.copy_bytes(base, off, len, zeros);
    }

    /// A load from memory.
    pub(super) fn load(&mut self, addr: ExprId, size: u8, signed: bool, space: Space) -> V {
        if space == Space::Kernel
            && let Some((base, off)) = self.own_memory(addr, size.into())
        {
            let v = self.b.load(bytes(size), base, off);
            return if signed && size < 8 { self.b.sign_extend(v, size) } else { v };
        }
        if space != Space::Scratch {
            let addr = self.address(addr);
            return self.read_int(addr, size, signed, space);
        }
        let at = self.int(addr);
        let v = match self.scratch_place(at, u32::from(size)) {
            Some((base, off)) => self.b.load(bytes(size), base, off),
            None => return self.b.imm(0),
        };
        if signed && size < 8 { self.b.sign_extend(v, size) } else { v }
    }
}
