//! A checked program, language-independent: what each probe's firing computes and records.
//!
//! # Meaning
//!
//! A [`Unit`] becomes one BPF program. When one of its probes fires, its [`ClauseCode`]s run in order, each only if the
//! probe is in its `probes`. A clause runs its body; a *fault* (unreadable address, division by zero, …) ends the clause,
//! writes a fault record, and the next clause runs. Statements run in order and every expression is evaluated exactly
//! once, where its statement stands, operands left to right; operands of `And`, `Or` and `Cond` only when needed.
//! Expressions have no side effects, statements do.
//!
//! Every expression has a [`Val`]: a 64-bit integer or a string of bytes. Integer operators work on 64 bits and wrap; the
//! checker has put an [`Expr::Ext`] wherever C's types are narrower. Signedness is in the operator.
//! Strings end at their first NUL or at their capacity.

use crate::action::{Action, ProbePart, Show};
use crate::location::Location;
use crate::probe::{Probe, ProgKind, Selector};
use crate::stack::Stack;
use crate::sub::Sub;
use crate::types::Space;

macro_rules! id {
    ($(#[$doc:meta] $name:ident),*) => { $(
        #[$doc]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(pub u32);
    )* };
}

id! {
    /// Index into [`Program::vars`].
    VarId,
    /// Index into [`Program::arrays`].
    ArrayId,
    /// Index into [`Program::aggs`].
    AggId,
    /// Index into [`Program::records`].
    RecordId,
    /// Index into [`Program::units`].
    UnitId,
    /// Index into [`Program::clauses`].
    ClauseId,
    /// Index into [`ClauseCode::exprs`].
    ExprId,
    /// A temporary of one clause: index into [`ClauseCode::temps`].
    TempId,
    /// Index into [`Record::fields`].
    FieldId
}

/// What kind of value an expression has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Val {
    /// A 64-bit integer.
    Int,
    /// A string of at most `cap` bytes, its NUL included.
    Str {
        /// Capacity in bytes, NUL included; a multiple of 8 is not required.
        cap: u32,
    },
    /// Exactly `len` bytes (arrays and structs by value).
    Bytes {
        /// Length in bytes.
        len: u32,
    },
}

/// Where a variable lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scope {
    /// One for all: `x`.
    Global,
    /// One for each thread: `self->x`; freed when the thread ends.
    Thread,
    /// One for each firing of a probe, shared by its clauses: `this->x`; starts as zero.
    Clause,
}

/// A variable: a scalar, a string, or the bytes of an array or struct.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Var {
    /// Its name, for messages.
    pub name: String,
    /// Where it lives.
    pub scope: Scope,
    /// What it holds.
    pub val: Val,
}

/// An associative array. Reading a key that is not there gives zero, an empty string or zero bytes; storing zero or an empty
/// string by [`Stmt::SetElem`] deletes the key. Elements that are bytes are deleted by storing the constant 0, not by bytes that
/// happen to be zero.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Array {
    /// Its name, for messages.
    pub name: String,
    /// `Global` or `Thread`.
    pub scope: Scope,
    /// The key's members.
    pub key: Vec<Val>,
    /// The element.
    pub val: Val,
}

/// An aggregating function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AggFunc {
    /// `count()`
    Count,
    /// `sum(e)`
    Sum,
    /// `min(e)`, signed
    Min,
    /// `max(e)`, signed
    Max,
    /// `avg(e)`
    Avg,
    /// `stddev(e)`
    Stddev,
    /// `quantize(e[, weight])`: power-of-two buckets
    Quantize,
    /// `lquantize(e, low, high, step[, weight])`
    Lquantize {
        /// Lower bound.
        low: i32,
        /// Upper bound.
        high: i32,
        /// Width of a bucket, at least 1.
        step: u16,
    },
    /// `llquantize(e, factor, low, high, steps[, weight])`
    Llquantize {
        /// Base.
        factor: u16,
        /// Lowest magnitude.
        low: u16,
        /// Highest magnitude.
        high: u16,
        /// Buckets per magnitude.
        steps: u16,
    },
}

/// An aggregation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Agg {
    /// Its name without the `@`, empty for the unnamed one.
    pub name: String,
    /// Its function.
    pub func: AggFunc,
    /// The key's members, and how each is written.
    pub key: Vec<(Val, Show)>,
    /// Whether it is cleared or truncated while probes are live, so that its map is double-buffered.
    pub resettable: bool,
    /// The unit whose probes the key's members of [`Show::ProbePart`] are indexes of; all updates are in this unit.
    /// `None` where there are no such members.
    pub probes_of: Option<UnitId>,
}

