//! Probity's chores: `cargo xtask tidy | ci | docs | bench | fuzz`.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, clippy::print_stderr)]

mod bench;
mod ci;
mod fuzz;
mod tidy;

use std::path::PathBuf;
use std::process::ExitCode;

/// The workspace's root.
fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the workspace").to_path_buf()
}

const USAGE: &str = "\
usage: cargo xtask COMMAND

  tidy      checks the crate graph, file sizes, forbidden words and unsafe code
  ci        format, clippy, tidy, all tests, docs: everything that CI runs
  docs      writes docs/REFERENCE.md from the compiler's tables
  bench     what asking costs, beside bpftrace and hand-written BPF: [size start attach event]
  fuzz      runs the fuzz targets, 10 minutes each: [TARGET…] [--seconds N]
";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let ok = match args.first().map(String::as_str) {
        Some("tidy") => tidy::run(&root()),
        Some("ci") => ci::run(&root()),
        Some("docs") => docs(&root()),
        Some("bench") => bench::run(&root(), &args[1..]),
        Some("fuzz") => fuzz::run(&root(), &args[1..]),
        _ => {
            eprint!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    if ok { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The test that compares the page writes it.
fn docs(root: &std::path::Path) -> bool {
    let args = ["test", "-q", "-p", "probity-cli", "--test", "live", "reference::the_page_is_fresh"];
    let status = std::process::Command::new("cargo").args(args).current_dir(root).env("UPDATE_EXPECT", "1").status();
    status.is_ok_and(|s| s.success())
}
