//! `bpf(2)`: one function per command, with typed attributes.
//!
//! The attribute structures are written here from the kernel's UAPI (a prefix of its `union bpf_attr` each), because the
//! headers of a distribution lag behind the kernels we run on. Owns the one place where the system call is made;
//! knows nothing of objects (`load`), of what to attach where (`attach`), or of the meaning of map contents.

use std::ffi::CStr;
use std::io;
use std::mem::{size_of, size_of_val};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// Map types, as numbered by the kernel.
pub mod map_type {
    #![allow(missing_docs)]
    pub const HASH: u32 = 1;
    pub const ARRAY: u32 = 2;
    pub const PROG_ARRAY: u32 = 3;
    pub const PERF_EVENT_ARRAY: u32 = 4;
    pub const PERCPU_HASH: u32 = 5;
    pub const PERCPU_ARRAY: u32 = 6;
    pub const STACK_TRACE: u32 = 7;
    pub const LRU_HASH: u32 = 9;
    pub const LRU_PERCPU_HASH: u32 = 10;
    pub const ARRAY_OF_MAPS: u32 = 12;
    pub const HASH_OF_MAPS: u32 = 13;
    pub const RINGBUF: u32 = 27;
    pub const TASK_STORAGE: u32 = 29;
}

/// Program types, as numbered by the kernel.
pub mod prog_type {
    #![allow(missing_docs)]
    pub const KPROBE: u32 = 2;
    pub const TRACEPOINT: u32 = 5;
    pub const PERF_EVENT: u32 = 7;
    pub const RAW_TRACEPOINT: u32 = 17;
    pub const TRACING: u32 = 26;
    pub const SYSCALL: u32 = 31;
}

/// Attach types, as numbered by the kernel.
pub mod attach_type {
    #![allow(missing_docs)]
    pub const TRACE_RAW_TP: u32 = 23;
    pub const TRACE_FENTRY: u32 = 24;
    pub const TRACE_FEXIT: u32 = 25;
    pub const PERF_EVENT: u32 = 41;
    pub const TRACE_KPROBE_MULTI: u32 = 42;
    pub const TRACE_UPROBE_MULTI: u32 = 48;
}

/// `BPF_F_NO_PREALLOC`: hash entries are allocated when first used.
pub const F_NO_PREALLOC: u32 = 1;
/// `BPF_F_MMAPABLE`: the array can be mapped.
pub const F_MMAPABLE: u32 = 1 << 10;
/// `BPF_F_INNER_MAP`: inner arrays may differ in size.
pub const F_INNER_MAP: u32 = 1 << 12;
/// `BPF_F_SLEEPABLE`, a program flag: helpers may fault pages in.
pub const F_SLEEPABLE: u32 = 1 << 4;

const MAP_CREATE: u32 = 0;
const MAP_LOOKUP_ELEM: u32 = 1;
const MAP_UPDATE_ELEM: u32 = 2;
const MAP_DELETE_ELEM: u32 = 3;
const MAP_GET_NEXT_KEY: u32 = 4;
const PROG_LOAD: u32 = 5;
const PROG_TEST_RUN: u32 = 10;
const PROG_GET_NEXT_ID: u32 = 11;
const MAP_GET_NEXT_ID: u32 = 12;
const PROG_GET_FD_BY_ID: u32 = 13;
const OBJ_GET_INFO_BY_FD: u32 = 15;
const RAW_TRACEPOINT_OPEN: u32 = 17;
const BTF_LOAD: u32 = 18;
const MAP_FREEZE: u32 = 22;
const MAP_LOOKUP_BATCH: u32 = 24;
const MAP_LOOKUP_AND_DELETE_BATCH: u32 = 25;
const LINK_CREATE: u32 = 28;
const ENABLE_STATS: u32 = 32;

/// Makes the system call.
///
/// # Safety
/// `T` is the `repr(C)` attribute structure of `cmd`, without padding, and every address inside it points to memory of
/// the length that the command and the object it names ask for, writable where the command writes.
unsafe fn bpf<T>(cmd: u32, attr: &mut T) -> io::Result<i32> {
    // SAFETY: the attribute is valid for `size_of::<T>()` bytes; what it points to is the caller's promise.
    let ret = unsafe { libc::syscall(libc::SYS_bpf, cmd, attr as *mut T, size_of::<T>()) };
    if ret < 0 { Err(io::Error::last_os_error()) } else { Ok(ret as i32) }
}

