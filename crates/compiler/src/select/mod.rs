//! Instruction selection: a unit's clauses to blocks of BPF-shaped instructions on virtual registers.
//!
//! This file owns the frame of a program: when it may run, which probe fired, which clauses apply, what happens between
//! clauses. The others: `expr` (integers and conditions), `arith`, `builtin`, `location`, `memory`, `text` (strings), `key`,
//! `var`, `array`, `agg`, `record`, `scratch`, `probes` (tables by probe); `build` is what all write through.

mod agg;
mod alloca;
mod arith;
mod array;
mod build;
mod builtin;
mod expr;
mod key;
mod location;
mod memory;
mod none;
mod place;
pub mod probes;
mod record;
mod scratch;
mod spec;
mod stack;
mod sub;
mod text;
mod var;
mod vtime;

use crate::codegen::CodegenError;
use crate::fold::operands;
use crate::layout::{Plan, STATE_WORD};
use crate::vcode::{B, Code, Rhs, Slot, V};
pub use alloca::NULL;
use build::{Build, Name};
pub use none::NONE;
use probity_bpf::helpers::Helper;
use probity_bpf::insn::{AluOp, Cond, Size, Width};
use probity_ir::{
    Builtin, ClauseCode, Drop, Expr, ExprId, Location, Phase, Program, STARTING, Scope, Selector, Stmt, TempId, Unit,
    Val, VarId,
};
use scratch::{Need, Scratch};
use std::collections::{BTreeMap, HashMap};
use text::Mem;

/// What may be put on the 512 bytes of stack; larger things go to scratch memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Largest string.
    pub string: u32,
    /// Largest key.
    pub key: u32,
    /// Whether integers in temporaries may live in registers and be spilled; else they go to scratch memory.
    pub temps: bool,
}

/// The limits to try one after another, until what registers spill fits too.
pub const LIMITS: [Limits; 4] = [
    Limits { string: 64, key: 192, temps: true },
    Limits { string: 24, key: 64, temps: true },
    Limits { string: 16, key: 16, temps: true },
    Limits { string: 16, key: 16, temps: false },
];

/// Generates a unit's code.
pub fn select(program: &Program, unit: usize, plan: &mut Plan, limits: Limits) -> Result<Code, CodegenError> {
    // Which clauses need scratch memory shows only while their code is made: where the guess was wrong, again.
    let mut needs = BTreeMap::new();
    loop {
        let mut s = Select::new(program, unit, plan, limits, needs.clone());
        s.unit();
        if let Some(error) = s.error {
            return Err(error);
        }
        if s.needs == needs {
            return Ok(s.b.finish());
        }
        needs = s.needs;
    }
}

/// Where a fault leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FaultTo {
    /// Out of the program, silently: which probe fired could not be found out.
    Exit(B),
    /// To the clause's fault record.
    Clause(B),
}

/// What must be given back before a fault ends the clause.
#[derive(Clone, Copy, Debug)]
enum Held {
    /// A reserved record.
    Record(V),
    /// A claimed scratch slot.
    Scratch(Scratch),
}

/// The firing probe's index in its unit.
#[derive(Clone, Copy, Debug)]
enum Index {
    Const(u32),
    Reg(V),
}

