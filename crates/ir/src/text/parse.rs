//! Nested lists as programs, locations and signatures. Any input gives a result or an error with its line.

use super::node::{Body, Items, Node, ParseError, read};
use super::print::{BIN_OPS, BUILTINS, PARTS, PHASES, SCOPES, SPACES, STR_OPS, SYMBOLS, UN_OPS};
use crate::{
    Action, Agg, AggFunc, AggId, Arg, Array, ArrayId, Clause, ClauseCode, ClauseId, Conversion, Ctx, Dest, Expr,
    ExprId, FieldId, Format, IntKind, KernelAct, Location, Operand, Piece, Place, Probe, ProbeDesc, ProgKind, Program,
    Record, RecordId, RingKind, Selector, Show, Signature, Space, Stack, Stmt, TempId, Test, TypeId, Unit, UnitId,
    Upkeep, Val, Var, VarId,
};

type Result<T> = std::result::Result<T, ParseError>;

const SIGNS: &[(&str, bool)] = &[("signed", true), ("unsigned", false)];
const CTXS: &[(&str, Ctx)] =
    &[("args", Ctx::Args), ("regs", Ctx::Regs), ("perf-event", Ctx::PerfEvent), ("record", Ctx::Record)];

/// Reads what [`super::print`] wrote.
///
/// # Errors
/// The first line that is not as expected. Numbers of things are checked only where the things are listed, not where
/// they are used.
pub fn parse(text: &str) -> Result<Program> {
    let mut program = Program::default();
    for node in read(text)? {
        let mut items = node.items()?;
        let head = items.atom()?;
        match head {
            "clause" => {
                next(&mut items, "c", program.clauses.len())?;
                let line = items.number()?;
                program.clauses.push(Clause { line, span: (items.number()?, items.number()?, items.number()?) });
            }
            "var" => {
                next(&mut items, "v", program.vars.len())?;
                let (name, scope) = (items.string()?, items.word(SCOPES)?);
                program.vars.push(Var { name, scope, val: val(&mut items)? });
            }
            "array" => {
                next(&mut items, "a", program.arrays.len())?;
                let (name, scope) = (items.string()?, items.word(SCOPES)?);
                let key = items.list()?.rest(val)?;
                program.arrays.push(Array { name, scope, key, val: val(&mut items)? });
            }
            "agg" => {
                next(&mut items, "@", program.aggs.len())?;
                program.aggs.push(agg(&mut items)?);
            }
            "record" => {
                next(&mut items, "r", program.records.len())?;
                program.records.push(record(&mut items)?);
            }
            "oncpu" => program.oncpu = Some(UnitId(items.id("u")?)),
            "upkeep" => {
                let array = ArrayId(items.id("a")?);
                program.upkeep = Some(Upkeep { array, units: items.list()?.rest(|i| Ok(UnitId(i.id("u")?)))? });
            }
            "cpu" => program.cpu = Some(items.number()?),
            "speculations" => (program.nspec, program.specsize) = (items.number()?, items.number()?),
            "unit" => {
                next(&mut items, "u", program.units.len())?;
                program.units.push(unit(&mut items)?);
            }
            _ => return node.error(format!("`{head}` is nothing that a program has")),
        }
        items.end()?;
    }
    Ok(program)
}

/// Reads what [`super::print_location`] wrote.
///
/// # Errors
/// As [`parse`].
pub fn parse_location(text: &str) -> Result<Location> {
    let nodes = read(text)?;
    let mut items = Items::of(1, &nodes);
    let found = location(&mut items)?;
    items.end()?;
    Ok(found)
}

/// Reads what [`super::print_signature`] wrote.
///
/// # Errors
/// As [`parse`].
pub fn parse_signature(text: &str) -> Result<Signature> {
    let nodes = read(text)?;
    let mut top = Items::of(1, &nodes);
    let mut items = top.list()?;
    top.end()?;
    items.word(&[("signature", ())])?;
    let mut signature = Signature {
        prog: prog(&mut items)?,
        phase: items.word(PHASES)?,
        group: items.string()?,
        selector: selector(&mut items)?,
        index: items.number()?,
        when: None,
        raw: Vec::new(),
        args: Vec::new(),
        errno: None,
        caller: None,
        ucaller: None,
    };
    while items.peek().is_some() {
        let mut part = items.list()?;
        match part.atom()? {
            "raw" => signature.raw.push(location(&mut part)?),
            "arg" => {
                let (name, ty) = (part.string()?, TypeId(part.id("ty")?));
                let location = location(&mut part)?;
                let translated = if part.peek().is_some() { part.string()? } else { String::new() };
                signature.args.push(Arg { name, ty, location, translated });
            }
            "when" => signature.when = Some(test(&mut part)?),
            "errno" => signature.errno = Some(location(&mut part)?),
            "caller" => signature.caller = Some(location(&mut part)?),
            "ucaller" => signature.ucaller = Some(location(&mut part)?),
            other => return part.error(format!("`{other}` is nothing that a signature has")),
        }
        part.end()?;
    }
    Ok(signature)
}

