//! The code between selection and emission: a graph of blocks of BPF-shaped instructions on virtual registers.
//!
//! Every virtual register is set once (SSA); values that meet at a join are parameters of the block. The graph has no
//! cycles: D has no loops, and what would be one inside is unrolled. Owns the data and the clean-up that needs nothing
//! but the data (unreachable blocks, dead instructions, critical edges).

use probity_bpf::helpers::Helper;
use probity_bpf::insn::{AluOp, AtomicOp, Cond, Size, Width};

/// A virtual register.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct V(pub u32);

/// The longest [`Inst::Wait`], ns.
pub const WAIT_MAX: u32 = 500_000_000;

/// Bytes of the map's value that [`Inst::Wait`] copies.
pub const WAIT_ROOM: u32 = 16 << 20;

/// A block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct B(pub u32);

impl B {
    /// The number as an index.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A piece of the BPF stack; its place is decided after selection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Slot(pub u32);

/// A second operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rhs {
    /// A register.
    Reg(V),
    /// An immediate, sign-extended.
    Imm(i32),
}

/// What an address starts from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Base {
    /// A register.
    Reg(V),
    /// The start (lowest address) of a piece of the stack.
    Frame(Slot),
}

/// A way into another block, with the values of its parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edge {
    /// The block.
    pub to: B,
    /// Values of its parameters.
    pub args: Vec<V>,
}

/// An instruction. Most are one BPF instruction; the others say what they become.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Inst {
    /// The context pointer, at the program's entry.
    Entry { dst: V },
    /// A constant.
    Imm { dst: V, val: i64 },
    /// A map.
    MapFd { dst: V, map: u32 },
    /// The address of byte `off` of the only value of a map.
    MapValue { dst: V, map: u32, off: u32 },
    /// The address of a piece of the stack (two instructions).
    FrameAddr { dst: V, slot: Slot, off: i32 },
    /// Arithmetic.
    Alu { op: AluOp, width: Width, dst: V, a: V, b: Rhs },
    /// `-a`.
    Neg { dst: V, a: V },
    /// The low `bits` (16, 32 or 64) of `a`, their bytes reversed on a little-endian machine, so that an unsigned comparison orders them as `memcmp` does.
    ToBe { dst: V, a: V, bits: u8 },
    /// The low 32 bits of `a`, zero-extended.
    Low32 { dst: V, a: V },
    /// The unsigned minimum of `a` and `max`, in a form whose bound the verifier cannot lose: comparison and result are one
    /// piece, so no spill comes between (a scalar's bounds do not travel to its spilled copy before 6.8).
    Min { dst: V, a: V, max: u32 },
    /// The position of the highest bit set of `a`, which is not zero. `tmp` is destroyed.
    Log2 { dst: V, tmp: V, a: V },
    /// A load, zero-extended.
    Load { size: Size, dst: V, base: Base, off: i32 },
    /// A store.
    Store { size: Size, base: Base, off: i32, src: Rhs },
    /// A 64-bit atomic operation without result.
    Atomic { op: AtomicOp, base: Base, off: i32, src: V },
    /// A 64-bit atomic operation that gives the old value.
    Fetch { op: AtomicOp, base: Base, off: i32, src: V, dst: V },
    /// Compare and exchange; gives the old value.
    Cmpxchg { base: Base, off: i32, expect: V, new: V, dst: V },
    /// A helper call.
    Call { helper: Helper, args: Vec<V>, dst: Option<V> },
    /// Waits `ns` nanoseconds, at most [`WAIT_MAX`], by copying about in the value of a map of [`WAIT_ROOM`] bytes: the only thing that takes
    /// a program time and is bounded for the verifier. `end` and `count` are destroyed.
    Wait { map: u32, ns: V, end: V, count: V },
    /// A call of a routine ([`Code::routines`]) with the address of its block; gives its status.
    Sub { routine: u32, block: V, dst: V },
    /// The end of a block: go on there.
    Jump(Edge),
    /// The end of a block: a choice.
    Branch { cond: Cond, width: Width, a: V, b: Rhs, then: Edge, other: Edge },
    /// The end of the program: returns 0 (two instructions).
    Ret,
}

impl Inst {
    /// The registers that are set.
    pub fn defs(&self) -> impl Iterator<Item = V> {
        let (a, b) = match *self {
            Inst::Entry { dst }
            | Inst::Imm { dst, .. }
            | Inst::MapFd { dst, .. }
            | Inst::MapValue { dst, .. }
            | Inst::FrameAddr { dst, .. }
            | Inst::Alu { dst, .. }
            | Inst::Neg { dst, .. }
            | Inst::ToBe { dst, .. }
            | Inst::Low32 { dst, .. }
            | Inst::Min { dst, .. }
            | Inst::Load { dst, .. }
            | Inst::Fetch { dst, .. }
            | Inst::Cmpxchg { dst, .. }
            | Inst::Sub { dst, .. } => (Some(dst), None),
            Inst::Log2 { dst, tmp, .. } => (Some(dst), Some(tmp)),
            Inst::Wait { end, count, .. } => (Some(end), Some(count)),
            Inst::Call { dst, .. } => (dst, None),
            _ => (None, None),
        };
        a.into_iter().chain(b)
    }

