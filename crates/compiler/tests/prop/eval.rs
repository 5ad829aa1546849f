//! A direct evaluator of programs: the meaning that `ir::program` documents, computed as plainly as possible.
//!
//! It shares nothing with the code generator but the nouns. What it borrows from the interpreter is only the description
//! of a firing's surroundings ([`Env`]).

use probity_bpf::interp::Env;
use probity_compiler::routine::meaning;
use probity_ir::{
    AggFunc, ArrayId, BinOp, Builtin, ClauseCode, ClauseId, Ctx, Dest, Drop, Expr, ExprId, Fault, Location, Phase,
    Place, Program, RingKind, STARTING, STOPPING, Scope, Selector, Space, Stmt, StrOp, Sub, UnOp, UnitId, Val, buckets,
};
use std::collections::BTreeMap;

/// The end of user addresses on x86-64.
const USER_END: u64 = 0x7fff_ffff_f000;
/// Where kernel addresses begin.
const KERNEL_START: u64 = 0xffff_8000_0000_0000;
/// Where the evaluator pretends the context to be; offsets take the low 40 bits.
pub const CTX_ADDR: u64 = 0xffff_c900_0000_0000;
/// Where the evaluator pretends places to be: each that an address is taken of [`PLACE_ROOM`] bytes further.
const PLACES: u64 = 0xffff_ca00_0000_0000;
/// Distance of two places.
const PLACE_ROOM: u64 = 1 << 24;

/// A value.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Value {
    /// An integer.
    Int(i64),
    /// A string without its NUL.
    Str(Vec<u8>),
    /// Bytes of a fixed number.
    Bytes(Vec<u8>),
}

impl Value {
    /// Zero, an empty string or zero bytes.
    pub fn zero(val: Val) -> Value {
        match val {
            Val::Int => Value::Int(0),
            Val::Str { .. } => Value::Str(Vec::new()),
            Val::Bytes { len } => Value::Bytes(vec![0; len as usize]),
        }
    }

    /// The value as a place of this kind holds it.
    fn fit(self, val: Val) -> Value {
        match (self, val) {
            (Value::Str(mut s), Val::Str { cap }) => {
                s.truncate(cap.saturating_sub(1) as usize);
                Value::Str(s)
            }
            (Value::Bytes(mut b), Val::Bytes { len }) => {
                b.resize(len as usize, 0);
                Value::Bytes(b)
            }
            (Value::Int(0), Val::Bytes { .. }) => Value::zero(val),
            (value, _) => value,
        }
    }

    fn int(&self) -> i64 {
        match self {
            Value::Int(n) => *n,
            other => panic!("an integer was expected, not {other:?}"),
        }
    }

    fn text(&self) -> &[u8] {
        match self {
            Value::Str(s) => s,
            other => panic!("a string was expected, not {other:?}"),
        }
    }
}

/// One event of a probe.
#[derive(Clone, Debug)]
pub struct Firing {
    /// Whose program runs.
    pub unit: UnitId,
    /// Its context.
    pub ctx: Vec<u8>,
    /// The surroundings; the cookie, too.
    pub env: Env,
    /// How many records at the start of the firing find no room.
    pub lost: u32,
}

/// What a record in a ring says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// A record's number and fields.
    Fields(u32, Vec<Value>),
    /// Unit, clause's position, action, line, code, value.
    Fault(u32, u32, u32, u32, Fault, u64),
}

/// A record in a ring.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Out {
    /// Its ring.
    pub ring: RingKind,
    /// The time in its header.
    pub time: u64,
    /// The CPU, in its header and of its ring.
    pub cpu: u16,
    /// The probe's index.
    pub index: u16,
    /// The rest.
    pub body: Body,
}

/// An aggregation's entry: CPU, epoch's low bit, members.
pub type AggKey = (u32, u32, Vec<Value>);
/// An array's entry: the thread's task for a thread's array, else 0; members.
pub type ElemKey = (u64, Vec<Value>);

/// All that outlives a firing.
#[derive(Clone, Debug)]
pub struct State {
    /// The state word.
    pub word: i64,
    /// What `walltimestamp` adds.
    pub realtime: i64,
    /// Global variables by number; others stay unused.
    pub globals: Vec<Value>,
    /// Thread variables by task and number, as far as they were set.
    pub threads: BTreeMap<(u64, u32), Value>,
    /// Arrays.
    pub arrays: Vec<BTreeMap<ElemKey, Value>>,
    /// Aggregations.
    pub aggs: Vec<BTreeMap<AggKey, Vec<u64>>>,
    /// Speculations: the turn, and the room that is taken.
    pub specs: Vec<(u64, u64)>,
    /// Drops by cause and CPU.
    pub drops: BTreeMap<(Drop, u32), u64>,
    /// Records since they were taken.
    pub records: Vec<Out>,
    /// Set where more than one outcome is right; what follows is not to be compared.
    pub unsure: bool,
}

/// Sizes that the evaluator must know.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Elements of an array.
    pub array: usize,
    /// Entries of a keyed aggregation.
    pub agg: usize,
    /// Scratch bytes of a firing.
    pub scratch: usize,
}

