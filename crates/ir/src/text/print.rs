//! Programs, locations and signatures as nested lists.

use super::node::Node;
use crate::{
    Action, Agg, AggFunc, Array, BinOp, Builtin, ClauseCode, Conversion, Ctx, Dest, Expr, ExprId, Format, IntKind,
    KernelAct, Location, Operand, Phase, Piece, Place, ProbeDesc, ProbePart, ProgKind, Program, Record, RingKind,
    Scope, Selector, Show, Signature, Space, Stack, Stmt, StrOp, Symbol, Test, UnOp, Unit, Val, Var,
};

macro_rules! list {
    ($($item:expr),* $(,)?) => { Node::list(vec![$(Node::from($item)),*]) };
}

impl From<&str> for Node {
    fn from(word: &str) -> Node {
        Node::atom(word)
    }
}

impl From<String> for Node {
    fn from(word: String) -> Node {
        Node::atom(word)
    }
}

macro_rules! from_number {
    ($($ty:ty),*) => { $(impl From<$ty> for Node {
        fn from(number: $ty) -> Node {
            Node::atom(number)
        }
    })* };
}
from_number!(u8, u16, u32, u64, i32, i64);

impl From<Val> for Node {
    fn from(val: Val) -> Node {
        match val {
            Val::Int => Node::atom("int"),
            Val::Str { cap } => list!["str", cap],
            Val::Bytes { len } => list!["bytes", len],
        }
    }
}

impl From<ExprId> for Node {
    fn from(id: ExprId) -> Node {
        Node::atom(format!("%{}", id.0))
    }
}

fn put(node: &Node) -> String {
    let mut out = String::new();
    node.write(0, &mut out);
    out.push('\n');
    out
}

/// Writes a program so that [`super::parse`] gives it back.
pub fn print(program: &Program) -> String {
    let mut out = String::new();
    for (i, clause) in program.clauses.iter().enumerate() {
        let (source, from, to) = clause.span;
        out += &put(&list!["clause", format!("c{i}"), clause.line, source, from, to]);
    }
    for (i, var) in program.vars.iter().enumerate() {
        out += &put(&self::var(i, var));
    }
    for (i, array) in program.arrays.iter().enumerate() {
        out += &put(&self::array(i, array));
    }
    for (i, agg) in program.aggs.iter().enumerate() {
        out += &put(&self::agg(i, agg));
    }
    for (i, record) in program.records.iter().enumerate() {
        out += &put(&self::record(i, record));
    }
    if let Some(unit) = program.oncpu {
        out += &put(&list!["oncpu", format!("u{}", unit.0)]);
    }
    if let Some(upkeep) = &program.upkeep {
        let units = Node::list(upkeep.units.iter().map(|u| Node::from(format!("u{}", u.0))).collect());
        out += &put(&list!["upkeep", format!("a{}", upkeep.array.0), units]);
    }
    if let Some(cpu) = program.cpu {
        out += &put(&list!["cpu", cpu]);
    }
    if program.nspec != 0 {
        out += &put(&list!["speculations", program.nspec, program.specsize]);
    }
    for (i, unit) in program.units.iter().enumerate() {
        out += &put(&self::unit(i, unit, program));
    }
    out
}

/// Writes a location so that [`super::parse_location`] gives it back.
pub fn print_location(location: &Location) -> String {
    put(&self::location(location))
}

/// Writes a signature so that [`super::parse_signature`] gives it back.
pub fn print_signature(signature: &Signature) -> String {
    let mut items = vec![
        Node::from("signature"),
        prog(&signature.prog),
        Node::from(phase(signature.phase)),
        Node::text(&signature.group),
        selector(&signature.selector),
        Node::from(signature.index),
    ];
    items.extend(signature.raw.iter().map(|l| list!["raw", location(l)]));
    for arg in &signature.args {
        let mut parts =
            vec!["arg".into(), Node::text(&arg.name), format!("ty{}", arg.ty.0).into(), location(&arg.location)];
        if !arg.translated.is_empty() {
            parts.push(Node::text(&arg.translated));
        }
        items.push(Node::list(parts));
    }
    items.extend(signature.when.iter().map(|when| list!["when", test(when)]));
    let named = [("errno", &signature.errno), ("caller", &signature.caller), ("ucaller", &signature.ucaller)];
    for (name, value) in named {
        items.extend(value.iter().map(|l| list![name, location(l)]));
    }
    put(&Node::list(items))
}

