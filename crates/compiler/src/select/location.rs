//! Locations: where a probe's argument is, to code that fetches it. The only file that knows what contexts look like.

use super::Select;
use super::build::{Cost, Key};
use crate::arch::reg_offset;
use crate::fold::loc_may_fault;
use crate::vcode::{Base, Rhs, V};
use probity_bpf::helpers::Helper;
use probity_bpf::insn::{AluOp, Cond, Size, Width};
use probity_ir::{Ctx, Location, Space};

/// `BPF_PROG_TYPE_TRACING`: arguments are typed pointers to the verifier.
const TRACING: u32 = 26;
/// Offset of `ip` in x86-64's `struct pt_regs`, by DWARF number.
const PC: u16 = if cfg!(target_arch = "aarch64") { 32 } else { 16 };

impl Select<'_> {
    /// The value at a location; the verifier may take it for a pointer.
    pub(super) fn location(&mut self, loc: &Location) -> V {
        let dear =
            loc_may_fault(loc) || matches!(loc, Location::CurrentTask | Location::Site | Location::UserRegister { .. });
        let cost = if dear { Cost::Dear } else { Cost::Cheap };
        let key = Key::Loc(loc.clone());
        if let Some(v) = self.b.find(&key, cost) {
            return v;
        }
        let v = self.locate(loc);
        self.b.keep(key, v);
        v
    }

    fn locate(&mut self, loc: &Location) -> V {
        match loc {
            Location::Value(c) => self.b.imm(*c),
            Location::Ctx { offset, size, signed } => self.ctx_load(*offset, *size, *signed),
            Location::Reg { dwarf } => match reg_offset(*dwarf) {
                Some(offset) => self.ctx_load(offset, 8, false),
                None => {
                    self.fail(format!("register {dwarf} (DWARF number) is not saved where a program can read it"));
                    self.b.imm(0)
                }
            },
            Location::UserRegister { offset } => {
                let task = self.b.call(Helper::GetCurrentTaskBtf, &[]);
                let regs = self.b.call(Helper::TaskPtRegs, &[task]);
                self.b.load(Size::DW, Base::Reg(regs), *offset as i32)
            }
            Location::Pc { space } => self.program_counter(*space),
            Location::Memory { base, offset, size, signed, space } => {
                let base = self.location(base);
                let base = self.b.scalar(base);
                let offset = self.b.rhs(*offset);
                let addr = match offset {
                    Rhs::Imm(0) => base,
                    offset => self.b.alu(AluOp::Add, base, offset),
                };
                self.read_int(addr, *size, *signed, *space)
            }
            Location::Btf { base, offset, size, signed } => {
                let base = self.location(base);
                let v = self.b.load(bytes(*size), Base::Reg(base), *offset as i32);
                if *size == 8 && !*signed {
                    // A member that is a pointer is one to the verifier too; signed ones are not.
                    self.b.mark_pointer(v);
                }
                self.narrow(v, *size, *signed)
            }
            Location::CurrentTask => {
                let v = self.b.call(Helper::GetCurrentTaskBtf, &[]);
                self.b.mark_pointer(v);
                v
            }
            Location::Narrow { of, size, signed } => {
                let v = self.location(of);
                self.extend(v, *size, *signed)
            }
            Location::Address { base, offset, .. } => {
                let base = self.location(base);
                match self.b.rhs(*offset) {
                    Rhs::Imm(0) => base,
                    offset => self.b.add_ptr(base, offset),
                }
            }
            Location::Sum { base, plus, times } => {
                let base = self.location(base);
                let base = self.b.scalar(base);
                let plus = self.location(plus);
                let plus = self.b.scalar(plus);
                let plus = match *times {
                    1 => plus,
                    times if times > 0 && times & (times - 1) == 0 => {
                        self.b.alu(AluOp::Lsh, plus, Rhs::Imm(times.trailing_zeros() as i32))
                    }
                    times => {
                        let times = self.b.rhs(times);
                        self.b.alu(AluOp::Mul, plus, times)
                    }
                };
                self.b.alu(AluOp::Add, base, Rhs::Reg(plus))
            }
            Location::Site => {
                let cookie = self.call_with_ctx(Helper::GetAttachCookie);
                self.b.alu(AluOp::Rsh, cookie, Rhs::Imm(32))
            }
            Location::DataLoc { offset } => {
                let word = self.ctx_load(*offset, 4, false);
                let at = self.b.alu(AluOp::And, word, Rhs::Imm(0xffff));
                let ctx = self.ctx;
                let v = self.b.add_ptr(ctx, Rhs::Reg(at));
                self.b.mark_pointer(v);
                v
            }
            Location::CtxAddress { offset } => {
                let ctx = self.ctx;
                let v = self.b.add_ptr(ctx, Rhs::Imm(*offset as i32));
                self.b.mark_pointer(v);
                v
            }
            Location::Masked { .. } | Location::Case { .. } => {
                self.fail("a computed location was not lowered".to_owned());
                self.b.imm(0)
            }
            Location::None(why) => {
                self.fail(format!("a value is not available: {why}"));
                self.b.imm(0)
            }
        }
    }

    fn narrow(&mut self, v: V, size: u8, signed: bool) -> V {
        if signed && size < 8 { self.b.sign_extend(v, size) } else { v }
    }

    /// Loads from the context as the kernel lets its kind be read.
    fn ctx_load(&mut self, offset: u32, size: u8, signed: bool) -> V {
        let ctx = Base::Reg(self.ctx);
        let typed = self.unit.prog.prog_type == TRACING;
        // pt_regs of perf events and the arguments of typed programs are read in whole words only.
        let whole = typed || matches!(self.unit.prog.ctx, Ctx::Regs | Ctx::PerfEvent);
        let natural = matches!(size, 1 | 2 | 4 | 8) && offset.is_multiple_of(u32::from(size));
        if whole || (size == 8 && natural) {
            let word = self.b.load(Size::DW, ctx, (offset & !7) as i32);
            if typed && !(signed && size == 8) {
                self.b.mark_pointer(word);
            }
            let shift = (offset & 7) as i32 * 8;
            let v = if shift == 0 { word } else { self.b.alu(AluOp::Rsh, word, Rhs::Imm(shift)) };
            return if size == 8 { v } else { self.extend(v, size, signed) };
        }
        // A tracepoint's first 8 bytes and misaligned fields can be had only by a helper.
        let direct = natural && !(self.unit.prog.ctx == Ctx::Record && offset < 8);
        if direct {
            let v = self.b.load(bytes(size), ctx, offset as i32);
            return self.narrow(v, size, signed);
        }
        let ctx = self.ctx;
        let addr = self.b.add_ptr(ctx, Rhs::Imm(offset as i32));
        self.read_int(addr, size, signed, Space::Kernel)
    }

    /// The interrupted program counter if it is in `space`, else 0.
    fn program_counter(&mut self, space: Space) -> V {
        let pc = self.ctx_load(reg_offset(PC).unwrap_or(128), 8, false);
        let (name, zero) = (self.b.name(), self.b.imm(0));
        self.b.set(name, pc);
        let (none, join) = (self.b.block(), self.b.block());
        let cond = if space == Space::Kernel { Cond::Sge } else { Cond::Slt };
        self.b.branch(cond, Width::W64, pc, Rhs::Imm(0), none, join);
        self.b.start(none);
        self.b.set(name, zero);
        self.b.jump(join);
        self.b.start(join);
        self.b.get(name)
    }
}

/// The size of an access.
pub fn bytes(size: u8) -> Size {
    match size {
        1 => Size::B,
        2 => Size::H,
        4 => Size::W,
        _ => Size::DW,
    }
}
