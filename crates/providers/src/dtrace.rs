//! `dtrace:::BEGIN`, `END` and `ERROR`: probes that the consumer fires itself, by running their programs.
//!
//! ERROR's program gets six 64-bit arguments: 0, the enabled-probe id, the action, its offset, the fault and the value.

use crate::kinds::{bare, ctx_arg, raw_tracepoint};
use crate::{Attachment, Provider, Stability};
use probity_ir::{Phase, ProbeDesc, Selector, Signature, TypeTable, glob};
use probity_kernel::{Error, Kind, Prog, System};

/// The provider `dtrace`.
pub struct Dtrace;

/// The probes, and when each may run.
const PROBES: [(&str, Phase); 3] = [("BEGIN", Phase::Begin), ("END", Phase::End), ("ERROR", Phase::Always)];

/// How many arguments ERROR has, `arg0` included.
const ERROR_ARGS: u32 = 6;

impl Provider for Dtrace {
    fn name(&self) -> &'static str {
        "dtrace"
    }

    fn id(&self, _sys: &System, probe: &ProbeDesc) -> u32 {
        PROBES.iter().position(|(name, _)| *name == probe.name).map_or(0, |place| place as u32 + 1)
    }

    fn stability(&self) -> Stability {
        Stability::with_args(["Stable", "Stable", "Common"])
    }

    fn probes(&self, _sys: &System, pattern: &ProbeDesc, found: &mut dyn FnMut(ProbeDesc)) -> Result<(), Error> {
        if !glob(&pattern.module, "") || !glob(&pattern.function, "") {
            return Ok(());
        }
        for (name, _) in PROBES {
            if glob(&pattern.name, name) {
                found(ProbeDesc::new(self.name(), "", "", name));
            }
        }
        Ok(())
    }

    fn signature(
        &self,
        _sys: &System,
        probe: &ProbeDesc,
        typed: bool,
        types: &mut TypeTable,
    ) -> Result<Signature, Error> {
        let Some((name, phase)) = PROBES.iter().find(|(name, _)| *name == probe.name) else {
            return Err(Error::new(Kind::NotFound, format!("there is no probe {probe}")));
        };
        let mut signature = bare(raw_tracepoint(), (*name).to_owned(), Selector::One);
        signature.phase = *phase;
        if *phase == Phase::Always {
            signature.raw = (0..ERROR_ARGS).map(ctx_arg).collect();
        }
        // DTrace gives these probes no typed arguments.
        let _ = (typed, types);
        Ok(signature)
    }

    fn attach(&self, _sys: &System, _probes: &[(u32, ProbeDesc)], _prog: &Prog) -> Result<Attachment, Error> {
        Ok(Attachment { how: "run by the consumer".to_owned(), ..Attachment::default() })
    }
}
