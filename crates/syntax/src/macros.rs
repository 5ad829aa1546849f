//! The values of `$1`, `$$1`, `$target` and their kin, and what they turn into. Owns the rules of replacement; where a
//! macro may stand is the lexer's and the probe description's business.

use crate::ast::{Base, IntLit};

/// What macros are replaced with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Macros {
    /// `$0` (the script's name), `$1`, …
    pub args: Vec<String>,
    /// `$target`: the process of `-c` or `-p`; `None` makes its use an error.
    pub target: Option<i64>,
    /// `$pid`: of the tracer, as all below.
    pub pid: i64,
    /// `$ppid`
    pub ppid: i64,
    /// `$uid`
    pub uid: i64,
    /// `$euid`
    pub euid: i64,
    /// `$gid`
    pub gid: i64,
    /// `$egid`
    pub egid: i64,
    /// `$pgid`
    pub pgid: i64,
    /// `$sid`
    pub sid: i64,
    /// `-xdefaultargs`: a missing argument is 0, or empty as a string.
    pub default_args: bool,
}

/// The names of the macros that are not arguments.
pub const NAMES: &[&str] = &["target", "pid", "ppid", "uid", "euid", "gid", "egid", "pgid", "sid"];

/// Why a macro has no value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Undefined {
    /// Fewer arguments were given.
    Argument,
    /// There is no macro of that name.
    Name,
    /// `$target` without `-c` or `-p`.
    Target,
}

impl Macros {
    /// The text of a macro, sigil left out. `quoted` decides what stands for a missing argument.
    pub fn text(&self, name: &str, quoted: bool) -> Result<String, Undefined> {
        if name.starts_with(|c: char| c.is_ascii_digit()) {
            let arg = name.parse::<usize>().ok().and_then(|i| self.args.get(i));
            return match arg {
                Some(text) => Ok(text.clone()),
                None if self.default_args => Ok(if quoted { String::new() } else { "0".into() }),
                None => Err(Undefined::Argument),
            };
        }
        let value = match name {
            "target" => self.target.ok_or(Undefined::Target)?,
            "pid" => self.pid,
            "ppid" => self.ppid,
            "uid" => self.uid,
            "euid" => self.euid,
            "gid" => self.gid,
            "egid" => self.egid,
            "pgid" => self.pgid,
            "sid" => self.sid,
            _ => return Err(Undefined::Name),
        };
        Ok(value.to_string())
    }
}

/// What an unquoted macro's text stands for in an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Replacement {
    /// It reads as an integer.
    Int(IntLit),
    /// It reads as an identifier, or a keyword.
    Ident(String),
    /// Anything else; quotes around it are taken off.
    String(String),
}

/// Reads the text of an unquoted macro.
pub fn replacement(text: &str) -> Replacement {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    if unsigned.starts_with(|c: char| c.is_ascii_digit())
        && let Ok(mut int) = parse_int(unsigned)
    {
        int.negative = text.starts_with('-');
        return Replacement::Int(int);
    }
    if is_ident(text) {
        return Replacement::Ident(text.into());
    }
    let inner = text.strip_prefix('"').and_then(|t| t.strip_suffix('"'));
    Replacement::String(inner.unwrap_or(text).into())
}

fn is_ident(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_' || c == '`')
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'`')
}

/// Reads an integer constant with its suffix; the error is the character that cannot be in one.
pub fn parse_int(text: &str) -> Result<IntLit, char> {
    let (base, digits) = match text.strip_prefix("0x").or(text.strip_prefix("0X")) {
        Some(digits) => (Base::Hex, digits),
        None if text.starts_with('0') && text.len() > 1 => (Base::Octal, text),
        None => (Base::Decimal, text),
    };
    let radix = match base {
        Base::Decimal => 10,
        Base::Octal => 8,
        Base::Hex => 16,
    };
    let mut int = IntLit { value: 0, base, unsigned: false, longs: 0, overflow: false, negative: false };
    let mut rest = digits;
    while let Some(digit) = rest.chars().next().and_then(|c| c.to_digit(radix)) {
        let value = u128::from(int.value) * u128::from(radix) + u128::from(digit);
        int.overflow |= value > u128::from(u64::MAX);
        int.value = value as u64;
        rest = &rest[1..];
    }
    if rest.len() == digits.len() {
        // `0x` alone.
        return Err(text.chars().nth(1).unwrap_or('x'));
    }
    let bad = rest.chars().next();
    let suffix = rest.to_ascii_lowercase();
    (int.unsigned, int.longs) = match suffix.as_str() {
        "" => (false, 0),
        "u" => (true, 0),
        "l" => (false, 1),
        "ul" | "lu" => (true, 1),
        "ll" => (false, 2),
        "ull" | "llu" => (true, 2),
        _ => return Err(bad.unwrap_or('?')),
    };
    Ok(int)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers() {
        assert_eq!(parse_int("0x1fUL").map(|i| (i.value, i.unsigned, i.longs)), Ok((31, true, 1)));
        assert_eq!(parse_int("017").map(|i| i.value), Ok(15));
        assert_eq!(parse_int("0").map(|i| (i.value, i.base)), Ok((0, Base::Decimal)));
        assert_eq!(parse_int("089"), Err('8'));
        assert_eq!(parse_int("12z"), Err('z'));
        assert_eq!(parse_int("0x"), Err('x'));
        assert!(!parse_int("18446744073709551615").unwrap().overflow);
        assert!(parse_int("18446744073709551616").unwrap().overflow);
    }

    #[test]
    fn what_arguments_turn_into() {
        assert!(matches!(replacement("-5"), Replacement::Int(IntLit { value: 5, negative: true, .. })));
        assert_eq!(replacement("execname"), Replacement::Ident("execname".into()));
        assert_eq!(replacement("\"a b\""), Replacement::String("a b".into()));
        assert_eq!(replacement("/etc/passwd"), Replacement::String("/etc/passwd".into()));
        assert_eq!(replacement("12abc"), Replacement::String("12abc".into()));
        assert_eq!(replacement(""), Replacement::String("".into()));
    }
}
