//! A clause's statements to IR: segments of actions to records, side effects in their order.

use super::shape::{Shapes, Texts, exprs_of, for_each_stmt, is_string, scalar_or_bytes, show};
use crate::check::stack::is_stack;
use crate::check::tree::*;
use crate::check::{Checked, Variant};
use crate::options::Options;
use probity_ir::{
    Action, AggId, ArrayId, BinOp, ClauseCode, ClauseId, Expr, ExprId, FieldId, HEADER, IntKind, KernelAct, Operand,
    Place, Program, Record, RecordId, RingKind, Scope, Show, Signature, Space, Stmt, TempId, UnitId, Val, Var, VarId,
};
use probity_syntax::{Sources, Span};
use std::collections::HashMap;

/// What a clause's code depends on.
#[derive(Clone, Copy)]
pub(super) struct Context<'a> {
    pub checked: &'a Checked,
    pub shapes: &'a Shapes,
    pub texts: &'a Texts,
    pub sources: &'a Sources,
    pub options: &'a Options,
    pub signature: &'a Signature,
    pub unit: UnitId,
    pub clause: ClauseId,
}

/// A record that is being put together.
struct Pending {
    values: Vec<ExprId>,
    fields: Vec<Val>,
    actions: Vec<Action>,
    control: bool,
    stop: bool,
    /// The first action's place.
    line: u32,
    action: u32,
}

/// What a statement may change.
#[derive(Clone, Copy, PartialEq)]
enum Changes {
    Var(VarId),
    Array(ArrayId),
    /// Anything; also stands for "the order of faults matters".
    All,
}

pub(super) struct ClauseLower<'a> {
    pub(super) cx: Context<'a>,
    pub(super) program: &'a mut Program,
    pub(super) exprs: Vec<Expr>,
    pub(super) temps: Vec<Val>,
    /// The innermost block is last.
    blocks: Vec<Vec<Stmt>>,
    /// The target's old value in compound assignments.
    pub(super) old: Vec<ExprId>,
    /// The values that [`TKind::Hold`] holds, by number.
    pub(super) held: HashMap<u32, ExprId>,
    pending: Option<Pending>,
    /// The handle of the speculation that records go to.
    spec: Option<ExprId>,
    /// Whether anything has been recorded speculatively.
    spec_recorded: bool,
    /// Whether the block has done something in the kernel, and whether it has recorded anything.
    acted: bool,
    recorded: bool,
    /// Conditions of blocks that last to the end of the statement's block.
    opened: Vec<ExprId>,
    action: u32,
    line: u32,
}

/// Lowers one variant of a clause. `probes` of the result is left empty.
pub(super) fn lower_clause<'a>(cx: Context<'a>, variant: &Variant, program: &'a mut Program) -> ClauseCode {
    let mut c = ClauseLower {
        cx,
        program,
        exprs: Vec::new(),
        temps: Vec::new(),
        blocks: vec![Vec::new()],
        old: Vec::new(),
        held: HashMap::new(),
        pending: None,
        spec: None,
        spec_recorded: false,
        acted: false,
        recorded: false,
        opened: Vec::new(),
        action: 0,
        line: 0,
    };
    // A predicate with side effects becomes a branch around the body, where statements can stand before it.
    let when = cx.signature.when.as_ref().map(|when| c.test(when));
    let effects = variant.predicate.as_ref().is_some_and(TExpr::has_effect);
    let mut predicate = when;
    if let Some(p) = &variant.predicate {
        if effects {
            c.mark(p.span);
            let cond = c.expr(p);
            c.blocks.push(Vec::new());
            c.block(&variant.body);
            c.flush();
            let then = c.blocks.pop().unwrap_or_default();
            c.push(Stmt::If { cond, then, otherwise: Vec::new() });
        } else {
            let asked = c.expr(p);
            predicate = Some(match when {
                Some(when) => c.add(Expr::And(when, asked)),
                None => asked,
            });
        }
    }
    if !effects {
        c.block(&variant.body);
        c.flush();
    }
    ClauseCode {
        clause: cx.clause,
        probes: Vec::new(),
        exprs: c.exprs,
        temps: c.temps,
        predicate,
        body: c.blocks.pop().unwrap_or_default(),
    }
}

