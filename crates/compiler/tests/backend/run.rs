//! Programs in the interpreter: what they leave in maps and rings.

use crate::build::*;
use probity_bpf::Object;
use probity_bpf::interp::Machine;
use probity_ir::*;

/// A machine that is tracing, and what belongs to it.
pub struct World {
    pub object: Object,
    pub layout: Layout,
    pub m: Machine,
}

pub fn world(p: &Program) -> World {
    let (object, layout) = compile(p);
    let mut m = Machine::new(&object);
    let mut state = m.map_lookup(layout.state_map as usize, &[0; 4]).unwrap();
    state[..8].copy_from_slice(&0u64.to_le_bytes());
    m.map_update(layout.state_map as usize, &[0; 4], &state, 0).unwrap();
    World { object, layout, m }
}

impl World {
    pub fn fire(&mut self, args: &[u64]) {
        self.fire_prog(0, args);
    }

    pub fn fire_prog(&mut self, prog: usize, args: &[u64]) {
        let mut ctx: Vec<u8> = args.iter().flat_map(|a| a.to_le_bytes()).collect();
        ctx.resize(96, 0);
        if let Err(fault) = self.m.run(&self.object.progs[prog], &mut ctx) {
            let list = probity_bpf::disasm::program(&self.object.progs[prog], &self.object.maps);
            panic!("{fault}\n{list}");
        }
    }

    pub fn global(&self, var: VarId) -> i64 {
        let VarPlace::Global(off) = self.layout.var(var) else { panic!() };
        let state = self.m.map_lookup(self.layout.state_map as usize, &[0; 4]).unwrap();
        i64::from_le_bytes(state[off as usize..][..8].try_into().unwrap())
    }

    pub fn global_str(&self, var: VarId) -> Vec<u8> {
        let VarPlace::Global(off) = self.layout.var(var) else { panic!() };
        let state = self.m.map_lookup(self.layout.state_map as usize, &[0; 4]).unwrap();
        let s = &state[off as usize..];
        s[..s.iter().position(|&b| b == 0).unwrap()].to_vec()
    }

    pub fn records(&mut self) -> Vec<Vec<u8>> {
        let cpu = self.m.env.cpu;
        let data = match &self.layout.data_rings {
            DataRings::Each(maps) => Some(maps[cpu as usize] as usize),
            DataRings::Nested(rings) => self.m.inner_map(*rings as usize, &cpu.to_le_bytes()),
            DataRings::None => None,
        };
        let rings = data.into_iter().chain(self.layout.fault_ring.map(|r| r as usize));
        rings.flat_map(|ring| self.m.take_records(ring)).collect()
    }

    pub fn drops(&self, cause: Drop) -> u64 {
        let value = self.m.map_lookup(self.layout.drops_map as usize, &[0; 4]).unwrap();
        let row = (cause as usize * self.layout.ncpu as usize) * 8;
        (0..self.layout.ncpu as usize).map(|c| u64at(&value, row + c * 8)).sum()
    }

    pub fn keyed(&self, agg: AggId) -> Vec<(Vec<u8>, Vec<u64>)> {
        let layout = &self.layout.aggs[agg.0 as usize];
        let entries = self.m.map_entries(layout.map as usize);
        entries.into_iter().map(|(k, v)| (k, (0..v.len() / 8).map(|i| u64at(&v, i * 8)).collect())).collect()
    }

    pub fn part(&self, agg: AggId, part: usize) -> Vec<u64> {
        let layout = &self.layout.aggs[agg.0 as usize];
        let v = self.m.map_lookup(layout.map as usize, &[0; 4]).unwrap();
        (0..layout.words as usize).map(|i| u64at(&v, part * layout.stride as usize + i * 8)).collect()
    }
}

pub fn u64at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

fn u32at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}

/// Evaluates one integer expression of two arguments.
fn eval(build: impl Fn(&mut Code, ExprId, ExprId) -> ExprId, a: i64, b: i64) -> Result<i64, Vec<Vec<u8>>> {
    let mut p = program();
    let v = global(&mut p, Scope::Global, Val::Int);
    let mut c = Code::default();
    let (x, y) = (c.arg(0), c.arg(1));
    let e = build(&mut c, x, y);
    c.s(Stmt::SetVar(v, e));
    add(&mut p, c);
    let mut w = world(&p);
    w.fire(&[a as u64, b as u64]);
    let records = w.records();
    if records.is_empty() { Ok(w.global(v)) } else { Err(records) }
}