struct Select<'a> {
    program: &'a Program,
    unit: &'a Unit,
    unit_id: usize,
    plan: &'a mut Plan,
    limits: Limits,
    b: Build,
    ctx: V,
    index: Index,
    /// Position of the current clause in the unit.
    at: usize,
    clause: &'a ClauseCode,
    in_predicate: bool,
    fault_to: FaultTo,
    fault_info: Name,
    fault_code: Name,
    fault_value: Name,
    held: Vec<Held>,
    action: u32,
    scratch: Option<Scratch>,
    needs: BTreeMap<usize, Need>,
    /// Next free byte of the scratch slot.
    scratch_top: u32,
    /// Pieces of stack to give back at the end of the statement.
    pieces: Vec<Slot>,
    /// Where the current clause's strings in temporaries are.
    temps: HashMap<TempId, Mem>,
    /// Where the firing's strings in `this->` variables are.
    this_strings: HashMap<VarId, Mem>,
    /// Where the executable's name is put.
    comm: Option<Slot>,
    /// How much of the scratch memory the clause has taken.
    top: alloca::Top,
    top_name: Name,
    /// The thread's storage and the firing's `vtimestamp`.
    vtime: Option<(V, V)>,
    /// The places that may hold none, and whether the string that is asked for next may be that.
    places: none::Places,
    none_ok: bool,
    /// Whether a fault ends tracing, because ERROR surely calls `exit()`.
    error_stops: bool,
    /// Whether the unit is one of [`probity_ir::Upkeep`].
    upkeep: bool,
    error: Option<CodegenError>,
}

