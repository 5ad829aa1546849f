//! Loaded maps: typed operations whose buffers always have the size that the kernel copies, and mappings of arrays.
//!
//! Owns the soundness of element access: every length is checked here, before `sys`. Leaves out what keys and values
//! mean (`output`) and how maps are made from an object (`load`).

use std::io;
use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

use crate::error::{Error, Kind, Result};
use crate::sys::{self, map_type};

/// Most bytes of values that one batched look-up asks for at first.
const BATCH_BYTES: usize = 1 << 20;

/// A map in the kernel; clones share it, and the last one frees it.
#[derive(Clone, Debug)]
pub struct Map(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    fd: OwnedFd,
    attr: Attr,
    /// Bytes that a look-up copies: for per-CPU maps, all CPUs' values, each rounded up to 8.
    whole_value: usize,
    inner: Vec<Map>,
}

/// What a map was made with.
#[derive(Clone, Debug, Default)]
pub struct Attr {
    /// Its name in the object, unshortened.
    pub name: String,
    /// One of [`map_type`].
    pub map_type: u32,
    /// Bytes per key.
    pub key_size: u32,
    /// Bytes per value, of one CPU.
    pub value_size: u32,
    /// Entries, or bytes of a ring.
    pub max_entries: u32,
    /// `BPF_F_*`.
    pub flags: u32,
}

/// When [`Map::update`] may store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Update {
    /// Whether or not the key exists.
    Any = 0,
    /// Only if it does not.
    NoExist = 1,
    /// Only if it does.
    Exist = 2,
}

impl Map {
    /// Creates a map. Task storage and maps of maps need more and come from [`crate::load::load`].
    pub fn create(attr: Attr) -> Result<Map> {
        let raw = sys::MapAttr {
            map_type: attr.map_type,
            key_size: attr.key_size,
            value_size: attr.value_size,
            max_entries: attr.max_entries,
            flags: attr.flags,
            name: &attr.name,
            ..Default::default()
        };
        let fd = sys::map_create(&raw).map_err(|error| create_error(error, &attr))?;
        Map::from_parts(fd, attr, Vec::new())
    }

    /// Takes a map that has just been created with `attr`; `inner` are the maps that it holds.
    pub(crate) fn from_parts(fd: OwnedFd, attr: Attr, inner: Vec<Map>) -> Result<Map> {
        let per_cpu =
            matches!(attr.map_type, map_type::PERCPU_ARRAY | map_type::PERCPU_HASH | map_type::LRU_PERCPU_HASH);
        let whole_value = match per_cpu {
            true => (attr.value_size as usize).next_multiple_of(8) * crate::cpu::possible_count()?,
            false => attr.value_size as usize,
        };
        Ok(Map(Arc::new(Inner { fd, attr, whole_value, inner })))
    }

    /// Returns what the map was made with.
    pub fn attr(&self) -> &Attr {
        &self.0.attr
    }

    /// Returns the map's name in the object.
    pub fn name(&self) -> &str {
        &self.0.attr.name
    }

    /// Returns the maps that an array of maps holds, by index.
    pub fn inner(&self) -> &[Map] {
        &self.0.inner
    }

    /// Returns how many bytes a look-up yields: for per-CPU maps, the value size rounded up to 8, times the number of
    /// possible CPUs.
    pub fn whole_value(&self) -> usize {
        self.0.whole_value
    }

    /// Copies the value at `key`, if there is one.
    pub fn lookup(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let mut value = vec![0; self.0.whole_value];
        Ok(self.lookup_into(key, &mut value)?.then_some(value))
    }

    /// Copies the value at `key` into `value` and returns whether there was one.
    pub fn lookup_into(&self, key: &[u8], value: &mut [u8]) -> Result<bool> {
        self.check_key(key)?;
        self.check_value(value.len())?;
        // SAFETY: both lengths have just been checked.
        found(unsafe { sys::map_lookup(self.as_fd(), key, value) }).map_err(|error| self.error(error, "read"))
    }

    /// Stores `value` at `key`; false if `when` forbids it.
    pub fn update(&self, key: &[u8], value: &[u8], when: Update) -> Result<bool> {
        self.check_key(key)?;
        self.check_value(value.len())?;
        // SAFETY: both lengths have just been checked.
        match found(unsafe { sys::map_update(self.as_fd(), key, value, when as u64) }) {
            Err(error) if error.raw_os_error() == Some(libc::EEXIST) => Ok(false),
            result => result.map_err(|error| self.error(error, "update")),
        }
    }

