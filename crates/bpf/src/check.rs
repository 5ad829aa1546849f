//! Static checks of a program before the kernel sees it: what the verifier would refuse for reasons that are plainly
//! ours, found in tests and reported with the place.
//!
//! It follows every path with what is known of registers and stack: which hold something, which are pointers into the
//! frame, constants, or maps. It proves neither bounds of map values nor null checks nor termination: that is the
//! verifier's, and emulated by `interp`. Checked are:
//!
//! - every slot decodes, jumps and calls land on instructions of the same subprogram, nothing runs off the end, nothing
//!   is unreachable;
//! - no register is read before it is written; r1–r5 hold nothing after a call, r0 something at exit;
//! - r10 is never written; accesses through it stay within 512 bytes, aligned, and read only what was written;
//! - no atomic operation takes a result from the frame (`CheckErrorKind::FetchFromStack` says why);
//! - maps exist; helpers have their arguments, keys and values in the frame are written before they are passed.

use crate::decode::{DecodeError, Op, decode};
use crate::helpers::{ArgKind, Helper};
use crate::insn::{AluOp, AtomicOp, R0, R10, Reg, Size, Src, Width};
use crate::interp::alu;
use crate::object::{MapKind, Object, ProgSpec, subprog_starts};
use std::fmt;

/// The kernel's limit for a privileged program.
pub const MAX_INSNS: usize = 1_000_000;
/// Bytes of a frame.
pub const STACK_BYTES: i64 = 512;

/// What is wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CheckErrorKind {
    /// The program is empty or longer than the kernel takes.
    Length(usize),
    /// The slot is no instruction.
    Decode(DecodeError),
    /// A jump or call to a place outside the subprogram, or into the middle of an instruction.
    BadTarget(i64),
    /// Control runs past the last instruction of the program or subprogram.
    RunsOff,
    /// Nothing leads here.
    Unreachable,
    /// A register that holds nothing on some path is read.
    Uninit(Reg),
    /// r10 is written.
    FramePointerWrite,
    /// An access outside the frame, at this distance from r10.
    StackBounds(i64),
    /// A misaligned access to the frame.
    StackAlignment(i64),
    /// A read of frame bytes that some path has not written.
    StackUninit(i64),
    /// An atomic operation with a result on the frame. Seen on 6.18: after a 32-bit compare-and-exchange on a
    /// spilled value the verifier prunes a path that differs in that value and removes its live code as dead.
    FetchFromStack(i64),
    /// No such map in the object.
    NoSuchMap(u32),
    /// A place beyond the value of a map, or of a map that has no single value.
    BadMapValue(u32),
    /// An argument of a helper is of a wrong kind; arguments count from 1.
    BadArgument(Helper, u8),
}

/// An error and its place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CheckError {
    /// The slot.
    pub pc: u32,
    /// What is wrong there.
    pub kind: CheckErrorKind,
}

impl fmt::Display for CheckError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "slot {}: ", self.pc)?;
        match self.kind {
            CheckErrorKind::Length(len) => write!(f, "a program of {len} instructions"),
            CheckErrorKind::Decode(error) => write!(f, "{error}"),
            CheckErrorKind::BadTarget(target) => write!(f, "jump to slot {target}"),
            CheckErrorKind::RunsOff => f.write_str("control runs off the end"),
            CheckErrorKind::Unreachable => f.write_str("unreachable"),
            CheckErrorKind::Uninit(reg) => write!(f, "{reg} is read before it is written"),
            CheckErrorKind::FramePointerWrite => f.write_str("r10 is written"),
            CheckErrorKind::StackBounds(off) => write!(f, "access outside the frame at r10{off:+}"),
            CheckErrorKind::StackAlignment(off) => write!(f, "misaligned access to the frame at r10{off:+}"),
            CheckErrorKind::StackUninit(off) => write!(f, "read of unwritten stack at r10{off:+}"),
            CheckErrorKind::FetchFromStack(off) => write!(f, "atomic operation with a result on r10{off:+}"),
            CheckErrorKind::NoSuchMap(map) => write!(f, "no map {map}"),
            CheckErrorKind::BadMapValue(map) => write!(f, "no such place in a value of map {map}"),
            CheckErrorKind::BadArgument(helper, arg) => write!(f, "{helper} cannot take this argument {arg}"),
        }
    }
}

impl std::error::Error for CheckError {}

use CheckErrorKind as K;

