//! Strings that are none: how a place says so, and where that is a fault.
//!
//! A place that may hold none ([`Places`]) has a mark in its first word then: a NUL, so that it is an empty string to all who read
//! bytes, and behind it a byte that no string leaves there, because such places are zeroed before a string is put into them.

use super::Select;
use super::text::{Mem, Text, Value};
use crate::vcode::Rhs;
use probity_bpf::insn::{Cond, Size, Width};
use probity_ir::{Expr, ExprId, Fault, Program, Stmt, TempId, VarId};
use std::collections::HashSet;

/// The first word of a place whose string is none.
pub const NONE: i32 = 0xff00;

/// The places of a program that may hold none.
#[derive(Clone, Debug, Default)]
pub struct Places {
    vars: HashSet<VarId>,
    /// By unit, position of the clause, and temporary.
    temps: HashSet<(usize, usize, TempId)>,
}

impl Places {
    /// Finds them: what is put into one may go on into another.
    pub fn of(program: &Program) -> Places {
        let mut places = Places::default();
        let units = || program.units.iter().enumerate();
        let clauses =
            || units().flat_map(|(u, unit)| unit.clauses.iter().enumerate().map(move |(c, code)| (u, c, code)));
        let any = |e: &Expr| matches!(e, Expr::Sub { sub, .. } if sub.may_be_none());
        if !clauses().any(|(.., code)| code.exprs.iter().any(any)) {
            return places;
        }
        loop {
            let before = places.vars.len() + places.temps.len();
            for (unit, at, code) in clauses() {
                places.body(unit, at, &code.exprs, &code.body);
            }
            if places.vars.len() + places.temps.len() == before {
                return places;
            }
        }
    }

    fn body(&mut self, unit: usize, at: usize, exprs: &[Expr], body: &[Stmt]) {
        for stmt in body {
            match stmt {
                Stmt::SetVar(var, e) if self.may_be(unit, at, exprs, *e) => {
                    self.vars.insert(*var);
                }
                Stmt::SetTemp(temp, e) if self.may_be(unit, at, exprs, *e) => {
                    self.temps.insert((unit, at, *temp));
                }
                Stmt::If { then, otherwise, .. } => {
                    self.body(unit, at, exprs, then);
                    self.body(unit, at, exprs, otherwise);
                }
                _ => {}
            }
        }
    }

    fn may_be(&self, unit: usize, at: usize, exprs: &[Expr], id: ExprId) -> bool {
        match &exprs[id.0 as usize] {
            Expr::Sub { sub, .. } => sub.may_be_none(),
            Expr::Var(var) => self.vars.contains(var),
            Expr::Temp(temp) => self.temps.contains(&(unit, at, *temp)),
            Expr::Cond(_, a, b) => self.may_be(unit, at, exprs, *a) || self.may_be(unit, at, exprs, *b),
            _ => false,
        }
    }
}

impl<'a> Select<'a> {
    pub(super) fn may_be_none(&self, id: ExprId) -> bool {
        self.places.may_be(self.unit_id, self.at, &self.clause.exprs, id)
    }

    /// A string where none is as good as the empty one.
    pub(super) fn text_or_none(&mut self, id: ExprId) -> Text<'a> {
        self.none_ok = true;
        let text = self.text(id);
        self.none_ok = false;
        text
    }

    /// Faults if the string at a place is none, unless that is allowed.
    pub(super) fn refuse_none(&mut self, id: ExprId, mem: Mem, allowed: bool) {
        if allowed || !self.may_be_none(id) {
            return;
        }
        let first = self.b.load(Size::DW, mem.base, mem.off);
        let zero = self.b.imm(0);
        self.fault_if(Cond::Eq, first, Rhs::Imm(NONE), Fault::BadAddress, zero);
    }

    /// Makes a variable's or temporary's place ready for a string.
    pub(super) fn prepare(&mut self, to: Mem, may_hold_none: bool) {
        if may_hold_none {
            self.b.store(Size::DW, to.base, to.off, Rhs::Imm(0));
        }
    }

    /// Whether a variable's place may say none.
    pub(super) fn var_may_be_none(&self, var: VarId) -> bool {
        self.places.vars.contains(&var)
    }

    /// Whether a temporary's place may say none.
    pub(super) fn temp_may_be_none(&self, temp: TempId) -> bool {
        self.places.temps.contains(&(self.unit_id, self.at, temp))
    }

    /// Copies the mark of a value that was assigned.
    pub(super) fn pass_value(&mut self, to: Mem, value: Value<'a>, id: ExprId) {
        if let Value::Text(Text::Mem(from)) = value {
            self.pass_none(to, from, id);
        }
    }

    /// Copies the mark of a string that was copied.
    pub(super) fn pass_none(&mut self, to: Mem, from: Mem, id: ExprId) {
        if !self.may_be_none(id) {
            return;
        }
        let first = self.b.load(Size::DW, from.base, from.off);
        let (none, join) = (self.b.cold(), self.b.block());
        self.b.branch(Cond::Eq, Width::W64, first, Rhs::Imm(NONE), none, join);
        self.b.start(none);
        self.b.store(Size::DW, to.base, to.off, Rhs::Imm(NONE));
        self.b.jump(join);
        self.b.start(join);
    }
}
