//! Bytes to tokens, on demand: the parser asks for the token at a place, because what a character means depends on
//! whether a probe description, an expression or a control line is being read there. Looking at a place twice is
//! harmless. Owns white space, comments, constants and the replacement of macros in expressions.

use std::collections::BTreeSet;

use crate::ast::{CharLit, FloatKind, FloatLit, IntLit, Macro};
use crate::diag::{Diagnostic, near};
use crate::macros::{self, Replacement, Undefined};
use crate::parse::ParseOptions;
use crate::span::{SourceId, Span};
use crate::tags;
use crate::token::{P, Tok, Token};

/// The text being read, and what was met on the way.
pub(crate) struct Lexer<'a> {
    pub(crate) text: &'a str,
    pub(crate) source: SourceId,
    pub(crate) options: &'a ParseOptions<'a>,
    pub(crate) diags: Vec<Diagnostic>,
    /// In order; each once.
    pub(crate) comments: Vec<Span>,
    /// Control lines from `#` to the end of the line, in order; each once.
    pub(crate) controls: Vec<Span>,
    pub(crate) args_used: BTreeSet<u32>,
    /// Errors in front of this place have been reported: a second look at the same text says nothing.
    reported: u32,
    /// Text that is only skipped is not reported on.
    pub(crate) quiet: bool,
}

impl<'a> Lexer<'a> {
    pub(crate) fn new(text: &'a str, source: SourceId, options: &'a ParseOptions<'a>) -> Lexer<'a> {
        Lexer {
            text,
            source,
            options,
            diags: Vec::new(),
            comments: Vec::new(),
            controls: Vec::new(),
            args_used: BTreeSet::new(),
            reported: 0,
            quiet: false,
        }
    }

    pub(crate) fn span(&self, lo: usize, hi: usize) -> Span {
        Span::new(self.source, lo as u32, hi as u32)
    }

    pub(crate) fn rest(&self, pos: usize) -> &'a str {
        self.text.get(pos..).unwrap_or("")
    }

    /// Reports an error of the text at `diag`'s place, once.
    pub(crate) fn report(&mut self, diag: Diagnostic) {
        if self.quiet {
            return;
        }
        let hi = diag.span.map_or(0, |s| s.hi.max(s.lo + 1));
        if hi > self.reported {
            self.reported = hi;
            self.diags.push(diag);
        }
    }

    /// The first place at or after `pos` that is no white space, comment or control line.
    pub(crate) fn skip_trivia(&mut self, mut pos: usize) -> usize {
        loop {
            let rest = self.rest(pos);
            let Some(first) = rest.chars().next() else { return pos };
            if first.is_ascii_whitespace() || first == '\u{b}' {
                pos += 1;
            } else if rest.starts_with("\\\n") || rest.starts_with("\\\r\n") {
                pos += rest.find('\n').map_or(1, |n| n + 1);
            } else if let Some(inside) = rest.strip_prefix("/*") {
                let end = match inside.find("*/") {
                    Some(n) => pos + 2 + n + 2,
                    None => {
                        let span = self.span(pos, pos + 2);
                        let diag = Diagnostic::error(tags::D_SYNTAX, span, "this comment is not closed")
                            .dtrace_at(self.span(self.text.len(), self.text.len()))
                            .dtrace_says("end-of-file encountered before matching */")
                            .help("close it with `*/`");
                        self.report(diag);
                        self.text.len()
                    }
                };
                self.note_comment(pos, end);
                pos = end;
            } else if rest.starts_with("//") {
                let end = pos + line_length(rest);
                self.note_comment(pos, end);
                pos = end;
            } else if first == '#' && self.at_line_start(pos) {
                let end = pos + line_length(rest);
                let span = self.span(pos, end);
                if end == self.text.len() && !rest.starts_with("#!") {
                    let message = "the text ends within this control line";
                    let diag = Diagnostic::error(tags::D_SYNTAX, span, message)
                        .dtrace_says("end-of-file encountered before end of control line")
                        .help("end the line");
                    self.report(diag);
                }
                if self.controls.last().is_none_or(|last| last.lo < span.lo) {
                    self.controls.push(span);
                }
                pos = end;
            } else {
                return pos;
            }
        }
    }

    fn note_comment(&mut self, lo: usize, hi: usize) {
        let span = self.span(lo, hi);
        if self.comments.last().is_none_or(|last| last.lo < span.lo) {
            self.comments.push(span);
        }
    }

    fn at_line_start(&self, pos: usize) -> bool {
        let line = self.text[..pos].rfind('\n').map_or(0, |n| n + 1);
        self.text[line..pos].bytes().all(|b| b.is_ascii_whitespace() || b == b'\x0b')
    }

