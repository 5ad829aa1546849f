//! eBPF as data: instructions, assembler, disassembler, objects, static checks, an interpreter for tests.
//!
//! Everything here is plain data and pure functions. The crate makes no system call and knows nothing of D: the
//! compiler builds an [`Object`] with [`Asm`], `kernel` loads it, and tests run it in an [`interp::Machine`].

#![forbid(unsafe_code)]

pub mod asm;
pub mod check;
pub mod decode;
pub mod disasm;
pub mod helpers;
pub mod insn;
pub mod interp;
pub mod object;

pub use asm::{Asm, AsmError, Assembled, Label};
pub use decode::{DecodeError, EndianKind, Op, decode};
pub use helpers::{ArgKind, Helper, RetKind};
pub use insn::{AluOp, AtomicOp, Cond, Insn, Reg, Size, Src, Width};
pub use object::{AttachType, MapKind, MapSpec, Object, ProgSpec, ProgType};
