//! `probity fmt`: lays scripts out. In place, from standard input to standard output, or only telling which would change.

use crate::help;
use probity::syntax::{Origin, Sources, fmt::format, render_pretty};
use std::io::{IsTerminal, Read, Write};

const USAGE: &str = "\
usage: probity fmt [--check] [FILE.d … | -]

Lays D scripts out, in place; what comes on standard input goes to standard output.
  --check   change nothing, name the files that would change, and fail if there are any
";

/// Does what the arguments behind `fmt` say; the exit status.
pub fn run(args: &[String]) -> u8 {
    let mut check = false;
    let mut files = Vec::new();
    for arg in args {
        match arg.as_str() {
            "--check" => check = true,
            "-h" | "--help" => {
                let _ = std::io::stdout().write_all(USAGE.as_bytes());
                return 0;
            }
            flag if flag.starts_with('-') && flag != "-" => {
                help::complain("probity", &format!("fmt: invalid option '{flag}'"));
                help::say(USAGE.trim_end());
                return 2;
            }
            file => files.push(file),
        }
    }
    if files.is_empty() {
        files.push("-");
    }
    files.into_iter().map(|file| one(file, check)).max().unwrap_or(0)
}

fn one(file: &str, check: bool) -> u8 {
    let mut bytes = Vec::new();
    let read = match file {
        "-" => std::io::stdin().lock().read_to_end(&mut bytes).map(|_| ()),
        path => std::fs::read(path).map(|read| bytes = read),
    };
    if let Err(e) = read {
        help::complain("probity", &format!("fmt: cannot read {file}: {e}"));
        return 1;
    }
    let Ok(text) = String::from_utf8(bytes) else {
        help::complain("probity", &format!("fmt: {file} is not UTF-8"));
        return 1;
    };
    let mut sources = Sources::new();
    let id = sources.add(Origin::File(if file == "-" { "<stdin>".into() } else { file.into() }), text.as_str());
    let formatted = match format(&text, id) {
        Ok(formatted) => formatted,
        Err(diags) => {
            let colour = std::io::stderr().is_terminal();
            diags.iter().for_each(|d| help::say(&render_pretty(d, &sources, colour)));
            return 1;
        }
    };
    if check {
        if formatted != text {
            let _ = writeln!(std::io::stdout(), "{file}");
        }
        return u8::from(formatted != text);
    }
    let written = match file {
        "-" => std::io::stdout().write_all(formatted.as_bytes()),
        _ if formatted == text => Ok(()),
        path => std::fs::write(path, formatted),
    };
    match written {
        Ok(()) => 0,
        Err(e) => {
            help::complain("probity", &format!("fmt: cannot write {file}: {e}"));
            1
        }
    }
}
