//! A file's bytes, mapped where that is safe and possible, else read. The one file of this crate with unsafe code.
//!
//! Only files that cannot shrink while they are mapped are mapped (those of sysfs): a mapped file that is truncated by
//! someone else kills the reader with SIGBUS. Ordinary files are read.
#![allow(unsafe_code)]

use crate::error::{Error, Result};
use std::fs::File;
use std::io::Read;
use std::ops::Deref;
use std::os::fd::AsRawFd;
use std::path::Path;

/// A file's bytes.
pub struct Bytes(Held);

enum Held {
    Mapped { start: *const u8, len: usize },
    Read(Vec<u8>),
}

// SAFETY: the mapping is private, read-only and owned by this value alone; nothing writes to it.
unsafe impl Send for Bytes {}
// SAFETY: as above; shared reads of immutable memory.
unsafe impl Sync for Bytes {}

impl Bytes {
    /// Maps a file of sysfs, whose size never changes, or reads it where the kernel cannot map it (BTF before 6.16).
    pub fn of_sysfs(path: &Path) -> Result<Bytes> {
        let context = |error| Error::io(error, format!("cannot read {}", path.display()));
        let mut file = File::open(path).map_err(context)?;
        let meta = file.metadata().map_err(context)?;
        let len = meta.len() as usize;
        if len > 0 && is_sysfs(&file) {
            // SAFETY: a new private read-only mapping of `len` bytes at an address that the kernel chooses; the result is checked.
            let start = unsafe {
                libc::mmap(std::ptr::null_mut(), len, libc::PROT_READ, libc::MAP_PRIVATE, file.as_raw_fd(), 0)
            };
            if start != libc::MAP_FAILED {
                return Ok(Bytes(Held::Mapped { start: start as *const u8, len }));
            }
        }
        let mut bytes = Vec::with_capacity(len.min(64 << 20));
        file.read_to_end(&mut bytes).map_err(context)?;
        Ok(Bytes(Held::Read(bytes)))
    }
}

fn is_sysfs(file: &File) -> bool {
    let mut stat = std::mem::MaybeUninit::<libc::statfs>::zeroed();
    // SAFETY: an open descriptor and a buffer of the right type, which is read only if the call filled it.
    unsafe { libc::fstatfs(file.as_raw_fd(), stat.as_mut_ptr()) == 0 && stat.assume_init().f_type == libc::SYSFS_MAGIC }
}

impl Bytes {
    /// Whether the bytes are a mapped file of sysfs.
    pub fn is_mapped(&self) -> bool {
        matches!(self.0, Held::Mapped { .. })
    }
}

impl From<Vec<u8>> for Bytes {
    fn from(bytes: Vec<u8>) -> Bytes {
        Bytes(Held::Read(bytes))
    }
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.0 {
            // SAFETY: `start..start + len` was mapped readable by `of_sysfs` and stays mapped until `drop`; a sysfs file does not
            // shrink, so every page of it is backed.
            Held::Mapped { start, len } => unsafe { std::slice::from_raw_parts(*start, *len) },
            Held::Read(bytes) => bytes,
        }
    }
}

impl Drop for Bytes {
    fn drop(&mut self) {
        if let Held::Mapped { start, len } = self.0 {
            // SAFETY: exactly the mapping made by `of_sysfs`, to which no reference outlives `self`.
            unsafe { libc::munmap(start as *mut libc::c_void, len) };
        }
    }
}