fn own(fd: i32) -> OwnedFd {
    // SAFETY: only called with a descriptor that the kernel has just returned and that nothing else owns.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

fn addr<T: ?Sized>(data: &T) -> u64 {
    (data as *const T).cast::<u8>() as u64
}

fn addr_mut<T: ?Sized>(data: &mut T) -> u64 {
    (data as *mut T).cast::<u8>() as u64
}

/// An object name as the kernel takes it: at most 15 of `[A-Za-z0-9_.]`, NUL-padded; others become `_`.
pub fn object_name(name: &str) -> [u8; 16] {
    let mut out = [0; 16];
    for (to, from) in out[..15].iter_mut().zip(name.bytes()) {
        *to = if from.is_ascii_alphanumeric() || from == b'.' { from } else { b'_' };
    }
    out
}

/// What `BPF_MAP_CREATE` takes.
#[derive(Clone, Copy, Debug, Default)]
pub struct MapAttr<'a> {
    /// One of [`map_type`].
    pub map_type: u32,
    /// Bytes per key.
    pub key_size: u32,
    /// Bytes per value (per CPU where the map is per CPU).
    pub value_size: u32,
    /// Entries, or bytes of a ring.
    pub max_entries: u32,
    /// `BPF_F_*`.
    pub flags: u32,
    /// A map like those an array or hash of maps holds.
    pub inner: Option<BorrowedFd<'a>>,
    /// For tools that list maps.
    pub name: &'a str,
    /// BTF with the type ids of key and value, which task storage requires.
    pub btf: Option<(BorrowedFd<'a>, u32, u32)>,
}

#[repr(C)]
struct AttrMapCreate {
    map_type: u32,
    key_size: u32,
    value_size: u32,
    max_entries: u32,
    map_flags: u32,
    inner_map_fd: u32,
    numa_node: u32,
    map_name: [u8; 16],
    map_ifindex: u32,
    btf_fd: u32,
    btf_key_type_id: u32,
    btf_value_type_id: u32,
    btf_vmlinux_value_type_id: u32,
    map_extra: u64,
}

/// Creates a map.
pub fn map_create(attr: &MapAttr<'_>) -> io::Result<OwnedFd> {
    let (btf_fd, key_type, value_type) =
        attr.btf.map_or((0, 0, 0), |(fd, key, value)| (fd.as_raw_fd() as u32, key, value));
    let mut raw = AttrMapCreate {
        map_type: attr.map_type,
        key_size: attr.key_size,
        value_size: attr.value_size,
        max_entries: attr.max_entries,
        map_flags: attr.flags,
        inner_map_fd: attr.inner.map_or(0, |fd| fd.as_raw_fd() as u32),
        numa_node: 0,
        map_name: object_name(attr.name),
        map_ifindex: 0,
        btf_fd,
        btf_key_type_id: key_type,
        btf_value_type_id: value_type,
        btf_vmlinux_value_type_id: 0,
        map_extra: 0,
    };
    // SAFETY: the structure holds no addresses.
    unsafe { bpf(MAP_CREATE, &mut raw) }.map(own)
}

#[repr(C)]
struct AttrElem {
    map_fd: u32,
    pad: u32,
    key: u64,
    value: u64,
    flags: u64,
}

/// Copies the value at `key`.
///
/// # Safety
/// `key` is as long as the map's key; `value` as its whole value: for per-CPU maps, the value size rounded up to 8
/// times the number of possible CPUs.
pub unsafe fn map_lookup(fd: BorrowedFd<'_>, key: &[u8], value: &mut [u8]) -> io::Result<()> {
    let mut raw = AttrElem { map_fd: fd.as_raw_fd() as u32, pad: 0, key: addr(key), value: addr_mut(value), flags: 0 };
    // SAFETY: key and value are as long as the map says, by the caller's promise.
    unsafe { bpf(MAP_LOOKUP_ELEM, &mut raw) }.map(drop)
}

/// Sets the value at `key`; `flags` is `BPF_ANY` 0, `BPF_NOEXIST` 1 or `BPF_EXIST` 2.
///
/// # Safety
/// As for [`map_lookup`].
pub unsafe fn map_update(fd: BorrowedFd<'_>, key: &[u8], value: &[u8], flags: u64) -> io::Result<()> {
    let mut raw = AttrElem { map_fd: fd.as_raw_fd() as u32, pad: 0, key: addr(key), value: addr(value), flags };
    // SAFETY: key and value are as long as the map says, by the caller's promise; the kernel only reads them.
    unsafe { bpf(MAP_UPDATE_ELEM, &mut raw) }.map(drop)
}

/// Removes `key`.
///
/// # Safety
/// `key` is as long as the map's key.
pub unsafe fn map_delete(fd: BorrowedFd<'_>, key: &[u8]) -> io::Result<()> {
    let mut raw = AttrElem { map_fd: fd.as_raw_fd() as u32, pad: 0, key: addr(key), value: 0, flags: 0 };
    // SAFETY: the key is as long as the map says, by the caller's promise; the kernel only reads it.
    unsafe { bpf(MAP_DELETE_ELEM, &mut raw) }.map(drop)
}

/// Finds the key after `key`, or the first.
///
/// # Safety
/// `key` and `next` are as long as the map's key.
pub unsafe fn map_next_key(fd: BorrowedFd<'_>, key: Option<&[u8]>, next: &mut [u8]) -> io::Result<()> {
    let mut raw =
        AttrElem { map_fd: fd.as_raw_fd() as u32, pad: 0, key: key.map_or(0, addr), value: addr_mut(next), flags: 0 };
    // SAFETY: both keys are as long as the map says, by the caller's promise.
    unsafe { bpf(MAP_GET_NEXT_KEY, &mut raw) }.map(drop)
}

#[repr(C)]
struct AttrBatch {
    in_batch: u64,
    out_batch: u64,
    keys: u64,
    values: u64,
    count: u32,
    map_fd: u32,
    elem_flags: u64,
    flags: u64,
}

/// Copies up to `count` entries, and deletes them if `delete`; returns how many and whether the map is exhausted.
///
/// `first` is true for the first batch; afterwards `token` says where the last one ended. `ENOSPC` means that one
/// hash bucket alone holds more than `count` entries.
///
/// # Safety
/// `keys` and `values` have room for `count` keys and whole values; `token` is as long as the key, and at least 4 bytes.
pub unsafe fn map_lookup_batch(
    fd: BorrowedFd<'_>,
    first: bool,
    token: &mut [u8],
    keys: &mut [u8],
    values: &mut [u8],
    count: u32,
    delete: bool,
) -> io::Result<(u32, bool)> {
    let token = addr_mut(token);
    let mut raw = AttrBatch {
        in_batch: if first { 0 } else { token },
        out_batch: token,
        keys: addr_mut(keys),
        values: addr_mut(values),
        count,
        map_fd: fd.as_raw_fd() as u32,
        elem_flags: 0,
        flags: 0,
    };
    let cmd = if delete { MAP_LOOKUP_AND_DELETE_BATCH } else { MAP_LOOKUP_BATCH };
    // SAFETY: the buffers are large enough for `count` entries, by the caller's promise.
    match unsafe { bpf(cmd, &mut raw) } {
        Ok(_) => Ok((raw.count, false)),
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok((raw.count, true)),
        Err(error) => Err(error),
    }
}

/// Makes the map read-only to system calls, so that the verifier may treat its contents as constants.
pub fn map_freeze(fd: BorrowedFd<'_>) -> io::Result<()> {
    let mut raw = AttrElem { map_fd: fd.as_raw_fd() as u32, pad: 0, key: 0, value: 0, flags: 0 };
    // SAFETY: the command reads the descriptor only; the rest must be zero and is.
    unsafe { bpf(MAP_FREEZE, &mut raw) }.map(drop)
}

/// What `BPF_PROG_LOAD` takes.
#[derive(Clone, Copy, Debug, Default)]
pub struct ProgAttr<'a> {
    /// One of [`prog_type`].
    pub prog_type: u32,
    /// One of [`attach_type`], or 0.
    pub attach_type: u32,
    /// The BTF id in vmlinux of what a tracing program attaches to, or 0.
    pub attach_btf_id: u32,
    /// `BPF_F_*`, such as [`F_SLEEPABLE`].
    pub flags: u32,
    /// Encoded instructions, in which maps are already descriptors.
    pub insns: &'a [u64],
    /// For tools that list programs.
    pub name: &'a str,
}

