//! How large strings are, and what the members of keys look like: decided over all uses of a variable, array or
//! aggregation, before any clause is lowered.

use crate::bind::Bound;
use crate::check::stack::is_stack;
use crate::check::tree::*;
use crate::check::{Checked, Variant};
use probity_ir::{IntKind, ProbeDesc, ProbePart, Show, TypeId, TypeKind, TypeTable, UnitId, Val};

/// What a key's member is, as known so far.
#[derive(Clone, Debug, PartialEq)]
enum KeyShape {
    Int(Show),
    Str(u32),
    /// Bytes of at most so many, or an address of a process.
    Bytes(u32, Show),
    /// A part of the firing probe's description: all uses are this part, in this unit; its text has this capacity.
    Probe(ProbePart, usize, u32),
}

/// The result: kinds of variables, array keys and elements, aggregation keys.
#[derive(Clone, Debug, Default)]
pub(super) struct Shapes {
    strsize: u32,
    /// By variable: capacity of strings.
    vars: Vec<u32>,
    /// By array: capacity of elements that are strings.
    elems: Vec<u32>,
    /// By array and member: capacity of members that are strings.
    keys: Vec<Vec<u32>>,
    /// By aggregation and member.
    aggs: Vec<Vec<Option<KeyShape>>>,
}

impl Shapes {
    /// Looks at the whole program. `units` gives the IR's unit for the bound one.
    pub(super) fn of(checked: &Checked, bound: &Bound, strsize: u32) -> Shapes {
        let mut s = Shapes {
            strsize,
            vars: vec![1; checked.vars.len()],
            elems: vec![1; checked.arrays.len()],
            keys: checked.arrays.iter().map(|a| vec![1; a.key.len()]).collect(),
            aggs: checked.aggs.iter().map(|a| vec![None; a.key.as_ref().map_or(0, Vec::len)]).collect(),
        };
        // Capacities depend on each other through assignments. A cycle that still grows after a few rounds (`s =
        // strjoin(s, "x")`) grows to the end.
        const ROUNDS: usize = 4;
        let mut before = s.clone();
        for round in 0.. {
            for v in checked.clauses.iter().flat_map(|c| &c.variants) {
                s.variant(checked, bound, v);
            }
            let stable =
                s.vars == before.vars && s.elems == before.elems && s.keys == before.keys && s.aggs == before.aggs;
            if stable {
                break;
            }
            if round >= ROUNDS {
                for (now, then) in s.vars.iter_mut().zip(&before.vars).chain(s.elems.iter_mut().zip(&before.elems)) {
                    if now != then {
                        *now = strsize;
                    }
                }
            }
            before = s.clone();
        }
        s
    }

    fn variant(&mut self, checked: &Checked, bound: &Bound, variant: &Variant) {
        let texts = Texts::of(bound, variant);
        for_each_stmt(&variant.body, &mut |stmt| {
            if let TStmtKind::Aggregate { agg, key, .. } = &stmt.kind {
                for (i, e) in key.iter().enumerate() {
                    let shape = self.key_shape(checked, &texts, variant.unit, e);
                    let slot = &mut self.aggs[agg.0 as usize][i];
                    *slot = Some(match slot.take() {
                        None => shape,
                        // A constant needs no wider place than it has already.
                        Some(old) if fits(&old, e) => old,
                        Some(old) => merge(old, shape),
                    });
                }
            }
        });
        for_each_expr(variant, &mut |e| match &e.kind {
            TKind::Assign { target, value, .. } if is_string(&checked.types, value.ty) => {
                let cap = self.cap(&texts, value);
                match &target.kind {
                    TKind::Var(v) => grow(&mut self.vars[v.0 as usize], cap),
                    TKind::Elem(a, _) => grow(&mut self.elems[a.0 as usize], cap),
                    _ => {}
                }
            }
            TKind::Elem(a, key) => {
                for (i, k) in key.iter().enumerate() {
                    if is_string(&checked.types, k.ty) {
                        let cap = self.cap(&texts, k);
                        grow(&mut self.keys[a.0 as usize][i], cap);
                    }
                }
            }
            _ => {}
        });
    }

