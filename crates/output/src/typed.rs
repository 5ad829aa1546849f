//! `print()`: bytes with their type to text and JSON, members and all. Owns the walk over a type and how its leaves are written;
//! leaves where the bytes come from to the record.

use crate::event::float_of;
use crate::json::text_json;
use crate::printf::escape;
use probity_ir::{IntKind, Member, TypeId, TypeKind, TypeTable};
use serde_json::{Map, Value as J, json};
use std::io::Write;

/// Columns that DTrace indents the members by, so that they stand beside the probe.
const INDENT: usize = 44;
/// Types nest as deep as they like in C; this keeps a hostile table finite.
const DEPTH: usize = 64;

/// How a value is printed.
#[derive(Clone, Copy, Debug)]
pub struct Look {
    /// Columns before every line but the first.
    pub indent: usize,
    /// As DTrace does it: characters of arrays one by one, a comma after the outermost value.
    pub dropin: bool,
    /// `printsize`: members that begin at or beyond this many bytes are left out, which is marked.
    pub limit: u64,
}

impl Look {
    /// The look in a style.
    pub fn of(style: &crate::Style) -> Look {
        let indent = if style.quiet && !style.dropin { 0 } else { INDENT };
        Look { indent, dropin: style.dropin, limit: style.printsize }
    }
}

/// A leaf's value.
enum Leaf<'a> {
    Int(i128),
    Char(u8),
    Pointer(u64),
    Enum(&'a str),
    Float(f64),
    /// No value can be read of it: a function, `void`, an incomplete type.
    Nothing,
}

struct Printer<'a> {
    types: &'a TypeTable,
    bytes: &'a [u8],
    look: Look,
    /// Depths of structs whose end is not written yet, the innermost last.
    ended: Vec<usize>,
    out: &'a mut Vec<u8>,
}

/// More data than the limit allows: nothing after it is printed.
struct Cut;

/// Prints the value of type `ty` that `bytes` are. Where it is the object at an address, the address comes first.
pub fn text(types: &TypeTable, ty: TypeId, bytes: &[u8], addr: Option<u64>, look: Look, out: &mut Vec<u8>) {
    if let Some(addr) = addr {
        // Writing to a vector cannot fail.
        let _ = writeln!(out, "0x{addr:x} = *");
        out.resize(out.len() + look.indent, b' ');
    }
    let mut printer = Printer { types, bytes, look, ended: Vec::new(), out };
    let _ = printer.value("", ty, 0, 0);
    printer.end_structs();
}

