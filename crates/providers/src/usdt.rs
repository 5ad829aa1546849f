//! `PROVIDERPID:MODULE:FUNCTION:NAME`: the probes that programs and libraries declare in `.note.stapsdt` (USDT, `sys/sdt.h`).
//!
//! The function is the one whose code the place is in, empty where no symbol tells. Two underscores in a declared name are a hyphen
//! in the probe's. A probe may have many places, each with its own places of arguments: the attach cookie tells which one fired. Counters that
//! a program asks whether a probe is on are raised by the kernel while the probe is attached, and lowered by it when the
//! tracer is gone, however it went.

use crate::pid::{Mapped, mapped, matching};
use crate::stap_args::{Here, Operand, operands};
use crate::user::{self, ARGUMENTS, Object, Spot, unreadable};
use crate::{Attachment, PROVIDERS, Provider, kinds};
use probity_debuginfo::elf::Elf;
use probity_debuginfo::stapsdt::{self, Semaphore};
use probity_ir::{Arg, Location, ProbeDesc, Selector, Signature, Test, TypeTable, glob, is_glob};
use probity_kernel::{Error, Kind, Prog, System};
use std::cell::OnceCell;
use std::collections::{BTreeMap, HashMap};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The provider of declared probes.
pub struct Usdt;

/// A place that a file declares a probe at.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Declared {
    provider: String,
    function: String,
    name: String,
    vaddr: u64,
    offset: u64,
    semaphore: Semaphore,
    arguments: String,
}

/// A file of a process, and what it declares.
#[derive(Clone)]
struct File {
    object: Object,
    declared: Arc<Vec<Declared>>,
}

/// The files of processes that have been looked up, and that declare probes: signatures of thousands of probes read them once.
static SEEN: Mutex<BTreeMap<u32, Vec<File>>> = Mutex::new(BTreeMap::new());

fn seen() -> MutexGuard<'static, BTreeMap<u32, Vec<File>>> {
    SEEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What files declare, by device and inode, so that a file that many processes have is read once.
type Known = HashMap<(u64, u64), Arc<Vec<Declared>>>;

/// The ways to read a provider's full name as a provider and a process's number, the longest number first.
fn splits(provider: &str) -> impl Iterator<Item = (&str, u32)> {
    let letters = provider.trim_end_matches(|c: char| c.is_ascii_digit()).len();
    (letters.max(1)..provider.len()).filter_map(move |at| {
        let (name, digits) = provider.split_at_checked(at)?;
        let pid = digits.parse().ok().filter(|_| !digits.starts_with('0'))?;
        Some((name, pid))
    })
}

/// Whether the decimal digits that a pattern ends in leave room for this process's number.
fn may_end_in(pattern: &str, pid: u32) -> bool {
    let digits = &pattern[pattern.trim_end_matches(|c: char| c.is_ascii_digit()).len()..];
    let pid = pid.to_string();
    pid.ends_with(digits) || digits.ends_with(&pid)
}

/// Reads what a file declares, in the order of its notes.
fn declared(object: &Object) -> Result<Vec<Declared>, Error> {
    let unreadable = |error| unreadable(error, &object.path);
    let elf = Elf::open(&object.path).map_err(unreadable)?;
    if elf.section(".note.stapsdt").is_none() {
        return Ok(Vec::new());
    }
    let elf = user::open(object)?;
    let notes = stapsdt::probes(&elf).map_err(unreadable)?;
    let mut functions = Vec::new();
    elf.functions(&mut |name, func| functions.push((func, name.to_owned()))).map_err(unreadable)?;
    // The one that is seen farthest comes last of those that begin at one place.
    functions.sort_by_key(|(func, _)| (func.vaddr, func.binding));
    let function_at = |vaddr: u64| {
        let after = functions.partition_point(|(func, _)| func.vaddr <= vaddr);
        let holds = |(func, _): &&(probity_debuginfo::elf::Func, String)| vaddr - func.vaddr < func.size;
        functions[..after].iter().rev().take(8).find(holds).map(|(_, name)| name.clone())
    };
    let all = notes.into_iter().map(|note| Declared {
        function: function_at(note.vaddr).unwrap_or_default(),
        provider: note.provider,
        name: note.name.replace("__", "-"),
        vaddr: note.vaddr,
        offset: note.offset,
        semaphore: note.semaphore,
        arguments: note.arguments,
    });
    Ok(all.collect())
}

