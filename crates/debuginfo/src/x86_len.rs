//! The lengths of x86 instructions, so that a probe is put where an instruction starts and nowhere else.
//!
//! Knows prefixes, opcode maps, ModRM, SIB, displacements and immediates of the legacy, VEX, EVEX and XOP encodings;
//! knows nothing of what an instruction does. APX (REX2, EVEX map 4) does not decode. Source: Intel's SDM volume 2,
//! appendix A; AMD's APM volume 3 for XOP and SSE4a.

/// The longest instruction that a processor takes.
const LONGEST: usize = 15;

/// What follows an opcode.
#[derive(Clone, Copy)]
struct Shape {
    modrm: bool,
    immediate: usize,
}

const NONE: Shape = Shape { modrm: false, immediate: 0 };
const MODRM: Shape = Shape { modrm: true, immediate: 0 };
const IMM8: Shape = Shape { modrm: false, immediate: 1 };
const MODRM_IMM8: Shape = Shape { modrm: true, immediate: 1 };

/// Prefixes met before the opcode.
#[derive(Clone, Copy, Default)]
struct Prefixes {
    operand: bool,
    address: bool,
    repne: bool,
    rex_w: bool,
}

struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Cursor<'_> {
    fn next(&mut self) -> Option<u8> {
        let byte = *self.bytes.get(self.at)?;
        self.at += 1;
        Some(byte)
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }
}

/// The length of the instruction at the start of `code`, in 64-bit (`long`) or 32-bit mode; `None` if it is no instruction
/// or is cut short.
pub fn instruction_len(code: &[u8], long: bool) -> Option<usize> {
    let mut cursor = Cursor { bytes: &code[..code.len().min(LONGEST)], at: 0 };
    let mut prefixes = Prefixes::default();
    let opcode = loop {
        let byte = cursor.next()?;
        match byte {
            0x66 => prefixes.operand = true,
            0x67 => prefixes.address = true,
            0xf2 => prefixes.repne = true,
            0xf3 | 0xf0 | 0x2e | 0x36 | 0x3e | 0x26 | 0x64 | 0x65 => {}
            0x40..=0x4f if long => {
                prefixes.rex_w = byte & 8 != 0;
                continue;
            }
            _ => break byte,
        }
        // A REX prefix counts only right before the opcode.
        prefixes.rex_w = false;
    };
    let peek = cursor.peek();
    // In 32-bit mode these are LES, LDS and BOUND with a memory operand, whose ModRM never has both top bits set.
    let vector = |next: Option<u8>| long || next.is_some_and(|next| next >= 0xc0);
    let shape = match opcode {
        0x0f => two_byte(&mut cursor, prefixes, long)?,
        0xc5 if vector(peek) => {
            cursor.next()?;
            vector_shape(cursor.next()?, 1, false)?
        }
        0xc4 if vector(peek) => {
            let map = cursor.next()? & 0x1f;
            cursor.next()?;
            vector_shape(cursor.next()?, map, false)?
        }
        0x62 if vector(peek) => {
            let map = cursor.next()? & 7;
            cursor.next()?;
            cursor.next()?;
            vector_shape(cursor.next()?, map, true)?
        }
        0x8f if peek.is_some_and(|next| next & 0x1f >= 8) => {
            let map = cursor.next()? & 0x1f;
            cursor.next()?;
            cursor.next()?;
            match map {
                8 => MODRM_IMM8,
                9 => MODRM,
                10 => Shape { modrm: true, immediate: 4 },
                _ => return None,
            }
        }
        _ => one_byte(opcode, cursor.peek(), prefixes, long)?,
    };
    if shape.modrm {
        // MOV to and from control and debug registers has registers only, whatever the mod bits say.
        let registers = opcode == 0x0f && code.get(cursor.at - 1).is_some_and(|op| (0x20..=0x23).contains(op));
        memory_operand(&mut cursor, registers, prefixes.address && !long)?;
    }
    let len = cursor.at + shape.immediate;
    (len <= cursor.bytes.len()).then_some(len)
}

/// The offsets where instructions start, from the start of `code` to its end or to the first that does not decode.
pub fn boundaries(code: &[u8], long: bool) -> Vec<u32> {
    let mut starts = Vec::with_capacity(code.len() / 4);
    let mut at = 0;
    while let Some(len) = code.get(at..).filter(|rest| !rest.is_empty()).and_then(|rest| instruction_len(rest, long)) {
        let Ok(start) = u32::try_from(at) else { break };
        starts.push(start);
        at += len;
    }
    starts
}

/// Skips ModRM, SIB and displacement.
fn memory_operand(cursor: &mut Cursor<'_>, registers: bool, short_address: bool) -> Option<()> {
    let modrm = cursor.next()?;
    let (mode, rm) = (modrm >> 6, modrm & 7);
    if mode == 3 || registers {
        return Some(());
    }
    let displacement = if short_address {
        match (mode, rm) {
            (0, 6) | (2, _) => 2,
            (1, _) => 1,
            _ => 0,
        }
    } else {
        let base = if rm == 4 { cursor.next()? & 7 } else { rm };
        match (mode, base) {
            (0, 5) | (2, _) => 4,
            (1, _) => 1,
            _ => 0,
        }
    };
    cursor.at += displacement;
    Some(())
}