/// The number of a thing must be its place in the list.
fn next(items: &mut Items<'_>, prefix: &str, count: usize) -> Result<()> {
    let id = items.id(prefix)?;
    if id as usize == count { Ok(()) } else { items.error(format!("{prefix}{count} comes next, not {prefix}{id}")) }
}

fn is_list(items: &Items<'_>) -> bool {
    items.peek().is_some_and(|n| matches!(n.body, Body::List(_)))
}

fn val(items: &mut Items<'_>) -> Result<Val> {
    if items.flag("int") {
        return Ok(Val::Int);
    }
    let mut items = items.list()?;
    let found = match items.atom()? {
        "str" => Val::Str { cap: items.number()? },
        "bytes" => Val::Bytes { len: items.number()? },
        other => return items.error(format!("`{other}` is no kind of value")),
    };
    items.end()?;
    Ok(found)
}

fn agg(items: &mut Items<'_>) -> Result<Agg> {
    let name = items.string()?;
    let func = func(items)?;
    let key = items.list()?.rest(|items| {
        let mut member = items.list()?;
        let found = (val(&mut member)?, show(&mut member)?);
        member.end()?;
        Ok(found)
    })?;
    let resettable = items.flag("resettable");
    let probes_of = optional(items, |items| items.id("u").map(UnitId))?;
    Ok(Agg { name, func, key, resettable, probes_of })
}

fn optional<T>(items: &mut Items<'_>, read: impl FnOnce(&mut Items<'_>) -> Result<T>) -> Result<Option<T>> {
    if items.peek().is_some() { read(items).map(Some) } else { Ok(None) }
}

fn func(items: &mut Items<'_>) -> Result<AggFunc> {
    if !is_list(items) {
        return items.word(&[
            ("count", AggFunc::Count),
            ("sum", AggFunc::Sum),
            ("min", AggFunc::Min),
            ("max", AggFunc::Max),
            ("avg", AggFunc::Avg),
            ("stddev", AggFunc::Stddev),
            ("quantize", AggFunc::Quantize),
        ]);
    }
    let mut items = items.list()?;
    let found = match items.atom()? {
        "lquantize" => AggFunc::Lquantize { low: items.number()?, high: items.number()?, step: items.number()? },
        "llquantize" => AggFunc::Llquantize {
            factor: items.number()?,
            low: items.number()?,
            high: items.number()?,
            steps: items.number()?,
        },
        other => return items.error(format!("`{other}` is no aggregating function")),
    };
    items.end()?;
    Ok(found)
}

fn record(items: &mut Items<'_>) -> Result<Record> {
    Ok(Record {
        clause: ClauseId(items.id("c")?),
        unit: UnitId(items.id("u")?),
        ring: items.word(&[
            ("data", RingKind::Data),
            ("speculation", RingKind::Speculation),
            ("control", RingKind::Control),
        ])?,
        fields: items.list()?.rest(val)?,
        actions: std::mem::replace(items, Items::of(items.line, &[])).rest(action)?,
    })
}

