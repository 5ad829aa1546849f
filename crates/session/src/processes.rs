//! The processes whose addresses are named: what they have mapped, remembered beyond their end, and the files held open.
//!
//! What was mapped before is read from /proc: of a process when its first address is named, and of all others bit by bit. What is
//! mapped, forked and executed later is watched as it happens, where the kernel lets us; else /proc is read again now and then. Files
//! are opened at once, so that neither a process's end nor that of its mount namespace, nor their removal, loses their symbols.

use probity_debuginfo::usymbols::{FileSymbols, in_perf_map};
use probity_kernel::System;
use probity_kernel::mappings::{Happened, Watch};
use probity_kernel::process::Mapping;
use probity_output::Named;
use std::collections::HashMap;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// How long what was read of a living process holds where it is not watched: libraries come and go, and programs are replaced.
const FRESH: Duration = Duration::from_millis(100);
/// How long reading of other processes may take in each turn.
const SLICE: Duration = Duration::from_millis(4);
/// So many processes are remembered; then the dead whose addresses were never named are forgotten.
const MOST: usize = 8192;

/// A file: device and inode.
type FileId = ((u32, u32), u64);

/// Processes and their files.
pub(crate) struct Processes<'a> {
    sys: &'a System,
    watch: Option<Watch>,
    /// Processes that are yet to be read.
    unread: Vec<u32>,
    all: HashMap<u32, Process>,
    files: HashMap<FileId, Rc<PathBuf>>,
    /// Kept open for the paths in `files`.
    open: Vec<File>,
    demangle: bool,
    symbols: Option<FileSymbols>,
}

/// What is known of a process.
#[derive(Default)]
struct Process {
    /// What it has mapped, the last first to be asked; one list for each program that it has run, the last one last.
    programs: Vec<Vec<Rc<Region>>>,
    ended: bool,
    /// Something was missed since it was read.
    stale: bool,
    read: Option<Instant>,
    /// Names that were found, by address.
    named: HashMap<u64, Named>,
    /// The run-time compiler's map, and when it was read.
    perf_map: Option<(Instant, String)>,
}

/// A mapping.
struct Region {
    mapping: Mapping,
    /// Where its file can be opened.
    file: Option<Rc<PathBuf>>,
}

