//! ELF executables and libraries: functions with their file offsets, what a file needs and is, its code's boundaries.
//!
//! A function is found by walking the symbol table, not by building one; the names are those of the dynamic linker, with
//! `@VERSION` only where a version is not the default. Leaves out DWARF, relocations and compressed symbol tables
//! (`.gnu_debugdata`), and files without section headers have no functions here.

use crate::elf_image::Image;
pub use crate::elf_image::{Section, Segment};
use crate::error::{Error, Kind, Result};
use crate::reader::{array, cstr_at, u16_at, u32_at, u64_at};
use crate::x86_len;
use object::elf;
use std::borrow::Cow;
use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

/// An ELF executable or library.
pub struct Elf {
    image: Image,
}

/// How far a symbol can be seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Binding {
    /// In its own object file only; several functions may share a local name.
    Local,
    /// Everywhere, unless another file defines it too.
    Weak,
    /// Everywhere.
    Global,
}

/// A function that the file defines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Func {
    /// Its address, before the load bias.
    pub vaddr: u64,
    /// Its offset in the file: what uprobes take.
    pub offset: u64,
    /// Its size in bytes; 0 where hand-written assembly does not say.
    pub size: u64,
    /// Whether the address is not the function's but that of a resolver, which is called once to choose an implementation
    /// (`memcpy`, `strlen`, … of glibc).
    pub ifunc: bool,
    /// How far the symbol can be seen.
    pub binding: Binding,
}

/// A table of symbols, read whole.
struct Symbols<'a> {
    symbols: Cow<'a, [u8]>,
    strings: Cow<'a, [u8]>,
    /// Version indexes, one for each symbol, of the dynamic table.
    versions: Cow<'a, [u8]>,
    /// The names of the versions that the file defines.
    names: Vec<(u16, String)>,
    wide: bool,
}

struct Symbol {
    name: usize,
    info: u8,
    section: u16,
    value: u64,
    size: u64,
    /// The version's index if the dynamic linker does not choose this symbol for the plain name.
    hidden: Option<u16>,
}

/// Hides a version from the plain name, in `.gnu.version`.
const HIDDEN: u16 = 0x8000;

impl Elf {
    /// Opens a file and reads its headers.
    ///
    /// # Errors
    /// The file cannot be read, is not ELF, is of a big-endian machine, or has headers that point out of it.
    pub fn open(path: impl AsRef<Path>) -> Result<Elf> {
        Ok(Elf { image: Image::open(path.as_ref())? })
    }

    /// Reads a file's bytes.
    pub fn parse(bytes: Vec<u8>) -> Result<Elf> {
        Ok(Elf { image: Image::parse(bytes)? })
    }

    /// `EM_*`: the machine.
    pub fn machine(&self) -> u16 {
        self.image.machine
    }

    /// Whether addresses are of 64 bits.
    pub fn is_64(&self) -> bool {
        self.image.wide
    }

    /// `ET_*`: the sort of file.
    pub fn kind(&self) -> u16 {
        self.image.kind
    }

    /// Whether it is loaded at an address that is chosen at run time (libraries and position-independent executables).
    pub fn is_pie(&self) -> bool {
        self.image.kind == elf::ET_DYN.0
    }

    /// The address where it starts, before the load bias.
    pub fn entry(&self) -> u64 {
        self.image.entry
    }

    /// Its segments.
    pub fn segments(&self) -> &[Segment] {
        &self.image.segments
    }

    /// Its sections.
    pub fn sections(&self) -> &[Section] {
        &self.image.sections
    }

    /// The section of this name.
    pub fn section(&self, name: &str) -> Option<&Section> {
        self.image.sections.iter().find(|section| section.name == name)
    }

