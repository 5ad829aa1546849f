//! What subroutines mean, as plain code: for constant folding, and what generated code is tested against.

use probity_ir::Sub;
use std::borrow::Cow;

/// An operand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    /// An integer.
    Int(i64),
    /// A string up to its NUL, or bytes.
    Bytes(Cow<'a, [u8]>),
}

/// A result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// An integer.
    Int(i64),
    /// A string, not yet cut to its capacity.
    Text(Vec<u8>),
    /// None.
    None,
    /// An illegal operation.
    Illegal,
}

/// Calls a subroutine; `None` where the operands are not what it takes, or its result is not a matter of its operands.
pub fn call(sub: Sub, args: &[Value<'_>]) -> Option<Outcome> {
    let int = |i: usize| match args.get(i) {
        Some(Value::Int(n)) => Some(*n),
        _ => None,
    };
    let bytes = |i: usize| match args.get(i) {
        Some(Value::Bytes(bytes)) => Some(&bytes[..]),
        _ => None,
    };
    let number = |n: i64| Some(Outcome::Int(n));
    let text = |bytes: &[u8]| Some(Outcome::Text(bytes.to_vec()));
    let or_none = |bytes: Option<&[u8]>| Some(bytes.map_or(Outcome::None, |b| Outcome::Text(b.to_vec())));
    match sub {
        Sub::Swap2 => number((int(0)? as u16).to_be().into()),
        Sub::Swap4 => number((int(0)? as u32).to_be().into()),
        Sub::Swap8 => number((int(0)? as u64).to_be() as i64),
        Sub::Random | Sub::Progeny | Sub::Path => None,
        Sub::Illegal => Some(Outcome::Illegal),
        Sub::Index => number(index(bytes(0)?, bytes(1)?, if args.len() > 2 { int(2)? } else { 0 })),
        Sub::Rindex => number(rindex(bytes(0)?, bytes(1)?, if args.len() > 2 { int(2)? } else { i64::MAX })),
        Sub::Strchr | Sub::Strrchr => {
            let (s, c) = (bytes(0)?, int(1)? as u8);
            let at = match sub {
                _ if c == 0 => Some(s.len()),
                Sub::Strchr => s.iter().position(|&b| b == c),
                _ => s.iter().rposition(|&b| b == c),
            };
            or_none(at.map(|at| &s[at..]))
        }
        Sub::Strstr => {
            let (s, t) = (bytes(0)?, bytes(1)?);
            or_none(usize::try_from(index(s, t, 0)).ok().map(|at| &s[at..]))
        }
        Sub::Substr => text(substr(bytes(0)?, int(1)?, if args.len() > 2 { int(2)? } else { i64::MAX })),
        Sub::Token => or_none(token(bytes(0)?, bytes(1)?).map(|(token, _)| token)),
        Sub::Rest => text(token(bytes(0)?, bytes(1)?).map_or(b"", |(_, rest)| rest)),
        Sub::Basename => text(split_path(bytes(0)?).1),
        Sub::Dirname => text(split_path(bytes(0)?).0),
        Sub::Cleanpath => text(&cleanpath(bytes(0)?)),
        Sub::Upper => text(&bytes(0)?.to_ascii_uppercase()),
        Sub::Lower => text(&bytes(0)?.to_ascii_lowercase()),
        Sub::Strip => text(bytes(0)?.trim_ascii()),
        Sub::Digits => Some(digits(int(0)?, int(1)?).map_or(Outcome::Illegal, Outcome::Text)),
        Sub::Number => Some(parse(bytes(0)?, int(1)?).map_or(Outcome::Illegal, Outcome::Int)),
        Sub::Json => or_none(super::json::find(bytes(0)?, bytes(1)?)),
        Sub::Ip4 => text(ip4(bytes(0)?.try_into().ok()?).as_bytes()),
        Sub::Ip6 => text(ip6(bytes(0)?.try_into().ok()?, int(1)? != 0).as_bytes()),
        Sub::Words => {
            let all = bytes(0)?;
            let all = &all[..usize::try_from(int(1)? as u64).unwrap_or(usize::MAX).min(all.len())];
            let end = all.iter().rposition(|b| *b != 0).map_or(0, |last| last + 1);
            text(&all[..end].iter().map(|b| if *b == 0 { b' ' } else { *b }).collect::<Vec<_>>())
        }
        Sub::Mac => {
            let all: Vec<String> = bytes(0)?.iter().map(|b| format!("{b:02x}")).collect();
            text(all.join(":").as_bytes())
        }
    }
}

fn found_at(s: &[u8], t: &[u8], at: usize) -> bool {
    s.get(at..).is_some_and(|rest| rest.starts_with(t))
}

fn index(s: &[u8], t: &[u8], from: i64) -> i64 {
    let from = from.clamp(0, s.len() as i64) as usize;
    (from..=s.len()).find(|&at| found_at(s, t, at)).map_or(-1, |at| at as i64)
}

fn rindex(s: &[u8], t: &[u8], from: i64) -> i64 {
    if from < 0 {
        // As Perl has it.
        return if t.is_empty() { 0 } else { -1 };
    }
    let from = from.min(s.len() as i64) as usize;
    (0..=from).rev().find(|&at| found_at(s, t, at)).map_or(-1, |at| at as i64)
}

fn substr(s: &[u8], from: i64, count: i64) -> &[u8] {
    let len = s.len() as i64;
    let (mut from, mut count) = (from, count);
    if from < 0 {
        from = from.saturating_add(len);
        if from < 0 && count.saturating_add(from) > 0 {
            count += from;
            from = 0;
        }
    }
    if from < 0 || from >= len {
        return b"";
    }
    if count < 0 {
        count = count.saturating_add(len - from).max(0);
    }
    &s[from as usize..][..count.min(len - from) as usize]
}

/// The first token and what is behind it. The delimiter that ends it stays: the next call may have others.
fn token<'s>(s: &'s [u8], delimiters: &[u8]) -> Option<(&'s [u8], &'s [u8])> {
    let start = s.iter().position(|b| !delimiters.contains(b))?;
    let s = &s[start..];
    let end = s.iter().position(|b| delimiters.contains(b)).unwrap_or(s.len());
    Some(s.split_at(end))
}

