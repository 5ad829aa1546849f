//! Random programs that mean something. Everything follows from the seed.
//!
//! Programs are well-typed and use every kind of expression and statement; most addresses are good, most divisors are
//! not zero, so that clauses get far. Sizes are kept where BPF's limits are not met often.

use crate::rng::Rng;
mod memory;
mod sub;

use probity_ir::{
    Agg, AggFunc, AggId, Array, ArrayId, BinOp, Builtin, Clause, ClauseCode, ClauseId, Ctx, Expr, ExprId, IntKind,
    Location, Phase, Place, Probe, ProbeDesc, ProbePart, ProgKind, Program, Record, RecordId, RingKind, Scope,
    Selector, Show, Space, Stmt, StrOp, TempId, UnOp, Unit, UnitId, Val, Var, VarId,
};
use std::collections::BTreeSet;

/// User memory: numbers.
pub const USER_NUMBERS: u64 = 0x10_0000;
/// User memory: strings, each in [`STRING_ROOM`] bytes.
pub const USER_STRINGS: u64 = 0x20_0000;
/// Kernel memory: numbers.
pub const KERNEL_NUMBERS: u64 = 0xffff_8881_0010_0000;
/// Kernel memory: strings.
pub const KERNEL_STRINGS: u64 = 0xffff_8881_0020_0000;
/// Bytes of the areas of numbers.
pub const NUMBERS: u64 = 256;
/// Room of a string, its zeros included.
pub const STRING_ROOM: u64 = 320;
/// How many strings there are.
pub const STRINGS: u64 = 6;
/// Where a context's string is.
pub const CTX_STRING: u32 = 120;

/// What the generator knows while it writes a clause.
pub struct Gen {
    pub rng: Rng,
    pub program: Program,
    unit: UnitId,
    ctx: Ctx,
    probes: usize,
    one_probe: bool,
    clause: ClauseId,
    exprs: Vec<Expr>,
    temps: Vec<Val>,
    /// Temporaries that are set on every path to here.
    pub set: BTreeSet<u32>,
    /// Temporaries that hold an offset in scratch memory, and the room there.
    copies: Vec<(TempId, u32)>,
    line: u32,
    action: u32,
    /// Statements that may still be made in this clause.
    fuel: u32,
}

/// A program.
pub fn program(seed: u64) -> Program {
    let mut rng = Rng::new(seed);
    let mut program = Program::default();
    if rng.chance(40) {
        program.nspec = rng.pick(&[1, 2, 3, 64, 65, 200]);
        program.specsize = rng.pick(&[0, 40, 100, 1000]);
    }
    let cap = |rng: &mut Rng| match rng.below(8) {
        0 => rng.pick(&[2, 3, 8, 9]),
        1 => rng.pick(&[100, 128, 256]),
        _ => rng.pick(&[16, 24, 32, 64]),
    };
    let val = |rng: &mut Rng| match rng.below(20) {
        0..11 => Val::Int,
        11..17 => Val::Str { cap: cap(rng) },
        _ => Val::Bytes { len: rng.pick(&[1, 3, 4, 8, 12, 16, 17, 24, 40, 72, 200]) },
    };
    for i in 0..3 + rng.below(5) {
        let scope = rng.pick(&[Scope::Global, Scope::Global, Scope::Thread, Scope::Clause]);
        let val = val(&mut rng);
        program.vars.push(Var { name: format!("x{i}"), scope, val });
    }
    for i in 0..rng.below(4) {
        let scope = rng.pick(&[Scope::Global, Scope::Thread]);
        let key = (0..1 + rng.below(3)).map(|_| val(&mut rng)).collect();
        let val = val(&mut rng);
        program.arrays.push(Array { name: format!("m{i}"), scope, key, val });
    }
    for i in 0..1 + rng.below(4) {
        let func = func(&mut rng);
        let members = if rng.chance(35) { 0 } else { 1 + rng.below(3) };
        let key = (0..members)
            .map(|_| match val(&mut rng) {
                Val::Int => (Val::Int, Show::Int { size: 8, signed: true, kind: IntKind::Number }),
                val @ Val::Bytes { .. } => (val, Show::Bytes { ty: None }),
                val => (val, Show::String),
            })
            .collect();
        let resettable = rng.chance(40);
        program.aggs.push(Agg { name: format!("g{i}"), func, key, resettable, probes_of: None });
    }
    let units = 1 + rng.below(3);
    let mut g = Gen {
        rng,
        program,
        unit: UnitId(0),
        ctx: Ctx::Args,
        probes: 1,
        one_probe: true,
        clause: ClauseId(0),
        exprs: Vec::new(),
        temps: Vec::new(),
        set: BTreeSet::new(),
        copies: Vec::new(),
        line: 1,
        action: 0,
        fuel: 0,
    };
    for i in 0..units {
        g.unit(i as u32);
    }
    g.program
}

