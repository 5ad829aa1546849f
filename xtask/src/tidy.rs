//! `cargo xtask tidy`: what the design forbids and no compiler checks.
//!
//! The crate graph is the table in ARCHITECTURE.md; adding a crate or an edge means changing that table.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Longest source file, in lines.
const MAX_LINES: usize = 1000;
/// Files that are tables by nature and may be longer.
const TABLES: &[&str] = &[];
/// Crates that may contain unsafe code: the system-call layer, and the one that maps files.
const UNSAFE: &[&str] = &["kernel", "debuginfo"];
/// Crates that must not touch files, processes or the environment.
const PURE: &[&str] = &["syntax", "ir", "bpf", "compiler", "output"];
/// Provider names that must not occur as strings outside the providers' own files and tests.
const PROVIDERS: &[&str] = &["profile", "syscall", "sdt", "uprobe"];
/// Crates that must not name a provider. (`kernel` may: to it these are names of the kernel's own devices.)
const NAMELESS: &[&str] = &["syntax", "ir", "bpf", "compiler", "debuginfo", "output", "session", "cli"];

/// Runs all checks and reports each finding; true if there is none.
pub fn run(root: &Path) -> bool {
    let mut findings = Vec::new();
    edges(root, &mut findings);
    for file in sources(root) {
        let name = file.strip_prefix(root).unwrap_or(&file).display().to_string();
        match fs::read_to_string(&file) {
            Ok(text) => source(&name, &text, &mut findings),
            Err(e) => findings.push(format!("{name}: {e}")),
        }
    }
    for f in &findings {
        eprintln!("tidy: {f}");
    }
    findings.is_empty()
}

