//! The consumer's side of a BPF ring buffer.
//!
//! Owns the mapping and the memory ordering. A record is borrowed only while it is being handled, and its room is given back
//! right after. Leaves out waiting (`poll`), merging of several rings and the meaning of records (`output`, `session`).

use std::ops::ControlFlow;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::error::{Error, Kind, Result};
use crate::map::{Map, page_size};
use crate::sys::map_type;

/// Set in a record's length while its program has not committed it.
const BUSY: u32 = 1 << 31;
/// Set in a record's length when its program gave it up.
const DISCARD: u32 = 1 << 30;
const HEADER: u64 = 8;

/// What is next in a ring.
#[derive(Debug)]
pub enum Next<'a> {
    /// Nothing.
    Empty,
    /// A record that is still being written.
    Busy,
    /// A committed record.
    Record(&'a [u8]),
}

/// A mapped ring.
#[derive(Debug)]
pub struct Ring {
    map: Map,
    /// One page, ours to write: the consumer's position.
    consumer: NonNull<u8>,
    /// One page with the producer's position, then the data twice in a row, so that no record wraps.
    producer: NonNull<u8>,
    size: usize,
}

// SAFETY: the mappings belong to the process; reading needs `&mut self`, so there is one consumer at a time.
unsafe impl Send for Ring {}

impl Ring {
    /// Maps a ring. A ring must have one `Ring` only: two would take records from each other.
    pub fn new(map: &Map) -> Result<Ring> {
        if map.attr().map_type != map_type::RINGBUF {
            return Err(Error::new(Kind::Invalid, format!("map {} is no ring", map.name())));
        }
        let size = map.attr().max_entries as usize;
        let page = page_size();
        let refused = || Error::last_os(format!("cannot map the ring {} into memory", map.name()));
        let consumer = mmap(map.as_fd(), page, libc::PROT_READ | libc::PROT_WRITE, 0).ok_or_else(refused)?;
        let Some(producer) = mmap(map.as_fd(), page + 2 * size, libc::PROT_READ, page) else {
            let error = refused();
            // SAFETY: mapped just above; nothing refers to it.
            unsafe { libc::munmap(consumer.as_ptr().cast(), page) };
            return Err(error);
        };
        Ok(Ring { map: map.clone(), consumer, producer, size })
    }

    /// Returns how many bytes records can fill, headers included.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Returns how many bytes are taken now, by records that are committed or being written.
    pub fn used(&self) -> usize {
        let consumed = self.consumer_position().load(Ordering::Relaxed);
        self.producer_position().load(Ordering::Acquire).wrapping_sub(consumed) as usize
    }

    /// Calls `f` with every committed record in order, until it breaks, the ring is empty or the next record is still
    /// being written; returns how many were read. A record for which `f` breaks is consumed.
    ///
    /// Discarded records are skipped. Records that arrive meanwhile are read too, so a flood can keep this going: break to
    /// look elsewhere.
    pub fn read(&mut self, mut f: impl FnMut(&[u8]) -> ControlFlow<()>) -> usize {
        let mut count = 0;
        // Only this thread writes the consumer's position.
        let mut position = self.consumer_position().load(Ordering::Relaxed);
        loop {
            // Acquire: pairs with the kernel's release after it has written a reserved record's header.
            let produced = self.producer_position().load(Ordering::Acquire);
            if position == produced {
                return count;
            }
            while position != produced {
                let offset = position as usize & (self.size - 1);
                // Acquire: pairs with the kernel's exchange on commit, after the program has written the record.
                let word = self.header(offset).load(Ordering::Acquire);
                if word & BUSY != 0 {
                    return count;
                }
                let len = (word & !DISCARD) as usize;
                debug_assert!(len + HEADER as usize <= self.size);
                let mut flow = ControlFlow::Continue(());
                if word & DISCARD == 0 {
                    // SAFETY: the record lies within the doubled data (records never exceed the ring), it is committed, so no
                    // program writes it any more, and its room is given back only below, after the borrow.
                    let record = unsafe {
                        std::slice::from_raw_parts(self.data().add(offset + HEADER as usize), len.min(self.size))
                    };
                    flow = f(record);
                    count += 1;
                }
                position = position.wrapping_add((len as u64 + HEADER).next_multiple_of(8));
                // Release: the record has been read before its room is given back.
                self.consumer_position().store(position, Ordering::Release);
                if flow.is_break() {
                    return count;
                }
            }
        }
    }

