//! `NAMEPID:MODULE:FUNCTION:PROBE`: the probes that programs declare themselves (USDT), as their `.note.stapsdt` describes them.
//!
//! A probe may be at many places, each with its arguments elsewhere: which place fired, the program counter tells. `__` in a probe's
//! name is written `-`. The kernel raises a probe's semaphore while it is attached. Processes that start later have none yet.

use crate::pid::{Mapped, mapped, matching};
use crate::stap_args::{Operand, operands};
use crate::user::{Object, kind, unreadable};
use crate::{Attachment, Provider, Stability};
use probity_debuginfo::elf::Elf;
use probity_debuginfo::stapsdt::{self, Usdt as Note};
use probity_ir::{Arg, Location, ProbeDesc, Selector, Signature, Space, Test, TypeTable, glob, is_glob};
use probity_kernel::perf::ProbePmu;
use probity_kernel::{Error, Kind, Prog, System, attach};
use std::collections::BTreeSet;

/// The provider of programs' own probes.
pub struct Usdt;

/// How many of `arg0`, `arg1`, … D has.
const ARGUMENTS: usize = 10;

/// Addresses are moved by whole pages when a file is loaded: what is left says which place fired.
const IN_PAGE: i64 = 0xfff;

/// A provider's name and the process at its end.
fn split(provider: &str) -> Option<(&str, u32)> {
    let digits = provider.trim_end_matches(|c: char| c.is_ascii_digit()).len();
    let pid = provider[digits..].parse().ok().filter(|pid| *pid != 0)?;
    (digits > 0).then_some((&provider[..digits], pid))
}

fn required(probe: &ProbeDesc) -> Result<(&str, u32), Error> {
    split(&probe.provider).ok_or_else(|| Error::new(Kind::NotFound, format!("there is no probe {probe}")))
}

/// A probe at one place.
struct Place {
    note: Note,
    function: String,
}

/// The places that a file declares, of those that `wanted` takes.
fn places(object: &Object, wanted: &dyn Fn(&Note) -> bool) -> Result<Vec<Place>, Error> {
    let elf = Elf::open(&object.path).map_err(|error| unreadable(error, &object.path))?;
    if elf.section(".note.stapsdt").is_none() {
        return Ok(Vec::new());
    }
    let notes = stapsdt::probes(&elf).map_err(|error| unreadable(error, &object.path))?;
    let place = |note: Note| {
        let function = elf.function_at(note.vaddr).ok().flatten().map(|found| found.0).unwrap_or_default();
        Place { note, function }
    };
    Ok(notes.into_iter().filter(|note| wanted(note)).map(place).collect())
}

fn probe_name(note: &Note) -> String {
    note.name.replace("__", "-")
}

/// Every place of a probe, by file.
fn places_of(sys: &System, probe: &ProbeDesc) -> Result<Vec<(Object, Vec<Place>)>, Error> {
    let (provider, pid) = required(probe)?;
    let files = mapped(sys, pid)?.into_iter().map(|Mapped { object, .. }| object);
    let mut all = Vec::new();
    for object in files.filter(|object| object.module == probe.module) {
        let mut found = places(&object, &|note| note.provider == provider && probe_name(note) == probe.name)?;
        found.retain(|place| place.function == probe.function);
        if !found.is_empty() {
            all.push((object, found));
        }
    }
    Ok(all)
}

/// Argument `n`, wherever the place that fired has it.
fn argument(sites: &[(u64, Vec<Operand>)], n: usize) -> Option<Operand> {
    let (_, first) = sites.first()?;
    let mut all = first.get(n)?.clone();
    for (vaddr, operands) in &sites[1..] {
        let missing = || Location::None("one of the probe's places lacks it".to_owned());
        let place = operands.get(n).map_or_else(missing, |operand| operand.place.clone());
        if place == all.place {
            continue;
        }
        // A choice between a value and none is none.
        if let Location::None(why) = place {
            all.place = Location::None(why);
            return Some(all);
        }
        let low = *vaddr as i64 & IN_PAGE;
        let value = Location::Masked { of: Box::new(Location::Pc { space: Space::User }), mask: IN_PAGE };
        let test = Box::new(Test::Within { value, low, high: low });
        all.place = Location::Case { test, then: Box::new(place), otherwise: Box::new(all.place) };
    }
    Some(all)
}

