//! The typed tree: what the checker makes of a clause for one context signature. Owns the types only.
//!
//! # Meaning
//!
//! Every expression has a type and evaluates to a 64-bit integer (integers, enumerations, pointers), a string, or an object
//! in memory ([`TKind::Object`]). An integer is *normal*: sign- or zero-extended from the size of its type. Conversions are
//! explicit. Side effects ([`TKind::Assign`], [`TKind::Step`], [`TKind::CopyIn`]) take place where C has them, operands left to right.

use probity_ir::{
    AggFunc, AggId, ArrayId, BinOp, Builtin, Format, KernelAct, Location, ProbePart, Space, StrOp, Sub, Symbol, TypeId,
    UnOp, VarId,
};
use probity_syntax::Span;

/// A typed expression.
#[derive(Clone, Debug, PartialEq)]
pub struct TExpr {
    /// What it is.
    pub kind: TKind,
    /// Its type.
    pub ty: TypeId,
    /// Its place.
    pub span: Span,
}

/// The kinds of typed expressions.
#[derive(Clone, Debug, PartialEq)]
pub enum TKind {
    /// An integer constant.
    Int(i64),
    /// A string constant.
    Str(Vec<u8>),
    /// `arg0`, …
    RawArg(u32),
    /// `args[n]`
    Arg(u32),
    /// `errno`
    Errno,
    /// `caller`
    Caller,
    /// `ucaller`
    Ucaller,
    /// `ppid`: offsets of `real_parent` and `tgid` in the kernel's task.
    Ppid(u32, u32),
    /// A built-in integer.
    Builtin(Builtin),
    /// A stack, of the type `dt_stack_t`.
    Stack {
        /// The user's rather than the kernel's.
        user: bool,
        /// Most frames.
        frames: u32,
        /// As it was asked for.
        strsize: u32,
    },
    /// An integer or array at an offset of a [`TKind::Stack`].
    Part {
        /// The stack.
        of: Box<TExpr>,
        /// Byte offset.
        offset: u32,
    },
    /// `sym(a)` and its kin: an address that is shown as what it is in.
    Symbol(Symbol, Box<TExpr>),
    /// A value that has a place in the context.
    Place(Location),
    /// `execname`
    Comm,
    /// `probefunc` and its kin.
    ProbePart(ProbePart),
    /// A variable.
    Var(VarId),
    /// An element of an associative array.
    Elem(ArrayId, Vec<TExpr>),
    /// The address of a variable or element that is in memory.
    AddrOf(Box<TExpr>),
    /// An index that is to be below a number of elements.
    Bounded(Box<TExpr>, u32),
    /// A byte of a string.
    CharAt(Box<TExpr>, Box<TExpr>),
    /// A unary operator; the result is made normal.
    Un(UnOp, Box<TExpr>),
    /// A binary operator on operands of the common type; the result is made normal.
    Bin(BinOp, Box<TExpr>, Box<TExpr>),
    /// 64 bits that are stored and shown as the type of this node, as DTrace computes them; otherwise as [`TKind::Convert`].
    Shown(Box<TExpr>),
    /// The operand converted to the type of this node; both are integers or pointers.
    Convert(Box<TExpr>),
    /// The operand is not 0: 0 or 1.
    Truth(Box<TExpr>),
    /// `a && b`, both made by [`TKind::Truth`] or comparisons.
    And(Box<TExpr>, Box<TExpr>),
    /// `a || b`
    Or(Box<TExpr>, Box<TExpr>),
    /// `c ? a : b`
    Cond(Box<TExpr>, Box<TExpr>, Box<TExpr>),
    /// A comparison of strings.
    StrCmp(StrOp, Box<TExpr>, Box<TExpr>),
    /// A number converted to the type of this node, where one of the two is floating-point.
    FloatConvert(Box<TExpr>),
    /// A comparison of two floating-point numbers of the same type: 0 or 1.
    FloatCmp(StrOp, Box<TExpr>, Box<TExpr>),
    /// An object in memory: its address, whose memory, and the bits of a bit-field in it.
    Object(Box<TExpr>, Space, Option<Bits>),
    /// A string at an address, of at most `max` bytes.
    ReadStr {
        /// Its address.
        addr: Box<TExpr>,
        /// Whose memory.
        space: Space,
        /// At most so many bytes.
        max: Option<Box<TExpr>>,
        /// The size of the array it is in, if known.
        len: Option<u32>,
    },
    /// The kernel address of an offset in scratch memory, to show.
    ScratchAddr(Box<TExpr>),
    /// `strlen(s)`
    StrLen(Box<TExpr>),
    /// `strjoin(a, b)`
    StrJoin(Box<TExpr>, Box<TExpr>),
    /// A subroutine. An operand that is an array in memory is taken by value.
    Sub(Sub, Vec<TExpr>),
    /// `strtok(s, delimiters)`; without `s` where it goes on in the last one.
    Strtok(Option<Box<TExpr>>, Box<TExpr>),
    /// `speculation()`
    Speculation,
    /// `copyin(addr, len)`: the offset of the copy in scratch memory.
    CopyIn(Box<TExpr>, Space, Box<TExpr>),
    /// A call that takes or copies memory; its operands in the order in which they are written.
    Memory(MemoryCall, Vec<TExpr>),
    /// `target = value`, `target op= value` (the value given in full then, with the target's old value as [`TKind::Old`]).
    Assign {
        /// A variable, an element, or an object in memory.
        target: Box<TExpr>,
        /// Its new value, of its type; a struct can be given the constant 0. In a compound assignment it has [`TKind::Old`] in it.
        value: Box<TExpr>,
        /// In a compound `+=` or `-=`: what is added, in 64 bits.
        add: Option<Box<TExpr>>,
    },
    /// The target's value before a compound assignment.
    Old,
    /// `++e`, `e++`, `--e`, `e--`: what is added, and whether the value is that after the addition.
    Step {
        /// A variable, an element, or an object in memory.
        target: Box<TExpr>,
        /// What is added.
        by: i64,
        /// Written before the operand.
        pre: bool,
    },
    /// `a, b`
    Comma(Box<TExpr>, Box<TExpr>),
    /// Translated data: a struct, or a pointer to one, by the type. Only the checker sees it: what is left of it are its members.
    Xlated {
        /// Index of the translator.
        translator: u32,
        /// What is translated.
        source: Box<TExpr>,
    },
    /// Evaluates the first, then the second, in which [`TKind::Held`] with this number is the first's value.
    Hold(u32, Box<TExpr>, Box<TExpr>),
    /// A value that a [`TKind::Hold`] around it has.
    Held(u32),
}

