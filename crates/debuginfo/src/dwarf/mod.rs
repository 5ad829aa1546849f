//! DWARF: what a program's debugging information says about its functions and types.
//!
//! Owns the sections of one file and its units, and finding functions by address and types by name. Units are parsed when a
//! question leads to them. `find` looks for the file that has the information; `types` makes the compiler's types; `function`
//! reads signatures. Leaves out calling conventions (`providers`) and everything that is not known at a function's entry.

mod find;
mod function;
mod types;

pub use find::{companions, crc32};
pub use function::{AtEntry, Function, Param};
pub use types::Class;

use crate::elf::Elf;
use crate::error::{Error, Kind, Result};
use gimli::{
    AttributeValue, DW_AT_declaration, DW_AT_high_pc, DW_AT_low_pc, DW_AT_name, DwTag, EndianArcSlice, RunTimeEndian,
};
use std::sync::{Arc, OnceLock};

type Reader = EndianArcSlice<RunTimeEndian>;
type Entry = gimli::DebuggingInformationEntry<Reader>;
type Unit = gimli::Unit<Reader>;

/// How deep namespaces and types may nest, and how long chains of references may be; real ones do not come near.
const DEPTH: u32 = 64;

/// The largest section that is decompressed.
const LARGEST: u64 = 4 << 30;

/// An entry of a file's debugging information: its offset in `.debug_info`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Die(pub u64);

/// The debugging information of one file.
pub struct Dwarf {
    sections: gimli::Dwarf<Reader>,
    /// In the order of their offsets.
    units: Vec<LazyUnit>,
}

struct LazyUnit {
    start: u64,
    header: gimli::UnitHeader<Reader>,
    unit: OnceLock<Option<Unit>>,
    /// Addresses of functions with their entries, sorted.
    functions: OnceLock<Vec<(u64, Die)>>,
}

/// Turns a reader's error into ours.
fn bad(error: gimli::Error) -> Error {
    Error::malformed(format!("debugging information: {error}"))
}

impl Dwarf {
    /// Reads the debugging information that a file itself has; `None` if it has none.
    ///
    /// # Errors
    /// Sections that are out of the file or cannot be decompressed, and malformed unit headers.
    pub fn of(elf: &Elf) -> Result<Option<Dwarf>> {
        if elf.section(".debug_info").is_none() {
            return Ok(None);
        }
        let endian = RunTimeEndian::Little;
        let sections = gimli::Dwarf::load(|id| -> Result<Reader> {
            let bytes = match elf.section(id.name()) {
                Some(section) => elf.decompressed(section, LARGEST)?.into_owned(),
                None => Vec::new(),
            };
            Ok(EndianArcSlice::new(Arc::from(bytes), endian))
        })?;
        let mut units = Vec::new();
        let mut headers = sections.units();
        while let Some(header) = headers.next().map_err(bad)? {
            let Some(offset) = header.debug_info_offset() else { continue };
            let (unit, functions) = (OnceLock::new(), OnceLock::new());
            units.push(LazyUnit { start: offset.0 as u64, header, unit, functions });
        }
        Ok((!units.is_empty()).then_some(Dwarf { sections, units }))
    }

    fn unit<'a>(&'a self, lazy: &'a LazyUnit) -> Option<&'a Unit> {
        // What cannot be parsed is as if it were not there; others may be all right.
        lazy.unit.get_or_init(|| self.sections.unit(lazy.header.clone()).ok()).as_ref()
    }

    /// An entry with the unit it is in.
    fn entry(&self, die: Die) -> Result<(&Unit, Entry)> {
        let missing = || Error::malformed(format!("debugging information: no entry at {:#x}", die.0));
        let index = self.units.partition_point(|unit| unit.start <= die.0).checked_sub(1).ok_or_else(missing)?;
        let lazy = &self.units[index];
        let unit = self.unit(lazy).ok_or_else(missing)?;
        let offset = gimli::UnitOffset((die.0 - lazy.start) as usize);
        if !offset.is_in_bounds(&unit.header) {
            return Err(missing());
        }
        Ok((unit, unit.entry(offset).map_err(bad)?))
    }

    /// The entry's place in the file.
    fn die(&self, unit: &Unit, offset: gimli::UnitOffset) -> Option<Die> {
        Some(Die(offset.to_unit_section_offset(&unit.header).to_debug_info_offset(&unit.header)?.0 as u64))
    }

    /// What an attribute refers to.
    fn reference(&self, unit: &Unit, value: AttributeValue<Reader>) -> Result<Die> {
        let unknown = || Error::new(Kind::Unsupported, "debugging information refers to another file");
        match value {
            AttributeValue::UnitRef(offset) => self.die(unit, offset).ok_or_else(unknown),
            AttributeValue::DebugInfoRef(offset) => Ok(Die(offset.0 as u64)),
            AttributeValue::DebugTypesRef(signature) => self.type_unit(signature).ok_or_else(unknown),
            _ => Err(unknown()),
        }
    }

    /// The type that a type unit is about.
    fn type_unit(&self, wanted: gimli::DebugTypeSignature) -> Option<Die> {
        let lazy = self.units.iter().find(|lazy| {
            matches!(lazy.header.type_(), gimli::UnitType::Type { type_signature, .. } if type_signature == wanted)
        })?;
        match lazy.header.type_() {
            gimli::UnitType::Type { type_offset, .. } => Some(Die(lazy.start + type_offset.0 as u64)),
            _ => None,
        }
    }

