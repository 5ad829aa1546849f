//! The compiler's environment, answered from the running system: probes and signatures from the providers, types from the
//! kernel's BTF. Creates nothing (G4).

use probity_compiler::{Env, EnvError, Input};
use probity_ir::{Probe, ProbeDesc, Signature, Space, TypeId, TypeKind, TypeTable};
use probity_kernel::{Error, Kind, System};
use probity_providers::{PROVIDERS, Provider, kernel_btf};
use probity_syntax::attributes::Attributes;
use std::cell::RefCell;
use std::collections::HashMap;

/// Numbers of probes that have none of their own (those of user programs) start here: above the kernel's, in six columns.
const DYNAMIC_IDS: u32 = 200_000;

/// The running system.
pub struct World<'a> {
    sys: &'a System,
    /// Only what DTrace knows is found, unless it is named.
    dropin: bool,
    ids: RefCell<HashMap<ProbeDesc, u32>>,
}

impl<'a> World<'a> {
    /// The system as `sys` sees it.
    pub fn new(sys: &'a System) -> World<'a> {
        World { sys, dropin: false, ids: RefCell::default() }
    }

    /// The system as a question sees it: as DTrace does, if it is asked of its drop-in.
    pub fn of(sys: &'a System, input: &Input) -> World<'a> {
        World { dropin: input.options.dropin, ..World::new(sys) }
    }

    /// The probe with its number: the provider's own, or the next free one, the same each time it is asked for.
    fn number(&self, provider: &dyn Provider, desc: ProbeDesc) -> Probe {
        let mut id = provider.id(self.sys, &desc);
        if id == 0 {
            let mut ids = self.ids.borrow_mut();
            let next = DYNAMIC_IDS + ids.len() as u32;
            id = *ids.entry(desc.clone()).or_insert(next);
        }
        Probe { id, desc }
    }
}

/// The provider that serves a probe's full name.
pub(crate) fn provider_of(probe: &ProbeDesc) -> Result<&'static dyn Provider, Error> {
    let none = || Error::new(Kind::NotFound, format!("no provider serves {probe}"));
    PROVIDERS.iter().copied().find(|p| p.serves(&probe.provider)).ok_or_else(none)
}

/// Providers whose entries and returns cross into the kernel: [`probity_output::Style::crossing`].
pub fn crossing_providers() -> Vec<String> {
    PROVIDERS.iter().filter(|p| p.crosses()).map(|p| p.name().to_owned()).collect()
}

/// How far one can rely on a probe's names and arguments.
pub fn stability_of(probe: &ProbeDesc) -> probity_providers::Stability {
    provider_of(probe).map_or(probity_providers::Stability::PRIVATE, |provider| provider.stability())
}

/// Says a provider's or the kernel's error in the compiler's terms.
fn env_error(error: &Error) -> EnvError {
    EnvError { tag: error.tag(), message: error.to_string(), help: None }
}

impl Env for World<'_> {
    fn probes(&self, pattern: &ProbeDesc, found: &mut dyn FnMut(Probe)) -> Result<(), EnvError> {
        let named = !pattern.provider.is_empty() && !probity_ir::is_glob(&pattern.provider);
        if named && !PROVIDERS.iter().any(|p| p.serves(&pattern.provider)) {
            let names: Vec<&str> = PROVIDERS.iter().map(|p| p.name()).collect();
            let message = format!("there is no provider `{}` in this version", pattern.provider);
            return Err(EnvError { tag: None, message, help: Some(format!("there are {}", names.join(", "))) });
        }
        let mut failure = None;
        let mut any = false;
        for provider in PROVIDERS.iter().copied().filter(|p| p.serves(&pattern.provider)) {
            let mut report = |desc| {
                if self.dropin && pattern.module.is_empty() && provider.beyond_dtrace(&desc) {
                    return;
                }
                any = true;
                found(self.number(provider, desc));
            };
            if let Err(e) = provider.probes(self.sys, pattern, &mut report) {
                failure.get_or_insert(e);
            }
        }
        match failure {
            // With a wide pattern one provider may be unavailable while others answer.
            Some(e) if !any || named => Err(env_error(&e)),
            _ => Ok(()),
        }
    }

    fn probe_by_id(&self, id: u32) -> Result<Option<Probe>, EnvError> {
        let mut hit = None;
        self.probes(&ProbeDesc::default(), &mut |p| {
            if p.id == id {
                hit = Some(p);
            }
        })?;
        Ok(hit)
    }

    fn signature(&self, probe: &Probe, typed: bool, types: &mut TypeTable) -> Result<Signature, EnvError> {
        provider_of(&probe.desc)
            .and_then(|p| p.signature(self.sys, &probe.desc, typed, types))
            .map_err(|e| env_error(&e))
    }

    fn raw_follows_types(&self, probe: &Probe) -> bool {
        provider_of(&probe.desc).is_ok_and(|provider| provider.raw_follows_types())
    }

