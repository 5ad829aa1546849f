//! Words that NULs end, as the arguments of a process are kept.

use super::code::{A, Code, FREE, OPERAND};
use probity_bpf::insn::{Cond, Insn, R1, R2, R3, R4, Size};

const AT: i16 = FREE;
/// Behind the last byte that is no NUL.
const END: i16 = FREE + 1;

/// The operand is the number of bytes.
pub(super) fn words(c: &mut Code<'_>) {
    c.set_imm(AT, 0);
    c.set_imm(END, 0);
    let (size, full) = (c.routine.size, c.label());
    c.repeat(i64::from(size), step);
    c.get(R1, END);
    // A result that fills its buffer ends where it is cut.
    c.when(Cond::Ge, R1, size as i32, full);
    let out = c.routine.out();
    c.terminate(out, R1);
    c.bind(full);
    c.cut();
}

fn step(c: &mut Code<'_>) {
    let (end, nul, store) = (c.label(), c.label(), c.label());
    let out = c.routine.out();
    c.get(R1, AT);
    c.get(R3, OPERAND);
    c.when(Cond::Ge, R1, R3, end);
    c.byte(R2, A, R1);
    c.at(R4, out, R1);
    c.add(R1, 1);
    c.set(AT, R1);
    c.when(Cond::Eq, R2, 0, nul);
    c.set(END, R1);
    c.goto(store);
    c.bind(nul);
    c.mov(R2, i32::from(b' '));
    c.bind(store);
    c.asm.emit(Insn::stx(Size::B, R4, 0, R2));
    c.next();
    c.bind(end);
    c.stop();
}
