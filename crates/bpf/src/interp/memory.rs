//! The interpreter's memory: regions behind 64-bit virtual addresses, every access checked.
//!
//! An address is a tag, a region number and an offset, so arithmetic on pointers is plain integer arithmetic and a
//! pointer that leaves its region is found out at the access. Values of one map share a region but lie apart in
//! address space with a gap at least as large as a value between them, so running over the end of one is an error.

use super::FaultKind;

/// The high byte of every region address: no kernel or user address on x86-64 or arm64 starts like this.
const TAG: u64 = 0xb5 << 56;
/// The high byte of subprogram addresses.
const FUNC_TAG: u64 = 0xf5 << 56;
const OFFSET_BITS: u32 = 40;
/// What a program's stack and ring records hold before it writes them, to make its reliance on it visible.
const JUNK: u8 = 0xa5;

/// Bytes of a stack frame.
pub(super) const STACK_BYTES: usize = 512;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// The context.
    Ctx,
    /// A stack frame.
    Stack,
    /// The address of a map itself; no bytes.
    Map(usize),
    /// Values of a map.
    Value,
    /// An uncommitted ring record: map, sequence number.
    Ring(usize, u64),
    /// Lent to a callback.
    Lent,
    /// Free for reuse.
    Free,
}

#[derive(Clone, Debug)]
struct Region {
    kind: Kind,
    bytes: Vec<u8>,
    /// Element n starts at offset `n << shift`.
    shift: u32,
    /// Element n starts at byte `n * pitch`.
    pitch: usize,
    /// Bytes of an element that may be accessed.
    elem: usize,
    writable: bool,
    /// One bit for each byte of a stack frame that was written.
    init: [u64; 8],
    /// One bit for each 8-byte slot of a stack frame that holds a typed kernel pointer.
    typed: u64,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Memory {
    regions: Vec<Region>,
    free: Vec<usize>,
}

/// The address of a subprogram.
pub(super) fn func_address(pc: usize) -> u64 {
    FUNC_TAG | pc as u64
}

/// The slot of the subprogram at this address.
pub(super) fn func_slot(addr: u64) -> Option<usize> {
    (addr >> 56 == FUNC_TAG >> 56).then_some((addr & !FUNC_TAG) as usize)
}

/// Whether the address is one of ours, not of the emulated kernel or user memory.
pub(super) fn is_ours(addr: u64) -> bool {
    addr >> 56 == TAG >> 56
}

fn base(region: usize) -> u64 {
    TAG | (region as u64) << OFFSET_BITS
}

impl Memory {
    fn insert(&mut self, region: Region) -> usize {
        match self.free.pop() {
            Some(id) => {
                self.regions[id] = region;
                id
            }
            None => {
                self.regions.push(region);
                self.regions.len() - 1
            }
        }
    }

    /// One block of bytes; its address is the start.
    pub(super) fn block(&mut self, kind: Kind, bytes: Vec<u8>, writable: bool) -> u64 {
        let elem = bytes.len();
        let region = Region { kind, bytes, shift: OFFSET_BITS, pitch: 0, elem, writable, init: [0; 8], typed: 0 };
        base(self.insert(region))
    }

    /// A block of junk.
    pub(super) fn junk(&mut self, kind: Kind, len: usize) -> u64 {
        self.block(kind, vec![JUNK; len], true)
    }

    /// `count` elements of `elem` bytes, zero, 8-byte aligned.
    pub(super) fn elements(&mut self, elem: usize, count: usize, writable: bool) -> usize {
        let pitch = elem.next_multiple_of(8);
        let region = Region {
            kind: Kind::Value,
            bytes: vec![0; pitch * count],
            shift: (2 * pitch.max(8)).next_power_of_two().trailing_zeros(),
            pitch,
            elem,
            writable,
            init: [0; 8],
            typed: 0,
        };
        self.insert(region)
    }

    /// Makes sure that element `slot` exists.
    pub(super) fn grow(&mut self, region: usize, slot: usize) {
        let region = &mut self.regions[region];
        let need = (slot + 1) * region.pitch;
        if region.bytes.len() < need {
            region.bytes.resize(need, 0);
        }
    }

    /// The address of element `slot`.
    pub(super) fn element_address(&self, region: usize, slot: usize) -> u64 {
        base(region) + ((slot as u64) << self.regions[region].shift)
    }

    /// The bytes of element `slot`, without any check of permission.
    pub(super) fn element(&self, region: usize, slot: usize) -> &[u8] {
        let region = &self.regions[region];
        let start = slot * region.pitch;
        region.bytes.get(start..start + region.elem).unwrap_or(&[])
    }

    /// As `element`, to be written.
    pub(super) fn element_mut(&mut self, region: usize, slot: usize) -> &mut [u8] {
        let region = &mut self.regions[region];
        let start = slot * region.pitch;
        region.bytes.get_mut(start..start + region.elem).unwrap_or(&mut [])
    }