fn func(rng: &mut Rng) -> AggFunc {
    match rng.below(9) {
        0 => AggFunc::Count,
        1 => AggFunc::Sum,
        2 => AggFunc::Min,
        3 => AggFunc::Max,
        4 => AggFunc::Avg,
        5 => AggFunc::Stddev,
        6 => AggFunc::Quantize,
        7 => {
            let low = rng.pick(&[0, -100, 10, i32::MIN, -7]);
            let step = 1 + rng.below(50) as u16;
            let levels = 1 + rng.below(40) as i32;
            let high = low.saturating_add(i32::from(step) * levels - rng.below(u64::from(step)) as i32);
            AggFunc::Lquantize { low, high, step }
        }
        _ => {
            let factor = rng.pick(&[2u16, 3, 10]);
            let low = rng.below(4) as u16;
            let high = low + rng.below(4) as u16;
            let steps = factor * (1 + rng.below(3) as u16);
            AggFunc::Llquantize { factor, low, high, steps }
        }
    }
}

impl Gen {
    fn unit(&mut self, number: u32) {
        self.unit = UnitId(number);
        let rng = &mut self.rng;
        self.ctx = rng.pick(&[Ctx::Args, Ctx::Args, Ctx::Args, Ctx::Regs, Ctx::PerfEvent, Ctx::Record]);
        let prog_type = match self.ctx {
            Ctx::Args => 17,
            Ctx::Regs => 2,
            Ctx::PerfEvent => 7,
            Ctx::Record => 5,
        };
        let sleepable = self.ctx == Ctx::Regs && rng.chance(30);
        let prog = ProgKind { prog_type, attach_type: 0, btf_id: 0, sleepable, ctx: self.ctx };
        let many = rng.chance(60);
        let selector = match self.ctx {
            _ if !many => Selector::One,
            Ctx::Args => {
                let word = |n: u32| Location::Ctx { offset: 8 * n, size: 8, signed: false };
                let limit = rng.pick(&[6, 40, 520, 900]);
                let compat = rng.chance(50).then(|| (word(2), rng.pick(&[2, 0x4000_0000, 1 << 40])));
                Selector::Syscall { number: word(1), compat, limit }
            }
            _ => Selector::Cookie,
        };
        let count = match &selector {
            Selector::One => 1,
            Selector::Cookie => 1 + rng.below(9) as usize,
            Selector::Syscall { limit, .. } => *limit as usize,
        };
        let mut probes = vec![None; count];
        let dense = rng.chance(50);
        for (i, probe) in probes.iter_mut().enumerate() {
            let there = match &selector {
                Selector::One => true,
                Selector::Cookie => rng.chance(85) || i == 0,
                Selector::Syscall { .. } => (dense && i < 20) || rng.chance(if dense { 5 } else { 1 }) || i == 3,
            };
            if there {
                let function = String::from_utf8(rng.text(12)).unwrap_or_default();
                let name = rng.pick(&["entry", "return", "x"]);
                let desc = ProbeDesc::new("prov", rng.pick(&["", "vmlinux"]), &function, name);
                *probe = Some(Probe { id: 1 + number * 1000 + i as u32, desc });
            }
        }
        let present: Vec<u32> = (0..count as u32).filter(|&i| probes[i as usize].is_some()).collect();
        self.probes = count;
        self.one_probe = selector == Selector::One;
        let plain = self.ctx == Ctx::Args && selector == Selector::One;
        let phase = match self.rng.below(6) {
            0 if plain => Phase::Begin,
            1 if plain => Phase::End,
            2 if plain => Phase::Always,
            3 if plain => Phase::Timer,
            _ => Phase::Run,
        };
        self.program.units.push(Unit {
            name: format!("unit_{number}"),
            prog,
            selector,
            probes,
            phase,
            clauses: Vec::new(),
        });
        if self.rng.chance(40) {
            // One aggregation whose key has the probe.
            let key = vec![
                (Val::Int, Show::ProbePart(ProbePart::Function)),
                (Val::Int, Show::Int { size: 8, signed: true, kind: IntKind::Number }),
            ];
            let name = format!("p{number}");
            let func = func(&mut self.rng);
            self.program.aggs.push(Agg { name, func, key, resettable: false, probes_of: Some(self.unit) });
        }
        for _ in 0..1 + self.rng.below(4) {
            let code = self.clause(&present);
            self.program.units[number as usize].clauses.push(code);
        }
    }

