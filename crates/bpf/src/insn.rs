//! The instruction: its five fields, its eight bytes, and one constructor for each form that codegen may use.
//!
//! Instructions are wire-shaped: a 64-bit immediate takes two of them, so an index into `&[Insn]` is a slot number
//! and jump offsets mean what they mean to the kernel. References to maps hold the *index* of the map in
//! `Object::maps` until the loader puts a file descriptor there. The reading direction is in `decode`.

use std::fmt;

/// A register, `r0` to `r10`. In the source field of some instructions the number is a pseudo tag instead.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Reg(pub u8);

/// Return value, scratch.
pub const R0: Reg = Reg(0);
/// First argument; the context on entry.
pub const R1: Reg = Reg(1);
/// Second argument.
pub const R2: Reg = Reg(2);
/// Third argument.
pub const R3: Reg = Reg(3);
/// Fourth argument.
pub const R4: Reg = Reg(4);
/// Fifth argument.
pub const R5: Reg = Reg(5);
/// Preserved across calls.
pub const R6: Reg = Reg(6);
/// Preserved across calls.
pub const R7: Reg = Reg(7);
/// Preserved across calls.
pub const R8: Reg = Reg(8);
/// Preserved across calls.
pub const R9: Reg = Reg(9);
/// The frame pointer, read-only; the stack is the 512 bytes below it.
pub const R10: Reg = Reg(10);

impl Reg {
    /// The number as an index.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Debug for Reg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "r{}", self.0)
    }
}

impl fmt::Display for Reg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "r{}", self.0)
    }
}

/// The width of an arithmetic or conditional jump instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Width {
    /// Works on the low 32 bits; an arithmetic result is zero-extended.
    W32,
    /// Works on the whole register.
    W64,
}

/// The width of a memory access.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Size {
    /// One byte.
    B,
    /// Two bytes.
    H,
    /// Four bytes.
    W,
    /// Eight bytes.
    DW,
}

impl Size {
    /// The width in bytes.
    #[must_use]
    pub const fn bytes(self) -> usize {
        match self {
            Size::B => 1,
            Size::H => 2,
            Size::W => 4,
            Size::DW => 8,
        }
    }

    /// The size that is `bytes` wide, where there is one.
    #[must_use]
    pub const fn from_bytes(bytes: usize) -> Option<Size> {
        match bytes {
            1 => Some(Size::B),
            2 => Some(Size::H),
            4 => Some(Size::W),
            8 => Some(Size::DW),
            _ => None,
        }
    }

    const fn bits(self) -> u8 {
        match self {
            Size::W => 0x00,
            Size::H => 0x08,
            Size::B => 0x10,
            Size::DW => 0x18,
        }
    }
}

/// A two-operand arithmetic operation, `dst = dst op src`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum AluOp {
    /// Addition, wrapping.
    Add,
    /// Subtraction, wrapping.
    Sub,
    /// Multiplication, low half.
    Mul,
    /// Unsigned division; by zero gives 0.
    Div,
    /// Bitwise or.
    Or,
    /// Bitwise and.
    And,
    /// Left shift; the count is taken modulo the width.
    Lsh,
    /// Logical right shift.
    Rsh,
    /// Unsigned remainder; by zero leaves `dst`.
    Mod,
    /// Bitwise exclusive or.
    Xor,
    /// Copy.
    Mov,
    /// Arithmetic right shift.
    Arsh,
    /// Signed division (instruction set v4: kernel 6.6).
    Sdiv,
    /// Signed remainder (instruction set v4: kernel 6.6).
    Smod,
}

impl AluOp {
    const fn bits(self) -> u8 {
        match self {
            AluOp::Add => 0x00,
            AluOp::Sub => 0x10,
            AluOp::Mul => 0x20,
            AluOp::Div | AluOp::Sdiv => 0x30,
            AluOp::Or => 0x40,
            AluOp::And => 0x50,
            AluOp::Lsh => 0x60,
            AluOp::Rsh => 0x70,
            AluOp::Mod | AluOp::Smod => 0x90,
            AluOp::Xor => 0xa0,
            AluOp::Mov => 0xb0,
            AluOp::Arsh => 0xc0,
        }
    }
}

