//! Names and types: the bound program to a typed tree. Owns what is D's alone (implicit variables, inlines, string
//! promotion, which action takes what); what leaves here has only meanings that [`crate::lower`] can say in IR.
//!
//! A clause is checked once for each *variant*: the probes of one unit whose context gives the same places and types to
//! what the clause speaks of. Variants come in the order of their first probe.

mod action;
mod attributes;
mod call;
mod conv;
mod decl;
mod expr;
mod external;
mod float;
mod foreign;
mod inline;
mod library;
mod member;
mod memory;
mod names;
mod ops;
mod outside;
mod print;
mod proto;
mod provider;
mod quant;
mod speculate;
pub(crate) mod stack;
mod sub;
mod translated;
pub mod tree;
mod wide;
mod xlate;

use crate::bind::{Bound, BoundClause, BoundProbe, Mentions};
use crate::env::Env;
use crate::expand::Expanded;
use crate::format::FormatSpans;
use crate::options::Options;
use probity_ir::{AggId, Format, Location, Phase, Probe, Signature, Space, TypeId, TypeKind, TypeTable};
use probity_syntax::ast::{self, Item};
use probity_syntax::{Diagnostic, Span, tags};
use std::collections::{HashMap, HashSet};
use tree::*;

/// A program that is right. Only [`check`] makes one.
#[derive(Clone, Debug)]
// The field is private so that nobody else in this crate makes one either.
#[allow(clippy::manual_non_exhaustive)]
pub struct Checked {
    /// All types.
    pub types: TypeTable,
    /// All variables.
    pub vars: Vec<VarInfo>,
    /// All associative arrays.
    pub arrays: Vec<ArrayInfo>,
    /// All aggregations.
    pub aggs: Vec<AggInfo>,
    /// The clauses, in order.
    pub clauses: Vec<CheckedClause>,
    /// The first action that changes the system.
    pub destructive: Option<Span>,
    /// The probe of a switch between threads, where the program reads `vtimestamp`.
    pub switch: Option<(Probe, Signature)>,
    /// Whether the program speculates.
    pub speculates: bool,
    _made_by_check: (),
}

/// A checked clause.
#[derive(Clone, Debug)]
pub struct CheckedClause {
    /// Its place.
    pub span: Span,
    /// Its code, for each kind of context.
    pub variants: Vec<Variant>,
}

/// A clause for some probes of one unit.
#[derive(Clone, Debug)]
pub struct Variant {
    /// Index into [`Bound::units`].
    pub unit: usize,
    /// Indexes into [`Bound::probes`], by how often the clause is for them.
    pub layers: Vec<Vec<usize>>,
    /// The predicate.
    pub predicate: Option<TExpr>,
    /// The body.
    pub body: Vec<TStmt>,
}

/// Every name that a program can use without defining it and that works: built-in variables, actions, subroutines, aggregating
/// functions. What is refused is not among them.
pub fn known() -> Vec<&'static str> {
    let subs = sub::SUBS.iter().filter(|row| !row.refused()).map(|row| row.name);
    let functions = names::FUNCTIONS.iter().map(|f| f.name).filter(|n| !names::REFUSED.contains(n));
    functions.chain(subs).chain(names::VARIABLES.iter().copied()).collect()
}

/// An error has been reported.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reported;
pub(crate) type Res<T> = Result<T, Reported>;

/// What a name of a variable stands for.
#[derive(Clone, Copy, Debug)]
enum Entity {
    Var(u32),
    Array(u32),
    /// Its definition is wrong; that has been said.
    Poison,
}

/// The clause that is being checked.
#[derive(Default)]
struct Cx<'a> {
    signature: Option<&'a Signature>,
    probe: Option<&'a BoundProbe>,
    in_clause: bool,
    region: Option<&'static str>,
    span: Span,
    /// Several probes, so that messages about one of them name it.
    many: bool,
    /// What the statements before have done.
    done: speculate::Done,
}

/// A `printa` whose format can be judged only when all keys are known.
struct PendingPrinta {
    format: Format,
    spans: FormatSpans,
    aggs: Vec<AggId>,
    span: Span,
    region: Option<&'static str>,
}

/// The types that the checker itself makes.
struct Basic {
    int: TypeId,
    uint: TypeId,
    long: TypeId,
    ulong: TypeId,
    void: TypeId,
    string: TypeId,
}