/// Which ring a record goes through.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RingKind {
    /// Output.
    Data,
    /// Output that belongs to a speculation, whose handle is the record's first field: the data ring too, but the consumer keeps it
    /// until the speculation is committed.
    Speculation,
    /// `exit`, `clear`, `printa` and the like: never lost to a flood of output.
    Control,
}

/// A record: a run of actions of a clause that is written at once, or lost at once and counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The clause it belongs to.
    pub clause: ClauseId,
    /// The unit whose code writes it (a clause compiled for several signatures has records for each).
    pub unit: UnitId,
    /// Its ring.
    pub ring: RingKind,
    /// Its fields.
    pub fields: Vec<Val>,
    /// What the consumer does with it.
    pub actions: Vec<Action>,
}

/// A clause of the source, for messages and for the enabled-probe id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clause {
    /// Where it starts: source number, byte offsets.
    pub span: (u32, u32, u32),
    /// Its line, from 1.
    pub line: u32,
}

/// Unary operators on integers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UnOp {
    /// `-a`
    Neg,
    /// `~a`
    Not,
    /// `!a`: 0 or 1
    LogNot,
}

/// Binary operators on integers. `S` is signed, `U` unsigned. Shift counts are taken modulo 64. Division by zero faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum BinOp {
    Add,
    Sub,
    Mul,
    DivS,
    DivU,
    RemS,
    RemU,
    And,
    Or,
    Xor,
    Shl,
    ShrS,
    ShrU,
    Eq,
    Ne,
    LtS,
    LtU,
    LeS,
    LeU,
}

/// Comparison of two strings as `strcmp` does it, with bytes unsigned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum StrOp {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
}

/// Built-in variables that are integers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Builtin {
    /// The process id (thread group id).
    Pid,
    /// The thread id.
    Tid,
    /// The real user id.
    Uid,
    /// The real group id.
    Gid,
    /// Nanoseconds of the monotonic clock; one value for all uses in one firing.
    Timestamp,
    /// Nanoseconds since the epoch, when it is evaluated.
    WallTimestamp,
    /// Nanoseconds that the thread has run on CPUs since tracing began, less what firings that read this took; one value for all
    /// uses in one firing. Needs [`Program::oncpu`].
    Vtimestamp,
    /// The CPU's number.
    Cpu,
    /// The current task's address.
    CurThread,
    /// The number of the probe that fired.
    ProbeId,
    /// The number of the enabling: [`crate::epid()`] of the clause and the probe that fired.
    Epid,
    /// The return address in the kernel, by a stack walk; 0 in the consumer's own probes and where there is none.
    Caller,
    /// The return address in user space, by a stack walk along frame pointers. What is no user address (code without frame pointers
    /// leaves anything there) is a `BadStack` fault.
    Ucaller,
}

/// Memory of the program's own that has an address: a variable or element whose kind is [`Val::Bytes`] or [`Val::Str`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// A variable.
    Var(VarId),
    /// An array's element.
    Elem(ArrayId, Vec<ExprId>),
}

/// Where a [`Stmt::Store`] writes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Dest {
    /// To a place, at an offset from its start. An element is made, zero, if it is absent.
    Place(Place),
    /// To the clause's scratch memory: the offset is a [`Space::Scratch`] pointer.
    Scratch,
    /// To a global variable that an address points into: the offset is a kernel address.
    Global,
}

