//! Programs on the running kernel: all of them must be accepted, on the first try.

use crate::build::*;
use probity_ir::*;

fn load(name: &str, p: &Program) {
    let (object, layout) = compile(p);
    if !probity_kernel::can_bpf() {
        eprintln!("skipped: loading BPF programs is not permitted here");
        return;
    }
    if let Err(e) = probity_kernel::load(&object) {
        panic!("{name}: {e:?}\n{}", probity_compiler::listing(&object, &layout, p));
    }
}

#[test]
fn the_common_path_loads() {
    let (p, ..) = crate::run::common_path();
    load("common", &p);
}

/// Every kind of program, with what is special about its context.
fn kinds() -> Vec<(&'static str, ProgKind)> {
    let mut kprobe_sleep = prog(2, Ctx::Regs);
    kprobe_sleep.sleepable = true;
    vec![
        ("raw_tp", prog(17, Ctx::Args)),
        ("kprobe", prog(2, Ctx::Regs)),
        ("tracepoint", prog(5, Ctx::Record)),
        ("perf_event", prog(7, Ctx::PerfEvent)),
        ("uprobe.s", kprobe_sleep),
    ]
}

fn with_kind(kind: &ProgKind, build: impl FnOnce(&mut Program, &mut Code)) -> Program {
    let mut p = program();
    p.units[0].prog = kind.clone();
    let mut c = Code::default();
    build(&mut p, &mut c);
    add(&mut p, c);
    p
}

const FUNCS: [AggFunc; 9] = [
    AggFunc::Count,
    AggFunc::Sum,
    AggFunc::Min,
    AggFunc::Max,
    AggFunc::Avg,
    AggFunc::Stddev,
    AggFunc::Quantize,
    AggFunc::Lquantize { low: 0, high: 1000, step: 7 },
    AggFunc::Llquantize { factor: 10, low: 0, high: 6, steps: 20 },
];