    fn key_shape(&self, checked: &Checked, texts: &Texts, unit: usize, e: &TExpr) -> KeyShape {
        match &e.kind {
            TKind::ProbePart(part) => KeyShape::Probe(*part, unit, texts.cap(*part)),
            TKind::Symbol(what, _) if what.is_user() => KeyShape::Bytes(16, Show::Symbol(*what)),
            TKind::Symbol(what, _) => KeyShape::Int(Show::Symbol(*what)),
            _ if is_stack(&checked.types, e.ty) => {
                KeyShape::Bytes(checked.types.size(e.ty).map_or(0, |n| n as u32), Show::Stack)
            }
            _ if is_string(&checked.types, e.ty) => KeyShape::Str(self.cap(texts, e)),
            _ => match scalar_or_bytes(&checked.types, e.ty) {
                Val::Bytes { len } => KeyShape::Bytes(len, Show::Bytes { ty: Some(e.ty) }),
                _ => KeyShape::Int(show(&checked.types, e.ty)),
            },
        }
    }

    /// The capacity of a string expression, its NUL included.
    pub(super) fn cap(&self, texts: &Texts, e: &TExpr) -> u32 {
        let cap = match &e.kind {
            TKind::Str(bytes) => bytes.len() as u32 + 1,
            TKind::Comm => 16,
            TKind::ProbePart(part) => texts.cap(*part),
            TKind::Var(v) => self.vars[v.0 as usize],
            TKind::Elem(a, _) => self.elems[a.0 as usize],
            TKind::ReadStr { max, len, .. } => {
                let most = match max.as_deref().map(|m| &m.kind) {
                    Some(TKind::Int(n)) => u32::try_from(*n).ok().and_then(|n| n.checked_add(1)),
                    _ => None,
                };
                let len = len.and_then(|n| n.checked_add(1));
                self.strsize.min(most.unwrap_or(u32::MAX)).min(len.unwrap_or(u32::MAX))
            }
            TKind::StrJoin(a, b) => self.cap(texts, a).saturating_add(self.cap(texts, b)) - 1,
            TKind::Cond(_, a, b) => self.cap(texts, a).max(self.cap(texts, b)),
            TKind::Comma(_, b) | TKind::Hold(_, _, b) => self.cap(texts, b),
            TKind::Assign { value, .. } => self.cap(texts, value),
            _ => self.strsize,
        };
        cap.clamp(1, self.strsize.max(1))
    }

    /// What a variable holds.
    pub(super) fn var(&self, types: &TypeTable, v: usize, ty: TypeId) -> Val {
        if is_string(types, ty) { Val::Str { cap: self.vars[v] } } else { scalar_or_bytes(types, ty) }
    }

    /// What an array's element is.
    pub(super) fn elem(&self, types: &TypeTable, a: usize, ty: TypeId) -> Val {
        if is_string(types, ty) { Val::Str { cap: self.elems[a] } } else { scalar_or_bytes(types, ty) }
    }

    /// What an array's key is.
    pub(super) fn array_key(&self, types: &TypeTable, a: usize, key: &[TypeId]) -> Vec<Val> {
        let one = |(i, ty): (usize, &TypeId)| {
            if is_string(types, *ty) { Val::Str { cap: self.keys[a][i] } } else { scalar_or_bytes(types, *ty) }
        };
        key.iter().enumerate().map(one).collect()
    }

    /// What an aggregation's key is, and the bound unit whose probes its members are indexes of.
    pub(super) fn agg_key(&self, agg: usize) -> (Vec<(Val, Show)>, Option<usize>) {
        let mut of = None;
        let one = |shape: &Option<KeyShape>| match shape {
            Some(KeyShape::Int(show)) => (Val::Int, show.clone()),
            Some(KeyShape::Str(cap)) => (Val::Str { cap: *cap }, Show::String),
            Some(KeyShape::Bytes(len, show)) => (Val::Bytes { len: *len }, show.clone()),
            Some(KeyShape::Probe(part, unit, _)) => {
                of = Some(*unit);
                (Val::Int, Show::ProbePart(*part))
            }
            // Never updated anywhere.
            None => (Val::Int, Show::Int { size: 8, signed: true, kind: IntKind::Number }),
        };
        let key = self.aggs[agg].iter().map(one).collect();
        (key, of)
    }

