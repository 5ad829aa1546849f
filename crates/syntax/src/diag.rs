//! What is wrong with a program, as data: every phase of the compiler makes these, [`crate::render`] shows them.
//! Owns the type and the look-up of similar names; holds no text of any phase.

use crate::span::Span;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Severity {
    /// For information.
    Note,
    /// The program runs, but probably not as meant.
    Warning,
    /// The program does not run.
    Error,
}

/// One thing that is wrong with a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// How bad it is.
    pub severity: Severity,
    /// DTrace's name for it, such as `D_PROTO_LEN`; see [`crate::tags`].
    pub tag: &'static str,
    /// The place, where there is one.
    pub span: Option<Span>,
    /// One sentence without a full stop, beginning in lower case, that makes sense without the source line.
    pub message: String,
    /// Where DTrace's layout counts lines, if not at `span`: DTrace finds some mistakes only when it has read on.
    pub dtrace_at: Option<Span>,
    /// What is said under the marked place in the pretty form; empty repeats nothing.
    pub label: String,
    /// The part of a clause that DTrace's layout names (`action list`, `predicate`) where there is no line number.
    pub region: Option<&'static str>,
    /// More about it, each with its place if it has one.
    pub notes: Vec<Note>,
    /// Names and values that DTrace's layout has in lines below the message: `prototype`, `argument`. They are set right below each
    /// other, unless a name begins with a blank.
    pub facts: Vec<(String, String)>,
    /// What to do about it.
    pub help: Option<String>,
    /// An edit that would mend it.
    pub suggestion: Option<Suggestion>,
    /// The message in DTrace's layout, where its wording is what scripts know it by.
    pub dtrace_message: Option<String>,
}

/// A remark that belongs to a diagnostic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// The place it is about.
    pub span: Option<Span>,
    /// One sentence without a full stop.
    pub message: String,
}

/// An edit of the source text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Suggestion {
    /// What goes away; empty to insert only.
    pub span: Span,
    /// What comes instead.
    pub replacement: String,
    /// What the edit does: "use `execname`".
    pub message: String,
}

impl Diagnostic {
    /// An error, with nothing but the message.
    pub fn error(tag: &'static str, span: impl Into<Option<Span>>, message: impl Into<String>) -> Diagnostic {
        Diagnostic {
            severity: Severity::Error,
            tag,
            span: span.into(),
            message: message.into(),
            dtrace_at: None,
            label: String::new(),
            region: None,
            notes: Vec::new(),
            facts: Vec::new(),
            help: None,
            suggestion: None,
            dtrace_message: None,
        }
    }

    /// A warning, with nothing but the message.
    pub fn warning(tag: &'static str, span: impl Into<Option<Span>>, message: impl Into<String>) -> Diagnostic {
        Diagnostic { severity: Severity::Warning, ..Diagnostic::error(tag, span, message) }
    }

    /// Says something under the marked place.
    pub fn label(mut self, text: impl Into<String>) -> Diagnostic {
        self.label = text.into();
        self
    }

    /// Says where DTrace's layout counts lines.
    pub fn dtrace_at(mut self, span: Span) -> Diagnostic {
        self.dtrace_at = Some(span);
        self
    }

    /// Names the part of the clause.
    pub fn region(mut self, region: &'static str) -> Diagnostic {
        self.region = Some(region);
        self
    }

    /// Adds a remark.
    pub fn note(mut self, span: impl Into<Option<Span>>, message: impl Into<String>) -> Diagnostic {
        self.notes.push(Note { span: span.into(), message: message.into() });
        self
    }

    /// Adds a line of DTrace's layout.
    pub fn fact(mut self, name: impl Into<String>, value: impl Into<String>) -> Diagnostic {
        self.facts.push((name.into(), value.into()));
        self
    }

    /// Says what to do about it.
    pub fn help(mut self, message: impl Into<String>) -> Diagnostic {
        self.help = Some(message.into());
        self
    }

    /// Offers an edit.
    pub fn suggest(mut self, span: Span, replacement: impl Into<String>, message: impl Into<String>) -> Diagnostic {
        self.suggestion = Some(Suggestion { span, replacement: replacement.into(), message: message.into() });
        self
    }

    /// What DTrace's layout says instead of the message.
    pub fn dtrace_says(mut self, message: impl Into<String>) -> Diagnostic {
        self.dtrace_message = Some(message.into());
        self
    }

    /// Whether the program cannot run because of it.
    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }
}

/// The candidate that `name` was probably meant to be: the nearest by edits (a swap of two neighbours counts once),
/// no further away than a third of the name's length. The first of several equally near ones.
pub fn near<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let wanted: Vec<char> = name.chars().take(64).collect();
    let limit = (wanted.len() / 3).max(1);
    let mut best: Option<(usize, &str)> = None;
    for candidate in candidates {
        let given: Vec<char> = candidate.chars().take(64).collect();
        if given.len().abs_diff(wanted.len()) > limit || candidate == name {
            continue;
        }
        let cost = if candidate.eq_ignore_ascii_case(name) { 0 } else { edits(&wanted, &given) };
        // A one-letter name is within one edit of every other one: that is no likeness.
        if cost <= limit && cost < wanted.len().max(given.len()) && best.is_none_or(|(least, _)| cost < least) {
            best = Some((cost, candidate));
        }
    }
    best.map(|(_, candidate)| candidate)
}

/// How far apart two names are: insertions, losses, changes and swaps of neighbours, as slips of the fingers go. Letters' case
/// is free. `usize::MAX` where it is not worth knowing: names are foreign, and the comparison is quadratic.
pub fn distance(a: &str, b: &str) -> usize {
    let lower = |text: &str| -> Vec<char> { text.chars().take(129).flat_map(char::to_lowercase).collect() };
    let (a, b) = (lower(a), lower(b));
    if a.len().abs_diff(b.len()) > 8 || a.len() > 128 {
        return usize::MAX;
    }
    edits(&a, &b)
}

/// Optimal string alignment distance.
fn edits(a: &[char], b: &[char]) -> usize {
    let mut before_last: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i; b.len() + 1];
        for j in 1..=b.len() {
            let change = last[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            row[j] = change.min(last[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                row[j] = row[j].min(before_last[j - 2] + 1);
            }
        }
        before_last = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_close() {
        let cases =
            [("read", "read", 0), ("raed", "read", 1), ("opn", "open", 1), ("Begin", "BEGIN", 0), ("", "abc", 3)];
        for (a, b, far) in cases {
            assert_eq!((distance(a, b), distance(b, a)), (far, far), "{a} {b}");
        }
        assert_eq!(distance("", "123456789"), usize::MAX);
    }

    #[test]
    fn near_finds_the_likely_name() {
        let names = ["execname", "probefunc", "timestamp", "pid", "ppid", "tid"];
        assert_eq!(near("exename", names), Some("execname"));
        assert_eq!(near("probefnuc", names), Some("probefunc"));
        assert_eq!(near("PID", names), Some("pid"));
        assert_eq!(near("zzzzzz", names), None);
        assert_eq!(near("x", ["y", "z"]), None);
        assert_eq!(near("pid", ["pid"]), None, "an equal name is no suggestion");
        assert_eq!(near("", names), None);
    }
}
