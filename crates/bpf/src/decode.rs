//! The reading direction: from instruction slots to what they mean.
//!
//! The disassembler, the static checks and the interpreter all match on [`Op`], so there is one place that knows the
//! opcode space. Instruction set v4 is decoded although codegen does not use it. Legacy packet loads (`BPF_ABS`,
//! `BPF_IND`) are not: no tracing program has them.

use crate::insn::{AluOp, AtomicOp, Cond, Insn, Reg, Size, Src, Width, bits};
use std::fmt;

/// The kind of a byte-order conversion.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EndianKind {
    /// To little-endian.
    Le,
    /// To big-endian.
    Be,
    /// Unconditional reversal (v4).
    Swap,
}

/// A decoded instruction. Offsets of jumps count slots from the slot after the (first) slot of the instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Op {
    /// `dst = dst op src`.
    Alu {
        /// The operation.
        op: AluOp,
        /// Its width.
        width: Width,
        /// Left operand and result.
        dst: Reg,
        /// Right operand.
        src: Src,
    },
    /// `dst = -dst`.
    Neg {
        /// The width.
        width: Width,
        /// Operand and result.
        dst: Reg,
    },
    /// `dst =` the low `bits` of `src`, sign-extended to `width`.
    MovSx {
        /// The width of the result.
        width: Width,
        /// Result.
        dst: Reg,
        /// Operand.
        src: Reg,
        /// 8, 16 or 32.
        bits: u8,
    },
    /// Byte-order conversion of the low `bits` of `dst`.
    End {
        /// Operand and result.
        dst: Reg,
        /// Direction.
        kind: EndianKind,
        /// 16, 32 or 64.
        bits: u8,
    },
    /// `dst = imm`; two slots.
    LdImm64 {
        /// Result.
        dst: Reg,
        /// Value.
        imm: u64,
    },
    /// `dst =` a map; two slots.
    LdMapFd {
        /// Result.
        dst: Reg,
        /// Index in `Object::maps` before loading.
        map: u32,
    },
    /// `dst =` a place in a map's value; two slots.
    LdMapValue {
        /// Result.
        dst: Reg,
        /// Index in `Object::maps` before loading.
        map: u32,
        /// Byte in the value.
        off: u32,
    },
    /// `dst =` a subprogram; two slots.
    LdFunc {
        /// Result.
        dst: Reg,
        /// Distance in slots.
        off: i32,
    },
    /// `dst =` the address of a kernel variable; two slots.
    LdBtfId {
        /// Result.
        dst: Reg,
        /// BTF id of the variable.
        btf_id: u32,
        /// File descriptor of the module's BTF, 0 for vmlinux.
        btf_fd: u32,
    },
    /// `dst = *(size *)(src + off)`.
    Ldx {
        /// Width of the access.
        size: Size,
        /// Result.
        dst: Reg,
        /// Base.
        src: Reg,
        /// Displacement.
        off: i16,
        /// Sign-extends (v4) instead of zero-extending.
        signed: bool,
    },
    /// `*(size *)(dst + off) = imm`.
    St {
        /// Width of the access.
        size: Size,
        /// Base.
        dst: Reg,
        /// Displacement.
        off: i16,
        /// Value, sign-extended.
        imm: i32,
    },
    /// `*(size *)(dst + off) = src`.
    Stx {
        /// Width of the access.
        size: Size,
        /// Base.
        dst: Reg,
        /// Displacement.
        off: i16,
        /// Value.
        src: Reg,
    },
    /// Atomic operation on `*(dst + off)`.
    Atomic {
        /// The operation.
        op: AtomicOp,
        /// Width of the access.
        width: Width,
        /// Base.
        dst: Reg,
        /// Displacement.
        off: i16,
        /// Operand, and result of the fetching forms.
        src: Reg,
    },
    /// Jump.
    Ja {
        /// Distance in slots.
        off: i32,
    },
    /// Conditional jump.
    Jmp {
        /// Condition.
        cond: Cond,
        /// Width of the comparison.
        width: Width,
        /// Left operand.
        dst: Reg,
        /// Right operand.
        src: Src,
        /// Distance in slots.
        off: i16,
    },
    /// Call of a helper.
    Call {
        /// Its id.
        helper: u32,
    },
    /// Call of a subprogram.
    CallSub {
        /// Distance in slots.
        off: i32,
    },
    /// Call of a kernel function by BTF id.
    CallKfunc {
        /// BTF id.
        btf_id: u32,
    },
    /// Return.
    Exit,
}

