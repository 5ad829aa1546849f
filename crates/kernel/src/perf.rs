//! `perf_event_open(2)`: sampling clocks, tracepoints, the uprobe and kprobe PMUs, breakpoints.
//!
//! Owns the attribute structure and the opening of events; attaching programs to them is `attach`. Everything
//! made here lives exactly as long as its descriptor (G1): tracefs's probe files are never written.

use std::ffi::CString;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use crate::error::{Error, Kind, Result};
use crate::poll::owned;
use crate::system::System;

const TYPE_HARDWARE: u32 = 0;
const TYPE_SOFTWARE: u32 = 1;
const TYPE_TRACEPOINT: u32 = 2;
const TYPE_BREAKPOINT: u32 = 5;
/// `PERF_COUNT_SW_CPU_CLOCK`.
const SOFTWARE_CPU_CLOCK: u64 = 0;

const DISABLED: u64 = 1 << 0;
const EXCLUDE_USER: u64 = 1 << 4;
const EXCLUDE_KERNEL: u64 = 1 << 5;
const FREQ: u64 = 1 << 10;
const MMAP: u64 = 1 << 8;
const COMM: u64 = 1 << 9;
const TASK: u64 = 1 << 13;
const SAMPLE_ID_ALL: u64 = 1 << 18;
const MMAP2: u64 = 1 << 23;
const COMM_EXEC: u64 = 1 << 24;
const REMOVE_ON_EXEC: u64 = 1 << 36;
const SIGTRAP: u64 = 1 << 37;
/// `PERF_COUNT_SW_DUMMY`: counts nothing.
const SOFTWARE_DUMMY: u64 = 9;
/// `PERF_SAMPLE_TIME`
const SAMPLE_TIME: u64 = 1 << 2;

const IOC_ENABLE: libc::c_ulong = 0x2400;
const IOC_DISABLE: libc::c_ulong = 0x2401;
const IOC_SET_BPF: libc::c_ulong = 0x4004_2408;

/// `struct perf_event_attr` as of version 5 (112 bytes), which every supported kernel takes.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct Attr {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    bp_type: u32,
    config1: u64,
    config2: u64,
    branch_sample_type: u64,
    sample_regs_user: u64,
    sample_stack_user: u32,
    clockid: i32,
    sample_regs_intr: u64,
    aux_watermark: u32,
    sample_max_stack: u16,
    reserved: u16,
}

/// What an event counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// The CPU's clock.
    CpuClock,
    /// `PERF_TYPE_SOFTWARE` with this config.
    Software(u64),
    /// `PERF_TYPE_HARDWARE` with this config.
    Hardware(u64),
    /// The processor's own events or any PMU: type and config.
    Raw(u32, u64),
}

/// How often an event samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rate {
    /// Every so many events; for clocks, nanoseconds.
    Period(u64),
    /// So many times a second, which the kernel approximates by adjusting the period.
    Frequency(u64),
}

/// In which mode of the processor an event counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Both.
    All,
    /// While programs run.
    User,
    /// While the kernel runs.
    Kernel,
}

/// Whom an event follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Everything on one CPU.
    Cpu(u32),
    /// One thread on all CPUs.
    Thread(u32),
}

/// When a breakpoint fires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// On writes.
    Write = 2,
    /// On reads and writes.
    ReadWrite = 3,
    /// On execution.
    Execute = 4,
}

/// Opens a sampling event, disabled until a program is attached.
pub fn sampling(source: &Source, rate: Rate, scope: Scope, mode: Mode) -> Result<OwnedFd> {
    let (kind, config) = match source {
        Source::CpuClock => (TYPE_SOFTWARE, SOFTWARE_CPU_CLOCK),
        Source::Software(config) => (TYPE_SOFTWARE, *config),
        Source::Hardware(config) => (TYPE_HARDWARE, *config),
        Source::Raw(kind, config) => (*kind, *config),
    };
    let (period, flags) = match rate {
        Rate::Period(period) => (period, DISABLED),
        Rate::Frequency(frequency) => (frequency, DISABLED | FREQ),
    };
    let excluded = match mode {
        Mode::All => 0,
        Mode::User => EXCLUDE_KERNEL,
        Mode::Kernel => EXCLUDE_USER,
    };
    let attr = Attr { kind, config, sample_period: period, flags: flags | excluded, ..Attr::default() };
    open(attr, scope, || format!("cannot open the event {source:?}")).map_err(|error| match (error.errno(), rate) {
        (Some(libc::EINVAL), Rate::Frequency(_)) => {
            error.help("the kernel's limit is in /proc/sys/kernel/perf_event_max_sample_rate")
        }
        _ => error,
    })
}

