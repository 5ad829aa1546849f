//! Clauses of our own beside the program's: those that keep the arguments of all processes, where a program asks for another
//! process's (`lib/psargs.d`). Owns finding that out, from the text alone: no type is known yet.
//!
//! A clause whose text is a library's is one of these: no other library may have any.

use crate::bind::{visit, visit_block};
use crate::env::Env;
use crate::expand::Expanded;
use crate::library;
use probity_ir::{ArrayId, ProbeDesc, UnitId, Upkeep};
use probity_syntax::ast::{Expr, ExprKind, Item, ProbeSpecKind};
use probity_syntax::{Diagnostic, Origin, Sources, Span};

/// The library's text.
const TEXT: &str = include_str!("../lib/psargs.d");
/// Its array.
const ARRAY: &str = "_args";

/// Adds the clauses and what they use, if the program needs them.
pub(crate) fn add(program: &mut Expanded, env: &dyn Env, diags: &mut Vec<Diagnostic>) {
    if !program.libraries.iter().chain(&program.items).any(wants) {
        return;
    }
    let mut items = Vec::new();
    library::read("psargs.d", TEXT, &mut items, &mut program.sources, env, diags);
    let (clauses, others): (Vec<Item>, Vec<Item>) = items.into_iter().partition(|i| matches!(i, Item::Clause(_)));
    // Where there are no such probes (a kernel without type information), the arguments stay unknown.
    if !clauses.iter().all(|clause| has_probes(clause, env)) {
        return;
    }
    program.libraries.extend(others);
    program.items.extend(clauses);
}

fn has_probes(item: &Item, env: &dyn Env) -> bool {
    let Item::Clause(clause) = item else { return false };
    clause.probes.iter().all(|spec| {
        let ProbeSpecKind::Fields { provider, module, function, name } = &spec.kind else { return false };
        let desc = ProbeDesc::new(&provider.text, &module.text, &function.text, &name.text);
        let mut found = false;
        env.probes(&desc, &mut |_| found = true).is_ok() && found
    })
}

/// Whether an item asks for the arguments of what may be another process.
fn wants(item: &Item) -> bool {
    let mut wanted = false;
    let mut see = |e: &Expr| wanted |= other_arguments(e);
    match item {
        Item::Clause(clause) => {
            clause.predicate.iter().for_each(|e| visit(e, &mut see));
            clause.body.iter().for_each(|b| visit_block(b, &mut see));
        }
        Item::Inline(inline) => visit(&inline.value, &mut see),
        Item::Translator(t) => t.members.iter().for_each(|m| visit(&m.value, &mut see)),
        Item::Declaration(_) | Item::Provider(_) | Item::Pragma(_) => {}
    }
    wanted
}

fn other_arguments(e: &Expr) -> bool {
    let (ExprKind::Member { base, member, .. } | ExprKind::Arrow { base, member, .. }) = &e.kind else { return false };
    member.text == "pr_psargs" && !matches!(&base.kind, ExprKind::Ident(name) if name == "curpsinfo")
}

/// Whether a clause is one of ours.
pub(crate) fn is_ours(sources: &Sources, clause: Span) -> bool {
    sources.get(clause.source).is_some_and(|s| matches!(s.origin, Origin::Library(_)))
}

/// What of a program is ours: its array, by its name, and these units.
pub(crate) fn of<'a>(arrays: impl Iterator<Item = &'a str>, units: Vec<UnitId>) -> Option<Upkeep> {
    let array = { arrays }.position(|name| name == ARRAY)?;
    (!units.is_empty()).then_some(Upkeep { array: ArrayId(array as u32), units })
}
