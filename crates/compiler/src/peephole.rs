//! The last look at emitted instructions: copies that the allocator's moves made needless, values and spills that nothing
//! reads. Owns the instruction list with its labels between emission and assembly.
//!
//! Operands of conditional jumps are left alone: what the verifier learns from a comparison is about that register.

use probity_bpf::asm::{Asm, AsmError, Assembled};
use probity_bpf::helpers::Helper;
use probity_bpf::insn::{AluOp, AtomicOp, Cond, Insn, R0, R10, Reg, Size, Src, Width};
use probity_bpf::{Op, decode};

/// A piece of the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    /// An instruction.
    Insn(Insn),
    /// An instruction of two slots.
    Wide([Insn; 2]),
    /// A conditional jump to a label.
    Jmp(Cond, Width, Reg, Src, u32),
    /// A jump to a label.
    Ja(u32),
    /// A call of a routine.
    Sub(u32),
    /// A label's place.
    Bind(u32),
    /// From here on, this source line.
    Line(u32),
}

/// Registers in the low 16 bits, spill slots above.
type Set = u128;

/// Spill slots that are told apart; more than fit the stack.
const SLOTS: i16 = 64;

/// What an item reads and writes.
struct Effect {
    reads: Set,
    writes: Set,
    /// Whether nothing but what it writes would be missed.
    pure: bool,
}

fn bit(reg: Reg) -> Set {
    1 << reg.0
}

/// The instructions to clean; spill slots are the words from `frame` bytes below the frame pointer down.
pub struct Peephole {
    /// Bytes of stack above the spill slots.
    pub frame: i16,
    /// The program.
    pub items: Vec<Item>,
    /// Number of labels.
    pub labels: u32,
    /// The routines, which follow the program.
    pub routines: Vec<crate::routine::Routine>,
}

impl Peephole {
    /// The spill slot at `r10 + off`.
    fn slot(&self, base: Reg, off: i16) -> Option<Set> {
        let n = (-off - self.frame) / 8 - 1;
        (base == R10 && -off > self.frame && n < SLOTS).then(|| 1 << (16 + n))
    }

    fn effect(&self, item: &Item) -> Effect {
        let src = |s: &Src| match s {
            Src::Reg(r) => bit(*r),
            Src::Imm(_) => 0,
        };
        let pure = |reads, dst| Effect { reads, writes: bit(dst), pure: true };
        let acts = |reads, writes| Effect { reads, writes, pure: false };
        let op = match item {
            Item::Jmp(_, _, a, b, _) => return acts(bit(*a) | src(b), 0),
            Item::Ja(_) | Item::Bind(_) | Item::Line(_) => return acts(0, 0),
            Item::Sub(_) => return acts(1 << 1, 0x3f),
            Item::Insn(insn) => decode(&[*insn], 0),
            Item::Wide(insns) => decode(insns, 0),
        };
        match op {
            Ok(Op::Alu { op: AluOp::Mov, dst, src: from, .. }) => pure(src(&from), dst),
            Ok(Op::Alu { dst, src: from, .. }) => pure(bit(dst) | src(&from), dst),
            Ok(Op::Neg { dst, .. } | Op::End { dst, .. }) => pure(bit(dst), dst),
            Ok(Op::LdImm64 { dst, .. } | Op::LdMapFd { dst, .. } | Op::LdMapValue { dst, .. }) => pure(0, dst),
            Ok(Op::Ldx { dst, src, off, .. }) => pure(self.slot(src, off).unwrap_or(bit(src)), dst),
            Ok(Op::Stx { dst, src, off, .. }) => match self.slot(dst, off) {
                Some(slot) => Effect { reads: bit(src), writes: slot, pure: true },
                None => acts(bit(dst) | bit(src), 0),
            },
            Ok(Op::St { dst, .. }) => acts(bit(dst), 0),
            Ok(Op::Atomic { op, dst, src, .. }) => {
                let reads = bit(dst) | bit(src);
                match op {
                    AtomicOp::Add | AtomicOp::Or | AtomicOp::And | AtomicOp::Xor => acts(reads, 0),
                    AtomicOp::Cmpxchg => acts(reads | bit(R0), bit(R0)),
                    _ => acts(reads, bit(src)),
                }
            }
            Ok(Op::Call { helper }) => {
                let args = Helper::from_id(helper).map_or(5, |h| h.args().len());
                acts((1..=args).fold(0, |set, n| set | 1 << n), 0x3f)
            }
            Ok(Op::Exit) => acts(bit(R0), 0),
            // Nothing else is emitted; all registers are the safe answer.
            _ => acts(0x7ff, 0),
        }
    }

