//! What programs mean: the IR that comes out.

use super::*;

/// An expression as text, for comparisons.
fn show(c: &ClauseCode, e: ExprId) -> String {
    let s = |e: &ExprId| show(c, *e);
    match &c.exprs[e.0 as usize] {
        Expr::Const(v) => v.to_string(),
        Expr::Loc(Location::Btf { base, offset, size, signed }) => {
            let base = if matches!(**base, Location::CurrentTask) { "task".into() } else { format!("{base:?}") };
            format!("btf({base},{offset},{size},{signed})")
        }
        Expr::Loc(Location::Ctx { offset, .. }) => format!("ctx{offset}"),
        Expr::Loc(Location::Reg { dwarf }) => format!("reg{dwarf}"),
        Expr::Loc(l) => format!("{l:?}"),
        Expr::Builtin(b) => format!("{b:?}"),
        Expr::Temp(t) => format!("t{}", t.0),
        Expr::Var(v) => format!("v{}", v.0),
        Expr::Elem(a, k) => format!("a{}[{}]", a.0, k.iter().map(s).collect::<Vec<_>>().join(",")),
        Expr::Un(op, a) => format!("{op:?}({})", s(a)),
        Expr::Bin(op, a, b) => format!("{op:?}({},{})", s(a), s(b)),
        Expr::Ext { of, size, signed } => format!("{}{}({})", if *signed { "i" } else { "u" }, size * 8, s(of)),
        Expr::And(a, b) => format!("and({},{})", s(a), s(b)),
        Expr::Or(a, b) => format!("or({},{})", s(a), s(b)),
        Expr::Cond(a, b, d) => format!("cond({},{},{})", s(a), s(b), s(d)),
        Expr::Load { addr, size, signed, space } => {
            format!("{space:?}.{}{}[{}]", if *signed { "i" } else { "u" }, size * 8, s(addr))
        }
        Expr::StrCmp(op, a, b) => format!("str{op:?}({},{})", s(a), s(b)),
        Expr::ScratchAddr(a) => format!("scratch({})", s(a)),
        Expr::StrLen(a) => format!("len({})", s(a)),
        Expr::Str(b) => format!("{:?}", String::from_utf8_lossy(b)),
        Expr::Comm => "comm".into(),
        Expr::ProbeText(p) => format!("text({p:?})"),
        Expr::ProbeIndex => "index".into(),
        Expr::ReadStr { addr, space, cap, max } => {
            format!("{space:?}.str{cap}[{}{}]", s(addr), max.map(|m| format!(",{}", show(c, m))).unwrap_or_default())
        }
        Expr::StrJoin { a, b, cap } => format!("join{cap}({},{})", s(a), s(b)),
        Expr::Sub { sub, args, cap } => {
            format!("{sub:?}{cap}({})", args.iter().map(s).collect::<Vec<_>>().join(","))
        }
        Expr::Stack(w) => format!("stack[{} {} {} {:?}]", w.user, w.frames, w.strsize, w.entry),
        Expr::Part { of, offset, size, .. } => format!("{}@{offset}:{size}", s(of)),
        Expr::UserAddr(a) => format!("user[{}]", s(a)),
        Expr::ReadBytes { addr, space, len } => format!("{space:?}.bytes{len}[{}]", s(addr)),
        Expr::AddrOf(p) => format!("&{}", place(c, p)),
        Expr::Bounded { index, len } => format!("{} below {len}", s(index)),
        Expr::CharAt { of, index } => format!("{}[{}]", s(of), s(index)),
    }
}

fn place(c: &ClauseCode, p: &Place) -> String {
    match p {
        Place::Var(v) => format!("v{}", v.0),
        Place::Elem(a, k) => format!("a{}[{}]", a.0, k.iter().map(|e| show(c, *e)).collect::<Vec<_>>().join(",")),
    }
}