/// What is known of a register.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Value {
    /// It may hold nothing.
    Uninit,
    /// r10 plus this.
    Frame(i64),
    /// A constant.
    Const(i64),
    /// A map of the object.
    Map(u32),
    /// The context.
    Ctx,
    /// Something.
    Any,
}

impl Value {
    fn join(self, other: Value) -> Value {
        match (self, other) {
            (a, b) if a == b => a,
            (Value::Uninit, _) | (_, Value::Uninit) => Value::Uninit,
            _ => Value::Any,
        }
    }
}

/// What is known where an instruction starts.
#[derive(Clone, PartialEq, Eq, Debug)]
struct State {
    regs: [Value; 11],
    /// One bit for each frame byte that is written on every path; bit 0 is the lowest address.
    written: [u64; 8],
}

impl State {
    fn entry(ctx: bool, args: usize) -> State {
        let mut regs = [Value::Uninit; 11];
        regs[1..=args].fill(Value::Any);
        if ctx {
            regs[1] = Value::Ctx;
        }
        regs[10] = Value::Frame(0);
        State { regs, written: [0; 8] }
    }

    /// Joins `other` into this; whether it changed.
    fn join(&mut self, other: &State) -> bool {
        let before = self.clone();
        for (mine, theirs) in self.regs.iter_mut().zip(other.regs) {
            *mine = mine.join(theirs);
        }
        for (mine, theirs) in self.written.iter_mut().zip(other.written) {
            *mine &= theirs;
        }
        *self != before
    }

    fn read(&self, reg: Reg) -> Result<Value, K> {
        match self.regs[reg.index()] {
            Value::Uninit => Err(K::Uninit(reg)),
            value => Ok(value),
        }
    }

    fn operand(&self, src: Src) -> Result<Value, K> {
        match src {
            Src::Reg(reg) => self.read(reg),
            Src::Imm(imm) => Ok(Value::Const(i64::from(imm))),
        }
    }

    fn set(&mut self, reg: Reg, value: Value) -> Result<(), K> {
        if reg == R10 {
            return Err(K::FramePointerWrite);
        }
        self.regs[reg.index()] = value;
        Ok(())
    }

    /// The bits of the frame bytes `off..off + len`, when they are inside.
    fn frame_range(off: i64, len: i64) -> Result<std::ops::Range<usize>, K> {
        let start = off.checked_add(STACK_BYTES).filter(|&start| start >= 0);
        match start {
            Some(start) if len >= 0 && len <= STACK_BYTES - start => Ok(start as usize..(start + len) as usize),
            _ => Err(K::StackBounds(off)),
        }
    }

    fn frame_read(&self, off: i64, len: i64) -> Result<(), K> {
        for bit in State::frame_range(off, len)? {
            if self.written[bit / 64] >> (bit % 64) & 1 == 0 {
                return Err(K::StackUninit(bit as i64 - STACK_BYTES));
            }
        }
        Ok(())
    }

    fn frame_write(&mut self, off: i64, len: i64) -> Result<(), K> {
        for bit in State::frame_range(off, len)? {
            self.written[bit / 64] |= 1 << (bit % 64);
        }
        Ok(())
    }
}

/// Where control goes after an instruction.
#[derive(Clone, Copy)]
enum Flow {
    Next,
    Jump(i64),
    Either(i64),
    End,
}

struct Checker<'c> {
    object: &'c Object,
    prog: &'c ProgSpec,
    ops: Vec<Option<Op>>,
    starts: Vec<u32>,
    states: Vec<Option<State>>,
    todo: Vec<usize>,
    errors: Vec<CheckError>,
}

/// Checks one program of an object.
///
/// # Errors
/// Everything that is wrong, in order of slots; at most one error for each.
pub fn check(object: &Object, prog: &ProgSpec) -> Result<(), Vec<CheckError>> {
    let len = prog.insns.len();
    if len == 0 || len > MAX_INSNS {
        return Err(vec![CheckError { pc: 0, kind: K::Length(len) }]);
    }
    let mut checker = Checker {
        object,
        prog,
        ops: vec![None; len],
        starts: subprog_starts(&prog.insns),
        states: vec![None; len],
        todo: Vec::new(),
        errors: Vec::new(),
    };
    checker.decode_all();
    // What does not decode has no meaning that could be followed.
    if checker.errors.is_empty() {
        checker.follow();
    }
    let mut errors = checker.errors;
    errors.sort_by_key(|e| e.pc);
    errors.dedup_by_key(|e| e.pc);
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}

