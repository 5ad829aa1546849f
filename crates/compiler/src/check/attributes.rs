//! Attributes: `#pragma D attributes` and `binding` must speak of something, and with `amin` every clause must be as stable as that.

use super::tree::*;
use super::{Checker, Res, Variant};
use crate::bind::Bound;
use probity_ir::{Builtin, Space};
use probity_syntax::ast::{Item, PragmaKind};
use probity_syntax::attributes::Attributes;
use probity_syntax::{Diagnostic, Span, tags};

impl Checker<'_> {
    /// Reports pragmas about names that nothing defines.
    pub(super) fn unused_pragmas(&mut self, items: &[Item]) {
        for item in items {
            let Item::Pragma(pragma) = item else { continue };
            let (what, name) = match &pragma.kind {
                PragmaKind::Attributes { subject, .. } => match &subject[..] {
                    [name] => ("attributes", name),
                    _ => continue,
                },
                PragmaKind::Binding { name, .. } => ("binding", name),
                _ => continue,
            };
            let text = name.text.as_str();
            let own = text == "translator"
                || self.globals.contains_key(text)
                || self.inlines.get(text).is_some_and(|i| !self.of_library(i.span));
            if own {
                continue;
            }
            let foreign = super::names::VARIABLES.contains(&text)
                || super::names::function(text).is_some()
                || crate::library::defines(text);
            let (tag, message) = match foreign {
                true => (
                    tags::D_PRAGMA_SCOPE,
                    format!("`#pragma D {what}` cannot change `{text}`, which the program does not define"),
                ),
                false => (tags::D_PRAGMA_UNUSED, format!("`#pragma D {what}` is for `{text}`, which nothing defines")),
            };
            let _: Res<()> = self.report(Diagnostic::error(tag, pragma.span, message));
        }
    }

    /// Reports a clause whose probes are less stable than the option `amin` asks for.
    pub(super) fn stable_probes(&mut self, variant: &Variant, bound: &Bound, span: Span) -> Res<()> {
        let mut has = Attributes::STABLE;
        if self.options.amin.is_some() {
            for &probe in variant.layers.iter().flatten() {
                has = has.min(self.env.attributes(&bound.probes[probe].probe));
            }
        }
        self.enough(has, "the clause's probes", span)
    }

    /// Reports a clause that is less stable than the option `amin` asks for, because it looks into the kernel.
    pub(super) fn stable_code(&mut self, variant: &Variant, span: Span) -> Res<()> {
        let looks = self.options.amin.is_some() && uses_kernel(variant);
        self.enough(if looks { Attributes::PRIVATE } else { Attributes::STABLE }, "the clause's code", span)
    }

    fn enough(&mut self, has: Attributes, what: &str, span: Span) -> Res<()> {
        match self.options.amin {
            Some(least) if !has.covers(least) => {
                let message = format!("the attributes of {what} ({has}) are less than `amin` asks for ({least})");
                let end = Span { lo: span.hi.saturating_sub(1), ..span };
                self.report(Diagnostic::error(tags::D_ATTR_MIN, span, message).dtrace_at(end))
            }
            _ => Ok(()),
        }
    }
}

/// Whether a clause looks into the kernel by the kernel's own names.
fn uses_kernel(variant: &Variant) -> bool {
    let looks = |e: &TExpr| {
        e.any(&mut |e| matches!(e.kind, TKind::Object(_, Space::Kernel, _) | TKind::Builtin(Builtin::CurThread)))
    };
    fn any(stmts: &[TStmt], looks: &dyn Fn(&TExpr) -> bool) -> bool {
        stmts.iter().any(|s| {
            crate::lower::exprs_of(s).into_iter().any(looks)
                || matches!(&s.kind, TStmtKind::If(_, a, b) if any(a, looks) || any(b, looks))
        })
    }
    variant.predicate.as_ref().is_some_and(looks) || any(&variant.body, &looks)
}
