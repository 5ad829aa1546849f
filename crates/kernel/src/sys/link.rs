//! Links: what holds a program to a raw tracepoint, a perf event, many uprobes or a traced function.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use super::{addr, attach_type, bpf, own};

const RAW_TRACEPOINT_OPEN: u32 = 17;
const LINK_CREATE: u32 = 28;

#[repr(C)]
struct AttrRawTracepoint {
    name: u64,
    prog_fd: u32,
    pad: u32,
    cookie: u64,
}

#[repr(C)]
struct AttrRawTracepointOld {
    name: u64,
    prog_fd: u32,
    pad: u32,
}

/// Attaches a program to a raw tracepoint (`name`), or a tracing program to what it was loaded for (`None`).
///
/// A cookie needs Linux 6.10; 0 asks for none.
pub fn raw_tracepoint_open(name: Option<&CStr>, prog: BorrowedFd<'_>, cookie: u64) -> io::Result<OwnedFd> {
    let name = name.map_or(0, |name| name.as_ptr() as u64);
    let prog_fd = prog.as_raw_fd() as u32;
    if cookie == 0 {
        let mut raw = AttrRawTracepointOld { name, prog_fd, pad: 0 };
        // SAFETY: the name is a live NUL-terminated string or null.
        return unsafe { bpf(RAW_TRACEPOINT_OPEN, &mut raw) }.map(own);
    }
    let mut raw = AttrRawTracepoint { name, prog_fd, pad: 0, cookie };
    // SAFETY: as above.
    unsafe { bpf(RAW_TRACEPOINT_OPEN, &mut raw) }.map(own)
}

#[repr(C)]
struct AttrLinkPerf {
    prog_fd: u32,
    target_fd: u32,
    attach_type: u32,
    flags: u32,
    bpf_cookie: u64,
}

/// Attaches a program to an open perf event, with a cookie. The link keeps the event alive.
pub fn link_perf_event(prog: BorrowedFd<'_>, event: BorrowedFd<'_>, cookie: u64) -> io::Result<OwnedFd> {
    let mut raw = AttrLinkPerf {
        prog_fd: prog.as_raw_fd() as u32,
        target_fd: event.as_raw_fd() as u32,
        attach_type: attach_type::PERF_EVENT,
        flags: 0,
        bpf_cookie: cookie,
    };
    // SAFETY: the structure holds no addresses.
    unsafe { bpf(LINK_CREATE, &mut raw) }.map(own)
}

#[repr(C)]
struct AttrLinkUprobeMulti {
    prog_fd: u32,
    target_fd: u32,
    attach_type: u32,
    link_flags: u32,
    path: u64,
    offsets: u64,
    ref_ctr_offsets: u64,
    cookies: u64,
    cnt: u32,
    flags: u32,
    pid: u32,
    pad: u32,
}

/// What a uprobe multi-link takes.
#[derive(Clone, Copy, Debug)]
pub struct UprobeMulti<'a> {
    /// The file.
    pub path: &'a CStr,
    /// File offsets of the instructions.
    pub offsets: &'a [u64],
    /// File offsets of USDT semaphores (0: none); empty or as long as `offsets`.
    pub semaphores: &'a [u64],
    /// Cookies; empty or as long as `offsets`.
    pub cookies: &'a [u64],
    /// The process, or 0 for all.
    pub pid: u32,
    /// Fires on return rather than on entry.
    pub on_return: bool,
}

/// Attaches a program to many places of one file at once (Linux 6.6).
pub fn link_uprobe_multi(prog: BorrowedFd<'_>, multi: &UprobeMulti<'_>) -> io::Result<OwnedFd> {
    let count = multi.offsets.len();
    let fits = |len: usize| len == 0 || len == count;
    if count == 0 || !fits(multi.cookies.len()) || !fits(multi.semaphores.len()) {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    }
    let or_null = |data: &[u64]| if data.is_empty() { 0 } else { addr(data) };
    let mut raw = AttrLinkUprobeMulti {
        prog_fd: prog.as_raw_fd() as u32,
        target_fd: 0,
        attach_type: attach_type::TRACE_UPROBE_MULTI,
        link_flags: 0,
        path: multi.path.as_ptr() as u64,
        offsets: addr(multi.offsets),
        ref_ctr_offsets: or_null(multi.semaphores),
        cookies: or_null(multi.cookies),
        cnt: count as u32,
        flags: u32::from(multi.on_return),
        pid: multi.pid,
        pad: 0,
    };
    // SAFETY: the path is NUL-terminated; every array has `cnt` elements, as checked above.
    unsafe { bpf(LINK_CREATE, &mut raw) }.map(own)
}

#[repr(C)]
struct AttrLinkTracing {
    prog_fd: u32,
    target_fd: u32,
    attach_type: u32,
    flags: u32,
    target_btf_id: u32,
    pad: u32,
    cookie: u64,
}

/// Attaches a tracing program (tp_btf, fentry, fexit) to what it was loaded for, with a cookie (tp_btf: Linux 6.10).
pub fn link_tracing(prog: BorrowedFd<'_>, attach_type: u32, cookie: u64) -> io::Result<OwnedFd> {
    let mut raw = AttrLinkTracing {
        prog_fd: prog.as_raw_fd() as u32,
        target_fd: 0,
        attach_type,
        flags: 0,
        target_btf_id: 0,
        pad: 0,
        cookie,
    };
    // SAFETY: the structure holds no addresses.
    unsafe { bpf(LINK_CREATE, &mut raw) }.map(own)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_have_the_kernels_offsets() {
        use std::mem::offset_of;
        assert_eq!(offset_of!(AttrLinkUprobeMulti, cnt), 48);
        assert_eq!(offset_of!(AttrLinkTracing, cookie), 24);
    }
}