/// Directory and last component.
fn split_path(s: &[u8]) -> (&[u8], &[u8]) {
    if s.is_empty() {
        return (b".", b".");
    }
    let Some(last) = s.iter().rposition(|&b| b != b'/') else { return (b"/", b"/") };
    let start = s[..last].iter().rposition(|&b| b == b'/').map_or(0, |at| at + 1);
    let dir = match s[..start].iter().rposition(|&b| b != b'/') {
        Some(end) => &s[..=end],
        None if start == 0 => b".",
        None => b"/",
    };
    (dir, &s[start..=last])
}

fn cleanpath(s: &[u8]) -> Vec<u8> {
    if s.is_empty() {
        return Vec::new();
    }
    let rooted = s[0] == b'/';
    let mut out: Vec<&[u8]> = Vec::new();
    for part in s.split(|&b| b == b'/') {
        match part {
            b"" | b"." => {}
            b".." if out.last().is_some_and(|last| *last != b"..") => {
                out.pop();
            }
            b".." if rooted => {}
            part => out.push(part),
        }
    }
    let joined = out.join(&b'/');
    match (rooted, joined.is_empty()) {
        (true, _) => [b"/", &joined[..]].concat(),
        (false, true) => b".".to_vec(),
        (false, false) => joined,
    }
}

fn digits(n: i64, base: i64) -> Option<Vec<u8>> {
    if !(2..=36).contains(&base) {
        return None;
    }
    let mut rest = if base == 10 { n.unsigned_abs() } else { n as u64 };
    let mut out = Vec::new();
    loop {
        out.push(b"0123456789abcdefghijklmnopqrstuvwxyz"[(rest % base as u64) as usize]);
        rest /= base as u64;
        if rest == 0 {
            break;
        }
    }
    match base {
        16 => out.extend(b"x0"),
        8 => out.push(b'0'),
        10 if n < 0 => out.push(b'-'),
        _ => {}
    }
    out.reverse();
    Some(out)
}

/// As C's `strtoll`, without base 0; a base-16 number may have its `0x`.
fn parse(s: &[u8], base: i64) -> Option<i64> {
    if !(2..=36).contains(&base) {
        return None;
    }
    let mut s = s;
    while let [b' ' | b'\t'..=b'\r', rest @ ..] = s {
        s = rest;
    }
    let mut negative = false;
    if let [sign @ (b'-' | b'+'), rest @ ..] = s {
        negative = *sign == b'-';
        s = rest;
    }
    if let (16, [b'0', b'x' | b'X', rest @ ..]) = (base, s) {
        s = rest;
    }
    let mut n: i128 = 0;
    for &b in s {
        let Some(d) = (b as char).to_digit(36).filter(|d| i64::from(*d) < base) else { break };
        n = (n * i128::from(base) + i128::from(d)).min(1 << 64);
    }
    let n = if negative { -n } else { n };
    Some(n.clamp(i64::MIN.into(), i64::MAX.into()) as i64)
}

fn ip4([a, b, c, d]: [u8; 4]) -> String {
    format!("{a}.{b}.{c}.{d}")
}