impl Op {
    /// How many slots the instruction takes.
    #[must_use]
    pub const fn slots(&self) -> usize {
        match self {
            Op::LdImm64 { .. }
            | Op::LdMapFd { .. }
            | Op::LdMapValue { .. }
            | Op::LdFunc { .. }
            | Op::LdBtfId { .. } => 2,
            _ => 1,
        }
    }
}

/// Why the slots at an index are no instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DecodeError {
    /// The index is outside the program.
    OutOfRange,
    /// The opcode is unknown or uses fields that must be zero.
    BadOpcode(u8),
    /// A register above r10.
    BadRegister(u8),
    /// A 64-bit immediate without its second half.
    HalfImmediate,
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DecodeError::OutOfRange => f.write_str("no instruction here"),
            DecodeError::BadOpcode(code) => write!(f, "unknown or malformed instruction, opcode {code:#04x}"),
            DecodeError::BadRegister(reg) => write!(f, "no register r{reg}"),
            DecodeError::HalfImmediate => f.write_str("64-bit immediate without its second half"),
        }
    }
}

impl std::error::Error for DecodeError {}

/// Decodes the instruction that starts at slot `pc`.
///
/// # Errors
/// The slot is outside, is the second half of a wide instruction, or is nothing the kernel would take.
pub fn decode(insns: &[Insn], pc: usize) -> Result<Op, DecodeError> {
    let insn = *insns.get(pc).ok_or(DecodeError::OutOfRange)?;
    let bad = DecodeError::BadOpcode(insn.code);
    if insn.dst.0 > 10 {
        return Err(DecodeError::BadRegister(insn.dst.0));
    }
    if insn.src.0 > 10 {
        return Err(DecodeError::BadRegister(insn.src.0));
    }
    match insn.code & 0x07 {
        bits::LD => decode_wide(insn, insns.get(pc + 1).copied()),
        bits::LDX | bits::ST | bits::STX => decode_memory(insn).ok_or(bad),
        bits::ALU => decode_alu(insn, Width::W32).ok_or(bad),
        bits::ALU64 => decode_alu(insn, Width::W64).ok_or(bad),
        bits::JMP => decode_jump(insn, Width::W64).ok_or(bad),
        _ => decode_jump(insn, Width::W32).ok_or(bad),
    }
}

fn decode_wide(insn: Insn, second: Option<Insn>) -> Result<Op, DecodeError> {
    if insn.code != bits::LD_IMM64 || insn.off != 0 {
        return Err(DecodeError::BadOpcode(insn.code));
    }
    let second = second.ok_or(DecodeError::HalfImmediate)?;
    if second.code != 0 || second.dst.0 != 0 || second.src.0 != 0 || second.off != 0 {
        return Err(DecodeError::HalfImmediate);
    }
    let (dst, low, high) = (insn.dst, insn.imm as u32, second.imm as u32);
    let needs_no_high = matches!(insn.src.0, bits::PSEUDO_MAP_FD | bits::PSEUDO_FUNC);
    if needs_no_high && high != 0 {
        return Err(DecodeError::BadOpcode(insn.code));
    }
    Ok(match insn.src.0 {
        0 => Op::LdImm64 { dst, imm: u64::from(low) | u64::from(high) << 32 },
        bits::PSEUDO_MAP_FD => Op::LdMapFd { dst, map: low },
        bits::PSEUDO_MAP_VALUE => Op::LdMapValue { dst, map: low, off: high },
        bits::PSEUDO_BTF_ID => Op::LdBtfId { dst, btf_id: low, btf_fd: high },
        bits::PSEUDO_FUNC => Op::LdFunc { dst, off: insn.imm },
        _ => return Err(DecodeError::BadOpcode(insn.code)),
    })
}

fn decode_memory(insn: Insn) -> Option<Op> {
    let Insn { code, dst, src, off, imm } = insn;
    let size = match code & 0x18 {
        0x00 => Size::W,
        0x08 => Size::H,
        0x10 => Size::B,
        _ => Size::DW,
    };
    match (code & 0x07, code & 0xe0) {
        (bits::LDX, bits::MEM) if imm == 0 => Some(Op::Ldx { size, dst, src, off, signed: false }),
        (bits::LDX, bits::MEMSX) if imm == 0 && size != Size::DW => Some(Op::Ldx { size, dst, src, off, signed: true }),
        (bits::ST, bits::MEM) if src.0 == 0 => Some(Op::St { size, dst, off, imm }),
        (bits::STX, bits::MEM) if imm == 0 => Some(Op::Stx { size, dst, off, src }),
        (bits::STX, bits::ATOMIC) => {
            let width = match size {
                Size::W => Width::W32,
                Size::DW => Width::W64,
                Size::B | Size::H => return None,
            };
            let op = match imm {
                0x00 => AtomicOp::Add,
                0x40 => AtomicOp::Or,
                0x50 => AtomicOp::And,
                0xa0 => AtomicOp::Xor,
                0x01 => AtomicOp::FetchAdd,
                0x41 => AtomicOp::FetchOr,
                0x51 => AtomicOp::FetchAnd,
                0xa1 => AtomicOp::FetchXor,
                0xe1 => AtomicOp::Xchg,
                0xf1 => AtomicOp::Cmpxchg,
                _ => return None,
            };
            Some(Op::Atomic { op, width, dst, off, src })
        }
        _ => None,
    }
}