#[repr(C)]
struct AttrProgLoad {
    prog_type: u32,
    insn_cnt: u32,
    insns: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log_buf: u64,
    kern_version: u32,
    prog_flags: u32,
    prog_name: [u8; 16],
    prog_ifindex: u32,
    expected_attach_type: u32,
    prog_btf_fd: u32,
    func_info_rec_size: u32,
    func_info: u64,
    func_info_cnt: u32,
    line_info_rec_size: u32,
    line_info: u64,
    line_info_cnt: u32,
    attach_btf_id: u32,
    attach_prog_fd: u32,
    pad: u32,
}

/// Loads a program. `log`, if not empty, receives the verifier's text (NUL-terminated).
pub fn prog_load(attr: &ProgAttr<'_>, log: &mut [u8]) -> io::Result<OwnedFd> {
    let license = c"GPL";
    let mut raw = AttrProgLoad {
        prog_type: attr.prog_type,
        insn_cnt: attr.insns.len() as u32,
        insns: addr(attr.insns),
        license: license.as_ptr() as u64,
        log_level: u32::from(!log.is_empty()),
        log_size: log.len() as u32,
        log_buf: if log.is_empty() { 0 } else { addr_mut(log) },
        kern_version: 0,
        prog_flags: attr.flags,
        prog_name: object_name(attr.name),
        prog_ifindex: 0,
        expected_attach_type: attr.attach_type,
        prog_btf_fd: 0,
        func_info_rec_size: 0,
        func_info: 0,
        func_info_cnt: 0,
        line_info_rec_size: 0,
        line_info: 0,
        line_info_cnt: 0,
        attach_btf_id: attr.attach_btf_id,
        attach_prog_fd: 0,
        pad: 0,
    };
    // The kernel may return EAGAIN when signals interrupt a long verification.
    for _ in 0..5 {
        // SAFETY: instructions, licence and log are live slices whose lengths stand beside their addresses.
        match unsafe { bpf(PROG_LOAD, &mut raw) } {
            Err(error) if error.raw_os_error() == Some(libc::EAGAIN) => {}
            result => return result.map(own),
        }
    }
    Err(io::Error::from_raw_os_error(libc::EAGAIN))
}