/// The files of a process that declare probes.
fn files(sys: &System, pid: u32, known: &mut Known) -> Result<Vec<(File, bool)>, Error> {
    let mut all = Vec::new();
    for Mapped { object, executable } in mapped(sys, pid)? {
        let id = std::fs::metadata(&object.path).map(|meta| (meta.dev(), meta.ino()));
        let found = match id.as_ref().ok().and_then(|id| known.get(id)) {
            Some(found) => found.clone(),
            None => {
                // Another file may be readable; a library of another machine, say, is no reason to give up.
                let found = declared(&object).unwrap_or_else(|error| {
                    log::info!("{}: {error}", object.path.display());
                    Vec::new()
                });
                let found = Arc::new(found);
                id.ok().and_then(|id| known.insert(id, found.clone()));
                found
            }
        };
        if !found.is_empty() {
            all.push((File { object, declared: found }, executable));
        }
    }
    seen().insert(pid, all.iter().map(|(file, _)| file.clone()).collect());
    Ok(all)
}

/// The process that a probe is in, and its places there with their files.
fn places(sys: &System, probe: &ProbeDesc) -> Result<(u32, Vec<(Object, Declared)>), Error> {
    for (provider, pid) in splits(&probe.provider) {
        let known = seen().get(&pid).cloned();
        let files = match known {
            Some(files) => files,
            None => match files(sys, pid, &mut Known::new()) {
                Ok(files) => files.into_iter().map(|(file, _)| file).collect(),
                Err(_) => continue,
            },
        };
        let mut all = Vec::new();
        for file in files {
            let is_it = |place: &&Declared| {
                place.provider == provider && place.function == probe.function && place.name == probe.name
            };
            if file.object.module == probe.module {
                all.extend(file.declared.iter().filter(is_it).map(|place| (file.object.clone(), place.clone())));
            }
        }
        if !all.is_empty() {
            return Ok((pid, all));
        }
    }
    Err(Error::new(Kind::NotFound, format!("there is no probe {probe} any more")))
}

/// The places of a probe's arguments at one of its own places.
fn arguments_at(object: &Object, place: &Declared) -> Vec<Operand> {
    let elf: OnceCell<Option<Elf>> = OnceCell::new();
    let symbol = |name: &str| {
        let elf = elf.get_or_init(|| Elf::open(&object.path).ok());
        elf.as_ref().and_then(|elf| elf.address_of(name).ok().flatten())
    };
    operands(&place.arguments, &Here { vaddr: place.vaddr, symbol: &symbol })
}

/// Where argument `n` of a probe is, whichever of its places fires.
fn argument(probe: &ProbeDesc, n: usize, sites: &[Vec<Operand>]) -> Location {
    let many = if sites.len() > 1 { " at one of its places" } else { "" };
    let mut groups: Vec<(&Location, Vec<Test>)> = Vec::new();
    for (at, site) in sites.iter().enumerate() {
        let location = match site.get(n).map(|operand| &operand.place) {
            Some(Ok(location)) => location,
            Some(Err(why)) => return Location::None(format!("of {probe}{many}: {why}")),
            None => return Location::None(format!("{probe} has only {} arguments{many}", site.len())),
        };
        let at = Test::Within { value: Location::Site, low: at as i64, high: at as i64 };
        match groups.iter_mut().find(|(known, _)| *known == location) {
            Some((_, tests)) => tests.push(at),
            None => groups.push((location, vec![at])),
        }
    }
    let mut groups = groups.into_iter().rev();
    let Some((last, _)) = groups.next() else { return Location::None(format!("{probe} has no place")) };
    groups.fold(last.clone(), |otherwise, (location, tests)| Location::Case {
        test: Box::new(Test::Any(tests)),
        then: Box::new(location.clone()),
        otherwise: Box::new(otherwise),
    })
}

