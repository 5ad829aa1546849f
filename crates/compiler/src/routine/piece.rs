//! Pieces of a string: `substr` and `strtok`.

use super::code::{A, Code, FREE, OPERAND, TABLE};
use probity_bpf::insn::{AluOp, Cond, Insn, R0, R1, R2, R3, R9, Size};
use probity_ir::Sub;

/// `substr`: where it starts and how many bytes, as words.
pub(super) fn substr(c: &mut Code<'_>) {
    let [inside, counted, empty, short] = std::array::from_fn(|_| c.label());
    c.length(A);
    c.get(R1, OPERAND);
    c.get(R2, OPERAND + 1);
    c.when(Cond::Sge, R1, 0, inside);
    // From the end; what is before the start counts, but is not there.
    c.add(R1, R0);
    c.when(Cond::Sge, R1, 0, inside);
    c.when(Cond::Slt, R2, 0, empty);
    c.add(R2, R1);
    c.when(Cond::Sle, R2, 0, empty);
    c.mov(R1, 0);
    c.bind(inside);
    c.when(Cond::Sge, R1, R0, empty);
    // What is left from there.
    c.mov(R3, R0);
    c.op(AluOp::Sub, R3, R1);
    c.when(Cond::Sge, R2, 0, counted);
    c.add(R2, R3);
    c.when(Cond::Slt, R2, 0, empty);
    c.bind(counted);
    c.when(Cond::Sle, R2, R3, short);
    c.mov(R2, R3);
    c.bind(short);
    c.add(R2, R1);
    c.terminate(A, R2);
    c.give(A, R1);
    c.bind(empty);
    c.give_empty();
}

const AT: i16 = FREE;
/// Where the token starts, or -1; where it ends.
const START: i16 = FREE + 1;
const END: i16 = FREE + 2;

/// `strtok`'s token, or what is behind it: the delimiters are in the second buffer.
pub(super) fn token(c: &mut Code<'_>) {
    let found = c.label();
    for word in (0..256).step_by(8) {
        c.asm.emit(Insn::st(Size::DW, R9, TABLE as i16 + word, 0));
    }
    let size = i64::from(c.routine.size);
    c.set_imm(AT, 0);
    c.repeat(size, mark);
    c.set_imm(AT, 0);
    c.set_imm(START, -1);
    c.set_imm(END, 0);
    // The byte that starts the token is looked at twice.
    c.repeat(size + 1, scan);
    c.get(R1, START);
    c.when(Cond::Sge, R1, 0, found);
    if c.routine.sub == Sub::Token {
        c.give_none();
    } else {
        c.give_empty();
    }
    c.bind(found);
    c.get(R2, END);
    if c.routine.sub == Sub::Token {
        c.terminate(A, R2);
        c.give(A, R1);
    } else {
        c.give(A, R2);
    }
}

/// Marks a delimiter in the table; the NUL is one.
fn mark(c: &mut Code<'_>) {
    let b = c.routine.b();
    let end = c.label();
    c.get(R1, AT);
    c.byte(R2, b, R1);
    c.mov(R3, R2);
    c.add(R3, R9);
    c.add(R3, TABLE);
    c.asm.emit(Insn::st(Size::B, R3, 0, 1));
    c.when(Cond::Eq, R2, 0, end);
    c.add(R1, 1);
    c.set(AT, R1);
    c.next();
    c.bind(end);
    c.stop();
}

fn scan(c: &mut Code<'_>) {
    let [inside, skip, start, end, stop] = std::array::from_fn(|_| c.label());
    c.get(R1, AT);
    c.byte(R2, A, R1);
    c.mov(R3, R2);
    c.add(R3, R9);
    c.add(R3, TABLE);
    c.asm.emit(Insn::ldx(Size::B, R3, R3, 0));
    c.get(R0, START);
    c.when(Cond::Sge, R0, 0, inside);
    c.when(Cond::Eq, R2, 0, stop);
    c.when(Cond::Eq, R3, 0, start);
    c.bind(skip);
    c.add(R1, 1);
    c.set(AT, R1);
    c.next();
    c.bind(start);
    c.set(START, R1);
    c.next();
    c.bind(inside);
    c.when(Cond::Ne, R3, 0, end);
    c.goto(skip);
    c.bind(end);
    c.set(END, R1);
    c.bind(stop);
    c.stop();
}