/// The condition of a jump.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Cond {
    /// Equal.
    Eq,
    /// Unsigned greater.
    Gt,
    /// Unsigned greater or equal.
    Ge,
    /// Any common bit set.
    Set,
    /// Not equal.
    Ne,
    /// Signed greater.
    Sgt,
    /// Signed greater or equal.
    Sge,
    /// Unsigned less.
    Lt,
    /// Unsigned less or equal.
    Le,
    /// Signed less.
    Slt,
    /// Signed less or equal.
    Sle,
}

impl Cond {
    const fn bits(self) -> u8 {
        match self {
            Cond::Eq => 0x10,
            Cond::Gt => 0x20,
            Cond::Ge => 0x30,
            Cond::Set => 0x40,
            Cond::Ne => 0x50,
            Cond::Sgt => 0x60,
            Cond::Sge => 0x70,
            Cond::Lt => 0xa0,
            Cond::Le => 0xb0,
            Cond::Slt => 0xc0,
            Cond::Sle => 0xd0,
        }
    }

    /// The condition that holds exactly when this one does not; `Set` has none.
    #[must_use]
    pub const fn negate(self) -> Option<Cond> {
        Some(match self {
            Cond::Eq => Cond::Ne,
            Cond::Ne => Cond::Eq,
            Cond::Gt => Cond::Le,
            Cond::Le => Cond::Gt,
            Cond::Ge => Cond::Lt,
            Cond::Lt => Cond::Ge,
            Cond::Sgt => Cond::Sle,
            Cond::Sle => Cond::Sgt,
            Cond::Sge => Cond::Slt,
            Cond::Slt => Cond::Sge,
            Cond::Set => return None,
        })
    }

    /// The condition that holds for swapped operands.
    #[must_use]
    pub const fn swap(self) -> Cond {
        match self {
            Cond::Eq | Cond::Ne | Cond::Set => self,
            Cond::Gt => Cond::Lt,
            Cond::Lt => Cond::Gt,
            Cond::Ge => Cond::Le,
            Cond::Le => Cond::Ge,
            Cond::Sgt => Cond::Slt,
            Cond::Slt => Cond::Sgt,
            Cond::Sge => Cond::Sle,
            Cond::Sle => Cond::Sge,
        }
    }
}

/// An atomic read-modify-write. Those with a result put the old value into the source register (kernel 5.12).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum AtomicOp {
    /// `*p += src`.
    Add,
    /// `*p |= src`.
    Or,
    /// `*p &= src`.
    And,
    /// `*p ^= src`.
    Xor,
    /// `src = fetch_add(p, src)`.
    FetchAdd,
    /// `src = fetch_or(p, src)`.
    FetchOr,
    /// `src = fetch_and(p, src)`.
    FetchAnd,
    /// `src = fetch_xor(p, src)`.
    FetchXor,
    /// `src = xchg(p, src)`.
    Xchg,
    /// `r0 = cmpxchg(p, r0, src)`.
    Cmpxchg,
}

impl AtomicOp {
    const fn imm(self) -> i32 {
        match self {
            AtomicOp::Add => 0x00,
            AtomicOp::Or => 0x40,
            AtomicOp::And => 0x50,
            AtomicOp::Xor => 0xa0,
            AtomicOp::FetchAdd => 0x01,
            AtomicOp::FetchOr => 0x41,
            AtomicOp::FetchAnd => 0x51,
            AtomicOp::FetchXor => 0xa1,
            AtomicOp::Xchg => 0xe1,
            AtomicOp::Cmpxchg => 0xf1,
        }
    }
}

