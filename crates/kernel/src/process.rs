//! Other processes: what /proc says about them, whether they live, and their memory.
//!
//! Owns the parsers of the /proc files used and the process descriptor. Leaves out starting and stopping (`child`) and
//! ELF files (`debuginfo`).

use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::time::Duration;

use crate::error::{Error, Kind, Result};
use crate::poll::owned;
use crate::system::System;

/// One line of `/proc/PID/maps`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// First address.
    pub start: u64,
    /// The address after the last.
    pub end: u64,
    /// Whether it may be executed.
    pub executable: bool,
    /// Whether it may be written.
    pub writable: bool,
    /// Where in the file it starts, in bytes.
    pub offset: u64,
    /// The file's device, major and minor.
    pub device: (u32, u32),
    /// The file's inode; 0 where no file is mapped.
    pub inode: u64,
    /// The file's path in the process's own mount namespace, `[heap]` and the like, or empty.
    pub path: String,
    /// Whether the file has been removed or replaced since.
    pub deleted: bool,
}

/// What `/proc/PID/status` says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// The name of the first thread, at most 15 bytes.
    pub comm: String,
    /// Process (thread group).
    pub tgid: u32,
    /// Parent process.
    pub ppid: u32,
    /// Real user.
    pub uid: u32,
    /// Real group.
    pub gid: u32,
    /// Number of threads.
    pub threads: u32,
    /// The state's letter: `R`, `S`, `T`, `Z`, …
    pub state: char,
    /// The process's number in its innermost pid namespace.
    pub inner_pid: u32,
}

/// The calling process's own numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OwnIds {
    /// Process.
    pub pid: u32,
    /// Parent process.
    pub ppid: u32,
    /// Process group.
    pub pgid: u32,
    /// Session.
    pub sid: u32,
    /// Real user.
    pub uid: u32,
    /// Effective user.
    pub euid: u32,
    /// Real group.
    pub gid: u32,
    /// Effective group.
    pub egid: u32,
}

/// Asks for the calling process's own numbers.
pub fn own_ids() -> OwnIds {
    // SAFETY: none of these calls has preconditions, and none can fail for the calling process.
    unsafe {
        OwnIds {
            pid: libc::getpid() as u32,
            ppid: libc::getppid() as u32,
            pgid: libc::getpgrp() as u32,
            sid: libc::getsid(0) as u32,
            uid: libc::getuid(),
            euid: libc::geteuid(),
            gid: libc::getgid(),
            egid: libc::getegid(),
        }
    }
}

impl System {
    /// Reads the memory map of a process.
    pub fn maps(&self, pid: u32) -> Result<Vec<Mapping>> {
        let text = self.read_proc(pid, "maps")?;
        Ok(text.lines().filter_map(parse_mapping).collect())
    }

    /// Reads the status of a process.
    pub fn status(&self, pid: u32) -> Result<Status> {
        parse_status(&self.read_proc(pid, "status")?)
            .ok_or_else(|| Error::new(Kind::Io, format!("the status of process {pid} is not understood")))
    }

    /// Reads the name of a process's first thread.
    pub fn comm(&self, pid: u32) -> Result<String> {
        Ok(self.read_proc(pid, "comm")?.trim_end_matches('\n').to_owned())
    }

    /// Lists the threads of a process, ascending.
    pub fn threads(&self, pid: u32) -> Result<Vec<u32>> {
        numbers(&self.path(format!("proc/{pid}/task"))).map_err(|error| gone(error, pid, "task"))
    }

    /// Lists the processes, ascending.
    pub fn processes(&self) -> Result<Vec<u32>> {
        numbers(&self.path("proc")).map_err(|error| Error::io(error, "cannot list /proc"))
    }

    /// Returns the path under which this process can open `path` of process `pid`, whatever its root or mount namespace.
    pub fn path_in(&self, pid: u32, path: &str) -> PathBuf {
        self.path(format!("proc/{pid}/root")).join(path.trim_start_matches('/'))
    }

