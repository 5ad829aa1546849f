//! D libraries: those that are shipped in the program (`lib/*.d`) and those that `-L` names. Owns finding out which of the shipped
//! ones a program needs: one that uses no name of a library does not pay for reading it.
//!
//! A library of ours begins each definition at the left margin and ends a struct with `} name;`, so that the names it defines can be
//! found without parsing it.

use crate::env::Env;
use crate::expand::Source;
use probity_ir::TypeTable;
use probity_syntax::ast::{self, Item, PragmaKind};
use probity_syntax::macros::Macros;
use probity_syntax::parse::ParseOptions;
use probity_syntax::{Diagnostic, Origin, Sources, tags};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::OnceLock;

macro_rules! libraries {
    ($($name:literal $file:literal,)*) => { &[$(($name, include_str!(concat!("../lib/", $file))),)*] };
}

/// The libraries: name and text.
#[cfg(not(target_arch = "aarch64"))]
const LIBRARIES: &[(&str, &str)] = libraries! {
    "errno.d" "errno.d", "signal.d" "signal.d", "fault.d" "fault.d", "fcntl.d" "fcntl.d", "fcntl-arch.d" "fcntl-x86_64.d",
    "types.d" "types.d", "sched.d" "sched.d", "procfs.d" "procfs.d", "io.d" "io.d", "net.d" "net.d", "ip.d" "ip.d",
    "tcp.d" "tcp.d", "udp.d" "udp.d", "lockstat.d" "lockstat.d", "pcap.d" "pcap.d",
};
#[cfg(target_arch = "aarch64")]
const LIBRARIES: &[(&str, &str)] = libraries! {
    "errno.d" "errno.d", "signal.d" "signal.d", "fault.d" "fault.d", "fcntl.d" "fcntl.d", "fcntl-arch.d" "fcntl-aarch64.d",
    "types.d" "types.d", "sched.d" "sched.d", "procfs.d" "procfs.d", "io.d" "io.d", "net.d" "net.d", "ip.d" "ip.d",
    "tcp.d" "tcp.d", "udp.d" "udp.d", "lockstat.d" "lockstat.d", "pcap.d" "pcap.d",
};

/// Libraries that DTrace has and whose names are elsewhere here.
const DTRACES: &[&str] = &["unistd.d", "regs.d"];

/// Which library defines a name.
fn index() -> &'static HashMap<&'static str, usize> {
    static INDEX: OnceLock<HashMap<&'static str, usize>> = OnceLock::new();
    INDEX.get_or_init(|| {
        let mut index = HashMap::new();
        for (at, (_, text)) in LIBRARIES.iter().enumerate() {
            for line in text.lines() {
                if let Some(name) = defined(line) {
                    index.insert(name, at);
                }
            }
        }
        index
    })
}

/// The name that a line of a library defines.
fn defined(line: &str) -> Option<&str> {
    let head = if line.starts_with("inline ") {
        let head = line.split_once('=').map_or(line, |(head, _)| head);
        head.split_once('[').map_or(head, |(head, _)| head)
    } else if line.starts_with("} ") || line.starts_with("typedef ") && line.ends_with(';') {
        line.trim_end_matches(';')
    } else {
        return None;
    };
    head.trim_end().rsplit([' ', '*']).next().filter(|name| !name.is_empty())
}

/// Whether a library of ours defines a name.
pub fn defines(name: &str) -> bool {
    index().contains_key(name)
}

/// All names that libraries of ours define, in no order.
pub fn names() -> impl Iterator<Item = &'static str> {
    index().keys().copied()
}

/// The identifiers of a text, those in comments and strings included.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(|w| !w.is_empty())
}

