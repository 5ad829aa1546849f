//! What the consumer has learned from the kernel, as plain owned data. Leaves out how it is shown.

use crate::symbol::StackValue;
use probity_ir::{AggId, ClauseId, Drop, IntKind, Probe, Program, RecordId, Symbol, UnitId};

/// A value that was recorded, with its type.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Value {
    /// An integer.
    Int {
        /// The value, extended to 64 bits by its own signedness.
        value: i64,
        /// Size in bytes of the D type: 1, 2, 4 or 8.
        size: u8,
        /// Whether the D type is signed; an unsigned 64-bit value is `value as u64`.
        signed: bool,
        /// How it is written.
        kind: Kind,
    },
    /// A pointer.
    Pointer(u64),
    /// A floating-point number, by the bits of an `f64`; `size` is that of its own type.
    Float {
        /// `f64::to_bits` of its value, which a `float` has exactly too.
        bits: u64,
        /// 4 or 8.
        size: u8,
    },
    /// A string without its NUL.
    Str {
        /// Its bytes.
        bytes: Vec<u8>,
        /// Whether it filled its capacity, so that more may have been cut off.
        truncated: bool,
    },
    /// Raw bytes of an array or struct.
    Bytes(Vec<u8>),
    /// A stack.
    Stack(StackValue),
    /// An address, shown as what it is in.
    Symbol {
        /// What is shown of it.
        what: Symbol,
        /// The process of a user address.
        pid: u32,
        /// The address.
        addr: u64,
    },
    /// Text that the consumer supplied: a part of the probe's description.
    Text(String),
}

/// [`IntKind`] with an order, so that values can be keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// A number.
    Number,
    /// A `char`.
    Char,
    /// A `_Bool`.
    Bool,
}

impl From<IntKind> for Kind {
    fn from(kind: IntKind) -> Kind {
        match kind {
            IntKind::Number => Kind::Number,
            IntKind::Char => Kind::Char,
            IntKind::Bool => Kind::Bool,
        }
    }
}

impl Value {
    /// The number in it; 0 for what is not a number.
    pub fn int(&self) -> i64 {
        match self {
            Value::Int { value, .. } => *value,
            Value::Pointer(p) | Value::Symbol { addr: p, .. } => *p as i64,
            _ => 0,
        }
    }

    /// The bytes of a string, text or byte array; none for a number.
    pub fn bytes(&self) -> Option<&[u8]> {
        match self {
            Value::Str { bytes, .. } | Value::Bytes(bytes) => Some(bytes),
            Value::Text(text) => Some(text.as_bytes()),
            Value::Int { .. } | Value::Pointer(_) | Value::Float { .. } | Value::Stack(_) | Value::Symbol { .. } => {
                None
            }
        }
    }

    /// Whether part of the value may have been cut off.
    pub fn truncated(&self) -> bool {
        matches!(self, Value::Str { truncated: true, .. })
    }
}

/// The floating-point number that 4, 8 or 16 bytes hold; of 16 those of x86's 80-bit format, rounded to 64 bits.
pub fn float_of(bytes: &[u8]) -> Option<f64> {
    match bytes.len() {
        4 => Some(f32::from_le_bytes(bytes.try_into().ok()?).into()),
        8 => Some(f64::from_le_bytes(bytes.try_into().ok()?)),
        // Other machines have another format of this size.
        16 if cfg!(target_arch = "x86_64") => {
            let mantissa = u64::from_le_bytes(bytes[..8].try_into().ok()?);
            let top = u16::from_le_bytes(bytes[8..10].try_into().ok()?);
            let exponent = i32::from(top & 0x7fff);
            let magnitude = match exponent {
                0x7fff if mantissa << 1 == 0 => f64::INFINITY,
                0x7fff => f64::NAN,
                // Twice, so that no power of two on the way is out of range.
                _ => {
                    let power = exponent - 16_383 - 63;
                    let half = power / 2;
                    mantissa as f64 * f64::powi(2.0, half) * f64::powi(2.0, power - half)
                }
            };
            Some(if top & 0x8000 == 0 { magnitude } else { -magnitude })
        }
        _ => None,
    }
}