    /// Returns the path of a process's executable, as it sees it; empty ` (deleted)` marks are left as the kernel writes
    /// them. Open [`System::exe_path`] instead where the file itself is wanted.
    pub fn exe(&self, pid: u32) -> Result<PathBuf> {
        std::fs::read_link(self.exe_path(pid)).map_err(|error| gone(error, pid, "exe"))
    }

    /// Returns the path under which the executable can be opened, also when it has been removed.
    pub fn exe_path(&self, pid: u32) -> PathBuf {
        self.path(format!("proc/{pid}/exe"))
    }

    /// Returns when a process was started, in hundredths of a second since boot, and at most `most` bytes of its arguments, each of
    /// which a NUL ends. A process that takes this one's number while it is read does not have the time that is returned.
    pub fn arguments(&self, pid: u32, most: usize) -> Result<(u64, Vec<u8>)> {
        let stat = self.read_proc(pid, "stat")?;
        // The name stands in parentheses and may have any in it; the time is the 20th field behind it.
        let time = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_ascii_whitespace().nth(19)?.parse().ok());
        let Some(time) = time else {
            return Err(Error::new(Kind::Io, format!("the status of process {pid} is not understood")));
        };
        let mut arguments = Vec::new();
        File::open(self.path(format!("proc/{pid}/cmdline")))
            .and_then(|file| file.take(most as u64).read_to_end(&mut arguments))
            .map_err(|error| gone(error, pid, "cmdline"))?;
        Ok((time, arguments))
    }

    /// Whether the numbers that /proc gives processes are the kernel's own, not those of a namespace.
    pub fn has_kernel_pids(&self) -> bool {
        // The inode of the first pid namespace is PROC_PID_INIT_INO.
        std::fs::read_link(self.path("proc/self/ns/pid")).is_ok_and(|link| link.as_os_str() == "pid:[4026531836]")
    }

    /// Reads the auxiliary vector entry `kind` (such as `libc::AT_ENTRY`) of a process, 64-bit or 32-bit.
    pub fn auxv(&self, pid: u32, kind: u64) -> Result<Option<u64>> {
        let bytes = std::fs::read(self.path(format!("proc/{pid}/auxv"))).map_err(|error| gone(error, pid, "auxv"))?;
        // The ELF header's fifth byte is the class; the vector's words have its width.
        let mut ident = [0; 5];
        File::open(self.exe_path(pid))
            .and_then(|file| file.read_exact_at(&mut ident, 0))
            .map_err(|error| gone(error, pid, "exe"))?;
        let width = if ident[4] == 1 { 4 } else { 8 };
        let word = |bytes: &[u8]| bytes.iter().rev().fold(0u64, |value, byte| value << 8 | u64::from(*byte));
        Ok(bytes.chunks_exact(2 * width).find_map(|pair| {
            let (name, value) = pair.split_at(width);
            (word(name) == kind).then(|| word(value))
        }))
    }

    /// Copies memory of a process; fails as a whole if any byte cannot be read.
    pub fn read_memory(&self, pid: u32, address: u64, out: &mut [u8]) -> Result<()> {
        let path = self.path(format!("proc/{pid}/mem"));
        let file = File::open(path).map_err(|error| gone(error, pid, "mem"))?;
        file.read_exact_at(out, address)
            .map_err(|error| Error::io(error, format!("cannot read memory of process {pid} at {address:#x}")))
    }

    /// Returns the last part of the path by which a process was executed: of a script its own name, not the interpreter's.
    pub fn executed(&self, pid: u32) -> Option<Vec<u8>> {
        const AT_EXECFN: u64 = 31;
        const PAGE: u64 = 4096;
        let mut at = self.auxv(pid, AT_EXECFN).ok()??;
        let mut path = Vec::new();
        // It may end right before memory that cannot be read.
        while path.len() <= libc::PATH_MAX as usize {
            let mut part = vec![0; (PAGE - at % PAGE) as usize];
            self.read_memory(pid, at, &mut part).ok()?;
            at += part.len() as u64;
            if let Some(end) = part.iter().position(|b| *b == 0) {
                path.extend(&part[..end]);
                return path.rsplit(|b| *b == b'/').next().map(<[u8]>::to_vec);
            }
            path.extend(part);
        }
        None
    }

    fn read_proc(&self, pid: u32, file: &str) -> Result<String> {
        let path = self.path(format!("proc/{pid}/{file}"));
        let bytes = std::fs::read(path).map_err(|error| gone(error, pid, file))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}

