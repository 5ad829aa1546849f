//! What DTrace declares the arguments of its functions to be, for the lines below an error about one.

use super::Checker;
use probity_ir::TypeId;
use probity_syntax::Diagnostic;

/// Functions and the types of their arguments; the last one stands for all that follow.
#[rustfmt::skip]
const PROTOTYPES: &[(&str, &[&str])] = &[
    ("alloca", &["size_t"]),
    ("basename", &["char *"]),
    ("bcopy", &["void *", "void *", "size_t"]),
    ("chill", &["int"]),
    ("cleanpath", &["char *"]),
    ("commit", &["int"]),
    ("copyin", &["uintptr_t", "size_t"]),
    ("copyinstr", &["uintptr_t", "size_t"]),
    ("copyinto", &["uintptr_t", "size_t", "void *"]),
    ("copyout", &["void *", "uintptr_t", "size_t"]),
    ("copyoutstr", &["char *", "uintptr_t", "size_t"]),
    ("dirname", &["char *"]),
    ("discard", &["int"]),
    ("exit", &["int"]),
    ("freopen", &["string"]),
    ("htonl", &["uint32_t"]),
    ("htonll", &["uint64_t"]),
    ("htons", &["uint16_t"]),
    ("index", &["char *", "char *", "int"]),
    ("inet_ntoa", &["ipaddr_t *"]),
    ("inet_ntoa6", &["struct in6_addr *"]),
    ("inet_ntop", &["int", "void *"]),
    ("link_ntop", &["int", "void *"]),
    ("lltostr", &["int64_t", "int"]),
    ("mutex_owned", &["struct mutex *"]),
    ("mutex_owner", &["struct mutex *"]),
    ("mutex_type_adaptive", &["struct mutex *"]),
    ("mutex_type_spin", &["struct mutex *"]),
    ("ntohl", &["uint32_t"]),
    ("ntohll", &["uint64_t"]),
    ("ntohs", &["uint16_t"]),
    ("pcap", &["void *", "int"]),
    ("print", &["void *"]),
    ("printf", &["string"]),
    ("progenyof", &["pid_t"]),
    ("raise", &["int"]),
    ("return", &["int"]),
    ("rindex", &["char *", "char *", "int"]),
    ("rw_iswriter", &["struct rwlock *"]),
    ("rw_read_held", &["struct rwlock *"]),
    ("rw_write_held", &["struct rwlock *"]),
    ("setopt", &["char *"]),
    ("speculate", &["int"]),
    ("stack", &["uint32_t"]),
    ("strchr", &["char *", "char"]),
    ("strjoin", &["char *", "char *"]),
    ("strlen", &["char *"]),
    ("strrchr", &["char *", "char"]),
    ("strstr", &["char *", "char *"]),
    ("strtok", &["char *", "char *"]),
    ("substr", &["char *", "int", "int"]),
    ("system", &["string"]),
    ("tracemem", &["pointer or integer", "size_t", "int"]),
    ("ustack", &["uint32_t"]),
];

impl Checker<'_> {
    /// Adds what argument `i` of a function is declared as, if that is known, and what it is.
    pub(super) fn with_prototype(&self, d: Diagnostic, func: &str, i: usize, argument: &str) -> Diagnostic {
        let declared = PROTOTYPES.iter().find(|p| p.0 == func).and_then(|p| p.1.get(i).or(p.1.last()));
        match declared {
            Some(declared) => d.fact("prototype", *declared).fact("argument", argument),
            None => d,
        }
    }

    /// A type as DTrace names it in such lines.
    pub(super) fn fact_name(&self, ty: TypeId) -> String {
        self.name(ty).replace(" {...}", "")
    }
}
