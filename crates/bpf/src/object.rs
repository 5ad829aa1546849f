//! What codegen makes and the loader takes: maps and programs as data.
//!
//! The licence is "GPL" for every program and is therefore not stored. File descriptors, BTF blobs and everything
//! else that exists only after loading belong to `kernel`.

use crate::decode::{Op, decode};
use crate::insn::Insn;

/// A map type; the numbers are the kernel's.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
#[repr(u32)]
#[allow(missing_docs)] // The names are those of linux/bpf.h, which is their documentation.
pub enum MapKind {
    Hash = 1,
    Array = 2,
    ProgArray = 3,
    PerfEventArray = 4,
    PercpuHash = 5,
    PercpuArray = 6,
    StackTrace = 7,
    CgroupArray = 8,
    LruHash = 9,
    LruPercpuHash = 10,
    LpmTrie = 11,
    ArrayOfMaps = 12,
    HashOfMaps = 13,
    Devmap = 14,
    Sockmap = 15,
    Cpumap = 16,
    Xskmap = 17,
    Sockhash = 18,
    CgroupStorage = 19,
    ReuseportSockarray = 20,
    PercpuCgroupStorage = 21,
    Queue = 22,
    Stack = 23,
    SkStorage = 24,
    DevmapHash = 25,
    StructOps = 26,
    Ringbuf = 27,
    InodeStorage = 28,
    TaskStorage = 29,
    BloomFilter = 30,
    UserRingbuf = 31,
    CgrpStorage = 32,
    Arena = 33,
}

impl MapKind {
    /// Whether every CPU has its own value.
    #[must_use]
    pub const fn is_percpu(self) -> bool {
        matches!(self, MapKind::PercpuHash | MapKind::PercpuArray | MapKind::LruPercpuHash)
    }

    /// Whether values are reached by arbitrary keys that can be added and deleted.
    #[must_use]
    pub const fn is_hash(self) -> bool {
        matches!(self, MapKind::Hash | MapKind::PercpuHash | MapKind::LruHash | MapKind::LruPercpuHash)
    }
}

/// A program type; the numbers are the kernel's.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
#[repr(u32)]
#[allow(missing_docs)] // The names are those of linux/bpf.h, which is their documentation.
pub enum ProgType {
    SocketFilter = 1,
    Kprobe = 2,
    SchedCls = 3,
    SchedAct = 4,
    Tracepoint = 5,
    Xdp = 6,
    PerfEvent = 7,
    CgroupSkb = 8,
    CgroupSock = 9,
    LwtIn = 10,
    LwtOut = 11,
    LwtXmit = 12,
    SockOps = 13,
    SkSkb = 14,
    CgroupDevice = 15,
    SkMsg = 16,
    RawTracepoint = 17,
    CgroupSockAddr = 18,
    LwtSeg6local = 19,
    LircMode2 = 20,
    SkReuseport = 21,
    FlowDissector = 22,
    CgroupSysctl = 23,
    RawTracepointWritable = 24,
    CgroupSockopt = 25,
    Tracing = 26,
    StructOps = 27,
    Ext = 28,
    Lsm = 29,
    SkLookup = 30,
    Syscall = 31,
    Netfilter = 32,
}

/// The attach types that tracing uses; the numbers are the kernel's.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
#[repr(u32)]
pub enum AttachType {
    /// `tp_btf`: raw tracepoint with typed arguments (kernel 5.5).
    TraceRawTp = 23,
    /// Function entry by trampoline (5.5).
    TraceFentry = 24,
    /// Function return by trampoline (5.5).
    TraceFexit = 25,
    /// May change the return value (5.7).
    ModifyReturn = 26,
    /// Iterator (5.8).
    TraceIter = 28,
    /// perf event link (5.15).
    PerfEvent = 41,
    /// One link for many functions (5.18).
    TraceKprobeMulti = 42,
    /// One link for many user functions (6.6).
    TraceUprobeMulti = 48,
    /// Entry and return in one program (6.10).
    TraceKprobeSession = 56,
    /// Entry and return in one program, user functions (6.13).
    TraceUprobeSession = 57,
}

/// Flags of `MapSpec::flags`, by their kernel names.
pub mod map_flags {
    /// `BPF_F_NO_PREALLOC`: elements are allocated when they are made.
    pub const NO_PREALLOC: u32 = 1 << 0;
    /// `BPF_F_RDONLY_PROG`: programs may only read.
    pub const RDONLY_PROG: u32 = 1 << 7;
    /// `BPF_F_WRONLY_PROG`: programs may only write.
    pub const WRONLY_PROG: u32 = 1 << 8;
    /// `BPF_F_MMAPABLE`: user space can map the values (arrays only).
    pub const MMAPABLE: u32 = 1 << 10;
    /// `BPF_F_INNER_MAP`: inner arrays may differ in `max_entries`.
    pub const INNER_MAP: u32 = 1 << 12;
}

