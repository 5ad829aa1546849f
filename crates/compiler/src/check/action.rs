//! Statements that act: actions, `printf` formats against operands, aggregations as actions take them.

use super::conv::Class;
use super::names::{Func, FuncKind, function};
use super::tree::*;
use super::{Checker, PendingPrinta, Res};
use crate::format::{self, FormatSpans, Takes, takes};
use probity_ir::{AggId, Conversion, Format, Phase, Piece, Symbol, TypeId};
use probity_syntax::ast::{AggRef, Expr, ExprKind};
use probity_syntax::{Diagnostic, Span, tags};

impl Checker<'_> {
    /// An expression as a statement.
    pub(super) fn expr_stmt(&mut self, e: &Expr) -> Res<TStmtKind> {
        match &e.kind {
            ExprKind::Assign { op: None, target, value, .. } => {
                if let ExprKind::Aggregation(agg) = &target.kind {
                    let _ = self.aggregating(e.span);
                    let stmt = self.aggregate_stmt(agg, value, e.span);
                    if stmt.is_err() {
                        let id = self.agg_id(agg);
                        self.aggs[id.0 as usize].wrong = true;
                    }
                    return stmt;
                }
            }
            ExprKind::Aggregation(agg) => {
                let unknown = self.agg_names.get(&agg.name).is_none_or(|id| self.aggs[id.0 as usize].func.is_none());
                if unknown && agg.keys.is_none() {
                    let message = format!("@{} is not defined", agg.name);
                    let d = Diagnostic::error(tags::D_IDENT_UNDEF, e.span, message);
                    return self.report(d.help(format!("define it, as in `@{} = count();`", agg.name)));
                }
                let message = format!("@{} alone has no effect", agg.name);
                let d = Diagnostic::error(tags::D_AGG_NULL, e.span, message);
                return self
                    .report(d.help(format!("assign it, as in `@{} = count();`, or print it with printa()", agg.name)));
            }
            ExprKind::Call { name, args } => match function(&name.text) {
                Some(func) if func.kind == FuncKind::Action => {
                    return Ok(TStmtKind::Action(self.action(&func, args, e.span)?));
                }
                // As a statement these show their value.
                Some(func) if is_shown(func.name) => return Ok(TStmtKind::Action(TAction::Trace(self.expr(e)?))),
                Some(func) if func.kind == FuncKind::Aggregating => {
                    let message = format!("the result of {}() goes nowhere", func.name);
                    let d = Diagnostic::error(tags::D_CG_EXPR, e.span, message);
                    return self.report(d.help(format!("assign it to an aggregation: `@ = {}(…);`", func.name)));
                }
                _ => {}
            },
            _ => {}
        }
        let value = self.expr(e)?;
        if let (ExprKind::Xlate { .. }, TKind::Xlated { .. }) = (&e.kind, &value.kind) {
            self.no_translated_value(&value);
        }
        Ok(TStmtKind::Expr(value))
    }

    fn action(&mut self, func: &Func, args: &[Expr], span: Span) -> Res<TAction> {
        self.count_args(func, args.len(), span)?;
        if let Some(action) = self.outside(func, args, span) {
            return action;
        }
        let Some((first, rest)) = args.split_first() else { return Err(super::Reported) };
        match func.name {
            "speculate" => return self.speculate(first, span),
            "commit" => return self.commit(first, span),
            "discard" => {
                self.speculates = true;
                return Ok(TAction::Discard(self.integer_arg(first, "discard", 0)?));
            }
            _ => self.recording(func.name, span)?,
        }
        match func.name {
            "trace" => self.trace(first),
            "printf" => self.printf(first, rest, span),
            "printa" => self.printa(args, span),
            "print" => self.print(first),
            "tracemem" => self.tracemem(args),
            "exit" => {
                self.no_aggregation_or_action(first, "exit", 0)?;
                let e = self.expr(first)?;
                let (ty, at) = (e.ty, e.span);
                match self.class(ty) {
                    Class::Int(..) => {
                        let int = self.basic.int;
                        Ok(TAction::Exit(self.convert(e, int)))
                    }
                    _ => self.bad_arg("exit", 0, "an integer", ty, at),
                }
            }
            "clear" => {
                let agg = self.agg_arg(first, func.name, tags::D_CLEAR_AGGARG, tags::D_CLEAR_AGGBAD)?;
                self.mark_reset(agg);
                Ok(TAction::Clear(agg))
            }
            "trunc" => {
                let agg = self.agg_arg(first, func.name, tags::D_TRUNC_AGGARG, tags::D_TRUNC_AGGBAD)?;
                self.mark_reset(agg);
                let count = match rest.first() {
                    Some(e) => Some(self.integer_arg(e, func.name, 1)?),
                    None => None,
                };
                Ok(TAction::Trunc(agg, count))
            }
            "normalize" => {
                let agg = self.agg_arg(first, func.name, tags::D_NORMALIZE_AGGARG, tags::D_NORMALIZE_AGGBAD)?;
                let Some(by) = rest.first() else { return Err(super::Reported) };
                let by = self.integer_arg(by, func.name, 1)?;
                if by.kind == TKind::Int(0) {
                    return self.err(tags::D_DIV_ZERO, by.span, "an aggregation cannot be normalized by 0");
                }
                Ok(TAction::Normalize(agg, by))
            }
            _ => {
                let agg = self.agg_arg(first, func.name, tags::D_NORMALIZE_AGGARG, tags::D_NORMALIZE_AGGBAD)?;
                Ok(TAction::Denormalize(agg))
            }
        }
    }

    fn mark_reset(&mut self, agg: AggId) {
        // After tracing has ended nothing is counted any more, and no second buffer is needed.
        let live = self.cx.signature.is_some_and(|s| s.phase != Phase::End);
        self.aggs[agg.0 as usize].reset |= live;
    }

    pub(super) fn integer_arg(&mut self, e: &Expr, func: &str, i: usize) -> Res<TExpr> {
        self.no_aggregation_or_action(e, func, i)?;
        let value = self.expr(e)?;
        let (ty, at) = (value.ty, value.span);
        match self.class(ty) {
            Class::Int(..) => Ok(value),
            _ => self.bad_arg(func, i, "an integer", ty, at),
        }
    }

    fn no_aggregation_or_action(&mut self, e: &Expr, func: &str, i: usize) -> Res<()> {
        let what = match &e.kind {
            ExprKind::Aggregation(_) => "an aggregation",
            ExprKind::Call { name, .. } if function(&name.text).is_some_and(|f| f.kind == FuncKind::Action) => {
                "an action"
            }
            _ => return Ok(()),
        };
        let message = format!("argument {} of {func}() must be an integer, not {what}", i + 1);
        let d = Diagnostic::error(tags::D_PROTO_ARG, e.span, message);
        let argument = if what == "an action" { "void" } else { "aggregation" };
        self.report(self.with_prototype(d, func, i, argument))
    }

    fn trace(&mut self, e: &Expr) -> Res<TAction> {
        match &e.kind {
            ExprKind::Aggregation(agg) => {
                let d = Diagnostic::error(
                    tags::D_TRACE_DYN,
                    e.span,
                    format!("trace() cannot take the aggregation @{}", agg.name),
                );
                return self.report(d.help("print it with printa()"));
            }
            ExprKind::Call { name, .. } if function(&name.text).is_some_and(|f| f.kind == FuncKind::Action) => {
                return self.err(tags::D_TRACE_VOID, e.span, "trace() needs a value: an action has none");
            }
            _ => {}
        }
        let value = self.expr(e)?;
        let value = self.shown(value);
        match self.class_complete(value.ty) {
            Class::Void => self.err(tags::D_TRACE_VOID, e.span, "trace() needs a value: this expression has none"),
            Class::Int(..) | Class::Pointer(..) | Class::String | Class::Float => Ok(TAction::Trace(value)),
            _ if super::stack::is_stack(&self.types, value.ty) => Ok(TAction::Trace(value)),
            Class::Array(..) | Class::Struct if matches!(value.kind, TKind::Object(..)) => {
                let size = self.types.size(value.ty).unwrap_or(0);
                if size == 0 || size > 32 << 10 {
                    let message = format!("`{}` has {size} bytes: trace() takes 1 to 32768", self.name(value.ty));
                    return self.err(tags::D_PROTO_ARG, e.span, message);
                }
                Ok(TAction::Trace(value))
            }
            _ => {
                let ty = value.ty;
                self.bad_arg("trace", 0, "a scalar, a string or an object in memory", ty, e.span)
            }
        }
    }

    // ---------------------------------------------------------------------------------------- printf

    /// A format, from a string constant.
    fn format(&mut self, e: &Expr, func: &str) -> Res<(Format, FormatSpans)> {
        let ExprKind::String(bytes) = &e.kind else {
            let message = format!("argument 1 of {func}() must be a string constant: the format");
            let action = matches!(&e.kind, ExprKind::Call { name, .. } if function(&name.text).is_some_and(|f| f.kind == FuncKind::Action));
            let mut argument = "void".to_string();
            let string = !action && {
                let v = self.expr(e)?;
                argument = self.fact_name(v.ty);
                self.class(v.ty) == Class::String
            };
            let d = if string {
                let d = Diagnostic::error(tags::D_PRINTF_ARG_FMT, e.span, message);
                d.fact("prototype", "string constant").fact("argument", "string")
            } else {
                let d = Diagnostic::error(tags::D_PROTO_ARG, e.span, message);
                self.with_prototype(d, func, 0, &argument)
            };
            return self.report(d);
        };
        if bytes.is_empty() {
            return self.err(tags::D_PRINTF_FMT_EMPTY, e.span, format!("the format of {func}() is empty"));
        }
        // Spans of pieces are in bytes of the string; the source may have escapes and parentheses before them.
        let source = self.sources.text(e.span);
        let quote = source.find('"').map(|q| q as u32);
        let offsets = format::literal_offsets(quote.map_or("", |q| &source[q as usize..]));
        let place = |at: u32| match (quote, offsets.get(at as usize)) {
            (Some(q), Some(o)) if offsets.len() == bytes.len() + 1 => Some(e.span.lo + q + o),
            _ => None,
        };
        let span_of = |lo: u32, hi: u32| match (place(lo), place(hi)) {
            (Some(lo), Some(hi)) => (lo, hi),
            _ => (e.span.lo, e.span.hi),
        };
        match format::parse(bytes) {
            Ok((format, spans)) => Ok((format, spans.into_iter().map(|(lo, hi)| span_of(lo, hi)).collect())),
            Err(error) => {
                let (lo, hi) = span_of(error.lo, error.hi);
                let span = Span::new(e.span.source, lo, hi);
                self.err(tags::D_SYNTAX, span, format!("wrong format of {func}(): {}", error.message))
            }
        }
    }

    pub(super) fn printf(&mut self, first: &Expr, rest: &[Expr], span: Span) -> Res<TAction> {
        let before = self.diags.len();
        let (format, spans) = match self.format(first, "printf") {
            Ok(format) => format,
            Err(reported) => {
                // What is wrong with the arguments comes first, as in DTrace.
                let mut of_format = self.diags.split_off(before);
                for e in rest.iter().filter(|e| !matches!(e.kind, ExprKind::Aggregation(_) | ExprKind::Call { .. })) {
                    let _ = self.expr(e);
                }
                self.diags.append(&mut of_format);
                return Err(reported);
            }
        };
        let mut values = Vec::new();
        let mut bad = false;
        let conversions: Vec<&Conversion> = taken(&format);
        for (i, e) in rest.iter().enumerate() {
            let conv = conversions.get(i).copied();
            if let ExprKind::Aggregation(agg) = &e.kind {
                let message = format!("printf() cannot print the aggregation @{}", agg.name);
                let d = Diagnostic::error(tags::D_PRINTF_ARG_TYPE, e.span, message);
                bad |= self.report::<()>(facts(d, conv, "aggregation").help("use printa()")).is_err();
                continue;
            }
            if let ExprKind::Call { name, .. } = &e.kind
                && function(&name.text).is_some_and(|f| f.kind == FuncKind::Action)
            {
                let message = format!("printf() cannot print the action {}(): it has no value", name.text);
                let d = Diagnostic::error(tags::D_PRINTF_ARG_TYPE, e.span, message);
                bad |= self.report::<()>(facts(d, conv, "void")).is_err();
                continue;
            }
            match self.expr(e) {
                Ok(value) => values.push(value),
                Err(_) => bad = true,
            }
        }
        if bad {
            return Err(super::Reported);
        }
        let mut values = values.into_iter();
        let mut operands = Vec::new();
        let mut number = 0;
        for (piece, (lo, hi)) in format.pieces.iter().zip(&spans) {
            let Piece::Conv(conv) = piece else { continue };
            number += 1;
            let at = Span::new(span.source, *lo, *hi);
            let shown = self.sources.text(at).to_string();
            if conv.agg {
                let message = format!("conversion `{shown}` prints an aggregation's value: use printa() for that");
                return self.err(tags::D_PRINTF_AGG_CONV, at, message);
            }
            for (wanted, what) in [(conv.width_arg, "width"), (conv.precision_arg, "precision")] {
                if !wanted {
                    continue;
                }
                let Some(value) = values.next() else {
                    let message =
                        format!("conversion {number} (`{shown}`) of printf() needs one more argument: its {what}");
                    return self.err(tags::D_PRINTF_DYN_PROTO, at, message);
                };
                if !self.is_int(&value) {
                    let message = format!(
                        "the {what} of conversion {number} (`{shown}`) of printf() must be an integer, not `{}`",
                        self.name(value.ty)
                    );
                    let d = Diagnostic::error(tags::D_PRINTF_DYN_TYPE, value.span, message);
                    let shown = format!("% {} {}", if what == "width" { "*" } else { ".*" }, conv.letter);
                    let d = d.fact("conversion", shown).fact("prototype", "int");
                    return self.report(d.fact("argument", self.fact_name(value.ty)));
                }
                operands.push(value);
            }
            let Some(value) = values.next() else {
                let message = format!("conversion {number} (`{shown}`) of printf() has no argument");
                return self.err(tags::D_PRINTF_ARG_PROTO, at, message);
            };
            operands.push(self.operand(conv, &shown, number, at, value)?);
        }
        if let Some(extra) = values.next() {
            let needed = operands.len();
            let s = if needed == 1 { "" } else { "s" };
            let message = format!("this format of printf() takes {needed} argument{s} only");
            return self.err(tags::D_PRINTF_ARG_EXTRA, extra.span, message);
        }
        Ok(TAction::Printf(format, operands))
    }

    /// Fits a value to its conversion.
    fn operand(&mut self, conv: &Conversion, shown: &str, number: usize, at: Span, value: TExpr) -> Res<TExpr> {
        let wanted = takes(conv);
        let ty = value.ty;
        let value_span = value.span;
        let fitted = match wanted {
            // The name of a user address depends on the process.
            Takes::Integer if conv.letter == 'A' && !matches!(value.kind, TKind::Symbol(..)) => {
                self.scalar(value).map(|e| {
                    let (ty, span) = (e.ty, e.span);
                    TExpr { kind: TKind::Symbol(Symbol::UserAddress, Box::new(e)), ty, span }
                })
            }
            Takes::Integer => self.scalar(value).map(|value| self.shown(value)),
            Takes::String => match self.class(ty) {
                Class::String => Some(value),
                Class::Array(..) => self.as_string(value)?,
                _ => None,
            },
            Takes::Float => (self.class(ty) == Class::Float).then_some(value),
            Takes::Stack => super::stack::is_stack(&self.types, ty).then_some(value),
        };
        if let Some(value) = fitted {
            return Ok(value);
        }
        let message = format!(
            "conversion {number} (`{shown}`) takes {}, but its argument is of type `{}`",
            wanted.words(),
            self.name(ty)
        );
        let d = Diagnostic::error(tags::D_PRINTF_ARG_TYPE, at, message).note(value_span, "this is the argument");
        let d = facts(d, Some(conv), &self.fact_name(ty));
        let help = match (wanted, self.class(ty)) {
            (Takes::Integer, Class::String) => Some("print a string with `%s`".to_string()),
            (Takes::String, Class::Int(..)) => Some("print an integer with `%d`".to_string()),
            (Takes::String, Class::Pointer(_, probity_ir::Space::User)) => {
                Some("it points into the program's memory: read the string with copyinstr()".to_string())
            }
            (Takes::String, Class::Pointer(..)) => {
                Some("make a string of it with stringof() (kernel memory) or copyinstr() (user memory)".to_string())
            }
            (Takes::Integer, Class::Float) => Some("print a floating-point number with `%f`, `%e` or `%g`".to_string()),
            (Takes::Float, Class::Int(..)) => Some("convert it, as in `(double)x`".to_string()),
            _ => None,
        };
        self.report(match help {
            Some(help) => d.help(help),
            None => d,
        })
    }

    // ---------------------------------------------------------------------------------------- printa

    fn printa(&mut self, args: &[Expr], span: Span) -> Res<TAction> {
        let (format, aggs) = match args.split_first() {
            Some((first, rest)) if matches!(first.kind, ExprKind::String(_)) => {
                let parsed = self.format(first, "printa")?;
                if rest.is_empty() {
                    return self.err(
                        tags::D_PRINTA_PROTO,
                        span,
                        "printa() with a format needs at least one aggregation",
                    );
                }
                (Some(parsed), rest)
            }
            _ => (None, args),
        };
        let mut ids = Vec::new();
        for e in aggs {
            ids.push(self.agg_arg(e, "printa", tags::D_PRINTA_AGGARG, tags::D_PRINTA_AGGBAD));
        }
        let ids: Vec<AggId> = ids.into_iter().collect::<Res<_>>()?;
        let (format, spans) = match format {
            Some((format, spans)) => (Some(format), spans),
            None => (None, Vec::new()),
        };
        self.printas.push(PendingPrinta {
            format: format.clone().unwrap_or_default(),
            spans,
            aggs: ids.clone(),
            span,
            region: self.cx.region,
        });
        Ok(TAction::Printa(format, ids))
    }

    /// An argument that must be an aggregation.
    fn agg_arg(&mut self, e: &Expr, func: &str, tag: &'static str, bad: &'static str) -> Res<AggId> {
        let ExprKind::Aggregation(agg) = &e.kind else {
            let argument = match &e.kind {
                ExprKind::Int(_) => "int".to_string(),
                ExprKind::String(_) => "string".to_string(),
                ExprKind::Call { .. } => "void".to_string(),
                _ => self.expr(e).map(|v| self.fact_name(v.ty))?,
            };
            let d = Diagnostic::error(tag, e.span, format!("{func}() needs an aggregation here"));
            let d = d.fact("prototype", "aggregation").fact("argument", argument);
            return self.report(d.help("an aggregation's name begins with `@`"));
        };
        if agg.keys.is_some() {
            let message = format!("{func}() takes the whole aggregation: write @{} without a key", agg.name);
            return self.err(tag, e.span, message);
        }
        let id = self.agg_id(agg);
        self.agg_uses.push((id, bad, e.span, self.cx.region));
        Ok(id)
    }

    /// The aggregation of that name, made if it is new.
    pub(super) fn agg_id(&mut self, agg: &AggRef) -> AggId {
        if let Some(&id) = self.agg_names.get(&agg.name) {
            return id;
        }
        let id = AggId(self.aggs.len() as u32);
        self.aggs.push(AggInfo {
            name: agg.name.clone(),
            func: None,
            func_name: "",
            key: None,
            reset: false,
            wrong: false,
            span: agg.name_span,
        });
        self.agg_names.insert(agg.name.clone(), id);
        id
    }

    /// What can be said about aggregations only when the whole program is known.
    pub(super) fn finish_aggregations(&mut self) {
        for (id, tag, span, region) in std::mem::take(&mut self.agg_uses) {
            let info = &self.aggs[id.0 as usize];
            if info.func.is_none() && !info.wrong {
                let name = self.aggs[id.0 as usize].name.clone();
                let near =
                    probity_syntax::near(&name, self.aggs.iter().filter(|a| a.func.is_some()).map(|a| a.name.as_str()))
                        .map(|n| format!("@{n}"));
                let mut d = Diagnostic::error(tag, span, format!("nothing is ever aggregated in @{name}"));
                d.region = region;
                let _: Res<()> = self.report(match near {
                    Some(n) => d.suggest(span, n.clone(), format!("use `{n}`")),
                    None => d,
                });
            }
        }
        for p in std::mem::take(&mut self.printas) {
            self.cx.region = p.region;
            let _ = self.finish_printa(&p);
        }
    }

    fn key_of_agg(&self, id: AggId) -> Option<Vec<TypeId>> {
        self.aggs[id.0 as usize].key.clone()
    }

    fn finish_printa(&mut self, p: &PendingPrinta) -> Res<()> {
        let Some((&first, rest)) = p.aggs.split_first() else { return Ok(()) };
        let Some(key) = self.key_of_agg(first) else { return Ok(()) };
        let name = |c: &Self, id: AggId| format!("@{}", c.aggs[id.0 as usize].name);
        for &other in rest {
            let Some(theirs) = self.key_of_agg(other) else { return Ok(()) };
            let (a, b) = (name(self, first), name(self, other));
            if theirs.len() != key.len() {
                let message = format!(
                    "printa() needs aggregations with equal keys: {a} has {} members in its key, {b} has {}",
                    key.len(),
                    theirs.len()
                );
                return self.err(tags::D_PRINTA_AGGKEY, p.span, message);
            }
            for (i, (x, y)) in key.iter().zip(&theirs).enumerate() {
                let kind = |c: Class| std::mem::discriminant(&c);
                if kind(self.class(*x)) != kind(self.class(*y)) {
                    let message = format!(
                        "printa() needs aggregations with equal keys: member {} is `{}` in {a} and `{}` in {b}",
                        i + 1,
                        self.name(*x),
                        self.name(*y)
                    );
                    let line = |name: String| format!("{:>9} key #{}", name.trim_start_matches('@'), i + 1);
                    let d = Diagnostic::error(tags::D_PRINTA_AGGPROTO, p.span, message);
                    let d = d.fact(line(name(self, first)), self.fact_name(*x));
                    return self.report(d.fact(line(name(self, other)), self.fact_name(*y)));
                }
            }
        }
        let mut keys = key.iter();
        let mut number = 0;
        for (piece, (lo, hi)) in p.format.pieces.iter().zip(&p.spans) {
            let Piece::Conv(conv) = piece else { continue };
            number += 1;
            let at = Span::new(p.span.source, *lo, *hi);
            let shown = self.sources.text(at).to_string();
            let wanted = takes(conv);
            // As in DTrace, `*` takes a member of the key.
            for (is, what) in [(conv.width_arg, "width"), (conv.precision_arg, "precision")] {
                if !is {
                    continue;
                }
                let Some(&ty) = keys.next() else {
                    let message =
                        format!("conversion {number} (`{shown}`) of printa() has no member of the key for its {what}");
                    return self.err(tags::D_PRINTF_DYN_PROTO, at, message);
                };
                if !matches!(self.class(ty), Class::Int(..)) {
                    let message = format!(
                        "the {what} of conversion {number} (`{shown}`) must be an integer, not `{}`",
                        self.name(ty)
                    );
                    return self.err(tags::D_PRINTF_DYN_TYPE, at, message);
                }
            }
            if conv.agg {
                if wanted != Takes::Integer {
                    let message = format!(
                        "conversion {number} (`{shown}`) prints an aggregation's value: it must be one for integers"
                    );
                    return self.err(tags::D_PRINTF_ARG_TYPE, at, message);
                }
                continue;
            }
            let Some(&ty) = keys.next() else {
                let message = format!(
                    "conversion {number} (`{shown}`) of printa() has no member of the key: the key of {} has {}",
                    name(self, first),
                    key.len()
                );
                let d = Diagnostic::error(tags::D_PRINTF_ARG_PROTO, at, message);
                return self.report(d.help("print the aggregation's value with `%@d`"));
            };
            let fits = match self.class(ty) {
                Class::String => wanted == Takes::String,
                _ if super::stack::is_stack(&self.types, ty) => wanted == Takes::Stack,
                _ => wanted == Takes::Integer,
            };
            if !fits {
                let message = format!(
                    "conversion {number} (`{shown}`) takes {}, but that member of the key is of type `{}`",
                    wanted.words(),
                    self.name(ty)
                );
                let d = Diagnostic::error(tags::D_PRINTF_ARG_TYPE, at, message);
                return self.report(facts(d, Some(conv), &self.fact_name(ty)));
            }
        }
        Ok(())
    }
}