/// Opens an event that only records what processes on a CPU map, exec, fork and end; each record ends with its time.
pub(crate) fn mappings(cpu: u32) -> Result<OwnedFd> {
    let flags = MMAP | MMAP2 | COMM | COMM_EXEC | TASK | SAMPLE_ID_ALL;
    let attr = Attr { kind: TYPE_SOFTWARE, config: SOFTWARE_DUMMY, sample_type: SAMPLE_TIME, flags, ..Attr::default() };
    open(attr, Scope::Cpu(cpu), || format!("cannot watch what processes map on CPU {cpu}"))
}

/// Opens a tracepoint by its id in tracefs. One event serves all CPUs once a program is attached.
pub fn tracepoint(id: u64) -> Result<OwnedFd> {
    let attr = Attr { kind: TYPE_TRACEPOINT, config: id, sample_period: 1, flags: DISABLED, ..Attr::default() };
    open(attr, Scope::Cpu(first_cpu()?), || format!("cannot open tracepoint {id}"))
}

/// Opens a hardware breakpoint of `len` bytes (1, 2, 4, 8) at `address`.
pub fn breakpoint(address: u64, len: u64, access: Access, scope: Scope) -> Result<OwnedFd> {
    // An execution breakpoint must have the length of a register.
    let len = if access == Access::Execute { 8 } else { len };
    let attr = Attr {
        kind: TYPE_BREAKPOINT,
        sample_period: 1,
        flags: DISABLED,
        bp_type: access as u32,
        config1: address,
        config2: len,
        ..Attr::default()
    };
    open(attr, scope, || format!("cannot set a breakpoint at {address:#x}"))
}

/// Opens a hardware breakpoint at `address` that stops the thread by a SIGTRAP before the instruction there. Unlike one that is written into
/// the code, it is gone with its descriptor (G1). Linux 5.13.
pub(crate) fn stop_at(address: u64, thread: u32) -> Result<OwnedFd> {
    let attr = Attr {
        kind: TYPE_BREAKPOINT,
        sample_period: 1,
        flags: EXCLUDE_KERNEL | REMOVE_ON_EXEC | SIGTRAP,
        bp_type: Access::Execute as u32,
        config1: address,
        config2: 8,
        ..Attr::default()
    };
    open(attr, Scope::Thread(thread), || format!("cannot stop process {thread} at {address:#x}"))
}

/// A dynamic PMU, `uprobe` or `kprobe`, as sysfs describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProbePmu {
    /// The number that stands for it in the attribute.
    pub kind: u32,
    /// The config bit that asks for the return.
    pub return_bit: u32,
    /// The config bit where a semaphore's file offset starts; uprobes only.
    pub semaphore_shift: Option<u32>,
}

impl ProbePmu {
    /// Reads what sysfs says about PMU `name`.
    pub fn read(sys: &System, name: &str) -> Result<ProbePmu> {
        let dir = format!("sys/bus/event_source/devices/{name}");
        let kind = sys.read(&format!("{dir}/type")).map_err(|error| match error.kind() {
            Kind::NotFound => Error::new(Kind::Unsupported, format!("this kernel has no {name} PMU"))
                .help(format!("it needs CONFIG_{}_EVENTS", name.to_ascii_uppercase())),
            _ => error,
        })?;
        let odd = |what: &str| Error::new(Kind::Io, format!("/{dir}/{what} is not understood"));
        let kind = kind.trim().parse().map_err(|_| odd("type"))?;
        let format = sys.read(&format!("{dir}/format/retprobe"))?;
        let return_bit = config_bit(&format).ok_or_else(|| odd("format/retprobe"))?;
        let semaphore_shift =
            sys.read(&format!("{dir}/format/ref_ctr_offset")).ok().and_then(|format| config_bit(&format));
        Ok(ProbePmu { kind, return_bit, semaphore_shift })
    }
}

/// Parses the first bit of a field in `config`, from text like `config:0` or `config:32-63`.
pub(crate) fn config_bit(format: &str) -> Option<u32> {
    let bits = format.trim().strip_prefix("config:")?;
    bits.split('-').next()?.parse().ok().filter(|bit| *bit < 64)
}

