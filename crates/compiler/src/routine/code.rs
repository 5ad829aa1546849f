//! How routines are written: a subprogram that works on a block of memory, and loops over callbacks.
//!
//! A routine gets the address of its block in r1 and returns a [`Status`] in r0. The block is words of state, a table, and three
//! buffers of `size` bytes each (a power of two). `bpf_loop` (5.17) runs the loops, so the verifier looks at each body once or a few
//! times, whatever the size; all that changes from turn to turn is kept in words of the block, where it is unknown to the verifier
//! from the start, so that one look is enough. Every index into a buffer is masked.
//!
//! r9 is the block in routines and in loop bodies; r0 to r5 are free for use; r6 to r8 last over calls.

use crate::select::NONE;
use probity_bpf::asm::{Asm, Label};
use probity_bpf::helpers::Helper;
use probity_bpf::insn::{AluOp, Cond, Insn, R0, R1, R2, R3, R4, R5, R9, R10, Reg, Size, Src, Width};
use probity_ir::Sub;

/// What a routine says of its result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// It is there.
    Done = 0,
    /// It is none; the string is empty.
    None = 1,
    /// The operation is illegal.
    Illegal = 2,
    /// The kernel's memory at the result's word cannot be read.
    Unreadable = 3,
}

/// A routine to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Routine {
    /// What it computes.
    pub sub: Sub,
    /// Bytes of each buffer, a power of two of at least 128.
    pub size: u32,
}

/// Words of the block that have one meaning in all routines; those from `FREE` on are each routine's own.
pub const RESULT: i16 = 0;
/// Capacity of the result.
pub const CAP: i16 = 1;
/// Integer operands, in order.
pub const OPERAND: i16 = 2;
/// The first word without a meaning.
pub const FREE: i16 = 6;
/// Where the table of 256 bytes is.
pub const TABLE: i32 = 256;
/// Where the first buffer is.
pub const A: i32 = 512;

/// `BPF_MAX_LOOPS`.
pub const MAX_LOOPS: i64 = 8 << 20;

impl Routine {
    /// Where the second buffer is.
    pub fn b(self) -> i32 {
        A + self.size as i32
    }

    /// Where the result's buffer is.
    pub fn out(self) -> i32 {
        A + 2 * self.size as i32
    }

    /// Bytes of a block.
    pub fn block(self) -> u32 {
        self.out() as u32 + self.size
    }
}

/// Writes a routine, or the body of a loop.
pub type Body = fn(&mut Code<'_>);

/// A routine being written.
pub struct Code<'a> {
    /// Its instructions.
    pub asm: &'a mut Asm,
    /// What it is.
    pub routine: Routine,
    bodies: Vec<(Label, Body)>,
}

impl<'a> Code<'a> {
    /// Writes a routine and its loops' bodies.
    pub fn write(asm: &'a mut Asm, routine: Routine, main: Body) {
        let mut code = Code { asm, routine, bodies: Vec::new() };
        code.mov(R9, R1);
        code.asm.emit(Insn::stx(Size::DW, R10, -8, R1));
        main(&mut code);
        while let Some((label, body)) = code.bodies.pop() {
            code.asm.bind(label);
            code.asm.emit(Insn::ldx(Size::DW, R9, R2, 0));
            body(&mut code);
        }
    }

    // Instructions.

    pub fn mov(&mut self, dst: Reg, src: impl Into<Src>) {
        self.asm.emit(Insn::mov64(dst, src));
    }

    pub fn op(&mut self, op: AluOp, dst: Reg, src: impl Into<Src>) {
        self.asm.emit(Insn::alu64(op, dst, src));
    }

    pub fn add(&mut self, dst: Reg, src: impl Into<Src>) {
        self.op(AluOp::Add, dst, src);
    }

    pub fn imm64(&mut self, dst: Reg, value: i64) {
        self.asm.emit(Insn::ld_imm64(dst, value as u64));
    }

    /// A word of the block.
    pub fn get(&mut self, dst: Reg, word: i16) {
        self.asm.emit(Insn::ldx(Size::DW, dst, R9, 8 * word));
    }

    pub fn set(&mut self, word: i16, src: Reg) {
        self.asm.emit(Insn::stx(Size::DW, R9, 8 * word, src));
    }

    pub fn set_imm(&mut self, word: i16, value: i32) {
        self.asm.emit(Insn::st(Size::DW, R9, 8 * word, value));
    }

    /// Adds to a word; r5 is lost.
    pub fn bump(&mut self, word: i16, by: i32) {
        self.get(R5, word);
        self.add(R5, by);
        self.set(word, R5);
    }

    /// The address of byte `index` (masked) of a buffer.
    pub fn at(&mut self, dst: Reg, buffer: i32, index: Reg) {
        if dst != index {
            self.mov(dst, index);
        }
        self.op(AluOp::And, dst, self.routine.size as i32 - 1);
        self.add(dst, R9);
        self.add(dst, buffer);
    }

    /// The byte `index` (masked) of a buffer.
    pub fn byte(&mut self, dst: Reg, buffer: i32, index: Reg) {
        self.at(dst, buffer, index);
        self.asm.emit(Insn::ldx(Size::B, dst, dst, 0));
    }

