//! Programs in `tests/parse/*.d` and what the parser makes of them: the tree in `x.ast`, the diagnostics in `x.err`.
//! `UPDATE_EXPECT=1` writes both. A first line `// test: flag=n args=a,b target=1 defaultargs keepmacros` sets options.
#![allow(clippy::disallowed_methods, missing_docs)]

use std::path::Path;

use probity_syntax::{
    Macros, Origin, ParseOptions, Sources, SpecKind, dump::dump, parse_clause_flag, render_dtrace, render_pretty,
};

fn run(text: &str, name: &str) -> (String, String) {
    let mut options = ParseOptions { typedefs: &|name| name.ends_with("task_t"), ..ParseOptions::default() };
    let mut kind = SpecKind::Script;
    let mut origin = Origin::File(name.to_string());
    let directive = text.lines().next().and_then(|line| line.strip_prefix("// test: ")).unwrap_or("");
    let mut macros = Macros { args: vec![name.to_string()], pid: 42, ..Macros::default() };
    for word in directive.split_whitespace() {
        match word.split_once('=').unwrap_or((word, "")) {
            ("flag", letter) => {
                origin = Origin::Flag(letter.chars().next().unwrap());
                kind = match letter {
                    "P" => SpecKind::Provider,
                    "m" => SpecKind::Module,
                    "f" => SpecKind::Function,
                    "n" => SpecKind::Name,
                    "i" => SpecKind::Id,
                    _ => panic!("no flag {letter}"),
                };
            }
            ("args", list) => macros.args.extend(list.split(',').map(|arg| arg.replace('~', " "))),
            ("target", pid) => macros.target = Some(pid.parse().unwrap()),
            ("defaultargs", _) => macros.default_args = true,
            ("keepmacros", _) => options.keep_macros = true,
            other => panic!("no directive {other:?}"),
        }
    }
    options.macros = macros;
    let mut sources = Sources::new();
    let id = sources.add(origin, text);
    let (program, diags) = parse_clause_flag(kind, text, id, &options);
    let mut errors = String::new();
    for diag in &diags {
        errors.push_str(&render_pretty(diag, &sources, false));
        errors.push('\n');
        let line = render_dtrace(diag, &sources, true);
        // The text of a flag is in the line; the message is enough.
        errors.push_str(line.lines().last().unwrap_or(""));
        errors.push_str("\n\n");
    }
    (dump(&program), errors)
}

fn compare(path: &Path, actual: &str, failures: &mut Vec<String>) {
    let expected = std::fs::read_to_string(path).unwrap_or_default();
    if expected == actual {
        return;
    }
    if std::env::var("UPDATE_EXPECT").is_ok() {
        if actual.is_empty() {
            let _ = std::fs::remove_file(path);
        } else {
            std::fs::write(path, actual).unwrap();
        }
        return;
    }
    failures.push(format!("{}:\n--- expected\n{expected}\n--- actual\n{actual}", path.display()));
}

#[test]
fn programs() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/parse");
    let mut paths: Vec<_> = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|ext| ext == "d"));
    paths.sort();
    assert!(paths.len() > 10);
    let mut failures = Vec::new();
    for path in paths {
        let text = std::fs::read_to_string(&path).unwrap();
        let (tree, errors) = run(&text, path.file_name().unwrap().to_str().unwrap());
        compare(&path.with_extension("ast"), &tree, &mut failures);
        compare(&path.with_extension("err"), &errors, &mut failures);
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
