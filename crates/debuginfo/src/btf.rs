//! BTF files: finding a type by name, a function's prototype, a member's place. Reads the vmlinux of a given path and
//! modules' split BTF over it.
//!
//! The file is mapped and walked, at some nanoseconds a type, as far as is needed; all that is kept is the offset of every
//! 64th type, so that an id leads to its record in a few steps. No name is looked at unless it is asked for.

use crate::btf_types::{BtfKind, Head, Record};
use crate::error::{Error, Result};
use crate::map::Bytes;
use crate::reader::{cstr_at, cstr_is, u8_at, u16_at, u32_at};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Where the kernel shows its own BTF.
pub const VMLINUX: &str = "/sys/kernel/btf/vmlinux";

const MAGIC: u16 = 0xeb9f;
/// Every so many types one offset is kept.
const STRIDE: u32 = 64;
/// How many typedefs and qualifiers are followed; more is a cycle.
const DEPTH: usize = 64;

/// The types of a kernel or a module.
pub struct Btf {
    bytes: Bytes,
    types: std::ops::Range<usize>,
    strings: std::ops::Range<usize>,
    base: Option<Arc<Btf>>,
    /// The id of the first type here; those below are the base's.
    first: u32,
    walk: Mutex<Walk>,
}

/// How far the type section has been walked.
struct Walk {
    /// The offset in the type section of the types `first`, `first + STRIDE`, …
    steps: Vec<u32>,
    /// The next type's id, and its offset.
    id: u32,
    offset: usize,
}

impl Walk {
    /// Steps over the next type, whose record ends at `next`.
    #[inline]
    fn step(&mut self, first: u32, next: usize) {
        if (self.id - first).is_multiple_of(STRIDE) {
            self.steps.push(self.offset as u32);
        }
        (self.id, self.offset) = (self.id + 1, next);
    }
}

/// A function's prototype.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FuncProto {
    /// The id of the function, or of the typedef, that was asked for: what `attach_btf_id` takes.
    pub id: u32,
    /// The id of the prototype.
    pub proto: u32,
    /// The type returned; 0 is `void`.
    pub ret: u32,
    /// The parameters.
    pub params: Vec<Param>,
    /// Whether more arguments may follow.
    pub varargs: bool,
}

/// A function's parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Param {
    /// Its name, empty where BTF has none.
    pub name: String,
    /// Its type's id.
    pub ty: u32,
}

/// Where a member is, from the start of the outermost struct.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemberPlace {
    /// Offset in bits; divisible by 8 unless it is a bit-field.
    pub bit_offset: u32,
    /// Width in bits of a bit-field, 0 for an ordinary member.
    pub bit_size: u32,
    /// Size in bytes of the member's type.
    pub size: u32,
    /// Whether it is a signed integer or enum.
    pub signed: bool,
    /// Its type's id.
    pub ty: u32,
}

impl Btf {
    /// Opens a BTF file, such as [`VMLINUX`].
    pub fn open(path: impl AsRef<Path>) -> Result<Btf> {
        let path = path.as_ref();
        let bytes = Bytes::of_sysfs(path).map_err(|error| match path == Path::new(VMLINUX) {
            true => error.help("the kernel shows its types only if it was built with CONFIG_DEBUG_INFO_BTF"),
            false => error,
        })?;
        Btf::read(bytes, None).map_err(|error| error.context(path.display().to_string()))
    }

    /// Opens a kernel module's BTF, which continues `vmlinux`'s.
    pub fn open_module(name: &str, vmlinux: Arc<Btf>) -> Result<Btf> {
        let path = Path::new("/sys/kernel/btf").join(name);
        Btf::read(Bytes::of_sysfs(&path)?, Some(vmlinux)).map_err(|error| error.context(path.display().to_string()))
    }

    /// Reads BTF from memory.
    pub fn parse(bytes: Vec<u8>) -> Result<Btf> {
        Btf::read(bytes.into(), None)
    }

