//! Attaching programs: each function returns what keeps the probe alive, and nothing else does (G1).
//!
//! Owns the choice between a link with a cookie and the older ioctl. Which mechanism suits which probe is for
//! `providers`; what the kernel can do is in `features`.

use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::error::{Error, Kind, Result};
use crate::features::privilege_help;
use crate::load::Prog;
use crate::perf::{self, Access, ProbePmu, Rate, Scope, Source};
use crate::sys;

/// Attached probes, as long as it lives.
///
/// Detaching is the kernel's work when a descriptor closes, and is slow for some: 36 ms for a uprobe multi-link of any
/// size, some 150 ms for a uprobe PMU event, 75 ms for a perf tracepoint. Dropping many together takes half the time of
/// dropping them one by one, so [`Attachment::extend`] before.
#[derive(Debug, Default)]
pub struct Attachment {
    links: Vec<OwnedFd>,
    events: Vec<OwnedFd>,
}

impl Attachment {
    /// Makes an attachment of nothing.
    pub fn new() -> Attachment {
        Attachment::default()
    }

    /// Adds a descriptor that keeps a probe alive.
    pub fn push_link(&mut self, fd: OwnedFd) {
        self.links.push(fd);
    }

    /// Takes over what `other` owns.
    pub fn extend(&mut self, mut other: Attachment) {
        self.links.append(&mut other.links);
        self.events.append(&mut other.events);
    }

    /// Returns how many descriptors it owns.
    pub fn len(&self) -> usize {
        self.links.len() + self.events.len()
    }

    /// Returns whether it owns nothing.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Stops perf events at once, before the slower detaching; links without events are not affected.
    pub fn disable(&self) {
        for event in &self.events {
            // An event that cannot be disabled goes on until it is closed, which is harmless.
            if let Err(error) = perf::disable(event.as_fd()) {
                log::debug!("{error}");
            }
        }
    }

    fn of_link(link: OwnedFd) -> Attachment {
        Attachment { links: vec![link], events: Vec::new() }
    }
}

impl Drop for Attachment {
    fn drop(&mut self) {
        /// The kernel waits under one lock for the link and under another for the event: more threads gain nothing.
        const THREADS: usize = 4;
        let mut shares: [Vec<OwnedFd>; THREADS] = Default::default();
        let few = self.len() <= 2;
        for (index, fd) in self.links.drain(..).chain(self.events.drain(..)).enumerate() {
            shares[if few { 0 } else { index % THREADS }].push(fd);
        }
        if few {
            return;
        }
        std::thread::scope(|scope| {
            for share in shares {
                // Where no thread can be made the share is dropped, that is closed, right here.
                let _ = std::thread::Builder::new().spawn_scoped(scope, move || drop(share));
            }
        });
    }
}

/// Attaches to the raw tracepoint `name`; a cookie other than 0 needs Linux 6.10.
pub fn raw_tracepoint(prog: &Prog, name: &str, cookie: u64) -> Result<Attachment> {
    let c_name = c_string(name.as_bytes())?;
    let link = sys::raw_tracepoint_open(Some(&c_name), prog.as_fd(), cookie)
        .map_err(|error| explain(error, format!("cannot attach to raw tracepoint {name}"), cookie))?;
    Ok(Attachment::of_link(link))
}

/// Attaches a program loaded for a BTF raw tracepoint; a cookie other than 0 needs Linux 6.10.
pub fn tp_btf(prog: &Prog, cookie: u64) -> Result<Attachment> {
    let link = match cookie {
        0 => sys::raw_tracepoint_open(None, prog.as_fd(), 0),
        _ => sys::link_tracing(prog.as_fd(), sys::attach_type::TRACE_RAW_TP, cookie),
    };
    let link =
        link.map_err(|error| explain(error, format!("cannot attach {} to its tracepoint", prog.name()), cookie))?;
    Ok(Attachment::of_link(link))
}

/// Attaches a program loaded for fentry or fexit.
pub fn fentry(prog: &Prog, cookie: u64) -> Result<Attachment> {
    let kind = prog.attach_type().unwrap_or(sys::attach_type::TRACE_FENTRY);
    let link = sys::link_tracing(prog.as_fd(), kind, cookie)
        .map_err(|error| explain(error, format!("cannot attach {} to its function", prog.name()), 0))?;
    Ok(Attachment::of_link(link))
}

/// Attaches to the tracepoint with this id in tracefs, through perf: for programs that read its formatted fields.
pub fn perf_tracepoint(prog: &Prog, id: u64, cookie: u64) -> Result<Attachment> {
    on_event(prog, perf::tracepoint(id)?, cookie)
}

/// Attaches to file offsets in `path` with one link (Linux 6.6), with a cookie each, in `pid` or in every process.
///
/// On 6.6 to 6.9 the kernel may miss threads of `pid` other than the first.
pub fn uprobe_multi(
    prog: &Prog,
    path: &Path,
    sites: &[(u64, u64)],
    pid: Option<u32>,
    on_return: bool,
) -> Result<Attachment> {
    uprobe_multi_counted(prog, path, sites, &[], pid, on_return)
}

