//! What is found by walking through the kernel's memory: ancestors of a process, the path of a file.
//!
//! Offsets of members are operands. What cannot be read ends the walk.

use super::code::{A, Code, OPERAND, RESULT, Status};
use probity_bpf::helpers::Helper;
use probity_bpf::insn::{AluOp, Cond, Insn, R0, R1, R2, R3, R6, R7, R8, R9, Size};

/// The routines here have more operands than others; their own words begin here.
const OWN: i16 = 20;
/// The object that the walk is at.
const AT: i16 = OWN;

/// Generations that are looked at.
const GENERATIONS: i64 = 4096;

/// `progenyof`: the process's number, and the offsets of `tgid` and `real_parent` in a task.
pub(super) fn progeny(c: &mut Code<'_>) {
    c.set_imm(RESULT, 0);
    c.asm.emit(Insn::call(Helper::GetCurrentTask));
    c.set(AT, R0);
    c.repeat(GENERATIONS, parent);
    c.end(Status::Done);
}

fn parent(c: &mut Code<'_>) {
    let [end, found] = std::array::from_fn(|_| c.label());
    c.get(R6, AT);
    read(c, R6, OPERAND + 1, 4);
    c.when(Cond::Ne, R0, 0, end);
    c.asm.emit(Insn::ldx(Size::W, R1, R9, A as i16));
    c.asm.emit(Insn::ldx(Size::W, R2, R9, 8 * OPERAND));
    c.when(Cond::Eq, R1, R2, found);
    read(c, R6, OPERAND + 2, 8);
    c.when(Cond::Ne, R0, 0, end);
    c.asm.emit(Insn::ldx(Size::DW, R1, R9, A as i16));
    c.when(Cond::Eq, R1, 0, end);
    // The first process is its own parent.
    c.when(Cond::Eq, R1, R6, end);
    c.set(AT, R1);
    c.next();
    c.bind(found);
    c.set_imm(RESULT, 1);
    c.bind(end);
    c.stop();
}

/// Reads the member of the object at `base`, whose offset is a word, to the start of the first buffer; r0 is not 0 where that fails.
fn read(c: &mut Code<'_>, base: probity_bpf::insn::Reg, offset: i16, len: i32) {
    c.get(R3, offset);
    c.add(R3, base);
    c.mov(R2, len);
    c.mov(R1, R9);
    c.add(R1, A);
    c.asm.emit(Insn::call(Helper::ProbeReadKernel));
}

/// Operands of [`path`], in order: addresses of the path and of the process's root, and offsets. The last is where the walk's first
/// directory entry is, from the path's address: its own, or the root of its mount.
const PATH: i16 = OPERAND;
const ROOT: i16 = OPERAND + 1;
const PATH_MNT: i16 = OPERAND + 2;
const PATH_DENTRY: i16 = OPERAND + 3;
const PARENT: i16 = OPERAND + 4;
const NAME: i16 = OPERAND + 5;
const NAME_LEN: i16 = OPERAND + 6;
const MNT_ROOT: i16 = OPERAND + 7;
const MOUNT_MNT: i16 = OPERAND + 8;
const MOUNT_PARENT: i16 = OPERAND + 9;
const MOUNT_POINT: i16 = OPERAND + 10;
const FIRST: i16 = OPERAND + 11;

/// The `vfsmount` of the directory entry `AT`; the same of the process's root; where the text starts; why the walk ended.
const MNT: i16 = OWN + 1;
const ROOT_MNT: i16 = OWN + 2;
const ROOT_DENTRY: i16 = OWN + 3;
const START: i16 = OWN + 4;
const END: i16 = OWN + 5;

/// Not yet, at a root, unreadable, too long.
const WALKING: i32 = 0;
const AT_ROOT: i32 = 1;
const UNREADABLE: i32 = 2;

/// Steps of the walk: names and mounts.
const STEPS: i64 = 1024;
/// `NAME_MAX`
const NAME_MAX: i32 = 255;

