//! From the command line to the library's input: sources, options, macros, and the targets that must exist before `$target` can
//! be compiled.

use crate::args::{Args, Face, SourceKind};
use anyhow::{Context, Result, anyhow, bail};
use probity::Targets;
use probity::compiler::options::OptionError;
use probity::compiler::{Input, Options, Source};
use probity::kernel::System;
use probity::syntax::{Macros, Origin};

/// Builds the input. Commands are started and held, processes grabbed.
pub fn build(args: &Args, sys: &System, targets: &mut Targets) -> Result<Input> {
    let mut options = Options::default();
    for (name, value) in &args.options {
        options.set(name, value.as_deref()).map_err(|e| wrong_option(name, value.as_deref(), &e))?;
    }
    let mut target = None;
    for command in &args.commands {
        let pid = targets.spawn(sys, command).with_context(|| format!("failed to execute {command}"))?;
        target.get_or_insert(pid);
    }
    for text in &args.pids {
        let pid = text.parse::<u32>().ok().filter(|&p| p > 0).with_context(|| format!("invalid pid: {text}"))?;
        let pid = targets.grab(pid).with_context(|| format!("failed to grab pid {pid}"))?;
        target.get_or_insert(pid);
    }
    let sources = args.sources.iter().map(|(kind, text)| source(*kind, text)).collect::<Result<Vec<_>>>()?;
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
    Ok(Input { sources, macros, options })
}

fn source(kind: SourceKind, text: &str) -> Result<Source> {
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
            let text_of = String::from_utf8_lossy(&bytes).into_owned();
            return Ok(Source { origin: Origin::File(text.into()), text: text_of });
        }
    };
    Ok(Source { origin: Origin::Flag(flag), text: text.into() })
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