impl Printer<'_> {
    /// A line; the outermost value begins where the cursor is.
    fn line(&mut self, depth: usize, text: &[u8], end: &str) {
        // DTrace ends a struct when it comes to what follows, so that the mark of a cut stands before.
        if text != b"..." || !self.look.dropin {
            self.end_structs();
        }
        if depth > 0 || text.starts_with(b"}") || text.starts_with(b"]") {
            self.out.resize(self.out.len() + self.look.indent + depth, b' ');
        }
        self.out.extend_from_slice(text);
        self.out.extend_from_slice(end.as_bytes());
        self.out.push(b'\n');
    }

    fn end_structs(&mut self) {
        for depth in std::mem::take(&mut self.ended).into_iter() {
            let end = self.comma(depth, true);
            self.line(depth, b"}", end);
        }
    }

    /// What ends a value: DTrace has a comma after the outermost one too, unless it is a struct.
    fn comma(&self, depth: usize, structure: bool) -> &'static str {
        if depth > 0 || self.look.dropin && !structure { "," } else { "" }
    }

    /// Prints a value and what is in it. `at` is where it begins, in bytes.
    fn value(&mut self, name: &str, ty: TypeId, at: usize, depth: usize) -> Result<(), Cut> {
        if at as u64 >= self.look.limit || depth >= DEPTH {
            self.line(depth, b"...", "");
            return Err(Cut);
        }
        let size = self.types.size(ty).unwrap_or(0) as usize;
        if depth > 0 && zero(self.bytes, at, size) {
            return Ok(());
        }
        let mut head = match name {
            "" => Vec::new(),
            _ => format!(".{name} = ").into_bytes(),
        };
        head.extend(format!("({})", type_name(self.types, ty)).into_bytes());
        let types = self.types;
        match types.get(types.resolve(ty)) {
            TypeKind::Struct { members, .. } => {
                head.extend(b" {");
                self.line(depth, &head, "");
                let done = self.members(members, at, depth + 1);
                self.ended.push(depth);
                done
            }
            TypeKind::Array { of, len } => {
                let each = types.size(*of).unwrap_or(0) as usize;
                if is_char(types, *of) && !self.look.dropin {
                    head.push(b'"');
                    escape(chars(self.bytes, at, size), &mut head);
                    head.push(b'"');
                    self.line(depth, &head, self.comma(depth, false));
                    return Ok(());
                }
                head.extend(b" [");
                self.line(depth, &head, "");
                let mut done = Ok(());
                for i in 0..*len as usize {
                    let at = at + i * each;
                    if is_char(types, *of) && self.bytes.get(at).is_none_or(|b| *b == 0) {
                        break;
                    }
                    done = self.value("", *of, at, depth + 1);
                    if done.is_err() {
                        break;
                    }
                }
                self.line(depth, b"]", self.comma(depth, false));
                done
            }
            TypeKind::String => {
                head.push(b'"');
                escape(chars(self.bytes, at, self.bytes.len() - at.min(self.bytes.len())), &mut head);
                head.push(b'"');
                self.line(depth, &head, self.comma(depth, false));
                Ok(())
            }
            _ => {
                let leaf = leaf(types, ty, self.bytes, at * 8, 0);
                self.leaf(head, leaf, depth);
                Ok(())
            }
        }
    }

    fn members(&mut self, members: &[Member], at: usize, depth: usize) -> Result<(), Cut> {
        for m in members {
            let byte = at + m.bit_offset as usize / 8;
            if m.bit_size == 0 {
                self.value(&m.name, m.ty, byte, depth)?;
                continue;
            }
            if byte as u64 >= self.look.limit {
                self.line(depth, b"...", "");
                return Err(Cut);
            }
            // Padding has no name.
            let leaf = leaf(self.types, m.ty, self.bytes, at * 8 + m.bit_offset as usize, m.bit_size);
            if m.name.is_empty() || matches!(leaf, Leaf::Int(0)) {
                continue;
            }
            let head = format!(".{} = ({})", m.name, type_name(self.types, m.ty)).into_bytes();
            self.leaf(head, leaf, depth);
        }
        Ok(())
    }

    fn leaf(&mut self, mut head: Vec<u8>, leaf: Leaf, depth: usize) {
        match leaf {
            Leaf::Int(n) => head.extend(n.to_string().into_bytes()),
            Leaf::Char(c) if self.look.dropin => head.extend([b'\'', c, b'\'']),
            Leaf::Char(c) => {
                head.push(b'\'');
                escape(&[c], &mut head);
                head.push(b'\'');
            }
            Leaf::Pointer(p) => head.extend(format!("0x{p:x}").into_bytes()),
            Leaf::Enum(name) => head.extend(name.as_bytes()),
            Leaf::Float(x) => head.extend(x.to_string().into_bytes()),
            Leaf::Nothing => return,
        }
        self.line(depth, &head, self.comma(depth, false));
    }
}

/// The value as JSON: objects with the members' names, arrays, strings for characters, names for enumerators.
pub fn json(types: &TypeTable, ty: TypeId, bytes: &[u8], limit: u64) -> J {
    value_json(types, ty, bytes, 0, limit, 0)
}

fn value_json(types: &TypeTable, ty: TypeId, bytes: &[u8], at: usize, limit: u64, depth: usize) -> J {
    let size = types.size(ty).unwrap_or(0) as usize;
    if depth >= DEPTH {
        return J::Null;
    }
    match types.get(types.resolve(ty)) {
        TypeKind::Struct { members, .. } => {
            let mut object = Map::new();
            members_json(types, members, bytes, at, limit, depth, &mut object);
            object.into()
        }
        TypeKind::Array { of, .. } if is_char(types, *of) => text_json(chars(bytes, at, size)),
        TypeKind::Array { of, len } => {
            let each = types.size(*of).unwrap_or(0) as usize;
            let places = (0..*len as usize).map(|i| at + i * each).take_while(|at| (*at as u64) < limit);
            places.map(|at| value_json(types, *of, bytes, at, limit, depth + 1)).collect()
        }
        TypeKind::String => text_json(chars(bytes, at, bytes.len())),
        _ => leaf_json(leaf(types, ty, bytes, at * 8, 0)),
    }
}