impl Provider for Usdt {
    fn name(&self) -> &'static str {
        "usdt"
    }

    fn serves(&self, provider: &str) -> bool {
        split(provider).is_some()
    }

    fn stability(&self) -> Stability {
        Stability::PRIVATE
    }

    fn probes(&self, sys: &System, pattern: &ProbeDesc, found: &mut dyn FnMut(ProbeDesc)) -> Result<(), Error> {
        let (_, pid) = required(pattern)?;
        let files = match mapped(sys, pid) {
            Ok(files) => files,
            // With a glob the process may be another provider's business.
            Err(_) if is_glob(&pattern.provider) => return Ok(()),
            Err(error) => return Err(error),
        };
        let mut seen = BTreeSet::new();
        for object in matching(files, &pattern.module) {
            let wanted = |note: &Note| {
                glob(&pattern.provider, &format!("{}{pid}", note.provider)) && glob(&pattern.name, &probe_name(note))
            };
            for Place { note, function } in places(&object, &wanted)? {
                let provider = format!("{}{pid}", note.provider);
                let desc = ProbeDesc::new(&provider, &object.module, &function, &probe_name(&note));
                if glob(&pattern.function, &function) && seen.insert(desc.clone()) {
                    found(desc);
                }
            }
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
        let (_, pid) = required(probe)?;
        let places: Vec<Place> = places_of(sys, probe)?.into_iter().flat_map(|(_, places)| places).collect();
        if places.is_empty() {
            return Err(Error::new(Kind::NotFound, format!("there is no probe {probe}")));
        }
        let mut sites: Vec<(u64, Vec<Operand>)> = Vec::new();
        for Place { note, .. } in &places {
            let all = operands(&note.arguments, ARGUMENTS);
            let same = |site: &&(u64, Vec<Operand>)| site.0 as i64 & IN_PAGE == note.vaddr as i64 & IN_PAGE;
            if sites.iter().find(same).is_some_and(|site| site.1 != all) {
                let what = "two of its places, with arguments of their own, cannot be told apart by their addresses";
                return Err(Error::new(Kind::Unsupported, what).context(probe.to_string()));
            }
            sites.push((note.vaddr, all));
        }
        let mut signature = crate::kinds::bare(kind(sys), format!("{}{pid}", self.name()), Selector::Cookie);
        for Operand { size, signed, place } in (0..ARGUMENTS).map_while(|n| argument(&sites, n)) {
            if typed {
                let (ty, location) = (types.int(size, signed), place.clone());
                signature.args.push(Arg { name: String::new(), ty, location, translated: String::new() });
            }
            signature.raw.push(place);
        }
        Ok(signature)
    }

    fn attach(&self, sys: &System, probes: &[(u32, ProbeDesc)], prog: &Prog) -> Result<Attachment, Error> {
        let multi = prog.attach_type().is_some_and(|kind| kind != 0);
        let pmu = if multi { None } else { Some(ProbePmu::read(sys, "uprobe")?) };
        let mut attachment = Attachment { how: "uprobe, with semaphores".to_owned(), ..Attachment::default() };
        for (index, probe) in probes {
            let (_, pid) = required(probe)?;
            for (object, places) in places_of(sys, probe)? {
                let mut sites: Vec<(u64, u64)> =
                    places.iter().map(|place| (place.note.offset, place.note.semaphore)).collect();
                sites.sort_unstable();
                sites.dedup();
                let cookie = u64::from(*index);
                match &pmu {
                    None => {
                        let offsets: Vec<(u64, u64)> = sites.iter().map(|site| (site.0, cookie)).collect();
                        let semaphores: Vec<u64> = sites.iter().map(|site| site.1).collect();
                        let link =
                            attach::uprobe_multi_counted(prog, &object.path, &offsets, &semaphores, Some(pid), false);
                        attachment.links.push(link?);
                    }
                    Some(pmu) => {
                        for (offset, semaphore) in sites {
                            let site = (offset, cookie);
                            let link = attach::uprobe_pmu(prog, pmu, &object.path, site, semaphore, Some(pid), false)?;
                            attachment.links.push(link);
                        }
                    }
                }
            }
        }
        Ok(attachment)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn providers_end_in_a_process() {
        assert_eq!(split("test_prov1234"), Some(("test_prov", 1234)));
        assert_eq!(split("p*7"), Some(("p*", 7)));
        for bad in ["1234", "prov", "prov0", "", "prov99999999999"] {
            assert_eq!(split(bad), None, "{bad}");
        }
    }

    #[test]
    fn places_are_told_apart_by_the_program_counter() {
        let site = |vaddr, text| (vaddr, operands(text, ARGUMENTS));
        let one = argument(&[site(0x1010, "8@%rax"), site(0x1020, "8@%rax")], 0).unwrap();
        assert_eq!(one.place, Location::Reg { dwarf: 0 });
        let two = argument(&[site(0x1010, "8@%rax"), site(0x1020, "8@%rbx")], 0).unwrap();
        let Location::Case { test, then, .. } = two.place else { panic!("{two:?}") };
        assert!(matches!(*test, Test::Within { low: 0x20, high: 0x20, .. }));
        assert_eq!(*then, Location::Reg { dwarf: 3 });
        assert!(argument(&[site(0, "8@%rax")], 1).is_none());
    }
}
