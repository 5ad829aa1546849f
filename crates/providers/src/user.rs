//! Functions of executables and libraries as probes: what the providers `pid` and `uprobe` share.
//!
//! Owns which places a pattern means in a file, their signatures, and attaching to them: with one multi-link for each file and
//! sort of place where the kernel has multi-links. Leaves out which files are meant.

use crate::user_types::debug_of;
use crate::{Attachment, abi, arch, kinds, unwind_table};
use probity_debuginfo::dwarf::Die;
use probity_debuginfo::elf::{Binding, Elf, Func};
use probity_ir::{
    Arg, Location, ProbeDesc, ProgKind, Selector, Signature, Space, TypeId, TypeKind, TypeTable, glob, is_glob,
};
use probity_kernel::perf::ProbePmu;
use probity_kernel::{Error, Feature, Kind, Prog, System, Version, attach};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};

/// A file with code.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Object {
    /// What probes call it.
    pub module: String,
    /// Where it can be opened and probed.
    pub path: PathBuf,
}

/// The place in a function that a probe's name means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Place {
    /// `entry`
    Entry,
    /// `return`
    Return,
    /// A number of bytes, in hexadecimal, from the function's start; or an address in the file for function `-`.
    Offset(u64),
}

/// The function name that stands for the whole file.
pub(crate) const WHOLE_FILE: &str = "-";

/// How many of `arg0`, `arg1`, … D has.
pub(crate) const ARGUMENTS: usize = 10;

/// How many instructions of all of a file's functions are probes.
const INSTRUCTIONS: usize = 16_384;

/// After so many refusals without a success, the file is the reason and not its instructions.
const HOPELESS: usize = 32;

/// Bytes that show what instruction it is: prefixes and the opcode.
const CODE: u64 = 8;

/// `EM_X86_64`.
const MACHINE: u16 = 62;

impl Place {
    /// Reads a probe's name; `None` if it means no place.
    pub fn parse(name: &str) -> Option<Place> {
        match name {
            "entry" => Some(Place::Entry),
            "return" => Some(Place::Return),
            _ => {
                let digits = name.strip_prefix("0x").unwrap_or(name);
                // from_str_radix would take a sign.
                let hex = !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
                hex.then(|| u64::from_str_radix(digits, 16).ok().map(Place::Offset)).flatten()
            }
        }
    }

    fn group(self) -> &'static str {
        match self {
            Place::Entry => "entry",
            Place::Return => "return",
            Place::Offset(_) => "offset",
        }
    }
}

/// Turns a reader's error into the system's.
pub(crate) fn unreadable(error: probity_debuginfo::Error, path: &Path) -> Error {
    let kind = match error.kind() {
        probity_debuginfo::Kind::NotFound => Kind::NotFound,
        probity_debuginfo::Kind::Permission => Kind::Permission,
        probity_debuginfo::Kind::Unsupported => Kind::Unsupported,
        probity_debuginfo::Kind::Malformed => Kind::Invalid,
        _ => Kind::Io,
    };
    let (text, path) = (error.to_string(), path.display().to_string());
    let error = Error::new(kind, text.clone());
    if text.contains(&path) { error } else { error.context(path) }
}

/// Opens a file whose code can be probed here.
pub(crate) fn open(object: &Object) -> Result<Elf, Error> {
    let elf = Elf::open(&object.path).map_err(|error| unreadable(error, &object.path))?;
    // The arguments of other machines are elsewhere, and a wrong value is worse than none (G6).
    if !elf.is_64() || elf.machine() != MACHINE {
        let what = format!("{} is no 64-bit x86 program (ELF machine {})", object.path.display(), elf.machine());
        return Err(Error::new(Kind::Unsupported, what));
    }
    Ok(elf)
}

