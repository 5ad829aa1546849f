//! From `bpf::Object` to maps and programs in the kernel.
//!
//! Owns creation order, first contents, the BTF that task storage insists on, and putting descriptors where
//! instructions name maps by index. Leaves out attaching (`attach`) and rendering of a rejection with its source line
//! (`session`, which has the source; the slot is in the error).

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Once};

use probity_bpf::{Insn, MapKind, MapSpec, Object, ProgSpec, ProgType};

use crate::error::{Error, Kind, Result};
use crate::map::{Attr, Map, Update, create_error};
use crate::sys;

/// The first half of a two-slot load.
const LD_IMM64: u8 = 0x18;
/// Its source field: the immediate is a map's descriptor.
const PSEUDO_MAP_FD: u8 = 1;
/// Its source field: the immediate is a map's descriptor, the second one an offset in its value.
const PSEUDO_MAP_VALUE: u8 = 2;

/// An object in the kernel; dropping it frees what no link, program or clone still holds.
#[derive(Debug)]
pub struct Loaded {
    /// The maps, in the object's order.
    pub maps: Vec<Map>,
    /// The programs, in the object's order.
    pub progs: Vec<Prog>,
}

impl Loaded {
    /// Finds a map by its name in the object.
    pub fn map(&self, name: &str) -> Option<&Map> {
        self.maps.iter().find(|map| map.name() == name)
    }
}

/// A loaded program; clones share it, and the last one frees it unless a link holds it.
#[derive(Clone, Debug)]
pub struct Prog(Arc<ProgInner>);

#[derive(Debug)]
struct ProgInner {
    fd: OwnedFd,
    name: String,
    prog_type: ProgType,
    attach_type: Option<u32>,
}

impl Prog {
    /// Returns the program's name in the object.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Returns the program's type.
    pub fn prog_type(&self) -> ProgType {
        self.0.prog_type
    }

    /// Returns the attach type it was loaded for.
    pub fn attach_type(&self) -> Option<u32> {
        self.0.attach_type
    }

    /// Runs a raw tracepoint or syscall program once, here or on `cpu`, with `args` as its context, and returns its
    /// result. A raw tracepoint program gets up to 12 arguments, and at least as many as it reads.
    pub fn test_run(&self, args: &[u64], cpu: Option<u32>) -> Result<u32> {
        sys::prog_test_run(self.as_fd(), args, cpu)
            .map_err(|error| Error::io(error, format!("cannot run program {}", self.name())))
    }

    /// Reads what the kernel knows of it.
    pub fn info(&self) -> Result<sys::ProgInfo> {
        sys::prog_info(self.as_fd())
            .map_err(|error| Error::io(error, format!("cannot ask about program {}", self.name())))
    }

    /// Returns how often it could not run because it (or, for perf events and probes, any program) was running on
    /// that CPU already. The kernel does not count this for sampling events.
    pub fn recursion_misses(&self) -> Result<u64> {
        Ok(self.info()?.recursion_misses)
    }
}

impl AsFd for Prog {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.fd.as_fd()
    }
}

/// Creates the object's maps, fills them, and loads its programs; attaches nothing.
///
/// Errors: [`Kind::Permission`] without CAP_BPF and CAP_PERFMON; [`Kind::Limit`] when a map is too large;
/// [`Kind::Rejected`] with the verifier's log and the slot.
pub fn load(object: &Object) -> Result<Loaded> {
    raise_memlock();
    let maps = object.maps.iter().map(create_map).collect::<Result<Vec<_>>>()?;
    let progs = object
        .progs
        .iter()
        .enumerate()
        .map(|(index, spec)| load_prog(spec, &maps).map_err(|error| error.in_program(index)))
        .collect::<Result<_>>()?;
    Ok(Loaded { maps, progs })
}

/// Kernels since 5.11 charge BPF memory to the cgroup; some distributions still limit older paths. Best effort.
fn raise_memlock() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
        // SAFETY: the limit is a valid structure.
        if unsafe { libc::setrlimit(libc::RLIMIT_MEMLOCK, &limit) } != 0 {
            log::debug!("RLIMIT_MEMLOCK stays as it is: {}", std::io::Error::last_os_error());
        }
    });
}

