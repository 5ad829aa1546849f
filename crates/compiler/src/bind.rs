//! The second pass: each clause's probe descriptions to the probes they match, with their signatures. Creates nothing; asks
//! for typed signatures only where a clause speaks of `args[]`.

use crate::env::{Env, EnvError};
use crate::expand::Expanded;
use probity_ir::{Phase, Probe, ProbeDesc, ProgKind, Selector, Signature, Test, TypeTable};
use probity_syntax::ast::{self, Expr, ExprKind, Item, ProbeSpec, ProbeSpecKind};
use probity_syntax::{Diagnostic, tags};
use std::collections::{BTreeSet, HashMap, HashSet};

/// A probe that some clause is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BoundProbe {
    /// The probe.
    pub probe: Probe,
    /// Its signature.
    pub signature: Signature,
    /// Index into [`Bound::units`].
    pub unit: usize,
    /// Its index in the unit, as the unit's selector gives it.
    pub index: u32,
}

/// A clause and the probes it is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BoundClause {
    /// Index into [`Expanded::items`].
    pub item: usize,
    /// Indexes into [`Bound::probes`], sorted. A probe that `n` of the descriptions match is in the first `n` layers:
    /// the clause runs once for each description.
    pub layers: Vec<Vec<usize>>,
    /// What it speaks of.
    pub mentions: Mentions,
}

/// The program with its probes found.
#[derive(Clone, Debug, Default)]
pub struct Bound {
    /// Every probe that is to be enabled.
    pub probes: Vec<BoundProbe>,
    /// All clauses, in program order. Those without probes have no layers.
    pub clauses: Vec<BoundClause>,
    /// The programs to be.
    pub units: Vec<BoundUnit>,
}

/// What a program's descriptions match, description by description: what `-l` lists.
#[derive(Clone, Debug, Default)]
pub struct Listing {
    /// In order; a probe that two descriptions match is there twice.
    pub probes: Vec<Probe>,
    /// The descriptions that match nothing.
    pub unmatched: Vec<String>,
}

/// Looks up the probes of every description, and nothing else about them.
pub fn list(program: &Expanded, env: &dyn Env, diags: &mut Vec<Diagnostic>) -> Listing {
    let mut out = Listing::default();
    for item in &program.items {
        let Item::Clause(clause) = item else { continue };
        for spec in &clause.probes {
            let mut hits = Vec::new();
            let looked_up = probes_of(spec, program.options.zdefs, env, &mut hits);
            out.probes.append(&mut hits);
            if let Err(d) = looked_up {
                if d.tag == tags::D_PDESC_ZERO {
                    out.unmatched.push(match &spec.kind {
                        ProbeSpecKind::Fields { provider, module, function, name } => {
                            ProbeDesc::new(&provider.text, &module.text, &function.text, &name.text).to_string()
                        }
                        ProbeSpecKind::Id(_) | ProbeSpecKind::IdRange(..) => format!(":::{}", spec.text),
                    });
                }
                diags.push(*d);
            }
        }
    }
    out
}

