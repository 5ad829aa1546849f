//! From the command line to the library's input: sources, options, macros, and the targets that must exist before `$target` can
//! be compiled.

use crate::args::{Args, Face, SourceKind};
use anyhow::{Context, Result, anyhow, bail};
use probity::compiler::options::OptionError;
use probity::compiler::{Input, Options, Source};
use probity::kernel::System;
use probity::syntax::{Macros, Origin};
use probity::{Targets, Until};
use std::path::Path;
use std::process::{Command, Stdio};

/// Builds the input. Commands are started and held, processes grabbed.
pub fn build(args: &Args, sys: &System, targets: &mut Targets) -> Result<Input> {
    let mut options = Options::default();
    for (name, value) in &args.options {
        options.set(name, value.as_deref()).map_err(|e| wrong_option(name, value.as_deref(), &e))?;
    }
    let mut target = None;
    let until = match options.evaltime.as_str() {
        "exec" => Until::Exec,
        "preinit" => Until::Entry,
        // Constructors have run before `main`; where that is not known, they have not.
        _ => Until::Main,
    };
    for command in &args.commands {
        let pid = targets.spawn(sys, command, until).with_context(|| format!("failed to execute {command}"))?;
        target.get_or_insert(pid);
    }
    for text in &args.pids {
        let pid = text.parse::<u32>().ok().filter(|&p| p > 0).with_context(|| format!("invalid pid: {text}"))?;
        let pid = targets.grab(pid).with_context(|| format!("failed to grab pid {pid}"))?;
        target.get_or_insert(pid);
    }
    let sources =
        args.sources.iter().map(|(kind, text)| source(args, *kind, text, &options)).collect::<Result<Vec<_>>>()?;
    let script = args.sources.iter().find(|(kind, _)| *kind == SourceKind::File).map(|(_, path)| path.clone());
    let mut words = vec![script.unwrap_or_else(|| crate::help::name(args.face).into())];
    words.extend(args.rest.iter().cloned());
    let ids = probity::kernel::process::own_ids();
    let macros = Macros {
        args: words,
        // Without a target DTrace's $target is 0; that it is missing is worth an error elsewhere.
        target: target.map(i64::from).or((args.face == Face::Dtrace).then_some(0)),
        pid: ids.pid.into(),
        ppid: ids.ppid.into(),
        uid: ids.uid.into(),
        euid: ids.euid.into(),
        gid: ids.gid.into(),
        egid: ids.egid.into(),
        pgid: ids.pgid.into(),
        sid: ids.sid.into(),
        default_args: options.defaultargs,
    };
    let libraries = if options.nolibs { Vec::new() } else { libraries(&options.libdirs) };
    Ok(Input { sources, macros, options, libraries })
}

/// The D libraries in some directories: what ends in `.d`, by name. A directory that is not there has none.
fn libraries(dirs: &[String]) -> Vec<Source> {
    let mut libraries = Vec::new();
    for dir in dirs {
        let Ok(entries) = std::fs::read_dir(dir) else { continue };
        let mut paths: Vec<_> = entries.flatten().map(|e| e.path()).collect();
        paths.retain(|p| p.extension().is_some_and(|e| e == "d") && p.is_file());
        paths.sort();
        for path in paths {
            if let Ok(bytes) = std::fs::read(&path) {
                let text = String::from_utf8_lossy(&bytes).into_owned();
                libraries.push(Source { origin: Origin::Library(path.to_string_lossy().into_owned()), text });
            }
        }
    }
    libraries
}

fn source(args: &Args, kind: SourceKind, text: &str, options: &Options) -> Result<Source> {
    let flag = match kind {
        SourceKind::Provider => 'P',
        SourceKind::Module => 'm',
        SourceKind::Function => 'f',
        SourceKind::Name => 'n',
        SourceKind::Id => 'i',
        SourceKind::File => {
            let bytes = match text {
                "-" => {
                    let mut bytes = Vec::new();
                    std::io::Read::read_to_end(&mut std::io::stdin().lock(), &mut bytes).map(|_| bytes)
                }
                path => std::fs::read(path),
            };
            let bytes = bytes.with_context(|| format!("failed to open {text}"))?;
            if bytes.starts_with(b"\x7fELF") {
                bail!("{text} is an ELF file, not a D script");
            }
            let cpp = args.cpp || options.cpp;
            let bytes = if cpp { preprocess(text, &bytes, &args.cpp_flags, options)? } else { bytes };
            let text_of = String::from_utf8_lossy(&bytes).into_owned();
            return Ok(Source { origin: Origin::File(text.into()), text: text_of });
        }
    };
    Ok(Source { origin: Origin::Flag(flag), text: text.into() })
}

/// Runs the C preprocessor over a script. Its line markers keep the places of errors right.
fn preprocess(name: &str, text: &[u8], flags: &[String], options: &Options) -> Result<Vec<u8>> {
    let cpp = if options.cpppath.is_empty() { "cpp" } else { &options.cpppath };
    let mut command = Command::new(cpp);
    command.args(["-D__linux=1", "-D__SUNW_D=1", "-D__SUNW_D_64=1", "-D__SUNW_D_VERSION=0x02000007"]);
    command.args(&options.cppargs).args(flags);
    // The text comes through a pipe, so what it includes by a relative name is looked for beside the script.
    if let Some(dir) = Path::new(name).parent() {
        command.arg("-iquote").arg(if dir.as_os_str().is_empty() { Path::new(".") } else { dir });
    }
    let mut child = command
        .args(["-", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("-C needs the C preprocessor '{cpp}' (package cpp), or another by -x cpppath"))?;
    // `#!` is no directive; the line stays, empty, for the count.
    let script = text.strip_prefix(b"#!").map_or(text, |rest| {
        let end = rest.iter().position(|&b| b == b'\n').unwrap_or(rest.len());
        &rest[end..]
    });
    let mut input = child.stdin.take().context("cpp has no standard input")?;
    let feed = script.to_vec();
    // On a thread, because a long output fills its pipe before all input is read. A cpp that ends early says why itself.
    let writer = std::thread::spawn(move || drop(std::io::Write::write_all(&mut input, &feed)));
    let output = child.wait_with_output().context("cpp failed")?;
    drop(writer.join());
    if !output.status.success() {
        bail!("failed to preprocess {name}: {cpp} ends with {}", output.status);
    }
    Ok(output.stdout)
}

/// Why an option of the command line was not set.
fn wrong_option(name: &str, value: Option<&str>, error: &OptionError) -> anyhow::Error {
    match error {
        OptionError::Name(None) => anyhow!("failed to set -x {name}: Invalid option name"),
        OptionError::Name(Some(near)) => {
            anyhow!("failed to set -x {name}: Invalid option name; is '{near}' meant?")
        }
        OptionError::Value(expected) => {
            anyhow!("failed to set -x {name}={}: Invalid value for specified option: {expected}", value.unwrap_or(""))
        }
    }
}