/// Every `.rs` file of the workspace.
fn sources(root: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut todo = vec![root.join("crates"), root.join("xtask")];
    while let Some(dir) = todo.pop() {
        for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() && !path.ends_with("target") {
                todo.push(path);
            } else if path.extension().is_some_and(|e| e == "rs") {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// Compares the crates' dependencies with the table.
fn edges(root: &Path, findings: &mut Vec<String>) {
    let allowed = match fs::read_to_string(root.join("ARCHITECTURE.md")) {
        Ok(text) => edge_table(&text),
        Err(e) => return findings.push(format!("ARCHITECTURE.md: {e}")),
    };
    let mut crates: Vec<_> =
        fs::read_dir(root.join("crates")).into_iter().flatten().flatten().map(|e| e.path()).collect();
    crates.sort();
    for dir in crates {
        let name = dir.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let manifest = fs::read_to_string(dir.join("Cargo.toml")).unwrap_or_default();
        let Some(allowed) = allowed.get(&name) else {
            findings.push(format!("crate {name} is not in ARCHITECTURE.md's table of edges"));
            continue;
        };
        for dep in dependencies(&manifest).difference(allowed) {
            findings.push(format!("crate {name} depends on {dep}: not in ARCHITECTURE.md's table of edges"));
        }
        for dep in allowed.difference(&dependencies(&manifest)) {
            findings.push(format!("ARCHITECTURE.md lists an edge from {name} to {dep} that does not exist"));
        }
    }
}

/// Reads the rows between `<!-- edges -->` and `<!-- /edges -->`: `| crate | crate, crate |`.
fn edge_table(text: &str) -> BTreeMap<String, BTreeSet<String>> {
    let table = text.split("<!-- edges -->").nth(1).and_then(|t| t.split("<!-- /edges -->").next()).unwrap_or("");
    let mut edges = BTreeMap::new();
    for row in table.lines() {
        let cells: Vec<&str> = row.trim().trim_matches('|').split('|').map(str::trim).collect();
        if let [name, deps] = cells[..] {
            let name = name.trim_matches('`');
            let deps = deps.split(',').map(|d| d.trim().trim_matches('`')).filter(|d| !d.is_empty() && *d != "—");
            edges.insert(name.to_string(), deps.map(str::to_string).collect());
        }
    }
    edges
}

/// The workspace crates that a manifest's `[dependencies]` names, by directory.
fn dependencies(manifest: &str) -> BTreeSet<String> {
    let mut section = "";
    let mut found = BTreeSet::new();
    for line in manifest.lines() {
        if line.starts_with('[') {
            section = line;
        } else if section == "[dependencies]" {
            let key = line.split(['.', '=', ' ']).next().unwrap_or("");
            if key == "probity" {
                found.insert("session".to_string());
            } else if let Some(name) = key.strip_prefix("probity-") {
                found.insert(name.to_string());
            }
        }
    }
    found
}

/// Checks one file.
fn source(name: &str, text: &str, findings: &mut Vec<String>) {
    let krate = name.strip_prefix("crates/").and_then(|n| n.split('/').next()).unwrap_or("");
    let is_test = name.contains("/tests/") || name.contains("/benches/") || name.ends_with("tests.rs");
    let lines = text.lines().count();
    if lines > MAX_LINES && !TABLES.contains(&name) {
        findings.push(format!("{name}: {lines} lines; where is the seam?"));
    }
    if !text.starts_with("//!") && !is_test {
        findings.push(format!("{name}: does not begin with what it owns and leaves out (//!)"));
    }
    let stem = name.rsplit('/').next().unwrap_or("");
    for word in ["manager", "helper.", "utils", "util.", "common", "misc"] {
        if stem.contains(word) {
            findings.push(format!("{name}: a file is named for what it owns, not `{word}`"));
        }
    }
    let body = text.split("#[cfg(test)]\nmod tests").next().unwrap_or(text);
    for (i, line) in body.lines().enumerate() {
        let at = format!("{name}:{}", i + 1);
        let code = line.split("//").next().unwrap_or("");
        if krate.is_empty() {
            continue;
        }
        for stub in ["todo!(", "unimplemented!(", "dbg!("] {
            if code.contains(stub) {
                findings.push(format!("{at}: {stub}…)"));
            }
        }
        if !UNSAFE.contains(&krate) && !is_test && (code.contains("unsafe {") || code.contains("unsafe fn")) {
            findings.push(format!("{at}: unsafe code belongs in `kernel`"));
        }
        if PURE.contains(&krate) && !is_test {
            for path in ["std::fs", "std::process", "std::env", "std::net"] {
                if code.contains(path) {
                    findings.push(format!("{at}: {path} in a pure crate"));
                }
            }
        }
        if NAMELESS.contains(&krate) && !is_test {
            for p in PROVIDERS {
                if code.contains(&format!("\"{p}\"")) {
                    findings.push(format!("{at}: names the provider {p}"));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_table() {
        let t = edge_table(
            "x\n<!-- edges -->\n| crate | uses |\n|---|---|\n| `a` | `b`, `c` |\n| `b` | — |\n<!-- /edges -->\n",
        );
        assert_eq!(t["a"], BTreeSet::from(["b".to_string(), "c".to_string()]));
        assert!(t["b"].is_empty());
    }

    #[test]
    fn reads_a_manifest() {
        let d = dependencies(
            "[dependencies]\nprobity.workspace = true\nprobity-ir.workspace = true\nlog = \"1\"\n[dev-dependencies]\nprobity-bpf.workspace = true\n",
        );
        assert_eq!(d, BTreeSet::from(["session".to_string(), "ir".to_string()]));
    }

    #[test]
    fn finds_what_is_forbidden() {
        let mut f = Vec::new();
        source("crates/syntax/src/x.rs", "//! x\nfn f() { std::fs::read(\"a\"); todo!() }\n", &mut f);
        assert_eq!(f.len(), 2, "{f:?}");
        source("crates/compiler/src/y.rs", "//! y\nconst P: &str = \"syscall\";\n", &mut f);
        assert_eq!(f.len(), 3, "{f:?}");
    }

    #[test]
    fn the_tree_is_tidy() {
        assert!(run(&crate::root()), "see the findings above");
    }
}