/// Finds the probes of every clause.
pub fn bind(program: &Expanded, env: &dyn Env, types: &mut TypeTable, diags: &mut Vec<Diagnostic>) -> Bound {
    let mut found: Vec<Probe> = Vec::new();
    // Clauses of our own run at all times: they have programs of their own.
    let mut index: HashMap<(ProbeDesc, bool), usize> = HashMap::new();
    let mut typed: Vec<bool> = Vec::new();
    let mut clauses: Vec<(usize, Vec<Vec<usize>>, Mentions)> = Vec::new();
    let mut inlines: HashMap<&str, Mentions> = HashMap::new();
    for item in program.libraries.iter().chain(&program.items) {
        if let Item::Inline(ast::Inline { declarator: ast::Declarator { name: Some(name), .. }, value, .. }) = item {
            let m = inlines.entry(name.text.as_str()).or_default();
            visit(value, &mut |e| m.see(e));
        }
    }
    let declares = program.libraries.iter().chain(&program.items).any(|item| matches!(item, Item::Provider(_)));
    // Translators can speak of the context too. Which of them a clause uses shows only when it is checked.
    let mut translators = Mentions::default();
    for item in program.libraries.iter().chain(&program.items) {
        if let Item::Translator(t) = item {
            t.members.iter().for_each(|m| visit(&m.value, &mut |e| translators.see(e)));
        }
    }

    for (item, clause) in program.items.iter().enumerate() {
        let Item::Clause(clause) = clause else { continue };
        let ours = crate::upkeep::is_ours(&program.sources, clause.span);
        let mut mentions = mentions(clause, &translators, &inlines);
        // A declaration says which of the probe's own arguments `args[n]` is.
        if declares && mentions.typed() {
            mentions.raw = [true; 10];
            mentions.declared = true;
        }
        let mut count: HashMap<usize, usize> = HashMap::new();
        for spec in &clause.probes {
            let mut hits = Vec::new();
            if let Err(d) = probes_of(spec, program.options.zdefs, env, &mut hits) {
                diags.push(*d);
                continue;
            }
            // The layers count descriptions, so one description must not count a probe twice.
            let mut seen = HashSet::new();
            for probe in hits {
                let next = found.len();
                let at = *index.entry((probe.desc.clone(), ours)).or_insert(next);
                if at == next {
                    found.push(probe);
                    typed.push(false);
                }
                typed[at] |= mentions.typed() || (mentions.raw.contains(&true) && env.raw_follows_types(&found[at]));
                if seen.insert(at) {
                    *count.entry(at).or_default() += 1;
                }
            }
        }
        let most = count.values().copied().max().unwrap_or(0);
        let layers = (0..most)
            .map(|layer| {
                let mut probes: Vec<usize> = count.iter().filter(|(_, n)| **n > layer).map(|(p, _)| *p).collect();
                probes.sort_unstable();
                probes
            })
            .collect();
        clauses.push((item, layers, mentions));
    }

    // A probe has one signature for all clauses, so that they share one program.
    let mut signatures: Vec<Result<Signature, EnvError>> = Vec::with_capacity(found.len());
    for (probe, typed) in found.iter().zip(&typed) {
        signatures.push(env.signature(probe, *typed, types));
    }

    let mut bound = Bound::default();
    let mut place: Vec<Option<usize>> = vec![None; found.len()];
    for (item, layers, mentions) in clauses {
        let Item::Clause(clause) = &program.items[item] else { continue };
        let mut failed: Vec<usize> = Vec::new();
        let mut kept_layers = Vec::new();
        for layer in layers {
            let mut kept = Vec::new();
            for at in layer {
                match &signatures[at] {
                    Ok(signature) => {
                        let to = *place[at].get_or_insert_with(|| {
                            bound.probes.push(BoundProbe {
                                probe: found[at].clone(),
                                signature: signature.clone(),
                                unit: 0,
                                index: 0,
                            });
                            bound.probes.len() - 1
                        });
                        kept.push(to);
                    }
                    Err(_) if !failed.contains(&at) => failed.push(at),
                    Err(_) => {}
                }
            }
            kept.sort_unstable();
            if !kept.is_empty() {
                kept_layers.push(kept);
            }
        }
        if let Some(&first) = failed.first()
            && let Err(error) = &signatures[first]
        {
            let span = clause.probes.first().map(|p| p.span);
            let what = &found[first].desc;
            if kept_layers.is_empty() {
                diags.push(env_error(error, tags::D_PDESC_INVAL, span, &format!("cannot trace {what}")));
            } else {
                let message =
                    format!("{} of the probes cannot be traced, {what} among them: {}", failed.len(), error.message);
                diags.push(Diagnostic::warning(tags::D_PDESC_INVAL, span, message));
            }
        }
        bound.clauses.push(BoundClause { item, layers: kept_layers, mentions });
    }
    group_units(&mut bound);
    bound
}

/// A diagnostic from what the world said.
pub fn env_error(error: &EnvError, tag: &'static str, span: Option<probity_syntax::Span>, what: &str) -> Diagnostic {
    let d = Diagnostic::error(error.tag.unwrap_or(tag), span, format!("{what}: {}", error.message));
    match &error.help {
        Some(help) => d.help(help.clone()),
        None => d,
    }
}