    /// The token at or after `pos`.
    pub(crate) fn token(&mut self, pos: usize) -> Token {
        let pos = self.skip_trivia(pos);
        let rest = self.rest(pos);
        let Some(first) = rest.chars().next() else {
            return Token { kind: Tok::Eof, span: self.span(pos, pos) };
        };
        let (kind, len) = match first {
            '0'..='9' => self.number(pos),
            '.' if rest[1..].starts_with(|c: char| c.is_ascii_digit()) => self.number(pos),
            'a'..='z' | 'A'..='Z' | '_' | '`' => self.ident(pos),
            '"' => self.string(pos),
            '\'' => self.character(pos),
            '@' => {
                let len = ident_length(&rest[1..]);
                (Tok::Agg(rest[1..1 + len].to_string()), 1 + len)
            }
            '$' => self.macro_token(pos),
            _ => match P::at(rest) {
                Some(punct) => (Tok::Punct(punct), punct.text().len()),
                None => (Tok::Unknown, first.len_utf8()),
            },
        };
        Token { kind, span: self.span(pos, pos + len) }
    }

    /// An identifier with its backquotes; macros may stand between those: `` pid$target`lib`sym ``.
    fn ident(&mut self, pos: usize) -> (Tok, usize) {
        let rest = self.rest(pos);
        let mut len = symbol_length(rest);
        let mut text = rest[..len].to_string();
        while let Some((name, macro_len)) = macro_name(&rest[len..]) {
            let after = &rest[len + macro_len..];
            if name.is_empty() || !after.starts_with('`') {
                break;
            }
            if self.options.keep_macros {
                text.push_str(&rest[len..len + macro_len]);
            } else {
                let span = self.span(pos + len, pos + len + macro_len);
                text.push_str(&self.macro_text(name, false, span));
            }
            let more = symbol_length(after);
            text.push_str(&after[..more]);
            len += macro_len + more;
        }
        (Tok::Ident(text), len)
    }

    fn number(&mut self, pos: usize) -> (Tok, usize) {
        let rest = self.rest(pos);
        let word = rest.bytes().take_while(|b| b.is_ascii_alphanumeric() || *b == b'_').count();
        if rest[word..].starts_with('`') {
            return self.ident(pos);
        }
        if let Some(len) = float_length(rest) {
            return self.float(pos, len);
        }
        let text = &rest[..word];
        let span = self.span(pos, pos + word);
        let int = match macros::parse_int(text) {
            Ok(int) => int,
            Err(bad) => {
                let message = format!("`{bad}` cannot be part of the integer constant `{text}`");
                // As in DTrace, where a letter ends the constant and what follows is out of place.
                let tag = if bad.is_ascii_digit() { tags::D_INT_DIGIT } else { tags::D_SYNTAX };
                self.report(Diagnostic::error(tag, span, message));
                zero()
            }
        };
        if int.overflow {
            let message = format!("the constant `{text}` does not fit in 64 bits");
            self.report(Diagnostic::error(tags::D_INT_OFLOW, span, message));
        }
        (Tok::Int(int), word)
    }

    fn float(&mut self, pos: usize, len: usize) -> (Tok, usize) {
        let rest = self.rest(pos);
        let digits = &rest[..len];
        let (kind, suffix) = match rest.as_bytes().get(len) {
            Some(b'f' | b'F') => (FloatKind::Float, 1),
            Some(b'l' | b'L') => (FloatKind::LongDouble, 1),
            _ => (FloatKind::Double, 0),
        };
        let extra = rest[len + suffix..].bytes().take_while(|b| b.is_ascii_alphanumeric() || *b == b'_').count();
        let total = len + suffix + extra;
        if extra > 0 {
            let message = format!("`{}` is no floating-point constant", &rest[..total]);
            let span = self.span(pos, pos + total);
            self.report(Diagnostic::error(tags::D_SYNTAX, span, message));
        }
        // Rounded once, to its own type.
        let value = match kind {
            FloatKind::Float => digits.parse::<f32>().map_or(0.0, f64::from),
            _ => digits.parse().unwrap_or(0.0),
        };
        (Tok::Float(FloatLit { value, kind }), total)
    }

    fn string(&mut self, pos: usize) -> (Tok, usize) {
        let rest = self.rest(pos);
        match quoted_length(rest, b'"') {
            Ok(len) => (Tok::Str(unescape(&rest[1..len - 1])), len),
            Err(len) => {
                let span = self.span(pos, pos + len);
                let (tag, message) = if len == rest.len() {
                    (tags::D_SYNTAX, "this string is not closed before the end of the text")
                } else {
                    (tags::D_STR_NL, "this string is not closed before the end of the line")
                };
                let next = self.span(pos + len + 1, pos + len + 1);
                self.report(Diagnostic::error(tag, span, message).dtrace_at(next).help("close it with `\"`"));
                (Tok::Str(unescape(&rest[1..len])), len)
            }
        }
    }

