//! Writing IR by hand: one unit, its clauses, short names for expressions.

use probity_bpf::Object;
use probity_compiler::{CodegenOptions, codegen};
use probity_ir::*;

/// A clause in the making.
#[derive(Default)]
pub struct Code {
    pub exprs: Vec<Expr>,
    pub temps: Vec<Val>,
    pub predicate: Option<ExprId>,
    pub body: Vec<Stmt>,
    pub probes: Vec<u32>,
}

impl Code {
    pub fn e(&mut self, e: Expr) -> ExprId {
        self.exprs.push(e);
        ExprId(self.exprs.len() as u32 - 1)
    }

    pub fn c(&mut self, c: i64) -> ExprId {
        self.e(Expr::Const(c))
    }

    pub fn bin(&mut self, op: BinOp, a: ExprId, b: ExprId) -> ExprId {
        self.e(Expr::Bin(op, a, b))
    }

    pub fn str(&mut self, s: &str) -> ExprId {
        self.e(Expr::Str(s.into()))
    }

    pub fn b(&mut self, b: Builtin) -> ExprId {
        self.e(Expr::Builtin(b))
    }

    /// The n-th 64-bit argument.
    pub fn arg(&mut self, n: u32) -> ExprId {
        self.e(Expr::Loc(Location::Ctx { offset: n * 8, size: 8, signed: false }))
    }

    pub fn temp(&mut self, val: Val) -> TempId {
        self.temps.push(val);
        TempId(self.temps.len() as u32 - 1)
    }

    pub fn s(&mut self, stmt: Stmt) {
        self.body.push(stmt);
    }
}

pub const RAW_TP: u32 = 17;

pub fn prog(prog_type: u32, ctx: Ctx) -> ProgKind {
    ProgKind { prog_type, attach_type: 0, btf_id: 0, sleepable: false, ctx }
}

pub fn probe(id: u32, function: &str) -> Option<Probe> {
    Some(Probe { id, desc: ProbeDesc::new("test", "m", function, "entry") })
}

/// A program of one raw-tracepoint unit.
pub fn program() -> Program {
    let mut p = Program::default();
    p.units.push(Unit {
        name: "unit".into(),
        prog: prog(RAW_TP, Ctx::Args),
        selector: Selector::One,
        probes: vec![probe(1, "f")],
        phase: Phase::Run,
        clauses: vec![],
    });
    p
}

pub fn add(p: &mut Program, clause: Code) {
    let id = ClauseId(p.clauses.len() as u32);
    p.clauses.push(probity_ir::Clause { span: (0, 0, 0), line: id.0 + 1 });
    let unit = p.units.last_mut().unwrap();
    unit.clauses.push(ClauseCode {
        clause: id,
        probes: clause.probes,
        exprs: clause.exprs,
        temps: clause.temps,
        predicate: clause.predicate,
        body: clause.body,
    });
}

pub fn global(p: &mut Program, scope: Scope, val: Val) -> VarId {
    p.vars.push(Var { name: format!("v{}", p.vars.len()), scope, val });
    VarId(p.vars.len() as u32 - 1)
}

pub fn array(p: &mut Program, scope: Scope, key: Vec<Val>, val: Val) -> ArrayId {
    p.arrays.push(Array { name: format!("a{}", p.arrays.len()), scope, key, val });
    ArrayId(p.arrays.len() as u32 - 1)
}

pub fn agg(p: &mut Program, func: AggFunc, key: Vec<Val>, resettable: bool) -> AggId {
    let key = key.into_iter().map(|v| (v, Show::String)).collect();
    p.aggs.push(Agg { name: format!("g{}", p.aggs.len()), func, key, resettable, probes_of: None });
    AggId(p.aggs.len() as u32 - 1)
}

pub fn record(p: &mut Program, ring: RingKind, fields: Vec<Val>) -> RecordId {
    p.records.push(Record { clause: ClauseId(0), unit: UnitId(0), ring, fields, actions: vec![] });
    RecordId(p.records.len() as u32 - 1)
}

pub fn options() -> CodegenOptions {
    CodegenOptions { ncpu: 2, ring_size: 65536, agg_entries: 1024, dyn_entries: 1024, scratch: 512 }
}

pub fn compile(p: &Program) -> (Object, Layout) {
    match codegen(p, &options()) {
        Ok(out) => out,
        Err(e) => panic!("{e:?}"),
    }
}

pub fn text(p: &Program) -> String {
    let (object, layout) = compile(p);
    probity_compiler::listing(&object, &layout, p)
}
