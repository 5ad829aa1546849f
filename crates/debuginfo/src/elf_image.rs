//! An ELF file's frame: its header, segments and sections, read piece by piece. What is in them is `elf`'s business.
//!
//! Pieces are read, not mapped: a mapped file that its owner truncates would kill the reader. Both widths are decoded
//! into the same structures.

use crate::error::{Error, Kind, Result};
use crate::reader::{cstr_at, u16_at, u32_at, u64_at};
use object::elf;
use std::borrow::Cow;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Where the bytes come from.
enum Source {
    File(File),
    Memory(Vec<u8>),
}

/// A part of the file that is loaded into memory, or describes what is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// `PT_*`.
    pub kind: u32,
    /// `PF_*`.
    pub flags: u32,
    /// Offset in the file.
    pub offset: u64,
    /// Address in memory, before the load bias.
    pub vaddr: u64,
    /// Size in the file.
    pub file_size: u64,
    /// Size in memory.
    pub mem_size: u64,
}

impl Segment {
    /// Whether it is in memory when the program runs.
    pub fn is_loaded(&self) -> bool {
        self.kind == elf::PT_LOAD.0
    }
}

/// A section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Section {
    /// Its name.
    pub name: String,
    /// `SHT_*`.
    pub kind: u32,
    /// `SHF_*`.
    pub flags: u64,
    /// Offset in the file.
    pub offset: u64,
    /// Address in memory, before the load bias; 0 if it is not loaded.
    pub vaddr: u64,
    /// Size.
    pub size: u64,
    /// The index of the section that goes with it (strings of symbols).
    pub link: u32,
}

/// The frame of an ELF file.
pub(crate) struct Image {
    source: Source,
    len: u64,
    pub wide: bool,
    pub kind: u16,
    pub machine: u16,
    pub entry: u64,
    pub segments: Vec<Segment>,
    pub sections: Vec<Section>,
}

/// Sections and segments that one file may have; the format's own limit for ordinary numbering.
const MANY: usize = 0xff00;

impl Image {
    pub fn open(path: &Path) -> Result<Image> {
        let context = |error| Error::io(error, format!("cannot read {}", path.display()));
        let file = File::open(path).map_err(context)?;
        let meta = file.metadata().map_err(context)?;
        if !meta.is_file() {
            return Err(Error::new(Kind::Unsupported, format!("{} is not a regular file", path.display())));
        }
        Image::read(Source::File(file), meta.len()).map_err(|error| error.context(path.display().to_string()))
    }

    pub fn parse(bytes: Vec<u8>) -> Result<Image> {
        let len = bytes.len() as u64;
        Image::read(Source::Memory(bytes), len)
    }

    fn read(source: Source, len: u64) -> Result<Image> {
        let mut image = Image {
            source,
            len,
            wide: true,
            kind: 0,
            machine: 0,
            entry: 0,
            segments: Vec::new(),
            sections: Vec::new(),
        };
        let head = image.bytes(0, len.min(64), "header")?.into_owned();
        if !head.starts_with(b"\x7fELF") {
            return Err(Error::malformed("not an ELF file: it does not start with \\x7fELF"));
        }
        image.wide = match head.get(4) {
            Some(2) => true,
            Some(1) => false,
            _ => return Err(Error::malformed("byte 4 of the ELF header gives no known width")),
        };
        match head.get(5) {
            Some(1) => {}
            Some(2) => return Err(Error::new(Kind::Unsupported, "an ELF file of a big-endian machine")),
            _ => return Err(Error::malformed("byte 5 of the ELF header gives no known byte order")),
        }
        let wide = image.wide;
        image.header(&head, wide).ok_or_else(|| Error::malformed("the ELF header is cut short"))??;
        Ok(image)
    }

    /// The outer `None` is a short header.
    fn header(&mut self, head: &[u8], wide: bool) -> Option<Result<()>> {
        self.kind = u16_at(head, 16)?;
        self.machine = u16_at(head, 18)?;
        self.entry = if wide { u64_at(head, 24)? } else { u32_at(head, 24)?.into() };
        let (phoff, shoff, rest) = match wide {
            true => (u64_at(head, 32)?, u64_at(head, 40)?, 52),
            false => (u32_at(head, 28)?.into(), u32_at(head, 32)?.into(), 40),
        };
        let half = |i: usize| u16_at(head, rest + 2 * i);
        // After e_ehsize: phentsize, phnum, shentsize, shnum, shstrndx.
        let (phentsize, phnum, shentsize, shnum, shstrndx) = (half(1)?, half(2)?, half(3)?, half(4)?, half(5)?);
        Some(
            self.read_segments(phoff, phentsize, phnum)
                .and_then(|()| self.read_sections(shoff, shentsize, shnum, shstrndx)),
        )
    }