    fn character(&mut self, pos: usize) -> (Tok, usize) {
        let rest = self.rest(pos);
        let (bytes, len) = match quoted_length(rest, b'\'') {
            Ok(len) => (unescape(&rest[1..len - 1]), len),
            Err(len) => {
                let message = "this character constant is not closed before the end of the line";
                let span = self.span(pos, pos + len);
                let next = self.span(pos + len + 1, pos + len + 1);
                let diag = Diagnostic::error(tags::D_CHR_NL, span, message).dtrace_at(next);
                self.report(diag.help("close it with `'`"));
                return (Tok::Char(CharLit { value: 0, bytes: 1 }), len);
            }
        };
        let span = self.span(pos, pos + len);
        if bytes.is_empty() {
            self.report(Diagnostic::error(tags::D_CHR_NULL, span, "a character constant cannot be empty"));
        } else if bytes.len() > 8 {
            let message = format!("a character constant holds up to 8 bytes, this one has {}", bytes.len());
            self.report(Diagnostic::error(tags::D_CHR_OFLOW, span, message).help("write a string: `\"…\"`"));
        }
        let value = bytes.iter().take(8).fold(0u64, |value, byte| value << 8 | u64::from(*byte));
        (Tok::Char(CharLit { value, bytes: bytes.len().clamp(1, 8) as u8 }), len)
    }

    fn macro_token(&mut self, pos: usize) -> (Tok, usize) {
        let rest = self.rest(pos);
        let quoted = rest.starts_with("$$");
        let (name, len) = match macro_name(&rest[usize::from(quoted)..]) {
            Some((name, len)) if !name.is_empty() => (name, len + usize::from(quoted)),
            _ => return (Tok::Unknown, 1 + usize::from(quoted)),
        };
        if self.options.keep_macros {
            return (Tok::Macro(Macro { name: name.to_string(), quoted }), len);
        }
        let span = self.span(pos, pos + len);
        let text = self.macro_text(name, quoted, span);
        if quoted {
            return (Tok::Str(unescape(&text)), len);
        }
        let kind = match macros::replacement(&text) {
            Replacement::Int(int) => {
                if int.overflow {
                    let message = format!("the value of `${name}`, `{text}`, does not fit in 64 bits");
                    let what = if name.bytes().all(|b| b.is_ascii_digit()) { "argument" } else { "variable" };
                    let compat = format!("macro {what} ${name} constant {text} results in integer overflow");
                    self.report(Diagnostic::error(tags::D_MACRO_OFLOW, span, message).dtrace_says(compat));
                }
                Tok::Int(int)
            }
            Replacement::Ident(word) => Tok::Ident(word),
            Replacement::String(text) => Tok::Str(unescape(&text)),
        };
        (kind, len)
    }

    /// The text that replaces a macro; `0` after an error.
    pub(crate) fn macro_text(&mut self, name: &str, quoted: bool, span: Span) -> String {
        if let Ok(index) = name.parse::<u32>() {
            self.args_used.insert(index);
        }
        let undefined = match self.options.macros.text(name, quoted) {
            Ok(text) => return text,
            Err(undefined) => undefined,
        };
        let sigil = if quoted { "$$" } else { "$" };
        let diag = match undefined {
            Undefined::Argument => {
                let message = format!("macro argument `{sigil}{name}` is not defined");
                Diagnostic::error(tags::D_MACRO_UNDEF, span, message)
                    .help("give an argument for it, or use -x defaultargs to take 0 or \"\" for those that are missing")
            }
            Undefined::Target => {
                let message = format!("macro variable `{sigil}target` is not defined");
                Diagnostic::error(tags::D_MACRO_UNDEF, span, message).help("name the process with -p or -c")
            }
            Undefined::Name => {
                let message = format!("macro variable `{sigil}{name}` is not defined");
                let diag = Diagnostic::error(tags::D_MACRO_UNDEF, span, message);
                match near(name, macros::NAMES.iter().copied()) {
                    Some(likely) => {
                        diag.suggest(span, format!("{sigil}{likely}"), format!("did you mean `{sigil}{likely}`?"))
                    }
                    None => diag,
                }
            }
        };
        self.report(diag);
        "0".into()
    }
}

fn zero() -> IntLit {
    IntLit { value: 0, base: crate::ast::Base::Decimal, unsigned: false, longs: 0, overflow: false, negative: false }
}

fn line_length(rest: &str) -> usize {
    rest.find('\n').unwrap_or(rest.len())
}