    /// Removes `key` and returns whether it was there.
    pub fn delete(&self, key: &[u8]) -> Result<bool> {
        self.check_key(key)?;
        // SAFETY: the length has just been checked.
        found(unsafe { sys::map_delete(self.as_fd(), key) }).map_err(|error| self.error(error, "delete from"))
    }

    /// Finds the key after `key`, or the first.
    pub fn next_key(&self, key: Option<&[u8]>) -> Result<Option<Vec<u8>>> {
        if let Some(key) = key {
            self.check_key(key)?;
        }
        let mut next = vec![0; self.0.attr.key_size as usize];
        // SAFETY: the length of `key` has just been checked; `next` has the same.
        let any = found(unsafe { sys::map_next_key(self.as_fd(), key, &mut next) });
        Ok(any.map_err(|error| self.error(error, "walk"))?.then_some(next))
    }

    /// Calls `f` with every key and whole value, in batches, and returns how many there were.
    ///
    /// Each entry is copied under its bucket's lock. An entry that lives throughout is seen exactly once.
    pub fn for_each(&self, f: impl FnMut(&[u8], &[u8])) -> Result<usize> {
        self.batches(false, f)
    }

    /// Calls `f` with every key and whole value of a hash and removes them, each entry in one step: nothing that is
    /// added meanwhile is lost between look-up and removal.
    pub fn drain(&self, f: impl FnMut(&[u8], &[u8])) -> Result<usize> {
        self.batches(true, f)
    }

    /// Removes all entries of a hash.
    pub fn clear(&self) -> Result<usize> {
        self.batches(true, |_, _| {})
    }

    fn batches(&self, delete: bool, mut f: impl FnMut(&[u8], &[u8])) -> Result<usize> {
        let (key_size, value_size) = (self.0.attr.key_size as usize, self.0.whole_value);
        let mut count = (BATCH_BYTES / value_size.max(1)).clamp(16, 4096).min(self.0.attr.max_entries.max(1) as usize);
        let mut token = vec![0; key_size.max(4)];
        let mut keys = vec![0; key_size * count];
        let mut values = vec![0; value_size * count];
        let (mut first, mut total) = (true, 0);
        loop {
            // SAFETY: the buffers have room for `count` keys and whole values, the token for a key and 4 bytes.
            let batch = unsafe {
                sys::map_lookup_batch(self.as_fd(), first, &mut token, &mut keys, &mut values, count as u32, delete)
            };
            match batch {
                Ok((got, last)) => {
                    let got = (got as usize).min(count);
                    for (key, value) in keys.chunks_exact(key_size).zip(values.chunks_exact(value_size)).take(got) {
                        f(key, value);
                    }
                    total += got;
                    first = false;
                    if last {
                        return Ok(total);
                    }
                }
                // One bucket holds more than was asked for; nothing of it has been returned.
                Err(error) if error.raw_os_error() == Some(libc::ENOSPC) => {
                    count *= 2;
                    keys.resize(key_size * count, 0);
                    values.resize(value_size * count, 0);
                }
                Err(error) => return Err(self.error(error, "read")),
            }
        }
    }

    /// Maps the values of a `BPF_F_MMAPABLE` array: program and consumer then share the memory.
    pub fn mmap(&self) -> Result<Mapped> {
        let attr = &self.0.attr;
        if attr.map_type != map_type::ARRAY || attr.flags & sys::F_MMAPABLE == 0 {
            return Err(Error::new(Kind::Invalid, format!("map {} cannot be mapped", attr.name)));
        }
        let len = (attr.value_size as usize).next_multiple_of(8) * attr.max_entries as usize;
        let mapped = len.next_multiple_of(page_size());
        // SAFETY: a fresh mapping at an address of the kernel's choice; the kernel checks the length against the map.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                mapped,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                self.0.fd.as_raw_fd(),
                0,
            )
        };
        match NonNull::new(start.cast::<u8>()) {
            Some(start) if start.as_ptr().cast() != libc::MAP_FAILED => Ok(Mapped { start, len, mapped }),
            _ => Err(Error::last_os(format!("cannot map {} into memory", attr.name))),
        }
    }

    fn check_key(&self, key: &[u8]) -> Result<()> {
        match key.len() == self.0.attr.key_size as usize {
            true => Ok(()),
            false => Err(Error::new(
                Kind::Invalid,
                format!("a key of {} bytes for map {} of {}", key.len(), self.name(), self.0.attr.key_size),
            )),
        }
    }

    fn check_value(&self, len: usize) -> Result<()> {
        match len == self.0.whole_value {
            true => Ok(()),
            false => Err(Error::new(
                Kind::Invalid,
                format!("a value of {len} bytes for map {} of {}", self.name(), self.0.whole_value),
            )),
        }
    }

    fn error(&self, error: io::Error, verb: &str) -> Error {
        let full = error.raw_os_error() == Some(libc::E2BIG);
        let error = Error::io(error, format!("cannot {verb} map {}", self.name()));
        if full { error.help(format!("it has room for {} entries", self.0.attr.max_entries)) } else { error }
    }
}