fn var(i: usize, var: &Var) -> Node {
    list!["var", format!("v{i}"), Node::text(&var.name), scope(var.scope), var.val]
}

fn array(i: usize, array: &Array) -> Node {
    let key = Node::list(array.key.iter().map(|&v| v.into()).collect());
    list!["array", format!("a{i}"), Node::text(&array.name), scope(array.scope), key, array.val]
}

fn agg(i: usize, agg: &Agg) -> Node {
    let key = agg.key.iter().map(|(val, show)| list![*val, self::show(show)]).collect();
    let mut items = vec!["agg".into(), format!("@{i}").into(), Node::text(&agg.name), func(agg.func), Node::list(key)];
    if agg.resettable {
        items.push("resettable".into());
    }
    items.extend(agg.probes_of.map(|unit| format!("u{}", unit.0).into()));
    Node::list(items)
}

fn record(i: usize, record: &Record) -> Node {
    let ring = match record.ring {
        RingKind::Data => "data",
        RingKind::Speculation => "speculation",
        RingKind::Control => "control",
    };
    let fields = Node::list(record.fields.iter().map(|&v| v.into()).collect());
    let mut items: Vec<Node> = vec![
        "record".into(),
        format!("r{i}").into(),
        format!("c{}", record.clause.0).into(),
        format!("u{}", record.unit.0).into(),
        ring.into(),
        fields,
    ];
    items.extend(record.actions.iter().map(action));
    Node::list(items)
}

fn action(action: &Action) -> Node {
    let agg = |id: &crate::AggId| format!("@{}", id.0);
    match action {
        Action::Trace(value) => list!["trace", operand(value)],
        Action::Printf { format, operands } => {
            let mut items = vec!["printf".into(), self::format(format)];
            items.extend(operands.iter().map(operand));
            Node::list(items)
        }
        Action::Printa { format, aggs } => {
            let mut items = vec![Node::from("printa")];
            items.extend(format.iter().map(self::format));
            items.extend(aggs.iter().map(|id| agg(id).into()));
            Node::list(items)
        }
        Action::Print { addr, value, ty } => {
            let mut items = vec![Node::from("print"), format!("ty{}", ty.0).into(), operand(value)];
            items.extend(addr.iter().map(operand));
            Node::list(items)
        }
        Action::Tracemem { data, size: None } => list!["tracemem", operand(data)],
        Action::Tracemem { data, size: Some(size) } => list!["tracemem", operand(data), operand(size)],
        Action::Exit(value) => list!["exit", operand(value)],
        Action::Clear(id) => list!["clear", agg(id)],
        Action::Trunc(id, None) => list!["trunc", agg(id)],
        Action::Trunc(id, Some(count)) => list!["trunc", agg(id), operand(count)],
        Action::Normalize(id, by) => list!["normalize", agg(id), operand(by)],
        Action::Denormalize(id) => list!["denormalize", agg(id)],
        Action::System { format, operands } | Action::Freopen { format, operands } => {
            let word = if matches!(action, Action::System { .. }) { "system" } else { "freopen" };
            let mut items = vec![word.into(), self::format(format)];
            items.extend(operands.iter().map(operand));
            Node::list(items)
        }
        Action::Ftruncate => list!["ftruncate"],
        Action::Setopt(name, value) => {
            let mut items = vec!["setopt".into(), operand(name)];
            items.extend(value.iter().map(operand));
            Node::list(items)
        }
        Action::Pcap { proto, len, captured, data } => {
            list!["pcap", operand(proto), operand(len), operand(captured), operand(data)]
        }
        Action::Commit(handle) => list!["commit", operand(handle)],
        Action::Discard(handle) => list!["discard", operand(handle)],
        Action::Default => list!["default"],
    }
}

fn operand(operand: &Operand) -> Node {
    list![format!("f{}", operand.field.0), show(&operand.show)]
}

