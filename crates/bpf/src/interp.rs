//! An interpreter for tests: runs the programs of an [`Object`] against emulated maps and surroundings.
//!
//! It is stricter than a processor and means to be as strict as the verifier where that shows at run time: every
//! access is checked, reading what was never written is an error, ring records must be given back. It does not prove
//! anything about paths that are not taken; that is for `check` and for the kernel. Results of helpers are the
//! kernel's, errors included. Not emulated: tail calls, timers, dynptrs, queues, formatted printing; calling one is
//! [`FaultKind::Unsupported`].
//!
//! A run may be interrupted at any instruction by other runs ([`Machine::run_hooked`]), as a program in the kernel may
//! be by an interrupt or by preemption.

pub mod alu;
mod env;
mod errno;
mod helpers;
mod maps;
mod memory;
mod rings;

pub use env::{AddressSpace, Env, TraceLine};

use crate::decode::{DecodeError, Op, decode};
use crate::helpers::Helper;
use crate::insn::{AtomicOp, Insn, R0, R10, Reg, Size, Src, Width};
use crate::object::{Object, ProgSpec, ProgType};
use maps::{Body, Map};
use memory::{Kind, Memory, STACK_BYTES, is_ours};
use std::fmt;

/// Frames that the kernel allows.
const MAX_FRAMES: usize = 8;

/// Why a run was ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FaultKind {
    /// No valid instruction.
    Decode(DecodeError),
    /// More instructions than `Env::budget`.
    Budget,
    /// A register was read that holds nothing on this path.
    UninitRegister(Reg),
    /// r10 was written.
    FramePointerWrite,
    /// An access through a null pointer.
    NullPointer {
        /// The address.
        addr: u64,
    },
    /// An access outside of what the pointer may reach.
    BadAddress {
        /// The address.
        addr: u64,
        /// Bytes wanted.
        len: usize,
    },
    /// A write to memory that the program may only read.
    ReadOnly {
        /// The address.
        addr: u64,
    },
    /// An access to the stack, or an atomic one, that is not aligned.
    Misaligned {
        /// The address.
        addr: u64,
        /// Bytes wanted.
        len: usize,
    },
    /// A read of stack bytes that were never written.
    UninitStack {
        /// The address.
        addr: u64,
        /// Bytes wanted.
        len: usize,
    },
    /// An instruction names a map that the object does not have, or a place outside of its value.
    NoSuchMap(u32),
    /// An argument of a helper is not what it takes.
    BadArgument {
        /// The helper.
        helper: Helper,
        /// Which argument, from 1.
        arg: u8,
    },
    /// A helper, a kernel function or a map kind that is not emulated; the number is the helper's id.
    Unsupported(u32),
    /// More than eight frames.
    TooDeep,
    /// The program ended with a ring record neither submitted nor discarded.
    RecordKept,
    /// The program ended, or called a helper, with a lock held, or took a second one, or let go of none.
    LockHeld,
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            FaultKind::Decode(error) => write!(f, "{error}"),
            FaultKind::Budget => f.write_str("too many instructions"),
            FaultKind::UninitRegister(reg) => write!(f, "{reg} is read before it is written"),
            FaultKind::FramePointerWrite => f.write_str("r10 is written"),
            FaultKind::NullPointer { addr } => write!(f, "access through a null pointer ({addr:#x})"),
            FaultKind::BadAddress { addr, len } => write!(f, "{len} bytes at {addr:#x} are out of bounds"),
            FaultKind::ReadOnly { addr } => write!(f, "{addr:#x} is read-only"),
            FaultKind::Misaligned { addr, len } => write!(f, "{len} bytes at {addr:#x} are misaligned"),
            FaultKind::UninitStack { addr, len } => write!(f, "{len} stack bytes at {addr:#x} were never written"),
            FaultKind::NoSuchMap(map) => write!(f, "no map {map}, or not that large"),
            FaultKind::BadArgument { helper, arg } => write!(f, "{helper} cannot take this argument {arg}"),
            FaultKind::Unsupported(id) => match Helper::from_id(id) {
                Some(helper) => write!(f, "{helper} is not emulated here"),
                None => write!(f, "function {id} is not emulated"),
            },
            FaultKind::TooDeep => f.write_str("more than eight frames"),
            FaultKind::RecordKept => f.write_str("a ring record is neither submitted nor discarded"),
            FaultKind::LockHeld => f.write_str("a lock is held, or is not"),
        }
    }
}

