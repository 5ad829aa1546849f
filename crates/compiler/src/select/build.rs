//! The builder that selection writes through: blocks, SSA construction, common subexpressions, stack pieces.
//!
//! Blocks are started only after all jumps to them have been made (there are no loops), so a variable's value at a block
//! is found at once, and each block's dominator is known when it starts.

use crate::routine::Routine;
use crate::vcode::{B, Base, Block, Code, Edge, Inst, Rhs, Slot, V};
use probity_bpf::helpers::Helper;
use probity_bpf::insn::{AluOp, AtomicOp, Cond, Size, Width};
use probity_ir::{Location, TempId, VarId};
use std::collections::{HashMap, HashSet};

/// A variable that is set more than once on its way through the blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Name {
    /// An integer temporary of a clause, by its position in the unit.
    Temp(u32, TempId),
    /// A `this->` variable.
    Clause(VarId),
    /// Made by [`Build::name`].
    Own(u32),
}

/// What a value is, for finding it again.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Key {
    /// An arithmetic result.
    Alu(AluOp, Width, V, Rhs),
    /// A constant too wide for an immediate.
    Wide(i64),
    /// The address of a map's value.
    MapValue(u32, u32),
    /// A location's value.
    Loc(Location),
    /// A helper without arguments (but the context), called once.
    Call(Helper),
    /// The current thread's storage, maybe null.
    ThreadMaybe,
    /// The current thread's storage, not null.
    ThreadSome,
    /// How many of the kernel stack's first frames are the way into this program.
    Entry,
    /// The firing's `vtimestamp`.
    Vtime,
    /// The walk to the caller's address; whether in user space.
    Caller(bool),
}

/// A value that was computed.
#[derive(Clone, Copy, Debug)]
struct Known {
    v: V,
    at: B,
    calls: u32,
}

/// Whether a value is worth keeping in a register across a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cost {
    /// One or two instructions: compute it again after a call.
    Cheap,
    /// Keep it.
    Dear,
}

#[derive(Clone, Copy, Debug)]
struct Piece {
    size: u32,
    from: u32,
    to: u32,
}

/// A program being built.
#[derive(Debug, Default)]
pub struct Build {
    code: Code,
    cur: Option<B>,
    /// Source line of what is being built.
    pub line: u32,
    preds: Vec<Vec<(B, usize)>>,
    idom: Vec<Option<(B, u32)>>,
    values: HashMap<(B, Name), V>,
    names: u32,
    known: HashMap<Key, Known>,
    /// By map: the place in its value whose address was loaded last.
    near: HashMap<u32, (u32, V)>,
    calls: u32,
    pieces: Vec<Piece>,
    clock: u32,
    pointers: HashSet<V>,
    constants: HashMap<V, i64>,
}

impl Build {
    /// A builder whose current block is the entry.
    pub fn new() -> Build {
        let mut b = Build::default();
        let entry = b.block();
        b.start(entry);
        b
    }

    /// The finished program.
    pub fn finish(mut self) -> Code {
        self.place_pieces();
        self.code
    }

    /// A new virtual register.
    pub fn reg(&mut self) -> V {
        self.code.vregs += 1;
        V(self.code.vregs - 1)
    }

    /// A new block on the usual path.
    pub fn block(&mut self) -> B {
        let cold = self.cur.is_some_and(|b| self.code.blocks[b.index()].cold);
        self.new_block(cold)
    }

    /// A new block that is rarely run.
    pub fn cold(&mut self) -> B {
        self.new_block(true)
    }

    fn new_block(&mut self, cold: bool) -> B {
        self.code.blocks.push(Block { cold, ..Block::default() });
        self.preds.push(Vec::new());
        self.idom.push(None);
        B(self.code.blocks.len() as u32 - 1)
    }

    /// Makes `b` the current block. All jumps to it have been made.
    pub fn start(&mut self, b: B) {
        let mut dom: Option<B> = None;
        for &(p, _) in &self.preds[b.index()] {
            if p != B(0) && self.idom[p.index()].is_none() {
                continue; // Not reachable itself.
            }
            dom = Some(match dom {
                None => p,
                Some(d) => self.common(d, p),
            });
        }
        self.idom[b.index()] = dom.map(|d| (d, self.depth(d) + 1));
        self.cur = Some(b);
    }

