//! Expressions: what each form of the syntax tree means.

use super::conv::Class;
use super::foreign::{Kind, foreign, or_help};
use super::tree::*;
use super::xlate::Place;
use super::{Checker, Entity, Res};
use probity_ir::{ArrayId, Location, Scope, Space, TypeId, VarId};
use probity_syntax::ast::{self, Expr, ExprKind, UnaryOp};
use probity_syntax::{Diagnostic, Span, near, tags};

/// Most bytes of a global variable.
const GLOBAL_BYTES: u64 = 16 << 20;
/// Most bytes of another variable, or of an element: the kernel keeps less than 64 KiB for a thread.
const OTHER_BYTES: u64 = 32 << 10;

impl<'a> Checker<'a> {
    /// Checks an expression that is to have a value.
    pub(super) fn expr(&mut self, e: &Expr) -> Res<TExpr> {
        let span = e.span;
        match &e.kind {
            ExprKind::Int(lit) => Ok(self.literal(lit, span)),
            ExprKind::Char(c) => {
                let ty = if c.bytes > 4 { self.basic.long } else { self.basic.int };
                let value = match c.bytes {
                    1 => c.value as i8 as i64,
                    2..=4 => c.value as i32 as i64,
                    _ => c.value as i64,
                };
                Ok(TExpr::int(value, ty, span))
            }
            ExprKind::Float(lit) => Ok(self.float_literal(lit, span)),
            ExprKind::String(bytes) => Ok(TExpr { kind: TKind::Str(bytes.clone()), ty: self.basic.string, span }),
            ExprKind::Ident(name) => self.ident(name, span),
            ExprKind::SelfVar(name) => {
                let e = self.variable(Scope::Thread, &name.text, span)?;
                Ok(self.as_translated(e))
            }
            ExprKind::ThisVar(name) => {
                let e = self.variable(Scope::Clause, &name.text, span)?;
                Ok(self.as_translated(e))
            }
            ExprKind::Symbol(symbol) => self.symbol(symbol, span),
            ExprKind::Aggregation(agg) => {
                let message = format!("aggregation @{} has no value that a program can use", agg.name);
                let d = Diagnostic::error(tags::D_OP_DYN, span, message);
                self.report(d.help("print it with printa(), or assign it the result of an aggregating function"))
            }
            ExprKind::Macro(m) => self.err(tags::D_MACRO_UNDEF, span, format!("macro ${} has no value", m.name)),
            ExprKind::Call { name, args } => self.call(name, args, span),
            ExprKind::Index { base, keys } => self.index(base, keys, span),
            ExprKind::Member { base, member } => {
                let base = self.expr(base)?;
                self.access(base, false, member, span)
            }
            ExprKind::Arrow { base, member } => {
                let base = self.expr(base)?;
                self.access(base, true, member, span)
            }
            ExprKind::Unary { op, operand } => match op {
                UnaryOp::Deref => {
                    let e = self.expr(operand)?;
                    self.deref(e, span)
                }
                UnaryOp::AddrOf => {
                    if matches!(operand.kind, ExprKind::Aggregation(_)) {
                        return self.err(tags::D_ADDROF_VAR, span, "an aggregation has no address");
                    }
                    let e = self.expr(operand)?;
                    self.address_of(e, span)
                }
                UnaryOp::PreInc | UnaryOp::PreDec | UnaryOp::PostInc | UnaryOp::PostDec => {
                    let long = self.named_int("int64_t");
                    let target = self.target(operand, Some(long), op.text())?;
                    self.step(*op, target, span)
                }
                _ => {
                    let e = self.expr(operand)?;
                    self.unary(*op, e, span)
                }
            },
            ExprKind::Binary { op, op_span, left, right } => {
                for e in [left, right] {
                    if let ExprKind::Aggregation(agg) = &e.kind {
                        let message = format!("operator `{}` cannot take the aggregation @{}", op.text(), agg.name);
                        let d = Diagnostic::error(tags::D_OP_INCOMPAT, e.span, message);
                        return self.report(d.help("an aggregation's value can only be printed, with printa()"));
                    }
                }
                let a = self.expr(left);
                let b = self.expr(right);
                self.binary(*op, *op_span, a?, b?, span)
            }
            ExprKind::Assign { op, op_span, target, value } => self.assign(*op, *op_span, target, value, span),
            ExprKind::Ternary { cond, then, otherwise } => {
                let (c, a, b) = (self.expr(cond), self.expr(then), self.expr(otherwise));
                self.ternary(c?, a?, b?, span)
            }
            ExprKind::Comma { left, right } => {
                let (a, b) = (self.expr(left)?, self.expr(right)?);
                for e in [&a, &b] {
                    if self.class(e.ty) == Class::Void {
                        let d = Diagnostic::error(tags::D_OP_ACT, e.span, "operator `,` cannot take an action");
                        return self.report(d.help("write two statements: `a; b;`"));
                    }
                }
                let b = if matches!(b.kind, TKind::Object(_, _, Some(_))) { self.promote(b) } else { b };
                let ty = b.ty;
                Ok(TExpr { kind: TKind::Comma(Box::new(a), Box::new(b)), ty, span })
            }
            ExprKind::Cast { ty, operand } => {
                let to = self.type_name(ty)?;
                let userland = ty.specs.quals.is_userland || self.of_program;
                let e = self.expr(operand)?;
                self.cast(to, userland, e, span)
            }
            ExprKind::SizeofExpr(operand) => {
                match &operand.kind {
                    // A constant is the array that holds it, as in C; other strings have room for `strsize` bytes.
                    ExprKind::String(bytes) => {
                        let ulong = self.basic.ulong;
                        return Ok(TExpr::int(bytes.len() as i64 + 1, ulong, span));
                    }
                    // In D it is the integer 0, which goes with every pointer.
                    ExprKind::Ident(name) if name == "NULL" && !self.globals.contains_key(name) => {
                        let int = self.basic.int;
                        return self.sizeof(int, span);
                    }
                    _ => {}
                }
                let e = self.expr(operand)?;
                if matches!(e.kind, TKind::Object(_, _, Some(_))) {
                    return self.err(tags::D_SIZEOF_BITFIELD, span, "a bit-field has no size in bytes");
                }
                self.sizeof(e.ty, span)
            }
            ExprKind::SizeofType(ty) => {
                let ty = self.type_name(ty)?;
                self.sizeof(ty, span)
            }
            ExprKind::Stringof(operand) => {
                let e = self.expr(operand)?;
                self.stringof(e, span)
            }
            ExprKind::Offsetof { ty, members } => {
                let ty = self.type_name(ty)?;
                self.offsetof(ty, members, span)
            }
            ExprKind::Xlate { ty, operand } => self.xlate(ty, operand, span),
            ExprKind::Error => Err(super::Reported),
        }
    }

