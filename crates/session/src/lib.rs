//! Probity, the library: open → compile → attach → consume → stop.
//!
//! A question is an [`Input`]: D texts, options, script arguments. [`compile`] turns it into BPF programs, [`start`] loads and
//! attaches them, and a [`Session`] hands what the kernel recorded to a [`Consumer`], in order. Everything that was created is
//! owned by descriptors of this process: dropping the session detaches, and a killed process leaves nothing behind.
//!
//! The library prints nothing and reads neither the environment nor the command line. It needs root, or CAP_BPF and
//! CAP_PERFMON (and CAP_SYS_PTRACE for other users' processes), on Linux 6.1 or newer.
#![forbid(unsafe_code)]

mod arguments;
mod awaited;
mod env;
mod live;
mod merge;
mod policy;
mod processes;
mod rates;
mod speculation;
mod symbols;
mod target;
mod ticks;

pub use env::{World, crossing_providers, stability_of};
pub use live::{Consumer, Outcome, Session, end_too_large, start};
pub use probity_bpf as bpf;
pub use probity_compiler as compiler;
pub use probity_ir as ir;
pub use probity_kernel as kernel;
pub use probity_output as output;
pub use probity_syntax as syntax;
pub use symbols::SystemSymbols;
pub use target::{Targets, Until};

use probity_compiler::{Compiled, Input};
use probity_kernel::System;
use probity_syntax::{Diagnostic, Sources};

/// Compiles a question against the running system. Creates nothing (G4). All diagnostics are returned, also with a success, and
/// the texts that their spans point into.
pub fn compile(sys: &System, input: &Input) -> (Option<Compiled>, Sources, Vec<Diagnostic>) {
    probity_compiler::compile(input, &World::of(sys, input))
}