/// Opens a uprobe at a file offset, in one process or all.
///
/// A program attached to it runs in every process that has the breakpoint, even one that this event does not follow:
/// it must check for itself whom it serves.
pub fn uprobe(
    pmu: &ProbePmu,
    path: &std::ffi::CStr,
    offset: u64,
    on_return: bool,
    semaphore: u64,
    pid: Option<u32>,
) -> Result<OwnedFd> {
    let mut config = if on_return { 1u64 << pmu.return_bit } else { 0 };
    if semaphore != 0 {
        let shift = pmu.semaphore_shift.ok_or_else(|| {
            Error::new(Kind::Unsupported, "this kernel's uprobe PMU takes no semaphore").help("Linux 4.20 does")
        })?;
        if semaphore >> (64 - shift) != 0 {
            return Err(Error::new(Kind::Invalid, format!("semaphore offset {semaphore:#x} is too large")));
        }
        config |= semaphore << shift;
    }
    let attr = Attr {
        kind: pmu.kind,
        config,
        sample_period: 1,
        flags: DISABLED,
        config1: path.as_ptr() as u64,
        config2: offset,
        ..Attr::default()
    };
    let scope = match pid {
        Some(pid) => Scope::Thread(pid),
        None => Scope::Cpu(first_cpu()?),
    };
    open(attr, scope, || format!("cannot probe {}+{offset:#x}", path.to_string_lossy()))
}

/// Opens a kprobe at `function` plus `offset`.
pub fn kprobe(pmu: &ProbePmu, function: &str, offset: u64, on_return: bool) -> Result<OwnedFd> {
    let name =
        CString::new(function).map_err(|_| Error::new(Kind::Invalid, format!("{function:?} is no function's name")))?;
    let attr = Attr {
        kind: pmu.kind,
        config: if on_return { 1u64 << pmu.return_bit } else { 0 },
        sample_period: 1,
        flags: DISABLED,
        config1: name.as_ptr() as u64,
        config2: offset,
        ..Attr::default()
    };
    open(attr, Scope::Cpu(first_cpu()?), || format!("cannot probe kernel function {function}+{offset:#x}"))
}

/// Enables an event. A BPF link does not: an event that samples fires only when enabled.
pub fn enable(event: BorrowedFd<'_>) -> Result<()> {
    ioctl(event, IOC_ENABLE, 0, "cannot enable an event")
}

/// Disables an event.
pub fn disable(event: BorrowedFd<'_>) -> Result<()> {
    ioctl(event, IOC_DISABLE, 0, "cannot disable an event")
}

/// Attaches a program to an event without a link, hence without a cookie, for as long as the event is open.
pub fn set_program(event: BorrowedFd<'_>, prog: BorrowedFd<'_>) -> Result<()> {
    ioctl(event, IOC_SET_BPF, prog.as_raw_fd() as libc::c_ulong, "cannot attach a program to an event")
}

fn ioctl(event: BorrowedFd<'_>, request: libc::c_ulong, arg: libc::c_ulong, what: &str) -> Result<()> {
    // SAFETY: these requests take plain numbers.
    let ret = unsafe { libc::ioctl(event.as_raw_fd(), request, arg) };
    if ret < 0 { Err(Error::last_os(what)) } else { Ok(()) }
}

fn open(mut attr: Attr, scope: Scope, what: impl FnOnce() -> String) -> Result<OwnedFd> {
    attr.size = size_of::<Attr>() as u32;
    let (pid, cpu): (i32, i32) = match scope {
        Scope::Cpu(cpu) => (-1, cpu as i32),
        Scope::Thread(tid) => (tid as i32, -1),
    };
    /// `PERF_FLAG_FD_CLOEXEC`.
    const CLOEXEC: libc::c_ulong = 1 << 3;
    // SAFETY: the attribute is valid for `size` bytes; the strings it may point to outlive the call.
    let fd = unsafe { libc::syscall(libc::SYS_perf_event_open, &raw const attr, pid, cpu, -1, CLOEXEC) };
    owned(fd as i32).map_err(|error| {
        let code = error.raw_os_error();
        let error = Error::io(error, what());
        match code {
            Some(libc::EPERM | libc::EACCES) => error.help(crate::features::privilege_help()),
            Some(libc::EMFILE) => error.help("raise the limit of open files, ulimit -n"),
            Some(libc::ESRCH) => error.help("the process has ended"),
            _ => error,
        }
    })
}

/// The lowest online CPU: one event there serves tracepoints and probes on all.
fn first_cpu() -> Result<u32> {
    let path = "/sys/devices/system/cpu/online";
    let text = std::fs::read_to_string(path).map_err(|error| Error::io(error, format!("cannot read {path}")))?;
    Ok(crate::cpu::parse_list(&text).and_then(|cpus| cpus.first().copied()).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_attribute_is_version_5() {
        assert_eq!(size_of::<Attr>(), 112);
        assert_eq!(std::mem::offset_of!(Attr, config1), 56);
    }

    #[test]
    fn format_fields_parse() {
        assert_eq!(config_bit("config:0\n"), Some(0));
        assert_eq!(config_bit("config:32-63\n"), Some(32));
        assert_eq!(config_bit("config1:0"), None);
        assert_eq!(config_bit("config:64"), None);
    }
}