/// The second operand: a register, or a 32-bit immediate that is sign-extended to the width of the operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Src {
    /// A register.
    Reg(Reg),
    /// An immediate.
    Imm(i32),
}

impl From<Reg> for Src {
    fn from(reg: Reg) -> Src {
        Src::Reg(reg)
    }
}

impl From<i32> for Src {
    fn from(imm: i32) -> Src {
        Src::Imm(imm)
    }
}

pub(crate) mod bits {
    //! The opcode fields of `linux/bpf_common.h` and `linux/bpf.h`, by their names there.
    pub const LD: u8 = 0x00;
    pub const LDX: u8 = 0x01;
    pub const ST: u8 = 0x02;
    pub const STX: u8 = 0x03;
    pub const ALU: u8 = 0x04;
    pub const JMP: u8 = 0x05;
    pub const JMP32: u8 = 0x06;
    pub const ALU64: u8 = 0x07;
    pub const X: u8 = 0x08;
    pub const MEM: u8 = 0x60;
    pub const MEMSX: u8 = 0x80;
    pub const ATOMIC: u8 = 0xc0;
    pub const NEG: u8 = 0x80;
    pub const END: u8 = 0xd0;
    pub const CALL: u8 = 0x80;
    pub const EXIT: u8 = 0x90;
    pub const LD_IMM64: u8 = 0x18;
    pub const PSEUDO_MAP_FD: u8 = 1;
    pub const PSEUDO_MAP_VALUE: u8 = 2;
    pub const PSEUDO_BTF_ID: u8 = 3;
    pub const PSEUDO_FUNC: u8 = 4;
    pub const PSEUDO_CALL: u8 = 1;
    pub const PSEUDO_KFUNC: u8 = 2;
}

/// One instruction slot, field by field as the kernel has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, Default)]
pub struct Insn {
    /// Class, operation and mode.
    pub code: u8,
    /// Destination register.
    pub dst: Reg,
    /// Source register or pseudo tag.
    pub src: Reg,
    /// Jump distance in slots from the next slot, or displacement in bytes.
    pub off: i16,
    /// Immediate, map index, helper id, or half of a 64-bit immediate.
    pub imm: i32,
}

impl AsRef<[Insn]> for Insn {
    fn as_ref(&self) -> &[Insn] {
        std::slice::from_ref(self)
    }
}

impl Insn {
    /// The `src` tag of a 64-bit load that names a map.
    pub const PSEUDO_MAP_FD: Reg = Reg(bits::PSEUDO_MAP_FD);
    /// The `src` tag of a 64-bit load that names a place inside a map's only value.
    pub const PSEUDO_MAP_VALUE: Reg = Reg(bits::PSEUDO_MAP_VALUE);
    /// The `src` tag of a 64-bit load that names a subprogram of this program.
    pub const PSEUDO_FUNC: Reg = Reg(bits::PSEUDO_FUNC);

    /// The eight bytes that the kernel takes, in the order of a little-endian machine.
    #[must_use]
    pub const fn to_bytes(self) -> [u8; 8] {
        let off = self.off.to_le_bytes();
        let imm = self.imm.to_le_bytes();
        let regs = (self.dst.0 & 0xf) | (self.src.0 << 4);
        [self.code, regs, off[0], off[1], imm[0], imm[1], imm[2], imm[3]]
    }

    /// Reads what [`Insn::to_bytes`] writes. Any eight bytes are an instruction here; `decode` says which are valid.
    #[must_use]
    pub const fn from_bytes(b: [u8; 8]) -> Insn {
        Insn {
            code: b[0],
            dst: Reg(b[1] & 0xf),
            src: Reg(b[1] >> 4),
            off: i16::from_le_bytes([b[2], b[3]]),
            imm: i32::from_le_bytes([b[4], b[5], b[6], b[7]]),
        }
    }