    pub(super) fn stringof(&mut self, e: TExpr, span: Span) -> Res<TExpr> {
        let ty = e.ty;
        let array = matches!(self.class(ty), Class::Array(..));
        if let Some(s) = if self.is_stringlike(ty) { self.as_string(e.clone())? } else { None } {
            return Ok(TExpr { span, ..s });
        }
        match self.scalar(e) {
            Some(addr) if !array => {
                let space = match self.class(addr.ty) {
                    Class::Pointer(_, space) => space,
                    _ => Space::Kernel,
                };
                self.needs_process(space, span)?;
                Ok(self.read_str(addr, space, span))
            }
            _ => {
                let message = format!("`stringof` cannot make a string of a value of type `{}`", self.name(ty));
                self.err(tags::D_STRINGOF_TYPE, span, message)
            }
        }
    }

    fn ident(&mut self, name: &str, span: Span) -> Res<TExpr> {
        if let Some(e) = self.bound_name(name) {
            return Ok(TExpr { span, ..e });
        }
        match self.globals.get(name) {
            Some(Entity::Poison) => return Err(super::Reported),
            Some(_) => {
                let e = self.variable(Scope::Global, name, span)?;
                return Ok(self.as_translated(e));
            }
            None => {}
        }
        if let Some(&inline) = self.inlines.get(name) {
            return self.expand_inline(inline, None, span);
        }
        if let Some(&(value, ty)) = self.enumerators.get(name) {
            return Ok(TExpr::int(value, ty, span));
        }
        if name == "NULL" {
            let void = self.basic.void;
            let ty = self.types.pointer(void, Space::Kernel);
            return Ok(TExpr::int(0, ty, span));
        }
        if let Some((_, value)) = super::stack::REGISTER_NAMES.iter().find(|c| c.0 == name) {
            let int = self.basic.int;
            return Ok(TExpr::int(*value, int, span));
        }
        match self.builtin(name, span) {
            Some(value) => value,
            None => self.undefined(name, span),
        }
    }

    fn space_of(&mut self, scope: Scope) -> &mut std::collections::HashMap<String, Entity> {
        match scope {
            Scope::Global => &mut self.globals,
            Scope::Thread => &mut self.threads,
            Scope::Clause => &mut self.locals,
        }
    }

    /// A variable's value.
    fn variable(&mut self, scope: Scope, name: &str, span: Span) -> Res<TExpr> {
        let shown = full_name(scope, name);
        match self.space_of(scope).get(name).copied() {
            Some(Entity::Var(v)) => {
                let ty = self.vars[v as usize].ty;
                Ok(self.in_memory(TExpr { kind: TKind::Var(VarId(v)), ty, span }))
            }
            Some(Entity::Array(_)) => {
                let message = format!("`{shown}` is an associative array: it needs a key, as in `{shown}[…]`");
                self.err(tags::D_IDENT_BADREF, span, message)
            }
            Some(Entity::Poison) => Err(super::Reported),
            None => {
                let found = near(name, self.space_of(scope).keys().map(String::as_str)).map(|n| full_name(scope, n));
                let message = format!("`{shown}` is used, but nothing before it declares or assigns it");
                let d = Diagnostic::error(tags::D_VAR_UNDEF, span, message);
                self.report(match found {
                    Some(n) => d.suggest(span, n.clone(), format!("use `{n}`")),
                    None => d,
                })
            }
        }
    }