/// An expression.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Expr {
    /// An integer.
    Const(i64),
    /// A value of the firing's context.
    Loc(Location),
    /// A built-in integer.
    Builtin(Builtin),
    /// An integer temporary.
    Temp(TempId),
    /// A variable's value (integer or string).
    Var(VarId),
    /// An array's element (integer or string).
    Elem(ArrayId, Vec<ExprId>),
    /// A unary operator.
    Un(UnOp, ExprId),
    /// A binary operator.
    Bin(BinOp, ExprId, ExprId),
    /// The low `size` bytes (1, 2 or 4) of an integer, sign- or zero-extended.
    Ext {
        /// The integer.
        of: ExprId,
        /// Bytes kept.
        size: u8,
        /// Whether the result is sign-extended.
        signed: bool,
    },
    /// `a && b`: 0 or 1.
    And(ExprId, ExprId),
    /// `a || b`: 0 or 1.
    Or(ExprId, ExprId),
    /// `c ? a : b`; both have equal [`Val`]s, or are strings.
    Cond(ExprId, ExprId, ExprId),
    /// An integer in memory; faults when it cannot be read.
    Load {
        /// Its address.
        addr: ExprId,
        /// Bytes: 1, 2, 4 or 8.
        size: u8,
        /// Whether it is sign-extended.
        signed: bool,
        /// Whose memory.
        space: Space,
    },
    /// A comparison of strings: 0 or 1.
    StrCmp(StrOp, ExprId, ExprId),
    /// The length of a string without its NUL.
    StrLen(ExprId),
    /// The kernel address of an offset in scratch memory, to show; the memory is another's after the firing.
    ScratchAddr(ExprId),

    // Strings and bytes.
    /// A string constant.
    Str(Vec<u8>),
    /// `execname`: capacity 16, zero-padded.
    Comm,
    /// A part of the firing probe's description as text.
    ProbeText(ProbePart),
    /// The firing probe's index in its unit, for records and keys that the consumer resolves ([`Show::ProbePart`]); an integer.
    ProbeIndex,
    /// A string in memory; faults when it cannot be read. Longer ones are cut to `cap - 1` bytes.
    ReadStr {
        /// Its address.
        addr: ExprId,
        /// Whose memory.
        space: Space,
        /// Capacity of the result.
        cap: u32,
        /// At most this many bytes are read (`copyinstr(a, n)`), if given.
        max: Option<ExprId>,
    },
    /// `strjoin(a, b)`: cut to the capacity.
    StrJoin {
        /// First.
        a: ExprId,
        /// Second.
        b: ExprId,
        /// Capacity of the result.
        cap: u32,
    },
    /// A subroutine. Operands that are strings are evaluated as such, first to last.
    Sub {
        /// Which.
        sub: Sub,
        /// Its operands.
        args: Vec<ExprId>,
        /// Capacity of a result that is a string.
        cap: u32,
    },
    /// `len` bytes of memory by value; faults when they cannot be read.
    ReadBytes {
        /// Their address.
        addr: ExprId,
        /// Whose memory.
        space: Space,
        /// How many.
        len: u32,
    },

    /// A stack, as the bytes of [`crate::stack`]. Empty where there is none: the consumer's own probes (all phases but
    /// [`Phase::Run`]) have none, user code has no kernel stack and a kernel thread no user stack. Faults (`BadStack`) where the kernel cannot
    /// walk it.
    Stack(Stack),
    /// An integer of `size` bytes (1, 2, 4 or 8) at an offset of bytes, sign- or zero-extended.
    Part {
        /// The bytes.
        of: ExprId,
        /// Offset in them.
        offset: u32,
        /// Size in bytes.
        size: u8,
        /// Whether it is sign-extended.
        signed: bool,
    },
    /// An address of the current process, for the consumer to name: 16 bytes, the process id and the address, each 64 bits.
    UserAddr(ExprId),
    /// The kernel address of a place, to read from by [`Expr::Load`], [`Expr::ReadStr`] and [`Expr::ReadBytes`]; an integer. An
    /// element that is absent, and a thread's variable where the thread has none, are at an address of zeros. Only that of a
    /// global variable means anything after the statement.
    AddrOf(Place),
    /// An index that, unsigned, is below `len`; faults otherwise ([`Fault::BadIndex`](crate::Fault), the value is the index).
    Bounded {
        /// The index.
        index: ExprId,
        /// Elements of what is indexed.
        len: u32,
    },
    /// The byte at an index of a string, as a signed integer; 0 at its end. Faults beyond that
    /// ([`Fault::BadAddress`](crate::Fault), the value is the index).
    CharAt {
        /// The string.
        of: ExprId,
        /// The index, unsigned.
        index: ExprId,
    },
}

