//! What can be said about a program's records before any is read: which strings may have been cut, and which records
//! continue the line of an earlier one of the same firing.

use probity_ir::{AggId, ClauseCode, Expr, ExprId, Program, RecordId, Stmt, Sub, Val};

/// What is known about one record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordPlan {
    /// By field: a string of full length that may have been cut, not a constant of that length.
    pub cut: Vec<bool>,
    /// An earlier record of the same firing always precedes it, so that its line continues that one's.
    pub continues: bool,
    /// A later record of the same firing may follow, so that its line is not to be ended yet.
    pub open: bool,
}

/// What is known about one aggregation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AggPlan {
    /// By key member: a string of full length may have been cut.
    pub cut: Vec<bool>,
}

/// What is known about a program's records and aggregations; computed once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// By [`RecordId`].
    pub records: Vec<RecordPlan>,
    /// By [`AggId`].
    pub aggs: Vec<AggPlan>,
}

impl Plan {
    /// Reads the program's code.
    pub fn new(program: &Program) -> Plan {
        let mut plan = Plan {
            records: program
                .records
                .iter()
                .map(|r| RecordPlan { cut: vec![false; r.fields.len()], ..RecordPlan::default() })
                .collect(),
            aggs: program.aggs.iter().map(|a| AggPlan { cut: vec![false; a.key.len()] }).collect(),
        };
        let cuttable = Cuttable::of(program);
        for unit in &program.units {
            for clause in &unit.clauses {
                plan.walk(&cuttable.within(clause), &clause.body, false, false);
            }
        }
        plan
    }

    /// Walks statements in order. `before`: a record always precedes them; `after`: one may follow them. Returns whether they always
    /// write a record.
    fn walk(&mut self, cx: &Within, body: &[Stmt], before: bool, after: bool) -> bool {
        let mut emitted = false;
        for (at, stmt) in body.iter().enumerate() {
            let later = after || body[at + 1..].iter().any(emits);
            match stmt {
                Stmt::Emit { record, values } => {
                    self.emit(*record, cx, values, before || emitted, later);
                    emitted = true;
                }
                Stmt::Aggregate { agg, key, .. } => self.aggregate(*agg, cx, key),
                Stmt::If { then, otherwise, .. } => {
                    let a = self.walk(cx, then, before || emitted, later);
                    let b = self.walk(cx, otherwise, before || emitted, later);
                    emitted |= a && b;
                }
                _ => {}
            }
        }
        emitted
    }

    fn emit(&mut self, record: RecordId, cx: &Within, values: &[ExprId], continues: bool, open: bool) {
        let Some(plan) = self.records.get_mut(record.0 as usize) else { return };
        plan.continues = continues;
        plan.open = open;
        let fields = cx.outside.program.records.get(record.0 as usize).map_or(&[][..], |r| &r.fields);
        for ((cut, &value), &field) in plan.cut.iter_mut().zip(values).zip(fields) {
            *cut |= cx.may_be_cut(value) || cx.too_long(value, field);
        }
    }

    fn aggregate(&mut self, agg: AggId, cx: &Within, key: &[ExprId]) {
        let Some(plan) = self.aggs.get_mut(agg.0 as usize) else { return };
        let members = cx.outside.program.aggs.get(agg.0 as usize).map_or(&[][..], |a| &a.key);
        for ((cut, &value), (member, _)) in plan.cut.iter_mut().zip(key).zip(members) {
            *cut |= cx.may_be_cut(value) || cx.too_long(value, *member);
        }
    }
}

fn emits(stmt: &Stmt) -> bool {
    match stmt {
        Stmt::Emit { .. } => true,
        Stmt::If { then, otherwise, .. } => then.iter().chain(otherwise).any(emits),
        _ => false,
    }
}

/// Where a string that was cut may be kept: a variable is as wide as what the program puts into it, so only what comes from
/// outside, or from a wider place, is cut.
struct Cuttable<'a> {
    program: &'a Program,
    vars: Vec<bool>,
    arrays: Vec<bool>,
}

/// The same with the temporaries of one clause.
struct Within<'a> {
    outside: &'a Cuttable<'a>,
    code: &'a ClauseCode,
    temps: Vec<bool>,
}

