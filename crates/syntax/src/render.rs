//! Diagnostics as text, in two layouts: with the source line and marks, as people want it, and as DTrace writes it,
//! as scripts expect it. JSON is made elsewhere, of the public fields.

use annotate_snippets::renderer::DecorStyle;
use annotate_snippets::{AnnotationKind, Group, Level, Patch, Renderer, Snippet, normalize_untrusted_str};

use crate::diag::{Diagnostic, Severity};
use crate::span::{Origin, Sources, Span};

/// The part of a source text in which line numbers run on: the whole of it, or what is between two line markers.
struct Window<'a> {
    text: &'a str,
    /// Offset of `text` in the source.
    base: usize,
    line: u32,
    name: &'a str,
}

impl Window<'_> {
    /// Offsets into the window's text, moved onto character boundaries; a place at the very end stays there.
    fn range(&self, span: Span) -> std::ops::Range<usize> {
        let boundary = |offset: u32| {
            let mut at = (offset as usize).saturating_sub(self.base).min(self.text.len());
            while !self.text.is_char_boundary(at) {
                at -= 1;
            }
            at
        };
        let lo = boundary(span.lo);
        lo..boundary(span.hi).max(lo)
    }
}

fn window(sources: &Sources, span: Span) -> Option<Window<'_>> {
    let source = sources.get(span.source)?;
    let before = source.markers.partition_point(|marker| marker.at <= span.lo);
    let base = before.checked_sub(1).map_or(0, |i| source.markers[i].at);
    let end = source.markers.get(before).map_or(source.text.len(), |marker| marker.at as usize);
    let (name, line) = source.name_and_line(base);
    Some(Window { text: source.text.get(base as usize..end)?, base: base as usize, line, name })
}

/// With the source line, the place marked, notes, help and the edit that would mend it: several lines, without a line
/// end behind the last. `colour` adds the terminal's escapes.
pub fn render_pretty(diag: &Diagnostic, sources: &Sources, colour: bool) -> String {
    let (level, title) = match diag.severity {
        Severity::Error => (Level::ERROR, &diag.message),
        Severity::Warning => (Level::WARNING, &diag.message),
        Severity::Note => (Level::NOTE, &diag.message),
    };
    let title = level.primary_title(normalize_untrusted_str(title));
    let title = if diag.tag.is_empty() { title } else { title.id(diag.tag) };
    let mut groups = Vec::new();
    let mut group = Group::with_title(title);
    let main = diag.span.and_then(|span| Some((span, window(sources, span)?)));
    let mut elsewhere = Vec::new();
    let mut plain = Vec::new();
    if let Some((span, window)) = &main {
        let label = (!diag.label.is_empty()).then(|| normalize_untrusted_str(&diag.label));
        let mut snippet = snippet(window).annotation(AnnotationKind::Primary.span(window.range(*span)).label(label));
        for note in &diag.notes {
            let Some(place) = note.span else { continue };
            let nearby = self::window(sources, place).is_some_and(|w| w.base == window.base);
            if place.source == span.source && nearby {
                let label = normalize_untrusted_str(&note.message);
                snippet = snippet.annotation(AnnotationKind::Context.span(window.range(place)).label(label));
            } else {
                elsewhere.push(note);
            }
        }
        group = group.element(snippet);
    } else {
        elsewhere.extend(diag.notes.iter().filter(|note| note.span.is_some()));
    }
    plain.extend(diag.notes.iter().filter(|note| note.span.is_none()));
    for note in plain {
        group = group.element(Level::NOTE.message(normalize_untrusted_str(&note.message)));
    }
    if let Some(help) = &diag.help {
        group = group.element(Level::HELP.message(normalize_untrusted_str(help)));
    }
    groups.push(group);
    for note in elsewhere {
        let mut group = Group::with_title(Level::NOTE.secondary_title(normalize_untrusted_str(&note.message)));
        if let Some((place, window)) = note.span.and_then(|place| Some((place, window(sources, place)?))) {
            let mark = AnnotationKind::Context.span(window.range(place));
            group = group.element(snippet(&window).annotation(mark));
        }
        groups.push(group);
    }
    if let Some(suggestion) = &diag.suggestion
        && let Some(window) = window(sources, suggestion.span)
    {
        let patch = Patch::new(window.range(suggestion.span), normalize_untrusted_str(&suggestion.replacement));
        let title = Level::HELP.secondary_title(normalize_untrusted_str(&suggestion.message));
        let snippet = Snippet::source(window.text).line_start(window.line as usize).path(window.name.to_string());
        groups.push(Group::with_title(title).element(snippet.patch(patch)));
    }
    let renderer = if colour { Renderer::styled() } else { Renderer::plain() };
    renderer.decor_style(DecorStyle::Ascii).render(&groups)
}

fn snippet<'a>(window: &Window<'a>) -> Snippet<'a, annotate_snippets::Annotation<'a>> {
    let name = normalize_untrusted_str(window.name);
    Snippet::source(window.text).line_start(window.line as usize).path(name)
}

