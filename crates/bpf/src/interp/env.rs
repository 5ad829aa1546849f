//! What a program finds around it: CPU, task, time, and the memory of the kernel and of the process. Set by tests.

use std::collections::{BTreeMap, VecDeque};

#[derive(Clone, Debug)]
struct Segment {
    bytes: Vec<u8>,
    resident: bool,
}

/// Sparse memory at chosen addresses. Segments must not overlap; those that touch are read across.
#[derive(Clone, Debug, Default)]
pub struct AddressSpace {
    segments: BTreeMap<u64, Segment>,
}

impl AddressSpace {
    /// Puts bytes at an address.
    pub fn map(&mut self, addr: u64, bytes: impl Into<Vec<u8>>) {
        self.segments.insert(addr, Segment { bytes: bytes.into(), resident: true });
    }

    /// Puts bytes at an address that only a sleepable read reaches: pages that are not in memory.
    pub fn map_absent(&mut self, addr: u64, bytes: impl Into<Vec<u8>>) {
        self.segments.insert(addr, Segment { bytes: bytes.into(), resident: false });
    }

    /// Removes the segment that starts at this address.
    pub fn unmap(&mut self, addr: u64) {
        self.segments.remove(&addr);
    }

    fn byte_segment(&self, addr: u64) -> Option<(u64, &Segment)> {
        let (&start, segment) = self.segments.range(..=addr).next_back()?;
        (addr - start < segment.bytes.len() as u64).then_some((start, segment))
    }

    /// Copies `len` bytes out; `None` when any of them is not there.
    #[must_use]
    pub fn read(&self, addr: u64, len: usize, may_sleep: bool) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        while out.len() < len {
            let at = addr.checked_add(out.len() as u64)?;
            let (start, segment) = self.byte_segment(at)?;
            if !segment.resident && !may_sleep {
                return None;
            }
            let from = (at - start) as usize;
            let take = (segment.bytes.len() - from).min(len - out.len());
            out.extend_from_slice(&segment.bytes[from..from + take]);
        }
        Some(out)
    }

    /// Overwrites bytes that are there; false, and nothing changed, when any is not.
    pub fn write(&mut self, addr: u64, bytes: &[u8]) -> bool {
        if self.read(addr, bytes.len(), false).is_none() {
            return false;
        }
        for (i, &byte) in bytes.iter().enumerate() {
            let at = addr + i as u64;
            if let Some((&start, segment)) = self.segments.range_mut(..=at).next_back() {
                segment.bytes[(at - start) as usize] = byte;
            }
        }
        true
    }
}

/// One `bpf_trace_printk`: the format, and the up to three arguments as they are.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TraceLine {
    /// The format without its NUL.
    pub format: Vec<u8>,
    /// r3, r4, r5; 0 where not set.
    pub args: [u64; 3],
}

/// The surroundings of a run, read and written by helpers.
#[derive(Clone, Debug)]
pub struct Env {
    /// The CPU that runs the program; must be below the machine's number of CPUs.
    pub cpu: u32,
    /// NUMA node.
    pub numa_node: u32,
    /// tgid in the high half, pid (thread) in the low one.
    pub pid_tgid: u64,
    /// gid in the high half, uid in the low one.
    pub uid_gid: u64,
    /// Task name, NUL-padded.
    pub comm: [u8; 16],
    /// The pid namespace that `get_ns_current_pid_tgid` accepts: device, inode, pid, tgid.
    pub pid_ns: Option<(u64, u64, u32, u32)>,
    /// Monotonic time.
    pub ktime_ns: u64,
    /// Added to every clock after each reading of one.
    pub ktime_step: u64,
    /// Time since boot, suspend included.
    pub boot_ns: u64,
    /// Coarse monotonic time.
    pub coarse_ns: u64,
    /// TAI time.
    pub tai_ns: u64,
    /// Jiffies.
    pub jiffies: u64,
    /// State of the pseudo-random numbers.
    pub random: u64,
    /// Address of the current task's `task_struct`.
    pub current_task: u64,
    /// Address of the current task's `pt_regs`.
    pub task_pt_regs: u64,
    /// cgroup id of the current task.
    pub cgroup_id: u64,
    /// What `current_task_under_cgroup` returns.
    pub under_cgroup: i64,
    /// Attach cookie.
    pub cookie: u64,
    /// Address of the probed function.
    pub func_ip: u64,
    /// Arguments of the probed function.
    pub func_args: Vec<u64>,
    /// Its return value, on return.
    pub func_ret: Option<u64>,
    /// Counter, enabled, running, as `perf_prog_read_value` gives them.
    pub perf_value: [u64; 3],
    /// Kernel stack, innermost first.
    pub kernel_stack: Vec<u64>,
    /// User stack, innermost first.
    pub user_stack: Vec<u64>,
    /// Memory of the process.
    pub user: AddressSpace,
    /// Memory of the kernel that is not the programs'.
    pub kernel: AddressSpace,
    /// Text of `struct path` addresses, for `d_path`.
    pub paths: BTreeMap<u64, String>,
    /// How many tasks can have task storage; creation fails beyond.
    pub task_storage_limit: usize,
    /// Results that the next calls of the given helper return instead of running: makes any failure testable.
    /// Helper id → results, first taken first.
    pub forced: BTreeMap<u32, VecDeque<u64>>,
    /// Signals that were sent: number, to the thread only.
    pub signals: Vec<(u32, bool)>,
    /// What `override_return` set.
    pub overridden: Option<u64>,
    /// What `trace_printk` wrote.
    pub trace: Vec<TraceLine>,
    /// The greatest number of instructions of one run.
    pub budget: u64,
}

impl Default for Env {
    fn default() -> Env {
        Env {
            cpu: 0,
            numa_node: 0,
            pid_tgid: 1000 << 32 | 1001,
            uid_gid: 0,
            comm: *b"probity-test\0\0\0\0",
            pid_ns: None,
            ktime_ns: 1_000_000_000,
            ktime_step: 0,
            boot_ns: 1_000_000_000,
            coarse_ns: 1_000_000_000,
            tai_ns: 1_000_000_000,
            jiffies: 4_294_967_296,
            random: 0x9e37_79b9_7f4a_7c15,
            current_task: 0xffff_8880_0100_0000,
            task_pt_regs: 0xffff_c900_0000_3f58,
            cgroup_id: 1,
            under_cgroup: 0,
            cookie: 0,
            func_ip: 0xffff_ffff_8100_0000,
            func_args: Vec::new(),
            func_ret: None,
            perf_value: [0; 3],
            kernel_stack: Vec::new(),
            user_stack: Vec::new(),
            user: AddressSpace::default(),
            kernel: AddressSpace::default(),
            paths: BTreeMap::new(),
            task_storage_limit: usize::MAX,
            forced: BTreeMap::new(),
            signals: Vec::new(),
            overridden: None,
            trace: Vec::new(),
            budget: 1 << 22,
        }
    }
}
