//! Subroutines to IR: operands in order, and the state of `strtok`.

use super::clause::ClauseLower;
use crate::check::tree::*;
use probity_ir::{Expr, ExprId, Scope, Stmt, Sub, Val, Var, VarId};

/// The name of the variable that holds what `strtok` has not yet given; no name of D's.
const STRTOK: &str = "strtok()";

impl ClauseLower<'_> {
    pub(super) fn subroutine(&mut self, e: &TExpr, sub: Sub, args: &[TExpr]) -> ExprId {
        let cap = match self.val(e) {
            Val::Str { cap } => cap,
            _ => 0,
        };
        let mut ids = Vec::new();
        for (i, arg) in args.iter().enumerate() {
            let (mut id, val) = match arg.kind {
                TKind::Str(_) => (self.text_operand(arg), self.val(arg)),
                _ => self.expr_or_bytes(arg),
            };
            if args[i + 1..].iter().any(TExpr::has_effect) {
                id = self.hold(id, val);
            }
            ids.push(id);
        }
        let id = self.add(Expr::Sub { sub, args: ids, cap });
        // Each evaluation gives another number, and an expression's number may be used twice.
        if sub == Sub::Random { self.hold(id, Val::Int) } else { id }
    }

    /// A string as an operand: a constant that is longer than strings are is cut like any other.
    pub(super) fn text_operand(&mut self, e: &TExpr) -> ExprId {
        let TKind::Str(bytes) = &e.kind else { return self.expr(e) };
        let room = usize::try_from(self.cx.options.strsize).unwrap_or(usize::MAX).saturating_sub(1);
        let end = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
        self.add(Expr::Str(bytes[..end.min(room)].to_vec()))
    }

    /// A token is taken off the string that is left, which lasts as long as the firing does.
    pub(super) fn strtok(&mut self, e: &TExpr, s: Option<&TExpr>, delimiters: &TExpr) -> ExprId {
        let Val::Str { cap } = self.val(e) else { return self.constant(0) };
        let text = s.map(|s| {
            let id = self.expr(s);
            let val = self.val(s);
            if delimiters.has_effect() { self.hold(id, val) } else { id }
        });
        let delimiters = self.text_operand(delimiters);
        let left = self.strtok_state(cap);
        if let Some(text) = text {
            self.effect(Stmt::SetVar(left, text));
        }
        let left_now = self.add(Expr::Var(left));
        let token = self.add(Expr::Sub { sub: Sub::Token, args: vec![left_now, delimiters], cap });
        let token = self.hold(token, Val::Str { cap });
        let rest = self.add(Expr::Sub { sub: Sub::Rest, args: vec![left_now, delimiters], cap });
        self.effect(Stmt::SetVar(left, rest));
        token
    }

    fn strtok_state(&mut self, cap: u32) -> VarId {
        let vars = &mut self.program.vars;
        let at = vars.iter().position(|v| v.name == STRTOK && v.scope == Scope::Clause).unwrap_or_else(|| {
            vars.push(Var { name: STRTOK.into(), scope: Scope::Clause, val: Val::Str { cap } });
            vars.len() - 1
        });
        VarId(at as u32)
    }
}