#[test]
fn division_is_c_and_zero_faults() {
    for (a, b) in [(7, 2), (-7, 2), (7, -2), (-7, -2), (i64::MIN, -1), (i64::MIN, 3), (5, i64::MIN)] {
        let div = eval(|c, x, y| c.bin(BinOp::DivS, x, y), a, b).unwrap();
        let rem = eval(|c, x, y| c.bin(BinOp::RemS, x, y), a, b).unwrap();
        assert_eq!((div, rem), (a.wrapping_div(b), a.wrapping_rem(b)), "{a} / {b}");
        let by = |op, k: i64| {
            eval(
                move |c, x, _| {
                    let k = c.c(k);
                    c.bin(op, x, k)
                },
                a,
                0,
            )
            .unwrap()
        };
        assert_eq!(by(BinOp::DivS, b), a.wrapping_div(b));
        assert_eq!(by(BinOp::RemS, b), a.wrapping_rem(b));
        assert_eq!(by(BinOp::DivU, b), (a as u64 / b as u64) as i64);
    }
    let fault = eval(|c, x, y| c.bin(BinOp::RemU, x, y), 1, 0).unwrap_err();
    assert_eq!(u32at(&fault[0], 8), FAULT);
    assert_eq!(u32at(&fault[0], 16 + 16), Fault::DivideByZero as u32);
}

#[test]
fn conditions_and_extensions() {
    let lt = |a, b| eval(|c, x, y| c.bin(BinOp::LtS, x, y), a, b).unwrap();
    assert_eq!((lt(-1, 1), lt(1, -1), lt(1, 1)), (1, 0, 0));
    let ext = |a, size, signed| eval(|c, x, _| c.e(Expr::Ext { of: x, size, signed }), a, 0).unwrap();
    assert_eq!(ext(0x1ff, 1, true), -1);
    assert_eq!(ext(0x1_8000_0000, 4, true), i64::from(i32::MIN));
    assert_eq!(ext(-1, 4, false), 0xffff_ffff);
    assert_eq!(ext(-1, 2, false), 0xffff);
    let both = |a, b| eval(|c, x, y| c.e(Expr::And(x, y)), a, b).unwrap();
    assert_eq!((both(3, 4), both(0, 4), both(3, 0)), (1, 0, 0));
    let either = |a, b| eval(|c, x, y| c.e(Expr::Or(x, y)), a, b).unwrap();
    assert_eq!((either(0, 4), either(0, 0)), (1, 0));
    let cond = |a, b| {
        eval(
            |c, x, y| {
                let k = c.c(9);
                c.e(Expr::Cond(x, y, k))
            },
            a,
            b,
        )
        .unwrap()
    };
    assert_eq!((cond(1, 4), cond(0, 4)), (4, 9));
}

/// execname == "probity-test" → count by execname, and a record.
pub fn common_path() -> (Program, AggId, RecordId) {
    let mut p = program();
    let g = agg(&mut p, AggFunc::Count, vec![Val::Str { cap: 16 }], false);
    let r = record(&mut p, RingKind::Data, vec![Val::Int, Val::Str { cap: 16 }, Val::Str { cap: 256 }]);
    let mut c = Code::default();
    let comm = c.e(Expr::Comm);
    let name = c.str("probity-test");
    c.predicate = Some(c.e(Expr::StrCmp(StrOp::Eq, comm, name)));
    let comm = c.e(Expr::Comm);
    c.s(Stmt::Mark { line: 3, action: 1 });
    c.s(Stmt::Aggregate { agg: g, key: vec![comm], args: vec![] });
    let pid = c.b(Builtin::Pid);
    let comm = c.e(Expr::Comm);
    let addr = c.arg(0);
    let path = c.e(Expr::ReadStr { addr, space: Space::User, cap: 256, max: None });
    c.s(Stmt::Mark { line: 4, action: 2 });
    c.s(Stmt::Emit { record: r, values: vec![pid, comm, path] });
    add(&mut p, c);
    (p, g, r)
}

