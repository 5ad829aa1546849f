//! The first pass: source texts to one list of items, with the pragmas carried out and the script's arguments accounted for.
//! Leaves macro replacement to the lexer, which knows where a macro may stand.

use crate::env::Env;
use crate::library;
use crate::options::{OptionError, Options};
use probity_ir::TypeTable;
use probity_syntax::ast::{self, Item, Pragma, PragmaKind};
use probity_syntax::macros::Macros;
use probity_syntax::parse::{ParseOptions, SpecKind, parse_clause_flag};
use probity_syntax::{Diagnostic, Origin, SourceId, Sources, Span, tags};

/// One source text of a run, in the order of the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// A file, or the flag whose argument it is.
    pub origin: Origin,
    /// The text.
    pub text: String,
}

/// What `compile` starts from.
#[derive(Clone, Debug, Default)]
pub struct Input {
    /// The texts.
    pub sources: Vec<Source>,
    /// Script arguments and the other macros.
    pub macros: Macros,
    /// Options of the command line; pragmas come after them.
    pub options: Options,
    /// The texts of the libraries in `-L` directories, in order.
    pub libraries: Vec<Source>,
}

/// The program as one list of items.
#[derive(Clone, Debug, Default)]
pub struct Expanded {
    /// The texts, for diagnostics.
    pub sources: Sources,
    /// Options, pragmas applied.
    pub options: Options,
    /// Clauses, declarations and so on, in order.
    pub items: Vec<Item>,
    /// What the libraries declare.
    pub libraries: Vec<Item>,
}

/// Parses all texts and carries out their pragmas.
pub fn expand(input: &Input, env: &dyn Env, diags: &mut Vec<Diagnostic>) -> Expanded {
    let mut out = Expanded { options: input.options.clone(), ..Expanded::default() };
    let mut used = Vec::new();
    let mut failed = false;
    // The program's texts have the first numbers, with or without libraries.
    let ids: Vec<SourceId> = input.sources.iter().map(|s| out.sources.add(s.origin.clone(), s.text.clone())).collect();
    if !input.options.nolibs {
        out.libraries = library::extra(&input.libraries, &mut out.sources, env, diags);
        failed = diags.iter().any(Diagnostic::is_error);
    }
    for id in ids {
        let mut macros = input.macros.clone();
        macros.default_args |= out.options.defaultargs;
        let (mut parsed, mut found) = parse(&out, id, &macros, env);
        // This option changes how the text itself reads, and stands in it.
        let mut options = out.options.clone();
        pragmas(&parsed.items, &mut options, env, &mut Vec::new());
        if options.defaultargs && !macros.default_args {
            macros.default_args = true;
            (parsed, found) = parse(&out, id, &macros, env);
        }
        pragmas(&parsed.items, &mut out.options, env, &mut found);
        let bad = found.iter().any(Diagnostic::is_error);
        let empty = parsed.items.iter().all(|item| matches!(item, Item::Pragma(_)));
        if empty && !out.options.empty && !bad {
            let source = &out.sources.sources[id.0 as usize];
            let end = source.text.len() as u32;
            found.push(
                Diagnostic::error(
                    tags::D_EMPTY,
                    Span::new(id, end, end),
                    format!("{} has no clause and no declaration", source.name()),
                )
                .dtrace_says("empty D program translation unit")
                .help("give at least one clause, such as `BEGIN { exit(0); }`, or set the option `empty`"),
            );
        }
        failed |= bad;
        diags.append(&mut found);
        used.extend(parsed.args_used);
        out.items.extend(parsed.items);
    }
    if !out.options.argref && !failed {
        unused_arguments(input, &used, diags);
    }
    out
}

/// Names of the kernel's own that no D program would give to a variable.
const KERNEL_WORDS: &[&str] =
    &["u8", "u16", "u32", "u64", "s8", "s16", "s32", "s64", "__u8", "__u16", "__u32", "__u64", "__s32", "__s64"];

