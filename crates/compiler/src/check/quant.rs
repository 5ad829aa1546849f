//! Aggregating functions: their arguments, the bounds of the quantizing ones, and that all uses of an aggregation agree.

use super::conv::Class;
use super::names::{FuncKind, function};
use super::tree::*;
use super::{Checker, Res};
use probity_ir::AggFunc;
use probity_syntax::ast::{AggRef, Expr, ExprKind};
use probity_syntax::{Diagnostic, Span, tags};

impl Checker<'_> {
    /// `@a[keys] = f(args)`
    pub(super) fn aggregate_stmt(&mut self, agg: &AggRef, value: &Expr, span: Span) -> Res<TStmtKind> {
        let shown = format!("@{}", agg.name);
        let ExprKind::Call { name, args } = &value.kind else {
            let d = Diagnostic::error(
                tags::D_AGG_FUNC,
                value.span,
                format!("{shown} can only be assigned the result of an aggregating function"),
            );
            return self.report(
                d.help("the functions are count, sum, min, max, avg, stddev, quantize, lquantize and llquantize"),
            );
        };
        let Some(func) = function(&name.text) else { return self.no_function(name) };
        if func.kind != FuncKind::Aggregating {
            let message = format!("`{}` is no aggregating function, so it cannot be assigned to {shown}", func.name);
            return self.err(tags::D_AGG_FUNC, value.span, message);
        }
        self.count_args(&func, args.len(), value.span)?;

        let mut key = Vec::new();
        for e in agg.keys.iter().flatten() {
            if let ExprKind::Aggregation(inner) = &e.kind {
                let message = format!("the aggregation @{} cannot be a member of a key", inner.name);
                return self.err(tags::D_KEY_TYPE, e.span, message);
            }
            if let ExprKind::Call { name, .. } = &e.kind
                && function(&name.text).is_some_and(|f| f.kind == FuncKind::Action)
            {
                let message = format!("the action {}() has no value and cannot be a member of a key", name.text);
                return self.err(tags::D_KEY_TYPE, e.span, message);
            }
            let member = self.expr(e)?;
            if matches!(member.kind, TKind::Xlated { .. }) {
                let message = format!(
                    "translated data (`{}`) cannot be a member of a key, only its members can",
                    self.name(member.ty)
                );
                return self.err(tags::D_KEY_TYPE, e.span, message);
            }
            key.push(member);
        }
        let types = self.key_types(&key, &shown)?;

        let mut values = Vec::new();
        for (i, e) in args.iter().enumerate() {
            let e = self.expr(e)?;
            if i == 0 && !self.is_int(&e) {
                let message = format!("argument 1 of {}() must be an integer, not `{}`", func.name, self.name(e.ty));
                return self.err(tags::D_AGG_SCALAR, e.span, message);
            }
            values.push(e);
        }
        let (kind, values) = self.agg_func(func.name, values, value.span)?;

        let id = self.agg_id(agg);
        let info = self.aggs[id.0 as usize].clone();
        match info.func {
            None => {
                let info = &mut self.aggs[id.0 as usize];
                (info.func, info.func_name) = (Some(kind), func.name);
                info.key = Some(types.clone());
                info.span = span;
            }
            Some(before) => self.same_func(&shown, before, info.func_name, kind, func.name, info.span, span)?,
        }
        let types = self.aggs[id.0 as usize].key.clone().unwrap_or(types);
        let key = self.fit_key(key, &types, false, &shown, agg.name_span)?;
        Ok(TStmtKind::Aggregate { agg: id, key, args: values })
    }

    #[allow(clippy::too_many_arguments)]
    fn same_func(
        &mut self,
        shown: &str,
        before: AggFunc,
        before_name: &str,
        now: AggFunc,
        now_name: &str,
        at: Span,
        span: Span,
    ) -> Res<()> {
        if before_name != now_name {
            let message = format!("{shown} is an aggregation by {before_name}() and cannot be one by {now_name}() too");
            let d = Diagnostic::error(tags::D_AGG_REDEF, span, message);
            return self.report(d.note(at, format!("{before_name}() was used here")));
        }
        let differs: [(i64, i64, &'static str, &str); 4] = match (before, now) {
            (AggFunc::Lquantize { low: a, high: b, step: c }, AggFunc::Lquantize { low: x, high: y, step: z }) => [
                (a.into(), x.into(), tags::D_LQUANT_MATCHBASE, "lower bound"),
                (b.into(), y.into(), tags::D_LQUANT_MATCHLIM, "upper bound"),
                (c.into(), z.into(), tags::D_LQUANT_MATCHSTEP, "step"),
                (0, 0, "", ""),
            ],
            (
                AggFunc::Llquantize { factor: a, low: b, high: c, steps: d },
                AggFunc::Llquantize { factor: x, low: y, high: z, steps: w },
            ) => [
                (a.into(), x.into(), tags::D_LLQUANT_MATCHFACTOR, "factor"),
                (b.into(), y.into(), tags::D_LLQUANT_MATCHLMAG, "low magnitude"),
                (c.into(), z.into(), tags::D_LLQUANT_MATCHHMAG, "high magnitude"),
                (d.into(), w.into(), tags::D_LLQUANT_MATCHSTEPS, "number of steps"),
            ],
            _ => return Ok(()),
        };
        for (was, is, tag, what) in differs {
            if was != is {
                let message = format!("{shown} has another {what} here ({is}) than before ({was})");
                let d = Diagnostic::error(tag, span, message);
                return self.report(d.note(at, "it was first used here"));
            }
        }
        Ok(())
    }

    /// A function with its constants, and the arguments that are left: value and weight.
    fn agg_func(&mut self, name: &'static str, args: Vec<TExpr>, span: Span) -> Res<(AggFunc, Vec<TExpr>)> {
        let long = self.basic.long;
        let mut args = args.into_iter();
        let value = args.next().map(|v| self.convert(v, long));
        let constants = match name {
            "lquantize" => 3,
            "llquantize" => 4,
            _ => 0,
        };
        let bounds: Vec<TExpr> = args.by_ref().take(constants).collect();
        let mut kept: Vec<TExpr> = value.into_iter().collect();
        if let Some(weight) = args.next() {
            if !matches!(self.class(weight.ty), Class::Int(..)) {
                let message = format!("the weight of {name}() must be an integer, not `{}`", self.name(weight.ty));
                return self.err(tags::D_PROTO_ARG, weight.span, message);
            }
            kept.push(self.convert(weight, long));
        }
        let func = match name {
            "count" => AggFunc::Count,
            "sum" => AggFunc::Sum,
            "min" => AggFunc::Min,
            "max" => AggFunc::Max,
            "avg" => AggFunc::Avg,
            "stddev" => AggFunc::Stddev,
            "quantize" => AggFunc::Quantize,
            "lquantize" => self.lquantize(&bounds, span)?,
            _ => self.llquantize(&bounds, span)?,
        };
        Ok((func, kept))
    }

    fn bound(&mut self, e: &TExpr, tag: &'static str, what: &str) -> Res<i64> {
        match self.constant(e).filter(|_| self.is_int(e)) {
            Some(v) => Ok(v),
            None => self.err(tag, e.span, format!("{what} must be an integer constant")),
        }
    }

    fn lquantize(&mut self, bounds: &[TExpr], span: Span) -> Res<AggFunc> {
        let [low, high, step @ ..] = bounds else { return Err(super::Reported) };
        let base = self.bound(low, tags::D_LQUANT_BASETYPE, "the lower bound of lquantize()")?;
        let Ok(base) = i32::try_from(base) else {
            return self.err(tags::D_LQUANT_BASEVAL, low.span, "the lower bound of lquantize() must fit 32 bits");
        };
        let limit = self.bound(high, tags::D_LQUANT_LIMTYPE, "the upper bound of lquantize()")?;
        let Ok(limit) = i32::try_from(limit) else {
            return self.err(tags::D_LQUANT_LIMVAL, high.span, "the upper bound of lquantize() must fit 32 bits");
        };
        if limit <= base {
            let message = "the lower bound of lquantize() must be below its upper bound";
            return self.err(tags::D_LQUANT_MISMATCH, span, message);
        }
        let step = match step.first() {
            None => 1,
            Some(e) => {
                let what = "the step of lquantize() must be a positive integer constant";
                let Some(v) = self.constant(e).filter(|v| *v > 0 && self.is_int(e)) else {
                    return self.err(tags::D_LQUANT_STEPTYPE, e.span, what);
                };
                match u16::try_from(v) {
                    Ok(v) => v,
                    Err(_) => {
                        return self.err(tags::D_LQUANT_STEPVAL, e.span, "the step of lquantize() must fit 16 bits");
                    }
                }
            }
        };
        let levels = (i64::from(limit) - i64::from(base)) / i64::from(step);
        if levels == 0 {
            let message = "the step of lquantize() is larger than the range: there would be no bucket";
            return self.err(tags::D_LQUANT_STEPLARGE, span, message);
        }
        if levels > i64::from(u16::MAX) {
            let message =
                format!("the step of lquantize() is too small: it would make {levels} buckets, the most is 65535");
            return self.err(tags::D_LQUANT_STEPSMALL, span, message);
        }
        Ok(AggFunc::Lquantize { low: base, high: limit, step })
    }

    fn llquantize(&mut self, bounds: &[TExpr], span: Span) -> Res<AggFunc> {
        let [factor, low, high, steps @ ..] = bounds else { return Err(super::Reported) };
        let fits = |v: i64| u16::try_from(v).ok();
        let f = self.bound(factor, tags::D_LLQUANT_FACTORTYPE, "the factor of llquantize()")?;
        let Some(f) = fits(f).filter(|f| *f >= 2) else {
            return self.err(tags::D_LLQUANT_FACTORVAL, factor.span, "the factor of llquantize() must be 2 to 65535");
        };
        let l = self.bound(low, tags::D_LLQUANT_LMAGTYPE, "the low magnitude of llquantize()")?;
        let Some(l) = fits(l) else {
            return self.err(tags::D_LLQUANT_LMAGVAL, low.span, "the low magnitude of llquantize() must be 0 to 65535");
        };
        let h = self.bound(high, tags::D_LLQUANT_HMAGTYPE, "the high magnitude of llquantize()")?;
        let Some(h) = fits(h) else {
            return self.err(
                tags::D_LLQUANT_HMAGVAL,
                high.span,
                "the high magnitude of llquantize() must be 0 to 65535",
            );
        };
        if h < l {
            let message = "the high magnitude of llquantize() must not be below the low one";
            return self.err(tags::D_LLQUANT_HMAGVAL, high.span, message);
        }
        if u64::from(f).checked_pow(u32::from(h) + 1).is_none() {
            let message = format!(
                "the high magnitude of llquantize() is too high: {f} to the power of {} does not fit 64 bits",
                u32::from(h) + 1
            );
            return self.err(tags::D_LLQUANT_HMAGVAL, high.span, message);
        }
        let s = match steps.first() {
            None => f,
            Some(e) => {
                let Some(v) = self.constant(e).filter(|v| *v > 0 && self.is_int(e)) else {
                    let message = "the number of steps of llquantize() must be a positive integer constant";
                    return self.err(tags::D_LLQUANT_STEPTYPE, e.span, message);
                };
                match fits(v) {
                    Some(v) => v,
                    None => {
                        return self.err(
                            tags::D_LLQUANT_STEPVAL,
                            e.span,
                            "the number of steps of llquantize() must fit 16 bits",
                        );
                    }
                }
            }
        };
        // The buckets must tile each magnitude without remainder.
        let at = steps.first().map_or(span, |e| e.span);
        if s < f && f % s != 0 {
            let message =
                format!("the number of steps of llquantize() ({s}) must divide the factor ({f}) where it is less");
            return self.err(tags::D_LLQUANT_STEPVAL, at, message);
        }
        if s > f {
            if s % f != 0 {
                let message = format!(
                    "the number of steps of llquantize() ({s}) must be a multiple of the factor ({f}) where it is more"
                );
                return self.err(tags::D_LLQUANT_STEPVAL, at, message);
            }
            let power = if l == 0 { 2 } else { u32::from(l) + 1 };
            let whole = u128::from(f).checked_pow(power).unwrap_or(0);
            if whole % u128::from(s) != 0 {
                let message =
                    format!("the number of steps of llquantize() ({s}) must divide {f} to the power of {power}");
                return self.err(tags::D_LLQUANT_STEPVAL, at, message);
            }
        }
        Ok(AggFunc::Llquantize { factor: f, low: l, high: h, steps: s })
    }
}