fn block(c: &ClauseCode, stmts: &[Stmt]) -> String {
    let list = |k: &[ExprId]| k.iter().map(|e| show(c, *e)).collect::<Vec<_>>().join(",");
    let old = |t: &Option<TempId>| t.map(|t| format!("t{} = ", t.0)).unwrap_or_default();
    let mut out = Vec::new();
    for s in stmts {
        out.push(match s {
            Stmt::Mark { .. } => continue,
            Stmt::SetTemp(t, e) => format!("t{} = {}", t.0, show(c, *e)),
            Stmt::SetVar(v, e) => format!("v{} = {}", v.0, show(c, *e)),
            Stmt::AddVar { var, by, old: o } => format!("{}v{} += {}", old(o), var.0, show(c, *by)),
            Stmt::SetElem(a, k, e) => format!("a{}[{}] = {}", a.0, list(k), show(c, *e)),
            Stmt::AddElem { array, key, by, old: o } => {
                format!("{}a{}[{}] += {}", old(o), array.0, list(key), show(c, *by))
            }
            Stmt::Alloc { dst, len } => format!("t{} = alloc {}", dst.0, show(c, *len)),
            Stmt::CopyIn { dst, addr, len, space } => {
                format!("t{} = copyin {space:?} {} {}", dst.0, show(c, *addr), show(c, *len))
            }
            Stmt::Copy { to, from, space, len } => {
                format!("copy {} = {space:?} {} {}", show(c, *to), show(c, *from), show(c, *len))
            }
            Stmt::CopyOut { to, from, space, len, text } => {
                let what = if *text { "copyoutstr" } else { "copyout" };
                format!("{what} {} = {space:?} {} {}", show(c, *to), show(c, *from), show(c, *len))
            }
            Stmt::Store { to, offset, value, size } => {
                let to = match to {
                    Dest::Place(p) => place(c, p),
                    other => format!("{other:?}"),
                };
                format!("{to}+{}:{size} = {}", show(c, *offset), show(c, *value))
            }
            Stmt::Aggregate { agg, key, args } => format!("@{}[{}] <- {}", agg.0, list(key), list(args)),
            Stmt::Emit { record, values } => format!("emit{}({})", record.0, list(values)),
            Stmt::Act { act, dst, args } => format!("{}{act:?}({})", old(dst), list(args)),
            Stmt::Stop => "stop".into(),
            Stmt::If { cond, then, otherwise } => {
                format!("if {} {{{}}} else {{{}}}", show(c, *cond), block(c, then), block(c, otherwise))
            }
        });
    }
    out.join("; ")
}

fn body(text: &str) -> String {
    let p = program(text);
    let c = p.units.last().and_then(|u| u.clauses.last()).expect("a clause");
    block(c, &c.body)
}

/// The body of a clause for `syscall::read:entry`.
fn read(text: &str) -> String {
    body(&format!("syscall::read:entry {{ {text} }}"))
}

#[test]
fn the_first_program() {
    let p = program(
        "syscall::read:entry /execname == \"x\"/ { @[execname] = count(); printf(\"%d %s\\n\", pid, execname); }\n\
         BEGIN { self->x = 1; }\nEND { exit(0); }",
    );
    assert_eq!(p.units.len(), 3);
    let c = &p.units[0].clauses[0];
    assert_eq!(p.units[0].name, "syscall_entry");
    assert_eq!(show(c, c.predicate.unwrap()), "strEq(comm,\"x\")");
    assert_eq!(block(c, &c.body), "@0[comm] <- ; emit0(Pid,comm)");
    assert_eq!(p.aggs[0].key, [(Val::Str { cap: 16 }, Show::String)]);
    assert_eq!(p.records[0].fields, [Val::Int, Val::Str { cap: 16 }]);
    assert_eq!(p.records[0].ring, RingKind::Data);
    let end = &p.units[2].clauses[0];
    assert_eq!(block(end, &end.body), "emit1(0); stop");
    assert_eq!(p.records[1].ring, RingKind::Control);
    assert_eq!(p.units[1].phase, Phase::Begin);
    assert_eq!(p.clauses.iter().map(|c| c.line).collect::<Vec<_>>(), [1, 2, 3]);
}