/// What a program does in the kernel besides computing and recording.
///
/// A *speculation* is named by an id from 1 to [`Program::nspec`]. What a program holds of one that is active is a *handle*: the id in the low
/// 16 bits, above it the number of the id's turn, which is odd while active, so that a later speculation of the same id is another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KernelAct {
    /// `speculation()`: makes the lowest idle id active; the result is the id. Where none is idle it is 0 and a drop
    /// ([`Drop::NoSpeculation`](crate::Drop)) is counted.
    SpecStart,
    /// `speculate(id)`: the result is the handle of that id's speculation if it is active, else 0.
    SpecUse,
    /// Takes `bytes` of a speculation's room (operand: its handle). The result is 1, or 0 where that exceeds
    /// [`Program::specsize`]; a drop ([`Drop::Speculation`](crate::Drop)) is counted then.
    SpecRoom {
        /// The size of the record that is to be written.
        bytes: u32,
    },
    /// `commit(id)`, `discard(id)`: makes an active id idle; the result is its handle, 0 where it was not active. An id that is
    /// negative or above [`Program::nspec`] is an `IllegalOp` fault.
    SpecEnd,
    /// Sends a signal (operand: its number) to the process that runs; an `IllegalOp` fault, with the number, where the kernel
    /// refuses: no such signal, a kernel thread, process 1.
    Raise,
    /// Spends about as many nanoseconds as its operand says, at most half a second: more is an `IllegalOp` fault, with the operand.
    Chill,
    /// The kernel function that the probe is at returns its operand at once, without being run; an `IllegalOp` fault where the
    /// kernel refuses. Only in programs with the registers as context.
    Return,
}

/// A statement.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Stmt {
    /// Sets a temporary.
    SetTemp(TempId, ExprId),
    /// Sets a variable. One that is bytes can be set to bytes as long, or to the constant 0: all zeros.
    SetVar(VarId, ExprId),
    /// Adds to an integer variable atomically, wrapping, and keeps the low `size` bytes when it is read as a narrower type.
    /// `old` gets the value before.
    AddVar {
        /// The variable: `Global`, integer, 8 bytes.
        var: VarId,
        /// What is added.
        by: ExprId,
        /// Gets the value before the addition.
        old: Option<TempId>,
    },
    /// Sets (or, with zero or an empty string, deletes) an element.
    SetElem(ArrayId, Vec<ExprId>, ExprId),
    /// Adds to an integer element atomically, creating it when absent; never deletes.
    AddElem {
        /// The array.
        array: ArrayId,
        /// The key.
        key: Vec<ExprId>,
        /// What is added.
        by: ExprId,
        /// Gets the value before the addition.
        old: Option<TempId>,
    },
    /// Takes `len` bytes, rounded up to a multiple of 8, of the clause's scratch memory, as zeros. What a clause takes is gone when it
    /// ends. A pointer to it ([`Space::Scratch`]) is an offset; the first is 8, so that none is 0; each piece follows the last one.
    /// Reading and writing beyond what was taken faults ([`Fault::BadAddress`](crate::Fault)), but for strings, which end there.
    /// Faults when there is not so much left ([`Fault::NoScratch`](crate::Fault), the value is the length).
    Alloc {
        /// Gets the pointer.
        dst: TempId,
        /// How many bytes, unsigned.
        len: ExprId,
    },
    /// [`Stmt::Alloc`], and a copy of `len` bytes of memory there. Faults also when the source cannot be read.
    CopyIn {
        /// Gets the pointer.
        dst: TempId,
        /// The address.
        addr: ExprId,
        /// How many bytes, unsigned.
        len: ExprId,
        /// Whose memory.
        space: Space,
    },
    /// Copies `len` bytes to scratch memory. A pointer to scratch memory that points to none is a [`Fault::BadAddress`](crate::Fault)
    /// (the value is the pointer), a length that goes beyond what was taken a [`Fault::BadSize`](crate::Fault) (the length), a
    /// source that cannot be read a [`Fault::BadAddress`](crate::Fault). The operands are evaluated in the order `from`, `to`, `len`.
    Copy {
        /// A pointer to scratch memory.
        to: ExprId,
        /// An address, or a string, which is followed by zeros.
        from: ExprId,
        /// Whose memory the address is in.
        space: Space,
        /// How many bytes, unsigned.
        len: ExprId,
    },
    /// Copies `len` bytes to the current process's memory. Faults as [`Stmt::Copy`] does, and when the memory cannot be written
    /// ([`Fault::BadAddress`](crate::Fault), the value is the address). The operands are evaluated in the order `from`, `to`, `len`.
    CopyOut {
        /// An address of the process.
        to: ExprId,
        /// An address, or a string, which is followed by zeros.
        from: ExprId,
        /// Whose memory the address is in.
        space: Space,
        /// How many bytes, unsigned.
        len: ExprId,
        /// No more than the string, its NUL included.
        text: bool,
    },
    /// Writes `size` bytes: of an integer (1, 2, 4 or 8, its low ones), of bytes, or of a string, cut to `size - 1` bytes, with
    /// zeros after it. Faults when they are not all inside ([`Fault::BadAddress`](crate::Fault), the value is the offset).
    /// The key of an element comes first, then the offset, then the value.
    Store {
        /// Where to.
        to: Dest,
        /// At which byte there, unsigned.
        offset: ExprId,
        /// What.
        value: ExprId,
        /// How many bytes.
        size: u32,
    },
    /// Updates an aggregation. `args` are the value (none for `count`) and the weight, if any.
    Aggregate {
        /// The aggregation.
        agg: AggId,
        /// The key.
        key: Vec<ExprId>,
        /// Value and weight.
        args: Vec<ExprId>,
    },
    /// Writes a record; `values` are its fields.
    Emit {
        /// The record.
        record: RecordId,
        /// Its fields.
        values: Vec<ExprId>,
    },
    /// Does something to the program's speculations, or to what is traced; see [`KernelAct`] for operands and result.
    Act {
        /// What.
        act: KernelAct,
        /// Gets its result, where it has one.
        dst: Option<TempId>,
        /// Its operands, integers.
        args: Vec<ExprId>,
    },
    /// Stops tracing (`exit`): no clause begins after this on any CPU, but this clause continues.
    Stop,
    /// A branch.
    If {
        /// Not zero: `then`.
        cond: ExprId,
        /// Taken when the condition is not zero.
        then: Vec<Stmt>,
        /// Taken when it is zero.
        otherwise: Vec<Stmt>,
    },
    /// Marks the source position of what follows: byte offset in the clause's source, for line info and faults; and the
    /// number of the action in its clause, from 1. A mark in a branch ends with the branch.
    Mark {
        /// Line number from 1.
        line: u32,
        /// The action's number.
        action: u32,
    },
}

