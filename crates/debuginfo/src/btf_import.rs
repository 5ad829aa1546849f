//! BTF types as the compiler's types.
//!
//! A struct behind a pointer becomes a `Forward` that remembers where it came from; its members are read when
//! [`Btf::complete`] is asked for them. So one argument's type costs a few records, not the kernel's whole web of structs.
//! Every named or anonymous struct of one BTF is one [`TypeId`], completed in place, whichever way it was reached.

use crate::btf::Btf;
use crate::btf_types::{BtfKind, Record};
use crate::error::{Error, Result};
use probity_ir::types::{IntKind, Member, Space, TypeId, TypeKind, TypeTable};
use std::collections::HashMap;

/// Marks, in a forward's hint, a struct that was reached through user memory: its pointers are user pointers too.
/// (Alone, without an id, it marks a struct that is known by name only.)
pub const USER: u32 = 1 << 31;
/// How deep types may nest; C's do not come near, cycles do.
const DEPTH: u32 = 48;
/// How many records one import may visit; the largest of the kernel's structs need some thousands.
const BUDGET: u32 = 200_000;

struct Import<'a> {
    btf: &'a Btf,
    types: &'a mut TypeTable,
    /// What has been imported by this call, by id, space and whether it is complete: shared types are visited once.
    done: HashMap<(u32, Space, bool), TypeId>,
    /// Structs whose members are being read, to tell a struct that contains itself.
    open: Vec<u32>,
    budget: u32,
}

impl Btf {
    /// Imports a type. Pointers in it point into `space` (kernel memory, unless BTF tags them as `__user`). A struct itself
    /// is complete; structs behind pointers are forwards that [`Btf::complete`] fills.
    ///
    /// # Errors
    /// Malformed BTF: an unknown id, a cycle, an integer of an unknown size.
    pub fn import(&self, id: u32, types: &mut TypeTable, space: Space) -> Result<TypeId> {
        Import::new(self, types).import(id, space, true, 0)
    }

    /// Fills the members of a struct or union that is known by name only: by the id that it was imported from, if it came
    /// from BTF (from this one: ids of different modules overlap), else by its name. False if `id` is complete already, is
    /// no struct, union or enum, or is not in this BTF.
    pub fn complete(&self, types: &mut TypeTable, id: TypeId) -> Result<bool> {
        let id = types.resolve(id);
        let TypeKind::Forward { keyword, name, btf } = types.get(id) else {
            return Ok(false);
        };
        let (mut space, mut found) = (Space::Kernel, None);
        if *btf != 0 {
            if btf & USER != 0 {
                space = Space::User;
            }
            found = Some((btf & !USER).wrapping_sub(1)).filter(|&id| self.is_definition(id, keyword, name));
        }
        let found = match found {
            Some(found) => Some(found),
            // C's forward declarations: the definition has an id of its own.
            None => self.find_tagged(keyword, name),
        };
        let Some(found) = found else {
            return Ok(false);
        };
        let mut import = Import::new(self, types);
        let kind = match self.record(found) {
            Some(record) if matches!(record.kind, BtfKind::Enum | BtfKind::Enum64) => import.enumeration(&record)?,
            Some(record) => import.structure(&record, space, 0)?,
            None => return Ok(false),
        };
        types.complete(id, kind);
        Ok(true)
    }

    /// Imports a struct, union, enum (by keyword and tag) or typedef by name; `None` if there is none of that name.
    pub fn import_named(
        &self,
        keyword: &str,
        name: &str,
        types: &mut TypeTable,
        space: Space,
    ) -> Result<Option<TypeId>> {
        self.find_tagged(keyword, name).map(|id| self.import(id, types, space)).transpose()
    }

    fn is_definition(&self, id: u32, keyword: &str, name: &str) -> bool {
        self.record(id).is_some_and(|record| keyword_of(&record) == Some(keyword) && self.string(record.name) == name)
    }
}

