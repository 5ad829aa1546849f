//! What processes map, as it happens: new mappings of code, programs replaced by exec, forks and ends, on all CPUs.
//!
//! Owns the events that tell (a perf event without a counter for each CPU) and the reading of their rings. Leaves out what is
//! made of it. What was mapped before is in `/proc` (`process`).

use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::{Error, Result};
use crate::map::page_size;
use crate::perf;
use crate::process::Mapping;
use crate::system::System;

/// Pages of a CPU's ring, a power of two: some 1,000 mappings between two looks.
const PAGES: usize = 32;
/// Offsets in the page before the ring (`struct perf_event_mmap_page`).
const DATA_HEAD: usize = 1024;
const DATA_TAIL: usize = 1032;

const RECORD_LOST: u32 = 2;
const RECORD_COMM: u32 = 3;
const RECORD_EXIT: u32 = 4;
const RECORD_FORK: u32 = 7;
const RECORD_MMAP2: u32 = 10;
/// In a name's record: it is a new program's.
const MISC_EXEC: u16 = 1 << 13;

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Happened {
    /// A process mapped code.
    Mapped(u32, Mapping),
    /// A process runs another program: nothing that it had mapped is there any more.
    Replaced(u32),
    /// A process made another, which has the same mapped.
    Forked {
        /// The one.
        parent: u32,
        /// The other.
        child: u32,
    },
    /// A process has ended.
    Ended(u32),
    /// More happened than the rings could hold.
    Lost,
}

/// Watches all processes until it is dropped.
pub struct Watch {
    rings: Vec<Ring>,
}

/// One CPU's ring.
struct Ring {
    /// Holds the event.
    _event: OwnedFd,
    base: NonNull<u8>,
    len: usize,
}

impl Watch {
    /// Begins to watch.
    ///
    /// # Errors
    /// The events cannot be opened: that needs `CAP_PERFMON`.
    pub fn open(sys: &System) -> Result<Watch> {
        let rings = sys.online_cpus()?.into_iter().map(Ring::open).collect::<Result<_>>()?;
        Ok(Watch { rings })
    }

    /// Hands out what has happened since the last call, in order.
    pub fn read(&mut self, each: &mut dyn FnMut(Happened)) {
        let mut all: Vec<(u64, Happened)> = Vec::new();
        for ring in &mut self.rings {
            ring.drain(&mut |record| all.extend(parse(record)));
        }
        // A process that changes its CPU leaves records in two rings.
        all.sort_by_key(|(time, _)| *time);
        all.into_iter().for_each(|(_, what)| each(what));
    }
}

impl Ring {
    fn open(cpu: u32) -> Result<Ring> {
        let event = perf::mappings(cpu)?;
        let len = page_size() * (1 + PAGES);
        let prot = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice.
        let base = unsafe { libc::mmap(std::ptr::null_mut(), len, prot, libc::MAP_SHARED, event.as_raw_fd(), 0) };
        let base = NonNull::new(base.cast()).filter(|_| base != libc::MAP_FAILED);
        let base = base.ok_or_else(|| Error::last_os("cannot map the ring of an event into memory"))?;
        Ok(Ring { _event: event, base, len })
    }

    fn word(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: within the first page of the mapping, which lives as long as `self`, and aligned; the kernel writes it too.
        unsafe { &*self.base.as_ptr().add(offset).cast::<AtomicU64>() }
    }

    /// Calls `f` with every record, its header included.
    fn drain(&mut self, f: &mut dyn FnMut(&[u8])) {
        let head = self.word(DATA_HEAD).load(Ordering::Acquire);
        let mut tail = self.word(DATA_TAIL).load(Ordering::Relaxed);
        let mut record = Vec::new();
        while head.wrapping_sub(tail) >= 8 {
            self.copy(tail, 8, &mut record);
            let size = usize::from(u16::from_ne_bytes([record[6], record[7]]));
            if size < 8 || size as u64 > head.wrapping_sub(tail) {
                // Not what the kernel writes: leave it all.
                tail = head;
                break;
            }
            self.copy(tail, size, &mut record);
            f(&record);
            tail = tail.wrapping_add(size as u64);
        }
        self.word(DATA_TAIL).store(tail, Ordering::Release);
    }