fn show(show: &Show) -> Node {
    match show {
        Show::Int { size, signed, kind } => {
            let kind = match kind {
                IntKind::Number => "number",
                IntKind::Char => "char",
                IntKind::Bool => "bool",
            };
            list!["int", *size, sign(*signed), kind]
        }
        Show::Float { size } => list!["float", *size],
        Show::Pointer => "pointer".into(),
        Show::String => "string".into(),
        Show::Bytes { ty: None } => "bytes".into(),
        Show::Bytes { ty: Some(ty) } => list!["bytes", format!("ty{}", ty.0)],
        Show::ProbePart(part) => list!["probe", self::part(*part)],
        Show::Stack => "stack".into(),
        Show::Symbol(what) => list!["symbol", symbol(*what)],
    }
}

fn format(format: &Format) -> Node {
    let mut items = vec![Node::from("format")];
    for piece in &format.pieces {
        items.push(match piece {
            Piece::Text(text) => Node::text(text),
            Piece::Conv(conv) => conversion(conv),
        });
    }
    Node::list(items)
}

fn conversion(conv: &Conversion) -> Node {
    let mut items = vec![Node::from("conv"), Node::text(conv.letter.to_string()), Node::text(&conv.modifier)];
    let flags = [
        ("left", conv.left),
        ("plus", conv.plus),
        ("space", conv.space),
        ("alternate", conv.alternate),
        ("zero", conv.zero),
        ("group", conv.group),
        ("agg", conv.agg),
        ("width-arg", conv.width_arg),
        ("precision-arg", conv.precision_arg),
    ];
    items.extend(flags.iter().filter(|(_, set)| *set).map(|(name, _)| Node::from(*name)));
    items.extend(conv.width.map(|w| list!["width", w]));
    items.extend(conv.precision.map(|p| list!["precision", p]));
    Node::list(items)
}

fn prog(prog: &ProgKind) -> Node {
    let ctx = match prog.ctx {
        Ctx::Args => "args",
        Ctx::Regs => "regs",
        Ctx::PerfEvent => "perf-event",
        Ctx::Record => "record",
    };
    let mut items: Vec<Node> =
        vec!["prog".into(), ctx.into(), prog.prog_type.into(), prog.attach_type.into(), prog.btf_id.into()];
    if prog.sleepable {
        items.push("sleepable".into());
    }
    Node::list(items)
}

fn selector(selector: &Selector) -> Node {
    match selector {
        Selector::One => "one".into(),
        Selector::Cookie => "cookie".into(),
        Selector::Syscall { number, compat: None, limit } => list!["sysno", location(number), *limit],
        Selector::Syscall { number, compat: Some((flags, mask)), limit } => {
            list!["sysno", location(number), *limit, location(flags), *mask]
        }
    }
}

fn unit(i: usize, unit: &Unit, program: &Program) -> Node {
    let mut items: Vec<Node> = vec![
        "unit".into(),
        format!("u{i}").into(),
        Node::text(&unit.name),
        phase(unit.phase).into(),
        prog(&unit.prog),
        list!["select", selector(&unit.selector)],
    ];
    for probe in &unit.probes {
        items.push(match probe {
            None => list!["probe"],
            Some(probe) => {
                let ProbeDesc { provider, module, function, name } = &probe.desc;
                let text = Node::text;
                list!["probe", probe.id, text(provider), text(module), text(function), text(name)]
            }
        });
    }
    items.extend(unit.clauses.iter().map(|code| self::code(code, program)));
    Node::list(items)
}

fn code(code: &ClauseCode, program: &Program) -> Node {
    let mut items: Vec<Node> = vec!["code".into(), format!("c{}", code.clause.0).into()];
    let probes = code.probes.iter().map(|&p| p.into());
    items.push(Node::list(std::iter::once("probes".into()).chain(probes).collect()));
    let temps = code.temps.iter().map(|&v| v.into());
    items.push(Node::list(std::iter::once("temps".into()).chain(temps).collect()));
    for (i, expr) in code.exprs.iter().enumerate() {
        items.push(self::expr(i, expr, program));
    }
    items.extend(code.predicate.map(|p| list!["predicate", p]));
    items.push(Node::list(std::iter::once("body".into()).chain(code.body.iter().map(|s| stmt(s, program))).collect()));
    Node::list(items)
}