    /// Reads split BTF from memory: ids and string offsets continue those of `base`.
    pub fn parse_split(bytes: Vec<u8>, base: Arc<Btf>) -> Result<Btf> {
        Btf::read(bytes.into(), Some(base))
    }

    fn read(bytes: Bytes, base: Option<Arc<Btf>>) -> Result<Btf> {
        let short = || Error::malformed("the BTF header is cut short");
        let magic = u16_at(&bytes, 0).ok_or_else(short)?;
        if magic != MAGIC {
            return Err(match magic.swap_bytes() {
                MAGIC => Error::new(crate::Kind::Unsupported, "BTF of the other byte order"),
                _ => Error::malformed(format!("not BTF: it starts with {magic:#06x}, not {MAGIC:#06x}")),
            });
        }
        if u8_at(&bytes, 2) != Some(1) {
            return Err(Error::new(crate::Kind::Unsupported, "BTF of an unknown version"));
        }
        let word = |offset| u32_at(&bytes, offset).map(|word| word as usize).ok_or_else(short);
        let header = word(4)?;
        let section = |offset: usize, len: usize, what: &str| {
            let start = header.checked_add(offset).filter(|_| header >= 24);
            let range = start.and_then(|start| Some(start..start.checked_add(len)?));
            range
                .filter(|range| range.end <= bytes.len())
                .ok_or_else(|| Error::malformed(format!("the {what} section is outside of the file")))
        };
        let types = section(word(8)?, word(12)?, "type")?;
        let strings = section(word(16)?, word(20)?, "string")?;
        let first = base.as_ref().map_or(1, |base| base.end());
        let walk = Mutex::new(Walk { steps: Vec::new(), id: first, offset: 0 });
        let btf = Btf { bytes, types, strings, base, first, walk };
        // The kernel has checked its own, and the walk through all of it is what takes the time.
        if !btf.bytes.is_mapped() {
            btf.check()?;
        }
        Ok(btf)
    }

    /// Checks that all records are of known kinds and end in the section. Without it, types after a bad one are not found.
    pub fn check(&self) -> Result<()> {
        let (end, walk) = (self.end(), self.walk());
        match walk.offset == self.section().len() {
            true => Ok(()),
            false => Err(Error::malformed(format!(
                "type {end} at offset {:#x} of the type section is cut short or of an unknown kind",
                walk.offset
            ))),
        }
    }

    fn walk(&self) -> MutexGuard<'_, Walk> {
        // A walk that was interrupted by a panic is still right as far as it got.
        self.walk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn section(&self) -> &[u8] {
        &self.bytes[self.types.clone()]
    }

    /// One more than the highest type id. Walks through all records.
    pub fn end(&self) -> u32 {
        let mut walk = self.walk();
        while let Some(head) = Head::at(self.section(), walk.offset) {
            walk.step(self.first, head.next);
        }
        walk.id
    }

    /// The base of split BTF.
    pub fn base(&self) -> Option<&Arc<Btf>> {
        self.base.as_ref()
    }

