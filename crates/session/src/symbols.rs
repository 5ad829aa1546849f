//! Names of addresses and the local time, for output. Nothing is read before the first address is asked for.

use crate::processes::Processes;
use probity_debuginfo::ksymbols::Table;
use probity_kernel::System;
use probity_output::{Named, Symbols};
use std::cell::{OnceCell, RefCell};

/// The running system's symbols.
pub struct SystemSymbols<'a> {
    kernel: OnceCell<Table>,
    processes: RefCell<Processes<'a>>,
}

impl<'a> SystemSymbols<'a> {
    /// The symbols of a system, none read yet. Names of C++ and Rust are as the source has them if `demangle`.
    pub fn new(sys: &'a System, demangle: bool) -> SystemSymbols<'a> {
        SystemSymbols { kernel: OnceCell::new(), processes: RefCell::new(Processes::new(sys, demangle)) }
    }
}

impl SystemSymbols<'_> {
    /// Says that addresses of a process will be named; to be called after [`crate::start`], while the process is there.
    pub fn expect(&self, pid: u32) {
        self.processes.borrow_mut().expect(pid);
    }

    fn table(&self) -> &Table {
        self.kernel.get_or_init(|| Table::load().unwrap_or_default())
    }
}

impl Symbols for SystemSymbols<'_> {
    fn tracepoint_entries(&self) -> Vec<u64> {
        self.table().tracepoint_entries()
    }

    fn kernel(&self, addr: u64) -> Named {
        let Some(found) = self.table().find(addr) else { return Named::default() };
        Named {
            module: if found.module.is_empty() { "vmlinux" } else { found.module }.to_owned(),
            symbol: found.name.to_owned(),
            start: found.address,
            base: found.base,
            ..Named::default()
        }
    }

    fn user(&self, pid: u32, addr: u64) -> Named {
        self.processes.borrow_mut().name(pid, addr)
    }

    fn watch(&self) {
        self.processes.borrow_mut().watch();
    }

    fn turn(&self) {
        self.processes.borrow_mut().turn();
    }

    fn zone(&self, seconds: i64) -> (i32, String) {
        probity_kernel::clock::zone(seconds)
    }
}
