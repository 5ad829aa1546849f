//! Constant folding, algebraic simplification and dead code on [`Program`].
//!
//! Each clause's expressions are rebuilt bottom-up. What can fault is never dropped, because the fault is part of the
//! meaning. Leaves instruction-level matters (immediates, common subexpressions) to selection.

use crate::select::probes::{part_of, present};
use probity_ir::{
    BinOp, Builtin, ClauseCode, Dest, Expr, ExprId, Location, Place, Program, Space, Stmt, StrOp, Sub, TempId, UnOp,
    Unit, applies,
};
use std::collections::{HashMap, HashSet};

/// Simplifies every clause.
pub fn fold(program: &Program) -> Program {
    let mut out = program.clone();
    for (unit, new) in program.units.iter().zip(&mut out.units) {
        for (clause, new) in unit.clauses.iter().zip(&mut new.clauses) {
            *new = fold_clause(unit, clause);
        }
    }
    out
}

/// What a binary operator gives; nothing where it faults.
pub fn eval(op: BinOp, a: i64, b: i64) -> Option<i64> {
    let (ua, ub) = (a as u64, b as u64);
    Some(match op {
        BinOp::Add => a.wrapping_add(b),
        BinOp::Sub => a.wrapping_sub(b),
        BinOp::Mul => a.wrapping_mul(b),
        BinOp::DivS => (b != 0).then(|| a.wrapping_div(b))?,
        BinOp::DivU => ua.checked_div(ub)? as i64,
        BinOp::RemS => (b != 0).then(|| a.wrapping_rem(b))?,
        BinOp::RemU => ua.checked_rem(ub)? as i64,
        BinOp::And => a & b,
        BinOp::Or => a | b,
        BinOp::Xor => a ^ b,
        BinOp::Shl => a.wrapping_shl(b as u32 & 63),
        BinOp::ShrS => a.wrapping_shr(b as u32 & 63),
        BinOp::ShrU => ua.wrapping_shr(b as u32 & 63) as i64,
        BinOp::Eq => i64::from(a == b),
        BinOp::Ne => i64::from(a != b),
        BinOp::LtS => i64::from(a < b),
        BinOp::LtU => i64::from(ua < ub),
        BinOp::LeS => i64::from(a <= b),
        BinOp::LeU => i64::from(ua <= ub),
    })
}

/// The low `size` bytes, extended.
pub fn extend(v: i64, size: u8, signed: bool) -> i64 {
    match (size, signed) {
        (1, true) => i64::from(v as i8),
        (1, false) => i64::from(v as u8),
        (2, true) => i64::from(v as i16),
        (2, false) => i64::from(v as u16),
        (4, true) => i64::from(v as i32),
        (4, false) => i64::from(v as u32),
        _ => v,
    }
}

/// The string up to its NUL.
pub fn text(bytes: &[u8]) -> &[u8] {
    &bytes[..bytes.iter().position(|&b| b == 0).unwrap_or(bytes.len())]
}

/// Whether comparing gives true.
pub fn compare(op: StrOp, a: &[u8], b: &[u8]) -> bool {
    let order = text(a).cmp(text(b));
    match op {
        StrOp::Eq => order.is_eq(),
        StrOp::Ne => order.is_ne(),
        StrOp::Lt => order.is_lt(),
        StrOp::Le => order.is_le(),
        StrOp::Gt => order.is_gt(),
        StrOp::Ge => order.is_ge(),
    }
}

/// Whether reading this place can fault.
pub fn loc_may_fault(loc: &Location) -> bool {
    match loc {
        Location::Memory { .. } | Location::None(_) => true,
        Location::Btf { base, .. } | Location::Narrow { of: base, .. } | Location::Address { base, .. } => {
            loc_may_fault(base)
        }
        Location::Sum { base, plus, .. } => loc_may_fault(base) || loc_may_fault(plus),
        // Lowering has made operators of these.
        Location::Masked { .. } | Location::Case { .. } => true,
        Location::Ctx { .. }
        | Location::Pc { .. }
        | Location::UserRegister { .. }
        | Location::Value(_)
        | Location::Reg { .. }
        | Location::CurrentTask
        | Location::Site
        | Location::DataLoc { .. }
        | Location::CtxAddress { .. } => false,
    }
}

/// The direct operands of an expression.
pub fn operands(e: &Expr) -> Vec<ExprId> {
    match e {
        Expr::Elem(_, key) | Expr::Sub { args: key, .. } => key.clone(),
        Expr::Un(_, a)
        | Expr::Ext { of: a, .. }
        | Expr::Load { addr: a, .. }
        | Expr::StrLen(a)
        | Expr::ScratchAddr(a) => vec![*a],
        Expr::Bin(_, a, b) | Expr::And(a, b) | Expr::Or(a, b) | Expr::StrCmp(_, a, b) | Expr::StrJoin { a, b, .. } => {
            vec![*a, *b]
        }
        Expr::Cond(a, b, c) => vec![*a, *b, *c],
        Expr::ReadStr { addr, max, .. } => std::iter::once(*addr).chain(*max).collect(),
        Expr::ReadBytes { addr, .. } => vec![*addr],
        Expr::Part { of: a, .. } | Expr::UserAddr(a) => vec![*a],
        Expr::AddrOf(place) => place_key(place).to_vec(),
        Expr::Bounded { index, .. } => vec![*index],
        Expr::CharAt { of, index } => vec![*of, *index],
        _ => Vec::new(),
    }
}

