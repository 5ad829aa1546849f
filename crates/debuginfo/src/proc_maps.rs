//! `/proc/PID/maps`: a process's mappings, its modules, and how far each is from where its file says. Parses given text;
//! opens nothing.

use crate::elf::Segment;
use crate::error::{Error, Result};
use object::elf;

/// One mapping.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// First address.
    pub start: u64,
    /// One past the last address.
    pub end: u64,
    /// Whether it can be read.
    pub read: bool,
    /// Whether it can be written.
    pub write: bool,
    /// Whether it can be executed.
    pub execute: bool,
    /// Whether writes are shared.
    pub shared: bool,
    /// Offset in the file.
    pub offset: u64,
    /// The device's major and minor number.
    pub device: (u32, u32),
    /// The file's inode number, 0 for anonymous memory.
    pub inode: u64,
    /// The file's path, or a name such as `[heap]`; empty for plain anonymous memory.
    pub path: String,
    /// Whether the file has been deleted or replaced since.
    pub deleted: bool,
}

/// The mappings of one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Module {
    /// The path's last part; of the main executable, too (it is `a.out` as well: see [`Module::is_named`]).
    pub name: String,
    /// The file's path.
    pub path: String,
    /// Whether it is the main executable.
    pub main: bool,
    /// Whether the file has been deleted or replaced since.
    pub deleted: bool,
    /// The file's device and inode, which name it even when its path does not.
    pub file: ((u32, u32), u64),
    /// Its mappings, in order of their addresses.
    pub mappings: Vec<Mapping>,
}

/// Parses the text of `/proc/PID/maps`.
///
/// # Errors
/// A line that is not a mapping, by its number.
pub fn parse(text: &str) -> Result<Vec<Mapping>> {
    let lines = text.lines().enumerate().filter(|(_, line)| !line.is_empty());
    lines
        .map(|(index, line)| {
            parse_line(line).ok_or_else(|| Error::malformed(format!("line {}: no mapping: {line:?}", index + 1)))
        })
        .collect()
}

fn parse_line(line: &str) -> Option<Mapping> {
    let (range, rest) = line.split_once(' ')?;
    let (perms, rest) = rest.split_once(' ')?;
    let (offset, rest) = rest.split_once(' ')?;
    let (device, rest) = rest.split_once(' ')?;
    let (inode, path) = rest.split_once(' ').unwrap_or((rest, ""));
    let hex = |text| u64::from_str_radix(text, 16).ok();
    let (start, end) = range.split_once('-')?;
    let (major, minor) = device.split_once(':')?;
    let [read, write, execute, shared] = *perms.as_bytes().first_chunk()?;
    // Padded with spaces to a column; a path itself may begin with none (it is absolute or in brackets).
    let path = path.trim_start_matches(' ');
    // A file whose name ends in " (deleted)" is written the same way; there is no telling them apart here.
    let (path, deleted) = match path.strip_suffix(" (deleted)") {
        Some(path) => (path, true),
        None => (path, false),
    };
    let (start, end) = (hex(start)?, hex(end)?);
    (start <= end).then_some(())?;
    Some(Mapping {
        start,
        end,
        read: read == b'r',
        write: write == b'w',
        execute: execute == b'x',
        shared: shared == b's',
        offset: hex(offset)?,
        device: (u32::from_str_radix(major, 16).ok()?, u32::from_str_radix(minor, 16).ok()?),
        inode: inode.parse().ok()?,
        // The kernel writes a newline in a name as \012, and no other character so.
        path: path.replace("\\012", "\n"),
        deleted,
    })
}

/// Groups mappings of files into modules, in order of their first addresses. `exe` is what `/proc/PID/exe` names.
pub fn modules(mappings: &[Mapping], exe: &str) -> Vec<Module> {
    let exe = exe.strip_suffix(" (deleted)").unwrap_or(exe);
    let mut modules: Vec<Module> = Vec::new();
    for mapping in mappings {
        if !mapping.path.starts_with('/') || mapping.inode == 0 {
            continue;
        }
        let file = (mapping.device, mapping.inode);
        // The same file can be mapped under two paths only by way of links, and is one module then.
        if let Some(module) = modules.iter_mut().find(|module| module.file == file && module.path == mapping.path) {
            module.mappings.push(mapping.clone());
            continue;
        }
        modules.push(Module {
            name: mapping.path.rsplit('/').next().unwrap_or_default().to_string(),
            path: mapping.path.clone(),
            main: mapping.path == exe,
            deleted: mapping.deleted,
            file,
            mappings: vec![mapping.clone()],
        });
    }
    modules
}

impl Module {
    /// Whether the module has any code mapped: data files have not.
    pub fn has_code(&self) -> bool {
        self.mappings.iter().any(|mapping| mapping.execute)
    }

    /// Whether a probe's module field means this one, by its exact name: the base name, or `a.out` for the main executable.
    pub fn is_named(&self, name: &str) -> bool {
        self.name == name || self.main && name == "a.out"
    }

    /// What is added to the file's addresses to get the process's. `None` if no mapping fits the segments.
    pub fn load_bias(&self, segments: &[Segment]) -> Option<u64> {
        self.mappings.iter().find_map(|mapping| {
            let load = segments.iter().filter(|segment| segment.kind == elf::PT_LOAD.0 && segment.file_size > 0);
            // The kernel maps whole pages, so that a mapping may start before its segment, by less than one.
            let fits = |segment: &&Segment| {
                let first = segment.offset & !0xfff;
                let end = segment.offset.saturating_add(segment.file_size);
                (first..end).contains(&mapping.offset) && mapping.execute == (segment.flags & elf::PF_X.0 != 0)
            };
            let segment = load.into_iter().find(fits)?;
            let vaddr = segment.vaddr.wrapping_add(mapping.offset.wrapping_sub(segment.offset));
            Some(mapping.start.wrapping_sub(vaddr))
        })
    }

