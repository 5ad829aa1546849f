//! `provider p { probe n(T a) : (U b); … };`: declarations of a program's own probes. Owns their rules; what they say of arguments
//! goes before what the probe's own signature says.

use super::conv::Class;
use super::tree::*;
use super::{Checker, Res};
use probity_ir::{ProbeDesc, Space, TypeId};
use probity_syntax::ast;
use probity_syntax::{Diagnostic, Span, tags};
use std::collections::HashMap;

/// No provider's or probe's name is longer.
const LONGEST: usize = 63;

/// An argument of a declared probe: which of the native ones it is, that one's type, and the type that D sees if another.
#[derive(Clone, Copy, Debug)]
pub(super) struct Declared {
    native: u32,
    ty: TypeId,
    translated: Option<TypeId>,
}

/// What a probe is declared by: the provider without the process's number, and the name.
pub(super) fn key(probe: &ProbeDesc) -> (String, String) {
    let provider = probe.provider.trim_end_matches(|c: char| c.is_ascii_digit());
    (provider.to_string(), probe.name.clone())
}

impl<'a> Checker<'a> {
    pub(super) fn provider(&mut self, p: &'a ast::ProviderDecl) -> Res<()> {
        let name = &p.name.text;
        // A process's number is appended to it.
        if name.len() > LONGEST || name.ends_with(|c: char| c.is_ascii_digit()) {
            let message =
                format!("`{name}` is no name for a provider: it must not end in a digit or be longer than {LONGEST}");
            return self.err(tags::D_PROV_BADNAME, p.name.span, message);
        }
        let mut seen: HashMap<&str, Span> = HashMap::new();
        for probe in &p.probes {
            if probe.name.text.len() > LONGEST {
                let message = format!("the name of probe `{}` is longer than {LONGEST}", probe.name.text);
                return self.err(tags::D_PROV_BADNAME, probe.name.span, message);
            }
            if let Some(at) = seen.insert(&probe.name.text, probe.name.span) {
                let message = format!("provider `{name}` has a probe `{}` already", probe.name.text);
                let d = Diagnostic::error(tags::D_PROV_PRDUP, probe.name.span, message);
                return self.report(d.note(at, "it was declared here"));
            }
            let native = self.probe_args(&probe.native)?;
            let mut args: Vec<Declared> =
                native.iter().enumerate().map(|(n, &ty)| Declared { native: n as u32, ty, translated: None }).collect();
            let key = (name.clone(), probe.name.text.replace("__", "-"));
            let Some(translated) = &probe.translated else {
                self.declared_probes.insert(key, args);
                continue;
            };
            let types = self.probe_args(translated)?;
            args.clear();
            for (i, (arg, ty)) in translated.iter().zip(types).enumerate() {
                let Some(wanted) = &arg.declarator.name else {
                    let message = format!("argument {} of probe `{}` needs a name", i + 1, probe.name.text);
                    let d = Diagnostic::error(tags::D_DECL_PROTO_NAME, arg.span, message);
                    return self.report(d.help("it is the name of the native argument that it is translated from"));
                };
                let named = |n: &ast::Param| n.declarator.name.as_ref().is_some_and(|n| n.text == wanted.text);
                let place = probe.native.iter().position(named);
                let Some((place, &from)) = place.and_then(|at| Some((at, native.get(at)?))) else {
                    let message =
                        format!("argument {} of probe `{}` stands for none of the native ones", i + 1, probe.name.text);
                    return self.err(tags::D_PROV_PRARGLEN, arg.span, message);
                };
                let value = self.unknown(from, arg.span);
                let fits = self.same_type(from, ty) || matches!(self.assign_to(ty, value.clone()), Ok(Some(_)));
                if !fits && self.translate(ty, arg.span, value, arg.span).is_err() {
                    let message = format!(
                        "argument {} of probe `{}` cannot be a `{}`: no translator makes one of a `{}`",
                        i + 1,
                        probe.name.text,
                        self.name(ty),
                        self.name(from)
                    );
                    self.diags.pop();
                    return self.err(tags::D_PROV_PRXLATOR, arg.span, message);
                }
                args.push(Declared { native: place as u32, ty: from, translated: Some(ty) });
            }
            self.declared_probes.insert(key, args);
        }
        Ok(())
    }

    /// `args[n]` of a probe that the program declares; `None` where it declares no such probe.
    pub(super) fn declared_arg(&mut self, probe: &ProbeDesc, n: i64, span: Span) -> Option<Res<TExpr>> {
        let args = self.declared_probes.get(&key(probe))?;
        let count = args.len();
        let Some(Declared { native, ty, translated }) = usize::try_from(n).ok().and_then(|n| args.get(n)).copied()
        else {
            let message = format!("args[{n}] does not exist: probe {probe} has {count} by its declaration");
            return Some(self.err(tags::D_ARGS_IDX, span, message));
        };
        Some(self.raw_arg(native, span).and_then(|raw| {
            let value = match self.class(ty) {
                Class::String => {
                    self.needs_process(Space::User, span)?;
                    self.read_str(raw, Space::User, span)
                }
                // What a program passes by pointer is in its own memory.
                _ => self.cast(ty, true, raw, span)?,
            };
            match translated {
                None => Ok(value),
                Some(to) if self.same_type(to, ty) => Ok(TExpr { ty: to, ..value }),
                Some(to) => match self.class(to) {
                    Class::Int(..) | Class::String => self.cast(to, false, value, span),
                    _ => self.translate(to, span, value, span),
                },
            }
        }))
    }

    fn probe_args(&mut self, params: &[ast::Param]) -> Res<Vec<TypeId>> {
        let mut types = Vec::new();
        for p in params {
            let base = self.specs(&p.specs)?;
            let ty = self.derive(base, &p.declarator.derivations, p.span)?;
            if self.class(ty) == Class::Void {
                return self.err(tags::D_DECL_PROTO_VOID, p.span, "`void` is no type of an argument");
            }
            types.push(ty);
        }
        Ok(types)
    }
}
