//! Register allocation: hands the graph to `regalloc2` and keeps what it answers.
//!
//! r0–r5 are lost in calls, r6–r9 are kept; r10 is the frame pointer and never allocated. Spills are 8 bytes of stack below
//! the pieces that selection placed.

use crate::vcode::{Base, Code, Inst, Rhs, V};
use regalloc2::{
    Block, Function, InstRange, MachineEnv, Operand, OperandConstraint, OperandKind, OperandPos, Output, PReg, PRegSet,
    RegAllocError, RegClass, RegallocOptions, VReg,
};

/// The graph as regalloc2 sees it: one list of instructions, and tables by instruction and block.
struct View<'a> {
    code: &'a Code,
    ranges: Vec<InstRange>,
    insts: Vec<&'a Inst>,
    operands: Vec<Vec<Operand>>,
    succs: Vec<Vec<Block>>,
    preds: Vec<Vec<Block>>,
    params: Vec<Vec<VReg>>,
    /// By block and edge: the arguments.
    args: Vec<Vec<Vec<VReg>>>,
}

fn vreg(v: V) -> VReg {
    VReg::new(v.0 as usize, RegClass::Int)
}

fn preg(n: usize) -> PReg {
    PReg::new(n, RegClass::Int)
}

fn use_reg(v: V) -> Operand {
    Operand::reg_use(vreg(v))
}

fn use_base(base: &Base) -> Option<Operand> {
    match base {
        Base::Reg(v) => Some(use_reg(*v)),
        Base::Frame(_) => None,
    }
}

fn use_rhs(rhs: &Rhs) -> Option<Operand> {
    match rhs {
        Rhs::Reg(v) => Some(use_reg(*v)),
        Rhs::Imm(_) => None,
    }
}

/// The operands of an instruction, in the order in which `emit` reads their allocations.
pub fn operands(inst: &Inst) -> Vec<Operand> {
    let def = |v: V| Operand::reg_def(vreg(v));
    let reuse = |v: V| Operand::reg_reuse_def(vreg(v), 0);
    match inst {
        Inst::Entry { dst } => vec![Operand::reg_fixed_def(vreg(*dst), preg(1))],
        Inst::Imm { dst, .. } | Inst::MapFd { dst, .. } | Inst::MapValue { dst, .. } | Inst::FrameAddr { dst, .. } => {
            vec![def(*dst)]
        }
        Inst::Low32 { dst, a } => vec![use_reg(*a), def(*dst)],
        Inst::Alu { dst, a, b, .. } => std::iter::once(use_reg(*a)).chain(use_rhs(b)).chain([reuse(*dst)]).collect(),
        Inst::Neg { dst, a } | Inst::ToBe { dst, a, .. } | Inst::Min { dst, a, .. } => vec![use_reg(*a), reuse(*dst)],
        Inst::Log2 { dst, tmp, a } => {
            let early = Operand::new(vreg(*dst), OperandConstraint::Reg, OperandKind::Def, OperandPos::Early);
            vec![use_reg(*a), reuse(*tmp), early]
        }
        Inst::Load { dst, base, .. } => use_base(base).into_iter().chain([def(*dst)]).collect(),
        Inst::Store { base, src, .. } => use_base(base).into_iter().chain(use_rhs(src)).collect(),
        Inst::Atomic { base, src, .. } => std::iter::once(use_reg(*src)).chain(use_base(base)).collect(),
        Inst::Fetch { base, src, dst, .. } => {
            std::iter::once(use_reg(*src)).chain(use_base(base)).chain([reuse(*dst)]).collect()
        }
        Inst::Cmpxchg { base, expect, new, dst, .. } => {
            let expect = Operand::reg_fixed_use(vreg(*expect), preg(0));
            let dst = Operand::reg_fixed_def(vreg(*dst), preg(0));
            [expect, use_reg(*new)].into_iter().chain(use_base(base)).chain([dst]).collect()
        }
        Inst::Call { args, dst, .. } => {
            let args = args.iter().enumerate().map(|(i, &v)| Operand::reg_fixed_use(vreg(v), preg(i + 1)));
            let dst = dst.map(|v| Operand::reg_fixed_def(vreg(v), preg(0)));
            args.chain(dst).collect()
        }
        Inst::Sub { block, dst, .. } => {
            vec![Operand::reg_fixed_use(vreg(*block), preg(1)), Operand::reg_fixed_def(vreg(*dst), preg(0))]
        }
        Inst::Wait { ns, end, count, .. } => {
            // All three live through the calls in it.
            let early = |v: V| Operand::new(vreg(v), OperandConstraint::Reg, OperandKind::Def, OperandPos::Early);
            let late = Operand::new(vreg(*ns), OperandConstraint::Reg, OperandKind::Use, OperandPos::Late);
            vec![late, early(*end), early(*count)]
        }
        Inst::Branch { a, b, .. } => std::iter::once(use_reg(*a)).chain(use_rhs(b)).collect(),
        Inst::Jump(_) | Inst::Ret => Vec::new(),
    }
}