/// One statement of every sort.
fn everything(p: &mut Program, c: &mut Code, cap: u32, funcs: &[AggFunc]) {
    let str_val = Val::Str { cap };
    let gi = global(p, Scope::Global, Val::Int);
    let gs = global(p, Scope::Global, str_val);
    let ti = global(p, Scope::Thread, Val::Int);
    let ts = global(p, Scope::Thread, str_val);
    let ci = global(p, Scope::Clause, Val::Int);
    let cs = global(p, Scope::Clause, str_val);
    let arg = c.arg(1);
    let one = c.c(1);
    let read = |c: &mut Code, space| c.e(Expr::ReadStr { addr: arg, space, cap, max: None });

    let e = c.bin(BinOp::Add, arg, one);
    c.s(Stmt::SetVar(gi, e));
    c.s(Stmt::SetVar(ti, arg));
    c.s(Stmt::SetVar(ci, arg));
    let s = read(c, Space::User);
    c.s(Stmt::SetVar(gs, s));
    let v = c.e(Expr::Var(gs));
    c.s(Stmt::SetVar(ts, v));
    let v = c.e(Expr::Var(ts));
    c.s(Stmt::SetVar(cs, v));
    let t = c.temp(Val::Int);
    c.s(Stmt::AddVar { var: gi, by: arg, old: Some(t) });
    let pid = c.b(Builtin::Pid);
    for scope in [Scope::Global, Scope::Thread] {
        let a = array(p, scope, vec![str_val, Val::Int], Val::Int);
        let b = array(p, scope, vec![Val::Int], str_val);
        let key = |c: &mut Code| vec![c.e(Expr::Var(cs)), pid];
        let k = key(c);
        c.s(Stmt::SetElem(a, k, arg));
        let k = key(c);
        c.s(Stmt::AddElem { array: a, key: k, by: one, old: Some(t) });
        let s = read(c, Space::Kernel);
        c.s(Stmt::SetElem(b, vec![pid], s));
        let k = key(c);
        let e = c.e(Expr::Elem(a, k));
        c.s(Stmt::SetVar(ti, e));
        let e = c.e(Expr::Elem(b, vec![pid]));
        c.s(Stmt::SetVar(gs, e));
    }
    let old = c.e(Expr::Temp(t));
    for &func in funcs {
        for (key, resettable) in [(vec![], false), (vec![], true), (vec![str_val, Val::Int], true)] {
            let g = agg(p, func, key.clone(), resettable);
            let members = if key.is_empty() { vec![] } else { vec![c.e(Expr::Comm), old] };
            let args = if func == AggFunc::Count { vec![] } else { vec![arg] };
            c.s(Stmt::Aggregate { agg: g, key: members, args });
        }
    }
    let dst = c.temp(Val::Int);
    c.s(Stmt::CopyIn { dst, addr: arg, len: pid, space: Space::User });
    let at = c.e(Expr::Temp(dst));
    let at = c.bin(BinOp::Add, at, old);
    let word = c.e(Expr::Load { addr: at, size: 4, signed: true, space: Space::Scratch });
    let user = c.e(Expr::Load { addr: arg, size: 2, signed: true, space: Space::User });
    let (x, y) = (c.e(Expr::Var(ts)), c.e(Expr::Var(cs)));
    let less = c.e(Expr::StrCmp(StrOp::Lt, x, y));
    let name = c.str("sshd");
    let same = c.e(Expr::StrCmp(StrOp::Eq, x, name));
    let joined = c.e(Expr::StrJoin { a: x, b: y, cap });
    let len = c.e(Expr::StrLen(joined));
    let some = c.e(Expr::Cond(less, joined, x));
    let limited = c.e(Expr::ReadStr { addr: arg, space: Space::User, cap, max: Some(len) });
    let bytes = c.e(Expr::ReadBytes { addr: arg, space: Space::Kernel, len: 24 });
    let wall = c.b(Builtin::WallTimestamp);
    let (caller, ucaller, task) = (c.b(Builtin::Caller), c.b(Builtin::Ucaller), c.b(Builtin::CurThread));
    let div = c.bin(BinOp::DivS, arg, pid);
    let values = vec![word, user, less, same, len, some, limited, bytes, wall, caller, ucaller, task, div];
    let kinds = [
        Val::Int,
        Val::Int,
        Val::Int,
        Val::Int,
        Val::Int,
        str_val,
        str_val,
        Val::Bytes { len: 24 },
        Val::Int,
        Val::Int,
        Val::Int,
        Val::Int,
        Val::Int,
    ];
    let r = record(p, RingKind::Data, kinds.to_vec());
    c.s(Stmt::Mark { line: 9, action: 3 });
    c.s(Stmt::Emit { record: r, values });
    let r = record(p, RingKind::Control, vec![Val::Int]);
    c.s(Stmt::If {
        cond: same,
        then: vec![Stmt::Emit { record: r, values: vec![one] }, Stmt::Stop],
        otherwise: vec![],
    });
}

#[test]
fn everything_loads_in_every_kind_of_program() {
    for (name, kind) in kinds() {
        for cap in [16, 100, 256] {
            let p = with_kind(&kind, |p, c| everything(p, c, cap, &FUNCS));
            load(&format!("{name} {cap}"), &p);
        }
    }
}

#[test]
fn several_clauses_load() {
    let mut p = program();
    for funcs in FUNCS[..6].chunks(2) {
        let mut c = Code::default();
        everything(&mut p, &mut c, 64, funcs);
        add(&mut p, c);
    }
    load("clauses", &p);
}

#[test]
fn more_maps_than_a_program_can_use_are_refused() {
    let mut p = program();
    let mut c = Code::default();
    for _ in 0..70 {
        let g = agg(&mut p, AggFunc::Count, vec![], false);
        c.s(Stmt::Aggregate { agg: g, key: vec![], args: vec![] });
    }
    add(&mut p, c);
    let error = probity_compiler::codegen(&p, &options()).unwrap_err();
    assert!(error.message.contains("64"), "{}", error.message);
}