/// Finds every probe of `object` that matches the pattern's function and name, and reports function and name of each.
///
/// An exact function with an open name also has its instructions, as in DTrace. With an open function and an exact module they are
/// there too if they are not more than [`INSTRUCTIONS`]: a library's would be hundreds of thousands. Of several names of one place, an open function finds one.
pub(crate) fn find(object: &Object, pattern: &ProbeDesc, found: &mut dyn FnMut(&str, &str)) -> Result<(), Error> {
    let open_name = pattern.name.is_empty() || is_glob(&pattern.name);
    let place = if open_name { None } else { Place::parse(&pattern.name) };
    if !open_name && place.is_none() {
        let error = Error::new(Kind::NotFound, format!("{:?} is no place in a function", pattern.name));
        let error = error.tagged("D_PROC_NAME");
        return Err(error.help("write entry, return, or the offset of an instruction in hexadecimal"));
    }
    if pattern.function == WHOLE_FILE && !matches!(place, Some(Place::Offset(_))) {
        let error = Error::new(Kind::Invalid, format!("function {WHOLE_FILE} needs the address of an instruction"));
        return Err(error.tagged("D_PROC_NAME").help("write it in hexadecimal as the probe's name"));
    }
    let elf = open(object)?;
    let unreadable = |error| unreadable(error, &object.path);
    if pattern.function == WHOLE_FILE {
        if let Some(Place::Offset(vaddr)) = place {
            let site = whole_file_site(&elf, vaddr).and_then(|offset| probeable(&elf, offset));
            site.map_err(|error| error.context(object.path.display().to_string()))?;
            found(WHOLE_FILE, &pattern.name);
        }
        return Ok(());
    }
    let returns = !is_go(&elf);
    if !returns && place == Some(Place::Return) {
        return Err(go_returns(object));
    }
    let ends = |function: &str, found: &mut dyn FnMut(&str, &str)| {
        for (name, there) in [("entry", true), ("return", returns)] {
            if there && glob(&pattern.name, name) {
                found(function, name);
            }
        }
    };
    if pattern.function.is_empty() || is_glob(&pattern.function) {
        let functions = matching(&elf, &pattern.function).map_err(unreadable)?;
        let instructions = match place {
            None if !pattern.module.is_empty() && !is_glob(&pattern.module) => few_instructions(&elf, &functions),
            _ => HashMap::new(),
        };
        for (function, func) in functions {
            for offset in instructions.get(&func.offset).into_iter().flatten() {
                let name = format!("{offset:x}");
                if glob(&pattern.name, &name) {
                    found(&function, &name);
                }
            }
            match place {
                Some(Place::Offset(offset)) if elf.is_instruction(&func, offset).unwrap_or(false) => {
                    found(&function, &pattern.name);
                }
                Some(Place::Offset(_)) => {}
                _ => ends(&function, found),
            }
        }
        return Ok(());
    }
    let Some((function, func)) = plainest(&elf, &pattern.function).map_err(unreadable)? else { return Ok(()) };
    let function = function.as_str();
    if func.ifunc {
        let what = format!("{function} in {} has several implementations, chosen when it is loaded", object.module);
        return Err(
            Error::new(Kind::Unsupported, what).help("probe the implementation, such as __memcpy_avx_unaligned")
        );
    }
    match place {
        Some(Place::Offset(offset)) => {
            instruction(&elf, function, &func, offset)?;
            probeable(&elf, func.offset + offset)?;
            found(function, &pattern.name);
        }
        _ => ends(function, found),
    }
    if open_name {
        // Code that does not decode has no offsets to list; its entry and return remain.
        for offset in elf.instruction_boundaries(&func).unwrap_or_default() {
            let name = format!("{offset:x}");
            if glob(&pattern.name, &name) {
                found(function, &name);
            }
        }
    }
    Ok(())
}

/// How plain a name is for its place, the plainest first.
fn rank(name: &str, func: &Func) -> (bool, bool, usize, usize, String) {
    let underscores = name.len() - name.trim_start_matches('_').len();
    (func.binding == Binding::Local, name.contains('@'), underscores, name.len(), name.to_owned())
}