struct Checker<'a> {
    env: &'a dyn Env,
    options: &'a Options,
    sources: &'a probity_syntax::Sources,
    types: TypeTable,
    basic: Basic,
    diags: Vec<Diagnostic>,
    typedefs: HashMap<String, TypeId>,
    /// Those of them that libraries define: a program may define them anew.
    library_types: HashSet<String>,
    tags: HashMap<(&'static str, String), TypeId>,
    enumerators: HashMap<String, (i64, TypeId)>,
    inlines: HashMap<String, &'a ast::Inline>,
    inline_depth: u32,
    /// What is only declared: where, and whether it is a function.
    externals: HashMap<String, (Span, bool)>,
    translators: Vec<xlate::Translator<'a>>,
    /// The names that the translators and inlines being expanded bind; only the innermost are seen.
    frames: Vec<Vec<(String, TExpr)>>,
    /// Variables that keep what is translated: by which translator, and the type of the translated pointer.
    translated: HashMap<xlate::Place, (u32, TypeId)>,
    /// The variable that the assignment being checked has made.
    fresh: Option<xlate::Place>,
    /// The arguments of probes that the program declares, by provider and name.
    declared_probes: HashMap<(String, String), Vec<provider::Declared>>,
    /// The number of the last [`TKind::Hold`].
    held: u32,
    globals: HashMap<String, Entity>,
    threads: HashMap<String, Entity>,
    locals: HashMap<String, Entity>,
    /// Variables that were declared with a pointer type: whose memory it is shows at the first assignment.
    flexible: HashSet<u32>,
    vars: Vec<VarInfo>,
    arrays: Vec<ArrayInfo>,
    aggs: Vec<AggInfo>,
    agg_names: HashMap<String, AggId>,
    printas: Vec<PendingPrinta>,
    /// Aggregations that actions name, with the tag to use when they are never defined.
    agg_uses: Vec<(AggId, &'static str, Span, Option<&'static str>)>,
    /// The first action that changes the system.
    destructive: Option<Span>,
    switch: Option<(Probe, Signature)>,
    speculates: bool,
    /// Whether the type that was named last is one of the traced program's, so that pointers to it are.
    of_program: bool,
    cx: Cx<'a>,
}

/// Checks the whole program; `None` where it has errors.
pub fn check(
    program: &Expanded,
    bound: &Bound,
    env: &dyn Env,
    mut types: TypeTable,
    diags: &mut Vec<Diagnostic>,
) -> Option<Checked> {
    let basic = Basic {
        int: types.int(4, true),
        uint: types.int(4, false),
        long: types.int(8, true),
        ulong: types.int(8, false),
        void: types.add(TypeKind::Void),
        string: types.add(TypeKind::String),
    };
    let mut c = Checker {
        env,
        options: &program.options,
        sources: &program.sources,
        types,
        basic,
        diags: Vec::new(),
        typedefs: HashMap::new(),
        library_types: HashSet::new(),
        tags: HashMap::new(),
        enumerators: HashMap::new(),
        inlines: HashMap::new(),
        inline_depth: 0,
        externals: HashMap::new(),
        translators: Vec::new(),
        frames: Vec::new(),
        translated: HashMap::new(),
        fresh: None,
        declared_probes: HashMap::new(),
        held: 0,
        globals: HashMap::new(),
        threads: HashMap::new(),
        locals: HashMap::new(),
        flexible: HashSet::new(),
        vars: Vec::new(),
        arrays: Vec::new(),
        aggs: Vec::new(),
        agg_names: HashMap::new(),
        printas: Vec::new(),
        agg_uses: Vec::new(),
        destructive: None,
        switch: None,
        speculates: false,
        of_program: false,
        cx: Cx::default(),
    };
    c.frame_options();
    for item in &program.libraries {
        c.library_item(item);
    }
    let mut clauses = Vec::new();
    let mut next = bound.clauses.iter().peekable();
    for (at, item) in program.items.iter().enumerate() {
        match item {
            Item::Clause(clause) => {
                if let Some(bound_clause) = next.next_if(|b| b.item == at) {
                    clauses.push(c.clause(clause, bound_clause, bound));
                }
            }
            Item::Declaration(decl) => drop(c.declaration(decl, false)),
            Item::Inline(inline) => drop(c.inline(inline)),
            Item::Translator(t) => drop(c.translator(t, false)),
            Item::Provider(p) => drop(c.provider(p)),
            Item::Pragma(_) => {}
        }
    }
    c.cx = Cx::default();
    c.finish_aggregations();
    c.unused_pragmas(&program.items);
    let bad = c.diags.iter().any(Diagnostic::is_error);
    diags.append(&mut c.diags);
    (!bad).then_some(Checked {
        types: c.types,
        vars: c.vars,
        arrays: c.arrays,
        aggs: c.aggs,
        clauses,
        destructive: c.destructive,
        switch: c.switch,
        speculates: c.speculates,
        _made_by_check: (),
    })
}

