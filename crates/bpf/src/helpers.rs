//! The kernel's helper functions that tracing programs may call: ids, names, signatures, first kernel version.
//!
//! Ids and names are those of `linux/bpf.h`. Networking helpers are left out. The signatures say what kind of thing
//! each argument is, as far as `check` and the interpreter need it; the kernel's verifier knows more.

use std::fmt;

/// What an argument must be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ArgKind {
    /// Any number.
    Scalar,
    /// The program's context.
    Ctx,
    /// A map.
    Map,
    /// Memory that holds a key of the map in the first argument.
    MapKey,
    /// Memory that holds a value of the map in the first argument.
    MapValue,
    /// As `MapValue`, may be null.
    MapValueOrNull,
    /// Readable memory, of the size in the next argument (of 8 bytes where that is no size).
    MemIn,
    /// Memory that the helper fills, of the size in the next argument; need not be initialised.
    MemOut,
    /// Memory of the size in the next argument that is both read and written, or null.
    MemOrNull,
    /// A size, not zero.
    Size,
    /// A size, may be zero.
    SizeOrZero,
    /// A constant in the program text.
    ConstSize,
    /// A typed pointer to a task.
    Task,
    /// A typed pointer to another kernel object, or a socket.
    Btf,
    /// Memory reserved in a ring buffer.
    RingMem,
    /// A callback: a subprogram.
    Func,
    /// Any pointer into the stack, or null.
    StackOrNull,
    /// A timer in a map value.
    Timer,
    /// A spin lock in a map value.
    SpinLock,
    /// A constant NUL-terminated string in a read-only map.
    ConstStr,
    /// An 8-byte place on the stack that the helper fills.
    LongOut,
    /// A dynptr on the stack.
    Dynptr,
}

/// What is returned in r0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RetKind {
    /// A number; negative means an errno for most.
    Scalar,
    /// Nothing.
    Void,
    /// A pointer to a map's value, or null.
    MapValueOrNull,
    /// A pointer to memory, or null.
    MemOrNull,
    /// A typed pointer to a task, never null.
    Task,
    /// A typed pointer to a kernel object, or null.
    Btf,
}

macro_rules! helpers {
    ($($variant:ident = $id:literal, $name:literal, ($($arg:ident)*) $ret:ident, $major:literal . $minor:literal;)*) => {
        /// A helper; the numbers are the kernel's.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
        #[repr(u32)]
        #[allow(missing_docs)] // The names are those of linux/bpf.h, which is their documentation.
        pub enum Helper {
            $($variant = $id,)*
        }

        impl Helper {
            /// Every helper in this table, by ascending id.
            pub const ALL: &[Helper] = &[$(Helper::$variant,)*];

            /// The name without its `bpf_`.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Helper::$variant => $name,)* }
            }

            /// The arguments, at most five.
            #[must_use]
            pub const fn args(self) -> &'static [ArgKind] {
                match self { $(Helper::$variant => &[$(ArgKind::$arg,)*],)* }
            }

            /// The result.
            #[must_use]
            pub const fn ret(self) -> RetKind {
                match self { $(Helper::$variant => RetKind::$ret,)* }
            }

            /// The first kernel version (major, minor) that has it. That it exists does not mean that every
            /// program type may call it.
            #[must_use]
            pub const fn since(self) -> (u8, u8) {
                match self { $(Helper::$variant => ($major, $minor),)* }
            }

            /// The helper with this id, where it is in this table.
            #[must_use]
            pub const fn from_id(id: u32) -> Option<Helper> {
                match id { $($id => Some(Helper::$variant),)* _ => None }
            }
        }
    };
}

