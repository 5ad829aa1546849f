//! Network addresses as text. The address's bytes are at the start of the first buffer.

use super::code::{A, Code, FREE, OPERAND};
use super::number::put_digit;
use probity_bpf::insn::{AluOp, Cond, Insn, R1, R2, R3, R6, R7, R9, Size};

/// Bytes of the result; the byte or word that is next, and behind the last one.
const OUT: i16 = FREE;
const AT: i16 = FREE + 1;
const TO: i16 = FREE + 2;
/// The run of zeros that is left out: where it starts (8 if none) and how long it is.
const BEST: i16 = FREE + 3;
const BEST_LEN: i16 = FREE + 4;
/// The run of zeros that is being looked at.
const RUN: i16 = FREE + 5;
const RUN_LEN: i16 = FREE + 6;

/// IPv4
pub(super) fn ip4(c: &mut Code<'_>) {
    c.set_imm(OUT, 0);
    dotted(c, 0);
}

/// Appends the four bytes from `from` on, and ends.
fn dotted(c: &mut Code<'_>, from: i32) {
    c.set_imm(AT, from);
    c.set_imm(TO, from + 4);
    c.repeat(4, dotted_step);
    c.close(OUT);
}

fn dotted_step(c: &mut Code<'_>) {
    let [first, two, one] = std::array::from_fn(|_| c.label());
    c.get(R1, AT);
    c.byte(R6, A, R1);
    c.get(R2, TO);
    c.add(R2, -4);
    c.when(Cond::Eq, R1, R2, first);
    c.put(OUT, i32::from(b'.'));
    c.bind(first);
    c.when(Cond::Lt, R6, 10, one);
    c.when(Cond::Lt, R6, 100, two);
    c.mov(R2, R6);
    c.op(AluOp::Div, R2, 100);
    put_digit(c, OUT);
    c.bind(two);
    c.mov(R2, R6);
    c.op(AluOp::Div, R2, 10);
    c.op(AluOp::Mod, R2, 10);
    put_digit(c, OUT);
    c.bind(one);
    c.op(AluOp::Mod, R6, 10);
    c.mov(R2, R6);
    put_digit(c, OUT);
    c.bump(AT, 1);
    c.next();
}

/// A link address: the number of bytes as a word.
pub(super) fn mac(c: &mut Code<'_>) {
    c.set_imm(OUT, 0);
    c.set_imm(AT, 0);
    c.repeat(32, mac_step);
    c.close(OUT);
}

fn mac_step(c: &mut Code<'_>) {
    let [go, first] = std::array::from_fn(|_| c.label());
    c.get(R1, AT);
    c.get(R2, OPERAND);
    c.when(Cond::Lt, R1, R2, go);
    c.stop();
    c.bind(go);
    c.byte(R6, A, R1);
    c.when(Cond::Eq, R1, 0, first);
    c.put(OUT, i32::from(b':'));
    c.bind(first);
    c.mov(R2, R6);
    c.op(AluOp::Rsh, R2, 4);
    put_digit(c, OUT);
    c.mov(R2, R6);
    c.op(AluOp::And, R2, 15);
    put_digit(c, OUT);
    c.bump(AT, 1);
    c.next();
}

/// Reads the 16-bit word at byte `at`, in the host's order.
fn word(c: &mut Code<'_>, at: i32) {
    c.mov(R1, R9);
    c.add(R1, A);
    c.asm.emit(Insn::ldx(Size::H, R1, R1, at as i16));
    c.asm.emit(Insn::to_be(R1, 16));
}