/// DTrace's one line: what was being compiled, the tag where `-x errtags` asks for it, the line number where the text
/// is a file, the message.
pub fn render_dtrace(diag: &Diagnostic, sources: &Sources, errtags: bool) -> String {
    let mut out = String::from("dtrace: ");
    let source = diag.span.and_then(|span| sources.get(span.source));
    match source.map(|source| &source.origin) {
        Some(Origin::File(path)) => {
            out.push_str("failed to compile script ");
            out.push_str(path);
            out.push_str(": ");
        }
        Some(Origin::Library(path)) => {
            out.push_str("failed to compile library ");
            out.push_str(path);
            out.push_str(": ");
        }
        Some(Origin::Flag(_)) => {
            out.push_str("invalid probe specifier ");
            out.push_str(source.map_or("", |source| &source.text));
            out.push_str(": ");
        }
        None => {}
    }
    if errtags && !diag.tag.is_empty() {
        out.push_str(&format!("[{}] ", diag.tag));
    }
    if let (Some(source), Some(span)) = (source, diag.span) {
        let at = diag.dtrace_at.filter(|at| at.source == span.source).unwrap_or(span);
        let (name, line) = source.name_and_line(at.lo);
        match &source.origin {
            Origin::File(path) | Origin::Library(path) if name == path => out.push_str(&format!("line {line}: ")),
            Origin::File(_) | Origin::Library(_) => out.push_str(&format!("\"{name}\", line {line}: ")),
            Origin::Flag(_) => {
                if let Some(region) = diag.region {
                    out.push_str(&format!("in {region}: "));
                }
            }
        }
    }
    out.push_str(diag.dtrace_message.as_ref().unwrap_or(&diag.message));
    let width = diag.facts.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    for (name, value) in &diag.facts {
        match name.starts_with(' ') {
            true => out.push_str(&format!("\n{name}: {value}")),
            false => out.push_str(&format!("\n\t{name:>width$}: {value}")),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tags;

    fn one(origin: Origin, text: &str, lo: u32, hi: u32) -> (Sources, Span) {
        let mut sources = Sources::new();
        let id = sources.add(origin, text);
        (sources, Span::new(id, lo, hi))
    }

    #[test]
    fn dtrace_layout() {
        let (sources, span) = one(Origin::File("a.d".into()), "BEGIN\n{ x }", 8, 9);
        let diag = Diagnostic::error(tags::D_SYNTAX, span, "no");
        assert_eq!(render_dtrace(&diag, &sources, false), "dtrace: failed to compile script a.d: line 2: no");
        assert_eq!(render_dtrace(&diag, &sources, true), "dtrace: failed to compile script a.d: [D_SYNTAX] line 2: no");
        let (sources, span) = one(Origin::Flag('n'), "BEGIN{x}", 6, 7);
        let diag = Diagnostic::error(tags::D_IDENT_UNDEF, span, "no").region("action list");
        let line = render_dtrace(&diag, &sources, true);
        assert_eq!(line, "dtrace: invalid probe specifier BEGIN{x}: [D_IDENT_UNDEF] in action list: no");
        let (sources, span) = one(Origin::File("a.d".into()), "# 7 \"b.d\"\n{ x }", 12, 13);
        let diag = Diagnostic::error(tags::D_SYNTAX, span, "no");
        let line = render_dtrace(&diag, &sources, false);
        assert_eq!(line, "dtrace: failed to compile script a.d: \"b.d\", line 7: no");
        let diag = Diagnostic::error(tags::D_PROTO_ARG, span, "no").fact("prototype", "int").fact("argument", "string");
        let diag = diag.dtrace_at(Span { lo: 0, hi: 1, ..span }).dtrace_says("bad");
        let line = render_dtrace(&diag, &sources, false);
        assert_eq!(line, "dtrace: failed to compile script a.d: line 1: bad\n\tprototype: int\n\t argument: string");
        let diag = Diagnostic::error(tags::D_PROC_GRAB, None, "no");
        assert_eq!(render_dtrace(&diag, &sources, true), "dtrace: [D_PROC_GRAB] no");
    }

    #[test]
    fn pretty_layout() {
        let (sources, span) = one(Origin::Flag('n'), "BEGIN\n{ trace(exename); }", 14, 21);
        let diag = Diagnostic::error(tags::D_IDENT_UNDEF, span, "`exename` is not defined")
            .label("not defined")
            .note(Span { lo: 0, hi: 5, ..span }, "in this clause")
            .note(None, "names are case-sensitive")
            .help("list the built-in variables with -l")
            .suggest(span, "execname", "did you mean `execname`?");
        let expected = "\
error[D_IDENT_UNDEF]: `exename` is not defined
 --> -n:2:9
  |
1 | BEGIN
  | ----- in this clause
2 | { trace(exename); }
  |         ^^^^^^^ not defined
  |
  = note: names are case-sensitive
  = help: list the built-in variables with -l
help: did you mean `execname`?
  |
2 | { trace(execname); }
  |            +";
        assert_eq!(render_pretty(&diag, &sources, false), expected);
        assert!(render_pretty(&diag, &sources, true).contains('\u{1b}'));
    }

    #[test]
    fn any_span_is_shown_somehow() {
        let text = "é\nx\n";
        let (sources, span) = one(Origin::File("a.d".into()), text, 0, 0);
        for lo in 0..8 {
            for hi in lo..8 {
                let span = Span { lo, hi, ..span };
                let diag = Diagnostic::error(tags::D_SYNTAX, span, "m\u{1b}").suggest(span, "y", "z").note(span, "n");
                assert!(render_pretty(&diag, &sources, false).contains("m"));
                render_dtrace(&diag, &sources, false);
            }
        }
    }
}