    /// Goes on in a block that is not finished.
    pub fn resume(&mut self, b: B) {
        self.cur = Some(b);
    }

    fn depth(&self, b: B) -> u32 {
        self.idom[b.index()].map_or(0, |(_, depth)| depth)
    }

    fn common(&self, mut a: B, mut b: B) -> B {
        while a != b {
            let (x, y) = (self.depth(a), self.depth(b));
            if x >= y {
                a = self.idom[a.index()].map_or(B(0), |(d, _)| d);
            }
            if y >= x {
                b = self.idom[b.index()].map_or(B(0), |(d, _)| d);
            }
        }
        a
    }

    fn dominates(&self, a: B, mut b: B) -> bool {
        let depth = self.depth(a);
        while self.depth(b) > depth {
            b = self.idom[b.index()].map_or(B(0), |(d, _)| d);
        }
        a == b
    }

    /// The current block.
    pub fn here(&self) -> B {
        self.cur.unwrap_or(B(0))
    }

    /// Whether any path leads to the current block.
    pub fn reachable(&self) -> bool {
        self.here() == B(0) || self.idom[self.here().index()].is_some()
    }

    fn push(&mut self, inst: Inst) {
        let at = self.here();
        let line = self.line;
        self.code.blocks[at.index()].insts.push((inst, line));
    }

    // Ends of blocks.

    /// Goes on at `to`.
    pub fn jump(&mut self, to: B) {
        let from = self.here();
        self.preds[to.index()].push((from, 0));
        self.push(Inst::Jump(Edge { to, args: Vec::new() }));
    }

    /// Goes on at `then` if `a cond b`, else at `other`.
    pub fn branch(&mut self, cond: Cond, width: Width, a: V, b: Rhs, then: B, other: B) {
        let a = self.scalar(a);
        let b = match b {
            Rhs::Reg(v) => Rhs::Reg(self.scalar(v)),
            imm => imm,
        };
        self.test(cond, width, a, b, then, other);
    }

    /// As [`Build::branch`], for a pointer that is compared with null.
    pub fn branch_null(&mut self, ptr: V, null: B, some: B) {
        self.test(Cond::Ne, Width::W64, ptr, Rhs::Imm(0), some, null);
    }

    fn test(&mut self, cond: Cond, width: Width, a: V, b: Rhs, then: B, other: B) {
        let from = self.here();
        self.preds[then.index()].push((from, 0));
        self.preds[other.index()].push((from, 1));
        let edge = |to| Edge { to, args: Vec::new() };
        self.push(Inst::Branch { cond, width, a, b, then: edge(then), other: edge(other) });
    }

    /// Ends the program.
    pub fn ret(&mut self) {
        self.push(Inst::Ret);
    }

    // Variables.

    /// A new variable.
    pub fn name(&mut self) -> Name {
        self.names += 1;
        Name::Own(self.names)
    }

    /// Sets a variable.
    pub fn set(&mut self, name: Name, v: V) {
        let at = self.here();
        self.values.insert((at, name), v);
    }

    /// The value of a variable; 0 where it was never set.
    pub fn get(&mut self, name: Name) -> V {
        self.get_at(self.here(), name)
    }

    fn get_at(&mut self, at: B, name: Name) -> V {
        // Most blocks have one predecessor: a loop keeps the recursion as deep as there are joins, not blocks.
        let mut b = at;
        let v = loop {
            if let Some(&v) = self.values.get(&(b, name)) {
                break v;
            }
            match self.preds[b.index()].as_slice() {
                [(p, _)] => b = *p,
                [] => {
                    let dst = self.reg();
                    let first = usize::from(b == B(0) && !self.code.blocks[0].insts.is_empty());
                    self.code.blocks[b.index()].insts.insert(first, (Inst::Imm { dst, val: 0 }, 0));
                    self.values.insert((b, name), dst);
                    break dst;
                }
                _ => {
                    let preds = self.preds[b.index()].clone();
                    let args: Vec<V> = preds.iter().map(|&(p, _)| self.get_at(p, name)).collect();
                    let v = if args.iter().all(|&v| v == args[0]) {
                        args[0]
                    } else {
                        let param = self.reg();
                        if args.iter().any(|v| self.pointers.contains(v)) {
                            self.pointers.insert(param);
                        }
                        self.code.blocks[b.index()].params.push(param);
                        for (&(p, edge), arg) in preds.iter().zip(args) {
                            if let Some((end, _)) = self.code.blocks[p.index()].insts.last_mut() {
                                end.edges_mut()[edge].args.push(arg);
                            }
                        }
                        param
                    };
                    self.values.insert((b, name), v);
                    break v;
                }
            }
        };
        self.values.insert((at, name), v);
        v
    }

