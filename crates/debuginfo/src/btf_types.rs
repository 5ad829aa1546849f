//! BTF's records as the kernel documents them (Documentation/bpf/btf.rst): kinds, and the fields of one type.
//!
//! Decodes one record at a time out of the type section. Leaves out looking types up (`btf`) and turning them into the
//! compiler's types (`btf_import`).

use crate::reader::u32_at;

/// The kinds of BTF types, with the kernel's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
#[repr(u8)]
pub enum BtfKind {
    Int = 1,
    Ptr,
    Array,
    Struct,
    Union,
    Enum,
    Fwd,
    Typedef,
    Volatile,
    Const,
    Restrict,
    Func,
    FuncProto,
    Var,
    DataSec,
    Float,
    DeclTag,
    TypeTag,
    Enum64,
}

const KINDS: [BtfKind; 19] = [
    BtfKind::Int,
    BtfKind::Ptr,
    BtfKind::Array,
    BtfKind::Struct,
    BtfKind::Union,
    BtfKind::Enum,
    BtfKind::Fwd,
    BtfKind::Typedef,
    BtfKind::Volatile,
    BtfKind::Const,
    BtfKind::Restrict,
    BtfKind::Func,
    BtfKind::FuncProto,
    BtfKind::Var,
    BtfKind::DataSec,
    BtfKind::Float,
    BtfKind::DeclTag,
    BtfKind::TypeTag,
    BtfKind::Enum64,
];

impl BtfKind {
    /// The kind with the kernel's number, `None` for one that is newer than this reader.
    pub fn from_number(number: u32) -> Option<BtfKind> {
        KINDS.get((number as usize).checked_sub(1)?).copied()
    }
}

/// Bytes that follow the header, by kind: a fixed number, and so many for each of `vlen`. Looked up rather than matched: kinds
/// come in no predictable order, and a mispredicted branch costs more than all else in a walk.
const FOLLOWS: [(u8, u8); 32] = {
    let mut follows = [(0, 0); 32];
    follows[BtfKind::Int as usize] = (4, 0);
    follows[BtfKind::Var as usize] = (4, 0);
    follows[BtfKind::DeclTag as usize] = (4, 0);
    follows[BtfKind::Array as usize] = (12, 0);
    follows[BtfKind::Struct as usize] = (0, 12);
    follows[BtfKind::Union as usize] = (0, 12);
    follows[BtfKind::DataSec as usize] = (0, 12);
    follows[BtfKind::Enum64 as usize] = (0, 12);
    follows[BtfKind::Enum as usize] = (0, 8);
    follows[BtfKind::FuncProto as usize] = (0, 8);
    follows
};

/// A record's header, and where the next record is; all that a walk needs.
#[derive(Clone, Copy)]
pub(crate) struct Head {
    pub name: u32,
    pub info: u32,
    pub size_or_type: u32,
    pub next: usize,
}

impl Head {
    /// Reads the header at `offset`; `None` if the record does not end in the section or its kind is unknown.
    #[inline(always)]
    pub fn at(section: &[u8], offset: usize) -> Option<Head> {
        let header: &[u8; 12] = section.get(offset..)?.first_chunk()?;
        let word = |at: usize| u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
        let info = word(4);
        let kind = info >> 24 & 0x1f;
        let (fixed, each) = FOLLOWS[kind as usize];
        let next = offset + 12 + usize::from(fixed) + usize::from(each) * (info & 0xffff) as usize;
        let known = kind.wrapping_sub(1) < KINDS.len() as u32;
        (known && next <= section.len()).then_some(Head { name: word(0), info, size_or_type: word(8), next })
    }

    /// Whether it is of this kind.
    #[inline(always)]
    pub fn is(&self, kind: BtfKind) -> bool {
        self.info >> 24 & 0x1f == kind as u32
    }
}

/// One type's record: the common header and the bytes that follow it.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// The type's id.
    pub id: u32,
    /// What it is.
    pub kind: BtfKind,
    /// Offset of its name in the string section, 0 if it has none.
    pub name: u32,
    /// Number of members, enumerators or parameters.
    pub vlen: u32,
    /// The meaning depends on the kind: bit-field offsets in structs, signedness of enums, union for forwards.
    pub kind_flag: bool,
    /// The size in bytes (int, struct, union, enum, float, datasec), or the type referred to.
    pub size_or_type: u32,
    /// What follows the header.
    pub data: &'a [u8],
}

/// A member of a struct or union.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemberRecord {
    /// Offset of its name in the string section, 0 for an anonymous struct or union.
    pub name: u32,
    /// Its type.
    pub ty: u32,
    /// Offset from the start of the struct, in bits.
    pub bit_offset: u32,
    /// Width of a bit-field in bits, 0 for an ordinary member. Old encodings put it into the integer's type instead.
    pub bit_size: u32,
}