/// `d_path`: the path as the current process sees it, written to the second buffer from its end on.
pub(super) fn path(c: &mut Code<'_>) {
    let [bad, done, some] = std::array::from_fn(|_| c.label());
    let (size, b) = (c.routine.size as i32, c.routine.b());
    for (from, mnt, first, dentry) in [(ROOT, ROOT_MNT, PATH_DENTRY, ROOT_DENTRY), (PATH, MNT, FIRST, AT)] {
        for (offset, to) in [(PATH_MNT, mnt), (first, dentry)] {
            c.get(R6, from);
            c.set(RESULT, R6);
            read(c, R6, offset, 8);
            c.when(Cond::Ne, R0, 0, bad);
            c.asm.emit(Insn::ldx(Size::DW, R1, R9, A as i16));
            c.set(to, R1);
        }
    }
    c.set_imm(END, WALKING);
    c.mov(R1, size - 1);
    c.set(START, R1);
    c.terminate(b, R1);
    c.repeat(STEPS, path_step);
    c.get(R1, END);
    c.when(Cond::Eq, R1, AT_ROOT, done);
    c.get(R1, AT);
    c.set(RESULT, R1);
    c.bind(bad);
    c.end(Status::Unreadable);
    c.bind(done);
    // The root itself has no name.
    c.get(R1, START);
    c.when(Cond::Ne, R1, size - 1, some);
    c.give_const(b'/');
    c.bind(some);
    c.give(b, R1);
}

fn path_step(c: &mut Code<'_>) {
    let (size, b) = (c.routine.size as i32, c.routine.b());
    let [root, not_root, mount_root, bad, name, fits] = std::array::from_fn(|_| c.label());
    c.get(R6, AT);
    c.get(R7, MNT);
    c.get(R1, ROOT_DENTRY);
    c.when(Cond::Ne, R6, R1, not_root);
    c.get(R1, ROOT_MNT);
    c.when(Cond::Eq, R7, R1, root);
    c.bind(not_root);
    read(c, R7, MNT_ROOT, 8);
    c.when(Cond::Ne, R0, 0, bad);
    c.asm.emit(Insn::ldx(Size::DW, R1, R9, A as i16));
    c.when(Cond::Eq, R1, R6, mount_root);
    read(c, R6, PARENT, 8);
    c.when(Cond::Ne, R0, 0, bad);
    c.asm.emit(Insn::ldx(Size::DW, R8, R9, A as i16));
    c.when(Cond::Ne, R8, R6, name);
    // An entry that is its own parent and no mount's root is in no directory: a pipe, a socket. Its name, if any, is all there is.
    c.set_imm(END, AT_ROOT);
    c.bind(name);
    c.set(AT, R8);
    read(c, R6, NAME_LEN, 4);
    c.when(Cond::Ne, R0, 0, bad);
    c.asm.emit(Insn::ldx(Size::W, R7, R9, A as i16));
    c.when(Cond::Gt, R7, NAME_MAX, bad);
    read(c, R6, NAME, 8);
    c.when(Cond::Ne, R0, 0, bad);
    // The name's start, one byte left for the slash.
    c.get(R8, START);
    c.op(AluOp::Sub, R8, R7);
    c.when(Cond::Sgt, R8, 0, fits);
    c.goto(bad);
    c.bind(fits);
    c.asm.emit(Insn::ldx(Size::DW, R3, R9, A as i16));
    c.mov(R1, R8);
    c.op(AluOp::And, R1, size - 1);
    c.add(R1, R9);
    c.add(R1, b);
    c.mov(R2, R7);
    c.op(AluOp::And, R2, NAME_MAX);
    c.asm.emit(Insn::call(Helper::ProbeReadKernel));
    c.when(Cond::Ne, R0, 0, bad);
    c.add(R8, -1);
    c.set(START, R8);
    c.at(R1, b, R8);
    c.asm.emit(Insn::st(Size::B, R1, 0, i32::from(b'/')));
    let go_on = c.label();
    c.get(R1, END);
    c.when(Cond::Eq, R1, WALKING, go_on);
    c.stop();
    c.bind(go_on);
    c.next();

    // Up into what the file system is mounted on.
    c.bind(mount_root);
    c.get(R1, MOUNT_MNT);
    c.op(AluOp::Sub, R7, R1);
    read(c, R7, MOUNT_PARENT, 8);
    c.when(Cond::Ne, R0, 0, bad);
    c.asm.emit(Insn::ldx(Size::DW, R8, R9, A as i16));
    c.when(Cond::Eq, R8, R7, root);
    read(c, R7, MOUNT_POINT, 8);
    c.when(Cond::Ne, R0, 0, bad);
    c.asm.emit(Insn::ldx(Size::DW, R1, R9, A as i16));
    c.set(AT, R1);
    c.get(R1, MOUNT_MNT);
    c.add(R8, R1);
    c.set(MNT, R8);
    c.next();
    c.bind(root);
    c.set_imm(END, AT_ROOT);
    c.stop();
    c.bind(bad);
    c.set_imm(END, UNREADABLE);
    c.stop();
}