    // Common subexpressions.

    /// A value computed before on every path to here.
    pub fn find(&self, key: &Key, cost: Cost) -> Option<V> {
        let known = self.known.get(key)?;
        let fresh = cost == Cost::Dear || known.calls == self.calls;
        (fresh && self.dominates(known.at, self.here())).then_some(known.v)
    }

    /// Remembers a value.
    pub fn keep(&mut self, key: Key, v: V) {
        let known = Known { v, at: self.here(), calls: self.calls };
        self.known.insert(key, known);
    }

    /// Forgets a value.
    pub fn forget(&mut self, key: &Key) {
        self.known.remove(key);
    }

    // Instructions.

    /// The context at the entry.
    pub fn entry(&mut self) -> V {
        let dst = self.reg();
        self.push(Inst::Entry { dst });
        dst
    }

    /// A constant in a register of its own.
    pub fn imm(&mut self, val: i64) -> V {
        let dst = self.reg();
        self.push(Inst::Imm { dst, val });
        self.constants.insert(dst, val);
        dst
    }

    /// A constant as an operand.
    pub fn rhs(&mut self, val: i64) -> Rhs {
        if let Ok(imm) = i32::try_from(val) {
            return Rhs::Imm(imm);
        }
        if let Some(v) = self.find(&Key::Wide(val), Cost::Cheap) {
            return Rhs::Reg(v);
        }
        let v = self.imm(val);
        self.keep(Key::Wide(val), v);
        Rhs::Reg(v)
    }

    /// A map, for a helper's argument.
    pub fn map(&mut self, map: u32) -> V {
        let dst = self.reg();
        self.push(Inst::MapFd { dst, map });
        dst
    }

    /// The address of a byte in a map's only value, in a register of its own.
    pub fn map_value(&mut self, map: u32, off: u32) -> V {
        let dst = self.reg();
        self.push(Inst::MapValue { dst, map, off });
        dst
    }

    /// A place in a map's only value, counted from an address that is in a register already if there is one near.
    pub fn map_place(&mut self, map: u32, off: u32) -> (Base, i32) {
        if let Some(&(from, v)) = self.near.get(&map) {
            let distance = i64::from(off) - i64::from(from);
            if i16::try_from(distance).is_ok() && self.find(&Key::MapValue(map, from), Cost::Cheap) == Some(v) {
                return (Base::Reg(v), distance as i32);
            }
        }
        let v = self.map_value(map, off);
        self.keep(Key::MapValue(map, off), v);
        self.near.insert(map, (off, v));
        (Base::Reg(v), 0)
    }

    /// `a op b`, 64 bits.
    pub fn alu(&mut self, op: AluOp, a: V, b: Rhs) -> V {
        self.alu_w(op, Width::W64, a, b)
    }

    /// `a op b`.
    pub fn alu_w(&mut self, op: AluOp, width: Width, a: V, b: Rhs) -> V {
        let a = self.scalar(a);
        let b = match b {
            Rhs::Reg(v) => Rhs::Reg(self.scalar(v)),
            imm => imm,
        };
        let key = Key::Alu(op, width, a, b);
        if let Some(v) = self.find(&key, Cost::Cheap) {
            return v;
        }
        let dst = self.reg();
        self.push(Inst::Alu { op, width, dst, a, b });
        self.keep(key, dst);
        dst
    }