/// Calls that take or copy memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryCall {
    /// `alloca(n)`: a pointer to scratch memory.
    Alloca,
    /// `bcopy(from, to, n)`: whose memory it is from, where it is no string.
    Copy(Space),
    /// `copyinto(from, n, to)`: whose memory it is from.
    CopyInto(Space),
    /// `copyout(from, to, n)`: whose memory it is from, where it is no string; whether it is `copyoutstr`.
    CopyOut(Space, bool),
}

/// Where a bit-field is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bits {
    /// Bits from the object's address.
    pub offset: u32,
    /// Width.
    pub size: u32,
    /// Bytes from the object's address that are read and written as one integer: 1, 2, 4 or 8.
    pub unit: u8,
}

/// A typed statement.
#[derive(Clone, Debug, PartialEq)]
pub struct TStmt {
    /// What it is.
    pub kind: TStmtKind,
    /// Its place.
    pub span: Span,
}

/// The kinds of typed statements.
#[derive(Clone, Debug, PartialEq)]
pub enum TStmtKind {
    /// An expression, for its side effects.
    Expr(TExpr),
    /// `@a[key] = f(args)`
    Aggregate {
        /// The aggregation.
        agg: AggId,
        /// The key.
        key: Vec<TExpr>,
        /// Value and weight.
        args: Vec<TExpr>,
    },
    /// An action.
    Action(TAction),
    /// A branch.
    If(TExpr, Vec<TStmt>, Vec<TStmt>),
}

