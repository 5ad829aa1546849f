//! `sdt:GROUP::EVENT`: the kernel's tracepoints, with the fields of their records as arguments.
//!
//! Offsets, sizes and types are those of the event's `format` file, never of C headers. System calls are not here although
//! tracefs lists them as events: they have a provider of their own, which costs less.

use crate::kernel_types::field_types;
use crate::kinds::{bare, tracepoint};
use crate::{Attachment, Provider, Stability};
use probity_debuginfo::tracefs_format::{Field, Format, Place, parse};
use probity_ir::{Arg, Location, ProbeDesc, Selector, Signature, Space, TypeId, TypeKind, TypeTable, glob, is_glob};
use probity_kernel::attach::perf_tracepoint;
use probity_kernel::{Error, Kind, Prog, System};

/// The provider `sdt`.
pub struct Sdt;

/// Groups that are no tracepoints of the kernel's code, or that another provider serves.
const LEFT_OUT: [&str; 2] = ["ftrace", "syscalls"];

/// Added to an event's number in tracefs.
const FIRST_ID: u32 = 100_000;

/// The kernel lets no program read the first eight bytes of a record, where the common fields are.
const HEADER: u32 = 8;

/// The event's directory in tracefs, if its names can be those of one.
fn directory(probe: &ProbeDesc) -> Result<String, Error> {
    // The names come from a user: they must not lead out of the directory.
    let name = |name: &str| !name.is_empty() && !name.starts_with('.') && !name.contains('/');
    let (group, event) = (&probe.module, &probe.name);
    if !name(group) || !name(event) || !probe.function.is_empty() || LEFT_OUT.contains(&group.as_str()) {
        return Err(Error::new(Kind::NotFound, format!("there is no probe {probe}")));
    }
    Ok(format!("events/{group}/{event}"))
}

/// The number of a probe's event in tracefs.
pub(crate) fn event_id(sys: &System, probe: &ProbeDesc) -> Result<u32, Error> {
    let path = format!("{}/id", directory(probe)?);
    let text = sys.tracefs()?.read(&path)?;
    text.trim().parse().map_err(|_| Error::new(Kind::Io, format!("{path} in tracefs is no number: {:?}", text.trim())))
}

fn format_of(sys: &System, probe: &ProbeDesc) -> Result<Format, Error> {
    let text = sys.tracefs()?.read(&format!("{}/format", directory(probe)?))?;
    parse(&text).map_err(|error| Error::new(Kind::Io, error.to_string()).context(probe.to_string()))
}

/// The names in `events` (or below it) that match: one that is no glob is only looked for.
fn matching(sys: &System, dir: &str, pattern: &str) -> Result<Vec<String>, Error> {
    let tracefs = sys.tracefs()?;
    if !pattern.is_empty() && !is_glob(pattern) {
        if pattern.contains('/') || pattern.starts_with('.') {
            return Ok(Vec::new());
        }
        let path = tracefs.path(&format!("{dir}/{pattern}"));
        return match std::fs::metadata(&path) {
            Ok(entry) if entry.is_dir() => Ok(vec![pattern.to_owned()]),
            // What may not be looked at is not what is not there.
            Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
                Err(Error::io(error, "cannot look for tracepoints in tracefs").help("reading it needs root"))
            }
            _ => Ok(Vec::new()),
        };
    }
    let mut names = tracefs.directories(dir)?;
    names.retain(|name| glob(pattern, name));
    Ok(names)
}

/// Reports group and name of every event that matches a pattern of `provider`'s.
pub(crate) fn events(
    sys: &System,
    provider: &str,
    pattern: &ProbeDesc,
    found: &mut dyn FnMut(&str, &str),
) -> Result<(), Error> {
    if !glob(&pattern.function, "") {
        return Ok(());
    }
    let groups = match matching(sys, "events", &pattern.module) {
        Ok(groups) => groups,
        // Who asks for all providers' probes is content with those that can be listed.
        Err(error) if pattern.provider != provider => {
            log::info!("no tracepoints: {error}");
            return Ok(());
        }
        Err(error) => return Err(error),
    };
    for group in groups.iter().filter(|group| !LEFT_OUT.contains(&group.as_str())) {
        for event in matching(sys, &format!("events/{group}"), &pattern.name)? {
            found(group, &event);
        }
    }
    Ok(())
}