/// Whether a statement puts something into a record.
fn records(stmt: &TStmt) -> bool {
    let mut any = false;
    for_each_stmt(std::slice::from_ref(stmt), &mut |s| any |= matches!(s.kind, TStmtKind::Action(_)));
    any
}

impl ClauseLower<'_> {
    pub(super) fn add(&mut self, e: Expr) -> ExprId {
        self.exprs.push(e);
        ExprId(self.exprs.len() as u32 - 1)
    }

    pub(super) fn constant(&mut self, v: i64) -> ExprId {
        self.add(Expr::Const(v))
    }

    pub(super) fn temp(&mut self) -> TempId {
        self.temps.push(Val::Int);
        TempId(self.temps.len() as u32 - 1)
    }

    fn push(&mut self, stmt: Stmt) {
        if let Some(block) = self.blocks.last_mut() {
            block.push(stmt);
        }
    }

    /// Adds a statement that may change what pending values read.
    pub(super) fn effect(&mut self, stmt: Stmt) {
        let changes = match &stmt {
            Stmt::SetVar(v, _) | Stmt::AddVar { var: v, .. } => Some(Changes::Var(*v)),
            Stmt::SetElem(a, ..) | Stmt::AddElem { array: a, .. } => Some(Changes::Array(*a)),
            Stmt::Store { .. } | Stmt::Copy { .. } | Stmt::CopyOut { .. } => Some(Changes::All),
            _ => None,
        };
        if let Some(changes) = changes {
            self.spill_pending(changes);
        }
        self.push(stmt);
    }

    /// Lowers into a block of its own. Pending values are evaluated before it: inside of it, they would have none where another block
    /// is taken.
    pub(super) fn in_block<T>(&mut self, f: impl FnOnce(&mut Self) -> T) -> (Vec<Stmt>, T) {
        self.spill_pending(Changes::All);
        self.blocks.push(Vec::new());
        let value = f(self);
        (self.blocks.pop().unwrap_or_default(), value)
    }

    pub(super) fn push_if(&mut self, cond: ExprId, then: Vec<Stmt>, otherwise: Vec<Stmt>) {
        self.push(Stmt::If { cond, then, otherwise });
    }

    /// Evaluates an expression here and now.
    pub(super) fn hold(&mut self, e: ExprId, val: Val) -> ExprId {
        if matches!(self.exprs[e.0 as usize], Expr::Const(_) | Expr::Str(_) | Expr::Temp(_)) {
            return e;
        }
        match val {
            Val::Int => {
                let t = self.temp();
                self.push(Stmt::SetTemp(t, e));
                self.add(Expr::Temp(t))
            }
            Val::Str { cap } => {
                let v = self.hidden_var(cap);
                self.push(Stmt::SetVar(v, e));
                self.add(Expr::Var(v))
            }
            Val::Bytes { .. } => {
                let v = self.hidden(val);
                self.push(Stmt::SetVar(v, e));
                self.add(Expr::Var(v))
            }
        }
    }

    /// A variable of this firing that has no name.
    pub(super) fn hidden_var(&mut self, cap: u32) -> VarId {
        self.hidden(Val::Str { cap })
    }

    fn hidden(&mut self, val: Val) -> VarId {
        self.program.vars.push(Var { name: String::new(), scope: Scope::Clause, val });
        VarId(self.program.vars.len() as u32 - 1)
    }

    fn mark(&mut self, span: Span) {
        let line = self.cx.sources.locate(span).map_or(self.line, |l| l.line);
        self.action += 1;
        self.line = line;
        self.push(Stmt::Mark { line, action: self.action });
    }

    // ------------------------------------------------------------------------------------------ statements

    fn block(&mut self, stmts: &[TStmt]) {
        let (outer, opened) = (self.spec, self.opened.len());
        let (acted, recorded) = (std::mem::take(&mut self.acted), std::mem::take(&mut self.recorded));
        self.statements(stmts);
        if self.acted && !self.recorded && self.spec.is_none() {
            // A firing that acts leaves a line, as one that records does.
            self.pend();
            self.flush();
        }
        (self.acted, self.recorded) = (acted, self.recorded | recorded);
        if outer.is_none() && self.spec.is_some() && !self.spec_recorded {
            // A firing that speculates leaves a record in any case, and with it a line.
            self.pend();
            self.flush();
        }
        while self.opened.len() > opened {
            let Some(cond) = self.opened.pop() else { break };
            let then = self.blocks.pop().unwrap_or_default();
            self.push(Stmt::If { cond, then, otherwise: Vec::new() });
        }
        self.spec = outer;
    }

    /// What follows in this block is run only where `cond` is not zero.
    fn open(&mut self, cond: ExprId) {
        self.opened.push(cond);
        self.blocks.push(Vec::new());
    }

    fn statements(&mut self, stmts: &[TStmt]) {
        for (i, stmt) in stmts.iter().enumerate() {
            self.stmt(stmt);
            // The record is written at its last action, not at the end of the clause.
            let next = stmts[i + 1..].iter().find(|s| records(s));
            if self.pending.is_some() && !next.is_some_and(|s| matches!(s.kind, TStmtKind::Action(_))) {
                self.flush();
            }
        }
    }

    fn stmt(&mut self, stmt: &TStmt) {
        match &stmt.kind {
            TStmtKind::If(cond, yes, no) => {
                if records(stmt) {
                    self.flush();
                } else if self.pending.is_some() {
                    self.spill_pending(Changes::All);
                }
                self.mark(stmt.span);
                let cond = self.expr(cond);
                let branch = |c: &mut Self, stmts: &[TStmt]| {
                    c.in_block(|c| {
                        let outer = c.pending.take();
                        c.block(stmts);
                        c.flush();
                        c.pending = outer;
                    })
                    .0
                };
                let then = branch(self, yes);
                let otherwise = branch(self, no);
                self.push(Stmt::If { cond, then, otherwise });
            }
            TStmtKind::Expr(e) => {
                self.spill_before(stmt);
                self.mark(stmt.span);
                self.discard(e);
            }
            TStmtKind::Aggregate { agg, key, args } => {
                self.spill_before(stmt);
                self.mark(stmt.span);
                let values = self.key_and_args(*agg, key, args);
                let (key, args) = values.split_at(key.len());
                self.push(Stmt::Aggregate { agg: *agg, key: key.to_vec(), args: args.to_vec() });
            }
            TStmtKind::Action(action) => {
                self.mark(stmt.span);
                self.action(action);
            }
        }
    }

    fn key_and_args(&mut self, agg: AggId, key: &[TExpr], args: &[TExpr]) -> Vec<ExprId> {
        let all: Vec<&TExpr> = key.iter().chain(args).collect();
        let mut out = Vec::new();
        for (i, e) in all.iter().enumerate() {
            let index = i < key.len() && self.cx.shapes.is_probe_index(agg.0 as usize, i);
            let later = all[i + 1..].iter().any(|e| e.has_effect());
            let (id, user) = match &e.kind {
                _ if index => (self.add(Expr::ProbeIndex), false),
                TKind::Symbol(what, a) if what.is_user() && i < key.len() => (self.expr(a), true),
                _ => (self.expr(e), false),
            };
            let val = self.val(e);
            let id = if later && !index { self.hold(id, val) } else { id };
            out.push(if user { self.add(Expr::UserAddr(id)) } else { id });
        }
        out
    }

    /// Begins a record unless one is begun.
    fn pend(&mut self) {
        let (line, action) = (self.line, self.action);
        let handle = self.spec;
        self.pending.get_or_insert_with(|| Pending {
            values: handle.into_iter().collect(),
            fields: handle.map(|_| Val::Int).into_iter().collect(),
            actions: Vec::new(),
            control: false,
            stop: false,
            line,
            action,
        });
    }

    /// Does something to a speculation; the temporary with the result.
    fn speculation(&mut self, act: KernelAct, arg: ExprId) -> ExprId {
        let dst = self.temp();
        self.push(Stmt::Act { act, dst: Some(dst), args: vec![arg] });
        self.add(Expr::Temp(dst))
    }

    /// Ends a speculation, and tells the consumer where it was active.
    fn end_speculation(&mut self, id: &TExpr, action: fn(Operand) -> Action) {
        self.flush();
        let id = self.expr(id);
        let handle = self.speculation(KernelAct::SpecEnd, id);
        let show = Show::Int { size: 8, signed: false, kind: IntKind::Number };
        let record = RecordId(self.program.records.len() as u32);
        self.program.records.push(Record {
            clause: self.cx.clause,
            unit: self.cx.unit,
            ring: RingKind::Data,
            fields: vec![Val::Int],
            actions: vec![action(Operand { field: FieldId(0), show })],
        });
        let tell = vec![Stmt::Emit { record, values: vec![handle] }];
        self.push(Stmt::If { cond: handle, then: tell, otherwise: Vec::new() });
    }

    fn action(&mut self, action: &TAction) {
        match action {
            TAction::Speculate(id) => {
                self.flush();
                let id = self.expr(id);
                let handle = self.speculation(KernelAct::SpecUse, id);
                self.spec = Some(handle);
                self.spec_recorded = false;
                return self.open(handle);
            }
            TAction::Commit(id) => return self.end_speculation(id, Action::Commit),
            TAction::Discard(id) => return self.end_speculation(id, Action::Discard),
            TAction::Kernel(act, args) => {
                self.flush();
                self.acted = true;
                let args = args.iter().map(|e| self.expr(e)).collect();
                return self.push(Stmt::Act { act: *act, dst: None, args });
            }
            _ => self.pend(),
        }
        let control = !matches!(
            action,
            TAction::Trace(_)
                | TAction::Printf(..)
                | TAction::Print { .. }
                | TAction::Tracemem { .. }
                | TAction::Pcap { .. }
                | TAction::Default
        );
        let lowered = match action {
            TAction::Trace(e) => Action::Trace(self.operand(e)),
            TAction::Printf(format, operands) => {
                let operands = operands.iter().map(|e| self.operand(e)).collect();
                Action::Printf { format: format.clone(), operands }
            }
            TAction::Printa(format, aggs) => Action::Printa { format: format.clone(), aggs: aggs.clone() },
            TAction::Print { value, object, ty } => self.print(value, *object, *ty),
            TAction::Tracemem { addr, space, len, fewer } => self.tracemem(addr, *space, *len, fewer.as_ref()),
            TAction::Exit(e) => Action::Exit(self.operand(e)),
            TAction::Clear(agg) => Action::Clear(*agg),
            TAction::Trunc(agg, count) => Action::Trunc(*agg, count.as_ref().map(|e| self.operand(e))),
            TAction::Normalize(agg, by) => Action::Normalize(*agg, self.operand(by)),
            TAction::Denormalize(agg) => Action::Denormalize(*agg),
            TAction::System(format, operands) => {
                let operands = operands.iter().map(|e| self.operand(e)).collect();
                Action::System { format: format.clone(), operands }
            }
            TAction::Freopen(format, operands) => {
                let operands = operands.iter().map(|e| self.operand(e)).collect();
                Action::Freopen { format: format.clone(), operands }
            }
            TAction::Ftruncate => Action::Ftruncate,
            TAction::Setopt(name, value) => Action::Setopt(self.whole(name), value.as_ref().map(|e| self.whole(e))),
            TAction::Pcap { skb, proto, len, data_len, data } => self.pcap(skb, proto, [*len, *data_len, *data]),
            TAction::Default
            | TAction::Kernel(..)
            | TAction::Speculate(_)
            | TAction::Commit(_)
            | TAction::Discard(_) => Action::Default,
        };
        if let Some(p) = &mut self.pending {
            p.control |= control;
            p.stop |= matches!(action, TAction::Exit(_));
            p.actions.push(lowered);
        }
    }

    /// `pcap`: at most `pcapsize` bytes of what the packet's buffer holds in one piece.
    fn pcap(&mut self, skb: &TExpr, proto: &TExpr, [len, data_len, data]: [u32; 3]) -> Action {
        let skb = self.expr(skb);
        let skb = self.hold(skb, Val::Int);
        let proto = self.operand(proto);
        let load = |c: &mut Self, off: u32, size| {
            let off = c.constant(off.into());
            let addr = c.add(Expr::Bin(BinOp::Add, skb, off));
            let value = c.add(Expr::Load { addr, size, signed: false, space: Space::Kernel });
            c.hold(value, Val::Int)
        };
        let (len, apart) = (load(self, len, 4), load(self, data_len, 4));
        let from = load(self, data, 8);
        let max = u32::try_from(self.cx.options.pcapsize).unwrap_or(u32::MAX);
        let here = self.add(Expr::Bin(BinOp::Sub, len, apart));
        let most = self.constant(max.into());
        let fits = self.add(Expr::Bin(BinOp::LtU, here, most));
        let captured = self.add(Expr::Cond(fits, here, most));
        let captured = self.hold(captured, Val::Int);
        let dst = self.temp();
        self.effect(Stmt::Alloc { dst, len: most });
        let addr = self.add(Expr::Temp(dst));
        self.effect(Stmt::Copy { to: addr, from, space: Space::Kernel, len: captured });
        let bytes = self.add(Expr::ReadBytes { addr, space: Space::Scratch, len: max });
        let number = Show::Int { size: 4, signed: false, kind: IntKind::Number };
        let len = Operand { field: self.field(len, Val::Int), show: number.clone() };
        let captured = Operand { field: self.field(captured, Val::Int), show: number };
        let data = Operand { field: self.field(bytes, Val::Bytes { len: max }), show: Show::Bytes { ty: None } };
        Action::Pcap { proto, len, captured, data }
    }

    /// Puts a value into the pending record.
    pub(super) fn operand(&mut self, e: &TExpr) -> Operand {
        let (id, val, show) = match &e.kind {
            TKind::ProbePart(part) => (self.add(Expr::ProbeIndex), Val::Int, Show::ProbePart(*part)),
            TKind::Symbol(what, a) => {
                let a = self.expr(a);
                if what.is_user() {
                    (self.add(Expr::UserAddr(a)), Val::Bytes { len: 16 }, Show::Symbol(*what))
                } else {
                    (a, Val::Int, Show::Symbol(*what))
                }
            }
            _ => {
                let (id, val) = self.expr_or_bytes(e);
                (id, val, show(&self.cx.checked.types, e.ty))
            }
        };
        Operand { field: self.field(id, val), show }
    }

    /// [`Self::operand`]; a constant is the consumer's in full, however long strings are.
    fn whole(&mut self, e: &TExpr) -> Operand {
        let TKind::Str(bytes) = &e.kind else { return self.operand(e) };
        let text: Vec<u8> = bytes.iter().copied().take_while(|b| *b != 0).collect();
        let cap = text.len() as u32 + 1;
        let id = self.add(Expr::Str(text));
        Operand { field: self.field(id, Val::Str { cap }), show: show(&self.cx.checked.types, e.ty) }
    }

    /// A field of the pending record.
    pub(super) fn field(&mut self, id: ExprId, val: Val) -> FieldId {
        match &mut self.pending {
            Some(p) => {
                p.values.push(id);
                p.fields.push(val);
                FieldId(p.fields.len() as u32 - 1)
            }
            None => FieldId(0),
        }
    }

    /// Writes the pending record.
    fn flush(&mut self) {
        let Some(p) = self.pending.take() else { return };
        self.recorded = true;
        if let Some(handle) = self.spec {
            let bytes = HEADER + p.fields[1..].iter().map(|&v| crate::layout::padded(v)).sum::<u32>();
            let room = self.speculation(KernelAct::SpecRoom { bytes }, handle);
            self.open(room);
            self.spec_recorded = true;
        }
        let record = RecordId(self.program.records.len() as u32);
        self.program.records.push(Record {
            clause: self.cx.clause,
            unit: self.cx.unit,
            ring: match (self.spec, p.control) {
                (Some(_), _) => RingKind::Speculation,
                (None, true) => RingKind::Control,
                (None, false) => RingKind::Data,
            },
            fields: p.fields,
            actions: p.actions,
        });
        if (p.line, p.action) != (self.line, self.action) {
            self.push(Stmt::Mark { line: p.line, action: p.action });
        }
        self.push(Stmt::Emit { record, values: p.values });
        if p.stop {
            self.push(Stmt::Stop);
        }
    }

    /// Before a statement that is no action: what it changes, or what may fault, is evaluated first.
    fn spill_before(&mut self, stmt: &TStmt) {
        if self.pending.is_some() && exprs_of(stmt).iter().any(|e| e.has_effect()) {
            self.spill_pending(Changes::All);
        }
    }

    fn spill_pending(&mut self, changes: Changes) {
        let Some(mut p) = self.pending.take() else { return };
        for (value, val) in p.values.iter_mut().zip(&p.fields) {
            if self.depends(*value, changes) {
                *value = self.hold(*value, *val);
            }
        }
        self.pending = Some(p);
    }

    /// Whether the value of an expression can be another after such a change.
    fn depends(&self, e: ExprId, changes: Changes) -> bool {
        let e = &self.exprs[e.0 as usize];
        let here = match e {
            // What was held already has no name and no address: no store reaches it.
            Expr::Var(v) => {
                let held = self.program.vars[v.0 as usize].name.is_empty();
                changes == Changes::Var(*v) || changes == Changes::All && !held
            }
            Expr::Elem(a, _) => changes == Changes::Array(*a) || changes == Changes::All,
            // A variable can be read by its address too.
            Expr::Load { .. } | Expr::ReadStr { .. } | Expr::ReadBytes { .. } => true,
            _ => false,
        };
        here || operands(e).into_iter().any(|o| self.depends(o, changes))
    }

    // ------------------------------------------------------------------------------------------ kinds

    /// The kind of a value.
    pub(super) fn val(&self, e: &TExpr) -> Val {
        if is_string(&self.cx.checked.types, e.ty) {
            Val::Str { cap: self.cx.shapes.cap(self.cx.texts, e) }
        } else if is_stack(&self.cx.checked.types, e.ty) {
            Val::Bytes { len: self.cx.checked.types.size(e.ty).map_or(0, |n| n as u32) }
        } else {
            scalar_or_bytes(&self.cx.checked.types, e.ty)
        }
    }
}

/// The operands of an IR expression.
fn operands(e: &Expr) -> Vec<ExprId> {
    match e {
        Expr::Elem(_, key) | Expr::Sub { args: key, .. } => key.clone(),
        Expr::Un(_, a) | Expr::Ext { of: a, .. } | Expr::StrLen(a) | Expr::ScratchAddr(a) => vec![*a],
        Expr::Load { addr: a, .. } | Expr::ReadBytes { addr: a, .. } => vec![*a],
        Expr::Part { of: a, .. } | Expr::UserAddr(a) => vec![*a],
        Expr::Bin(_, a, b) | Expr::And(a, b) | Expr::Or(a, b) | Expr::StrCmp(_, a, b) => vec![*a, *b],
        Expr::StrJoin { a, b, .. } => vec![*a, *b],
        Expr::AddrOf(Place::Elem(_, key)) => key.clone(),
        Expr::Bounded { index, .. } => vec![*index],
        Expr::CharAt { of, index } => vec![*of, *index],
        Expr::Cond(c, a, b) => vec![*c, *a, *b],
        Expr::ReadStr { addr, max, .. } => std::iter::once(*addr).chain(*max).collect(),
        _ => vec![],
    }
}
