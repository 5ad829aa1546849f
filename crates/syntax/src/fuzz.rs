//! What must hold for any bytes: the parser returns, every place it names is in the text, every diagnostic renders, and
//! the tree is no higher than promised. Run by the fuzzer and, over a fixed set of mutations, by the tests.

use crate::diag::Diagnostic;
use crate::macros::Macros;
use crate::parse::{ParseOptions, SpecKind, parse_clause_flag};
use crate::render::{render_dtrace, render_pretty};
use crate::span::{Origin, Sources, Span};
use crate::{dump, tags};

/// Parses the bytes in every way there is.
///
/// # Panics
/// When something that must hold does not: that is the finding.
pub fn fuzz_one(data: &[u8]) {
    let mut sources = Sources::new();
    let id = sources.add_bytes(Origin::File("fuzz.d".into()), data);
    let text = sources.get(id).map_or(String::new(), |source| source.text.clone());
    let args = ["fuzz.d", "12", "-7", "name", "a b", "99999999999999999999", "\"quoted\""];
    let macros = Macros { args: args.map(String::from).to_vec(), target: Some(1), ..Macros::default() };
    let ways = [
        (SpecKind::Script, false),
        (SpecKind::Script, true),
        (SpecKind::Name, false),
        (SpecKind::Function, false),
        (SpecKind::Module, false),
        (SpecKind::Provider, false),
        (SpecKind::Id, false),
    ];
    for (kind, keep_macros) in ways {
        // Type names by a rule that fits words of the corpus.
        let options = ParseOptions { typedefs: &|name| name.ends_with("_t"), macros: macros.clone(), keep_macros };
        let (program, diags) = parse_clause_flag(kind, &text, id, &options);
        dump::dump(&program);
        for span in &program.comments {
            check(&text, *span);
        }
        for diag in &diags {
            check_diag(&text, diag);
        }
        // Rendering is linear in the text for each: the first ones stand for all.
        for diag in diags.iter().take(3) {
            render_pretty(diag, &sources, kind == SpecKind::Name);
            render_dtrace(diag, &sources, true);
        }
    }
}

fn check_diag(text: &str, diag: &Diagnostic) {
    assert!(tags::ALL.contains(&diag.tag), "unknown tag {}", diag.tag);
    assert!(!diag.message.is_empty() && !diag.message.ends_with('.'), "bad message {:?}", diag.message);
    let places = diag.notes.iter().filter_map(|note| note.span).chain(diag.span);
    for span in places.chain(diag.suggestion.iter().map(|s| s.span)) {
        check(text, span);
    }
}

fn check(text: &str, span: Span) {
    assert!(text.get(span.range()).is_some(), "{span:?} is no place in a text of {} bytes", text.len());
}