impl Provider for Sdt {
    fn name(&self) -> &'static str {
        "sdt"
    }

    fn id(&self, sys: &System, probe: &ProbeDesc) -> u32 {
        event_id(sys, probe).map_or(0, |id| FIRST_ID.saturating_add(id))
    }

    fn stability(&self) -> Stability {
        Stability::with_args(["Private", "Private", "ISA"])
    }

    fn probes(&self, sys: &System, pattern: &ProbeDesc, found: &mut dyn FnMut(ProbeDesc)) -> Result<(), Error> {
        events(sys, self.name(), pattern, &mut |group, event| found(ProbeDesc::new(self.name(), group, "", event)))
    }

    fn signature(
        &self,
        sys: &System,
        probe: &ProbeDesc,
        typed: bool,
        types: &mut TypeTable,
    ) -> Result<Signature, Error> {
        let format = format_of(sys, probe)?;
        let mut signature = bare(tracepoint(), format!("{}:{}", probe.module, probe.name), Selector::One);
        // The untyped arguments need the types too: these tell how wide and of which sign a field is.
        let mut scratch = TypeTable::default();
        let into = if typed { types } else { &mut scratch };
        for (field, ty) in format.fields.iter().zip(field_types(sys, &format.fields, Space::Kernel, into)) {
            let (ty, location) = argument(field, ty, into);
            signature.raw.push(location.clone());
            signature.args.push(Arg { name: field.name.clone(), ty, location, translated: String::new() });
        }
        signature.raw.truncate(10);
        if !typed {
            signature.args.clear();
        }
        Ok(signature)
    }

    fn attach(&self, sys: &System, probes: &[(u32, ProbeDesc)], prog: &Prog) -> Result<Attachment, Error> {
        let mut attachment = Attachment { how: "perf tracepoint".to_owned(), ..Attachment::default() };
        for (index, probe) in probes {
            let link = perf_tracepoint(prog, event_id(sys, probe)?.into(), u64::from(*index));
            attachment.links.push(link?);
        }
        Ok(attachment)
    }
}

/// A field's type as an argument's, and where the value is (for arrays and structs: the address).
fn argument(field: &Field, ty: TypeId, types: &mut TypeTable) -> (TypeId, Location) {
    match field.place {
        Place::Inline => {}
        // `char[] name` is bytes somewhere in the record: what points to them is the value.
        Place::DataLoc => return (element_pointer(ty, types), Location::DataLoc { offset: field.offset }),
        Place::RelLoc => {
            let why = format!("{} is held relative to itself, which is not supported", field.name);
            return (element_pointer(ty, types), Location::None(why));
        }
    }
    let offset = field.offset;
    if offset < HEADER {
        return (ty, Location::None(format!("the kernel does not show {} to programs", field.name)));
    }
    let size = types.size(ty);
    let scalar =
        matches!(types.get(types.resolve(ty)), TypeKind::Int { .. } | TypeKind::Enum { .. } | TypeKind::Pointer { .. });
    let Some(size) = size.filter(|size| scalar && matches!(size, 1 | 2 | 4 | 8)) else {
        return (ty, Location::CtxAddress { offset });
    };
    let (size, signed) = (size as u8, is_signed(ty, types));
    // The verifier takes aligned reads of a record only, and some records are packed.
    if offset.is_multiple_of(u32::from(size)) {
        return (ty, Location::Ctx { offset, size, signed });
    }
    let base = Box::new(Location::CtxAddress { offset });
    (ty, Location::Memory { base, offset: 0, size, signed, space: Space::Kernel })
}

fn element_pointer(ty: TypeId, types: &mut TypeTable) -> TypeId {
    let of = match types.get(types.resolve(ty)) {
        TypeKind::Array { of, .. } => *of,
        _ => ty,
    };
    types.pointer(of, Space::Kernel)
}