impl Provider for Usdt {
    fn name(&self) -> &'static str {
        "usdt"
    }

    fn serves(&self, provider: &str) -> bool {
        let others = || PROVIDERS.iter().filter(|other| other.name() != self.name());
        match is_glob(provider) {
            // Processes are searched only for what can be no other provider's name.
            true => {
                provider.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
                    && !others().any(|other| other.serves(provider))
            }
            false => splits(provider).next().is_some() && !others().any(|other| other.serves(provider)),
        }
    }

    fn probes(&self, sys: &System, pattern: &ProbeDesc, found: &mut dyn FnMut(ProbeDesc)) -> Result<(), Error> {
        let open = is_glob(&pattern.provider);
        let pids: Vec<u32> = match open {
            true => sys.processes()?.into_iter().filter(|pid| may_end_in(&pattern.provider, *pid)).collect(),
            false => splits(&pattern.provider).map(|(_, pid)| pid).collect(),
        };
        let mut known = Known::new();
        let mut there = false;
        for pid in pids {
            // One that has ended meanwhile, or a kernel thread; or a number that is the end of a provider's name.
            let Ok(all) = files(sys, pid, &mut known) else { continue };
            there = true;
            let objects =
                all.iter().map(|(file, executable)| Mapped { object: file.object.clone(), executable: *executable });
            let called: Vec<PathBuf> =
                matching(objects.collect(), &pattern.module).into_iter().map(|object| object.path).collect();
            for (file, _) in all.iter().filter(|(file, _)| called.contains(&file.object.path)) {
                let mut last = None;
                let mut reported = std::collections::HashSet::new();
                for place in file.declared.iter() {
                    let full = format!("{}{pid}", place.provider);
                    let fits = match open {
                        true => glob(&pattern.provider, &full),
                        false => pattern.provider == full,
                    };
                    if !fits || !glob(&pattern.function, &place.function) || !glob(&pattern.name, &place.name) {
                        continue;
                    }
                    let desc = ProbeDesc::new(&full, &file.object.module, &place.function, &place.name);
                    if last.as_ref() != Some(&desc) && reported.insert(desc.clone()) {
                        found(desc.clone());
                    }
                    last = Some(desc);
                }
            }
        }
        if !there && !open {
            let what = format!("there is neither a provider nor a process that {} could mean", pattern.provider);
            let error = Error::new(Kind::NotFound, what);
            return Err(
                error.help("write the provider of a program's own probes with its process id: foo1234 or foo$target")
            );
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
        let (pid, places) = places(sys, probe)?;
        let group = format!("{}:{pid}", self.name());
        let mut signature = kinds::bare(user::kind(sys), group, Selector::Cookie);
        let sites: Vec<_> = places.iter().map(|(object, place)| arguments_at(object, place)).collect();
        let most = sites.iter().map(Vec::len).max().unwrap_or(0).min(ARGUMENTS);
        signature.raw = (0..most).map(|n| argument(probe, n, &sites)).collect();
        for (n, location) in signature.raw.iter().enumerate().filter(|_| typed) {
            // Places that disagree about a size have each extended theirs.
            let mut each = sites.iter().filter_map(|site| site.get(n)).map(|operand| (operand.size, operand.signed));
            let first = each.next().unwrap_or((8, false));
            let (size, signed) = if each.all(|other| other == first) { first } else { (8, true) };
            let (ty, location) = (types.int(size, signed), location.clone());
            signature.args.push(Arg { name: String::new(), ty, location, translated: String::new() });
        }
        Ok(signature)
    }

    fn attach(&self, sys: &System, probes: &[(u32, ProbeDesc)], prog: &Prog) -> Result<Attachment, Error> {
        let mut files: BTreeMap<PathBuf, Vec<Spot>> = BTreeMap::new();
        let mut process = None;
        let mut unreachable = Vec::new();
        for (index, probe) in probes {
            let (pid, places) = places(sys, probe)?;
            process = Some(pid);
            for (at, (object, place)) in places.into_iter().enumerate() {
                let semaphore = match place.semaphore {
                    Semaphore::None => 0,
                    Semaphore::At(offset) => offset,
                    Semaphore::OutOfReach => {
                        let why =
                            "the counter that switches it on is in memory that the kernel cannot find by the file";
                        unreachable.push((probe.clone(), why.to_owned()));
                        continue;
                    }
                };
                let cookie = (at as u64) << 32 | u64::from(*index);
                files.entry(object.path).or_default().push(Spot { offset: place.offset, cookie, semaphore });
            }
        }
        let Some(pid) = process else { return Ok(Attachment::default()) };
        let files: Vec<(PathBuf, Vec<Spot>)> = files.into_iter().collect();
        let attached = user::attach_spots(sys, probes, prog, pid, &files);
        let mut attachment = match (attached, unreachable.first()) {
            (Err(_), Some((_, why))) if files.is_empty() => return Err(Error::new(Kind::Unsupported, why.clone())),
            (attached, _) => attached?,
        };
        attachment.skipped.append(&mut unreachable);
        Ok(attachment)
    }
}

#[cfg(test)]
#[path = "usdt_tests.rs"]
mod tests;