#[test]
fn the_common_path() {
    let (p, g, r) = common_path();
    let mut w = world(&p);
    w.m.env.user.map(0x1000, *b"/etc/passwd\0");
    w.fire(&[0x1000]);
    w.fire(&[0x1000]);
    w.fire(&[0x9999]);
    let entries = w.keyed(g);
    assert_eq!(entries.len(), 1);
    assert_eq!(entries[0].1, [3]);
    assert_eq!(&entries[0].0[8..], b"probity-test\0\0\0\0");
    let records = w.records();
    assert_eq!(records.len(), 3, "two records and a fault");
    let layout = &w.layout.records[r.0 as usize];
    assert_eq!(records[0].len() as u32, layout.size);
    assert_eq!(u64at(&records[0], 0), 1_000_000_000);
    assert_eq!(u64at(&records[0], layout.fields[0].0 as usize), 1000);
    assert!(records[0][layout.fields[2].0 as usize..].starts_with(b"/etc/passwd\0"));
    assert_eq!(u32at(&records[2], 8), FAULT);
    assert_eq!((u32at(&records[2], 24), u32at(&records[2], 28)), (2, 4), "action and line");
    assert_eq!(u32at(&records[2], 32), Fault::BadAddress as u32);
    assert_eq!(u64at(&records[2], 40), 0x9999);
    w.m.env.comm = *b"other\0\0\0\0\0\0\0\0\0\0\0";
    w.fire(&[0x1000]);
    assert!(w.records().is_empty());
}

#[test]
fn thread_variables_and_quantize() {
    let mut p = program();
    let ts = global(&mut p, Scope::Thread, Val::Int);
    let g = agg(&mut p, AggFunc::Quantize, vec![], false);
    // Clause 1: self->ts = arg0 when arg1; clause 2: /self->ts/ { @ = quantize(arg0 - self->ts); self->ts = 0 }.
    let mut c = Code::default();
    c.predicate = Some(c.arg(1));
    let v = c.arg(0);
    c.s(Stmt::SetVar(ts, v));
    add(&mut p, c);
    let mut c = Code::default();
    let one = c.arg(1);
    let zero = c.e(Expr::Un(UnOp::LogNot, one));
    let t = c.e(Expr::Var(ts));
    c.predicate = Some(c.e(Expr::And(zero, t)));
    let (now, t) = (c.arg(0), c.e(Expr::Var(ts)));
    let d = c.bin(BinOp::Sub, now, t);
    c.s(Stmt::Aggregate { agg: g, key: vec![], args: vec![d] });
    let z = c.c(0);
    c.s(Stmt::SetVar(ts, z));
    add(&mut p, c);
    let mut w = world(&p);
    let mut want = [0u64; 127];
    for (i, d) in [0i64, 1, 2, 3, 1000, -1, -2, -1000, i64::MAX - 1000, 1 << 32, (1 << 32) - 1].into_iter().enumerate()
    {
        w.fire(&[7, 0]); // Nothing is set: no effect.
        w.fire(&[500, 1]);
        w.fire(&[500u64.wrapping_add(d as u64), 0]);
        let bucket = match d {
            0 => 63,
            d if d > 0 => 64 + d.ilog2() as usize,
            d => (62 - d.unsigned_abs().ilog2() as i64).max(0) as usize,
        };
        want[bucket] += 1;
        assert_eq!(w.part(g, 0), want, "{i}: {d}");
    }
}

