//! Speculations: what they mean to the evaluator, and random ones.

use crate::eval::{Faulted, Run, State};
use crate::generate::Gen;
use probity_ir::{Drop, Expr, Fault, KernelAct, RingKind, SPEC_ID_BITS, Stmt, Val};

impl Run<'_> {
    pub fn act(&mut self, act: KernelAct, args: &[i64]) -> Faulted<i64> {
        let cpu = self.env().cpu;
        let first = args.first().copied().unwrap_or(0);
        let (nspec, limit) = (i64::from(self.program.nspec), self.program.specsize);
        fn slot(state: &mut State, id: i64) -> Option<&mut (u64, u64)> {
            state.specs.get_mut(usize::try_from(id.wrapping_sub(1)).unwrap_or(usize::MAX))
        }
        let handle = |turn: u64, id: i64| (turn << SPEC_ID_BITS) as i64 | id;
        Ok(match act {
            KernelAct::SpecStart => match (1..=nspec).find(|&id| slot(self.state, id).is_some_and(|s| s.0 % 2 == 0)) {
                Some(id) => {
                    let s = slot(self.state, id).expect("was found");
                    *s = (s.0 + 1, 0);
                    id
                }
                None => {
                    self.state.drop(Drop::NoSpeculation, cpu);
                    0
                }
            },
            KernelAct::SpecUse => slot(self.state, first).filter(|s| s.0 % 2 == 1).map_or(0, |s| handle(s.0, first)),
            KernelAct::SpecRoom { bytes } => match slot(self.state, first & ((1 << SPEC_ID_BITS) - 1)) {
                Some(s) if s.1 + u64::from(bytes) <= limit => {
                    s.1 += u64::from(bytes);
                    1
                }
                _ => {
                    self.state.drop(Drop::Speculation, cpu);
                    0
                }
            },
            KernelAct::SpecEnd if !(0..=nspec).contains(&first) => return Err((Fault::IllegalOp, first as u64)),
            // The generator makes none of these; the back end's tests look at what they call.
            KernelAct::Raise | KernelAct::Chill | KernelAct::Return => 0,
            KernelAct::SpecEnd => match slot(self.state, first).filter(|s| s.0 % 2 == 1) {
                Some(s) => {
                    s.0 += 1;
                    handle(s.0 - 1, first)
                }
                None => 0,
            },
        })
    }
}

impl Gen {
    /// Starts or ends a speculation, or records in one.
    pub fn speculation(&mut self) -> Stmt {
        let id = match self.rng.below(4) {
            0 => self.int(2),
            _ => {
                let id = self.rng.below(u64::from(self.program.nspec) + 2) as i64;
                self.constant(id)
            }
        };
        let act = match self.rng.below(3) {
            0 => KernelAct::SpecStart,
            1 => KernelAct::SpecEnd,
            _ => {
                let (handle, room) = (self.temp(), self.temp());
                let (h, r) = (self.add(Expr::Temp(handle)), self.add(Expr::Temp(room)));
                let emit = self.record(vec![Val::Int], vec![h], RingKind::Speculation);
                let take = KernelAct::SpecRoom { bytes: self.rng.below(60) as u32 };
                let inner = vec![
                    Stmt::Act { act: take, dst: Some(room), args: vec![h] },
                    Stmt::If { cond: r, then: vec![emit], otherwise: Vec::new() },
                ];
                let always = self.constant(1);
                let then = vec![
                    Stmt::Act { act: KernelAct::SpecUse, dst: Some(handle), args: vec![id] },
                    Stmt::If { cond: h, then: inner, otherwise: Vec::new() },
                ];
                return Stmt::If { cond: always, then, otherwise: Vec::new() };
            }
        };
        let args = if act == KernelAct::SpecEnd { vec![id] } else { Vec::new() };
        let temp = self.temp_to_set();
        self.set.insert(temp.0);
        Stmt::Act { act, dst: Some(temp), args }
    }
}
