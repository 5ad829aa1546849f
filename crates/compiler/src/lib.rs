//! The compiler: D text and an environment to a BPF object and its layout.
//!
//! The passes, in order; each file owns one:
//! parse (`probity-syntax`) → `expand` → `bind` → `check` → `lower` → `fold` → `layout` → `select` → `alloc` → `emit` → `verify`.
#![forbid(unsafe_code)]

mod alloc;
mod arch;
pub mod bind;
pub mod check;
pub mod codegen;
mod emit;
pub mod env;
pub mod expand;
mod fold;
pub mod format;
pub mod header;
mod layout;
pub mod library;
pub mod lower;
pub mod options;
mod peephole;
pub mod reference;
pub mod routine;
mod select;
mod upkeep;
mod vcode;
mod verify;

pub use codegen::{CodegenError, CodegenOptions, codegen, listing};
pub use env::{Env, EnvError};
pub use expand::{Input, Source};
pub use options::Options;
use probity_bpf::Object;
use probity_ir::{Layout, Program, TypeTable};
use probity_syntax::{Diagnostic, SourceId, Sources, Span, tags};

/// A program that is ready to be loaded.
#[derive(Clone, Debug)]
pub struct Compiled {
    /// What it means.
    pub program: Program,
    /// Its code.
    pub object: Object,
    /// Where its values are.
    pub layout: Layout,
    /// Its options, pragmas applied.
    pub options: Options,
    /// Its types, for typed printing.
    pub types: TypeTable,
    /// Its texts, for messages.
    pub sources: Sources,
    /// The first action that changes the system, if any.
    pub destructive: Option<Span>,
}

impl Compiled {
    /// An option that leaves no room for even one record, key or element: its name, its value, and the least that would do.
    pub fn too_small(&self) -> Option<(&'static str, u64, u64)> {
        // A record's header and the kernel's are smaller than DTrace's; a size that DTrace refuses is refused here too.
        const HEADERS: u64 = 60 - 8;
        let record = self.layout.records.iter().map(|r| u64::from(r.size - probity_ir::HEADER) + HEADERS).max();
        let options = &self.options;
        // The other policies count sizes as DTrace does, and a record that does not fit is what they are about.
        let record = record.filter(|_| options.bufpolicy == "switch");
        [
            ("bufsize", options.bufsize, record),
            ("aggsize", options.aggsize, aggregation_size(&self.program)),
            ("dynvarsize", options.dynvarsize, element_size(&self.program)),
        ]
        .into_iter()
        .find_map(|(name, have, need)| need.filter(|need| have < *need).map(|need| (name, have, need)))
    }

    /// The most that `aggsize` can be for these keys; `None` where no aggregation has any.
    pub fn largest_aggsize(&self) -> Option<u64> {
        let ncpu = u64::from(self.layout.ncpu.max(1));
        keyed_size(&self.program).map(|each| u64::from(MOST_ENTRIES) / ncpu * (each + OVERHEAD))
    }

    /// How many probes the clauses of a source are enabled for, each clause counted by itself.
    pub fn matched(&self, source: u32) -> usize {
        let of_source = |clause: probity_ir::ClauseId| {
            self.program.clauses.get(clause.0 as usize).is_some_and(|c| c.span.0 == source)
        };
        let units = self.program.units.iter();
        units
            .flat_map(|unit| unit.clauses.iter().map(move |code| (unit, code)))
            .filter(|(_, code)| of_source(code.clause))
            .map(|(unit, code)| (0..unit.probes.len() as u32).filter(|&i| probity_ir::applies(unit, code, i)).count())
            .sum()
    }
}

/// The probes that a program's descriptions match, in order: what `-l` lists.
pub fn probes(input: &Input, env: &dyn Env) -> (bind::Listing, Sources, Vec<Diagnostic>) {
    let mut diags = Vec::new();
    let expanded = expand::expand(input, env, &mut diags);
    let listing = bind::list(&expanded, env, &mut diags);
    (listing, expanded.sources, diags)
}

/// The C header of a program's provider declarations (`-h`), or why there is none.
pub fn probe_header(input: &Input, env: &dyn Env, name: &str) -> (Option<String>, Sources, Vec<Diagnostic>) {
    let (front, mut diags) = check_only(input, env);
    let failed = diags.iter().any(Diagnostic::is_error);
    let expanded = expand::expand(input, env, &mut Vec::new());
    let header = match header::header(&expanded.items, &expanded.sources, name) {
        _ if failed => None,
        Ok(header) => Some(header),
        Err(d) => {
            diags.push(*d);
            None
        }
    };
    (header, front.sources, diags)
}

/// A program without its code: as far as the front end goes.
#[derive(Clone, Debug)]
pub struct Front {
    /// What it means; `None` where it has errors.
    pub program: Option<Program>,
    /// Its options, pragmas applied.
    pub options: Options,
    /// Its types.
    pub types: TypeTable,
    /// Its texts, for messages.
    pub sources: Sources,
    /// The first action that changes the system, if any.
    pub destructive: Option<Span>,
}

