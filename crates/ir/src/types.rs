//! Types: C's, as seen by D, in one arena. Owns their representation; leaves conversion rules to the checker.

use std::collections::HashMap;
use std::fmt;

/// A type's index in its [`TypeTable`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TypeId(pub u32);

/// Whose memory a pointer points into; decides how it is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Space {
    /// Kernel memory, read with `bpf_probe_read_kernel`.
    Kernel,
    /// Memory of the current process, read with `bpf_probe_read_user`.
    User,
    /// Memory of a process where there is none but the consumer, whose memory is nobody's business: every read faults.
    Absent,
    /// The firing's scratch memory (`copyin`, `alloca`): the value is an offset into the claimed slot.
    Scratch,
}

/// How an integer's value is written by default.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IntKind {
    /// A number.
    Number,
    /// A `char`.
    Char,
    /// A `_Bool`.
    Bool,
}

/// A member of a struct or union.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Member {
    /// Empty for an anonymous struct or union, whose members are reached through it.
    pub name: String,
    /// The member's declared type.
    pub ty: TypeId,
    /// Offset from the start of the struct, in bits.
    pub bit_offset: u32,
    /// Width in bits of a bit-field, 0 for an ordinary member.
    pub bit_size: u32,
}

/// What a type is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum TypeKind {
    /// `void`.
    Void,
    /// An integer of 1, 2, 4 or 8 bytes.
    Int {
        /// Size in bytes.
        size: u8,
        /// Whether it is signed.
        signed: bool,
        /// How it is written.
        kind: IntKind,
    },
    /// A floating-point number of `size` bytes.
    Float {
        /// Size in bytes: 4, 8 or 16.
        size: u8,
    },
    /// A pointer.
    Pointer {
        /// The type pointed to.
        to: TypeId,
        /// The memory it points into.
        space: Space,
    },
    /// An array of known length.
    Array {
        /// The element's type.
        of: TypeId,
        /// Number of elements; 0 for a flexible array member.
        len: u32,
    },
    /// A struct or union with its members.
    Struct {
        /// Whether it is a union.
        union: bool,
        /// The tag, empty if anonymous.
        name: String,
        /// Size in bytes.
        size: u32,
        /// Members in order.
        members: Vec<Member>,
    },
    /// An enumeration.
    Enum {
        /// The tag, empty if anonymous.
        name: String,
        /// Size in bytes.
        size: u8,
        /// Whether its values are signed.
        signed: bool,
        /// Enumerators in order.
        values: Vec<(String, i64)>,
    },
    /// A function.
    Func {
        /// The type returned.
        ret: TypeId,
        /// Parameter types.
        params: Vec<TypeId>,
        /// Whether more arguments may follow.
        varargs: bool,
    },
    /// D's `string`: bytes up to a NUL, at most `strsize`.
    String,
    /// A name for another type.
    Typedef {
        /// The name.
        name: String,
        /// The type named.
        to: TypeId,
    },
    /// A struct, union or enum known by name only; the environment completes it when its members are needed.
    Forward {
        /// `struct`, `union` or `enum`.
        keyword: &'static str,
        /// The tag.
        name: String,
        /// A hint for the environment: the BTF id plus 1 it was read from, or 0.
        btf: u32,
    },
}

/// An arena of types; equal types get equal ids.
#[derive(Clone, Debug, Default)]
pub struct TypeTable {
    /// The types, indexed by [`TypeId`].
    pub types: Vec<TypeKind>,
    /// Finds a type that is there already.
    pub index: HashMap<TypeKind, TypeId>,
}

impl TypeTable {
    /// Adds `kind`, or finds it if it is there.
    pub fn add(&mut self, kind: TypeKind) -> TypeId {
        if let Some(&id) = self.index.get(&kind) {
            return id;
        }
        let id = TypeId(self.types.len() as u32);
        self.types.push(kind.clone());
        self.index.insert(kind, id);
        id
    }

