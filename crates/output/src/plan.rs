//! What can be said about a program's records before any is read: which strings may have been cut, and which records
//! continue the line of an earlier one of the same firing.

use probity_ir::{AggId, ClauseCode, Expr, ExprId, Program, RecordId, Stmt, Val};

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
        for unit in &program.units {
            for clause in &unit.clauses {
                plan.walk(clause, &clause.body, false, false);
            }
        }
        plan
    }

    /// Walks statements in order. `before`: a record always precedes them; `after`: one may follow them. Returns whether they always
    /// write a record.
    fn walk(&mut self, code: &ClauseCode, body: &[Stmt], before: bool, after: bool) -> bool {
        let mut emitted = false;
        for (at, stmt) in body.iter().enumerate() {
            let later = after || body[at + 1..].iter().any(emits);
            match stmt {
                Stmt::Emit { record, values } => {
                    self.emit(*record, code, values, before || emitted, later);
                    emitted = true;
                }
                Stmt::Aggregate { agg, key, .. } => self.aggregate(*agg, code, key),
                Stmt::If { then, otherwise, .. } => {
                    let a = self.walk(code, then, before || emitted, later);
                    let b = self.walk(code, otherwise, before || emitted, later);
                    emitted |= a && b;
                }
                _ => {}
            }
        }
        emitted
    }

    fn emit(&mut self, record: RecordId, code: &ClauseCode, values: &[ExprId], continues: bool, open: bool) {
        let Some(plan) = self.records.get_mut(record.0 as usize) else { return };
        plan.continues = continues;
        plan.open = open;
        for (cut, &value) in plan.cut.iter_mut().zip(values) {
            *cut |= may_be_cut(code, value, 64);
        }
    }

    fn aggregate(&mut self, agg: AggId, code: &ClauseCode, key: &[ExprId]) {
        let Some(plan) = self.aggs.get_mut(agg.0 as usize) else { return };
        for (cut, &value) in plan.cut.iter_mut().zip(key) {
            *cut |= may_be_cut(code, value, 64);
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

/// Whether a string expression that fills its capacity may have lost something. Constants are as long as their capacity
/// by construction; all else is read from somewhere and cut there.
fn may_be_cut(code: &ClauseCode, id: ExprId, depth: u32) -> bool {
    let Some(expr) = code.exprs.get(id.0 as usize) else { return false };
    match expr {
        Expr::Str(_) | Expr::ProbeText(_) => false,
        Expr::Cond(_, a, b) if depth > 0 => may_be_cut(code, *a, depth - 1) || may_be_cut(code, *b, depth - 1),
        Expr::Temp(t) => matches!(code.temps.get(t.0 as usize), Some(Val::Str { .. })),
        _ => true,
    }
}
