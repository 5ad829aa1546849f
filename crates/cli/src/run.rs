//! One run: compile, trace, print, and the exit status.

use crate::args::{Args, Face, Format};
use crate::{consumer, help, limits, list, question};
use anyhow::{Context, Result, bail};
use probity::compiler::{Compiled, Input};
use probity::kernel::System;
use probity::syntax::{Diagnostic, Sources, render_dtrace, render_pretty};
use probity::{Consumer as _, Outcome, SystemSymbols, Targets};
use serde_json::{Value, json};
use std::io::{IsTerminal, Write};
use std::os::fd::AsFd;

/// Does what the arguments ask; the exit status, or an error that is printed unless it is empty.
pub fn run(args: &Args) -> Result<u8> {
    let sys = System::live();
    let mut targets = Targets::default();
    if args.sources.is_empty() && args.check && args.face == Face::Dtrace {
        return Ok(0);
    }
    if args.sources.is_empty() && !args.list {
        if args.pids.is_empty() && args.commands.is_empty() && args.awaited.is_empty() {
            help::usage(args.face);
            return Ok(2);
        }
        bail!("no probes specified");
    }
    let input = question::build(args, &sys, &mut targets)?;
    if args.header {
        return header(args, &sys, &input);
    }
    if args.list {
        return list::list(args, &sys, &input);
    }
    let compiled = compile(args, &sys, &input)?;
    if args.disassemble || args.face == Face::Dtrace && compiled.options.verbose {
        let listing = crate::listing::listing(args.face, &compiled);
        let _ = std::io::stdout().write_all(listing.as_bytes());
    }
    if args.check {
        return Ok(0);
    }
    announce(args, &input, &compiled);
    limits::check(args, &input, &compiled)?;
    // DTrace shows names as files have them.
    let symbols = SystemSymbols::new(&sys, args.face == Face::Probity);
    let mut session = probity::start(&sys, &compiled, &symbols)?;
    for attachment in session.attachments() {
        let silent = args.face == Face::Dtrace && compiled.options.quiet;
        for (probe, why) in attachment.skipped.iter().filter(|_| !silent) {
            help::complain(help::name(args.face), &format!("{probe} is not traced: {why}"));
        }
        if args.verbose && args.face == Face::Probity && !attachment.how.is_empty() {
            help::complain("probity", &attachment.how);
        }
    }
    // From here on signals end the tracing in order; before, they simply end the process, which leaves nothing behind.
    let mut printer = consumer::open(args, &compiled.options)?;
    targets.pids().for_each(|pid| symbols.expect(pid));
    session.begin(&mut printer)?;
    targets.release()?;
    let wake = printer.wake();
    let outcome = session.run(&mut printer, &mut targets, Some(wake.as_fd()))?;
    let late = session.stop(&mut printer)?;
    let (cx, aggs) = session.aggregations()?;
    printer.finish(&cx, aggs)?;
    printer.turn()?;
    Ok(match (outcome, late) {
        (_, Some(status)) | (Outcome::Exit(status), None) => status as u8,
        (Outcome::Targets, None) if args.face == Face::Probity => child_status(&targets),
        _ => 0,
    })
}

/// `-h`: the header beside the working directory's files, named after the script, or where `-o` says.
fn header(args: &Args, sys: &System, input: &Input) -> Result<u8> {
    use probity::syntax::Origin;
    let script = input.sources.iter().find_map(|s| match &s.origin {
        Origin::File(path) => Some(path.clone()),
        Origin::Flag(_) | Origin::Library(_) => None,
    });
    let Some(script) = script else { bail!("-h makes a header of a script: name it with -s") };
    let stem = std::path::Path::new(&script).file_stem().map_or("probes".into(), |s| s.to_string_lossy().into_owned());
    let path = args.output.clone().unwrap_or(format!("{stem}.h"));
    let name = std::path::Path::new(&path).file_name().map_or("probes.h".into(), |n| n.to_string_lossy().into_owned());
    let (text, sources, diagnostics) = probity::compiler::probe_header(input, &probity::World::of(sys, input), &name);
    complain(args, input, &sources, &diagnostics);
    let Some(text) = text else { bail!("") };
    std::fs::write(&path, text).with_context(|| format!("cannot write {path}"))?;
    Ok(0)
}

/// The command's own status; a signal is 128 + its number, as shells say it.
fn child_status(targets: &Targets) -> u8 {
    use std::os::unix::process::ExitStatusExt;
    targets.status().map_or(0, |s| s.code().or(s.signal().map(|n| 128 + n)).unwrap_or(1) as u8)
}

/// Compiles, or prints the diagnostics and fails with an error that has no text.
fn compile(args: &Args, sys: &System, input: &Input) -> Result<Compiled> {
    let (compiled, sources, diagnostics) = probity::compile(sys, input);
    complain(args, input, &sources, &diagnostics);
    match compiled {
        Some(compiled) => Ok(compiled),
        None => bail!(""),
    }
}

/// Prints diagnostics: with the source line, or as DTrace does.
pub fn complain(args: &Args, input: &Input, sources: &Sources, diagnostics: &[Diagnostic]) {
    if args.format == Format::Json {
        return diagnostics.iter().for_each(|d| help::json(&diagnostic_json(d, sources)));
    }
    if args.face == Face::Dtrace {
        // DTrace stops at the first mistake.
        let first = diagnostics.iter().find(|d| d.is_error());
        // Quiet it does not say what it enables, nor what it leaves out: it has no probe that the kernel cannot make.
        let warnings = diagnostics.iter().filter(|d| !d.is_error() && !input.options.quiet);
        for diagnostic in warnings.chain(first) {
            help::say(&render_dtrace(diagnostic, sources, input.options.errtags));
        }
        return;
    }
    let colour = std::io::stderr().is_terminal();
    diagnostics.iter().for_each(|d| help::say(&render_pretty(d, sources, colour)));
}

/// A diagnostic as JSON's `error` or `warning`: tag, message, and where: file, line, column (from 1), or `null`.
fn diagnostic_json(d: &Diagnostic, sources: &Sources) -> Value {
    let place = d.span.and_then(|span| sources.locate(span));
    let notes: Vec<&str> = d.notes.iter().map(|n| n.message.as_str()).collect();
    json!({
        "type": if d.is_error() { "error" } else { "warning" },
        "tag": d.tag,
        "message": d.message,
        "file": place.as_ref().map(|p| p.name.clone()),
        "line": place.as_ref().map(|p| p.line),
        "column": place.as_ref().map(|p| p.column),
        "notes": notes,
        "help": d.help,
    })
}

/// Says how many probes each description matched, unless quiet.
fn announce(args: &Args, input: &Input, compiled: &Compiled) {
    if compiled.options.quiet {
        return;
    }
    use probity::syntax::Origin;
    for (i, source) in input.sources.iter().enumerate() {
        let count = compiled.matched(i as u32);
        let plural = if count == 1 { "" } else { "s" };
        let what = match &source.origin {
            Origin::File(path) | Origin::Library(path) => format!("script '{path}'"),
            Origin::Flag(_) => format!("description '{}'", description(&source.text)),
        };
        help::complain(help::name(args.face), &format!("{what} matched {count} probe{plural}"));
    }
}

/// The probe description at the head of a flag's text, up to the predicate or the actions.
fn description(text: &str) -> &str {
    let predicate = text.find(" /").map(|at| at + 1);
    let end = [text.find(['{', ';', '\n']), predicate].into_iter().flatten().min();
    &text[..end.unwrap_or(text.len())]
}
