//! The whole compiler, from D text to BPF: any text gives a program or an error with a place to show, never a panic, and no
//! program of ours that our own checks refuse.
#![no_main]

#[path = "../../crates/compiler/tests/front/world.rs"]
mod world;

use libfuzzer_sys::fuzz_target;
use probity_compiler::{Input, Source, compile, probes};
use probity_ir::text;
use probity_output::Plan;
use probity_syntax::render::{render_dtrace, render_pretty};
use probity_syntax::{Diagnostic, Macros, Origin};

fuzz_target!(|data: &[u8]| {
    let text = String::from_utf8_lossy(data).into_owned();
    let origin = if text.contains('{') { Origin::File("fuzz.d".into()) } else { Origin::Flag('n') };
    let args = ["fuzz.d", "12", "name"].map(String::from).to_vec();
    let input = Input {
        sources: vec![Source { origin, text }],
        macros: Macros { args, target: Some(123), ..Macros::default() },
        ..Input::default()
    };
    probes(&input, &world::World);
    let (compiled, sources, diags) = compile(&input, &world::World);
    assert_eq!(compiled.is_none(), diags.iter().any(Diagnostic::is_error), "{diags:?}");
    for diag in &diags {
        assert!(!diag.message.contains("a bug in"), "{}", diag.message);
        render_pretty(diag, &sources, false);
        render_dtrace(diag, &sources, true);
    }
    if let Some(compiled) = compiled {
        let printed = text::print(&compiled.program);
        assert_eq!(text::parse(&printed).as_ref(), Ok(&compiled.program), "{printed}");
        Plan::new(&compiled.program);
        assert_eq!(compiled.layout.records.len(), compiled.program.records.len());
    }
});
