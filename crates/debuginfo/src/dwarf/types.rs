//! DWARF's types as the compiler's.
//!
//! As with BTF, a struct behind a pointer is a `Forward`, and every struct is reached by way of its forward, so that one entry is one
//! type. The caller numbers the entries that forwards come from (`hints`), since a table holds the types of several files.
//! All pointers point into the memory of the traced program.

use super::{DEPTH, Die, Dwarf, Entry, Unit, bad};
use crate::error::{Error, Kind, Result};
use gimli::{AttributeValue, DW_AT_byte_size, DW_AT_type};
use probity_ir::types::{IntKind, Member, Space, TypeId, TypeKind, TypeTable};
use std::collections::HashMap;

/// How many entries one import may visit.
const BUDGET: u32 = 100_000;
/// How many dimensions, members or enumerators one type may have.
const MOST: usize = 65_536;

/// How a calling convention sees a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// An integer, an enumerator, a pointer.
    Int {
        /// Bytes.
        size: u8,
        /// Whether it is signed.
        signed: bool,
    },
    /// A number in a vector register.
    Float,
    /// A `long double`.
    Extended,
    /// A struct, union, array or complex number of so many bytes, and whether only floating-point numbers are in its first and in its second eight bytes.
    Aggregate {
        /// Bytes.
        size: u64,
        /// For each of the first two words.
        float: [bool; 2],
    },
}

/// Numbers the entries that forwards come from.
pub type Hints<'a> = &'a mut dyn FnMut(Die) -> u32;

struct Import<'a, 'h> {
    dwarf: &'a Dwarf,
    types: &'a mut TypeTable,
    hints: Hints<'h>,
    done: HashMap<(Die, bool), TypeId>,
    /// Structs whose members are being read, to tell a struct that contains itself.
    open: Vec<Die>,
    budget: u32,
}

impl Dwarf {
    /// Imports a type. A struct itself is complete; structs behind pointers are forwards, which [`Dwarf::definition`] defines.
    ///
    /// # Errors
    /// Malformed information, or a type that C cannot say.
    pub fn import(&self, die: Die, types: &mut TypeTable, hints: Hints<'_>) -> Result<TypeId> {
        Import { dwarf: self, types, hints, done: HashMap::new(), open: Vec::new(), budget: BUDGET }
            .import(die, true, 0)
    }

    /// What a struct, union or enum is; of a declaration, the definition elsewhere in the file. `None` if there is none.
    ///
    /// # Errors
    /// As [`Dwarf::import`].
    pub fn definition(&self, die: Die, types: &mut TypeTable, hints: Hints<'_>) -> Result<Option<TypeKind>> {
        let (unit, entry) = self.entry(die)?;
        let Some(keyword) = keyword_of(&entry) else { return Ok(None) };
        let die = match entry.has_attr(gimli::DW_AT_declaration) {
            false => die,
            true => match self.name(unit, &entry).and_then(|name| self.named(keyword, &name)) {
                Some(found) => found,
                None => return Ok(None),
            },
        };
        let mut import = Import { dwarf: self, types, hints, done: HashMap::new(), open: Vec::new(), budget: BUDGET };
        import.defined(die, 0).map(Some)
    }

    /// The type that an entry's `DW_AT_type` names, if it has one (`void` has none).
    pub(super) fn type_of(&self, unit: &Unit, entry: &Entry) -> Result<Option<Die>> {
        entry.attr_value(DW_AT_type).map(|value| self.reference(unit, value)).transpose()
    }

    /// How a calling convention sees a type; `None` for what has no value.
    pub fn class(&self, die: Die) -> Option<Class> {
        self.class_at(die, 0)
    }