    /// A variable or element whose values are bytes is an object in memory.
    fn in_memory(&mut self, e: TExpr) -> TExpr {
        if !self.is_whole(e.ty) {
            return e;
        }
        let (ty, span) = (e.ty, e.span);
        let pointer = self.types.pointer(ty, Space::Kernel);
        let addr = TExpr { kind: TKind::AddrOf(Box::new(e)), ty: pointer, span };
        TExpr { kind: TKind::Object(Box::new(addr), Space::Kernel, None), ty, span }
    }

    /// Something that can be assigned to. A variable that is not there yet is made with the type `implicit`.
    pub(super) fn target(&mut self, e: &Expr, implicit: Option<TypeId>, op: &str) -> Res<TExpr> {
        let (scope, name) = match &e.kind {
            ExprKind::Ident(name) => (Scope::Global, name.as_str()),
            ExprKind::SelfVar(name) => (Scope::Thread, name.text.as_str()),
            ExprKind::ThisVar(name) => (Scope::Clause, name.text.as_str()),
            ExprKind::Index { base, keys } => {
                let (scope, name) = match &base.kind {
                    ExprKind::Ident(name) => (Scope::Global, name),
                    ExprKind::SelfVar(name) => (Scope::Thread, &name.text),
                    ExprKind::ThisVar(name) => (Scope::Clause, &name.text),
                    _ => return self.object_target(e, op),
                };
                if let Some(Entity::Var(v)) = self.space_of(scope).get(name).copied()
                    && matches!(
                        self.class(self.vars[v as usize].ty),
                        Class::Array(..) | Class::Pointer(..) | Class::Struct
                    )
                {
                    return self.object_target(e, op);
                }
                return self.element(scope, name, base.span, keys, e.span, implicit, op);
            }
            _ => return self.object_target(e, op),
        };
        if self.space_of(scope).contains_key(name) {
            return self.variable(scope, name, e.span);
        }
        if scope == Scope::Global {
            self.writable(name, e.span, op)?;
        }
        match implicit {
            Some(ty) => {
                let var = self.add_var(scope, name, ty, e.span)?;
                let ty = self.vars[var.0 as usize].ty;
                Ok(self.in_memory(TExpr { kind: TKind::Var(var), ty, span: e.span }))
            }
            None => {
                self.space_of(scope).insert(name.to_string(), Entity::Poison);
                Err(super::Reported)
            }
        }
    }

    /// Names that stand for something which is no variable of the program.
    fn writable(&mut self, name: &str, span: Span, op: &str) -> Res<()> {
        if self.inlines.contains_key(name) || self.enumerators.contains_key(name) {
            let message = format!("operator `{op}` needs a variable: `{name}` is a constant");
            return self.err(tags::D_OP_LVAL, span, message);
        }
        if super::names::VARIABLES.contains(&name) {
            let message = format!("operator `{op}` needs a variable of the program: `{name}` is built in");
            return self.err(tags::D_OP_WRITE, span, message);
        }
        match self.builtin(name, span) {
            Some(Err(r)) => Err(r),
            _ => Ok(()),
        }
    }

    /// An object in memory that can be written to.
    fn object_target(&mut self, e: &Expr, op: &str) -> Res<TExpr> {
        let value = match &e.kind {
            // What a pointer to `string` points to has room for a whole one.
            ExprKind::Unary { op: UnaryOp::Deref, operand } => {
                let pointer = self.expr(operand)?;
                let pointer = self.decay(pointer);
                match self.class(pointer.ty) {
                    Class::Pointer(to, space) if self.class(to) == Class::String => {
                        TExpr { kind: TKind::Object(Box::new(pointer), space, None), ty: to, span: e.span }
                    }
                    _ => self.deref(pointer, e.span)?,
                }
            }
            ExprKind::Member { .. } | ExprKind::Arrow { .. } | ExprKind::Index { .. } => match self.expr(e)? {
                // So has a member that is one.
                TExpr { kind: TKind::ReadStr { addr, space, max: None, .. }, ty, span }
                    if self.class(ty) == Class::String =>
                {
                    TExpr { kind: TKind::Object(addr, space, None), ty, span }
                }
                value => value,
            },
            // That an address has no place of its own needs no look at what it is the address of.
            ExprKind::Unary { op: UnaryOp::AddrOf, .. } => {
                let message = format!("operator `{op}` needs something that can be assigned to: an address is a value");
                return self.err(tags::D_OP_LVAL, e.span, message);
            }
            _ => self.expr(e)?,
        };
        let TKind::Object(_, space, _) = value.kind else {
            let message = format!("operator `{op}` needs something that can be assigned to: a variable or an element");
            return self.err(tags::D_OP_LVAL, e.span, message);
        };
        if space == Space::User {
            let d = Diagnostic::error(tags::D_OP_WRITE, e.span, "memory of a process cannot be assigned to");
            return self.report(d.help("write it with copyout() or copyoutstr()"));
        }
        let TKind::Object(addr, ..) = &value.kind else { return Ok(value) };
        if is_part_of_symbol(e) || space == Space::Kernel && is_kernels(addr) {
            let message = format!("operator `{op}` needs something that can be written to: this is the kernel's");
            return self.err(tags::D_OP_WRITE, e.span, message);
        }
        Ok(value)
    }

