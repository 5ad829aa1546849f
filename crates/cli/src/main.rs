//! The `probity` command: flags, exit codes, signals, help. Tracing itself is the library's.
#![forbid(unsafe_code)]

mod args;
mod consumer;
mod cpp;
mod fmt;
mod help;
mod limits;
mod list;
mod listing;
mod output;
mod packets;
mod question;
mod run;

use args::Face;
use std::process::ExitCode;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args_os().map(|a| a.to_string_lossy().into_owned()).collect();
    if let [zero, first, rest @ ..] = &words[..]
        && first == "fmt"
        && !zero.ends_with("dtrace")
    {
        return ExitCode::from(fmt::run(rest));
    }
    let args = match args::parse(std::env::args_os()) {
        Ok(args) => args,
        Err(message) => {
            help::complain("probity", &message);
            help::usage(Face::Probity);
            return ExitCode::from(2);
        }
    };
    // Alone, -h is the call for help that it is everywhere.
    let alone = args.header && args.sources.is_empty() && args.face == Face::Probity;
    if args.help || alone {
        help::help(args.face);
        return ExitCode::SUCCESS;
    }
    if args.version {
        help::version(args.face, args.verbose);
        return ExitCode::SUCCESS;
    }
    if args.face == Face::Dtrace {
        // Scripts leave the tracer itself out by its name: `/execname != "dtrace"/`.
        let _ = std::fs::write("/proc/self/comm", "dtrace");
    }
    let prefix = help::name(args.face);
    match run::run(&args) {
        Ok(status) => ExitCode::from(status),
        Err(e) => {
            // Diagnostics have been printed already; they end with an error that has no text.
            let text = chain(&e);
            if args.format == args::Format::Json && !text.is_empty() {
                help::json(&serde_json::json!({"type": "error", "message": text}));
            } else if !text.is_empty() {
                help::complain(prefix, &text);
            }
            ExitCode::FAILURE
        }
    }
}

/// An error and its causes, each said once: many a text holds its cause's already.
fn chain(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if text.is_empty() {
            text = cause;
        } else if !text.contains(cause.split(" (os error").next().unwrap_or(&cause)) {
            text = format!("{text}: {cause}");
        }
    }
    text
}