fn probes_of(spec: &ProbeSpec, zdefs: bool, env: &dyn Env, hits: &mut Vec<Probe>) -> Result<(), Box<Diagnostic>> {
    let text = &spec.text;
    match &spec.kind {
        ProbeSpecKind::Id(id) => match by_id(*id, spec, env)? {
            Some(probe) => hits.push(probe),
            None => return Err(Box::new(no_probe(spec, format!("there is no probe with the number {id}"), &[]))),
        },
        ProbeSpecKind::IdRange(lo, hi) => {
            const MOST: u32 = 100_000;
            if hi < lo || hi - lo >= MOST {
                let message = format!("`{text}` is no range of probe numbers");
                return Err(Box::new(Diagnostic::error(tags::D_PDESC_INVAL, spec.span, message)));
            }
            for id in *lo..=*hi {
                hits.extend(by_id(id, spec, env)?);
            }
            if hits.is_empty() && !zdefs {
                return Err(Box::new(no_probe(
                    spec,
                    format!("there are no probes with the numbers {lo} to {hi}"),
                    &[],
                )));
            }
        }
        ProbeSpecKind::Fields { provider, module, function, name } => {
            let desc = ProbeDesc::new(&provider.text, &module.text, &function.text, &name.text);
            if let Err(error) = env.probes(&desc, &mut |p| hits.push(p)) {
                // Under -Z a process or file that is not there may come later, but nobody waits for it yet.
                if !zdefs {
                    let what = format!("probe description {desc} cannot be matched");
                    let mut d = env_error(&error, tags::D_PDESC_ZERO, Some(spec.span), &what);
                    if let Some(foreign) = env.foreign(&desc) {
                        d = d.help(foreign);
                    } else if error.tag.is_none()
                        && let [only] = &env.near_probes(&desc)[..]
                        && !only.contains(':')
                    {
                        // There is no such provider, but one with a name like it.
                        d = d.suggest(provider.span, only.clone(), format!("use `{only}`"));
                    }
                    // To DTrace a provider without probes and one that does not exist are the same.
                    let zero = d.tag == tags::D_PDESC_ZERO;
                    let compat = format!("probe description {desc} does not match any probes");
                    return Err(Box::new(if zero { d.dtrace_says(compat) } else { d }));
                }
            }
            if hits.is_empty() && !zdefs {
                let message = format!("probe description {desc} does not match any probes");
                return Err(Box::new(match env.foreign(&desc) {
                    Some(foreign) => Diagnostic::error(tags::D_PDESC_ZERO, spec.span, message).help(foreign),
                    None => no_probe(spec, message, &env.near_probes(&desc)),
                }));
            }
        }
    }
    Ok(())
}

fn by_id(id: u32, spec: &ProbeSpec, env: &dyn Env) -> Result<Option<Probe>, Box<Diagnostic>> {
    env.probe_by_id(id).map_err(|e| {
        Box::new(env_error(&e, tags::D_PDESC_ZERO, Some(spec.span), &format!("cannot look up probe number {id}")))
    })
}

fn no_probe(spec: &ProbeSpec, message: String, near: &[String]) -> Diagnostic {
    let mut d = Diagnostic::error(tags::D_PDESC_ZERO, spec.span, message);
    // What stands in parentheses behind a name explains it, and is no part of what to write.
    let split = |name: &String| match name.split_once(" (") {
        Some((name, why)) => (name.to_string(), Some(why.trim_end_matches(')').to_string())),
        None => (name.clone(), None),
    };
    let (near, why): (Vec<String>, Vec<Option<String>>) = near.iter().map(split).unzip();
    for why in why.into_iter().flatten() {
        d = d.note(None, why);
    }
    match &near[..] {
        [] => d.help("list the probes with -l, or allow descriptions without probes with -Z"),
        [one] => d.suggest(spec.span, one.clone(), format!("use `{one}`")),
        [first, ..] => {
            let list = near.iter().take(5).map(|n| format!("`{n}`")).collect::<Vec<_>>().join(", ");
            d.suggest(spec.span, first.clone(), format!("use `{first}`")).note(None, format!("near names are {list}"))
        }
    }
}

/// Which values of the probe's context a clause speaks of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mentions {
    /// `arg0` … `arg9`.
    pub raw: [bool; 10],
    /// `args[n]` with constant `n`.
    pub args: BTreeSet<u64>,
    /// `args` otherwise.
    pub any_arg: bool,
    /// `errno`
    pub errno: bool,
    /// `caller`
    pub caller: bool,
    /// `ucaller`
    pub ucaller: bool,
    /// It speaks of typed arguments, and the program declares some probes' arguments.
    pub declared: bool,
    /// Inlines and other names that it uses.
    names: HashSet<String>,
}

impl Mentions {
    /// Whether typed arguments are needed.
    pub fn typed(&self) -> bool {
        self.any_arg || !self.args.is_empty()
    }

    fn see(&mut self, e: &Expr) {
        match &e.kind {
            ExprKind::Index { base, keys } if matches!(&base.kind, ExprKind::Ident(n) if n == "args") => {
                match keys.first().map(|k| &k.kind) {
                    Some(ExprKind::Int(n)) => {
                        self.args.insert(n.value);
                    }
                    _ => self.any_arg = true,
                }
            }
            ExprKind::Ident(name) => match name.as_str() {
                "errno" => self.errno = true,
                "caller" => self.caller = true,
                "ucaller" => self.ucaller = true,
                _ => {
                    let digit = name.strip_prefix("arg").and_then(|d| d.parse::<usize>().ok());
                    if let Some(raw) = digit.and_then(|d| self.raw.get_mut(d)) {
                        *raw = true;
                    }
                    self.names.insert(name.clone());
                }
            },
            _ => {}
        }
    }