    /// Calls `f` with every register that is read; edges' arguments are not included.
    pub fn uses(&self, mut f: impl FnMut(V)) {
        let base = |base: &Base, f: &mut dyn FnMut(V)| {
            if let Base::Reg(v) = base {
                f(*v)
            }
        };
        let rhs = |rhs: &Rhs, f: &mut dyn FnMut(V)| {
            if let Rhs::Reg(v) = rhs {
                f(*v)
            }
        };
        match self {
            Inst::Neg { a, .. }
            | Inst::ToBe { a, .. }
            | Inst::Low32 { a, .. }
            | Inst::Min { a, .. }
            | Inst::Log2 { a, .. } => f(*a),
            Inst::Alu { a, b, .. } | Inst::Branch { a, b, .. } => {
                f(*a);
                rhs(b, &mut f);
            }
            Inst::Load { base: b, .. } => base(b, &mut f),
            Inst::Store { base: b, src, .. } => {
                base(b, &mut f);
                rhs(src, &mut f);
            }
            Inst::Atomic { base: b, src, .. } | Inst::Fetch { base: b, src, .. } => {
                base(b, &mut f);
                f(*src);
            }
            Inst::Cmpxchg { base: b, expect, new, .. } => {
                base(b, &mut f);
                f(*expect);
                f(*new);
            }
            Inst::Sub { block, .. } => f(*block),
            Inst::Wait { ns, .. } => f(*ns),
            Inst::Call { args, .. } => args.iter().for_each(|&v| f(v)),
            _ => {}
        }
    }

    /// The ways out of a block that ends in this.
    pub fn edges(&self) -> Vec<&Edge> {
        match self {
            Inst::Jump(edge) => vec![edge],
            Inst::Branch { then, other, .. } => vec![then, other],
            _ => Vec::new(),
        }
    }

    /// As [`Inst::edges`], to be changed.
    pub fn edges_mut(&mut self) -> Vec<&mut Edge> {
        match self {
            Inst::Jump(edge) => vec![edge],
            Inst::Branch { then, other, .. } => vec![then, other],
            _ => Vec::new(),
        }
    }

    /// Whether it ends a block.
    pub fn is_end(&self) -> bool {
        matches!(self, Inst::Jump(_) | Inst::Branch { .. } | Inst::Ret)
    }

    /// Whether nothing but its result would be missed.
    fn is_pure(&self) -> bool {
        match self {
            Inst::Store { .. } | Inst::Atomic { .. } | Inst::Fetch { .. } | Inst::Cmpxchg { .. } | Inst::Sub { .. } => {
                false
            }
            Inst::Wait { .. } => false,
            Inst::Call { helper, .. } => matches!(
                helper,
                Helper::KtimeGetNs
                    | Helper::GetCurrentPidTgid
                    | Helper::GetCurrentUidGid
                    | Helper::GetSmpProcessorId
                    | Helper::GetCurrentTask
                    | Helper::GetCurrentTaskBtf
                    | Helper::GetAttachCookie
                    | Helper::MapLookupElem
            ),
            Inst::Entry { .. } => false,
            inst => !inst.is_end(),
        }
    }
}

/// A block.
#[derive(Clone, Debug, Default)]
pub struct Block {
    /// Its parameters.
    pub params: Vec<V>,
    /// Its instructions, the last of which ends it, each with the source line it comes from (0: none).
    pub insts: Vec<(Inst, u32)>,
    /// Whether it is run rarely: placed after all others.
    pub cold: bool,
}

/// A program in virtual registers; block 0 is its entry.
#[derive(Clone, Debug, Default)]
pub struct Code {
    /// Blocks.
    pub blocks: Vec<Block>,
    /// Number of virtual registers.
    pub vregs: u32,
    /// By [`Slot`]: byte offset below the frame pointer where the piece starts (negative).
    pub frame: Vec<i32>,
    /// Bytes of stack that the pieces take, a multiple of 8.
    pub frame_size: u32,
    /// The routines that it calls.
    pub routines: Vec<crate::routine::Routine>,
}

impl Code {
    /// Removes what cannot be reached or is not used, and splits critical edges.
    pub fn clean(&mut self) {
        self.drop_unreachable();
        self.drop_dead();
        self.split_edges();
    }