/// The code of a clause for one context signature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClauseCode {
    /// The clause.
    pub clause: ClauseId,
    /// The probes it runs for: indexes as the unit's selector gives them, sorted. Empty means all of the unit's.
    pub probes: Vec<u32>,
    /// Expressions.
    pub exprs: Vec<Expr>,
    /// The kind of each temporary.
    pub temps: Vec<Val>,
    /// The predicate: the body runs when it is not zero. A fault in it is a fault of the clause.
    pub predicate: Option<ExprId>,
    /// The body.
    pub body: Vec<Stmt>,
}

/// When a unit's program may run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// Before tracing: `BEGIN`.
    Begin,
    /// While tracing.
    Run,
    /// While tracing, by the consumer itself on its timers: `tick-n`.
    Timer,
    /// After tracing: `END`.
    End,
    /// Whenever a fault is handled, also in BEGIN and END: `ERROR`.
    Always,
}

/// One BPF program to be: clauses that share a context signature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unit {
    /// A name for the program: letters, digits and underscores.
    pub name: String,
    /// How it is run.
    pub prog: ProgKind,
    /// How it learns which probe fired.
    pub selector: Selector,
    /// Its probes by the selector's index; `None` where there is none at that index.
    pub probes: Vec<Option<Probe>>,
    /// When it may run.
    pub phase: Phase,
    /// Its clauses in program order.
    pub clauses: Vec<ClauseCode>,
}

/// An array that is kept beside what the program does, for the program to read: the arguments of processes, by number and time of start
/// (in hundredths of a second since boot).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upkeep {
    /// The array. The consumer fills in what was before, when the units are attached.
    pub array: ArrayId,
    /// The units that follow what happens since. They run at all times, on all CPUs, and their faults are drops
    /// ([`Drop::Dynamic`](crate::Drop)).
    pub units: Vec<UnitId>,
}

/// A whole program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Program {
    /// Source clauses.
    pub clauses: Vec<Clause>,
    /// Variables.
    pub vars: Vec<Var>,
    /// Associative arrays.
    pub arrays: Vec<Array>,
    /// Aggregations.
    pub aggs: Vec<Agg>,
    /// Records.
    pub records: Vec<Record>,
    /// Programs to be.
    pub units: Vec<Unit>,
    /// The unit that accounts for threads' time on CPUs. It has no clauses; it runs at each switch, at all times, with the typed
    /// arguments of `sched_switch`.
    pub oncpu: Option<UnitId>,
    /// What keeps the arguments of processes, where the program asks for another process's.
    pub upkeep: Option<Upkeep>,
    /// Number of speculations at a time; 0 where the program has none.
    pub nspec: u32,
    /// Bytes of records (headers included) that a speculation holds at most.
    pub specsize: u64,
    /// The CPU on which units of [`Phase::Run`] run their clauses; on others they do nothing. `None`: all.
    pub cpu: Option<u32>,
}
