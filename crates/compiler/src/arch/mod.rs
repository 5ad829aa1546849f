//! What differs between machines: where `struct pt_regs` keeps each register.

pub mod aarch64;
pub mod x86_64;

/// The offset in `struct pt_regs` of the register with this DWARF number, on the machine that this was built for.
pub fn reg_offset(dwarf: u16) -> Option<u32> {
    if cfg!(target_arch = "aarch64") { aarch64::reg_offset(dwarf) } else { x86_64::reg_offset(dwarf) }
}
