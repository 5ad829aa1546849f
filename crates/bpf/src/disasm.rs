//! The disassembler: text in the style of the kernel's verifier log, so that the two can be laid side by side.
//!
//! Maps are named as the object names them, helpers as the kernel does. Slots that are no instruction are shown as
//! bytes: disassembly never fails.

use crate::decode::{EndianKind, Op, decode};
use crate::helpers::Helper;
use crate::insn::{AluOp, AtomicOp, Cond, Insn, Size, Src, Width};
use crate::object::{MapSpec, ProgSpec};
use std::fmt::Write as _;

fn reg_letter(width: Width) -> char {
    match width {
        Width::W32 => 'w',
        Width::W64 => 'r',
    }
}

fn size_name(size: Size) -> &'static str {
    match size {
        Size::B => "u8",
        Size::H => "u16",
        Size::W => "u32",
        Size::DW => "u64",
    }
}

fn alu_sign(op: AluOp) -> &'static str {
    match op {
        AluOp::Add => "+=",
        AluOp::Sub => "-=",
        AluOp::Mul => "*=",
        AluOp::Div => "/=",
        AluOp::Or => "|=",
        AluOp::And => "&=",
        AluOp::Lsh => "<<=",
        AluOp::Rsh => ">>=",
        AluOp::Mod => "%=",
        AluOp::Xor => "^=",
        AluOp::Mov => "=",
        AluOp::Arsh => "s>>=",
        AluOp::Sdiv => "s/=",
        AluOp::Smod => "s%=",
    }
}

fn cond_sign(cond: Cond) -> &'static str {
    match cond {
        Cond::Eq => "==",
        Cond::Gt => ">",
        Cond::Ge => ">=",
        Cond::Set => "&",
        Cond::Ne => "!=",
        Cond::Sgt => "s>",
        Cond::Sge => "s>=",
        Cond::Lt => "<",
        Cond::Le => "<=",
        Cond::Slt => "s<",
        Cond::Sle => "s<=",
    }
}

fn atomic_text(op: AtomicOp, width: Width, place: &str, src: u8) -> String {
    let bits = match width {
        Width::W32 => "",
        Width::W64 => "64",
    };
    let fetch = |name| format!("r{src} = atomic{bits}_{name}({place}, r{src})");
    match op {
        AtomicOp::Add => format!("lock *{place} += r{src}"),
        AtomicOp::Or => format!("lock *{place} |= r{src}"),
        AtomicOp::And => format!("lock *{place} &= r{src}"),
        AtomicOp::Xor => format!("lock *{place} ^= r{src}"),
        AtomicOp::FetchAdd => fetch("fetch_add"),
        AtomicOp::FetchOr => fetch("fetch_or"),
        AtomicOp::FetchAnd => fetch("fetch_and"),
        AtomicOp::FetchXor => fetch("fetch_xor"),
        AtomicOp::Xchg => fetch("xchg"),
        AtomicOp::Cmpxchg => format!("r0 = atomic{bits}_cmpxchg({place}, r0, r{src})"),
    }
}

fn map_name(maps: &[MapSpec], index: u32) -> String {
    match maps.get(index as usize) {
        Some(map) => format!("{index}:{}", map.name),
        None => format!("{index}"),
    }
}

fn op_text(op: Op, maps: &[MapSpec]) -> String {
    match op {
        Op::Alu { op, width, dst, src } => {
            let (c, dst, sign) = (reg_letter(width), dst.0, alu_sign(op));
            match src {
                Src::Reg(src) => format!("{c}{dst} {sign} {c}{}", src.0),
                Src::Imm(imm) => format!("{c}{dst} {sign} {imm}"),
            }
        }
        Op::Neg { width, dst } => {
            let c = reg_letter(width);
            format!("{c}{} = -{c}{}", dst.0, dst.0)
        }
        Op::MovSx { width, dst, src, bits } => {
            let c = reg_letter(width);
            format!("{c}{} = (s{bits}){c}{}", dst.0, src.0)
        }
        Op::End { dst, kind, bits } => {
            let name = match kind {
                EndianKind::Le => "le",
                EndianKind::Be => "be",
                EndianKind::Swap => "bswap",
            };
            format!("{dst} = {name}{bits} {dst}")
        }
        Op::LdImm64 { dst, imm } => format!("{dst} = {imm:#x}"),
        Op::LdMapFd { dst, map } => format!("{dst} = map[{}]", map_name(maps, map)),
        Op::LdMapValue { dst, map, off } => format!("{dst} = map[{}][0]+{off}", map_name(maps, map)),
        Op::LdFunc { dst, off } => format!("{dst} = pc{off:+}"),
        Op::LdBtfId { dst, btf_id, btf_fd } => format!("{dst} = btf[{btf_fd}:{btf_id}]"),
        Op::Ldx { size, dst, src, off, signed } => {
            let name = size_name(size);
            let name = if signed { name.replacen('u', "s", 1) } else { name.to_owned() };
            format!("{dst} = *({name} *)({src} {off:+})")
        }
        Op::St { size, dst, off, imm } => format!("*({} *)({dst} {off:+}) = {imm}", size_name(size)),
        Op::Stx { size, dst, off, src } => format!("*({} *)({dst} {off:+}) = {src}", size_name(size)),
        Op::Atomic { op, width, dst, off, src } => {
            let size = if width == Width::W32 { "u32" } else { "u64" };
            // The kernel writes `*(u64 *)(…)` for the plain forms and `(u64 *)(…)` for the fetching ones.
            atomic_text(op, width, &format!("({size} *)({dst} {off:+})"), src.0)
        }
        Op::Ja { off } => format!("goto pc{off:+}"),
        Op::Jmp { cond, width, dst, src, off } => {
            let (c, sign) = (reg_letter(width), cond_sign(cond));
            match src {
                Src::Reg(src) => format!("if {c}{} {sign} {c}{} goto pc{off:+}", dst.0, src.0),
                Src::Imm(imm) => format!("if {c}{} {sign} {imm:#x} goto pc{off:+}", dst.0),
            }
        }
        Op::Call { helper } => match Helper::from_id(helper) {
            Some(known) => format!("call {known}#{helper}"),
            None => format!("call unknown#{helper}"),
        },
        Op::CallSub { off } => format!("call pc{off:+}"),
        Op::CallKfunc { btf_id } => format!("call kernel-function#{btf_id}"),
        Op::Exit => "exit".to_owned(),
    }
}