    fn class_at(&self, mut die: Die, depth: u32) -> Option<Class> {
        for _ in 0..DEPTH {
            let (unit, entry) = self.entry(die).ok()?;
            let size = || self.byte_size(&entry).unwrap_or(0);
            return Some(match entry.tag() {
                gimli::DW_TAG_typedef
                | gimli::DW_TAG_const_type
                | gimli::DW_TAG_volatile_type
                | gimli::DW_TAG_restrict_type
                | gimli::DW_TAG_atomic_type => {
                    die = self.type_of(unit, &entry).ok()??;
                    continue;
                }
                gimli::DW_TAG_base_type => match encoding(&entry) {
                    Some(gimli::DW_ATE_float) if size() > 8 => Class::Extended,
                    Some(gimli::DW_ATE_float) => Class::Float,
                    Some(gimli::DW_ATE_complex_float) => Class::Aggregate { size: size(), float: [true; 2] },
                    _ if size() > 8 => Class::Aggregate { size: size(), float: [false; 2] },
                    encoding => Class::Int { size: size() as u8, signed: encoding.is_some_and(is_signed) },
                },
                gimli::DW_TAG_enumeration_type => {
                    Class::Int { size: size() as u8, signed: self.enum_is_signed(unit, &entry) }
                }
                gimli::DW_TAG_pointer_type
                | gimli::DW_TAG_reference_type
                | gimli::DW_TAG_rvalue_reference_type
                | gimli::DW_TAG_subroutine_type => Class::Int { size: 8, signed: false },
                gimli::DW_TAG_structure_type
                | gimli::DW_TAG_class_type
                | gimli::DW_TAG_union_type
                | gimli::DW_TAG_array_type => {
                    let (mut word, mut all) = ([false; 2], [true; 2]);
                    self.words(die, 0, &mut word, &mut all, depth);
                    let float = [word[0] && all[0], word[1] && all[1]];
                    Class::Aggregate { size: self.size_of(die, 0)?, float }
                }
                gimli::DW_TAG_ptr_to_member_type => Class::Aggregate { size: 16, float: [false; 2] },
                _ => return None,
            });
        }
        None
    }

    /// Which of the first two words hold floating-point numbers (`some`), and nothing else (`only`).
    fn words(&self, die: Die, at: u64, some: &mut [bool; 2], only: &mut [bool; 2], depth: u32) {
        if depth > 8 {
            *only = [false; 2];
            return;
        }
        let mark = |some: &mut [bool; 2], only: &mut [bool; 2], float: bool| {
            let word = (at / 8).min(1) as usize;
            some[word] |= float;
            only[word] &= float;
        };
        let Ok((unit, entry)) = self.entry(die) else { return mark(some, only, false) };
        let target = || self.type_of(unit, &entry).ok().flatten();
        match entry.tag() {
            gimli::DW_TAG_structure_type | gimli::DW_TAG_class_type | gimli::DW_TAG_union_type => {
                let Ok(members) = self.children(unit, &entry) else { return mark(some, only, false) };
                for member in members.iter().filter(|member| member.tag() == gimli::DW_TAG_member) {
                    let offset = self.member_offset(member).unwrap_or(0) / 8;
                    if let Ok(Some(ty)) = self.type_of(unit, member) {
                        self.words(ty, at + offset, some, only, depth + 1);
                    }
                }
            }
            gimli::DW_TAG_array_type => {
                let step = target().and_then(|of| self.size_of(of, 0)).unwrap_or(0);
                let total = self.size_of(die, 0).unwrap_or(0);
                let count = total.checked_div(step).unwrap_or(0).min(16);
                for n in 0..count {
                    if let Some(of) = target() {
                        self.words(of, at + n * step, some, only, depth + 1);
                    }
                }
            }
            gimli::DW_TAG_base_type => mark(some, only, encoding(&entry) == Some(gimli::DW_ATE_float)),
            gimli::DW_TAG_typedef
            | gimli::DW_TAG_const_type
            | gimli::DW_TAG_volatile_type
            | gimli::DW_TAG_atomic_type => match target() {
                Some(of) => self.words(of, at, some, only, depth + 1),
                None => mark(some, only, false),
            },
            _ => mark(some, only, false),
        }
    }

    fn byte_size(&self, entry: &Entry) -> Option<u64> {
        entry.attr(DW_AT_byte_size)?.udata_value()
    }

    /// A type's size in bytes.
    fn size_of(&self, mut die: Die, depth: u32) -> Option<u64> {
        if depth > DEPTH {
            return None;
        }
        for _ in 0..DEPTH {
            let (unit, entry) = self.entry(die).ok()?;
            if let Some(size) = self.byte_size(&entry) {
                return Some(size);
            }
            match entry.tag() {
                gimli::DW_TAG_pointer_type | gimli::DW_TAG_reference_type | gimli::DW_TAG_rvalue_reference_type => {
                    return Some(8);
                }
                gimli::DW_TAG_array_type => {
                    let of = self.size_of(self.type_of(unit, &entry).ok()??, depth + 1)?;
                    let dims = self.dimensions(unit, &entry).ok()?;
                    return dims.into_iter().try_fold(of, |size, dim| size.checked_mul(u64::from(dim)));
                }
                _ => die = self.type_of(unit, &entry).ok()??,
            }
        }
        None
    }