fn operand(insn: Insn) -> Option<Src> {
    if insn.code & bits::X != 0 {
        (insn.imm == 0).then_some(Src::Reg(insn.src))
    } else {
        (insn.src.0 == 0).then_some(Src::Imm(insn.imm))
    }
}

fn decode_alu(insn: Insn, width: Width) -> Option<Op> {
    let dst = insn.dst;
    match insn.code & 0xf0 {
        bits::NEG => {
            let clean = insn.code & bits::X == 0 && insn.src.0 == 0 && insn.off == 0 && insn.imm == 0;
            return clean.then_some(Op::Neg { width, dst });
        }
        bits::END => {
            let kind = match (width, insn.code & bits::X) {
                (Width::W32, 0) => EndianKind::Le,
                (Width::W32, _) => EndianKind::Be,
                (Width::W64, 0) => EndianKind::Swap,
                (Width::W64, _) => return None,
            };
            let valid = matches!(insn.imm, 16 | 32 | 64) && insn.src.0 == 0 && insn.off == 0;
            return valid.then_some(Op::End { dst, kind, bits: insn.imm as u8 });
        }
        _ => {}
    }
    let src = operand(insn)?;
    let op = match (insn.code & 0xf0, insn.off) {
        (0x00, 0) => AluOp::Add,
        (0x10, 0) => AluOp::Sub,
        (0x20, 0) => AluOp::Mul,
        (0x30, 0) => AluOp::Div,
        (0x30, 1) => AluOp::Sdiv,
        (0x40, 0) => AluOp::Or,
        (0x50, 0) => AluOp::And,
        (0x60, 0) => AluOp::Lsh,
        (0x70, 0) => AluOp::Rsh,
        (0x90, 0) => AluOp::Mod,
        (0x90, 1) => AluOp::Smod,
        (0xa0, 0) => AluOp::Xor,
        (0xb0, 0) => AluOp::Mov,
        (0xb0, bits) => {
            let Src::Reg(src) = src else { return None };
            let valid = matches!(bits, 8 | 16) || (bits == 32 && width == Width::W64);
            return valid.then_some(Op::MovSx { width, dst, src, bits: bits as u8 });
        }
        (0xc0, 0) => AluOp::Arsh,
        _ => return None,
    };
    // The kernel rejects constant shifts by the width or more and constant division by zero at load.
    if let Src::Imm(imm) = src {
        let width_bits = if width == Width::W64 { 64 } else { 32 };
        let shift = matches!(op, AluOp::Lsh | AluOp::Rsh | AluOp::Arsh);
        let division = matches!(op, AluOp::Div | AluOp::Mod | AluOp::Sdiv | AluOp::Smod);
        if (shift && !(0..width_bits).contains(&imm)) || (division && imm == 0) {
            return None;
        }
    }
    Some(Op::Alu { op, width, dst, src })
}

