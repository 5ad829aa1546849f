//! Programs that nobody writes: mutations of the bad programs in `err`, the same in every run, through the whole compiler. A short
//! run of what the fuzz target `compile` does for long.

use super::*;
use probity_compiler::compile;
use std::path::Path;

/// xorshift64*
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % limit.max(1)
    }
}

fn holds(text: &str) {
    let (compiled, sources, diags) = compile(&input(text), &world::World);
    assert_eq!(compiled.is_none(), diags.iter().any(Diagnostic::is_error), "{text}: {}", shown(&diags));
    for diag in &diags {
        assert!(!diag.message.contains("a bug in"), "{text}: {}", diag.message);
        probity_syntax::render_pretty(diag, &sources, false);
    }
}

#[test]
fn mutated_programs_are_compiled_or_refused() {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/err");
    let mut paths: Vec<_> = std::fs::read_dir(&dir).unwrap().map(|e| e.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|e| e == "d"));
    paths.sort();
    let texts: Vec<String> = paths.iter().map(|path| std::fs::read_to_string(path).unwrap()).collect();
    let words: Vec<&str> = texts.iter().flat_map(|text| text.split_inclusive([' ', '(', ')', ';', ','])).collect();
    for text in &texts {
        for _ in 0..8 {
            // Words, not bytes: most of these texts still parse.
            let mut parts: Vec<&str> = text.split_inclusive([' ', '(', ')', ';', ',']).collect();
            for _ in 0..1 + random.below(3) {
                let at = random.below(parts.len());
                match random.below(4) {
                    0 => parts[at] = words[random.below(words.len())],
                    1 => parts.insert(at, words[random.below(words.len())]),
                    2 if parts.len() > 1 => drop(parts.remove(at)),
                    _ => parts.insert(at, parts[random.below(parts.len())]),
                }
            }
            holds(&parts.concat());
        }
    }
}