/// Creates one map with its inner maps and first contents.
pub fn create_map(spec: &MapSpec) -> Result<Map> {
    let attr = Attr {
        name: spec.name.clone(),
        map_type: spec.kind as u32,
        key_size: spec.key_size,
        value_size: spec.value_size,
        max_entries: spec.max_entries,
        flags: spec.flags,
    };
    let mut inner = Vec::new();
    if let Some(template) = &spec.inner {
        // One at least: the kernel takes the description of inner maps from an example.
        for index in 0..spec.inner_count.max(1) {
            let named = MapSpec { name: format!("{}_{index}", template.name), ..(**template).clone() };
            inner.push(create_map(&named)?);
        }
    }
    let btf = match spec.btf_value {
        Some(size) => Some(
            sys::btf_load(&storage_btf(size))
                .map_err(|error| Error::io(error, format!("cannot load the value type of map {}", spec.name)))?,
        ),
        None => None,
    };
    let raw = sys::MapAttr {
        map_type: attr.map_type,
        key_size: attr.key_size,
        value_size: attr.value_size,
        max_entries: attr.max_entries,
        flags: attr.flags,
        inner: inner.first().map(Map::as_fd),
        name: &attr.name,
        btf: btf.as_ref().map(|fd| (fd.as_fd(), STORAGE_KEY, STORAGE_VALUE)),
    };
    let fd = sys::map_create(&raw).map_err(|error| create_error(error, &attr))?;
    if spec.inner_count == 0 {
        inner.clear();
    }
    let map = Map::from_parts(fd, attr, inner)?;
    for (index, held) in map.inner().iter().enumerate() {
        map.update(&(index as u32).to_ne_bytes(), &held.as_fd().as_raw_fd().to_ne_bytes(), Update::Any)?;
    }
    if let Some(data) = &spec.data {
        fill(&map, spec, data)?;
    }
    if spec.frozen {
        sys::map_freeze(map.as_fd()).map_err(|error| Error::io(error, format!("cannot freeze map {}", spec.name)))?;
    }
    Ok(map)
}

fn fill(map: &Map, spec: &MapSpec, data: &[u8]) -> Result<()> {
    let size = spec.value_size as usize;
    if size == 0 || data.len().div_ceil(size) > spec.max_entries as usize || spec.key_size != 4 {
        return Err(Error::new(
            Kind::Invalid,
            format!("map {} has {} bytes of contents and no room for them", spec.name, data.len()),
        ));
    }
    let mut whole = vec![0; map.whole_value()];
    for (index, chunk) in data.chunks(size).enumerate() {
        whole.fill(0);
        // Every CPU's copy starts the same.
        let stride = if spec.kind == MapKind::PercpuArray { size.next_multiple_of(8) } else { whole.len() };
        for copy in whole.chunks_mut(stride) {
            copy[..chunk.len()].copy_from_slice(chunk);
        }
        map.update(&(index as u32).to_ne_bytes(), &whole, Update::Any)?;
    }
    Ok(())
}

const STORAGE_KEY: u32 = 1;
const STORAGE_VALUE: u32 = 2;

/// The least BTF that task storage accepts: type 1 is `int`, type 2 a structure of `size` bytes without members.
fn storage_btf(size: u32) -> Vec<u8> {
    const KIND_INT: u32 = 1 << 24;
    const KIND_STRUCT: u32 = 4 << 24;
    let names = b"\0int\0value\0";
    let types: [u32; 7] = [
        1, // "int"
        KIND_INT,
        4, // bytes
        // Signed, no offset, 32 bits.
        1 << 24 | 32,
        5, // "value"
        KIND_STRUCT,
        size,
    ];
    btf(&types, names)
}

/// A BTF of these types and names.
pub(crate) fn btf(types: &[u32], names: &[u8]) -> Vec<u8> {
    let type_bytes = size_of_val(types) as u32;
    let mut btf = Vec::with_capacity(64);
    btf.extend(0xeb9f_u16.to_ne_bytes());
    btf.extend([1, 0]); // version, flags
    for word in [24, 0, type_bytes, type_bytes, names.len() as u32] {
        btf.extend(word.to_ne_bytes());
    }
    btf.extend(types.iter().flat_map(|word| word.to_ne_bytes()));
    btf.extend(names);
    btf
}