/// Immediates of the operand's size, which never exceed four bytes.
fn full(prefixes: Prefixes) -> usize {
    if prefixes.operand && !prefixes.rex_w { 2 } else { 4 }
}

/// A near branch's displacement: in 64-bit mode four bytes, whatever the prefixes (Intel; AMD's differ, but no compiler emits them).
fn branch(prefixes: Prefixes, long: bool) -> usize {
    if long { 4 } else { full(prefixes) }
}

fn one_byte(opcode: u8, next: Option<u8>, prefixes: Prefixes, long: bool) -> Option<Shape> {
    let full = full(prefixes);
    let imm = |immediate| Shape { modrm: false, immediate };
    Some(match opcode {
        0x00..=0x3f => match opcode & 7 {
            0..=3 => MODRM,
            4 => IMM8,
            5 => imm(full),
            // Segment pushes and pops, decimal adjustments.
            _ if long => return None,
            _ => NONE,
        },
        0x60 | 0x61 | 0x82 | 0x9a | 0xce | 0xd4 | 0xd5 | 0xd6 | 0xea if long => return None,
        0x9a | 0xea => imm(full + 2),
        0xd4 | 0xd5 => IMM8,
        0x62 | 0x63 | 0x84..=0x8f | 0xc4 | 0xc5 | 0xd0..=0xd3 | 0xd8..=0xdf | 0xfe | 0xff => MODRM,
        0x68 | 0xa9 => imm(full),
        0x69 | 0x81 | 0xc7 => Shape { modrm: true, immediate: full },
        0x6b | 0x80 | 0x82 | 0x83 | 0xc0 | 0xc1 | 0xc6 => MODRM_IMM8,
        0x6a | 0x70..=0x7f | 0xa8 | 0xb0..=0xb7 | 0xcd | 0xe0..=0xe7 | 0xeb => IMM8,
        0xa0..=0xa3 => match (long, prefixes.address) {
            (true, false) => imm(8),
            (true, true) | (false, false) => imm(4),
            (false, true) => imm(2),
        },
        0xb8..=0xbf => imm(if prefixes.rex_w { 8 } else { full }),
        0xc2 | 0xca => imm(2),
        0xc8 => imm(3),
        0xe8 | 0xe9 => imm(branch(prefixes, long)),
        // TEST is the only one of its group with an immediate.
        0xf6 | 0xf7 => match (next? >> 3 & 7, opcode) {
            (0 | 1, 0xf6) => MODRM_IMM8,
            (0 | 1, _) => Shape { modrm: true, immediate: full },
            _ => MODRM,
        },
        // Prefixes were taken before; a REX prefix in 32-bit mode is INC or DEC.
        _ => NONE,
    })
}

fn two_byte(cursor: &mut Cursor<'_>, prefixes: Prefixes, long: bool) -> Option<Shape> {
    Some(match cursor.next()? {
        0x38 => {
            cursor.next()?;
            MODRM
        }
        0x3a => {
            cursor.next()?;
            MODRM_IMM8
        }
        0x04 | 0x0a | 0x0c | 0x24..=0x27 | 0x36 | 0x39 | 0x3b..=0x3f => return None,
        0x05..=0x09 | 0x0b | 0x0e | 0x30..=0x37 | 0x77 | 0xa0..=0xa2 | 0xa8..=0xaa | 0xc8..=0xcf => NONE,
        0x80..=0x8f => Shape { modrm: false, immediate: branch(prefixes, long) },
        // 3DNow!: the opcode comes last.
        0x0f | 0x70..=0x73 | 0xa4 | 0xac | 0xba | 0xc2 | 0xc4..=0xc6 => MODRM_IMM8,
        // EXTRQ and INSERTQ; without a prefix VMREAD.
        0x78 if prefixes.operand || prefixes.repne => Shape { modrm: true, immediate: 2 },
        _ => MODRM,
    })
}

/// What follows an opcode of the VEX and EVEX maps.
fn vector_shape(opcode: u8, map: u8, evex: bool) -> Option<Shape> {
    Some(match (map, opcode) {
        (1, 0x77) if !evex => NONE,
        (1, 0x70..=0x73 | 0xc2 | 0xc4..=0xc6) | (3, _) => MODRM_IMM8,
        (1 | 2 | 5 | 6, _) => MODRM,
        (7, _) => Shape { modrm: true, immediate: 4 },
        _ => return None,
    })
}

/// Runs the decoder over arbitrary bytes.
pub fn fuzz_one(data: &[u8]) {
    for long in [true, false] {
        let starts = boundaries(data, long);
        assert!(starts.len() <= data.len() && starts.is_sorted());
    }
}

#[cfg(test)]
#[path = "x86_len_tests.rs"]
mod tests;