    /// Cleans the program.
    pub fn clean(&mut self) {
        // Each may find more after the other.
        for _ in 0..3 {
            let before = self.items.len();
            self.thread_jumps();
            self.drop_unreachable();
            self.propagate();
            self.drop_dead();
            self.drop_jumps();
            if self.items.len() == before {
                break;
            }
        }
        self.thread_jumps();
        self.drop_unreachable();
    }

    /// Jumps to a jump go where that leads.
    fn thread_jumps(&mut self) {
        let mut to: Vec<u32> = (0..self.labels).collect();
        // From the end: a program has no cycles, so where a jump leads is known before what leads to the jump.
        let mut here: Option<u32> = None;
        for item in self.items.iter().rev() {
            match item {
                Item::Ja(label) => here = Some(to[*label as usize]),
                Item::Bind(label) => {
                    if let Some(target) = here {
                        to[*label as usize] = target;
                    }
                }
                Item::Line(_) => {}
                _ => here = None,
            }
        }
        // Jumps back are to blocks placed earlier, whose labels are resolved by now; one more step follows them.
        for item in &mut self.items {
            if let Item::Ja(label) | Item::Jmp(.., label) = item {
                *label = to[to[*label as usize] as usize];
            }
        }
    }

    /// Removes labels that nothing jumps to, and what follows a jump or the end up to the next label.
    fn drop_unreachable(&mut self) {
        // A jump that goes may have been the last to its label, and what is behind that label only then is unreachable.
        loop {
            let before = self.items.len();
            self.drop_labels();
            let mut reachable = true;
            self.items.retain(|item| {
                reachable |= matches!(item, Item::Bind(_));
                let keep = reachable || matches!(item, Item::Line(_));
                match item {
                    Item::Ja(_) => reachable = false,
                    Item::Insn(insn) if decode(&[*insn], 0) == Ok(Op::Exit) => reachable = false,
                    _ => {}
                }
                keep
            });
            if self.items.len() == before {
                break;
            }
        }
    }

    /// Removes labels that nothing jumps to.
    fn drop_labels(&mut self) {
        let mut used = vec![false; self.labels as usize];
        for item in &self.items {
            if let Item::Ja(label) | Item::Jmp(.., label) = item {
                used[*label as usize] = true;
            }
        }
        self.items.retain(|item| !matches!(item, Item::Bind(label) if !used[*label as usize]));
    }