    fn children(&self, unit: &Unit, entry: &Entry) -> Result<Vec<Entry>> {
        let mut tree = unit.entries_tree(Some(entry.offset())).map_err(bad)?;
        let mut children = tree.root().map_err(bad)?.children();
        let mut all = Vec::new();
        while let Some(child) = children.next().map_err(bad)? {
            all.push(child.entry().clone());
            if all.len() > MOST {
                return Err(Error::malformed("debugging information: an entry with too many parts"));
            }
        }
        Ok(all)
    }

    /// The entries directly below another.
    pub(super) fn parts(&self, unit: &Unit, entry: &Entry) -> Result<Vec<Entry>> {
        self.children(unit, entry)
    }

    /// An array's dimensions, outermost first; 0 for one that is not constant.
    fn dimensions(&self, unit: &Unit, entry: &Entry) -> Result<Vec<u32>> {
        let parts = self.children(unit, entry)?;
        let dims = parts.iter().filter(|part| part.tag() == gimli::DW_TAG_subrange_type).map(|part| {
            let number = |name| part.attr(name).and_then(|attr| attr.udata_value());
            let count = number(gimli::DW_AT_count).or_else(|| {
                let lower = number(gimli::DW_AT_lower_bound).unwrap_or(0);
                // -1, of an empty array, wraps to 0.
                Some(number(gimli::DW_AT_upper_bound)?.wrapping_add(1).wrapping_sub(lower))
            });
            count.and_then(|count| u32::try_from(count).ok()).unwrap_or(0)
        });
        Ok(dims.collect())
    }

    /// A member's offset in bits, but for the place of a bit-field in its unit of storage.
    fn member_offset(&self, member: &Entry) -> Option<u64> {
        match member.attr(gimli::DW_AT_data_member_location) {
            None => Some(0),
            Some(attr) => match attr.udata_value() {
                Some(bytes) => bytes.checked_mul(8),
                None => {
                    let expression = attr.exprloc_value()?;
                    let mut ops = expression.operations(gimli::Encoding {
                        address_size: 8,
                        format: gimli::Format::Dwarf32,
                        version: 4,
                    });
                    match ops.next() {
                        Ok(Some(gimli::Operation::PlusConstant { value })) => value.checked_mul(8),
                        _ => None,
                    }
                }
            },
        }
    }

    fn enum_is_signed(&self, unit: &Unit, entry: &Entry) -> bool {
        if let Ok(Some(of)) = self.type_of(unit, entry) {
            return matches!(self.class_at(of, DEPTH), Some(Class::Int { signed: true, .. }));
        }
        let negative =
            |value: &Entry| value.attr(gimli::DW_AT_const_value).and_then(|v| v.sdata_value()).is_some_and(|v| v < 0);
        self.children(unit, entry).is_ok_and(|values| values.iter().any(negative))
    }
}

fn encoding(entry: &Entry) -> Option<gimli::DwAte> {
    match entry.attr_value(gimli::DW_AT_encoding)? {
        AttributeValue::Encoding(encoding) => Some(encoding),
        _ => None,
    }
}

fn is_signed(encoding: gimli::DwAte) -> bool {
    matches!(encoding, gimli::DW_ATE_signed | gimli::DW_ATE_signed_char)
}

/// The keyword of a type with a tag.
fn keyword_of(entry: &Entry) -> Option<&'static str> {
    match entry.tag() {
        gimli::DW_TAG_structure_type | gimli::DW_TAG_class_type => Some("struct"),
        gimli::DW_TAG_union_type => Some("union"),
        gimli::DW_TAG_enumeration_type => Some("enum"),
        _ => None,
    }
}

