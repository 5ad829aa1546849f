//! The command line: DTrace's flags, which mean what they mean there, and a few of our own.
//!
//! The order of flags matters (`-n` and `-s` add to the program in turn, a `-x` may come between), so they are read one by
//! one rather than by a declarative parser.

use lexopt::prelude::*;
use std::ffi::OsString;

/// Which of the two faces the command shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Face {
    /// `probity`.
    Probity,
    /// `dtrace`: same flags, layout, exit status and messages as DTrace's.
    Dtrace,
}

/// Output formats.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// DTrace's layouts.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// How a piece of the program was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceKind {
    /// `-P`: a provider, then optionally predicate and actions.
    Provider,
    /// `-m`
    Module,
    /// `-f`
    Function,
    /// `-n`
    Name,
    /// `-i`: a probe's number.
    Id,
    /// `-s`: a file.
    File,
}

/// What the user asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Args {
    /// Which face.
    pub face: Face,
    /// The program's pieces in order: how given, and the text or path.
    pub sources: Vec<(SourceKind, String)>,
    /// `-x`, `-b`, `-q`, … as options in order.
    pub options: Vec<(String, Option<String>)>,
    /// `-c`
    pub commands: Vec<String>,
    /// `-p`
    pub pids: Vec<String>,
    /// `-W`
    pub awaited: Vec<String>,
    /// `-o`
    pub output: Option<String>,
    /// `-C`: scripts go through the C preprocessor.
    pub cpp: bool,
    /// `-D`, `-U`, `-I`, `-H`: its flags, which mean nothing without `-C`.
    pub cpp_flags: Vec<String>,
    /// `-l`
    pub list: bool,
    /// `-e`, `--check`
    pub check: bool,
    /// `-h`: make a C header of provider declarations.
    pub header: bool,
    /// `-S`
    pub disassemble: bool,
    /// `-v`
    pub verbose: bool,
    /// `-V`
    pub version: bool,
    /// `--help`
    pub help: bool,
    /// `--format`
    pub format: Format,
    /// What follows the flags: the script's arguments.
    pub rest: Vec<String>,
}

/// Reads the arguments; `argv[0]` decides the face unless the first argument is `dtrace`. The error is for a usage message.
pub fn parse(argv: impl IntoIterator<Item = OsString>) -> Result<Args, String> {
    let mut argv = argv.into_iter().peekable();
    let zero = argv.next().unwrap_or_default();
    let mut face = match std::path::Path::new(&zero).file_name() {
        Some(n) if n == "dtrace" => Face::Dtrace,
        _ => Face::Probity,
    };
    if face == Face::Probity && argv.peek().is_some_and(|a| a == "dtrace") {
        argv.next();
        face = Face::Dtrace;
    }
    let mut args = Args {
        face,
        sources: Vec::new(),
        options: Vec::new(),
        commands: Vec::new(),
        pids: Vec::new(),
        awaited: Vec::new(),
        output: None,
        cpp: false,
        cpp_flags: Vec::new(),
        list: false,
        check: false,
        header: false,
        disassemble: false,
        verbose: false,
        version: false,
        help: false,
        format: Format::Text,
        rest: Vec::new(),
    };
    flags(&mut args, argv)?;
    // A script named alone: `probity file.d args…`, and `#!/usr/bin/env probity`.
    let asks = args.list || args.version || args.help;
    if args.sources.is_empty() && !asks && !args.rest.is_empty() {
        let file = args.rest.remove(0);
        args.sources.push((SourceKind::File, file));
    }
    Ok(args)
}

/// An argument by itself, without the parser it came from.
enum Flag {
    Short(char),
    Long(String),
    Value(OsString),
}