impl State {
    /// Everything zero.
    pub fn new(program: &Program) -> State {
        State {
            word: STARTING,
            realtime: 0,
            globals: program.vars.iter().map(|v| Value::zero(v.val)).collect(),
            threads: BTreeMap::new(),
            arrays: vec![BTreeMap::new(); program.arrays.len()],
            aggs: vec![BTreeMap::new(); program.aggs.len()],
            specs: vec![(0, 0); program.nspec as usize],
            drops: BTreeMap::new(),
            records: Vec::new(),
            unsure: false,
        }
    }

    pub fn drop(&mut self, why: Drop, cpu: u32) {
        *self.drops.entry((why, cpu)).or_default() += 1;
    }
}

/// A fault: its code and the value that goes with it.
pub type Faulted<T> = Result<T, (Fault, u64)>;

pub struct Run<'a> {
    pub program: &'a Program,
    limits: Limits,
    firing: &'a Firing,
    pub state: &'a mut State,
    index: u32,
    /// Records still to be lost.
    lost: u32,
    /// `this->` variables.
    this: BTreeMap<u32, Value>,
    scratch: Vec<u8>,
    temps: BTreeMap<u32, i64>,
    mark: (u32, u32),
    /// What the pretended addresses of places stand for.
    places: Vec<Spot>,
}

/// A place whose key is known.
#[derive(Clone, Debug)]
enum Spot {
    Var(u32),
    Elem(ArrayId, ElemKey),
}

/// Runs the unit's program once.
pub fn fire(program: &Program, limits: Limits, state: &mut State, firing: &Firing) {
    let unit = &program.units[firing.unit.0 as usize];
    let lost = firing.lost;
    let (this, temps) = (BTreeMap::new(), BTreeMap::new());
    let mut run = Run {
        program,
        limits,
        firing,
        state,
        index: 0,
        lost,
        this,
        scratch: Vec::new(),
        temps,
        mark: (0, 0),
        places: Vec::new(),
    };
    let index = match &unit.selector {
        Selector::One => Some(0),
        Selector::Cookie => Some(firing.env.cookie & u64::from(u32::MAX)),
        Selector::Syscall { number, compat, limit } => run.syscall(number, compat.as_ref(), *limit),
    };
    let Some(index) = index.filter(|&i| matches!(unit.probes.get(i as usize), Some(Some(_)))) else { return };
    run.index = index as u32;
    for (position, code) in unit.clauses.iter().enumerate() {
        let may_run = match unit.phase {
            Phase::Run | Phase::Timer => run.state.word >= 0,
            Phase::Begin => run.state.word != STOPPING,
            Phase::End | Phase::Always => true,
        };
        if !may_run || !(code.probes.is_empty() || code.probes.contains(&run.index)) {
            continue;
        }
        run.temps.clear();
        run.scratch = vec![0; 8];
        run.mark = (run.line_of(code.clause), 0);
        if let Err((fault, value)) = run.clause(code) {
            let (line, action) = run.mark;
            let body = Body::Fault(firing.unit.0, position as u32, action, line, fault, value);
            let reported = run.lost == 0;
            run.emit(RingKind::Data, body, Drop::Fault);
            // ERROR that surely calls exit() ends tracing with the fault.
            let exits = |c: &ClauseCode| c.predicate.is_none() && c.body.iter().any(|s| matches!(s, Stmt::Stop));
            let errors = program.units.iter().filter(|u| u.phase == Phase::Always);
            if reported && unit.phase != Phase::Always && errors.flat_map(|u| &u.clauses).any(exits) {
                run.state.word = STOPPING;
            }
        }
    }
}

