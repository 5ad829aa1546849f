//! `/proc/kallsyms`: one symbol or some addresses, on demand. The file is scanned; no table of it is kept.
//!
//! The kernel formats each line as it is read (some 100 ms for all of them), so callers should ask for many addresses at once.

use crate::error::{Error, Kind, Result};
use std::fs::File;
use std::io::Read;
use std::ops::ControlFlow;

/// Where the kernel lists its symbols.
pub const PATH: &str = "/proc/kallsyms";
/// The kernel never writes longer lines (`KSYM_NAME_LEN` is 512).
const LONGEST: usize = 4096;

/// One line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line<'a> {
    /// The address; 0 if the kernel hides it.
    pub address: u64,
    /// The type's letter as of `nm`: `T` and `t` are code.
    pub kind: u8,
    /// The name.
    pub name: &'a str,
    /// The module (`vmlinux` is empty).
    pub module: &'a str,
}

/// A kernel symbol.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Symbol {
    /// The address.
    pub address: u64,
    /// The type's letter as of `nm`: `T` and `t` are code.
    pub kind: u8,
    /// The name.
    pub name: String,
    /// The module; empty for the kernel itself.
    pub module: String,
}

impl Line<'_> {
    /// Whether the symbol is a function's.
    pub fn is_code(&self) -> bool {
        matches!(self.kind, b'T' | b't' | b'W' | b'w')
    }

    fn symbol(&self) -> Symbol {
        Symbol { address: self.address, kind: self.kind, name: self.name.into(), module: self.module.into() }
    }
}

fn parse(line: &[u8]) -> Option<Line<'_>> {
    let line = std::str::from_utf8(line).ok()?;
    let (address, rest) = line.split_once(' ')?;
    let (kind, rest) = rest.split_once(' ')?;
    let (name, module) = rest.split_once('\t').unwrap_or((rest, ""));
    let [kind] = *kind.as_bytes() else { return None };
    let module = module.trim().trim_start_matches('[').trim_end_matches(']');
    Some(Line { address: u64::from_str_radix(address, 16).ok()?, kind, name: name.trim_end(), module })
}