/// IPv6: whether an address that holds one of IPv4 keeps its prefix, as a word.
pub(super) fn ip6(c: &mut Code<'_>) {
    let [six, mapped, four, bare, some, end] = std::array::from_fn(|_| c.label());
    c.set_imm(OUT, 0);
    for at in [0, 2, 4, 6, 8] {
        word(c, at);
        c.when(Cond::Ne, R1, 0, six);
    }
    word(c, 10);
    c.get(R2, OPERAND);
    c.when(Cond::Eq, R1, 0xffff, mapped);
    c.when(Cond::Ne, R1, 0, six);
    word(c, 12);
    c.when(Cond::Eq, R1, 0, six);
    c.when(Cond::Eq, R2, 0, bare);
    c.put(OUT, i32::from(b':'));
    c.put(OUT, i32::from(b':'));
    c.goto(four);
    c.bind(mapped);
    c.when(Cond::Eq, R2, 0, bare);
    for byte in *b"::ffff:" {
        c.put(OUT, i32::from(byte));
    }
    c.bind(four);
    c.bind(bare);
    dotted(c, 12);

    c.bind(six);
    for (word, value) in [(AT, 0), (BEST, 8), (BEST_LEN, 1), (RUN, 0), (RUN_LEN, 0)] {
        c.set_imm(word, value);
    }
    c.repeat(8, zeros_step);
    c.set_imm(AT, 0);
    c.repeat(8, words_step);
    // A run at the end has no word behind it that would write the second colon.
    c.get(R1, BEST);
    c.when(Cond::Eq, R1, 8, end);
    c.get(R2, BEST_LEN);
    c.add(R1, R2);
    c.when(Cond::Ne, R1, 8, some);
    c.put(OUT, i32::from(b':'));
    c.bind(some);
    c.bind(end);
    c.close(OUT);
}

/// The word `AT` of the address, to r6; r1 is `AT`.
fn load_word(c: &mut Code<'_>) {
    c.get(R1, AT);
    c.mov(R6, R1);
    c.op(AluOp::Lsh, R6, 1);
    c.op(AluOp::And, R6, 14);
    c.add(R6, R9);
    c.add(R6, A);
    c.asm.emit(Insn::ldx(Size::H, R6, R6, 0));
    c.asm.emit(Insn::to_be(R6, 16));
}

fn zeros_step(c: &mut Code<'_>) {
    let [zero, same, shorter] = std::array::from_fn(|_| c.label());
    load_word(c);
    c.bump(AT, 1);
    c.when(Cond::Eq, R6, 0, zero);
    c.set_imm(RUN_LEN, 0);
    c.next();
    c.bind(zero);
    c.get(R2, RUN_LEN);
    c.when(Cond::Ne, R2, 0, same);
    c.set(RUN, R1);
    c.bind(same);
    c.add(R2, 1);
    c.set(RUN_LEN, R2);
    c.get(R3, BEST_LEN);
    c.when(Cond::Le, R2, R3, shorter);
    c.set(BEST_LEN, R2);
    c.get(R1, RUN);
    c.set(BEST, R1);
    c.bind(shorter);
    c.next();
}

fn words_step(c: &mut Code<'_>) {
    let [left_out, not_first, print, skip] = std::array::from_fn(|_| c.label());
    load_word(c);
    c.mov(R7, R1);
    c.get(R2, BEST);
    c.when(Cond::Lt, R7, R2, print);
    c.get(R3, BEST_LEN);
    c.add(R3, R2);
    c.when(Cond::Lt, R7, R3, left_out);
    c.bind(print);
    c.when(Cond::Eq, R7, 0, not_first);
    c.put(OUT, i32::from(b':'));
    c.bind(not_first);
    for shift in [12, 8, 4] {
        let none = c.label();
        c.when(Cond::Lt, R6, 1 << shift, none);
        c.mov(R2, R6);
        c.op(AluOp::Rsh, R2, shift);
        c.op(AluOp::And, R2, 15);
        put_digit(c, OUT);
        c.bind(none);
    }
    c.mov(R2, R6);
    c.op(AluOp::And, R2, 15);
    put_digit(c, OUT);
    c.bump(AT, 1);
    c.next();
    c.bind(left_out);
    c.when(Cond::Ne, R7, R2, skip);
    c.put(OUT, i32::from(b':'));
    c.bind(skip);
    c.bump(AT, 1);
    c.next();
}