    /// Makes a variable.
    pub(super) fn add_var(&mut self, scope: Scope, name: &str, ty: TypeId, span: Span) -> Res<VarId> {
        let shown = full_name(scope, name);
        let ty = match self.class_complete(ty) {
            Class::Int(..) | Class::Pointer(..) | Class::String => ty,
            Class::Float if !self.is_whole(ty) => ty,
            Class::Struct | Class::Array(..) | Class::Float => {
                if let Err(r) = self.fits_memory(&shown, scope, ty, span) {
                    self.space_of(scope).insert(name.to_string(), Entity::Poison);
                    return Err(r);
                }
                ty
            }
            Class::Void => {
                self.space_of(scope).insert(name.to_string(), Entity::Poison);
                return self.err(tags::D_DECL_VOIDOBJ, span, format!("`{shown}` cannot have the type `void`"));
            }
            Class::Forward => {
                self.space_of(scope).insert(name.to_string(), Entity::Poison);
                let message = format!("`{shown}` has the type `{}`, whose definition is not known", self.name(ty));
                return self.err(tags::D_DECL_INCOMPLETE, span, message);
            }
            _ => {
                self.space_of(scope).insert(name.to_string(), Entity::Poison);
                let what = format!("variables of type `{}` are", self.name(ty));
                return self.unsupported(span, &what);
            }
        };
        let id = self.vars.len() as u32;
        self.vars.push(VarInfo { name: name.to_string(), scope, ty, added: false, span });
        self.space_of(scope).insert(name.to_string(), Entity::Var(id));
        Ok(VarId(id))
    }

    /// Refuses what is too large to be kept, or has no size.
    fn fits_memory(&mut self, shown: &str, scope: Scope, ty: TypeId, span: Span) -> Res<()> {
        let most = match scope {
            Scope::Global => GLOBAL_BYTES,
            Scope::Thread | Scope::Clause => OTHER_BYTES,
        };
        match self.types.size(ty) {
            Some(0) | None => {
                let message = format!("`{shown}` has the type `{}`, whose size is not known", self.name(ty));
                self.err(tags::D_DECL_INCOMPLETE, span, message)
            }
            Some(size) if size > most => {
                let message = format!("`{shown}` has {size} bytes: at most {most} can be kept here");
                self.err(tags::D_DECL_ARRBIG, span, message)
            }
            Some(_) => Ok(()),
        }
    }