/// What ended a run, and where.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fault {
    /// The slot of the instruction.
    pub pc: usize,
    /// What went wrong.
    pub kind: FaultKind,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "slot {}: {}", self.pc, self.kind)
    }
}

impl std::error::Error for Fault {}

/// How a run ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Outcome {
    /// The program's return value.
    pub r0: u64,
    /// Instructions executed.
    pub steps: u64,
}

/// Maps, memory and surroundings, kept from run to run.
#[derive(Clone, Debug)]
pub struct Machine {
    /// The surroundings.
    pub env: Env,
    memory: Memory,
    maps: Vec<Map>,
    object_maps: usize,
    cpus: usize,
    active_runs: usize,
}

/// Called before every instruction of a run with the number of instructions executed.
type Hook<'h> = &'h mut dyn FnMut(&mut Machine, u64);

/// What belongs to one run and not to the machine.
struct Run<'r> {
    insns: &'r [Insn],
    ctx: u64,
    /// Whether 8-byte context loads give typed pointers, as for programs that know the types of their arguments.
    typed_ctx: bool,
    steps: u64,
    frames: usize,
    records: Vec<u64>,
    lock: Option<u64>,
    hook: Option<Hook<'r>>,
}

/// The registers of one frame. A typed register holds a kernel pointer whose loads cannot fault.
struct Frame {
    regs: [u64; 11],
    valid: u16,
    typed: u16,
}

impl Frame {
    fn get(&self, reg: Reg) -> Result<u64, FaultKind> {
        if self.valid >> reg.0 & 1 == 0 {
            return Err(FaultKind::UninitRegister(reg));
        }
        Ok(self.regs[reg.index()])
    }

    fn src(&self, src: Src) -> Result<u64, FaultKind> {
        match src {
            Src::Reg(reg) => self.get(reg),
            Src::Imm(imm) => Ok(i64::from(imm) as u64),
        }
    }

    fn set(&mut self, reg: Reg, value: u64, typed: bool) -> Result<(), FaultKind> {
        if reg == R10 {
            return Err(FaultKind::FramePointerWrite);
        }
        self.regs[reg.index()] = value;
        self.valid |= 1 << reg.0;
        self.typed = self.typed & !(1 << reg.0) | u16::from(typed) << reg.0;
        Ok(())
    }

    fn is_typed(&self, reg: Reg) -> bool {
        self.typed >> reg.0 & 1 != 0
    }

    fn clobber_arguments(&mut self) {
        self.valid &= !0b11_1110;
    }
}

impl Machine {
    /// A machine with the maps of `object`, filled with their first contents, and two CPUs.
    #[must_use]
    pub fn new(object: &Object) -> Machine {
        Machine::with_cpus(object, 2)
    }

    /// As `new`, with `cpus` CPUs.
    #[must_use]
    pub fn with_cpus(object: &Object, cpus: usize) -> Machine {
        let cpus = cpus.max(1);
        let mut memory = Memory::default();
        let mut maps = Vec::new();
        // Inner maps come after all the object's own, so that those keep their indexes.
        for spec in &object.maps {
            maps::create(&mut maps, &mut memory, spec, cpus);
        }
        for (index, spec) in object.maps.iter().enumerate() {
            let Some(inner) = &spec.inner else { continue };
            for n in 0..spec.inner_count {
                let made = maps::create(&mut maps, &mut memory, inner, cpus);
                if let Body::Maps(entries) = &mut maps[index].body {
                    entries.insert(n.to_le_bytes().to_vec(), made);
                }
            }
        }
        let object_maps = object.maps.len();
        Machine { env: Env::default(), memory, maps, object_maps, cpus, active_runs: 0 }
    }

    /// Runs a program on a context, which it may change if its type allows that.
    ///
    /// # Errors
    /// The program did what it must not, or what is not emulated. Maps keep what was done until then.
    pub fn run(&mut self, prog: &ProgSpec, ctx: &mut [u8]) -> Result<Outcome, Fault> {
        self.start(prog, ctx, None)
    }

    /// As `run`; `hook` is called before every instruction with the number of instructions executed, and may run
    /// other programs on this machine and change its surroundings.
    ///
    /// # Errors
    /// As `run`.
    pub fn run_hooked(
        &mut self,
        prog: &ProgSpec,
        ctx: &mut [u8],
        hook: &mut dyn FnMut(&mut Machine, u64),
    ) -> Result<Outcome, Fault> {
        // The shorter lifetime that Run wants is made by this reborrow.
        self.start(prog, ctx, Some(&mut *hook))
    }