/// The text of the instruction at slot `pc`, like `(b7) r0 = 0`, and the number of slots it takes.
#[must_use]
pub fn insn(insns: &[Insn], pc: usize, maps: &[MapSpec]) -> (String, usize) {
    let code = insns.get(pc).map_or(0, |i| i.code);
    match decode(insns, pc) {
        // A long jump has the same meaning and another name.
        Ok(Op::Ja { off }) if code == 0x06 => (format!("({code:02x}) gotol pc{off:+}"), 1),
        Ok(op) => (format!("({code:02x}) {}", op_text(op, maps)), op.slots()),
        Err(error) => {
            let bytes = insns.get(pc).map_or([0; 8], |i| i.to_bytes());
            let mut text = format!("({code:02x}) ");
            for byte in bytes {
                let _ = write!(text, "{byte:02x}");
            }
            let _ = write!(text, " ; {error}");
            (text, 1)
        }
    }
}

/// A whole program, one line for each instruction: `0: (b7) r0 = 0`. Where a new source line tag begins, a line
/// `; line <tag>` stands before it.
#[must_use]
pub fn program(prog: &ProgSpec, maps: &[MapSpec]) -> String {
    let mut text = String::new();
    let mut lines = prog.lines.iter().peekable();
    let mut pc = 0;
    while pc < prog.insns.len() {
        while let Some((_, tag)) = lines.next_if(|(slot, _)| *slot as usize <= pc) {
            let _ = writeln!(text, "; line {tag}");
        }
        let (line, slots) = insn(&prog.insns, pc, maps);
        let _ = writeln!(text, "{pc}: {line}");
        pc += slots;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::insn::{R0, R1, R2, R10, Reg};
    use crate::object::{MapKind, ProgType};

    #[test]
    fn text_is_the_verifiers() {
        let mut insns = Vec::new();
        let mut put = |i: &[Insn]| insns.extend_from_slice(i);
        put(&[Insn::mov64(R0, 0)]);
        put(&[Insn::alu32(AluOp::Sdiv, R1, R2)]);
        put(&[Insn::neg(Width::W32, R1), Insn::movsx(Width::W64, R1, R2, 8)]);
        put(&[Insn::to_be(R1, 16), Insn::bswap(R1, 64)]);
        put(&Insn::ld_map_fd(R1, 0));
        put(&Insn::ld_map_value(R1, 0, 8));
        put(&Insn::ld_imm64(R1, u64::MAX));
        put(&[Insn::ldx(Size::W, R1, R10, -8), Insn::ldxs(Size::B, R1, R2, 1)]);
        put(&[Insn::st(Size::DW, R10, -16, 5), Insn::stx(Size::H, R10, -16, R1)]);
        put(&[Insn::atomic(AtomicOp::Add, Width::W64, R1, 0, R2)]);
        put(&[Insn::atomic(AtomicOp::FetchAdd, Width::W32, R1, 4, R2)]);
        put(&[Insn::atomic(AtomicOp::Cmpxchg, Width::W64, R1, 0, R2)]);
        put(&[Insn::jmp(Cond::Slt, Width::W32, R1, R2, -3), Insn::jmp(Cond::Eq, Width::W64, R1, 16, 1)]);
        put(&[Insn::ja(-1), Insn::gotol(70_000), Insn::call(Helper::KtimeGetNs), Insn::call_sub(3)]);
        put(&[Insn::exit(), Insn { code: 0xff, dst: Reg(1), ..Insn::default() }]);
        let mut prog = ProgSpec::new("p", ProgType::Kprobe, insns);
        prog.lines = vec![(0, 3), (1, 4)];
        let maps = [MapSpec::new("counts", MapKind::Hash, 8, 8, 1)];
        let want = "\
; line 3
0: (b7) r0 = 0
; line 4
1: (3c) w1 s/= w2
2: (84) w1 = -w1
3: (bf) r1 = (s8)r2
4: (dc) r1 = be16 r1
5: (d7) r1 = bswap64 r1
6: (18) r1 = map[0:counts]
8: (18) r1 = map[0:counts][0]+8
10: (18) r1 = 0xffffffffffffffff
12: (61) r1 = *(u32 *)(r10 -8)
13: (91) r1 = *(s8 *)(r2 +1)
14: (7a) *(u64 *)(r10 -16) = 5
15: (6b) *(u16 *)(r10 -16) = r1
16: (db) lock *(u64 *)(r1 +0) += r2
17: (c3) r2 = atomic_fetch_add((u32 *)(r1 +4), r2)
18: (db) r0 = atomic64_cmpxchg((u64 *)(r1 +0), r0, r2)
19: (ce) if w1 s< w2 goto pc-3
20: (15) if r1 == 0x10 goto pc+1
21: (05) goto pc-1
22: (06) gotol pc+70000
23: (85) call bpf_ktime_get_ns#5
24: (85) call pc+3
25: (95) exit
26: (ff) ff01000000000000 ; unknown or malformed instruction, opcode 0xff
";
        assert_eq!(program(&prog, &maps), want);
    }
}
