//! What the command says about itself, and how it says that something is wrong.

use crate::args::Face;
use std::io::Write;

/// The name that messages start with.
pub fn name(face: Face) -> &'static str {
    match face {
        Face::Probity => "probity",
        Face::Dtrace => "dtrace",
    }
}

/// Writes to standard error; there is nobody to tell when that fails.
pub fn say(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// Says what is wrong.
pub fn complain(prefix: &str, message: &str) {
    say(&format!("{prefix}: {message}"));
}

/// One JSON object on a line of standard output.
pub fn json(object: &serde_json::Value) {
    print(&format!("{object}\n"));
}

/// Writes to standard output, quietly giving up when it is closed.
fn print(text: &str) {
    let _ = std::io::stdout().write_all(text.as_bytes());
}

/// `-V`
pub fn version(face: Face, verbose: bool) {
    let version = env!("CARGO_PKG_VERSION");
    match face {
        Face::Dtrace => print("dtrace: D 2.0.7\n"),
        Face::Probity => print(&format!("probity {version}\n")),
    }
    if verbose {
        match face {
            // Scripts take the last three numbers of the line that begins like this.
            Face::Dtrace => print(&format!("This is DTrace 2.0.7\nas provided by Probity {version}\n")),
            Face::Probity => print(&format!("This is Probity {version}; D as of dtrace-utils 2.0.7\n")),
        }
    }
}

/// The short form, for standard error.
pub fn usage(face: Face) {
    let name = name(face);
    say(&format!("usage: {name} [flags] (-n CLAUSE | -s FILE | FILE) [arg …]; '{name} --help' tells all"));
}

/// `--help`
pub fn help(face: Face) {
    let name = name(face);
    print(&format!(
        "\
{name}: asks a running Linux system a question written in D

usage: {name} [flags] FILE.d [arg …]
       {name} [flags] -n 'probe /predicate/ {{ actions }}' [arg …]

What to trace
  -n [[[provider:]module:]function:]name[ /pred/][ {{ … }}]   a clause; -P -m -f likewise, with fewer fields
  -i ID[ /pred/][ {{ … }}]   a probe by its number in -l
  -s FILE             a D script
  -c COMMAND          start COMMAND, trace until it ends; its process is $target
  -p PID              trace until process PID ends; it is $target
  -W NAME             wait until a process of that name starts, and trace it from there; it is $target
  -l                  list the probes that match instead; with -v also their arguments
  -e                  compile only
  -h -s FILE          make a C header of the provider declarations in FILE
  -S                  show the BPF code that was generated
  -C                  scripts go through the C preprocessor; -D -U -I -H are its flags
  -L DIR              D libraries (DIR/*.d) besides the built-in ones
  -Z                  a probe description may match nothing

How
  -q                  print only what the program prints
  -F                  indent by entry and return
  -o FILE             append the output to FILE
  -b SIZE             size of each CPU's buffer
  -x OPTION[=VALUE]   set an option
  -w                  allow destructive actions
  -v                  say more
  -V                  print the version
{}
",
        match face {
            Face::Probity =>
                "  --format json       one JSON object a line: records, aggregations, drops, errors
  --check             the same as -e

'probity fmt' lays scripts out; 'probity fmt --help' tells how.
'probity dtrace …', or a link named dtrace, is a drop-in for DTrace: same output, messages and exit status.",
            Face::Dtrace => "",
        }
    ));
}
