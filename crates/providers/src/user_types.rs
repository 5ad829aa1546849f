//! Debugging information of traced programs: each file opened once in a process, and its types numbered, so that a type known by
//! name only can be completed later.

use crate::user::Object;
use probity_debuginfo::btf_import::USER;
use probity_debuginfo::dwarf::{Die, Dwarf, companions, crc32};
use probity_debuginfo::elf::{Binding, Elf};
use probity_ir::{TypeId, TypeKind, TypeTable};
use std::collections::HashMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// Marks, in a forward's hint, an entry of debugging information: the number that is left is its place in [`Registry::entries`].
const ENTRY: u32 = USER | 1 << 30;

/// A file's debugging information and its functions.
pub(crate) struct Debug {
    /// Its number.
    file: usize,
    /// The information.
    pub dwarf: Dwarf,
    /// Addresses of the functions, by name, as the dynamic linker would find them.
    functions: HashMap<String, (Binding, u64)>,
}

/// A file as it was when it was opened: device, inode, time of change.
type Identity = (u64, u64, i64, i64);

#[derive(Default)]
struct Registry {
    files: HashMap<Identity, Option<Arc<Debug>>>,
    open: Vec<Arc<Debug>>,
    entries: Vec<(usize, Die)>,
    numbers: HashMap<(usize, Die), u32>,
}

fn registry() -> MutexGuard<'static, Registry> {
    static REGISTRY: OnceLock<Mutex<Registry>> = OnceLock::new();
    // A panic elsewhere leaves nothing half-done here.
    REGISTRY.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner)
}

/// The debugging information of a file, wherever it is; `None`, with the reason in the log, if there is none to be had.
pub(crate) fn debug_of(object: &Object) -> Option<Arc<Debug>> {
    let meta = std::fs::metadata(&object.path).ok()?;
    let identity = (meta.dev(), meta.ino(), meta.mtime(), meta.mtime_nsec());
    let mut registry = registry();
    if let Some(known) = registry.files.get(&identity) {
        return known.clone();
    }
    let found = read(object, registry.open.len()).map(Arc::new);
    registry.open.extend(found.clone());
    registry.files.insert(identity, found.clone());
    found
}

fn read(object: &Object, file: usize) -> Option<Debug> {
    let elf = Elf::open(&object.path).ok()?;
    let dwarf = match Dwarf::of(&elf) {
        Ok(Some(dwarf)) => Some(dwarf),
        Ok(None) => separate(&elf, &object.path),
        Err(error) => {
            log::info!("{}: {error}", object.path.display());
            None
        }
    }?;
    let mut functions: HashMap<String, (Binding, u64)> = HashMap::new();
    let walk = elf.functions(&mut |name, func| {
        let known = functions.entry(name.to_owned()).or_insert((func.binding, func.vaddr));
        if func.binding > known.0 {
            *known = (func.binding, func.vaddr);
        }
    });
    walk.ok()?;
    Some(Debug { file, dwarf, functions })
}

/// The information from a file of its own.
fn separate(elf: &Elf, path: &Path) -> Option<Dwarf> {
    let (path, root) = real(path);
    companions(elf, &path, &root).into_iter().find_map(|(place, crc)| {
        if let Some(crc) = crc
            && crc32(&std::fs::read(&place).ok()?) != crc
        {
            log::info!("{} is not of this build of {}", place.display(), path.display());
            return None;
        }
        let companion = Elf::open(&place).ok()?;
        let same = crc.is_some() || companion.build_id() == elf.build_id();
        Dwarf::of(&companion).ok().flatten().filter(|_| same)
    })
}

/// A file's path as this process can follow it to its neighbours, and the root directory that it is under.
fn real(path: &Path) -> (PathBuf, PathBuf) {
    // /proc/PID/exe and /proc/PID/root/…
    let mut parts = path.components();
    let process: PathBuf = parts.by_ref().take(3).collect();
    if !process.starts_with("/proc") || process == Path::new("/proc/self") {
        return (path.to_owned(), PathBuf::from("/"));
    }
    let root = process.join("root");
    match path.ends_with("exe") {
        true => match std::fs::read_link(path) {
            Ok(target) => (root.join(target.strip_prefix("/").unwrap_or(&target)), root),
            Err(_) => (path.to_owned(), root),
        },
        false => (path.to_owned(), root),
    }
}

impl Debug {
    /// A function's address in the file, by its symbol.
    pub fn address_of(&self, name: &str) -> Option<u64> {
        self.functions.get(name).map(|found| found.1)
    }

    /// The type at an entry.
    pub fn import(&self, die: Die, types: &mut TypeTable) -> Result<TypeId, probity_debuginfo::Error> {
        self.dwarf.import(die, types, &mut |die| number(self.file, die))
    }

    /// The type of a name: a struct, union, enum by its keyword, else a typedef or base type.
    pub fn named(
        &self,
        keyword: &str,
        name: &str,
        types: &mut TypeTable,
    ) -> Option<Result<TypeId, probity_debuginfo::Error>> {
        Some(self.import(self.dwarf.named(keyword, name)?, types))
    }
}

fn number(file: usize, die: Die) -> u32 {
    let mut registry = registry();
    let next = registry.entries.len() as u32;
    let number = *registry.numbers.entry((file, die)).or_insert(next);
    if number == next {
        registry.entries.push((file, die));
    }
    ENTRY | number
}

/// Completes a type that came from a traced program's debugging information; `None` if it did not.
pub fn complete_user_type(types: &mut TypeTable, id: TypeId) -> Option<bool> {
    let id = types.resolve(id);
    let TypeKind::Forward { btf, .. } = types.get(id) else { return None };
    if btf & ENTRY != ENTRY {
        return None;
    }
    let (file, die) = *registry().entries.get((btf & !ENTRY) as usize)?;
    let debug = registry().open.get(file)?.clone();
    let kind = debug.dwarf.definition(die, types, &mut |die| number(file, die));
    let kind = kind.unwrap_or_else(|error| {
        log::info!("{error}");
        None
    });
    let Some(kind) = kind else { return Some(false) };
    types.complete(id, kind);
    Some(true)
}