    /// Reads of copies become reads of what was copied; reloads of what is in a register become copies.
    fn propagate(&mut self) {
        // What each register is a copy of, and the register whose value each spill slot has.
        let mut copy: [Option<Reg>; 11] = [None; 11];
        let mut spilled: Vec<(Set, Reg)> = Vec::new();
        for i in 0..self.items.len() {
            let mut item = self.items[i].clone();
            if let Item::Insn(insn) = &mut item {
                let root = |reg: Reg| copy[reg.index()].unwrap_or(reg);
                match decode(&[*insn], 0) {
                    Ok(Op::Ldx { src, off, size: Size::DW, dst, .. }) if self.slot(src, off).is_some() => {
                        let slot = self.slot(src, off);
                        if let Some(&(_, reg)) = spilled.iter().find(|(s, _)| Some(*s) == slot) {
                            *insn = Insn::mov64(dst, reg);
                        }
                    }
                    Ok(Op::Ldx { .. }) => insn.src = root(insn.src),
                    Ok(Op::Stx { .. }) => {
                        insn.dst = root(insn.dst);
                        insn.src = root(insn.src);
                    }
                    Ok(Op::St { .. }) => insn.dst = root(insn.dst),
                    Ok(Op::Atomic { op, .. }) => {
                        insn.dst = root(insn.dst);
                        if matches!(op, AtomicOp::Add | AtomicOp::Or | AtomicOp::And | AtomicOp::Xor) {
                            insn.src = root(insn.src);
                        }
                    }
                    Ok(Op::Alu { src: Src::Reg(_), .. }) => insn.src = root(insn.src),
                    _ => {}
                }
            }
            if matches!(item, Item::Bind(_)) {
                copy = [None; 11];
                spilled.clear();
            }
            let writes = self.effect(&item).writes;
            for reg in (0..10).map(Reg).filter(|&r| writes & bit(r) != 0) {
                copy[reg.index()] = None;
                copy.iter_mut().filter(|c| **c == Some(reg)).for_each(|c| *c = None);
                spilled.retain(|(_, r)| *r != reg);
            }
            if let Item::Insn(insn) = &item {
                match decode(&[*insn], 0) {
                    Ok(Op::Alu { op: AluOp::Mov, width: Width::W64, dst, src: Src::Reg(src) })
                        if dst != src && src != R10 =>
                    {
                        copy[dst.index()] = Some(src);
                    }
                    Ok(Op::Stx { dst, src, off, size: Size::DW }) => {
                        if let Some(slot) = self.slot(dst, off) {
                            spilled.retain(|(s, _)| *s != slot);
                            spilled.push((slot, src));
                        }
                    }
                    Ok(Op::Ldx { dst, src, off, size: Size::DW, .. }) => {
                        if let Some(slot) = self.slot(src, off) {
                            spilled.retain(|(s, _)| *s != slot);
                            spilled.push((slot, dst));
                        }
                    }
                    _ => {}
                }
            }
            self.items[i] = item;
        }
        self.items.retain(|item| match item {
            Item::Insn(insn) => !matches!(
                decode(&[*insn], 0),
                Ok(Op::Alu { op: AluOp::Mov, width: Width::W64, dst, src: Src::Reg(src) }) if dst == src
            ),
            _ => true,
        });
    }

    /// Removes what writes only what nothing reads.
    fn drop_dead(&mut self) {
        let mut at_label = vec![0; self.labels as usize];
        loop {
            let mut changed = false;
            self.walk_back(
                |item, live, labels, _| {
                    if let Item::Bind(label) = item {
                        let known = &mut labels[*label as usize];
                        changed |= *known != live;
                        *known = live;
                    }
                },
                &mut at_label,
            );
            if !changed {
                break;
            }
        }
        let mut dead = vec![false; self.items.len()];
        self.walk_back(
            |_, _, _, at| {
                if let Some(at) = at {
                    dead[at] = true;
                }
            },
            &mut at_label,
        );
        let mut dead = dead.iter();
        self.items.retain(|_| !*dead.next().unwrap_or(&false));
    }

    /// Goes through the program from its end with what is live; `see` gets each item with what is live before it, and its
    /// position if it is dead.
    fn walk_back(&self, mut see: impl FnMut(&Item, Set, &mut Vec<Set>, Option<usize>), at_label: &mut Vec<Set>) {
        let mut live: Set = 0;
        for (at, item) in self.items.iter().enumerate().rev() {
            let effect = self.effect(item);
            match item {
                Item::Ja(label) => live = at_label[*label as usize],
                Item::Jmp(.., label) => live |= at_label[*label as usize],
                Item::Insn(insn) if decode(&[*insn], 0) == Ok(Op::Exit) => live = 0,
                _ => {}
            }
            let dead = effect.pure && effect.writes & live == 0;
            if !dead {
                live = live & !effect.writes | effect.reads;
            }
            see(item, live, at_label, dead.then_some(at));
        }
    }

