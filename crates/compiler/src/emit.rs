//! Emission: allocated code to a program of BPF instructions. Owns the order of the blocks (rare ones last), jumps that
//! lead to jumps, and the frame.

use crate::peephole::{Item, Peephole};
use crate::vcode::{B, Base, Code, Edge, Inst, Rhs, Slot, WAIT_ROOM};
use probity_bpf::asm::{AsmError, Assembled};
use probity_bpf::helpers::Helper;
use probity_bpf::insn::{AluOp, Cond, Insn, R0, R10, Reg, Size, Src, Width};
use regalloc2::{Allocation, Edit, InstPosition, Output, PReg};
use std::collections::BTreeSet;

/// Bytes of stack that a program has.
pub const STACK: u32 = 512;
/// What the kernel rounds a frame up to.
const FRAME_UNIT: u32 = 32;

/// Why there is no program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EmitError {
    /// It needs this many bytes of stack.
    Stack(u32),
    /// It is too long for its jumps.
    Long,
}

impl From<AsmError> for EmitError {
    fn from(_: AsmError) -> EmitError {
        EmitError::Long
    }
}

struct Emit<'a> {
    code: &'a Code,
    out: &'a Output,
    items: Vec<Item>,
    /// Labels given; each block's is its number.
    labels: u32,
    /// Index of each block's first instruction.
    first: Vec<usize>,
    /// Where a block that does nothing but jump leads.
    forward: Vec<B>,
}

fn reg(allocation: Allocation) -> Reg {
    Reg(allocation.as_reg().map_or(0, PReg::hw_enc) as u8)
}

/// Emits a program.
pub fn emit(code: &Code, out: &Output) -> Result<Assembled, EmitError> {
    let mut stack = code.frame_size + out.num_spillslots as u32 * 8;
    if !code.routines.is_empty() {
        // The kernel counts the frames of a chain of calls, each rounded up: a routine's and its loop body's.
        stack = stack.next_multiple_of(FRAME_UNIT) + 2 * FRAME_UNIT;
    }
    if stack > STACK {
        return Err(EmitError::Stack(stack));
    }
    let labels = code.blocks.len() as u32;
    let first = code.blocks.iter().scan(0, |n, b| {
        *n += b.insts.len();
        Some(*n - b.insts.len())
    });
    let mut emit = Emit { code, out, items: Vec::new(), labels, first: first.collect(), forward: Vec::new() };
    emit.forward = (0..code.blocks.len() as u32).map(|b| emit.destination(B(b))).collect();
    let empty = |e: &Emit<'_>, b: B| e.forward[b.index()] != b;
    let hot = (0..code.blocks.len() as u32).map(B).filter(|b| !code.blocks[b.index()].cold);
    let cold = (0..code.blocks.len() as u32).map(B).filter(|b| code.blocks[b.index()].cold);
    let order: Vec<B> =
        place(code, hot.chain(cold).filter(|&b| b == B(0) || !empty(&emit, b)).collect(), &emit.forward);
    for (i, &b) in order.iter().enumerate() {
        emit.block(b, order.get(i + 1).copied());
    }
    let mut program = Peephole {
        frame: code.frame_size as i16,
        items: emit.items,
        labels: emit.labels,
        routines: code.routines.clone(),
    };
    program.clean();
    Ok(program.assemble()?)
}

/// Orders the blocks so that few jumps are needed: usual ones before rare ones, each after all that lead to it from its own
/// kind, and where possible right after one that leads to it.
fn place(code: &Code, order: Vec<B>, forward: &[B]) -> Vec<B> {
    let cold = |b: B| code.blocks[b.index()].cold;
    let targets = |b: B| -> Vec<B> {
        let Some((end, _)) = code.blocks[b.index()].insts.last() else { return Vec::new() };
        end.edges().iter().map(|e| forward[e.to.index()]).filter(|&to| cold(to) == cold(b)).collect()
    };
    let mut waiting = vec![0u32; code.blocks.len()];
    order.iter().flat_map(|&b| targets(b)).for_each(|to| waiting[to.index()] += 1);
    let mut out = Vec::with_capacity(order.len());
    for kind in [false, true] {
        let mut ready: BTreeSet<B> =
            order.iter().copied().filter(|&b| cold(b) == kind && waiting[b.index()] == 0).collect();
        let mut next = ready.first().copied();
        while let Some(b) = next {
            ready.remove(&b);
            out.push(b);
            next = None;
            for to in targets(b) {
                waiting[to.index()] -= 1;
                if waiting[to.index()] == 0 {
                    ready.insert(to);
                    next = next.or(Some(to));
                }
            }
            next = next.or(ready.first().copied());
        }
    }
    out
}

