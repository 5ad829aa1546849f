//! `rawtp:GROUP::EVENT`: the kernel's tracepoints with the arguments that the kernel's own code passes, not the fields of a record.
//!
//! The arguments have the types that BTF gives them, so that structures are read member by member. A tracepoint without an event
//! in tracefs (`sched_exit_tp`) is in module `vmlinux`, and is found only by its whole name with the provider's.

use crate::kernel_types::kernel_btf;
use crate::kinds::{bare, ctx_arg, ctx_number, tp_btf};
use crate::sdt;
use crate::{Attachment, Provider, Stability};
use probity_debuginfo::btf::{Btf, FuncProto};
use probity_debuginfo::btf_types::BtfKind;
use probity_ir::{Arg, Location, ProbeDesc, Selector, Signature, Space, TypeTable, glob, is_glob};
use probity_kernel::{Error, Kind, Prog, System, attach};
use std::sync::Arc;

/// The provider `rawtp`.
pub struct RawTp;

/// Added to an event's number in tracefs.
const FIRST_ID: u32 = 170_000;
/// Numbers from here on belong to others.
const LAST_ID: u32 = 200_000;
/// The module of tracepoints that are no events.
const MODULE: &str = "vmlinux";

/// The probe that fires when a CPU switches from one thread to another; the task that stops running is its second argument.
pub fn task_switch() -> ProbeDesc {
    ProbeDesc::new(RawTp.name(), "sched", "", "sched_switch")
}

/// A tracepoint's arguments, from the kernel's types.
pub(crate) struct Tracepoint {
    pub btf: Arc<Btf>,
    pub proto: FuncProto,
}

impl Tracepoint {
    /// Looks a tracepoint of the kernel itself up; one of a module is described in that module's types, which are not read.
    pub fn find(sys: &System, name: &str) -> Option<Tracepoint> {
        let btf = kernel_btf(sys)?;
        let proto = btf.tracepoint_args(name)?;
        Some(Tracepoint { btf, proto })
    }

    /// Where argument `n` is in the program's context, as wide as its type and of its sign: the kernel extends with zeros.
    pub fn location(&self, n: usize) -> Location {
        let offset = 8 * n as u32;
        let Some(record) = self.proto.params.get(n).and_then(|param| self.btf.resolve(param.ty)) else {
            return Location::None("its type is not known".to_owned());
        };
        let signed = match record.kind {
            BtfKind::Ptr => return ctx_arg(n as u32),
            BtfKind::Int => record.int().is_some_and(|int| int.signed),
            BtfKind::Enum | BtfKind::Enum64 => record.kind_flag,
            _ => return Location::None("it is a structure passed by value".to_owned()),
        };
        match record.size_or_type {
            size @ (1 | 2 | 4) => Location::Ctx { offset, size: size as u8, signed },
            8 => ctx_number(n as u32),
            size => Location::None(format!("it has {size} bytes")),
        }
    }
}

fn missing(probe: &ProbeDesc) -> Error {
    Error::new(Kind::NotFound, format!("there is no probe {probe}"))
}

