//! Where the System V calling convention of x86-64 puts a function's arguments and result, given their classes, and what DWARF
//! corrects: copies of functions that the compiler has changed pass what they please.

use crate::arch;
use probity_debuginfo::dwarf::{AtEntry, Class, Dwarf, Function};
use probity_ir::{Location, Space};

/// DWARF numbers of the first vector register; those before are general ones.
const FIRST_VECTOR: u16 = 17;
/// Vector registers that take arguments.
const VECTORS: usize = 8;
/// The largest aggregate that is passed in registers.
const IN_REGISTERS: u64 = 16;

/// How far the registers and the stack are used up.
#[derive(Clone, Copy, Default)]
struct Used {
    registers: usize,
    vectors: usize,
    stack: u64,
}

/// Where the parameters of a function are at its entry, those that are declared and `more` words after them.
pub(crate) struct Places {
    /// The declared ones.
    pub params: Vec<Location>,
    /// What follows them: further arguments, as whole words.
    pub more: Vec<Location>,
}

fn narrow(of: Location, size: u8, signed: bool) -> Location {
    match size {
        1 | 2 | 4 => Location::Narrow { of: Box::new(of), size, signed },
        _ => of,
    }
}

fn on_stack(offset: u64, size: u8, signed: bool) -> Location {
    let base = Box::new(Location::Reg { dwarf: arch::STACK_POINTER });
    let offset = arch::STACK_ARGUMENTS + offset as i64;
    Location::Memory { base, offset, size: size.max(1), signed, space: Space::User }
}

fn address_on_stack(offset: u64) -> Location {
    let base = Box::new(Location::Reg { dwarf: arch::STACK_POINTER });
    Location::Address { base, offset: arch::STACK_ARGUMENTS + offset as i64, space: Space::User }
}

fn is_float(name: &str) -> Location {
    let name = if name.is_empty() { "it" } else { name };
    Location::None(format!("{name} is floating-point, in a register that is not readable in this version"))
}

impl Used {
    fn slot(&mut self, size: u64) -> u64 {
        let at = self.stack;
        self.stack = self.stack.saturating_add(size.next_multiple_of(8));
        at
    }

    /// The place of the next argument by the convention.
    fn next(&mut self, class: Class, name: &str) -> Location {
        match class {
            Class::Int { size, signed } => match arch::ARGUMENTS.get(self.registers) {
                Some(&dwarf) => {
                    self.registers += 1;
                    narrow(Location::Reg { dwarf }, size, signed)
                }
                None => on_stack(self.slot(8), size, signed),
            },
            Class::Float => {
                if self.vectors < VECTORS {
                    self.vectors += 1;
                } else {
                    self.slot(8);
                }
                is_float(name)
            }
            Class::Extended => {
                self.stack = self.stack.next_multiple_of(16);
                self.slot(16);
                is_float(name)
            }
            Class::Aggregate { size, float } => {
                let words = size.div_ceil(8) as usize;
                let vectors = float.iter().take(words).filter(|float| **float).count();
                let registers = words.saturating_sub(vectors);
                let fits = size <= IN_REGISTERS
                    && self.registers + registers <= arch::ARGUMENTS.len()
                    && self.vectors + vectors <= VECTORS;
                if !fits {
                    return address_on_stack(self.slot(size));
                }
                self.registers += registers;
                self.vectors += vectors;
                Location::None(format!("{name} is a structure of {size} bytes that is passed in registers"))
            }
        }
    }
}

/// Finds the places of a function's parameters.
pub(crate) fn places(dwarf: &Dwarf, function: &Function, more: usize) -> Places {
    let mut used = Used::default();
    // A large result is written where the caller says, in the first register.
    let ret = function.ret.and_then(|die| dwarf.class(die));
    if matches!(ret, Some(Class::Aggregate { size, .. }) if size > IN_REGISTERS) {
        used.registers = 1;
    }
    let changed = function.params.iter().any(|param| param.at_entry == AtEntry::Removed);
    let params = function.params.iter().map(|param| {
        let class = param.ty.and_then(|die| dwarf.class(die));
        let Some(class) = class else { return Location::None(format!("the type of {} is not known", param.name)) };
        if param.at_entry == AtEntry::Removed {
            let why = format!("the compiler has removed {} from this copy of the function", param.name);
            return Location::None(why);
        }
        let by_convention = used.next(class, &param.name);
        let Class::Int { size, signed } = class else { return by_convention };
        match param.at_entry {
            AtEntry::Register(dwarf) if dwarf < FIRST_VECTOR => narrow(Location::Reg { dwarf }, size, signed),
            AtEntry::Stack(offset) => on_stack(offset, size, signed),
            AtEntry::Constant(value) => Location::Value(value),
            AtEntry::Register(_) | AtEntry::Elsewhere | AtEntry::Removed => {
                Location::None(format!("the compiler keeps {} where this version cannot read it", param.name))
            }
            AtEntry::Convention if changed => Location::None(format!(
                "the compiler has changed how {} is passed in this copy of the function",
                param.name
            )),
            AtEntry::Convention => by_convention,
        }
    });
    let params: Vec<Location> = params.collect();
    let word = Class::Int { size: 8, signed: false };
    let more = (params.len()..more).map(|_| used.next(word, "")).collect();
    Places { params, more }
}

/// Where a function's result is when it has returned; none for `void`.
pub(crate) fn result(dwarf: &Dwarf, function: &Function) -> Option<Location> {
    let register = Location::Reg { dwarf: arch::RESULT };
    Some(match dwarf.class(function.ret?)? {
        Class::Int { size, signed } => narrow(register, size, signed),
        Class::Float | Class::Extended => is_float("the result"),
        // The address of a large one is returned too.
        Class::Aggregate { size, .. } if size > IN_REGISTERS => {
            Location::Address { base: Box::new(register), offset: 0, space: Space::User }
        }
        Class::Aggregate { size, .. } => {
            Location::None(format!("the result is a structure of {size} bytes that is returned in registers"))
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const INT: Class = Class::Int { size: 4, signed: true };
    const LONG: Class = Class::Int { size: 8, signed: true };

    fn all(classes: &[Class]) -> Vec<Location> {
        let mut used = Used::default();
        classes.iter().map(|class| used.next(*class, "x")).collect()
    }

    #[test]
    fn floating_point_takes_no_general_register() {
        let places = all(&[Class::Float, INT, Class::Float, LONG]);
        assert!(matches!(places[0], Location::None(_)));
        assert_eq!(places[1], narrow(Location::Reg { dwarf: 5 }, 4, true));
        assert_eq!(places[3], Location::Reg { dwarf: 4 });
    }

    #[test]
    fn the_seventh_is_on_the_stack_as_wide_as_it_is() {
        let places = all(&[INT; 8]);
        assert_eq!(places[6], on_stack(0, 4, true));
        assert_eq!(places[7], on_stack(8, 4, true));
    }

    #[test]
    fn structures_go_where_they_fit() {
        let two = Class::Aggregate { size: 16, float: [false; 2] };
        let mixed = Class::Aggregate { size: 16, float: [true, false] };
        let big = Class::Aggregate { size: 40, float: [false; 2] };
        let places = all(&[big, two, mixed, INT, two, two, INT]);
        assert_eq!(places[0], address_on_stack(0));
        // di si, dx, cx; then r8 r9; then two words more than there are: all of it on the stack.
        assert_eq!(places[3], narrow(Location::Reg { dwarf: 2 }, 4, true));
        assert!(matches!(places[4], Location::None(_)));
        assert_eq!(places[5], address_on_stack(40));
        assert_eq!(places[6], on_stack(56, 4, true));
    }
}