fn action(items: &mut Items<'_>) -> Result<Action> {
    let mut items = items.list()?;
    let agg = |items: &mut Items<'_>| items.id("@").map(AggId);
    let found = match items.atom()? {
        "trace" => Action::Trace(operand(&mut items)?),
        "printf" => {
            let format = format(&mut items)?;
            return Ok(Action::Printf { format, operands: items.rest(operand)? });
        }
        "printa" => {
            let format = if is_list(&items) { Some(format(&mut items)?) } else { None };
            return Ok(Action::Printa { format, aggs: items.rest(agg)? });
        }
        "print" => {
            let (ty, value) = (TypeId(items.id("ty")?), operand(&mut items)?);
            Action::Print { addr: optional(&mut items, operand)?, value, ty }
        }
        "tracemem" => Action::Tracemem { data: operand(&mut items)?, size: optional(&mut items, operand)? },
        "exit" => Action::Exit(operand(&mut items)?),
        "clear" => Action::Clear(agg(&mut items)?),
        "trunc" => Action::Trunc(agg(&mut items)?, optional(&mut items, operand)?),
        "normalize" => Action::Normalize(agg(&mut items)?, operand(&mut items)?),
        "denormalize" => Action::Denormalize(agg(&mut items)?),
        "system" => {
            let format = format(&mut items)?;
            return Ok(Action::System { format, operands: items.rest(operand)? });
        }
        "freopen" => {
            let format = format(&mut items)?;
            return Ok(Action::Freopen { format, operands: items.rest(operand)? });
        }
        "ftruncate" => Action::Ftruncate,
        "setopt" => Action::Setopt(operand(&mut items)?, optional(&mut items, operand)?),
        "pcap" => Action::Pcap {
            proto: operand(&mut items)?,
            len: operand(&mut items)?,
            captured: operand(&mut items)?,
            data: operand(&mut items)?,
        },
        "commit" => Action::Commit(operand(&mut items)?),
        "discard" => Action::Discard(operand(&mut items)?),
        "default" => Action::Default,
        other => return items.error(format!("`{other}` is no action")),
    };
    items.end()?;
    Ok(found)
}

fn operand(items: &mut Items<'_>) -> Result<Operand> {
    let mut items = items.list()?;
    let found = Operand { field: FieldId(items.id("f")?), show: show(&mut items)? };
    items.end()?;
    Ok(found)
}

fn show(items: &mut Items<'_>) -> Result<Show> {
    if !is_list(items) {
        return match items.atom()? {
            "pointer" => Ok(Show::Pointer),
            "string" => Ok(Show::String),
            "bytes" => Ok(Show::Bytes { ty: None }),
            "stack" => Ok(Show::Stack),
            other => items.error(format!("`{other}` is no way to show a value")),
        };
    }
    let mut items = items.list()?;
    let found = match items.atom()? {
        "int" => Show::Int {
            size: items.number()?,
            signed: items.word(SIGNS)?,
            kind: items.word(&[("number", IntKind::Number), ("char", IntKind::Char), ("bool", IntKind::Bool)])?,
        },
        "float" => Show::Float { size: items.number()? },
        "bytes" => Show::Bytes { ty: Some(TypeId(items.id("ty")?)) },
        "probe" => Show::ProbePart(items.word(PARTS)?),
        "symbol" => Show::Symbol(items.word(SYMBOLS)?),
        other => return items.error(format!("`{other}` is no way to show a value")),
    };
    items.end()?;
    Ok(found)
}

fn format(items: &mut Items<'_>) -> Result<Format> {
    let mut items = items.list()?;
    items.word(&[("format", ())])?;
    let pieces = items.rest(|items| {
        if !is_list(items) {
            return Ok(Piece::Text(items.bytes()?));
        }
        conversion(&mut items.list()?).map(Piece::Conv)
    })?;
    Ok(Format { pieces })
}

fn conversion(items: &mut Items<'_>) -> Result<Conversion> {
    items.word(&[("conv", ())])?;
    let letter = items.string()?;
    let mut letters = letter.chars();
    let (Some(letter), None) = (letters.next(), letters.next()) else {
        return items.error("a conversion has one letter");
    };
    let mut conv = Conversion { letter, modifier: items.string()?, ..Conversion::default() };
    while items.peek().is_some() {
        if is_list(items) {
            let mut part = items.list()?;
            let place = match part.atom()? {
                "width" => &mut conv.width,
                "precision" => &mut conv.precision,
                other => return part.error(format!("`{other}` is no part of a conversion")),
            };
            *place = Some(part.number()?);
            part.end()?;
            continue;
        }
        let flag = match items.atom()? {
            "left" => &mut conv.left,
            "plus" => &mut conv.plus,
            "space" => &mut conv.space,
            "alternate" => &mut conv.alternate,
            "zero" => &mut conv.zero,
            "group" => &mut conv.group,
            "agg" => &mut conv.agg,
            "width-arg" => &mut conv.width_arg,
            "precision-arg" => &mut conv.precision_arg,
            other => return items.error(format!("`{other}` is no flag of a conversion")),
        };
        *flag = true;
    }
    Ok(conv)
}

