//! Finding a byte or a string in a string.

use super::code::{A, Code, FREE, MAX_LOOPS, OPERAND, RESULT, Status};
use probity_bpf::insn::{Cond, R0, R1, R2, R3, R6};
use probity_ir::Sub;

/// The place that is tried, and how many bytes match there.
const AT: i16 = FREE;
const MATCHED: i16 = FREE + 1;
/// Whether all places were tried.
const ENDED: i16 = FREE + 2;

/// `index`, `rindex`, `strstr`: the first operand in the first buffer, the second in the second, the start as a word.
pub(super) fn string(c: &mut Code<'_>) {
    let (ok, found) = (c.label(), c.label());
    c.set_imm(RESULT, -1);
    c.set_imm(MATCHED, 0);
    c.set_imm(ENDED, 0);
    c.length(A);
    c.mov(R6, R0);
    c.get(R1, OPERAND);
    let back = c.routine.sub == Sub::Rindex;
    let (low, high) = (c.label(), c.label());
    c.when(Cond::Slt, R1, 0, low);
    c.when(Cond::Sle, R1, R6, high);
    c.mov(R1, R6);
    c.goto(high);
    c.bind(low);
    if back {
        // Before the start only the empty string is found, at the start.
        let none = c.label();
        let b = c.routine.b();
        c.mov(R1, 0);
        c.byte(R2, b, R1);
        c.when(Cond::Ne, R2, 0, none);
        c.set_imm(RESULT, 0);
        c.bind(none);
        c.end(Status::Done);
    } else {
        c.mov(R1, 0);
    }
    c.bind(high);
    c.set(AT, R1);
    let size = i64::from(c.routine.size);
    // Each place may match nearly to the end.
    let turns = (size * size).min(MAX_LOOPS);
    if back {
        c.repeat(turns, backward);
    } else {
        c.repeat(turns, forward);
    }
    c.get(R1, ENDED);
    c.when(Cond::Ne, R1, 0, ok);
    c.end(Status::Illegal);
    c.bind(ok);
    if c.routine.sub == Sub::Strstr {
        c.get(R1, RESULT);
        c.when(Cond::Sge, R1, 0, found);
        c.give_none();
        c.bind(found);
        c.give(A, R1);
    } else {
        c.end(Status::Done);
    }
}

fn forward(c: &mut Code<'_>) {
    compare(c, 1);
}

fn backward(c: &mut Code<'_>) {
    compare(c, -1);
}

/// One byte more, or the next place.
fn compare(c: &mut Code<'_>, step: i32) {
    let b = c.routine.b();
    let (differ, matched, over) = (c.label(), c.label(), c.label());
    c.get(R1, AT);
    c.get(R2, MATCHED);
    c.byte(R3, b, R2);
    c.when(Cond::Eq, R3, 0, matched);
    c.mov(R6, R1);
    c.add(R6, R2);
    c.byte(R6, A, R6);
    c.when(Cond::Ne, R6, R3, differ);
    c.add(R2, 1);
    c.set(MATCHED, R2);
    c.next();
    c.bind(differ);
    c.set_imm(MATCHED, 0);
    if step > 0 {
        // Where the text has ended, what is left of it is too short everywhere after.
        c.when(Cond::Eq, R6, 0, over);
    } else {
        c.when(Cond::Sle, R1, 0, over);
    }
    c.add(R1, step);
    c.set(AT, R1);
    c.next();
    c.bind(matched);
    c.set(RESULT, R1);
    c.bind(over);
    c.set_imm(ENDED, 1);
    c.stop();
}

/// `strchr`, `strrchr`: the byte as a word.
pub(super) fn byte(c: &mut Code<'_>) {
    let found = c.label();
    c.set_imm(RESULT, -1);
    c.set_imm(AT, 0);
    let size = i64::from(c.routine.size);
    c.repeat(size, look);
    c.get(R1, RESULT);
    c.when(Cond::Sge, R1, 0, found);
    c.give_none();
    c.bind(found);
    c.give(A, R1);
}

fn look(c: &mut Code<'_>) {
    let (other, end) = (c.label(), c.label());
    c.get(R1, AT);
    c.byte(R2, A, R1);
    c.get(R3, OPERAND);
    c.op(probity_bpf::insn::AluOp::And, R3, 0xff);
    c.when(Cond::Ne, R2, R3, other);
    c.set(RESULT, R1);
    if c.routine.sub == Sub::Strchr {
        c.stop();
    }
    c.bind(other);
    c.when(Cond::Eq, R2, 0, end);
    c.add(R1, 1);
    c.set(AT, R1);
    c.next();
    c.bind(end);
    c.stop();
}
