//! Making a failing program smaller: takes away clauses, statements and expressions while it still fails.

use crate::eval::Firing;
use probity_ir::{Dest, Expr, ExprId, Place, Program, Stmt, Val};

/// One thing to take away.
#[derive(Clone, Copy, Debug)]
enum Cut {
    /// The clause at this position of this unit.
    Clause(usize, usize),
    /// Its predicate.
    Predicate(usize, usize),
    /// The statement with this number, counted through nested ones; replaced by one branch or nothing.
    Stmt(usize, usize, usize, Instead),
    /// The expression with this number becomes an operand of it, or a constant.
    Expr(usize, usize, usize, Option<usize>),
}

#[derive(Clone, Copy, Debug)]
enum Instead {
    Nothing,
    Then,
    Otherwise,
}

/// The smallest program found for which `fails` holds, and firings that are enough.
pub fn shrink(
    mut program: Program,
    mut firings: Vec<Firing>,
    fails: impl Fn(&Program, &[Firing]) -> bool,
) -> (Program, Vec<Firing>) {
    let mut left = 3000;
    let mut size = firings.len() / 2;
    while size > 0 {
        let mut at = 0;
        while at < firings.len() {
            let mut fewer = firings.clone();
            fewer.drain(at..(at + size).min(fewer.len()));
            if fails(&program, &fewer) {
                firings = fewer;
            } else {
                at += size;
            }
        }
        size /= 2;
    }
    loop {
        let mut smaller = None;
        for cut in cuts(&program) {
            if left == 0 {
                break;
            }
            left -= 1;
            let candidate = apply(&program, cut);
            if candidate != program && fails(&candidate, &firings) {
                smaller = Some(candidate);
                break;
            }
        }
        match smaller {
            Some(candidate) => program = candidate,
            None => return (used(&program), firings),
        }
    }
}

fn count(body: &[Stmt]) -> usize {
    body.iter()
        .map(|s| match s {
            Stmt::If { then, otherwise, .. } => 1 + count(then) + count(otherwise),
            _ => 1,
        })
        .sum()
}

fn cuts(program: &Program) -> Vec<Cut> {
    let mut out = Vec::new();
    for (u, unit) in program.units.iter().enumerate() {
        out.extend((0..unit.clauses.len()).map(|c| Cut::Clause(u, c)));
    }
    for (u, unit) in program.units.iter().enumerate() {
        for (c, code) in unit.clauses.iter().enumerate() {
            for n in 0..count(&code.body) {
                out.extend([Instead::Nothing, Instead::Then, Instead::Otherwise].map(|i| Cut::Stmt(u, c, n, i)));
            }
            out.push(Cut::Predicate(u, c));
            for n in 0..code.exprs.len() {
                out.extend([None, Some(0), Some(1), Some(2)].map(|i| Cut::Expr(u, c, n, i)));
            }
        }
    }
    out
}

fn apply(program: &Program, cut: Cut) -> Program {
    let mut out = program.clone();
    match cut {
        Cut::Clause(u, c) => drop(out.units[u].clauses.remove(c)),
        Cut::Predicate(u, c) => out.units[u].clauses[c].predicate = None,
        Cut::Stmt(u, c, n, instead) => {
            let mut n = n;
            let body = std::mem::take(&mut out.units[u].clauses[c].body);
            out.units[u].clauses[c].body = without(body, &mut n, instead);
        }
        Cut::Expr(u, c, n, operand) => {
            let exprs = &program.units[u].clauses[c].exprs;
            let place = &mut out.units[u].clauses[c].exprs[n];
            let operands = match &exprs[n] {
                Expr::Un(_, a) | Expr::Ext { of: a, .. } | Expr::StrLen(a) | Expr::ScratchAddr(a) => vec![*a],
                Expr::Bin(_, a, b) | Expr::And(a, b) | Expr::Or(a, b) | Expr::StrCmp(_, a, b) => vec![*a, *b],
                Expr::Cond(a, b, c) => vec![*a, *b, *c],
                Expr::StrJoin { a, b, .. } => vec![*a, *b],
                Expr::Sub { args, .. } => args.clone(),
                _ => Vec::new(),
            };
            let string = is_string(program, exprs, n);
            match operand {
                None if string => *place = Expr::Str(b"a".to_vec()),
                // An address in a place is nothing else.
                _ if matches!(exprs[n], Expr::AddrOf(_))
                    || operands.iter().any(|o| matches!(exprs[o.0 as usize], Expr::AddrOf(_))) => {}
                None if !matches!(exprs[n], Expr::ReadBytes { .. } | Expr::Const(_) | Expr::Temp(_)) => {
                    *place = Expr::Const(1);
                }
                None => {}
                Some(i) => {
                    if let Some(id) = operands.get(i)
                        && is_string(program, exprs, id.0 as usize) == string
                    {
                        *place = exprs[id.0 as usize].clone();
                    }
                }
            }
        }
    }
    out
}

fn is_string(program: &Program, exprs: &[Expr], n: usize) -> bool {
    match &exprs[n] {
        Expr::Str(_) | Expr::Comm | Expr::ProbeText(_) | Expr::ReadStr { .. } | Expr::StrJoin { .. } => true,
        Expr::Sub { sub, .. } => sub.is_text(),
        Expr::Var(id) => matches!(program.vars[id.0 as usize].val, Val::Str { .. }),
        Expr::Elem(id, _) => matches!(program.arrays[id.0 as usize].val, Val::Str { .. }),
        Expr::Cond(_, a, _) => is_string(program, exprs, a.0 as usize),
        _ => false,
    }
}