    /// Gives back a block and its bytes.
    pub(super) fn release(&mut self, addr: u64) -> Vec<u8> {
        let Some((id, _)) = self.split(addr) else { return Vec::new() };
        self.regions[id].kind = Kind::Free;
        self.regions[id].elem = 0;
        self.free.push(id);
        std::mem::take(&mut self.regions[id].bytes)
    }

    fn split(&self, addr: u64) -> Option<(usize, u64)> {
        let id = (addr & !TAG) >> OFFSET_BITS;
        let offset = addr & ((1 << OFFSET_BITS) - 1);
        (is_ours(addr) && (id as usize) < self.regions.len()).then_some((id as usize, offset))
    }

    /// What is at an address, and whether the address is the start of the region.
    pub(super) fn kind(&self, addr: u64) -> Option<(Kind, bool)> {
        let (id, offset) = self.split(addr)?;
        Some((self.regions[id].kind, offset == 0))
    }

    fn locate(&self, addr: u64, len: usize) -> Result<(usize, usize), FaultKind> {
        if addr < 4096 {
            return Err(FaultKind::NullPointer { addr });
        }
        let bad = FaultKind::BadAddress { addr, len };
        let (id, offset) = self.split(addr).ok_or(bad)?;
        let region = &self.regions[id];
        let slot = (offset >> region.shift) as usize;
        let within = (offset & ((1 << region.shift) - 1)) as usize;
        let index = slot.saturating_mul(region.pitch).saturating_add(within);
        // Saturating: a program may ask for any length.
        if within.saturating_add(len) > region.elem || index.saturating_add(len) > region.bytes.len() {
            return Err(FaultKind::BadAddress { addr, len });
        }
        Ok((id, index))
    }

    /// Whether there are so many bytes at an address.
    pub(super) fn room(&self, addr: u64, len: usize) -> Result<(), FaultKind> {
        self.locate(addr, len).map(|_| ())
    }

    /// The bytes at an address.
    pub(super) fn read(&self, addr: u64, len: usize) -> Result<&[u8], FaultKind> {
        let (id, index) = self.locate(addr, len)?;
        let region = &self.regions[id];
        if region.kind == Kind::Stack && !(index..index + len).all(|i| region.init[i / 64] >> (i % 64) & 1 != 0) {
            return Err(FaultKind::UninitStack { addr, len });
        }
        Ok(&region.bytes[index..index + len])
    }

    /// The bytes at an address as the kernel itself would read them: whatever is there.
    pub(super) fn peek(&self, addr: u64, len: usize) -> Option<Vec<u8>> {
        let (id, index) = self.locate(addr, len).ok()?;
        Some(self.regions[id].bytes[index..index + len].to_vec())
    }

    /// The bytes at an address, about to be written.
    pub(super) fn write(&mut self, addr: u64, len: usize) -> Result<&mut [u8], FaultKind> {
        let (id, index) = self.locate(addr, len)?;
        let region = &mut self.regions[id];
        if !region.writable {
            return Err(FaultKind::ReadOnly { addr });
        }
        if region.kind == Kind::Stack {
            for i in index..index + len {
                region.init[i / 64] |= 1 << (i % 64);
                region.typed &= !(1 << (i / 8));
            }
        }
        Ok(&mut region.bytes[index..index + len])
    }

    /// An integer of `len` bytes (1, 2, 4, 8), zero-extended; accesses to the stack must be aligned.
    pub(super) fn load(&self, addr: u64, len: usize) -> Result<u64, FaultKind> {
        let bytes = self.read(addr, len)?;
        self.check_stack_alignment(addr, len)?;
        let mut word = [0; 8];
        word[..len].copy_from_slice(bytes);
        Ok(u64::from_le_bytes(word))
    }

    /// Stores the low `len` bytes of an integer.
    pub(super) fn store(&mut self, addr: u64, len: usize, value: u64) -> Result<(), FaultKind> {
        self.write(addr, len)?.copy_from_slice(&value.to_le_bytes()[..len]);
        self.check_stack_alignment(addr, len)
    }

    fn check_stack_alignment(&self, addr: u64, len: usize) -> Result<(), FaultKind> {
        let stack = self.kind(addr).is_some_and(|(kind, _)| kind == Kind::Stack);
        if stack && !addr.is_multiple_of(len as u64) { Err(FaultKind::Misaligned { addr, len }) } else { Ok(()) }
    }

    /// Notes that the 8 bytes at this stack address now hold a typed kernel pointer.
    pub(super) fn set_typed(&mut self, addr: u64) {
        if let Ok((id, index)) = self.locate(addr, 8)
            && self.regions[id].kind == Kind::Stack
        {
            self.regions[id].typed |= 1 << (index / 8);
        }
    }

    /// Whether the 8 bytes at this address hold a typed kernel pointer.
    pub(super) fn is_typed(&self, addr: u64) -> bool {
        self.locate(addr, 8).is_ok_and(|(id, index)| {
            self.regions[id].kind == Kind::Stack && self.regions[id].typed >> (index / 8) & 1 != 0
        })
    }
}