/// A missing file under /proc/PID means that the process has ended.
fn gone(error: std::io::Error, pid: u32, file: &str) -> Error {
    match error.raw_os_error() {
        Some(libc::ENOENT | libc::ESRCH) => no_process(pid),
        Some(libc::EACCES | libc::EPERM) => Error::io(error, format!("cannot read /proc/{pid}/{file}"))
            .help("other users' processes need root or CAP_SYS_PTRACE"),
        _ => Error::io(error, format!("cannot read /proc/{pid}/{file}")),
    }
}

fn no_process(pid: u32) -> Error {
    Error::new(Kind::Gone, format!("there is no process {pid}"))
}

fn numbers(dir: &std::path::Path) -> std::io::Result<Vec<u32>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir)? {
        found.extend(entry?.file_name().to_str().and_then(|name| name.parse::<u32>().ok()));
    }
    found.sort_unstable();
    Ok(found)
}

/// Parses a line of `/proc/PID/maps`: `start-end perms offset major:minor inode   path`.
pub fn parse_mapping(line: &str) -> Option<Mapping> {
    let mut rest = line;
    let mut field = || {
        let text = rest.trim_start_matches(' ');
        let (first, tail) = text.split_once(' ').unwrap_or((text, ""));
        rest = tail;
        (!first.is_empty()).then_some(first)
    };
    let (start, end) = field()?.split_once('-')?;
    let (perms, offset) = (field()?, field()?);
    let (major, minor) = field()?.split_once(':')?;
    let inode = field()?.parse().ok()?;
    // The kernel writes a newline in a path as \012, and nothing else specially.
    let path = rest.trim_start_matches(' ').replace("\\012", "\n");
    let (path, deleted) = match path.strip_suffix(" (deleted)") {
        Some(path) => (path.to_owned(), true),
        None => (path, false),
    };
    let hex = |text| u64::from_str_radix(text, 16).ok();
    Some(Mapping {
        start: hex(start)?,
        end: hex(end)?,
        executable: perms.as_bytes().get(2) == Some(&b'x'),
        writable: perms.as_bytes().get(1) == Some(&b'w'),
        offset: hex(offset)?,
        device: (u32::from_str_radix(major, 16).ok()?, u32::from_str_radix(minor, 16).ok()?),
        inode,
        path,
        deleted,
    })
}

/// Parses `/proc/PID/status`.
pub fn parse_status(text: &str) -> Option<Status> {
    let mut status = Status { state: '?', ..Status::default() };
    for line in text.lines() {
        let Some((name, value)) = line.split_once(':') else { continue };
        let value = value.trim_start_matches([' ', '\t']);
        let number = || value.split_ascii_whitespace().next().and_then(|word| word.parse::<u32>().ok());
        match name {
            "Name" => status.comm = value.to_owned(),
            "State" => status.state = value.chars().next().unwrap_or('?'),
            "Tgid" => status.tgid = number()?,
            "PPid" => status.ppid = number()?,
            "Uid" => status.uid = number()?,
            "Gid" => status.gid = number()?,
            "Threads" => status.threads = number()?,
            "NSpid" => {
                status.inner_pid = value.split_ascii_whitespace().last().and_then(|word| word.parse().ok())?;
            }
            _ => {}
        }
    }
    (status.tgid != 0).then_some(status)
}

/// A process held by descriptor: its number cannot be reused unnoticed. Readable when it has ended.
#[derive(Debug)]
pub struct Process {
    pid: u32,
    fd: OwnedFd,
}

