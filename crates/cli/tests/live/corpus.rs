//! The language by examples: each `corpus/NAME.d` prints what `corpus/NAME.out` says (`UPDATE_EXPECT=1` writes it anew: read the difference).

use crate::tools::{permitted, run};
use std::path::PathBuf;

#[test]
fn every_script_prints_what_it_should() {
    if !permitted() {
        return;
    }
    let dir = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/corpus");
    let mut scripts: Vec<PathBuf> = std::fs::read_dir(&dir)
        .expect("the corpus")
        .map(|entry| entry.expect("a file").path())
        .filter(|p| p.extension().is_some_and(|e| e == "d"))
        .collect();
    scripts.sort();
    assert!(scripts.len() >= 15, "{} scripts", scripts.len());
    let mut wrong = Vec::new();
    for script in scripts {
        let r = run(&["-q", "-s", script.to_str().expect("a path in UTF-8")]);
        let got = format!("{}--- errors\n{}--- status {}\n", r.out, r.err, r.status);
        let expected = script.with_extension("out");
        if std::env::var_os("UPDATE_EXPECT").is_some() {
            std::fs::write(&expected, &got).expect("the expectation is written");
        }
        let want = std::fs::read_to_string(&expected).unwrap_or_default();
        if got != want {
            wrong.push(format!("{}:\n--- expected\n{want}--- got\n{got}", script.display()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