/// Runs the passes up to the program in IR.
pub fn check_only(input: &Input, env: &dyn Env) -> (Front, Vec<Diagnostic>) {
    let mut diags = Vec::new();
    let mut expanded = expand::expand(input, env, &mut diags);
    if !expanded.options.nolibs {
        upkeep::add(&mut expanded, env, &mut diags);
    }
    let mut types = TypeTable::default();
    let bound = bind::bind(&expanded, env, &mut types, &mut diags);
    if !expanded.options.nolibs {
        let texts = input.sources.iter().chain(&input.libraries).map(|s| s.text.as_str());
        // What the probes' arguments are translated to is a library's.
        let args = bound.probes.iter().flat_map(|p| &p.signature.args).map(|a| a.translated.as_str());
        let items = library::shipped(texts.chain(args), &mut expanded.sources, env, &mut diags);
        expanded.libraries.splice(0..0, items);
    }
    let checked = check::check(&expanded, &bound, env, types, &mut diags);
    in_order(&expanded, &mut diags);
    let failed = diags.iter().any(Diagnostic::is_error);
    let destructive = checked.as_ref().and_then(|c| c.destructive);
    let (program, types) = match checked {
        Some(checked) if !failed => {
            let program = lower::lower(&checked, &bound, &expanded.options, &expanded.sources);
            (Some(program), checked.types)
        }
        _ => (None, TypeTable::default()),
    };
    (Front { program, options: expanded.options, types, sources: expanded.sources, destructive }, diags)
}

/// Puts diagnostics into the order in which one reads the program: item by item, and for one item in the order of the passes.
fn in_order(program: &expand::Expanded, diags: &mut [Diagnostic]) {
    let items: Vec<Span> = program.items.iter().map(item_span).collect();
    diags.sort_by_key(|d| {
        let Some(at) = d.dtrace_at.or(d.span) else { return (u32::MAX, 0) };
        let before = items.iter().filter(|i| i.source == at.source && i.lo <= at.lo);
        let (count, last) = before.fold((0, None), |(n, _), i| (n + 1, Some(i)));
        // What could not be read stands between the items.
        let inside = last.is_some_and(|i| at.lo <= i.hi);
        (at.source.0, 2 * count + u32::from(!inside))
    });
}

fn item_span(item: &probity_syntax::ast::Item) -> Span {
    use probity_syntax::ast::Item;
    match item {
        Item::Clause(c) => c.span,
        Item::Declaration(d) => d.span,
        Item::Inline(i) => i.span,
        Item::Translator(t) => t.span,
        Item::Provider(p) => p.span,
        Item::Pragma(p) => p.span,
    }
}

/// Compiles a program. The texts come back with or without one, so that the diagnostics can be shown.
pub fn compile(input: &Input, env: &dyn Env) -> (Option<Compiled>, Sources, Vec<Diagnostic>) {
    let (front, mut diags) = check_only(input, env);
    let Front { program, options, types, sources, destructive } = front;
    let Some(program) = program else { return (None, sources, diags) };
    match codegen(&program, &codegen_options(&program, &options, env.ncpu())) {
        Ok((object, layout)) => {
            let copy = sources.clone();
            (Some(Compiled { program, object, layout, options, types, sources, destructive }), copy, diags)
        }
        Err(error) => {
            let span = error.line.and_then(|line| line_span(&sources, line));
            diags.push(Diagnostic::error(tags::D_UNKNOWN, span, error.message));
            (None, sources, diags)
        }
    }
}

fn size_of(v: &probity_ir::Val) -> u64 {
    match v {
        probity_ir::Val::Int => 8,
        probity_ir::Val::Str { cap } => u64::from(*cap).next_multiple_of(8),
        probity_ir::Val::Bytes { len } => u64::from(*len).next_multiple_of(8),
    }
}

/// The size of an aggregation's key and value.
fn entry_size(a: &probity_ir::Agg) -> u64 {
    8 + a.key.iter().map(|(v, _)| size_of(v)).sum::<u64>() + 8 * u64::from(a.func.words())
}

/// The largest of all.
fn aggregation_size(program: &Program) -> Option<u64> {
    program.aggs.iter().map(entry_size).max()
}

/// The largest of those that have keys.
fn keyed_size(program: &Program) -> Option<u64> {
    program.aggs.iter().filter(|a| !a.key.is_empty()).map(entry_size).max()
}

/// The size of the largest key and element of any associative array of the program's own.
fn element_size(program: &Program) -> Option<u64> {
    let ours = program.upkeep.as_ref().map(|upkeep| upkeep.array.0 as usize);
    let own = program.arrays.iter().enumerate().filter(|(at, _)| Some(*at) != ours).map(|(_, array)| array);
    own.map(|a| a.key.iter().chain([&a.val]).map(size_of).sum()).max()
}

/// Most entries of a map: its table of buckets takes 16 bytes for each from the start.
const MOST_ENTRIES: u32 = 1 << 24;

/// Sizes are in bytes; an entry takes its key, its value and about this much in the kernel.
const OVERHEAD: u64 = 64;

/// The sizes of maps that the options ask for.
pub fn codegen_options(program: &Program, options: &Options, ncpu: u32) -> CodegenOptions {
    let small = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
    let entries = |bytes: u64, each: Option<u64>| bytes / (each.unwrap_or(0) + OVERHEAD);
    CodegenOptions {
        ncpu,
        ring_size: small(options.bufsize),
        // As in DTrace, `aggsize` is the room for each CPU.
        agg_entries: small(
            entries(options.aggsize, keyed_size(program)).saturating_mul(u64::from(ncpu)).max(u64::from(ncpu)),
        )
        .min(MOST_ENTRIES),
        // DTrace counts the keys and values, and the number of the variable.
        dyn_entries: small((options.dynvarsize / (element_size(program).unwrap_or(0) + 4)).max(1)).min(MOST_ENTRIES),
        scratch: small(options.scratchsize),
    }
}

/// The text of a line of the first source.
fn line_span(sources: &Sources, line: u32) -> Option<Span> {
    let source = sources.get(SourceId(0))?;
    let at = line.checked_sub(1)? as usize;
    let lo = *source.line_starts.get(at)?;
    let hi = source.line_starts.get(at + 1).map_or(source.text.len() as u32, |next| next - 1);
    Some(Span::new(SourceId(0), lo, hi))
}