/// A function by name, under the plainest of the names that its place has: one place is one probe, however it was asked for.
fn plainest(elf: &Elf, name: &str) -> Result<Option<(String, Func)>, probity_debuginfo::Error> {
    let Some(func) = elf.function(name)? else { return Ok(None) };
    let mut best = (name.to_owned(), func);
    elf.functions(&mut |other, alias| {
        let better = alias.offset == func.offset && !alias.ifunc && rank(other, &alias) < rank(&best.0, &best.1);
        // A name that several functions have would mean others too.
        if better && alias.binding != Binding::Local {
            best = (other.to_owned(), alias);
        }
    })?;
    Ok(Some(best))
}

/// The functions that match, by name; one name of each place, the plainest.
fn matching(elf: &Elf, pattern: &str) -> Result<BTreeMap<String, Func>, probity_debuginfo::Error> {
    let mut places: HashMap<u64, (String, Func)> = HashMap::new();
    elf.functions(&mut |name, func| {
        if func.ifunc || !glob(pattern, name) {
            return;
        }
        let place = places.entry(func.offset).or_insert_with(|| (name.to_owned(), func));
        if rank(name, &func) < rank(&place.0, &place.1) {
            *place = (name.to_owned(), func);
        }
    })?;
    Ok(places.into_values().collect())
}

/// Where the instructions of functions begin, by the functions' offsets in the file; none if there are too many. Code that does not
/// decode has none.
fn few_instructions(elf: &Elf, functions: &BTreeMap<String, Func>) -> HashMap<u64, Vec<u32>> {
    let mut all = HashMap::new();
    let mut count = 0;
    for func in functions.values() {
        // Nearly an instruction for every sixteen bytes is the least there can be.
        if func.size / 16 > INSTRUCTIONS as u64 {
            return HashMap::new();
        }
        let starts = elf.instruction_boundaries(func).unwrap_or_default();
        count += starts.len();
        if count > INSTRUCTIONS {
            log::info!("more than {INSTRUCTIONS} instructions: only entries and returns are probes");
            return HashMap::new();
        }
        all.insert(func.offset, starts);
    }
    all
}

/// Whether the file was built by Go, which moves stacks and dies of the kernel's return probes.
fn is_go(elf: &Elf) -> bool {
    elf.section(".go.buildinfo").is_some() || elf.section(".gopclntab").is_some()
}

fn go_returns(object: &Object) -> Error {
    let what = format!("{} is a Go program, which a return probe would crash", object.module);
    Error::new(Kind::Unsupported, what).help("probe its return instructions by their offsets")
}

/// Checks that an instruction starts at `offset` in a function: a breakpoint anywhere else would break the program.
fn instruction(elf: &Elf, function: &str, func: &Func, offset: u64) -> Result<(), Error> {
    let boundaries =
        elf.instruction_boundaries(func).map_err(|error| Error::new(Kind::Unsupported, error.to_string()))?;
    let after = boundaries.partition_point(|start| u64::from(*start) <= offset);
    let before = after.checked_sub(1).map(|place| boundaries[place]);
    if before.is_some_and(|start| u64::from(start) == offset) {
        return Ok(());
    }
    if offset >= func.size {
        let what = format!("{function} has {:#x} bytes, so that there is no {function}+{offset:#x}", func.size);
        return Err(Error::new(Kind::NotFound, what).tagged("D_PROC_OFF"));
    }
    let error = Error::new(Kind::Invalid, format!("no instruction starts at {function}+{offset:#x}"));
    let error = error.tagged("D_PROC_ALIGN");
    Err(match (before, boundaries.get(after)) {
        (Some(before), Some(after)) => error.help(format!("the nearest are {before:x} and {after:x}")),
        _ => error,
    })
}