    /// `ptr + b`, where the sum is a pointer again.
    pub fn add_ptr(&mut self, ptr: V, b: Rhs) -> V {
        if b == Rhs::Imm(0) {
            return ptr;
        }
        let dst = self.reg();
        self.push(Inst::Alu { op: AluOp::Add, width: Width::W64, dst, a: ptr, b });
        if self.pointers.contains(&ptr) {
            self.pointers.insert(dst);
        }
        dst
    }

    /// The number that a register holds, where it was made for it.
    pub fn known(&self, v: V) -> Option<i64> {
        self.constants.get(&v).copied()
    }

    /// A pointer further on, in a register of its own whatever the distance.
    pub fn ptr_copy(&mut self, ptr: V, by: i32) -> V {
        let dst = self.reg();
        self.push(Inst::Alu { op: AluOp::Add, width: Width::W64, dst, a: ptr, b: Rhs::Imm(by) });
        dst
    }

    /// `-a`.
    pub fn neg(&mut self, a: V) -> V {
        let a = self.scalar(a);
        let dst = self.reg();
        self.push(Inst::Neg { dst, a });
        dst
    }

    /// The bytes of `a` in memory order as a number.
    pub fn swapped(&mut self, a: V) -> V {
        self.network_order(a, 64)
    }

    /// The low 16, 32 or 64 bits in network order.
    pub fn network_order(&mut self, a: V, bits: u8) -> V {
        let a = self.scalar(a);
        let dst = self.reg();
        self.push(Inst::ToBe { dst, a, bits });
        dst
    }

    /// The low 32 bits.
    pub fn low32(&mut self, a: V) -> V {
        let a = self.scalar(a);
        let dst = self.reg();
        self.push(Inst::Low32 { dst, a });
        dst
    }

    /// The low `size` bytes, sign-extended.
    pub fn sign_extend(&mut self, a: V, size: u8) -> V {
        let n = Rhs::Imm(64 - 8 * i32::from(size));
        let up = self.alu(AluOp::Lsh, a, n);
        self.alu(AluOp::Arsh, up, n)
    }

    /// The unsigned minimum, provable.
    pub fn min(&mut self, a: V, max: u32) -> V {
        if let Some(&known) = self.constants.get(&a) {
            return self.imm((known as u64).min(max.into()) as i64);
        }
        let a = self.scalar(a);
        let dst = self.reg();
        self.push(Inst::Min { dst, a, max: max.min(i32::MAX as u32) });
        dst
    }

    /// The highest bit's position.
    pub fn log2(&mut self, a: V) -> V {
        let a = self.scalar(a);
        let (dst, tmp) = (self.reg(), self.reg());
        self.push(Inst::Log2 { dst, tmp, a });
        dst
    }

    fn reachable_place(&mut self, base: Base, off: i32) -> (Base, i32) {
        match base {
            Base::Reg(v) if i16::try_from(off).is_err() => (Base::Reg(self.add_ptr(v, Rhs::Imm(off))), 0),
            _ => (base, off),
        }
    }

    /// A load, zero-extended.
    pub fn load(&mut self, size: Size, base: Base, off: i32) -> V {
        let (base, off) = self.reachable_place(base, off);
        let dst = self.reg();
        self.push(Inst::Load { size, dst, base, off });
        dst
    }

    /// A store.
    pub fn store(&mut self, size: Size, base: Base, off: i32, src: Rhs) {
        let (base, off) = self.reachable_place(base, off);
        self.push(Inst::Store { size, base, off, src });
    }

    /// An atomic operation.
    pub fn atomic(&mut self, op: AtomicOp, base: Base, off: i32, src: V) {
        let (base, off) = self.reachable_place(base, off);
        self.push(Inst::Atomic { op, base, off, src });
    }

    /// An atomic operation that gives the old value.
    pub fn fetch(&mut self, op: AtomicOp, base: Base, off: i32, src: V) -> V {
        let (base, off) = self.reachable_place(base, off);
        let dst = self.reg();
        self.push(Inst::Fetch { op, base, off, src, dst });
        dst
    }

    /// Compare and exchange; gives the old value.
    pub fn cmpxchg(&mut self, base: Base, off: i32, expect: V, new: V) -> V {
        let (base, off) = self.reachable_place(base, off);
        let dst = self.reg();
        self.push(Inst::Cmpxchg { base, off, expect, new, dst });
        dst
    }

