//! The arguments of USDT probes, as the assembler wrote them into a note (`-4@%edi 8@-8(%rbp) 4@$3`), as places.

use probity_ir::{Location, Space};

/// General registers by their DWARF numbers: 64, 32, 16 and 8 bits.
const REGISTERS: [[&str; 4]; 8] = [
    ["rax", "eax", "ax", "al"],
    ["rdx", "edx", "dx", "dl"],
    ["rcx", "ecx", "cx", "cl"],
    ["rbx", "ebx", "bx", "bl"],
    ["rsi", "esi", "si", "sil"],
    ["rdi", "edi", "di", "dil"],
    ["rbp", "ebp", "bp", "bpl"],
    ["rsp", "esp", "sp", "spl"],
];

/// The DWARF number of a register, by its name without `%`.
fn register(name: &str) -> Option<u16> {
    if let Some(at) = REGISTERS.iter().position(|names| names.contains(&name)) {
        return Some(at as u16);
    }
    // r8 to r15, r8d, r8w, r8b.
    let number: u16 = name.strip_prefix('r')?.trim_end_matches(['d', 'w', 'b', 'l']).parse().ok()?;
    (8..16).contains(&number).then_some(number)
}

/// A number as assemblers write it.
fn number(text: &str) -> Option<i64> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let value = match digits.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok()?,
        None => digits.parse::<u64>().ok()?,
    };
    Some(if negative { (value as i64).wrapping_neg() } else { value as i64 })
}

/// A probe's argument: its size in bytes, whether it is signed, and where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Operand {
    pub size: u8,
    pub signed: bool,
    pub place: Location,
}

/// Reads the arguments of a note, at most `most`.
pub(crate) fn operands(text: &str, most: usize) -> Vec<Operand> {
    text.split_ascii_whitespace().take(most).map(operand).collect()
}

fn operand(text: &str) -> Operand {
    let (size, what) = text.split_once('@').unwrap_or(("8", text));
    let float = size.ends_with('f');
    let bytes = number(size.trim_end_matches('f')).unwrap_or(8);
    let (size, signed) = (bytes.unsigned_abs(), bytes < 0);
    let none = |why: String| Operand { size: 8, signed, place: Location::None(why) };
    if float {
        return none(format!("{text} is floating-point, which is not readable in this version"));
    }
    if !matches!(size, 1 | 2 | 4 | 8) {
        return none(format!("{text} is a structure of {size} bytes, which no register holds"));
    }
    let size = size as u8;
    match place(what, size, signed) {
        Some(place) => Operand { size, signed, place },
        None => none(format!("the place {what} is not understood by this version")),
    }
}

fn place(what: &str, size: u8, signed: bool) -> Option<Location> {
    let narrow = |of: Location| match size {
        8 => of,
        _ => Location::Narrow { of: Box::new(of), size, signed },
    };
    if let Some(constant) = what.strip_prefix('$') {
        let value = number(constant)?;
        return Some(Location::Value(match (size, signed) {
            (1, true) => i64::from(value as i8),
            (1, false) => i64::from(value as u8),
            (2, true) => i64::from(value as i16),
            (2, false) => i64::from(value as u16),
            (4, true) => i64::from(value as i32),
            (4, false) => i64::from(value as u32),
            _ => value,
        }));
    }
    if let Some(name) = what.strip_prefix('%') {
        let dwarf = register(name)?;
        return Some(narrow(Location::Reg { dwarf }));
    }
    let (offset, base) = what.strip_suffix(')')?.split_once('(')?;
    let offset = if offset.is_empty() { 0 } else { number(offset)? };
    let dwarf = register(base.strip_prefix('%')?)?;
    Some(Location::Memory { base: Box::new(Location::Reg { dwarf }), offset, size, signed, space: Space::User })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(text: &str) -> Location {
        operands(text, 10).remove(0).place
    }

    #[test]
    fn registers_constants_and_memory() {
        let narrow = |dwarf, size, signed| Location::Narrow { of: Box::new(Location::Reg { dwarf }), size, signed };
        assert_eq!(one("-4@%edi"), narrow(5, 4, true));
        assert_eq!(one("8@%r15"), Location::Reg { dwarf: 15 });
        assert_eq!(one("2@%r8w"), narrow(8, 2, false));
        assert_eq!(one("1@%sil"), narrow(4, 1, false));
        assert_eq!(one("-4@$-3"), Location::Value(-3));
        assert_eq!(one("4@$-1"), Location::Value(0xffff_ffff));
        let memory = |dwarf, offset, size, signed| {
            let base = Box::new(Location::Reg { dwarf });
            Location::Memory { base, offset, size, signed, space: Space::User }
        };
        assert_eq!(one("-4@-20(%rbp)"), memory(6, -20, 4, true));
        assert_eq!(one("8@(%rax)"), memory(0, 0, 8, false));
        assert_eq!(operands("8@%rax -4@$5 8@%rbx", 2).len(), 2);
        assert!(operands("", 10).is_empty());
    }

    #[test]
    fn what_is_not_understood_keeps_its_position() {
        let all = operands("16@%rax 8f@%xmm0 8@x(%rip) 8@(%rax,%rbx,8) 4@%eax", 10);
        for bad in &all[..4] {
            assert!(matches!(bad.place, Location::None(_)), "{bad:?}");
        }
        assert!(matches!(all[4].place, Location::Narrow { .. }));
    }
}
