//! Control lines: `#pragma D …`, `#error`, and what is left of the preprocessor's. Numbering lines is
//! [`crate::span`]'s; what an option means is others'.

use crate::ast::{Name, Pragma, PragmaKind};
use crate::diag::{Diagnostic, near};
use crate::span::Span;
use crate::tags;

const D_PRAGMAS: &[&str] = &["attributes", "binding", "depends_on", "error", "ident", "line", "option"];

/// The parts of a provider that have attributes.
const PARTS: &[&str] = &["provider", "module", "function", "name", "args"];

/// Reads the control line at `span`, which begins with `#`. Lines that mean nothing give neither.
pub(crate) fn read(text: &str, span: Span) -> (Option<Pragma>, Option<Diagnostic>) {
    let line = text.get(span.range()).unwrap_or("");
    if line.starts_with("#!") {
        return (None, None);
    }
    let words = split(line, span);
    let Some(first) = words.first() else { return (None, None) };
    let whole = words.last().map_or(span, |last| Span { hi: last.span.hi, ..span });
    let malformed = |message: String, form: &str| {
        (None, Some(Diagnostic::error(tags::D_PRAGMA_MALFORM, whole, message).help(format!("write `{form}`"))))
    };
    let keyword = first.text.as_str();
    if keyword.starts_with(|c: char| c.is_ascii_digit()) || keyword == "ident" {
        return (None, None);
    }
    if keyword == "line" {
        let is_number = words.get(1).is_some_and(|w| w.text.parse::<u32>().is_ok());
        return if is_number { (None, None) } else { malformed("malformed `#line`".into(), "#line NUMBER \"FILE\"") };
    }
    if keyword == "error" {
        return error(line, whole, &words, 1);
    }
    if keyword != "pragma" {
        let message = format!("`#{keyword}` is no control line of D");
        let mut diag = Diagnostic::error(tags::D_PRAGCTL_INVAL, whole, message)
            .dtrace_says(format!("invalid control directive: #{keyword}"));
        if matches!(keyword, "define" | "undef" | "include" | "if" | "ifdef" | "ifndef" | "elif" | "else" | "endif") {
            diag = diag.help("run the C preprocessor over the program with -C");
        }
        return (None, Some(diag));
    }
    if words.get(1).is_none_or(|w| w.text != "D") {
        // Pragmas of other compilers.
        return (None, None);
    }
    let Some(name) = words.get(2) else {
        return malformed("this pragma says nothing".into(), "#pragma D option NAME");
    };
    let args = &words[3..];
    let kind = match (name.text.as_str(), args) {
        ("option", [option]) => option_kind(option),
        ("option", _) => return malformed("`#pragma D option` takes one option".into(), "#pragma D option NAME=VALUE"),
        ("attributes", [attributes, subject @ ..]) if !subject.is_empty() => {
            if crate::attributes::Attributes::parse(&attributes.text).is_none() {
                let message = format!("`{}` are no attributes", attributes.text);
                let diag = Diagnostic::error(tags::D_PRAGMA_INVAL, attributes.span, message);
                return (None, Some(diag.help("write two stabilities and a class, such as `Stable/Stable/Common`")));
            }
            if let [provider, _, part] = subject
                && provider.text == "provider"
                && !PARTS.contains(&part.text.as_str())
            {
                let message = format!("`{}` is no part of a provider", part.text);
                let diag = Diagnostic::error(tags::D_PRAGMA_INVAL, part.span, message);
                return (None, Some(diag.help(format!("its parts are {}", PARTS.join(", ")))));
            }
            PragmaKind::Attributes { attributes: attributes.clone(), subject: subject.to_vec() }
        }
        ("attributes", _) => {
            let message = "`#pragma D attributes` takes a stability triplet and a name".to_string();
            return malformed(message, "#pragma D attributes Stable/Stable/Common NAME");
        }
        ("binding", [version, _]) if !is_version(&version.text) => {
            let message = format!("`{}` is no version", version.text);
            return (
                None,
                Some(Diagnostic::error(tags::D_PRAGMA_INVAL, version.span, message).help("write `1.2` or `1.2.3`")),
            );
        }
        ("binding", [version, name]) => PragmaKind::Binding { version: version.clone(), name: name.clone() },
        ("binding", _) => {
            let message = "`#pragma D binding` takes a version and a name".to_string();
            return malformed(message, "#pragma D binding \"1.0\" NAME");
        }
        ("depends_on", [class, _]) if !matches!(class.text.as_str(), "library" | "module" | "provider") => {
            let message = format!("`{}` is nothing that a program could depend on", class.text);
            let diag = Diagnostic::error(tags::D_PRAGMA_INVAL, class.span, message);
            return (None, Some(diag.help("it is `library`, `module` or `provider`")));
        }
        ("depends_on", [class, name]) => PragmaKind::DependsOn { class: class.clone(), name: name.clone() },
        ("depends_on", _) => {
            let message = "`#pragma D depends_on` takes a class and a name".to_string();
            return malformed(message, "#pragma D depends_on library FILE");
        }
        ("error", _) => return error(line, whole, &words, 3),
        ("ident" | "line", _) => return (None, None),
        (other, _) => {
            let diag = Diagnostic::error(tags::D_PRAGMA_INVAL, name.span, format!("`{other}` is no pragma of D"));
            let diag = match near(other, D_PRAGMAS.iter().copied()) {
                Some(likely) => diag.suggest(name.span, likely, format!("did you mean `{likely}`?")),
                None => diag,
            };
            return (None, Some(diag));
        }
    };
    (Some(Pragma { kind, span: whole }), None)
}

