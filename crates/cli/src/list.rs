//! `-l`: probes in DTrace's columns. Creates nothing in the system (G4).

use crate::args::{Args, Face};
use anyhow::{Result, bail};
use probity::World;
use probity::compiler::{Env, Input};
use probity::ir::{Probe, ProbeDesc, TypeTable};
use probity::kernel::System;
use probity::syntax::{Diagnostic, tags};
use std::io::{self, BufWriter, Write};

/// Lists the probes that the input names, or all.
pub fn list(args: &Args, sys: &System, input: &Input) -> Result<u8> {
    let world = World::of(sys, input);
    let mut out = BufWriter::new(io::stdout());
    let mut count = 0u64;
    let mut listing = None;
    let mut failed = false;
    if !input.sources.is_empty() {
        let (found, sources, mut diagnostics) = probity::compiler::probes(input, &world);
        if args.face == Face::Dtrace {
            // Here a description without probes is no error: it is told with the list.
            diagnostics.retain(|d| d.tag != tags::D_PDESC_ZERO);
        }
        crate::run::complain(args, input, &sources, &diagnostics);
        failed = diagnostics.iter().any(Diagnostic::is_error);
        if failed && args.face == Face::Dtrace {
            return Ok(1);
        }
        listing = Some(found);
    }
    let result = head(&mut out).and_then(|()| {
        let mut failure = Ok(());
        let mut show = |probe: Probe| {
            count += 1;
            if failure.is_ok() {
                failure = line(&mut out, &world, &probe, args);
            }
        };
        match listing {
            Some(listing) => {
                listing.probes.into_iter().for_each(&mut show);
                if args.face == Face::Dtrace {
                    for desc in listing.unmatched {
                        crate::help::complain(
                            "dtrace",
                            &format!("failed to match {desc}: No probe matches description"),
                        );
                    }
                    // As DTrace's own exit status.
                    count = count.max(1);
                }
            }
            // Every provider that can say something does; the others' reasons are not asked for here.
            None => drop(world.probes(&ProbeDesc::default(), &mut show)),
        }
        failure.and_then(|()| out.flush())
    });
    match result {
        Err(e) if e.kind() != io::ErrorKind::BrokenPipe => bail!("cannot write the list: {e}"),
        _ => Ok(u8::from(count == 0 || failed)),
    }
}

fn head(out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{:>5} {:>10} {:>17} {:>33} NAME", "ID", "PROVIDER", "MODULE", "FUNCTION")
}

fn line(out: &mut dyn Write, world: &World<'_>, probe: &Probe, args: &Args) -> io::Result<()> {
    let d = &probe.desc;
    writeln!(out, "{:>5} {:>10} {:>17} {:>33} {}", probe.id, d.provider, d.module, d.function, d.name)?;
    if !args.verbose {
        return Ok(());
    }
    let dtrace = args.face == Face::Dtrace;
    if dtrace {
        let stability = probity::stability_of(d);
        attributes(out, "Probe Description", stability.probes)?;
        attributes(out, "Argument", stability.args)?;
    }
    let mut types = TypeTable::default();
    writeln!(out, "\n\tArgument Types")?;
    match world.signature(probe, true, &mut types) {
        Ok(signature) if signature.args.is_empty() => writeln!(out, "\t\tNone")?,
        Ok(signature) => {
            for (i, arg) in signature.args.iter().enumerate() {
                // DTrace's lines have no names, and programs read them.
                let name = if arg.name.is_empty() || dtrace { String::new() } else { format!("  ({})", arg.name) };
                let ty = if arg.translated.is_empty() { types.name(arg.ty) } else { arg.translated.clone() };
                writeln!(out, "\t\targs[{i}]: {ty}{name}")?;
            }
        }
        Err(e) => writeln!(out, "\t\tnot known: {}", e.message)?,
    }
    writeln!(out)
}

fn attributes(out: &mut dyn Write, of: &str, [names, data, class]: [&str; 3]) -> io::Result<()> {
    writeln!(out, "\n\t{of} Attributes")?;
    writeln!(out, "\t\tIdentifier Names: {names}")?;
    writeln!(out, "\t\tData Semantics:   {data}")?;
    writeln!(out, "\t\tDependency Class: {class}")
}
