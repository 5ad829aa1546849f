//! Probes: their names, their arguments, and how a running program learns which of them fired.

use crate::location::{Location, Test};
use crate::program::Phase;
use crate::types::TypeId;
use std::fmt;

/// A probe's name, or a pattern for names: four fields, where `*`, `?`, `[set]` and `\` are DTrace's globs and
/// an empty field of a pattern matches anything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ProbeDesc {
    /// Provider, such as `syscall` or `pid1234`.
    pub provider: String,
    /// Module, such as `vmlinux` or `libc.so.6`.
    pub module: String,
    /// Function, such as `read`.
    pub function: String,
    /// Name, such as `entry`.
    pub name: String,
}

impl ProbeDesc {
    /// Makes a description from its four fields.
    pub fn new(provider: &str, module: &str, function: &str, name: &str) -> ProbeDesc {
        ProbeDesc { provider: provider.into(), module: module.into(), function: function.into(), name: name.into() }
    }
}

impl fmt::Display for ProbeDesc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}:{}", self.provider, self.module, self.function, self.name)
    }
}

/// How a program is run by the kernel: all that BPF_PROG_LOAD must know, and what the code generator needs to know
/// about the context.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ProgKind {
    /// `BPF_PROG_TYPE_*`.
    pub prog_type: u32,
    /// `expected_attach_type`, 0 where none is needed.
    pub attach_type: u32,
    /// The BTF id of the attach target (`tp_btf`, fentry), 0 where none is needed.
    pub btf_id: u32,
    /// Whether the program may sleep (and so read user pages that are not resident).
    pub sleepable: bool,
    /// What the context is.
    pub ctx: Ctx,
}

/// The layout of the context that a program gets in r1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ctx {
    /// An array of 64-bit arguments (raw tracepoints, `tp_btf`, the consumer's own test runs).
    Args,
    /// `struct pt_regs` (kprobes, uprobes).
    Regs,
    /// `struct bpf_perf_event_data`, which starts with `pt_regs` (perf events).
    PerfEvent,
    /// A tracepoint's record as its `format` file lays it out.
    Record,
}

/// How a program learns which of its probes fired. The value found, the *index*, is below `limit` where there is one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Selector {
    /// The program serves one probe only: index 0.
    One,
    /// The attach cookie (`bpf_get_attach_cookie`), its lower 32 bits: the index of the probe in the list that `attach` was given. What
    /// the upper ones are is the provider's affair ([`Location::Site`]).
    Cookie,
    /// A system-call number, plus [`COMPAT_BASE`] when the call came through the 32-bit entry. A process can ask for any
    /// number: one that is not below [`COMPAT_BASE`] (unsigned, before the addition) is no probe's.
    Syscall {
        /// Where the number is.
        number: Location,
        /// Where the flag word is whose `mask` bits say that the call is a 32-bit one; none where the kernel has no such calls.
        compat: Option<(Location, u64)>,
        /// Indexes are below this.
        limit: u32,
    },
}

/// What is added to the number of a 32-bit system call to form its index.
pub const COMPAT_BASE: u32 = 512;

/// A typed probe argument, `args[n]`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Arg {
    /// Its name, where one is known.
    pub name: String,
    /// The type of what is at `location`.
    pub ty: TypeId,
    /// Where its value is.
    pub location: Location,
    /// The D library's type that D code sees instead, as D writes it (`psinfo_t *`): the value is translated to it. Empty where
    /// D code sees the value itself. `string` is the C string that `ty`, a pointer, points to, in that pointer's memory.
    pub translated: String,
}

/// What a provider tells about a probe: the program type that serves it, and its arguments as data.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Signature {
    /// How the program is run.
    pub prog: ProgKind,
    /// When the program may run.
    pub phase: Phase,
    /// Probes with equal `prog`, `phase`, `selector` and `group` can share one program, in one attach call.
    pub group: String,
    /// How the program learns which probe fired.
    pub selector: Selector,
    /// The condition under which the event is this probe's, evaluated before a clause's predicate; none if it always is.
    /// Probes with a condition share their program with probes of the same condition only.
    pub when: Option<Test>,
    /// The index of this probe under `Selector::Syscall`; 0 otherwise.
    pub index: u32,
    /// `arg0`, `arg1`, …: untyped, 64 bits. [`Location::None`] gives the reason why there is none.
    pub raw: Vec<Location>,
    /// `args[0]`, `args[1]`, …
    pub args: Vec<Arg>,
    /// Where `errno` comes from: a value in -4095..0 means an error. `None` where the probe has no errno (it reads 0).
    pub errno: Option<Location>,
    /// `caller`: the kernel's return address, where the context knows it better than a stack walk does.
    pub caller: Option<Location>,
    /// `ucaller`: likewise in user space (at a function's entry: the word at the stack pointer).
    pub ucaller: Option<Location>,
}

/// A probe that was found, with the number that `-l` shows.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Probe {
    /// Its number, from 1.
    pub id: u32,
    /// Its name.
    pub desc: ProbeDesc,
}