impl<'a> Cuttable<'a> {
    /// Looks for assignments that may cut, until no more are found: what is put into one variable may go on into another.
    fn of(program: &'a Program) -> Cuttable<'a> {
        let mut found =
            Cuttable { program, vars: vec![false; program.vars.len()], arrays: vec![false; program.arrays.len()] };
        loop {
            let (mut vars, mut arrays) = (found.vars.clone(), found.arrays.clone());
            for code in program.units.iter().flat_map(|u| &u.clauses) {
                let cx = found.within(code);
                assignments(&code.body, &mut |stmt| match stmt {
                    Stmt::SetVar(var, e) => {
                        let n = var.0 as usize;
                        if let (Some(cut), Some(def)) = (vars.get_mut(n), program.vars.get(n)) {
                            *cut |= cx.may_be_cut(*e) || cx.too_long(*e, def.val);
                        }
                    }
                    Stmt::SetElem(array, _, e) => {
                        let n = array.0 as usize;
                        if let (Some(cut), Some(def)) = (arrays.get_mut(n), program.arrays.get(n)) {
                            *cut |= cx.may_be_cut(*e) || cx.too_long(*e, def.val);
                        }
                    }
                    _ => {}
                });
            }
            if vars == found.vars && arrays == found.arrays {
                return found;
            }
            (found.vars, found.arrays) = (vars, arrays);
        }
    }

    fn within(&'a self, code: &'a ClauseCode) -> Within<'a> {
        let mut cx = Within { outside: self, code, temps: vec![false; code.temps.len()] };
        loop {
            let mut temps = cx.temps.clone();
            assignments(&code.body, &mut |stmt| {
                if let Stmt::SetTemp(temp, e) = stmt
                    && let Some(cut) = temps.get_mut(temp.0 as usize)
                {
                    *cut |= cx.may_be_cut(*e);
                }
            });
            if temps == cx.temps {
                return cx;
            }
            cx.temps = temps;
        }
    }
}

impl Within<'_> {
    /// Whether a string that fills its capacity may have lost something.
    fn may_be_cut(&self, id: ExprId) -> bool {
        self.cut_below(id, 64)
    }

    fn cut_below(&self, id: ExprId, depth: u32) -> bool {
        let Some(expr) = self.code.exprs.get(id.0 as usize) else { return false };
        match expr {
            Expr::Str(_) | Expr::ProbeText(_) => false,
            Expr::Cond(_, a, b) if depth > 0 => self.cut_below(*a, depth - 1) || self.cut_below(*b, depth - 1),
            // A number's text, an address's: never longer than these.
            Expr::Sub { sub: Sub::Digits, cap, .. } => *cap <= 68,
            Expr::Sub { sub: Sub::Ip4, cap, .. } => *cap < 16,
            Expr::Sub { sub: Sub::Ip6, cap, .. } => *cap < 46,
            // A piece of a string is cut where that is.
            Expr::Sub { sub, args, .. } if depth > 0 && sub.is_piece() => {
                args.first().is_none_or(|&s| self.cut_below(s, depth - 1))
            }
            Expr::Temp(t) => self.temps.get(t.0 as usize).copied().unwrap_or(true),
            Expr::Var(v) => self.outside.vars.get(v.0 as usize).copied().unwrap_or(true),
            Expr::Elem(a, _) => self.outside.arrays.get(a.0 as usize).copied().unwrap_or(true),
            Expr::StrJoin { a, b, cap } if depth > 0 => {
                let whole = u64::from(self.capacity(*a, depth)) + u64::from(self.capacity(*b, depth));
                whole > u64::from(*cap) + 1 || self.cut_below(*a, depth - 1) || self.cut_below(*b, depth - 1)
            }
            _ => true,
        }
    }

    /// How many bytes a string can have, its NUL included; `u32::MAX` where that is not known.
    fn capacity(&self, id: ExprId, depth: u32) -> u32 {
        let of = |val: Option<Val>| match val {
            Some(Val::Str { cap }) => cap,
            _ => u32::MAX,
        };
        let program = self.outside.program;
        match self.code.exprs.get(id.0 as usize) {
            Some(Expr::Str(bytes)) => u32::try_from(bytes.len()).map_or(u32::MAX, |len| len.saturating_add(1)),
            Some(Expr::Comm) => 16,
            Some(Expr::ReadStr { cap, .. } | Expr::StrJoin { cap, .. } | Expr::Sub { cap, .. }) => *cap,
            Some(Expr::Temp(t)) => of(self.code.temps.get(t.0 as usize).copied()),
            Some(Expr::Var(v)) => of(program.vars.get(v.0 as usize).map(|v| v.val)),
            Some(Expr::Elem(a, _)) => of(program.arrays.get(a.0 as usize).map(|a| a.val)),
            Some(Expr::Cond(_, a, b)) if depth > 0 => self.capacity(*a, depth - 1).max(self.capacity(*b, depth - 1)),
            _ => u32::MAX,
        }
    }

    /// Whether a constant does not fit.
    fn too_long(&self, id: ExprId, val: Val) -> bool {
        match (self.code.exprs.get(id.0 as usize), val) {
            (Some(Expr::Str(bytes)), Val::Str { cap }) => bytes.len() as u64 >= u64::from(cap),
            (Some(Expr::Cond(_, a, b)), _) => self.too_long(*a, val) || self.too_long(*b, val),
            (Some(Expr::Var(v)), Val::Str { cap }) => {
                let source = self.outside.program.vars.get(v.0 as usize);
                matches!(source.map(|v| v.val), Some(Val::Str { cap: wide }) if wide > cap)
            }
            _ => false,
        }
    }
}

/// Every statement, branches included.
fn assignments(body: &[Stmt], f: &mut dyn FnMut(&Stmt)) {
    for stmt in body {
        f(stmt);
        if let Stmt::If { then, otherwise, .. } = stmt {
            assignments(then, f);
            assignments(otherwise, f);
        }
    }
}