fn flags(args: &mut Args, argv: impl Iterator<Item = OsString>) -> Result<(), String> {
    let mut parser = lexopt::Parser::from_args(argv);
    while let Some(arg) = parser.next().map_err(|e| e.to_string())? {
        // The argument must not borrow the parser while its value is read.
        let arg = match arg {
            Short(c) => Flag::Short(c),
            Long(name) => Flag::Long(name.to_string()),
            Value(first) => Flag::Value(first),
        };
        let mut text = || -> Result<String, String> {
            let value = parser.value().map_err(|e| e.to_string())?;
            value.into_string().map_err(|v| format!("'{}' is not UTF-8", v.to_string_lossy()))
        };
        let mut option = |name: &str, value: Option<String>| args.options.push((name.to_string(), value));
        match arg {
            Flag::Short('P') => args.sources.push((SourceKind::Provider, text()?)),
            Flag::Short('m') => args.sources.push((SourceKind::Module, text()?)),
            Flag::Short('f') => args.sources.push((SourceKind::Function, text()?)),
            Flag::Short('n') => args.sources.push((SourceKind::Name, text()?)),
            Flag::Short('i') => args.sources.push((SourceKind::Id, text()?)),
            Flag::Short('s') => args.sources.push((SourceKind::File, text()?)),
            Flag::Short('x') => {
                let value = text()?;
                match value.split_once('=') {
                    Some((n, v)) => option(n, Some(v.to_string())),
                    None => option(&value, None),
                }
            }
            Flag::Short('b') => {
                let v = text()?;
                option("bufsize", Some(v));
            }
            Flag::Short('q') => option("quiet", None),
            Flag::Short('w') => option("destructive", None),
            Flag::Short('Z') => option("zdefs", None),
            Flag::Short('F') => option("flowindent", None),
            Flag::Short('c') => args.commands.push(text()?),
            Flag::Short('p') => args.pids.push(text()?),
            Flag::Short('W') => args.awaited.push(text()?),
            Flag::Short('o') => args.output = Some(text()?),
            Flag::Short('l') => args.list = true,
            Flag::Short('e') => args.check = true,
            Flag::Short('h') => args.header = true,
            Flag::Short('S') => args.disassemble = true,
            Flag::Short('v') => args.verbose = true,
            Flag::Short('V') => args.version = true,
            Flag::Short('C') => args.cpp = true,
            Flag::Short('L') => args.options.push(("libdir".into(), Some(text()?))),
            Flag::Short('H') => args.cpp_flags.push("-H".into()),
            Flag::Short(c @ ('D' | 'U' | 'I')) => {
                let value = text()?;
                args.cpp_flags.push(format!("-{c}{value}"));
            }
            Flag::Short('X') => {
                let v = text()?;
                option("stdc", Some(v));
            }
            Flag::Short(c @ ('A' | 'a')) => {
                return Err(format!(
                    "-{c} is refused: anonymous tracing needs a tracer in the kernel before there are processes; \
                     start probity early, as a service, instead"
                ));
            }
            Flag::Short('G') => {
                return Err(
                    "-G is not needed: the header that -h makes puts the probes into the program by itself".into()
                );
            }
            Flag::Short('B') => return Err("-B is not supported by this version".into()),
            Flag::Long(name) if name == "format" && args.face == Face::Probity => {
                args.format = match text()?.as_str() {
                    "json" => Format::Json,
                    "text" => Format::Text,
                    other => return Err(format!("--format is 'text' or 'json', not '{other}'")),
                }
            }
            Flag::Long(name) if name == "check" && args.face == Face::Probity => args.check = true,
            Flag::Long(name) if name == "help" => args.help = true,
            Flag::Long(name) if name == "version" => args.version = true,
            Flag::Value(first) => {
                if args.face == Face::Dtrace {
                    // DTrace takes flags behind arguments too.
                    args.rest.push(first.to_string_lossy().into_owned());
                    continue;
                }
                // Flags end at the first argument that is none: the rest belongs to the script.
                let rest = std::iter::once(first).chain(parser.raw_args().map_err(|e| e.to_string())?);
                args.rest = rest.map(|a| a.to_string_lossy().into_owned()).collect();
                break;
            }
            // The data model: there is one.
            Flag::Short('6') if matches!(parser.next(), Ok(Some(Short('4')))) => {}
            Flag::Short('3') => {
                return Err("-32: the 32-bit data model is not supported; programs are read as 64-bit".into());
            }
            Flag::Short(c) => return Err(format!("invalid option '-{c}'")),
            Flag::Long(name) => return Err(format!("invalid option '--{name}'")),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(line: &str) -> Result<Args, String> {
        parse(line.split(' ').map(OsString::from))
    }

    #[test]
    fn order_and_faces() {
        let a = args("probity -qn BEGIN -x strsize=1k -s f.d -n END 7 -q").expect("is right");
        assert_eq!(a.sources.len(), 3);
        assert_eq!(a.sources[1], (SourceKind::File, "f.d".into()));
        assert_eq!(a.options[1], ("strsize".into(), Some("1k".into())));
        assert_eq!(a.rest, ["7", "-q"]);
        assert_eq!(a.face, Face::Probity);
        assert_eq!(args("/usr/sbin/dtrace -l").expect("is right").face, Face::Dtrace);
        assert_eq!(args("probity dtrace -l").expect("is right").face, Face::Dtrace);
    }

    #[test]
    fn a_script_named_alone() {
        let a = args("probity file.d 1 2").expect("is right");
        assert_eq!(a.sources, [(SourceKind::File, "file.d".into())]);
        assert_eq!(a.rest, ["1", "2"]);
    }

    #[test]
    fn usage_errors() {
        for bad in ["probity -n", "probity --format xml", "probity -k", "dtrace --format json", "probity -G"] {
            assert!(args(bad).is_err(), "{bad}");
        }
    }
}