/// The actions.
#[derive(Clone, Debug, PartialEq)]
pub enum TAction {
    /// `trace(e)`
    Trace(TExpr),
    /// `printf(format, args)`
    Printf(Format, Vec<TExpr>),
    /// `printa([format,] aggs)`
    Printa(Option<Format>, Vec<AggId>),
    /// `print(e)`
    Print {
        /// The value, or the address of the object that is printed.
        value: TExpr,
        /// The object that `value` is the address of: whose memory it is in, and its size.
        object: Option<(Space, u32)>,
        /// The type of what is printed.
        ty: TypeId,
    },
    /// `tracemem(addr, n[, size])`
    Tracemem {
        /// The address.
        addr: TExpr,
        /// Whose memory.
        space: Space,
        /// Bytes in the record.
        len: u32,
        /// How many of them are shown: all where it is not given, negative or more than `len`.
        fewer: Option<TExpr>,
    },
    /// `exit(status)`
    Exit(TExpr),
    /// `clear(@a)`
    Clear(AggId),
    /// `trunc(@a[, n])`
    Trunc(AggId, Option<TExpr>),
    /// `normalize(@a, n)`
    Normalize(AggId, TExpr),
    /// `denormalize(@a)`
    Denormalize(AggId),
    /// `system(format, …)`
    System(Format, Vec<TExpr>),
    /// `freopen(format, …)`; an empty format returns to the first output.
    Freopen(Format, Vec<TExpr>),
    /// `ftruncate()`
    Ftruncate,
    /// `setopt(name[, value])`
    Setopt(TExpr, Option<TExpr>),
    /// `pcap(skb, protocol)`, with the offsets of three members of `struct sk_buff`.
    Pcap {
        /// The packet's buffer.
        skb: TExpr,
        /// What its data begin with, a `PCAP_*` constant.
        proto: TExpr,
        /// `len`
        len: u32,
        /// `data_len`
        data_len: u32,
        /// `data`
        data: u32,
    },
    /// Done in the kernel: `raise`, `stop`, `return`.
    Kernel(KernelAct, Vec<TExpr>),
    /// `speculate(id)`: what follows in its block is recorded speculatively, or not run where that is not active.
    Speculate(TExpr),
    /// `commit(id)`
    Commit(TExpr),
    /// `discard(id)`
    Discard(TExpr),
    /// The default action.
    Default,
}

/// A variable of the program.
#[derive(Clone, Debug, PartialEq)]
pub struct VarInfo {
    /// Its name, without `self->` or `this->`.
    pub name: String,
    /// Where it lives.
    pub scope: probity_ir::Scope,
    /// Its type.
    pub ty: TypeId,
    /// Whether it is changed by addition somewhere, so that its cell may hold more than its type does.
    pub added: bool,
    /// Where it was first declared or assigned.
    pub span: Span,
}

/// An associative array of the program.
#[derive(Clone, Debug, PartialEq)]
pub struct ArrayInfo {
    /// Its name.
    pub name: String,
    /// Where it lives.
    pub scope: probity_ir::Scope,
    /// The types of the key's members.
    pub key: Vec<TypeId>,
    /// The element's type.
    pub ty: TypeId,
    /// As for variables.
    pub added: bool,
    /// Whether it was declared, so that keys are converted to its types.
    pub declared: bool,
    /// Where it was first declared or assigned.
    pub span: Span,
}

