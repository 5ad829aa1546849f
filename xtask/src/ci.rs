//! `cargo xtask ci`: the checks of CI, each run to its end, all reported.

use std::path::Path;
use std::process::Command;

/// Runs everything; true if all of it passed.
pub fn run(root: &Path) -> bool {
    let nextest = Command::new("cargo").args(["nextest", "--version"]).output().is_ok_and(|o| o.status.success());
    let mut ok = step(root, "format", &["fmt", "--all", "--check"]);
    ok &= step(root, "clippy", &["clippy", "--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"]);
    eprintln!("== tidy");
    ok &= crate::tidy::run(root);
    ok &= doc(root);
    // Tests come last, so that the runner's own summary closes the output.
    if nextest {
        ok &= step(root, "doc tests", &["test", "--workspace", "--doc", "--quiet"]);
        ok &= step(root, "tests", &["nextest", "run", "--workspace", "--no-fail-fast"]);
    } else {
        ok &= step(root, "tests", &["test", "--workspace", "--no-fail-fast"]);
    }
    eprintln!("== {}", if ok { "all checks passed" } else { "some checks FAILED" });
    ok
}

fn doc(root: &Path) -> bool {
    eprintln!("== documentation");
    status(
        Command::new("cargo")
            .args(["doc", "--workspace", "--no-deps", "--quiet"])
            .env("RUSTDOCFLAGS", "-D warnings")
            .current_dir(root),
    )
}

fn step(root: &Path, what: &str, args: &[&str]) -> bool {
    eprintln!("== {what}");
    status(Command::new("cargo").args(args).current_dir(root))
}

fn status(command: &mut Command) -> bool {
    match command.status() {
        Ok(s) => s.success(),
        Err(e) => {
            eprintln!("cannot run {command:?}: {e}");
            false
        }
    }
}