    fn clause(&mut self, present: &[u32]) -> ClauseCode {
        self.clause = ClauseId(self.program.clauses.len() as u32);
        self.line += 1;
        self.action = 0;
        self.program.clauses.push(Clause { span: (0, 0, 0), line: self.line });
        self.exprs.clear();
        self.temps.clear();
        self.set.clear();
        self.copies.clear();
        let probes = if present.len() > 1 && self.rng.chance(50) {
            let mut some: Vec<u32> = present.iter().copied().filter(|_| self.rng.chance(50)).collect();
            if some.is_empty() {
                some.push(present[0]);
            }
            some
        } else {
            Vec::new()
        };
        let predicate = self.rng.chance(40).then(|| {
            let cond = self.int(3);
            let often = self.rng.chance(70);
            if often {
                let one = self.add(Expr::Const(1));
                self.add(Expr::Bin(BinOp::Or, cond, one))
            } else {
                cond
            }
        });
        self.fuel = 10;
        let len = 2 + self.rng.below(5);
        let body = self.block(len, 2);
        ClauseCode {
            clause: self.clause,
            probes,
            exprs: std::mem::take(&mut self.exprs),
            temps: std::mem::take(&mut self.temps),
            predicate,
            body,
        }
    }

    pub fn add(&mut self, expr: Expr) -> ExprId {
        self.exprs.push(expr);
        ExprId(self.exprs.len() as u32 - 1)
    }

    pub fn constant(&mut self, n: i64) -> ExprId {
        self.add(Expr::Const(n))
    }

    // Statements.

    fn block(&mut self, len: u64, depth: u32) -> Vec<Stmt> {
        let mut out = Vec::new();
        for _ in 0..len {
            if self.fuel == 0 {
                break;
            }
            self.fuel -= 1;
            if self.rng.chance(60) {
                self.line += 1;
                self.action += 1;
                out.push(Stmt::Mark { line: self.line, action: self.action });
            }
            let stmt = self.stmt(depth);
            out.push(stmt);
        }
        out
    }

    pub fn temp(&mut self) -> TempId {
        self.temps.push(Val::Int);
        TempId(self.temps.len() as u32 - 1)
    }

    /// A temporary to set: an old one or a new one.
    pub fn temp_to_set(&mut self) -> TempId {
        let old: Vec<u32> = self.set.iter().copied().collect();
        if !old.is_empty() && self.rng.chance(30) { TempId(self.rng.pick(&old)) } else { self.temp() }
    }

    fn old(&mut self) -> Option<TempId> {
        let old = self.rng.chance(40).then(|| self.temp_to_set());
        self.set.extend(old.map(|t| t.0));
        old
    }

    fn vars(&self, want: impl Fn(&Var) -> bool) -> Vec<u32> {
        (0..self.program.vars.len() as u32).filter(|&i| want(&self.program.vars[i as usize])).collect()
    }

    fn stmt(&mut self, depth: u32) -> Stmt {
        loop {
            match self.rng.below(100) {
                0..10 => {
                    let value = self.int(3);
                    let temp = self.temp_to_set();
                    self.set.insert(temp.0);
                    return Stmt::SetTemp(temp, value);
                }
                10..28 => {
                    let id = self.rng.below(self.program.vars.len() as u64) as u32;
                    let value = match self.program.vars[id as usize].val {
                        Val::Str { .. } => self.string(2),
                        Val::Bytes { .. } if self.rng.chance(20) => self.constant(0),
                        Val::Bytes { len } => self.bytes(len),
                        Val::Int => self.int(4),
                    };
                    return Stmt::SetVar(VarId(id), value);
                }
                28..36 => {
                    let vars = self.vars(|v| v.scope == Scope::Global && v.val == Val::Int);
                    if !vars.is_empty() {
                        let var = VarId(self.rng.pick(&vars));
                        let by = self.int(3);
                        return Stmt::AddVar { var, by, old: self.old() };
                    }
                }
                36..48 if !self.program.arrays.is_empty() => {
                    let id = self.rng.below(self.program.arrays.len() as u64) as u32;
                    let key = self.array_key(id);
                    let value = match self.program.arrays[id as usize].val {
                        Val::Str { .. } => self.string(2),
                        _ if self.rng.chance(20) => self.constant(0),
                        Val::Bytes { len } => self.bytes(len),
                        Val::Int => self.int(3),
                    };
                    return Stmt::SetElem(ArrayId(id), key, value);
                }
                48..54 => {
                    let ids: Vec<u32> = (0..self.program.arrays.len() as u32)
                        .filter(|&i| self.program.arrays[i as usize].val == Val::Int)
                        .collect();
                    if !ids.is_empty() {
                        let id = self.rng.pick(&ids);
                        let key = self.array_key(id);
                        let by = self.int(3);
                        return Stmt::AddElem { array: ArrayId(id), key, by, old: self.old() };
                    }
                }
                54..58 => return self.copyin(),
                58..66 => {
                    if let Some(stmt) = self.store() {
                        return stmt;
                    }
                }
                66..76 => {
                    if let Some(stmt) = self.aggregate() {
                        return stmt;
                    }
                }
                76..88 => return self.emit(),
                88..90 if self.rng.chance(50) => return Stmt::Stop,
                90..96 if self.program.nspec > 0 && self.rng.chance(70) => return self.speculation(),
                90..100 if depth > 0 => {
                    let cond = self.int(3);
                    let (set, copies) = (self.set.clone(), self.copies.clone());
                    let lens = (1 + self.rng.below(3), self.rng.below(3));
                    let then = self.block(lens.0, depth - 1);
                    let then_set = std::mem::replace(&mut self.set, set.clone());
                    self.copies.clone_from(&copies);
                    let otherwise = self.block(lens.1, depth - 1);
                    let both = then_set.intersection(&self.set).copied().collect();
                    self.set = both;
                    self.copies = copies;
                    return Stmt::If { cond, then, otherwise };
                }
                _ => {}
            }
        }
    }

