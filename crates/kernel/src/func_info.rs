//! The type information that the kernel wants of a program with subprograms: without it no helper takes a callback.
//!
//! Owns the least BTF that will do: every subprogram is a function without parameters. The kernel uses it for names and linkage only:
//! callbacks must be static.

use probity_bpf::{Insn, object::subprog_starts};

/// A program's BTF and, for each subprogram, its first slot and its type's number.
#[derive(Debug)]
pub struct FuncInfo {
    /// The BTF, to be loaded.
    pub btf: Vec<u8>,
    /// Pairs of slot and type.
    pub records: Vec<u32>,
}

const KIND_INT: u32 = 1 << 24;
const KIND_FUNC: u32 = 12 << 24;
const KIND_FUNC_PROTO: u32 = 13 << 24;
/// Linkage.
const STATIC: u32 = 0;
const GLOBAL: u32 = 1;
const INT: u32 = 1;
const PROTO: u32 = 2;

/// What a program needs; `None` where it has no subprograms.
pub fn func_info(insns: &[Insn]) -> Option<FuncInfo> {
    let starts = subprog_starts(insns);
    if starts.len() < 2 {
        return None;
    }
    let mut names = b"\0long\0".to_vec();
    // Type 1: a signed integer of 64 bits. Type 2: a function that returns it.
    let mut types = vec![1, KIND_INT, 8, 1 << 24 | 64, 0, KIND_FUNC_PROTO, INT];
    let mut records = Vec::new();
    for (i, &start) in starts.iter().enumerate() {
        let (name, linkage) = if i == 0 { ("main".to_owned(), GLOBAL) } else { (format!("routine_{i}"), STATIC) };
        types.extend([names.len() as u32, KIND_FUNC | linkage, PROTO]);
        names.extend(name.into_bytes());
        names.push(0);
        records.extend([start, PROTO + 1 + i as u32]);
    }
    Some(FuncInfo { btf: crate::load::btf(&types, &names), records })
}

#[cfg(test)]
mod tests {
    use super::*;
    use probity_bpf::asm::Asm;
    use probity_bpf::insn::{Insn, R0};

    #[test]
    fn every_subprogram_is_told() {
        assert!(func_info(&[Insn::mov64(R0, 0), Insn::exit()]).is_none());
        let mut a = Asm::new();
        let sub = a.label();
        a.call_sub(sub);
        a.emit(Insn::exit());
        a.bind(sub);
        a.emit(Insn::mov64(R0, 0));
        a.emit(Insn::exit());
        let info = func_info(&a.finish().unwrap().insns).unwrap();
        assert_eq!(info.records, [0, 3, 2, 4]);
    }
}
