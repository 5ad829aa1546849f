//! The processes whose addresses are named: what they have mapped, remembered beyond their end, and the files held open.
//!
//! A process's mappings are read when its first address is named, and again when some time has passed, as long as it lives. Its
//! files are opened at once, so that neither its end nor that of its mount namespace, nor their removal, loses their symbols.

use probity_debuginfo::usymbols::{FileSymbols, in_perf_map};
use probity_kernel::System;
use probity_kernel::process::Mapping;
use probity_output::Named;
use std::collections::HashMap;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// How long what was read of a living process holds: libraries come and go, and programs are replaced.
const FRESH: Duration = Duration::from_millis(100);
/// So many processes are remembered; then the dead are forgotten.
const MOST: usize = 4096;

/// A file: device and inode.
type FileId = ((u32, u32), u64);

/// Processes and their files.
pub(crate) struct Processes<'a> {
    sys: &'a System,
    all: HashMap<u32, Process>,
    files: HashMap<FileId, Rc<PathBuf>>,
    /// Kept open for the paths in `files`.
    open: Vec<File>,
    symbols: Option<FileSymbols>,
}

/// What is known of a process.
#[derive(Default)]
struct Process {
    maps: Vec<Mapping>,
    /// By mapping: where its file can be opened.
    files: Vec<Option<Rc<PathBuf>>>,
    read: Option<Instant>,
    /// Names that were found, by address, in these mappings.
    named: HashMap<u64, Named>,
    /// The run-time compiler's map.
    perf_map: Option<String>,
}

impl<'a> Processes<'a> {
    pub(crate) fn new(sys: &'a System) -> Processes<'a> {
        Processes { sys, all: HashMap::new(), files: HashMap::new(), open: Vec::new(), symbols: None }
    }

    /// Reads what a process has mapped, unless that was done just now.
    pub(crate) fn remember(&mut self, pid: u32) {
        let now = Instant::now();
        if self.all.len() > MOST {
            let sys = self.sys;
            self.all.retain(|&pid, _| sys.path(format!("proc/{pid}")).exists());
        }
        let known = self.all.get(&pid).and_then(|p| p.read);
        if known.is_some_and(|read| now.duration_since(read) < FRESH) {
            return;
        }
        // Nothing is mapped any more once a process has ended, even while /proc still has it.
        let maps = self.sys.maps(pid).unwrap_or_default();
        let process = self.all.entry(pid).or_default();
        process.read = Some(now);
        process.perf_map = None;
        if maps.is_empty() || maps == process.maps {
            return;
        }
        process.named.clear();
        process.files.clear();
        process.maps = maps;
        for i in 0..self.all[&pid].maps.len() {
            let file = self.file(pid, &self.all[&pid].maps[i].clone());
            if let Some(process) = self.all.get_mut(&pid) {
                process.files.push(file);
            }
        }
    }

    /// Where the file of a mapping with code can be opened from now on.
    fn file(&mut self, pid: u32, mapping: &Mapping) -> Option<Rc<PathBuf>> {
        if !mapping.executable || mapping.inode == 0 {
            return None;
        }
        let id = (mapping.device, mapping.inode);
        if let Some(path) = self.files.get(&id) {
            return Some(path.clone());
        }
        let through_map = self.sys.path(format!("proc/{pid}/map_files/{:x}-{:x}", mapping.start, mapping.end));
        let by_name = self.sys.path_in(pid, &mapping.path);
        let file = File::open(through_map).or_else(|_| File::open(&by_name));
        let path = match file {
            Ok(file) => {
                let path = self.sys.path(format!("proc/self/fd/{}", file.as_raw_fd()));
                self.open.push(file);
                path
            }
            // Too many open files, mostly.
            Err(_) => by_name,
        };
        let path = Rc::new(path);
        self.files.insert(id, path.clone());
        Some(path)
    }

    /// What an address is in.
    pub(crate) fn name(&mut self, pid: u32, addr: u64) -> Named {
        self.remember(pid);
        let Some(process) = self.all.get_mut(&pid) else { return Named::default() };
        if let Some(named) = process.named.get(&addr) {
            return named.clone();
        }
        let Some(at) = process.maps.iter().position(|m| (m.start..m.end).contains(&addr)) else {
            return Named { stray: !process.maps.is_empty(), ..Named::default() };
        };
        let mapping = &process.maps[at];
        let module = mapping.path.rsplit('/').next().unwrap_or("").to_owned();
        // The mappings of a file lie side by side; the first of them tells the module.
        let same = |m: &&Mapping| (m.device, m.inode) == (mapping.device, mapping.inode);
        let base = if mapping.inode == 0 {
            mapping.start
        } else {
            process.maps.iter().find(same).map_or(mapping.start, |m| m.start)
        };
        let mut named = Named { module, base, mapping: mapping.start, stray: !mapping.executable, ..Named::default() };
        let found = match &process.files[at] {
            Some(path) => {
                let symbols = self.symbols.get_or_insert_with(FileSymbols::new);
                symbols.find(path, addr - mapping.start + mapping.offset)
            }
            None if mapping.executable && mapping.inode == 0 => {
                let sys = self.sys;
                let text = process.perf_map.get_or_insert_with(|| perf_map(sys, pid));
                let found = in_perf_map(text, addr);
                if found.is_some() && named.module.is_empty() {
                    named.module = format!("perf-{pid}.map");
                }
                found
            }
            None => None,
        };
        if let Some(symbol) = found {
            named.symbol = symbol.name;
            named.start = addr - symbol.offset;
        }
        if process.files[at].is_some() {
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