    /// Removes blocks that no path reaches, keeping the order of the others.
    fn drop_unreachable(&mut self) {
        let mut reached = vec![false; self.blocks.len()];
        let mut work = vec![0usize];
        while let Some(b) = work.pop() {
            if std::mem::replace(&mut reached[b], true) {
                continue;
            }
            if let Some((end, _)) = self.blocks[b].insts.last() {
                work.extend(end.edges().iter().map(|e| e.to.index()));
            }
        }
        let mut new = vec![B(0); self.blocks.len()];
        let mut n = 0;
        for (b, &reached) in reached.iter().enumerate() {
            new[b] = B(n);
            n += u32::from(reached);
        }
        let mut keep = reached.iter();
        self.blocks.retain(|_| *keep.next().unwrap_or(&false));
        for block in &mut self.blocks {
            if let Some((end, _)) = block.insts.last_mut() {
                end.edges_mut().into_iter().for_each(|e| e.to = new[e.to.index()]);
            }
        }
    }

    /// Removes instructions and block parameters whose values nothing needs.
    fn drop_dead(&mut self) {
        // Marks from what has effects, so that values which need each other only are dead too.
        let mut def = vec![None; self.vregs as usize];
        for (b, block) in self.blocks.iter().enumerate() {
            for (i, &v) in block.params.iter().enumerate() {
                def[v.0 as usize] = Some((b, i, true));
            }
            for (i, (inst, _)) in block.insts.iter().enumerate() {
                inst.defs().for_each(|v| def[v.0 as usize] = Some((b, i, false)));
            }
        }
        let mut incoming: Vec<Vec<usize>> = vec![Vec::new(); self.blocks.len()];
        for (b, block) in self.blocks.iter().enumerate() {
            if let Some((end, _)) = block.insts.last() {
                end.edges().iter().for_each(|e| incoming[e.to.index()].push(b));
            }
        }
        let mut live = vec![false; self.vregs as usize];
        let mut work = Vec::new();
        for block in &self.blocks {
            for (inst, _) in &block.insts {
                if !inst.is_pure() {
                    inst.uses(|v| work.push(v));
                }
            }
        }
        while let Some(v) = work.pop() {
            if std::mem::replace(&mut live[v.0 as usize], true) {
                continue;
            }
            match def[v.0 as usize] {
                Some((b, i, true)) => {
                    for &p in &incoming[b] {
                        let Some((end, _)) = self.blocks[p].insts.last() else { continue };
                        work.extend(end.edges().iter().filter(|e| e.to.index() == b).map(|e| e.args[i]));
                    }
                }
                Some((b, i, false)) => self.blocks[b].insts[i].0.uses(|v| work.push(v)),
                None => {}
            }
        }
        let params: Vec<Vec<bool>> =
            self.blocks.iter().map(|b| b.params.iter().map(|v| live[v.0 as usize]).collect()).collect();
        for block in &mut self.blocks {
            block.insts.retain(|(inst, _)| !inst.is_pure() || inst.defs().any(|v| live[v.0 as usize]));
            block.params.retain(|v| live[v.0 as usize]);
            if let Some((end, _)) = block.insts.last_mut() {
                for edge in end.edges_mut() {
                    let mut keep = params[edge.to.index()].iter();
                    edge.args.retain(|_| *keep.next().unwrap_or(&false));
                }
            }
        }
    }

    /// Gives every edge from a branch to a block with several predecessors a block of its own, where moves can go.
    fn split_edges(&mut self) {
        let mut preds = vec![0u32; self.blocks.len()];
        for block in &self.blocks {
            if let Some((end, _)) = block.insts.last() {
                end.edges().iter().for_each(|e| preds[e.to.index()] += 1);
            }
        }
        let mut next = self.blocks.len() as u32;
        let mut added = Vec::new();
        for at in 0..self.blocks.len() {
            let from_cold = self.blocks[at].cold;
            let colds: Vec<bool> = match self.blocks[at].insts.last() {
                Some((end, _)) => end.edges().iter().map(|e| self.blocks[e.to.index()].cold).collect(),
                None => continue,
            };
            let Some((end @ Inst::Branch { .. }, line)) = self.blocks[at].insts.last_mut() else { continue };
            let line = *line;
            for (edge, to_cold) in end.edges_mut().into_iter().zip(colds) {
                if preds[edge.to.index()] > 1 {
                    let to = std::mem::replace(edge, Edge { to: B(next), args: Vec::new() });
                    next += 1;
                    added.push(Block {
                        params: Vec::new(),
                        insts: vec![(Inst::Jump(to), line)],
                        cold: from_cold || to_cold,
                    });
                }
            }
        }
        self.blocks.extend(added);
    }
}