#[test]
fn every_aggregation() {
    let funcs = [
        AggFunc::Sum,
        AggFunc::Min,
        AggFunc::Max,
        AggFunc::Avg,
        AggFunc::Stddev,
        AggFunc::Lquantize { low: -10, high: 95, step: 10 },
        AggFunc::Llquantize { factor: 10, low: 0, high: 3, steps: 20 },
        AggFunc::Quantize,
    ];
    let values = [3i64, -4, 0, 94, 95, 96, -11, 1 << 40, i64::MIN, i64::MAX, 999, 1000, 10_000];
    for keyed in [false, true] {
        for resettable in [false, true] {
            for func in funcs {
                let mut p = program();
                let key = if keyed { vec![Val::Int] } else { vec![] };
                let g = agg(&mut p, func, key, resettable);
                let mut c = Code::default();
                let (a, k) = (c.arg(0), c.arg(1));
                let key = if keyed { vec![k] } else { vec![] };
                c.s(Stmt::Aggregate { agg: g, key, args: vec![a] });
                add(&mut p, c);
                let mut w = world(&p);
                w.m.env.cpu = 1;
                for v in values {
                    w.fire(&[v as u64, 77]);
                }
                let words = if keyed { w.keyed(g)[0].1.clone() } else { w.part(g, 1) };
                let n = values.len() as u64;
                let sum = values.iter().fold(0i64, |s, v| s.wrapping_add(*v)) as u64;
                let squares = values
                    .iter()
                    .fold(0u128, |s, v| s.wrapping_add(u128::from(v.unsigned_abs()) * u128::from(v.unsigned_abs())));
                match func {
                    AggFunc::Sum => assert_eq!(words, [sum]),
                    AggFunc::Min => assert_eq!(words, [i64::MAX.wrapping_sub(i64::MIN) as u64]),
                    AggFunc::Max => assert_eq!(words, [(i64::MAX ^ i64::MIN) as u64]),
                    AggFunc::Avg => assert_eq!(words, [n, sum]),
                    AggFunc::Stddev => assert_eq!(words, [n, sum, squares as u64, (squares >> 64) as u64]),
                    AggFunc::Lquantize { low, high, step } => {
                        let mut want = vec![0; words.len()];
                        let levels = buckets::lquantize_levels(low, high, step) as usize;
                        for v in values {
                            let at = match v {
                                v if v < low.into() => 0,
                                v if v >= high.into() => levels + 1,
                                v => 1 + (v - i64::from(low)) as usize / step as usize,
                            };
                            want[at] += 1;
                        }
                        assert_eq!(words, want);
                    }
                    AggFunc::Llquantize { factor, low, high, steps } => {
                        let bounds = buckets::llquantize_bounds(factor, low, high, steps);
                        let mut want = vec![0; words.len()];
                        for v in values {
                            let m = v.unsigned_abs().min(i64::MAX as u64) as i64;
                            let count = bounds.iter().filter(|&&b| b <= m).count();
                            want[if v < 0 { bounds.len() - count } else { bounds.len() + count }] += 1;
                        }
                        assert_eq!(words, want);
                    }
                    _ => assert_eq!(words.iter().sum::<u64>(), n),
                }
            }
        }
    }
}

#[test]
fn associative_arrays_delete_by_zero() {
    for scope in [Scope::Global, Scope::Thread] {
        let mut p = program();
        let a = array(&mut p, scope, vec![Val::Str { cap: 20 }, Val::Int], Val::Int);
        let (got, before) = (global(&mut p, Scope::Global, Val::Int), global(&mut p, Scope::Global, Val::Int));
        let mut c = Code::default();
        let t = c.temp(Val::Int);
        let key = |c: &mut Code| vec![c.e(Expr::Comm), c.arg(1)];
        let (op, v) = (c.arg(2), c.arg(0));
        let (k1, k2, k3) = (key(&mut c), key(&mut c), key(&mut c));
        let set = vec![Stmt::SetElem(a, k1, v)];
        let old = c.e(Expr::Temp(t));
        let inc = vec![Stmt::AddElem { array: a, key: k2, by: v, old: Some(t) }, Stmt::SetVar(before, old)];
        c.s(Stmt::If { cond: op, then: inc, otherwise: set });
        let e = c.e(Expr::Elem(a, k3));
        c.s(Stmt::SetVar(got, e));
        add(&mut p, c);
        let mut w = world(&p);
        let map = w.layout.array(a) as usize;
        w.fire(&[5, 1, 0]);
        assert_eq!(w.global(got), 5);
        w.fire(&[3, 1, 1]);
        assert_eq!((w.global(got), w.global(before)), (8, 5));
        w.fire(&[2, 9, 1]);
        assert_eq!((w.global(got), w.global(before)), (2, 0));
        assert_eq!(w.m.map_keys(map).len(), 2);
        w.fire(&[0, 1, 0]);
        assert_eq!((w.global(got), w.m.map_keys(map).len()), (0, 1));
        w.m.env.pid_tgid = 5 << 32 | 6;
        w.m.env.current_task += 4096;
        w.fire(&[1, 9, 1]);
        assert_eq!(w.global(got), if scope == Scope::Global { 3 } else { 1 });
        assert_eq!(w.drops(Drop::Dynamic), 0);
    }
}