/// An integer's encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IntRecord {
    /// Whether it is signed.
    pub signed: bool,
    /// Whether it is marked as a character.
    pub char: bool,
    /// Whether it is a `_Bool`.
    pub bool: bool,
    /// Offset of the value in its storage, in bits; nonzero only in old bit-field encodings.
    pub bit_offset: u32,
    /// Width in bits.
    pub bits: u32,
}

impl<'a> Record<'a> {
    /// Decodes the record at `offset` of the type section; the second value is the offset of the next.
    #[inline]
    pub fn decode(section: &'a [u8], offset: usize, id: u32) -> Option<(Record<'a>, usize)> {
        let head = Head::at(section, offset)?;
        let kind = BtfKind::from_number(head.info >> 24 & 0x1f)?;
        let data = section.get(offset + 12..head.next)?;
        let (vlen, kind_flag) = (head.info & 0xffff, head.info >> 31 != 0);
        let record = Record { id, kind, name: head.name, vlen, kind_flag, size_or_type: head.size_or_type, data };
        Some((record, head.next))
    }

    /// The members of a struct or union.
    pub fn members(&self) -> impl Iterator<Item = MemberRecord> + use<'a> {
        let bitfields = self.kind_flag;
        let list = if matches!(self.kind, BtfKind::Struct | BtfKind::Union) { self.data } else { &[] };
        list.as_chunks::<12>().0.iter().map(move |chunk| {
            let [name, ty, offset] = words(chunk);
            match bitfields {
                true => MemberRecord { name, ty, bit_offset: offset & 0xff_ffff, bit_size: offset >> 24 },
                false => MemberRecord { name, ty, bit_offset: offset, bit_size: 0 },
            }
        })
    }

    /// The parameters of a function prototype, as (name, type); varargs end in (0, 0).
    pub fn params(&self) -> impl Iterator<Item = (u32, u32)> + use<'a> {
        let list = if self.kind == BtfKind::FuncProto { self.data } else { &[] };
        list.as_chunks::<8>().0.iter().map(|chunk| {
            let [name, ty] = words(chunk);
            (name, ty)
        })
    }

    /// The enumerators of an enum of either size, as (name, value).
    pub fn enumerators(&self) -> impl Iterator<Item = (u32, i64)> + use<'a> {
        let signed = self.kind_flag;
        let (wide, list) = match self.kind {
            BtfKind::Enum => (false, self.data),
            BtfKind::Enum64 => (true, self.data),
            _ => (false, &[][..]),
        };
        list.chunks_exact(if wide { 12 } else { 8 }).map(move |chunk| {
            let word = |at| u32_at(chunk, at).unwrap_or(0);
            let value = match (wide, signed) {
                (true, _) => (u64::from(word(8)) << 32 | u64::from(word(4))) as i64,
                (false, true) => i64::from(word(4) as i32),
                // Before kind_flag had a meaning here, negative enumerators were written the same way; unsigned is the rule.
                (false, false) => i64::from(word(4)),
            };
            (word(0), value)
        })
    }

    /// An integer's encoding.
    pub fn int(&self) -> Option<IntRecord> {
        if self.kind != BtfKind::Int {
            return None;
        }
        let word = u32_at(self.data, 0)?;
        let encoding = word >> 24 & 0xf;
        Some(IntRecord {
            signed: encoding & 1 != 0,
            char: encoding & 2 != 0,
            bool: encoding & 4 != 0,
            bit_offset: word >> 16 & 0xff,
            bits: word & 0xff,
        })
    }

    /// An array's element type and number of elements.
    pub fn array(&self) -> Option<(u32, u32)> {
        match self.kind {
            BtfKind::Array => Some((u32_at(self.data, 0)?, u32_at(self.data, 8)?)),
            _ => None,
        }
    }

    /// Whether the record only qualifies another type (`const`, `volatile`, `restrict`, tags).
    pub fn is_modifier(&self) -> bool {
        matches!(self.kind, BtfKind::Const | BtfKind::Volatile | BtfKind::Restrict | BtfKind::TypeTag)
    }
}

fn words<const N: usize, const M: usize>(chunk: &[u8; N]) -> [u32; M] {
    std::array::from_fn(|i| u32_at(chunk, 4 * i).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_keep_the_kernels_numbers() {
        for (i, kind) in KINDS.iter().enumerate() {
            assert_eq!(*kind as usize, i + 1);
        }
        assert_eq!(BtfKind::from_number(0), None);
        assert_eq!(BtfKind::from_number(20), None);
    }

    #[test]
    fn records_past_the_end_are_none() {
        let mut bytes = vec![0u8; 12];
        bytes[7] = BtfKind::Struct as u8;
        assert!(Record::decode(&bytes, 0, 1).is_some());
        bytes[4] = 1;
        assert!(Record::decode(&bytes, 0, 1).is_none());
        assert!(Record::decode(&bytes, usize::MAX - 3, 1).is_none());
    }
}