#[test]
fn arithmetic_follows_c() {
    // An `int` wraps at 32 bits, a literal takes the width it needs, unsigned wins at equal width.
    assert_eq!(read("trace(pid + 1);"), "emit0(i32(Add(Pid,1)))");
    assert!(!read("trace(arg0 + 1);").contains("i32("));
    assert_eq!(read("trace(2147483647 + 1);"), "emit0(-2147483648)");
    assert_eq!(read("trace(2147483648 + 1);"), "emit0(2147483649)");
    assert_eq!(read("trace(-1 < 0u);"), "emit0(0)");
    assert_eq!(read("trace(pid < uid);"), "emit0(LtU(u32(Pid),Uid))");
    assert_eq!(read("trace((char)pid);"), "emit0(i8(Pid))");
    assert_eq!(read("trace((uint8_t)300);"), "emit0(44)");
    assert_eq!(read("trace(7 / -2); trace(7 % -2); trace(-8 >> 1);"), "emit0(-3,1,-4)");
    assert_eq!(read("trace(1 ^^ 1); trace(!5); trace(~0);"), "emit0(0,0,-1)");
    assert_eq!(read("trace(timestamp / pid);"), "emit0(DivU(Timestamp,Pid))");
    assert_eq!(read("trace('a'); trace(sizeof (int)); trace(sizeof (uint64_t *));"), "emit0(97,4,8)");
    // A conversion changes neither what is read nor how wide is computed.
    assert_eq!(read("trace((uint64_t)(uid - gid));"), "emit0(u32(Sub(Uid,Gid)))");
    assert!(read("trace((long)*(int *)arg0);").starts_with("emit0(Kernel.i32["));
    assert_eq!(read("trace(pid == 1 && tid == 2 || !uid);"), "emit0(or(and(Eq(Pid,1),Eq(Tid,2)),LogNot(Uid)))");
}

#[test]
fn variables() {
    assert_eq!(read("x++;"), "v0 += 1");
    assert_eq!(read("x += pid; x -= 2;"), "v0 += Pid; v0 += -2");
    assert_eq!(read("trace(x++);"), "t0 = v0 += 1; emit0(t0)");
    assert_eq!(read("trace(++x);"), "t0 = v0 += 1; emit0(Add(t0,1))");
    assert_eq!(read("x = 1; x++; trace(x);"), "v0 = 1; v0 += 1; emit0(i32(v0))");
    assert_eq!(read("this->x = 1; this->x++; trace(this->x);"), "v0 = 1; v0 = i32(Add(v0,1)); emit0(v0)");
    assert_eq!(read("x = 1; x *= 3;"), "v0 = 1; v0 = i32(Mul(v0,3))");
    assert_eq!(read("self->t = timestamp; self->t = 0;"), "v0 = Timestamp; v0 = 0");
    assert_eq!(read("a[pid, execname] = 1; a[1, \"x\"]++;"), "a0[Pid,comm] = 1; a0[1,\"x\"] += 1");
    assert_eq!(read("self->a[1] = execname; self->a[1] = 0;"), "a0[1] = comm; a0[1] = \"\"");
    assert_eq!(read("x = y = 3;"), "v0 = 3; v1 = 3");
    assert_eq!(read("x = 1; trace(x); x = 2; trace(x);"), "v0 = 1; t0 = v0; v0 = 2; emit0(t0,v0)");
    let p = program("BEGIN { s = \"abcdef\"; } END { s = \"ab\"; a[s] = 1; }");
    assert_eq!(p.vars[0].val, Val::Str { cap: 7 });
    assert_eq!(p.arrays[0].key, [Val::Str { cap: 7 }]);
    let p = program("BEGIN { s = \"a\"; } syscall::read:entry { s = strjoin(s, \"b\"); }");
    assert_eq!(p.vars[0].val, Val::Str { cap: 256 });
    assert_eq!(body("int64_t a[int, string]; BEGIN { a[timestamp, \"x\"] = 2; }"), "a0[i32(Timestamp),\"x\"] = 2");
}

#[test]
fn side_effects_keep_their_order() {
    assert_eq!(read("trace(x++ + x);"), "t0 = v0 += 1; emit0(Add(t0,v0))");
    assert_eq!(read("x = 1; trace(x + x++);"), "v0 = 1; t0 = i32(v0); t1 = v0 += 1; emit0(i32(Add(t0,i32(t1))))");
    assert_eq!(
        read("pid == 1 && x++;"),
        "t0 = Ne(Eq(Pid,1),0); if t0 {t1 = v0 += 1; t0 = Ne(Ne(t1,0),0)} else {}; t2 = t0"
    );
    assert_eq!(read("pid ? x++ : x--;"), "if Ne(Pid,0) {v0 += 1} else {v0 += -1}");
    assert_eq!(read("x = 0; x = pid ? (x = 5) : 6;"), "v0 = 0; if Ne(Pid,0) {v0 = 5; t0 = 5} else {t0 = 6}; v0 = t0");
    let p = program("syscall::read:entry /x++/ { trace(1); }");
    let c = &p.units[0].clauses[0];
    assert_eq!((c.predicate, block(c, &c.body)), (None, "t0 = v0 += 1; if Ne(t0,0) {emit0(1)} else {}".into()));
}