impl Process {
    /// Takes hold of a running process; it is not stopped or changed.
    pub fn grab(pid: u32) -> Result<Process> {
        // SAFETY: plain numbers.
        let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid as libc::pid_t, 0) } as i32;
        match owned(fd) {
            Ok(fd) => Ok(Process { pid, fd }),
            // EINVAL is what a number gets that is out of range or, up to Linux 6.8, that of a thread.
            Err(error) if matches!(error.raw_os_error(), Some(libc::ESRCH | libc::EINVAL | libc::ENOENT)) => {
                Err(no_process(pid))
            }
            Err(error) => Err(Error::io(error, format!("cannot take hold of process {pid}"))),
        }
    }

    /// Returns its number.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Returns whether it still runs; a zombie does not.
    pub fn is_alive(&self) -> bool {
        !self.wait(Some(Duration::ZERO))
    }

    /// Waits until it has ended, at most `timeout`; returns whether it has.
    pub fn wait(&self, timeout: Option<Duration>) -> bool {
        let timeout = timeout.map_or(-1, |t| t.as_millis().min(i32::MAX as u128) as i32);
        let mut poll = libc::pollfd { fd: self.fd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one valid entry.
        unsafe { libc::poll(&mut poll, 1, timeout) > 0 }
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: i32) -> Result<()> {
        let (fd, info) = (self.fd.as_raw_fd(), std::ptr::null::<libc::siginfo_t>());
        // SAFETY: a null information asks for what kill(2) sends.
        let ret = unsafe { libc::syscall(libc::SYS_pidfd_send_signal, fd, signal, info, 0) };
        if ret < 0 { Err(Error::last_os(format!("cannot signal process {}", self.pid))) } else { Ok(()) }
    }
}

impl AsFd for Process {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mappings_parse() {
        let line = "7f0-8a0 r-xp 00002000 fd:01 1234                       /usr/lib/a b.so (deleted)";
        let mapping = parse_mapping(line).unwrap();
        assert_eq!((mapping.start, mapping.end, mapping.offset), (0x7f0, 0x8a0, 0x2000));
        assert_eq!((mapping.device, mapping.inode), ((0xfd, 1), 1234));
        assert_eq!(mapping.path, "/usr/lib/a b.so");
        assert!(mapping.executable && mapping.deleted && !mapping.writable);
        assert_eq!(parse_mapping("0-1 rw-p 0 00:00 0").unwrap().path, "");
        for bad in ["", "x", "1-2", "1-2 rwxp 0 0 0", "g-2 rwxp 0 0:0 0"] {
            assert_eq!(parse_mapping(bad), None, "{bad}");
        }
    }

    #[test]
    fn this_process_is_itself() {
        let sys = System::live();
        let pid = std::process::id();
        let status = sys.status(pid).unwrap();
        assert_eq!(status.tgid, pid);
        assert_eq!(status.ppid, std::os::unix::process::parent_id());
        assert!(sys.threads(pid).unwrap().contains(&pid));
        let here = this_process_is_itself as fn() as usize as u64;
        let maps = sys.maps(pid).unwrap();
        let mapping = maps.iter().find(|m| (m.start..m.end).contains(&here)).unwrap();
        assert!(mapping.executable);
        assert_eq!(PathBuf::from(&mapping.path), sys.exe(pid).unwrap());
        let word = 0x1122_3344_5566_7788_u64;
        let mut copy = [0; 8];
        sys.read_memory(pid, &raw const word as u64, &mut copy).unwrap();
        assert_eq!(u64::from_ne_bytes(copy), word);
        assert!(sys.read_memory(pid, 8, &mut copy).is_err());
        assert!(sys.auxv(pid, libc::AT_ENTRY).unwrap().is_some());
        let executed = sys.executed(pid).unwrap();
        assert_eq!(sys.exe(pid).unwrap().file_name().unwrap().as_encoded_bytes(), executed);
        assert!(Process::grab(pid).unwrap().is_alive());
    }

    #[test]
    fn no_such_process() {
        // Above the largest pid_max.
        let pid = 1 << 23;
        assert_eq!(Process::grab(pid).unwrap_err().kind(), Kind::Gone);
        let error = System::live().maps(pid).unwrap_err();
        assert_eq!((error.kind(), error.to_string()), (Kind::Gone, format!("there is no process {pid}")));
    }
}