/// The keyword of a definition; none for forwards and all else.
fn keyword_of(record: &Record<'_>) -> Option<&'static str> {
    match record.kind {
        BtfKind::Struct => Some("struct"),
        BtfKind::Union => Some("union"),
        BtfKind::Enum | BtfKind::Enum64 => Some("enum"),
        _ => None,
    }
}

impl<'a> Import<'a> {
    fn new(btf: &'a Btf, types: &'a mut TypeTable) -> Import<'a> {
        Import { btf, types, done: HashMap::new(), open: Vec::new(), budget: BUDGET }
    }

    /// `complete` says whether the type's size must be known here, as C demands everywhere but behind a pointer.
    fn import(&mut self, id: u32, space: Space, complete: bool, depth: u32) -> Result<TypeId> {
        if id == 0 {
            return Ok(self.types.add(TypeKind::Void));
        }
        if let Some(&done) = self.done.get(&(id, space, complete)) {
            return Ok(done);
        }
        let at = |what: &str| Error::malformed(format!("type {id}: {what}"));
        if depth > DEPTH {
            return Err(at("nested too deeply, or a cycle"));
        }
        self.budget = self.budget.checked_sub(1).ok_or_else(|| at("too large"))?;
        let btf = self.btf;
        let record = btf.record(id).ok_or_else(|| at("there is no such type"))?;
        let target = record.size_or_type;
        let next = depth + 1;
        let ty = match record.kind {
            BtfKind::Int => self.int(&record).ok_or_else(|| at("an integer of an unknown size"))?,
            BtfKind::Float => match target {
                2 | 4 | 8 | 16 => self.types.add(TypeKind::Float { size: target as u8 }),
                _ => return Err(at("a floating-point number of an unknown size")),
            },
            BtfKind::Ptr => {
                let space = if self.is_user(target) { Space::User } else { space };
                let to = self.import(target, space, false, next)?;
                self.types.pointer(to, space)
            }
            BtfKind::Array => {
                let (of, len) = record.array().ok_or_else(|| at("an array without an element type"))?;
                let of = self.import(of, space, complete, next)?;
                self.types.add(TypeKind::Array { of, len })
            }
            BtfKind::Struct | BtfKind::Union => self.tagged(&record, space, complete, next)?,
            BtfKind::Enum | BtfKind::Enum64 => {
                let kind = self.enumeration(&record)?;
                self.types.add(kind)
            }
            BtfKind::Fwd => {
                let keyword = if record.kind_flag { "union" } else { "struct" };
                let name = btf.string(record.name).to_string();
                // No id: the definition, if any, is found by name.
                let btf = if space == Space::User { USER } else { 0 };
                self.types.add(TypeKind::Forward { keyword, name, btf })
            }
            BtfKind::Typedef => {
                let to = self.import(target, space, complete, next)?;
                self.types.add(TypeKind::Typedef { name: btf.string(record.name).into(), to })
            }
            BtfKind::Volatile | BtfKind::Const | BtfKind::Restrict | BtfKind::TypeTag => {
                self.import(target, space, complete, next)?
            }
            BtfKind::Func | BtfKind::Var => self.import(target, space, false, next)?,
            BtfKind::FuncProto => {
                let ret = self.import(target, space, false, next)?;
                let mut params = Vec::with_capacity(record.vlen as usize);
                let mut varargs = false;
                for (_, ty) in record.params() {
                    // A parameter cannot be void: the last one stands for "...".
                    if ty == 0 {
                        varargs = true;
                        break;
                    }
                    params.push(self.import(ty, space, false, next)?);
                }
                self.types.add(TypeKind::Func { ret, params, varargs })
            }
            BtfKind::DataSec | BtfKind::DeclTag => return Err(at("not a type of a value")),
        };
        self.done.insert((id, space, complete), ty);
        Ok(ty)
    }

    /// Whether qualifiers under a pointer include the kernel's `__user`, which only some compilers record.
    fn is_user(&self, mut id: u32) -> bool {
        for _ in 0..DEPTH {
            match self.btf.record(id) {
                Some(record) if record.is_modifier() => {
                    if record.kind == BtfKind::TypeTag && self.btf.string(record.name) == "user" {
                        return true;
                    }
                    id = record.size_or_type;
                }
                _ => return false,
            }
        }
        false
    }

    fn int(&mut self, record: &Record<'_>) -> Option<TypeId> {
        let int = record.int()?;
        let size = record.size_or_type;
        let (mut signed, mut kind) = (int.signed, IntKind::Number);
        if int.bool {
            kind = IntKind::Bool;
        } else if size == 1 && (int.char || self.btf.string(record.name) == "char") {
            // The kernel is built with unsigned plain chars; D's, like the user's C compiler's, are signed.
            (signed, kind) = (true, IntKind::Char);
        }
        match size {
            1 | 2 | 4 => Some(self.types.add(TypeKind::Int { size: size as u8, signed, kind })),
            8 => {
                let to = self.types.int(8, signed);
                let name = self.btf.string(record.name);
                Some(if name.is_empty() { to } else { self.types.add(TypeKind::Typedef { name: name.into(), to }) })
            }
            // The compiler has no 128-bit integers; the halves can still be read.
            16 => {
                let of = self.types.int(8, false);
                Some(self.types.add(TypeKind::Array { of, len: 2 }))
            }
            _ => None,
        }
    }

    /// A struct or union, always by way of its forward, so that one record is one type.
    fn tagged(&mut self, record: &Record<'_>, space: Space, complete: bool, depth: u32) -> Result<TypeId> {
        let keyword = if record.kind == BtfKind::Union { "union" } else { "struct" };
        let hint = (record.id + 1) | if space == Space::User { USER } else { 0 };
        let name = self.btf.string(record.name).to_string();
        let id = self.types.add(TypeKind::Forward { keyword, name, btf: hint });
        if complete && matches!(self.types.get(id), TypeKind::Forward { .. }) {
            let kind = self.structure(record, space, depth)?;
            self.types.complete(id, kind);
        }
        Ok(id)
    }

    fn structure(&mut self, record: &Record<'_>, space: Space, depth: u32) -> Result<TypeKind> {
        let btf = self.btf;
        let name = btf.string(record.name);
        let at = |what: &str| Error::malformed(format!("type {} ({name}): {what}", record.id));
        if self.open.contains(&record.id) {
            return Err(at("a struct that contains itself"));
        }
        self.open.push(record.id);
        let mut members = Vec::with_capacity(record.vlen as usize);
        for member in record.members() {
            let ty = self.import(member.ty, space, true, depth + 1)?;
            let (mut bit_offset, mut bit_size) = (member.bit_offset, member.bit_size);
            let target = btf.resolve(member.ty);
            let old = target.and_then(|target| Some((target.int()?, target.size_or_type)));
            if let Some((int, size)) = old.filter(|(int, size)| bit_size == 0 && int.bits < size.saturating_mul(8)) {
                bit_offset = bit_offset.checked_add(int.bit_offset).ok_or_else(|| at("a member outside of it"))?;
                // Zero bits would read as "no bit-field".
                bit_size = int.bits.max(1).min(size.saturating_mul(8));
            }
            members.push(Member { name: btf.string(member.name).into(), ty, bit_offset, bit_size });
        }
        self.open.pop();
        Ok(TypeKind::Struct {
            union: record.kind == BtfKind::Union,
            name: name.into(),
            size: record.size_or_type,
            members,
        })
    }

    fn enumeration(&mut self, record: &Record<'_>) -> Result<TypeKind> {
        let size = record.size_or_type;
        if !matches!(size, 1 | 2 | 4 | 8) {
            return Err(Error::malformed(format!("type {}: an enum of {size} bytes", record.id)));
        }
        self.budget = self.budget.checked_sub(record.vlen).ok_or_else(|| Error::malformed("enums are too large"))?;
        let values = record.enumerators().map(|(name, value)| (self.btf.string(name).to_string(), value)).collect();
        Ok(TypeKind::Enum {
            name: self.btf.string(record.name).into(),
            size: size as u8,
            signed: record.kind_flag,
            values,
        })
    }
}

/// Runs the reader and the import over arbitrary bytes.
pub fn fuzz_one(data: &[u8]) {
    let Ok(btf) = Btf::parse(data.to_vec()) else { return };
    let ids = (1..btf.end()).take(64);
    for id in ids.chain([0, btf.end(), u32::MAX]) {
        let mut types = TypeTable::default();
        let _ = (btf.size(id), btf.resolve(id).map(|record| record.id), btf.member_of(id, "a.b"));
        let name = btf.name(id).to_string();
        let _ = (btf.find(BtfKind::Struct, &name), btf.func_proto(&name), btf.tracepoint_args(&name));
        if let Ok(ty) = btf.import(id, &mut types, Space::Kernel) {
            let _ = types.size(ty);
        }
        for ty in 0..types.types.len().min(64) {
            let _ = btf.complete(&mut types, TypeId(ty as u32));
        }
    }
}

#[cfg(test)]
#[path = "btf_tests.rs"]
mod tests;