    fn array_key(&mut self, id: u32) -> Vec<ExprId> {
        let key = self.program.arrays[id as usize].key.clone();
        key.into_iter().map(|val| self.key_member(val)).collect()
    }

    /// A member of a key: few different values, so that keys meet again.
    fn key_member(&mut self, val: Val) -> ExprId {
        match val {
            Val::Int if self.rng.chance(70) => {
                let n = self.rng.below(4) as i64;
                if self.rng.chance(50) {
                    return self.constant(n);
                }
                let (of, mask) = (self.int(2), self.constant(3));
                self.add(Expr::Bin(BinOp::And, of, mask))
            }
            Val::Int => self.int(2),
            Val::Str { .. } => self.string(1),
            Val::Bytes { len } => self.bytes(len),
        }
    }

    /// A stack of at most so many frames.
    fn stack(&mut self, frames: u32) -> ExprId {
        let user = self.rng.chance(50);
        // Any number will do for a return address.
        let entry = (user && self.rng.chance(50)).then(|| Location::Value(self.rng.number()));
        self.add(Expr::Stack(probity_ir::Stack { user, frames, strsize: 7, entry }))
    }

    fn bytes(&mut self, len: u32) -> ExprId {
        if len == 16 && self.rng.chance(40) {
            let addr = self.int(1);
            return self.add(Expr::UserAddr(addr));
        }
        if len >= probity_ir::stack::size(1) && len.is_multiple_of(8) && self.rng.chance(60) {
            return self.stack((len - probity_ir::stack::size(0)) / 8);
        }
        if self.rng.chance(40)
            && let Some(addr) = self.own_address(len)
        {
            return self.add(Expr::ReadBytes { addr, space: Space::Kernel, len });
        }
        let space = self.rng.pick(&[Space::User, Space::Kernel, Space::Absent]);
        let addr = self.address(space);
        self.add(Expr::ReadBytes { addr, space, len })
    }

    fn aggregate(&mut self) -> Option<Stmt> {
        let usable: Vec<u32> = (0..self.program.aggs.len() as u32)
            .filter(|&i| self.program.aggs[i as usize].probes_of.is_none_or(|u| u == self.unit))
            .collect();
        if usable.is_empty() {
            return None;
        }
        let id = self.rng.pick(&usable);
        let agg = self.program.aggs[id as usize].clone();
        let mut key = Vec::new();
        for (val, show) in &agg.key {
            key.push(match show {
                Show::ProbePart(_) => self.add(Expr::ProbeIndex),
                _ => self.key_member(*val),
            });
        }
        let mut args = Vec::new();
        if agg.func != AggFunc::Count {
            args.push(if self.rng.chance(50) { self.near(agg.func) } else { self.int(3) });
        }
        let quantizes = matches!(agg.func, AggFunc::Quantize | AggFunc::Lquantize { .. } | AggFunc::Llquantize { .. });
        if quantizes && self.rng.chance(30) {
            args.push(self.int(1));
        }
        Some(Stmt::Aggregate { agg: AggId(id), key, args })
    }