/// An aggregation of the program.
#[derive(Clone, Debug, PartialEq)]
pub struct AggInfo {
    /// Its name without the `@`.
    pub name: String,
    /// Its function; `None` until an assignment is seen.
    pub func: Option<AggFunc>,
    /// The function's name, for messages.
    pub func_name: &'static str,
    /// The types of the key's members; `None` until an assignment is seen.
    pub key: Option<Vec<TypeId>>,
    /// Whether it is cleared or truncated anywhere.
    pub reset: bool,
    /// Whether a statement that aggregates in it is wrong, which has been said.
    pub wrong: bool,
    /// Where it was first used.
    pub span: Span,
}

impl TExpr {
    /// An integer constant of a type.
    pub fn int(value: i64, ty: TypeId, span: Span) -> TExpr {
        TExpr { kind: TKind::Int(value), ty, span }
    }

    /// The direct operands.
    pub fn operands(&self) -> Vec<&TExpr> {
        match &self.kind {
            TKind::Int(_) | TKind::Str(_) | TKind::RawArg(_) | TKind::Arg(_) | TKind::Errno | TKind::Caller => vec![],
            TKind::Ucaller | TKind::Ppid(..) | TKind::Builtin(_) | TKind::Comm | TKind::ProbePart(_) => vec![],
            TKind::Elem(_, key) | TKind::Sub(_, key) | TKind::Memory(_, key) => key.iter().collect(),
            TKind::AddrOf(a) | TKind::Bounded(a, _) => vec![a],
            TKind::CharAt(a, b) => vec![a, b],
            TKind::Strtok(s, d) => s.as_deref().into_iter().chain([&**d]).collect(),
            TKind::Var(_) | TKind::Old | TKind::Held(_) | TKind::Speculation => vec![],
            TKind::Xlated { source, .. } => vec![source],
            TKind::Hold(_, a, b) => vec![a, b],
            TKind::FloatConvert(a) | TKind::ScratchAddr(a) | TKind::Shown(a) => vec![a],
            TKind::Stack { .. } | TKind::Place(_) => vec![],
            TKind::Part { of, .. } | TKind::Symbol(_, of) => vec![of],
            TKind::Un(_, a) | TKind::Convert(a) | TKind::Truth(a) | TKind::StrLen(a) | TKind::Object(a, ..) => vec![a],
            TKind::Bin(_, a, b) | TKind::And(a, b) | TKind::Or(a, b) | TKind::StrCmp(_, a, b) => vec![a, b],
            TKind::FloatCmp(_, a, b) => vec![a, b],
            TKind::StrJoin(a, b) | TKind::CopyIn(a, _, b) | TKind::Comma(a, b) => vec![a, b],
            TKind::Cond(c, a, b) => vec![c, a, b],
            TKind::ReadStr { addr, max, .. } => std::iter::once(&**addr).chain(max.as_deref()).collect(),
            TKind::Assign { target, value, add } => [&**target, &**value].into_iter().chain(add.as_deref()).collect(),
            TKind::Step { target, .. } => vec![target],
        }
    }

    /// Whether `test` holds for it or any expression in it.
    pub fn any(&self, test: &mut dyn FnMut(&TExpr) -> bool) -> bool {
        test(self) || self.operands().into_iter().any(|e| e.any(test))
    }

    /// Whether evaluating it changes anything, or takes statements of its own.
    pub fn has_effect(&self) -> bool {
        self.any(&mut |e| {
            let random = matches!(e.kind, TKind::Sub(Sub::Random, _));
            random
                || matches!(
                    e.kind,
                    TKind::Assign { .. }
                        | TKind::Step { .. }
                        | TKind::CopyIn(..)
                        | TKind::Memory(..)
                        | TKind::Strtok(..)
                )
                || matches!(e.kind, TKind::Hold(..) | TKind::Speculation)
                || matches!(e.kind, TKind::FloatConvert(_) | TKind::FloatCmp(..) | TKind::ScratchAddr(_))
        })
    }
}
