use super::*;
use std::fs;

/// A cache with entries of (flags, name, path), in the new format, after the old one's if `both`.
fn cache(list: &[(i32, &str, &str)], both: bool) -> Vec<u8> {
    let mut file = Vec::new();
    if both {
        file.extend(OLD);
        file.push(0);
        file.extend(0u32.to_le_bytes());
    }
    let start = file.len();
    let mut strings = Vec::new();
    let strings_at = NEW_HEADER + 24 * list.len();
    let mut entries = Vec::new();
    for (flags, name, path) in list {
        entries.extend(flags.to_le_bytes());
        for text in [name, path] {
            entries.extend(((strings_at + strings.len()) as u32).to_le_bytes());
            strings.extend(text.as_bytes());
            strings.push(0);
        }
        entries.extend([0; 12]);
    }
    file.extend(NEW);
    file.extend((list.len() as u32).to_le_bytes());
    file.extend((strings.len() as u32).to_le_bytes());
    file.resize(start + NEW_HEADER, 0);
    file.extend(entries);
    file.extend(strings);
    file
}

fn old_cache(list: &[(i32, &str, &str)]) -> Vec<u8> {
    let mut file = OLD.to_vec();
    file.push(0);
    file.extend((list.len() as u32).to_le_bytes());
    let mut strings = Vec::new();
    for (flags, name, path) in list {
        file.extend(flags.to_le_bytes());
        for text in [name, path] {
            file.extend((strings.len() as u32).to_le_bytes());
            strings.extend(text.as_bytes());
            strings.push(0);
        }
    }
    file.extend(strings);
    file
}

const ABI: i32 = NATIVE | 3;
const LIST: &[(i32, &str, &str)] = &[
    (3, "libc.so.6", "/lib32/libc.so.6"),
    (ABI, "libcrypt.so.1", "/lib/libcrypt.so.1"),
    (ABI, "libc.so.6", "/lib/libc.so.6"),
    (ABI, "libz.so", "/lib/libz.so"),
];

#[test]
fn all_formats_hold_the_same() {
    for bytes in [cache(LIST, false), cache(LIST, true), old_cache(LIST)] {
        let read: Vec<_> = entries(&bytes).unwrap().map(|entry| (entry.flags, entry.name, entry.path)).collect();
        assert_eq!(read, LIST);
        // This machine's, not the one of the other width that comes first.
        assert_eq!(find(&bytes, "libc.so.6").unwrap(), Some("/lib/libc.so.6"));
        assert_eq!(find(&bytes, "libc").unwrap(), Some("/lib/libc.so.6"));
        assert_eq!(find(&bytes, "libc.so").unwrap(), Some("/lib/libc.so.6"));
        assert_eq!(find(&bytes, "libz").unwrap(), Some("/lib/libz.so"));
        assert_eq!(find(&bytes, "lib").unwrap(), None);
        assert_eq!(find(&bytes, "libcry").unwrap(), None);
    }
}

#[test]
fn other_bytes_are_errors_or_nothing() {
    assert!(find(b"", "x").is_err());
    assert!(find(b"not a cache at all, but long enough to hold a header of one", "x").is_err());
    for seed in [cache(LIST, false), cache(LIST, true), old_cache(LIST)] {
        crate::mutate::mutate(&seed, 2000, fuzz_one);
    }
}

/// A directory that is removed at the end of the test.
struct Temp(PathBuf);

impl Temp {
    fn new(name: &str) -> Temp {
        let path = std::env::temp_dir().join(format!("probity-debuginfo-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Temp(path)
    }

    fn file(&self, path: &str, mode: u32) {
        use std::os::unix::fs::PermissionsExt;
        let path = self.0.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, "x").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    }
}

impl Drop for Temp {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn names_are_resolved_below_the_root() {
    let root = Temp::new("resolve");
    root.file("usr/bin/prog", 0o755);
    root.file("bin/data", 0o644);
    root.file("opt/lib/libown.so.3", 0o644);
    root.file("usr/lib/libdir.so.1.2", 0o644);
    // An absolute link of another root must not leave it.
    std::os::unix::fs::symlink("/opt/lib/libown.so.3", root.0.join("usr/lib/libown.so")).unwrap();
    std::os::unix::fs::symlink("../../../../../../usr/bin/prog", root.0.join("bin/up")).unwrap();
    std::os::unix::fs::symlink("loop", root.0.join("bin/loop")).unwrap();
    fs::create_dir_all(root.0.join("etc")).unwrap();
    fs::write(root.0.join("etc/ld.so.cache"), cache(&[(ABI, "libown.so", "/usr/lib/libown.so")], false)).unwrap();
    let found = |name| {
        resolve_binary(name, "relative:/bin:/usr/bin", &root.0)
            .map(|path| path.strip_prefix(&root.0).unwrap().to_path_buf())
    };
    assert_eq!(found("prog").unwrap(), Path::new("usr/bin/prog"));
    assert_eq!(found("up").unwrap(), Path::new("usr/bin/prog"));
    assert_eq!(found("/usr/bin/prog").unwrap(), Path::new("usr/bin/prog"));
    assert_eq!(found("libown.so").unwrap(), Path::new("opt/lib/libown.so.3"));
    assert_eq!(found("libown").unwrap(), Path::new("opt/lib/libown.so.3"));
    assert_eq!(found("libdir").unwrap(), Path::new("usr/lib/libdir.so.1.2"));
    for absent in ["data", "loop", "libabsent.so", "", "/bin", "/absent", "/bin/loop", "rel/prog"] {
        let error = found(absent).unwrap_err();
        assert!(matches!(error.kind(), Kind::NotFound | Kind::Unsupported | Kind::Malformed), "{absent}: {error}");
    }
    let error = found("libabsent.so").unwrap_err().to_string();
    assert!(error.contains("/usr/lib") && error.contains("relative:/bin"), "{error}");
}

#[test]
fn this_machines_libc() {
    match resolve_binary("libc.so.6", "/usr/bin:/bin", Path::new("/")) {
        Ok(path) => {
            assert!(crate::elf::Elf::open(&path).unwrap().is_pie());
            assert_eq!(resolve_binary("libc", "/usr/bin", Path::new("/")).unwrap(), path);
        }
        Err(error) => eprintln!("skipped: {error}"),
    }
}