impl AsFd for Map {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.fd.as_fd()
    }
}

/// `ENOENT` is an answer, not a failure.
fn found(result: io::Result<()>) -> io::Result<bool> {
    match result {
        Ok(()) => Ok(true),
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Explains why a map could not be created.
pub(crate) fn create_error(error: io::Error, attr: &Attr) -> Error {
    let bytes = u64::from(attr.max_entries) * u64::from(attr.key_size + attr.value_size);
    let code = error.raw_os_error();
    let error = Error::io(error, format!("cannot create map {}", attr.name));
    match code {
        Some(libc::EPERM) => error.help(crate::features::privilege_help()),
        Some(libc::ENOMEM | libc::E2BIG) => {
            error.help(format!("it asks for {} entries, {bytes} bytes; a smaller size may fit", attr.max_entries))
        }
        _ => error,
    }
}

/// The size of a page.
pub(crate) fn page_size() -> usize {
    // SAFETY: sysconf has no preconditions.
    unsafe { libc::sysconf(libc::_SC_PAGESIZE) as usize }
}

/// The values of an array, mapped. All access is atomic, since programs change them meanwhile.
#[derive(Debug)]
pub struct Mapped {
    start: NonNull<u8>,
    len: usize,
    mapped: usize,
}

// SAFETY: the mapping belongs to the process, not to a thread, and is only reached through atomics.
unsafe impl Send for Mapped {}
// SAFETY: as above.
unsafe impl Sync for Mapped {}

impl Mapped {
    /// Returns how many bytes are mapped: value size rounded up to 8, times entries.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether the map has no bytes (it always has some).
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the 8 bytes at `offset`.
    ///
    /// # Panics
    /// If `offset` is not aligned to 8 or lies outside: offsets come from the layout, not from input.
    pub fn u64(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: `at` has checked range and alignment; the memory lives as long as `self` and changes atomically.
        unsafe { self.at::<AtomicU64>(offset).as_ref() }
    }

    /// Returns the 4 bytes at `offset`.
    ///
    /// # Panics
    /// If `offset` is not aligned to 4 or lies outside.
    pub fn u32(&self, offset: usize) -> &AtomicU32 {
        // SAFETY: as in `u64`.
        unsafe { self.at::<AtomicU32>(offset).as_ref() }
    }

    /// Copies the bytes at `offset`, one by one: not a snapshot if a program writes them meanwhile.
    ///
    /// # Panics
    /// If they lie outside.
    pub fn copy_to(&self, offset: usize, out: &mut [u8]) {
        for (i, byte) in out.iter_mut().enumerate() {
            // SAFETY: as in `u64`.
            *byte = unsafe { self.at::<AtomicU8>(offset + i).as_ref() }.load(Ordering::Relaxed);
        }
    }

    /// Stores `bytes` at `offset`, one by one.
    ///
    /// # Panics
    /// If they lie outside.
    pub fn copy_from(&self, offset: usize, bytes: &[u8]) {
        for (i, byte) in bytes.iter().enumerate() {
            // SAFETY: as in `u64`.
            unsafe { self.at::<AtomicU8>(offset + i).as_ref() }.store(*byte, Ordering::Relaxed);
        }
    }

    fn at<T>(&self, offset: usize) -> NonNull<T> {
        let end = offset.checked_add(size_of::<T>()).expect("an offset within the mapping");
        assert!(end <= self.len && offset.is_multiple_of(align_of::<T>()), "{offset} of {} bytes", self.len);
        // SAFETY: the offset lies within the mapping.
        unsafe { self.start.add(offset) }.cast()
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: exactly what `mmap` returned; no reference outlives `self`.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.mapped) };
    }
}
