//! Where a file's debugging information is, when it is not in the file: named by its build id, or by its debug link.

use crate::elf::Elf;
use crate::reader::{cstr_at, u32_at};
use std::path::{Path, PathBuf};

/// The files that can hold the debugging information of `elf`, which is at `path`, best first. Paths are under `root`, the root
/// directory of the process that runs it; a debug link's file counts only if its checksum (see [`crc32`]) is the second value.
pub fn companions(elf: &Elf, path: &Path, root: &Path) -> Vec<(PathBuf, Option<u32>)> {
    let under = |path: &Path| root.join(path.strip_prefix("/").unwrap_or(path));
    let mut all = Vec::new();
    if let Some(place) = elf.build_id().and_then(|id| Elf::debug_path(&id)) {
        all.push((under(&place), None));
    }
    let link = elf.section(".gnu_debuglink").and_then(|section| elf.contents(section).ok());
    let Some((name, crc)) = link.as_deref().and_then(debug_link) else { return all };
    let directory = path.parent().unwrap_or(Path::new("/"));
    all.push((directory.join(&name), Some(crc)));
    all.push((directory.join(".debug").join(&name), Some(crc)));
    // Where the file is in its own root.
    let inside = directory.strip_prefix(root).unwrap_or(directory.strip_prefix("/").unwrap_or(directory));
    all.push((under(&Path::new("/usr/lib/debug").join(inside).join(&name)), Some(crc)));
    all
}

/// A file's name, and after it, aligned, its checksum.
fn debug_link(contents: &[u8]) -> Option<(String, u32)> {
    let name = cstr_at(contents, 0)?;
    let crc = u32_at(contents, (name.len() + 1).next_multiple_of(4))?;
    let name = std::str::from_utf8(name).ok()?;
    // The name must not lead elsewhere.
    (!name.is_empty() && !name.contains('/') && name != "..").then(|| (name.to_owned(), crc))
}

/// The checksum of debug links: CRC-32 as in zip files.
pub fn crc32(bytes: &[u8]) -> u32 {
    let mut table = [0u32; 256];
    for (n, entry) in table.iter_mut().enumerate() {
        *entry = (0..8).fold(n as u32, |crc, _| if crc & 1 == 1 { (crc >> 1) ^ 0xedb8_8320 } else { crc >> 1 });
    }
    !bytes.iter().fold(!0u32, |crc, byte| table[usize::from((crc as u8) ^ byte)] ^ (crc >> 8))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_are_those_of_zip() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
        assert_eq!(crc32(b""), 0);
    }

    #[test]
    fn debug_links_name_a_file_and_its_checksum() {
        assert_eq!(debug_link(b"a.debug\0\x78\x56\x34\x12"), Some(("a.debug".to_owned(), 0x1234_5678)));
        assert_eq!(debug_link(b"ab\0\0\x01\0\0\0"), Some(("ab".to_owned(), 1)));
        for bad in [&b""[..], b"\0\0\0\0\0\0\0\0", b"a/b\0\x01\0\0\0", b"name\0\0\0\0\x01", b"unterminated"] {
            assert_eq!(debug_link(bad), None);
        }
    }
}