    /// A value in or about the range of a quantization.
    fn near(&mut self, func: AggFunc) -> ExprId {
        let (base, span) = match func {
            AggFunc::Lquantize { low, high, .. } => (i64::from(low) - 3, (i64::from(high) - i64::from(low) + 6) as u64),
            _ => (-2000, 4000),
        };
        let of = self.rng.below(span.max(1)) as i64;
        let n = self.constant(base + of);
        let (by, mask) = (self.int(1), self.constant(15));
        let by = self.add(Expr::Bin(BinOp::And, by, mask));
        self.add(Expr::Bin(BinOp::Add, n, by))
    }

    fn emit(&mut self) -> Stmt {
        let ring = if self.rng.chance(80) { RingKind::Data } else { RingKind::Control };
        self.record(Vec::new(), Vec::new(), ring)
    }

    /// A record with these fields and some more.
    pub fn record(&mut self, mut fields: Vec<Val>, mut values: Vec<ExprId>, ring: RingKind) -> Stmt {
        for _ in 0..self.rng.below(5) {
            let (val, id) = match self.rng.below(10) {
                0..6 => (Val::Int, self.int(4)),
                6..9 => {
                    let cap = self.rng.pick(&[2, 8, 13, 16, 32, 64, 256]);
                    (Val::Str { cap }, self.string(3))
                }
                _ => {
                    let len = self.rng.pick(&[1, 3, 8, 16, 20]);
                    (Val::Bytes { len }, self.bytes(len))
                }
            };
            fields.push(val);
            values.push(id);
        }
        let record = RecordId(self.program.records.len() as u32);
        self.program.records.push(Record { clause: self.clause, unit: self.unit, ring, fields, actions: Vec::new() });
        Stmt::Emit { record, values }
    }

    // Expressions.

    /// How many nodes the tree of an expression has, and whether all its temporaries are set here.
    fn measure(&self, id: ExprId) -> (u32, bool) {
        let e = &self.exprs[id.0 as usize];
        let own = match e {
            Expr::Temp(t) => self.set.contains(&t.0) || self.copies.iter().any(|c| c.0 == *t),
            _ => true,
        };
        let children: Vec<ExprId> = match e {
            Expr::Elem(_, key) | Expr::Sub { args: key, .. } => key.clone(),
            Expr::Un(_, a) | Expr::Ext { of: a, .. } | Expr::StrLen(a) | Expr::ScratchAddr(a) => vec![*a],
            Expr::Load { addr, .. } | Expr::ReadBytes { addr, .. } => vec![*addr],
            Expr::Part { of: a, .. } | Expr::UserAddr(a) => vec![*a],
            Expr::ReadStr { addr, max, .. } => max.iter().copied().chain([*addr]).collect(),
            Expr::Bin(_, a, b) | Expr::And(a, b) | Expr::Or(a, b) | Expr::StrCmp(_, a, b) => vec![*a, *b],
            Expr::StrJoin { a, b, .. } => vec![*a, *b],
            Expr::Cond(a, b, c) => vec![*a, *b, *c],
            Expr::AddrOf(Place::Elem(_, key)) => key.clone(),
            Expr::Bounded { index, .. } => vec![*index],
            Expr::CharAt { of, index } => vec![*of, *index],
            _ => Vec::new(),
        };
        children.into_iter().map(|c| self.measure(c)).fold((1, own), |(n, ok), (m, fine)| (n + m, ok && fine))
    }

    fn is_string(&self, e: &Expr) -> bool {
        match e {
            Expr::Str(_) | Expr::Comm | Expr::ProbeText(_) | Expr::ReadStr { .. } | Expr::StrJoin { .. } => true,
            Expr::Sub { sub, .. } => sub.is_text(),
            Expr::Var(id) => matches!(self.program.vars[id.0 as usize].val, Val::Str { .. }),
            Expr::Elem(id, _) => matches!(self.program.arrays[id.0 as usize].val, Val::Str { .. }),
            Expr::Cond(_, a, _) => self.is_string(&self.exprs[a.0 as usize]),
            _ => false,
        }
    }

    /// An expression that is there already: the same number may be used more than once.
    fn again(&mut self, strings: bool) -> Option<ExprId> {
        let id = ExprId(self.rng.below(self.exprs.len() as u64) as u32);
        let e = self.exprs.get(id.0 as usize)?;
        // An offset in scratch memory by itself is nobody's business.
        if matches!(e, Expr::ReadBytes { .. } | Expr::Stack(_) | Expr::UserAddr(_))
            || self.is_string(e) != strings
            || self.is_copy(id)
        {
            return None;
        }
        let (size, fine) = self.measure(id);
        (size < 8 && fine).then_some(id)
    }