impl Import<'_, '_> {
    /// `complete` says whether the type's size must be known here, as C demands everywhere but behind a pointer.
    fn import(&mut self, die: Die, complete: bool, depth: u32) -> Result<TypeId> {
        if let Some(&done) = self.done.get(&(die, complete)) {
            return Ok(done);
        }
        let at = |what: &str| Error::malformed(format!("the type at {:#x}: {what}", die.0));
        if depth > DEPTH {
            return Err(at("nested too deeply, or a cycle"));
        }
        self.budget = self.budget.checked_sub(1).ok_or_else(|| at("too large"))?;
        let dwarf = self.dwarf;
        let (unit, entry) = dwarf.entry(die)?;
        let target = dwarf.type_of(unit, &entry)?;
        let next = depth + 1;
        let ty = match entry.tag() {
            gimli::DW_TAG_base_type => self.base(unit, &entry).ok_or_else(|| at("a number of an unknown kind"))?,
            gimli::DW_TAG_pointer_type | gimli::DW_TAG_reference_type | gimli::DW_TAG_rvalue_reference_type => {
                let to = self.target(target, false, next)?;
                self.types.pointer(to, Space::User)
            }
            gimli::DW_TAG_array_type => {
                let of = self.target(target, complete, next)?;
                let dims = dwarf.dimensions(unit, &entry)?;
                dims.iter().rev().fold(of, |of, &len| self.types.add(TypeKind::Array { of, len }))
            }
            gimli::DW_TAG_structure_type
            | gimli::DW_TAG_class_type
            | gimli::DW_TAG_union_type
            | gimli::DW_TAG_enumeration_type => self.tagged(die, unit, &entry, complete, next)?,
            gimli::DW_TAG_typedef => {
                let to = self.target(target, complete, next)?;
                let name = dwarf.name(unit, &entry).unwrap_or_default();
                self.types.add(TypeKind::Typedef { name, to })
            }
            gimli::DW_TAG_const_type
            | gimli::DW_TAG_volatile_type
            | gimli::DW_TAG_restrict_type
            | gimli::DW_TAG_atomic_type => self.target(target, complete, next)?,
            gimli::DW_TAG_subroutine_type => {
                let ret = self.target(target, false, next)?;
                let mut params = Vec::new();
                let mut varargs = false;
                for part in dwarf.parts(unit, &entry)? {
                    match part.tag() {
                        gimli::DW_TAG_formal_parameter => {
                            let ty = dwarf.type_of(unit, &part)?;
                            params.push(self.target(ty, false, next)?);
                        }
                        gimli::DW_TAG_unspecified_parameters => varargs = true,
                        _ => {}
                    }
                }
                self.types.add(TypeKind::Func { ret, params, varargs })
            }
            gimli::DW_TAG_unspecified_type => self.types.add(TypeKind::Void),
            tag => {
                return Err(Error::new(Kind::Unsupported, format!("the type at {:#x} is no type of C ({tag})", die.0)));
            }
        };
        self.done.insert((die, complete), ty);
        Ok(ty)
    }

    fn target(&mut self, target: Option<Die>, complete: bool, depth: u32) -> Result<TypeId> {
        match target {
            Some(die) => self.import(die, complete, depth),
            None => Ok(self.types.add(TypeKind::Void)),
        }
    }

    fn base(&mut self, unit: &Unit, entry: &Entry) -> Option<TypeId> {
        let encoding = encoding(entry)?;
        let size = u8::try_from(self.dwarf.byte_size(entry)?).ok()?;
        let kind = match encoding {
            gimli::DW_ATE_float if matches!(size, 4 | 8 | 16) => return Some(self.types.add(TypeKind::Float { size })),
            gimli::DW_ATE_complex_float if matches!(size, 8 | 16) => {
                let of = self.types.add(TypeKind::Float { size: size / 2 });
                return Some(self.types.add(TypeKind::Array { of, len: 2 }));
            }
            gimli::DW_ATE_boolean => IntKind::Bool,
            gimli::DW_ATE_signed_char | gimli::DW_ATE_unsigned_char
                if size == 1 && self.dwarf.is_named(unit, entry, "char") =>
            {
                IntKind::Char
            }
            _ => IntKind::Number,
        };
        match size {
            // `char` is signed to D, whatever the program was built with.
            1 | 2 | 4 | 8 => {
                let signed = is_signed(encoding) || kind == IntKind::Char;
                Some(self.types.add(TypeKind::Int { size, signed, kind }))
            }
            16 => {
                let of = self.types.int(8, false);
                Some(self.types.add(TypeKind::Array { of, len: 2 }))
            }
            _ => None,
        }
    }