/// The probe that fired: its place in the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ProbeRef {
    /// The unit that served it.
    pub unit: UnitId,
    /// Its index in the unit, as the unit's selector gives it.
    pub index: u32,
}

impl ProbeRef {
    /// The probe, if the program has it.
    pub fn get(self, program: &Program) -> Option<&Probe> {
        program.units.get(self.unit.0 as usize)?.probes.get(self.index as usize)?.as_ref()
    }
}

/// One action of a record, with the values it was given. The format and such stand in the [`probity_ir::Action`] of
/// the same index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    /// `trace(e)`
    Trace(Value),
    /// `printf(format, …)`: the operands in the order of use.
    Printf(Vec<Value>),
    /// `printa([format,] @a…)`
    Printa(Vec<AggId>),
    /// `print(e)`: the value's bytes, and its address where `e` is a pointer. The type stands in the action.
    Print {
        /// Where it was found.
        addr: Option<u64>,
        /// The bytes, as many as the type has.
        bytes: Vec<u8>,
    },
    /// `tracemem(addr, n[, size])`: the bytes to be shown.
    Tracemem(Vec<u8>),
    /// `exit(status)`
    Exit(i32),
    /// `clear(@a)`
    Clear(AggId),
    /// `trunc(@a[, n])`; no count removes all keys, a negative one keeps the lowest.
    Trunc(AggId, Option<i64>),
    /// `normalize(@a, n)`
    Normalize(AggId, u64),
    /// `denormalize(@a)`
    Denormalize(AggId),
    /// `system(format, …)`: the operands in the order of use.
    System(Vec<Value>),
    /// `freopen(format, …)`: likewise.
    Freopen(Vec<Value>),
    /// `ftruncate()`
    Ftruncate,
    /// `setopt(name[, value])`
    Setopt(String, Option<String>),
    /// `pcap(skb, protocol)`
    Pcap {
        /// What the data begin with: a `PCAP_*` constant.
        proto: i64,
        /// The packet's length.
        len: u32,
        /// As many of its bytes as were recorded.
        data: Vec<u8>,
    },
    /// `commit()` of the speculation of that handle.
    Commit(u64),
    /// `discard()` likewise.
    Discard(u64),
    /// The default action of an empty clause.
    Default,
}

/// A record: what one run of a clause's actions left behind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// `CLOCK_MONOTONIC` nanoseconds.
    pub time: u64,
    /// The CPU it was written on.
    pub cpu: u16,
    /// Which record of the program it is.
    pub record: RecordId,
    /// The clause.
    pub clause: ClauseId,
    /// The probe that fired.
    pub probe: ProbeRef,
    /// One for each of the record's actions, in order.
    pub items: Vec<Item>,
}

/// A run-time fault: a clause was ended early.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// `CLOCK_MONOTONIC` nanoseconds.
    pub time: u64,
    /// The CPU it happened on.
    pub cpu: u16,
    /// The probe that fired.
    pub probe: ProbeRef,
    /// The clause that was ended.
    pub clause: ClauseId,
    /// The action that was running, from 1; 0 in the predicate.
    pub action: u32,
    /// Line of the source, from 1; 0 where it is not known.
    pub line: u32,
    /// What went wrong: a number of [`probity_ir::Fault`], or one that is not known.
    pub code: u32,
    /// The illegal value: an address, a size, an index.
    pub value: u64,
}

/// Things that were not recorded since the last report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DropCount {
    /// Why.
    pub cause: Drop,
    /// On which CPU; `None` when counted for all together.
    pub cpu: Option<u32>,
    /// How many.
    pub count: u64,
}

/// What the consumer reports, in the order it happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A record.
    Record(Record),
    /// A run-time fault.
    Fault(Fault),
    /// Drops.
    Drops(DropCount),
    /// An error of the consumer itself, in one line.
    Error(String),
    /// Tracing ends with this status.
    Exit(i32),
}