    /// A section's contents; empty for those without bytes in the file.
    pub fn contents(&self, section: &Section) -> Result<Cow<'_, [u8]>> {
        self.image.contents(section)
    }

    /// The contents of a section, decompressed if need be. What they are said to become is believed up to `most` bytes.
    pub fn decompressed(&self, section: &Section, most: u64) -> Result<Cow<'_, [u8]>> {
        let contents = self.contents(section)?;
        if section.flags & elf::SHF_COMPRESSED.0 == 0 || !self.is_64() {
            return Ok(contents);
        }
        let bad = |what: &str| Error::malformed(format!("section {}: {what}", section.name));
        // struct Elf64_Chdr
        let kind = u32_at(&contents, 0).ok_or_else(|| bad("cut short"))?;
        let uncompressed_size = u64_at(&contents, 8).filter(|size| *size <= most).ok_or_else(|| bad("too large"))?;
        let data = contents.get(24..).ok_or_else(|| bad("cut short"))?;
        let format = match kind {
            1 => object::CompressionFormat::Zlib,
            2 => object::CompressionFormat::Zstandard,
            _ => {
                return Err(Error::new(
                    Kind::Unsupported,
                    format!("section {}: compressed in way {kind}", section.name),
                ));
            }
        };
        let data = object::CompressedData { format, data, uncompressed_size };
        let data = data.decompress().map_err(|error| bad(&error.to_string()))?;
        Ok(Cow::Owned(data.into_owned()))
    }

    /// `len` bytes of the file, starting at `offset`.
    pub fn bytes(&self, offset: u64, len: u64) -> Result<Cow<'_, [u8]>> {
        self.image.bytes(offset, len, "bytes")
    }

    /// The file offset of an address; `None` if the file does not hold the byte there.
    pub fn offset_of_vaddr(&self, vaddr: u64) -> Option<u64> {
        self.image.offset_of(vaddr).map(|(offset, _)| offset)
    }

    /// The address of a file offset; `None` if it is not loaded.
    pub fn vaddr_of_offset(&self, offset: u64) -> Option<u64> {
        self.image.segments.iter().filter(|segment| segment.kind == elf::PT_LOAD.0).find_map(|segment| {
            let inside = offset.checked_sub(segment.offset).filter(|&inside| inside < segment.file_size)?;
            segment.vaddr.checked_add(inside)
        })
    }

    /// Whether the file offset is in code, where a probe can be.
    pub fn is_code(&self, offset: u64) -> bool {
        self.image.segments.iter().any(|segment| {
            segment.kind == elf::PT_LOAD.0
                && segment.flags & elf::PF_X.0 != 0
                && offset.checked_sub(segment.offset).is_some_and(|inside| inside < segment.file_size)
        })
    }

    /// Calls `found` for every function that the file defines, with its name. A function with several names is found
    /// once for each ([`Func::offset`] tells them apart); a name in both symbol tables is found once.
    pub fn functions(&self, found: &mut dyn FnMut(&str, Func)) -> Result<()> {
        self.functions_by(self, found)
    }

    /// As [`Elf::functions`], with the names of a separate debug file and the addresses' places of this one.
    pub fn functions_by(&self, debug: &Elf, found: &mut dyn FnMut(&str, Func)) -> Result<()> {
        self.linked()?;
        let dynamic = debug.symbols(elf::SHT_DYNSYM.0)?;
        let Some(full) = debug.symbols(elf::SHT_SYMTAB.0)? else {
            if let Some(dynamic) = dynamic {
                self.walk(&dynamic, |name, func| found(&name(), func));
            }
            return Ok(());
        };
        // The dynamic table repeats the full one's global names; what it has beside them is rare, and the smaller table to keep.
        let key = |name: &str, func: Func| {
            let mut hasher = DefaultHasher::new();
            (name, func.vaddr).hash(&mut hasher);
            hasher.finish()
        };
        let mut seen = HashSet::new();
        if let Some(dynamic) = &dynamic {
            self.walk(dynamic, |name, func| {
                seen.insert(key(&name(), func));
            });
        }
        self.walk(&full, |name, func| {
            let name = name();
            seen.remove(&key(&name, func));
            found(&name, func);
        });
        if let (Some(dynamic), false) = (dynamic, seen.is_empty()) {
            self.walk(&dynamic, |name, func| {
                let name = name();
                if seen.contains(&key(&name, func)) {
                    found(&name, func);
                }
            });
        }
        Ok(())
    }

    /// Finds a function by its exact name: the one that the dynamic linker would, else a local one.
    pub fn function(&self, name: &str) -> Result<Option<Func>> {
        self.linked()?;
        let mut best: Option<Func> = None;
        for table in [elf::SHT_DYNSYM.0, elf::SHT_SYMTAB.0] {
            let Some(symbols) = self.symbols(table)? else { continue };
            symbols.each(|symbol| {
                if symbols.is_named(symbol, name)
                    && let Some(func) = self.func(symbol)
                    && best.is_none_or(|best| func.binding > best.binding)
                {
                    best = Some(func);
                }
                match best {
                    Some(Func { binding: Binding::Global, .. }) => ControlFlow::Break(()),
                    _ => ControlFlow::Continue(()),
                }
            });
            if best.is_some_and(|best| best.binding == Binding::Global) {
                break;
            }
        }
        Ok(best)
    }

    /// The address of a function or an object by its exact name: the one that other files see, else a local one if all of that name are
    /// the same.
    pub fn address_of(&self, name: &str) -> Result<Option<u64>> {
        self.linked()?;
        let (mut seen, mut local): (Option<u64>, Vec<u64>) = (None, Vec::new());
        for table in [elf::SHT_DYNSYM.0, elf::SHT_SYMTAB.0] {
            let Some(symbols) = self.symbols(table)? else { continue };
            symbols.each(|symbol| {
                // Not those of other files, nor those whose value is an offset in a thread's memory, nor sections and files.
                let kind = symbol.info & 0xf;
                let code = kind == elf::STT_NOTYPE.0 || kind == elf::STT_OBJECT.0 || kind == elf::STT_FUNC.0;
                if symbol.section != 0 && symbol.section < elf::SHN_ABS.0 && code && symbols.is_named(symbol, name) {
                    match symbol.info >> 4 {
                        0 => local.push(symbol.value),
                        _ => seen = Some(symbol.value),
                    }
                }
                ControlFlow::Continue(())
            });
        }
        local.sort_unstable();
        local.dedup();
        Ok(seen.or(if local.len() == 1 { local.pop() } else { None }))
    }

    /// The names of all functions that start at this address.
    pub fn aliases(&self, vaddr: u64) -> Result<Vec<String>> {
        let mut names = Vec::new();
        self.functions(&mut |name, func| {
            if func.vaddr == vaddr {
                names.push(name.to_string());
            }
        })?;
        Ok(names)
    }

    /// The function that holds an address, with its name, and among aliases the one that is seen farthest.
    pub fn function_at(&self, vaddr: u64) -> Result<Option<(String, Func)>> {
        let mut best: Option<(String, Func)> = None;
        self.functions(&mut |name, func| {
            let holds = vaddr == func.vaddr || vaddr.checked_sub(func.vaddr).is_some_and(|inside| inside < func.size);
            if holds && best.as_ref().is_none_or(|(_, best)| func.binding > best.binding) {
                best = Some((name.to_string(), func));
            }
        })?;
        Ok(best)
    }

    /// Relocatable objects have no addresses yet, so no function of theirs can be probed.
    fn linked(&self) -> Result<()> {
        match self.image.kind == elf::ET_EXEC.0 || self.image.kind == elf::ET_DYN.0 {
            true => Ok(()),
            false => Err(Error::new(
                Kind::Unsupported,
                format!("neither an executable nor a shared library (ELF type {})", self.image.kind),
            )),
        }
    }

    fn symbols(&self, kind: u32) -> Result<Option<Symbols<'_>>> {
        let image = &self.image;
        let Some(section) = image.section_of_kind(kind) else { return Ok(None) };
        let strings = image.sections.get(section.link as usize).ok_or_else(|| {
            Error::malformed(format!(
                "section {} names section {} as its strings, which is not there",
                section.name, section.link
            ))
        })?;
        let mut symbols = Symbols {
            symbols: image.contents(section)?,
            strings: image.contents(strings)?,
            versions: Cow::Borrowed(&[]),
            names: Vec::new(),
            wide: image.wide,
        };
        if kind == elf::SHT_DYNSYM.0 {
            if let Some(section) = image.section_of_kind(elf::SHT_GNU_VERSYM.0) {
                symbols.versions = image.contents(section)?;
            }
            if let Some(section) = image.section_of_kind(elf::SHT_GNU_VERDEF.0) {
                symbols.names = version_names(&image.contents(section)?, &symbols.strings);
            }
        }
        Ok(Some(symbols))
    }

    fn walk(&self, symbols: &Symbols<'_>, mut found: impl FnMut(&dyn Fn() -> String, Func)) {
        symbols.each(|symbol| {
            if let Some(func) = self.func(symbol)
                && symbols.has_name(symbol)
            {
                found(&|| symbols.name(symbol), func);
            }
            ControlFlow::Continue(())
        });
    }

    /// The function that a symbol defines: code, of this file, at a place that the file holds.
    fn func(&self, symbol: &Symbol) -> Option<Func> {
        let kind = symbol.info & 0xf;
        let ifunc = kind == elf::STT_GNU_IFUNC.0;
        if symbol.section == 0 || !(ifunc || kind == elf::STT_FUNC.0) {
            return None;
        }
        let (offset, segment) = self.image.offset_of(symbol.value)?;
        if segment.flags & elf::PF_X.0 == 0 {
            return None;
        }
        let binding = match symbol.info >> 4 {
            0 => Binding::Local,
            2 => Binding::Weak,
            _ => Binding::Global,
        };
        Some(Func { vaddr: symbol.value, offset, size: symbol.size, ifunc, binding })
    }

    /// The build id: what ties a file to its debug information.
    pub fn build_id(&self) -> Option<Vec<u8>> {
        let mut id = None;
        self.notes(&mut |note| {
            if note.owner == b"GNU" && note.kind == elf::NT_GNU_BUILD_ID.0 && id.is_none() {
                id = Some(note.contents.to_vec());
            }
        });
        id
    }

    /// Where distributions put the separate debug file of this build id.
    pub fn debug_path(build_id: &[u8]) -> Option<PathBuf> {
        let hex: String = build_id.iter().map(|byte| format!("{byte:02x}")).collect();
        let (first, rest) = hex.split_at_checked(2).filter(|(_, rest)| !rest.is_empty())?;
        Some(PathBuf::from(format!("/usr/lib/debug/.build-id/{first}/{rest}.debug")))
    }

    /// Calls `found` with every note. Notes that are out of the file or cut short are left out.
    fn notes(&self, found: &mut dyn FnMut(Note<'_>)) {
        let segments = self.image.segments.iter().filter(|segment| segment.kind == elf::PT_NOTE.0);
        let sections = self.image.sections.iter().filter(|section| section.kind == elf::SHT_NOTE.0);
        let ranges = segments
            .map(|segment| (segment.offset, segment.file_size))
            .chain(sections.map(|section| (section.offset, section.size)));
        for (offset, len) in ranges {
            // Real notes are small; a range of megabytes is no note.
            if let Ok(bytes) = self.image.bytes(offset, len.min(1 << 20), "notes") {
                each_note(&bytes, found);
            }
        }
    }

    /// The path of the program interpreter (the dynamic linker); `None` for static executables and libraries.
    pub fn interpreter(&self) -> Option<String> {
        let segment = self.image.segments.iter().find(|segment| segment.kind == elf::PT_INTERP.0)?;
        let bytes = self.image.bytes(segment.offset, segment.file_size.min(4096), "interpreter").ok()?;
        Some(String::from_utf8_lossy(cstr_at(&bytes, 0).unwrap_or(&bytes)).into_owned())
    }

    /// The names of the libraries that it needs, in order.
    pub fn needed(&self) -> Result<Vec<String>> {
        self.dynamic_strings(elf::DT_NEEDED.0 as u64)
    }

    /// The name that a library gives itself.
    pub fn soname(&self) -> Result<Option<String>> {
        Ok(self.dynamic_strings(elf::DT_SONAME.0 as u64)?.into_iter().next())
    }

    fn dynamic_strings(&self, wanted: u64) -> Result<Vec<String>> {
        let image = &self.image;
        let Some(segment) = image.segments.iter().find(|segment| segment.kind == elf::PT_DYNAMIC.0) else {
            return Ok(Vec::new());
        };
        let table = image.bytes(segment.offset, segment.file_size, "dynamic section")?;
        let entries = || {
            table.chunks_exact(if image.wide { 16 } else { 8 }).map_while(|entry| {
                let (tag, value) = match image.wide {
                    true => (u64_at(entry, 0)?, u64_at(entry, 8)?),
                    false => (u32_at(entry, 0)?.into(), u32_at(entry, 4)?.into()),
                };
                (tag != 0).then_some((tag, value))
            })
        };
        let value = |wanted| entries().find(|&(tag, _)| tag == wanted).map(|(_, value)| value);
        let (Some(address), Some(size)) = (value(elf::DT_STRTAB.0 as u64), value(elf::DT_STRSZ.0 as u64)) else {
            return Ok(Vec::new());
        };
        let offset = self.offset_of_vaddr(address).ok_or_else(|| {
            Error::malformed(format!("the dynamic strings at address {address:#x} are not in the file"))
        })?;
        let strings = image.bytes(offset, size, "dynamic strings")?;
        let named = entries().filter(|&(tag, _)| tag == wanted).take(4096);
        let named = named.filter_map(|(_, value)| cstr_at(&strings, usize::try_from(value).ok()?));
        Ok(named.map(|name| String::from_utf8_lossy(&name[..name.len().min(4096)]).into_owned()).collect())
    }

    /// A function's instructions.
    pub fn code(&self, func: &Func) -> Result<Cow<'_, [u8]>> {
        self.image.bytes(func.offset, func.size, "function")
    }

    /// The offsets in a function where instructions start, up to the first byte that does not decode.
    ///
    /// # Errors
    /// A machine whose instructions' lengths are not known here.
    pub fn instruction_boundaries(&self, func: &Func) -> Result<Vec<u32>> {
        let code = self.code(func)?;
        match self.image.machine {
            machine if machine == elf::EM_X86_64.0 => Ok(x86_len::boundaries(&code, true)),
            machine if machine == elf::EM_386.0 => Ok(x86_len::boundaries(&code, false)),
            machine if machine == elf::EM_AARCH64.0 => Ok((0..code.len() as u32).step_by(4).collect()),
            machine => Err(Error::new(Kind::Unsupported, format!("instructions of ELF machine {machine}"))),
        }
    }

    /// Whether an instruction starts at `offset` in a function: a probe anywhere else would break the program.
    pub fn is_instruction(&self, func: &Func, offset: u64) -> Result<bool> {
        let boundaries = self.instruction_boundaries(func)?;
        Ok(u32::try_from(offset).is_ok_and(|offset| boundaries.binary_search(&offset).is_ok()))
    }
}