/// The key of a place that is an element.
pub fn place_key(place: &Place) -> &[ExprId] {
    match place {
        Place::Var(_) => &[],
        Place::Elem(_, key) => key,
    }
}

/// The key of an element that is stored to.
fn dest_key(to: &Dest) -> &[ExprId] {
    match to {
        Dest::Place(place) => place_key(place),
        Dest::Scratch | Dest::Global => &[],
    }
}

/// Whether evaluating this can fault.
pub fn may_fault(exprs: &[Expr], id: ExprId) -> bool {
    let e = &exprs[id.0 as usize];
    let own = match e {
        Expr::Load { .. } | Expr::ReadStr { .. } | Expr::ReadBytes { .. } | Expr::CharAt { .. } => true,
        Expr::Bounded { .. } => true,
        Expr::Loc(loc) => loc_may_fault(loc),
        Expr::Sub { sub, .. } => sub.may_be_none() || sub.may_be_illegal() || *sub == Sub::Path,
        Expr::Stack(_) => true,
        Expr::Builtin(b) => matches!(b, Builtin::Caller | Builtin::Ucaller),
        Expr::Bin(BinOp::DivS | BinOp::DivU | BinOp::RemS | BinOp::RemU, _, b) => {
            !matches!(exprs[b.0 as usize], Expr::Const(c) if c != 0)
        }
        _ => false,
    };
    own || operands(e).iter().any(|&o| may_fault(exprs, o))
}

/// Whether the code reads memory of user space.
pub fn reads_user_memory(code: &ClauseCode) -> bool {
    fn in_loc(loc: &Location) -> bool {
        match loc {
            Location::Memory { base, space, .. } => *space == Space::User || in_loc(base),
            Location::Btf { base, .. } | Location::Narrow { of: base, .. } | Location::Address { base, .. } => {
                in_loc(base)
            }
            Location::Sum { base, plus, .. } => in_loc(base) || in_loc(plus),
            _ => false,
        }
    }
    fn in_stmt(stmt: &Stmt) -> bool {
        match stmt {
            Stmt::CopyIn { space, .. } | Stmt::Copy { space, .. } => *space == Space::User,
            Stmt::If { then, otherwise, .. } => then.iter().chain(otherwise).any(in_stmt),
            _ => false,
        }
    }
    let in_expr = |e: &Expr| match e {
        Expr::Loc(loc) => in_loc(loc),
        Expr::Load { space, .. } | Expr::ReadStr { space, .. } | Expr::ReadBytes { space, .. } => *space == Space::User,
        _ => false,
    };
    code.exprs.iter().any(in_expr) || code.body.iter().any(in_stmt)
}

/// The values that an extension can give.
fn type_range(size: u8, signed: bool) -> (i64, i64) {
    match (size, signed) {
        (1 | 2 | 4, true) => (-(1 << (8 * size - 1)), (1 << (8 * size - 1)) - 1),
        (1 | 2 | 4, false) => (0, (1 << (8 * size)) - 1),
        _ => (i64::MIN, i64::MAX),
    }
}

fn loc_range(loc: &Location) -> (i64, i64) {
    match loc {
        Location::Value(v) => (*v, *v),
        Location::Ctx { size, signed, .. }
        | Location::Memory { size, signed, .. }
        | Location::Btf { size, signed, .. }
        | Location::Narrow { size, signed, .. } => type_range(*size, *signed),
        _ => (i64::MIN, i64::MAX),
    }
}