fn prog(items: &mut Items<'_>) -> Result<ProgKind> {
    let mut items = items.list()?;
    items.word(&[("prog", ())])?;
    let ctx = items.word(CTXS)?;
    let (prog_type, attach_type, btf_id) = (items.number()?, items.number()?, items.number()?);
    let sleepable = items.flag("sleepable");
    items.end()?;
    Ok(ProgKind { prog_type, attach_type, btf_id, sleepable, ctx })
}

fn selector(items: &mut Items<'_>) -> Result<Selector> {
    if !is_list(items) {
        let one = items.word(&[("one", true), ("cookie", false)])?;
        return Ok(if one { Selector::One } else { Selector::Cookie });
    }
    let mut items = items.list()?;
    items.word(&[("sysno", ())])?;
    let (number, limit) = (location(&mut items)?, items.number()?);
    let compat = optional(&mut items, |items| Ok((location(items)?, items.number()?)))?;
    items.end()?;
    Ok(Selector::Syscall { number, compat, limit })
}

fn unit(items: &mut Items<'_>) -> Result<Unit> {
    let (name, phase, prog) = (items.string()?, items.word(PHASES)?, prog(items)?);
    let mut select = items.list()?;
    select.word(&[("select", ())])?;
    let selector = selector(&mut select)?;
    select.end()?;
    let mut unit = Unit { name, prog, selector, probes: Vec::new(), phase, clauses: Vec::new() };
    while items.peek().is_some() {
        let mut part = items.list()?;
        match part.atom()? {
            "probe" => unit.probes.push(optional(&mut part, |part| {
                let id = part.number()?;
                let (provider, module) = (part.string()?, part.string()?);
                let (function, name) = (part.string()?, part.string()?);
                Ok(Probe { id, desc: ProbeDesc { provider, module, function, name } })
            })?),
            "code" => unit.clauses.push(code(&mut part)?),
            other => return part.error(format!("`{other}` is nothing that a unit has")),
        }
        part.end()?;
    }
    Ok(unit)
}

fn code(items: &mut Items<'_>) -> Result<ClauseCode> {
    let clause = ClauseId(items.id("c")?);
    let mut code = ClauseCode {
        clause,
        probes: Vec::new(),
        exprs: Vec::new(),
        temps: Vec::new(),
        predicate: None,
        body: Vec::new(),
    };
    while items.peek().is_some() {
        let mut part = items.list()?;
        let first = part.peek().and_then(Node::as_atom).unwrap_or_default();
        if first.starts_with('%') {
            next(&mut part, "%", code.exprs.len())?;
            code.exprs.push(expr(&mut part)?);
            part.end()?;
            continue;
        }
        match part.atom()? {
            "probes" => code.probes = part.rest(|p| p.number())?,
            "temps" => code.temps = part.rest(val)?,
            "predicate" => {
                code.predicate = Some(expr_id(&mut part)?);
                part.end()?;
            }
            "body" => code.body = part.rest(stmt)?,
            other => return part.error(format!("`{other}` is nothing that a clause has")),
        }
    }
    Ok(code)
}

fn expr_id(items: &mut Items<'_>) -> Result<ExprId> {
    items.id("%").map(ExprId)
}

fn temp(items: &mut Items<'_>) -> Result<TempId> {
    items.id("t").map(TempId)
}

