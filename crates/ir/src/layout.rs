//! The byte contract between generated code and the consumer: maps, records, keys, values, counters.
//!
//! # Record
//!
//! Every record in a ring starts with a header of [`HEADER`] bytes, native endian:
//!
//! | offset | size | meaning |
//! |---|---|---|
//! | 0 | 8 | time, `CLOCK_MONOTONIC` ns, taken just before the room was reserved |
//! | 8 | 4 | record number, or [`FAULT`] |
//! | 12 | 2 | CPU |
//! | 14 | 2 | the probe's index in its unit (its selector's value) modulo 65,536 — units have fewer |
//!
//! Data records go to the CPU's data ring, records of [`crate::RingKind::Control`] to the control ring, faults to the fault ring, so that no
//! flood of one kind loses another.
//!
//! Fields follow at the offsets of [`RecordLayout`]: integers as 8 bytes, strings with their NUL in `cap` bytes, of which only
//! those up to the NUL mean something.
//!
//! A fault record's body is [`FAULT_BODY`] bytes: u32 unit, u32 position of the clause in the unit, u32 action number,
//! u32 line, u32 fault code, u32 zero, u64 illegal value.
//!
//! # State
//!
//! The state map's value begins with one 64-bit word, the *state word*: [`STARTING`] until BEGIN is done, then the current
//! epoch (0, 1, 2, …) while tracing, [`STOPPING`] after `exit()` or when the consumer ends. Units of [`crate::Phase::Run`] do nothing
//! unless the word is not negative. Then follow the claim words of the scratch slots (one u64 for each CPU, each on a cache
//! line of its own: [`SLOT_STRIDE`]), at [`Layout::claims_offset`], then the global variables. `exit()` and the consumer both write
//! the word, so the consumer advances the epoch by compare-and-exchange, never by a plain store.
//! At [`Layout::realtime_offset`] is an i64 that the consumer writes before BEGIN: `CLOCK_REALTIME` - `CLOCK_MONOTONIC` in
//! nanoseconds, for `walltimestamp`.
//!
//! # Speculations
//!
//! Where the program speculates, the state map has at [`Layout::spec_offset`] a bitmap of ids in use (bit `id - 1`, in u64 words; the bits
//! beyond `nspec` are set from the start), and after it, at [`Layout::spec_slots`], 16 bytes for each id: u64 turn (odd while the id is active, even
//! while idle; each start and each end adds 1) and i64 bytes taken of its room. The bytes of a record that could not be written, or of one that
//! was late for its speculation, stay taken. A speculative record's first field is its handle ([`crate::KernelAct`]); `commit` and
//! `discard` are records of the data rings, whose only field is the handle of what they ended. A record whose program was
//! overtaken by the commit on another CPU may come after it; the handle tells what it belonged to.
//!
//! # Drops
//!
//! The drops map's value is `u64[Drop::COUNT][ncpu]`, counted atomically (the map's value may be longer).
//!
//! # Aggregations
//!
//! A keyed aggregation is a hash map. Its key begins with u32 CPU and u32 (epoch & 1, or 0 when not resettable; plus twice its [`AggLayout::tag`],
//! which tells aggregations apart that share a map because a program can use only so many), then the members at their offsets,
//! integers as 8 bytes, strings and bytes zero-padded to a multiple of 8. One without members is an array map with ONE entry,
//! whose value is a table of parts, [`AggLayout::stride`] bytes apart: part `(epoch & 1)·ncpu + CPU` when resettable (2·ncpu parts),
//! else part `CPU` (the value may be longer than the parts need). Values (and the parts) are u64 words, all starting at
//! zero, see [`AggFunc::words`]; the consumer adds the CPUs' words up (min and max: takes the largest).
//!
//! To clear, the consumer increments the epoch, waits until no program of the old epoch runs, and then owns the old entries.

use crate::buckets;
use crate::program::{AggFunc, ArrayId, Val, VarId};

