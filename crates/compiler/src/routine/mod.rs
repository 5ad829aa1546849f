//! Subroutines: what they mean (`meaning`, `json`), and their code (`code` says how routines are written; the others by family).

mod address;
mod code;
mod find;
mod json;
mod kernel;
pub mod meaning;
mod number;
mod path;
mod piece;
mod words;

pub use code::{A, CAP, OPERAND, RESULT, Routine, Status};
use probity_bpf::asm::Asm;
use probity_ir::Sub;

impl Routine {
    /// The routine for a subroutine, with buffers of `size` bytes at least; `None` where the code is in line.
    pub fn new(sub: Sub, size: u32) -> Option<Routine> {
        main_of(sub)?;
        // A path is made from its end on: all of it must have room (PATH_MAX), whatever will be left of it.
        let least = if sub == Sub::Path { 4096 } else { 128 };
        Some(Routine { sub, size: size.max(least).next_power_of_two() })
    }

    /// Appends its code.
    pub fn write(self, asm: &mut Asm) {
        if let Some(main) = main_of(self.sub) {
            code::Code::write(asm, self, main);
        }
    }
}

fn main_of(sub: Sub) -> Option<code::Body> {
    Some(match sub {
        Sub::Index | Sub::Rindex | Sub::Strstr => find::string,
        Sub::Strchr | Sub::Strrchr => find::byte,
        Sub::Basename | Sub::Dirname => path::split,
        Sub::Cleanpath => path::clean,
        Sub::Upper | Sub::Lower => path::case,
        Sub::Strip => path::strip,
        Sub::Substr => piece::substr,
        Sub::Token | Sub::Rest => piece::token,
        Sub::Digits => number::digits,
        Sub::Number => number::parse,
        Sub::Ip4 => address::ip4,
        Sub::Ip6 => address::ip6,
        Sub::Words => words::words,
        Sub::Mac => address::mac,
        Sub::Json => json::routine,
        Sub::Progeny => kernel::progeny,
        Sub::Path => kernel::path,
        Sub::Swap2 | Sub::Swap4 | Sub::Swap8 | Sub::Random | Sub::Illegal => return None,
    })
}

#[cfg(test)]
mod tests;
