//! Names of addresses and the local time, for output. Nothing is read before the first address is asked for.

use probity_debuginfo::kallsyms;
use probity_output::Symbols;
use std::cell::RefCell;
use std::collections::HashMap;

/// The running kernel's symbols, each address looked up once.
#[derive(Default)]
pub struct SystemSymbols {
    kernel: RefCell<HashMap<u64, Option<String>>>,
}

impl Symbols for SystemSymbols {
    fn kernel(&self, addr: u64) -> Option<String> {
        let mut known = self.kernel.borrow_mut();
        let look = || {
            let (symbol, offset) = kallsyms::symbolize(&[addr]).ok()?.pop()??;
            let module = if symbol.module.is_empty() { "vmlinux" } else { &symbol.module };
            Some(match offset {
                0 => format!("{module}`{}", symbol.name),
                _ => format!("{module}`{}+{offset:#x}", symbol.name),
            })
        };
        known.entry(addr).or_insert_with(look).clone()
    }

    fn zone(&self, seconds: i64) -> (i32, String) {
        probity_kernel::clock::zone(seconds)
    }
}
