//! Probe descriptions: where one ends, its fields, its macros.
//!
//! A description has no white space, and none of `, { ; "` outside a `[set]` or behind a backslash. A `/` ends it too,
//! because a predicate may follow at once (`tick-1s/pid/`), with one exception: a field whose first character is a `/`
//! is a path, and slashes are part of it. Such a field is told from a predicate by what follows: a path runs up to a
//! `:` without white space or any of `, { ; " ' = < > ! & | ( )`, or is the last field of `-m`. So `uprobe:/bin/x:main:entry` is a
//! path, and `syscall::read:/pid == 1/` is a predicate, and so is anything with a `/` behind the third colon. `*`
//! behind a `/` in a path is a glob, not the beginning of a comment.

use crate::ast::{Field, ProbeSpec, ProbeSpecKind};
use crate::diag::Diagnostic;
use crate::lex::{Lexer, macro_name};
use crate::parse::SpecKind;
use crate::span::Span;
use crate::tags;

/// The longest description a parser takes; the longest possible one names a path, a module and two symbols.
const LONGEST: usize = 16 * 1024;

/// The length of the description that starts the text; 0 where none does.
pub(crate) fn length(text: &str, kind: SpecKind) -> usize {
    let bytes = text.as_bytes();
    let mut i = 0;
    let mut colons = 0;
    let mut field_start = true;
    let mut field = 0;
    let mut in_path = false;
    while let Some(byte) = bytes.get(i) {
        let at_start = std::mem::replace(&mut field_start, false);
        match byte {
            b'\\' if bytes.get(i + 1).is_some_and(|b| !matches!(b, b'\n' | b'\r')) => {
                let escaped = text[i + 1..].chars().next().map_or(1, char::len_utf8);
                i += 1 + escaped;
                continue;
            }
            b':' => {
                colons += 1;
                field_start = true;
                field = i + 1;
                in_path = false;
            }
            b'/' if in_path => {}
            // `./x`, `../x`
            b'/' if matches!(&text[field..i], "." | "..") && is_path(&text[i..], colons, kind) => in_path = true,
            b'/' if at_start && is_path(&text[i..], colons, kind) => in_path = true,
            b'[' => i += set_length(&bytes[i..]) - 1,
            b'$' | b'*' | b'?' | b'!' | b'-' | b'.' | b'_' | b'`' | b'@' | b'+' | b'~' | b'^' | b'%' | b']' => {}
            b if b.is_ascii_alphanumeric() || !b.is_ascii() => {}
            _ => break,
        }
        i += 1;
    }
    i
}

/// The length of a `[set]`, or 1 where the bracket is not closed.
fn set_length(bytes: &[u8]) -> usize {
    let mut i = 1;
    while let Some(byte) = bytes.get(i) {
        match byte {
            b']' if i > 1 => return i + 1,
            b'\\' => i += 2,
            b if b.is_ascii_whitespace() || matches!(b, b'{' | b'}' | b';' | b'"') => return 1,
            _ => i += 1,
        }
    }
    1
}

fn is_path(text: &str, colons: usize, kind: SpecKind) -> bool {
    if colons >= 3 || text.starts_with("//") || text.starts_with("/*") {
        return false;
    }
    let end = text.find(|c: char| c.is_whitespace() || ":,{;\"'=<>!&|()".contains(c)).unwrap_or(text.len());
    if text[end..].starts_with(':') {
        // `/a/` in front of a `::`: a predicate never has a colon there.
        return true;
    }
    let is_last = kind == SpecKind::Module && colons == 1;
    is_last && !text[..end].ends_with('/') && !text[end..].starts_with(['=', '<', '>', '!', '&', '|', '(', ')', '"'])
}