fn expr(items: &mut Items<'_>) -> Result<Expr> {
    let head = items.atom()?;
    if let Some(&(_, op)) = UN_OPS.iter().find(|(word, _)| *word == head) {
        return Ok(Expr::Un(op, expr_id(items)?));
    }
    if let Some(&(_, op)) = BIN_OPS.iter().find(|(word, _)| *word == head) {
        return Ok(Expr::Bin(op, expr_id(items)?, expr_id(items)?));
    }
    Ok(match head {
        "const" => Expr::Const(items.number()?),
        "loc" => Expr::Loc(location(items)?),
        "builtin" => Expr::Builtin(items.word(BUILTINS)?),
        "temp" => Expr::Temp(temp(items)?),
        "var" => Expr::Var(VarId(items.id("v")?)),
        "elem" => Expr::Elem(ArrayId(items.id("a")?), items.list()?.rest(expr_id)?),
        "ext" => Expr::Ext { of: expr_id(items)?, size: items.number()?, signed: items.word(SIGNS)? },
        "and-then" => Expr::And(expr_id(items)?, expr_id(items)?),
        "or-else" => Expr::Or(expr_id(items)?, expr_id(items)?),
        "cond" => Expr::Cond(expr_id(items)?, expr_id(items)?, expr_id(items)?),
        "load" => Expr::Load {
            addr: expr_id(items)?,
            size: items.number()?,
            signed: items.word(SIGNS)?,
            space: items.word(SPACES)?,
        },
        "strcmp" => Expr::StrCmp(items.word(STR_OPS)?, expr_id(items)?, expr_id(items)?),
        "strlen" => Expr::StrLen(expr_id(items)?),
        "scratch-addr" => Expr::ScratchAddr(expr_id(items)?),
        "str" => Expr::Str(items.bytes()?),
        "comm" => Expr::Comm,
        "probe-text" => Expr::ProbeText(items.word(PARTS)?),
        "probe-index" => Expr::ProbeIndex,
        "read-str" => Expr::ReadStr {
            addr: expr_id(items)?,
            space: items.word(SPACES)?,
            cap: items.number()?,
            max: optional(items, expr_id)?,
        },
        "strjoin" => Expr::StrJoin { a: expr_id(items)?, b: expr_id(items)?, cap: items.number()? },
        "call" => {
            Expr::Sub { sub: items.word(crate::Sub::ALL)?, cap: items.number()?, args: items.list()?.rest(expr_id)? }
        }
        "stack" => Expr::Stack(Stack {
            user: items.word(SPACES)? == Space::User,
            frames: items.number()?,
            strsize: items.number()?,
            entry: optional(items, location)?,
        }),
        "part" => Expr::Part {
            of: expr_id(items)?,
            offset: items.number()?,
            size: items.number()?,
            signed: items.word(SIGNS)?,
        },
        "user-addr" => Expr::UserAddr(expr_id(items)?),
        "read-bytes" => Expr::ReadBytes { addr: expr_id(items)?, space: items.word(SPACES)?, len: items.number()? },
        "addr-of" => Expr::AddrOf(place(&mut items.list()?)?),
        "bounded" => Expr::Bounded { index: expr_id(items)?, len: items.number()? },
        "char-at" => Expr::CharAt { of: expr_id(items)?, index: expr_id(items)? },
        other => return items.error(format!("`{other}` is no expression")),
    })
}

fn place(items: &mut Items<'_>) -> Result<Place> {
    let found = match items.atom()? {
        "var" => Place::Var(VarId(items.id("v")?)),
        "elem" => Place::Elem(ArrayId(items.id("a")?), items.list()?.rest(expr_id)?),
        other => return items.error(format!("`{other}` is no place")),
    };
    items.end()?;
    Ok(found)
}

fn dest(items: &mut Items<'_>) -> Result<Dest> {
    if items.flag("scratch") {
        return Ok(Dest::Scratch);
    }
    if items.flag("global") {
        return Ok(Dest::Global);
    }
    Ok(Dest::Place(place(&mut items.list()?)?))
}

fn stmt(items: &mut Items<'_>) -> Result<Stmt> {
    let mut items = items.list()?;
    let found = match items.atom()? {
        "set-temp" => Stmt::SetTemp(temp(&mut items)?, expr_id(&mut items)?),
        "set" => Stmt::SetVar(VarId(items.id("v")?), expr_id(&mut items)?),
        "add" => {
            Stmt::AddVar { var: VarId(items.id("v")?), by: expr_id(&mut items)?, old: optional(&mut items, temp)? }
        }
        "set-elem" => Stmt::SetElem(ArrayId(items.id("a")?), items.list()?.rest(expr_id)?, expr_id(&mut items)?),
        "add-elem" => Stmt::AddElem {
            array: ArrayId(items.id("a")?),
            key: items.list()?.rest(expr_id)?,
            by: expr_id(&mut items)?,
            old: optional(&mut items, temp)?,
        },
        "copyin" => Stmt::CopyIn {
            dst: temp(&mut items)?,
            addr: expr_id(&mut items)?,
            len: expr_id(&mut items)?,
            space: items.word(SPACES)?,
        },
        "alloc" => Stmt::Alloc { dst: temp(&mut items)?, len: expr_id(&mut items)? },
        "copy" => Stmt::Copy {
            to: expr_id(&mut items)?,
            from: expr_id(&mut items)?,
            space: items.word(SPACES)?,
            len: expr_id(&mut items)?,
        },
        word @ ("copyout" | "copyoutstr") => Stmt::CopyOut {
            to: expr_id(&mut items)?,
            from: expr_id(&mut items)?,
            space: items.word(SPACES)?,
            len: expr_id(&mut items)?,
            text: word == "copyoutstr",
        },
        "store" => Stmt::Store {
            to: dest(&mut items)?,
            offset: expr_id(&mut items)?,
            value: expr_id(&mut items)?,
            size: items.number()?,
        },
        "aggregate" => Stmt::Aggregate {
            agg: AggId(items.id("@")?),
            key: items.list()?.rest(expr_id)?,
            args: items.list()?.rest(expr_id)?,
        },
        "emit" => Stmt::Emit { record: RecordId(items.id("r")?), values: items.list()?.rest(expr_id)? },
        "act" => {
            Stmt::Act { act: act(&mut items)?, args: items.list()?.rest(expr_id)?, dst: optional(&mut items, temp)? }
        }
        "stop" => Stmt::Stop,
        "if" => Stmt::If {
            cond: expr_id(&mut items)?,
            then: items.list()?.rest(stmt)?,
            otherwise: items.list()?.rest(stmt)?,
        },
        "mark" => Stmt::Mark { line: items.number()?, action: items.number()? },
        other => return items.error(format!("`{other}` is no statement")),
    };
    items.end()?;
    Ok(found)
}