#[test]
fn strings_compare_join_and_measure() {
    let mut p = program();
    let s = Val::Str { cap: 40 };
    let (g, h) = (global(&mut p, Scope::Global, s), global(&mut p, Scope::Global, s));
    let len = global(&mut p, Scope::Global, Val::Int);
    let order = global(&mut p, Scope::Global, Val::Int);
    let mut c = Code::default();
    let read = |c: &mut Code, n| {
        let addr = c.arg(n);
        c.e(Expr::ReadStr { addr, space: Space::User, cap: 40, max: None })
    };
    let (a, b) = (read(&mut c, 0), read(&mut c, 1));
    let j = c.e(Expr::StrJoin { a, b, cap: 40 });
    c.s(Stmt::SetVar(g, j));
    let (pre, gv) = (c.str("x:"), c.e(Expr::Var(g)));
    let j = c.e(Expr::StrJoin { a: pre, b: gv, cap: 40 });
    c.s(Stmt::SetVar(h, j));
    let hv = c.e(Expr::Var(h));
    let l = c.e(Expr::StrLen(hv));
    c.s(Stmt::SetVar(len, l));
    let mut total = c.c(0);
    for (i, op) in [StrOp::Eq, StrOp::Ne, StrOp::Lt, StrOp::Le, StrOp::Gt, StrOp::Ge].into_iter().enumerate() {
        let (a, b) = (read(&mut c, 0), read(&mut c, 1));
        let cmp = c.e(Expr::StrCmp(op, a, b));
        let k = c.c(1 << i);
        let bit = c.bin(BinOp::Mul, cmp, k);
        total = c.bin(BinOp::Or, total, bit);
    }
    c.s(Stmt::SetVar(order, total));
    add(&mut p, c);
    let mut w = world(&p);
    let long = "0123456789012345678901234567890123456789ABCDEF";
    for (a, b) in [("abc", "abd"), ("", ""), ("abcdefgh", "abcdefg"), ("\u{ff}", "a"), (long, "z"), ("z", long)] {
        w.m.env.user.map(0x1000, format!("{a}\0"));
        w.m.env.user.map(0x2000, format!("{b}\0"));
        w.fire(&[0x1000, 0x2000]);
        let cut = |s: &str| s.as_bytes()[..s.len().min(39)].to_vec();
        let (x, y) = (cut(a), cut(b));
        let mut joined = [x.clone(), y.clone()].concat();
        joined.truncate(39);
        assert_eq!(w.global_str(g), joined);
        let mut more = [b"x:".to_vec(), joined].concat();
        more.truncate(39);
        assert_eq!(w.global_str(h), more);
        assert_eq!(w.global(len), more.len() as i64);
        let want = [x == y, x != y, x < y, x <= y, x > y, x >= y];
        let want: i64 = want.iter().enumerate().map(|(i, &b)| i64::from(b) << i).sum();
        assert_eq!(w.global(order), want, "{a} {b}");
        w.m.env.user.unmap(0x1000);
        w.m.env.user.unmap(0x2000);
    }
    assert!(w.records().is_empty());
    let state = w.m.map_lookup(w.layout.state_map as usize, &[0; 4]).unwrap();
    assert_eq!(u64at(&state, w.layout.claims_offset as usize), 0, "the slot was given back");
}

#[test]
fn stop_keeps_later_clauses_from_running() {
    let mut p = program();
    let v = global(&mut p, Scope::Global, Val::Int);
    for n in [1, 2] {
        let mut c = Code::default();
        if n == 1 {
            c.s(Stmt::Stop);
        }
        let by = c.c(n);
        c.s(Stmt::AddVar { var: v, by, old: None });
        add(&mut p, c);
    }
    let mut w = world(&p);
    w.fire(&[]);
    w.fire(&[]);
    assert_eq!(w.global(v), 1);
}

