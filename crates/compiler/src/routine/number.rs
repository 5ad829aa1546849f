//! Numbers to text and text to numbers.

use super::code::{A, Code, FREE, OPERAND, RESULT, Status};
use probity_bpf::insn::{AluOp, Cond, Insn, R0, R1, R2, R3, R4, Size};

/// Refuses a base that is none: the word is checked.
fn check_base(c: &mut Code<'_>, word: i16) {
    let (bad, good) = (c.label(), c.label());
    c.get(R1, word);
    c.when(Cond::Slt, R1, 2, bad);
    c.when(Cond::Sle, R1, 36, good);
    c.bind(bad);
    c.end(Status::Illegal);
    c.bind(good);
}

/// The digit in r2 as a character, in r2.
fn digit(c: &mut Code<'_>) {
    let small = c.label();
    c.add(R2, i32::from(b'0'));
    c.when(Cond::Le, R2, i32::from(b'9'), small);
    c.add(R2, i32::from(b'a' - b'9') - 1);
    c.bind(small);
}

const AT: i16 = FREE;
const LEFT: i16 = FREE + 1;
/// Where the last digit goes in the first buffer; the text's end is behind it.
const LAST: i32 = 100;

/// `lltostr`: the number and the base as words. It is written from its end on.
pub(super) fn digits(c: &mut Code<'_>) {
    let [positive, octal, hex, give] = std::array::from_fn(|_| c.label());
    check_base(c, OPERAND + 1);
    c.set_imm(AT, LAST);
    c.mov(R2, LAST + 1);
    c.terminate(A, R2);
    c.get(R2, OPERAND);
    c.when(Cond::Ne, R1, 10, positive);
    c.when(Cond::Sge, R2, 0, positive);
    c.asm.emit(Insn::neg(probity_bpf::insn::Width::W64, R2));
    c.bind(positive);
    c.set(LEFT, R2);
    c.repeat(64, digits_step);
    c.get(R1, OPERAND + 1);
    c.get(R3, AT);
    c.when(Cond::Eq, R1, 8, octal);
    c.when(Cond::Eq, R1, 16, hex);
    c.when(Cond::Ne, R1, 10, give);
    c.get(R1, OPERAND);
    c.when(Cond::Sge, R1, 0, give);
    prepend(c, b'-');
    c.goto(give);
    c.bind(hex);
    prepend(c, b'x');
    c.bind(octal);
    prepend(c, b'0');
    c.bind(give);
    c.add(R3, 1);
    c.mov(R1, R3);
    c.give(A, R1);
}

/// Puts a byte before the text that starts behind r3.
fn prepend(c: &mut Code<'_>, byte: u8) {
    c.at(R4, A, R3);
    c.asm.emit(Insn::st(Size::B, R4, 0, i32::from(byte)));
    c.add(R3, -1);
}

fn digits_step(c: &mut Code<'_>) {
    let end = c.label();
    c.get(R1, LEFT);
    c.get(R3, OPERAND + 1);
    c.mov(R2, R1);
    c.op(AluOp::Mod, R2, R3);
    c.op(AluOp::Div, R1, R3);
    c.set(LEFT, R1);
    digit(c);
    c.get(R3, AT);
    c.at(R4, A, R3);
    c.asm.emit(Insn::stx(Size::B, R4, 0, R2));
    c.add(R3, -1);
    c.set(AT, R3);
    c.when(Cond::Eq, R1, 0, end);
    c.next();
    c.bind(end);
    c.stop();
}

/// What is being read: white space and sign, a prefix, digits.
const MODE: i16 = FREE + 1;
/// 1 if negative; the number; whether it is too large.
const NEGATIVE: i16 = FREE + 2;
const VALUE: i16 = FREE + 3;
const OVER: i16 = FREE + 4;

