//! tracefs, read-only: the mounted one, or a detached mount that only this process can see.
//!
//! Owns finding or making it. A path that would make the kernel mount something by itself (`/sys/kernel/debug/tracing`
//! where nothing is mounted there) is never touched, so nothing in the system changes (G4). Leaves out what the files mean
//! (`debuginfo`).

use std::ffi::CStr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::ptr::null;

use crate::error::{Error, Result};
use crate::poll::owned;

const FSCONFIG_CMD_CREATE: u32 = 6;
const FSOPEN_CLOEXEC: u32 = 1;
const FSMOUNT_CLOEXEC: u32 = 1;

/// Where tracefs can be read.
#[derive(Debug)]
pub struct Tracefs {
    root: PathBuf,
    /// Keeps the detached mount, which ends with it.
    mount: Option<OwnedFd>,
}

impl Tracefs {
    /// Finds tracefs among this process's mounts, or mounts it detached (needs CAP_SYS_ADMIN).
    pub fn open() -> Result<Tracefs> {
        // The thread's, not the process's: a thread can have mounts of its own, and paths are looked up in those.
        let mounts = std::fs::read_to_string("/proc/thread-self/mountinfo")
            .map_err(|error| Error::io(error, "cannot read /proc/thread-self/mountinfo"))?;
        match mounted_at(&mounts) {
            Some(root) => Ok(Tracefs { root, mount: None }),
            None => Tracefs::detached(),
        }
    }

    /// Takes a directory that looks like tracefs, for tests.
    pub fn at(root: impl Into<PathBuf>) -> Tracefs {
        Tracefs { root: root.into(), mount: None }
    }

    /// Makes a mount that is attached nowhere and ends with this value.
    pub fn detached() -> Result<Tracefs> {
        let help = "tracefs is not mounted; run as root, or mount -t tracefs tracefs /sys/kernel/tracing";
        let mount = detached_mount(c"tracefs").map_err(|error| Error::io(error, "cannot read tracefs").help(help))?;
        // The descriptor's link in /proc leads into the mount, so that plain paths work.
        let root = PathBuf::from(format!("/proc/self/fd/{}", mount.as_raw_fd()));
        Ok(Tracefs { root, mount: Some(mount) })
    }

    /// Returns whether it is a mount of this process's own.
    pub fn is_detached(&self) -> bool {
        self.mount.is_some()
    }

