//! The arguments of declared probes, as a note spells them in the assembler's AT&T syntax, to places.
//!
//! Each is `SIZE@OPERAND`: the size in bytes, negative for signed values, with an `f` for floating-point numbers; the operand a
//! register, a constant, or memory by symbol, displacement, base and index. An operand that is not understood, or whose place no
//! program can read, is no place and says why; the others keep theirs.

use crate::arch::pt_regs;
use probity_ir::{Location, Space};

/// What an operand's place depends on besides its text.
pub(crate) struct Here<'a> {
    /// The address of the probed instruction in its file.
    pub vaddr: u64,
    /// The address of a symbol in that file.
    pub symbol: &'a dyn Fn(&str) -> Option<u64>,
}

/// DWARF numbers of the registers that `struct pt_regs` has, by the names of their 64, 32, 16 and low 8 bits.
const REGISTERS: [(u16, [&str; 4]); 9] = [
    (0, ["rax", "eax", "ax", "al"]),
    (1, ["rdx", "edx", "dx", "dl"]),
    (2, ["rcx", "ecx", "cx", "cl"]),
    (3, ["rbx", "ebx", "bx", "bl"]),
    (4, ["rsi", "esi", "si", "sil"]),
    (5, ["rdi", "edi", "di", "dil"]),
    (6, ["rbp", "ebp", "bp", "bpl"]),
    (7, ["rsp", "esp", "sp", "spl"]),
    (16, ["rip", "eip", "ip", "ip"]),
];

/// Where the registers are saved whose second byte has a name.
const SECOND_BYTES: [(u32, &str); 4] =
    [(pt_regs::AX, "ah"), (pt_regs::BX, "bh"), (pt_regs::CX, "ch"), (pt_regs::DX, "dh")];

/// Sizes of registers in the order of their names above.
const WIDTHS: [u8; 4] = [8, 4, 2, 1];

/// What a program gets at most of one argument.
const WORD: u8 = 8;

/// An argument: its size in bytes and whether it is signed, where the note tells and a word holds it; and where it is, or why nowhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Operand {
    pub size: u8,
    pub signed: bool,
    pub place: Result<Location, String>,
}

/// All arguments in `text`, in order.
pub(crate) fn operands(text: &str, here: &Here<'_>) -> Vec<Operand> {
    // What is not in AT&T syntax has blanks inside operands, so that even their number would be a guess.
    if text.contains('[') {
        let why = format!("its operands are not in AT&T syntax: {text}");
        let unknown = |_| Operand { size: WORD, signed: false, place: Err(why.clone()) };
        return (0..crate::user::ARGUMENTS).map(unknown).collect();
    }
    split(text).into_iter().map(|one| operand(&one, here)).collect()
}

/// Splits at blanks outside of parentheses.
fn split(text: &str) -> Vec<String> {
    let mut all = Vec::new();
    let (mut one, mut depth) = (String::new(), 0u32);
    for c in text.chars() {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        match c.is_ascii_whitespace() {
            false => one.push(c),
            true if depth == 0 && !one.is_empty() => all.push(std::mem::take(&mut one)),
            true => {}
        }
    }
    if !one.is_empty() {
        all.push(one);
    }
    all
}

/// How many bytes a value has and how they are to be read.
#[derive(Clone, Copy)]
struct Size {
    bytes: u8,
    signed: bool,
}

fn operand(text: &str, here: &Here<'_>) -> Operand {
    let told = text.split_once('@').and_then(|(size, _)| self::size(size));
    let (size, signed) = match told {
        Some((bytes @ (1 | 2 | 4 | 8), signed)) => (bytes as u8, signed),
        _ => (WORD, false),
    };
    Operand { size, signed, place: place(text, here) }
}

fn place(text: &str, here: &Here<'_>) -> Result<Location, String> {
    let (size, operand) = match text.split_once('@') {
        Some((size, operand)) if size.starts_with(|c: char| c == '-' || c.is_ascii_digit()) => {
            (Some(self::size(size).ok_or_else(|| format!("its size is not understood: {text}"))?), operand)
        }
        _ => (None, text),
    };
    let size = match size {
        Some((bytes @ 1..=8, signed)) => Some(Size { bytes: bytes as u8, signed }),
        Some((bytes, _)) => {
            return Err(format!("it is a value of {bytes} bytes, of which a word would hold {WORD} ({text})"));
        }
        None => None,
    };
    if let Some(name) = operand.strip_prefix('%').filter(|name| !name.contains(':')) {
        return register(name, size);
    }
    if let Some(value) = operand.strip_prefix('$') {
        return constant(value, size, here).ok_or_else(|| format!("its constant is not understood: {operand}"));
    }
    memory(operand, size, here)
}

