//! The kernel's symbols as a table, for naming many addresses: read once, from `/proc/kallsyms`.
//!
//! Reading takes the kernel some 100 ms, so this is only made when the first address is to be named. One symbol by name is
//! [`crate::kallsyms`]'s.

use crate::error::Result;
use crate::kallsyms::{self, Line};
use std::io::Read;
use std::ops::ControlFlow;

/// A symbol's place in the table's text.
#[derive(Clone, Copy, Debug)]
struct Row {
    address: u64,
    /// Where its name starts in the text, and its length.
    name: (u32, u16),
    /// Index of its module.
    module: u16,
    /// Preferred to others at the same address if lower.
    rank: u8,
}

/// The table.
#[derive(Clone, Debug, Default)]
pub struct Table {
    rows: Vec<Row>,
    text: String,
    modules: Vec<Module>,
}

/// A module and where its symbols are.
#[derive(Clone, Debug)]
struct Module {
    name: String,
    first: u64,
    last: u64,
}

/// What an address is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found<'a> {
    /// The symbol's name.
    pub name: &'a str,
    /// Its module; empty for the kernel itself.
    pub module: &'a str,
    /// The symbol's address.
    pub address: u64,
    /// The module's first symbol's address.
    pub base: u64,
}

/// How far beyond its last symbol a module can reach; what is farther away is in no symbol.
const REACH: u64 = 1 << 20;

impl Table {
    /// Reads the running kernel's symbols. The table is empty where the kernel hides them.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn load() -> Result<Table> {
        Table::read(kallsyms::open()?)
    }

    /// As [`Table::load`], from a text of that format.
    ///
    /// # Errors
    /// The text cannot be read.
    pub fn read(source: impl Read) -> Result<Table> {
        let mut table = Table::default();
        kallsyms::scan(source, &mut |line| {
            table.add(line);
            ControlFlow::Continue(())
        })?;
        table.rows.sort_by_key(|row| (row.address, row.rank));
        table.rows.dedup_by_key(|row| row.address);
        Ok(table)
    }

    fn add(&mut self, line: Line<'_>) {
        // The kernel shows zeros to those who may not see addresses; per-CPU offsets and absolute values are no addresses.
        if line.address < 1 << 63 || matches!(line.kind, b'a' | b'A') {
            return;
        }
        let (Ok(start), Ok(len)) = (u32::try_from(self.text.len()), u16::try_from(line.name.len())) else { return };
        // Mostly the same as the line before.
        let known = self.modules.iter().rposition(|m| m.name == line.module);
        let module = known.unwrap_or(self.modules.len());
        if known.is_none() {
            self.modules.push(Module { name: line.module.into(), first: line.address, last: line.address });
        }
        let Ok(index) = u16::try_from(module) else { return };
        let range = &mut self.modules[module];
        range.first = range.first.min(line.address);
        range.last = range.last.max(line.address);
        self.text.push_str(line.name);
        let rank = match line.kind {
            _ if line.name.starts_with("__pfx_") || line.name.starts_with("__cfi_") => 4,
            b'T' | b'D' | b'B' | b'R' => u8::from(line.name.starts_with('_')),
            _ => 2 + u8::from(line.name.starts_with('_')),
        };
        self.rows.push(Row { address: line.address, name: (start, len), module: index, rank });
    }

    /// Whether there are no symbols, because the kernel hides them.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Where the functions between a tracepoint and a BPF program are: addresses of their first byte and the one after their last in
    /// turn, ascending.
    pub fn tracepoint_entries(&self) -> Vec<u64> {
        let mut bounds = Vec::new();
        for (i, row) in self.rows.iter().enumerate() {
            let (start, len) = (row.name.0 as usize, usize::from(row.name.1));
            let name = self.text.get(start..start + len).unwrap_or("");
            // The text of a function only: there are tables of such names too.
            let ours = name.starts_with("__traceiter_")
                || (name.starts_with("__bpf_trace_") && !name.starts_with("__bpf_trace_tp_map_"));
            let Some(next) = self.rows.get(i + 1).filter(|_| ours) else { continue };
            if bounds.last() == Some(&row.address) {
                bounds.pop();
            } else {
                bounds.push(row.address);
            }
            bounds.push(next.address);
        }
        bounds
    }

    /// The last symbol at or before an address.
    pub fn find(&self, address: u64) -> Option<Found<'_>> {
        let after = self.rows.partition_point(|row| row.address <= address);
        let row = self.rows.get(after.checked_sub(1)?)?;
        let module = self.modules.get(usize::from(row.module))?;
        if address.saturating_sub(row.address) > REACH {
            return None;
        }
        let (start, len) = (row.name.0 as usize, usize::from(row.name.1));
        let name = self.text.get(start..start + len)?;
        Some(Found { name, module: &module.name, address: row.address, base: module.first })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
0000000000000000 A fixed_percpu_data
ffffffff81000000 T _stext
ffffffff81000000 T startup_64
ffffffff81000000 t local
ffffffff81000100 t helper
ffffffff82000000 D max_pfn
ffffffffc0000000 t init\t[loop]
ffffffffc0000400 t lo_open\t[loop]
ffffffff81000200 T outer
";

    #[test]
    fn nearest_symbols_and_their_modules() {
        let table = Table::read(TEXT.as_bytes()).unwrap();
        let at = |address| table.find(address).map(|f| (f.name, f.module, f.address));
        assert_eq!(at(0xffff_ffff_8100_0000), Some(("startup_64", "", 0xffff_ffff_8100_0000)));
        assert_eq!(at(0xffff_ffff_8100_01ff), Some(("helper", "", 0xffff_ffff_8100_0100)));
        assert_eq!(at(0xffff_ffff_8200_0000), Some(("max_pfn", "", 0xffff_ffff_8200_0000)));
        assert_eq!(at(0xffff_ffff_c000_0500), Some(("lo_open", "loop", 0xffff_ffff_c000_0400)));
        assert_eq!(table.find(0xffff_ffff_c000_0500).unwrap().base, 0xffff_ffff_c000_0000);
        assert_eq!(at(0xffff_ffff_8800_0000), None, "too far from any");
        assert_eq!(at(0x1000), None);
    }

    #[test]
    fn functions_into_programs() {
        let text = "ffffffff81000000 T a\nffffffff81000010 T __traceiter_x\nffffffff81000020 t __bpf_trace_y\n\
                    ffffffff81000030 t b\nffffffff81000040 t __bpf_trace_z\nffffffff81000050 d __bpf_trace_tp_map_x\n";
        let bounds = Table::read(text.as_bytes()).unwrap().tracepoint_entries();
        let low: Vec<u64> = bounds.iter().map(|b| b & 0xff).collect();
        assert_eq!(low, [0x10, 0x30, 0x40, 0x50]);
    }

    #[test]
    fn hidden_addresses_make_an_empty_table() {
        let table = Table::read("0000000000000000 T _stext\n0000000000000000 t x\n".as_bytes()).unwrap();
        assert!(table.is_empty());
        assert_eq!(table.find(u64::MAX), None);
    }
}