/// The least and the greatest value, signed.
pub fn range(exprs: &[Expr], id: ExprId) -> (i64, i64) {
    const ALL: (i64, i64) = (i64::MIN, i64::MAX);
    let of = |id| range(exprs, id);
    match &exprs[id.0 as usize] {
        Expr::Const(c) => (*c, *c),
        Expr::Loc(loc) => loc_range(loc),
        Expr::Builtin(b) => match b {
            // PID_MAX_LIMIT.
            Builtin::Pid | Builtin::Tid => (0, 4 << 20),
            Builtin::Uid | Builtin::Gid | Builtin::ProbeId | Builtin::Epid => (0, u32::MAX.into()),
            Builtin::Cpu => (0, u16::MAX.into()),
            Builtin::Timestamp | Builtin::WallTimestamp => (0, i64::MAX),
            _ => ALL,
        },
        Expr::ProbeIndex => (0, u16::MAX.into()),
        Expr::StrLen(_) => (0, i32::MAX.into()),
        Expr::Sub { sub: Sub::Swap2, .. } => (0, u16::MAX.into()),
        Expr::Sub { sub: Sub::Swap4 | Sub::Random, .. } => (0, u32::MAX.into()),
        Expr::Sub { sub: Sub::Progeny, .. } => (0, 1),
        Expr::Sub { sub: Sub::Index | Sub::Rindex, .. } => (-1, i32::MAX.into()),
        Expr::StrCmp(..) | Expr::And(..) | Expr::Or(..) | Expr::Un(UnOp::LogNot, _) => (0, 1),
        Expr::Load { size, signed, .. } => type_range(*size, *signed),
        Expr::Ext { size, signed, .. } => type_range(*size, *signed),
        Expr::Bounded { len, .. } => (0, i64::from(len.saturating_sub(1))),
        Expr::CharAt { .. } => type_range(1, true),
        Expr::Cond(_, a, b) => {
            let ((al, ah), (bl, bh)) = (of(*a), of(*b));
            (al.min(bl), ah.max(bh))
        }
        Expr::Bin(op, a, b) => {
            let ((al, ah), (bl, bh)) = (of(*a), of(*b));
            let wide = |lo: i128, hi: i128| match (i64::try_from(lo), i64::try_from(hi)) {
                (Ok(lo), Ok(hi)) => (lo, hi),
                _ => ALL,
            };
            let (al1, ah1, bl1, bh1) = (i128::from(al), i128::from(ah), i128::from(bl), i128::from(bh));
            match op {
                BinOp::Eq | BinOp::Ne | BinOp::LtS | BinOp::LtU | BinOp::LeS | BinOp::LeU => (0, 1),
                BinOp::Add => wide(al1 + bl1, ah1 + bh1),
                BinOp::Sub => wide(al1 - bh1, ah1 - bl1),
                BinOp::Mul if al >= 0 && bl >= 0 => wide(al1 * bl1, ah1 * bh1),
                BinOp::Shl if al >= 0 && bl == bh && (0..64).contains(&bl) => wide(al1 << bl, ah1 << bl),
                BinOp::And if bl >= 0 => (0, bh),
                BinOp::And if al >= 0 => (0, ah),
                BinOp::RemU if bl > 0 => (0, bh - 1),
                BinOp::DivU if al >= 0 && bl > 0 => (0, ah / bl),
                BinOp::ShrU if bl == bh => match (bl & 63, al >= 0) {
                    (0, _) => (al, ah),
                    (n, true) => (al >> n, ah >> n),
                    (n, false) => (0, (u64::MAX >> n) as i64),
                },
                _ => ALL,
            }
        }
        _ => ALL,
    }
}

struct Folder<'a> {
    unit: &'a Unit,
    clause: &'a ClauseCode,
    old: &'a [Expr],
    new: Vec<Expr>,
    /// Temporaries that only ever hold this constant.
    consts: HashMap<TempId, i64>,
}

fn fold_clause(unit: &Unit, clause: &ClauseCode) -> ClauseCode {
    let mut folder = Folder { unit, clause, old: &clause.exprs, new: Vec::new(), consts: HashMap::new() };
    let mut sets = HashMap::new();
    count_sets(&clause.body, &mut sets);
    folder.find_consts(&clause.body, &sets);
    let predicate = clause.predicate.map(|p| folder.expr(p));
    let mut body = folder.body(&clause.body);
    // A predicate that cannot hold leaves nothing; one that always holds is none.
    let truth = predicate.and_then(|p| folder.truth(p));
    let predicate = if truth == Some(true) { None } else { predicate };
    if truth == Some(false) {
        body.clear();
    }
    loop {
        let mut read = HashSet::new();
        predicate.iter().for_each(|&p| reads(&folder.new, p, &mut read));
        body_reads(&folder.new, &body, &mut read);
        if !drop_unread(&folder.new, &mut body, &read) {
            break;
        }
    }
    ClauseCode {
        clause: clause.clause,
        probes: clause.probes.clone(),
        exprs: folder.new,
        temps: clause.temps.clone(),
        predicate,
        body,
    }
}

fn count_sets(body: &[Stmt], sets: &mut HashMap<TempId, u32>) {
    for stmt in body {
        match stmt {
            Stmt::SetTemp(t, _)
            | Stmt::CopyIn { dst: t, .. }
            | Stmt::Alloc { dst: t, .. }
            | Stmt::Act { dst: Some(t), .. } => *sets.entry(*t).or_default() += 1,
            Stmt::AddVar { old: Some(t), .. } | Stmt::AddElem { old: Some(t), .. } => *sets.entry(*t).or_default() += 1,
            Stmt::If { then, otherwise, .. } => {
                count_sets(then, sets);
                count_sets(otherwise, sets);
            }
            _ => {}
        }
    }
}