impl Provider for RawTp {
    fn name(&self) -> &'static str {
        "rawtp"
    }

    fn id(&self, sys: &System, probe: &ProbeDesc) -> u32 {
        let id = sdt::event_id(sys, probe).map_or(0, |id| FIRST_ID.saturating_add(id));
        if id < LAST_ID { id } else { 0 }
    }

    fn stability(&self) -> Stability {
        Stability::with_args(["Private", "Private", "ISA"])
    }

    fn probes(&self, sys: &System, pattern: &ProbeDesc, found: &mut dyn FnMut(ProbeDesc)) -> Result<(), Error> {
        let mut any = false;
        sdt::events(sys, self.name(), pattern, &mut |group, event| {
            any = true;
            found(ProbeDesc::new(self.name(), group, "", event));
        })?;
        let name = &pattern.name;
        // The search takes a millisecond, which `BEGIN` alone need not pay: the provider has to be named.
        let named = !pattern.provider.is_empty() && !name.is_empty();
        let whole = named && !is_glob(name) && glob(&pattern.function, "");
        if !any && whole && glob(&pattern.module, MODULE) && Tracepoint::find(sys, name).is_some() {
            found(ProbeDesc::new(self.name(), MODULE, "", name));
        }
        Ok(())
    }

    fn signature(
        &self,
        sys: &System,
        probe: &ProbeDesc,
        typed: bool,
        types: &mut TypeTable,
    ) -> Result<Signature, Error> {
        let group = format!("{}:{}", self.name(), probe.name);
        let Some(tracepoint) = Tracepoint::find(sys, &probe.name) else {
            let what = format!("the kernel's types (BTF) do not describe the tracepoint {}", probe.name);
            let help = format!("sdt:{}::{} has the fields of its record", probe.module, probe.name);
            return Err(Error::new(Kind::Unsupported, what).help(help));
        };
        let mut signature = bare(tp_btf(tracepoint.proto.id), group, Selector::One);
        let count = tracepoint.proto.params.len();
        signature.raw = (0..count.min(10)).map(|n| tracepoint.location(n)).collect();
        if typed {
            for (n, param) in tracepoint.proto.params.iter().enumerate() {
                let ty = tracepoint.btf.import(param.ty, types, Space::Kernel);
                let ty = ty.map_err(|error| Error::new(Kind::Io, error.to_string()).context(probe.to_string()))?;
                let (name, location) = (param.name.clone(), tracepoint.location(n));
                signature.args.push(Arg { name, ty, location, translated: String::new() });
            }
        }
        Ok(signature)
    }

    fn attach(&self, _sys: &System, probes: &[(u32, ProbeDesc)], prog: &Prog) -> Result<Attachment, Error> {
        let mut attachment = Attachment { how: "tp_btf".to_owned(), ..Attachment::default() };
        for (index, probe) in probes {
            let link = attach::tp_btf(prog, 0).map_err(|error| error.context(missing(probe).to_string()))?;
            debug_assert_eq!(*index, 0, "each tracepoint has a program of its own");
            attachment.links.push(link);
        }
        Ok(attachment)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Counter, live};
    use probity_ir::TypeKind;

    fn found(pattern: [&str; 4]) -> Vec<String> {
        let [p, m, f, n] = pattern;
        let mut all = Vec::new();
        let sys = System::live();
        RawTp.probes(&sys, &ProbeDesc::new(p, m, f, n), &mut |desc| all.push(desc.to_string())).unwrap();
        all
    }

    #[test]
    fn tracepoints_by_group_and_name() {
        if !live() {
            return;
        }
        assert_eq!(found(["rawtp", "", "", "sched_process_fork"]), ["rawtp:sched::sched_process_fork"]);
        assert!(found(["rawtp", "sched", "", "sched_*"]).len() > 5);
        assert!(found(["rawtp", "sched", "f", ""]).is_empty());
        assert!(found(["rawtp", "", "", "no_such_tracepoint"]).is_empty());
        if Tracepoint::find(&System::live(), "pelt_cfs_tp").is_some() {
            assert_eq!(found(["rawtp", "", "", "pelt_cfs_tp"]), ["rawtp:vmlinux::pelt_cfs_tp"]);
        }
    }

    #[test]
    fn arguments_have_their_kernel_types() {
        if !live() {
            return;
        }
        let sys = System::live();
        let mut types = TypeTable::default();
        let probe = ProbeDesc::new("rawtp", "signal", "", "signal_generate");
        let Ok(signature) = RawTp.signature(&sys, &probe, true, &mut types) else { return };
        let names: Vec<String> = signature.args.iter().map(|arg| types.name(arg.ty)).collect();
        assert_eq!(names, ["int", "struct kernel_siginfo *", "struct task_struct *", "int", "int"]);
        assert_eq!(signature.raw[0], Location::Ctx { offset: 0, size: 4, signed: true });
        assert_eq!(signature.raw[2], Location::Ctx { offset: 16, size: 8, signed: false });
        assert!(matches!(types.get(signature.args[2].ty), TypeKind::Pointer { space: Space::Kernel, .. }));
    }

    #[test]
    fn a_tracepoint_fires_with_its_arguments() {
        if !live() || kernel_btf(&System::live()).is_none() {
            return;
        }
        let sys = System::live();
        // sched_process_exec(task, old_pid, bprm)
        let counter = Counter::attach(&RawTp, &sys, ["rawtp", "sched", "", "sched_process_exec"], None, |signature| {
            Some(signature.raw[1].clone())
        });
        let mut child = std::process::Command::new("/bin/true").spawn().unwrap();
        child.wait().unwrap();
        assert!(counter.get(0).0 >= 1);
        assert!(counter.get(0).1 > 1);
    }
}