    fn assign(
        &mut self,
        op: Option<ast::BinaryOp>,
        op_span: Span,
        target: &Expr,
        value: &Expr,
        span: Span,
    ) -> Res<TExpr> {
        if let ExprKind::Aggregation(agg) = &target.kind {
            let message = format!("@{} can only be assigned to by a statement of its own, with `=`", agg.name);
            return self.err(tags::D_AGG_FUNC, op_span, message);
        }
        if let ExprKind::Index { base, .. } = &target.kind
            && let ExprKind::Aggregation(agg) = &base.kind
        {
            let message = format!("@{} has one list of keys only: write `@{}[a, b]`", agg.name, agg.name);
            return self.err(tags::D_AGG_MDIM, target.span, message);
        }
        let value_checked = self.expr(value);
        let void = value_checked.as_ref().is_ok_and(|v| matches!(self.class(v.ty), Class::Void));
        let text = op.map_or("=".to_string(), |op| format!("{}=", op.text()));
        let implicit = match (&value_checked, op) {
            (Ok(_), Some(_)) => Some(self.named_int("int64_t")),
            (Ok(v), None) => Some(self.implicit_type(v)),
            (Err(_), _) => None,
        };
        let (vars, arrays) = (self.vars.len() as u32, self.arrays.len() as u32);
        if void && let Ok(value) = &value_checked {
            // A variable that does not exist has no value to begin with, whatever is done to it.
            if op.is_some()
                && let ExprKind::Ident(name) = &target.kind
                && self.writable(name, target.span, &text).is_ok()
                && !self.globals.contains_key(name)
            {
                let message = format!("{name} has not been declared or assigned before");
                return self.err(tags::D_VAR_UNDEF, target.span, message);
            }
            // What the assignment would have made is no second mistake elsewhere.
            let _ = self.target(target, None, &text);
            return self.err(tags::D_OP_ACT, value.span, "an action or another `void` value cannot be assigned");
        }
        let target = self.target(target, implicit, &text)?;
        let value = value_checked?;
        if let (TKind::Xlated { translator, .. }, None) = (&value.kind, op) {
            self.fresh = match &target.kind {
                TKind::Var(v) if v.0 >= vars => Some(Place::Var(v.0)),
                TKind::Elem(a, _) if a.0 >= arrays => Some(Place::Array(a.0)),
                _ => None,
            };
            let translator = *translator;
            return self.assign_translated(target, translator, value, op_span);
        }
        if let Some(op) = op {
            return self.compound(op, op_span, target, value, span);
        }
        self.fit_space(&target, &value)?;
        self.fit_string(&target, &value);
        let ty = match &target.kind {
            TKind::Var(v) => self.vars[v.0 as usize].ty,
            _ => target.ty,
        };
        if matches!(self.class(ty), Class::Array(..)) && !(self.is_stringlike(ty) && self.is_stringlike(value.ty)) {
            let message = format!("operator `=` cannot assign to an array, `{}`, as a whole", self.name(ty));
            let d = Diagnostic::error(tags::D_OP_ARRFUN, span, message);
            return self.report(d.help("assign its elements, or keep it in a struct"));
        }
        if self.mixes_scratch(&value) {
            let d = Diagnostic::error(
                tags::D_ALLOCA_INCOMPAT,
                value.span,
                "a choice of a pointer to scratch memory and another pointer cannot be kept in a variable",
            );
            return self.report(d.help("use one variable for each"));
        }
        let from = value.ty;
        let mut value = value;
        if let (TKind::Object(_, Space::Scratch, _), Class::Pointer(to, space), Class::Pointer(theirs, Space::Kernel)) =
            (&target.kind, self.class(ty), self.class(from))
            && space == Space::User
            && self.pointees_mix(to, theirs)
        {
            // Memory that the program made itself may hold any address.
            value = TExpr { ty, ..value };
        }
        let Some(value) = self.assign_to(ty, value)? else { return self.incompatible(op_span, ty, "=", from) };
        Ok(TExpr { kind: TKind::Assign { target: Box::new(target), value: Box::new(value), add: None }, ty, span })
    }

    /// The type that a variable gets from the first value assigned to it.
    fn implicit_type(&mut self, value: &TExpr) -> TypeId {
        if let TKind::Xlated { source, .. } = &value.kind {
            return source.ty;
        }
        match self.class(value.ty) {
            Class::Array(of, _) if self.is_char(of) => self.basic.string,
            Class::Array(of, _) => {
                let space = match &value.kind {
                    TKind::Object(_, space, _) => *space,
                    _ => Space::Kernel,
                };
                self.types.pointer(of, space)
            }
            _ => value.ty,
        }
    }

    /// Whether a value is a pointer to scratch memory or another one, as it comes.
    fn mixes_scratch(&self, value: &TExpr) -> bool {
        let TKind::Cond(_, a, b) = &value.kind else { return false };
        let scratch = |e: &TExpr| match self.class(e.ty) {
            Class::Pointer(_, space) if e.kind != TKind::Int(0) => Some(space == Space::Scratch),
            _ => None,
        };
        matches!((scratch(a), scratch(b)), (Some(x), Some(y)) if x != y)
    }

    /// Whose memory a declared pointer variable points into shows when it is first assigned a pointer.
    fn fit_space(&mut self, target: &TExpr, value: &TExpr) -> Res<()> {
        let value = self.decay(value.clone());
        let Class::Pointer(_, space) = self.class(value.ty) else { return Ok(()) };
        if let TKind::Var(v) = target.kind
            && self.flexible.remove(&v.0)
            && let Class::Pointer(to, _) = self.class(self.vars[v.0 as usize].ty)
        {
            self.vars[v.0 as usize].ty = self.types.pointer(to, space);
        }
        Ok(())
    }

    /// A variable declared `char *` that is first assigned a string of D's holds strings: there is nothing to point to.
    fn fit_string(&mut self, target: &TExpr, value: &TExpr) {
        let TKind::Var(v) = target.kind else { return };
        if self.class(value.ty) == Class::String && self.is_stringlike(target.ty) && self.flexible.remove(&v.0) {
            self.vars[v.0 as usize].ty = self.basic.string;
        }
    }