impl Run<'_> {
    fn syscall(&mut self, number: &Location, compat: Option<&(Location, u64)>, limit: u32) -> Option<u64> {
        let number = self.location(number).ok()? as u64;
        if number >= u64::from(probity_ir::COMPAT_BASE) {
            return None;
        }
        let is_compat = match compat {
            Some((flags, mask)) => self.location(flags).ok()? as u64 & mask != 0,
            None => false,
        };
        let index = if is_compat { number + u64::from(probity_ir::COMPAT_BASE) } else { number };
        (index < u64::from(limit)).then_some(index)
    }

    fn line_of(&self, clause: ClauseId) -> u32 {
        self.program.clauses[clause.0 as usize].line
    }

    pub fn env(&self) -> &Env {
        &self.firing.env
    }

    fn emit(&mut self, ring: RingKind, body: Body, why: Drop) {
        let (cpu, time) = (self.env().cpu, self.env().ktime_ns);
        if self.lost > 0 {
            self.lost -= 1;
            return self.state.drop(why, cpu);
        }
        let ring = if ring == RingKind::Speculation { RingKind::Data } else { ring };
        self.state.records.push(Out { ring, time, cpu: cpu as u16, index: self.index as u16, body });
    }

    fn clause(&mut self, code: &ClauseCode) -> Faulted<()> {
        if let Some(predicate) = code.predicate
            && self.int(code, predicate)? == 0
        {
            return Ok(());
        }
        self.block(code, &code.body)
    }

    fn block(&mut self, code: &ClauseCode, body: &[Stmt]) -> Faulted<()> {
        body.iter().try_for_each(|stmt| self.stmt(code, stmt))
    }

    fn stmt(&mut self, code: &ClauseCode, stmt: &Stmt) -> Faulted<()> {
        match stmt {
            Stmt::SetTemp(id, value) => {
                let value = self.int(code, *value)?;
                self.temps.insert(id.0, value);
            }
            Stmt::SetVar(id, value) => {
                let value = self.expr(code, *value)?;
                self.set_var(id.0, value);
            }
            Stmt::AddVar { var, by, old } => {
                let by = self.int(code, *by)?;
                let before = self.var(var.0).int();
                self.set_var(var.0, Value::Int(before.wrapping_add(by)));
                self.temps.extend(old.map(|t| (t.0, before)));
            }
            Stmt::SetElem(id, key, value) => {
                let key = self.elem_key(code, *id, key)?;
                let array = &self.program.arrays[id.0 as usize];
                let value = self.expr(code, *value)?;
                let bytes = matches!(array.val, Val::Bytes { .. });
                if value == Value::Int(0) || (!bytes && value.clone().fit(array.val) == Value::zero(array.val)) {
                    self.state.arrays[id.0 as usize].remove(&key);
                } else {
                    self.store_elem(*id, key, value.fit(array.val));
                }
            }
            Stmt::AddElem { array, key, by, old } => {
                let key = self.elem_key(code, *array, key)?;
                let by = self.int(code, *by)?;
                let before = self.state.arrays[array.0 as usize].get(&key).map_or(0, Value::int);
                self.store_elem(*array, key, Value::Int(before.wrapping_add(by)));
                self.temps.extend(old.map(|t| (t.0, before)));
            }
            Stmt::Alloc { dst, len } => {
                let len = self.int(code, *len)? as u64;
                let at = self.take(len)?;
                self.temps.insert(dst.0, at as i64);
            }
            Stmt::CopyIn { dst, addr, len, space } => {
                let addr = self.int(code, *addr)? as u64;
                let len = self.int(code, *len)? as u64;
                let at = self.take(len)?;
                let bytes = self.read(*space, addr, len as usize)?;
                self.scratch[at..at + bytes.len()].copy_from_slice(&bytes);
                self.temps.insert(dst.0, at as i64);
            }
            Stmt::Copy { to, from, space, len } => {
                let from = self.expr(code, *from)?;
                let (to, len) = (self.int(code, *to)? as u64, self.int(code, *len)? as u64);
                self.run_of(to, len)?;
                let bytes = match from {
                    Value::Int(addr) if *space == Space::Scratch => {
                        self.run_of(addr as u64, len)?;
                        self.scratch[addr as usize..][..len as usize].to_vec()
                    }
                    Value::Int(addr) => self.read(*space, addr as u64, len as usize)?,
                    Value::Str(mut text) => {
                        text.resize(len as usize, 0);
                        text
                    }
                    Value::Bytes(_) => panic!("an address or a string is copied"),
                };
                self.scratch[to as usize..][..bytes.len()].copy_from_slice(&bytes);
            }
            Stmt::CopyOut { .. } => panic!("the memory of processes is not written here"),
            Stmt::Store { to, offset, value, size } => {
                let spot = match to {
                    Dest::Place(place) => Some(self.spot(code, place)?),
                    Dest::Scratch | Dest::Global => None,
                };
                let offset = self.int(code, *offset)? as u64;
                let bytes = match self.expr(code, *value)? {
                    Value::Int(n) => n.to_le_bytes()[..*size as usize].to_vec(),
                    Value::Str(mut s) => {
                        s.truncate(*size as usize - 1);
                        s.resize(*size as usize, 0);
                        s
                    }
                    Value::Bytes(b) => b,
                };
                match (to, spot) {
                    (Dest::Scratch, _) => {
                        let place =
                            usize::try_from(offset).ok().and_then(|at| self.scratch.get_mut(at..at + bytes.len()));
                        place.ok_or((Fault::BadAddress, offset))?.copy_from_slice(&bytes);
                    }
                    (_, Some(spot)) => self.write(spot, offset, offset, &bytes)?,
                    (_, None) => {
                        let at = offset.wrapping_sub(PLACES);
                        let spot = usize::try_from(at / PLACE_ROOM).ok().and_then(|i| self.places.get(i)).cloned();
                        self.write(spot.ok_or((Fault::BadAddress, offset))?, at % PLACE_ROOM, offset, &bytes)?;
                    }
                }
            }
            Stmt::Aggregate { agg, key, args } => {
                let members = self.program.aggs[agg.0 as usize].key.clone();
                let mut values = Vec::new();
                for (&id, (val, _)) in key.iter().zip(&members) {
                    values.push(self.expr(code, id)?.fit(*val));
                }
                let args = args.iter().map(|&id| self.int(code, id)).collect::<Faulted<Vec<_>>>()?;
                self.aggregate(agg.0 as usize, values, &args);
            }
            Stmt::Emit { record, values } => {
                let spec = &self.program.records[record.0 as usize];
                let mut fields = Vec::new();
                for (&id, &val) in values.iter().zip(&spec.fields) {
                    match self.expr(code, id) {
                        Ok(value) => fields.push(value.fit(val)),
                        Err(fault) => {
                            // Whether room or the fault is found out first is for the code generator to choose.
                            self.state.unsure |= self.lost > 0;
                            return Err(fault);
                        }
                    }
                }
                let why = if spec.ring == RingKind::Control { Drop::Control } else { Drop::Data };
                self.emit(spec.ring, Body::Fields(record.0, fields), why);
            }
            Stmt::Act { act, dst, args } => {
                let args = args.iter().map(|&id| self.int(code, id)).collect::<Faulted<Vec<_>>>()?;
                let result = self.act(*act, &args)?;
                self.temps.extend(dst.map(|t| (t.0, result)));
            }
            Stmt::Stop => self.state.word = STOPPING,
            Stmt::If { cond, then, otherwise } => {
                let body = if self.int(code, *cond)? != 0 { then } else { otherwise };
                let mark = self.mark;
                self.block(code, body)?;
                self.mark = mark;
            }
            Stmt::Mark { line, action } => self.mark = (*line, *action),
        }
        Ok(())
    }

    fn var(&self, id: u32) -> Value {
        let var = &self.program.vars[id as usize];
        let there = match var.scope {
            Scope::Global => self.state.globals.get(id as usize),
            Scope::Thread => self.state.threads.get(&(self.env().current_task, id)),
            Scope::Clause => self.this.get(&id),
        };
        there.cloned().unwrap_or_else(|| Value::zero(var.val))
    }

    fn set_var(&mut self, id: u32, value: Value) {
        let var = &self.program.vars[id as usize];
        let value = value.fit(var.val);
        match var.scope {
            Scope::Global => self.state.globals[id as usize] = value,
            Scope::Thread => drop(self.state.threads.insert((self.firing.env.current_task, id), value)),
            Scope::Clause => drop(self.this.insert(id, value)),
        }
    }

    /// Takes scratch memory.
    fn take(&mut self, len: u64) -> Faulted<usize> {
        let at = self.scratch.len();
        let room = self.limits.scratch - (at - 8);
        let whole = usize::try_from(len).ok().and_then(|n| n.checked_next_multiple_of(8)).filter(|&n| n <= room);
        self.scratch.resize(at + whole.ok_or((Fault::NoScratch, len))?, 0);
        Ok(at)
    }

    /// That there are so many bytes of scratch memory at a pointer's place.
    fn run_of(&self, at: u64, len: u64) -> Faulted<()> {
        let top = self.scratch.len() as u64;
        match at {
            8.. if at < top && len > top - at => Err((Fault::BadSize, len)),
            8.. if at < top => Ok(()),
            _ => Err((Fault::BadAddress, at)),
        }
    }

    fn spot(&mut self, code: &ClauseCode, place: &Place) -> Faulted<Spot> {
        Ok(match place {
            Place::Var(id) => Spot::Var(id.0),
            Place::Elem(id, key) => Spot::Elem(*id, self.elem_key(code, *id, key)?),
        })
    }

    fn bytes_at(&self, spot: &Spot) -> Vec<u8> {
        let value = match spot {
            Spot::Var(id) => self.var(*id),
            Spot::Elem(id, key) => self.element(*id, key),
        };
        match value {
            Value::Bytes(bytes) => bytes,
            other => panic!("only bytes have addresses here, not {other:?}"),
        }
    }

    /// Writes to a part of a place; `value` is the fault's where it is not all inside.
    fn write(&mut self, spot: Spot, at: u64, value: u64, new: &[u8]) -> Faulted<()> {
        let mut bytes = self.bytes_at(&spot);
        let part = usize::try_from(at).ok().and_then(|at| bytes.get_mut(at..at.checked_add(new.len())?));
        part.ok_or((Fault::BadAddress, value))?.copy_from_slice(new);
        match spot {
            Spot::Var(id) => self.set_var(id, Value::Bytes(bytes)),
            Spot::Elem(id, key) => self.store_elem(id, key, Value::Bytes(bytes)),
        }
        Ok(())
    }

    fn element(&self, id: ArrayId, key: &ElemKey) -> Value {
        let there = self.state.arrays[id.0 as usize].get(key).cloned();
        there.unwrap_or_else(|| Value::zero(self.program.arrays[id.0 as usize].val))
    }

    fn elem_key(&mut self, code: &ClauseCode, id: ArrayId, key: &[ExprId]) -> Faulted<ElemKey> {
        let array = &self.program.arrays[id.0 as usize];
        let mut members = Vec::new();
        for (&id, &val) in key.iter().zip(&array.key) {
            members.push(self.expr(code, id)?.fit(val));
        }
        let task = if array.scope == Scope::Thread { self.env().current_task } else { 0 };
        Ok((task, members))
    }

    fn store_elem(&mut self, id: ArrayId, key: ElemKey, value: Value) {
        let elements = &mut self.state.arrays[id.0 as usize];
        if elements.len() >= self.limits.array && !elements.contains_key(&key) {
            return self.state.drop(Drop::Dynamic, self.firing.env.cpu);
        }
        elements.insert(key, value);
    }

    fn aggregate(&mut self, id: usize, key: Vec<Value>, args: &[i64]) {
        let agg = &self.program.aggs[id];
        let cpu = self.env().cpu;
        let epoch = if agg.resettable { (self.state.word & 1) as u32 } else { 0 };
        let entries = &mut self.state.aggs[id];
        let full = entries.len() >= self.limits.agg && !agg.key.is_empty();
        let key = (cpu, epoch, key);
        if full && !entries.contains_key(&key) {
            return self.state.drop(Drop::Aggregation, cpu);
        }
        let words = entries.entry(key).or_insert_with(|| vec![0; agg.func.words() as usize]);
        update(agg.func, words, args);
    }

    fn int(&mut self, code: &ClauseCode, id: ExprId) -> Faulted<i64> {
        Ok(self.expr(code, id)?.int())
    }

    fn expr(&mut self, code: &ClauseCode, id: ExprId) -> Faulted<Value> {
        let truth = |b: bool| Value::Int(i64::from(b));
        Ok(match &code.exprs[id.0 as usize] {
            Expr::Const(n) => Value::Int(*n),
            Expr::Loc(location) => Value::Int(self.location(location)?),
            Expr::Builtin(Builtin::Ucaller) => {
                let caller = self.walk(true).get(1).copied().unwrap_or(0);
                if caller != 0 && !(0x1000..1 << 47).contains(&caller) {
                    return Err((Fault::BadStack, caller));
                }
                Value::Int(caller as i64)
            }
            Expr::Builtin(which) => Value::Int(self.builtin(code, *which)),
            Expr::Temp(id) => Value::Int(self.temps.get(&id.0).copied().unwrap_or(0)),
            Expr::Var(id) => self.var(id.0),
            Expr::Elem(id, key) => {
                let key = self.elem_key(code, *id, key)?;
                self.element(*id, &key)
            }
            Expr::AddrOf(place) => {
                let spot = self.spot(code, place)?;
                self.places.push(spot);
                Value::Int((PLACES + PLACE_ROOM * (self.places.len() as u64 - 1)) as i64)
            }
            Expr::Bounded { index, len } => {
                let index = self.int(code, *index)?;
                if index as u64 >= u64::from(*len) {
                    return Err((Fault::BadIndex, index as u64));
                }
                Value::Int(index)
            }
            Expr::CharAt { of, index } => {
                let text = self.expr(code, *of)?;
                let index = self.int(code, *index)? as u64;
                let text = text.text();
                match usize::try_from(index).ok().filter(|&i| i <= text.len()) {
                    Some(i) => Value::Int(i64::from(text.get(i).copied().unwrap_or(0) as i8)),
                    None => return Err((Fault::BadAddress, index)),
                }
            }
            Expr::Un(op, a) => {
                let a = self.int(code, *a)?;
                Value::Int(match op {
                    UnOp::Neg => a.wrapping_neg(),
                    UnOp::Not => !a,
                    UnOp::LogNot => i64::from(a == 0),
                })
            }
            Expr::Bin(op, a, b) => {
                let (a, b) = (self.int(code, *a)?, self.int(code, *b)?);
                Value::Int(binary(*op, a, b)?)
            }
            Expr::Ext { of, size, signed } => Value::Int(extend(self.int(code, *of)?, *size, *signed)),
            Expr::And(a, b) => truth(self.int(code, *a)? != 0 && self.int(code, *b)? != 0),
            Expr::Or(a, b) => truth(self.int(code, *a)? != 0 || self.int(code, *b)? != 0),
            Expr::Cond(c, a, b) => {
                let chosen = if self.int(code, *c)? != 0 { *a } else { *b };
                self.expr(code, chosen)?
            }
            Expr::Load { addr, size, signed, space } => {
                let addr = self.int(code, *addr)? as u64;
                Value::Int(self.load(*space, addr, *size, *signed)?)
            }
            Expr::StrCmp(op, a, b) => {
                let (a, b) = (self.expr(code, *a)?, self.expr(code, *b)?);
                let order = a.text().cmp(b.text());
                truth(match op {
                    StrOp::Eq => order.is_eq(),
                    StrOp::Ne => order.is_ne(),
                    StrOp::Lt => order.is_lt(),
                    StrOp::Le => order.is_le(),
                    StrOp::Gt => order.is_gt(),
                    StrOp::Ge => order.is_ge(),
                })
            }
            // Nobody can know where scratch memory is; the generator makes none.
            Expr::ScratchAddr(a) => Value::Int(self.int(code, *a)?),
            Expr::StrLen(a) => Value::Int(self.expr(code, *a)?.text().len() as i64),
            Expr::Str(bytes) => Value::Str(until_nul(bytes).to_vec()),
            Expr::Comm => Value::Str(until_nul(&self.env().comm[..15]).to_vec()),
            Expr::ProbeText(part) => {
                let desc = &self.probe().desc;
                Value::Str(match part {
                    probity_ir::ProbePart::Provider => desc.provider.clone().into_bytes(),
                    probity_ir::ProbePart::Module => desc.module.clone().into_bytes(),
                    probity_ir::ProbePart::Function => desc.function.clone().into_bytes(),
                    probity_ir::ProbePart::Name => desc.name.clone().into_bytes(),
                })
            }
            Expr::ProbeIndex => Value::Int(i64::from(self.index)),
            Expr::ReadStr { addr, space, cap, max } => {
                let addr = self.int(code, *addr)? as u64;
                let mut most = u64::from(cap.saturating_sub(1));
                if let Some(max) = max {
                    most = most.min(self.int(code, *max)? as u64);
                }
                Value::Str(self.read_str(*space, addr, most)?)
            }
            Expr::StrJoin { a, b, cap } => {
                let (a, b) = (self.expr(code, *a)?, self.expr(code, *b)?);
                Value::Str([a.text(), b.text()].concat()).fit(Val::Str { cap: *cap })
            }
            Expr::Sub { sub: Sub::Random, .. } => unreachable!("the generator makes no random numbers"),
            Expr::Sub { sub, args, cap } => {
                let mut values = Vec::new();
                for &arg in args {
                    values.push(match self.expr(code, arg)? {
                        Value::Int(n) => meaning::Value::Int(n),
                        Value::Str(bytes) | Value::Bytes(bytes) => meaning::Value::Bytes(bytes.into()),
                    });
                }
                match meaning::call(*sub, &values).expect("operands of the subroutine's kinds") {
                    meaning::Outcome::Int(n) => Value::Int(n),
                    meaning::Outcome::Text(text) => Value::Str(text).fit(Val::Str { cap: *cap }),
                    meaning::Outcome::None => return Err((Fault::BadAddress, 0)),
                    meaning::Outcome::Illegal => return Err((Fault::IllegalOp, 0)),
                }
            }
            Expr::ReadBytes { addr, space, len } => {
                let addr = self.int(code, *addr)? as u64;
                Value::Bytes(self.read(*space, addr, *len as usize)?)
            }
            Expr::Stack(wanted) => Value::Bytes(self.stack(wanted)?),
            Expr::Part { of, offset, size, signed } => {
                let Value::Bytes(bytes) = self.expr(code, *of)? else { panic!("a part of what is no bytes") };
                let mut word = [0; 8];
                word[..*size as usize].copy_from_slice(&bytes[*offset as usize..][..*size as usize]);
                let shift = 64 - 8 * u32::from(*size);
                let word = i64::from_le_bytes(word) << shift;
                Value::Int(if *signed { word >> shift } else { (word as u64 >> shift) as i64 })
            }
            Expr::UserAddr(addr) => {
                let addr = self.int(code, *addr)?;
                Value::Bytes([(self.env().pid_tgid >> 32).to_le_bytes(), addr.to_le_bytes()].concat())
            }
        })
    }

    /// The firing's stack: the consumer's own probes have none, and the way into a raw tracepoint's program is no part of it.
    fn walk(&self, user: bool) -> Vec<u64> {
        let unit = &self.program.units[self.firing.unit.0 as usize];
        let skip = if !user && unit.prog.ctx == Ctx::Args { 2 } else { 0 };
        let all = if user { &self.env().user_stack } else { &self.env().kernel_stack };
        if matches!(unit.phase, Phase::Run | Phase::Timer) {
            all.iter().copied().skip(skip).collect()
        } else {
            Vec::new()
        }
    }

    fn stack(&self, wanted: &probity_ir::Stack) -> Faulted<Vec<u8>> {
        let unit = &self.program.units[self.firing.unit.0 as usize];
        let mut frames = self.walk(wanted.user);
        if let Some(place) = wanted.entry.as_ref().filter(|_| matches!(unit.phase, Phase::Run | Phase::Timer)) {
            let caller = self.location(place)? as u64;
            if !frames.is_empty() && frames.get(1) != Some(&caller) {
                frames.insert(1, caller);
            }
        }
        let more = frames.len() > wanted.frames as usize;
        frames.truncate(wanted.frames as usize);
        let pid = if wanted.user { (self.env().pid_tgid >> 32) as u32 } else { 0 };
        let head = [u32::from(wanted.user), pid, frames.len() as u32, wanted.strsize, u32::from(more), 0];
        frames.resize(wanted.frames as usize + 1, 0);
        let head = head.iter().flat_map(|w| w.to_le_bytes());
        Ok(head.chain(frames.iter().flat_map(|w| w.to_le_bytes())).collect())
    }

    fn probe(&self) -> &probity_ir::Probe {
        let unit = &self.program.units[self.firing.unit.0 as usize];
        unit.probes[self.index as usize].as_ref().expect("a probe that fired")
    }

    fn builtin(&self, code: &ClauseCode, which: Builtin) -> i64 {
        let env = self.env();
        match which {
            Builtin::Pid => (env.pid_tgid >> 32) as i64,
            Builtin::Tid => i64::from(env.pid_tgid as u32),
            Builtin::Uid => i64::from(env.uid_gid as u32),
            Builtin::Gid => (env.uid_gid >> 32) as i64,
            Builtin::Timestamp => env.ktime_ns as i64,
            Builtin::WallTimestamp => (env.ktime_ns as i64).wrapping_add(self.state.realtime),
            // No switch is ever seen here: the turn began at 0.
            Builtin::Vtimestamp => env.ktime_ns as i64,
            Builtin::Cpu => i64::from(env.cpu),
            Builtin::CurThread => env.current_task as i64,
            Builtin::ProbeId => i64::from(self.probe().id),
            Builtin::Epid => self.epid(code),
            Builtin::Caller => self.walk(false).get(1).map_or(0, |&ip| ip as i64),
            Builtin::Ucaller => self.walk(true).get(1).map_or(0, |&ip| ip as i64),
        }
    }

    fn epid(&self, code: &ClauseCode) -> i64 {
        i64::from(probity_ir::epid(self.program, self.firing.unit, code.clause, self.index))
    }

    /// The bytes at an address, or the fault.
    fn read(&self, space: Space, addr: u64, len: usize) -> Faulted<Vec<u8>> {
        let unit = &self.program.units[self.firing.unit.0 as usize];
        let env = self.env();
        let ctx_len = self.firing.ctx.len() as u64;
        let bytes = match space {
            // Reading nothing can be done anywhere that is an address of the space at all, and by copy_from_user() even elsewhere.
            Space::User if len == 0 && (addr < USER_END || unit.prog.sleepable) => Some(Vec::new()),
            Space::User if addr < USER_END => env.user.read(addr, len, unit.prog.sleepable),
            Space::User | Space::Absent => None,
            Space::Kernel if addr.wrapping_sub(PLACES) < PLACE_ROOM * self.places.len() as u64 => {
                let at = addr - PLACES;
                let bytes = self.bytes_at(&self.places[(at / PLACE_ROOM) as usize]);
                let at = (at % PLACE_ROOM) as usize;
                bytes.get(at..at + len).map(<[u8]>::to_vec)
            }
            Space::Kernel if addr >= CTX_ADDR && addr - CTX_ADDR < ctx_len => {
                let at = (addr - CTX_ADDR) as usize;
                self.firing.ctx.get(at..at + len).map(<[u8]>::to_vec)
            }
            Space::Kernel if addr >= KERNEL_START && len == 0 => Some(Vec::new()),
            Space::Kernel if addr >= KERNEL_START => env.kernel.read(addr, len, false),
            Space::Kernel => None,
            // The first bytes are nobody's.
            Space::Scratch if addr < 8 => None,
            Space::Scratch => {
                usize::try_from(addr).ok().and_then(|at| self.scratch.get(at..at.checked_add(len)?)).map(<[u8]>::to_vec)
            }
        };
        bytes.ok_or((Fault::BadAddress, addr))
    }

    fn load(&self, space: Space, addr: u64, size: u8, signed: bool) -> Faulted<i64> {
        Ok(number(&self.read(space, addr, usize::from(size))?, signed))
    }

    fn read_str(&self, space: Space, addr: u64, most: u64) -> Faulted<Vec<u8>> {
        let mut out = Vec::new();
        if space == Space::Scratch {
            self.run_of(addr, 1)?;
            let rest = &self.scratch[addr as usize..];
            out.extend(until_nul(&rest[..rest.len().min(usize::try_from(most).unwrap_or(usize::MAX))]));
            return Ok(out);
        }
        // The byte where the NUL will be must be readable too.
        for i in 0..=most {
            let byte = self.read(space, addr.wrapping_add(i), 1).map_err(|(fault, _)| (fault, addr))?[0];
            if byte == 0 {
                break;
            }
            if i < most {
                out.push(byte);
            }
        }
        Ok(out)
    }

    fn location(&self, location: &Location) -> Faulted<i64> {
        let unit = &self.program.units[self.firing.unit.0 as usize];
        let ctx = |offset: u32, size: u8| {
            let at = offset as usize;
            &self.firing.ctx[at..at + usize::from(size)]
        };
        Ok(match location {
            Location::Value(n) => *n,
            Location::Ctx { offset, size, signed } => number(ctx(*offset, *size), *signed),
            Location::Reg { dwarf } => number(ctx(pt_regs_offset(*dwarf), 8), true),
            Location::UserRegister { .. } => panic!("the interpreter has no user registers"),
            Location::Pc { space } => {
                assert!(matches!(unit.prog.ctx, Ctx::Regs | Ctx::PerfEvent));
                let pc = number(ctx(pt_regs_offset(16), 8), true);
                if (pc < 0) == (*space == Space::Kernel) { pc } else { 0 }
            }
            Location::Memory { base, offset, size, signed, space } => {
                let addr = self.location(base)?.wrapping_add(*offset) as u64;
                self.load(*space, addr, *size, *signed)?
            }
            Location::Btf { base, offset, size, signed } => {
                let addr = (self.location(base)? as u64).wrapping_add(u64::from(*offset));
                let bytes = self.env().kernel.read(addr, usize::from(*size), false);
                number(&bytes.unwrap_or_else(|| vec![0; usize::from(*size)]), *signed)
            }
            Location::CurrentTask => self.env().current_task as i64,
            Location::Narrow { of, size, signed } => extend(self.location(of)?, *size, *signed),
            Location::Address { base, offset, .. } => self.location(base)?.wrapping_add(*offset),
            Location::Sum { base, plus, times } => {
                let base = self.location(base)?;
                base.wrapping_add(self.location(plus)?.wrapping_mul(*times))
            }
            Location::Site => (self.env().cookie >> 32) as i64,
            Location::DataLoc { offset } => {
                let word = number(ctx(*offset, 4), false) as u64;
                (CTX_ADDR + (word & 0xffff)) as i64
            }
            Location::CtxAddress { offset } => (CTX_ADDR + u64::from(*offset)) as i64,
            Location::Masked { .. } | Location::Case { .. } => panic!("lowering leaves none of these"),
            Location::None(_) => 0,
        })
    }
}