/// The body without its `n`th statement. Copies into scratch memory stay: what reads them needs them.
fn without(body: Vec<Stmt>, n: &mut usize, instead: Instead) -> Vec<Stmt> {
    let mut out = Vec::new();
    for stmt in body {
        let here = *n == 0;
        *n = n.wrapping_sub(1);
        match (stmt, instead) {
            (stmt @ (Stmt::CopyIn { .. } | Stmt::Alloc { .. } | Stmt::Act { .. }), _) => out.push(stmt),
            (_, Instead::Nothing) if here => {}
            (Stmt::If { then, .. }, Instead::Then) if here => out.extend(then),
            (Stmt::If { otherwise, .. }, Instead::Otherwise) if here => out.extend(otherwise),
            (Stmt::If { cond, then, otherwise }, _) => {
                let then = without(then, n, instead);
                let otherwise = without(otherwise, n, instead);
                out.push(Stmt::If { cond, then, otherwise });
            }
            (stmt, _) => out.push(stmt),
        }
    }
    out
}

/// The program without expressions that nothing uses.
fn used(program: &Program) -> Program {
    let mut out = program.clone();
    for code in out.units.iter_mut().flat_map(|u| &mut u.clauses) {
        let old = std::mem::take(&mut code.exprs);
        let mut keep = Keep { old, new: Vec::new() };
        code.predicate = code.predicate.map(|p| keep.expr(p));
        keep.block(&mut code.body);
        code.exprs = keep.new;
    }
    out
}

struct Keep {
    old: Vec<Expr>,
    new: Vec<Expr>,
}

impl Keep {
    fn expr(&mut self, id: ExprId) -> ExprId {
        let mut e = self.old[id.0 as usize].clone();
        match &mut e {
            Expr::Elem(_, key) | Expr::Sub { args: key, .. } | Expr::AddrOf(Place::Elem(_, key)) => {
                key.iter_mut().for_each(|a| *a = self.expr(*a))
            }
            Expr::Part { of: a, .. } | Expr::UserAddr(a) => *a = self.expr(*a),
            Expr::Bounded { index, .. } => *index = self.expr(*index),
            Expr::CharAt { of, index } => {
                *of = self.expr(*of);
                *index = self.expr(*index);
            }
            Expr::Un(_, a) | Expr::Ext { of: a, .. } | Expr::StrLen(a) | Expr::ScratchAddr(a) => *a = self.expr(*a),
            Expr::Load { addr, .. } | Expr::ReadBytes { addr, .. } => *addr = self.expr(*addr),
            Expr::ReadStr { addr, max, .. } => {
                *addr = self.expr(*addr);
                *max = max.map(|m| self.expr(m));
            }
            Expr::Bin(_, a, b)
            | Expr::And(a, b)
            | Expr::Or(a, b)
            | Expr::StrCmp(_, a, b)
            | Expr::StrJoin { a, b, .. } => {
                *a = self.expr(*a);
                *b = self.expr(*b);
            }
            Expr::Cond(a, b, c) => {
                *a = self.expr(*a);
                *b = self.expr(*b);
                *c = self.expr(*c);
            }
            _ => {}
        }
        self.new.push(e);
        ExprId(self.new.len() as u32 - 1)
    }

    fn block(&mut self, body: &mut [Stmt]) {
        for stmt in body {
            match stmt {
                Stmt::SetTemp(_, a) | Stmt::SetVar(_, a) | Stmt::AddVar { by: a, .. } => *a = self.expr(*a),
                Stmt::SetElem(_, key, a) | Stmt::AddElem { key, by: a, .. } => {
                    key.iter_mut().for_each(|k| *k = self.expr(*k));
                    *a = self.expr(*a);
                }
                Stmt::Store { to, offset, value, .. } => {
                    if let Dest::Place(Place::Elem(_, key)) = to {
                        key.iter_mut().for_each(|k| *k = self.expr(*k));
                    }
                    *offset = self.expr(*offset);
                    *value = self.expr(*value);
                }
                Stmt::Alloc { len, .. } => *len = self.expr(*len),
                Stmt::Copy { to, from, len, .. } | Stmt::CopyOut { to, from, len, .. } => {
                    *from = self.expr(*from);
                    *to = self.expr(*to);
                    *len = self.expr(*len);
                }
                Stmt::CopyIn { addr, len, .. } => {
                    *addr = self.expr(*addr);
                    *len = self.expr(*len);
                }
                Stmt::Aggregate { key, args, .. } => key.iter_mut().chain(args).for_each(|k| *k = self.expr(*k)),
                Stmt::Act { args, .. } => args.iter_mut().for_each(|k| *k = self.expr(*k)),
                Stmt::Emit { values, .. } => values.iter_mut().for_each(|k| *k = self.expr(*k)),
                Stmt::If { cond, then, otherwise } => {
                    *cond = self.expr(*cond);
                    self.block(then);
                    self.block(otherwise);
                }
                Stmt::Stop | Stmt::Mark { .. } => {}
            }
        }
    }
}