    /// Looks at the next record without consuming it: for merging several rings. Discarded records are skipped.
    pub fn peek(&mut self) -> Next<'_> {
        let mut position = self.consumer_position().load(Ordering::Relaxed);
        loop {
            // The orderings are those of `read`.
            let produced = self.producer_position().load(Ordering::Acquire);
            if position == produced {
                return Next::Empty;
            }
            let offset = position as usize & (self.size - 1);
            let word = self.header(offset).load(Ordering::Acquire);
            if word & BUSY != 0 {
                return Next::Busy;
            }
            let len = (word & !DISCARD) as usize;
            if word & DISCARD == 0 {
                // SAFETY: as in `read`; the record is given back by `pop`, which needs `&mut self`, so after the borrow.
                let record = unsafe {
                    std::slice::from_raw_parts(self.data().add(offset + HEADER as usize), len.min(self.size))
                };
                return Next::Record(record);
            }
            position = position.wrapping_add((len as u64 + HEADER).next_multiple_of(8));
            self.consumer_position().store(position, Ordering::Release);
        }
    }

    /// Consumes the record that [`Ring::peek`] returned last.
    pub fn pop(&mut self) {
        let position = self.consumer_position().load(Ordering::Relaxed);
        if position == self.producer_position().load(Ordering::Acquire) {
            return;
        }
        let word = self.header(position as usize & (self.size - 1)).load(Ordering::Acquire);
        if word & BUSY == 0 {
            let len = u64::from(word & !DISCARD);
            let next = position.wrapping_add((len + HEADER).next_multiple_of(8));
            self.consumer_position().store(next, Ordering::Release);
        }
    }

    fn consumer_position(&self) -> &AtomicU64 {
        // SAFETY: the page is mapped as long as `self`, aligned, and shared with the kernel through atomics only.
        unsafe { self.consumer.cast::<AtomicU64>().as_ref() }
    }

    fn producer_position(&self) -> &AtomicU64 {
        // SAFETY: as above; only read.
        unsafe { self.producer.cast::<AtomicU64>().as_ref() }
    }

    fn data(&self) -> *const u8 {
        // SAFETY: the data start one page into the mapping.
        unsafe { self.producer.as_ptr().add(page_size()) }
    }

    fn header(&self, offset: usize) -> &AtomicU32 {
        // SAFETY: `offset` is masked to the ring's size, and positions are multiples of 8.
        unsafe { &*self.data().add(offset).cast::<AtomicU32>() }
    }
}

impl AsFd for Ring {
    /// Readable while there are records that have not been consumed, also ones still being written.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.map.as_fd()
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        let page = page_size();
        // SAFETY: exactly what was mapped in `new`; no borrow outlives `self`.
        unsafe {
            libc::munmap(self.consumer.as_ptr().cast(), page);
            libc::munmap(self.producer.as_ptr().cast(), page + 2 * self.size);
        }
    }
}

fn mmap(fd: BorrowedFd<'_>, len: usize, prot: i32, offset: usize) -> Option<NonNull<u8>> {
    // SAFETY: a fresh mapping at an address of the kernel's choice.
    let start =
        unsafe { libc::mmap(std::ptr::null_mut(), len, prot, libc::MAP_SHARED, fd.as_raw_fd(), offset as libc::off_t) };
    if start == libc::MAP_FAILED { None } else { NonNull::new(start.cast()) }
}