/// Checks every program of an object; errors come with the index of the program.
///
/// # Errors
/// As `check`.
pub fn check_object(object: &Object) -> Result<(), Vec<(usize, CheckError)>> {
    let mut errors = Vec::new();
    for (i, prog) in object.progs.iter().enumerate() {
        if let Err(found) = check(object, prog) {
            errors.extend(found.into_iter().map(|e| (i, e)));
        }
    }
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}

impl Checker<'_> {
    fn error(&mut self, pc: usize, kind: K) {
        self.errors.push(CheckError { pc: pc as u32, kind });
    }

    fn decode_all(&mut self) {
        let mut pc = 0;
        while pc < self.prog.insns.len() {
            match decode(&self.prog.insns, pc) {
                Ok(op) => {
                    self.ops[pc] = Some(op);
                    pc += op.slots();
                }
                Err(error) => {
                    self.error(pc, K::Decode(error));
                    pc += 1;
                }
            }
        }
    }

    fn follow(&mut self) {
        self.enter(0, &State::entry(true, 1));
        while let Some(pc) = self.todo.pop() {
            let (Some(op), Some(mut state)) = (self.ops[pc], self.states[pc].clone()) else { continue };
            match self.transfer(pc, op, &mut state) {
                Ok(flow) => self.go(pc, op, flow, &state),
                Err(kind) => self.error(pc, kind),
            }
        }
        // Behind an error nothing was followed, and everything would seem unreachable.
        if self.errors.is_empty() {
            let reached = self.reached();
            for (pc, reached) in reached.into_iter().enumerate() {
                if self.ops[pc].is_some() && !reached {
                    self.error(pc, K::Unreachable);
                }
            }
        }
    }

    /// What jumps and calls lead to, whatever is known of values.
    fn reached(&self) -> Vec<bool> {
        let mut reached = vec![false; self.ops.len()];
        let mut todo = vec![0];
        while let Some(pc) = todo.pop() {
            let Some(op) = self.ops.get(pc).copied().flatten() else { continue };
            if std::mem::replace(&mut reached[pc], true) {
                continue;
            }
            let after = pc as i64 + 1;
            let (next, target) = match op {
                Op::Exit => (false, None),
                Op::Ja { off } => (false, Some(after + i64::from(off))),
                Op::Jmp { off, .. } => (true, Some(after + i64::from(off))),
                Op::CallSub { off } | Op::LdFunc { off, .. } => (true, Some(after + i64::from(off))),
                _ => (true, None),
            };
            todo.extend(next.then_some(pc + op.slots()));
            todo.extend(target.and_then(|t| usize::try_from(t).ok()));
        }
        reached
    }

    fn enter(&mut self, pc: usize, state: &State) {
        let changed = match &mut self.states[pc] {
            Some(known) => known.join(state),
            unknown => {
                *unknown = Some(state.clone());
                true
            }
        };
        if changed {
            self.todo.push(pc);
        }
    }

    /// The subprogram that a slot belongs to, as an index in `starts`.
    fn subprog(&self, pc: usize) -> usize {
        self.starts.partition_point(|&start| start as usize <= pc)
    }

    fn go(&mut self, pc: usize, op: Op, flow: Flow, state: &State) {
        let next = (pc + op.slots()) as i64;
        let (fall, jump) = match flow {
            Flow::Next => (Some(next), None),
            Flow::Jump(target) => (None, Some(target)),
            Flow::Either(target) => (Some(next), Some(target)),
            Flow::End => (None, None),
        };
        if let Some(next) = fall {
            if (next as usize) < self.ops.len() && self.subprog(next as usize) == self.subprog(pc) {
                self.enter(next as usize, state);
            } else {
                self.error(pc, K::RunsOff);
            }
        }
        if let Some(target) = jump {
            match self.place(target) {
                Some(place) if self.subprog(place) == self.subprog(pc) => self.enter(place, state),
                _ => self.error(pc, K::BadTarget(target)),
            }
        }
    }

    fn place(&self, target: i64) -> Option<usize> {
        let place = usize::try_from(target).ok()?;
        self.ops.get(place)?.is_some().then_some(place)
    }

    fn transfer(&mut self, pc: usize, op: Op, state: &mut State) -> Result<Flow, K> {
        let after = pc as i64 + 1;
        match op {
            Op::Alu { op, width, dst, src } => {
                let b = state.operand(src)?;
                let a = if op == AluOp::Mov { Value::Any } else { state.read(dst)? };
                state.set(dst, alu_value(op, width, a, b))?;
            }
            Op::Neg { dst, .. } | Op::End { dst, .. } => {
                state.read(dst)?;
                state.set(dst, Value::Any)?;
            }
            Op::MovSx { dst, src, .. } => {
                state.read(src)?;
                state.set(dst, Value::Any)?;
            }
            Op::LdImm64 { dst, imm } => state.set(dst, Value::Const(imm as i64))?,
            Op::LdMapFd { dst, map } => {
                self.object.maps.get(map as usize).ok_or(K::NoSuchMap(map))?;
                state.set(dst, Value::Map(map))?;
            }
            Op::LdMapValue { dst, map, off } => {
                let spec = self.object.maps.get(map as usize).ok_or(K::NoSuchMap(map))?;
                if spec.kind != MapKind::Array || spec.max_entries != 1 || off >= spec.value_size {
                    return Err(K::BadMapValue(map));
                }
                state.set(dst, Value::Any)?;
            }
            Op::LdFunc { dst, off } => {
                let target = after + i64::from(off);
                let place = self.place(target).ok_or(K::BadTarget(target))?;
                // How many arguments a callback has depends on the helper; no callback has more than four.
                self.enter(place, &State::entry(false, 4));
                state.set(dst, Value::Any)?;
            }
            Op::LdBtfId { dst, .. } => state.set(dst, Value::Any)?,
            Op::Ldx { size, dst, src, off, .. } => {
                if let Value::Frame(base) = state.read(src)? {
                    let off = base + i64::from(off);
                    aligned(off, size)?;
                    state.frame_read(off, size.bytes() as i64)?;
                }
                state.set(dst, Value::Any)?;
            }
            Op::St { size, dst, off, .. } => store(state, dst, off, size)?,
            Op::Stx { size, dst, off, src } => {
                state.read(src)?;
                store(state, dst, off, size)?;
            }
            Op::Atomic { op, width, dst, off, src } => {
                let size = if width == Width::W32 { Size::W } else { Size::DW };
                state.read(src)?;
                if let Value::Frame(base) = state.read(dst)? {
                    let off = base + i64::from(off);
                    aligned(off, size)?;
                    state.frame_read(off, size.bytes() as i64)?;
                    if !matches!(op, AtomicOp::Add | AtomicOp::Or | AtomicOp::And | AtomicOp::Xor) {
                        return Err(K::FetchFromStack(off));
                    }
                }
                match op {
                    AtomicOp::Add | AtomicOp::Or | AtomicOp::And | AtomicOp::Xor => {}
                    AtomicOp::Cmpxchg => {
                        state.read(R0)?;
                        state.set(R0, Value::Any)?;
                    }
                    _ => state.set(src, Value::Any)?,
                }
            }
            Op::Ja { off } => return Ok(Flow::Jump(after + i64::from(off))),
            Op::Jmp { cond, width, dst, src, off } => {
                let target = after + i64::from(off);
                // As the verifier does: where both are known only one way is followed.
                if let (Value::Const(a), Value::Const(b)) = (state.read(dst)?, state.operand(src)?) {
                    self.place(target).ok_or(K::BadTarget(target))?;
                    let holds = alu::holds(cond, width, a as u64, b as u64);
                    return Ok(if holds { Flow::Jump(target) } else { Flow::Next });
                }
                return Ok(Flow::Either(target));
            }
            Op::Call { helper } => {
                self.check_call(helper, state)?;
                state.regs[..6].fill(Value::Uninit);
                state.regs[0] = Value::Any;
            }
            Op::CallSub { off } => {
                let target = after + i64::from(off);
                let place = self.place(target).ok_or(K::BadTarget(target))?;
                let mut inner = State::entry(false, 0);
                for (theirs, mine) in inner.regs.iter_mut().zip(state.regs).take(6).skip(1) {
                    // A pointer into this frame is none into theirs. What they write through it is not followed, so
                    // afterwards this frame counts as written.
                    *theirs = match mine {
                        Value::Frame(_) => Value::Any,
                        mine => mine,
                    };
                }
                self.enter(place, &inner);
                if state.regs[1..6].iter().any(|v| matches!(v, Value::Frame(_))) {
                    state.written = [u64::MAX; 8];
                }
                state.regs[..6].fill(Value::Uninit);
                state.regs[0] = Value::Any;
            }
            Op::CallKfunc { .. } => {
                state.regs[..6].fill(Value::Uninit);
                state.regs[0] = Value::Any;
            }
            Op::Exit => {
                state.read(R0)?;
                return Ok(Flow::End);
            }
        }
        Ok(Flow::Next)
    }

    fn check_call(&self, id: u32, state: &mut State) -> Result<(), K> {
        // A helper that the table does not know is the kernel's to judge.
        let Some(helper) = Helper::from_id(id) else { return Ok(()) };
        let mut map = None;
        for (i, &kind) in helper.args().iter().enumerate() {
            let value = state.read(Reg(i as u8 + 1))?;
            let bad = K::BadArgument(helper, i as u8 + 1);
            let next = match helper.args().get(i + 1) {
                Some(ArgKind::Size | ArgKind::SizeOrZero | ArgKind::ConstSize) => state.read(Reg(i as u8 + 2))?,
                _ => Value::Const(8),
            };
            match (kind, value) {
                (ArgKind::Map, Value::Map(index)) => map = self.object.maps.get(index as usize),
                // An inner map comes from a look-up.
                (ArgKind::Map, Value::Any) | (ArgKind::Ctx, Value::Ctx | Value::Any) => {}
                (ArgKind::Map | ArgKind::Ctx, _) => return Err(bad),
                (ArgKind::MapKey, Value::Frame(off)) => {
                    if let Some(map) = map {
                        state.frame_read(off, i64::from(map.key_size))?;
                    }
                }
                (ArgKind::MapValue | ArgKind::MapValueOrNull, Value::Frame(off)) => {
                    if let Some(map) = map {
                        let len = i64::from(map.value_size);
                        match helper {
                            Helper::MapPopElem | Helper::MapPeekElem => state.frame_write(off, len)?,
                            _ => state.frame_read(off, len)?,
                        }
                    }
                }
                (ArgKind::MemIn | ArgKind::MemOrNull, Value::Frame(off)) => {
                    if let Value::Const(len) = next {
                        state.frame_read(off, len)?;
                    }
                }
                (ArgKind::MemOut, Value::Frame(off)) => {
                    if let Value::Const(len) = next {
                        state.frame_write(off, len)?;
                    }
                }
                // The callback may write anywhere above or below.
                (ArgKind::StackOrNull, Value::Frame(_)) => state.written = [u64::MAX; 8],
                (ArgKind::LongOut, Value::Frame(off)) => state.frame_write(off, 8)?,
                (ArgKind::Dynptr, Value::Frame(off)) => state.frame_write(off, 16)?,
                (ArgKind::MapKey | ArgKind::MapValue, Value::Const(_)) => return Err(bad),
                (ArgKind::Task | ArgKind::Btf | ArgKind::RingMem, Value::Const(_)) => return Err(bad),
                (ArgKind::ConstSize, value) if !matches!(value, Value::Const(_)) => return Err(bad),
                (ArgKind::Size, Value::Const(0)) => return Err(bad),
                (ArgKind::Size | ArgKind::SizeOrZero, Value::Const(len)) if len < 0 => return Err(bad),
                _ => {}
            }
        }
        Ok(())
    }
}

