//! Where a value is: one small language for probe arguments, and later for variables found by debug information.

use crate::types::Space;

/// The place of a value. Lowered to BPF in one file of the compiler.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Location {
    /// A constant.
    Value(i64),
    /// In the context, at byte `offset`. In programs whose arguments the verifier knows by type, 8 unsigned bytes may be a pointer
    /// to it, on which it refuses arithmetic until it is turned into a number by a detour: say `signed` for what is a number.
    Ctx {
        /// Byte offset in the context.
        offset: u32,
        /// Size in bytes.
        size: u8,
        /// Whether the value is sign-extended to 64 bits.
        signed: bool,
    },
    /// A register of the interrupted or probed code, by its DWARF number (the architecture module maps it into `pt_regs`).
    Reg {
        /// DWARF register number.
        dwarf: u16,
    },
    /// The program counter of the interrupted code if it ran in `space` (`Kernel` or `User`), else 0. In contexts that
    /// start with `pt_regs` ([`Ctx::Regs`](crate::Ctx), [`Ctx::PerfEvent`](crate::Ctx)); on x86-64, kernel addresses are the negative ones.
    Pc {
        /// Whose program counter.
        space: Space,
    },
    /// A word of the current thread's user registers, as they were saved when it entered the kernel: at byte `offset` of its
    /// `struct pt_regs`.
    UserRegister {
        /// Byte offset in `struct pt_regs`.
        offset: u32,
    },
    /// In memory at `base + offset`.
    Memory {
        /// The address to start from.
        base: Box<Location>,
        /// Added to it.
        offset: i64,
        /// Size in bytes.
        size: u8,
        /// Whether the value is sign-extended to 64 bits.
        signed: bool,
        /// Whose memory.
        space: Space,
    },
    /// A member of a kernel object that the verifier knows by type (`tp_btf` arguments, the current task), loaded without
    /// a helper call. Only for objects that are known to be alive. As with [`Location::Ctx`], `signed` for 8 bytes that are a number
    /// saves a detour.
    Btf {
        /// The object's address.
        base: Box<Location>,
        /// Byte offset of the member.
        offset: u32,
        /// Size in bytes.
        size: u8,
        /// Whether the value is sign-extended to 64 bits.
        signed: bool,
    },
    /// The current task, as a pointer that the verifier knows by type.
    CurrentTask,
    /// The low `size` bytes of another location, sign- or zero-extended to 64 bits.
    Narrow {
        /// The wider value.
        of: Box<Location>,
        /// Size in bytes: 1, 2 or 4.
        size: u8,
        /// Whether the value is sign-extended.
        signed: bool,
    },
    /// The address `base + offset` itself, not what is there (arrays and structs held in memory).
    Address {
        /// The address to start from.
        base: Box<Location>,
        /// Added to it.
        offset: i64,
        /// Whose memory it is in.
        space: Space,
    },
    /// Arithmetic on two values: `base + plus * times` (an index register, or a value in parts).
    Sum {
        /// The value to start from.
        base: Box<Location>,
        /// Added to it.
        plus: Box<Location>,
        /// So many times.
        times: i64,
    },
    /// Which of its probe's places the firing is at: the upper 32 bits of the attach cookie. For probes with [`Selector::Cookie`](crate::Selector).
    Site,
    /// The address, in the tracepoint's record, of a dynamic field whose `__data_loc` word is at `offset` of the context.
    DataLoc {
        /// Offset of the 32-bit word: low half offset in the record, high half length.
        offset: u32,
    },
    /// The address of byte `offset` of the context itself (arrays held in a tracepoint's record); read with
    /// `bpf_probe_read_kernel`.
    CtxAddress {
        /// Byte offset in the context.
        offset: u32,
    },
    /// The bits of another value that are set in `mask`. In signatures only: lowering makes operators of it.
    Masked {
        /// The value.
        of: Box<Location>,
        /// The bits that are kept.
        mask: i64,
    },
    /// One value or another. In signatures only, as [`Location::Masked`].
    Case {
        /// Which.
        test: Box<Test>,
        /// The value where it holds.
        then: Box<Location>,
        /// The value where it does not.
        otherwise: Box<Location>,
    },
    /// Not available, and why.
    None(String),
}

/// A condition on values of a firing's context. An unreadable value is a fault of the clause that asks.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Test {
    /// Whether the value, signed, is neither below `low` nor above `high`.
    Within {
        /// The value.
        value: Location,
        /// The least that passes.
        low: i64,
        /// The greatest that passes.
        high: i64,
    },
    /// Whether the one value, signed, is less than the other.
    Less {
        /// The one.
        a: Location,
        /// The other.
        b: Location,
    },
    /// Whether all hold; the later ones are looked at only if the earlier hold.
    All(Vec<Test>),
    /// Whether any holds; the later ones are looked at only if no earlier one holds.
    Any(Vec<Test>),
}