/// `strtoll`: the base as a word.
pub(super) fn parse(c: &mut Code<'_>) {
    let [fits, positive, limit] = std::array::from_fn(|_| c.label());
    check_base(c, OPERAND);
    for word in [AT, MODE, NEGATIVE, VALUE, OVER] {
        c.set_imm(word, 0);
    }
    let size = i64::from(c.routine.size);
    c.repeat(size + 2, parse_step);
    c.get(R1, VALUE);
    c.get(R2, NEGATIVE);
    c.get(R3, OVER);
    c.when(Cond::Eq, R3, 0, fits);
    c.imm64(R1, i64::MAX);
    c.when(Cond::Eq, R2, 0, limit);
    c.imm64(R1, i64::MIN);
    c.goto(limit);
    c.bind(fits);
    c.when(Cond::Eq, R2, 0, positive);
    c.asm.emit(Insn::neg(probity_bpf::insn::Width::W64, R1));
    c.bind(positive);
    c.bind(limit);
    c.set(RESULT, R1);
    c.end(Status::Done);
}

fn parse_step(c: &mut Code<'_>) {
    let [space, minus, plus, unsigned, prefix, number, no_prefix, letter, valid, over, end] =
        std::array::from_fn(|_| c.label());
    c.get(R1, AT);
    c.byte(R2, A, R1);
    c.get(R3, MODE);
    c.when(Cond::Eq, R3, 1, prefix);
    c.when(Cond::Eq, R3, 2, number);

    c.when(Cond::Eq, R2, i32::from(b' '), space);
    c.when(Cond::Eq, R2, i32::from(b'-'), minus);
    c.when(Cond::Eq, R2, i32::from(b'+'), plus);
    c.mov(R3, R2);
    c.add(R3, -i32::from(b'\t'));
    c.when(Cond::Gt, R3, i32::from(b'\r' - b'\t'), unsigned);
    c.bind(space);
    c.add(R1, 1);
    c.set(AT, R1);
    c.next();
    c.bind(minus);
    c.set_imm(NEGATIVE, 1);
    c.bind(plus);
    c.add(R1, 1);
    c.set(AT, R1);
    c.bind(unsigned);
    c.set_imm(MODE, 1);
    c.next();

    c.bind(prefix);
    c.set_imm(MODE, 2);
    c.get(R3, OPERAND);
    c.when(Cond::Ne, R3, 16, no_prefix);
    c.when(Cond::Ne, R2, i32::from(b'0'), no_prefix);
    c.mov(R3, R1);
    c.add(R3, 1);
    c.byte(R3, A, R3);
    c.op(AluOp::Or, R3, 0x20);
    c.when(Cond::Ne, R3, i32::from(b'x'), no_prefix);
    c.add(R1, 2);
    c.set(AT, R1);
    c.bind(no_prefix);
    c.next();

    c.bind(number);
    c.add(R2, -i32::from(b'0'));
    c.when(Cond::Le, R2, 9, valid);
    c.add(R2, i32::from(b'0'));
    c.op(AluOp::Or, R2, 0x20);
    c.add(R2, -i32::from(b'a'));
    c.when(Cond::Le, R2, 25, letter);
    c.stop();
    c.bind(letter);
    c.add(R2, 10);
    c.bind(valid);
    c.get(R3, OPERAND);
    c.when(Cond::Ge, R2, R3, end);
    c.add(R1, 1);
    c.set(AT, R1);
    // The number may be (limit - digit) / base at most.
    c.imm64(R4, i64::MAX);
    c.get(R0, NEGATIVE);
    c.add(R4, R0);
    c.op(AluOp::Sub, R4, R2);
    c.op(AluOp::Div, R4, R3);
    c.get(R1, VALUE);
    c.when(Cond::Gt, R1, R4, over);
    c.op(AluOp::Mul, R1, R3);
    c.add(R1, R2);
    c.set(VALUE, R1);
    c.next();
    c.bind(over);
    c.set_imm(OVER, 1);
    c.next();
    c.bind(end);
    c.stop();
}

/// Writes the digit in r2 to the result, whose length is `word`.
pub(super) fn put_digit(c: &mut Code<'_>, word: i16) {
    digit(c);
    c.put(word, R2);
}