/// As `inet_ntop`; unless `strict`, an address that holds one of IPv4 is shown as that alone.
fn ip6(b: [u8; 16], strict: bool) -> String {
    let word = |i: usize| u16::from_be_bytes([b[2 * i], b[2 * i + 1]]);
    let zeros = |n: usize| (0..n).all(|i| word(i) == 0);
    let inner = || ip4([b[12], b[13], b[14], b[15]]);
    if zeros(5) && (word(5) == 0xffff || (word(5) == 0 && word(6) != 0)) {
        let prefix = if word(5) == 0 { "::" } else { "::ffff:" };
        return if strict { format!("{prefix}{}", inner()) } else { inner() };
    }
    // The first of the longest runs of at least two zeros.
    let run = |at: usize| (at..8).take_while(|&i| word(i) == 0).count();
    let best = (0..8).rev().max_by_key(|&at| run(at)).filter(|&at| run(at) > 1);
    let part = |from: usize, to: usize| (from..to).map(|i| format!("{:x}", word(i))).collect::<Vec<_>>().join(":");
    match best {
        Some(at) => format!("{}::{}", part(0, at), part(at + run(at), 8)),
        None => part(0, 8),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(sub: Sub, args: &[Value<'_>]) -> String {
        match call(sub, args) {
            Some(Outcome::Text(text)) => String::from_utf8(text).unwrap(),
            other => format!("{other:?}"),
        }
    }

    fn s(text: &str) -> Value<'_> {
        Value::Bytes(text.as_bytes().into())
    }

    #[test]
    fn paths() {
        for (path, dir, base) in [
            ("/foo/bar///baz/", "/foo/bar", "baz"),
            ("foo/bar/baz/.", "foo/bar/baz", "."),
            ("/", "/", "/"),
            ("//", "/", "/"),
            ("f/", ".", "f"),
            ("/.//", "/", "."),
            ("", ".", "."),
            ("//x", "/", "x"),
        ] {
            assert_eq!(text(Sub::Dirname, &[s(path)]), dir, "{path}");
            assert_eq!(text(Sub::Basename, &[s(path)]), base, "{path}");
        }
        for (path, clean) in [
            ("/foo/bar/baz/../../bop/bang/../../bar/baz/", "/foo/bar/baz"),
            ("/../../..", "/"),
            ("../../..", "../../.."),
            ("a/../..", ".."),
            ("a/..", "."),
            ("", ""),
            ("./", "."),
        ] {
            assert_eq!(text(Sub::Cleanpath, &[s(path)]), clean, "{path}");
        }
    }

    #[test]
    fn numbers() {
        for (n, base, want) in [
            (0, 10, "0"),
            (i64::MIN, 10, "-9223372036854775808"),
            (255, 16, "0xff"),
            (8, 8, "010"),
            (-1, 36, "3w5e11264sgsf"),
        ] {
            assert_eq!(text(Sub::Digits, &[Value::Int(n), Value::Int(base)]), want);
        }
        assert_eq!(call(Sub::Digits, &[Value::Int(1), Value::Int(37)]), Some(Outcome::Illegal));
        for (t, base, want) in [
            (" \t-12x", 10, -12),
            ("0xFf", 16, 255),
            ("z", 36, 35),
            ("9223372036854775808", 10, i64::MAX),
            ("-99999999999999999999999999999999999999999999999999", 10, i64::MIN),
            ("", 10, 0),
        ] {
            assert_eq!(call(Sub::Number, &[s(t), Value::Int(base)]), Some(Outcome::Int(want)), "{t}");
        }
    }

    #[test]
    fn addresses() {
        let six = |words: [u16; 8], strict| ip6(words.map(u16::to_be_bytes).concat().try_into().unwrap(), strict);
        assert_eq!(six([0xfe80, 0, 0, 0, 0x214, 0x4fff, 0xfe0b, 0x76c8], false), "fe80::214:4fff:fe0b:76c8");
        assert_eq!(six([0; 8], false), "::");
        assert_eq!(six([0, 0, 0, 0, 0, 0, 0, 1], true), "::1");
        assert_eq!(six([0, 0, 0, 0, 0, 0, 0x7f00, 1], false), "127.0.0.1");
        assert_eq!(six([0, 0, 0, 0, 0, 0xffff, 0x7f00, 1], true), "::ffff:127.0.0.1");
        assert_eq!(six([1, 0, 0, 2, 0, 0, 3, 0], true), "1::2:0:0:3:0");
        assert_eq!(six([1, 2, 3, 4, 5, 6, 0, 0], true), "1:2:3:4:5:6::");
        assert_eq!(six([1, 0, 3, 4, 5, 6, 7, 0], true), "1:0:3:4:5:6:7:0");
    }
}
