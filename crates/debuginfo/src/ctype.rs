//! C type texts as they occur in tracepoints' formats: `const char __user *`, `struct sockaddr *`, `u8[16]`.
//!
//! Parses a type without its declarator's name. Knows the standard integer types and the kernel's common typedefs; what
//! structs and other typedefs are is asked of BTF by `tracefs_format`.

/// The innermost type of a [`CType`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Base {
    /// `void`, or a function (behind a pointer).
    Void,
    /// A standard integer type.
    Int {
        /// Size in bytes.
        size: u8,
        /// Whether it is signed.
        signed: bool,
        /// Whether it is plain `char`.
        char: bool,
        /// Whether it is `bool`.
        bool: bool,
    },
    /// `float` or `double`, by size in bytes.
    Float(u8),
    /// A struct, union or enum by its tag.
    Tagged {
        /// `struct`, `union` or `enum`.
        keyword: &'static str,
        /// The tag; empty where it is anonymous.
        name: String,
    },
    /// A typedef.
    Named(String),
}

/// A C type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CType {
    /// The innermost type.
    pub base: Base,
    /// Pointers from the innermost out, and whether each points to user memory (`__user`).
    pub pointers: Vec<bool>,
    /// Array dimensions, outermost first; `None` for `[]` and for lengths that are no number.
    pub dims: Vec<Option<u32>>,
}

const INT: Base = Base::Int { size: 4, signed: true, char: false, bool: false };

/// Typedefs that need no BTF: their names, sizes in bytes on 64-bit Linux, and whether they are signed.
const TYPEDEFS: &[(&str, u8, bool)] = &[
    ("u8", 1, false),
    ("u16", 2, false),
    ("u32", 4, false),
    ("u64", 8, false),
    ("s8", 1, true),
    ("s16", 2, true),
    ("s32", 4, true),
    ("s64", 8, true),
    ("__u8", 1, false),
    ("__u16", 2, false),
    ("__u32", 4, false),
    ("__u64", 8, false),
    ("__s8", 1, true),
    ("__s16", 2, true),
    ("__s32", 4, true),
    ("__s64", 8, true),
    ("__be16", 2, false),
    ("__be32", 4, false),
    ("__be64", 8, false),
    ("__le16", 2, false),
    ("__le32", 4, false),
    ("__le64", 8, false),
    ("uint8_t", 1, false),
    ("uint16_t", 2, false),
    ("uint32_t", 4, false),
    ("uint64_t", 8, false),
    ("int8_t", 1, true),
    ("int16_t", 2, true),
    ("int32_t", 4, true),
    ("int64_t", 8, true),
    ("uint", 4, false),
    ("ushort", 2, false),
    ("ulong", 8, false),
    ("size_t", 8, false),
    ("ssize_t", 8, true),
    ("uintptr_t", 8, false),
    ("intptr_t", 8, true),
    ("ptrdiff_t", 8, true),
    ("pid_t", 4, true),
    ("tid_t", 4, true),
    ("uid_t", 4, false),
    ("gid_t", 4, false),
    ("qid_t", 4, false),
    ("key_t", 4, true),
    ("id_t", 4, true),
    ("dev_t", 4, false),
    ("ino_t", 8, false),
    ("mode_t", 4, false),
    ("umode_t", 2, false),
    ("nlink_t", 4, false),
    ("off_t", 8, true),
    ("loff_t", 8, true),
    ("rwf_t", 4, true),
    ("time_t", 8, true),
    ("time64_t", 8, true),
    ("ktime_t", 8, true),
    ("clock_t", 8, true),
    ("clockid_t", 4, true),
    ("timer_t", 4, true),
    ("mqd_t", 4, true),
    ("key_serial_t", 4, true),
    ("aio_context_t", 8, false),
    ("socklen_t", 4, true),
    ("qsize_t", 8, true),
    ("old_uid_t", 2, false),
    ("old_gid_t", 2, false),
    ("cap_user_header_t", 8, false),
    ("cap_user_data_t", 8, false),
    ("sector_t", 8, false),
    ("blkcnt_t", 8, false),
    ("pgoff_t", 8, false),
    ("gfp_t", 4, false),
    ("fmode_t", 4, false),
    ("vm_flags_t", 8, false),
    ("phys_addr_t", 8, false),
    ("dma_addr_t", 8, false),
    ("resource_size_t", 8, false),
    ("errseq_t", 4, false),
    ("isolate_mode_t", 4, false),
];

/// The size and signedness of a typedef that is known without BTF.
pub fn known_typedef(name: &str) -> Option<(u8, bool)> {
    TYPEDEFS.iter().find(|(known, ..)| *known == name).map(|&(_, size, signed)| (size, signed))
}