    /// Whether this is the first half of a 64-bit immediate load.
    #[must_use]
    pub const fn is_wide(self) -> bool {
        self.code == bits::LD_IMM64
    }

    /// The index in `Object::maps` of the map that this instruction (a first half) names.
    #[must_use]
    pub const fn map_index(self) -> Option<u32> {
        let names_map = self.src.0 == bits::PSEUDO_MAP_FD || self.src.0 == bits::PSEUDO_MAP_VALUE;
        if self.is_wide() && names_map { Some(self.imm as u32) } else { None }
    }

    const fn with_src(code: u8, dst: Reg, src: Src, off: i16) -> Insn {
        match src {
            Src::Reg(src) => Insn { code: code | bits::X, dst, src, off, imm: 0 },
            Src::Imm(imm) => Insn { code, dst, src: Reg(0), off, imm },
        }
    }

    /// `dst = dst op src` of the given width.
    #[must_use]
    pub fn alu(op: AluOp, width: Width, dst: Reg, src: impl Into<Src>) -> Insn {
        let class = match width {
            Width::W32 => bits::ALU,
            Width::W64 => bits::ALU64,
        };
        let off = i16::from(matches!(op, AluOp::Sdiv | AluOp::Smod));
        Insn::with_src(class | op.bits(), dst, src.into(), off)
    }

    /// `dst = dst op src`, 64 bits.
    #[must_use]
    pub fn alu64(op: AluOp, dst: Reg, src: impl Into<Src>) -> Insn {
        Insn::alu(op, Width::W64, dst, src)
    }

    /// `dst = dst op src` on the low 32 bits; the high half becomes zero.
    #[must_use]
    pub fn alu32(op: AluOp, dst: Reg, src: impl Into<Src>) -> Insn {
        Insn::alu(op, Width::W32, dst, src)
    }

    /// `dst = src`; an immediate is sign-extended.
    #[must_use]
    pub fn mov64(dst: Reg, src: impl Into<Src>) -> Insn {
        Insn::alu64(AluOp::Mov, dst, src)
    }

    /// `dst = (u32)src`.
    #[must_use]
    pub fn mov32(dst: Reg, src: impl Into<Src>) -> Insn {
        Insn::alu32(AluOp::Mov, dst, src)
    }

    /// `dst += src`.
    #[must_use]
    pub fn add64(dst: Reg, src: impl Into<Src>) -> Insn {
        Insn::alu64(AluOp::Add, dst, src)
    }

    /// `dst = -dst`.
    #[must_use]
    pub const fn neg(width: Width, dst: Reg) -> Insn {
        let class = match width {
            Width::W32 => bits::ALU,
            Width::W64 => bits::ALU64,
        };
        Insn { code: class | bits::NEG, dst, src: Reg(0), off: 0, imm: 0 }
    }

    /// `dst = (width)(s<from_bits>)src`: sign extension, `from_bits` of 8, 16 or (64-bit only) 32 (v4: kernel 6.6).
    #[must_use]
    pub const fn movsx(width: Width, dst: Reg, src: Reg, from_bits: u8) -> Insn {
        let class = match width {
            Width::W32 => bits::ALU,
            Width::W64 => bits::ALU64,
        };
        let code = class | AluOp::Mov.bits() | bits::X;
        Insn { code, dst, src, off: from_bits as i16, imm: 0 }
    }

    /// Converts the low `width_bits` (16, 32, 64) to little-endian: on such machines a truncation.
    #[must_use]
    pub const fn to_le(dst: Reg, width_bits: u8) -> Insn {
        Insn { code: bits::ALU | bits::END, dst, src: Reg(0), off: 0, imm: width_bits as i32 }
    }

    /// Converts the low `width_bits` (16, 32, 64) to big-endian, zero-extended.
    #[must_use]
    pub const fn to_be(dst: Reg, width_bits: u8) -> Insn {
        Insn { code: bits::ALU | bits::END | bits::X, dst, src: Reg(0), off: 0, imm: width_bits as i32 }
    }