    /// Returns a path that this process can open, and only while this value lives.
    pub fn path(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    /// Reads a file, such as `events/sched/sched_switch/format`.
    pub fn read(&self, path: &str) -> Result<String> {
        let bytes = std::fs::read(self.path(path))
            .map_err(|error| Error::io(error, format!("cannot read {path} in tracefs")))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Lists the names of the directories in a directory, such as `events`, sorted.
    pub fn directories(&self, path: &str) -> Result<Vec<String>> {
        self.names(path, true)
    }

    /// Lists all names in a directory, sorted.
    pub fn list(&self, path: &str) -> Result<Vec<String>> {
        self.names(path, false)
    }

    fn names(&self, path: &str, only_directories: bool) -> Result<Vec<String>> {
        let refused = |error| Error::io(error, format!("cannot list {path} in tracefs"));
        let mut names = Vec::new();
        for entry in std::fs::read_dir(self.path(path)).map_err(refused)? {
            let entry = entry.map_err(refused)?;
            if only_directories && !entry.file_type().map_err(refused)?.is_dir() {
                continue;
            }
            if let Ok(name) = entry.file_name().into_string() {
                names.push(name);
            }
        }
        names.sort_unstable();
        Ok(names)
    }
}

/// Finds the first whole tracefs in `mountinfo`; `/sys/kernel/tracing` wins over others.
pub(crate) fn mounted_at(mountinfo: &str) -> Option<PathBuf> {
    let mut found: Option<PathBuf> = None;
    for line in mountinfo.lines() {
        // id, parent, device, root, mount point, options, optional fields, "-", type, …
        let Some((before, after)) = line.split_once(" - ") else { continue };
        let mut fields = before.split(' ').skip(3);
        let (Some(root), Some(point)) = (fields.next(), fields.next()) else { continue };
        if root != "/" || after.split(' ').next() != Some("tracefs") {
            continue;
        }
        let point = PathBuf::from(unescape(point));
        if point == Path::new("/sys/kernel/tracing") {
            return Some(point);
        }
        found.get_or_insert(point);
    }
    found
}

/// Undoes the kernel's octal escapes (`\040` is a space).
fn unescape(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let code = tail.get(..3).and_then(|digits| std::str::from_utf8(digits).ok());
        match code.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) if *first == b'\\' => {
                bytes.push(byte);
                rest = &tail[3..];
            }
            _ => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn detached_mount(fs: &CStr) -> std::io::Result<OwnedFd> {
    // SAFETY: the name is NUL-terminated.
    let context = owned(unsafe { libc::syscall(libc::SYS_fsopen, fs.as_ptr(), FSOPEN_CLOEXEC) } as i32)?;
    let (none, zero) = (null::<libc::c_char>(), 0);
    // SAFETY: this command takes neither key nor value.
    let ret = unsafe { libc::syscall(libc::SYS_fsconfig, context.as_raw_fd(), FSCONFIG_CMD_CREATE, none, none, zero) };
    if ret < 0 {
        return Err(std::io::Error::last_os_error());
    }
    // SAFETY: plain numbers.
    owned(unsafe { libc::syscall(libc::SYS_fsmount, context.as_raw_fd(), FSMOUNT_CLOEXEC, zero) } as i32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_are_found_and_automounts_left_alone() {
        let debugfs = "30 24 0:7 / /sys/kernel/debug rw - debugfs debugfs rw\n";
        assert_eq!(mounted_at(debugfs), None);
        let odd = "31 24 0:8 / /mnt/my\\040trace rw shared:1 - tracefs none rw\n";
        assert_eq!(mounted_at(odd), Some(PathBuf::from("/mnt/my trace")));
        let usual = "32 24 0:8 / /sys/kernel/tracing rw shared:2 - tracefs tracefs rw\n";
        assert_eq!(mounted_at(&format!("{debugfs}{odd}{usual}")), Some(PathBuf::from("/sys/kernel/tracing")));
        let part = "33 24 0:8 /events /mnt rw - tracefs tracefs rw\n";
        assert_eq!(mounted_at(part), None);
    }

    #[test]
    fn a_detached_mount_reads_and_changes_nothing() {
        if !crate::can_bpf() {
            eprintln_skip("needs root");
            return;
        }
        let mounts = || std::fs::read_to_string("/proc/self/mountinfo").unwrap().matches("tracefs").count();
        let before = mounts();
        let tracefs = Tracefs::detached().unwrap();
        assert!(tracefs.is_detached());
        let format = tracefs.read("events/sched/sched_switch/format").unwrap();
        assert!(format.contains("prev_comm"), "{format}");
        assert!(tracefs.directories("events").unwrap().iter().any(|name| name == "sched"));
        assert_eq!(tracefs.read("events/no/such").unwrap_err().kind(), crate::Kind::NotFound);
        assert_eq!(mounts(), before);
    }

    /// Runs in a thread with mounts of its own, so that nobody else sees what it unmounts.
    #[test]
    fn where_it_is_not_mounted_it_is_read_all_the_same() {
        if !crate::can_bpf() {
            eprintln_skip("needs root");
            return;
        }
        let tracefs = Tracefs::open().unwrap();
        assert!(tracefs.list("events/sched/sched_switch").unwrap().iter().any(|name| name == "id"));
        let apart = std::thread::spawn(|| {
            // SAFETY: gives this thread mounts of its own; the pointers are NUL-terminated or null.
            let private = unsafe {
                libc::unshare(libc::CLONE_NEWNS) == 0
                    && libc::mount(null(), c"/".as_ptr(), null(), libc::MS_REC | libc::MS_PRIVATE, null()) == 0
            };
            if !private {
                eprintln_skip("needs mounts of its own");
                return;
            }
            let mounts = || std::fs::read_to_string("/proc/thread-self/mountinfo").unwrap();
            while let Some(point) = mounted_at(&mounts()) {
                let point = std::ffi::CString::new(point.into_os_string().into_encoded_bytes()).unwrap();
                // SAFETY: the path is NUL-terminated.
                assert_eq!(unsafe { libc::umount2(point.as_ptr(), libc::MNT_DETACH) }, 0);
            }
            let before = mounts();
            let tracefs = Tracefs::open().unwrap();
            assert!(tracefs.is_detached());
            assert!(tracefs.read("events/sched/sched_switch/id").unwrap().trim().parse::<u32>().is_ok());
            assert_eq!(mounts(), before);
        });
        apart.join().unwrap();
    }

    #[expect(clippy::print_stderr, reason = "a skipped test says so")]
    fn eprintln_skip(why: &str) {
        eprintln!("skipped: {why}");
    }
}