/// Splits a text into words and single punctuation characters.
fn tokens(text: &str) -> impl Iterator<Item = &str> {
    let word = |c: char| c.is_alphanumeric() || c == '_' || c == '$';
    let mut rest = text;
    std::iter::from_fn(move || {
        rest = rest.trim_start();
        let first = rest.chars().next()?;
        let len = match word(first) {
            true => rest.find(|c| !word(c)).unwrap_or(rest.len()),
            false => first.len_utf8(),
        };
        let (token, after) = rest.split_at(len);
        rest = after;
        Some(token)
    })
}

/// Parses a type's text; `None` for what is no C type, or one that is not written in formats.
pub fn parse(text: &str) -> Option<CType> {
    let mut parsed = CType { base: Base::Void, pointers: Vec::new(), dims: Vec::new() };
    let mut words = Vec::new();
    let mut base = None;
    let mut user = false;
    let mut rest = tokens(text).peekable();
    while let Some(token) = rest.next() {
        match token {
            "const" | "volatile" | "restrict" | "__restrict" | "register" | "static" | "_Atomic" => {}
            "__user" => user = true,
            "__kernel" | "__iomem" | "__percpu" | "__rcu" | "__force" | "__bitwise" | "__seg_gs" | "__seg_fs"
            | "__private" => {}
            "__attribute__" | "__attribute" => skip_parens(&mut rest)?,
            "struct" | "union" | "enum" => {
                let keyword = match token {
                    "struct" => "struct",
                    "union" => "union",
                    _ => "enum",
                };
                let name = rest.next_if(|next| next.starts_with(|c: char| c.is_alphabetic() || c == '_')).unwrap_or("");
                if rest.peek() == Some(&"{") {
                    skip_braces(&mut rest)?;
                } else if name.is_empty() {
                    return None;
                }
                set(&mut base, Base::Tagged { keyword, name: name.into() })?;
            }
            "*" | "&" => {
                // The space qualifies what is pointed to, so it is written before the star.
                parsed.pointers.push(std::mem::take(&mut user));
                if parsed.pointers.len() > 8 {
                    return None;
                }
            }
            "[" => {
                let mut inner = Vec::new();
                loop {
                    match rest.next()? {
                        "]" => break,
                        token => inner.push(token),
                    }
                }
                parsed.dims.push(match inner[..] {
                    [number] => number.parse().ok(),
                    _ => None,
                });
                if parsed.dims.len() > 8 {
                    return None;
                }
            }
            // A pointer to a function, which nobody can look into.
            "(" => {
                rest.next_if_eq(&"*")?;
                return Some(CType { base: Base::Void, pointers: vec![false], dims: Vec::new() });
            }
            word if word.starts_with(|c: char| c.is_alphabetic() || c == '_') => {
                // After the pointers only qualifiers can come.
                if !parsed.pointers.is_empty() {
                    return None;
                }
                words.push(word);
            }
            _ => return None,
        }
    }
    // `char __user *` has it before the star, `char * __user` (wrong, but written) after it.
    if user && let Some(last) = parsed.pointers.last_mut() {
        *last = true;
    }
    parsed.base = match (base, words.is_empty()) {
        (Some(base), true) => base,
        (None, false) => base_of(&words)?,
        _ => return None,
    };
    Some(parsed)
}

fn set(base: &mut Option<Base>, value: Base) -> Option<()> {
    base.is_none().then(|| *base = Some(value))
}

fn base_of(words: &[&str]) -> Option<Base> {
    let (mut signed, mut unsigned, mut long, mut short, mut int) = (false, false, 0, false, false);
    let mut other = None;
    for &word in words {
        match word {
            "signed" | "__signed__" | "__signed" => signed = true,
            "unsigned" => unsigned = true,
            "long" => long += 1,
            "short" => short = true,
            "int" => int = true,
            word if other.is_none() => other = Some(word),
            _ => return None,
        }
    }
    if signed && unsigned || long > 2 || short && long > 0 {
        return None;
    }
    let bare = !signed && !unsigned && long == 0 && !short && !int;
    let int_of = |size| Base::Int { size, signed: !unsigned, char: false, bool: false };
    Some(match other {
        None if short => int_of(2),
        None if long > 0 => int_of(8),
        None => match unsigned {
            true => int_of(4),
            false => INT,
        },
        Some("char") if long == 0 && !short && !int => {
            Base::Int { size: 1, signed: !unsigned, char: !unsigned && !signed, bool: false }
        }
        Some("double") if long == 1 && !short && !int && !signed && !unsigned => Base::Float(16),
        Some(_) if !bare => return None,
        Some("void") => Base::Void,
        Some("bool" | "_Bool") => Base::Int { size: 1, signed: false, char: false, bool: true },
        Some("float") => Base::Float(4),
        Some("double") => Base::Float(8),
        Some(name) => Base::Named(name.into()),
    })
}