/// A number with its letter and, where it is a plain word, its name.
fn named(prefix: &str, id: u32, name: Option<&str>) -> String {
    let plain = |name: &&str| !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    match name.filter(plain) {
        Some(name) => format!("{prefix}{id}:{name}"),
        None => format!("{prefix}{id}"),
    }
}

fn var_ref(id: crate::VarId, program: &Program) -> String {
    named("v", id.0, program.vars.get(id.0 as usize).map(|v| v.name.as_str()))
}

fn array_ref(id: crate::ArrayId, program: &Program) -> String {
    named("a", id.0, program.arrays.get(id.0 as usize).map(|a| a.name.as_str()))
}

fn temp(id: crate::TempId) -> String {
    format!("t{}", id.0)
}

fn exprs(ids: &[ExprId]) -> Node {
    Node::list(ids.iter().map(|&id| id.into()).collect())
}

fn expr(i: usize, expr: &Expr, program: &Program) -> Node {
    let mut items: Vec<Node> = vec![format!("%{i}").into()];
    let rest: Vec<Node> = match expr {
        Expr::Const(value) => vec!["const".into(), (*value).into()],
        Expr::Loc(loc) => vec!["loc".into(), location(loc)],
        Expr::Builtin(which) => vec!["builtin".into(), builtin(*which).into()],
        Expr::Temp(id) => vec!["temp".into(), temp(*id).into()],
        Expr::Var(id) => vec!["var".into(), var_ref(*id, program).into()],
        Expr::Elem(id, key) => vec!["elem".into(), array_ref(*id, program).into(), exprs(key)],
        Expr::Un(op, a) => vec![un_op(*op).into(), (*a).into()],
        Expr::Bin(op, a, b) => vec![bin_op(*op).into(), (*a).into(), (*b).into()],
        Expr::Ext { of, size, signed } => vec!["ext".into(), (*of).into(), (*size).into(), sign(*signed).into()],
        Expr::And(a, b) => vec!["and-then".into(), (*a).into(), (*b).into()],
        Expr::Or(a, b) => vec!["or-else".into(), (*a).into(), (*b).into()],
        Expr::Cond(c, a, b) => vec!["cond".into(), (*c).into(), (*a).into(), (*b).into()],
        Expr::Load { addr, size, signed, space } => {
            vec!["load".into(), (*addr).into(), (*size).into(), sign(*signed).into(), self::space(*space).into()]
        }
        Expr::StrCmp(op, a, b) => vec!["strcmp".into(), str_op(*op).into(), (*a).into(), (*b).into()],
        Expr::StrLen(a) => vec!["strlen".into(), (*a).into()],
        Expr::ScratchAddr(a) => vec!["scratch-addr".into(), (*a).into()],
        Expr::Str(bytes) => vec!["str".into(), Node::text(bytes)],
        Expr::Comm => vec!["comm".into()],
        Expr::ProbeText(part) => vec!["probe-text".into(), self::part(*part).into()],
        Expr::ProbeIndex => vec!["probe-index".into()],
        Expr::ReadStr { addr, space, cap, max } => {
            let mut items = vec!["read-str".into(), (*addr).into(), self::space(*space).into(), Node::from(*cap)];
            items.extend(max.map(Node::from));
            items
        }
        Expr::StrJoin { a, b, cap } => vec!["strjoin".into(), (*a).into(), (*b).into(), (*cap).into()],
        Expr::Sub { sub, args, cap } => {
            vec!["call".into(), sub.word().into(), (*cap).into(), exprs(args)]
        }
        Expr::ReadBytes { addr, space, len } => {
            vec!["read-bytes".into(), (*addr).into(), self::space(*space).into(), (*len).into()]
        }
        Expr::Stack(Stack { user, frames, strsize, entry }) => {
            let whose = if *user { Space::User } else { Space::Kernel };
            let mut items = vec!["stack".into(), self::space(whose).into(), (*frames).into(), (*strsize).into()];
            items.extend(entry.as_ref().map(location));
            items
        }
        Expr::Part { of, offset, size, signed } => {
            vec!["part".into(), (*of).into(), (*offset).into(), (*size).into(), sign(*signed).into()]
        }
        Expr::UserAddr(a) => vec!["user-addr".into(), (*a).into()],
        Expr::AddrOf(place) => vec!["addr-of".into(), self::place(place, program)],
        Expr::Bounded { index, len } => vec!["bounded".into(), (*index).into(), (*len).into()],
        Expr::CharAt { of, index } => vec!["char-at".into(), (*of).into(), (*index).into()],
    };
    items.extend(rest);
    Node::list(items)
}