fn aligned(off: i64, size: Size) -> Result<(), K> {
    if off % size.bytes() as i64 == 0 { Ok(()) } else { Err(K::StackAlignment(off)) }
}

fn store(state: &mut State, dst: Reg, off: i16, size: Size) -> Result<(), K> {
    if let Value::Frame(base) = state.read(dst)? {
        let off = base + i64::from(off);
        State::frame_range(off, size.bytes() as i64)?;
        aligned(off, size)?;
        state.frame_write(off, size.bytes() as i64)?;
    }
    Ok(())
}

fn alu_value(op: AluOp, width: Width, a: Value, b: Value) -> Value {
    match (op, width, a, b) {
        (AluOp::Mov, Width::W64, _, b) => b,
        (AluOp::Mov, Width::W32, _, Value::Const(c)) => Value::Const(i64::from(c as u32)),
        (AluOp::Add, Width::W64, Value::Frame(off), Value::Const(c)) => Value::Frame(off.wrapping_add(c)),
        (AluOp::Sub, Width::W64, Value::Frame(off), Value::Const(c)) => Value::Frame(off.wrapping_sub(c)),
        (_, _, Value::Const(a), Value::Const(b)) => {
            Value::Const(crate::interp::alu::alu(op, width, a as u64, b as u64) as i64)
        }
        _ => Value::Any,
    }
}

#[cfg(test)]
mod tests;
