//! What providers ask of the kernel's own type information, found once.
//!
//! Owns the one opening of vmlinux's BTF in a process. Leaves out reading it (`debuginfo`).

use crate::arch;
use probity_debuginfo::btf::{Btf, VMLINUX};
use probity_debuginfo::btf_types::BtfKind;
use probity_debuginfo::tracefs_format::{Field, field_type};
use probity_ir::{Space, TypeId, TypeTable};
use probity_kernel::{Feature, System};
use std::sync::{Arc, OnceLock};

/// Returns the kernel's BTF, if it has any that can be read; the machine's own is opened once.
pub fn kernel_btf(sys: &System) -> Option<Arc<Btf>> {
    static LIVE: OnceLock<Option<Arc<Btf>>> = OnceLock::new();
    if !sys.has(Feature::Btf) {
        return None;
    }
    let open = || match Btf::open(sys.path(VMLINUX)) {
        Ok(btf) => Some(Arc::new(btf)),
        Err(error) => {
            log::info!("doing without the kernel's types: {error}");
            None
        }
    };
    if sys.is_live() { LIVE.get_or_init(open).clone() } else { open() }
}

/// What the syscall provider needs to know.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SyscallTypes {
    /// BTF id of the tracepoint's typedef, where typed tracepoints can be had.
    pub sys_enter: Option<u32>,
    /// Likewise.
    pub sys_exit: Option<u32>,
    /// Offset in `task_struct` of the flag word that tells 32-bit calls.
    pub compat_status: u32,
}

impl SyscallTypes {
    /// Finds out, for the machine itself only the first time: there are hundreds of system calls.
    pub fn of(sys: &System) -> SyscallTypes {
        static LIVE: OnceLock<SyscallTypes> = OnceLock::new();
        // A forced answer must not meet what an earlier one left.
        if sys.is_live() && sys.has(Feature::Btf) {
            return *LIVE.get_or_init(|| SyscallTypes::find(sys));
        }
        SyscallTypes::find(sys)
    }

    fn find(sys: &System) -> SyscallTypes {
        let none = SyscallTypes { sys_enter: None, sys_exit: None, compat_status: arch::COMPAT_STATUS_OFFSET };
        let Some(btf) = kernel_btf(sys) else { return none };
        // Without this member the verifier would refuse the read of it; the flag is then read as memory is.
        let Some(status) = btf.member_offset("thread_info", "status") else { return none };
        SyscallTypes {
            sys_enter: btf.find(BtfKind::Typedef, "btf_trace_sys_enter"),
            sys_exit: btf.find(BtfKind::Typedef, "btf_trace_sys_exit"),
            compat_status: status.bit_offset / 8,
        }
    }
}

/// The types of a record's fields, by their C texts; what those only name is looked up in the kernel's types.
pub(crate) fn field_types(sys: &System, fields: &[Field], space: Space, types: &mut TypeTable) -> Vec<TypeId> {
    let mut lookup = |types: &mut TypeTable, keyword: &str, name: &str| {
        let found = kernel_btf(sys)?.import_named(keyword, name, types, space);
        found.unwrap_or_else(|error| {
            log::info!("{keyword} {name}: {error}");
            None
        })
    };
    fields.iter().map(|field| field_type(types, field, space, &mut lookup)).collect()
}