fn place(place: &Place, program: &Program) -> Node {
    match place {
        Place::Var(id) => list!["var", var_ref(*id, program)],
        Place::Elem(id, key) => list!["elem", array_ref(*id, program), exprs(key)],
    }
}

fn stmt(stmt: &Stmt, program: &Program) -> Node {
    let block = |stmts: &[Stmt]| Node::list(stmts.iter().map(|s| self::stmt(s, program)).collect());
    let with_old = |mut items: Vec<Node>, old: &Option<crate::TempId>| {
        items.extend(old.map(|t| temp(t).into()));
        Node::list(items)
    };
    match stmt {
        Stmt::SetTemp(id, value) => list!["set-temp", temp(*id), *value],
        Stmt::SetVar(id, value) => list!["set", var_ref(*id, program), *value],
        Stmt::AddVar { var, by, old } => with_old(vec!["add".into(), var_ref(*var, program).into(), (*by).into()], old),
        Stmt::SetElem(id, key, value) => list!["set-elem", array_ref(*id, program), exprs(key), *value],
        Stmt::AddElem { array, key, by, old } => {
            with_old(vec!["add-elem".into(), array_ref(*array, program).into(), exprs(key), (*by).into()], old)
        }
        Stmt::Alloc { dst, len } => list!["alloc", temp(*dst), *len],
        Stmt::CopyIn { dst, addr, len, space } => list!["copyin", temp(*dst), *addr, *len, self::space(*space)],
        Stmt::Copy { to, from, space, len } => list!["copy", *to, *from, self::space(*space), *len],
        Stmt::CopyOut { to, from, space, len, text } => {
            let what = if *text { "copyoutstr" } else { "copyout" };
            list![what, *to, *from, self::space(*space), *len]
        }
        Stmt::Store { to, offset, value, size } => {
            let to = match to {
                Dest::Place(place) => self::place(place, program),
                Dest::Scratch => "scratch".into(),
                Dest::Global => "global".into(),
            };
            list!["store", to, *offset, *value, *size]
        }
        Stmt::Aggregate { agg, key, args } => {
            let name = program.aggs.get(agg.0 as usize).map(|a| a.name.as_str());
            list!["aggregate", named("@", agg.0, name), exprs(key), exprs(args)]
        }
        Stmt::Emit { record, values } => list!["emit", format!("r{}", record.0), exprs(values)],
        Stmt::Act { act, dst, args } => {
            let mut items = vec!["act".into(), self::act(act), exprs(args)];
            items.extend(dst.map(|t| temp(t).into()));
            Node::list(items)
        }
        Stmt::Stop => list!["stop"],
        Stmt::If { cond, then, otherwise } => list!["if", *cond, block(then), block(otherwise)],
        Stmt::Mark { line, action } => list!["mark", *line, *action],
    }
}

fn act(act: &KernelAct) -> Node {
    match act {
        KernelAct::SpecStart => "spec-start".into(),
        KernelAct::SpecUse => "spec-use".into(),
        KernelAct::SpecRoom { bytes } => list!["spec-room", *bytes],
        KernelAct::SpecEnd => "spec-end".into(),
        KernelAct::Raise => "raise".into(),
        KernelAct::Chill => "chill".into(),
        KernelAct::Return => "return".into(),
    }
}

