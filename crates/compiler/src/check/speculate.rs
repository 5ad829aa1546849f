//! What may stand with what in a clause that speculates, commits or discards; and destructive actions, which are barred there.

use super::tree::*;
use super::{Checker, Res};
use probity_syntax::ast::Expr;
use probity_syntax::{Diagnostic, Span, tags};

/// What the statements of a clause have done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Done {
    /// Recorded data.
    data: bool,
    /// Aggregated.
    aggregated: bool,
    /// `commit()`
    committed: bool,
    /// `speculate()`, to the end of its block.
    speculating: bool,
}

impl Done {
    /// After a branch: what either side did; but speculating ends with the block that it began in.
    pub fn after_branch(self, a: Done, b: Done) -> Done {
        Done {
            data: a.data | b.data,
            aggregated: a.aggregated | b.aggregated,
            committed: a.committed | b.committed,
            speculating: self.speculating,
        }
    }
}

impl Checker<'_> {
    /// `speculate(id)`
    pub(super) fn speculate(&mut self, id: &Expr, span: Span) -> Res<TAction> {
        let done = self.cx.done;
        if done.speculating {
            return self.err(tags::D_SPEC_SPEC, span, "a clause can speculate() only once");
        }
        if done.committed {
            return self.err(tags::D_SPEC_COMM, span, "speculate() cannot follow commit() in one clause");
        }
        if done.data || done.aggregated {
            let d = Diagnostic::error(
                tags::D_SPEC_DREC,
                span,
                "speculate() must come before everything that records data in its clause",
            );
            return self
                .report(d.help("what is recorded before it is not part of the speculation: use a clause of its own"));
        }
        self.cx.done.speculating = true;
        self.speculates = true;
        Ok(TAction::Speculate(self.integer_arg(id, "speculate", 0)?))
    }

    /// `commit(id)`
    pub(super) fn commit(&mut self, id: &Expr, span: Span) -> Res<TAction> {
        let done = self.cx.done;
        if done.data || done.aggregated {
            let d =
                Diagnostic::error(tags::D_COMM_DREC, span, "commit() cannot follow what records data in its clause");
            return self.report(d.help("commit in a clause of its own"));
        }
        self.cx.done.committed = true;
        self.speculates = true;
        Ok(TAction::Commit(self.integer_arg(id, "commit", 0)?))
    }

    /// Notes an action that the consumer carries out.
    pub(super) fn recording(&mut self, name: &str, span: Span) -> Res<()> {
        if self.cx.done.speculating && name == "exit" {
            return self.err(tags::D_EXIT_SPEC, span, "exit() cannot follow speculate(): it is never speculative");
        }
        if self.cx.done.committed {
            let message = format!("{name}() cannot follow commit() in one clause");
            let d = Diagnostic::error(tags::D_DREC_COMM, span, message);
            return self.report(d.help("record in a clause of its own"));
        }
        self.cx.done.data = true;
        Ok(())
    }

    /// Notes an aggregation.
    pub(super) fn aggregating(&mut self, span: Span) -> Res<()> {
        if self.cx.done.committed {
            return self.err(tags::D_AGG_COMM, span, "nothing can be aggregated after commit() in one clause");
        }
        if self.cx.done.speculating {
            let d = Diagnostic::error(
                tags::D_AGG_SPEC,
                span,
                "nothing can be aggregated after speculate(): it is not undone",
            );
            return self.report(d.help("aggregate in a clause of its own"));
        }
        self.cx.done.aggregated = true;
        Ok(())
    }

    /// Notes an action or subroutine that changes the system, which needs `-w` and is never speculative.
    pub(super) fn destructive(&mut self, name: &str, span: Span) -> Res<()> {
        self.destructive.get_or_insert(span);
        if self.cx.done.speculating {
            let message = format!("{name}() cannot follow speculate(): what it does is not undone");
            return self.err(tags::D_ACT_SPEC, span, message);
        }
        Ok(())
    }
}