    /// Copies bytes out of the ring, around its end if need be.
    fn copy(&self, at: u64, len: usize, out: &mut Vec<u8>) {
        let (page, room) = (page_size(), self.len - page_size());
        out.clear();
        let start = (at % room as u64) as usize;
        let first = len.min(room - start);
        for (from, n) in [(start, first), (0, len - first)] {
            // SAFETY: within the data pages; the kernel does not write what has not been given back.
            let bytes = unsafe { std::slice::from_raw_parts(self.base.as_ptr().add(page + from), n) };
            out.extend_from_slice(bytes);
        }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: exactly what `mmap` returned; no reference outlives `self`.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.len) };
    }
}

/// A record and its time.
fn parse(record: &[u8]) -> Option<(u64, Happened)> {
    let word = |at: usize| Some(u32::from_ne_bytes(record.get(at..at + 4)?.try_into().ok()?));
    let long = |at: usize| Some(u64::from_ne_bytes(record.get(at..at + 8)?.try_into().ok()?));
    // Every record ends with its time.
    let time = long(record.len().checked_sub(8)?)?;
    let misc = u16::from_ne_bytes(record.get(4..6)?.try_into().ok()?);
    let (pid, other) = (word(8)?, word(12)?);
    let what = match word(0)? {
        RECORD_LOST => Happened::Lost,
        RECORD_COMM if misc & MISC_EXEC != 0 => Happened::Replaced(pid),
        // Threads are not processes.
        RECORD_FORK if pid != other => Happened::Forked { parent: other, child: pid },
        RECORD_EXIT if pid == word(16)? => Happened::Ended(pid),
        RECORD_MMAP2 => {
            let (start, len) = (long(16)?, long(24)?);
            let name = record.get(72..record.len() - 8)?;
            let end = name.iter().position(|&b| b == 0).unwrap_or(name.len());
            let path = String::from_utf8_lossy(&name[..end]).into_owned();
            let mapping = Mapping {
                start,
                end: start.saturating_add(len),
                executable: true,
                writable: word(64)? & libc::PROT_WRITE as u32 != 0,
                offset: long(32)?,
                device: (word(40)?, word(44)?),
                inode: long(48)?,
                path: if path.starts_with("//") { String::new() } else { path },
                deleted: false,
            };
            Happened::Mapped(pid, mapping)
        }
        _ => return None,
    };
    Some((time, what))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_records_are_nothing() {
        for len in 0..120 {
            for kind in [2u8, 3, 4, 7, 10, 99] {
                let mut record = vec![0xff; len];
                if len > 4 {
                    record[..4].copy_from_slice(&[kind, 0, 0, 0]);
                }
                let _ = parse(&record);
            }
        }
    }

    #[test]
    fn a_child_is_seen_to_fork_exec_map_and_end() {
        let sys = System::live();
        let Ok(mut watch) = Watch::open(&sys) else { return };
        let mut child = std::process::Command::new("/bin/true").spawn().unwrap();
        let pid = child.id();
        child.wait().unwrap();
        let mut seen = Vec::new();
        watch.read(&mut |what| seen.push(what));
        let at = |test: &dyn Fn(&Happened) -> bool| seen.iter().position(test).expect("it is seen");
        let forked = at(&|h| matches!(h, Happened::Forked { child, .. } if *child == pid));
        let replaced = at(&|h| *h == Happened::Replaced(pid));
        let mapped = at(&|h| matches!(h, Happened::Mapped(p, m) if *p == pid && m.path.ends_with("/true")));
        let ended = at(&|h| *h == Happened::Ended(pid));
        assert!(forked < replaced && replaced < mapped && mapped < ended, "{seen:?}");
    }
}