    /// `a[k]`, `p[i]`, `args[n]`
    fn index(&mut self, base: &Expr, keys: &[Expr], span: Span) -> Res<TExpr> {
        let (scope, name) = match &base.kind {
            ExprKind::Ident(name) if name == "args" => return self.args(keys, span),
            ExprKind::Ident(name) if name == "uregs" && !self.globals.contains_key(name) => {
                return self.uregs(keys, span);
            }
            ExprKind::Ident(name) if name == "regs" || name == "vmregs" => return self.no_registers(name, span),
            ExprKind::Ident(name) => (Scope::Global, name),
            ExprKind::SelfVar(name) => (Scope::Thread, &name.text),
            ExprKind::ThisVar(name) => (Scope::Clause, &name.text),
            ExprKind::Aggregation(agg) => {
                let message = format!("@{} has one list of keys only", agg.name);
                return self.err(tags::D_AGG_MDIM, span, message);
            }
            _ => {
                let base = self.expr(base)?;
                return self.subscripts(base, keys, span);
            }
        };
        let known = self.space_of(scope).get(name).copied();
        if let (Scope::Global, None, Some(&inline)) = (scope, self.bound_name(name), self.inlines.get(name))
            && super::inline::params(inline).is_some()
        {
            return self.expand_inline(inline, Some(keys), span);
        }
        let other = scope == Scope::Global
            && (self.bound_name(name).is_some()
                || self.inlines.contains_key(name)
                || self.enumerators.contains_key(name)
                || super::names::VARIABLES.contains(&name.as_str()));
        match known {
            Some(Entity::Var(_)) => {
                let value = self.variable(scope, name, base.span)?;
                self.subscripts(value, keys, span)
            }
            None if other => {
                let value = self.expr(base)?;
                self.subscripts(value, keys, span)
            }
            _ => {
                let e = self.element(scope, name, base.span, keys, span, None, "[]")?;
                Ok(self.as_translated(e))
            }
        }
    }

    fn subscripts(&mut self, base: TExpr, keys: &[Expr], span: Span) -> Res<TExpr> {
        let [key] = keys else {
            let message = format!("a value of type `{}` takes one index, not {}", self.name(base.ty), keys.len());
            return self.err(tags::D_ARR_BADREF, span, message);
        };
        if !matches!(self.class(base.ty), Class::Pointer(..) | Class::Array(..) | Class::String) {
            let message = format!("a value of type `{}` is no array", self.name(base.ty));
            return self.err(tags::D_ARR_BADREF, base.span, message);
        }
        let key = self.expr(key)?;
        if let (TKind::Part { of, offset }, &probity_ir::TypeKind::Array { len, .. }) =
            (&base.kind, self.types.get(base.ty))
        {
            return self.stack_frame((**of).clone(), *offset, len, key, span);
        }
        self.subscript(base, key, span)
    }

    /// An element of an associative array, which is made if `implicit` gives a type and it is not there.
    #[allow(clippy::too_many_arguments)]
    fn element(
        &mut self,
        scope: Scope,
        name: &str,
        base_span: Span,
        keys: &[Expr],
        span: Span,
        implicit: Option<TypeId>,
        op: &str,
    ) -> Res<TExpr> {
        let shown = full_name(scope, name);
        let mut values = Vec::new();
        for key in keys {
            values.push(self.expr(key));
        }
        let values: Vec<TExpr> = values.into_iter().collect::<Res<_>>()?;
        let array = match self.space_of(scope).get(name).copied() {
            Some(Entity::Array(a)) => a,
            Some(Entity::Poison) => return Err(super::Reported),
            Some(Entity::Var(_)) => {
                let value = self.variable(scope, name, base_span)?;
                if op == "=" || op.ends_with('=') && op != "[]" || matches!(op, "++" | "--") {
                    if self.class(value.ty) == Class::String && keys.len() == 1 {
                        let message = format!("a byte of the string `{shown}` cannot be assigned to");
                        return self.err(tags::D_OP_LVAL, span, message);
                    }
                    let message = format!("`{shown}` is a variable, not an associative array");
                    return self.err(tags::D_IDENT_BADREF, base_span, message);
                }
                return self.subscripts(value, keys, span);
            }
            None => {
                if scope == Scope::Clause {
                    let message = format!("`{shown}`: clause-local variables cannot be associative arrays");
                    return self.err(tags::D_ARR_LOCAL, base_span, message);
                }
                if scope == Scope::Global {
                    self.writable(name, base_span, op)?;
                }
                let Some(ty) = implicit else {
                    if op == "=" {
                        // The value was wrong, which has been said.
                        self.space_of(scope).insert(name.to_string(), Entity::Poison);
                        return Err(super::Reported);
                    }
                    let tag = if scope == Scope::Global { tags::D_IDENT_UNDEF } else { tags::D_VAR_UNDEF };
                    let found =
                        near(name, self.space_of(scope).keys().map(String::as_str)).map(|n| full_name(scope, n));
                    let message = format!("`{shown}` is used, but nothing before it declares or assigns it");
                    let d = Diagnostic::error(tag, base_span, message);
                    return self.report(match found {
                        Some(n) => d.suggest(base_span, n.clone(), format!("use `{n}`")),
                        None => d,
                    });
                };
                let key = self.key_types(&values, &shown)?;
                self.add_array(scope, name, key, ty, false, base_span)?
            }
        };
        let info = self.arrays[array as usize].clone();
        let key = self.fit_key(values, &info.key, info.declared, &shown, span)?;
        Ok(self.in_memory(TExpr { kind: TKind::Elem(ArrayId(array), key), ty: info.ty, span }))
    }