    /// Reverses the low `width_bits` (16, 32, 64), zero-extended (v4: kernel 6.6).
    #[must_use]
    pub const fn bswap(dst: Reg, width_bits: u8) -> Insn {
        Insn { code: bits::ALU64 | bits::END, dst, src: Reg(0), off: 0, imm: width_bits as i32 }
    }

    const fn wide(dst: Reg, src: u8, low: i32, high: i32) -> [Insn; 2] {
        [
            Insn { code: bits::LD_IMM64, dst, src: Reg(src), off: 0, imm: low },
            Insn { code: 0, dst: Reg(0), src: Reg(0), off: 0, imm: high },
        ]
    }

    /// `dst = imm`, two slots.
    #[must_use]
    pub const fn ld_imm64(dst: Reg, imm: u64) -> [Insn; 2] {
        Insn::wide(dst, 0, imm as i32, (imm >> 32) as i32)
    }

    /// `dst =` the map at `map` in `Object::maps`, two slots.
    #[must_use]
    pub const fn ld_map_fd(dst: Reg, map: u32) -> [Insn; 2] {
        Insn::wide(dst, bits::PSEUDO_MAP_FD, map as i32, 0)
    }

    /// `dst =` the address of byte `off` of the only value of the array at `map` in `Object::maps`, two slots.
    #[must_use]
    pub const fn ld_map_value(dst: Reg, map: u32, off: u32) -> [Insn; 2] {
        Insn::wide(dst, bits::PSEUDO_MAP_VALUE, map as i32, off as i32)
    }

    /// `dst =` the subprogram `off` slots after the slot that follows the first half, two slots.
    #[must_use]
    pub const fn ld_func(dst: Reg, off: i32) -> [Insn; 2] {
        Insn::wide(dst, bits::PSEUDO_FUNC, off, 0)
    }

    /// `dst = *(unsigned size *)(src + off)`.
    #[must_use]
    pub const fn ldx(size: Size, dst: Reg, src: Reg, off: i16) -> Insn {
        Insn { code: bits::LDX | bits::MEM | size.bits(), dst, src, off, imm: 0 }
    }

    /// `dst = *(signed size *)(src + off)`, `size` of B, H or W (v4: kernel 6.6).
    #[must_use]
    pub const fn ldxs(size: Size, dst: Reg, src: Reg, off: i16) -> Insn {
        Insn { code: bits::LDX | bits::MEMSX | size.bits(), dst, src, off, imm: 0 }
    }

    /// `*(size *)(dst + off) = imm`.
    #[must_use]
    pub const fn st(size: Size, dst: Reg, off: i16, imm: i32) -> Insn {
        Insn { code: bits::ST | bits::MEM | size.bits(), dst, src: Reg(0), off, imm }
    }

    /// `*(size *)(dst + off) = src`.
    #[must_use]
    pub const fn stx(size: Size, dst: Reg, off: i16, src: Reg) -> Insn {
        Insn { code: bits::STX | bits::MEM | size.bits(), dst, src, off, imm: 0 }
    }

    /// An atomic operation on `*(dst + off)`; the size is that of `width`.
    #[must_use]
    pub const fn atomic(op: AtomicOp, width: Width, dst: Reg, off: i16, src: Reg) -> Insn {
        let size = match width {
            Width::W32 => Size::W,
            Width::W64 => Size::DW,
        };
        Insn { code: bits::STX | bits::ATOMIC | size.bits(), dst, src, off, imm: op.imm() }
    }

    /// Jumps when `dst cond src` holds.
    #[must_use]
    pub fn jmp(cond: Cond, width: Width, dst: Reg, src: impl Into<Src>, off: i16) -> Insn {
        let class = match width {
            Width::W32 => bits::JMP32,
            Width::W64 => bits::JMP,
        };
        Insn::with_src(class | cond.bits(), dst, src.into(), off)
    }

