//! The tokens of D's expressions, statements and declarations. Probe descriptions have none: see [`crate::probespec`].

use crate::ast::{CharLit, FloatLit, IntLit, Macro};
use crate::span::Span;

/// A token and its place.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Token {
    pub(crate) kind: Tok,
    pub(crate) span: Span,
}

/// The kinds of tokens.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Tok {
    Eof,
    Int(IntLit),
    Char(CharLit),
    Float(FloatLit),
    Str(Vec<u8>),
    /// Identifiers and keywords; may hold backquotes.
    Ident(String),
    /// Without the `@`.
    Agg(String),
    /// Only where macros are kept.
    Macro(Macro),
    Punct(P),
    /// A character that begins no token.
    Unknown,
}

macro_rules! puncts {
    ($($name:ident $text:literal)*) => {
        /// Operators and punctuation.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum P {
            $(
                #[doc = concat!("`", $text, "`")]
                $name,
            )*
        }

        impl P {
            pub(crate) fn text(self) -> &'static str {
                match self {
                    $(P::$name => $text,)*
                }
            }

            /// The longest punctuation that `text` starts with; the table lists longer ones first.
            pub(crate) fn at(text: &str) -> Option<P> {
                $(
                    if text.starts_with($text) {
                        return Some(P::$name);
                    }
                )*
                None
            }
        }
    };
}

puncts! {
    Ellipsis "..." ShlEq "<<=" ShrEq ">>="
    Arrow "->" Inc "++" Dec "--" AndAnd "&&" XorXor "^^" OrOr "||" EqEq "==" NotEq "!=" Le "<=" Ge ">="
    Shl "<<" Shr ">>" AddEq "+=" SubEq "-=" MulEq "*=" DivEq "/=" ModEq "%=" AndEq "&=" XorEq "^=" OrEq "|="
    LParen "(" RParen ")" LBracket "[" RBracket "]" LBrace "{" RBrace "}" Semi ";" Comma "," Colon ":" Question "?"
    Dot "." Assign "=" Lt "<" Gt ">" Plus "+" Minus "-" Star "*" Slash "/" Percent "%" Amp "&" Caret "^" Pipe "|"
    Tilde "~" Bang "!"
}

/// The words that are no identifiers.
pub(crate) const KEYWORDS: &[&str] = &[
    "auto",
    "break",
    "case",
    "char",
    "const",
    "continue",
    "counter",
    "default",
    "do",
    "double",
    "else",
    "enum",
    "extern",
    "float",
    "for",
    "goto",
    "if",
    "import",
    "inline",
    "int",
    "long",
    "offsetof",
    "probe",
    "provider",
    "register",
    "restrict",
    "return",
    "self",
    "short",
    "signed",
    "sizeof",
    "static",
    "string",
    "stringof",
    "struct",
    "switch",
    "this",
    "translator",
    "typedef",
    "union",
    "unsigned",
    "userland",
    "void",
    "volatile",
    "while",
    "xlate",
];

/// Whether the word is a keyword. `return` is one in C and DTrace, but also the name of the action `return()`.
pub(crate) fn is_keyword(word: &str) -> bool {
    KEYWORDS.binary_search(&word).is_ok()
}

/// Words that begin a statement of C that D leaves out.
pub(crate) fn is_missing_statement(word: &str) -> bool {
    matches!(word, "for" | "while" | "do" | "switch" | "goto" | "break" | "continue" | "case" | "default")
}

/// Words that begin declaration specifiers.
pub(crate) fn starts_specifiers(word: &str) -> bool {
    is_storage(word)
        || matches!(
            word,
            "char"
                | "const"
                | "double"
                | "enum"
                | "float"
                | "int"
                | "long"
                | "restrict"
                | "short"
                | "signed"
                | "string"
                | "struct"
                | "union"
                | "unsigned"
                | "userland"
                | "void"
                | "volatile"
                | "_Bool"
        )
}

/// Words that are storage classes of C.
pub(crate) fn is_storage(word: &str) -> bool {
    matches!(word, "auto" | "register" | "static" | "extern" | "typedef")
}

/// The typedefs a D program may take for granted, as far as the parser needs to know: the rest the caller tells.
pub(crate) fn is_builtin_type(word: &str) -> bool {
    const NAMES: &[&str] = &[
        "_Bool",
        "bool",
        "boolean_t",
        "caddr_t",
        "clock_t",
        "cpuid_t",
        "daddr_t",
        "dev_t",
        "gid_t",
        "hrtime_t",
        "id_t",
        "in6_addr_t",
        "in_addr_t",
        "in_port_t",
        "ino_t",
        "int16_t",
        "int32_t",
        "int64_t",
        "int8_t",
        "intmax_t",
        "intptr_t",
        "kthread_t",
        "loff_t",
        "longlong_t",
        "lwpid_t",
        "mode_t",
        "nlink_t",
        "off_t",
        "offset_t",
        "pid_t",
        "poolid_t",
        "processorid_t",
        "psetid_t",
        "ptrdiff_t",
        "size_t",
        "ssize_t",
        "taskid_t",
        "time_t",
        "u_char",
        "u_int",
        "u_long",
        "u_longlong_t",
        "u_short",
        "uchar_t",
        "uid_t",
        "uint16_t",
        "uint32_t",
        "uint64_t",
        "uint8_t",
        "uint",
        "uint_t",
        "uintmax_t",
        "uintptr_t",
        "ulong",
        "ulong_t",
        "unchar",
        "ushort",
        "ushort_t",
        "zoneid_t",
        "bufinfo_t",
        "conninfo_t",
        "cpuinfo_t",
        "csinfo_t",
        "devinfo_t",
        "dt_stack_t",
        "fileinfo_t",
        "ifinfo_t",
        "ipinfo_t",
        "ipv4info_t",
        "ipv6info_t",
        "lwpsinfo_t",
        "pktinfo_t",
        "psinfo_t",
        "siginfo_t",
        "tcpinfo_t",
        "tcplsinfo_t",
        "tcpsinfo_t",
        "udpinfo_t",
        "udpsinfo_t",
    ];
    NAMES.contains(&word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keywords_are_sorted() {
        assert!(KEYWORDS.is_sorted());
    }

    #[test]
    fn longest_punctuation_wins() {
        assert_eq!(P::at("<<=1"), Some(P::ShlEq));
        assert_eq!(P::at("<<1"), Some(P::Shl));
        assert_eq!(P::at("^^"), Some(P::XorXor));
        assert_eq!(P::at("-->"), Some(P::Dec));
        assert_eq!(P::at("#"), None);
    }
}
