//! What the machine and the options allow, looked at before tracing starts: actions that change the system, the CPU that was
//! chosen, sizes that are too small or too large.

use crate::args::{Args, Face};
use crate::{help, run};
use anyhow::{Result, bail};
use probity::compiler::{Compiled, Input};
use probity::syntax::{Diagnostic, tags};

/// The kernel's rings and our layout end here, for each CPU.
const MAX_BUFFER: u64 = 1 << 30;

/// Fails where tracing cannot start as asked.
pub fn check(args: &Args, input: &Input, compiled: &Compiled) -> Result<()> {
    destructive(args, input, compiled)?;
    let ours = compiled.program.upkeep.as_ref().map_or(0, |upkeep| upkeep.units.len());
    if compiled.program.units.len() == ours && !compiled.options.zdefs {
        bail!("no probes matched");
    }
    let cpu = compiled.options.cpu;
    let online = |cpu| probity::kernel::cpu::online().is_ok_and(|all| all.iter().any(|&c| u64::from(c) == cpu));
    if let Some(cpu) = cpu.filter(|&cpu| !online(cpu)) {
        bail!("could not enable tracing: there is no CPU {cpu} online: choose another with -x cpu");
    }
    if let Some((option, have, need)) = compiled.too_small() {
        match args.face {
            Face::Dtrace => bail!("could not enable tracing: Enabling exceeds size of buffer"),
            Face::Probity => bail!("{option} is {have} bytes and one entry takes {need}: set it to more"),
        }
    }
    if probity::end_too_large(compiled) {
        match args.face {
            Face::Dtrace => bail!("could not enable tracing: END enablings exceed size of principal buffer"),
            Face::Probity => bail!("what END records does not fit in a buffer of bufpolicy=fill: raise bufsize"),
        }
    }
    too_large(args, compiled)
}

fn destructive(args: &Args, input: &Input, compiled: &Compiled) -> Result<()> {
    if let Some(place) = compiled.destructive.filter(|_| !compiled.options.destructive) {
        if args.face == Face::Dtrace {
            bail!("could not enable tracing: Destructive actions not allowed");
        }
        let message = "this action changes the system, which needs to be allowed";
        let d = Diagnostic::error(tags::D_UNKNOWN, place, message);
        let d = d.help("give -w, or `#pragma D option destructive`");
        run::complain(args, input, &compiled.sources, &[d]);
        bail!("");
    }
    if compiled.options.destructive && !compiled.options.quiet && args.face == Face::Dtrace {
        help::complain("dtrace", "allowing destructive actions");
    }
    Ok(())
}

/// Sizes above what there can be are lowered, or refused with `bufresize=manual`.
fn too_large(args: &Args, compiled: &Compiled) -> Result<()> {
    let options = &compiled.options;
    let manual = options.bufresize == "manual";
    let tell = |text: &str| {
        if options.quietresize != Some(true) && !(options.quiet && options.quietresize.is_none()) {
            help::complain(help::name(args.face), text);
        }
    };
    let rounded = options.bufsize.checked_next_power_of_two().unwrap_or(options.bufsize);
    if rounded != options.bufsize && options.quietresize == Some(false) && manual {
        help::say(&format!("bufsize increased to {rounded}"));
    }
    if options.bufsize > MAX_BUFFER {
        match (manual, args.face) {
            (true, Face::Dtrace) => bail!("could not enable tracing: Memory allocation failure"),
            (true, Face::Probity) => bail!("bufsize is more than 1g, the most that there is for a CPU: set it to less"),
            (false, _) => tell("buffer size lowered to 1g"),
        }
    }
    if let Some(most) = compiled.largest_aggsize().filter(|&most| options.aggsize > most) {
        match (manual, args.face) {
            (true, Face::Dtrace) => bail!("could not enable tracing: failed to create BPF map 'aggs': Too big"),
            (true, Face::Probity) => {
                bail!("aggsize is more than {most} bytes, the most for these keys: set it to less")
            }
            (false, _) => tell(&format!("aggregation size lowered to {}m", most >> 20)),
        }
    }
    Ok(())
}