    /// Makes an associative array.
    pub(super) fn add_array(
        &mut self,
        scope: Scope,
        name: &str,
        key: Vec<TypeId>,
        ty: TypeId,
        declared: bool,
        span: Span,
    ) -> Res<u32> {
        let fits = match self.class_complete(ty) {
            Class::Int(..) | Class::Pointer(..) | Class::String => true,
            Class::Float => !self.is_whole(ty),
            _ => false,
        };
        if self.is_whole(ty) {
            let shown = format!("{}[…]", full_name(scope, name));
            if let Err(r) = self.fits_memory(&shown, Scope::Thread, ty, span) {
                self.space_of(scope).insert(name.to_string(), Entity::Poison);
                return Err(r);
            }
        } else if !fits {
            self.space_of(scope).insert(name.to_string(), Entity::Poison);
            let what = format!("associative arrays with elements of type `{}` are", self.name(ty));
            return self.unsupported(span, &what);
        }
        let id = self.arrays.len() as u32;
        self.arrays.push(ArrayInfo { name: name.to_string(), scope, key, ty, added: false, declared, span });
        self.space_of(scope).insert(name.to_string(), Entity::Array(id));
        Ok(id)
    }

    /// The types that a key gives its members, once each is seen to be fit for one.
    pub(super) fn key_types(&mut self, key: &[TExpr], shown: &str) -> Res<Vec<TypeId>> {
        let mut types = Vec::new();
        for (i, e) in key.iter().enumerate() {
            self.leaves(e)?;
            let stringlike = matches!(self.class(e.ty), Class::Array(of, _) if self.is_char(of));
            types.push(match self.class(e.ty) {
                Class::Int(..) | Class::Pointer(..) | Class::String => e.ty,
                _ if stringlike => self.basic.string,
                _ if super::stack::is_stack(&self.types, e.ty) => e.ty,
                Class::Struct | Class::Array(..) if matches!(e.kind, TKind::Object(..)) => e.ty,
                _ => {
                    let message = format!(
                        "a value of type `{}` cannot be member {} of a key of `{shown}`",
                        self.name(e.ty),
                        i + 1
                    );
                    return self.err(tags::D_KEY_TYPE, e.span, message);
                }
            });
        }
        Ok(types)
    }

    /// Checks a key against the types of its members, and converts it where these were declared.
    pub(super) fn fit_key(
        &mut self,
        key: Vec<TExpr>,
        types: &[TypeId],
        declared: bool,
        shown: &str,
        span: Span,
    ) -> Res<Vec<TExpr>> {
        self.key_types(&key, shown)?;
        if key.len() != types.len() {
            let s = if types.len() == 1 { "" } else { "s" };
            let message = format!("a key of `{shown}` has {} member{s}, not {}", types.len(), key.len());
            return self.err(tags::D_PROTO_LEN, span, message);
        }
        let mut fitted = Vec::new();
        for (i, (e, &ty)) in key.into_iter().zip(types).enumerate() {
            let (from, at) = (e.ty, e.span);
            if matches!(self.class(ty), Class::Struct | Class::Array(..)) && self.same_type(ty, e.ty) {
                fitted.push(e);
                continue;
            }
            let e = self.decay_unless_chars(e);
            let value = match (self.class(ty), self.class(e.ty)) {
                _ if super::stack::is_stack(&self.types, ty) && super::stack::is_stack(&self.types, e.ty) => Some(e),
                (Class::String, _) => self.as_string(e)?,
                (Class::Int(..), Class::Int(..)) if declared => Some(self.convert(e, ty)),
                (Class::Int(..) | Class::Pointer(..), Class::Int(..) | Class::Pointer(..)) => Some(e),
                _ => None,
            };
            let Some(value) = value else {
                let message = format!(
                    "member {} of a key of `{shown}` has the type `{}`, not `{}`",
                    i + 1,
                    self.name(ty),
                    self.name(from)
                );
                let d = Diagnostic::error(tags::D_PROTO_ARG, at, message);
                let d = d.fact("prototype", self.fact_name(ty)).fact("key", self.fact_name(from));
                return self.report(d);
            };
            fitted.push(value);
        }
        Ok(fitted)
    }

    fn decay_unless_chars(&mut self, e: TExpr) -> TExpr {
        if self.is_stringlike(e.ty) { e } else { self.decay(e) }
    }

