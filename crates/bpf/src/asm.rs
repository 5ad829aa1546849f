//! The assembler: instructions in order, jumps to labels, source line tags.
//!
//! It resolves distances and nothing else; whether the result is a sensible program is for `check`. Far jumps are an
//! error, not a trampoline: a conditional jump over more than 32,767 slots has no form before kernel 6.6 (`gotol`),
//! and a program of that size is better split by the compiler, which knows where.

use crate::insn::{Cond, Insn, Reg, Src, Width};
use std::fmt;

/// A place in the program, known by number before it is known by slot.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct Label(u32);

/// What an assembly ends in.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Assembled {
    /// The instructions, every distance filled in.
    pub insns: Vec<Insn>,
    /// From this slot on, this tag; ascending slots, no tag twice in a row.
    pub lines: Vec<(u32, u32)>,
}

/// Why labels could not be resolved.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AsmError {
    /// A jump to a label that was never bound.
    Unbound {
        /// The label.
        label: Label,
        /// The slot of the jump.
        slot: u32,
    },
    /// A label bound twice.
    BoundTwice {
        /// The label.
        label: Label,
    },
    /// A jump further than its offset field holds.
    TooFar {
        /// The slot of the jump.
        slot: u32,
        /// The slot it should reach.
        target: u32,
    },
}

impl fmt::Display for AsmError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AsmError::Unbound { label, slot } => write!(f, "slot {slot}: label {} is not bound", label.0),
            AsmError::BoundTwice { label } => write!(f, "label {} is bound twice", label.0),
            AsmError::TooFar { slot, target } => {
                write!(f, "slot {slot}: slot {target} is too far for one jump (32767 slots)")
            }
        }
    }
}

impl std::error::Error for AsmError {}

/// Where the distance to a label goes.
#[derive(Clone, Copy, Debug)]
enum Field {
    Off,
    Imm,
}

/// A program in the making.
#[derive(Clone, Debug, Default)]
pub struct Asm {
    insns: Vec<Insn>,
    lines: Vec<(u32, u32)>,
    labels: Vec<Option<u32>>,
    fixups: Vec<(u32, Label, Field)>,
    bound_twice: Option<Label>,
}

impl Asm {
    /// An empty program.
    #[must_use]
    pub fn new() -> Asm {
        Asm::default()
    }

    /// The slot that the next instruction takes.
    #[must_use]
    pub fn slot(&self) -> u32 {
        self.insns.len() as u32
    }

    /// Appends one instruction, or the two slots of a wide one.
    pub fn emit(&mut self, insn: impl AsRef<[Insn]>) {
        self.insns.extend_from_slice(insn.as_ref());
    }

