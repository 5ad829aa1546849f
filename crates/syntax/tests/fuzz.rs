//! The parser on texts nobody writes: mutations of the programs in `tests/parse`, random tokens, and nesting as deep as
//! it will go. The mutations are the same in every run.
#![allow(clippy::disallowed_methods, missing_docs)]

use std::path::Path;

use probity_syntax::{Origin, ParseOptions, Sources, SpecKind, fuzz::fuzz_one, parse, parse_clause_flag};
use proptest::prelude::*;

fn corpus() -> Vec<Vec<u8>> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/parse");
    let mut paths: Vec<_> = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|ext| ext == "d"));
    paths.sort();
    paths.iter().map(|path| std::fs::read(path).unwrap()).collect()
}

/// xorshift64*
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        ((self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize) % limit.max(1)
    }
}

#[test]
fn mutated_programs() {
    const SNIPPETS: &[&str] = &[
        "/",
        "*/",
        "/*",
        "{",
        "}",
        "(",
        ")",
        "[",
        "]",
        "\"",
        "'",
        "\\",
        "\n#",
        "`",
        "$",
        "$1",
        "$$",
        "@",
        ":",
        ";",
        ",",
        "\u{e9}",
        "\0",
        "1e",
        "0x",
        "..",
        "->",
        "int ",
        "struct ",
        "if ",
        "else ",
        "self",
        "inline ",
        "\n# 9 \"x\"\n",
    ];
    let corpus = corpus();
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    for round in 0..1500 {
        let mut data = corpus[round % corpus.len()].clone();
        // Short pieces reach more of the grammar per unit of time than whole files.
        let lo = random.below(data.len());
        let len = random.below(300);
        data = data[lo..(lo + len).min(data.len())].to_vec();
        for _ in 0..1 + random.below(6) {
            let at = random.below(data.len() + 1);
            match random.below(5) {
                0 if at < data.len() => data[at] = random.below(256) as u8,
                1 if at < data.len() => drop(data.remove(at)),
                2 => drop(data.splice(at..at, SNIPPETS[random.below(SNIPPETS.len())].bytes())),
                3 => {
                    let other = &corpus[random.below(corpus.len())];
                    let from = random.below(other.len());
                    let piece = other[from..(from + random.below(40)).min(other.len())].to_vec();
                    drop(data.splice(at..at, piece));
                }
                _ => data.truncate(at.max(1)),
            }
        }
        fuzz_one(&data);
    }
}

#[test]
fn every_prefix_of_a_program() {
    let text = b"a:/b/*c:d[!e]:f/g[1]/2/{h=(i)1.5?@j[\"k\\\"\",'l']:$1;if(m)n;else{o->p++;}}#q\n#pragma D option r=s\n";
    for end in 0..=text.len() {
        fuzz_one(&text[..end]);
    }
}

/// Whether the text parses without errors.
fn parses(text: &str) -> bool {
    let mut sources = Sources::new();
    let id = sources.add(Origin::Flag('n'), text);
    parse_clause_flag(SpecKind::Name, text, id, &ParseOptions::default()).1.is_empty()
}

/// Runs on a test thread's 2 MiB, as later passes over the tree do.
#[test]
fn nesting_ends_in_a_diagnostic() {
    // What comes n times, what it is around, what comes n times behind.
    let shapes = [
        ("BEGIN{", "(", "1", ")", "}"),
        ("BEGIN{", "-", "1", "", "}"),
        ("BEGIN{", "!(int)", "1", "", "}"),
        ("BEGIN{", "a[", "1", "]", "}"),
        ("BEGIN{", "f(", "1", ")", "}"),
        ("BEGIN{", "1?", "1", ":2", "}"),
        ("BEGIN{", "1?2:", "1", "", "}"),
        ("BEGIN{", "a=", "1", "", "}"),
        ("BEGIN{", "1+", "1", "", "}"),
        ("BEGIN{", "1,", "1", "", "}"),
        ("BEGIN{", "", "a", "[1]", "}"),
        ("BEGIN{", "", "a", "->b", "}"),
        ("BEGIN{", "1<1==1<<1+1*(", "1", ")", "}"),
        ("BEGIN{", "{", "1;", "}", "}"),
        ("BEGIN{", "if(1)", "1;", "", "}"),
        ("BEGIN{", "if(1){", "1;", "}", "}"),
        ("BEGIN{", "if(1) 2; else ", "1;", "", "}"),
        ("BEGIN{", "sizeof(int[", "1", "])", "}"),
        ("BEGIN{", "stringof ", "1", "", "}"),
        ("BEGIN{", "@[", "1", "]", "}"),
        ("BEGIN/", "(", "1", ")", "/{}"),
        ("", "struct{", "int x;", "}y;", ""),
        ("int ", "(", "x", ")", ";"),
        ("int x", "(int (*)", "(int)", ")", ";"),
    ];
    for (head, open, middle, close, tail) in shapes {
        let text = |n: usize| format!("{head}{}{middle}{}{tail}", open.repeat(n), close.repeat(n));
        assert!(parses(&text(40)), "{head}{open} 40 deep is refused");
        assert!(!parses(&text(20_000)), "{head}{open} 20000 deep is accepted");
        fuzz_one(text(500).as_bytes());
    }
}

#[test]
fn long_is_not_deep() {
    assert!(parses(&format!("BEGIN{{{}}}", "a = 1;".repeat(20_000))));
    assert!(parses(&format!("BEGIN{{{}}}", "if (a) b; else c; ".repeat(5_000))));
    assert!(parses(&format!("BEGIN{}{{}}", ",END".repeat(5_000))));
    assert!(parses(&format!("BEGIN{{f({}1)}}", "1,".repeat(20_000))));
    assert!(parses(&"BEGIN { x }\n".repeat(5_000)));
    assert!(parses(&format!("BEGIN/{} 1/{{}}", "pid == 1 || ".repeat(200))));
}

#[test]
fn errors_are_limited_and_in_order() {
    let text = "BEGIN { ) }\n".repeat(1000);
    let mut sources = Sources::new();
    let id = sources.add(Origin::File("x.d".into()), text.as_str());
    let (_, diags) = parse(&text, id, &ParseOptions::default());
    assert_eq!(diags.len(), 50);
    assert!(diags.is_sorted_by_key(|d| d.span.map(|s| s.lo)));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes(data in proptest::collection::vec(any::<u8>(), 0..200)) {
        fuzz_one(&data);
    }

    #[test]
    fn any_words(words in proptest::collection::vec(prop::sample::select(vec![
        "BEGIN", "/", "{", "}", "(", ")", "[", "]", ";", ",", "*", "&", "-", "->", ".", "=", "==", "?", ":", "1", "\"s\"",
        "'c'", "x", "x_t", "int", "struct", "s", "if", "else", "self", "this", "@", "@a", "$1", "$$1", "`y", "inline",
        "translator", "provider", "probe", "typedef", "<", ">", "sizeof", "xlate", "offsetof", "stringof", "enum", "\n",
        "#pragma D option q\n",
    ]), 0..60)) {
        fuzz_one(words.join(" ").as_bytes());
        fuzz_one(words.concat().as_bytes());
    }
}