/// Offsets in `struct pt_regs` of x86-64 by DWARF number, from the kernel's definition of the structure: r15 r14 r13 r12
/// rbp rbx r11 r10 r9 r8 rax rcx rdx rsi rdi orig_rax rip cs eflags rsp ss.
fn pt_regs_offset(dwarf: u16) -> u32 {
    let names = ["rax", "rdx", "rcx", "rbx", "rsi", "rdi", "rbp", "rsp"];
    let order = "r15 r14 r13 r12 rbp rbx r11 r10 r9 r8 rax rcx rdx rsi rdi orig rip cs eflags rsp ss";
    let wanted = match dwarf {
        0..=7 => names[usize::from(dwarf)].to_owned(),
        16 => "rip".to_owned(),
        n => format!("r{n}"),
    };
    8 * order.split(' ').position(|name| name == wanted).expect("a register") as u32
}

fn until_nul(bytes: &[u8]) -> &[u8] {
    bytes.split(|&b| b == 0).next().unwrap_or(&[])
}

fn number(bytes: &[u8], signed: bool) -> i64 {
    let mut word = [0; 8];
    word[..bytes.len()].copy_from_slice(bytes);
    extend(i64::from_le_bytes(word), bytes.len() as u8, signed)
}

fn extend(n: i64, size: u8, signed: bool) -> i64 {
    match (size, signed) {
        (1, true) => i64::from(n as i8),
        (1, false) => i64::from(n as u8),
        (2, true) => i64::from(n as i16),
        (2, false) => i64::from(n as u16),
        (4, true) => i64::from(n as i32),
        (4, false) => i64::from(n as u32),
        _ => n,
    }
}