    fn tagged(&mut self, die: Die, unit: &Unit, entry: &Entry, complete: bool, depth: u32) -> Result<TypeId> {
        let keyword = keyword_of(entry).unwrap_or("struct");
        let name = self.dwarf.name(unit, entry).unwrap_or_default();
        let mut die = die;
        if entry.has_attr(gimli::DW_AT_declaration)
            && let Some(found) = self.dwarf.named(keyword, &name)
        {
            die = found;
        }
        let btf = (self.hints)(die);
        let id = self.types.add(TypeKind::Forward { keyword, name, btf });
        if complete && matches!(self.types.get(id), TypeKind::Forward { .. }) {
            let kind = self.defined(die, depth)?;
            self.types.complete(id, kind);
        }
        Ok(id)
    }

    fn defined(&mut self, die: Die, depth: u32) -> Result<TypeKind> {
        let dwarf = self.dwarf;
        let (unit, entry) = dwarf.entry(die)?;
        let at = |what: &str| Error::malformed(format!("the type at {:#x}: {what}", die.0));
        let name = dwarf.name(unit, &entry).unwrap_or_default();
        let size = dwarf.byte_size(&entry).or_else(|| dwarf.size_of(die, 0));
        if entry.has_attr(gimli::DW_AT_declaration) {
            return Err(Error::new(Kind::NotFound, format!("{name} is declared only, not defined")));
        }
        if entry.tag() == gimli::DW_TAG_enumeration_type {
            let size =
                size.filter(|size| matches!(size, 1 | 2 | 4 | 8)).ok_or_else(|| at("an enum of no integer's size"))?;
            let signed = dwarf.enum_is_signed(unit, &entry);
            let mut values = Vec::new();
            for value in dwarf.parts(unit, &entry)?.iter().filter(|part| part.tag() == gimli::DW_TAG_enumerator) {
                let number = value.attr(gimli::DW_AT_const_value);
                let number =
                    number.and_then(|n| if signed { n.sdata_value() } else { n.udata_value().map(|n| n as i64) });
                values.push((dwarf.name(unit, value).unwrap_or_default(), number.unwrap_or(0)));
            }
            return Ok(TypeKind::Enum { name, size: size as u8, signed, values });
        }
        if self.open.contains(&die) {
            return Err(at("a struct that contains itself"));
        }
        self.open.push(die);
        let mut members = Vec::new();
        for part in dwarf.parts(unit, &entry)? {
            let base = part.tag() == gimli::DW_TAG_inheritance;
            // A static member is no part of the object.
            if !(base || part.tag() == gimli::DW_TAG_member) || part.has_attr(gimli::DW_AT_external) {
                continue;
            }
            let Some(ty) = dwarf.type_of(unit, &part)? else { continue };
            let offset = dwarf.member_offset(&part).ok_or_else(|| at("a member whose place is computed"))?;
            let number = |name| part.attr(name).and_then(|attr| attr.udata_value());
            let bit_size = number(gimli::DW_AT_bit_size).unwrap_or(0);
            let offset = match (bit_size, number(gimli::DW_AT_data_bit_offset), number(gimli::DW_AT_bit_offset)) {
                (0, ..) => Some(offset),
                (_, Some(bits), _) => offset.checked_add(bits),
                // Counted from the most significant bit of the storage unit.
                (_, None, Some(bits)) => {
                    let storage = dwarf.byte_size(&part).or_else(|| dwarf.size_of(ty, 0)).unwrap_or(0);
                    (offset + storage * 8).checked_sub(bits).and_then(|end| end.checked_sub(bit_size))
                }
                _ => Some(offset),
            };
            let offset =
                offset.and_then(|offset| u32::try_from(offset).ok()).ok_or_else(|| at("a member outside of it"))?;
            let name = if base { String::new() } else { dwarf.name(unit, &part).unwrap_or_default() };
            let ty = self.import(ty, true, depth + 1)?;
            members.push(Member { name, ty, bit_offset: offset, bit_size: bit_size.min(64) as u32 });
        }
        self.open.pop();
        let size = size.and_then(|size| u32::try_from(size).ok()).ok_or_else(|| at("its size is not known"))?;
        Ok(TypeKind::Struct { union: entry.tag() == gimli::DW_TAG_union_type, name, size, members })
    }
}