/// Calls `each` for each line of a text in the format of `/proc/kallsyms`, until it breaks. Lines that are none are skipped.
pub fn scan(mut source: impl Read, each: &mut dyn FnMut(Line<'_>) -> ControlFlow<()>) -> Result<()> {
    let mut buffer = vec![0; 64 << 10];
    let mut held = 0;
    loop {
        let read = match source.read(&mut buffer[held..]) {
            Ok(read) => read,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(Error::io(error, format!("cannot read {PATH}"))),
        };
        held += read;
        let mut start = 0;
        while let Some(len) = buffer[start..held].iter().position(|&b| b == b'\n') {
            if let Some(line) = parse(&buffer[start..start + len])
                && each(line).is_break()
            {
                return Ok(());
            }
            start += len + 1;
        }
        if read == 0 {
            if let Some(line) = parse(&buffer[start..held]) {
                let _ = each(line);
            }
            return Ok(());
        }
        if held - start > LONGEST {
            return Err(Error::malformed(format!("a line of {PATH} is longer than {LONGEST} bytes")));
        }
        buffer.copy_within(start..held, 0);
        held -= start;
    }
}

pub(crate) fn open() -> Result<File> {
    File::open(PATH)
        .map_err(|error| Error::io(error, format!("cannot read {PATH}")).help("the kernel needs CONFIG_KALLSYMS"))
}

fn hidden() -> Error {
    Error::new(Kind::Permission, format!("{PATH} shows no addresses"))
        .help("it needs CAP_SYSLOG, and kernel.kptr_restrict below 2")
}

/// Finds a symbol by name, in `module` if one is given (empty: the kernel itself).
///
/// # Errors
/// The file cannot be read, or the kernel hides the addresses.
pub fn find(name: &str, module: Option<&str>) -> Result<Option<Symbol>> {
    find_in(open()?, name, module)
}

/// As [`find`], in a text of that format.
pub fn find_in(source: impl Read, name: &str, module: Option<&str>) -> Result<Option<Symbol>> {
    let mut found = None;
    scan(source, &mut |line| {
        if line.name == name && module.is_none_or(|module| module == line.module) {
            found = Some(line.symbol());
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    })?;
    match found {
        // Per-CPU symbols were at 0 in old kernels; code never is.
        Some(symbol) if symbol.address == 0 && matches!(symbol.kind, b'T' | b't') => Err(hidden()),
        found => Ok(found),
    }
}

/// Finds, for each address, the last code symbol at or before it and the distance from it, in one scan.
///
/// # Errors
/// The file cannot be read, or the kernel hides the addresses.
pub fn symbolize(addresses: &[u64]) -> Result<Vec<Option<(Symbol, u64)>>> {
    symbolize_in(open()?, addresses)
}

/// As [`symbolize`], with a text of that format.
pub fn symbolize_in(source: impl Read, addresses: &[u64]) -> Result<Vec<Option<(Symbol, u64)>>> {
    // Modules' lines are not in order, so the next symbol's address is not known when a line is read. Each line is kept
    // where the first address at or after it is, if it is the nearest there so far; what has none takes its predecessor's.
    let mut order: Vec<usize> = (0..addresses.len()).collect();
    order.sort_by_key(|&index| addresses[index]);
    let mut nearest: Vec<Option<Symbol>> = vec![None; addresses.len()];
    let (mut any, mut shown) = (false, false);
    scan(source, &mut |line| {
        any = true;
        shown |= line.address != 0;
        let first = order.partition_point(|&index| addresses[index] < line.address);
        if line.address == 0 || !line.is_code() || first == order.len() {
            return ControlFlow::Continue(());
        }
        match &mut nearest[first] {
            Some(nearest) if nearest.address >= line.address => {}
            // Nearly every line of the kernel's gets here: no allocation.
            Some(nearest) => {
                (nearest.address, nearest.kind) = (line.address, line.kind);
                nearest.name.clear();
                nearest.name.push_str(line.name);
                nearest.module.clear();
                nearest.module.push_str(line.module);
            }
            none => *none = Some(line.symbol()),
        }
        ControlFlow::Continue(())
    })?;
    if any && !shown {
        return Err(hidden());
    }
    let mut found = vec![None; addresses.len()];
    let mut last = None;
    for (index, nearest) in order.into_iter().zip(nearest) {
        last = nearest.or(last);
        found[index] =
            last.clone().map(|symbol| (addresses[index] - symbol.address, symbol)).map(|(off, symbol)| (symbol, off));
    }
    Ok(found)
}

/// Runs the scanner over arbitrary bytes.
pub fn fuzz_one(data: &[u8]) {
    let _ = find_in(data, "schedule", Some(""));
    let _ = symbolize_in(data, &[0, 0xffff_ffff_8100_0000, u64::MAX, 5]);
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
0000000000000000 A fixed_percpu_data
ffffffff81000000 T _stext
ffffffff81000100 T first
ffffffff81000100 t first_alias
ffffffff81000200 D data
ffffffffc0002000 t in_module\t[mod]
ffffffffc0001000 t earlier\t[mod]
ffffffff81000300 t twice\t[other]
ffffffff81000400 t twice";

    #[test]
    fn symbols_are_found_by_name_and_module() {
        let found = |name, module| find_in(TEXT.as_bytes(), name, module).unwrap().map(|symbol| symbol.address);
        assert_eq!(found("first", None), Some(0xffffffff81000100));
        assert_eq!(found("in_module", Some("mod")), Some(0xffffffffc0002000));
        assert_eq!(found("in_module", Some("")), None);
        assert_eq!(found("twice", Some("")), Some(0xffffffff81000400));
        assert_eq!(found("absent", None), None);
    }

    #[test]
    fn addresses_get_the_nearest_symbol_before() {
        let asked = [0xffffffffc0001800, 0xffffffff81000250, 0x10, 0xffffffffc0002000, 0xffffffff810000ff];
        let found = symbolize_in(TEXT.as_bytes(), &asked).unwrap();
        let names: Vec<_> =
            found.iter().map(|found| found.as_ref().map(|(symbol, off)| (symbol.name.as_str(), *off))).collect();
        let expected =
            [Some(("earlier", 0x800)), Some(("first", 0x150)), None, Some(("in_module", 0)), Some(("_stext", 0xff))];
        assert_eq!(names, expected);
    }

    #[test]
    fn hidden_addresses_are_an_error_that_says_so() {
        let text = "0000000000000000 T _stext\n0000000000000000 T first\n";
        let error = find_in(text.as_bytes(), "first", None).unwrap_err();
        assert_eq!(error.kind(), Kind::Permission);
        assert!(error.to_string().contains("kptr_restrict"));
        assert_eq!(symbolize_in(text.as_bytes(), &[1]).unwrap_err().kind(), Kind::Permission);
    }

    #[test]
    fn a_line_without_end_is_an_error() {
        assert!(find_in(&vec![b'a'; 1 << 20][..], "x", None).is_err());
    }

    #[test]
    fn the_running_kernel_lists_its_symbols() {
        match find("schedule", None) {
            Ok(Some(symbol)) => {
                let found = symbolize(&[symbol.address + 1]).unwrap();
                assert_eq!(
                    found[0].as_ref().map(|(found, offset)| (found.address, *offset)),
                    Some((symbol.address, 1))
                );
            }
            Ok(None) => panic!("no schedule in {PATH}"),
            Err(error) => eprintln!("skipped: {error}"),
        }
    }

    #[test]
    fn other_bytes_are_errors_or_nothing() {
        crate::mutate::mutate(TEXT.as_bytes(), 1000, fuzz_one);
    }
}