/// Size of a record's header.
pub const HEADER: u32 = 16;
/// The record number of a fault.
pub const FAULT: u32 = u32::MAX;
/// Size of a fault record's body.
pub const FAULT_BODY: u32 = 32;
/// State word before BEGIN is done; even, so that BEGIN counts in the parity of epoch 0.
pub const STARTING: i64 = -2;
/// State word after `exit()`.
pub const STOPPING: i64 = -4;
/// Distance in bytes of two CPUs' claim words.
pub const SLOT_STRIDE: u32 = 64;
/// Scratch slots for each CPU.
pub const SLOTS: u32 = 8;
/// Most speculations at a time.
pub const MAX_SPECULATIONS: u32 = 4096;
/// Bytes of a speculation's slot.
pub const SPEC_SLOT: u32 = 16;
/// Bits of a speculation's handle that are its id.
pub const SPEC_ID_BITS: u32 = 16;

/// Why something was not recorded, counted in the kernel by CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Drop {
    /// A record found no room in its data ring.
    Data = 0,
    /// A record found no room in the control ring.
    Control = 1,
    /// A key found no room in its aggregation, or its value could not be updated.
    Aggregation = 2,
    /// A key found no room in an associative array.
    Dynamic = 3,
    /// A thread-local variable found no room.
    Thread = 4,
    /// All of the CPU's scratch slots were in use.
    Scratch = 5,
    /// A fault record found no room.
    Fault = 6,
    /// A speculative record found no room in its speculation, or was left without a commit or discard because that was lost.
    Speculation = 7,
    /// No speculation was idle.
    NoSpeculation = 8,
    /// A firing whose program could not run, because the kernel was running it on that CPU already; counted by the kernel for
    /// each program, not in the drops map.
    Missed = 9,
    /// A fault of ERROR's own clauses, for which ERROR is not fired again; counted by the consumer.
    ErrorFault = 10,
}

impl Drop {
    /// Number of causes that generated code counts.
    pub const COUNT: u32 = 9;
    /// The causes that generated code counts, in the order of their counters.
    pub const ALL: [Drop; 9] = [
        Drop::Data,
        Drop::Control,
        Drop::Aggregation,
        Drop::Dynamic,
        Drop::Thread,
        Drop::Scratch,
        Drop::Fault,
        Drop::Speculation,
        Drop::NoSpeculation,
    ];
}

/// A run-time fault. The numbers are those that D's ERROR probe shows in arg4 (DTRACEFLT_*).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Fault {
    /// Unknown.
    Unknown = 0,
    /// An address that cannot be read; the value is the address.
    BadAddress = 1,
    /// A misaligned address.
    BadAlign = 2,
    /// An illegal operation.
    IllegalOp = 3,
    /// Division by zero.
    DivideByZero = 4,
    /// Scratch memory exhausted.
    NoScratch = 5,
    /// An illegal kernel address.
    KernelPrivilege = 6,
    /// An illegal user address.
    UserPrivilege = 7,
    /// Too many or too large key members.
    TupleOverflow = 8,
    /// An unreadable stack.
    BadStack = 9,
    /// A size that is out of range; the value is the size.
    BadSize = 10,
    /// An index that is out of range; the value is the index.
    BadIndex = 11,
}

/// A record's fields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordLayout {
    /// Size in bytes, header included, a multiple of 8.
    pub size: u32,
    /// Offset (from the record's start) and kind of each field.
    pub fields: Vec<(u32, Val)>,
}

/// An aggregation's map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AggLayout {
    /// Index of its map in the object.
    pub map: u32,
    /// Size of the key in bytes; 4 when there are no members (the array's index, 0).
    pub key_size: u32,
    /// Offset and kind of each key member.
    pub fields: Vec<(u32, Val)>,
    /// Number of u64 words in the value (of each part, without members).
    pub words: u32,
    /// Its number among the aggregations that share its map; 0 where it has a map of its own.
    pub tag: u32,
    /// Without members: distance in bytes between two parts of the value. 0 with members.
    pub stride: u32,
}

/// Where a variable is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VarPlace {
    /// At this offset of the state map's value.
    Global(u32),
    /// At this offset of the thread-storage map's value.
    Thread(u32),
    /// In the program's own frame or scratch slot.
    Clause,
}