/// What a variant's code depends on: equal keys, equal code.
type VariantKey = (usize, Vec<Option<Location>>, Vec<Option<(TypeId, String, Location)>>, Option<(String, String)>);

fn variant_key(probe: &BoundProbe, mentions: &Mentions) -> VariantKey {
    let s = &probe.signature;
    let raw = mentions.raw.iter().enumerate().filter(|(_, used)| **used).map(|(n, _)| s.raw.get(n).cloned());
    let one = |used: bool, place: &Option<Location>| if used { place.clone() } else { None };
    let others = [one(mentions.errno, &s.errno), one(mentions.caller, &s.caller), one(mentions.ucaller, &s.ucaller)];
    let whole = s.args.len() as u64;
    let count = if mentions.any_arg { whole } else { 0 };
    let args = (0..count).chain(mentions.args.iter().copied());
    let args = args.map(|n| s.args.get(n as usize).map(|a| (a.ty, a.translated.clone(), a.location.clone())));
    let declared = mentions.declared.then(|| provider::key(&probe.probe.desc));
    (probe.unit, raw.chain(others).collect(), args.collect(), declared)
}

impl<'a> Checker<'a> {
    fn clause(&mut self, clause: &ast::Clause, bound_clause: &BoundClause, bound: &'a Bound) -> CheckedClause {
        let mut variants: Vec<(VariantKey, Variant)> = Vec::new();
        let mut index: HashMap<VariantKey, usize> = HashMap::new();
        for (layer, probes) in bound_clause.layers.iter().enumerate() {
            for &probe in probes {
                let key = variant_key(&bound.probes[probe], &bound_clause.mentions);
                let at = *index.entry(key.clone()).or_insert_with(|| {
                    let unit = bound.probes[probe].unit;
                    variants.push((key, Variant { unit, layers: Vec::new(), predicate: None, body: Vec::new() }));
                    variants.len() - 1
                });
                let layers = &mut variants[at].1.layers;
                layers.resize_with(layers.len().max(layer + 1), Vec::new);
                layers[layer].push(probe);
            }
        }
        let many = variants.len() > 1;
        let mut done = Vec::new();
        for (_, mut variant) in variants {
            let probe = &bound.probes[variant.layers[0][0]];
            self.cx =
                Cx { signature: Some(&probe.signature), probe: Some(probe), in_clause: true, many, ..Cx::default() };
            // Clauses of our own are not what `amin` is about.
            if self.of_library(clause.span) {
                (variant.predicate, variant.body) = self.clause_body(clause);
            } else if self.stable_probes(&variant, bound, clause.span).is_ok() {
                (variant.predicate, variant.body) = self.clause_body(clause);
                // Reported is all there is to it.
                let _ = self.stable_code(&variant, clause.span);
            }
            done.push(variant);
        }
        if done.is_empty() {
            // Nothing can be said about its context, but the rest of it can be wrong, and it may define variables.
            self.cx = Cx { in_clause: true, ..Cx::default() };
            self.clause_body(clause);
        }
        self.cx = Cx::default();
        CheckedClause { span: clause.span, variants: done }
    }

    fn clause_body(&mut self, clause: &ast::Clause) -> (Option<TExpr>, Vec<TStmt>) {
        self.cx.span = clause.span;
        // A predicate may speak of what only the body defines (`/x++/ { x = 1 }` aside): then the body is checked first.
        let before = self.diags.len();
        self.cx.region = Some("predicate");
        let mut predicate = clause.predicate.as_ref().map(|p| self.predicate(p));
        // DTrace has read up to the braces when it knows that a predicate ends.
        let body_at = clause.body.as_ref().map(|b| Span { hi: b.span.lo + 1, ..b.span });
        let body_end = clause.body.as_ref().map(|b| Span { lo: b.span.hi.saturating_sub(1), ..b.span });
        for d in &mut self.diags[before..] {
            d.dtrace_at = d.dtrace_at.or(match d.tag {
                // The clause has been read when its predicate is judged.
                tags::D_PRED_SCALAR => body_end,
                tag if tag.starts_with("D_OP_") => body_at,
                _ => None,
            });
        }
        let again = matches!(predicate, Some(Err(_)))
            && self.diags[before..].iter().all(|d| matches!(d.tag, tags::D_IDENT_UNDEF | tags::D_VAR_UNDEF));
        if again {
            self.diags.truncate(before);
        }
        self.cx.region = Some("action list");
        self.cx.done = speculate::Done::default();
        let mut body = Vec::new();
        match &clause.body {
            Some(block) => self.block(block, &mut body),
            None => body.push(self.default_action(clause.span)),
        }
        if clause.body.as_ref().is_some_and(|b| b.stmts.is_empty()) {
            body.push(self.default_action(clause.span));
        }
        if again {
            self.cx.region = Some("predicate");
            let after = self.diags.len();
            predicate = clause.predicate.as_ref().map(|p| self.predicate(p));
            // What is still wrong with it stands in front of what is wrong with the body.
            let more = self.diags.len() - after;
            self.diags[before..].rotate_right(more);
        }
        if let Some(Ok(p)) = &predicate {
            self.no_translated_value(p);
        }
        self.no_translated_values(&mut body);
        (predicate.and_then(Result::ok), body)
    }