    /// Replaces a forward declaration by its definition, in place, so that pointers to it stay valid.
    pub fn complete(&mut self, id: TypeId, kind: TypeKind) {
        self.types[id.0 as usize] = kind;
    }

    /// The type with this id.
    pub fn get(&self, id: TypeId) -> &TypeKind {
        &self.types[id.0 as usize]
    }

    /// The type behind all typedefs.
    pub fn resolve(&self, mut id: TypeId) -> TypeId {
        // A typedef can only name an earlier type or a completed forward; the bound keeps a hostile table finite.
        for _ in 0..64 {
            match self.get(id) {
                TypeKind::Typedef { to, .. } => id = *to,
                _ => break,
            }
        }
        id
    }

    /// An integer type.
    pub fn int(&mut self, size: u8, signed: bool) -> TypeId {
        self.add(TypeKind::Int { size, signed, kind: IntKind::Number })
    }

    /// A pointer type.
    pub fn pointer(&mut self, to: TypeId, space: Space) -> TypeId {
        self.add(TypeKind::Pointer { to, space })
    }

    /// Size in bytes, `None` for incomplete types, functions, `void` and `string`.
    pub fn size(&self, id: TypeId) -> Option<u64> {
        Some(match self.get(self.resolve(id)) {
            TypeKind::Int { size, .. } | TypeKind::Float { size } | TypeKind::Enum { size, .. } => *size as u64,
            TypeKind::Pointer { .. } => 8,
            TypeKind::Array { of, len } => self.size(*of)?.checked_mul(*len as u64)?,
            TypeKind::Struct { size, .. } => *size as u64,
            _ => return None,
        })
    }

    /// The type as C would write it, without a declarator.
    pub fn name(&self, id: TypeId) -> String {
        let tag = |keyword: &str, name: &str| match name {
            "" => format!("{keyword} {{...}}"),
            _ => format!("{keyword} {name}"),
        };
        match self.get(id) {
            TypeKind::Void => "void".into(),
            TypeKind::Int { size: 1, kind: IntKind::Bool, .. } => "_Bool".into(),
            TypeKind::Int { size, signed, kind } => match (size, signed, kind) {
                (1, true, _) => "char".into(),
                (1, false, _) => "unsigned char".into(),
                (2, true, _) => "short".into(),
                (2, false, _) => "unsigned short".into(),
                (4, true, _) => "int".into(),
                (4, false, _) => "unsigned int".into(),
                (_, true, _) => "int64_t".into(),
                (_, false, _) => "uint64_t".into(),
            },
            TypeKind::Float { size: 4 } => "float".into(),
            TypeKind::Float { size: 8 } => "double".into(),
            TypeKind::Float { .. } => "long double".into(),
            TypeKind::Pointer { to, .. } => match self.get(*to) {
                TypeKind::Pointer { .. } => format!("{}*", self.name(*to)),
                TypeKind::Func { .. } => self.name(*to).replacen(" ()", " (*)", 1),
                _ => format!("{} *", self.name(*to)),
            },
            TypeKind::Array { of, len } => {
                // C writes the outermost dimension first.
                let mut dims = format!("[{len}]");
                let mut of = *of;
                while let TypeKind::Array { of: inner, len } = self.get(of) {
                    dims += &format!("[{len}]");
                    of = *inner;
                }
                format!("{} {dims}", self.name(of))
            }
            TypeKind::Struct { union: false, name, .. } => tag("struct", name),
            TypeKind::Struct { union: true, name, .. } => tag("union", name),
            TypeKind::Enum { name, .. } => tag("enum", name),
            TypeKind::Func { ret, params, varargs } => {
                let mut list: Vec<_> = params.iter().map(|&p| self.name(p)).collect();
                if *varargs {
                    list.push("...".into());
                }
                format!("{} ()({})", self.name(*ret), list.join(", "))
            }
            TypeKind::String => "string".into(),
            TypeKind::Typedef { name, .. } => name.clone(),
            TypeKind::Forward { keyword, name, .. } => tag(keyword, name),
        }
    }
}

impl fmt::Display for TypeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "t{}", self.0)
    }
}