    /// A call whose result is needed.
    pub fn call(&mut self, helper: Helper, args: &[V]) -> V {
        let dst = self.reg();
        self.push(Inst::Call { helper, args: args.to_vec(), dst: Some(dst) });
        self.calls += 1;
        dst
    }

    /// A call whose result is not needed.
    pub fn call_void(&mut self, helper: Helper, args: &[V]) {
        self.push(Inst::Call { helper, args: args.to_vec(), dst: None });
        self.calls += 1;
    }

    /// A call of a routine; gives its status.
    pub fn call_routine(&mut self, routine: Routine, block: V) -> V {
        let at = self.code.routines.iter().position(|r| *r == routine).unwrap_or_else(|| {
            self.code.routines.push(routine);
            self.code.routines.len() - 1
        });
        let dst = self.reg();
        self.push(Inst::Sub { routine: at as u32, block, dst });
        self.calls += 1;
        dst
    }

    /// Waits so many nanoseconds.
    pub fn wait(&mut self, map: u32, ns: V) {
        let (end, count) = (self.reg(), self.reg());
        self.push(Inst::Wait { map, ns, end, count });
        self.calls += 1;
    }

    /// The address of a place.
    pub fn addr(&mut self, base: Base, off: i32) -> V {
        match base {
            Base::Reg(v) => self.add_ptr(v, Rhs::Imm(off)),
            Base::Frame(slot) => {
                let dst = self.reg();
                self.push(Inst::FrameAddr { dst, slot, off });
                dst
            }
        }
    }

    // Pointers that the verifier knows by type.

    /// Says that the verifier takes this value for a pointer.
    pub fn mark_pointer(&mut self, v: V) {
        self.pointers.insert(v);
    }

    /// Says that the verifier takes this value for a number, wherever it comes from.
    pub fn mark_number(&mut self, v: V) {
        self.pointers.remove(&v);
    }

    /// The value as a number. The verifier refuses arithmetic on its pointers and draws conclusions from comparing them;
    /// what an atomic addition leaves on the stack is a number to it.
    pub fn scalar(&mut self, v: V) -> V {
        if self.pointers.contains(&v) { self.unknown(v) } else { v }
    }

    /// The value, of which the verifier knows nothing from here on.
    pub fn unknown(&mut self, v: V) -> V {
        let slot = self.piece(8);
        self.store(Size::DW, Base::Frame(slot), 0, Rhs::Imm(0));
        self.atomic(AtomicOp::Add, Base::Frame(slot), 0, v);
        let out = self.load(Size::DW, Base::Frame(slot), 0);
        self.free(slot);
        out
    }

    // The stack.

    /// A piece of the stack, aligned to 8.
    pub fn piece(&mut self, size: u32) -> Slot {
        self.clock += 1;
        self.pieces.push(Piece { size: size.next_multiple_of(8).max(8), from: self.clock, to: u32::MAX });
        Slot(self.pieces.len() as u32 - 1)
    }

    /// Gives a piece back: code built from here on does not use it.
    pub fn free(&mut self, slot: Slot) {
        self.clock += 1;
        self.pieces[slot.0 as usize].to = self.clock;
    }

    /// First fit over the times of use. Times follow the order of building, which is an order of the acyclic graph, so
    /// two pieces that never overlap in time never do on any path.
    fn place_pieces(&mut self) {
        let mut placed: Vec<(u32, u32, usize)> = Vec::new();
        let mut size = 0;
        for (i, piece) in self.pieces.iter().enumerate() {
            let mut taken: Vec<(u32, u32)> = placed
                .iter()
                .filter(|&&(_, _, other)| self.pieces[other].to > piece.from && piece.to > self.pieces[other].from)
                .map(|&(from, to, _)| (from, to))
                .collect();
            taken.sort_unstable();
            let mut at = 0;
            for (from, to) in taken {
                if at + piece.size <= from {
                    break;
                }
                at = at.max(to);
            }
            placed.push((at, at + piece.size, i));
            size = size.max(at + piece.size);
        }
        self.code.frame = placed.iter().map(|&(_, to, _)| -(to as i32)).collect();
        self.code.frame_size = size;
    }
}