/// As [`uprobe_multi`], with the file offset of each place's semaphore (0: none), which the kernel raises while the link is there.
pub fn uprobe_multi_counted(
    prog: &Prog,
    path: &Path,
    sites: &[(u64, u64)],
    semaphores: &[u64],
    pid: Option<u32>,
    on_return: bool,
) -> Result<Attachment> {
    let offsets: Vec<u64> = sites.iter().map(|site| site.0).collect();
    let cookies: Vec<u64> = sites.iter().map(|site| site.1).collect();
    let c_path = c_string(path.as_os_str().as_bytes())?;
    let multi = sys::UprobeMulti {
        path: &c_path,
        offsets: &offsets,
        semaphores,
        cookies: &cookies,
        pid: pid.unwrap_or(0),
        on_return,
    };
    let link = sys::link_uprobe_multi(prog.as_fd(), &multi).map_err(|error| {
        let code = error.raw_os_error();
        let error = explain(error, format!("cannot probe {} places in {}", sites.len(), path.display()), 0);
        match code {
            Some(libc::ESRCH) => error.help("the process has ended"),
            _ => error,
        }
    })?;
    Ok(Attachment::of_link(link))
}

/// Attaches to one file offset through the uprobe PMU, for kernels without multi-links.
///
/// The program also runs in other processes that have the breakpoint on account of someone else; with `pid` it must check.
pub fn uprobe_pmu(
    prog: &Prog,
    pmu: &ProbePmu,
    path: &Path,
    site: (u64, u64),
    semaphore: u64,
    pid: Option<u32>,
    on_return: bool,
) -> Result<Attachment> {
    let c_path = c_string(path.as_os_str().as_bytes())?;
    on_event(prog, perf::uprobe(pmu, &c_path, site.0, on_return, semaphore, pid)?, site.1)
}

/// Attaches to `function+offset` through the kprobe PMU.
pub fn kprobe_pmu(
    prog: &Prog,
    pmu: &ProbePmu,
    function: &str,
    offset: u64,
    on_return: bool,
    cookie: u64,
) -> Result<Attachment> {
    on_event(prog, perf::kprobe(pmu, function, offset, on_return)?, cookie)
}

/// Samples `source` at `rate` on each of `cpus`, one event per CPU, all with the same cookie.
pub fn sample(
    prog: &Prog,
    source: &Source,
    rate: Rate,
    mode: perf::Mode,
    cpus: &[u32],
    cookie: u64,
) -> Result<Attachment> {
    let mut all = Attachment::new();
    for cpu in cpus {
        match perf::sampling(source, rate, Scope::Cpu(*cpu), mode) {
            Ok(event) => all.extend(on_event(prog, event, cookie)?),
            // The CPU went offline since the list was read.
            Err(error) if error.errno() == Some(libc::ENODEV) => log::debug!("cpu {cpu}: {error}"),
            Err(error) => return Err(error),
        }
    }
    Ok(all)
}

/// Attaches to a hardware breakpoint on each of `cpus`.
pub fn breakpoint(
    prog: &Prog,
    address: u64,
    len: u64,
    access: Access,
    scopes: &[Scope],
    cookie: u64,
) -> Result<Attachment> {
    let mut all = Attachment::new();
    for scope in scopes {
        all.extend(on_event(prog, perf::breakpoint(address, len, access, *scope)?, cookie)?);
    }
    Ok(all)
}

/// Attaches to an open event by link, or without a cookie by ioctl where links are refused, and enables it.
pub fn on_event(prog: &Prog, event: OwnedFd, cookie: u64) -> Result<Attachment> {
    let mut attachment = Attachment::new();
    match sys::link_perf_event(prog.as_fd(), event.as_fd(), cookie) {
        Ok(link) => attachment.links.push(link),
        Err(error) if cookie != 0 => {
            return Err(explain(error, format!("cannot attach {} to an event", prog.name()), 0));
        }
        Err(_) => perf::set_program(event.as_fd(), prog.as_fd())?,
    }
    perf::enable(event.as_fd())?;
    attachment.events.push(event);
    Ok(attachment)
}

fn explain(error: std::io::Error, what: String, cookie: u64) -> Error {
    let code = error.raw_os_error();
    let error = Error::io(error, what);
    match code {
        Some(libc::EPERM | libc::EACCES) => error.help(privilege_help()),
        Some(libc::EINVAL) if cookie != 0 => error.with_kind(Kind::Unsupported).help("its cookie needs Linux 6.10"),
        _ => error,
    }
}

fn c_string(bytes: &[u8]) -> Result<CString> {
    CString::new(bytes)
        .map_err(|_| Error::new(Kind::Invalid, format!("{:?} contains a NUL", String::from_utf8_lossy(bytes))))
}

/// Tells whether the kernel has uprobe multi-links, by asking for one on a directory: only a kernel that knows them looks
/// at the path and finds that it is no file.
pub(crate) fn knows_uprobe_multi() -> bool {
    // r0 = 0; exit
    let insns = [0xb7, 0x95];
    let attr = sys::ProgAttr {
        prog_type: sys::prog_type::KPROBE,
        attach_type: sys::attach_type::TRACE_UPROBE_MULTI,
        insns: &insns,
        name: "probe",
        ..Default::default()
    };
    let Ok(prog) = sys::prog_load(&attr, &mut []) else { return false };
    let root: &CStr = c"/";
    let multi = sys::UprobeMulti { path: root, offsets: &[0], semaphores: &[], cookies: &[], pid: 0, on_return: false };
    let result = sys::link_uprobe_multi(prog.as_fd(), &multi);
    matches!(result, Err(error) if error.raw_os_error() == Some(libc::EBADF))
}
