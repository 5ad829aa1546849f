//! `print()` and `tracemem()`: what they can show, and how much of it a record takes.

use super::conv::Class;
use super::tree::*;
use super::{Checker, Res};
use probity_ir::{Space, TypeId, TypeKind};
use probity_syntax::ast::{Expr, ExprKind};
use probity_syntax::{Diagnostic, Span, tags};

/// Most bytes of one value that a record takes.
const MOST: u64 = 32 << 10;
/// Structs in structs that are completed for printing.
const DEPTH: u32 = 16;

impl Checker<'_> {
    /// `print(e)`: what a pointer points to, with the address, as in DTrace for Linux; or a value, as in illumos.
    pub(super) fn print(&mut self, e: &Expr) -> Res<TAction> {
        if let ExprKind::Aggregation(agg) = &e.kind {
            let message = format!("print() cannot take the aggregation @{}", agg.name);
            let d = Diagnostic::error(tags::D_PROTO_ARG, e.span, message);
            return self.report(d.help("print it with printa()"));
        }
        let value = self.expr(e)?;
        let ty = value.ty;
        match self.class_complete(ty) {
            Class::Pointer(to, space) => {
                let size = self.printable(to, "the argument of print() points to", e.span)?;
                self.needs_process(space, e.span)?;
                Ok(TAction::Print { value, object: Some((space, size)), ty: to })
            }
            _ if matches!(value.kind, TKind::Int(_) | TKind::Str(_)) => {
                let message = format!(
                    "print() shows what a program finds: a pointer's object or a value, not a constant of type `{}`",
                    self.name(ty)
                );
                let d = Diagnostic::error(tags::D_PROTO_ARG, e.span, message);
                let d = self.with_prototype(d, "print", 0, &self.fact_name(ty));
                self.report(d.help("print a constant with trace() or printf()"))
            }
            Class::Int(..) | Class::String | Class::Float => Ok(TAction::Print { value, object: None, ty }),
            Class::Array(..) | Class::Struct => {
                self.printable(ty, "the argument of print() is", e.span)?;
                Ok(TAction::Print { value, object: None, ty })
            }
            _ => self.bad_arg("print", 0, "a pointer or a value", ty, e.span),
        }
    }

    /// The size of a type that is to be printed whole; completes what is in it.
    fn printable(&mut self, ty: TypeId, what: &str, span: Span) -> Res<u32> {
        self.complete_deep(ty, 0);
        let size = self.types.size(ty).unwrap_or(0);
        if size == 0 {
            let message = format!("{what} `{}`, which has no size: there is nothing to print", self.name(ty));
            let d = Diagnostic::error(tags::D_PRINT_SIZE, span, message);
            return self.report(d.help("cast it to a pointer to what is there, as in `print((struct s *)p)`"));
        }
        if size > MOST {
            let message = format!("{what} `{}` of {size} bytes: print() takes up to {MOST}", self.name(ty));
            let d = Diagnostic::error(tags::D_PRINT_SIZE, span, message);
            return self.report(d.help("print a member of it"));
        }
        Ok(size as u32)
    }

    /// Asks for the definitions of all types that are in this one by value.
    fn complete_deep(&mut self, ty: TypeId, depth: u32) {
        self.complete(ty);
        if depth > DEPTH {
            return;
        }
        match self.types.get(self.types.resolve(ty)) {
            TypeKind::Struct { members, .. } => {
                let members: Vec<TypeId> = members.iter().map(|m| m.ty).collect();
                for member in members {
                    self.complete_deep(member, depth + 1);
                }
            }
            TypeKind::Array { of, .. } => {
                let of = *of;
                self.complete_deep(of, depth + 1);
            }
            _ => {}
        }
    }

    /// `tracemem(address, bytes[, fewer])`
    pub(super) fn tracemem(&mut self, args: &[Expr]) -> Res<TAction> {
        let [addr, size, rest @ ..] = args else { return Err(super::Reported) };
        let value = self.expr(addr)?;
        let (ty, span) = (value.ty, value.span);
        let decayed = if self.class(ty) == Class::String { None } else { self.scalar(value) };
        let Some(addr) = decayed else {
            let message =
                format!("argument 1 of tracemem() must be an address, not a value of type `{}`", self.name(ty));
            let d = Diagnostic::error(tags::D_TRACEMEM_ADDR, span, message);
            return self.report(self.with_prototype(d, "tracemem", 0, &self.fact_name(ty)));
        };
        let space = match self.class(addr.ty) {
            Class::Pointer(_, space) => space,
            _ => Space::Kernel,
        };
        let size = self.expr(size)?;
        if !self.is_int(&size) {
            return self.bad_arg("tracemem", 1, "an integer constant", size.ty, size.span);
        }
        let len = match self.constant(&size) {
            Some(n) if n > 0 && n as u64 <= MOST => n as u32,
            Some(n) if n > 0 => {
                let message = format!("tracemem() of {n} bytes: it takes up to {MOST}");
                return self.err(tags::D_TRACEMEM_SIZE, size.span, message);
            }
            _ => {
                let message =
                    "argument 2 of tracemem() must be a constant of at least 1: the bytes that a record holds";
                let d = Diagnostic::error(tags::D_TRACEMEM_SIZE, size.span, message);
                return self.report(d.help("a third argument may be a variable: how many of them are shown"));
            }
        };
        let fewer = match rest.first() {
            Some(e) => {
                let value = self.expr(e)?;
                if !self.is_int(&value) {
                    return self.bad_arg("tracemem", 2, "an integer", value.ty, value.span);
                }
                Some(value)
            }
            None => None,
        };
        self.needs_process(space, span)?;
        if space != Space::Scratch && fewer.is_some() && u64::from(len) > self.options.scratchsize {
            let message = format!("tracemem() of {len} bytes: scratch memory has {} bytes", self.options.scratchsize);
            let d = Diagnostic::error(tags::D_TRACEMEM_SIZE, size.span, message);
            return self.report(d.help("set the option `scratchsize` to a higher value"));
        }
        Ok(TAction::Tracemem { addr, space, len, fewer })
    }
}