/// The expressions that a statement itself evaluates.
pub fn stmt_exprs(stmt: &Stmt) -> Vec<ExprId> {
    match stmt {
        Stmt::SetTemp(_, e) | Stmt::SetVar(_, e) => vec![*e],
        Stmt::AddVar { by, .. } => vec![*by],
        Stmt::SetElem(_, key, e) => key.iter().copied().chain([*e]).collect(),
        Stmt::AddElem { key, by, .. } => key.iter().copied().chain([*by]).collect(),
        Stmt::CopyIn { addr, len, .. } => vec![*addr, *len],
        Stmt::Alloc { len, .. } => vec![*len],
        Stmt::Copy { to, from, len, .. } | Stmt::CopyOut { to, from, len, .. } => vec![*from, *to, *len],
        Stmt::Store { to, offset, value, .. } => dest_key(to).iter().copied().chain([*offset, *value]).collect(),
        Stmt::Aggregate { key, args, .. } => key.iter().chain(args).copied().collect(),
        Stmt::Emit { values, .. } => values.clone(),
        Stmt::Act { args, .. } => args.clone(),
        Stmt::If { cond, .. } => vec![*cond],
        Stmt::Stop | Stmt::Mark { .. } => Vec::new(),
    }
}

fn reads(exprs: &[Expr], id: ExprId, out: &mut HashSet<TempId>) {
    let e = &exprs[id.0 as usize];
    if let Expr::Temp(t) = e {
        out.insert(*t);
    }
    operands(e).into_iter().for_each(|o| reads(exprs, o, out));
}

fn body_reads(exprs: &[Expr], body: &[Stmt], out: &mut HashSet<TempId>) {
    for stmt in body {
        stmt_exprs(stmt).into_iter().for_each(|e| reads(exprs, e, out));
        if let Stmt::If { then, otherwise, .. } = stmt {
            body_reads(exprs, then, out);
            body_reads(exprs, otherwise, out);
        }
    }
}

/// Removes statements without effect; whether there were any.
fn drop_unread(exprs: &[Expr], body: &mut Vec<Stmt>, read: &HashSet<TempId>) -> bool {
    let before = body.len();
    let mut changed = false;
    body.retain_mut(|stmt| match stmt {
        Stmt::SetTemp(t, e) => read.contains(t) || may_fault(exprs, *e),
        Stmt::AddVar { old, .. } | Stmt::AddElem { old, .. } => {
            if old.is_some_and(|t| !read.contains(&t)) {
                *old = None;
                changed = true;
            }
            true
        }
        Stmt::If { cond, then, otherwise } => {
            changed |= drop_unread(exprs, then, read) | drop_unread(exprs, otherwise, read);
            let idle = |body: &[Stmt]| body.iter().all(|s| matches!(s, Stmt::Mark { .. }));
            !(idle(then) && idle(otherwise)) || may_fault(exprs, *cond)
        }
        _ => true,
    });
    changed || body.len() != before
}