impl Emit<'_> {
    fn edits(&self, inst: usize, pos: InstPosition) -> impl Iterator<Item = &Edit> {
        let point = regalloc2::ProgPoint::new(regalloc2::Inst::new(inst), pos);
        let from = self.out.edits.partition_point(|(p, _)| *p < point);
        self.out.edits[from..].iter().take_while(move |(p, _)| *p == point).map(|(_, e)| e)
    }

    /// The block that is run when `b` is jumped to.
    fn destination(&self, mut b: B) -> B {
        // The graph has no cycles, so this ends.
        while let [(Inst::Jump(edge), _)] = self.code.blocks[b.index()].insts.as_slice() {
            let at = self.first[b.index()];
            let moves = self.edits(at, InstPosition::Before).chain(self.edits(at, InstPosition::After));
            let idle = moves.into_iter().all(|Edit::Move { from, to }| from == to);
            if !idle {
                break;
            }
            b = edge.to;
        }
        b
    }

    fn push(&mut self, insn: Insn) {
        self.items.push(Item::Insn(insn));
    }

    fn wide(&mut self, insns: [Insn; 2]) {
        self.items.push(Item::Wide(insns));
    }

    fn label(&mut self) -> u32 {
        self.labels += 1;
        self.labels - 1
    }

    fn bind(&mut self, label: u32) {
        self.items.push(Item::Bind(label));
    }

    fn ja(&mut self, label: u32) {
        self.items.push(Item::Ja(label));
    }

    fn jmp(&mut self, cond: Cond, width: Width, a: Reg, b: impl Into<Src>, label: u32) {
        self.items.push(Item::Jmp(cond, width, a, b.into(), label));
    }

    fn jmp64(&mut self, cond: Cond, a: Reg, b: impl Into<Src>, label: u32) {
        self.jmp(cond, Width::W64, a, b, label);
    }

    fn block(&mut self, b: B, next: Option<B>) {
        self.bind(b.0);
        let range = self.code.blocks[b.index()].insts.iter().enumerate();
        for (i, (inst, line)) in range {
            let at = self.first[b.index()] + i;
            if *line != 0 {
                self.items.push(Item::Line(*line));
            }
            self.moves(at, InstPosition::Before);
            self.inst(inst, at, next);
            self.moves(at, InstPosition::After);
        }
    }

    fn moves(&mut self, inst: usize, pos: InstPosition) {
        let moves: Vec<_> = self.edits(inst, pos).cloned().collect();
        for Edit::Move { from, to } in moves {
            match (from.as_reg(), to.as_reg()) {
                _ if from == to => {}
                (Some(_), Some(_)) => self.push(Insn::mov64(reg(to), reg(from))),
                (None, Some(_)) => self.push(Insn::ldx(Size::DW, reg(to), R10, self.spill(from))),
                (Some(_), None) => self.push(Insn::stx(Size::DW, R10, self.spill(to), reg(from))),
                (None, None) => {}
            }
        }
    }

    fn spill(&self, allocation: Allocation) -> i16 {
        let n = allocation.as_stack().map_or(0, |s| s.index()) as u32;
        -((self.code.frame_size + 8 * (n + 1)) as i16)
    }

    fn frame(&self, slot: Slot, off: i32) -> i32 {
        self.code.frame[slot.0 as usize] + off
    }

    fn jump(&mut self, edge: &Edge, next: Option<B>) {
        let to = self.forward[edge.to.index()];
        if Some(to) != next {
            self.ja(to.0);
        }
    }

    fn inst(&mut self, inst: &Inst, at: usize, next: Option<B>) {
        let allocs: Vec<Reg> = self.out.inst_allocs(regalloc2::Inst::new(at)).iter().map(|&a| reg(a)).collect();
        let mut rest = allocs.iter().copied();
        let mut take = || rest.next().unwrap_or(R0);
        match inst {
            Inst::Entry { .. } => {}
            Inst::Imm { val, .. } => {
                let dst = take();
                match (i32::try_from(*val), u32::try_from(*val)) {
                    (Ok(imm), _) => self.push(Insn::mov64(dst, imm)),
                    (_, Ok(imm)) => self.push(Insn::mov32(dst, imm as i32)),
                    _ => self.wide(Insn::ld_imm64(dst, *val as u64)),
                }
            }
            Inst::MapFd { map, .. } => self.wide(Insn::ld_map_fd(take(), *map)),
            Inst::MapValue { map, off, .. } => self.wide(Insn::ld_map_value(take(), *map, *off)),
            Inst::FrameAddr { slot, off, .. } => {
                let dst = take();
                self.push(Insn::mov64(dst, R10));
                self.push(Insn::add64(dst, self.frame(*slot, *off)));
            }
            Inst::Low32 { .. } => {
                let (a, dst) = (take(), take());
                self.push(Insn::mov32(dst, a));
            }
            Inst::Alu { op, width, b, .. } => {
                let dst = take();
                let src = match b {
                    Rhs::Reg(_) => Src::Reg(take()),
                    Rhs::Imm(imm) => Src::Imm(*imm),
                };
                self.push(Insn::alu(*op, *width, dst, src));
            }
            Inst::Neg { .. } => self.push(Insn::neg(Width::W64, take())),
            Inst::ToBe { bits, .. } => self.push(Insn::to_be(take(), *bits)),
            Inst::Min { max, .. } => {
                let dst = take();
                let label = self.label();
                self.jmp64(Cond::Le, dst, *max as i32, label);
                self.push(Insn::mov64(dst, *max as i32));
                self.bind(label);
            }
            Inst::Log2 { .. } => {
                let (_, tmp, dst) = (take(), take(), take());
                self.log2(dst, tmp);
            }
            Inst::Load { size, base, off, .. } => {
                let (base, off) = self.place(base, *off, &mut take);
                self.push(Insn::ldx(*size, take(), base, off));
            }
            Inst::Store { size, base, off, src } => {
                let (base, off) = self.place(base, *off, &mut take);
                match src {
                    Rhs::Reg(_) => self.push(Insn::stx(*size, base, off, take())),
                    Rhs::Imm(imm) => self.push(Insn::st(*size, base, off, *imm)),
                }
            }
            Inst::Atomic { op, base, off, .. } | Inst::Fetch { op, base, off, .. } => {
                let src = take();
                let (base, off) = self.place(base, *off, &mut take);
                self.push(Insn::atomic(*op, Width::W64, base, off, src));
            }
            Inst::Cmpxchg { base, off, .. } => {
                let (_, new) = (take(), take());
                let (base, off) = self.place(base, *off, &mut take);
                self.push(Insn::atomic(probity_bpf::insn::AtomicOp::Cmpxchg, Width::W64, base, off, new));
            }
            Inst::Call { helper, .. } => self.push(Insn::call(*helper)),
            Inst::Wait { map, .. } => {
                let (ns, end, count) = (take(), take(), take());
                self.wait(*map, ns, end, count);
            }
            Inst::Sub { routine, .. } => self.items.push(Item::Sub(*routine)),
            Inst::Jump(edge) => self.jump(edge, next),
            Inst::Branch { cond, width, b, then, other, .. } => {
                let a = take();
                let b = match b {
                    Rhs::Reg(_) => Src::Reg(take()),
                    Rhs::Imm(imm) => Src::Imm(*imm),
                };
                let (yes, no) = (self.forward[then.to.index()], self.forward[other.to.index()]);
                if yes == no {
                    self.jump(then, next);
                } else if let (Some(opposite), true) = (cond.negate(), Some(yes) == next) {
                    self.jmp(opposite, *width, a, b, no.0);
                } else {
                    self.jmp(*cond, *width, a, b, yes.0);
                    self.jump(other, next);
                }
            }
            Inst::Ret => {
                self.push(Insn::mov64(R0, 0));
                self.push(Insn::exit());
            }
        }
    }

    fn place(&self, base: &Base, off: i32, take: &mut impl FnMut() -> Reg) -> (Reg, i16) {
        match base {
            Base::Reg(_) => (take(), off as i16),
            Base::Frame(slot) => (R10, self.frame(*slot, off) as i16),
        }
    }

    /// Copies a share of the time that is left, again and again, so that the steps get shorter as the end comes near.
    fn wait(&mut self, map: u32, ns: Reg, end: Reg, count: Reg) {
        // The verifier keeps two ways out of each step in mind, and 8,192 in all.
        const STEPS: i32 = 3500;
        let (again, done) = (self.label(), self.label());
        self.push(Insn::call(Helper::KtimeGetNs));
        self.push(Insn::mov64(end, R0));
        self.push(Insn::add64(end, ns));
        self.push(Insn::mov64(count, 0));
        self.bind(again);
        self.push(Insn::call(Helper::KtimeGetNs));
        self.jmp64(Cond::Ge, R0, end, done);
        self.push(Insn::add64(count, 1));
        self.jmp64(Cond::Gt, count, STEPS, done);
        self.push(Insn::mov64(Reg(2), end));
        self.push(Insn::alu64(AluOp::Sub, Reg(2), R0));
        self.push(Insn::alu64(AluOp::Rsh, Reg(2), 5));
        self.push(Insn::alu64(AluOp::And, Reg(2), (WAIT_ROOM - 1) as i32));
        self.wide(Insn::ld_map_value(Reg(1), map, 0));
        self.push(Insn::mov64(Reg(3), Reg(1)));
        self.push(Insn::call(Helper::ProbeReadKernel));
        self.ja(again);
        self.bind(done);
    }

    /// A binary search for the highest bit.
    fn log2(&mut self, dst: Reg, tmp: Reg) {
        // 2^32 is no immediate: the high half is taken to look at it.
        let low = self.label();
        self.push(Insn::mov64(dst, tmp));
        self.push(Insn::alu64(AluOp::Rsh, dst, 32));
        self.jmp64(Cond::Eq, dst, 0, low);
        self.push(Insn::mov64(tmp, dst));
        self.push(Insn::mov64(dst, 32));
        self.bind(low);
        for n in [16, 8, 4, 2, 1] {
            let below = self.label();
            self.jmp64(Cond::Lt, tmp, 1 << n, below);
            self.push(Insn::add64(dst, n));
            if n > 1 {
                self.push(Insn::alu64(AluOp::Rsh, tmp, n));
            }
            self.bind(below);
        }
    }
}