    fn read_segments(&mut self, offset: u64, entry: u16, count: u16) -> Result<()> {
        if offset == 0 || count == 0 {
            return Ok(());
        }
        let least = if self.wide { 56 } else { 32 };
        if entry < least {
            return Err(Error::malformed(format!("program headers of {entry} bytes")));
        }
        let table = self.bytes(offset, u64::from(entry) * u64::from(count), "program headers")?;
        let wide = self.wide;
        let segments = table.chunks_exact(entry.into()).map(|at| match wide {
            true => Some(Segment {
                kind: u32_at(at, 0)?,
                flags: u32_at(at, 4)?,
                offset: u64_at(at, 8)?,
                vaddr: u64_at(at, 16)?,
                file_size: u64_at(at, 32)?,
                mem_size: u64_at(at, 40)?,
            }),
            false => Some(Segment {
                kind: u32_at(at, 0)?,
                flags: u32_at(at, 24)?,
                offset: u32_at(at, 4)?.into(),
                vaddr: u32_at(at, 8)?.into(),
                file_size: u32_at(at, 16)?.into(),
                mem_size: u32_at(at, 20)?.into(),
            }),
        });
        let segments: Option<Vec<_>> = segments.collect();
        drop(table);
        self.segments = segments.unwrap_or_default();
        Ok(())
    }

    fn read_sections(&mut self, offset: u64, entry: u16, count: u16, names: u16) -> Result<()> {
        let least = if self.wide { 64 } else { 40 };
        // Files may lack sections, or have had them cut off; what is in segments is still good.
        if offset == 0 || offset >= self.len || entry < least {
            return Ok(());
        }
        let wide = self.wide;
        // With 0xff00 sections and more, the numbers are in the first section's size and link.
        let (mut count, mut names) = (usize::from(count), u32::from(names));
        if count == 0 || names == 0xffff {
            let first = self.bytes(offset, entry.into(), "first section header")?;
            let size = if wide { u64_at(&first, 32) } else { u32_at(&first, 20).map(u64::from) };
            if count == 0 {
                count = size.unwrap_or(0).min(self.len / u64::from(entry)) as usize;
            }
            if names == 0xffff {
                names = u32_at(&first, if wide { 40 } else { 24 }).unwrap_or(0);
            }
        }
        if count > MANY * 64 {
            return Err(Error::malformed(format!("{count} sections")));
        }
        let table = self.bytes(offset, u64::from(entry) * count as u64, "section headers")?;
        let sections = table.chunks_exact(entry.into()).map(|at| {
            let section = |offset, vaddr, size, link| Section {
                name: String::new(),
                kind: 0,
                flags: 0,
                offset,
                vaddr,
                size,
                link,
            };
            let mut section = match wide {
                true => section(u64_at(at, 24)?, u64_at(at, 16)?, u64_at(at, 32)?, u32_at(at, 40)?),
                false => {
                    section(u32_at(at, 16)?.into(), u32_at(at, 12)?.into(), u32_at(at, 20)?.into(), u32_at(at, 24)?)
                }
            };
            section.kind = u32_at(at, 4)?;
            section.flags = if wide { u64_at(at, 8)? } else { u32_at(at, 8)?.into() };
            Some((u32_at(at, 0)?, section))
        });
        let sections: Option<Vec<_>> = sections.collect();
        drop(table);
        let sections = sections.unwrap_or_default();
        let strings = match sections.get(names as usize) {
            Some((_, strings)) if strings.kind == elf::SHT_STRTAB.0 => {
                self.bytes(strings.offset, strings.size, "section names")?
            }
            _ => Cow::Borrowed(&[][..]),
        };
        let named = sections.into_iter().map(|(name, section)| {
            let name = cstr_at(&strings, name as usize).unwrap_or(b"");
            // The names of sections that anyone asks for are short; a hostile table could repeat a long one.
            let name = String::from_utf8_lossy(&name[..name.len().min(64)]).into_owned();
            Section { name, ..section }
        });
        let named = named.collect();
        drop(strings);
        self.sections = named;
        Ok(())
    }

    /// The bytes `offset..offset + len`; an error that says `what` was to be there if they are not.
    pub fn bytes(&self, offset: u64, len: u64, what: &str) -> Result<Cow<'_, [u8]>> {
        let end = offset.checked_add(len).filter(|&end| end <= self.len).ok_or_else(|| {
            Error::malformed(format!(
                "the {what} at {offset:#x}, {len:#x} bytes, reach past the end of the file ({:#x} bytes)",
                self.len
            ))
        })?;
        match &self.source {
            Source::Memory(bytes) => Ok(Cow::Borrowed(&bytes[offset as usize..end as usize])),
            Source::File(file) => {
                let mut bytes = vec![0; len as usize];
                file.read_exact_at(&mut bytes, offset)
                    .map_err(|error| Error::io(error, format!("cannot read the {what}")))?;
                Ok(Cow::Owned(bytes))
            }
        }
    }

    /// A section's contents; none where it has no bytes in the file.
    pub fn contents(&self, section: &Section) -> Result<Cow<'_, [u8]>> {
        if section.kind == elf::SHT_NOBITS.0 {
            return Ok(Cow::Borrowed(&[]));
        }
        self.bytes(section.offset, section.size, &section.name)
    }

    /// The first section of this kind.
    pub fn section_of_kind(&self, kind: u32) -> Option<&Section> {
        self.sections.iter().find(|section| section.kind == kind)
    }

    /// The file offset of an address, if the file holds the byte there.
    pub fn offset_of(&self, vaddr: u64) -> Option<(u64, &Segment)> {
        let load = self.segments.iter().filter(|segment| segment.kind == elf::PT_LOAD.0);
        load.filter_map(|segment| {
            let inside = vaddr.checked_sub(segment.vaddr).filter(|&inside| inside < segment.file_size)?;
            Some((segment.offset.checked_add(inside)?, segment))
        })
        .next()
    }
}
