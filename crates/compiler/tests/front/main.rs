//! The front end: D to IR against a made-up world, and every tag that it can report.

mod err;
mod lowering;
mod mutated;
mod world;

use probity_compiler::{Input, Source, check_only};
use probity_ir::*;
use probity_syntax::{Diagnostic, Macros, Origin};

/// A script, or what `-n` takes if it is only a probe description.
fn input(text: &str) -> Input {
    let origin = if text.contains('{') || !text.contains(':') { Origin::File("t.d".into()) } else { Origin::Flag('n') };
    Input {
        sources: vec![Source { origin, text: text.into() }],
        macros: Macros { args: vec!["t.d".into()], ..Macros::default() },
        ..Input::default()
    }
}

/// Compiles to IR, or fails the test with the diagnostics.
fn program(text: &str) -> Program {
    let (front, diags) = check_only(&input(text), &world::World);
    match front.program {
        Some(p) => {
            well_formed(&p);
            p
        }
        None => panic!("{text}: {}", shown(&diags)),
    }
}

fn shown(diags: &[Diagnostic]) -> String {
    diags.iter().map(|d| format!("{} {}\n", d.tag, d.message)).collect()
}

fn tags_of(text: &str) -> Vec<&'static str> {
    let (front, diags) = check_only(&input(text), &world::World);
    assert_eq!(front.program.is_none(), diags.iter().any(Diagnostic::is_error), "{text}: {}", shown(&diags));
    diags.iter().map(|d| d.tag).collect()
}

/// What holds for every program that the front end makes.
fn well_formed(p: &Program) {
    for unit in &p.units {
        assert!(!unit.clauses.is_empty(), "a unit without clauses");
        for c in &unit.clauses {
            assert!(c.probes.windows(2).all(|w| w[0] < w[1]));
            assert!(c.probes.iter().all(|i| unit.probes[*i as usize].is_some()));
            // An expression's operands come before it: there are no cycles.
            for (i, e) in c.exprs.iter().enumerate() {
                for o in operands(e) {
                    assert!((o.0 as usize) < i, "{e:?} at {i}");
                }
            }
            check_block(p, &c.body);
        }
    }
}

fn check_block(p: &Program, stmts: &[Stmt]) {
    for s in stmts {
        match s {
            Stmt::Emit { record, values } => {
                assert_eq!(p.records[record.0 as usize].fields.len(), values.len());
            }
            Stmt::Aggregate { agg, key, .. } => assert_eq!(p.aggs[agg.0 as usize].key.len(), key.len()),
            Stmt::If { then, otherwise, .. } => {
                check_block(p, then);
                check_block(p, otherwise);
            }
            _ => {}
        }
    }
}

fn operands(e: &Expr) -> Vec<ExprId> {
    match e {
        Expr::Elem(_, key) | Expr::Sub { args: key, .. } => key.clone(),
        Expr::Un(_, a) | Expr::Ext { of: a, .. } | Expr::StrLen(a) | Expr::ScratchAddr(a) => vec![*a],
        Expr::Load { addr: a, .. } | Expr::ReadBytes { addr: a, .. } | Expr::ReadStr { addr: a, .. } => vec![*a],
        Expr::Bin(_, a, b) | Expr::And(a, b) | Expr::Or(a, b) | Expr::StrCmp(_, a, b) => vec![*a, *b],
        Expr::Cond(c, a, b) => vec![*c, *a, *b],
        _ => vec![],
    }
}

#[test]
fn programs_get_code() {
    // From text to an object, for one program of each kind. What the code does is tested elsewhere.
    for text in [
        "syscall::read:entry /execname == \"x\"/ { @[execname] = count(); printf(\"%d %s\", pid, execname); }",
        "syscall::read:entry { self->t = timestamp; } syscall::read:return /self->t/ { @ = quantize(timestamp - self->t); self->t = 0; }",
        "syscall:::entry { @[probefunc, pid] = sum(arg0); a[pid, execname]++; x += 1; }",
        "pid123:::entry { printf(\"%s %s\", probefunc, copyinstr(arg0)); trace(*(int *)copyin(arg1, 4)); }",
        "BEGIN { @a = lquantize(1, 0, 10, 1); printa(@a); clear(@a); trunc(@a, 3); exit(3); } END { trace(x = 1); }",
        "syscall::open:entry { this->s = strjoin(stringof(args[0]), execname); if (strlen(this->s) > 3) { trace(this->s); } else { trace(ppid); } }",
        "sdt:::sched_switch { trace(args[0]); trace(args[1]->comm); @[curthread->tgid, stringof(args[0])] = avg(args[1]->in_execve); }",
    ] {
        let (compiled, _, diags) = probity_compiler::compile(&input(text), &world::World);
        let compiled = compiled.unwrap_or_else(|| panic!("{text}: {}", shown(&diags)));
        assert_eq!(compiled.object.progs.len(), compiled.program.units.len());
    }
}

#[test]
fn arguments_and_several_texts() {
    let two = |a: &str, b: &str, args: &[&str]| {
        let mut i = input(a);
        i.sources.push(Source { origin: Origin::Flag('n'), text: b.into() });
        i.macros.args.extend(args.iter().map(|s| s.to_string()));
        let (front, diags) = check_only(&i, &world::World);
        (front.program, diags.iter().map(|d| d.tag).collect::<Vec<_>>())
    };
    let (p, tags) = two("BEGIN { x = $1; }", "END { trace(x); trace($$2); }", &["5", "b"]);
    assert_eq!((p.map(|p| p.units.len()), tags), (Some(2), vec![]));
    assert_eq!(two("BEGIN { x = $1; }", "END", &[]).1, ["D_MACRO_UNDEF"]);
    assert_eq!(two("#pragma D option defaultargs\nBEGIN { x = $1; }", "END", &[]).1, [""; 0]);
    assert_eq!(two("#pragma D option argref\nBEGIN { }", "END", &["1"]).1, [""; 0]);
    let (p, _) = two("typedef int word; BEGIN { }", "END { trace(sizeof (word)); }", &[]);
    assert_eq!(p.map(|p| p.clauses.len()), Some(2));
}
