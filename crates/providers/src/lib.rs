//! The probe providers, one file each, and the trait that is the extension point.
//!
//! Adding a provider is one file, its `mod` line and its line in [`PROVIDERS`].
#![forbid(unsafe_code)]

mod abi;
pub mod arch;
mod cpc;
mod derived;
mod dtrace;
mod foreign;
mod io;
mod kernel_types;
mod kinds;
mod near;
mod pid;
mod proc;
mod profile;
mod rawtp;
mod sched;
mod sdt;
mod stap_args;
mod syscall;
mod syscall_names;
mod tcp;
#[cfg(test)]
mod testing;
pub mod unwind_table;
mod uprobe;
mod usdt;
mod user;
mod user_types;

pub use foreign::foreign;
pub use kernel_types::kernel_btf;
pub use near::near;
pub use rawtp::task_switch;
pub use user_types::complete_user_type;

use probity_ir::{ProbeDesc, Signature, TypeTable};
use probity_kernel::{Error, Prog, System};

/// A program that the consumer runs by a timer of its own, with `BPF_PROG_TEST_RUN` (`tick-n`).
pub struct Timer {
    /// Nanoseconds between two runs.
    pub period: u64,
    /// The probe's index in its program.
    pub index: u32,
    /// The program.
    pub prog: Prog,
}

/// What keeps probes attached; dropping it detaches them.
#[derive(Default)]
pub struct Attachment {
    /// Links and perf events.
    pub links: Vec<probity_kernel::Attachment>,
    /// Timers that the consumer has to serve.
    pub timers: Vec<Timer>,
    /// Probes that could not be attached although others of the same call could, each with the reason.
    pub skipped: Vec<(ProbeDesc, String)>,
    /// How it was done, in words, for `-v`.
    pub how: String,
}

/// How far one can rely on names, on what they mean, and on which systems: DTrace's words for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stability {
    /// Of probes' names: names, data, and dependency class.
    pub probes: [&'static str; 3],
    /// Of their arguments: likewise.
    pub args: [&'static str; 3],
}

impl Stability {
    /// What depends on the kernel's or a program's code as it happens to be.
    pub const PRIVATE: Stability =
        Stability { probes: ["Private", "Private", "Unknown"], args: ["Private", "Private", "Unknown"] };
    /// The same probes, with arguments of this sort.
    pub const fn with_args(args: [&'static str; 3]) -> Stability {
        Stability { args, ..Stability::PRIVATE }
    }
}

/// A source of probes.
pub trait Provider: Sync {
    /// The name, without a process id.
    fn name(&self) -> &'static str;
    /// Whether a pattern's provider field can mean this provider (`pid123`, `pro*`, empty).
    fn serves(&self, provider: &str) -> bool {
        probity_ir::glob(provider, self.name())
    }
    /// Whether its entries and returns cross into the kernel, which flow indentation shows as `=>`.
    fn crosses(&self) -> bool {
        false
    }
    /// Whether DTrace knows no such probe, so that as a drop-in for it only a description that names the probe's module finds it.
    fn beyond_dtrace(&self, _probe: &ProbeDesc) -> bool {
        false
    }
    /// A number for a probe that is the same in every run, from this provider's own range, if it has one; 0 if not.
    fn id(&self, _sys: &System, _probe: &ProbeDesc) -> u32 {
        0
    }
    /// What `-lv` says about the stability of its probes.
    fn stability(&self) -> Stability {
        Stability::PRIVATE
    }
    /// What someone may want who asks for `pattern` although there is no such probe: another system's name for it, mostly.
    fn hint(&self, _sys: &System, _pattern: &ProbeDesc) -> Option<String> {
        None
    }
    /// Whether `arg0`, `arg1`, … follow the declared types of the function, which only a typed signature knows.
    fn raw_follows_types(&self) -> bool {
        false
    }
    /// A type of the traced program, by keyword (empty for a typedef) and name. `scope` is what stands before the backquote, `probe`
    /// the probe of the clause. `None` if this provider's probes have nothing to do with such a scope.
    fn user_type(
        &self,
        _sys: &System,
        _scope: &str,
        _probe: Option<&ProbeDesc>,
        _keyword: &str,
        _name: &str,
        _types: &mut TypeTable,
    ) -> Option<Result<probity_ir::TypeId, Error>> {
        None
    }
    /// Every probe that matches `pattern`; creates nothing (G4).
    fn probes(&self, sys: &System, pattern: &ProbeDesc, found: &mut dyn FnMut(ProbeDesc)) -> Result<(), Error>;
    /// Program type and arguments as data: type + where the value comes from. Creates nothing (G4). `args` are filled only
    /// if `typed`.
    fn signature(
        &self,
        sys: &System,
        probe: &ProbeDesc,
        typed: bool,
        types: &mut TypeTable,
    ) -> Result<Signature, Error>;
    /// Creates and attaches; the caller says in an error's context which probes it was about. All probes that share one program come in one call; the cookie of each is its `u32`. Dropping the
    /// result detaches.
    fn attach(&self, sys: &System, probes: &[(u32, ProbeDesc)], prog: &Prog) -> Result<Attachment, Error>;
}

/// All providers, in the order of the probes' numbers.
pub static PROVIDERS: &[&dyn Provider] = &[
    &dtrace::Dtrace,
    &profile::Profile,
    &cpc::Cpc,
    &syscall::Syscall,
    &proc::PROC,
    &sched::SCHED,
    &io::IO,
    &tcp::TCP,
    &tcp::UDP,
    &sdt::Sdt,
    &rawtp::RawTp,
    &pid::Pid,
    &uprobe::Uprobe,
    &usdt::Usdt,
];