/// The shipped libraries that some texts need, each behind those that it needs itself.
fn needed<'t>(texts: impl Iterator<Item = &'t str>) -> Vec<usize> {
    fn visit(at: usize, seen: &mut BTreeSet<usize>, order: &mut Vec<usize>) {
        if !seen.insert(at) {
            return;
        }
        for word in words(LIBRARIES[at].1) {
            if let Some(&other) = index().get(word) {
                visit(other, seen, order);
            }
        }
        order.push(at);
    }
    let (mut seen, mut order) = (BTreeSet::new(), Vec::new());
    for text in texts {
        for word in words(text) {
            if let Some(&at) = index().get(word) {
                visit(at, &mut seen, &mut order);
            }
        }
    }
    order
}

/// Reads the shipped libraries that some texts need. Their items, in order.
pub(crate) fn shipped<'t>(
    texts: impl Iterator<Item = &'t str>,
    sources: &mut Sources,
    env: &dyn Env,
    diags: &mut Vec<Diagnostic>,
) -> Vec<Item> {
    let mut items = Vec::new();
    for at in needed(texts) {
        let (name, text) = LIBRARIES[at];
        read(name, text, &mut items, sources, env, diags);
    }
    items
}

/// Reads one library.
pub(crate) fn read(
    name: &str,
    text: &str,
    items: &mut Vec<Item>,
    sources: &mut Sources,
    env: &dyn Env,
    diags: &mut Vec<Diagnostic>,
) {
    let id = sources.add(Origin::Library(name.to_string()), text.to_string());
    let earlier = typedefs(items);
    let known = |name: &str| {
        let (scope, plain) = name.rsplit_once('`').unwrap_or(("", name));
        earlier.contains(name) || defines(name) && name.ends_with("_t") || {
            let likely = !scope.is_empty() || plain.ends_with("_t");
            likely && env.kernel_type(scope, "", plain, &mut TypeTable::default()).is_some()
        }
    };
    let options = ParseOptions { typedefs: &known, macros: Macros::default(), keep_macros: false };
    let (parsed, mut found) = probity_syntax::parse(text, id, &options);
    diags.append(&mut found);
    items.extend(parsed.items);
}

/// The type names that items define.
pub(crate) fn typedefs(items: &[Item]) -> HashSet<String> {
    let mut names = HashSet::new();
    for item in items {
        let Item::Declaration(decl) = item else { continue };
        if matches!(decl.specs.storage, Some((ast::Storage::Typedef, _))) {
            names.extend(decl.declarators.iter().filter_map(|d| d.name.as_ref()).map(|n| n.text.clone()));
        }
    }
    names
}

/// Reads the libraries of `-L`, each behind those that it depends on. One whose module or provider is not there is left out, as are
/// those that depend on it.
pub(crate) fn extra(
    libraries: &[Source],
    sources: &mut Sources,
    env: &dyn Env,
    diags: &mut Vec<Diagnostic>,
) -> Vec<Item> {
    let name_of = |source: &Source| match &source.origin {
        Origin::Library(path) | Origin::File(path) => path.rsplit('/').next().unwrap_or(path).to_string(),
        Origin::Flag(_) => String::new(),
    };
    // A first reading tells what each depends on; types matter to the second only.
    let mut depends: Vec<Vec<ast::Pragma>> = Vec::new();
    for library in libraries {
        let mut scratch = Sources::default();
        let id = scratch.add(library.origin.clone(), library.text.clone());
        let (parsed, _) = probity_syntax::parse(&library.text, id, &ParseOptions::default());
        let pragmas = parsed.items.into_iter().filter_map(|item| match item {
            Item::Pragma(p) if matches!(p.kind, PragmaKind::DependsOn { .. }) => Some(p),
            _ => None,
        });
        depends.push(pragmas.collect());
    }
    let by_name: HashMap<String, usize> = libraries.iter().enumerate().map(|(at, l)| (name_of(l), at)).collect();
    let mut state = vec![State::New; libraries.len()];
    let mut order = Vec::new();
    let mut visit = Visit { libraries, depends: &depends, by_name: &by_name, state: &mut state, order: &mut order };
    for at in 0..libraries.len() {
        visit.library(at, env, diags);
    }
    let mut items = Vec::new();
    for at in order {
        let Origin::Library(path) = &libraries[at].origin else { continue };
        read(path, &libraries[at].text, &mut items, sources, env, diags);
    }
    items
}

