//! What the consumer does with a record: the actions, with the places of their operands in the record.

use crate::program::{AggId, FieldId};
use crate::types::{IntKind, TypeId};

/// How a value that stands in a record (or in an aggregation's key) is to be read and written.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Show {
    /// An integer of `size` bytes.
    Int {
        /// Size in bytes of the D type: 1, 2, 4 or 8.
        size: u8,
        /// Whether it is signed.
        signed: bool,
        /// How it is written.
        kind: IntKind,
    },
    /// A floating-point number: its bits in the low `size` bytes of an integer.
    Float {
        /// Size in bytes: 4 or 8.
        size: u8,
    },
    /// A pointer, written in hexadecimal.
    Pointer,
    /// A string.
    String,
    /// Raw bytes (arrays, structs); `ty` tells more where it is known.
    Bytes {
        /// The D type, for typed printing.
        ty: Option<TypeId>,
    },
    /// The index of a probe in its unit; written as the field `part` of its description.
    ProbePart(ProbePart),
    /// A stack as [`crate::Expr::Stack`] makes it: bytes laid out by [`crate::stack`].
    Stack,
    /// An address, written as what it is in. Kernel addresses are integers; user addresses are the 16 bytes of [`crate::Expr::UserAddr`].
    Symbol(Symbol),
}

/// What of an address is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Symbol {
    /// `sym(a)`, `func(a)`: ``module`symbol`` in the kernel.
    Kernel,
    /// `mod(a)`: the kernel's module.
    KernelModule,
    /// `usym(a)`, `ufunc(a)`: ``module`symbol`` in the process.
    User,
    /// `umod(a)`: the process's module.
    UserModule,
    /// `uaddr(a)`: ``module`symbol+0xoffset`` in the process.
    UserAddress,
}

impl Symbol {
    /// Whether it is of a process.
    pub fn is_user(self) -> bool {
        matches!(self, Symbol::User | Symbol::UserModule | Symbol::UserAddress)
    }
}

/// A part of the description of the probe that fired.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ProbePart {
    /// `probeprov`
    Provider,
    /// `probemod`
    Module,
    /// `probefunc`
    Function,
    /// `probename`
    Name,
}

/// A record's operand: which field, and how to read it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Operand {
    /// The field of the record.
    pub field: FieldId,
    /// How it is read and written.
    pub show: Show,
}

/// One conversion of a format, such as `%-8.3lld`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Conversion {
    /// `-`
    pub left: bool,
    /// `+`
    pub plus: bool,
    /// space
    pub space: bool,
    /// `#`
    pub alternate: bool,
    /// `0`
    pub zero: bool,
    /// `'`
    pub group: bool,
    /// `@`: takes the aggregation's value (in `printa`).
    pub agg: bool,
    /// Minimum width.
    pub width: Option<u32>,
    /// The width is an operand of its own, before the value.
    pub width_arg: bool,
    /// Precision.
    pub precision: Option<u32>,
    /// The precision is an operand of its own, before the value.
    pub precision_arg: bool,
    /// The size modifier as written: `hh`, `h`, `l`, `ll`, `L`, `w`, `z`, `t`, `j` or empty.
    pub modifier: String,
    /// The conversion letter.
    pub letter: char,
}

/// A piece of a format.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Piece {
    /// Text, written as it is, byte by byte.
    Text(Vec<u8>),
    /// A conversion.
    Conv(Conversion),
}

/// A parsed `printf` or `printa` format.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Format {
    /// Its pieces in order; `%%` has become text.
    pub pieces: Vec<Piece>,
}

/// What the consumer does for one action of a clause, in order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// `trace(e)`: the value in its default form.
    Trace(Operand),
    /// `printf(format, …)`.
    Printf {
        /// The format.
        format: Format,
        /// Its operands in the order of use.
        operands: Vec<Operand>,
    },
    /// `printa([format,] @a, @b…)`.
    Printa {
        /// The format, or the default layout.
        format: Option<Format>,
        /// The aggregations.
        aggs: Vec<AggId>,
    },
    /// `print(e)`: a value with its type and all its members.
    Print {
        /// The address it was found at, where `e` is a pointer.
        addr: Option<Operand>,
        /// The value: an integer that holds it, a string, or its bytes.
        value: Operand,
        /// Its type.
        ty: TypeId,
    },
    /// `tracemem(addr, n[, size])`: bytes in hexadecimal.
    Tracemem {
        /// The bytes.
        data: Operand,
        /// How many of them are to be shown, where that is decided at run time; not negative and less than `n`, else all.
        size: Option<Operand>,
    },
    /// `exit(status)`.
    Exit(Operand),
    /// `clear(@a)`.
    Clear(AggId),
    /// `trunc(@a[, n])`: no operand removes all keys; a negative count keeps the lowest.
    Trunc(AggId, Option<Operand>),
    /// `normalize(@a, n)`.
    Normalize(AggId, Operand),
    /// `denormalize(@a)`.
    Denormalize(AggId),
    /// `system(format, …)`: the shell runs the text.
    System {
        /// The format.
        format: Format,
        /// Its operands in the order of use.
        operands: Vec<Operand>,
    },
    /// `freopen(format, …)`: output goes to that file from here on; without pieces, to the first output again.
    Freopen {
        /// The format.
        format: Format,
        /// Its operands in the order of use.
        operands: Vec<Operand>,
    },
    /// `ftruncate()`: what the output file holds is removed.
    Ftruncate,
    /// `setopt(name[, value])`
    Setopt(Operand, Option<Operand>),
    /// `pcap(skb, protocol)`
    Pcap {
        /// What the data begin with: a `PCAP_*` constant.
        proto: Operand,
        /// The packet's length.
        len: Operand,
        /// How many of its bytes were recorded.
        captured: Operand,
        /// The bytes, and zeros after them.
        data: Operand,
    },
    /// `commit(id)`: the speculation of that handle.
    Commit(Operand),
    /// `discard(id)`: likewise.
    Discard(Operand),
    /// The default action of an empty clause: the probe's line.
    Default,
}
