//! The interpreter's ring buffer: the kernel's rules for space, order and commitment, without its memory layout.

use std::collections::VecDeque;

/// Bytes before each record.
const HEADER: u64 = 8;

#[derive(Clone, PartialEq, Eq, Debug)]
enum State {
    Busy,
    Ready(Vec<u8>),
    Discarded,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Ring {
    size: u64,
    producer: u64,
    consumer: u64,
    /// Sequence number of the first record in `records`.
    first: u64,
    /// Bytes taken with header and padding, and state.
    records: VecDeque<(u64, State)>,
}

impl Ring {
    pub(super) fn new(size: u32) -> Ring {
        Ring { size: u64::from(size), ..Ring::default() }
    }

    /// Reserves room; returns the sequence number of the record.
    pub(super) fn reserve(&mut self, len: u64) -> Option<u64> {
        let taken = (len.checked_add(HEADER)?).checked_next_multiple_of(8)?;
        // The kernel compares with the mask, so a ring is never filled to its last byte.
        if len > u64::from(u32::MAX / 4) || taken > self.size || self.producer + taken - self.consumer > self.size - 1 {
            return None;
        }
        self.producer += taken;
        self.records.push_back((taken, State::Busy));
        Some(self.first + self.records.len() as u64 - 1)
    }

    fn end(&mut self, sequence: u64, state: State) {
        if let Some(record) = sequence.checked_sub(self.first).and_then(|i| self.records.get_mut(i as usize)) {
            record.1 = state;
        }
    }

    pub(super) fn submit(&mut self, sequence: u64, bytes: Vec<u8>) {
        self.end(sequence, State::Ready(bytes));
    }

    pub(super) fn discard(&mut self, sequence: u64) {
        self.end(sequence, State::Discarded);
    }

    /// Consumes what is committed, up to the first record that is not.
    pub(super) fn take(&mut self) -> Vec<Vec<u8>> {
        let mut out = Vec::new();
        while let Some((taken, state)) = self.records.pop_front() {
            match state {
                State::Busy => {
                    self.records.push_front((taken, State::Busy));
                    break;
                }
                State::Ready(bytes) => out.push(bytes),
                State::Discarded => {}
            }
            self.consumer += taken;
            self.first += 1;
        }
        out
    }

    /// `bpf_ringbuf_query`.
    pub(super) fn query(&self, what: u64) -> u64 {
        match what {
            0 => self.producer - self.consumer,
            1 => self.size,
            2 => self.consumer,
            3 => self.producer,
            _ => 0,
        }
    }
}
