//! `provider p { probe n(T a) : (U b); … };`: declarations of a program's own probes. Owns their rules; what they say of arguments
//! is used where such probes are found in a process.

use super::conv::Class;
use super::{Checker, Res};
use probity_ir::TypeId;
use probity_syntax::ast;
use probity_syntax::{Diagnostic, Span, tags};
use std::collections::HashMap;

/// No provider's or probe's name is longer.
const LONGEST: usize = 63;

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
            let Some(translated) = &probe.translated else { continue };
            let types = self.probe_args(translated)?;
            for (i, (arg, ty)) in translated.iter().zip(types).enumerate() {
                // Without a name an argument stands for the one in its own place.
                let from = match &arg.declarator.name {
                    Some(wanted) => probe.native.iter().zip(&native).find_map(|(n, ty)| {
                        n.declarator.name.as_ref().is_some_and(|n| n.text == wanted.text).then_some(*ty)
                    }),
                    None => native.get(i).copied(),
                };
                let Some(from) = from else {
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
            }
        }
        Ok(())
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
