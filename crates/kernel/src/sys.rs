//! `bpf(2)`: one function per command, with typed attributes.
//!
//! The attribute structures are written here from the kernel's UAPI (a prefix of its `union bpf_attr` each), because the
//! headers of a distribution lag behind the kernels we run on. Owns the one place where the system call is made;
//! maps are here, programs in `prog`, links in `link`. Leaves out objects (`load`), what to attach where (`attach`), and
//! the meaning of map contents.

use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

mod link;
mod prog;

pub use link::*;
pub use prog::*;

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
const BTF_LOAD: u32 = 18;
const MAP_FREEZE: u32 = 22;
const MAP_LOOKUP_BATCH: u32 = 24;
const MAP_LOOKUP_AND_DELETE_BATCH: u32 = 25;

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_have_the_kernels_offsets() {
        use std::mem::offset_of;
        assert_eq!(offset_of!(AttrMapCreate, map_extra), 64);
        assert_eq!(offset_of!(AttrBatch, flags), 48);
    }

    #[test]
    fn names_are_what_the_kernel_accepts() {
        assert_eq!(&object_name("a-b.c d$"), b"a_b.c_d_\0\0\0\0\0\0\0\0");
        assert_eq!(object_name("0123456789abcdefgh")[15], 0);
    }
}