impl<'a> Select<'a> {
    fn new(
        program: &'a Program,
        unit_id: usize,
        plan: &'a mut Plan,
        limits: Limits,
        needs: BTreeMap<usize, Need>,
    ) -> Select<'a> {
        static NO_CLAUSE: ClauseCode = ClauseCode {
            clause: probity_ir::ClauseId(0),
            probes: Vec::new(),
            exprs: Vec::new(),
            temps: Vec::new(),
            predicate: None,
            body: Vec::new(),
        };
        let mut b = Build::new();
        let ctx = b.entry();
        let (fault_info, fault_code, fault_value) = (b.name(), b.name(), b.name());
        let top_name = b.name();
        Select {
            program,
            unit: &program.units[unit_id],
            unit_id,
            plan,
            limits,
            b,
            ctx,
            index: Index::Const(0),
            at: 0,
            clause: &NO_CLAUSE,
            in_predicate: false,
            fault_to: FaultTo::Exit(B(0)),
            fault_info,
            fault_code,
            fault_value,
            held: Vec::new(),
            action: 0,
            scratch: None,
            needs,
            scratch_top: 0,
            pieces: Vec::new(),
            temps: HashMap::new(),
            this_strings: HashMap::new(),
            comm: None,
            top: alloca::Top::Known(alloca::NULL),
            top_name,
            vtime: None,
            places: none::Places::of(program),
            none_ok: false,
            upkeep: program.upkeep.as_ref().is_some_and(|u| u.units.contains(&probity_ir::UnitId(unit_id as u32))),
            error_stops: error_stops(program) && program.units[unit_id].phase != Phase::Always,
            error: None,
        }
    }

    fn fail(&mut self, message: String) {
        let line = Some(self.b.line).filter(|&l| l != 0);
        self.error.get_or_insert(CodegenError { message, line });
    }

    fn expr(&self, id: ExprId) -> &'a Expr {
        &self.clause.exprs[id.0 as usize]
    }

    /// What kind of value an expression has.
    fn val(&self, id: ExprId) -> Val {
        match self.expr(id) {
            Expr::Str(bytes) => Val::Str { cap: crate::fold::text(bytes).len() as u32 + 1 },
            Expr::Comm => Val::Str { cap: 16 },
            Expr::ProbeText(part) => Val::Str { cap: self.probe_text_cap(*part) },
            Expr::ReadStr { cap, .. } | Expr::StrJoin { cap, .. } => Val::Str { cap: (*cap).max(1) },
            Expr::Sub { sub, cap, .. } if sub.is_text() => Val::Str { cap: (*cap).max(1) },
            Expr::ReadBytes { len, .. } => Val::Bytes { len: *len },
            Expr::Stack(stack) => Val::Bytes { len: stack.size() },
            Expr::UserAddr(_) => Val::Bytes { len: 16 },
            Expr::Temp(t) => self.clause.temps[t.0 as usize],
            Expr::Var(v) => self.program.vars[v.0 as usize].val,
            Expr::Elem(a, _) => self.program.arrays[a.0 as usize].val,
            Expr::Cond(_, a, b) => match (self.val(*a), self.val(*b)) {
                (Val::Str { cap: x }, Val::Str { cap: y }) => Val::Str { cap: x.max(y) },
                (val, _) => val,
            },
            _ => Val::Int,
        }
    }

    // The program.

    fn unit(&mut self) {
        let exit = self.b.block();
        self.fault_to = FaultTo::Exit(exit);
        if self.program.oncpu == Some(probity_ir::UnitId(self.unit_id as u32)) {
            self.account(exit);
            self.b.start(exit);
            return self.b.ret();
        }
        if matches!(self.unit.phase, Phase::Begin | Phase::Run | Phase::Timer) && !self.upkeep {
            self.check_state(exit);
        }
        if let (Phase::Run | Phase::Timer, Some(only), false) = (self.unit.phase, self.program.cpu, self.upkeep) {
            let (cpu, here) = (self.cpu(), self.b.block());
            let only = self.b.rhs(only.into());
            self.b.branch(Cond::Eq, Width::W64, cpu, only, here, exit);
            self.b.start(here);
        }
        let masks = self.select_probe(exit);
        let done = self.b.block();
        if self.needs.contains_key(&scratch::UNIT) {
            let lost = self.b.cold();
            self.claim(lost);
            let go_on = self.b.here();
            self.b.start(lost);
            self.count_drop(Drop::Scratch);
            self.b.jump(exit);
            self.resume(go_on);
        }
        self.start_vtime(exit);
        self.place_this_strings();
        self.hoist();

        let mut stopped = false;
        for (at, clause) in self.unit.clauses.iter().enumerate() {
            self.at = at;
            self.clause = clause;
            self.action = 0;
            self.b.line = self.program.clauses.get(clause.clause.0 as usize).map_or(0, |c| c.line);
            if stopped {
                self.check_state(done);
            }
            stopped |= has_stop(&clause.body) || self.error_stops;
            let next = self.b.block();
            self.check_applies(&masks, next);
            self.clause(next);
            self.b.start(next);
        }
        self.b.line = 0;
        self.b.jump(done);
        self.b.start(done);
        self.end_vtime();
        if let Some(scratch) = self.scratch.take() {
            self.release(scratch);
        }
        self.b.jump(exit);
        self.b.start(exit);
        self.b.ret();
    }

    /// Leaves when the state word says that no clause may begin.
    fn check_state(&mut self, exit: B) {
        let (base, off) = self.b.map_place(self.plan.layout.state_map, STATE_WORD);
        let word = self.b.load(Size::DW, base, off);
        let go_on = self.b.block();
        match self.unit.phase {
            Phase::Run | Phase::Timer => {
                self.b.branch(Cond::Slt, Width::W64, word, Rhs::Imm(0), exit, go_on);
            }
            Phase::Begin => self.b.branch(Cond::Ne, Width::W64, word, Rhs::Imm(STARTING as i32), exit, go_on),
            Phase::End | Phase::Always => self.b.jump(go_on),
        }
        self.b.start(go_on);
    }

    /// Goes on building in a block that was left unfinished to build another. Nothing has been remembered in between that
    /// could be taken for known here, since the other block does not dominate this one.
    fn resume(&mut self, block: B) {
        self.b.resume(block);
    }

    /// Computes what several clauses use before the first of them, so that it is computed once.
    fn hoist(&mut self) {
        let unit = self.unit;
        let clauses = &unit.clauses;
        if clauses.len() < 2 {
            return;
        }
        // Two clauses that no probe has in common (variants of one, mostly) share nothing.
        let meet = |a: &ClauseCode, b: &ClauseCode| {
            let all = a.probes.is_empty() || b.probes.is_empty();
            all || a.probes.iter().any(|i| b.probes.binary_search(i).is_ok())
        };
        let shared = |wanted: &[Expr], always: bool| {
            // Expressions that nothing uses are not in the arena after folding, or do little harm.
            let users: Vec<&ClauseCode> =
                clauses.iter().filter(|c| c.exprs.iter().any(|e| wanted.contains(e))).collect();
            users.iter().enumerate().any(|(at, a)| {
                users[..at].iter().any(|b| (!always || always_uses(a, wanted) || always_uses(b, wanted)) && meet(a, b))
            })
        };
        // Where predicates may spare the call, each clause makes its own; but the time is the same in all of them.
        let builtins = |all: &[Builtin]| shared(&all.iter().map(|&b| Expr::Builtin(b)).collect::<Vec<_>>(), true);
        if builtins(&[Builtin::Pid, Builtin::Tid]) {
            self.call_once(Helper::GetCurrentPidTgid);
        }
        if builtins(&[Builtin::Uid, Builtin::Gid]) {
            self.call_once(Helper::GetCurrentUidGid);
        }
        if shared(&[Expr::Builtin(Builtin::Timestamp)], false) {
            self.time();
        }
        if builtins(&[Builtin::Cpu]) {
            self.cpu();
        }
        if builtins(&[Builtin::CurThread]) {
            self.call_once(Helper::GetCurrentTask);
        }
        if shared(&[Expr::Comm], true) {
            self.comm();
        }
    }

    fn clause(&mut self, next: B) {
        let fault = self.b.cold();
        self.fault_to = FaultTo::Clause(fault);
        self.temps.clear();
        self.reset_top();
        let need = self.needs.get(&self.at).copied();
        let unit_scratch = self.scratch.is_some();
        if !unit_scratch && need == Some(Need::Predicate) {
            self.claim_for_clause(next);
        }
        let kept = self.scratch.map_or(0, |s| s.keep);
        self.end_statement();
        self.one_time();

        let skip = match self.scratch {
            // A slot claimed for the predicate is given back when the predicate does not hold.
            Some(_) if !unit_scratch => self.b.block(),
            _ => next,
        };
        if let Some(predicate) = self.clause.predicate {
            let body = self.b.block();
            self.in_predicate = true;
            self.branch(predicate, body, skip);
            self.end_statement();
            self.in_predicate = false;
            if skip != next {
                self.b.start(skip);
                if let Some(scratch) = self.scratch {
                    self.release(scratch);
                }
                self.b.jump(next);
            }
            self.b.start(body);
        }
        if self.scratch.is_none() && need == Some(Need::Body) {
            self.claim_for_clause(next);
        }
        self.place_temps();
        self.body(&self.clause.body);
        if !unit_scratch && let Some(scratch) = self.scratch.take() {
            self.held.clear();
            self.release(scratch);
        }
        if let Some(scratch) = &mut self.scratch {
            scratch.keep = kept;
        }
        self.b.jump(next);
        self.b.start(fault);
        if self.b.reachable() {
            if self.upkeep {
                self.count_drop(Drop::Dynamic);
            } else {
                self.fault_record();
            }
            self.b.jump(next);
        } else {
            self.b.ret();
        }
    }

    /// The time is one value for all its uses in a firing: where they are on different paths, it is taken before them.
    fn one_time(&mut self) {
        let is_time = |e: &Expr| matches!(e, Expr::Builtin(Builtin::Timestamp));
        let uses = self.clause.exprs.iter().filter(|e| is_time(e)).count();
        if uses > 1 && has_paths(self.clause) {
            self.time();
        }
    }

    // Statements.

    fn body(&mut self, body: &'a [Stmt]) {
        for stmt in body {
            self.statement(stmt);
            self.end_statement();
        }
    }

    /// Sets an integer temporary.
    fn set_temp(&mut self, t: TempId, v: V) {
        match self.temps.get(&t) {
            Some(&mem) => {
                let v = self.b.scalar(v);
                self.b.store(Size::DW, mem.base, mem.off, Rhs::Reg(v));
            }
            None => self.b.set(Name::Temp(self.at as u32, t), v),
        }
    }

    /// The value of an integer temporary.
    fn temp(&mut self, t: TempId) -> V {
        match self.temps.get(&t) {
            Some(&mem) => self.b.load(Size::DW, mem.base, mem.off),
            None => self.b.get(Name::Temp(self.at as u32, t)),
        }
    }

    fn statement(&mut self, stmt: &'a Stmt) {
        match stmt {
            Stmt::SetTemp(t, e) => match self.clause.temps[t.0 as usize] {
                Val::Int => {
                    let v = self.int(*e);
                    self.set_temp(*t, v);
                }
                _ => self.set_temp_string(*t, *e),
            },
            Stmt::SetVar(var, e) => self.set_var(*var, *e),
            Stmt::AddVar { var, by, old } => self.add_var(*var, *by, *old),
            Stmt::SetElem(array, key, e) => self.set_elem(*array, key, *e),
            Stmt::AddElem { array, key, by, old } => self.add_elem(*array, key, *by, *old),
            Stmt::Alloc { dst, len } => self.alloc(*dst, *len),
            Stmt::CopyIn { dst, addr, len, space } => self.copy_in(*dst, *addr, *len, *space),
            Stmt::Copy { to, from, space, len } => self.copy_to(*to, *from, *space, *len),
            Stmt::CopyOut { to, from, space, len, text } => self.copy_out(*to, *from, *space, *len, *text),
            Stmt::Store { to, offset, value, size } => self.store(to, *offset, *value, *size),
            Stmt::Aggregate { agg, key, args } => self.aggregate(*agg, key, args),
            Stmt::Emit { record, values } => self.emit(*record, values),
            Stmt::Act { act, dst, args } => self.act(*act, *dst, args),
            Stmt::Stop => {
                let (base, off) = self.b.map_place(self.plan.layout.state_map, STATE_WORD);
                self.b.store(Size::DW, base, off, Rhs::Imm(probity_ir::STOPPING as i32));
            }
            Stmt::If { cond, then, otherwise } => {
                let (yes, join) = (self.b.block(), self.b.block());
                let no = if otherwise.is_empty() { join } else { self.b.block() };
                self.branch(*cond, yes, no);
                self.end_statement();
                // A mark in a branch ends with the branch.
                let mark = (self.b.line, self.action);
                let before = self.top;
                self.b.start(yes);
                self.body(then);
                self.b.jump(join);
                (self.b.line, self.action) = mark;
                let after = std::mem::replace(&mut self.top, before);
                if no != join {
                    self.b.start(no);
                    self.body(otherwise);
                    self.b.jump(join);
                    (self.b.line, self.action) = mark;
                }
                self.b.start(join);
                self.join_top(after);
            }
            Stmt::Mark { line, action } => {
                self.b.line = *line;
                self.action = *action;
            }
        }
    }

    /// Gives back what the statement had for itself.
    fn end_statement(&mut self) {
        for slot in std::mem::take(&mut self.pieces) {
            self.b.free(slot);
        }
        if let Some(scratch) = self.scratch {
            self.scratch_top = scratch.keep.max(self.scratch_base());
        }
    }

    // Faults and drops.

    /// Ends the clause with a fault; building goes on in a block that nothing leads to.
    fn fault(&mut self, code: probity_ir::Fault, value: V) {
        match self.fault_to {
            FaultTo::Exit(exit) => self.b.jump(exit),
            FaultTo::Clause(block) => {
                let info = i64::from(self.action) | i64::from(self.b.line) << 32;
                let info = self.b.imm(info);
                let code = self.b.imm(code as i64);
                for held in self.held.clone().into_iter().rev() {
                    match held {
                        Held::Record(record) => {
                            let flags = self.b.imm(record::NO_WAKEUP);
                            self.b.call_void(Helper::RingbufDiscard, &[record, flags]);
                        }
                        Held::Scratch(scratch) => self.release(scratch),
                    }
                }
                self.b.set(self.fault_info, info);
                self.b.set(self.fault_code, code);
                self.b.set(self.fault_value, value);
                self.b.jump(block);
            }
        }
        let nowhere = self.b.cold();
        self.b.start(nowhere);
    }

    /// Faults if `a cond b`.
    fn fault_if(&mut self, cond: Cond, a: V, b: Rhs, code: probity_ir::Fault, value: V) {
        let (bad, good) = (self.b.cold(), self.b.block());
        self.b.branch(cond, Width::W64, a, b, bad, good);
        self.b.start(bad);
        self.fault(code, value);
        self.b.ret();
        self.b.start(good);
    }

    /// Counts a drop on this CPU.
    fn count_drop(&mut self, cause: Drop) {
        let cpu = self.cpu_row();
        let row = cause as u32 * self.plan.layout.ncpu * 8;
        let addr = self.b.map_value(self.plan.layout.drops_map, row);
        let off = self.b.alu(AluOp::Lsh, cpu, Rhs::Imm(3));
        let addr = self.b.add_ptr(addr, Rhs::Reg(off));
        let one = self.b.imm(1);
        self.b.atomic(probity_bpf::insn::AtomicOp::Add, crate::vcode::Base::Reg(addr), 0, one);
    }
}

