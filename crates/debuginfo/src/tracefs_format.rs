//! A tracepoint's `format` file: its fields' places in the record, and their types.
//!
//! Parses given text; opens nothing. Where C's text alone does not tell a type (structs, unknown typedefs), the caller's
//! look-up in BTF is asked, and failing that the size and sign that the format states are believed.

use crate::ctype::{self, Base, CType};
use crate::error::{Error, Result};
use probity_ir::types::{IntKind, Space, TypeId, TypeKind, TypeTable};

/// Where a field's bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// In the record, at its offset.
    Inline,
    /// Elsewhere in the record: the field is a 32-bit word, low half the offset from the record's start, high half the length.
    DataLoc,
    /// As `DataLoc`, but the offset counts from the end of the word.
    RelLoc,
}

/// One field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its name.
    pub name: String,
    /// Its C type's text, dimensions included: `char[16]`.
    pub ctype: String,
    /// Offset in the record, in bytes.
    pub offset: u32,
    /// Size in the record, in bytes.
    pub size: u32,
    /// Whether it is a signed integer.
    pub signed: bool,
    /// Number of elements, as written; 0 if that is no number. `None` if it is no array.
    pub array: Option<u32>,
    /// Where the bytes are.
    pub place: Place,
}

/// A tracepoint's format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Format {
    /// The tracepoint's name.
    pub name: String,
    /// Its number: perf's `config`.
    pub id: u32,
    /// The fields that every tracepoint has.
    pub common: Vec<Field>,
    /// Its own fields.
    pub fields: Vec<Field>,
    /// How ftrace prints it.
    pub print_fmt: String,
}

/// Parses a format's text.
///
/// # Errors
/// A text without name or number, or a field line that is not one, by its number.
pub fn parse(text: &str) -> Result<Format> {
    let (mut name, mut id) = (None, None);
    let mut format =
        Format { name: String::new(), id: 0, common: Vec::new(), fields: Vec::new(), print_fmt: String::new() };
    for (index, line) in text.lines().enumerate() {
        if let Some(rest) = line.strip_prefix("name: ") {
            name = Some(rest.trim().to_string());
        } else if let Some(rest) = line.strip_prefix("ID: ") {
            id = rest.trim().parse().ok();
        } else if let Some(rest) = line.strip_prefix("print fmt: ") {
            format.print_fmt = rest.to_string();
        } else if let Some(rest) = line.trim_start().strip_prefix("field:") {
            let field = parse_field(rest)
                .ok_or_else(|| Error::malformed(format!("line {} of the format: no field: {line:?}", index + 1)))?;
            match field.name.starts_with("common_") {
                true => format.common.push(field),
                false => format.fields.push(field),
            }
        }
    }
    format.name = name.ok_or_else(|| Error::malformed("the format has no line \"name:\""))?;
    format.id = id.ok_or_else(|| Error::malformed("the format has no line \"ID:\" with a number"))?;
    Ok(format)
}

fn parse_field(text: &str) -> Option<Field> {
    let (declaration, rest) = text.split_once(';')?;
    let (mut offset, mut size, mut signed) = (None, None, false);
    for part in rest.split(';') {
        match part.trim().split_once(':') {
            Some(("offset", value)) => offset = value.parse().ok(),
            Some(("size", value)) => size = value.parse().ok(),
            Some(("signed", value)) => signed = value != "0",
            _ => {}
        }
    }
    let mut declaration = declaration.trim();
    let mut place = Place::Inline;
    for (prefix, found) in [("__data_loc ", Place::DataLoc), ("__rel_loc ", Place::RelLoc)] {
        if let Some(rest) = declaration.strip_prefix(prefix) {
            (declaration, place) = (rest.trim_start(), found);
        }
    }
    // `char prev_comm[16]` is dimensions after the name; `char[] filename` before it.
    let (declarator, dims) = match declaration.ends_with(']') {
        true => declaration.split_at(declaration.find('[')?),
        false => (declaration, ""),
    };
    let declarator = declarator.trim_end();
    let start = declarator.rfind(|c: char| !(c.is_alphanumeric() || c == '_'))? + 1;
    // The character before the name may be of any length.
    let (ctype, name) = declarator.split_at_checked(start)?;
    let ctype = format!("{}{dims}", ctype.trim());
    (!name.is_empty() && !ctype.is_empty()).then_some(())?;
    let array = ctype.find('[').map(|start| {
        let inner = ctype[start + 1..].split(']').next().unwrap_or("");
        inner.trim().parse().unwrap_or(0)
    });
    Some(Field { name: name.into(), ctype, offset: offset?, size: size?, signed, array, place })
}

impl Format {
    /// The field of this name, common ones included.
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.fields.iter().chain(&self.common).find(|field| field.name == name)
    }
}

/// Finds a type by `struct`, `union`, `enum` or `typedef` and its name; usually `Btf::import_named`.
pub type Lookup<'a> = &'a mut dyn FnMut(&mut TypeTable, &str, &str) -> Option<TypeId>;