    fn start<'r>(&mut self, prog: &'r ProgSpec, ctx: &mut [u8], hook: Option<Hook<'r>>) -> Result<Outcome, Fault> {
        let writable = matches!(prog.prog_type, ProgType::Syscall | ProgType::RawTracepointWritable);
        let ctx_addr = self.memory.block(Kind::Ctx, ctx.to_vec(), writable);
        let mut run = Run {
            insns: &prog.insns,
            ctx: ctx_addr,
            typed_ctx: matches!(prog.prog_type, ProgType::Tracing | ProgType::Lsm),
            steps: 0,
            frames: 0,
            records: Vec::new(),
            lock: None,
            hook,
        };
        self.active_runs += 1;
        let mut regs = [0; 11];
        regs[1] = ctx_addr;
        let result = self.call(&mut run, 0, Frame { regs, valid: 1 << 1, typed: 0 });
        for record in std::mem::take(&mut run.records) {
            self.end_record(record, false);
        }
        ctx.copy_from_slice(&self.memory.release(ctx_addr));
        self.active_runs -= 1;
        if self.active_runs == 0 {
            self.maps.iter_mut().for_each(Map::reclaim);
        }
        let (r0, _) = result?;
        Ok(Outcome { r0, steps: run.steps })
    }

    /// Runs a subprogram in a frame of its own; returns r0 and whether it is a typed pointer.
    fn call(&mut self, run: &mut Run<'_>, pc: usize, mut frame: Frame) -> Result<(u64, bool), Fault> {
        if run.frames == MAX_FRAMES {
            return Err(Fault { pc, kind: FaultKind::TooDeep });
        }
        run.frames += 1;
        let stack = self.memory.junk(Kind::Stack, STACK_BYTES);
        frame.regs[10] = stack + STACK_BYTES as u64;
        frame.valid |= 1 << 10;
        let result = self.steps(run, pc, &mut frame);
        self.memory.release(stack);
        run.frames -= 1;
        result
    }

    fn steps(&mut self, run: &mut Run<'_>, start: usize, frame: &mut Frame) -> Result<(u64, bool), Fault> {
        let mut pc = start;
        loop {
            let here = |kind| Fault { pc, kind };
            if let Some(hook) = run.hook.as_mut() {
                hook(self, run.steps);
            }
            if run.steps >= self.env.budget {
                return Err(here(FaultKind::Budget));
            }
            run.steps += 1;
            let op = decode(run.insns, pc).map_err(|e| here(FaultKind::Decode(e)))?;
            match op {
                Op::Exit => {
                    let r0 = frame.get(R0).map_err(here)?;
                    if run.frames == 1 && !run.records.is_empty() {
                        return Err(here(FaultKind::RecordKept));
                    }
                    if run.frames == 1 && run.lock.is_some() {
                        return Err(here(FaultKind::LockHeld));
                    }
                    return Ok((r0, frame.is_typed(R0)));
                }
                Op::CallSub { off } => {
                    let target = target(pc, off).map_err(here)?;
                    let inner =
                        Frame { regs: frame.regs, valid: frame.valid & 0b11_1110, typed: frame.typed & 0b11_1110 };
                    let (r0, typed) = self.call(run, target, inner)?;
                    frame.clobber_arguments();
                    frame.set(R0, r0, typed).map_err(here)?;
                    pc += 1;
                }
                Op::Call { helper } => {
                    let (r0, typed) = self.call_helper(run, frame, helper, pc)?;
                    frame.clobber_arguments();
                    frame.set(R0, r0, typed).map_err(here)?;
                    pc += 1;
                }
                Op::Ja { off } => pc = target(pc, off).map_err(here)?,
                Op::Jmp { cond, width, dst, src, off } => {
                    let (a, b) = (frame.get(dst).map_err(here)?, frame.src(src).map_err(here)?);
                    let off = if alu::holds(cond, width, a, b) { off } else { 0 };
                    pc = target(pc, i32::from(off)).map_err(here)?;
                }
                _ => {
                    self.step(run, frame, op, pc).map_err(here)?;
                    pc += op.slots();
                }
            }
        }
    }

    /// Everything that does not change the flow of control.
    fn step(&mut self, run: &Run<'_>, frame: &mut Frame, op: Op, pc: usize) -> Result<(), FaultKind> {
        match op {
            Op::Alu { op, width, dst, src } => {
                let b = frame.src(src)?;
                let mov = op == crate::insn::AluOp::Mov;
                let a = if mov { 0 } else { frame.get(dst)? };
                // A typed pointer stays one when it is copied or moved by a constant.
                let typed = width == Width::W64
                    && match src {
                        Src::Reg(src) => mov && frame.is_typed(src),
                        Src::Imm(_) => op == crate::insn::AluOp::Add && frame.is_typed(dst),
                    };
                frame.set(dst, alu::alu(op, width, a, b), typed)
            }
            Op::Neg { width, dst } => {
                let value = frame.get(dst)?;
                frame.set(dst, alu::alu(crate::insn::AluOp::Sub, width, 0, value), false)
            }
            Op::MovSx { width, dst, src, bits } => {
                let value = alu::sign_extend(frame.get(src)?, bits);
                let value = if width == Width::W32 { u64::from(value as u32) } else { value };
                frame.set(dst, value, false)
            }
            Op::End { dst, kind, bits } => {
                let value = frame.get(dst)?;
                frame.set(dst, alu::endian(kind, bits, value), false)
            }
            Op::LdImm64 { dst, imm } => frame.set(dst, imm, false),
            Op::LdMapFd { dst, map } => {
                let handle = self.object_map(map).ok_or(FaultKind::NoSuchMap(map))?.handle;
                frame.set(dst, handle, false)
            }
            Op::LdMapValue { dst, map, off } => {
                let found = self.object_map(map).ok_or(FaultKind::NoSuchMap(map))?;
                // As in the kernel: only arrays with one entry have an address that is known at load.
                let region = match &found.body {
                    Body::Array(regions) if found.spec.max_entries == 1 && regions.len() == 1 => regions[0],
                    _ => return Err(FaultKind::NoSuchMap(map)),
                };
                if off >= found.spec.value_size || found.spec.kind.is_percpu() {
                    return Err(FaultKind::NoSuchMap(map));
                }
                frame.set(dst, self.memory.element_address(region, 0) + u64::from(off), false)
            }
            Op::LdFunc { dst, off } => frame.set(dst, memory::func_address(target(pc, off)?), false),
            Op::Ldx { size, dst, src, off, signed } => {
                let (value, typed) = self.load(run, frame, src, off, size)?;
                let value = if signed { alu::sign_extend(value, 8 * size.bytes() as u8) } else { value };
                frame.set(dst, value, typed)
            }
            Op::St { size, dst, off, imm } => {
                let addr = displace(frame.get(dst)?, off);
                self.memory.store(addr, size.bytes(), i64::from(imm) as u64)
            }
            Op::Stx { size, dst, off, src } => {
                let (addr, value) = (displace(frame.get(dst)?, off), frame.get(src)?);
                self.memory.store(addr, size.bytes(), value)?;
                if size == Size::DW && frame.is_typed(src) {
                    self.memory.set_typed(addr);
                }
                Ok(())
            }
            Op::Atomic { op, width, dst, off, src } => self.atomic(frame, op, width, (dst, off), src),
            Op::LdBtfId { .. } => Err(FaultKind::Unsupported(0)),
            Op::CallKfunc { btf_id } => Err(FaultKind::Unsupported(btf_id)),
            Op::Exit | Op::CallSub { .. } | Op::Call { .. } | Op::Ja { .. } | Op::Jmp { .. } => Ok(()),
        }
    }

    /// A load, and whether its result is a typed pointer.
    fn load(&self, run: &Run<'_>, frame: &Frame, base: Reg, off: i16, size: Size) -> Result<(u64, bool), FaultKind> {
        let addr = displace(frame.get(base)?, off);
        let len = size.bytes();
        if frame.is_typed(base) && !is_ours(addr) {
            // Such loads are made with an exception handler by the JIT: an address that is not there reads as 0.
            let bytes = self.env.kernel.read(addr, len, false).unwrap_or_default();
            let mut word = [0; 8];
            word[..bytes.len()].copy_from_slice(&bytes);
            return Ok((u64::from_le_bytes(word), size == Size::DW));
        }
        let value = self.memory.load(addr, len)?;
        let from_ctx = run.typed_ctx && matches!(self.memory.kind(addr), Some((Kind::Ctx, _)));
        Ok((value, size == Size::DW && (from_ctx || self.memory.is_typed(addr))))
    }

    fn atomic(
        &mut self,
        frame: &mut Frame,
        op: AtomicOp,
        width: Width,
        (base, off): (Reg, i16),
        src: Reg,
    ) -> Result<(), FaultKind> {
        let len = if width == Width::W32 { 4 } else { 8 };
        let addr = displace(frame.get(base)?, off);
        let operand = frame.get(src)?;
        let old = self.memory.load(addr, len)?;
        if !addr.is_multiple_of(len as u64) {
            return Err(FaultKind::Misaligned { addr, len });
        }
        let expected = if op == AtomicOp::Cmpxchg { frame.get(R0)? } else { 0 };
        self.memory.store(addr, len, alu::atomic(op, width, old, operand, expected))?;
        match op {
            AtomicOp::Add | AtomicOp::Or | AtomicOp::And | AtomicOp::Xor => Ok(()),
            AtomicOp::Cmpxchg => frame.set(R0, old, false),
            _ => frame.set(src, old, false),
        }
    }

    fn object_map(&self, index: u32) -> Option<&Map> {
        self.maps[..self.object_maps].get(index as usize)
    }

    fn end_record(&mut self, addr: u64, submit: bool) {
        let Some((Kind::Ring(map, sequence), _)) = self.memory.kind(addr) else { return };
        let bytes = self.memory.release(addr);
        if let Some(Map { body: Body::Ring(ring), .. }) = self.maps.get_mut(map) {
            if submit { ring.submit(sequence, bytes) } else { ring.discard(sequence) }
        }
    }

    /// How many CPUs there are.
    #[must_use]
    pub fn cpus(&self) -> usize {
        self.cpus
    }

    /// A value, as `bpf(2)` gives it: for per-CPU maps each CPU's, padded to 8 bytes, one after another. Task
    /// storage is looked up by the 8 bytes of the task's address. `map` is an index in `Object::maps`, or what
    /// `inner_map` returned.
    #[must_use]
    pub fn map_lookup(&self, map: usize, key: &[u8]) -> Option<Vec<u8>> {
        self.maps.get(map)?.value(&self.memory, key)
    }

    /// Stores a value, as `bpf(2)` does.
    ///
    /// # Errors
    /// The negative errno.
    pub fn map_update(&mut self, map: usize, key: &[u8], value: &[u8], flags: u64) -> Result<(), i64> {
        let map = self.maps.get_mut(map).ok_or(errno::ENOENT)?;
        match map.user_update(&mut self.memory, key, value, flags) {
            0 => Ok(()),
            errno => Err(errno),
        }
    }

    /// Removes a key, as `bpf(2)` does.
    ///
    /// # Errors
    /// The negative errno.
    pub fn map_delete(&mut self, map: usize, key: &[u8]) -> Result<(), i64> {
        let map = self.maps.get_mut(map).ok_or(errno::ENOENT)?;
        match map.delete(key) {
            0 => Ok(()),
            errno => Err(errno),
        }
    }

    /// Every key of a map, ascending.
    #[must_use]
    pub fn map_keys(&self, map: usize) -> Vec<Vec<u8>> {
        self.maps.get(map).map(Map::keys).unwrap_or_default()
    }

    /// Every key with its value, ascending by key.
    #[must_use]
    pub fn map_entries(&self, map: usize) -> Vec<(Vec<u8>, Vec<u8>)> {
        let keys = self.map_keys(map);
        keys.into_iter().filter_map(|key| self.map_lookup(map, &key).map(|value| (key, value))).collect()
    }

    /// The inner map at a key of a map of maps, as an index for the other functions.
    #[must_use]
    pub fn inner_map(&self, map: usize, key: &[u8]) -> Option<usize> {
        match self.maps.get(map)?.find(key) {
            maps::Found::Map(inner) => Some(inner),
            _ => None,
        }
    }

    /// Consumes the committed records of a ring buffer, or the records of all CPUs of a perf event array.
    pub fn take_records(&mut self, map: usize) -> Vec<Vec<u8>> {
        match self.maps.get_mut(map).map(|m| &mut m.body) {
            Some(Body::Ring(ring)) => ring.take(),
            Some(Body::Perf(records)) => std::mem::take(records).into_iter().map(|(_, bytes)| bytes).collect(),
            _ => Vec::new(),
        }
    }
}

fn displace(base: u64, off: i16) -> u64 {
    base.wrapping_add(i64::from(off) as u64)
}

/// Where a jump goes; outside of the program is found out when decoding there.
fn target(pc: usize, off: i32) -> Result<usize, FaultKind> {
    usize::try_from(pc as i64 + 1 + i64::from(off)).map_err(|_| FaultKind::Decode(DecodeError::OutOfRange))
}

#[cfg(test)]
mod tests;