fn location(location: &Location) -> Node {
    match location {
        Location::Value(value) => list!["value", *value],
        Location::Ctx { offset, size, signed } => list!["ctx", *offset, *size, sign(*signed)],
        Location::Reg { dwarf } => list!["reg", *dwarf],
        Location::UserRegister { offset } => list!["user-register", *offset],
        Location::Pc { space } => list!["pc", self::space(*space)],
        Location::Memory { base, offset, size, signed, space } => {
            list!["memory", self::location(base), *offset, *size, sign(*signed), self::space(*space)]
        }
        Location::Btf { base, offset, size, signed } => {
            list!["btf", self::location(base), *offset, *size, sign(*signed)]
        }
        Location::CurrentTask => "current-task".into(),
        Location::Narrow { of, size, signed } => list!["narrow", self::location(of), *size, sign(*signed)],
        Location::Address { base, offset, space } => {
            list!["address", self::location(base), *offset, self::space(*space)]
        }
        Location::Sum { base, plus, times } => list!["sum", self::location(base), self::location(plus), *times],
        Location::Site => "site".into(),
        Location::DataLoc { offset } => list!["data-loc", *offset],
        Location::CtxAddress { offset } => list!["ctx-address", *offset],
        Location::Masked { of, mask } => list!["masked", self::location(of), *mask],
        Location::Case { test, then, otherwise } => {
            list!["case", self::test(test), self::location(then), self::location(otherwise)]
        }
        Location::None(reason) => list!["none", Node::text(reason)],
    }
}

fn test(test: &Test) -> Node {
    let all = |word: &str, tests: &[Test]| {
        Node::list(std::iter::once(Node::from(word)).chain(tests.iter().map(self::test)).collect())
    };
    match test {
        Test::Within { value, low, high } => list!["within", location(value), *low, *high],
        Test::Less { a, b } => list!["less", location(a), location(b)],
        Test::All(tests) => all("all", tests),
        Test::Any(tests) => all("any", tests),
    }
}

fn func(func: AggFunc) -> Node {
    match func {
        AggFunc::Count => "count".into(),
        AggFunc::Sum => "sum".into(),
        AggFunc::Min => "min".into(),
        AggFunc::Max => "max".into(),
        AggFunc::Avg => "avg".into(),
        AggFunc::Stddev => "stddev".into(),
        AggFunc::Quantize => "quantize".into(),
        AggFunc::Lquantize { low, high, step } => list!["lquantize", low, high, step],
        AggFunc::Llquantize { factor, low, high, steps } => list!["llquantize", factor, low, high, steps],
    }
}

fn sign(signed: bool) -> &'static str {
    if signed { "signed" } else { "unsigned" }
}

/// Words for the variants of plain enums; the parser uses the same tables.
macro_rules! words {
    ($(#[$doc:meta])* $table:ident, $fn:ident, $ty:ident { $($variant:ident = $word:literal),* $(,)? }) => {
        $(#[$doc])*
        pub(super) const $table: &[(&str, $ty)] = &[$(($word, $ty::$variant)),*];

        fn $fn(value: $ty) -> &'static str {
            match value { $($ty::$variant => $word),* }
        }
    };
}

words!(SCOPES, scope, Scope { Global = "global", Thread = "thread", Clause = "clause" });
words!(SPACES, space, Space { Kernel = "kernel", User = "user", Absent = "absent", Scratch = "scratch" });
words!(PHASES, phase, Phase { Begin = "begin", Run = "run", Timer = "timer", End = "end", Always = "always" });
words!(UN_OPS, un_op, UnOp { Neg = "neg", Not = "not", LogNot = "log-not" });
words!(STR_OPS, str_op, StrOp { Eq = "eq", Ne = "ne", Lt = "lt", Le = "le", Gt = "gt", Ge = "ge" });
words!(SYMBOLS, symbol, Symbol {
    Kernel = "kernel", KernelModule = "kernel-module", User = "user", UserModule = "user-module",
    UserAddress = "user-address",
});
words!(PARTS, part, ProbePart { Provider = "provider", Module = "module", Function = "function", Name = "name" });
words!(BIN_OPS, bin_op, BinOp {
    Add = "add", Sub = "sub", Mul = "mul", DivS = "div-s", DivU = "div-u", RemS = "rem-s", RemU = "rem-u",
    And = "and", Or = "or", Xor = "xor", Shl = "shl", ShrS = "shr-s", ShrU = "shr-u", Eq = "eq", Ne = "ne",
    LtS = "lt-s", LtU = "lt-u", LeS = "le-s", LeU = "le-u",
});
words!(BUILTINS, builtin, Builtin {
    Pid = "pid", Tid = "tid", Uid = "uid", Gid = "gid", Timestamp = "timestamp", WallTimestamp = "walltimestamp", Vtimestamp = "vtimestamp",
    Cpu = "cpu", CurThread = "curthread", ProbeId = "id", Epid = "epid", Caller = "caller", Ucaller = "ucaller",
});
