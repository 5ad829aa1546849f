//! The numbers and names of system calls, 64-bit and 32-bit, as far as a kernel of a given version has them.
//!
//! Names are those of the system-call table, which tracefs calls differently for a few. Leaves out probes (`syscall`).

use probity_kernel::Version;
use syscalls::{x86, x86_64};

/// One table of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Table {
    /// 64-bit calls.
    Native,
    /// 32-bit calls.
    Compat,
}

/// Calls in the 64-bit table that no kernel since 5.x serves.
const GONE: [&str; 17] = [
    "uselib",
    "create_module",
    "get_kernel_syms",
    "query_module",
    "nfsservctl",
    "getpmsg",
    "putpmsg",
    "afs_syscall",
    "tuxcall",
    "security",
    "lookup_dcookie",
    "epoll_ctl_old",
    "epoll_wait_old",
    "vserver",
    "_sysctl",
    "get_thread_area",
    "set_thread_area",
];

/// Likewise in the 32-bit table.
const GONE_COMPAT: [&str; 20] = [
    "break",
    "stty",
    "gtty",
    "ftime",
    "prof",
    "lock",
    "mpx",
    "ulimit",
    "profil",
    "idle",
    "create_module",
    "get_kernel_syms",
    "afs_syscall",
    "query_module",
    "nfsservctl",
    "getpmsg",
    "putpmsg",
    "lookup_dcookie",
    "vserver",
    "bdflush",
];

/// The first number that came after Linux 5.15, and the versions that added it and those that follow. Numbers from 424 on
/// are the same in both tables.
const NEWER: [(u32, u32, u32); 10] = [
    (449, 5, 16),
    (450, 5, 17),
    (451, 6, 5),
    (452, 6, 6),
    (454, 6, 7),
    (457, 6, 8),
    (462, 6, 10),
    (463, 6, 13),
    (467, 6, 15),
    (468, 6, 17),
];

/// Where tracefs names a call by the kernel's function: `sys_enter_newfstat` is `fstat`.
const OTHER_IN_TRACEFS: [(&str, &str); 6] = [
    ("stat", "newstat"),
    ("fstat", "newfstat"),
    ("lstat", "newlstat"),
    ("uname", "newuname"),
    ("sendfile", "sendfile64"),
    ("umount2", "umount"),
];

impl Table {
    /// The name of call `number`, if a kernel of `version` has it.
    pub fn name(self, number: u32, version: Version) -> Option<&'static str> {
        let newer = NEWER.iter().rev().find(|(first, ..)| *first <= number);
        if newer.is_some_and(|(_, major, minor)| version < Version(*major, *minor, 0)) {
            return None;
        }
        let (name, gone) = match self {
            Table::Native => (x86_64::Sysno::new(number as usize)?.name(), &GONE[..]),
            Table::Compat => (x86::Sysno::new(number as usize)?.name(), &GONE_COMPAT[..]),
        };
        // A Rust keyword has a prefix there.
        let name = name.strip_prefix("r#").unwrap_or(name);
        (!gone.contains(&name)).then_some(name)
    }

    /// The number of the call `name`.
    pub fn number(self, name: &str, version: Version) -> Option<u32> {
        let number = match self {
            Table::Native => name.parse::<x86_64::Sysno>().ok()?.id(),
            Table::Compat => name.parse::<x86::Sysno>().ok()?.id(),
        };
        let number = u32::try_from(number).ok()?;
        self.name(number, version).map(|_| number)
    }

    /// Every call that a kernel of `version` has, by number.
    pub fn all(self, version: Version) -> impl Iterator<Item = (u32, &'static str)> {
        (0..probity_ir::COMPAT_BASE).filter_map(move |number| Some((number, self.name(number, version)?)))
    }
}

/// What tracefs calls the 64-bit call `name`.
pub fn tracefs_name(name: &str) -> &str {
    OTHER_IN_TRACEFS.iter().find(|(ours, _)| *ours == name).map_or(name, |(_, theirs)| theirs)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEW: Version = Version(6, 18, 0);

    #[test]
    fn numbers_and_names_agree() {
        for table in [Table::Native, Table::Compat] {
            let mut count = 0;
            for (number, name) in table.all(NEW) {
                assert_eq!(table.number(name, NEW), Some(number), "{name}");
                assert!(!name.contains('#'));
                count += 1;
            }
            assert!(count > 340, "{count}");
        }
        assert_eq!(Table::Native.number("getppid", NEW), Some(110));
        assert_eq!(Table::Compat.number("getppid", NEW), Some(64));
        assert_eq!(Table::Native.number("waitpid", NEW), None);
        assert_eq!(Table::Native.number("uselib", NEW), None);
    }

    #[test]
    fn calls_come_with_their_kernels() {
        assert_eq!(Table::Native.number("mseal", NEW), Some(462));
        assert_eq!(Table::Native.number("mseal", Version(6, 1, 0)), None);
        assert_eq!(Table::Native.number("futex_waitv", Version(6, 1, 0)), Some(449));
        assert_eq!(Table::Native.number("clone3", Version(5, 15, 0)), Some(435));
    }
}