/// Reads the description `lexer.text[lo..hi]`, which [`length`] has found.
pub(crate) fn read(lexer: &mut Lexer<'_>, lo: usize, hi: usize, kind: SpecKind) -> Option<ProbeSpec> {
    let span = lexer.span(lo, hi);
    let written = &lexer.text[lo..hi];
    if written.len() > LONGEST {
        let message = format!("this probe description is longer than {LONGEST} bytes");
        lexer.report(Diagnostic::error(tags::D_PDESC_INVAL, span, message));
        return None;
    }
    let before = lexer.diags.len();
    let text = expand(lexer, written, lo);
    if lexer.diags.len() > before {
        // What a wrong macro stands for would be wrong again.
        return None;
    }
    if let Some(id) = read_id(&text) {
        return match id {
            Some(kind) => Some(ProbeSpec { kind, text, span }),
            None => {
                let message = if text.contains('-') {
                    format!("`{text}` is no range of probe numbers: those count up, from 1")
                } else {
                    format!("`{text}` is no probe number: those are 1 to {}", u32::MAX)
                };
                let first = text.split('-').next().unwrap_or(&text);
                let compat = format!("invalid probe identifier {first}: Unknown probe identifier");
                lexer.report(Diagnostic::error(tags::D_PDESC_INVAL, span, message).dtrace_says(compat));
                None
            }
        };
    }
    if kind == SpecKind::Id {
        // Not a number, it is taken for a name, as DTrace does: none will be called so.
        let empty = Field { text: String::new(), span: Span::new(lexer.source, lo as u32, lo as u32) };
        let kind = ProbeSpecKind::Fields {
            provider: empty.clone(),
            module: empty.clone(),
            function: empty,
            name: Field { text: text.clone(), span },
        };
        return Some(ProbeSpec { kind, text, span });
    }
    // Offsets into the text are places in the source only where no macro has been replaced.
    let base = (text == written).then_some(lo);
    let mut fields = split(&text, base, span);
    let most = kind.fields();
    // Empty fields in front say nothing: `-f ::read:` is `-f :read:`.
    while fields.len() > most && most > 0 && fields[0].text.is_empty() {
        fields.remove(0);
    }
    if fields.len() > most {
        let extra = if most == 4 { "" } else { " after this flag" };
        let unit = if most == 1 { "field" } else { "fields" };
        let message = format!("a probe description has up to {most} {unit}{extra}, `{text}` has {}", fields.len());
        let diag = Diagnostic::error(tags::D_PDESC_INVAL, span, message)
            .dtrace_says(format!("invalid probe description \"{text}\": Overspecified probe description"))
            .help("the fields are provider:module:function:name; write `\\:` for a colon inside one");
        lexer.report(diag);
        return None;
    }
    // Fields fill from the right: the last one written is the one the flag names.
    let empty = Field { text: String::new(), span: Span::new(lexer.source, lo as u32, lo as u32) };
    let mut all: Vec<Field> = vec![empty; most - fields.len()];
    all.append(&mut fields);
    all.resize(4, Field { text: String::new(), span: span.end() });
    let mut all = all.into_iter();
    let mut next = || all.next().unwrap_or_default();
    let kind = ProbeSpecKind::Fields { provider: next(), module: next(), function: next(), name: next() };
    Some(ProbeSpec { kind, text, span })
}

/// `None` where the text is no number or range; `Some(None)` where it is one that cannot be.
fn read_id(text: &str) -> Option<Option<ProbeSpecKind>> {
    let is_number = |t: &str| !t.is_empty() && t.bytes().all(|b| b.is_ascii_digit());
    let number = |t: &str| t.parse::<u32>().ok().filter(|n| *n > 0);
    if is_number(text) {
        return Some(number(text).map(ProbeSpecKind::Id));
    }
    let (first, last) = text.split_once('-')?;
    if !is_number(first) || !is_number(last) {
        return None;
    }
    let range = number(first).zip(number(last)).filter(|(first, last)| first <= last);
    Some(range.map(|(first, last)| ProbeSpecKind::IdRange(first, last)))
}