/// Checks that the kernel takes a probe on an instruction that was asked for by itself; among others it is left out.
fn probeable(elf: &Elf, offset: u64) -> Result<(), Error> {
    match arch::unprobeable(&elf.bytes(offset, CODE).unwrap_or_default()) {
        Some(why) => {
            let what = format!("the kernel takes no probe on the instruction there: {why}");
            Err(Error::new(Kind::Unsupported, what).tagged("D_PROC_CREATEFAIL"))
        }
        None => Ok(()),
    }
}

/// The file offset of an address, if an instruction can be known to start there.
fn whole_file_site(elf: &Elf, vaddr: u64) -> Result<u64, Error> {
    let offset = elf.offset_of_vaddr(vaddr).filter(|offset| elf.is_code(*offset));
    let Some(offset) = offset else {
        return Err(Error::new(Kind::NotFound, format!("there is no code at address {vaddr:#x}")));
    };
    let function = elf.function_at(vaddr).map_err(|error| Error::new(Kind::Io, error.to_string()))?;
    let known = function.filter(|(_, func)| func.size != 0);
    let known = known.or_else(|| Some(("code".to_owned(), unwind_table::code_up_to(elf, vaddr)?)));
    let Some((name, func)) = known else {
        let what = format!("neither symbols nor unwind tables tell where instructions start near {vaddr:#x}");
        return Err(Error::new(Kind::Unsupported, what));
    };
    instruction(elf, &name, &func, vaddr - func.vaddr)?;
    Ok(offset)
}

/// The types of the function that a probe is on, from debugging information, and with them its arguments' places.
pub(crate) fn typed_arguments(
    objects: &[Object],
    probe: &ProbeDesc,
    signature: &mut Signature,
    types: &mut TypeTable,
) -> Result<(), Error> {
    let on_return = match Place::parse(&probe.name) {
        Some(Place::Entry) => false,
        Some(Place::Return) => true,
        _ => return Ok(()),
    };
    for object in objects {
        let Some(debug) = debug_of(object) else { continue };
        let Some(vaddr) = debug.address_of(&probe.function) else { continue };
        let Some(die) = debug.dwarf.function_at(vaddr) else { continue };
        let readable = |error: probity_debuginfo::Error| unreadable(error, &object.path);
        let function = debug.dwarf.function(die, vaddr).map_err(readable)?;
        let mut arg = |name: &str, die: Option<Die>, location: Location| {
            let (ty, location) = match die.map(|die| debug.import(die, types)) {
                Some(Ok(ty)) => (ty, location),
                Some(Err(error)) => (types.add(TypeKind::Void), Location::None(error.to_string())),
                None => (types.add(TypeKind::Void), location),
            };
            Arg { name: name.to_owned(), ty, location, translated: String::new() }
        };
        if on_return {
            let Some(result) = abi::result(&debug.dwarf, &function) else {
                signature.raw[1] = Location::None(format!("{} returns nothing", probe.function));
                return Ok(());
            };
            let first = arg("", None, signature.raw[0].clone());
            let value = arg("", function.ret, result.clone());
            signature.args = vec![first, value];
            signature.raw[1] = result;
        } else {
            let places = abi::places(&debug.dwarf, &function, ARGUMENTS);
            let params = function.params.iter().zip(&places.params);
            signature.args = params.map(|(param, place)| arg(&param.name, param.ty, place.clone())).collect();
            signature.raw = places.params.into_iter().chain(places.more).take(ARGUMENTS).collect();
        }
        return Ok(());
    }
    Ok(())
}

/// A type by name from the first of some files that defines it.
pub(crate) fn named_type(
    objects: &[Object],
    keyword: &str,
    name: &str,
    types: &mut TypeTable,
) -> Result<TypeId, Error> {
    let mut any = false;
    for object in objects {
        let Some(debug) = debug_of(object) else { continue };
        any = true;
        let keyword = if keyword.is_empty() { "typedef" } else { keyword };
        if let Some(found) = debug.named(keyword, name, types) {
            return found.map_err(|error| unreadable(error, &object.path));
        }
    }
    let files: Vec<&str> = objects.iter().map(|object| object.module.as_str()).take(3).collect();
    let files = files.join(", ");
    Err(match any {
        true => Error::new(Kind::NotFound, format!("the debugging information of {files} does not define it")),
        false => Error::new(Kind::NotFound, format!("{files} has no debugging information"))
            .help("build it with -g, or install its debugging symbols"),
    })
}