/// Whether a clause of ERROR calls `exit()` in any case. ERROR is run by the consumer, a little later; but no clause after
/// the fault is to begin.
fn error_stops(program: &Program) -> bool {
    let always = program.units.iter().filter(|u| u.phase == Phase::Always);
    let surely = |c: &ClauseCode| c.predicate.is_none() && c.body.iter().any(|s| matches!(s, Stmt::Stop));
    always.flat_map(|u| &u.clauses).any(surely)
}

fn has_stop(body: &[Stmt]) -> bool {
    body.iter().any(|s| match s {
        Stmt::Stop => true,
        Stmt::If { then, otherwise, .. } => has_stop(then) || has_stop(otherwise),
        _ => false,
    })
}

/// Whether a clause evaluates one of these expressions whenever it is looked at.
fn always_uses(clause: &ClauseCode, wanted: &[Expr]) -> bool {
    fn eager(exprs: &[Expr], wanted: &[Expr], id: ExprId) -> bool {
        let e = &exprs[id.0 as usize];
        let first = match e {
            Expr::And(a, _) | Expr::Or(a, _) | Expr::Cond(a, ..) => vec![*a],
            _ => operands(e),
        };
        wanted.contains(e) || first.into_iter().any(|o| eager(exprs, wanted, o))
    }
    let uses = |id| eager(&clause.exprs, wanted, id);
    match clause.predicate {
        Some(predicate) => uses(predicate),
        None => clause.body.iter().any(|stmt| crate::fold::stmt_exprs(stmt).into_iter().any(uses)),
    }
}

