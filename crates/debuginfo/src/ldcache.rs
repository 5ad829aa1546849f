//! From a bare name to a file: executables in `PATH`, then shared libraries by the dynamic linker's cache and its standard
//! directories. Everything is looked up below a root, which may be another mount namespace's (`/proc/PID/root`).

use crate::error::{Error, Kind, Result};
use crate::reader::{array, cstr_at, u32_at};
use std::path::{Component, Path, PathBuf};

/// The old format's magic; entries of 12 bytes follow a count.
const OLD: &[u8] = b"ld.so-1.7.0";
/// The new format's magic and version; it may follow the old one in the same file.
const NEW: &[u8] = b"glibc-ld.so.cache1.1";
const NEW_HEADER: usize = 48;
/// How many symbolic links are followed, as the kernel does.
const LINKS: usize = 40;

/// The bits of an entry's flags that name an architecture's width and ABI.
const ARCH: i32 = 0xff00;
#[cfg(target_arch = "x86_64")]
const NATIVE: i32 = 0x0300;
#[cfg(target_arch = "aarch64")]
const NATIVE: i32 = 0x0a00;
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const NATIVE: i32 = 0;

/// Where libraries are when no cache names them (musl has none).
const LIBRARY_DIRS: &[&str] = &[
    #[cfg(target_arch = "x86_64")]
    "/lib/x86_64-linux-gnu",
    #[cfg(target_arch = "x86_64")]
    "/usr/lib/x86_64-linux-gnu",
    #[cfg(target_arch = "aarch64")]
    "/lib/aarch64-linux-gnu",
    #[cfg(target_arch = "aarch64")]
    "/usr/lib/aarch64-linux-gnu",
    "/lib64",
    "/usr/lib64",
    "/lib",
    "/usr/lib",
    "/usr/local/lib",
];

/// One library of the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// The name that it is asked for by.
    pub name: &'a str,
    /// Its path.
    pub path: &'a str,
    /// Which ABI it is for.
    pub flags: i32,
}

/// The libraries of the cache with the bytes of `/etc/ld.so.cache`, in its order. Entries that point out of the file or
/// are not UTF-8 are left out.
///
/// # Errors
/// Bytes that are neither format.
pub fn entries(cache: &[u8]) -> Result<impl Iterator<Item = Entry<'_>>> {
    let short = || Error::malformed("the header of ld.so.cache is cut short");
    // (entries' offset and size, number, what string offsets count from)
    let (first, size, count, strings) = match cache.starts_with(OLD) {
        true => {
            let count = u32_at(cache, 12).ok_or_else(short)? as usize;
            let end = count.checked_mul(12).and_then(|len| len.checked_add(16)).filter(|&end| end <= cache.len());
            let end = end.ok_or_else(|| Error::malformed("ld.so.cache has fewer entries than it says"))?;
            // The new format follows at the next multiple of its alignment.
            let new = end.next_multiple_of(8);
            match cache.get(new..).is_some_and(|rest| rest.starts_with(NEW)) {
                true => new_format(cache, new)?,
                false => (16, 12, count, end),
            }
        }
        false if cache.starts_with(NEW) => new_format(cache, 0)?,
        false => return Err(Error::malformed("not an ld.so.cache: it starts with neither magic")),
    };
    Ok((0..count).filter_map(move |index| {
        let at = first + index * size;
        let string = |field| {
            let offset = strings.checked_add(u32_at(cache, at + field)? as usize)?;
            std::str::from_utf8(cstr_at(cache, offset)?).ok()
        };
        Some(Entry { name: string(4)?, path: string(8)?, flags: i32::from_le_bytes(array(cache, at)?) })
    }))
}

fn new_format(cache: &[u8], at: usize) -> Result<(usize, usize, usize, usize)> {
    let count =
        u32_at(cache, at + 20).ok_or_else(|| Error::malformed("the header of ld.so.cache is cut short"))? as usize;
    let first = at + NEW_HEADER;
    let end = count.checked_mul(24).and_then(|len| len.checked_add(first));
    match end.filter(|&end| end <= cache.len()) {
        Some(_) => Ok((first, 24, count, at)),
        None => Err(Error::malformed("ld.so.cache has fewer entries than it says")),
    }
}

/// Finds the path of a library of this machine's ABI in the cache: the exact name, or else the name followed by `.so` and
/// a version (`libc` finds `libc.so.6`).
pub fn find<'a>(cache: &'a [u8], name: &str) -> Result<Option<&'a str>> {
    let native = |entry: &Entry<'_>| entry.flags & ARCH == NATIVE && entry.path.starts_with('/');
    if let Some(entry) = entries(cache)?.find(|entry| entry.name == name && native(entry)) {
        return Ok(Some(entry.path));
    }
    Ok(entries(cache)?.find(|entry| is_version_of(entry.name, name) && native(entry)).map(|entry| entry.path))
}

/// Whether `file` is `name.so` or `name.so.VERSION`, or `name.VERSION` if `name` ends in `.so`.
fn is_version_of(file: &str, name: &str) -> bool {
    let Some(rest) = file.strip_prefix(name) else { return false };
    let version = match name.ends_with(".so") {
        true => rest,
        false => match rest.strip_prefix(".so") {
            Some("") => return true,
            Some(version) => version,
            None => return false,
        },
    };
    version.strip_prefix('.').is_some_and(|version| version.starts_with(|c: char| c.is_ascii_digit()))
}