    fn is_copy(&self, id: ExprId) -> bool {
        match &self.exprs[id.0 as usize] {
            Expr::Temp(t) => !self.set.contains(&t.0),
            Expr::Bin(BinOp::Add, a, _) => self.is_copy(*a),
            // Nor are the addresses of the context and of places.
            Expr::AddrOf(_) => true,
            Expr::Loc(Location::CtxAddress { .. } | Location::DataLoc { .. }) => true,
            _ => false,
        }
    }

    pub fn int(&mut self, depth: u32) -> ExprId {
        if self.rng.chance(8)
            && let Some(id) = self.again(false)
        {
            return id;
        }
        let e = if depth == 0 || self.rng.chance(15) { self.leaf() } else { self.inner(depth - 1) };
        self.add(e)
    }

    fn leaf(&mut self) -> Expr {
        loop {
            match self.rng.below(10) {
                0..3 => return Expr::Const(self.rng.number()),
                3..5 => return Expr::Loc(self.location()),
                5 if self.rng.chance(12) => {
                    let frames = 1 + self.rng.below(5) as u32;
                    let of = self.stack(frames);
                    let last = probity_ir::stack::size(frames - 1);
                    let (offset, size) = self.rng.pick(&[(0, 4), (4, 4), (8, 4), (12, 1), (16, 4), (24, 8), (last, 8)]);
                    return Expr::Part { of, offset, size, signed: self.rng.chance(50) };
                }
                5 => {
                    let which = self.rng.pick(&[
                        Builtin::Pid,
                        Builtin::Tid,
                        Builtin::Uid,
                        Builtin::Gid,
                        Builtin::Timestamp,
                        Builtin::WallTimestamp,
                        Builtin::Cpu,
                        Builtin::Vtimestamp,
                        Builtin::CurThread,
                        Builtin::ProbeId,
                        Builtin::Epid,
                        Builtin::Caller,
                        Builtin::Ucaller,
                    ]);
                    return Expr::Builtin(which);
                }
                6 => {
                    let set: Vec<u32> = self.set.iter().copied().collect();
                    if !set.is_empty() {
                        return Expr::Temp(TempId(self.rng.pick(&set)));
                    }
                }
                7..9 => {
                    let vars = self.vars(|v| v.val == Val::Int);
                    if !vars.is_empty() {
                        return Expr::Var(VarId(self.rng.pick(&vars)));
                    }
                }
                _ => return Expr::ProbeIndex,
            }
        }
    }

    fn inner(&mut self, depth: u32) -> Expr {
        loop {
            match self.rng.below(100) {
                0..35 => {
                    let op = self.rng.pick(&[
                        BinOp::Add,
                        BinOp::Sub,
                        BinOp::Mul,
                        BinOp::And,
                        BinOp::Or,
                        BinOp::Xor,
                        BinOp::Shl,
                        BinOp::ShrS,
                        BinOp::ShrU,
                        BinOp::Eq,
                        BinOp::Ne,
                        BinOp::LtS,
                        BinOp::LtU,
                        BinOp::LeS,
                        BinOp::LeU,
                    ]);
                    let (a, b) = (self.int(depth), self.int(depth));
                    return Expr::Bin(op, a, b);
                }
                35..47 => {
                    let op = self.rng.pick(&[BinOp::DivS, BinOp::DivU, BinOp::RemS, BinOp::RemU]);
                    let (a, mut b) = (self.int(depth), self.int(depth));
                    match self.rng.below(10) {
                        0..2 => b = self.constant(-1),
                        2..4 => {
                            let n = self.rng.number();
                            b = self.constant(n);
                        }
                        4..9 => {
                            let one = self.constant(1);
                            b = self.add(Expr::Bin(BinOp::Or, b, one));
                        }
                        _ => {}
                    }
                    return Expr::Bin(op, a, b);
                }
                47..53 => {
                    let op = self.rng.pick(&[UnOp::Neg, UnOp::Not, UnOp::LogNot]);
                    return Expr::Un(op, self.int(depth));
                }
                53..63 => {
                    let of = self.int(depth);
                    let (size, signed) = (self.rng.pick(&[1, 2, 4]), self.rng.chance(50));
                    return Expr::Ext { of, size, signed };
                }
                63..67 => return Expr::And(self.int(depth), self.int(depth)),
                67..71 => return Expr::Or(self.int(depth), self.int(depth)),
                71..76 => return Expr::Cond(self.int(depth), self.int(depth), self.int(depth)),
                76..84 => {
                    let (size, signed) = (self.rng.pick(&[1u8, 2, 4, 8]), self.rng.chance(50));
                    if let Some((addr, _)) = self.copied(u32::from(size)) {
                        return Expr::Load { addr, size, signed, space: Space::Scratch };
                    }
                    if self.rng.chance(60)
                        && let Some(addr) = self.own_address(size.into())
                    {
                        return Expr::Load { addr, size, signed, space: Space::Kernel };
                    }
                    let space = self.rng.pick(&[Space::User, Space::Kernel, Space::Absent]);
                    return Expr::Load { addr: self.address(space), size, signed, space };
                }
                84..91 => {
                    let op = self.rng.pick(&[StrOp::Eq, StrOp::Ne, StrOp::Lt, StrOp::Le, StrOp::Gt, StrOp::Ge]);
                    return Expr::StrCmp(op, self.string(1), self.string(1));
                }
                91 => return self.sub_number(),
                92 => return Expr::StrLen(self.string(1)),
                93 => {
                    let of = self.string(1);
                    let index = match self.rng.below(3) {
                        0 => self.constant(0),
                        1 => {
                            let n = self.rng.below(5) as i64;
                            self.constant(n)
                        }
                        _ => {
                            let (index, mask) = (self.int(1), self.constant(7));
                            self.add(Expr::Bin(BinOp::And, index, mask))
                        }
                    };
                    return Expr::CharAt { of, index };
                }
                94..100 => {
                    let ids: Vec<u32> = (0..self.program.arrays.len() as u32)
                        .filter(|&i| self.program.arrays[i as usize].val == Val::Int)
                        .collect();
                    if !ids.is_empty() {
                        let id = self.rng.pick(&ids);
                        return Expr::Elem(ArrayId(id), self.array_key(id));
                    }
                }
                _ => {}
            }
        }
    }