/// The data rings of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum DataRings {
    /// The program records no data.
    #[default]
    None,
    /// Map indexes, by CPU: the code chooses by comparing. Used up to [`RINGS_BY_COMPARISON`] CPUs, because filling a map of maps
    /// costs a grace period for each element.
    Each(Vec<u32>),
    /// Map index: an array of maps, by CPU.
    Nested(u32),
}

/// Number of u64 in the map of [`Layout::entry_map`].
pub const ENTRY_BOUNDS: u32 = 1 << 14;

/// Most CPUs whose rings are maps of their own.
pub const RINGS_BY_COMPARISON: u32 = 8;

/// Everything the consumer must know about an object's bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    /// Number of CPUs that the maps are laid out for (possible CPUs).
    pub ncpu: u32,
    /// Map index: the state map (array of one, mmap-able).
    pub state_map: u32,
    /// Offset of the claim words in the state map's value.
    pub claims_offset: u32,
    /// Offset in the state map's value of the i64 that `walltimestamp` adds to the monotonic clock.
    pub realtime_offset: u32,
    /// Offset in the state map's value of the bitmap of speculations in use.
    pub spec_offset: u32,
    /// Offset there of the speculations' slots.
    pub spec_slots: u32,
    /// Offset in the state map's value of a u64 for each CPU: the monotonic time of its last switch, which the consumer sets to now before
    /// attaching. Only with [`crate::Program::oncpu`].
    pub switched_offset: Option<u32>,
    /// Map index: the drop counters (array of one, mmap-able).
    pub drops_map: u32,
    /// Map index, where kernel stacks are walked from raw tracepoints: an array of one, whose value is [`ENTRY_BOUNDS`] u64, ascending: first and
    /// past-the-end addresses in turn of the kernel's functions between a tracepoint and its program, then all ones. The consumer fills it
    /// before attaching; until then it is all ones, and such functions are taken for the traced code's.
    pub entry_map: Option<u32>,
    /// The data rings, one for each CPU.
    pub data_rings: DataRings,
    /// Map index: the ring of fault records, where the program can fault.
    pub fault_ring: Option<u32>,
    /// Map index: the control ring.
    pub control_ring: u32,
    /// By [`crate::RecordId`].
    pub records: Vec<RecordLayout>,
    /// By [`crate::AggId`].
    pub aggs: Vec<AggLayout>,
    /// By [`VarId`].
    pub vars: Vec<VarPlace>,
    /// By [`ArrayId`]: the map's index.
    pub arrays: Vec<u32>,
    /// By [`crate::UnitId`]: the program's index in the object.
    pub progs: Vec<u32>,
}

impl Layout {
    /// The place of a variable.
    pub fn var(&self, id: VarId) -> VarPlace {
        self.vars[id.0 as usize]
    }

    /// The map of an array.
    pub fn array(&self, id: ArrayId) -> u32 {
        self.arrays[id.0 as usize]
    }
}

impl AggFunc {
    /// Number of u64 words of a value, and their meaning:
    ///
    /// - count: `n`
    /// - sum: `sum`
    /// - min: `i64::MAX - min`, compared unsigned; max: `max ^ (1 << 63)`; 0 means no value yet; larger is better for both
    /// - avg: `n`, `sum`
    /// - stddev: `n`, `sum`, sum of squares (low word, high word; unsigned 128 bits)
    /// - the quantizations: one word a bucket, see [`crate::buckets`]
    pub fn words(&self) -> u32 {
        match *self {
            AggFunc::Count | AggFunc::Sum | AggFunc::Min | AggFunc::Max => 1,
            AggFunc::Avg => 2,
            AggFunc::Stddev => 4,
            AggFunc::Quantize => buckets::QUANTIZE,
            AggFunc::Lquantize { low, high, step } => buckets::lquantize_levels(low, high, step) + 2,
            AggFunc::Llquantize { factor, low, high, steps } => {
                2 * (buckets::llquantize_bounds(factor, low, high, steps).len() as u32) + 1
            }
        }
    }
}