    fn user_type(
        &self,
        scope: &str,
        probe: Option<&ProbeDesc>,
        keyword: &str,
        name: &str,
        types: &mut TypeTable,
    ) -> Option<Result<TypeId, EnvError>> {
        let found = PROVIDERS.iter().find_map(|p| p.user_type(self.sys, scope, probe, keyword, name, types))?;
        Some(found.map_err(|error| env_error(&error)))
    }

    fn kernel_type(&self, _module: &str, keyword: &str, name: &str, types: &mut TypeTable) -> Option<TypeId> {
        let keyword = if keyword.is_empty() { "typedef" } else { keyword };
        kernel_btf(self.sys)?.import_named(keyword, name, types, Space::Kernel).ok().flatten()
    }

    fn complete(&self, ty: TypeId, types: &mut TypeTable) -> bool {
        if let Some(done) = probity_providers::complete_user_type(types, ty) {
            return done;
        }
        let forward = matches!(types.get(types.resolve(ty)), TypeKind::Forward { .. });
        forward && kernel_btf(self.sys).is_some_and(|btf| btf.complete(types, ty).unwrap_or(false))
    }

    fn kernel_symbol(&self, _module: &str, name: &str, _types: &mut TypeTable) -> Option<(u64, Option<TypeId>)> {
        let text = self.sys.read("proc/kallsyms").ok()?;
        let line = text.lines().find(|l| l.split_ascii_whitespace().nth(2) == Some(name))?;
        let addr = u64::from_str_radix(line.split(' ').next()?, 16).ok().filter(|&a| a != 0)?;
        Some((addr, None))
    }

    fn foreign(&self, pattern: &ProbeDesc) -> Option<String> {
        probity_providers::foreign(pattern)
    }

    fn near_probes(&self, pattern: &ProbeDesc) -> Vec<String> {
        probity_providers::near(self.sys, pattern, &probity_syntax::distance)
    }

    fn task_switch(&self, types: &mut TypeTable) -> Option<(Probe, Signature)> {
        let desc = probity_providers::task_switch();
        let probe = self.number(provider_of(&desc).ok()?, desc);
        let signature = self.signature(&probe, false, types).ok()?;
        Some((probe, signature))
    }

    fn max_stack(&self) -> u32 {
        let text = self.sys.read("proc/sys/kernel/perf_event_max_stack").unwrap_or_default();
        text.trim().parse().ok().filter(|&n| n > 0).unwrap_or(127)
    }

    fn has_module(&self, name: &str) -> bool {
        name == "vmlinux" || !name.contains('/') && self.sys.path("sys/module").join(name.replace('-', "_")).is_dir()
    }

    fn attributes(&self, probe: &Probe) -> Attributes {
        Attributes::parse(&stability_of(&probe.desc).probes.join("/")).unwrap_or(Attributes::PRIVATE)
    }

    fn cpu_places(&self) -> Vec<(u32, u32)> {
        let mut places = vec![(0, 0); self.ncpu() as usize];
        for (cpu, place) in places.iter_mut().enumerate() {
            let package = self.sys.read(&format!("sys/devices/system/cpu/cpu{cpu}/topology/physical_package_id"));
            // -1 where the machine does not say.
            place.0 = package.ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0);
        }
        let list = |path: &str| self.sys.read(path).ok().and_then(|text| probity_kernel::cpu::parse_list(&text));
        for node in list("sys/devices/system/node/online").unwrap_or_default() {
            for cpu in list(&format!("sys/devices/system/node/node{node}/cpulist")).unwrap_or_default() {
                if let Some(place) = places.get_mut(cpu as usize) {
                    place.1 = node;
                }
            }
        }
        places
    }

    fn ncpu(&self) -> u32 {
        // Maps are laid out by number, so the highest possible CPU decides, not how many there are.
        self.sys.possible_cpus().ok().and_then(|c| c.iter().max().copied()).map_or(1, |m| m + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suggestions_name_whole_probes() {
        let sys = System::live();
        let near = |p: &str, m: &str, f: &str, n: &str| World::new(&sys).near_probes(&ProbeDesc::new(p, m, f, n));
        assert!(near("syscall", "", "opne", "entry").contains(&"syscall:vmlinux:open:entry".to_owned()));
        assert!(near("syscall", "", "rexit", "entry").iter().any(|hint| hint.contains("exit_group")));
        assert_eq!(near("dtrace", "", "", "BEGN"), ["dtrace:::BEGIN"]);
        assert_eq!(near("syscal", "", "read", "entry"), ["syscall"]);
        assert!(near("zzzzzz", "", "", "").is_empty());
        assert_eq!(near("syscall", "libc", "read", "entry")[0], "syscall:vmlinux:read:entry");
        assert!(near("syscall", "", "read", "exit").is_empty());
        assert_eq!(near("syscall", "", "read", "retrun")[0], "syscall:vmlinux:read:return");
    }
}