    /// A place of `size` bytes in what a `CopyIn` copied, and how many bytes there are from there on.
    fn copied(&mut self, size: u32) -> Option<(ExprId, u32)> {
        if self.copies.is_empty() || self.rng.chance(50) {
            return None;
        }
        let (temp, room) = self.rng.pick(&self.copies);
        let offset = self.rng.below(u64::from(room.checked_sub(size)? + 1));
        let base = self.add(Expr::Temp(temp));
        let by = self.constant(offset as i64);
        Some((self.add(Expr::Bin(BinOp::Add, base, by)), room - offset as u32))
    }

    /// An address of numbers, now and then a bad one.
    fn address(&mut self, space: Space) -> ExprId {
        let start = if space == Space::User { USER_NUMBERS } else { KERNEL_NUMBERS };
        if self.rng.chance(6) {
            let bad = self.rng.pick(&[0, 8, 0x66_6000, u64::MAX, 0xffff_8881_0066_6000, start + NUMBERS - 1, 1 << 55]);
            return self.constant(bad as i64);
        }
        if self.ctx == Ctx::Record && space == Space::Kernel && self.rng.chance(30) {
            let offset = 8 * (1 + self.rng.below(10) as u32);
            return self.add(Expr::Loc(Location::CtxAddress { offset }));
        }
        let at = start + self.rng.below(NUMBERS - 96);
        let base = self.constant(at as i64);
        if self.rng.chance(50) {
            return base;
        }
        let (by, mask) = (self.int(1), self.constant(31));
        let by = self.add(Expr::Bin(BinOp::And, by, mask));
        self.add(Expr::Bin(BinOp::Add, base, by))
    }

