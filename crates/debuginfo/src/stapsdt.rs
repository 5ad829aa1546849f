//! `.note.stapsdt`: the probes that programs and libraries declare (USDT), as their notes describe them.
//!
//! Reads the notes and adjusts their addresses for prelinked files. Leaves out parsing the arguments' assembler text.

use crate::elf::{Elf, each_note};
use crate::error::{Error, Result};
use crate::reader::{cstr_at, u32_at, u64_at};

/// A probe's place in a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Usdt {
    /// The provider.
    pub provider: String,
    /// The probe's name.
    pub name: String,
    /// The address of the instruction, before the load bias.
    pub vaddr: u64,
    /// Its offset in the file: what uprobes take.
    pub offset: u64,
    /// The counter that switches the probe on.
    pub semaphore: Semaphore,
    /// The arguments as the assembler wrote them, such as `-4@%edi 8@-8(%rbp)`.
    pub arguments: String,
}

/// The counter that a program asks whether a probe is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Semaphore {
    /// The probe is always on.
    None,
    /// At this file offset, which may lie beyond the file's end in the page that its last data share with what begins as zeros.
    At(u64),
    /// In memory that is not the file's: the kernel cannot count there.
    OutOfReach,
}

const TYPE: u32 = 3;

/// The size of a page of memory.
const PAGE: u64 = 4096;

/// The probes that a file declares, in the order of its notes. One probe may have many places.
///
/// # Errors
/// A note that is cut short, or a place that is not in the file.
pub fn probes(elf: &Elf) -> Result<Vec<Usdt>> {
    let Some(section) = elf.section(".note.stapsdt") else { return Ok(Vec::new()) };
    let base = elf.section(".stapsdt.base").map(|base| base.vaddr);
    let notes = elf.contents(section)?;
    let mut probes = Vec::new();
    let mut failed = None;
    let mut index = 0;
    each_note(&notes, &mut |note| {
        index += 1;
        if note.owner != b"stapsdt" || note.kind != TYPE || failed.is_some() {
            return;
        }
        match probe(elf, base, note.contents) {
            Some(probe) => probes.push(probe),
            None => failed = Some(index),
        }
    });
    match failed {
        None => Ok(probes),
        Some(index) => Err(Error::malformed(format!(
            "note {index} of .note.stapsdt is cut short, or its place is not in the file"
        ))),
    }
}

fn probe(elf: &Elf, base: Option<u64>, desc: &[u8]) -> Option<Usdt> {
    let width = if elf.is_64() { 8 } else { 4 };
    let word = |index: usize| match width {
        8 => u64_at(desc, 8 * index),
        _ => u32_at(desc, 4 * index).map(u64::from),
    };
    let (pc, link_base, semaphore) = (word(0)?, word(1)?, word(2)?);
    // What prelink moved, it moved the base section by as well.
    let moved = base.map_or(0, |base| base.wrapping_sub(link_base));
    let mut at = 3 * width;
    let mut string = || {
        let text = cstr_at(desc, at)?;
        at += text.len() + 1;
        Some(String::from_utf8_lossy(text).into_owned())
    };
    let (provider, name, arguments) = (string()?, string()?, string()?);
    let vaddr = pc.wrapping_add(moved);
    let semaphore = match semaphore {
        0 => Semaphore::None,
        address => counter(elf, address.wrapping_add(moved)),
    };
    Some(Usdt { provider, name, vaddr, offset: elf.offset_of_vaddr(vaddr)?, semaphore, arguments })
}

fn counter(elf: &Elf, vaddr: u64) -> Semaphore {
    let found = elf.segments().iter().filter(|segment| segment.is_loaded()).find_map(|segment| {
        let inside = vaddr.checked_sub(segment.vaddr).filter(|&inside| inside < segment.mem_size)?;
        let offset = segment.offset.checked_add(inside)?;
        let mapped = segment.offset.checked_add(segment.file_size)?.checked_next_multiple_of(PAGE)?;
        (offset < mapped).then_some(offset)
    });
    found.map_or(Semaphore::OutOfReach, Semaphore::At)
}

/// Runs the reader over arbitrary bytes.
pub fn fuzz_one(data: &[u8]) {
    if let Ok(elf) = Elf::parse(data.to_vec()) {
        let _ = probes(&elf);
    }
}

#[cfg(test)]
#[path = "stapsdt_tests.rs"]
mod tests;