impl Symbols<'_> {
    /// Calls `f` for each symbol until it breaks.
    fn each(&self, mut f: impl FnMut(&Symbol) -> ControlFlow<()>) {
        let size = if self.wide { 24 } else { 16 };
        for (index, entry) in self.symbols.chunks_exact(size).enumerate() {
            let Some(mut symbol) = decode(entry, self.wide) else { break };
            symbol.hidden = u16_at(&self.versions, 2 * index)
                .filter(|version| version & HIDDEN != 0)
                .map(|version| version & !HIDDEN);
            if f(&symbol).is_break() {
                break;
            }
        }
    }

    fn has_name(&self, symbol: &Symbol) -> bool {
        self.strings.get(symbol.name).is_some_and(|&first| first != 0)
    }

    /// The plain name of a default version (`name@@VERSION` in the full table), `name@VERSION` of another.
    fn name(&self, symbol: &Symbol) -> String {
        // Many symbols may share one endless name in a hostile file; real ones, of templates too, are shorter than this.
        let rest = self.strings.get(symbol.name..).unwrap_or(b"");
        let name = String::from_utf8_lossy(cstr_at(&rest[..rest.len().min(16 << 10)], 0).unwrap_or(b""));
        match symbol.hidden.and_then(|hidden| self.names.iter().find(|(index, _)| *index == hidden)) {
            Some((_, version)) => format!("{name}@{version}"),
            None => match name.split_once("@@") {
                Some((name, _)) => name.to_string(),
                None => name.into_owned(),
            },
        }
    }

    fn is_named(&self, symbol: &Symbol, name: &str) -> bool {
        // Nearly all symbols are told apart by their first bytes; only the others are worth a string.
        let stem = name.split('@').next().unwrap_or(name);
        self.strings.get(symbol.name..).is_some_and(|rest| rest.starts_with(stem.as_bytes()))
            && self.has_name(symbol)
            && self.name(symbol) == name
    }
}