    /// `args[n]`
    fn args(&mut self, keys: &[Expr], span: Span) -> Res<TExpr> {
        let [key] = keys else {
            return self.err(tags::D_PROTO_LEN, span, format!("`args` takes one index, not {}", keys.len()));
        };
        let index = self.expr(key)?;
        let Some(n) = self.constant(&index).filter(|_| self.is_int(&index)) else {
            return self.err(tags::D_PROTO_ARG, key.span, "the index of `args` must be an integer constant");
        };
        if !self.cx.in_clause {
            return self.err(tags::D_ARGS_NONE, span, "a probe's arguments exist in clauses only");
        }
        let (Some(signature), Some(probe)) = (self.cx.signature, self.cx.probe) else {
            // A clause without probes: nothing is known about its arguments.
            return Err(super::Reported);
        };
        if let Some(value) = self.declared_arg(&probe.probe.desc, n, span) {
            return value;
        }
        let Some(arg) = usize::try_from(n).ok().and_then(|n| signature.args.get(n)) else {
            let count = signature.args.len();
            let has = match count {
                0 => "no typed arguments".to_string(),
                1 => "one typed argument".to_string(),
                _ => format!("{count} typed arguments"),
            };
            let d = Diagnostic::error(
                tags::D_ARGS_IDX,
                span,
                format!("args[{n}] does not exist: probe {} has {has}", probe.probe.desc),
            );
            return self.report(d.help("the raw values are arg0, arg1, …; `-lv` lists the arguments of a probe"));
        };
        if let Location::None(why) = &arg.location {
            let name = if arg.name.is_empty() { String::new() } else { format!(" ({})", arg.name) };
            let message = format!("args[{n}]{name} of probe {} is not available: {why}", probe.probe.desc);
            return self.err(tags::D_ARGS_TYPE, span, message);
        }
        let ty = arg.ty;
        let n = n as u32;
        if !arg.translated.is_empty() {
            return self.translated(TExpr { kind: TKind::Arg(n), ty, span }, &arg.translated, span);
        }
        let space = space_of_location(&arg.location);
        match self.class_complete(ty) {
            Class::Int(..) | Class::Pointer(..) => Ok(TExpr { kind: TKind::Arg(n), ty, span }),
            Class::String => {
                let ulong = self.basic.ulong;
                let addr = Box::new(TExpr { kind: TKind::Arg(n), ty: ulong, span });
                Ok(TExpr { kind: TKind::ReadStr { addr, space, max: None, len: None }, ty, span })
            }
            Class::Array(..) | Class::Struct => {
                let pointer = self.types.pointer(ty, space);
                let addr = TExpr { kind: TKind::Arg(n), ty: pointer, span };
                self.object(addr, space, ty, None, span)
            }
            Class::Float => self.unsupported(span, &format!("args[{n}] is floating-point: such values are")),
            Class::Void | Class::Func | Class::Forward => {
                let message = format!("args[{n}] of probe {} has no type that is known here", probe.probe.desc);
                self.err(tags::D_ARGS_TYPE, span, message)
            }
        }
    }

    fn symbol(&mut self, symbol: &ast::Symbol, span: Span) -> Res<TExpr> {
        if symbol.scope.starts_with("pid") {
            return self.unsupported(span, "symbols of processes are");
        }
        let shown = format!("{}`{}", symbol.scope, symbol.name);
        match self.env.kernel_symbol(&symbol.scope, &symbol.name, &mut self.types) {
            Some((address, Some(ty))) => {
                let pointer = self.types.pointer(ty, Space::Kernel);
                let addr = TExpr::int(address as i64, pointer, span);
                match self.class_complete(ty) {
                    Class::Func => Ok(addr),
                    Class::Forward | Class::Void => {
                        let message = format!("the type of kernel symbol {shown} is not known");
                        self.err(tags::D_SYM_NOTYPES, span, message)
                    }
                    _ => self.object(addr, Space::Kernel, ty, None, span),
                }
            }
            Some((_, None)) => {
                let message = format!("the kernel does not tell the type of its symbol {shown}");
                let d = Diagnostic::error(tags::D_SYM_NOTYPES, span, message);
                self.report(d.help(format!(
                    "give it one: `*(int *)&{shown}` is not possible, use the address from /proc/kallsyms"
                )))
            }
            None => {
                let d = Diagnostic::error(tags::D_IDENT_UNDEF, span, format!("there is no kernel symbol {shown}"));
                self.report(or_help(d, foreign(Kind::Symbol, &symbol.name)))
            }
        }
    }
}

/// Whether an address is one of the kernel's, not one that a program keeps.
fn is_kernels(addr: &TExpr) -> bool {
    match &addr.kind {
        TKind::Builtin(_) | TKind::Arg(_) => true,
        TKind::Bin(_, a, b) => is_kernels(a) || is_kernels(b),
        TKind::Object(inner, Space::Kernel, _) => is_kernels(inner),
        _ => false,
    }
}

/// Whether an expression names a kernel variable or a part of one, not by way of a pointer.
fn is_part_of_symbol(e: &Expr) -> bool {
    match &e.kind {
        ExprKind::Symbol(_) => true,
        ExprKind::Member { base, .. } | ExprKind::Index { base, .. } => is_part_of_symbol(base),
        _ => false,
    }
}

/// A variable's name as it is written.
pub(super) fn full_name(scope: Scope, name: &str) -> String {
    match scope {
        Scope::Global => name.to_string(),
        Scope::Thread => format!("self->{name}"),
        Scope::Clause => format!("this->{name}"),
    }
}

/// Whose memory an object is in whose address a location gives.
fn space_of_location(location: &Location) -> Space {
    match location {
        Location::Memory { space, .. } | Location::Address { space, .. } => *space,
        _ => Space::Kernel,
    }
}