/// Whether some of a clause's code is run only on some paths.
fn has_paths(clause: &ClauseCode) -> bool {
    let branchy = |e: &Expr| matches!(e, Expr::Cond(..) | Expr::And(..) | Expr::Or(..));
    clause.exprs.iter().any(branchy) || clause.body.iter().any(|s| matches!(s, Stmt::If { .. }))
}

/// Whether an expression makes calls, so that values held across it cost a saved register or a spill.
fn calls(exprs: &[Expr], id: ExprId) -> bool {
    let e = &exprs[id.0 as usize];
    let own = match e {
        Expr::Const(_) | Expr::Temp(_) | Expr::Un(..) | Expr::Bin(..) | Expr::Ext { .. } | Expr::Str(_) => false,
        Expr::Cond(..) | Expr::And(..) | Expr::Or(..) | Expr::ProbeIndex => false,
        Expr::Loc(loc) => !matches!(loc, Location::Ctx { .. } | Location::Reg { .. } | Location::Value(_)),
        _ => true,
    };
    own || operands(e).iter().any(|&o| calls(exprs, o))
}

/// Whether a unit finds its probe by a number, so that records need the index.
fn has_index(selector: &Selector) -> bool {
    !matches!(selector, Selector::One)
}

/// Whether a variable lives in thread storage.
fn is_thread(program: &Program, var: VarId) -> bool {
    program.vars[var.0 as usize].scope == Scope::Thread
}