/// How a program on user-space instructions is run here.
pub(crate) fn kind(sys: &System) -> ProgKind {
    let multi = sys.has(Feature::UprobeMulti);
    // Programs that may sleep read user memory that is not resident; on uprobes since 6.0.
    let sleepable = multi || sys.version().is_ok_and(|version| version >= Version(6, 0, 0));
    kinds::uprobe(multi, sleepable)
}

/// The signature of a probe; opens no file, so that thousands cost little.
pub(crate) fn signature(sys: &System, probe: &ProbeDesc) -> Result<Signature, Error> {
    let Some(place) = Place::parse(&probe.name) else {
        return Err(Error::new(Kind::NotFound, format!("there is no probe {probe}")));
    };
    let mut signature = kinds::bare(kind(sys), place.group().to_owned(), Selector::Cookie);
    match place {
        Place::Entry => {
            signature.raw = (0..ARGUMENTS).map(arch::argument).collect();
            signature.ucaller = Some(arch::return_address());
        }
        Place::Return => {
            let why = "the offset of the return instruction is not known; the value returned is arg1";
            signature.raw = vec![Location::None(why.to_owned()), Location::Reg { dwarf: arch::RESULT }];
            // The kernel has put the address that is returned to in place.
            signature.ucaller = Some(Location::Pc { space: Space::User });
        }
        Place::Offset(_) => {
            let why = "a function's arguments are known at its entry only";
            signature.raw = vec![Location::None(why.to_owned()); ARGUMENTS];
        }
    }
    Ok(signature)
}

/// Attaches to probes of any number of files; `objects` says which files a probe's module is (several with one base name).
pub(crate) fn attach(
    sys: &System,
    probes: &[(u32, ProbeDesc)],
    prog: &Prog,
    pid: Option<u32>,
    objects: &dyn Fn(&str) -> Result<Vec<Object>, Error>,
) -> Result<Attachment, Error> {
    let mut modules: BTreeMap<&str, Vec<&(u32, ProbeDesc)>> = BTreeMap::new();
    for probe in probes {
        modules.entry(&probe.1.module).or_default().push(probe);
    }
    let mut attachment = Attachment::default();
    let pmu = pmu(sys, prog)?;
    let mut places = 0;
    let mut files = 0;
    for (module, probes) in modules {
        let mut served = BTreeSet::new();
        let objects = objects(module)?;
        files += objects.len();
        for object in &objects {
            let (sites, refused) = sites(object, &probes)?;
            served.extend(refused.iter().map(|(index, _)| u64::from(*index)));
            for (index, why) in refused {
                skip(&probes, index.into(), why.to_owned(), &mut attachment);
            }
            for (on_return, sites) in sites {
                places += sites.len();
                served.extend(sites.iter().map(|site| site.cookie));
                let site = Site { prog, pmu: pmu.as_ref(), path: &object.path, pid, on_return };
                site.attach(&sites, &probes, &mut attachment)?;
            }
        }
        for (index, probe) in probes {
            if !served.contains(&u64::from(*index)) {
                let why = format!("there is no {}+{} in {module} any more", probe.function, probe.name);
                attachment.skipped.push((probe.clone(), why));
            }
        }
    }
    done(attachment, pmu.is_some(), places, files)
}

/// The uprobe PMU, for a program that is not for multi-links.
fn pmu(sys: &System, prog: &Prog) -> Result<Option<ProbePmu>, Error> {
    match prog.attach_type() {
        Some(kind) if kind != 0 => Ok(None),
        _ => ProbePmu::read(sys, "uprobe").map(Some),
    }
}

