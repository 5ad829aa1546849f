//! Calls that have a value: subroutines, their arguments, and what is said of other calls where a value is wanted.

use super::conv::Class;
use super::names::{FuncKind, function};
use super::tree::*;
use super::{Checker, Res};
use probity_ir::{Space, TypeId};
use probity_syntax::ast::{self, Expr};
use probity_syntax::{Diagnostic, Span, near, tags};

impl Checker<'_> {
    /// A call where a value is wanted.
    pub(super) fn call(&mut self, name: &ast::Name, args: &[Expr], span: Span) -> Res<TExpr> {
        if let Some(row) = super::sub::find(&name.text) {
            return self.sub_call(row, args, span);
        }
        if let Some(value) = self.library_call(name, args, span) {
            return value;
        }
        let Some(func) = function(&name.text) else { return self.no_function(name) };
        match func.kind {
            FuncKind::Subroutine => {
                self.count_args(&func, args.len(), span)?;
                match func.name {
                    "stack" | "ustack" | "jstack" => return self.stack_call(&func, args, span),
                    "sym" | "func" | "mod" | "usym" | "ufunc" | "umod" | "uaddr" => {
                        return self.symbol_call(&func, args, span);
                    }
                    _ => {}
                }
                let values: Vec<TExpr> =
                    args.iter().map(|a| self.expr(a)).collect::<Vec<_>>().into_iter().collect::<Res<_>>()?;
                self.subroutine(func.name, values, span)
            }
            FuncKind::Action => {
                self.count_args(&func, args.len(), span)?;
                // What stands around it says that it needs a value.
                let void = self.basic.void;
                Ok(TExpr::int(0, void, span))
            }
            FuncKind::Aggregating => {
                let message =
                    format!("`{}` is an aggregating function: it can only be assigned to an aggregation", func.name);
                let d = Diagnostic::error(tags::D_FUNC_IDKIND, span, message);
                self.report(d.help(format!("write `@a = {}(…);`", func.name)))
            }
        }
    }

    pub(super) fn no_function<T>(&mut self, name: &ast::Name) -> Res<T> {
        let text = &name.text;
        if let Some(d) = self.external_used(text, name.span) {
            return self.report(d);
        }
        if self.globals.contains_key(text)
            || self.inlines.contains_key(text)
            || super::names::VARIABLES.contains(&text.as_str())
        {
            let message = format!("`{text}` is a variable and cannot be called");
            return self.err(tags::D_FUNC_IDKIND, name.span, message);
        }
        let d = Diagnostic::error(tags::D_FUNC_UNDEF, name.span, format!("there is no function `{text}`"));
        self.report(
            match near(
                text,
                super::names::FUNCTIONS.iter().map(|f| f.name).chain(super::sub::SUBS.iter().map(|s| s.name)),
            ) {
                Some(n) => d.suggest(name.span, n, format!("use `{n}`")),
                None => d,
            },
        )
    }

    fn subroutine(&mut self, name: &'static str, mut args: Vec<TExpr>, span: Span) -> Res<TExpr> {
        let string = self.basic.string;
        match name {
            "speculation" => {
                self.speculates = true;
                let ty = self.basic.int;
                Ok(TExpr { kind: TKind::Speculation, ty, span })
            }
            "alloca" => self.alloca(args, span),
            "bcopy" => self.bcopy(args, span),
            "copyinto" => self.copyinto(args, span),
            "copyout" | "copyoutstr" => self.copyout(name, args, span),
            "copyin" | "copyinstr" => {
                for (i, arg) in args.iter_mut().enumerate() {
                    let (ty, at) = (arg.ty, arg.span);
                    // An address may be a string's only by mistake: `copyinstr(execname)`.
                    let scalar = if self.class(ty) == Class::String { None } else { self.scalar(arg.clone()) };
                    match scalar {
                        Some(e) => *arg = e,
                        None => return self.bad_arg(name, i, if i == 0 { "uintptr_t" } else { "size_t" }, ty, at),
                    }
                }
                let mut args = args.into_iter();
                let (Some(addr), len) = (args.next(), args.next()) else { return Err(super::Reported) };
                let (addr, len) = (Box::new(addr), len.map(Box::new));
                match (name, len) {
                    ("copyin", Some(len)) => {
                        self.scratch_size(name, &len)?;
                        let void = self.basic.void;
                        let ty = self.types.pointer(void, Space::Scratch);
                        Ok(TExpr { kind: TKind::CopyIn(addr, self.process_memory(), len), ty, span })
                    }
                    (_, max) => {
                        // The NUL is one of them.
                        let max = max.map(|max| Box::new(self.one_less(*max)));
                        let kind = TKind::ReadStr { addr, space: self.process_memory(), max, len: None };
                        Ok(TExpr { kind, ty: string, span })
                    }
                }
            }
            _ => {
                let mut strings = Vec::new();
                for (i, e) in args.into_iter().enumerate() {
                    let (ty, at) = (e.ty, e.span);
                    match self.string_or_null(e)? {
                        Some(e) => strings.push(Box::new(e)),
                        None => return self.bad_arg(name, i, "string", ty, at),
                    }
                }
                let mut strings = strings.into_iter();
                match (strings.next(), strings.next()) {
                    (Some(a), Some(b)) => Ok(TExpr { kind: TKind::StrJoin(a, b), ty: string, span }),
                    (Some(a), None) => {
                        let ty = self.named_int("size_t");
                        Ok(TExpr { kind: TKind::StrLen(a), ty, span })
                    }
                    _ => Err(super::Reported),
                }
            }
        }
    }

    /// `n - 1`, but 0 for 0.
    fn one_less(&mut self, n: TExpr) -> TExpr {
        let (ulong, span) = (self.basic.ulong, n.span);
        let n = self.convert(n, ulong);
        if let TKind::Int(v) = n.kind {
            return TExpr::int(if v == 0 { 0 } else { v.wrapping_sub(1) }, ulong, span);
        }
        // Side effects happen once.
        let (held, n) = self.held(n);
        let one = Box::new(TExpr::int(-1, ulong, span));
        let less = TExpr { kind: TKind::Bin(probity_ir::BinOp::Add, Box::new(n.clone()), one), ty: ulong, span };
        let kind = TKind::Cond(Box::new(n), Box::new(less), Box::new(TExpr::int(0, ulong, span)));
        let value = TExpr { kind, ty: ulong, span };
        self.holding(held, value)
    }

    pub(super) fn bad_arg<T>(&mut self, func: &str, i: usize, wanted: &str, ty: TypeId, span: Span) -> Res<T> {
        let message = format!("argument {} of {func}() must be {wanted}, not `{}`", i + 1, self.name(ty));
        let d = Diagnostic::error(tags::D_PROTO_ARG, span, message);
        self.report(self.with_prototype(d, func, i, &self.fact_name(ty)))
    }

    pub(super) fn count_args(&mut self, func: &super::names::Func, count: usize, span: Span) -> Res<()> {
        if (func.least..=func.most).contains(&count) {
            return Ok(());
        }
        let plural = |n: usize| if n == 1 { "argument" } else { "arguments" };
        let wanted = match (func.least, func.most) {
            (a, b) if a == b => format!("{a} {}", plural(a)),
            (a, usize::MAX) => format!("at least {a} {}", plural(a)),
            (a, b) => format!("{a} to {b} arguments"),
        };
        self.err(tags::D_PROTO_LEN, span, format!("{}() takes {wanted}, not {count}", func.name))
    }
}