    fn merge(&mut self, other: &Mentions) {
        for (mine, theirs) in self.raw.iter_mut().zip(other.raw) {
            *mine |= theirs;
        }
        self.args.extend(&other.args);
        self.any_arg |= other.any_arg;
        self.errno |= other.errno;
        self.caller |= other.caller;
        self.ucaller |= other.ucaller;
        self.names.extend(other.names.iter().cloned());
    }
}

/// What a clause speaks of, inlines included.
fn mentions(clause: &ast::Clause, translators: &Mentions, inlines: &HashMap<&str, Mentions>) -> Mentions {
    let mut m = translators.clone();
    clause.predicate.iter().for_each(|e| visit(e, &mut |e| m.see(e)));
    clause.body.iter().for_each(|b| visit_block(b, &mut |e| m.see(e)));
    let mut done = HashSet::new();
    // Inlines may use inlines; each is merged once.
    while let Some(name) = m.names.iter().find(|n| inlines.contains_key(n.as_str()) && !done.contains(*n)).cloned() {
        m.merge(&inlines[name.as_str()]);
        done.insert(name);
    }
    m
}

pub(crate) fn visit_block(block: &ast::Block, f: &mut dyn FnMut(&Expr)) {
    for stmt in &block.stmts {
        match &stmt.kind {
            ast::StmtKind::Expr(e) => visit(e, f),
            ast::StmtKind::If { cond, then, otherwise } => {
                visit(cond, f);
                visit_block(then, f);
                otherwise.iter().for_each(|b| visit_block(b, f));
            }
            ast::StmtKind::Block(b) => visit_block(b, f),
            ast::StmtKind::Declaration(_) => {}
        }
    }
}

/// Visits an expression and all in it. The `args` of `args[1]` is not visited on its own.
pub(crate) fn visit(e: &Expr, f: &mut dyn FnMut(&Expr)) {
    f(e);
    match &e.kind {
        ExprKind::Aggregation(agg) => agg.keys.iter().flatten().for_each(|e| visit(e, f)),
        ExprKind::Call { args, .. } => args.iter().for_each(|e| visit(e, f)),
        ExprKind::Index { base, keys } => {
            if !matches!(&base.kind, ExprKind::Ident(n) if n == "args") {
                visit(base, f);
            }
            keys.iter().for_each(|e| visit(e, f));
        }
        ExprKind::Member { base: e, .. }
        | ExprKind::Arrow { base: e, .. }
        | ExprKind::Unary { operand: e, .. }
        | ExprKind::Cast { operand: e, .. }
        | ExprKind::Xlate { operand: e, .. }
        | ExprKind::SizeofExpr(e)
        | ExprKind::Stringof(e) => visit(e, f),
        ExprKind::Binary { left: a, right: b, .. }
        | ExprKind::Comma { left: a, right: b }
        | ExprKind::Assign { target: a, value: b, .. } => {
            visit(a, f);
            visit(b, f);
        }
        ExprKind::Ternary { cond, then, otherwise } => {
            visit(cond, f);
            visit(then, f);
            visit(otherwise, f);
        }
        ExprKind::Int(_) | ExprKind::Char(_) | ExprKind::Float(_) | ExprKind::String(_) | ExprKind::SelfVar(_) => {}
        ExprKind::ThisVar(_) | ExprKind::Symbol(_) | ExprKind::Macro(_) | ExprKind::SizeofType(_) => {}
        ExprKind::Ident(_) | ExprKind::Offsetof { .. } | ExprKind::Error => {}
    }
}

/// The probes that one program serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BoundUnit {
    /// Indexes into [`Bound::probes`], in the order of their indexes in the unit.
    pub probes: Vec<usize>,
}

/// What probes of one program have in common; the last is the only probe, where there can be no other.
type UnitKey = (ProgKind, Phase, String, Selector, Option<Test>, Option<usize>);

/// Groups probes that one program can serve, and gives each its index there.
fn group_units(bound: &mut Bound) {
    let mut index: HashMap<UnitKey, usize> = HashMap::new();
    for at in 0..bound.probes.len() {
        let s = &bound.probes[at].signature;
        let alone = matches!(s.selector, Selector::One).then_some(at);
        let key = (s.prog.clone(), s.phase, s.group.clone(), s.selector.clone(), s.when.clone(), alone);
        let next = bound.units.len();
        let unit = *index.entry(key).or_insert(next);
        if unit == next {
            bound.units.push(BoundUnit { probes: Vec::new() });
        }
        bound.probes[at].unit = unit;
        bound.probes[at].index = match bound.probes[at].signature.selector {
            Selector::Syscall { .. } => bound.probes[at].signature.index,
            Selector::One | Selector::Cookie => bound.units[unit].probes.len() as u32,
        };
        bound.units[unit].probes.push(at);
    }
}