    /// Makes a label that is not yet anywhere.
    pub fn label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len() as u32 - 1)
    }

    /// Puts the label at the next slot.
    pub fn bind(&mut self, label: Label) {
        let slot = self.slot();
        // A label of another Asm is out of range here; it stays unbound, which finish() reports.
        if let Some(place) = self.labels.get_mut(label.0 as usize)
            && place.replace(slot).is_some()
        {
            self.bound_twice.get_or_insert(label);
        }
    }

    /// Makes a label at the next slot.
    pub fn here(&mut self) -> Label {
        let label = self.label();
        self.bind(label);
        label
    }

    /// Says that the instructions from here on come from the source line with this tag.
    pub fn line(&mut self, tag: u32) {
        let slot = self.slot();
        match self.lines.last_mut() {
            Some(last) if last.0 == slot => last.1 = tag,
            Some(last) if last.1 == tag => {}
            _ => self.lines.push((slot, tag)),
        }
    }

    fn fixup(&mut self, label: Label, field: Field) {
        self.fixups.push((self.slot(), label, field));
    }

    /// Jumps to the label when `dst cond src` holds.
    pub fn jmp(&mut self, cond: Cond, width: Width, dst: Reg, src: impl Into<Src>, label: Label) {
        self.fixup(label, Field::Off);
        self.emit(Insn::jmp(cond, width, dst, src, 0));
    }

    /// Jumps to the label when `dst cond src` holds, 64 bits.
    pub fn jmp64(&mut self, cond: Cond, dst: Reg, src: impl Into<Src>, label: Label) {
        self.jmp(cond, Width::W64, dst, src, label);
    }

    /// Jumps to the label.
    pub fn ja(&mut self, label: Label) {
        self.fixup(label, Field::Off);
        self.emit(Insn::ja(0));
    }

    /// Calls the subprogram at the label.
    pub fn call_sub(&mut self, label: Label) {
        self.fixup(label, Field::Imm);
        self.emit(Insn::call_sub(0));
    }

    /// Loads the address of the subprogram at the label, for helpers that take a callback.
    pub fn ld_func(&mut self, dst: Reg, label: Label) {
        self.fixup(label, Field::Imm);
        self.emit(Insn::ld_func(dst, 0));
    }

    /// Resolves every label.
    ///
    /// # Errors
    /// A label is unbound, bound twice, or too far from a jump.
    pub fn finish(self) -> Result<Assembled, AsmError> {
        let Asm { mut insns, mut lines, labels, fixups, bound_twice } = self;
        if let Some(label) = bound_twice {
            return Err(AsmError::BoundTwice { label });
        }
        for (slot, label, field) in fixups {
            let Some(target) = labels.get(label.0 as usize).copied().flatten() else {
                return Err(AsmError::Unbound { label, slot });
            };
            // Offsets count from the slot after the first slot, for wide instructions too.
            let distance = i64::from(target) - i64::from(slot) - 1;
            let insn = &mut insns[slot as usize];
            match field {
                Field::Off => {
                    insn.off = i16::try_from(distance).map_err(|_| AsmError::TooFar { slot, target })?;
                }
                Field::Imm => {
                    insn.imm = i32::try_from(distance).map_err(|_| AsmError::TooFar { slot, target })?;
                }
            }
        }
        // The kernel refuses line info past the end of the program.
        lines.retain(|&(slot, _)| (slot as usize) < insns.len());
        Ok(Assembled { insns, lines })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::insn::{R0, R1};

    #[test]
    fn jumps_reach_their_labels_both_ways() {
        let mut a = Asm::new();
        let (top, done) = (a.label(), a.label());
        a.emit(Insn::mov64(R0, 0));
        a.bind(top);
        a.jmp64(Cond::Eq, R1, 0, done);
        a.emit(Insn::ld_imm64(R0, 1 << 40));
        a.ja(top);
        a.bind(done);
        a.emit(Insn::exit());
        let out = a.finish().unwrap();
        assert_eq!(out.insns.len(), 6);
        assert_eq!(out.insns[1].off, 3);
        assert_eq!(out.insns[4].off, -4);
    }

    #[test]
    fn calls_and_function_addresses_count_from_the_first_slot() {
        let mut a = Asm::new();
        let sub = a.label();
        a.call_sub(sub);
        a.ld_func(R1, sub);
        a.emit(Insn::exit());
        a.bind(sub);
        a.emit(Insn::exit());
        let out = a.finish().unwrap();
        assert_eq!(out.insns[0].imm, 3);
        assert_eq!(out.insns[1].imm, 2);
    }

    #[test]
    fn wrong_labels_are_errors() {
        let mut a = Asm::new();
        let label = a.label();
        a.ja(label);
        assert_eq!(a.clone().finish(), Err(AsmError::Unbound { label, slot: 0 }));
        a.bind(label);
        a.bind(label);
        assert_eq!(a.finish(), Err(AsmError::BoundTwice { label }));
    }

    #[test]
    fn the_farthest_jump_is_32767_slots() {
        for (filler, fits) in [(32_767, true), (32_768, false)] {
            let mut a = Asm::new();
            let label = a.label();
            a.ja(label);
            for _ in 0..filler {
                a.emit(Insn::mov64(R0, 0));
            }
            a.bind(label);
            a.emit(Insn::exit());
            assert_eq!(a.finish().is_ok(), fits);
        }
    }

    #[test]
    fn line_tags_are_merged() {
        let mut a = Asm::new();
        a.line(7);
        a.line(8);
        a.emit(Insn::mov64(R0, 0));
        a.line(8);
        a.emit(Insn::exit());
        a.line(9);
        assert_eq!(a.finish().unwrap().lines, [(0, 8)]);
    }
}
