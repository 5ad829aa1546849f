//! What depends on the processor: registers by their DWARF numbers, where `struct pt_regs` keeps them, the registers of
//! system calls, and the flag of 32-bit ones. Leaves out what the calling convention means to a probe (`user`, `syscall`).
//!
//! Only x86-64 is described; another architecture is another set of these constants.

use probity_ir::{Location, Space};

/// DWARF numbers of the registers of a function's integer arguments: di si dx cx r8 r9.
pub const ARGUMENTS: [u16; 6] = [5, 4, 1, 2, 8, 9];

/// DWARF number of the register of a function's result.
pub const RESULT: u16 = 0;

/// DWARF number of the stack pointer.
pub const STACK_POINTER: u16 = 7;

/// Bytes between the stack pointer at a function's entry and its first argument on the stack: the return address.
pub const STACK_ARGUMENTS: i64 = 8;

/// Byte offsets in `struct pt_regs`, which is part of the kernel's interface to user space.
pub mod pt_regs {
    /// Offset of `bp`.
    pub const BP: u32 = 32;
    /// Offset of `bx`.
    pub const BX: u32 = 40;
    /// Offset of `r10`.
    pub const R10: u32 = 56;
    /// Offset of `r9`.
    pub const R9: u32 = 64;
    /// Offset of `r8`.
    pub const R8: u32 = 72;
    /// Offset of `ax`.
    pub const AX: u32 = 80;
    /// Offset of `cx`.
    pub const CX: u32 = 88;
    /// Offset of `dx`.
    pub const DX: u32 = 96;
    /// Offset of `si`.
    pub const SI: u32 = 104;
    /// Offset of `di`.
    pub const DI: u32 = 112;
    /// Offset of the system call's number, kept when the call's result has replaced `ax`.
    pub const ORIG_AX: u32 = 120;
    /// Offset of `ip`.
    pub const IP: u32 = 128;
}

/// Offsets in `pt_regs` of a 64-bit system call's arguments.
pub const SYSCALL_ARGUMENTS: [u32; 6] = [pt_regs::DI, pt_regs::SI, pt_regs::DX, pt_regs::R10, pt_regs::R8, pt_regs::R9];

/// Offsets in `pt_regs` of a 32-bit system call's arguments, each the low half of its register.
pub const COMPAT_ARGUMENTS: [u32; 6] = [pt_regs::BX, pt_regs::CX, pt_regs::DX, pt_regs::SI, pt_regs::DI, pt_regs::BP];

/// `TS_COMPAT`: the bit of `thread_info.status` that is set during a 32-bit system call.
pub const COMPAT_FLAG: u64 = 2;

/// Offset of `status` in `struct thread_info` (the first member of `task_struct`), where no BTF says it: since Linux 5.11.
pub const COMPAT_STATUS_OFFSET: u32 = 16;

/// The module name of 32-bit system calls.
pub const COMPAT_MODULE: &str = "ia32";

/// Returns where the current thread's user code is.
pub fn user_pc() -> Location {
    Location::UserRegister { offset: pt_regs::IP }
}

/// Returns where a function's `n`th integer argument is when its first instruction has not yet run.
pub fn argument(n: usize) -> Location {
    match ARGUMENTS.get(n) {
        Some(&dwarf) => Location::Reg { dwarf },
        None => stack_word(STACK_ARGUMENTS + 8 * (n - ARGUMENTS.len()) as i64),
    }
}

/// Returns where the return address is when a function's first instruction has not yet run.
pub fn return_address() -> Location {
    stack_word(0)
}

/// Says why the kernel puts no probe on the instruction that `code` begins with, where that can be told at a glance. It executes
/// the instruction elsewhere, out of line, and has a list of those that it trusts there; the kernel's word is the last.
pub fn unprobeable(code: &[u8]) -> Option<&'static str> {
    for byte in code {
        return match byte {
            0xf0 => Some("it begins with a locked instruction"),
            0x26 | 0x2e | 0x36 | 0x3e => Some("it begins with a segment prefix"),
            0xcc | 0xcd | 0xce | 0xf1 => Some("it begins with a trap"),
            0xf4 | 0xfa | 0xfb | 0x6c..=0x6f | 0xe4..=0xe7 | 0xec..=0xef => {
                Some("it begins with a privileged instruction")
            }
            // Operand size, address size, FS, GS, REP and REX: what counts comes after.
            0x40..=0x4f | 0x64..=0x67 | 0xf2 | 0xf3 => continue,
            _ => None,
        };
    }
    None
}

fn stack_word(offset: i64) -> Location {
    let base = Box::new(Location::Reg { dwarf: STACK_POINTER });
    Location::Memory { base, offset, size: 8, signed: false, space: Space::User }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seventh_argument_is_above_the_return_address() {
        assert_eq!(argument(0), Location::Reg { dwarf: 5 });
        assert_eq!(argument(3), Location::Reg { dwarf: 2 });
        assert_eq!(argument(6), stack_word(8));
        assert_eq!(argument(7), stack_word(16));
        assert_eq!(return_address(), stack_word(0));
    }

    #[test]
    fn locked_instructions_take_no_probe() {
        // lock decl (%rdi), the first of pthread_spin_lock
        assert!(unprobeable(&[0xf0, 0xff, 0x0f]).is_some());
        assert!(unprobeable(&[0x66, 0xf0, 0xff]).is_some());
        assert!(unprobeable(&[0xf4]).is_some());
        // endbr64; push %rbp; mov %rsp,%rbp
        assert!(unprobeable(&[0xf3, 0x0f, 0x1e, 0xfa]).is_none());
        assert!(unprobeable(&[0x55, 0x48]).is_none());
        assert!(unprobeable(&[0x48, 0x89, 0xe5]).is_none());
        assert!(unprobeable(&[]).is_none());
    }
}