    /// Jumps always.
    #[must_use]
    pub const fn ja(off: i16) -> Insn {
        Insn { code: bits::JMP, dst: Reg(0), src: Reg(0), off, imm: 0 }
    }

    /// Jumps always, over any distance (v4: kernel 6.6).
    #[must_use]
    pub const fn gotol(off: i32) -> Insn {
        Insn { code: bits::JMP32, dst: Reg(0), src: Reg(0), off: 0, imm: off }
    }

    /// Calls the helper with this id (`Helper` converts into it).
    #[must_use]
    pub fn call(helper: impl Into<u32>) -> Insn {
        let imm = helper.into() as i32;
        Insn { code: bits::JMP | bits::CALL, dst: Reg(0), src: Reg(0), off: 0, imm }
    }

    /// Calls the subprogram `off` slots after the next slot.
    #[must_use]
    pub const fn call_sub(off: i32) -> Insn {
        Insn { code: bits::JMP | bits::CALL, dst: Reg(0), src: Reg(bits::PSEUDO_CALL), off: 0, imm: off }
    }

    /// Returns from the program or subprogram.
    #[must_use]
    pub const fn exit() -> Insn {
        Insn { code: bits::JMP | bits::EXIT, dst: Reg(0), src: Reg(0), off: 0, imm: 0 }
    }
}

/// The instructions as the bytes that the kernel takes.
#[must_use]
pub fn to_wire(insns: &[Insn]) -> Vec<u8> {
    insns.iter().flat_map(|i| i.to_bytes()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_the_kernels() {
        // Each checked against the encoding tables of RFC 9669.
        let cases: [(Insn, [u8; 8]); 12] = [
            (Insn::mov64(R0, 1), [0xb7, 0, 0, 0, 1, 0, 0, 0]),
            (Insn::mov64(R6, R1), [0xbf, 0x16, 0, 0, 0, 0, 0, 0]),
            (Insn::alu32(AluOp::Xor, R3, R4), [0xac, 0x43, 0, 0, 0, 0, 0, 0]),
            (Insn::alu64(AluOp::Smod, R3, -2), [0x97, 0x03, 1, 0, 0xfe, 0xff, 0xff, 0xff]),
            (Insn::ldx(Size::B, R1, R10, -1), [0x71, 0xa1, 0xff, 0xff, 0, 0, 0, 0]),
            (Insn::ldxs(Size::W, R1, R2, 4), [0x81, 0x21, 4, 0, 0, 0, 0, 0]),
            (Insn::st(Size::DW, R10, -8, 7), [0x7a, 0x0a, 0xf8, 0xff, 7, 0, 0, 0]),
            (Insn::stx(Size::DW, R10, -8, R1), [0x7b, 0x1a, 0xf8, 0xff, 0, 0, 0, 0]),
            (Insn::atomic(AtomicOp::Cmpxchg, Width::W32, R1, 0, R2), [0xc3, 0x21, 0, 0, 0xf1, 0, 0, 0]),
            (Insn::jmp(Cond::Sle, Width::W32, R1, 9, 2), [0xd6, 0x01, 2, 0, 9, 0, 0, 0]),
            (Insn::call(1u32), [0x85, 0, 0, 0, 1, 0, 0, 0]),
            (Insn::exit(), [0x95, 0, 0, 0, 0, 0, 0, 0]),
        ];
        for (insn, bytes) in cases {
            assert_eq!(insn.to_bytes(), bytes, "{insn:?}");
            assert_eq!(Insn::from_bytes(bytes), insn);
        }
        let wide = Insn::ld_imm64(R2, 0x1122_3344_5566_7788);
        assert_eq!(to_wire(&wide), [0x18, 2, 0, 0, 0x88, 0x77, 0x66, 0x55, 0, 0, 0, 0, 0x44, 0x33, 0x22, 0x11]);
    }
}