fn binary(op: BinOp, a: i64, b: i64) -> Faulted<i64> {
    let divides = matches!(op, BinOp::DivS | BinOp::DivU | BinOp::RemS | BinOp::RemU);
    if divides && b == 0 {
        return Err((Fault::DivideByZero, 0));
    }
    let (ua, ub) = (a as u64, b as u64);
    let count = (b & 63) as u32;
    Ok(match op {
        BinOp::Add => a.wrapping_add(b),
        BinOp::Sub => a.wrapping_sub(b),
        BinOp::Mul => a.wrapping_mul(b),
        BinOp::DivS => a.wrapping_div(b),
        BinOp::DivU => (ua / ub) as i64,
        BinOp::RemS => a.wrapping_rem(b),
        BinOp::RemU => (ua % ub) as i64,
        BinOp::And => a & b,
        BinOp::Or => a | b,
        BinOp::Xor => a ^ b,
        BinOp::Shl => a << count,
        BinOp::ShrS => a >> count,
        BinOp::ShrU => (ua >> count) as i64,
        BinOp::Eq => i64::from(a == b),
        BinOp::Ne => i64::from(a != b),
        BinOp::LtS => i64::from(a < b),
        BinOp::LtU => i64::from(ua < ub),
        BinOp::LeS => i64::from(a <= b),
        BinOp::LeU => i64::from(ua <= ub),
    })
}