fn decode_jump(insn: Insn, width: Width) -> Option<Op> {
    let Insn { code, dst, src, off, imm } = insn;
    let jmp = width == Width::W64;
    let no_registers = dst.0 == 0 && src.0 == 0;
    let cond = match code & 0xf0 {
        0x00 => {
            if code & bits::X != 0 || !no_registers {
                return None;
            }
            return match (jmp, off, imm) {
                (true, off, 0) => Some(Op::Ja { off: i32::from(off) }),
                (false, 0, imm) => Some(Op::Ja { off: imm }),
                _ => None,
            };
        }
        bits::CALL => {
            if !jmp || code & bits::X != 0 || dst.0 != 0 {
                return None;
            }
            return match src.0 {
                0 if off == 0 => Some(Op::Call { helper: imm as u32 }),
                bits::PSEUDO_CALL if off == 0 => Some(Op::CallSub { off: imm }),
                bits::PSEUDO_KFUNC => Some(Op::CallKfunc { btf_id: imm as u32 }),
                _ => None,
            };
        }
        bits::EXIT => {
            let clean = jmp && code & bits::X == 0 && no_registers && off == 0 && imm == 0;
            return clean.then_some(Op::Exit);
        }
        0x10 => Cond::Eq,
        0x20 => Cond::Gt,
        0x30 => Cond::Ge,
        0x40 => Cond::Set,
        0x50 => Cond::Ne,
        0x60 => Cond::Sgt,
        0x70 => Cond::Sge,
        0xa0 => Cond::Lt,
        0xb0 => Cond::Le,
        0xc0 => Cond::Slt,
        0xd0 => Cond::Sle,
        _ => return None,
    };
    Some(Op::Jmp { cond, width, dst, src: operand(insn)?, off })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::insn::{R0, R1, R2};

    /// Every byte pattern of opcode and immediate either is refused or has one meaning whose constructor gives the
    /// same bytes again.
    #[test]
    fn what_decodes_encodes_back() {
        for code in 0..=255u8 {
            for imm in [0, 1, 5, 0x10, 16, 0x41, 0xa0, 0xe1, 0xf1, 64] {
                for off in [0, 1, 8, 32, -5] {
                    for src in [0, 1, 2] {
                        let insn = Insn { code, dst: R1, src: Reg(src), off, imm };
                        for insn in [insn, Insn { dst: R0, ..insn }] {
                            if let Ok(op) = decode(&[insn, Insn::default()], 0) {
                                assert_eq!(encode(op, insn), insn, "{op:?}");
                            }
                        }
                    }
                }
            }
        }
    }

    fn encode(op: Op, was: Insn) -> Insn {
        match op {
            Op::Alu { op, width, dst, src } => Insn::alu(op, width, dst, src),
            Op::Neg { width, dst } => Insn::neg(width, dst),
            Op::MovSx { width, dst, src, bits } => Insn::movsx(width, dst, src, bits),
            Op::End { dst, kind: EndianKind::Le, bits } => Insn::to_le(dst, bits),
            Op::End { dst, kind: EndianKind::Be, bits } => Insn::to_be(dst, bits),
            Op::End { dst, kind: EndianKind::Swap, bits } => Insn::bswap(dst, bits),
            Op::LdImm64 { dst, imm } => Insn::ld_imm64(dst, imm)[0],
            Op::LdMapFd { dst, map } => Insn::ld_map_fd(dst, map)[0],
            Op::LdMapValue { dst, map, off } => Insn::ld_map_value(dst, map, off)[0],
            Op::LdFunc { dst, off } => Insn::ld_func(dst, off)[0],
            Op::Ldx { size, dst, src, off, signed: false } => Insn::ldx(size, dst, src, off),
            Op::Ldx { size, dst, src, off, signed: true } => Insn::ldxs(size, dst, src, off),
            Op::St { size, dst, off, imm } => Insn::st(size, dst, off, imm),
            Op::Stx { size, dst, off, src } => Insn::stx(size, dst, off, src),
            Op::Atomic { op, width, dst, off, src } => Insn::atomic(op, width, dst, off, src),
            Op::Ja { off } if was.code == bits::JMP => Insn::ja(off as i16),
            Op::Ja { off } => Insn::gotol(off),
            Op::Jmp { cond, width, dst, src, off } => Insn::jmp(cond, width, dst, src, off),
            Op::Call { helper } => Insn::call(helper),
            Op::CallSub { off } => Insn::call_sub(off),
            Op::Exit => Insn::exit(),
            // No constructor: codegen makes neither.
            Op::LdBtfId { .. } | Op::CallKfunc { .. } => was,
        }
    }

    #[test]
    fn what_the_kernel_refuses_is_refused() {
        let alone = |insn: Insn| decode(&[insn], 0);
        assert!(alone(Insn::alu64(AluOp::Lsh, R1, 63)).is_ok());
        assert!(alone(Insn::alu64(AluOp::Lsh, R1, 64)).is_err());
        assert!(alone(Insn::alu32(AluOp::Arsh, R1, 32)).is_err());
        assert!(alone(Insn::alu32(AluOp::Div, R1, 0)).is_err());
        assert!(alone(Insn::mov64(Reg(11), 0)).is_err());
        assert_eq!(alone(Insn::ld_imm64(R2, 1)[0]), Err(DecodeError::HalfImmediate));
        assert_eq!(decode(&[], 0), Err(DecodeError::OutOfRange));
    }
}