/// The number of bytes and whether they are signed; a floating-point number is its bits.
fn size(text: &str) -> Option<(u64, bool)> {
    let (signed, digits) = text.strip_prefix('-').map_or((false, text), |digits| (true, digits));
    let (float, digits) = digits.strip_suffix('f').map_or((false, digits), |digits| (true, digits));
    Some((digits.parse().ok()?, signed && !float))
}

/// A register by name: its DWARF number and how many bytes the name means.
fn named(name: &str) -> Option<(u16, u8)> {
    for (dwarf, names) in REGISTERS {
        if let Some(at) = names.iter().position(|known| *known == name) {
            return Some((dwarf, WIDTHS[at]));
        }
    }
    let rest = name.strip_prefix('r')?;
    let digits = rest.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let number: u16 = digits.parse().ok().filter(|number| (8..16).contains(number) && !digits.starts_with('0'))?;
    let width = match &rest[digits.len()..] {
        "" => 8,
        "d" => 4,
        "w" => 2,
        "b" | "l" => 1,
        _ => return None,
    };
    Some((number, width))
}

fn register(name: &str, size: Option<Size>) -> Result<Location, String> {
    if let Some((offset, _)) = SECOND_BYTES.iter().find(|(_, known)| *known == name) {
        return Ok(Location::Ctx { offset: offset + 1, size: 1, signed: size.is_some_and(|size| size.signed) });
    }
    let Some((dwarf, width)) = named(name) else {
        return Err(format!("register %{name} is not saved where a program can read it"));
    };
    let Size { bytes, signed } = size.unwrap_or(Size { bytes: width, signed: false });
    let of = Location::Reg { dwarf };
    Ok(match bytes.min(width) {
        8 => of,
        size @ (1 | 2 | 4) => Location::Narrow { of: Box::new(of), size, signed },
        _ if signed => return Err(format!("it is a signed value of {bytes} bytes")),
        size => Location::Masked { of: Box::new(of), mask: (1 << (8 * size)) - 1 },
    })
}

/// A number as the assembler takes it: decimal, or in hexadecimal or octal by its prefix.
fn number(text: &str) -> Option<i64> {
    let (negative, digits) = text.strip_prefix('-').map_or((false, text), |digits| (true, digits));
    let value = match digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        Some(hex) if hex.starts_with(|c: char| c.is_ascii_hexdigit()) => u64::from_str_radix(hex, 16).ok()?,
        _ if !digits.starts_with(|c: char| c.is_ascii_digit()) => return None,
        _ if digits.len() > 1 && digits.starts_with('0') => u64::from_str_radix(digits, 8).ok()?,
        _ => digits.parse().ok()?,
    };
    Some(if negative { (value as i64).wrapping_neg() } else { value as i64 })
}

/// A sum of numbers and at most one symbol: the symbol's address, and the rest.
struct Sum {
    symbol: Option<u64>,
    offset: i64,
}

fn sum(text: &str, here: &Here<'_>) -> Option<Sum> {
    let mut sum = Sum { symbol: None, offset: 0 };
    let mut rest = text;
    while !rest.is_empty() {
        let negative = rest.starts_with('-');
        let term = rest.strip_prefix(['-', '+']).unwrap_or(rest);
        let end = term.find(['-', '+']).unwrap_or(term.len());
        let (term, after) = term.split_at(end);
        match number(term) {
            Some(value) => {
                sum.offset = sum.offset.wrapping_add(if negative { value.wrapping_neg() } else { value });
            }
            None if negative || sum.symbol.is_some() => return None,
            None => sum.symbol = Some((here.symbol)(term)?),
        }
        rest = after;
    }
    Some(sum)
}

/// The address of something in the probed file, which is as far from the probed instruction in memory as it is there.
fn in_file(vaddr: u64, here: &Here<'_>) -> Location {
    let base = Box::new(Location::Pc { space: Space::User });
    Location::Address { base, offset: vaddr.wrapping_sub(here.vaddr) as i64, space: Space::User }
}

