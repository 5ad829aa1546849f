//! x86-64: DWARF register numbers (System V ABI, figure 3.36) and `struct pt_regs`.

/// Offsets by DWARF number: rax, rdx, rcx, rbx, rsi, rdi, rbp, rsp, r8 … r15, and the return address column, rip.
const OFFSETS: [u32; 17] = [80, 96, 88, 40, 104, 112, 32, 152, 72, 64, 56, 48, 24, 16, 8, 0, 128];

/// The offset in `struct pt_regs` of the register with this DWARF number.
pub fn reg_offset(dwarf: u16) -> Option<u32> {
    OFFSETS.get(usize::from(dwarf)).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_register_has_its_own_word() {
        let mut all: Vec<u32> = (0..17).filter_map(reg_offset).collect();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 17);
        assert!(all.iter().all(|o| o % 8 == 0 && *o < 168));
        assert_eq!(reg_offset(17), None);
    }
}