#[test]
fn listing_names_units_and_lines() {
    let (p, ..) = crate::run::common_path();
    let text = text(&p);
    assert!(text.starts_with("unit unit ("), "{text}");
    assert!(text.contains("; line 3") && text.contains("call bpf_map_lookup_elem"), "{text}");
}

#[test]
fn long_strings_load() {
    let p = with_kind(&prog(17, Ctx::Args), |p, c| {
        let gs = global(p, Scope::Global, Val::Str { cap: 4096 });
        let gi = global(p, Scope::Global, Val::Int);
        let addr = c.arg(0);
        let s = c.e(Expr::ReadStr { addr, space: Space::User, cap: 4096, max: None });
        let v = c.e(Expr::Var(gs));
        let less = c.e(Expr::StrCmp(StrOp::Le, s, v));
        c.s(Stmt::SetVar(gi, less));
        let j = c.e(Expr::StrJoin { a: v, b: s, cap: 4096 });
        c.s(Stmt::SetVar(gs, j));
    });
    load("long", &p);
}

#[test]
fn locations_load() {
    let loc = |l| Expr::Loc(l);
    let memory =
        |base: Location, size, signed, space| Location::Memory { base: Box::new(base), offset: 8, size, signed, space };
    let cases = vec![
        (prog(2, Ctx::Regs), Location::Reg { dwarf: 5 }),
        (prog(2, Ctx::Regs), memory(Location::Reg { dwarf: 7 }, 4, true, Space::User)),
        (prog(2, Ctx::Regs), Location::Narrow { of: Box::new(Location::Reg { dwarf: 4 }), size: 4, signed: true }),
        (prog(7, Ctx::PerfEvent), Location::Pc { space: Space::User }),
        (prog(7, Ctx::PerfEvent), Location::Reg { dwarf: 16 }),
        (prog(5, Ctx::Record), Location::Ctx { offset: 8, size: 4, signed: true }),
        (prog(5, Ctx::Record), Location::Ctx { offset: 0, size: 2, signed: false }),
        (prog(5, Ctx::Record), Location::Ctx { offset: 13, size: 4, signed: false }),
        (prog(5, Ctx::Record), Location::DataLoc { offset: 8 }),
        (prog(5, Ctx::Record), Location::CtxAddress { offset: 16 }),
        (prog(17, Ctx::Args), Location::Ctx { offset: 8, size: 8, signed: false }),
        (prog(17, Ctx::Args), Location::Ctx { offset: 8, size: 4, signed: true }),
        (
            prog(17, Ctx::Args),
            memory(
                memory(Location::Ctx { offset: 0, size: 8, signed: false }, 8, false, Space::Kernel),
                1,
                true,
                Space::Kernel,
            ),
        ),
        (prog(17, Ctx::Args), Location::CurrentTask),
        (
            prog(17, Ctx::Args),
            Location::Btf { base: Box::new(Location::CurrentTask), offset: 0, size: 4, signed: true },
        ),
    ];
    for (kind, location) in cases {
        let p = with_kind(&kind, |p, c| {
            let gi = global(p, Scope::Global, Val::Int);
            let g = agg(p, AggFunc::Count, vec![Val::Int], false);
            let l = c.e(loc(location.clone()));
            c.predicate = Some(l);
            let three = c.c(3);
            let e = c.bin(BinOp::Mul, l, three);
            c.s(Stmt::SetVar(gi, e));
            c.s(Stmt::Aggregate { agg: g, key: vec![l], args: vec![] });
            let s = c.e(Expr::ReadStr { addr: l, space: Space::Kernel, cap: 32, max: None });
            let len = c.e(Expr::StrLen(s));
            c.s(Stmt::SetVar(gi, len));
        });
        load(&format!("{location:?}"), &p);
    }
}