/// What an update does to the words of an aggregation's value.
fn update(func: AggFunc, words: &mut [u64], args: &[i64]) {
    let value = args.first().copied().unwrap_or(0);
    let weight = args.get(1).copied().unwrap_or(1) as u64;
    match func {
        AggFunc::Count => words[0] += 1,
        AggFunc::Sum => words[0] = words[0].wrapping_add(value as u64),
        AggFunc::Min => words[0] = words[0].max((i128::from(i64::MAX) - i128::from(value)) as u64),
        AggFunc::Max => words[0] = words[0].max((i128::from(value) - i128::from(i64::MIN)) as u64),
        AggFunc::Avg => {
            words[0] += 1;
            words[1] = words[1].wrapping_add(value as u64);
        }
        AggFunc::Stddev => {
            words[0] += 1;
            words[1] = words[1].wrapping_add(value as u64);
            let before = u128::from(words[3]) << 64 | u128::from(words[2]);
            let after = before.wrapping_add((i128::from(value) * i128::from(value)) as u128);
            (words[2], words[3]) = (after as u64, (after >> 64) as u64);
        }
        AggFunc::Quantize | AggFunc::Lquantize { .. } | AggFunc::Llquantize { .. } => {
            let bucket = bucket(func, i128::from(value));
            words[bucket] = words[bucket].wrapping_add(weight);
        }
    }
}

