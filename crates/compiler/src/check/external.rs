//! What a program declares but does not have: functions, and `extern` names of types that no variable of D can have. They
//! come from C headers (`-C` with `#include`) and may be declared; using one is the mistake.

use super::conv::Class;
use super::{Checker, Res};
use probity_ir::TypeId;
use probity_syntax::ast::{self, Derivation, Storage};
use probity_syntax::{Diagnostic, Span, tags};

/// Larger arrays are no variables here; declared `extern`, they need not be any.
const LARGEST: u64 = 16 << 20;

impl Checker<'_> {
    /// Takes in a declaration of a function, or of something that is defined elsewhere; `false` where it declares a variable.
    pub(super) fn external(
        &mut self,
        base: TypeId,
        storage: Option<Storage>,
        declarator: &ast::Declarator,
        name: &ast::Name,
    ) -> Res<bool> {
        let function = matches!(declarator.derivations.last(), Some(Derivation::Function { .. }));
        if !matches!(storage, None | Some(Storage::Extern | Storage::Static))
            || storage == Some(Storage::Static) && !function
        {
            return Ok(false);
        }
        if !function {
            if storage != Some(Storage::Extern) || matches!(declarator.derivations.last(), Some(Derivation::Tuple(_))) {
                return Ok(false);
            }
            let ty = self.derive(base, &declarator.derivations, declarator.span)?;
            let usual = match self.class_complete(ty) {
                Class::Int(..) | Class::Pointer(..) | Class::String | Class::Struct | Class::Void => true,
                Class::Array(_, len) => len > 0 && self.types.size(ty).is_some_and(|n| n <= LARGEST),
                _ => false,
            };
            if usual {
                return Ok(false);
            }
        } else {
            self.derive(base, &declarator.derivations, declarator.span)?;
        }
        self.externals.insert(name.text.clone(), (name.span, function));
        Ok(true)
    }

    /// Says why a declared name cannot be used; `None` where it is not one of these.
    pub(super) fn external_used(&mut self, name: &str, span: Span) -> Option<Diagnostic> {
        let &(at, function) = self.externals.get(name)?;
        Some(if function {
            Diagnostic::error(tags::D_FUNC_UNDEF, span, format!("`{name}` is a C function: D cannot call it"))
                .note(at, "it is declared here")
        } else {
            Diagnostic::error(tags::D_IDENT_UNDEF, span, format!("`{name}` is declared, but it is defined nowhere"))
                .note(at, "it is declared here")
        })
    }
}
