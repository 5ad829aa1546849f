//! Subroutines: what D's functions compute that is no operator. Owns the list, each one's operands and meaning; that meaning as code
//! is the compiler's (`routine::meaning`).

/// A subroutine. Its operands are given in parentheses: `s`, `t` are strings, `n` integers, `b` bytes, `k` constants.
///
/// A string result is cut to the capacity that stands beside it. A result that is *none* is the empty string where it is compared or
/// assigned, and a [`BadAddress`](crate::Fault) fault at address 0 in any other place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Sub {
    /// `(n)`: the low 2 bytes in network order, on a machine whose order is not that.
    Swap2,
    /// `(n)`: as `Swap2`, 4 bytes.
    Swap4,
    /// `(n)`: as `Swap2`, 8 bytes.
    Swap8,
    /// `()`: a random number of 32 bits, another one for each time that it is evaluated.
    Random,
    /// `()`: an illegal operation: faults.
    Illegal,
    /// `(s, t[, n])`: the first place of `t` in `s` at or after `n` (0 where negative), or -1.
    Index,
    /// `(s, t[, n])`: the last place of `t` in `s` at or before `n`, or -1.
    Rindex,
    /// `(s, n)`: `s` from the first byte `n` on, or none. The byte 0 is found at the end.
    Strchr,
    /// `(s, n)`: `s` from the last byte `n` on, or none.
    Strrchr,
    /// `(s, t)`: `s` from the first `t` on, or none.
    Strstr,
    /// `(s, n[, m])`: at most `m` bytes of `s` from `n` on, as Perl counts: a negative `n` from the end, a negative `m` leaves
    /// as many bytes off the end.
    Substr,
    /// `(s, t)`: the first run of bytes of `s` that are not in `t`, or none.
    Token,
    /// `(s, t)`: what is behind that run.
    Rest,
    /// `(s)`: the last component of a path, as basename(1) has it.
    Basename,
    /// `(s)`: what is before it, as dirname(1) has it.
    Dirname,
    /// `(s)`: the path without `.`, `..` and doubled slashes where that is possible without looking at files.
    Cleanpath,
    /// `(s)`: ASCII letters made capitals.
    Upper,
    /// `(s)`: ASCII letters made small.
    Lower,
    /// `(s)`: without white space at either end.
    Strip,
    /// `(n, n)`: a number in base 2 to 36 (others: an illegal operation); signed in base 10, `0` and `0x` before bases 8 and 16.
    Digits,
    /// `(s, n)`: the number at the start of `s`, in base 2 to 36 (others: an illegal operation).
    Number,
    /// `(s, t)`: the member of a JSON text that the path `t` leads to, a string without its quotes, or none.
    Json,
    /// `(n, k, k)`: 1 if the current process or one of its ancestors is `n`; offsets in the kernel's task of its process's number and of
    /// its parent.
    Progeny,
    /// `(n, n, k, …)`: the path of the file whose `struct path` is at the first address, as a process whose root's `struct path` is at the
    /// second sees it; the others are offsets: `mnt` and `dentry` in a path; `d_parent`, the name and its length in a directory entry;
    /// `mnt_root` in a `vfsmount`; that in a `mount`, and `mnt_parent` and `mnt_mountpoint` there. Faults with what cannot be read.
    Path,
    /// `(b)`: an IPv4 address of 4 bytes.
    Ip4,
    /// `(b, k)`: an IPv6 address of 16 bytes; if `k` is not 0, addresses that hold one of IPv4 show it.
    Ip6,
    /// `(b, n)`: the first `n` of some bytes (all, where `n`, unsigned, is more) as words that NULs end: with spaces between them.
    Words,
    /// `(b)`: a link address: its bytes in hexadecimal with colons.
    Mac,
}

impl Sub {
    /// Every one and its word in the text form.
    #[rustfmt::skip]
    pub const ALL: &[(&'static str, Sub)] = &[
        ("swap2", Sub::Swap2), ("swap4", Sub::Swap4), ("swap8", Sub::Swap8), ("random", Sub::Random), ("illegal", Sub::Illegal),
        ("index", Sub::Index), ("rindex", Sub::Rindex), ("strchr", Sub::Strchr), ("strrchr", Sub::Strrchr),
        ("strstr", Sub::Strstr), ("substr", Sub::Substr), ("token", Sub::Token), ("rest", Sub::Rest),
        ("basename", Sub::Basename), ("dirname", Sub::Dirname), ("cleanpath", Sub::Cleanpath), ("upper", Sub::Upper),
        ("lower", Sub::Lower), ("strip", Sub::Strip), ("digits", Sub::Digits), ("number", Sub::Number), ("json", Sub::Json),
        ("progeny", Sub::Progeny), ("path", Sub::Path), ("ip4", Sub::Ip4), ("ip6", Sub::Ip6), ("words", Sub::Words),
        ("mac", Sub::Mac),
    ];

    /// Its word in the text form.
    pub fn word(self) -> &'static str {
        Sub::ALL.iter().find(|(_, sub)| *sub == self).map_or("", |(word, _)| word)
    }

    /// Whether the result is a string.
    pub fn is_text(self) -> bool {
        !matches!(
            self,
            Sub::Swap2
                | Sub::Swap4
                | Sub::Swap8
                | Sub::Random
                | Sub::Illegal
                | Sub::Index
                | Sub::Rindex
                | Sub::Number
                | Sub::Progeny
        )
    }

    /// Whether the result may be none.
    pub fn may_be_none(self) -> bool {
        matches!(self, Sub::Strchr | Sub::Strrchr | Sub::Strstr | Sub::Token | Sub::Json)
    }

    /// Whether the result is never longer than the first operand, so that only its capacity cuts it.
    pub fn is_piece(self) -> bool {
        use Sub::{
            Basename, Cleanpath, Dirname, Json, Lower, Rest, Strchr, Strip, Strrchr, Strstr, Substr, Token, Upper,
        };
        matches!(
            self,
            Strchr
                | Strrchr
                | Strstr
                | Substr
                | Token
                | Rest
                | Cleanpath
                | Upper
                | Lower
                | Strip
                | Json
                | Basename
                | Dirname
        )
    }

    /// Whether it can be an illegal operation.
    pub fn may_be_illegal(self) -> bool {
        matches!(self, Sub::Illegal | Sub::Digits | Sub::Number)
    }
}