/// The bucket of a value, found by trying the bounds that `ir::buckets` documents.
fn bucket(func: AggFunc, v: i128) -> usize {
    match func {
        AggFunc::Quantize => {
            let zero = i32::try_from(buckets::QUANTIZE_ZERO).expect("small");
            let k = (0..63).rev().find(|k| v.abs() >= 1 << k);
            match k {
                None => zero as usize,
                Some(k) if v > 0 => (zero + 1 + k) as usize,
                Some(k) => (zero - 1 - k.min(62)) as usize,
            }
        }
        AggFunc::Lquantize { low, high, step } => {
            let levels = i128::from(buckets::lquantize_levels(low, high, step));
            if v < i128::from(low) {
                0
            } else if v >= i128::from(high) {
                levels as usize + 1
            } else {
                (1 + (v - i128::from(low)) / i128::from(step)) as usize
            }
        }
        AggFunc::Llquantize { factor, low, high, steps } => {
            let bounds = buckets::llquantize_bounds(factor, low, high, steps);
            let n = bounds.len();
            let k = bounds.iter().rposition(|&bound| v.abs() >= i128::from(bound));
            match k {
                None => n,
                Some(k) if v > 0 => n + 1 + k,
                Some(k) => n - 1 - k,
            }
        }
        _ => 0,
    }
}