/// The conversion that each operand of a format belongs to.
fn taken(format: &Format) -> Vec<&Conversion> {
    let mut list = Vec::new();
    for piece in &format.pieces {
        if let Piece::Conv(conv) = piece {
            let operands = 1 + usize::from(conv.width_arg) + usize::from(conv.precision_arg);
            list.extend(std::iter::repeat_n(conv, operands));
        }
    }
    list
}

/// The lines of DTrace's layout about a conversion and its argument.
fn facts(d: Diagnostic, conv: Option<&Conversion>, argument: &str) -> Diagnostic {
    let Some(conv) = conv else { return d };
    let wanted = match (conv.letter, takes(conv)) {
        ('d' | 'i' | 'o' | 'u' | 'x' | 'X', _) => "char, short, int, long, or long long",
        ('c' | 'C', _) => "char, short, or int",
        (_, Takes::Integer) => "pointer or integer",
        (_, Takes::String) => "char [] or string (or use stringof)",
        (_, Takes::Float) => "float, double, or long double",
        (_, Takes::Stack) => "stack",
    };
    d.fact("conversion", format!("%{}", conv.letter)).fact("prototype", wanted).fact("argument", argument)
}

/// Whether a function as a statement of its own shows its value.
fn is_shown(name: &str) -> bool {
    let names = ["stack", "ustack", "jstack", "sym", "func", "mod", "usym", "ufunc", "umod", "uaddr"];
    names.contains(&name)
}