fn is_version(text: &str) -> bool {
    let parts: Vec<&str> = text.split('.').collect();
    matches!(parts.len(), 2 | 3) && parts.iter().all(|p| p.parse::<u16>().is_ok())
}

fn option_kind(option: &Name) -> PragmaKind {
    let Some(equals) = option.text.find('=') else {
        return PragmaKind::Option { name: option.clone(), value: None };
    };
    // Where quotes have been taken off, offsets into the word are no places in the line.
    let exact = option.text.len() == option.span.range().len();
    let place = |lo: usize, hi: usize| {
        let Span { source, lo: start, .. } = option.span;
        if exact { Span::new(source, start + lo as u32, start + hi as u32) } else { option.span }
    };
    let name = Name { text: option.text[..equals].into(), span: place(0, equals) };
    let value = Name { text: option.text[equals + 1..].into(), span: place(equals + 1, option.text.len()) };
    PragmaKind::Option { name, value: Some(value) }
}

fn error(line: &str, whole: Span, words: &[Name], skip: usize) -> (Option<Pragma>, Option<Diagnostic>) {
    let text = words.get(skip).map_or("", |w| line.get((w.span.lo - whole.lo) as usize..).unwrap_or("")).trim_end();
    let diag = Diagnostic::error(tags::D_PRAGERR, whole, format!("#error: {text}"));
    (Some(Pragma { kind: PragmaKind::Error(text.into()), span: whole }), Some(diag))
}

/// The words behind the `#`; quotes group and are taken off, a comment ends the line.
fn split(line: &str, span: Span) -> Vec<Name> {
    let mut words = Vec::new();
    let mut chars = line.char_indices().skip(1).peekable();
    while let Some((start, c)) = chars.next() {
        if c.is_whitespace() {
            continue;
        }
        if line[start..].starts_with("/*") || line[start..].starts_with("//") {
            break;
        }
        let mut text = String::new();
        let mut quoted = c == '"';
        let mut end = start + c.len_utf8();
        if !quoted {
            text.push(c);
        }
        while let Some((at, c)) = chars.peek().copied() {
            if c.is_whitespace() && !quoted {
                break;
            }
            if c == '"' {
                quoted = !quoted;
            } else {
                text.push(c);
            }
            end = at + c.len_utf8();
            chars.next();
        }
        let span = Span::new(span.source, span.lo + start as u32, span.lo + end as u32);
        words.push(Name { text, span });
    }
    words
}