/// Attaches to places of files that are known already; `probes` are those whose indexes the cookies have.
pub(crate) fn attach_spots(
    sys: &System,
    probes: &[(u32, ProbeDesc)],
    prog: &Prog,
    pid: u32,
    files: &[(PathBuf, Vec<Spot>)],
) -> Result<Attachment, Error> {
    let probes: Vec<&(u32, ProbeDesc)> = probes.iter().collect();
    let pmu = pmu(sys, prog)?;
    let mut attachment = Attachment::default();
    for (path, spots) in files.iter().filter(|(_, spots)| !spots.is_empty()) {
        let site = Site { prog, pmu: pmu.as_ref(), path, pid: Some(pid), on_return: false };
        site.attach(spots, &probes, &mut attachment)?;
    }
    let places = files.iter().map(|(_, spots)| spots.len()).sum();
    done(attachment, pmu.is_some(), places, files.len())
}

fn done(mut attachment: Attachment, by_pmu: bool, places: usize, files: usize) -> Result<Attachment, Error> {
    if attachment.links.is_empty() {
        let reason = attachment.skipped.pop().map_or("there is nothing to attach to".to_owned(), |(_, why)| why);
        return Err(Error::new(Kind::Unsupported, reason));
    }
    let way = if by_pmu { "uprobe PMU" } else { "uprobe.multi" };
    attachment.how = format!("{way}, {places} places in {files} files");
    Ok(attachment)
}

/// File offsets with the cookies of their probes; entries and instructions apart from returns.
type Sites = BTreeMap<bool, Vec<Spot>>;

/// A place in a file that a probe is to be put at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Spot {
    /// The file offset.
    pub offset: u64,
    /// The cookie; the probe's index is its lower half.
    pub cookie: u64,
    /// The file offset of the counter that the program asks whether the probe is on; 0 for none.
    pub semaphore: u64,
}

/// Probes' indexes, each with the reason why it cannot be.
type Refused = Vec<(u32, &'static str)>;

/// Finds the places of probes in a file, and the probes that the kernel would refuse, with the reason.
fn sites(object: &Object, probes: &[&(u32, ProbeDesc)]) -> Result<(Sites, Refused), Error> {
    let elf = open(object)?;
    let wanted: BTreeSet<&str> = probes.iter().map(|(_, probe)| probe.function.as_str()).collect();
    // One walk, however many functions. Functions of one name that only their own object files see all belong to the probe.
    let mut functions: HashMap<String, Vec<Func>> = HashMap::new();
    let walk = elf.functions(&mut |name, func| {
        if wanted.contains(name) {
            functions.entry(name.to_owned()).or_default().push(func);
        }
    });
    walk.map_err(|error| unreadable(error, &object.path))?;
    for funcs in functions.values_mut() {
        if let Some(seen) = funcs.iter().map(|func| func.binding).max().filter(|seen| *seen != Binding::Local) {
            funcs.retain(|func| func.binding == seen);
        }
    }
    let mut sites = Sites::new();
    let mut refused = Vec::new();
    for (index, probe) in probes {
        let Some(place) = Place::parse(&probe.name) else { continue };
        let mut add = |on_return, offset| {
            // The kernel refuses a multi-link as a whole for one such instruction.
            let code = elf.bytes(offset, CODE).unwrap_or_default();
            match arch::unprobeable(&code) {
                Some(why) => refused.push((*index, why)),
                None => {
                    let spot = Spot { offset, cookie: u64::from(*index), semaphore: 0 };
                    sites.entry(on_return).or_default().push(spot);
                }
            }
        };
        match (place, functions.get(&probe.function)) {
            (Place::Offset(vaddr), _) if probe.function == WHOLE_FILE => add(false, whole_file_site(&elf, vaddr)?),
            (_, None) => {}
            (Place::Entry, Some(funcs)) => funcs.iter().for_each(|func| add(false, func.offset)),
            (Place::Return, Some(_)) if is_go(&elf) => return Err(go_returns(object)),
            (Place::Return, Some(funcs)) => funcs.iter().for_each(|func| add(true, func.offset)),
            (Place::Offset(offset), Some(funcs)) => {
                for func in funcs {
                    // Of several functions of this name, those where it is an instruction; `find` has made sure of one.
                    if instruction(&elf, &probe.function, func, offset).is_ok() {
                        add(false, func.offset + offset);
                    }
                }
            }
        }
    }
    for sites in sites.values_mut() {
        sites.sort_unstable();
        sites.dedup();
    }
    Ok((sites, refused))
}

fn skip(probes: &[&(u32, ProbeDesc)], cookie: u64, why: String, attachment: &mut Attachment) {
    if let Some((_, probe)) = probes.iter().find(|(index, _)| *index == cookie as u32) {
        attachment.skipped.push((probe.clone(), why));
    }
}

/// How to attach to places of one file.
struct Site<'a> {
    prog: &'a Prog,
    /// Where there are no multi-links.
    pmu: Option<&'a ProbePmu>,
    path: &'a Path,
    pid: Option<u32>,
    on_return: bool,
}

