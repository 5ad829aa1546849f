//! `basename`, `dirname`, `cleanpath`, and white space at either end.

use super::code::{A, Code, FREE};
use probity_bpf::insn::{AluOp, Cond, R1, R2, R3, Size};
use probity_ir::Sub;

const AT: i16 = FREE;
/// Whether the byte before was a slash.
const SLASH: i16 = FREE + 1;
/// Where the last component starts and ends, and where the one before it ends.
const START: i16 = FREE + 2;
const END: i16 = FREE + 3;
const BEFORE: i16 = FREE + 4;

/// `basename`, `dirname`
pub(super) fn split(c: &mut Code<'_>) {
    let (component, root, dot) = (c.label(), c.label(), c.label());
    for (word, value) in [(AT, 0), (SLASH, 1), (START, 0), (END, 0), (BEFORE, 0)] {
        c.set_imm(word, value);
    }
    let size = i64::from(c.routine.size);
    c.repeat(size, split_step);
    c.get(R1, END);
    c.when(Cond::Ne, R1, 0, component);
    c.get(R1, AT);
    c.when(Cond::Eq, R1, 0, dot);
    c.bind(root);
    c.give_const(b'/');
    c.bind(dot);
    c.give_const(b'.');
    c.bind(component);
    if c.routine.sub == Sub::Basename {
        c.terminate(A, R1);
        c.get(R1, START);
    } else {
        let has = c.label();
        c.get(R1, BEFORE);
        c.when(Cond::Ne, R1, 0, has);
        c.get(R1, START);
        c.when(Cond::Eq, R1, 0, dot);
        c.goto(root);
        c.bind(has);
        c.terminate(A, R1);
        c.mov(R1, 0);
    }
    c.give(A, R1);
}

fn split_step(c: &mut Code<'_>) {
    let (end, slash, inside, next) = (c.label(), c.label(), c.label(), c.label());
    c.get(R1, AT);
    c.byte(R2, A, R1);
    c.when(Cond::Eq, R2, 0, end);
    c.when(Cond::Eq, R2, i32::from(b'/'), slash);
    c.get(R3, SLASH);
    c.when(Cond::Eq, R3, 0, inside);
    c.set(START, R1);
    c.get(R3, END);
    c.set(BEFORE, R3);
    c.set_imm(SLASH, 0);
    c.bind(inside);
    c.add(R1, 1);
    c.set(END, R1);
    c.goto(next);
    c.bind(slash);
    c.set_imm(SLASH, 1);
    c.add(R1, 1);
    c.bind(next);
    c.set(AT, R1);
    c.next();
    c.bind(end);
    c.stop();
}

/// `strip`
pub(super) fn strip(c: &mut Code<'_>) {
    for word in [AT, START, END] {
        c.set_imm(word, 0);
    }
    let size = i64::from(c.routine.size);
    c.repeat(size, strip_step);
    c.get(R1, END);
    c.terminate(A, R1);
    c.get(R1, START);
    c.give(A, R1);
}

fn strip_step(c: &mut Code<'_>) {
    let (end, started, next) = (c.label(), c.label(), c.label());
    c.get(R1, AT);
    c.byte(R2, A, R1);
    c.when(Cond::Eq, R2, 0, end);
    c.add(R1, 1);
    c.set(AT, R1);
    // What Rust calls ASCII white space: tab, newline, form feed, carriage return, space.
    for space in [b'\t', b'\n', 0x0c, b'\r', b' '] {
        c.when(Cond::Eq, R2, i32::from(space), next);
    }
    c.get(R3, END);
    c.when(Cond::Ne, R3, 0, started);
    c.mov(R3, R1);
    c.add(R3, -1);
    c.set(START, R3);
    c.bind(started);
    c.set(END, R1);
    c.bind(next);
    c.next();
    c.bind(end);
    c.stop();
}

/// Bytes of the result; how many of them `..` cannot take back; whether the path starts at the root; what is being done.
const OUT: i16 = FREE + 1;
const FIXED: i16 = FREE + 2;
const ROOTED: i16 = FREE + 3;
const MODE: i16 = FREE + 4;
/// At the start of a component, in one, taking one back.
const COMPONENT: i32 = 0;
const COPY: i32 = 1;
const BACK: i32 = 2;