fn act(items: &mut Items<'_>) -> Result<KernelAct> {
    for (word, act) in [
        ("spec-start", KernelAct::SpecStart),
        ("spec-use", KernelAct::SpecUse),
        ("spec-end", KernelAct::SpecEnd),
        ("raise", KernelAct::Raise),
        ("chill", KernelAct::Chill),
        ("return", KernelAct::Return),
    ] {
        if items.flag(word) {
            return Ok(act);
        }
    }
    let mut items = items.list()?;
    let found = match items.atom()? {
        "spec-room" => KernelAct::SpecRoom { bytes: items.number()? },
        other => return items.error(format!("`{other}` is nothing that a program does")),
    };
    items.end()?;
    Ok(found)
}

fn location(items: &mut Items<'_>) -> Result<Location> {
    if items.flag("site") {
        return Ok(Location::Site);
    }
    if items.flag("current-task") {
        return Ok(Location::CurrentTask);
    }
    let mut items = items.list()?;
    let inner = |items: &mut Items<'_>| location(items).map(Box::new);
    let found = match items.atom()? {
        "value" => Location::Value(items.number()?),
        "ctx" => Location::Ctx { offset: items.number()?, size: items.number()?, signed: items.word(SIGNS)? },
        "reg" => Location::Reg { dwarf: items.number()? },
        "user-register" => Location::UserRegister { offset: items.number()? },
        "pc" => Location::Pc { space: items.word(SPACES)? },
        "memory" => Location::Memory {
            base: inner(&mut items)?,
            offset: items.number()?,
            size: items.number()?,
            signed: items.word(SIGNS)?,
            space: items.word(SPACES)?,
        },
        "btf" => Location::Btf {
            base: inner(&mut items)?,
            offset: items.number()?,
            size: items.number()?,
            signed: items.word(SIGNS)?,
        },
        "narrow" => Location::Narrow { of: inner(&mut items)?, size: items.number()?, signed: items.word(SIGNS)? },
        "address" => {
            Location::Address { base: inner(&mut items)?, offset: items.number()?, space: items.word(SPACES)? }
        }
        "sum" => Location::Sum { base: inner(&mut items)?, plus: inner(&mut items)?, times: items.number()? },
        "data-loc" => Location::DataLoc { offset: items.number()? },
        "ctx-address" => Location::CtxAddress { offset: items.number()? },
        "masked" => Location::Masked { of: inner(&mut items)?, mask: items.number()? },
        "case" => Location::Case {
            test: Box::new(test(&mut items)?),
            then: inner(&mut items)?,
            otherwise: inner(&mut items)?,
        },
        "none" => Location::None(items.string()?),
        other => return items.error(format!("`{other}` is no location")),
    };
    items.end()?;
    Ok(found)
}

fn test(items: &mut Items<'_>) -> Result<Test> {
    let mut items = items.list()?;
    let found = match items.atom()? {
        "within" => Test::Within { value: location(&mut items)?, low: items.number()?, high: items.number()? },
        "less" => Test::Less { a: location(&mut items)?, b: location(&mut items)? },
        "all" => return Ok(Test::All(items.rest(test)?)),
        "any" => return Ok(Test::Any(items.rest(test)?)),
        other => return items.error(format!("`{other}` is no test")),
    };
    items.end()?;
    Ok(found)
}
