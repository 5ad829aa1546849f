//! Arithmetic and conditions, as the kernel's interpreter and JITs compute them: wrapping, shift counts modulo the
//! width, division by zero without a trap. Pure functions of two values.

use crate::decode::EndianKind;
use crate::insn::{AluOp, AtomicOp, Cond, Width};

/// `a op b`; for 32 bits both are cut to their low halves and the result is zero-extended.
#[must_use]
pub fn alu(op: AluOp, width: Width, a: u64, b: u64) -> u64 {
    match width {
        Width::W64 => alu64(op, a, b),
        Width::W32 => u64::from(alu32(op, a as u32, b as u32)),
    }
}

fn alu64(op: AluOp, a: u64, b: u64) -> u64 {
    match op {
        AluOp::Add => a.wrapping_add(b),
        AluOp::Sub => a.wrapping_sub(b),
        AluOp::Mul => a.wrapping_mul(b),
        AluOp::Div => a.checked_div(b).unwrap_or(0),
        AluOp::Mod => a.checked_rem(b).unwrap_or(a),
        AluOp::Or => a | b,
        AluOp::And => a & b,
        AluOp::Xor => a ^ b,
        AluOp::Lsh => a.wrapping_shl(b as u32),
        AluOp::Rsh => a.wrapping_shr(b as u32),
        AluOp::Arsh => (a as i64).wrapping_shr(b as u32) as u64,
        AluOp::Mov => b,
        // wrapping_div is what remains of INT_MIN / -1: the dividend itself, remainder 0.
        AluOp::Sdiv if b == 0 => 0,
        AluOp::Sdiv => (a as i64).wrapping_div(b as i64) as u64,
        AluOp::Smod if b == 0 => a,
        AluOp::Smod => (a as i64).wrapping_rem(b as i64) as u64,
    }
}

fn alu32(op: AluOp, a: u32, b: u32) -> u32 {
    match op {
        AluOp::Add => a.wrapping_add(b),
        AluOp::Sub => a.wrapping_sub(b),
        AluOp::Mul => a.wrapping_mul(b),
        AluOp::Div => a.checked_div(b).unwrap_or(0),
        AluOp::Mod => a.checked_rem(b).unwrap_or(a),
        AluOp::Or => a | b,
        AluOp::And => a & b,
        AluOp::Xor => a ^ b,
        AluOp::Lsh => a.wrapping_shl(b),
        AluOp::Rsh => a.wrapping_shr(b),
        AluOp::Arsh => (a as i32).wrapping_shr(b) as u32,
        AluOp::Mov => b,
        AluOp::Sdiv if b == 0 => 0,
        AluOp::Sdiv => (a as i32).wrapping_div(b as i32) as u32,
        AluOp::Smod if b == 0 => a,
        AluOp::Smod => (a as i32).wrapping_rem(b as i32) as u32,
    }
}

/// Whether `a cond b` holds.
#[must_use]
pub fn holds(cond: Cond, width: Width, a: u64, b: u64) -> bool {
    // Extending both operands keeps every relation, so one comparison serves both widths.
    let (a, b, sa, sb) = match width {
        Width::W64 => (a, b, a as i64, b as i64),
        Width::W32 => (u64::from(a as u32), u64::from(b as u32), i64::from(a as i32), i64::from(b as i32)),
    };
    match cond {
        Cond::Eq => a == b,
        Cond::Ne => a != b,
        Cond::Gt => a > b,
        Cond::Ge => a >= b,
        Cond::Lt => a < b,
        Cond::Le => a <= b,
        Cond::Set => a & b != 0,
        Cond::Sgt => sa > sb,
        Cond::Sge => sa >= sb,
        Cond::Slt => sa < sb,
        Cond::Sle => sa <= sb,
    }
}

/// The low `bits` of `value`, sign-extended to 64.
#[must_use]
pub fn sign_extend(value: u64, bits: u8) -> u64 {
    match bits {
        8 => value as i8 as u64,
        16 => value as i16 as u64,
        32 => value as i32 as u64,
        _ => value,
    }
}

/// Byte-order conversion on a little-endian machine.
#[must_use]
pub fn endian(kind: EndianKind, bits: u8, value: u64) -> u64 {
    let swap = kind != EndianKind::Le;
    match (bits, swap) {
        (16, true) => u64::from((value as u16).swap_bytes()),
        (32, true) => u64::from((value as u32).swap_bytes()),
        (64, true) => value.swap_bytes(),
        (16, false) => u64::from(value as u16),
        (32, false) => u64::from(value as u32),
        _ => value,
    }
}