/// Length of the identifier that `text` starts with.
pub(crate) fn ident_length(text: &str) -> usize {
    if text.starts_with(|c: char| c.is_ascii_digit()) {
        return 0;
    }
    text.bytes().take_while(|b| b.is_ascii_alphanumeric() || *b == b'_').count()
}

fn symbol_length(text: &str) -> usize {
    text.bytes().take_while(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'`')).count()
}

/// The macro's name and the length with its one `$`, where `text` starts with one; the name may be empty.
pub(crate) fn macro_name(text: &str) -> Option<(&str, usize)> {
    let rest = text.strip_prefix('$')?;
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    let len = if digits > 0 { digits } else { ident_length(rest) };
    Some((&rest[..len], 1 + len))
}

/// The length of the floating-point constant that `text` starts with, suffix left out; `None` where it is an integer.
fn float_length(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let digits = |from: usize| bytes[from..].iter().take_while(|b| b.is_ascii_digit()).count();
    let whole = digits(0);
    let mut len = whole;
    let mut is_float = false;
    if bytes.get(len) == Some(&b'.') && bytes.get(len + 1) != Some(&b'.') {
        let fraction = digits(len + 1);
        let next = bytes.get(len + 1 + fraction);
        let names_a_member = fraction == 0
            && next.is_some_and(|b| (b.is_ascii_alphabetic() && !b"eEfFlL".contains(b)) || *b == b'_' || *b == b'`');
        if !names_a_member {
            len += 1 + fraction;
            is_float = whole + fraction > 0;
        }
    }
    if matches!(bytes.get(len), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(len + 1), Some(b'+' | b'-')));
        if bytes.len() > len + 1 + sign {
            let exponent = digits(len + 1 + sign);
            if exponent > 0 {
                len += 1 + sign + exponent;
                is_float = true;
            }
        }
    }
    is_float.then_some(len)
}

/// The length of the quoted text that `text` starts with, quotes included; the error is how far it was looked for.
fn quoted_length(text: &str, quote: u8) -> Result<usize, usize> {
    let bytes = text.as_bytes();
    let mut i = 1;
    while let Some(byte) = bytes.get(i) {
        match byte {
            b'\n' => return Err(i),
            b'\\' if bytes.get(i + 1).is_some_and(u8::is_ascii) => i += 2,
            b if *b == quote => return Ok(i + 1),
            _ => i += 1,
        }
    }
    Err(text.len())
}

/// Replaces C's escapes. An unknown one stays as it is, backslash included; a backslash before a line end joins lines.
pub(crate) fn unescape(text: &str) -> Vec<u8> {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut i = 0;
    while let Some(byte) = bytes.get(i) {
        i += 1;
        if *byte != b'\\' {
            out.push(*byte);
            continue;
        }
        let Some(escape) = bytes.get(i) else {
            out.push(b'\\');
            break;
        };
        i += 1;
        match escape {
            b'0'..=b'7' => {
                let mut value = u32::from(escape - b'0');
                for _ in 0..2 {
                    let Some(digit @ b'0'..=b'7') = bytes.get(i) else { break };
                    value = value * 8 + u32::from(digit - b'0');
                    i += 1;
                }
                out.push(value as u8);
            }
            b'x' => {
                let mut value = 0u32;
                let mut any = false;
                while let Some(digit) = bytes.get(i).and_then(|b| (*b as char).to_digit(16)) {
                    value = value << 4 | digit;
                    any = true;
                    i += 1;
                }
                if any {
                    out.push(value as u8);
                } else {
                    out.extend(b"\\x");
                }
            }
            b'a' => out.push(7),
            b'b' => out.push(8),
            b'f' => out.push(12),
            b'n' => out.push(b'\n'),
            b'r' => out.push(b'\r'),
            b't' => out.push(b'\t'),
            b'v' => out.push(11),
            b'"' | b'\\' | b'\'' | b'?' => out.push(*escape),
            b'\n' => {}
            _ => out.extend([b'\\', *escape]),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes() {
        assert_eq!(unescape(r#"a\n\t\"\\\101\x41\q"#), b"a\n\t\"\\AA\\q");
        assert_eq!(unescape("\\"), b"\\");
        assert_eq!(unescape("\\x"), b"\\x");
        assert_eq!(unescape("\\777"), [0xff]);
    }

    #[test]
    fn floats_and_integers_are_told_apart() {
        assert_eq!(float_length("1.5f"), Some(3));
        assert_eq!(float_length("1e9"), Some(3));
        assert_eq!(float_length("1e+9"), Some(4));
        assert_eq!(float_length(".5"), Some(2));
        assert_eq!(float_length("1."), Some(2));
        assert_eq!(float_length("1...2"), None);
        assert_eq!(float_length("0x1e9"), None);
        assert_eq!(float_length("12"), None);
        assert_eq!(float_length("1e"), None);
    }
}