impl Site<'_> {
    /// Attaches to all of `sites`. The kernel refuses some instructions, and a multi-link with one of them as a whole: it is then
    /// halved until the refused ones are alone, and those are skipped.
    fn attach(&self, sites: &[Spot], probes: &[&(u32, ProbeDesc)], attachment: &mut Attachment) -> Result<(), Error> {
        let tried = match (self.pmu, sites) {
            (Some(pmu), [spot]) => {
                let (site, semaphore) = ((spot.offset, spot.cookie), spot.semaphore);
                attach::uprobe_pmu(self.prog, pmu, self.path, site, semaphore, self.pid, self.on_return)
            }
            (Some(_), _) => {
                return sites.iter().try_for_each(|site| self.attach(&[*site], probes, attachment));
            }
            (None, _) => {
                let places: Vec<(u64, u64)> = sites.iter().map(|spot| (spot.offset, spot.cookie)).collect();
                let counters: Vec<u64> = sites.iter().map(|spot| spot.semaphore).collect();
                let counters = if counters.iter().all(|at| *at == 0) { &[][..] } else { &counters };
                attach::uprobe_multi_counted(self.prog, self.path, &places, counters, self.pid, self.on_return)
            }
        };
        let error = match tried {
            Ok(link) => {
                attachment.links.push(link);
                return Ok(());
            }
            Err(error) => error,
        };
        // What is wrong with the request as a whole is wrong with each half.
        let refused = matches!(error.kind(), Kind::Unsupported | Kind::Invalid | Kind::Io | Kind::Busy);
        let hopeless = attachment.links.is_empty() && attachment.skipped.len() >= HOPELESS;
        match (refused && !hopeless, sites) {
            (false, _) => Err(error),
            (true, [Spot { offset, cookie, .. }]) => {
                skip(probes, *cookie, format!("the kernel refuses a probe at {offset:#x}: {error}"), attachment);
                Ok(())
            }
            (true, _) => {
                let (first, second) = sites.split_at(sites.len() / 2);
                self.attach(first, probes, attachment)?;
                self.attach(second, probes, attachment)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_places() {
        assert_eq!(Place::parse("entry"), Some(Place::Entry));
        assert_eq!(Place::parse("return"), Some(Place::Return));
        assert_eq!(Place::parse("0"), Some(Place::Offset(0)));
        assert_eq!(Place::parse("1a"), Some(Place::Offset(0x1a)));
        assert_eq!(Place::parse("0x1a"), Some(Place::Offset(0x1a)));
        for bad in ["", "0x", "+1", "-1", "x", "entry ", "fffffffffffffffff"] {
            assert_eq!(Place::parse(bad), None, "{bad}");
        }
    }
}