fn parse(out: &Expanded, id: SourceId, macros: &Macros, env: &dyn Env) -> (ast::Program, Vec<Diagnostic>) {
    let Some(source) = out.sources.get(id) else { return (ast::Program::default(), Vec::new()) };
    let mut earlier = library::typedefs(&out.items);
    earlier.extend(library::typedefs(&out.libraries));
    // The kernel's types are asked for only where a name looks like one of a type: reading them all costs time.
    let typedefs = |name: &str| {
        let (scope, plain) = name.rsplit_once('`').unwrap_or(("", name));
        let likely = !scope.is_empty() || plain.ends_with("_t") || KERNEL_WORDS.contains(&plain);
        earlier.contains(name)
            || plain.ends_with("_t") && scope.is_empty() && library::defines(plain)
            || likely && env.kernel_type(scope, "", plain, &mut TypeTable::default()).is_some()
    };
    let options = ParseOptions { typedefs: &typedefs, macros: macros.clone(), keep_macros: false };
    let kind = match source.origin {
        Origin::Flag('P') => SpecKind::Provider,
        Origin::Flag('m') => SpecKind::Module,
        Origin::Flag('f') => SpecKind::Function,
        Origin::Flag('n') => SpecKind::Name,
        Origin::Flag('i') => SpecKind::Id,
        Origin::Flag(_) | Origin::File(_) | Origin::Library(_) => SpecKind::Script,
    };
    parse_clause_flag(kind, &source.text, id, &options)
}

fn unused_arguments(input: &Input, used: &[u32], diags: &mut Vec<Diagnostic>) {
    let unused: Vec<usize> = (1..input.macros.args.len()).filter(|&i| !used.contains(&(i as u32))).collect();
    if let Some(first) = unused.first() {
        let highest = used.iter().max().copied().unwrap_or(0);
        let text = &input.macros.args[*first];
        let message =
            format!("argument ${first} (\"{text}\") is not used by the program; the last one used is ${highest}");
        let last = unused.last().copied().unwrap_or(*first);
        let compat = format!("extraneous argument '{}' (${last} is not referenced)", input.macros.args[last]);
        // It is a mistake of the command line; the first program text is named for it, as a whole.
        let end = input.sources.first().map_or(0, |s| s.text.len() as u32);
        diags.push(
            Diagnostic::error(tags::D_MACRO_UNUSED, Span::new(SourceId(0), 0, 0), message)
                .dtrace_at(Span::new(SourceId(0), end, end))
                .dtrace_says(compat)
                .help("leave it out, or set the option `argref`"),
        );
    }
}

/// Carries out the pragmas of some items.
fn pragmas(items: &[Item], options: &mut Options, env: &dyn Env, diags: &mut Vec<Diagnostic>) {
    for item in items {
        if let Item::Pragma(pragma) = item {
            apply(pragma, options, env, diags);
        }
    }
}

fn apply(pragma: &Pragma, options: &mut Options, env: &dyn Env, diags: &mut Vec<Diagnostic>) {
    match &pragma.kind {
        PragmaKind::Option { name, value } => {
            let Err(error) = options.set(&name.text, value.as_ref().map(|v| v.text.as_str())) else { return };
            let to = value.as_ref().map_or(String::new(), |v| format!(" to '{}'", v.text));
            let compat = format!("failed to set option '{}'{to}: {}", name.text, error.dtrace());
            let d = match error {
                OptionError::Name(near) => {
                    let d = Diagnostic::error(
                        tags::D_PRAGMA_OPTSET,
                        name.span,
                        format!("invalid option name: there is no option `{}`", name.text),
                    );
                    match near {
                        Some(near) => d.suggest(name.span, near, format!("use `{near}`")),
                        None => d,
                    }
                }
                OptionError::Value(expected) => Diagnostic::error(
                    tags::D_PRAGMA_OPTSET,
                    value.as_ref().map_or(name.span, |v| v.span),
                    format!("invalid value for option `{}`: expected {expected}", name.text),
                ),
                OptionError::Refused(why) => Diagnostic::error(
                    tags::D_PRAGMA_OPTSET,
                    name.span,
                    format!("option `{}` cannot be set: {why}", name.text),
                ),
            };
            diags.push(d.dtrace_says(compat));
        }
        PragmaKind::DependsOn { class, name } => {
            let (ok, why) = match class.text.as_str() {
                "provider" => {
                    (library::depends_met(class, name, env), format!("provider `{}` has no probes here", name.text))
                }
                "module" => (library::depends_met(class, name, env), format!("there is no module `{}`", name.text)),
                _ => (
                    false,
                    "a program cannot depend on a library: the libraries that it needs are read anyway".to_string(),
                ),
            };
            if !ok {
                diags.push(Diagnostic::error(tags::D_PRAGMA_DEPEND, name.span, why));
            }
        }
        // Stability has no bearing on what a program does.
        PragmaKind::Attributes { .. } | PragmaKind::Binding { .. } | PragmaKind::Error(_) => {}
    }
}