#[test]
fn records() {
    // One record up to its last action; a branch with actions has its own.
    assert_eq!(read("trace(1); @a = count(); trace(2); @a = count();"), "@0[] <- ; emit0(1,2); @0[] <- ");
    assert_eq!(
        read("trace(1); if (pid) { trace(2); } trace(3);"),
        "emit0(1); if Ne(Pid,0) {emit1(2)} else {}; emit2(3)"
    );
    assert_eq!(
        read("trace(1); if (pid) { x = 2; } else { x = 3; } trace(3);"),
        "if Ne(Pid,0) {v0 = 2} else {v0 = 3}; emit0(1,3)"
    );
    assert_eq!(read(""), "emit0()");
    assert_eq!(body("syscall::read:entry"), "emit0()");
    assert_eq!(read("x = 1;"), "v0 = 1");
    let p = program("syscall::read:entry { @a = sum(1); trace(1); clear(@a); printa(@a); printa(\"%@d\", @a); }");
    assert_eq!(p.records.len(), 1);
    assert_eq!((p.records[0].ring, p.records[0].actions.len()), (RingKind::Control, 4));
    assert!(p.aggs[0].resettable);
    assert!(!program("syscall::read:entry { @a = sum(1); } END { clear(@a); }").aggs[0].resettable);
    let p = program("BEGIN { trunc(@a, -5); normalize(@a, 10); denormalize(@a); @a[\"x\"] = max(1); }");
    assert_eq!(p.records[0].actions.len(), 3);
    let p = program("BEGIN { printf(\"%-5d|%*s\", 1, 4, \"x\"); }");
    let Action::Printf { operands, format } = &p.records[0].actions[0] else { panic!() };
    assert_eq!((operands.len(), format.pieces.len()), (3, 3));
    assert_eq!(operands[2].show, Show::String);
}

#[test]
fn memory() {
    assert_eq!(read("trace(curthread->pid);"), "emit0(btf(task,16,4,true))");
    assert_eq!(read("trace(curthread->real_parent->tgid);"), "emit0(Kernel.i32[Add(btf(task,24,8,false),20)])");
    assert_eq!(read("trace(curthread->in_execve);"), "emit0(ShrU(Shl(Kernel.u32[Add(CurThread,32)],59),62))");
    assert_eq!(read("trace(stringof(curthread->comm));"), "emit0(Kernel.str17[Add(CurThread,40)])");
    assert_eq!(read("trace(curthread->comm[2]);"), "emit0(btf(task,42,1,true))");
    assert_eq!(read("trace(curthread->comm);"), "emit0(Kernel.bytes16[Add(CurThread,40)])");
    assert_eq!(read("trace(`max_pfn);"), "emit0(Kernel.u64[-2147483648])");
    assert_eq!(read("trace(offsetof (struct task_struct, comm));"), "emit0(40)");
    assert_eq!(
        body("pid123::malloc:entry { trace(*(int *)copyin(arg0, 4)); }"),
        "t0 = copyin User reg0 4; emit0(Scratch.i32[t0])"
    );
    assert_eq!(
        body("pid123::malloc:entry { trace(stringof(copyin(arg0, arg1))); }"),
        "t0 = copyin User reg0 reg1; emit0(Scratch.str256[t0,reg1])"
    );
    assert_eq!(body("pid123::malloc:entry { trace(*(int *)arg1); }"), "emit0(Kernel.i32[reg1])");
    assert_eq!(body("pid123::malloc:entry { trace(copyinstr(arg1, 10)); }"), "emit0(User.str10[reg1,9])");
    assert_eq!(
        body(
            "struct p { char c; int x; short s[3]; struct p *next; }; pid123::malloc:entry { this->p = (struct p *)copyin(arg0, sizeof (struct p)); trace(this->p->x); trace(this->p->s[1]); trace(this->p->next->x); }"
        ),
        "t0 = copyin User reg0 24; v0 = t0; emit0(Scratch.i32[Add(v0,4)],Scratch.i16[Add(v0,10)],User.i32[Add(Scratch.u64[Add(v0,16)],4)])"
    );
    assert_eq!(read("trace(ppid);").matches("btf").count(), 1);
    assert_eq!(
        body("sdt:::sched_switch { trace(args[1]->pid); printf(\"%s\", args[0]); }"),
        "emit0(Kernel.i32[Add(ctx24,16)],Kernel.str17[Loc])".replace("Loc", "CtxAddress { offset: 8 }")
    );
}

