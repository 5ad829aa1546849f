//! Programs: loading, running once, and what the kernel knows of them; and the lists of ids, for tests of G1.

use std::io;
use std::mem::{size_of, size_of_val};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use super::{addr, addr_mut, bpf, object_name, own};

const PROG_LOAD: u32 = 5;
const PROG_TEST_RUN: u32 = 10;
const PROG_GET_NEXT_ID: u32 = 11;
const MAP_GET_NEXT_ID: u32 = 12;
const PROG_GET_FD_BY_ID: u32 = 13;
const OBJ_GET_INFO_BY_FD: u32 = 15;
const ENABLE_STATS: u32 = 32;

/// What `BPF_PROG_LOAD` takes.
#[derive(Clone, Copy, Debug, Default)]
pub struct ProgAttr<'a> {
    /// One of `sys::prog_type`.
    pub prog_type: u32,
    /// One of `sys::attach_type`, or 0.
    pub attach_type: u32,
    /// The BTF id in vmlinux of what a tracing program attaches to, or 0.
    pub attach_btf_id: u32,
    /// `BPF_F_*`, such as `F_SLEEPABLE`.
    pub flags: u32,
    /// Encoded instructions, in which maps are already descriptors.
    pub insns: &'a [u64],
    /// For tools that list programs.
    pub name: &'a str,
    /// BTF, and for each subprogram its first slot and its type in it.
    pub func_info: Option<(BorrowedFd<'a>, &'a [u32])>,
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
        prog_btf_fd: attr.func_info.map_or(0, |(btf, _)| btf.as_raw_fd() as u32),
        func_info_rec_size: if attr.func_info.is_some() { 8 } else { 0 },
        func_info: attr.func_info.map_or(0, |(_, records)| addr(records)),
        func_info_cnt: attr.func_info.map_or(0, |(_, records)| records.len() as u32 / 2),
        line_info_rec_size: 0,
        line_info: 0,
        line_info_cnt: 0,
        attach_btf_id: attr.attach_btf_id,
        attach_prog_fd: 0,
        pad: 0,
    };
    // The kernel may return EAGAIN when signals interrupt a long verification.
    for _ in 0..5 {
        // SAFETY: instructions, licence, function records and log are live slices whose lengths stand beside their addresses.
        match unsafe { bpf(PROG_LOAD, &mut raw) } {
            Err(error) if error.raw_os_error() == Some(libc::EAGAIN) => {}
            result => return result.map(own),
        }
    }
    Err(io::Error::from_raw_os_error(libc::EAGAIN))
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
        assert_eq!(offset_of!(AttrProgLoad, prog_name), 48);
        assert_eq!(offset_of!(AttrProgLoad, attach_btf_id), 108);
        assert_eq!(offset_of!(AttrTestRun, flags), 64);
        assert_eq!(offset_of!(ProgInfo, run_time_ns), 192);
        assert_eq!(offset_of!(ProgInfo, attach_btf_id), 224);
    }
}