fn constant(text: &str, size: Option<Size>, here: &Here<'_>) -> Option<Location> {
    let Sum { symbol, offset } = sum(text, here).filter(|_| !text.is_empty())?;
    if let Some(symbol) = symbol {
        return Some(in_file(symbol.wrapping_add(offset as u64), here));
    }
    let Size { bytes, signed } = size.unwrap_or(Size { bytes: WORD, signed: true });
    let unused = 64 - 8 * u32::from(bytes);
    let top = offset << unused;
    Some(Location::Value(if signed { top >> unused } else { (top as u64 >> unused) as i64 }))
}

fn memory(operand: &str, size: Option<Size>, here: &Here<'_>) -> Result<Location, String> {
    let unclear = || format!("its operand is not understood: {operand}");
    if let Some((segment, _)) = operand.strip_prefix('%').and_then(|rest| rest.split_once(':')) {
        return Err(format!(
            "it is in the memory of segment %{segment}, whose address no program can read ({operand})"
        ));
    }
    let Size { bytes, signed } =
        size.ok_or_else(|| format!("the note does not say how many bytes it has: {operand}"))?;
    let (displacement, registers) = match operand.strip_suffix(')') {
        Some(rest) => rest.split_once('(').map(|(before, inside)| (before, Some(inside))).ok_or_else(unclear)?,
        None => (operand, None),
    };
    let Sum { symbol, offset } =
        sum(displacement, here).ok_or_else(|| match displacement.contains(char::is_alphabetic) {
            true => format!("its symbol is not in the file's symbol table: {operand}"),
            false => unclear(),
        })?;
    let start = symbol.map(|symbol| in_file(symbol.wrapping_add(offset as u64), here));
    let mut fields = registers.unwrap_or_default().split(',');
    let base = fields.next().unwrap_or_default();
    let index = fields.next().unwrap_or_default();
    let scale = match fields.next() {
        None | Some("") => 1,
        Some(scale) => number(scale).filter(|scale| matches!(scale, 1 | 2 | 4 | 8)).ok_or_else(unclear)?,
    };
    if fields.next().is_some() || (registers == Some("") && symbol.is_none()) {
        return Err(unclear());
    }
    let by_name = |name: &str| -> Result<Option<Location>, String> {
        match name.strip_prefix('%') {
            None if name.is_empty() => Ok(None),
            // The names of an index that is none.
            Some("riz" | "eiz") => Ok(None),
            Some(name) => match named(name) {
                Some((dwarf, 8)) => Ok(Some(Location::Reg { dwarf })),
                Some((dwarf, 4)) => {
                    let of = Box::new(Location::Reg { dwarf });
                    Ok(Some(Location::Narrow { of, size: 4, signed: false }))
                }
                _ => Err(unclear()),
            },
            None => Err(unclear()),
        }
    };
    let relative = matches!(base, "%rip" | "%eip");
    let base = match relative {
        // A number alone would be relative to the next instruction's address, which the note does not tell.
        true if symbol.is_none() || !index.is_empty() => return Err(unclear()),
        true => None,
        false => by_name(base)?,
    };
    let index = by_name(index)?;
    let (mut address, offset) = match (start, base) {
        (Some(start), None) => (start, 0),
        (Some(start), Some(base)) => (plus(start, base, 1), 0),
        (None, Some(base)) => (base, offset),
        (None, None) => (Location::Value(0), offset),
    };
    if let Some(index) = index {
        address = plus(address, index, scale);
    }
    Ok(value(&address, offset, bytes, signed))
}

fn plus(base: Location, plus: Location, times: i64) -> Location {
    Location::Sum { base: Box::new(base), plus: Box::new(plus), times }
}

/// A value in memory; one of 3, 5, 6 or 7 bytes is put together from parts, lest bytes be read that are not its own.
fn value(address: &Location, offset: i64, bytes: u8, signed: bool) -> Location {
    let read = |offset, size, signed| {
        let base = Box::new(address.clone());
        Location::Memory { base, offset, size, signed, space: Space::User }
    };
    let first = 1 << bytes.ilog2();
    match bytes - first {
        0 => read(offset, bytes, signed),
        rest => {
            let upper = value(address, offset.wrapping_add(first.into()), rest, signed);
            plus(read(offset, first, false), upper, 1 << (8 * first))
        }
    }
}

#[cfg(test)]
#[path = "stap_args_tests.rs"]
mod tests;
