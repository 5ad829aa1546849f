//! `sdt:GROUP::EVENT`: the kernel's tracepoints, with the fields of their records as arguments.
//!
//! Offsets, sizes and types are those of the event's `format` file, never of C headers. System calls are not here although
//! tracefs lists them as events: they have a provider of their own, which costs less.

use crate::kernel_types::record_type;
use crate::kinds::{bare, tracepoint};
use crate::{Attachment, Provider};
use probity_debuginfo::tracefs_format::{Field, Format};
use probity_ir::{Arg, Location, ProbeDesc, Selector, Signature, Space, TypeTable, glob, is_glob};
use probity_kernel::attach::perf_tracepoint;
use probity_kernel::{Error, Kind, Prog, System};

/// The provider `sdt`.
pub struct Sdt;

/// Groups that are not tracepoints of the kernel's code (`ftrace`) or that another provider serves.
const LEFT_OUT: [&str; 2] = ["ftrace", "syscalls"];

/// Added to an event's number in tracefs.
const FIRST_ID: u32 = 100_000;

/// The kernel lets no program read the first eight bytes, where the common fields are.
const HEADER: u32 = 8;