    /// Whether a member of an aggregation's key is an index of a probe.
    pub(super) fn is_probe_index(&self, agg: usize, member: usize) -> bool {
        matches!(self.aggs[agg][member], Some(KeyShape::Probe(..)))
    }
}

/// The lengths of the parts of a variant's probes.
pub(super) struct Texts {
    caps: [u32; 4],
    /// The probe, if there is one only.
    pub(super) single: Option<ProbeDesc>,
}

impl Texts {
    pub(super) fn of(bound: &Bound, variant: &Variant) -> Texts {
        let mut caps = [1u32; 4];
        let mut first: Option<&ProbeDesc> = None;
        let mut many = false;
        // The first layer has all the probes.
        for &p in variant.layers.first().into_iter().flatten() {
            let desc = &bound.probes[p].probe.desc;
            many |= first.is_some_and(|f| f != desc);
            first.get_or_insert(desc);
            for (cap, part) in caps.iter_mut().zip(PARTS) {
                grow(cap, text_of(desc, part).len() as u32 + 1);
            }
        }
        Texts { caps, single: if many { None } else { first.cloned() } }
    }

    pub(super) fn cap(&self, part: ProbePart) -> u32 {
        PARTS.iter().position(|p| *p == part).map_or(1, |i| self.caps[i])
    }
}

const PARTS: [ProbePart; 4] = [ProbePart::Provider, ProbePart::Module, ProbePart::Function, ProbePart::Name];

/// A part of a description.
pub(super) fn text_of(desc: &ProbeDesc, part: ProbePart) -> &str {
    match part {
        ProbePart::Provider => &desc.provider,
        ProbePart::Module => &desc.module,
        ProbePart::Function => &desc.function,
        ProbePart::Name => &desc.name,
    }
}

fn grow(cap: &mut u32, to: u32) {
    *cap = (*cap).max(to);
}

/// Whether a constant is one of a shape's integers.
fn fits(shape: &KeyShape, e: &TExpr) -> bool {
    match (shape, &e.kind) {
        (KeyShape::Int(Show::Int { size: size @ (1 | 2 | 4), signed, .. }), TKind::Int(v)) => {
            let bits = u32::from(*size) * 8;
            let low = if *signed { -1i64 << (bits - 1) } else { 0 };
            (low..low + (1 << bits)).contains(v)
        }
        _ => false,
    }
}

/// The shape of a member that is used in two ways.
fn merge(a: KeyShape, b: KeyShape) -> KeyShape {
    let text = |s: &KeyShape| match s {
        KeyShape::Str(cap) | KeyShape::Probe(_, _, cap) => *cap,
        KeyShape::Int(_) | KeyShape::Bytes(..) => 1,
    };
    match (&a, &b) {
        (KeyShape::Probe(p, u, x), KeyShape::Probe(q, v, y)) if p == q && u == v => KeyShape::Probe(*p, *u, *x.max(y)),
        (KeyShape::Int(x), KeyShape::Int(y)) => KeyShape::Int(merge_show(x, y)),
        // Types of a key's members are the same in all uses, but for the depth of stacks.
        (KeyShape::Bytes(x, show), KeyShape::Bytes(y, _)) => KeyShape::Bytes(*x.max(y), show.clone()),
        _ => KeyShape::Str(text(&a).max(text(&b))),
    }
}

fn merge_show(a: &Show, b: &Show) -> Show {
    match (a, b) {
        (Show::Int { size: x, signed: s, kind: k }, Show::Int { size: y, signed: t, kind: l }) => {
            let (size, signed) = match (s == t, s, x.cmp(y)) {
                (true, ..) => (*x.max(y), *s),
                // An unsigned type holds all of a narrower one's values only if that is unsigned too.
                (false, true, std::cmp::Ordering::Greater) => (*x, true),
                (false, false, std::cmp::Ordering::Less) => (*y, true),
                _ => (8, true),
            };
            Show::Int { size, signed, kind: if k == l { *k } else { IntKind::Number } }
        }
        _ => a.clone(),
    }
}