fn decode(entry: &[u8], wide: bool) -> Option<Symbol> {
    let name = u32_at(entry, 0)? as usize;
    Some(match wide {
        true => Symbol {
            name,
            info: *entry.get(4)?,
            section: u16_at(entry, 6)?,
            value: u64_at(entry, 8)?,
            size: u64_at(entry, 16)?,
            hidden: None,
        },
        false => Symbol {
            name,
            info: *entry.get(12)?,
            section: u16_at(entry, 14)?,
            value: u32_at(entry, 4)?.into(),
            size: u32_at(entry, 8)?.into(),
            hidden: None,
        },
    })
}

/// The versions that a file defines, from `.gnu.version_d`.
fn version_names(table: &[u8], strings: &[u8]) -> Vec<(u16, String)> {
    let mut names = Vec::new();
    let mut at = 0usize;
    // The chain's links only go forward, and there are few versions.
    while names.len() < 4096 {
        let Some(head) = array::<20>(table, at) else { break };
        let (Some(index), Some(aux), Some(next)) = (u16_at(&head, 4), u32_at(&head, 12), u32_at(&head, 16)) else {
            break;
        };
        let name = at.checked_add(aux as usize).and_then(|aux| u32_at(table, aux));
        if let Some(name) = name.and_then(|name| cstr_at(strings, name as usize)) {
            names.push((index & !HIDDEN, String::from_utf8_lossy(&name[..name.len().min(256)]).into_owned()));
        }
        match next {
            0 => break,
            next => at += next as usize,
        }
    }
    names
}