    /// The record of a type; `None` for 0 (`void`) and ids that are not there.
    pub fn record(&self, id: u32) -> Option<Record<'_>> {
        if id < self.first {
            return self.base.as_ref()?.record(id);
        }
        let section = self.section();
        let mut walk = self.walk();
        while walk.id <= id {
            let head = Head::at(section, walk.offset)?;
            walk.step(self.first, head.next);
        }
        let index = id - self.first;
        let mut offset = *walk.steps.get((index / STRIDE) as usize)? as usize;
        for _ in 0..index % STRIDE {
            offset = Head::at(section, offset)?.next;
        }
        Some(Record::decode(section, offset, id)?.0)
    }

    /// Walks the records that are here (not the base's) in order of their ids.
    pub fn records(&self) -> impl Iterator<Item = Record<'_>> {
        let section = self.section();
        let (mut offset, mut id) = (0, self.first);
        std::iter::from_fn(move || {
            let (record, next) = Record::decode(section, offset, id)?;
            (offset, id) = (next, id + 1);
            Some(record)
        })
    }

    /// The string at `offset` of the string section; empty if there is none or it is not UTF-8.
    pub fn string(&self, offset: u32) -> &str {
        self.bytes_at(offset).and_then(|bytes| std::str::from_utf8(bytes).ok()).unwrap_or("")
    }

    fn bytes_at(&self, offset: u32) -> Option<&[u8]> {
        let (strings, offset) = self.strings_with(offset)?;
        cstr_at(strings, offset)
    }

    fn string_is(&self, offset: u32, text: &str) -> bool {
        self.strings_with(offset).is_some_and(|(strings, offset)| cstr_is(strings, offset, text.as_bytes()))
    }

    /// The section that holds string `offset`, and its offset in there: the base's strings come first.
    fn strings_with(&self, offset: u32) -> Option<(&[u8], usize)> {
        let own = &self.bytes[self.strings.clone()];
        match &self.base {
            None => Some((own, offset as usize)),
            Some(base) => match (offset as usize).checked_sub(base.strings_end()) {
                Some(offset) => Some((own, offset)),
                None => base.strings_with(offset),
            },
        }
    }

    fn strings_end(&self) -> usize {
        self.strings.len() + self.base.as_ref().map_or(0, |base| base.strings_end())
    }

    /// Finds the type of this kind and name; a module's own before the base's.
    pub fn find(&self, kind: BtfKind, name: &str) -> Option<u32> {
        if name.is_empty() || name.contains('\0') {
            return None;
        }
        let section = self.section();
        let mut walk = self.walk();
        let (mut offset, mut id) = (0, self.first);
        while let Some(head) = Head::at(section, offset) {
            if id == walk.id {
                walk.step(self.first, head.next);
            }
            if head.is(kind) && self.string_is(head.name, name) {
                return Some(id);
            }
            (offset, id) = (head.next, id + 1);
        }
        drop(walk);
        self.base.as_ref()?.find(kind, name)
    }

    /// Finds a struct, union or enum by its keyword and tag, or a typedef by its name if `keyword` is `typedef`.
    pub fn find_tagged(&self, keyword: &str, name: &str) -> Option<u32> {
        match keyword {
            "struct" => self.find(BtfKind::Struct, name),
            "union" => self.find(BtfKind::Union, name),
            "enum" => self.find(BtfKind::Enum, name).or_else(|| self.find(BtfKind::Enum64, name)),
            "typedef" => self.find(BtfKind::Typedef, name),
            _ => None,
        }
    }

    /// The name of a type, empty if it has none.
    pub fn name(&self, id: u32) -> &str {
        self.record(id).map_or("", |record| self.string(record.name))
    }

    /// The record behind typedefs and qualifiers; `None` for `void`, unknown ids and cycles.
    pub fn resolve(&self, mut id: u32) -> Option<Record<'_>> {
        for _ in 0..DEPTH {
            let record = self.record(id)?;
            if record.kind != BtfKind::Typedef && !record.is_modifier() {
                return Some(record);
            }
            id = record.size_or_type;
        }
        None
    }

    /// The size of a type in bytes; `None` for `void`, functions, forwards, cycles.
    pub fn size(&self, id: u32) -> Option<u32> {
        let mut times = 1u32;
        let mut id = id;
        for _ in 0..DEPTH {
            let record = self.resolve(id)?;
            return match record.kind {
                BtfKind::Ptr => times.checked_mul(8),
                BtfKind::Array => {
                    let (of, len) = record.array()?;
                    times = times.checked_mul(len)?;
                    id = of;
                    continue;
                }
                BtfKind::Int | BtfKind::Struct | BtfKind::Union | BtfKind::Enum | BtfKind::Enum64 | BtfKind::Float => {
                    times.checked_mul(record.size_or_type)
                }
                _ => None,
            };
        }
        None
    }

    /// A kernel function's prototype.
    pub fn func_proto(&self, name: &str) -> Option<FuncProto> {
        let id = self.find(BtfKind::Func, name)?;
        self.proto_of(id, self.record(id)?.size_or_type)
    }

    fn proto_of(&self, id: u32, proto: u32) -> Option<FuncProto> {
        let record = self.record(proto).filter(|record| record.kind == BtfKind::FuncProto)?;
        let mut params: Vec<_> =
            record.params().map(|(name, ty)| Param { name: self.string(name).into(), ty }).collect();
        let varargs = params.pop_if(|last| last.ty == 0).is_some();
        Some(FuncProto { id, proto, ret: record.size_or_type, params, varargs })
    }

    /// A tracepoint's arguments, from the typedef `btf_trace_NAME`; `id` is what `tp_btf` programs are attached by. The first
    /// parameter, which is the kernel's own, is left out. Names come from `__traceiter_NAME` where it is there.
    pub fn tracepoint_args(&self, name: &str) -> Option<FuncProto> {
        let id = self.find(BtfKind::Typedef, &format!("btf_trace_{name}"))?;
        let pointer = self.resolve(id).filter(|record| record.kind == BtfKind::Ptr)?;
        let mut proto = self.proto_of(id, pointer.size_or_type)?;
        if proto.params.is_empty() {
            return None;
        }
        proto.params.remove(0);
        if proto.params.iter().any(|param| param.name.is_empty()) {
            // Parameters of a function pointer have no names in BTF; the function that calls the probes does.
            let iter = self.func_proto(&format!("__traceiter_{name}"));
            if let Some(iter) = iter.filter(|iter| iter.params.len() == proto.params.len() + 1) {
                for (param, named) in proto.params.iter_mut().zip(iter.params.into_iter().skip(1)) {
                    param.name = named.name;
                }
            }
        }
        Some(proto)
    }

    /// Finds a member by its path (`a.b.c`) in a named struct or union; anonymous members are looked through.
    pub fn member_offset(&self, name: &str, path: &str) -> Option<MemberPlace> {
        let id = self.find(BtfKind::Struct, name).or_else(|| self.find(BtfKind::Union, name))?;
        self.member_of(id, path)
    }

    /// Finds a member by its path in the struct or union with this id.
    pub fn member_of(&self, id: u32, path: &str) -> Option<MemberPlace> {
        let mut place = MemberPlace { bit_offset: 0, bit_size: 0, size: 0, signed: false, ty: id };
        for name in path.split('.') {
            let mut budget = 4096;
            let inner = self.member_in(place.ty, name, 16, &mut budget)?;
            place = MemberPlace { bit_offset: place.bit_offset.checked_add(inner.bit_offset)?, ..inner };
        }
        Some(place)
    }

    /// `budget` bounds the anonymous members entered in all: nested ones could be shared so as to double at each level.
    fn member_in(&self, id: u32, name: &str, depth: u32, budget: &mut u32) -> Option<MemberPlace> {
        if name.is_empty() || depth == 0 {
            return None;
        }
        *budget = budget.checked_sub(1)?;
        let record = self.resolve(id)?;
        for member in record.members() {
            if self.string_is(member.name, name) {
                let target = self.resolve(member.ty)?;
                let int = target.int();
                let signed = match target.kind {
                    BtfKind::Int => int.is_some_and(|int| int.signed),
                    BtfKind::Enum | BtfKind::Enum64 => target.kind_flag,
                    _ => false,
                };
                let (mut bit_offset, mut bit_size) = (member.bit_offset, member.bit_size);
                if let Some(int) = int.filter(|int| bit_size == 0 && int.bits < target.size_or_type.saturating_mul(8)) {
                    // The old encoding: the width is the integer's.
                    bit_offset = bit_offset.checked_add(int.bit_offset)?;
                    bit_size = int.bits;
                }
                let size = self.size(member.ty)?;
                return Some(MemberPlace { bit_offset, bit_size, size, signed, ty: member.ty });
            }
            let anonymous = member.name == 0 || self.string(member.name).is_empty();
            if anonymous && let Some(inner) = self.member_in(member.ty, name, depth - 1, budget) {
                return Some(MemberPlace { bit_offset: member.bit_offset.checked_add(inner.bit_offset)?, ..inner });
            }
        }
        None
    }
}