    /// Removes jumps to the next instruction.
    fn drop_jumps(&mut self) {
        let mut keep = vec![true; self.items.len()];
        for (at, item) in self.items.iter().enumerate() {
            let (Item::Ja(label) | Item::Jmp(.., label)) = item else { continue };
            let between = self.items[at + 1..].iter().take_while(|i| matches!(i, Item::Bind(_) | Item::Line(_)));
            keep[at] = !between.into_iter().any(|i| *i == Item::Bind(*label));
        }
        let mut keep = keep.iter();
        self.items.retain(|_| *keep.next().unwrap_or(&true));
    }

    /// The program with its jumps' distances.
    pub fn assemble(&self) -> Result<Assembled, AsmError> {
        let mut asm = Asm::new();
        let labels: Vec<_> = (0..self.labels).map(|_| asm.label()).collect();
        let routines: Vec<_> = self.routines.iter().map(|_| asm.label()).collect();
        for item in &self.items {
            match item {
                Item::Insn(insn) => asm.emit(insn),
                Item::Wide(insns) => asm.emit(insns),
                Item::Jmp(cond, width, a, b, label) => asm.jmp(*cond, *width, *a, *b, labels[*label as usize]),
                Item::Ja(label) => asm.ja(labels[*label as usize]),
                Item::Bind(label) => asm.bind(labels[*label as usize]),
                Item::Line(line) => asm.line(*line),
                Item::Sub(routine) => asm.call_sub(routines[*routine as usize]),
            }
        }
        // What calls a routine may have been found unreachable.
        for (n, (routine, label)) in self.routines.iter().zip(routines).enumerate() {
            if self.items.contains(&Item::Sub(n as u32)) {
                asm.bind(label);
                routine.write(&mut asm);
            }
        }
        asm.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use probity_bpf::insn::{R1, R2, R6};

    fn clean(items: Vec<Item>) -> Vec<Item> {
        let mut p = Peephole { frame: 16, items, labels: 2, routines: Vec::new() };
        p.clean();
        p.items
    }

    fn end() -> Vec<Item> {
        vec![Item::Insn(Insn::mov64(R0, 0)), Item::Insn(Insn::exit())]
    }

    #[test]
    fn copies_and_dead_values_go() {
        let store = |r| Item::Insn(Insn::stx(Size::DW, R10, -8, r));
        let mut items = vec![
            Item::Insn(Insn::mov64(R6, R1)),
            Item::Insn(Insn::mov64(R2, 5)),
            Item::Insn(Insn::mov64(R0, R6)),
            store(R0),
        ];
        items.extend(end());
        let mut want = vec![store(R1)];
        want.extend(end());
        assert_eq!(clean(items), want);
    }

    #[test]
    fn spills_that_nothing_reads_go_and_reloads_become_copies() {
        let spill = Item::Insn(Insn::stx(Size::DW, R10, -24, R1));
        let reload = Item::Insn(Insn::ldx(Size::DW, R2, R10, -24));
        let store = |r| Item::Insn(Insn::stx(Size::DW, R10, -8, r));
        let mut items = vec![spill, reload, store(R2)];
        items.extend(end());
        let mut want = vec![store(R1)];
        want.extend(end());
        assert_eq!(clean(items), want);
    }

    #[test]
    fn values_live_over_jumps_stay() {
        let mut items = vec![
            Item::Insn(Insn::mov64(R6, R1)),
            Item::Jmp(Cond::Eq, Width::W64, R2, Src::Imm(0), 0),
            Item::Insn(Insn::mov64(R6, 1)),
            Item::Bind(0),
            Item::Insn(Insn::stx(Size::DW, R10, -8, R6)),
        ];
        items.extend(end());
        assert_eq!(clean(items.clone()), items);
    }

    #[test]
    fn what_a_call_destroys_is_no_copy() {
        let mut items = vec![
            Item::Insn(Insn::mov64(R6, R1)),
            Item::Insn(Insn::call(Helper::KtimeGetNs)),
            Item::Insn(Insn::stx(Size::DW, R10, -8, R6)),
        ];
        items.extend(end());
        assert_eq!(clean(items.clone()), items);
    }
}