#[test]
fn typed_arguments_make_variants() {
    // read and write have equal arguments, close has others; write and read share one code.
    let p = program("syscall::read:entry, syscall::write:entry, syscall::close:entry { trace(args[0]); }");
    assert_eq!(p.units[0].clauses.len(), 1);
    let p = program("syscall::read:entry, syscall::open:entry, syscall::write:entry { trace(args[0]); }");
    let probes: Vec<_> = p.units[0].clauses.iter().map(|c| c.probes.clone()).collect();
    assert_eq!(probes, [vec![0, 1], vec![2]]);
    assert!(body("syscall::open:entry { trace(stringof(args[0])); }").contains("User.str256"));
    assert_eq!(body("syscall::read:return { trace(errno); }"), "emit0(cond(LtU(-4096,ctx8),Neg(ctx8),0))");
    assert_eq!(body("BEGIN { trace(errno); trace(arg9); }"), "emit0(0,0)");
}

#[test]
fn units_share_programs() {
    let p = program(
        "syscall:::entry { @[probefunc] = count(); } syscall::write:entry { trace(probefunc); x = probefunc; }",
    );
    assert_eq!(p.units.len(), 1);
    let u = &p.units[0];
    assert_eq!(u.probes.iter().flatten().count(), 4);
    assert!(u.clauses[0].probes.is_empty());
    assert_eq!(u.clauses[1].probes, [1]);
    assert_eq!(p.aggs[0].key, [(Val::Int, Show::ProbePart(ProbePart::Function))]);
    assert_eq!(p.aggs[0].probes_of, Some(UnitId(0)));
    assert_eq!(block(&u.clauses[0], &u.clauses[0].body), "@0[index] <- ");
    assert_eq!(block(&u.clauses[1], &u.clauses[1].body), "emit0(index); v0 = \"write\"");
    // In two units the index alone says too little.
    let p = program("syscall::read: { @[probefunc, probename] = count(); }");
    assert_eq!(p.aggs[0].key, [(Val::Str { cap: 5 }, Show::String), (Val::Str { cap: 7 }, Show::String)]);
    assert_eq!(p.aggs[0].probes_of, None);
    let p = program("pid123::malloc:entry { } pid123::free:entry { }");
    assert_eq!((p.units.len(), p.units[0].probes.len()), (1, 2));
    assert_eq!(p.units[0].selector, Selector::Cookie);
    assert_eq!(program("pid123::malloc:entry").units[0].selector, Selector::One);
    // A clause runs once for each of its descriptions.
    let p = program("syscall::read:entry, syscall::r*:entry { trace(1); }");
    assert_eq!(p.units[0].clauses.len(), 2);
    assert_eq!(program("4 { trace(1); }").units[0].name, "syscall_entry");
}

#[test]
fn keys_agree() {
    let p = program("BEGIN { @a[1, execname] = count(); @a[timestamp, \"a long string, longer than 16\"] = count(); }");
    assert_eq!(p.aggs[0].key[1].0, Val::Str { cap: 30 });
    assert_eq!(p.aggs[0].key[0].1, Show::Int { size: 8, signed: true, kind: IntKind::Number });
    let p = program(
        "BEGIN { @ = quantize(1, 2); @l = lquantize(pid, 0, 100, 10, 3); @m = llquantize(pid, 10, 0, 6, 20); }",
    );
    assert_eq!(p.aggs[1].func, AggFunc::Lquantize { low: 0, high: 100, step: 10 });
    assert_eq!(p.aggs[2].func, AggFunc::Llquantize { factor: 10, low: 0, high: 6, steps: 20 });
}