/// A map to create.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MapSpec {
    /// Name; the loader cuts it to what the kernel takes (15 bytes).
    pub name: String,
    /// Type.
    pub kind: MapKind,
    /// Bytes of a key.
    pub key_size: u32,
    /// Bytes of a value (of one CPU's, for per-CPU maps).
    pub value_size: u32,
    /// Capacity; bytes for ring buffers.
    pub max_entries: u32,
    /// `map_flags`.
    pub flags: u32,
    /// The template of the inner maps of a map of maps.
    pub inner: Option<Box<MapSpec>>,
    /// How many inner maps to create and install at keys 0..n.
    pub inner_count: u32,
    /// The first contents: the value of a one-entry array (global data), or an array's values one after another,
    /// each padded to a multiple of 8 bytes only where `value_size` is one.
    pub data: Option<Vec<u8>>,
    /// Frozen after `data` is written, so that the verifier may rely on constant contents.
    pub frozen: bool,
    /// Wants BTF for its key (`int`) and its value (a struct of this many bytes), as task storage does.
    pub btf_value: Option<u32>,
}

impl MapSpec {
    /// A map with no flags, no contents and nothing inside.
    #[must_use]
    pub fn new(name: &str, kind: MapKind, key_size: u32, value_size: u32, max_entries: u32) -> MapSpec {
        MapSpec {
            name: name.to_owned(),
            kind,
            key_size,
            value_size,
            max_entries,
            flags: 0,
            inner: None,
            inner_count: 0,
            data: None,
            frozen: false,
            btf_value: None,
        }
    }

    /// A ring buffer of `bytes`, which the kernel wants to be a power of two and a multiple of the page size.
    #[must_use]
    pub fn ringbuf(name: &str, bytes: u32) -> MapSpec {
        MapSpec::new(name, MapKind::Ringbuf, 0, 0, bytes)
    }

    /// A one-entry array whose value starts as `data`.
    #[must_use]
    pub fn global(name: &str, data: Vec<u8>) -> MapSpec {
        let mut spec = MapSpec::new(name, MapKind::Array, 4, data.len() as u32, 1);
        spec.data = Some(data);
        spec
    }

    /// Task storage with values of `value_size` bytes.
    #[must_use]
    pub fn task_storage(name: &str, value_size: u32) -> MapSpec {
        let mut spec = MapSpec::new(name, MapKind::TaskStorage, 4, value_size, 0);
        spec.flags = map_flags::NO_PREALLOC;
        spec.btf_value = Some(value_size);
        spec
    }
}

/// A program to load.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProgSpec {
    /// Name; the loader cuts it to what the kernel takes (15 bytes).
    pub name: String,
    /// Type.
    pub prog_type: ProgType,
    /// `expected_attach_type`, a number because not every one is in [`AttachType`].
    pub attach_type: Option<u32>,
    /// BTF id of the function or tracepoint to attach to.
    pub attach_btf_id: Option<u32>,
    /// May fault and sleep.
    pub sleepable: bool,
    /// The main program, then its subprograms.
    pub insns: Vec<Insn>,
    /// Source line tags: from this slot on, this tag. Ascending slots.
    pub lines: Vec<(u32, u32)>,
}

impl ProgSpec {
    /// A program without attach type, BTF id and line tags.
    #[must_use]
    pub fn new(name: &str, prog_type: ProgType, insns: Vec<Insn>) -> ProgSpec {
        ProgSpec {
            name: name.to_owned(),
            prog_type,
            attach_type: None,
            attach_btf_id: None,
            sleepable: false,
            insns,
            lines: Vec::new(),
        }
    }

    /// The line tag in force at a slot.
    #[must_use]
    pub fn line_at(&self, slot: u32) -> Option<u32> {
        let after = self.lines.partition_point(|&(s, _)| s <= slot);
        after.checked_sub(1).map(|i| self.lines[i].1)
    }
}

/// The slots where subprograms start, ascending; slot 0, the main program, comes first. A target outside the
/// program is left out: `check` reports it.
#[must_use]
pub fn subprog_starts(insns: &[Insn]) -> Vec<u32> {
    let mut starts = vec![0];
    let mut pc = 0;
    while pc < insns.len() {
        let op = decode(insns, pc);
        if let Ok(Op::CallSub { off } | Op::LdFunc { off, .. }) = op {
            let target = pc as i64 + 1 + i64::from(off);
            if (0..insns.len() as i64).contains(&target) {
                starts.push(target as u32);
            }
        }
        pc += op.map_or(1, |op| op.slots());
    }
    starts.sort_unstable();
    starts.dedup();
    starts
}

/// Everything one compilation makes: programs, and the maps they share.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Object {
    /// Maps; instructions refer to them by index.
    pub maps: Vec<MapSpec>,
    /// Programs.
    pub progs: Vec<ProgSpec>,
}