    fn default_action(&self, span: Span) -> TStmt {
        TStmt { kind: TStmtKind::Action(TAction::Default), span }
    }

    fn predicate(&mut self, e: &ast::Expr) -> Res<TExpr> {
        let value = self.expr(e)?;
        match self.condition(value) {
            Some(value) => Ok(value),
            None => {
                self.err(tags::D_PRED_SCALAR, e.span, "a predicate must be a scalar: an integer, a pointer or a string")
            }
        }
    }

    fn block(&mut self, block: &ast::Block, out: &mut Vec<TStmt>) {
        for stmt in &block.stmts {
            // Each statement is checked on its own, so that one mistake does not hide the next.
            let _ = self.stmt(stmt, out);
        }
    }

    fn stmt(&mut self, stmt: &ast::Stmt, out: &mut Vec<TStmt>) -> Res<()> {
        match &stmt.kind {
            ast::StmtKind::Expr(e) => {
                let kind = self.expr_stmt(e)?;
                out.push(TStmt { kind, span: stmt.span });
            }
            ast::StmtKind::Declaration(decl) => self.declaration(decl, true)?,
            ast::StmtKind::Block(block) => self.block(block, out),
            ast::StmtKind::If { cond, then, otherwise } => {
                let value = self.expr(cond);
                let value = value.and_then(|v| match self.condition(v) {
                    Some(v) => Ok(v),
                    None => self.err(tags::D_OP_SCALAR, cond.span, "the condition of `if` must be a scalar"),
                });
                let (mut yes, mut no) = (Vec::new(), Vec::new());
                let before = self.cx.done;
                self.block(then, &mut yes);
                let after = std::mem::replace(&mut self.cx.done, before);
                if let Some(otherwise) = otherwise {
                    self.block(otherwise, &mut no);
                }
                self.cx.done = before.after_branch(after, self.cx.done);
                out.push(TStmt { kind: TStmtKind::If(value?, yes, no), span: stmt.span });
            }
        }
        Ok(())
    }

    /// Whether a text is a library's.
    fn of_library(&self, span: Span) -> bool {
        self.sources.get(span.source).is_some_and(|s| matches!(s.origin, probity_syntax::Origin::Library(_)))
    }

    /// Reports an error.
    fn err<T>(&mut self, tag: &'static str, span: Span, message: impl Into<String>) -> Res<T> {
        self.report(Diagnostic::error(tag, span, message))
    }

    fn report<T>(&mut self, mut d: Diagnostic) -> Res<T> {
        d.region = d.region.or(self.cx.region);
        let same = |o: &Diagnostic| (o.tag, o.span, &o.message) == (d.tag, d.span, &d.message);
        // The variants of a clause share most of their mistakes.
        if !self.diags.iter().any(same) {
            if let (true, Some(probe)) = (self.cx.many, self.cx.probe) {
                d = d.note(None, format!("for probe {}", probe.probe.desc));
            }
            self.diags.push(d);
        }
        Err(Reported)
    }

    fn unsupported<T>(&mut self, span: Span, what: &str) -> Res<T> {
        self.err(tags::D_UNKNOWN, span, format!("{what} not supported by this version"))
    }

    /// Whether the clause runs in the tracer, where no other process's memory is at hand.
    fn runs_in_tracer(&self) -> bool {
        self.cx.signature.is_some_and(|s| s.phase != Phase::Run)
    }

    /// Reports reads of user memory in clauses that run in the tracer.
    fn needs_process(&mut self, space: Space, span: Span) -> Res<()> {
        // A library reads a process's memory only where it has seen that it is the one that runs.
        if space == Space::User && self.runs_in_tracer() && !self.of_library(span) {
            let d = Diagnostic::error(
                tags::D_PROC_NODEV,
                span,
                "this clause runs in the tracer itself: no traced process's memory can be read here",
            );
            return self.report(d.help("read the memory in the probe that the process fires, and keep the value"));
        }
        Ok(())
    }
}