    fn name(&self, unit: &Unit, entry: &Entry) -> Option<String> {
        let value = entry.attr_value(DW_AT_name)?;
        let text = self.sections.attr_string(unit, value).ok()?;
        Some(String::from_utf8_lossy(&text).into_owned())
    }

    /// Finds the function that starts at an address (before the load bias).
    pub fn function_at(&self, vaddr: u64) -> Option<Die> {
        self.units.iter().find_map(|lazy| {
            let unit = self.unit(lazy)?;
            if !self.may_hold(unit, vaddr) {
                return None;
            }
            let functions = lazy.functions.get_or_init(|| self.functions_of(unit));
            let at = functions.binary_search_by_key(&vaddr, |function| function.0).ok()?;
            Some(functions[at].1)
        })
    }

    /// Whether an address can be in a unit: it is, or the unit does not say.
    fn may_hold(&self, unit: &Unit, vaddr: u64) -> bool {
        let Ok(mut ranges) = self.sections.unit_ranges(unit) else { return true };
        let mut any = false;
        while let Ok(Some(range)) = ranges.next() {
            if (range.begin..range.end).contains(&vaddr) {
                return true;
            }
            any = true;
        }
        !any
    }

    fn functions_of(&self, unit: &Unit) -> Vec<(u64, Die)> {
        let mut all = Vec::new();
        let mut entries = unit.entries();
        // An entry that cannot be read ends the walk; what was found stays.
        while let Ok(true) = entries.next_entry() {
            let Some(entry) = entries.current() else { continue };
            if entry.tag() != gimli::DW_TAG_subprogram
                || !entry.has_attr(DW_AT_high_pc) && !entry.has_attr(gimli::DW_AT_ranges)
            {
                continue;
            }
            let low = entry.attr_value(DW_AT_low_pc).or_else(|| entry.attr_value(gimli::DW_AT_entry_pc));
            let low = match low {
                Some(value) => self.sections.attr_address(unit, value).ok().flatten(),
                // A function in two parts begins with the first.
                None => {
                    self.sections.die_ranges(unit, entry).ok().and_then(|mut ranges| Some(ranges.next().ok()??.begin))
                }
            };
            if let (Some(low), Some(die)) = (low, self.die(unit, entry.offset())) {
                all.push((low, die));
            }
        }
        all.sort_unstable();
        all.dedup_by_key(|function| function.0);
        all
    }

    /// Finds the definition of a struct, union, enum (by keyword and tag), or of a typedef or base type (with the keyword `typedef`).
    pub fn named(&self, keyword: &str, name: &str) -> Option<Die> {
        let wanted: &[DwTag] = match keyword {
            "struct" => &[gimli::DW_TAG_structure_type, gimli::DW_TAG_class_type],
            "union" => &[gimli::DW_TAG_union_type],
            "enum" => &[gimli::DW_TAG_enumeration_type],
            _ => &[gimli::DW_TAG_typedef, gimli::DW_TAG_base_type],
        };
        self.units.iter().find_map(|lazy| {
            let unit = self.unit(lazy)?;
            let mut tree = unit.entries_tree(None).ok()?;
            self.named_in(unit, tree.root().ok()?, wanted, name, 0)
        })
    }

    fn named_in(
        &self,
        unit: &Unit,
        node: gimli::EntriesTreeNode<'_, '_, Reader>,
        wanted: &[DwTag],
        name: &str,
        depth: u32,
    ) -> Option<Die> {
        let mut children = node.children();
        while let Ok(Some(child)) = children.next() {
            let entry = child.entry();
            let tag = entry.tag();
            if wanted.contains(&tag) && !entry.has_attr(DW_AT_declaration) && self.is_named(unit, entry, name) {
                return self.die(unit, entry.offset());
            }
            if tag == gimli::DW_TAG_namespace
                && depth < DEPTH
                && let Some(found) = self.named_in(unit, child, wanted, name, depth + 1)
            {
                return Some(found);
            }
        }
        None
    }

    fn is_named(&self, unit: &Unit, entry: &Entry, name: &str) -> bool {
        let value = entry.attr_value(DW_AT_name);
        let text = value.and_then(|value| self.sections.attr_string(unit, value).ok());
        text.is_some_and(|text| &*text == name.as_bytes())
    }
}

/// Runs the reader over arbitrary bytes.
pub fn fuzz_one(data: &[u8]) {
    let Ok(elf) = Elf::parse(data.to_vec()) else { return };
    let Ok(Some(dwarf)) = Dwarf::of(&elf) else { return };
    let mut hints = 0u32;
    let mut dies: Vec<Die> = Vec::new();
    for lazy in dwarf.units.iter().take(4) {
        let Some(unit) = dwarf.unit(lazy) else { continue };
        dies.extend(dwarf.functions_of(unit).into_iter().take(16).map(|function| function.1));
        dies.extend((0..64).map(|n| Die(lazy.start + n)));
    }
    dies.extend(["struct", "union", "enum", "typedef"].into_iter().filter_map(|keyword| dwarf.named(keyword, "s")));
    for die in dies {
        let mut types = probity_ir::TypeTable::default();
        let mut hint = |_| {
            hints += 1;
            hints
        };
        let _ = (dwarf.function(die, 0), dwarf.class(die));
        let _ = dwarf.import(die, &mut types, &mut hint);
        let kind = dwarf.definition(die, &mut types, &mut hint);
        drop(kind);
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
