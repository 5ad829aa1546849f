//! Record bytes to events; aggregations, printf, text and JSON.
//!
//! The consumer's pure half. `session` hands it bytes of rings and maps, and gets back [`Event`]s, merged aggregations and
//! rendered text. This crate opens nothing and prints nothing: what it writes goes to the `io::Write` that the caller
//! gives, and what only the system knows (symbols, the time zone) comes through [`Symbols`].
//!
//! The way of a record: [`Plan::new`] once for a program, [`decode()`] for each record, then [`Renderer::event`]. The way of an
//! aggregation: the caller reads the maps and feeds [`Aggregations`]; `printa` and the end of tracing render them.
#![forbid(unsafe_code)]

pub mod agg;
pub mod bars;
pub mod decode;
pub mod deed;
pub mod drops;
pub mod event;
pub mod histogram;
pub mod json;
pub mod order;
pub mod plan;
pub mod printf;
pub mod render;
pub mod stats;
pub mod symbol;
pub mod text;
pub mod typed;

pub use agg::{Aggregations, Entry, Store, Table};
pub use decode::{DecodeError, decode};
pub use deed::{Deed, Output};
pub use drops::{drop_name, drop_note, drop_tag, drop_text, fault_name, fault_text};
pub use event::{DropCount, Event, Fault, Item, Kind, ProbeRef, Record, Value};
pub use json::Json;
pub use order::{Row, Sort, joined, sorted};
pub use plan::Plan;
pub use render::{Renderer, Style};
pub use symbol::{Named, StackValue};
pub use text::Text;

/// What reading and rendering need to know, by reference.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    /// The program.
    pub program: &'a probity_ir::Program,
    /// Its bytes.
    pub layout: &'a probity_ir::Layout,
    /// Its types.
    pub types: &'a probity_ir::TypeTable,
    /// [`Plan::new`] of the program.
    pub plan: &'a Plan,
    /// Names of addresses, local time.
    pub symbols: &'a dyn Symbols,
}

/// What only the caller can know about addresses and local time.
pub trait Symbols {
    /// What a kernel address is in.
    fn kernel(&self, _addr: u64) -> Named {
        Named::default()
    }

    /// What an address of a process is in. Called soon after the address was recorded; the process may have ended.
    fn user(&self, _pid: u32, _addr: u64) -> Named {
        Named::default()
    }

    /// Says, before tracing, that addresses of processes will be named, so that what they map can be watched while they live.
    fn watch(&self) {}

    /// The bounds of the kernel's functions between a tracepoint and a program: [`probity_ir::Layout::entry_map`].
    fn tracepoint_entries(&self) -> Vec<u64> {
        Vec::new()
    }

    /// Called now and then, and before addresses that were recorded since the last time are named.
    fn turn(&self) {}

    /// The local time zone at `seconds` since the epoch: seconds east of UTC and the zone's short name.
    fn zone(&self, _seconds: i64) -> (i32, String) {
        (0, "UTC".into())
    }
}

/// [`Symbols`] that knows none: addresses stay numbers, times are UTC.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoSymbols;

impl Symbols for NoSymbols {}

#[cfg(test)]
mod tests;