impl<'a> Processes<'a> {
    pub(crate) fn new(sys: &'a System, demangle: bool) -> Processes<'a> {
        Processes {
            sys,
            watch: None,
            unread: Vec::new(),
            all: HashMap::new(),
            files: HashMap::new(),
            open: Vec::new(),
            demangle,
            symbols: None,
        }
    }

    /// Begins to watch all processes.
    pub(crate) fn watch(&mut self) {
        self.watch = Watch::open(self.sys).ok();
        if self.watch.is_some() {
            // From the end: the youngest are the likeliest to end soon.
            self.unread = self.sys.processes().unwrap_or_default();
        }
    }

    /// Takes in what has happened, and reads some more of what was there before.
    pub(crate) fn turn(&mut self) {
        let Some(mut watch) = self.watch.take() else { return };
        let mut happened = Vec::new();
        watch.read(&mut |what| happened.push(what));
        self.watch = Some(watch);
        for what in happened {
            self.took_place(what);
        }
        let begun = Instant::now();
        while begun.elapsed() < SLICE
            && let Some(pid) = self.unread.pop()
        {
            if self.all.get(&pid).is_none_or(|p| p.stale) {
                self.read(pid);
            }
        }
        if self.all.len() > MOST {
            self.all.retain(|_, p| !p.ended || !p.named.is_empty());
        }
    }

    fn took_place(&mut self, what: Happened) {
        match what {
            Happened::Mapped(pid, mapping) => {
                let region = Rc::new(self.region(pid, mapping));
                // Of one that is not known yet, all is read when it is first asked for.
                if let Some(process) = self.all.get_mut(&pid) {
                    match process.programs.last_mut() {
                        Some(program) => program.push(region),
                        None => process.programs.push(vec![region]),
                    }
                }
            }
            Happened::Replaced(pid) => {
                let process = self.all.entry(pid).or_default();
                process.programs.push(Vec::new());
                process.named.clear();
            }
            Happened::Forked { parent, child } => {
                let inherited = self.all.get(&parent).and_then(|p| p.programs.last()).cloned();
                match inherited {
                    // A number that is used again is another process.
                    Some(program) => {
                        self.all.insert(child, Process { programs: vec![program], ..Process::default() });
                    }
                    None => {
                        self.all.remove(&child);
                        self.unread.push(child);
                    }
                }
            }
            Happened::Ended(pid) => {
                if let Some(process) = self.all.get_mut(&pid) {
                    process.ended = true;
                }
            }
            // All that live are read again, beside what is known of them.
            Happened::Lost => {
                self.all.values_mut().for_each(|p| p.stale = true);
                self.unread = self.sys.processes().unwrap_or_default();
            }
        }
    }

    /// Reads what a process that is certain to be asked for has mapped, before others, if processes are watched at all.
    pub(crate) fn expect(&mut self, pid: u32) {
        if self.watch.is_some() {
            self.remember(pid);
        }
    }

    /// Reads what a process has mapped, if that is not known.
    fn remember(&mut self, pid: u32) {
        let fresh = match self.all.get(&pid) {
            Some(process) => {
                let watched = self.watch.is_some();
                process.ended || (watched && !process.stale) || process.read.is_some_and(|read| read.elapsed() < FRESH)
            }
            None => false,
        };
        if !fresh {
            self.read(pid);
        }
    }

    fn read(&mut self, pid: u32) {
        // Nothing is mapped any more once a process has ended, even while /proc still has it.
        let maps = self.sys.maps(pid).unwrap_or_default();
        let known = self.all.get(&pid).and_then(|p| p.programs.last());
        let same = known.is_some_and(|known| known.iter().map(|r| &r.mapping).eq(&maps));
        let regions = (!same && !maps.is_empty())
            .then(|| maps.into_iter().map(|m| Rc::new(self.region(pid, m))).collect::<Vec<_>>());
        let process = self.all.entry(pid).or_default();
        process.read = Some(Instant::now());
        process.stale = false;
        if let Some(regions) = regions {
            process.named.clear();
            process.programs.push(regions);
        }
    }

    /// Opens the file of a mapping with code.
    fn region(&mut self, pid: u32, mapping: Mapping) -> Region {
        let id = (mapping.device, mapping.inode);
        if !mapping.executable || mapping.inode == 0 {
            return Region { mapping, file: None };
        }
        if let Some(path) = self.files.get(&id) {
            return Region { file: Some(path.clone()), mapping };
        }
        // Its own names work while the process lives, ours if it is in the same mount namespace.
        let through_map = self.sys.path(format!("proc/{pid}/map_files/{:x}-{:x}", mapping.start, mapping.end));
        let names = [through_map, self.sys.path_in(pid, &mapping.path), self.sys.path(&mapping.path)];
        let is_it = |file: &File| file.metadata().is_ok_and(|m| m.ino() == mapping.inode);
        let found = names.iter().enumerate().find_map(|(i, name)| {
            // Inodes of overlay file systems may differ although the file is the same: a process's own names are trusted.
            File::open(name).ok().filter(|file| i < 2 || is_it(file))
        });
        let path = match found {
            Some(file) => {
                let path = self.sys.path(format!("proc/self/fd/{}", file.as_raw_fd()));
                self.open.push(file);
                path
            }
            // Too many open files, mostly.
            None => self.sys.path(&mapping.path),
        };
        let path = Rc::new(path);
        self.files.insert(id, path.clone());
        Region { mapping, file: Some(path) }
    }

    /// What an address is in.
    pub(crate) fn name(&mut self, pid: u32, addr: u64) -> Named {
        let demangle = self.demangle;
        self.remember(pid);
        let Some(process) = self.all.get_mut(&pid) else { return Named::default() };
        if let Some(named) = process.named.get(&addr) {
            return named.clone();
        }
        // A mapping that is not there any more may still be in the list, under one that took its place.
        let at = |r: &&Rc<Region>| (r.mapping.start..r.mapping.end).contains(&addr);
        let found = process.programs.iter().rev().find_map(|p| Some((p, p.iter().rev().find(at)?)));
        let Some((program, region)) = found else {
            return Named { stray: !process.programs.is_empty(), ..Named::default() };
        };
        let region = region.clone();
        let mapping = &region.mapping;
        let id = |m: &Mapping| (m.device, m.inode);
        let base = match mapping.inode {
            0 => mapping.start,
            // The mappings of a file lie side by side; the lowest tells the module.
            _ => {
                program.iter().map(|r| &r.mapping).filter(|m| id(m) == id(mapping)).map(|m| m.start).min().unwrap_or(0)
            }
        };
        let module = mapping.path.rsplit('/').next().unwrap_or("").to_owned();
        let mut named = Named { module, base, mapping: mapping.start, stray: !mapping.executable, ..Named::default() };
        let symbol = match &region.file {
            Some(path) => {
                let symbols = self.symbols.get_or_insert_with(|| FileSymbols::new(demangle));
                symbols.find(path, addr - mapping.start + mapping.offset)
            }
            None if mapping.executable && mapping.inode == 0 => {
                let stale = process.perf_map.as_ref().is_none_or(|(read, _)| read.elapsed() > FRESH);
                if stale {
                    process.perf_map = Some((Instant::now(), perf_map(self.sys, pid)));
                }
                process.perf_map.as_ref().and_then(|(_, text)| in_perf_map(text, addr))
            }
            None => None,
        };
        if let Some(symbol) = symbol {
            if named.module.is_empty() {
                named.module = format!("perf-{pid}.map");
            }
            named.symbol = symbol.name;
            named.start = addr - symbol.offset;
        }
        // A run-time compiler replaces its code.
        if region.file.is_some() {
            process.named.insert(addr, named.clone());
        }
        named
    }
}

/// The map that a run-time compiler keeps of its code, which is named by the process's number as it knows it.
fn perf_map(sys: &System, pid: u32) -> String {
    let inner = sys.status(pid).map_or(pid, |s| s.inner_pid);
    let inside = sys.path_in(pid, &format!("tmp/perf-{inner}.map"));
    let outside = sys.path(format!("tmp/perf-{pid}.map"));
    let bytes = std::fs::read(inside).or_else(|_| std::fs::read(outside)).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}