/// `cleanpath`
pub(super) fn clean(c: &mut Code<'_>) {
    let (begin, some) = (c.label(), c.label());
    for word in [AT, OUT, FIXED, ROOTED, MODE] {
        c.set_imm(word, 0);
    }
    c.mov(R1, 0);
    c.byte(R2, A, R1);
    c.when(Cond::Ne, R2, i32::from(b'/'), begin);
    c.set_imm(ROOTED, 1);
    c.put(OUT, i32::from(b'/'));
    c.set_imm(FIXED, 1);
    c.set_imm(AT, 1);
    c.bind(begin);
    // A byte may be looked at three times: at the start of its component, copied, and taken back.
    let size = i64::from(c.routine.size);
    c.repeat(4 * size, clean_step);
    c.get(R1, OUT);
    c.when(Cond::Ne, R1, 0, some);
    c.mov(R1, 0);
    c.byte(R2, A, R1);
    c.when(Cond::Eq, R2, 0, some);
    c.put(OUT, i32::from(b'.'));
    c.bind(some);
    c.close(OUT);
}

fn clean_step(c: &mut Code<'_>) {
    let dot = i32::from(b'.');
    let slash = i32::from(b'/');
    let [end, skip1, component, copy, back, real, up, up_kept, done, sep] = std::array::from_fn(|_| c.label());
    c.get(R3, MODE);
    c.when(Cond::Eq, R3, COPY, copy);
    c.when(Cond::Eq, R3, BACK, back);
    c.get(R1, AT);
    c.byte(R2, A, R1);
    c.when(Cond::Eq, R2, 0, end);
    c.when(Cond::Eq, R2, slash, skip1);
    c.when(Cond::Ne, R2, dot, real);
    c.mov(R3, R1);
    c.add(R3, 1);
    c.byte(R3, A, R3);
    c.when(Cond::Eq, R3, 0, skip1);
    c.when(Cond::Eq, R3, slash, skip1);
    c.when(Cond::Ne, R3, dot, real);
    c.mov(R3, R1);
    c.add(R3, 2);
    c.byte(R3, A, R3);
    c.when(Cond::Eq, R3, 0, up);
    c.when(Cond::Eq, R3, slash, up);
    c.goto(real);

    c.bind(skip1);
    c.bump(AT, 1);
    c.next();

    c.bind(up);
    c.bump(AT, 2);
    c.get(R1, OUT);
    c.get(R2, FIXED);
    c.when(Cond::Sle, R1, R2, up_kept);
    c.bump(OUT, -1);
    c.set_imm(MODE, BACK);
    c.next();
    c.bind(up_kept);
    c.get(R2, ROOTED);
    c.when(Cond::Ne, R2, 0, done);
    let first = c.label();
    c.when(Cond::Eq, R1, 0, first);
    c.put(OUT, slash);
    c.bind(first);
    c.put(OUT, dot);
    c.put(OUT, dot);
    c.get(R1, OUT);
    c.set(FIXED, R1);
    c.bind(done);
    c.next();

    c.bind(real);
    c.set_imm(MODE, COPY);
    c.get(R1, OUT);
    c.get(R2, ROOTED);
    c.when(Cond::Ne, R1, R2, sep);
    c.next();
    c.bind(sep);
    c.put(OUT, slash);
    c.next();

    c.bind(copy);
    c.get(R1, AT);
    c.byte(R2, A, R1);
    c.when(Cond::Eq, R2, 0, component);
    c.when(Cond::Eq, R2, slash, component);
    c.put(OUT, R2);
    c.bump(AT, 1);
    c.next();

    c.bind(back);
    let out = c.routine.out();
    c.get(R1, OUT);
    c.get(R2, FIXED);
    c.when(Cond::Sle, R1, R2, component);
    c.byte(R2, out, R1);
    c.when(Cond::Eq, R2, slash, component);
    c.bump(OUT, -1);
    c.next();

    c.bind(component);
    c.set_imm(MODE, COMPONENT);
    c.next();
    c.bind(end);
    c.stop();
}

/// `toupper`, `tolower`
pub(super) fn case(c: &mut Code<'_>) {
    c.set_imm(AT, 0);
    let size = i64::from(c.routine.size);
    c.repeat(size, case_step);
    c.cut();
}

fn case_step(c: &mut Code<'_>) {
    let (other, end) = (c.label(), c.label());
    let (first, change) = if c.routine.sub == Sub::Upper { (b'a', -32) } else { (b'A', 32) };
    let out = c.routine.out();
    c.get(R1, AT);
    c.byte(R2, A, R1);
    c.mov(R3, R2);
    c.add(R3, -i32::from(first));
    c.when(Cond::Gt, R3, 25, other);
    c.add(R2, change);
    c.bind(other);
    c.at(R3, out, R1);
    c.asm.emit(probity_bpf::insn::Insn::stx(Size::B, R3, 0, R2));
    c.when(Cond::Eq, R2, 0, end);
    c.op(AluOp::Add, R1, 1);
    c.set(AT, R1);
    c.next();
    c.bind(end);
    c.stop();
}