/// Finds the file that a user means by `name`: a path if it has a slash, else an executable in `path_env`, else a shared
/// library. The result is the path below `root`, with symbolic links resolved as a process in that root would.
///
/// # Errors
/// Nothing found; the message tells where it was looked for.
pub fn resolve_binary(name: &str, path_env: &str, root: &Path) -> Result<PathBuf> {
    if name.is_empty() || name.contains('\0') {
        return Err(Error::not_found("no name of a program or library"));
    }
    if name.contains('/') {
        // A relative path is the user's, not the target's.
        if !name.starts_with('/') {
            let path = PathBuf::from(name);
            return match path.is_file() {
                true => Ok(path),
                false => Err(Error::not_found(format!("{name}: no such file"))),
            };
        }
        return match in_root(root, Path::new(name)) {
            Ok(path) if path.is_file() => Ok(path),
            Ok(path) if path.exists() => Err(Error::new(Kind::Unsupported, format!("{name}: not a regular file"))),
            Ok(_) => Err(Error::not_found(format!("{name}: no such file"))),
            Err(error) => Err(error.context(name)),
        };
    }
    let file = |path: &Path| in_root(root, path).ok().filter(|path| path.is_file());
    for dir in path_env.split(':').filter(|dir| dir.starts_with('/')) {
        if let Some(path) = file(&Path::new(dir).join(name)).filter(|path| is_executable(path)) {
            return Ok(path);
        }
    }
    let mut cache_state = "in /etc/ld.so.cache";
    let cache = in_root(root, Path::new("/etc/ld.so.cache")).ok().and_then(|path| std::fs::read(path).ok());
    match cache.as_deref().map(|cache| find(cache, name)) {
        Some(Ok(Some(path))) => match file(Path::new(path)) {
            Some(path) => return Ok(path),
            None => cache_state = "in /etc/ld.so.cache (which names a file that is not there)",
        },
        Some(Ok(None)) => {}
        Some(Err(_)) => cache_state = "in /etc/ld.so.cache (which is not readable as one)",
        None => cache_state = "(there is no /etc/ld.so.cache)",
    }
    for dir in LIBRARY_DIRS {
        if let Some(path) = library_in(root, Path::new(dir), name) {
            return Ok(path);
        }
    }
    Err(Error::not_found(format!(
        "{name}: no program of this name in PATH ({path_env}), no library of this name {cache_state} or in {}",
        LIBRARY_DIRS.join(", ")
    ))
    .help("give its full path"))
}

fn library_in(root: &Path, dir: &Path, name: &str) -> Option<PathBuf> {
    let regular = |path: PathBuf| in_root(root, &path).ok().filter(|path| path.is_file());
    // A directory of PATH's kind may hold anything; a library's name says that it is one.
    if name.contains(".so")
        && let Some(path) = regular(dir.join(name))
    {
        return Some(path);
    }
    let list = std::fs::read_dir(in_root(root, dir).ok()?).ok()?;
    let names = list.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    // The order of a directory is no order; the first by name at least is the same every time.
    let found = names.filter(|file| is_version_of(file, name)).min()?;
    regular(dir.join(found))
}

fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    path.metadata().is_ok_and(|meta| meta.permissions().mode() & 0o111 != 0)
}

/// Resolves an absolute path as a process whose root directory is `root` would: an absolute link starts from `root` again,
/// and `..` does not leave it. The kernel would start from our own root.
pub fn in_root(root: &Path, path: &Path) -> Result<PathBuf> {
    if root == Path::new("/") {
        return Ok(path.to_path_buf());
    }
    // What is still to be walked, last part first.
    let parts = |path: &Path| -> Vec<std::ffi::OsString> {
        let parts = path.components().filter_map(|part| match part {
            Component::Normal(part) => Some(part.to_os_string()),
            Component::ParentDir => Some("..".into()),
            _ => None,
        });
        let mut parts: Vec<_> = parts.collect();
        parts.reverse();
        parts
    };
    let mut left = parts(path);
    let mut walked: Vec<std::ffi::OsString> = Vec::new();
    let mut links = 0;
    while let Some(part) = left.pop() {
        if part == ".." {
            walked.pop();
            continue;
        }
        walked.push(part);
        let here = root.join(walked.iter().collect::<PathBuf>());
        let Ok(target) = std::fs::read_link(&here) else { continue };
        links += 1;
        if links > LINKS {
            return Err(Error::malformed(format!("{}: too many symbolic links", here.display())));
        }
        walked.pop();
        if target.is_absolute() {
            walked.clear();
        }
        left.extend(parts(&target));
    }
    Ok(root.join(walked.iter().collect::<PathBuf>()))
}

/// Runs the reader over arbitrary bytes.
pub fn fuzz_one(data: &[u8]) {
    let _ = find(data, "libc.so.6");
    if let Ok(entries) = entries(data) {
        // Strings may overlap, so that reading every one of many entries would take the square of the size.
        let _ = entries.take(1000).filter(|entry| entry.flags == 3).count();
    }
}

#[cfg(test)]
#[path = "ldcache_tests.rs"]
mod tests;