/// Whether the values of a type are sign-extended.
pub(crate) fn is_signed(ty: TypeId, types: &TypeTable) -> bool {
    matches!(types.get(types.resolve(ty)), TypeKind::Int { signed: true, .. } | TypeKind::Enum { signed: true, .. })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Counter, live};

    fn found(pattern: [&str; 4]) -> Vec<String> {
        let [p, m, f, n] = pattern;
        let mut all = Vec::new();
        let sys = System::live();
        Sdt.probes(&sys, &ProbeDesc::new(p, m, f, n), &mut |desc| all.push(desc.to_string())).unwrap();
        all
    }

    fn sched_switch() -> ProbeDesc {
        ProbeDesc::new("sdt", "sched", "", "sched_switch")
    }

    #[test]
    fn events_by_group_and_name() {
        if !live() {
            return;
        }
        assert_eq!(found(["sdt", "sched", "", "sched_switch"]), ["sdt:sched::sched_switch"]);
        assert!(found(["", "sched", "", "sched_*"]).len() > 5);
        assert!(found(["sdt", "", "", ""]).len() > 500);
        for none in [
            ["sdt", "..", "", "events"],
            ["sdt", "sched/sched_switch", "", ""],
            ["sdt", "sched", "f", ""],
            ["sdt", "syscalls", "", ""],
            ["sdt", "sched", "", "enable"],
        ] {
            assert!(found(none).is_empty(), "{none:?}");
        }
        let sys = System::live();
        assert!(Sdt.id(&sys, &sched_switch()) > FIRST_ID);
        assert_eq!(Sdt.id(&sys, &ProbeDesc::new("sdt", "sched", "", "nonesuch")), 0);
    }

    #[test]
    fn fields_are_arguments() {
        if !live() {
            return;
        }
        let mut types = TypeTable::default();
        let signature = Sdt.signature(&System::live(), &sched_switch(), true, &mut types).unwrap();
        let arg = |name: &str| signature.args.iter().find(|arg| arg.name == name).unwrap();
        assert!(matches!(arg("prev_comm").location, Location::CtxAddress { offset: 8 }));
        assert_eq!(types.size(arg("prev_comm").ty), Some(16));
        assert!(matches!(arg("prev_pid").location, Location::Ctx { size: 4, signed: true, .. }));
        assert!(matches!(arg("prev_state").location, Location::Ctx { size: 8, signed: true, .. }));
        assert_eq!(signature.raw.len(), signature.args.len().min(10));

        let exec = ProbeDesc::new("sdt", "sched", "", "sched_process_exec");
        let signature = Sdt.signature(&System::live(), &exec, true, &mut types).unwrap();
        assert!(matches!(signature.args[0].location, Location::DataLoc { .. }));
        assert_eq!(types.name(signature.args[0].ty), "char *");
    }

    #[test]
    fn events_of_all_groups_have_signatures() {
        if !live() {
            return;
        }
        let sys = System::live();
        let mut types = TypeTable::default();
        let mut all = Vec::new();
        Sdt.probes(&sys, &ProbeDesc::default(), &mut |desc| all.push(desc)).unwrap();
        for probe in all.into_iter().step_by(7) {
            let signature = Sdt.signature(&sys, &probe, true, &mut types).unwrap();
            for arg in signature.args {
                if let Location::Ctx { offset, size, .. } = arg.location {
                    assert!(offset >= HEADER && offset % u32::from(size) == 0, "{probe} {}", arg.name);
                }
            }
        }
    }

    #[test]
    fn an_event_fires_with_its_fields() {
        if !live() {
            return;
        }
        let sys = System::live();
        // sched_process_exec: filename, pid, old_pid.
        let pattern = ["sdt", "sched", "", "sched_process_exec"];
        let pid = Counter::attach(&Sdt, &sys, pattern, None, |signature| Some(signature.raw[1].clone()));
        let path = Counter::attach(&Sdt, &sys, pattern, None, |signature| {
            let base = Box::new(signature.raw[0].clone());
            Some(Location::Memory { base, offset: 0, size: 1, signed: false, space: Space::Kernel })
        });
        let mut child = std::process::Command::new("/bin/true").spawn().unwrap();
        child.wait().unwrap();
        assert!(pid.get(0).0 >= 1);
        assert!(pid.get(0).1 > 1);
        assert_eq!(path.get(0).1, u64::from(b'/'));
    }
}