    /// Appends a byte to the result; `word` is the number of bytes there. r4 and r5 are lost.
    pub fn put(&mut self, word: i16, byte: impl Into<Src>) {
        let out = self.routine.out();
        self.get(R5, word);
        self.at(R4, out, R5);
        match byte.into() {
            Src::Reg(reg) => self.asm.emit(Insn::stx(Size::B, R4, 0, reg)),
            Src::Imm(imm) => self.asm.emit(Insn::st(Size::B, R4, 0, imm)),
        }
        self.add(R5, 1);
        self.set(word, R5);
    }

    /// Writes a byte of a constant place in the result.
    pub fn poke(&mut self, at: i32, byte: u8) {
        let out = self.routine.out();
        self.mov(R5, R9);
        self.add(R5, out + at);
        self.asm.emit(Insn::st(Size::B, R5, 0, i32::from(byte)));
    }

    pub fn label(&mut self) -> Label {
        self.asm.label()
    }

    pub fn bind(&mut self, label: Label) {
        self.asm.bind(label);
    }

    pub fn goto(&mut self, label: Label) {
        self.asm.ja(label);
    }

    pub fn when(&mut self, cond: Cond, a: Reg, b: impl Into<Src>, label: Label) {
        self.asm.jmp(cond, Width::W64, a, b, label);
    }

    // Calls.

    /// Runs `body` up to `turns` times, until it says to stop.
    pub fn repeat(&mut self, turns: i64, body: Body) {
        let label = self.asm.label();
        self.bodies.push((label, body));
        self.mov(R1, turns.min(MAX_LOOPS) as i32);
        self.asm.ld_func(R2, label);
        self.mov(R3, R10);
        self.add(R3, -8);
        self.mov(R4, 0);
        self.asm.emit(Insn::call(Helper::Loop));
    }

    /// Ends a turn: on to the next.
    pub fn next(&mut self) {
        self.mov(R0, 0);
        self.asm.emit(Insn::exit());
    }

    /// Ends a turn, and the loop.
    pub fn stop(&mut self) {
        self.mov(R0, 1);
        self.asm.emit(Insn::exit());
    }

    /// The result is none, and the routine ends.
    pub fn give_none(&mut self) {
        self.first_word(NONE);
        self.end(Status::None);
    }

    /// The result is empty, and the routine ends.
    pub fn give_empty(&mut self) {
        self.first_word(0);
        self.end(Status::Done);
    }

    fn first_word(&mut self, value: i32) {
        let out = self.routine.out();
        self.mov(R5, R9);
        self.add(R5, out);
        self.asm.emit(Insn::st(Size::DW, R5, 0, value));
    }

    /// Ends the routine.
    pub fn end(&mut self, status: Status) {
        self.mov(R0, status as i32);
        self.asm.emit(Insn::exit());
    }

    /// The length of the string in a buffer to r0; the result is overwritten.
    pub fn length(&mut self, buffer: i32) {
        let (out, size) = (self.routine.out(), self.routine.size as i32);
        self.mov(R1, R9);
        self.add(R1, out);
        self.mov(R2, size);
        self.mov(R3, R9);
        self.add(R3, buffer);
        self.asm.emit(Insn::call(Helper::ProbeReadKernelStr));
        self.add(R0, -1);
    }

    /// The string that starts at byte `index` of a buffer becomes the result, and the routine ends.
    pub fn give(&mut self, buffer: i32, index: Reg) {
        let (out, size) = (self.routine.out(), self.routine.size as i32);
        self.at(R3, buffer, index);
        self.get(R2, CAP);
        let fits = self.label();
        self.when(Cond::Le, R2, size, fits);
        self.mov(R2, size);
        self.bind(fits);
        self.mov(R1, R9);
        self.add(R1, out);
        // What is behind a short string must not look like a mark.
        self.asm.emit(Insn::st(Size::DW, R1, 0, 0));
        self.asm.emit(Insn::call(Helper::ProbeReadKernelStr));
        self.end(Status::Done);
    }

    /// A constant of one byte becomes the result, if it has room, and the routine ends.
    pub fn give_const(&mut self, byte: u8) {
        self.poke(0, byte);
        self.poke(1, 0);
        self.cut();
    }

    /// Ends a result that was written byte by byte, `word` of them.
    pub fn close(&mut self, word: i16) {
        self.put(word, 0);
        self.cut();
    }

    /// Ends a result that has its NUL.
    pub fn cut(&mut self) {
        let out = self.routine.out();
        self.get(R1, CAP);
        self.add(R1, -1);
        self.at(R1, out, R1);
        self.asm.emit(Insn::st(Size::B, R1, 0, 0));
        self.end(Status::Done);
    }

    /// Puts a NUL at byte `index` of a buffer; r5 is lost.
    pub fn terminate(&mut self, buffer: i32, index: Reg) {
        self.at(R5, buffer, index);
        self.asm.emit(Insn::st(Size::B, R5, 0, 0));
    }
}
