//! Probe arguments whose type in D is another than the kernel's: what [`probity_ir::Arg::translated`] asks for.

use super::conv::Class;
use super::tree::*;
use super::{Checker, Res};
use probity_ir::Space;
use probity_syntax::{Span, tags};

/// The D type of arguments that are C strings.
const STRING: &str = "string";

impl Checker<'_> {
    /// An argument's value as a value of the type `to`.
    pub(super) fn translated(&mut self, value: TExpr, to: &str, span: Span) -> Res<TExpr> {
        if to == STRING {
            let space = match self.class(value.ty) {
                Class::Pointer(_, space) => space,
                _ => Space::Kernel,
            };
            self.needs_process(space, span)?;
            return Ok(self.read_str(value, space, span));
        }
        // A library's type, as D writes it.
        let plain = to.trim_end_matches(['*', ' ']);
        let named = match (self.typedefs.get(plain), plain) {
            (Some(&named), _) => named,
            (None, "int") => self.basic.int,
            _ if super::names::INT_TYPES.iter().any(|t| t.0 == plain) => self.named_int(plain),
            _ => {
                let message = format!("this argument is a `{to}`, which no library that is loaded defines");
                return self.err(tags::D_ARGS_XLATOR, span, message);
            }
        };
        let stars = to.matches('*').count();
        let wanted = (0..stars).fold(named, |ty, _| self.types.pointer(ty, Space::Kernel));
        match self.class_complete(named) {
            Class::Struct => self.translate(wanted, span, value, span),
            _ => self.cast(wanted, false, value, span),
        }
    }
}