/// A note.
pub(crate) struct Note<'a> {
    /// Who defines the types, without the NUL.
    pub owner: &'a [u8],
    pub kind: u32,
    pub contents: &'a [u8],
}

/// Calls `found` with each note.
pub(crate) fn each_note(bytes: &[u8], found: &mut dyn FnMut(Note<'_>)) {
    let mut at = 0usize;
    let part = |start: usize, len: u32| bytes.get(start..start.checked_add(len as usize)?);
    let padded = |len: u32| (len as usize).checked_next_multiple_of(4);
    while let (Some(name_len), Some(desc_len), Some(kind)) =
        (u32_at(bytes, at), u32_at(bytes, at + 4), u32_at(bytes, at + 8))
    {
        let start = at + 12;
        let Some(name) = part(start, name_len) else { break };
        let Some(desc_at) = padded(name_len).and_then(|len| start.checked_add(len)) else { break };
        let Some(desc) = part(desc_at, desc_len) else { break };
        found(Note { owner: name.strip_suffix(b"\0").unwrap_or(name), kind, contents: desc });
        let Some(next) = padded(desc_len).and_then(|len| desc_at.checked_add(len)) else { break };
        at = next;
    }
}

/// Runs every reader of this file over arbitrary bytes.
pub fn fuzz_one(data: &[u8]) {
    let Ok(elf) = Elf::parse(data.to_vec()) else { return };
    let mut first = None;
    let _ = elf.functions(&mut |name, func| {
        first.get_or_insert_with(|| (name.to_string(), func));
    });
    if let Some((name, func)) = first {
        let _ = elf.function(&name);
        let _ = elf.function_at(func.vaddr);
        let _ = elf.instruction_boundaries(&func);
        let _ = elf.is_instruction(&func, func.size / 2);
    }
    let _ = (elf.build_id(), elf.interpreter(), elf.needed(), elf.soname());
    let _ = (elf.offset_of_vaddr(elf.entry()), elf.vaddr_of_offset(elf.entry()), elf.is_code(elf.entry()));
}

#[cfg(test)]
#[path = "elf_tests.rs"]
mod tests;