fn members_json(
    types: &TypeTable,
    members: &[Member],
    bytes: &[u8],
    at: usize,
    limit: u64,
    depth: usize,
    object: &mut Map<String, J>,
) {
    for m in members {
        let byte = at + m.bit_offset as usize / 8;
        if byte as u64 >= limit {
            break;
        }
        let inner = types.get(types.resolve(m.ty));
        match inner {
            // The members of an anonymous struct are reached by their own names.
            TypeKind::Struct { members, .. } if m.name.is_empty() && depth < DEPTH => {
                members_json(types, members, bytes, byte, limit, depth + 1, object);
            }
            _ if m.name.is_empty() => {}
            _ if m.bit_size > 0 => {
                let leaf = leaf(types, m.ty, bytes, at * 8 + m.bit_offset as usize, m.bit_size);
                object.insert(m.name.clone(), leaf_json(leaf));
            }
            _ => {
                object.insert(m.name.clone(), value_json(types, m.ty, bytes, byte, limit, depth + 1));
            }
        }
    }
}

fn leaf_json(leaf: Leaf) -> J {
    match leaf {
        Leaf::Int(n) => match (i64::try_from(n), u64::try_from(n)) {
            (Ok(n), _) => n.into(),
            (_, Ok(n)) => n.into(),
            _ => n.to_string().into(),
        },
        Leaf::Char(c) => c.into(),
        Leaf::Pointer(p) => format!("0x{p:x}").into(),
        Leaf::Enum(name) => name.into(),
        Leaf::Float(x) => float_json(x),
        Leaf::Nothing => J::Null,
    }
}

/// A number where JSON has one for it, else a word.
pub fn float_json(x: f64) -> J {
    if x.is_finite() { json!(x) } else { x.to_string().into() }
}

/// The type as `print` names it: an anonymous struct by its keyword alone.
pub fn type_name(types: &TypeTable, ty: TypeId) -> String {
    types.name(ty).replace(" {...}", "")
}

fn is_char(types: &TypeTable, ty: TypeId) -> bool {
    matches!(types.get(types.resolve(ty)), TypeKind::Int { size: 1, kind, .. } if *kind == IntKind::Char)
        || matches!(types.get(types.resolve(ty)), TypeKind::Int { size: 1, signed: true, kind: IntKind::Number })
            && types.name(ty) == "char"
}

/// Characters up to a NUL.
fn chars(bytes: &[u8], at: usize, size: usize) -> &[u8] {
    let from = at.min(bytes.len());
    let all = &bytes[from..from.saturating_add(size).min(bytes.len())];
    &all[..all.iter().position(|&b| b == 0).unwrap_or(all.len())]
}

fn zero(bytes: &[u8], at: usize, size: usize) -> bool {
    let from = at.min(bytes.len());
    bytes[from..from.saturating_add(size).min(bytes.len())].iter().all(|&b| b == 0)
}

/// Reads a scalar at a bit offset; `width` is that of a bit-field, 0 for a whole object.
fn leaf<'a>(types: &'a TypeTable, ty: TypeId, bytes: &[u8], bit: usize, width: u32) -> Leaf<'a> {
    let kind = types.get(types.resolve(ty));
    let (size, signed) = match kind {
        TypeKind::Int { size, signed, .. } | TypeKind::Enum { size, signed, .. } => (*size, *signed),
        TypeKind::Pointer { .. } => (8, false),
        TypeKind::Float { size } => (*size, false),
        _ => return Leaf::Nothing,
    };
    let at = bit / 8;
    if let TypeKind::Float { size } = kind {
        let raw = bytes.get(at..at + usize::from(*size)).unwrap_or(&[]);
        return float_of(raw).map_or(Leaf::Nothing, Leaf::Float);
    }
    let width = if width == 0 { u32::from(size) * 8 } else { width };
    let mut raw = [0u8; 16];
    let from = at.min(bytes.len());
    let there = &bytes[from..(from + 16).min(bytes.len())];
    raw[..there.len()].copy_from_slice(there);
    // A bit-field of 64 bits that is not aligned lies in nine bytes.
    let up = 128 - (bit % 8) as u32 - width;
    let word = u128::from_le_bytes(raw) << up;
    let n = if signed { (word as i128) >> (128 - width) } else { (word >> (128 - width)) as i128 };
    match kind {
        TypeKind::Pointer { .. } => Leaf::Pointer(n as u64),
        TypeKind::Enum { values, .. } => match values.iter().find(|(_, v)| i128::from(*v) == n) {
            Some((name, _)) => Leaf::Enum(name),
            None => Leaf::Int(n),
        },
        _ if types.name(ty) == "char" && width == 8 => Leaf::Char(n as u8),
        _ => Leaf::Int(n),
    }
}