/// How a value of a type is shown.
pub(super) fn show(types: &TypeTable, ty: TypeId) -> Show {
    match types.get(types.resolve(ty)) {
        TypeKind::Int { size, signed, kind } => Show::Int { size: *size, signed: *signed, kind: *kind },
        TypeKind::Enum { size, signed, .. } => Show::Int { size: *size, signed: *signed, kind: IntKind::Number },
        TypeKind::Float { size: size @ (4 | 8) } => Show::Float { size: *size },
        TypeKind::Pointer { .. } => Show::Pointer,
        TypeKind::String => Show::String,
        _ if is_stack(types, ty) => Show::Stack,
        _ => Show::Bytes { ty: Some(ty) },
    }
}

/// The size of an object in memory.
pub(super) fn byte_size(types: &TypeTable, ty: TypeId) -> u32 {
    types.size(ty).and_then(|n| u32::try_from(n).ok()).unwrap_or(0)
}

/// What a value that is no string is.
pub(super) fn scalar_or_bytes(types: &TypeTable, ty: TypeId) -> Val {
    match types.get(types.resolve(ty)) {
        TypeKind::Array { .. } | TypeKind::Struct { .. } | TypeKind::Float { size: 16 } => {
            Val::Bytes { len: byte_size(types, ty) }
        }
        _ => Val::Int,
    }
}

pub(super) fn is_string(types: &TypeTable, ty: TypeId) -> bool {
    matches!(types.get(types.resolve(ty)), TypeKind::String)
}

/// Calls `f` with every statement, those in branches included.
pub(super) fn for_each_stmt(stmts: &[TStmt], f: &mut dyn FnMut(&TStmt)) {
    for stmt in stmts {
        f(stmt);
        if let TStmtKind::If(_, yes, no) = &stmt.kind {
            for_each_stmt(yes, f);
            for_each_stmt(no, f);
        }
    }
}

/// The expressions of a statement itself.
pub(crate) fn exprs_of(stmt: &TStmt) -> Vec<&TExpr> {
    match &stmt.kind {
        TStmtKind::Expr(e) | TStmtKind::If(e, ..) => vec![e],
        TStmtKind::Aggregate { key, args, .. } => key.iter().chain(args).collect(),
        TStmtKind::Action(action) => match action {
            TAction::Trace(e) | TAction::Exit(e) | TAction::Normalize(_, e) | TAction::Trunc(_, Some(e)) => vec![e],
            TAction::System(_, operands) | TAction::Freopen(_, operands) => operands.iter().collect(),
            TAction::Kernel(_, args) => args.iter().collect(),
            TAction::Setopt(name, value) => std::iter::once(name).chain(value).collect(),
            TAction::Pcap { skb, proto, .. } => vec![skb, proto],
            TAction::Ftruncate => vec![],
            TAction::Speculate(e) | TAction::Commit(e) | TAction::Discard(e) => vec![e],
            TAction::Printf(_, operands) => operands.iter().collect(),
            TAction::Print { value, .. } => vec![value],
            TAction::Tracemem { addr, fewer, .. } => std::iter::once(addr).chain(fewer).collect(),
            TAction::Printa(..) | TAction::Clear(_) | TAction::Trunc(_, None) | TAction::Denormalize(_) => vec![],
            TAction::Default => vec![],
        },
    }
}

/// Calls `f` with every expression of a variant.
fn for_each_expr(variant: &Variant, f: &mut dyn FnMut(&TExpr)) {
    let mut all = |e: &TExpr| {
        e.any(&mut |e| {
            f(e);
            false
        });
    };
    variant.predicate.iter().for_each(&mut all);
    for_each_stmt(&variant.body, &mut |s| exprs_of(s).into_iter().for_each(&mut all));
}

/// The IR's unit of each bound one.
pub(super) type UnitMap = Vec<Option<UnitId>>;