/// What an atomic operation leaves in memory; `expected` is r0, for the compare-and-exchange.
#[must_use]
pub fn atomic(op: AtomicOp, width: Width, old: u64, operand: u64, expected: u64) -> u64 {
    match op {
        AtomicOp::Add | AtomicOp::FetchAdd => alu(AluOp::Add, width, old, operand),
        AtomicOp::Or | AtomicOp::FetchOr => old | operand,
        AtomicOp::And | AtomicOp::FetchAnd => old & operand,
        AtomicOp::Xor | AtomicOp::FetchXor => old ^ operand,
        AtomicOp::Xchg => operand,
        AtomicOp::Cmpxchg if holds(Cond::Eq, width, old, expected) => operand,
        AtomicOp::Cmpxchg => old,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Width::{W32, W64};

    #[test]
    fn division_never_traps() {
        let min64 = i64::MIN as u64;
        let min32 = u64::from(i32::MIN as u32);
        let high = 0xffff_ffff_0000_0000u64;
        let cases = [
            (AluOp::Div, W64, 7, 0, 0),
            (AluOp::Mod, W64, high | 7, 0, high | 7),
            (AluOp::Mod, W32, high | 7, 0, 7),
            (AluOp::Sdiv, W64, min64, u64::MAX, min64),
            (AluOp::Smod, W64, min64, u64::MAX, 0),
            (AluOp::Sdiv, W32, min32, u64::MAX, min32),
            (AluOp::Smod, W32, min32, u64::MAX, 0),
            (AluOp::Sdiv, W64, -13i64 as u64, 3, -4i64 as u64),
            (AluOp::Smod, W64, -13i64 as u64, 3, -1i64 as u64),
            (AluOp::Smod, W64, 13, -3i64 as u64, 1),
            (AluOp::Sdiv, W64, min64, 0, 0),
            (AluOp::Smod, W32, high | min32, 0, min32),
            (AluOp::Div, W64, -13i64 as u64, 3, 0x5555_5555_5555_5551),
            (AluOp::Div, W32, -13i64 as u64, 3, 0x5555_5551),
        ];
        for (op, width, a, b, want) in cases {
            assert_eq!(alu(op, width, a, b), want, "{op:?} {width:?} {a:#x} {b:#x}");
        }
    }

    #[test]
    fn shifts_take_their_count_modulo_the_width() {
        assert_eq!(alu(AluOp::Lsh, W64, 1, 65), 2);
        assert_eq!(alu(AluOp::Lsh, W32, 1, 33), 2);
        assert_eq!(alu(AluOp::Rsh, W64, u64::MAX, 64), u64::MAX);
        assert_eq!(alu(AluOp::Arsh, W64, 1 << 63, 63), u64::MAX);
        assert_eq!(alu(AluOp::Arsh, W32, 0x8000_0000, 31), 0xffff_ffff);
        assert_eq!(alu(AluOp::Lsh, W64, 1, 1 << 32), 1);
    }

    #[test]
    fn conditions_know_sign_and_width() {
        let minus = u64::MAX;
        assert!(holds(Cond::Gt, W64, minus, 1) && holds(Cond::Slt, W64, minus, 1));
        assert!(holds(Cond::Eq, W32, 1 << 32, 0) && !holds(Cond::Eq, W64, 1 << 32, 0));
        assert!(holds(Cond::Slt, W32, 0x8000_0000, 0) && !holds(Cond::Slt, W64, 0x8000_0000, 0));
        assert!(!holds(Cond::Set, W32, 1 << 40, 1 << 40) && holds(Cond::Set, W64, 1 << 40, 1 << 40));
    }

    #[test]
    fn narrow_values_widen_as_told() {
        assert_eq!(sign_extend(0x1_80, 8), 0xffff_ffff_ffff_ff80);
        assert_eq!(sign_extend(0x7fff, 16), 0x7fff);
        assert_eq!(endian(EndianKind::Be, 16, 0xffff_1234), 0x3412);
        assert_eq!(endian(EndianKind::Le, 32, u64::MAX), 0xffff_ffff);
        assert_eq!(endian(EndianKind::Swap, 64, 1), 1 << 56);
    }
}
