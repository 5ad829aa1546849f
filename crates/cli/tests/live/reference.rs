//! `docs/REFERENCE.md`: complete, fresh, and every example a program. `UPDATE_EXPECT=1` (`cargo xtask docs`) writes it.

use probity::compiler::reference::{SECTIONS, gaps, markdown};
use probity::compiler::{Input, Source};
use probity::kernel::System;
use probity::syntax::{Macros, Origin, render_pretty};
use std::path::Path;

#[test]
fn every_name_has_a_row() {
    assert!(gaps().is_empty(), "without a row in compiler/src/reference.rs: {:?}", gaps());
}

#[test]
fn every_example_compiles() {
    // Types come from the kernel's BTF, so there is nothing to say where there is none.
    if !Path::new("/sys/kernel/btf/vmlinux").exists() {
        eprintln!("skipped: this kernel has no BTF");
        return;
    }
    let sys = System::live();
    let mut wrong = Vec::new();
    for entry in SECTIONS.iter().flat_map(|s| s.entries) {
        let text = format!("{}\n", entry.example);
        let macros = Macros { args: vec!["example.d".into()], target: Some(1), pid: 1, ..Macros::default() };
        let input = Input {
            sources: vec![Source { origin: Origin::File("example.d".into()), text }],
            macros,
            ..Input::default()
        };
        let (compiled, sources, diags) = probity::compile(&sys, &input);
        if compiled.is_none() {
            let said: Vec<String> = diags.iter().map(|d| render_pretty(d, &sources, false)).collect();
            wrong.push(format!("{}:\n{}", entry.name, said.join("\n")));
        }
    }
    assert!(wrong.is_empty(), "{} examples do not compile:\n{}", wrong.len(), wrong.join("\n\n"));
}

#[test]
fn the_page_is_fresh() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/REFERENCE.md");
    let page = markdown();
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::create_dir_all(path.parent().expect("docs")).expect("docs");
        std::fs::write(&path, page).expect("the page");
        return;
    }
    let there = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(there == page, "docs/REFERENCE.md is stale: run `cargo xtask docs`");
}