    /// The mapping that holds an address.
    pub fn mapping_at(&self, address: u64) -> Option<&Mapping> {
        self.mappings.iter().find(|mapping| (mapping.start..mapping.end).contains(&address))
    }

    /// The address in the process of an offset in the file; in its code, if the offset is mapped more than once.
    pub fn address_of_offset(&self, offset: u64) -> Option<u64> {
        let at = |mapping: &Mapping| {
            let inside = offset.checked_sub(mapping.offset).filter(|&inside| inside < mapping.end - mapping.start)?;
            Some(mapping.start + inside)
        };
        let code = self.mappings.iter().filter(|mapping| mapping.execute).find_map(at);
        code.or_else(|| self.mappings.iter().find_map(at))
    }
}

/// Runs the parser over arbitrary bytes.
pub fn fuzz_one(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    for line in text.lines() {
        if let Ok(mappings) = parse(line) {
            for module in modules(&mappings, "/bin/true") {
                let _ = (module.has_code(), module.load_bias(&[]), module.address_of_offset(0x1000));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
55d0c0000000-55d0c0002000 r--p 00000000 fd:01 1234                       /usr/bin/prog
55d0c0002000-55d0c0008000 r-xp 00002000 fd:01 1234                       /usr/bin/prog
55d0c1000000-55d0c1021000 rw-p 00000000 00:00 0                          [heap]
7f0000000000-7f0000028000 r--p 00000000 fd:01 99                         /usr/lib/x86_64-linux-gnu/libc.so.6
7f0000028000-7f000018d000 r-xp 00028000 fd:01 99                         /usr/lib/x86_64-linux-gnu/libc.so.6
7f0000200000-7f0000201000 rwxs 00000000 00:1a 7                          /dev/shm/odd name\\012x (deleted)
7f0000300000-7f0000301000 rw-p 00000000 00:00 0 
7ffc00000000-7ffc00021000 rw-p 00000000 00:00 0                          [stack]
";

    fn segment(offset: u64, vaddr: u64, size: u64, flags: u32) -> Segment {
        Segment { kind: elf::PT_LOAD.0, flags, offset, vaddr, file_size: size, mem_size: size }
    }

    #[test]
    fn lines_become_mappings() {
        let maps = parse(TEXT).unwrap();
        assert_eq!(maps.len(), 8);
        assert_eq!((maps[1].start, maps[1].end, maps[1].offset), (0x55d0c0002000, 0x55d0c0008000, 0x2000));
        assert!(maps[1].read && !maps[1].write && maps[1].execute && !maps[1].shared);
        assert_eq!((maps[1].device, maps[1].inode), ((0xfd, 1), 1234));
        assert_eq!(maps[2].path, "[heap]");
        assert!(maps[5].shared && maps[5].deleted);
        assert_eq!(maps[5].path, "/dev/shm/odd name\nx");
        assert_eq!(maps[6].path, "");
    }

    #[test]
    fn files_become_modules() {
        let modules = modules(&parse(TEXT).unwrap(), "/usr/bin/prog");
        let names: Vec<_> =
            modules.iter().map(|module| (module.name.as_str(), module.main, module.mappings.len())).collect();
        assert_eq!(names, [("prog", true, 2), ("libc.so.6", false, 2), ("odd name\nx", false, 1)]);
        assert!(modules[0].is_named("a.out") && modules[0].is_named("prog") && !modules[1].is_named("a.out"));
        assert!(modules[2].deleted && modules[1].has_code());
        assert_eq!(modules[1].address_of_offset(0x28010), Some(0x7f0000028010));
        assert_eq!(modules[1].address_of_offset(0x18d_0000), None);
    }

    #[test]
    fn the_load_bias_follows_from_any_segment() {
        let modules = modules(&parse(TEXT).unwrap(), "/usr/bin/prog");
        // A segment that does not start on a page is mapped from the page's start.
        let segments = [segment(0, 0, 0x1f00, 4), segment(0x2f10, 0x3f10, 0x5000, 5)];
        let mut prog = modules[0].clone();
        assert_eq!(prog.load_bias(&segments), Some(0x55d0c0000000));
        prog.mappings.remove(0);
        assert_eq!(prog.load_bias(&segments), Some(0x55d0bffff000));
        assert_eq!(prog.load_bias(&[]), None);
        // A fixed executable has no bias.
        assert_eq!(prog.load_bias(&[segment(0x2000, 0x55d0c0002000, 0x6000, 5)]), Some(0));
    }

    #[test]
    fn other_lines_are_errors() {
        for line in
            ["x", "1-2 r-xp", "2-1 r-xp 0 0:0 0", "1-2 r-x 0 0:0 0", "1-zz r-xp 0 0:0 0 /x", "1-2 r-xp 0 00 0 /x"]
        {
            let error = parse(&format!("{}\n{line}\n", TEXT.lines().next().unwrap())).unwrap_err();
            assert!(error.to_string().starts_with("line 2: "), "{error}");
        }
    }

    #[test]
    fn other_bytes_are_errors_or_nothing() {
        crate::mutate::mutate(TEXT.as_bytes(), 1000, fuzz_one);
    }
}