#[derive(Clone, Copy, PartialEq)]
enum State {
    New,
    Open,
    Good,
    LeftOut,
}

struct Visit<'a> {
    libraries: &'a [Source],
    depends: &'a [Vec<ast::Pragma>],
    by_name: &'a HashMap<String, usize>,
    state: &'a mut Vec<State>,
    order: &'a mut Vec<usize>,
}

impl Visit<'_> {
    fn library(&mut self, at: usize, env: &dyn Env, diags: &mut Vec<Diagnostic>) -> State {
        if self.state[at] != State::New {
            return self.state[at];
        }
        self.state[at] = State::Open;
        let mut result = State::Good;
        let path = match &self.libraries[at].origin {
            Origin::Library(path) | Origin::File(path) => path.clone(),
            Origin::Flag(_) => String::new(),
        };
        for pragma in &self.depends[at] {
            let PragmaKind::DependsOn { class, name } = &pragma.kind else { continue };
            let wrong = match class.text.as_str() {
                "library" => match self.by_name.get(&name.text) {
                    Some(&other) => match self.library(other, env, diags) {
                        State::Open => Some(format!("library {path} depends on itself, by way of {}", name.text)),
                        State::LeftOut => {
                            result = State::LeftOut;
                            None
                        }
                        State::New | State::Good => None,
                    },
                    None if LIBRARIES.iter().any(|l| l.0 == name.text) || DTRACES.contains(&&*name.text) => None,
                    None => Some(format!("library {path} depends on {}, which is not there", name.text)),
                },
                "module" | "provider" => {
                    if !depends_met(class, name, env) {
                        result = State::LeftOut;
                    }
                    None
                }
                other => Some(format!(
                    "library {path} depends on a `{other}`: only a library, module or provider can be asked for"
                )),
            };
            if let Some(message) = wrong {
                diags.push(Diagnostic::error(tags::D_PRAGMA_DEPEND, None, message));
                result = State::LeftOut;
            }
        }
        self.state[at] = result;
        if result == State::Good {
            self.order.push(at);
        }
        result
    }
}

/// Whether a module or provider that something depends on is there.
pub(crate) fn depends_met(class: &ast::Name, name: &ast::Name, env: &dyn Env) -> bool {
    match class.text.as_str() {
        "provider" => {
            let mut any = false;
            let desc = probity_ir::ProbeDesc::new(&name.text, "", "", "");
            env.probes(&desc, &mut |_| any = true).is_ok() && any
        }
        _ => env.has_module(&name.text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_without_parsing() {
        assert_eq!(defined("inline int SIGHUP = 1;"), Some("SIGHUP"));
        assert_eq!(defined("inline string tcp_state_string[int state] ="), Some("tcp_state_string"));
        assert_eq!(defined("inline psinfo_t *curpsinfo = xlate <psinfo_t *> (curthread);"), Some("curpsinfo"));
        assert_eq!(defined("} psinfo_t;"), Some("psinfo_t"));
        assert_eq!(defined("typedef uint32_t ipaddr_t;"), Some("ipaddr_t"));
        assert_eq!(defined("typedef struct psinfo_t {"), None);
        assert_eq!(defined("\tpr_uid = 1;"), None);
    }

    #[test]
    fn what_is_not_named_is_not_needed() {
        assert!(needed(["syscall:::entry { @[execname] = count(); }"].into_iter()).is_empty());
        let of = |text: &'static str| needed([text].into_iter()).iter().map(|at| LIBRARIES[*at].0).collect::<Vec<_>>();
        assert_eq!(of("BEGIN { trace(SIGHUP); }"), ["signal.d"]);
        assert_eq!(of("BEGIN { trace(curpsinfo->pr_pid); }"), ["types.d", "procfs.d"]);
    }
}