/// Loads one program, whose instructions name `maps` by index.
pub fn load_prog(spec: &ProgSpec, maps: &[Map]) -> Result<Prog> {
    let mut insns = Vec::with_capacity(spec.insns.len());
    for insn in &spec.insns {
        insns.push(u64::from_ne_bytes(patch(insn, maps)?.to_bytes()));
    }
    let info = crate::func_info::func_info(&spec.insns);
    let btf = match &info {
        Some(info) => Some(
            sys::btf_load(&info.btf)
                .map_err(|error| Error::io(error, format!("cannot load the types of program {}", spec.name)))?,
        ),
        None => None,
    };
    let attr = sys::ProgAttr {
        func_info: btf.as_ref().zip(info.as_ref()).map(|(btf, info)| (btf.as_fd(), &info.records[..])),
        prog_type: spec.prog_type as u32,
        attach_type: spec.attach_type.unwrap_or(0),
        attach_btf_id: spec.attach_btf_id.unwrap_or(0),
        flags: if spec.sleepable { sys::F_SLEEPABLE } else { 0 },
        insns: &insns,
        name: &spec.name,
    };
    let fd = sys::prog_load(&attr, &mut []).map_err(|error| refused(error, &attr))?;
    Ok(Prog(Arc::new(ProgInner {
        fd,
        name: spec.name.clone(),
        prog_type: spec.prog_type,
        attach_type: spec.attach_type,
    })))
}

fn patch(insn: &Insn, maps: &[Map]) -> Result<Insn> {
    if insn.code != LD_IMM64 || !matches!(insn.src.0, PSEUDO_MAP_FD | PSEUDO_MAP_VALUE) {
        return Ok(*insn);
    }
    let map = usize::try_from(insn.imm).ok().and_then(|index| maps.get(index)).ok_or_else(|| {
        Error::new(Kind::Invalid, format!("an instruction refers to map {} of {}", insn.imm, maps.len()))
    })?;
    Ok(Insn { imm: map.as_fd().as_raw_fd(), ..*insn })
}

/// Tells a missing privilege from a rejection: only the latter has a log. Loading is tried without one first,
/// because writing it makes the verifier several times slower.
fn refused(error: std::io::Error, attr: &sys::ProgAttr<'_>) -> Error {
    let mut log = vec![0; 64 << 10];
    loop {
        match sys::prog_load(attr, &mut log) {
            Err(again) if again.raw_os_error() == Some(libc::ENOSPC) && log.len() < 1 << 26 => {
                log = vec![0; log.len() * 4];
            }
            _ => break,
        }
    }
    let end = log.iter().position(|byte| *byte == 0).unwrap_or(log.len());
    let log = String::from_utf8_lossy(&log[..end]).into_owned();
    let code = error.raw_os_error();
    let what = format!("cannot load program {}", attr.name);
    if log.trim().is_empty() {
        let error = Error::io(error, what);
        return match code {
            Some(libc::EPERM | libc::EACCES) => error.help(crate::features::privilege_help()),
            Some(libc::EINVAL) => {
                error.with_kind(Kind::Unsupported).help("this kernel may lack the program or attach type")
            }
            _ => error,
        };
    }
    // What the code does is not permitted here, however it is written.
    if log.contains("bpf_probe_write_user") && (log.contains("cannot use helper") || log.contains("unknown func")) {
        let what = format!("{what}: this kernel does not let BPF programs write to the memory of processes");
        let help =
            "kernel lockdown forbids it: /sys/kernel/security/lockdown must say [none], which is decided at boot";
        return Error::new(Kind::Permission, what).help(help);
    }
    let slot = rejected_slot(&log);
    let reason = reason(&log).map(|line| format!(": {line}")).unwrap_or_default();
    let error = Error::new(Kind::Rejected, format!("the kernel's verifier rejected program {}{reason}", attr.name));
    let error = match slot {
        Some(slot) => error.at_slot(slot),
        None => error,
    };
    error.with_log(log)
}

/// The slot of the last instruction that the verifier printed (`12: (85) call …`): the one it gave up at.
fn rejected_slot(log: &str) -> Option<u32> {
    log.lines().rev().find_map(|line| {
        let (slot, rest) = line.split_once(": (")?;
        rest.get(2..3).filter(|close| *close == ")")?;
        slot.parse().ok()
    })
}

/// The verifier's last words before its statistics.
fn reason(log: &str) -> Option<&str> {
    let statistics = ["processed ", "verification time", "stack depth", "insns_processed"];
    log.lines().rev().find(|line| !line.trim().is_empty() && !statistics.iter().any(|prefix| line.starts_with(prefix)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rejection_is_located() {
        let log = "0: R1=ctx() R10=fp0\n0: (b7) r0 = 0        ; R0_w=0\n1: (79) r2 = *(u64 *)(r3 +0)\n\
                   R3 !read_ok\nprocessed 2 insns (limit 1000000) max_states_per_insn 0\n";
        assert_eq!(rejected_slot(log), Some(1));
        assert_eq!(reason(log), Some("R3 !read_ok"));
        assert_eq!(rejected_slot("nonsense"), None);
    }
}
