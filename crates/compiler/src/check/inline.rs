//! Inlines: `inline T n = e;` and `inline T f[T a, T b] = e;`. An inline stands for its expression, checked anew where it is used,
//! because what it says of a probe's arguments depends on the probe; its parameters are evaluated once.

use super::tree::*;
use super::{Checker, Res, xlate};
use probity_ir::TypeId;
use probity_syntax::ast::{self, Derivation, Expr};
use probity_syntax::{Diagnostic, Span, tags};

/// The parameters of an inline that has some.
pub(super) fn params(inline: &ast::Inline) -> Option<&[ast::Param]> {
    match inline.declarator.derivations.last() {
        Some(Derivation::Tuple(params)) => Some(params),
        _ => None,
    }
}

impl<'a> Checker<'a> {
    /// Defines an inline.
    pub(super) fn inline(&mut self, inline: &'a ast::Inline) -> Res<()> {
        let Some(name) = &inline.declarator.name else { return Ok(()) };
        let known = self.inlines.get(&name.text).filter(|known| !self.of_library(known.span));
        if super::names::function(&name.text).is_some()
            || super::names::VARIABLES.contains(&name.text.as_str())
            || known.is_some()
            || self.globals.contains_key(&name.text)
        {
            let at = known.map(|known| known.span);
            let previous = match known {
                Some(_) => "scalar inline",
                None if super::names::function(&name.text).is_some() => "function ",
                None => "scalar ",
            };
            let d = Diagnostic::error(tags::D_DECL_IDRED, name.span, format!("`{}` is declared already", name.text))
                .fact("current", "inline definition")
                .fact("previous", previous);
            return self.report(match at {
                Some(at) => d.note(at, "it was declared here"),
                None => d,
            });
        }
        // Its value is checked here for what does not depend on the probe, and again at each use.
        let outside = std::mem::replace(&mut self.cx, super::Cx { in_clause: true, ..super::Cx::default() });
        let mut frame = Vec::new();
        let mut result = Ok(());
        for p in params(inline).unwrap_or_default() {
            match (self.param_type(p), &p.declarator.name) {
                (Ok(ty), Some(name)) => {
                    let value = self.unknown(ty, p.span);
                    frame.push((name.text.clone(), value));
                }
                (Ok(_), None) => {
                    let message = "a parameter of an inline needs a name";
                    result = self.err(tags::D_DECL_PROTO_NAME, p.span, message);
                }
                (Err(r), _) => result = Err(r),
            }
        }
        self.frames.push(frame);
        let value = match result {
            Ok(()) => self.inline_value(inline),
            Err(r) => Err(r),
        };
        self.frames.pop();
        self.cx = outside;
        // What it says of arguments is known only where it is used; that is no mistake here.
        let _ = value;
        self.inlines.insert(name.text.clone(), inline);
        Ok(())
    }

    fn param_type(&mut self, p: &ast::Param) -> Res<TypeId> {
        let base = self.specs(&p.specs)?;
        self.derive(base, &p.declarator.derivations, p.span)
    }

    fn inline_value(&mut self, inline: &'a ast::Inline) -> Res<TExpr> {
        let derivations = &inline.declarator.derivations;
        let derivations =
            if params(inline).is_some() { &derivations[..derivations.len() - 1] } else { &derivations[..] };
        let base = self.specs(&inline.specs)?;
        let ty = self.derive(base, derivations, inline.span)?;
        let value = self.expr(&inline.value)?;
        let from = value.ty;
        match self.assign_to(ty, value)? {
            Some(value) => Ok(value),
            None => self.incompatible(inline.value.span, ty, "=", from),
        }
    }

    /// What an inline's name, with its arguments, stands for.
    pub(super) fn expand_inline(&mut self, inline: &'a ast::Inline, args: Option<&[Expr]>, span: Span) -> Res<TExpr> {
        if self.inline_depth >= xlate::DEPTH {
            return self.err(tags::D_UNKNOWN, span, "inline definitions use each other without end");
        }
        let shown = inline.declarator.name.as_ref().map_or("", |n| n.text.as_str());
        let params = params(inline);
        let (frame, holds) = match (params, args) {
            (None, _) => (Vec::new(), Vec::new()),
            (Some(params), Some(args)) => self.arguments(shown, params, args, span)?,
            (Some(params), None) => {
                let names: Vec<&str> =
                    params.iter().map(|p| p.declarator.name.as_ref().map_or("…", |n| n.text.as_str())).collect();
                let message = format!("`{shown}` needs arguments: `{shown}[{}]`", names.join(", "));
                return self.err(tags::D_IDENT_BADREF, span, message);
            }
        };
        self.inline_depth += 1;
        self.frames.push(frame);
        let value = self.inline_value(inline);
        self.frames.pop();
        self.inline_depth -= 1;
        // Mistakes in it were reported where it was defined; here it stands for its value.
        let mut value = TExpr { span, ..value? };
        for held in holds.into_iter().rev() {
            value = self.holding(Some(held), value);
        }
        Ok(value)
    }

    /// The arguments of an inline, bound to its parameters, and those of them that are held.
    #[allow(clippy::type_complexity)]
    fn arguments(
        &mut self,
        shown: &str,
        params: &'a [ast::Param],
        args: &[Expr],
        span: Span,
    ) -> Res<(Vec<(String, TExpr)>, Vec<(u32, TExpr)>)> {
        if params.len() != args.len() {
            let s = if params.len() == 1 { "" } else { "s" };
            let message = format!("`{shown}` takes {} argument{s}, not {}", params.len(), args.len());
            return self.err(tags::D_PROTO_LEN, span, message);
        }
        let (mut frame, mut holds) = (Vec::new(), Vec::new());
        for (i, (p, arg)) in params.iter().zip(args).enumerate() {
            let value = self.expr(arg)?;
            let ty = self.param_type(p)?;
            let from = value.ty;
            let Some(value) = self.assign_to(ty, value)? else {
                let message = format!(
                    "argument {} of `{shown}` must be a `{}`, not a `{}`",
                    i + 1,
                    self.name(ty),
                    self.name(from)
                );
                return self.err(tags::D_PROTO_ARG, arg.span, message);
            };
            let (held, value) = self.held(value);
            holds.extend(held);
            if let Some(name) = &p.declarator.name {
                frame.push((name.text.clone(), value));
            }
        }
        Ok((frame, holds))
    }

    /// What the innermost translator or inline binds a name to.
    pub(super) fn bound_name(&self, name: &str) -> Option<TExpr> {
        self.frames.last()?.iter().find(|(bound, _)| bound == name).map(|(_, value)| value.clone())
    }
}