#[test]
fn options_and_declarations() {
    let text = "#pragma D option quiet\n#pragma D option strsize=16\n#pragma D option zdefs\nnone:::x { y = 1; } BEGIN { trace(y); x = \"a\"; trace(copyinstr(1)); }";
    let (front, diags) = check_only(&input(&text.replace("trace(copyinstr(1));", "")), &world::World);
    assert!(front.program.is_some(), "{}", shown(&diags));
    assert!(front.options.quiet && front.options.strsize == 16);
    assert_eq!(body("inline int N = 3 * 4; enum e { A, B = 5, C }; BEGIN { trace(N + C); }"), "emit0(18)");
    assert_eq!(body("typedef struct { int a : 3; int b : 5; } t; BEGIN { trace(sizeof (t)); }"), "emit0(4)");
    assert_eq!(body("union u { int a; char b[9]; }; BEGIN { trace(sizeof (union u)); }"), "emit0(12)");
    assert_eq!(body("BEGIN { trace(sizeof (gfp_t)); }"), "emit0(4)");
    assert_eq!(body("ERROR { trace(arg4 == DTRACEFLT_DIVZERO); trace(ENOENT); }"), "emit0(Eq(ctx32,4),2)");
    assert_eq!(body("BEGIN { trace(curthread != NULL); }"), "emit0(Ne(CurThread,0))");
}

#[test]
fn translated_members_are_their_expressions() {
    let with = |clause: &str| {
        body(&format!(
            "struct in {{ int a; int b; }}; struct out {{ long o; string name; struct out *next; }};\n\
             translator struct out < struct in *v > {{ o = v->a + v->b; name = execname; }};\n\
             inline struct out *cur = xlate<struct out *>((struct in *)arg0);\n\
             inline int add[int x, int y] = x + y;\n{clause}"
        ))
    };
    assert_eq!(
        with("BEGIN { trace(cur->o); trace(cur->name); trace((*cur).o); }"),
        "emit0(Add(Kernel.i32[ctx0],Kernel.i32[Add(ctx0,4)]),comm,Add(Kernel.i32[ctx0],Kernel.i32[Add(ctx0,4)]))"
            .replace("Add(Kernel", "i32(Add(Kernel")
            .replace(",4)])", ",4)]))")
    );
    // A variable keeps what is translated.
    assert_eq!(with("BEGIN { self->p = cur; trace(self->p->o); }"), with_var("v0"));
    assert_eq!(with("struct out *p; BEGIN { p = cur; trace(p->o); }"), with_var("v0"));
    assert_eq!(with("BEGIN { trace(add[pid, 2]); }"), "emit0(i32(Add(Pid,2)))");
    // Parameters are evaluated once.
    assert_eq!(with("BEGIN { trace(add[x++, 2]); }"), "t0 = v0 += 1; t1 = i32(t0); emit0(i32(Add(t1,2)))");
}

fn with_var(v: &str) -> String {
    format!("{v} = ctx0; emit0(i32(Add(Kernel.i32[{v}],Kernel.i32[Add({v},4)])))")
}

#[test]
fn memory_of_our_own() {
    let one = |text: &str| {
        let text = format!(
            "struct s {{ int a; int b:5; int c:9; char n[4]; }}; struct s x; struct s y; int v[4]; self struct s m[int]; BEGIN {{ {text} }}"
        );
        body(&text)
    };
    assert_eq!(one("x.a = 3;"), "v0+0:4 = 3");
    assert_eq!(one("x = y;"), "v0 = Kernel.bytes12[&v1]");
    assert_eq!(one("x = 0;"), "v0 = 0");
    assert_eq!(one("v[pid] = 3;"), "v2+Mul(Pid below 4,4):4 = 3");
    assert_eq!(one("self->m[1].a += 2;"), "a0[1]+0:4 = i32(Add(Kernel.i32[&a0[1]],2))");
    assert_eq!(one("self->m[1] = 0;"), "a0[1] = 0");
    // Other bits of the unit stay.
    assert_eq!(one("x.b = 3;"), "v0+4:4 = Or(And(Kernel.u32[Add(&v0,4)],-32),And(Shl(3,0),31))");
    assert_eq!(one("x.n = execname;"), "v0+6:4 = comm");
    assert_eq!(one("i = execname[1];"), "v3 = comm[1]");
}