fn skip_parens<'a>(rest: &mut impl Iterator<Item = &'a str>) -> Option<()> {
    skip(rest, "(", ")")
}

fn skip_braces<'a>(rest: &mut impl Iterator<Item = &'a str>) -> Option<()> {
    skip(rest, "{", "}")
}

fn skip<'a>(rest: &mut impl Iterator<Item = &'a str>, open: &str, close: &str) -> Option<()> {
    let mut depth = 0u32;
    loop {
        let token = rest.next()?;
        if token == open {
            depth += 1;
        } else if token == close {
            depth = depth.checked_sub(1)?;
        } else if depth == 0 {
            return None;
        }
        if depth == 0 {
            return Some(());
        }
    }
}

/// Runs the parser over arbitrary bytes.
pub fn fuzz_one(data: &[u8]) {
    let _ = parse(&String::from_utf8_lossy(data));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn int(size: u8, signed: bool) -> Base {
        Base::Int { size, signed, char: false, bool: false }
    }

    fn tagged(keyword: &'static str, name: &str) -> Base {
        Base::Tagged { keyword, name: name.into() }
    }

    #[test]
    fn texts_of_the_kernels_formats() {
        type Case<'a> = (&'a str, Base, &'a [bool], &'a [Option<u32>]);
        let cases: &[Case<'_>] = &[
            ("int", int(4, true), &[], &[]),
            ("unsigned", int(4, false), &[], &[]),
            ("unsigned long long", int(8, false), &[], &[]),
            ("long unsigned int", int(8, false), &[], &[]),
            ("short", int(2, true), &[], &[]),
            ("unsigned char", int(1, false), &[], &[]),
            ("signed char", int(1, true), &[], &[]),
            ("const char __user *", Base::Int { size: 1, signed: true, char: true, bool: false }, &[true], &[]),
            ("const char *const *", Base::Int { size: 1, signed: true, char: true, bool: false }, &[false, false], &[]),
            (
                "const char __user *const __user *",
                Base::Int { size: 1, signed: true, char: true, bool: false },
                &[true, true],
                &[],
            ),
            ("bool", Base::Int { size: 1, signed: false, char: false, bool: true }, &[], &[]),
            ("void *", Base::Void, &[false], &[]),
            ("void __seg_gs *", Base::Void, &[false], &[]),
            ("struct sockaddr *", tagged("struct", "sockaddr"), &[false], &[]),
            ("const struct iovec *", tagged("struct", "iovec"), &[false], &[]),
            ("enum dma_data_direction", tagged("enum", "dma_data_direction"), &[], &[]),
            ("enum { A, B }", tagged("enum", ""), &[], &[]),
            ("const clockid_t", Base::Named("clockid_t".into()), &[], &[]),
            ("u8[16]", Base::Named("u8".into()), &[], &[Some(16)]),
            ("char[]", Base::Int { size: 1, signed: true, char: true, bool: false }, &[], &[None]),
            ("int[2][3]", int(4, true), &[], &[Some(2), Some(3)]),
            ("int (*)(struct x *, int)", Base::Void, &[false], &[]),
            ("struct list_head *[4]", tagged("struct", "list_head"), &[false], &[Some(4)]),
            ("int __attribute__((aligned(4)))", int(4, true), &[], &[]),
            ("long double", Base::Float(16), &[], &[]),
        ];
        for (text, base, pointers, dims) in cases {
            let expected = CType { base: base.clone(), pointers: pointers.to_vec(), dims: dims.to_vec() };
            assert_eq!(parse(text), Some(expected), "{text}");
        }
    }

    #[test]
    fn other_texts_are_none() {
        for text in [
            "",
            "*",
            "int int x",
            "struct",
            "struct {",
            "unsigned signed",
            "int * x",
            "3",
            "long long long",
            "char[",
            "a b c",
            "enum x int",
            "unsigned foo",
        ] {
            let parsed = parse(text);
            assert!(parsed.is_none(), "{text:?}: {parsed:?}");
        }
    }

    #[test]
    fn other_bytes_are_nothing_or_a_type() {
        for seed in ["const char __user *const __user *", "int (*call)(int, struct s *)", "u8 grid[2][3]", "char[]"] {
            crate::mutate::mutate(seed.as_bytes(), 1000, fuzz_one);
        }
    }
}
