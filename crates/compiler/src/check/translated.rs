//! Probe arguments whose type in D is another than the kernel's: what [`probity_ir::Arg::translated`] asks for.

use super::conv::Class;
use super::tree::*;
use super::{Checker, Res};
use probity_ir::Space;
use probity_syntax::Span;

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
        self.unsupported(span, &format!("arguments of type `{to}` are"))
    }
}