#[repr(C)]
struct AttrBtfLoad {
    btf: u64,
    btf_log_buf: u64,
    btf_size: u32,
    btf_log_size: u32,
    btf_log_level: u32,
    pad: u32,
}

/// Loads type information.
pub fn btf_load(btf: &[u8]) -> io::Result<OwnedFd> {
    let mut raw = AttrBtfLoad {
        btf: addr(btf),
        btf_log_buf: 0,
        btf_size: btf.len() as u32,
        btf_log_size: 0,
        btf_log_level: 0,
        pad: 0,
    };
    // SAFETY: the address and length are those of a live slice.
    unsafe { bpf(BTF_LOAD, &mut raw) }.map(own)
}

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

#[repr(C)]
struct AttrTestRun {
    prog_fd: u32,
    retval: u32,
    data_size_in: u32,
    data_size_out: u32,
    data_in: u64,
    data_out: u64,
    repeat: u32,
    duration: u32,
    ctx_size_in: u32,
    ctx_size_out: u32,
    ctx_in: u64,
    ctx_out: u64,
    flags: u32,
    cpu: u32,
    batch_size: u32,
    pad: u32,
}

/// Runs a raw tracepoint or syscall program once, here or on `cpu`, with `args` as its context; returns its result.
pub fn prog_test_run(prog: BorrowedFd<'_>, args: &[u64], cpu: Option<u32>) -> io::Result<u32> {
    // The kernel writes a syscall program's context back to where it came from, so it gets a copy.
    let mut args = args.to_vec();
    let mut raw = AttrTestRun {
        prog_fd: prog.as_raw_fd() as u32,
        retval: 0,
        data_size_in: 0,
        data_size_out: 0,
        data_in: 0,
        data_out: 0,
        repeat: 0,
        duration: 0,
        ctx_size_in: size_of_val(&args[..]) as u32,
        ctx_size_out: 0,
        ctx_in: if args.is_empty() { 0 } else { addr_mut(&mut args[..]) },
        ctx_out: 0,
        flags: u32::from(cpu.is_some()),
        cpu: cpu.unwrap_or(0),
        batch_size: 0,
        pad: 0,
    };
    // SAFETY: the context is a live mutable slice whose length stands beside its address.
    unsafe { bpf(PROG_TEST_RUN, &mut raw) }?;
    Ok(raw.retval)
}