fn split(text: &str, base: Option<usize>, whole: Span) -> Vec<Field> {
    let mut fields = Vec::new();
    let mut start = 0;
    let mut i = 0;
    let bytes = text.as_bytes();
    let mut push = |start: usize, end: usize| {
        let span = match base {
            Some(lo) => Span::new(whole.source, (lo + start) as u32, (lo + end) as u32),
            None => whole,
        };
        fields.push(Field { text: text[start..end].to_string(), span });
    };
    while let Some(byte) = bytes.get(i) {
        match byte {
            b'\\' => i += 1,
            b'[' => i += set_length(&bytes[i..]) - 1,
            b':' => {
                push(start, i);
                start = i + 1;
            }
            _ => {}
        }
        i += 1;
    }
    push(start, text.len());
    fields
}

/// Replaces `$1`, `$$1`, `$target` in a description.
fn expand(lexer: &mut Lexer<'_>, written: &str, lo: usize) -> String {
    if lexer.options.keep_macros || !written.contains('$') {
        return written.to_string();
    }
    let mut text = String::new();
    let mut i = 0;
    while i < written.len() {
        let rest = &written[i..];
        let quoted = rest.starts_with("$$");
        match macro_name(&rest[usize::from(quoted)..]) {
            Some((name, len)) if !name.is_empty() => {
                let len = len + usize::from(quoted);
                let span = lexer.span(lo + i, lo + i + len);
                text.push_str(&lexer.macro_text(name, quoted, span));
                i += len;
            }
            _ => {
                let c = rest.chars().next().unwrap_or('$');
                text.push(c);
                i += c.len_utf8();
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(text: &str) -> &str {
        &text[..length(text, SpecKind::Name)]
    }

    #[test]
    fn where_a_description_ends() {
        assert_eq!(cut("syscall::read*:entry{}"), "syscall::read*:entry");
        assert_eq!(cut("BEGIN"), "BEGIN");
        assert_eq!(cut("tick-1s/pid/{}"), "tick-1s");
        assert_eq!(cut("tick-1s,END"), "tick-1s");
        assert_eq!(cut("syscall::read:/pid == 1/"), "syscall::read:");
        assert_eq!(cut("a:/x/ {"), "a:");
        assert_eq!(cut("uprobe:/bin/x:main:entry /a/"), "uprobe:/bin/x:main:entry");
        assert_eq!(cut("uprobe:/bin/x:main:entry/a/"), "uprobe:/bin/x:main:entry");
        assert_eq!(cut("uprobe:./x:main:entry{}"), "uprobe:./x:main:entry");
        assert_eq!(cut("uprobe:../y/x:main:entry /a/"), "uprobe:../y/x:main:entry");
        assert_eq!(cut("a:b.c/d == 1/"), "a:b.c");
        assert_eq!(cut("uprobe:/usr/lib/*/libc.so.6:malloc:entry"), "uprobe:/usr/lib/*/libc.so.6:malloc:entry");
        assert_eq!(cut(":::/a/"), ":::");
        assert_eq!(cut("a[!, ]b"), "a[!");
        assert_eq!(cut("a[x,y]:b c"), "a[x,y]:b");
        assert_eq!(cut("a\\:b:c"), "a\\:b:c");
        assert_eq!(cut("BEGIN/* c */"), "BEGIN");
        assert_eq!(cut("pid$target:libc.so.6:malloc:1a{"), "pid$target:libc.so.6:malloc:1a");
        assert_eq!(cut("sdt:sched::sched_switch"), "sdt:sched::sched_switch");
        assert_eq!(cut("{"), "");
        let text = "uprobe:/bin/x /pid/";
        assert_eq!(&text[..length(text, SpecKind::Module)], "uprobe:/bin/x");
        let text = "a:/x/{}";
        assert_eq!(&text[..length(text, SpecKind::Module)], "a:");
    }

    #[test]
    fn numbers() {
        assert_eq!(read_id("12"), Some(Some(ProbeSpecKind::Id(12))));
        assert_eq!(read_id("1-5"), Some(Some(ProbeSpecKind::IdRange(1, 5))));
        assert_eq!(read_id("5-1"), Some(None));
        assert_eq!(read_id("0"), Some(None));
        assert_eq!(read_id("99999999999"), Some(None));
        assert_eq!(read_id("tick-1"), None);
        assert_eq!(read_id("a-b"), None);
    }
}