    fn location(&mut self) -> Location {
        let signed = self.rng.chance(50);
        let word = match self.ctx {
            Ctx::Args => Location::Ctx { offset: 8 * self.rng.below(8) as u32, size: 8, signed },
            Ctx::Regs | Ctx::PerfEvent => match self.rng.below(8) {
                0 => Location::Site,
                1 => Location::Pc { space: self.rng.pick(&[Space::Kernel, Space::User]) },
                _ => Location::Reg { dwarf: self.rng.below(17) as u16 },
            },
            Ctx::Record => {
                let size = self.rng.pick(&[1u8, 2, 4, 8]);
                let offset = 8 + u32::from(size) * self.rng.below(64 / u64::from(size)) as u32;
                Location::Ctx { offset, size, signed }
            }
        };
        let (size, base) = (self.rng.pick(&[1u8, 2, 4, 8]), Box::new(word.clone()));
        match self.rng.below(12) {
            0..2 => Location::Narrow { of: base, size: size.min(4), signed },
            2 => Location::Address { base, offset: self.rng.number(), space: Space::Kernel },
            3 => {
                let space = self.rng.pick(&[Space::User, Space::Kernel, Space::Absent]);
                let start = if space == Space::User { USER_NUMBERS } else { KERNEL_NUMBERS };
                let base = Box::new(Location::Value(start as i64));
                let offset = self.rng.below(NUMBERS - 8) as i64;
                Location::Memory { base, offset, size, signed, space }
            }
            4 => Location::CurrentTask,
            // Words at the start of a task (`thread_info`) on every x86-64 kernel since 4.9.
            5 => Location::Btf { base: Box::new(Location::CurrentTask), offset: 0, size: 8, signed },
            6 => Location::Btf { base: Box::new(Location::CurrentTask), offset: 16, size: 4, signed },
            7 => Location::Value(self.rng.number()),
            8 => {
                let start = Box::new(Location::Value(USER_NUMBERS as i64));
                let place = Location::Memory { base: start, offset: 8, size, signed, space: Space::User };
                let plus = if self.rng.chance(50) { place } else { word };
                let times = self.rng.pick(&[1, 2, 4, 8, -3, 1 << 16, 1 << 40]);
                Location::Sum { base, plus: Box::new(plus), times }
            }
            _ => word,
        }
    }

    fn string(&mut self, depth: u32) -> ExprId {
        if self.rng.chance(8)
            && let Some(id) = self.again(true)
        {
            return id;
        }
        loop {
            let e = match self.rng.below(if depth == 0 { 80 } else { 100 }) {
                0..20 => {
                    let most = self.rng.pick(&[3, 20, 20, 90]);
                    Expr::Str(self.rng.text(most))
                }
                20..28 => Expr::Comm,
                28..36 => Expr::ProbeText(self.rng.pick(&[
                    ProbePart::Provider,
                    ProbePart::Module,
                    ProbePart::Function,
                    ProbePart::Name,
                ])),
                36..56 => {
                    let vars = self.vars(|v| matches!(v.val, Val::Str { .. }));
                    if vars.is_empty() {
                        continue;
                    }
                    Expr::Var(VarId(self.rng.pick(&vars)))
                }
                56..62 => {
                    let ids: Vec<u32> = (0..self.program.arrays.len() as u32)
                        .filter(|&i| matches!(self.program.arrays[i as usize].val, Val::Str { .. }))
                        .collect();
                    if ids.is_empty() || depth == 0 {
                        continue;
                    }
                    let id = self.rng.pick(&ids);
                    Expr::Elem(ArrayId(id), self.array_key(id))
                }
                62..80 => self.read_str(),
                80..84 => self.sub_text(),
                84..94 => {
                    let (a, b) = (self.string(depth - 1), self.string(depth - 1));
                    let cap = self.rng.pick(&[2, 8, 16, 33, 64, 256]);
                    Expr::StrJoin { a, b, cap }
                }
                _ => {
                    let cond = self.int(1);
                    let (a, b) = (self.string(depth - 1), self.string(depth - 1));
                    Expr::Cond(cond, a, b)
                }
            };
            return self.add(e);
        }
    }

    fn read_str(&mut self) -> Expr {
        let cap = self.rng.pick(&[2, 8, 16, 17, 64, 256]);
        let max = if self.rng.chance(25) { Some(self.int(1)) } else { None };
        if let Some((addr, _)) = self.copied(2) {
            return Expr::ReadStr { addr, space: Space::Scratch, cap, max };
        }
        if self.rng.chance(20)
            && let Some((place, len)) = self.place()
        {
            let at = self.rng.below(u64::from(len)) as u32;
            let (base, by) = (self.add(Expr::AddrOf(place)), self.constant(at.into()));
            let addr = self.add(Expr::Bin(BinOp::Add, base, by));
            return Expr::ReadStr { addr, space: Space::Kernel, cap: cap.min(len - at), max };
        }
        let space = self.rng.pick(&[Space::User, Space::Kernel, Space::Absent]);
        let addr = if self.rng.chance(4) {
            self.constant(0x66_6000)
        } else if self.ctx == Ctx::Record && space == Space::Kernel && self.rng.chance(60) {
            let place = if self.rng.chance(50) {
                Location::DataLoc { offset: 8 }
            } else {
                Location::CtxAddress { offset: CTX_STRING + self.rng.below(5) as u32 }
            };
            self.add(Expr::Loc(place))
        } else {
            let start = if space == Space::User { USER_STRINGS } else { KERNEL_STRINGS };
            let at = start + STRING_ROOM * self.rng.below(STRINGS) + self.rng.below(3);
            self.constant(at as i64)
        };
        Expr::ReadStr { addr, space, cap, max }
    }
}