impl<'a> View<'a> {
    fn new(code: &'a Code) -> View<'a> {
        let n = code.blocks.len();
        let mut view = View {
            code,
            ranges: Vec::with_capacity(n),
            insts: Vec::new(),
            operands: Vec::new(),
            succs: vec![Vec::new(); n],
            preds: vec![Vec::new(); n],
            params: Vec::with_capacity(n),
            args: vec![Vec::new(); n],
        };
        for (b, block) in code.blocks.iter().enumerate() {
            let first = view.insts.len();
            for (inst, _) in &block.insts {
                view.operands.push(operands(inst));
                view.insts.push(inst);
            }
            view.ranges.push(InstRange::new(regalloc2::Inst::new(first), regalloc2::Inst::new(view.insts.len())));
            view.params.push(block.params.iter().map(|&v| vreg(v)).collect());
            if let Some((end, _)) = block.insts.last() {
                for edge in end.edges() {
                    view.succs[b].push(Block::new(edge.to.index()));
                    view.preds[edge.to.index()].push(Block::new(b));
                    view.args[b].push(edge.args.iter().map(|&v| vreg(v)).collect());
                }
            }
        }
        view
    }
}

impl Function for View<'_> {
    fn num_insts(&self) -> usize {
        self.insts.len()
    }

    fn num_blocks(&self) -> usize {
        self.code.blocks.len()
    }

    fn entry_block(&self) -> Block {
        Block::new(0)
    }

    fn block_insns(&self, block: Block) -> InstRange {
        self.ranges[block.index()]
    }

    fn block_succs(&self, block: Block) -> &[Block] {
        &self.succs[block.index()]
    }

    fn block_preds(&self, block: Block) -> &[Block] {
        &self.preds[block.index()]
    }

    fn block_params(&self, block: Block) -> &[VReg] {
        &self.params[block.index()]
    }

    fn is_ret(&self, inst: regalloc2::Inst) -> bool {
        matches!(self.insts[inst.index()], Inst::Ret)
    }

    fn is_branch(&self, inst: regalloc2::Inst) -> bool {
        matches!(self.insts[inst.index()], Inst::Jump(_) | Inst::Branch { .. })
    }

    fn branch_blockparams(&self, block: Block, _: regalloc2::Inst, succ: usize) -> &[VReg] {
        &self.args[block.index()][succ]
    }

    fn inst_operands(&self, inst: regalloc2::Inst) -> &[Operand] {
        &self.operands[inst.index()]
    }

    fn inst_clobbers(&self, inst: regalloc2::Inst) -> PRegSet {
        let first = match self.insts[inst.index()] {
            Inst::Call { dst, .. } => usize::from(dst.is_some()),
            Inst::Sub { .. } => 1,
            Inst::Wait { .. } => 0,
            _ => return PRegSet::empty(),
        };
        (first..6).map(preg).collect()
    }

    fn num_vregs(&self) -> usize {
        self.code.vregs as usize
    }

    fn spillslot_size(&self, _: RegClass) -> usize {
        1
    }
}

/// Assigns registers and spill slots.
pub fn allocate(code: &Code) -> Result<Output, RegAllocError> {
    let env = MachineEnv {
        preferred_regs_by_class: [(0..6).map(preg).collect(), PRegSet::empty(), PRegSet::empty()],
        non_preferred_regs_by_class: [(6..10).map(preg).collect(), PRegSet::empty(), PRegSet::empty()],
        scratch_by_class: [None, None, None],
        fixed_stack_slots: Vec::new(),
    };
    let view = View::new(code);
    let options = RegallocOptions { validate_ssa: cfg!(debug_assertions), ..RegallocOptions::default() };
    let output = regalloc2::run(&view, &env, &options)?;
    #[cfg(test)]
    {
        let mut checker = regalloc2::checker::Checker::new(&view, &env);
        checker.prepare(&output);
        if let Err(errors) = checker.run() {
            panic!("register allocation is wrong: {errors:?}");
        }
    }
    Ok(output)
}
