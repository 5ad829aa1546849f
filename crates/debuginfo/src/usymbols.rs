//! Names of addresses in files, by ELF symbols, and in code that a run-time compiler wrote (`/tmp/perf-PID.map`).
//!
//! Which file an address is in, and where, is the caller's to know. Files are read when the first address in them is asked for.

use blazesym::symbolize::source::{Elf, Source};
use blazesym::symbolize::{Input, Symbolized, Symbolizer};
use std::path::Path;

/// Names addresses in files; keeps what it has read.
pub struct FileSymbols {
    inner: Symbolizer,
}

/// A symbol that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Symbol {
    /// Its name.
    pub name: String,
    /// How far the address is from its start.
    pub offset: u64,
}

impl FileSymbols {
    /// Nothing read yet. Names of C++ and Rust are given as the source has them if `demangle`, else as the file has them.
    pub fn new(demangle: bool) -> FileSymbols {
        let builder = Symbolizer::builder().enable_code_info(false).enable_inlined_fns(false);
        FileSymbols { inner: builder.enable_demangling(demangle).build() }
    }

    /// The symbol that covers an offset in a file; `None` where there is none, or the file cannot be read.
    pub fn find(&self, file: &Path, offset: u64) -> Option<Symbol> {
        let mut elf = Elf::new(file);
        // Debug information tells lines; the names of functions are in the symbol tables.
        elf.debug_syms = false;
        match self.inner.symbolize_single(&Source::Elf(elf), Input::FileOffset(offset)).ok()? {
            Symbolized::Sym(sym) => Some(Symbol { name: sym.name.into_owned(), offset: sym.offset as u64 }),
            Symbolized::Unknown(_) => None,
        }
    }
}

/// The entry of a run-time compiler's map (`START SIZE NAME` lines, hexadecimal) that covers an address. Of several the last
/// counts: code is replaced.
pub fn in_perf_map(text: &str, address: u64) -> Option<Symbol> {
    text.lines().rev().find_map(|line| {
        let mut words = line.splitn(3, ' ');
        let mut number = || u64::from_str_radix(words.next()?.trim_start_matches("0x"), 16).ok();
        let (start, size) = (number()?, number()?);
        let name = words.next()?.trim_end();
        let offset = address.checked_sub(start).filter(|&o| o < size)?;
        (!name.is_empty()).then(|| Symbol { name: name.into(), offset })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_of_a_library_have_names() {
        // Not of this program itself: mapping its file would show in the maps that other tests read.
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let maps = crate::proc_maps::parse(&maps).unwrap();
        let here = libc::getppid as *const () as usize as u64;
        let mapping = maps.iter().find(|m| m.start <= here && here < m.end).unwrap();
        let offset = here - mapping.start + mapping.offset;
        let symbols = FileSymbols::new(false);
        let found = symbols.find(Path::new(&mapping.path), offset).unwrap();
        assert!(found.name.contains("getppid"), "{found:?}");
        assert_eq!(found.offset, 0);
        assert_eq!(symbols.find(Path::new(&mapping.path), offset + 1).unwrap().offset, 1);
        assert_eq!(symbols.find(Path::new("/no/such"), 0), None);
        assert_eq!(symbols.find(Path::new("/etc/passwd"), 0), None);
    }

    #[test]
    fn perf_maps() {
        let text = "7f00 10 java.lang.String::hash Code\nbad line\n7f10 8 b\n7f00 10 replaced\n";
        assert_eq!(in_perf_map(text, 0x7f05), Some(Symbol { name: "replaced".into(), offset: 5 }));
        assert_eq!(in_perf_map(text, 0x7f17).unwrap().name, "b");
        assert_eq!(in_perf_map(text, 0x7f18), None);
        assert_eq!(in_perf_map("", 0), None);
    }
}
