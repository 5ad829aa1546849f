//! From the command line to the library's input: sources, options, macros, and the targets that must exist before `$target` can
//! be compiled.

use crate::args::{Args, Face, SourceKind};
use crate::help;
use anyhow::{Context, Result, anyhow, bail};
use probity::compiler::options::OptionError;
use probity::compiler::{Input, Options, Source};
use probity::kernel::{Kind, System};
use probity::syntax::{Macros, Origin};
use probity::{Targets, Until};

/// Builds the input. Commands are started and held, processes grabbed.
pub fn build(args: &Args, sys: &System, targets: &mut Targets) -> Result<Input> {
    let mut options = Options { dropin: args.face == Face::Dtrace, ..Options::default() };
    for (name, value) in environment() {
        options.set(&name, Some(&value)).map_err(|e| wrong_option(args.face, &name, Some(&value), &e))?;
    }
    for (name, value) in &args.options {
        options.set(name, value.as_deref()).map_err(|e| wrong_option(args.face, name, value.as_deref(), &e))?;
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
        let pid = targets.grab(pid).map_err(|e| match e.kind() {
            Kind::Gone | Kind::NotFound if args.face == Face::Dtrace => anyhow!("No such process"),
            _ => anyhow::Error::from(e).context(format!("failed to grab pid {pid}")),
        })?;
        target.get_or_insert(pid);
    }
    if !args.awaited.is_empty() {
        let pids = wait(args, sys, targets, until, options.quiet)?;
        target = target.or(pids.first().copied());
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

/// `-W`: waits until processes of all these names have started; they are held. Their numbers, in the order of the names.
fn wait(args: &Args, sys: &System, targets: &mut Targets, until: Until, quiet: bool) -> Result<Vec<u32>> {
    for name in &args.awaited {
        if name.is_empty() {
            bail!("-W needs the name of a process");
        }
        if let Some((_, last)) = name.rsplit_once('/') {
            bail!("-W takes a name, as execname has it, and no path: give '-W {last}'");
        }
    }
    let names: Vec<String> = args.awaited.iter().map(|name| format!("'{name}'")).collect();
    let text = format!("waiting for {} to start", names.join(" and "));
    let ready = || {
        if !quiet {
            help::complain(help::name(args.face), &text);
        }
    };
    targets
        .wait_for(sys, &args.awaited, until, ready)
        .with_context(|| format!("failed to wait for {}", names.join(" and ")))
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

/// Options from the environment: `DTRACE_OPT_STRSIZE=1k` is `-x strsize=1k`, in front of those of the command line.
fn environment() -> Vec<(String, String)> {
    let all = std::env::vars_os().filter_map(|(k, v)| Some((k.into_string().ok()?, v.into_string().ok()?)));
    all.filter_map(|(k, v)| Some((k.strip_prefix("DTRACE_OPT_")?.to_ascii_lowercase(), v))).collect()
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
            let bytes = bytes.map_err(|e| {
                let why = e.to_string();
                anyhow!("failed to open {text}: {}", why.split(" (os error").next().unwrap_or(&why))
            })?;
            if bytes.starts_with(b"\x7fELF") {
                bail!("{text} is an ELF file, not a D script");
            }
            let cpp = args.cpp || options.cpp;
            let bytes = if cpp { crate::cpp::run(args, text, &bytes, options)? } else { bytes };
            let text_of = String::from_utf8_lossy(&bytes).into_owned();
            return Ok(Source { origin: Origin::File(text.into()), text: text_of });
        }
    };
    Ok(Source { origin: Origin::Flag(flag), text: text.into() })
}

/// Why an option of the command line was not set.
fn wrong_option(face: Face, name: &str, value: Option<&str>, error: &OptionError) -> anyhow::Error {
    match error {
        _ if face == Face::Dtrace => anyhow!("failed to set -x {name}: {}", error.dtrace()),
        OptionError::Name(None) => anyhow!("failed to set -x {name}: Invalid option name"),
        OptionError::Name(Some(near)) => {
            anyhow!("failed to set -x {name}: Invalid option name; is '{near}' meant?")
        }
        OptionError::Value(expected) => {
            anyhow!("failed to set -x {name}={}: Invalid value for specified option: {expected}", value.unwrap_or(""))
        }
        OptionError::Refused(why) => anyhow!("failed to set -x {name}: {why}"),
    }
}