/// The type of a field. Pointers point into `space` unless their text says `__user`: system calls' into user memory, others'
/// into the kernel's. Dynamic fields (`__data_loc`) are arrays of length 0. A type that is narrower than its field (system
/// calls' `int fd`, in 8 bytes) is the value's, at the same offset.
pub fn field_type(types: &mut TypeTable, field: &Field, space: Space, lookup: Lookup<'_>) -> TypeId {
    let Some(ctype) = ctype::parse(&field.ctype) else {
        return by_size(types, field);
    };
    let array = !ctype.dims.is_empty();
    if field.place != Place::Inline {
        let of = element(types, &ctype, None, space, lookup);
        return types.add(TypeKind::Array { of, len: 0 });
    }
    if !array {
        return element(types, &ctype, Some(field), space, lookup);
    }
    let of = element(types, &ctype, None, space, lookup);
    // The text's length may be a macro's name; the sizes are always right.
    match types.size(of) {
        Some(size) if size > 0 && u64::from(field.size) % size == 0 => {
            let dims: Vec<_> = ctype.dims.iter().map(|dim| dim.unwrap_or(0)).collect();
            let count = (u64::from(field.size) / size) as u32;
            let product = dims.iter().try_fold(1u32, |product, &dim| product.checked_mul(dim));
            if dims.len() > 1 && product == Some(count) {
                return dims.iter().rev().fold(of, |of, &len| types.add(TypeKind::Array { of, len }));
            }
            types.add(TypeKind::Array { of, len: count })
        }
        _ => by_size(types, field),
    }
}

/// What the format alone tells: an integer, or bytes.
fn by_size(types: &mut TypeTable, field: &Field) -> TypeId {
    match field.size {
        1 | 2 | 4 | 8 => types.int(field.size as u8, field.signed),
        len => {
            let of = types.int(1, false);
            types.add(TypeKind::Array { of, len })
        }
    }
}

/// The type without dimensions. `field` is given where the type is the field's own, so that its size decides in doubt.
fn element(types: &mut TypeTable, ctype: &CType, field: Option<&Field>, space: Space, lookup: Lookup<'_>) -> TypeId {
    let pointed = !ctype.pointers.is_empty();
    let inner = if pointed { None } else { field };
    let mut ty = base(types, &ctype.base, pointed, inner, space, lookup);
    for &user in &ctype.pointers {
        ty = types.pointer(ty, if user { Space::User } else { space });
    }
    ty
}

fn base(
    types: &mut TypeTable,
    base: &Base,
    pointed: bool,
    field: Option<&Field>,
    space: Space,
    lookup: Lookup<'_>,
) -> TypeId {
    let fits = |types: &TypeTable, ty: TypeId| match (field, types.size(ty)) {
        (Some(field), Some(size)) => size <= u64::from(field.size),
        (Some(_), None) => false,
        (None, _) => true,
    };
    let otherwise = |types: &mut TypeTable| match field {
        Some(field) => by_size(types, field),
        None if pointed => types.add(TypeKind::Void),
        None => types.int(1, false),
    };
    let found = match base {
        Base::Void => types.add(TypeKind::Void),
        &Base::Int { size, signed, char, bool } => {
            let kind = match (char, bool) {
                (true, _) => IntKind::Char,
                (_, true) => IntKind::Bool,
                _ => IntKind::Number,
            };
            types.add(TypeKind::Int { size, signed, kind })
        }
        &Base::Float(size) => types.add(TypeKind::Float { size }),
        // Behind a pointer the name is enough until somebody asks for a member.
        Base::Tagged { keyword, name } if pointed && *keyword != "enum" && !name.is_empty() => {
            let btf = if space == Space::User { crate::btf_import::USER } else { 0 };
            types.add(TypeKind::Forward { keyword, name: name.clone(), btf })
        }
        Base::Tagged { keyword, name } => match lookup(types, keyword, name) {
            Some(found) => found,
            None => return otherwise(types),
        },
        Base::Named(name) => {
            if let Some((size, signed)) = ctype::known_typedef(name) {
                let to = types.int(size, signed);
                let named = types.add(TypeKind::Typedef { name: name.clone(), to });
                if fits(types, named) {
                    return named;
                }
            } else if let Some(found) = lookup(types, "typedef", name).filter(|&found| fits(types, found)) {
                return found;
            }
            let to = otherwise(types);
            return types.add(TypeKind::Typedef { name: name.clone(), to });
        }
    };
    if fits(types, found) { found } else { otherwise(types) }
}

/// Runs the parser and the type mapping over arbitrary bytes.
pub fn fuzz_one(data: &[u8]) {
    let Ok(format) = parse(&String::from_utf8_lossy(data)) else { return };
    let mut types = TypeTable::default();
    for field in format.common.iter().chain(&format.fields) {
        let ty = field_type(&mut types, field, Space::Kernel, &mut |_, _, _| None);
        let _ = (types.size(ty), types.name(ty));
    }
}

#[cfg(test)]
#[path = "tracefs_format_tests.rs"]
mod tests;