helpers! {
    MapLookupElem = 1, "map_lookup_elem", (Map MapKey) MapValueOrNull, 3 . 19;
    MapUpdateElem = 2, "map_update_elem", (Map MapKey MapValue Scalar) Scalar, 3 . 19;
    MapDeleteElem = 3, "map_delete_elem", (Map MapKey) Scalar, 3 . 19;
    ProbeRead = 4, "probe_read", (MemOut SizeOrZero Scalar) Scalar, 4 . 1;
    KtimeGetNs = 5, "ktime_get_ns", () Scalar, 4 . 1;
    TracePrintk = 6, "trace_printk", (MemIn Size) Scalar, 4 . 1;
    GetPrandomU32 = 7, "get_prandom_u32", () Scalar, 4 . 1;
    GetSmpProcessorId = 8, "get_smp_processor_id", () Scalar, 4 . 1;
    TailCall = 12, "tail_call", (Ctx Map Scalar) Void, 4 . 2;
    GetCurrentPidTgid = 14, "get_current_pid_tgid", () Scalar, 4 . 2;
    GetCurrentUidGid = 15, "get_current_uid_gid", () Scalar, 4 . 2;
    GetCurrentComm = 16, "get_current_comm", (MemOut Size) Scalar, 4 . 2;
    PerfEventRead = 22, "perf_event_read", (Map Scalar) Scalar, 4 . 3;
    PerfEventOutput = 25, "perf_event_output", (Ctx Map Scalar MemIn SizeOrZero) Scalar, 4 . 4;
    GetStackid = 27, "get_stackid", (Ctx Map Scalar) Scalar, 4 . 6;
    GetCurrentTask = 35, "get_current_task", () Scalar, 4 . 8;
    ProbeWriteUser = 36, "probe_write_user", (Scalar MemIn Size) Scalar, 4 . 8;
    CurrentTaskUnderCgroup = 37, "current_task_under_cgroup", (Map Scalar) Scalar, 4 . 9;
    GetNumaNodeId = 42, "get_numa_node_id", () Scalar, 4 . 10;
    ProbeReadStr = 45, "probe_read_str", (MemOut SizeOrZero Scalar) Scalar, 4 . 11;
    PerfEventReadValue = 55, "perf_event_read_value", (Map Scalar MemOut Size) Scalar, 4 . 15;
    PerfProgReadValue = 56, "perf_prog_read_value", (Ctx MemOut Size) Scalar, 4 . 15;
    OverrideReturn = 58, "override_return", (Ctx Scalar) Scalar, 4 . 16;
    GetStack = 67, "get_stack", (Ctx MemOut SizeOrZero Scalar) Scalar, 4 . 18;
    GetCurrentCgroupId = 80, "get_current_cgroup_id", () Scalar, 4 . 18;
    MapPushElem = 87, "map_push_elem", (Map MapValue Scalar) Scalar, 4 . 20;
    MapPopElem = 88, "map_pop_elem", (Map MapValue) Scalar, 4 . 20;
    MapPeekElem = 89, "map_peek_elem", (Map MapValue) Scalar, 4 . 20;
    SpinLock = 93, "spin_lock", (SpinLock) Void, 5 . 1;
    SpinUnlock = 94, "spin_unlock", (SpinLock) Void, 5 . 1;
    Strtol = 105, "strtol", (MemIn Size Scalar LongOut) Scalar, 5 . 2;
    Strtoul = 106, "strtoul", (MemIn Size Scalar LongOut) Scalar, 5 . 2;
    SendSignal = 109, "send_signal", (Scalar) Scalar, 5 . 3;
    ProbeReadUser = 112, "probe_read_user", (MemOut SizeOrZero Scalar) Scalar, 5 . 5;
    ProbeReadKernel = 113, "probe_read_kernel", (MemOut SizeOrZero Scalar) Scalar, 5 . 5;
    ProbeReadUserStr = 114, "probe_read_user_str", (MemOut SizeOrZero Scalar) Scalar, 5 . 5;
    ProbeReadKernelStr = 115, "probe_read_kernel_str", (MemOut SizeOrZero Scalar) Scalar, 5 . 5;
    SendSignalThread = 117, "send_signal_thread", (Scalar) Scalar, 5 . 6;
    Jiffies64 = 118, "jiffies64", () Scalar, 5 . 6;
    ReadBranchRecords = 119, "read_branch_records", (Ctx MemOrNull SizeOrZero Scalar) Scalar, 5 . 6;
    GetNsCurrentPidTgid = 120, "get_ns_current_pid_tgid", (Scalar Scalar MemOut Size) Scalar, 5 . 7;
    GetCurrentAncestorCgroupId = 123, "get_current_ancestor_cgroup_id", (Scalar) Scalar, 5 . 7;
    KtimeGetBootNs = 125, "ktime_get_boot_ns", () Scalar, 5 . 8;
    SeqPrintf = 126, "seq_printf", (Btf MemIn Size MemOrNull SizeOrZero) Scalar, 5 . 8;
    SeqWrite = 127, "seq_write", (Btf MemIn SizeOrZero) Scalar, 5 . 8;
    RingbufOutput = 130, "ringbuf_output", (Map MemIn SizeOrZero Scalar) Scalar, 5 . 8;
    RingbufReserve = 131, "ringbuf_reserve", (Map ConstSize Scalar) MemOrNull, 5 . 8;
    RingbufSubmit = 132, "ringbuf_submit", (RingMem Scalar) Void, 5 . 8;
    RingbufDiscard = 133, "ringbuf_discard", (RingMem Scalar) Void, 5 . 8;
    RingbufQuery = 134, "ringbuf_query", (Map Scalar) Scalar, 5 . 8;
    GetTaskStack = 141, "get_task_stack", (Task MemOut SizeOrZero Scalar) Scalar, 5 . 9;
    DPath = 147, "d_path", (Btf MemOut SizeOrZero) Scalar, 5 . 10;
    CopyFromUser = 148, "copy_from_user", (MemOut SizeOrZero Scalar) Scalar, 5 . 10;
    SnprintfBtf = 149, "snprintf_btf", (MemOut Size MemIn ConstSize Scalar) Scalar, 5 . 10;
    SeqPrintfBtf = 150, "seq_printf_btf", (Btf MemIn SizeOrZero Scalar) Scalar, 5 . 10;
    PerCpuPtr = 153, "per_cpu_ptr", (Btf Scalar) MemOrNull, 5 . 10;
    ThisCpuPtr = 154, "this_cpu_ptr", (Btf) MemOrNull, 5 . 10;
    TaskStorageGet = 156, "task_storage_get", (Map Task MapValueOrNull Scalar) MapValueOrNull, 5 . 11;
    TaskStorageDelete = 157, "task_storage_delete", (Map Task) Scalar, 5 . 11;
    GetCurrentTaskBtf = 158, "get_current_task_btf", () Task, 5 . 11;
    KtimeGetCoarseNs = 160, "ktime_get_coarse_ns", () Scalar, 5 . 11;
    ForEachMapElem = 164, "for_each_map_elem", (Map Func StackOrNull Scalar) Scalar, 5 . 13;
    Snprintf = 165, "snprintf", (MemOrNull SizeOrZero ConstStr MemOrNull SizeOrZero) Scalar, 5 . 13;
    SysBpf = 166, "sys_bpf", (Scalar MemIn Size) Scalar, 5 . 14;
    BtfFindByNameKind = 167, "btf_find_by_name_kind", (MemIn Size Scalar Scalar) Scalar, 5 . 14;
    SysClose = 168, "sys_close", (Scalar) Scalar, 5 . 14;
    TimerInit = 169, "timer_init", (Timer Map Scalar) Scalar, 5 . 15;
    TimerSetCallback = 170, "timer_set_callback", (Timer Func) Scalar, 5 . 15;
    TimerStart = 171, "timer_start", (Timer Scalar Scalar) Scalar, 5 . 15;
    TimerCancel = 172, "timer_cancel", (Timer) Scalar, 5 . 15;
    GetFuncIp = 173, "get_func_ip", (Ctx) Scalar, 5 . 15;
    GetAttachCookie = 174, "get_attach_cookie", (Ctx) Scalar, 5 . 15;
    TaskPtRegs = 175, "task_pt_regs", (Task) Btf, 5 . 15;
    GetBranchSnapshot = 176, "get_branch_snapshot", (MemOut SizeOrZero Scalar) Scalar, 5 . 16;
    TraceVprintk = 177, "trace_vprintk", (MemIn Size MemOrNull SizeOrZero) Scalar, 5 . 16;
    KallsymsLookupName = 179, "kallsyms_lookup_name", (MemIn SizeOrZero Scalar LongOut) Scalar, 5 . 16;
    FindVma = 180, "find_vma", (Task Scalar Func StackOrNull Scalar) Scalar, 5 . 17;
    Loop = 181, "loop", (Scalar Func StackOrNull Scalar) Scalar, 5 . 17;
    Strncmp = 182, "strncmp", (MemIn Size ConstStr) Scalar, 5 . 17;
    GetFuncArg = 183, "get_func_arg", (Ctx Scalar LongOut) Scalar, 5 . 17;
    GetFuncRet = 184, "get_func_ret", (Ctx LongOut) Scalar, 5 . 17;
    GetFuncArgCnt = 185, "get_func_arg_cnt", (Ctx) Scalar, 5 . 17;
    CopyFromUserTask = 191, "copy_from_user_task", (MemOut SizeOrZero Scalar Task Scalar) Scalar, 5 . 18;
    KptrXchg = 194, "kptr_xchg", (Btf Btf) Btf, 5 . 19;
    MapLookupPercpuElem = 195, "map_lookup_percpu_elem", (Map MapKey Scalar) MapValueOrNull, 5 . 19;
    DynptrFromMem = 197, "dynptr_from_mem", (MemIn SizeOrZero Scalar Dynptr) Scalar, 5 . 19;
    RingbufReserveDynptr = 198, "ringbuf_reserve_dynptr", (Map Scalar Scalar Dynptr) Scalar, 5 . 19;
    RingbufSubmitDynptr = 199, "ringbuf_submit_dynptr", (Dynptr Scalar) Void, 5 . 19;
    RingbufDiscardDynptr = 200, "ringbuf_discard_dynptr", (Dynptr Scalar) Void, 5 . 19;
    DynptrRead = 201, "dynptr_read", (MemOut SizeOrZero Dynptr Scalar Scalar) Scalar, 5 . 19;
    DynptrWrite = 202, "dynptr_write", (Dynptr Scalar MemIn SizeOrZero Scalar) Scalar, 5 . 19;
    DynptrData = 203, "dynptr_data", (Dynptr Scalar ConstSize) MemOrNull, 5 . 19;
    KtimeGetTaiNs = 208, "ktime_get_tai_ns", () Scalar, 6 . 1;
    UserRingbufDrain = 209, "user_ringbuf_drain", (Map Func StackOrNull Scalar) Scalar, 6 . 1;
    CgrpStorageGet = 210, "cgrp_storage_get", (Map Btf MapValueOrNull Scalar) MapValueOrNull, 6 . 2;
    CgrpStorageDelete = 211, "cgrp_storage_delete", (Map Btf) Scalar, 6 . 2;
}

impl Helper {
    /// The kernel's number.
    #[must_use]
    pub const fn id(self) -> u32 {
        self as u32
    }

    /// The helper of this name, with or without `bpf_`.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Helper> {
        let name = name.strip_prefix("bpf_").unwrap_or(name);
        Helper::ALL.iter().copied().find(|h| h.name() == name)
    }
}

impl From<Helper> for u32 {
    fn from(helper: Helper) -> u32 {
        helper.id()
    }
}

impl fmt::Display for Helper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "bpf_{}", self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_ascend_and_read_back() {
        for pair in Helper::ALL.windows(2) {
            assert!(pair[0].id() < pair[1].id(), "{} {}", pair[0], pair[1]);
        }
        for &helper in Helper::ALL {
            assert_eq!(Helper::from_id(helper.id()), Some(helper));
            assert_eq!(Helper::from_name(&helper.to_string()), Some(helper));
            assert!(helper.args().len() <= 5);
        }
        assert_eq!(Helper::from_id(0), None);
    }
}