#[test]
fn translated_structs_are_assigned_by_member() {
    let text = "struct in { int a; }; struct out { int o; int same; int none; };\n\
        translator struct out < struct in *v > { o = v->a; same = 3; };\n\
        struct out s; BEGIN { s = xlate<struct out>((struct in *)arg0); }";
    let code = body(text);
    // The values first, then zeroes, then the members.
    let (read, store) = (code.find("Kernel.i32[ctx0]"), code.find("3"));
    assert!(read.is_some() && store.is_some() && read < store, "{code}");
}

#[test]
fn libraries_are_read_where_they_are_named() {
    assert_eq!(body("BEGIN { trace(SIGKILL); trace(ENOENT); trace(TCP_STATE_LISTEN); }"), "emit0(9,2,10)");
    // What a program defines itself goes before.
    assert_eq!(body("inline int SIGKILL = 5; BEGIN { trace(SIGKILL); }"), "emit0(5)");
    assert_eq!(body("typedef int psinfo_t; BEGIN { trace(sizeof (psinfo_t)); }"), "emit0(4)");
    let mut none = input("BEGIN { trace(SIGKILL); }");
    none.options.nolibs = true;
    let (front, diags) = check_only(&none, &world::World);
    assert!(front.program.is_none() && diags[0].tag == "D_IDENT_UNDEF", "{}", shown(&diags));
}

#[test]
fn libraries_of_directories() {
    let library =
        |name: &str, text: &str| Source { origin: Origin::Library(format!("/lib/{name}")), text: text.into() };
    let with = |libraries: Vec<Source>, text: &str| {
        let input = Input { libraries, ..input(text) };
        check_only(&input, &world::World)
    };
    let b = library("b.d", "inline int bar = 7;\n");
    let a = library("a.d", "#pragma D depends_on library b.d\ninline int foo = bar + 1;\n");
    let (front, diags) = with(vec![a.clone(), b.clone()], "BEGIN { trace(foo); }");
    assert!(front.program.is_some(), "{}", shown(&diags));
    // One whose module is not there is left out, and so are those that depend on it.
    let absent = library("b.d", "#pragma D depends_on module nowhere\ninline int bar = 7;\n");
    let (front, diags) = with(vec![a.clone(), absent], "BEGIN { trace(1); }");
    assert!(front.program.is_some(), "{}", shown(&diags));
    let around = library("b.d", "#pragma D depends_on library a.d\n");
    for libraries in [vec![a.clone(), around], vec![a]] {
        let (_, diags) = with(libraries, "BEGIN { trace(1); }");
        assert!(diags.iter().any(|d| d.tag == "D_PRAGMA_DEPEND"), "{}", shown(&diags));
    }
}

#[test]
fn declared_probes_have_the_arguments_that_are_declared() {
    let with = |clause: &str| {
        body(&format!(
            "struct s {{ int x; }}; translator struct s < int v > {{ x = v + 1; }};\n\
             provider pid {{ probe entry(char *name, int n) : (int n, string name, struct s *n); }};\n{clause}"
        ))
    };
    assert_eq!(with("pid123::malloc:entry { trace(args[0]); }"), "emit0(i32(reg1))");
    assert_eq!(with("pid123::malloc:entry { trace(args[1]); }"), "emit0(User.str256[reg0])");
    assert_eq!(with("pid123::malloc:entry { trace(args[2]->x); }"), "emit0(i32(Add(i32(reg1),1)))");
}

#[test]
fn whether_there_is_anything_translated_can_be_asked() {
    let with = |e: &str| {
        body(&format!(
            "struct in {{ int a; }}; struct out {{ int o; }}; translator struct out < struct in *v > {{ o = v->a; }};\n\
             BEGIN {{ p = xlate<struct out *>((struct in *)arg0); trace({e}); }}"
        ))
    };
    assert_eq!(with("p != NULL"), "v0 = ctx0; emit0(Ne(v0,0))");
    assert_eq!(with("p ? 1 : 2"), "v0 = ctx0; emit0(cond(Ne(v0,0),1,2))");
}