/// What the kernel knows of a loaded program (a prefix of its `struct bpf_prog_info`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
#[allow(missing_docs)]
pub struct ProgInfo {
    pub prog_type: u32,
    pub id: u32,
    pub tag: [u8; 8],
    pub jited_len: u32,
    pub xlated_len: u32,
    jited_insns: u64,
    xlated_insns: u64,
    pub load_time: u64,
    pub created_by_uid: u32,
    pub map_count: u32,
    map_ids: u64,
    pub name: [u8; 16],
    ifindex: u32,
    gpl: u32,
    netns_dev: u64,
    netns_ino: u64,
    jited_ksym_count: u32,
    jited_func_len_count: u32,
    jited_ksyms: u64,
    jited_func_lens: u64,
    btf_id: u32,
    func_info_rec_size: u32,
    func_info: u64,
    func_info_count: u32,
    line_info_count: u32,
    line_info: u64,
    jited_line_info: u64,
    jited_line_info_count: u32,
    line_info_rec_size: u32,
    jited_line_info_rec_size: u32,
    prog_tag_count: u32,
    prog_tags: u64,
    /// Nanoseconds spent in it, while [`enable_stats`] is held.
    pub run_time_ns: u64,
    /// Times it ran, while [`enable_stats`] is held.
    pub run_count: u64,
    /// Times it could not run because a program was running on that CPU already.
    pub recursion_misses: u64,
    pub verified_insns: u32,
    attach_btf_obj_id: u32,
    pub attach_btf_id: u32,
    pad: u32,
}

#[repr(C)]
struct AttrInfo {
    bpf_fd: u32,
    info_len: u32,
    info: u64,
}

/// Reads what the kernel knows of a program.
pub fn prog_info(prog: BorrowedFd<'_>) -> io::Result<ProgInfo> {
    let mut info = ProgInfo::default();
    let mut raw =
        AttrInfo { bpf_fd: prog.as_raw_fd() as u32, info_len: size_of::<ProgInfo>() as u32, info: addr_mut(&mut info) };
    // SAFETY: `info` has `info_len` bytes, and its array addresses are null, so that the kernel copies no arrays.
    unsafe { bpf(OBJ_GET_INFO_BY_FD, &mut raw) }?;
    Ok(info)
}

#[repr(C)]
struct AttrId {
    id: u32,
    next_id: u32,
    open_flags: u32,
}

fn ids(cmd: u32) -> Vec<u32> {
    let mut found = Vec::new();
    let mut raw = AttrId { id: 0, next_id: 0, open_flags: 0 };
    // SAFETY: the structure holds no addresses.
    while unsafe { bpf(cmd, &mut raw) }.is_ok() {
        found.push(raw.next_id);
        raw.id = raw.next_id;
    }
    found
}

/// Lists the ids of all loaded programs (for tests: G1); empty without CAP_SYS_ADMIN.
pub fn prog_ids() -> Vec<u32> {
    ids(PROG_GET_NEXT_ID)
}

/// Lists the ids of all maps (for tests: G1); empty without CAP_SYS_ADMIN.
pub fn map_ids() -> Vec<u32> {
    ids(MAP_GET_NEXT_ID)
}

/// Opens a loaded program by id.
pub fn prog_by_id(id: u32) -> io::Result<OwnedFd> {
    let mut raw = AttrId { id, next_id: 0, open_flags: 0 };
    // SAFETY: the structure holds no addresses.
    unsafe { bpf(PROG_GET_FD_BY_ID, &mut raw) }.map(own)
}

/// Turns on run counts and times of all programs for as long as the descriptor is open; costs two clock reads a run.
pub fn enable_stats() -> io::Result<OwnedFd> {
    let mut kind: u32 = 0;
    // SAFETY: the attribute of this command is one u32, BPF_STATS_RUN_TIME.
    unsafe { bpf(ENABLE_STATS, &mut kind) }.map(own)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_have_the_kernels_offsets() {
        use std::mem::offset_of;
        assert_eq!(offset_of!(AttrMapCreate, map_extra), 64);
        assert_eq!(offset_of!(AttrBatch, flags), 48);
        assert_eq!(offset_of!(AttrProgLoad, prog_name), 48);
        assert_eq!(offset_of!(AttrProgLoad, attach_btf_id), 108);
        assert_eq!(offset_of!(AttrLinkUprobeMulti, cnt), 48);
        assert_eq!(offset_of!(AttrLinkTracing, cookie), 24);
        assert_eq!(offset_of!(AttrTestRun, flags), 64);
        assert_eq!(offset_of!(ProgInfo, run_time_ns), 192);
        assert_eq!(offset_of!(ProgInfo, attach_btf_id), 224);
    }

    #[test]
    fn names_are_what_the_kernel_accepts() {
        assert_eq!(&object_name("a-b.c d$"), b"a_b.c_d_\0\0\0\0\0\0\0\0");
        assert_eq!(object_name("0123456789abcdefgh")[15], 0);
    }
}