impl Folder<'_> {
    fn find_consts(&mut self, body: &[Stmt], sets: &HashMap<TempId, u32>) {
        for stmt in body {
            match stmt {
                Stmt::SetTemp(t, e) if sets.get(t) == Some(&1) => {
                    if let Expr::Const(c) = self.old[e.0 as usize] {
                        self.consts.insert(*t, c);
                    }
                }
                Stmt::If { then, otherwise, .. } => {
                    self.find_consts(then, sets);
                    self.find_consts(otherwise, sets);
                }
                _ => {}
            }
        }
    }

    fn body(&mut self, body: &[Stmt]) -> Vec<Stmt> {
        let mut out = Vec::new();
        for stmt in body {
            let stmt = match stmt {
                Stmt::SetTemp(t, e) => Stmt::SetTemp(*t, self.expr(*e)),
                Stmt::SetVar(v, e) => Stmt::SetVar(*v, self.expr(*e)),
                Stmt::AddVar { var, by, old } => Stmt::AddVar { var: *var, by: self.expr(*by), old: *old },
                Stmt::SetElem(a, key, e) => Stmt::SetElem(*a, self.list(key), self.expr(*e)),
                Stmt::AddElem { array, key, by, old } => {
                    Stmt::AddElem { array: *array, key: self.list(key), by: self.expr(*by), old: *old }
                }
                Stmt::Alloc { dst, len } => Stmt::Alloc { dst: *dst, len: self.expr(*len) },
                Stmt::CopyIn { dst, addr, len, space } => {
                    Stmt::CopyIn { dst: *dst, addr: self.expr(*addr), len: self.expr(*len), space: *space }
                }
                Stmt::Copy { to, from, space, len } => {
                    Stmt::Copy { to: self.expr(*to), from: self.expr(*from), space: *space, len: self.expr(*len) }
                }
                Stmt::CopyOut { to, from, space, len, text } => Stmt::CopyOut {
                    to: self.expr(*to),
                    from: self.expr(*from),
                    space: *space,
                    len: self.expr(*len),
                    text: *text,
                },
                Stmt::Store { to, offset, value, size } => {
                    let to = match to {
                        Dest::Place(place) => Dest::Place(self.place(place)),
                        other => other.clone(),
                    };
                    Stmt::Store { to, offset: self.expr(*offset), value: self.expr(*value), size: *size }
                }
                Stmt::Aggregate { agg, key, args } => {
                    Stmt::Aggregate { agg: *agg, key: self.list(key), args: self.list(args) }
                }
                Stmt::Emit { record, values } => Stmt::Emit { record: *record, values: self.list(values) },
                Stmt::Act { act, dst, args } => Stmt::Act { act: *act, dst: *dst, args: self.list(args) },
                Stmt::Stop => Stmt::Stop,
                Stmt::Mark { line, action } => Stmt::Mark { line: *line, action: *action },
                Stmt::If { cond, then, otherwise } => {
                    let cond = self.expr(*cond);
                    match self.truth(cond) {
                        Some(known) => {
                            let taken = self.body(if known { then } else { otherwise });
                            if !taken.iter().any(|s| matches!(s, Stmt::Mark { .. })) {
                                out.extend(taken);
                                continue;
                            }
                            // A mark in a branch must not go beyond it.
                            Stmt::If { cond: self.int(1), then: taken, otherwise: Vec::new() }
                        }
                        None => Stmt::If { cond, then: self.body(then), otherwise: self.body(otherwise) },
                    }
                }
            };
            out.push(stmt);
        }
        out
    }

    /// The probes that the clause runs for.
    fn probes(&self) -> impl Iterator<Item = u32> {
        present(self.unit).filter(|&i| applies(self.unit, self.clause, i))
    }

    fn only_probe(&self) -> Option<u32> {
        let mut all = self.probes();
        let first = all.next();
        first.filter(|_| all.next().is_none())
    }

    fn list(&mut self, ids: &[ExprId]) -> Vec<ExprId> {
        ids.iter().map(|&id| self.expr(id)).collect()
    }

    fn place(&mut self, place: &Place) -> Place {
        match place {
            Place::Var(v) => Place::Var(*v),
            Place::Elem(a, key) => Place::Elem(*a, self.list(key)),
        }
    }

    fn add(&mut self, e: Expr) -> ExprId {
        self.new.push(e);
        ExprId(self.new.len() as u32 - 1)
    }

    fn int(&mut self, c: i64) -> ExprId {
        self.add(Expr::Const(c))
    }

    fn value(&self, id: ExprId) -> Option<i64> {
        match self.new[id.0 as usize] {
            Expr::Const(c) => Some(c),
            _ => None,
        }
    }

    /// Whether a condition is known to hold or not; unknown for what can fault.
    fn truth(&self, id: ExprId) -> Option<bool> {
        self.value(id).map(|c| c != 0)
    }

    fn string(&self, id: ExprId) -> Option<&[u8]> {
        match &self.new[id.0 as usize] {
            Expr::Str(bytes) => Some(text(bytes)),
            _ => None,
        }
    }

    fn faults(&self, id: ExprId) -> bool {
        may_fault(&self.new, id)
    }

    fn fits(&self, id: ExprId, size: u8, signed: bool) -> bool {
        let ((lo, hi), (least, most)) = (range(&self.new, id), type_range(size, signed));
        least <= lo && hi <= most
    }

    /// `id` as 0 or 1.
    fn truth_of(&mut self, id: ExprId) -> ExprId {
        if range(&self.new, id).0 >= 0 && range(&self.new, id).1 <= 1 {
            return id;
        }
        let zero = self.int(0);
        self.bin(BinOp::Ne, id, zero)
    }

    fn expr(&mut self, id: ExprId) -> ExprId {
        let e = match &self.old[id.0 as usize] {
            Expr::Temp(t) => match self.consts.get(t) {
                Some(&c) => Expr::Const(c),
                None => Expr::Temp(*t),
            },
            Expr::Loc(Location::Value(c)) => Expr::Const(*c),
            Expr::ProbeText(part) => {
                let mut texts = self.probes().map(|i| part_of(self.unit, i, *part));
                let first = texts.next().unwrap_or(b"");
                if texts.all(|t| t == first) { Expr::Str(first.to_vec()) } else { Expr::ProbeText(*part) }
            }
            Expr::ProbeIndex => match self.only_probe() {
                Some(i) => Expr::Const(i.into()),
                None => Expr::ProbeIndex,
            },
            Expr::Builtin(Builtin::ProbeId) => {
                match self.only_probe().and_then(|i| self.unit.probes[i as usize].as_ref()) {
                    Some(probe) => Expr::Const(probe.id.into()),
                    None => Expr::Builtin(Builtin::ProbeId),
                }
            }
            Expr::Elem(array, key) => Expr::Elem(*array, self.list(key)),
            Expr::Un(op, a) => {
                let a = self.expr(*a);
                return self.un(*op, a);
            }
            Expr::Bin(op, a, b) => {
                let (a, b) = (self.expr(*a), self.expr(*b));
                return self.bin(*op, a, b);
            }
            Expr::Ext { of, size, signed } => {
                let of = self.expr(*of);
                return self.ext(of, *size, *signed);
            }
            Expr::And(a, b) => {
                let (a, b) = (self.expr(*a), self.expr(*b));
                match (self.truth(a), self.truth(b)) {
                    (Some(false), _) => return self.int(0),
                    (Some(true), _) => return self.truth_of(b),
                    (_, Some(true)) => return self.truth_of(a),
                    (_, Some(false)) if !self.faults(a) => return self.int(0),
                    _ => Expr::And(a, b),
                }
            }
            Expr::Or(a, b) => {
                let (a, b) = (self.expr(*a), self.expr(*b));
                match (self.truth(a), self.truth(b)) {
                    (Some(true), _) => return self.int(1),
                    (Some(false), _) => return self.truth_of(b),
                    (_, Some(false)) => return self.truth_of(a),
                    (_, Some(true)) if !self.faults(a) => return self.int(1),
                    _ => Expr::Or(a, b),
                }
            }
            Expr::Cond(c, a, b) => {
                let c = self.expr(*c);
                match self.truth(c) {
                    Some(true) => return self.expr(*a),
                    Some(false) => return self.expr(*b),
                    None => Expr::Cond(c, self.expr(*a), self.expr(*b)),
                }
            }
            Expr::Load { addr, size, signed, space } => {
                Expr::Load { addr: self.expr(*addr), size: *size, signed: *signed, space: *space }
            }
            Expr::StrCmp(op, a, b) => {
                let (a, b) = (self.expr(*a), self.expr(*b));
                match (self.string(a), self.string(b)) {
                    (Some(x), Some(y)) => Expr::Const(i64::from(compare(*op, x, y))),
                    // The constant goes to the right.
                    (Some(_), None) => {
                        let op = match op {
                            StrOp::Eq | StrOp::Ne => *op,
                            StrOp::Lt => StrOp::Gt,
                            StrOp::Le => StrOp::Ge,
                            StrOp::Gt => StrOp::Lt,
                            StrOp::Ge => StrOp::Le,
                        };
                        Expr::StrCmp(op, b, a)
                    }
                    _ => Expr::StrCmp(*op, a, b),
                }
            }
            Expr::StrLen(a) => {
                let a = self.expr(*a);
                match self.string(a) {
                    Some(s) => Expr::Const(s.len() as i64),
                    None => Expr::StrLen(a),
                }
            }
            Expr::ScratchAddr(a) => Expr::ScratchAddr(self.expr(*a)),
            Expr::StrJoin { a, b, cap } => {
                let (a, b, room) = (self.expr(*a), self.expr(*b), cap.saturating_sub(1) as usize);
                match (self.string(a), self.string(b)) {
                    (Some(x), Some(y)) => Expr::Str(x.iter().chain(y).take(room).copied().collect()),
                    _ => Expr::StrJoin { a, b, cap: *cap },
                }
            }
            Expr::Sub { sub, args, cap } => {
                let args = self.list(args);
                self.subroutine(*sub, args, *cap)
            }
            Expr::ReadStr { addr, space, cap, max } => {
                let addr = self.expr(*addr);
                Expr::ReadStr { addr, space: *space, cap: *cap, max: max.map(|m| self.expr(m)) }
            }
            Expr::ReadBytes { addr, space, len } => {
                Expr::ReadBytes { addr: self.expr(*addr), space: *space, len: *len }
            }
            Expr::Part { of, offset, size, signed } => {
                Expr::Part { of: self.expr(*of), offset: *offset, size: *size, signed: *signed }
            }
            Expr::UserAddr(a) => Expr::UserAddr(self.expr(*a)),
            Expr::AddrOf(place) => Expr::AddrOf(self.place(place)),
            Expr::Bounded { index, len } => {
                let index = self.expr(*index);
                let (lo, hi) = range(&self.new, index);
                if lo >= 0 && hi < i64::from(*len) {
                    return index;
                }
                Expr::Bounded { index, len: *len }
            }
            Expr::CharAt { of, index } => {
                let (of, index) = (self.expr(*of), self.expr(*index));
                match (self.string(of), self.value(index).and_then(|i| usize::try_from(i).ok())) {
                    (Some(s), Some(i)) if i <= s.len() => {
                        let byte = s.get(i).copied().unwrap_or(0);
                        Expr::Const(i64::from(byte as i8))
                    }
                    _ => Expr::CharAt { of, index },
                }
            }
            other => other.clone(),
        };
        self.add(e)
    }

    /// A subroutine of constants is a constant, unless it faults.
    fn subroutine(&mut self, sub: Sub, args: Vec<ExprId>, cap: u32) -> Expr {
        use crate::routine::meaning::{Outcome, Value, call};
        let values: Option<Vec<Value<'_>>> = args
            .iter()
            .map(|&id| {
                self.value(id).map(Value::Int).or_else(|| self.string(id).map(|s| Value::Bytes(s.to_vec().into())))
            })
            .collect();
        match values.filter(|_| sub != Sub::Random).and_then(|values| call(sub, &values)) {
            Some(Outcome::Int(n)) => Expr::Const(n),
            Some(Outcome::Text(mut text)) => {
                text.truncate(cap.saturating_sub(1) as usize);
                Expr::Str(text)
            }
            _ => Expr::Sub { sub, args, cap },
        }
    }

    fn un(&mut self, op: UnOp, a: ExprId) -> ExprId {
        if let Some(c) = self.value(a) {
            return self.int(match op {
                UnOp::Neg => c.wrapping_neg(),
                UnOp::Not => !c,
                UnOp::LogNot => i64::from(c == 0),
            });
        }
        if op == UnOp::LogNot {
            let opposite = match self.new[a.0 as usize] {
                Expr::Bin(BinOp::Eq, x, y) => Some(Expr::Bin(BinOp::Ne, x, y)),
                Expr::Bin(BinOp::Ne, x, y) => Some(Expr::Bin(BinOp::Eq, x, y)),
                Expr::Bin(BinOp::LtS, x, y) => Some(Expr::Bin(BinOp::LeS, y, x)),
                Expr::Bin(BinOp::LtU, x, y) => Some(Expr::Bin(BinOp::LeU, y, x)),
                Expr::Bin(BinOp::LeS, x, y) => Some(Expr::Bin(BinOp::LtS, y, x)),
                Expr::Bin(BinOp::LeU, x, y) => Some(Expr::Bin(BinOp::LtU, y, x)),
                _ => None,
            };
            // The order of evaluation is that of the operands, so only those that cannot fault may change places.
            if let Some(Expr::Bin(op, x, y)) = opposite {
                let kept = matches!(op, BinOp::Eq | BinOp::Ne);
                if kept || !(self.faults(x) && self.faults(y)) {
                    return self.add(Expr::Bin(op, x, y));
                }
            }
        }
        self.add(Expr::Un(op, a))
    }

    fn ext(&mut self, of: ExprId, size: u8, signed: bool) -> ExprId {
        if let Some(c) = self.value(of) {
            return self.int(extend(c, size, signed));
        }
        if self.fits(of, size, signed) {
            return of;
        }
        if let Expr::Ext { of: inner, size: s, .. } = self.new[of.0 as usize]
            && size <= s
        {
            return self.ext(inner, size, signed);
        }
        self.add(Expr::Ext { of, size, signed })
    }

    fn bin(&mut self, op: BinOp, a: ExprId, b: ExprId) -> ExprId {
        let (ca, cb) = (self.value(a), self.value(b));
        if let (Some(x), Some(y)) = (ca, cb)
            && let Some(c) = eval(op, x, y)
        {
            return self.int(c);
        }
        let commutes =
            matches!(op, BinOp::Add | BinOp::Mul | BinOp::And | BinOp::Or | BinOp::Xor | BinOp::Eq | BinOp::Ne);
        let (a, b, cb) = if ca.is_some() && commutes { (b, a, ca) } else { (a, b, cb) };
        let nonnegative = |f: &Self, id| range(&f.new, id).0 >= 0;
        match (op, cb) {
            (BinOp::Add | BinOp::Sub | BinOp::Or | BinOp::Xor | BinOp::Shl | BinOp::ShrS | BinOp::ShrU, Some(0))
            | (BinOp::Mul | BinOp::DivU | BinOp::DivS, Some(1))
            | (BinOp::And, Some(-1)) => return a,
            (BinOp::Mul | BinOp::And, Some(0)) if !self.faults(a) => return b,
            (BinOp::Sub, Some(c)) if c != i64::MIN => {
                let c = self.int(-c);
                return self.bin(BinOp::Add, a, c);
            }
            (BinOp::Add, Some(c)) => {
                if let Expr::Bin(BinOp::Add, x, y) = self.new[a.0 as usize]
                    && let Some(d) = self.value(y)
                {
                    let sum = self.int(c.wrapping_add(d));
                    return self.bin(BinOp::Add, x, sum);
                }
            }
            (BinOp::Mul, Some(c)) if c > 0 && c & (c - 1) == 0 => {
                let n = self.int(c.trailing_zeros().into());
                return self.add(Expr::Bin(BinOp::Shl, a, n));
            }
            (BinOp::DivU, Some(c)) if c > 0 && c & (c - 1) == 0 => {
                let n = self.int(c.trailing_zeros().into());
                return self.add(Expr::Bin(BinOp::ShrU, a, n));
            }
            (BinOp::RemU, Some(c)) if c > 0 && c & (c - 1) == 0 => {
                let mask = self.int(c - 1);
                return self.bin(BinOp::And, a, mask);
            }
            (BinOp::ShrS, Some(_)) if nonnegative(self, a) => return self.bin(BinOp::ShrU, a, b),
            (BinOp::Ne, Some(0)) if range(&self.new, a).0 >= 0 && range(&self.new, a).1 <= 1 => return a,
            (BinOp::Eq, Some(0)) if matches!(self.new[a.0 as usize], Expr::Bin(..)) => {
                let (lo, hi) = range(&self.new, a);
                if lo >= 0 && hi <= 1 {
                    return self.un(UnOp::LogNot, a);
                }
            }
            (BinOp::Eq | BinOp::Ne, Some(c)) => {
                let (lo, hi) = range(&self.new, a);
                if (c < lo || c > hi) && !self.faults(a) {
                    return self.int(i64::from(op == BinOp::Ne));
                }
            }
            _ => {}
        }
        if matches!(op, BinOp::DivS | BinOp::RemS) && nonnegative(self, a) && nonnegative(self, b) {
            return self.bin(if op == BinOp::DivS { BinOp::DivU } else { BinOp::RemU }, a, b);
        }
        self.add(Expr::Bin(op, a, b))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use probity_ir::{ClauseId, Ctx, Phase, ProgKind, Selector, Val};

    fn clause(exprs: Vec<Expr>, body: Vec<Stmt>) -> ClauseCode {
        let (predicate, temps) = (None, vec![Val::Int; 4]);
        ClauseCode { clause: ClauseId(0), probes: vec![], exprs, temps, predicate, body }
    }

    fn fold_alone(clause: &ClauseCode) -> ClauseCode {
        let prog = ProgKind { prog_type: 17, attach_type: 0, btf_id: 0, sleepable: false, ctx: Ctx::Args };
        let unit = Unit {
            name: "t".into(),
            prog,
            selector: Selector::One,
            probes: vec![],
            phase: Phase::Run,
            clauses: vec![],
        };
        fold_clause(&unit, clause)
    }

    fn one(exprs: Vec<Expr>) -> Expr {
        let last = ExprId(exprs.len() as u32 - 1);
        let out = fold_alone(&clause(exprs, vec![Stmt::SetVar(probity_ir::VarId(0), last)]));
        let Stmt::SetVar(_, e) = out.body[0] else { panic!("statement dropped") };
        out.exprs[e.0 as usize].clone()
    }

    #[test]
    fn constants_fold_with_wrapping() {
        let e = one(vec![Expr::Const(i64::MIN), Expr::Const(-1), Expr::Bin(BinOp::DivS, ExprId(0), ExprId(1))]);
        assert_eq!(e, Expr::Const(i64::MIN));
        let e = one(vec![Expr::Const(300), Expr::Ext { of: ExprId(0), size: 1, signed: true }]);
        assert_eq!(e, Expr::Const(44));
    }

    #[test]
    fn division_by_constant_zero_stays() {
        let e = one(vec![Expr::Const(1), Expr::Const(0), Expr::Bin(BinOp::DivU, ExprId(0), ExprId(1))]);
        assert!(matches!(e, Expr::Bin(BinOp::DivU, ..)));
    }

    #[test]
    fn extensions_that_change_nothing_go() {
        let e = one(vec![Expr::Builtin(Builtin::Pid), Expr::Ext { of: ExprId(0), size: 4, signed: true }]);
        assert_eq!(e, Expr::Builtin(Builtin::Pid));
        let e = one(vec![Expr::Builtin(Builtin::Uid), Expr::Ext { of: ExprId(0), size: 4, signed: true }]);
        assert!(matches!(e, Expr::Ext { .. }));
    }

    #[test]
    fn what_can_fault_is_kept() {
        let load = Expr::Load { addr: ExprId(0), size: 4, signed: true, space: probity_ir::Space::User };
        let exprs = vec![Expr::Const(4096), load, Expr::Const(0), Expr::Bin(BinOp::Mul, ExprId(1), ExprId(2))];
        assert!(matches!(one(exprs.clone()), Expr::Bin(BinOp::Mul, ..)));
        let out = fold_alone(&clause(exprs, vec![Stmt::SetTemp(TempId(0), ExprId(1))]));
        assert_eq!(out.body.len(), 1);
    }

    #[test]
    fn unread_temporaries_go_and_constant_ones_are_propagated() {
        let exprs = vec![Expr::Const(5), Expr::Temp(TempId(0)), Expr::Bin(BinOp::Add, ExprId(1), ExprId(0))];
        let body = vec![
            Stmt::SetTemp(TempId(0), ExprId(0)),
            Stmt::SetTemp(TempId(1), ExprId(2)),
            Stmt::SetVar(probity_ir::VarId(0), ExprId(2)),
        ];
        let out = fold_alone(&clause(exprs, body));
        let [Stmt::SetVar(_, e)] = out.body[..] else { panic!("{:?}", out.body) };
        assert_eq!(out.exprs[e.0 as usize], Expr::Const(10));
    }

    #[test]
    fn string_constants_compare() {
        assert!(compare(StrOp::Lt, b"abc\0zzz", b"abd"));
        assert!(compare(StrOp::Eq, b"abc\0zzz", b"abc"));
        assert!(compare(StrOp::Gt, b"\xff", b"a"));
    }
}
