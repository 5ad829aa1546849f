//! AArch64: DWARF register numbers (AADWARF64) and `struct pt_regs`: x0 … x30, sp, pc, pstate.

/// The offset in `struct pt_regs` of the register with this DWARF number.
pub fn reg_offset(dwarf: u16) -> Option<u32> {
    (dwarf <= 32).then(|| u32::from(dwarf) * 8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registers_are_in_order() {
        assert_eq!(reg_offset(30), Some(240));
        assert_eq!(reg_offset(31), Some(248));
        assert_eq!(reg_offset(32), Some(256));
        assert_eq!(reg_offset(33), None);
    }
}