#[test]
fn selectors_find_the_clauses() {
    let number = Location::Ctx { offset: 8, size: 8, signed: false };
    let flags = Location::Ctx { offset: 16, size: 8, signed: false };
    for count in [1u32, 3, 40] {
        let mut p = program();
        let v = global(&mut p, Scope::Global, Val::Int);
        let unit = &mut p.units[0];
        unit.selector = Selector::Syscall { number: number.clone(), compat: Some((flags.clone(), 2)), limit: 1024 };
        unit.probes = vec![None; 1024];
        for i in 0..count {
            unit.probes[i as usize * 3 + 1] = probe(i, "native");
            unit.probes[i as usize * 5 + 512] = probe(i + 1000, "compat");
        }
        let mut c = Code::default();
        let id = c.b(Builtin::ProbeId);
        c.s(Stmt::SetVar(v, id));
        add(&mut p, c);
        let mut c = Code { probes: vec![1, 512], ..Code::default() };
        let by = c.c(100_000);
        c.s(Stmt::AddVar { var: v, by, old: None });
        add(&mut p, c);
        let mut w = world(&p);
        for n in [0u64, 1, 2, 4, 5, 7, 10, 200, 511, 512, 513, 1023, 1024, u64::MAX, 1 << 40 | 1] {
            for compat in [false, true] {
                w.fire(&[0, n, if compat { 3 } else { 1 }]);
                let at = if compat { n.wrapping_add(512) } else { n };
                let probe = if n < 512 { p.units[0].probes.get(at as usize).and_then(Option::as_ref) } else { None };
                let mut want = probe.map_or(-1, |p| i64::from(p.id));
                if probe.is_some() && (at == 1 || at == 512) {
                    want += 100_000;
                }
                let got = w.global(v);
                assert_eq!(got, if probe.is_none() { 0 } else { want }, "{count} {n} {compat}");
                let VarPlace::Global(off) = w.layout.var(v) else { panic!() };
                let mut state = w.m.map_lookup(w.layout.state_map as usize, &[0; 4]).unwrap();
                state[off as usize..][..8].fill(0);
                w.m.map_update(w.layout.state_map as usize, &[0; 4], &state, 0).unwrap();
            }
        }
    }
}

#[test]
fn copies_to_a_process() {
    let mut p = program();
    let mut c = Code::default();
    let (to, len) = (c.arg(0), c.arg(1));
    let text = c.str("hello");
    c.s(Stmt::CopyOut { to, from: text, space: Space::Kernel, len, text: false });
    let by = c.c(32);
    let to = c.bin(BinOp::Add, to, by);
    c.s(Stmt::CopyOut { to, from: text, space: Space::Kernel, len, text: true });
    let dst = c.temp(Val::Int);
    let size = c.c(8);
    c.s(Stmt::Alloc { dst, len: size });
    let at = c.e(Expr::Temp(dst));
    let word = c.c(0x4241);
    c.s(Stmt::Store { to: Dest::Scratch, offset: at, value: word, size: 8 });
    let to = c.bin(BinOp::Add, to, by);
    c.s(Stmt::CopyOut { to, from: at, space: Space::Scratch, len, text: false });
    add(&mut p, c);
    let mut w = world(&p);
    for len in [0u64, 3, 6, 8] {
        w.m.env.user = Default::default();
        w.m.env.user.map(0x1000, vec![b'-'; 96]);
        w.fire(&[0x1000, len]);
        let got = w.m.env.user.read(0x1000, 96, false).expect("it was mapped");
        let want = |start: usize, bytes: &[u8]| {
            let mut all = vec![b'-'; 32];
            all[..bytes.len()].copy_from_slice(bytes);
            assert_eq!(&got[start..start + 32], all, "length {len}");
        };
        let n = len as usize;
        want(0, &b"hello\0\0\0"[..n]);
        want(32, &b"hello\0"[..n.min(6)]);
        want(64, &b"AB\0\0\0\0\0\0"[..n]);
    }
    // Too long for the piece of scratch memory, and no memory at all.
    w.fire(&[0x1000, 9]);
    w.fire(&[0x66_6000, 1]);
    let faults: Vec<u32> = w.records().iter().map(|r| u32at(r, 16 + 16)).collect();
    assert_eq!(faults, [Fault::BadSize as u32, Fault::BadAddress as u32]);
}
