//! Where functions start in a file without symbols: the sorted table of `.eh_frame_hdr`, which stripping leaves in place.
//!
//! Owns the search in that table. Leaves out the unwinding rules that its entries lead to.

use probity_debuginfo::elf::{Binding, Elf, Func};

/// `PT_GNU_EH_FRAME`.
const SEGMENT: u32 = 0x6474_e550;

/// How the linkers in use write the table: the pointer to `.eh_frame` in 4 bytes, the count in 4, the entries as 4 + 4 bytes
/// relative to the table's own address.
const ENCODINGS: [u8; 2] = [0x03, 0x3b];

/// Bytes before the first entry.
const HEADER: usize = 12;

/// The longest instruction.
const LONGEST: u64 = 15;

/// Finds the code from the last known function start up to `vaddr` and the instruction there; `None` if the file does not tell.
pub(crate) fn code_up_to(elf: &Elf, vaddr: u64) -> Option<Func> {
    let segment = elf.segments().iter().find(|segment| segment.kind == SEGMENT)?;
    let table = elf.bytes(segment.offset, segment.file_size).ok()?;
    let start = last_start(&table, segment.vaddr, vaddr)?;
    let (first, offset) = (start, elf.offset_of_vaddr(start)?);
    let end = elf.offset_of_vaddr(vaddr)?;
    // Both in one segment, or the bytes between are not what runs.
    let inside = vaddr.checked_sub(first).filter(|inside| end.checked_sub(offset) == Some(*inside))?;
    let size = (inside + 1..=inside + LONGEST).rev().find(|size| elf.bytes(offset, *size).is_ok())?;
    Some(Func { vaddr: first, offset, size, ifunc: false, binding: Binding::Local })
}

/// The highest start in the table that is not above `vaddr`.
fn last_start(table: &[u8], base: u64, vaddr: u64) -> Option<u64> {
    let word = |at: usize| Some(i32::from_le_bytes(table.get(at..at.checked_add(4)?)?.try_into().ok()?));
    let (version, pointer, encodings) = (*table.first()?, *table.get(1)?, table.get(2..4)?);
    // Pointers of 4 bytes: udata4 and sdata4, relative to whatever.
    if version != 1 || !matches!(pointer & 0x0f, 0x03 | 0x0b) || encodings != ENCODINGS {
        return None;
    }
    let count = usize::try_from(word(8)?).ok()?.min(table.len().saturating_sub(HEADER) / 8);
    let start = |index: usize| Some(base.wrapping_add_signed(word(HEADER + 8 * index)?.into()));
    // The table is sorted; a hostile one that is not gives a wrong start, which the decoding from there then refuses or not,
    // as it would with wrong symbols.
    let (mut low, mut high) = (0, count);
    while low < high {
        let middle = low + (high - low) / 2;
        if start(middle)? <= vaddr { low = middle + 1 } else { high = middle }
    }
    start(low.checked_sub(1)?)
}

/// Runs the search over arbitrary bytes: as a table, and as a file with one.
pub fn fuzz_one(data: &[u8]) {
    for vaddr in [0, 0x1010, u64::MAX] {
        let _ = last_start(data, 0x1000, vaddr);
    }
    let Ok(elf) = Elf::parse(data.to_vec()) else { return };
    for segment in elf.segments().iter().take(8) {
        let last = segment.vaddr.wrapping_add(segment.file_size).wrapping_sub(1);
        for vaddr in [segment.vaddr, segment.vaddr.wrapping_add(segment.file_size / 2), last] {
            let _ = code_up_to(&elf, vaddr);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(starts: &[i32]) -> Vec<u8> {
        let mut bytes = vec![1, 0x1b, 0x03, 0x3b, 0, 0, 0, 0];
        bytes.extend((starts.len() as i32).to_le_bytes());
        for start in starts {
            bytes.extend(start.to_le_bytes());
            bytes.extend([0; 4]);
        }
        bytes
    }

    #[test]
    fn the_start_below_is_found() {
        let bytes = table(&[-0x100, 0x10, 0x40]);
        for (vaddr, start) in [
            (0xeff, None),
            (0xf00, Some(0xf00)),
            (0x100f, Some(0xf00)),
            (0x1010, Some(0x1010)),
            (0x103f, Some(0x1010)),
            (u64::MAX, Some(0x1040)),
        ] {
            assert_eq!(last_start(&bytes, 0x1000, vaddr), start, "{vaddr:#x}");
        }
    }

    #[test]
    fn odd_tables_are_none() {
        let bytes = table(&[0, 16]);
        for len in 0..bytes.len() {
            // Cut short, whole entries remain usable.
            let _ = last_start(&bytes[..len], 0, 20);
        }
        assert_eq!(last_start(&bytes[..11], 0, 20), None);
        let mut other = bytes.clone();
        other[3] = 0x1b;
        assert_eq!(last_start(&other, 0, 20), None);
        let mut many = bytes;
        many[8..12].copy_from_slice(&i32::MAX.to_le_bytes());
        assert_eq!(last_start(&many, 0, 20), Some(16));
    }

    #[test]
    fn a_stripped_file_still_tells() {
        let Ok(path) = std::env::current_exe() else { return };
        let elf = Elf::open(path).unwrap();
        let mut checked = 0;
        elf.functions(&mut |_, func| {
            if func.size > 64 && checked < 20 {
                let found = code_up_to(&elf, func.vaddr + 1);
                if let Some(found) = found {
                    assert_eq!(found.vaddr, func.vaddr);
                    checked += 1;
                }
            }
        })
        .unwrap();
        assert!(checked > 0);
    }

    #[test]
    fn any_bytes() {
        let mut bytes = table(&[-0x100, 0x10, 0x40]);
        for at in 0..bytes.len() {
            for flip in [1, 0x80, 0xff] {
                bytes[at] ^= flip;
                fuzz_one(&bytes);
                bytes[at] ^= flip;
            }
        }
    }
}
