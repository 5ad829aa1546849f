//! The names that D itself gives: built-in variables, functions, and those of them that this version knows but cannot do.

use super::tree::*;
use super::{Checker, Res};
use probity_ir::{Builtin, ProbePart, Space, TypeId};
use probity_syntax::{Diagnostic, Span, near, tags};

/// How a function may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FuncKind {
    /// A statement of its own.
    Action,
    /// Has a value.
    Subroutine,
    /// Stands on the right of `@a = `.
    Aggregating,
}

/// A function: its name, kind, and how many arguments it takes.
pub(super) struct Func {
    pub name: &'static str,
    pub kind: FuncKind,
    pub least: usize,
    pub most: usize,
}

const fn f(name: &'static str, kind: FuncKind, least: usize, most: usize) -> Func {
    Func { name, kind, least, most }
}

const MANY: usize = usize::MAX;

#[rustfmt::skip]
pub(super) static FUNCTIONS: &[Func] = &[
    f("trace", FuncKind::Action, 1, 1),
    f("printf", FuncKind::Action, 1, MANY),
    f("printa", FuncKind::Action, 1, MANY),
    f("print", FuncKind::Action, 1, 1),
    f("tracemem", FuncKind::Action, 2, 3),
    f("exit", FuncKind::Action, 1, 1),
    f("clear", FuncKind::Action, 1, 1),
    f("trunc", FuncKind::Action, 1, 2),
    f("normalize", FuncKind::Action, 2, 2),
    f("denormalize", FuncKind::Action, 1, 1),
    f("speculate", FuncKind::Action, 1, 1),
    f("commit", FuncKind::Action, 1, 1),
    f("discard", FuncKind::Action, 1, 1),
    f("system", FuncKind::Action, 1, MANY),
    f("freopen", FuncKind::Action, 1, MANY),
    f("ftruncate", FuncKind::Action, 0, 0),
    f("setopt", FuncKind::Action, 1, 2),
    f("pcap", FuncKind::Action, 2, 2),
    f("raise", FuncKind::Action, 1, 1),
    f("stop", FuncKind::Action, 0, 0),
    f("chill", FuncKind::Action, 1, 1),
    f("return", FuncKind::Action, 1, 1),
    f("panic", FuncKind::Action, 0, 0),
    f("breakpoint", FuncKind::Action, 0, 0),
    f("speculation", FuncKind::Subroutine, 0, 0),
    f("alloca", FuncKind::Subroutine, 1, 1),
    f("bcopy", FuncKind::Subroutine, 3, 3),
    f("copyin", FuncKind::Subroutine, 2, 2),
    f("copyinto", FuncKind::Subroutine, 3, 3),
    f("copyout", FuncKind::Subroutine, 3, 3),
    f("copyoutstr", FuncKind::Subroutine, 3, 3),
    f("copyinstr", FuncKind::Subroutine, 1, 2),
    f("strlen", FuncKind::Subroutine, 1, 1),
    f("strjoin", FuncKind::Subroutine, 2, 2),
    f("stack", FuncKind::Subroutine, 0, 1),
    f("ustack", FuncKind::Subroutine, 0, 2),
    f("jstack", FuncKind::Subroutine, 0, 2),
    f("sym", FuncKind::Subroutine, 1, 1),
    f("func", FuncKind::Subroutine, 1, 1),
    f("mod", FuncKind::Subroutine, 1, 1),
    f("usym", FuncKind::Subroutine, 1, 1),
    f("ufunc", FuncKind::Subroutine, 1, 1),
    f("umod", FuncKind::Subroutine, 1, 1),
    f("uaddr", FuncKind::Subroutine, 1, 1),
    f("count", FuncKind::Aggregating, 0, 0),
    f("sum", FuncKind::Aggregating, 1, 1),
    f("min", FuncKind::Aggregating, 1, 1),
    f("max", FuncKind::Aggregating, 1, 1),
    f("avg", FuncKind::Aggregating, 1, 1),
    f("stddev", FuncKind::Aggregating, 1, 1),
    f("quantize", FuncKind::Aggregating, 1, 2),
    f("lquantize", FuncKind::Aggregating, 3, 5),
    f("llquantize", FuncKind::Aggregating, 5, 6),
];

/// Actions that are refused with a reason: they cannot be on Linux, or (`return`) at no probe that every kernel has.
pub(super) const REFUSED: &[&str] = &["panic", "breakpoint", "return"];

/// The built-in variables of this version, for suggestions.
#[rustfmt::skip]
pub(super) const VARIABLES: &[&str] = &[
    "arg0", "arg1", "arg2", "arg3", "arg4", "arg5", "arg6", "arg7", "arg8", "arg9", "args", "caller", "cpu",
    "curthread", "epid", "errno", "execname", "gid", "id", "ipl", "pid", "ppid", "probefunc", "probemod", "probename",
    "probeprov", "stackdepth", "tid", "timestamp", "ucaller", "uid", "uregs", "ustackdepth", "vtimestamp", "walltimestamp",
];

/// DTrace's names for integer types: name, size, signed.
#[rustfmt::skip]
pub(super) const INT_TYPES: &[(&str, u8, bool)] = &[
    ("int8_t", 1, true), ("int16_t", 2, true), ("int32_t", 4, true), ("int64_t", 8, true),
    ("uint8_t", 1, false), ("uint16_t", 2, false), ("uint32_t", 4, false), ("uint64_t", 8, false),
    ("intptr_t", 8, true), ("uintptr_t", 8, false), ("size_t", 8, false), ("ssize_t", 8, true), ("ptrdiff_t", 8, true),
    ("ushort", 2, false), ("uint", 4, false), ("ulong", 8, false),
    ("uchar_t", 1, false), ("ushort_t", 2, false), ("uint_t", 4, false), ("ulong_t", 8, false),
    ("longlong_t", 8, true), ("u_longlong_t", 8, false), ("offset_t", 8, true), ("off_t", 8, true),
    ("pid_t", 4, true), ("id_t", 4, true), ("uid_t", 4, false), ("gid_t", 4, false), ("dev_t", 8, false),
    ("mode_t", 4, false), ("processorid_t", 4, true), ("psetid_t", 4, true), ("chipid_t", 4, true),
    ("lgrp_id_t", 4, true), ("zoneid_t", 4, true), ("taskid_t", 4, true), ("projid_t", 4, true), ("ctid_t", 4, true),
    ("hrtime_t", 8, true), ("time_t", 8, true), ("clock_t", 8, true), ("timer_t", 4, true),
    ("ipaddr_t", 4, false), ("in_addr_t", 4, false),
    ("u8", 1, false), ("u16", 2, false), ("u32", 4, false), ("u64", 8, false),
    ("s8", 1, true), ("s16", 2, true), ("s32", 4, true), ("s64", 8, true),
];

pub(super) fn function(name: &str) -> Option<Func> {
    if let Some(row) = super::sub::find(name) {
        return Some(row.func());
    }
    FUNCTIONS.iter().find(|f| f.name == name).map(|k| f(k.name, k.kind, k.least, k.most))
}

impl Checker<'_> {
    /// The value of a built-in variable; `None` where the name is not one.
    pub(super) fn builtin(&mut self, name: &str, span: Span) -> Option<Res<TExpr>> {
        if let Some(n) = name.strip_prefix("arg").filter(|d| d.len() == 1).and_then(|d| d.parse::<u32>().ok()) {
            return Some(self.raw_arg(n, span));
        }
        let integer = |b| TKind::Builtin(b);
        let (kind, ty) = match name {
            "pid" => (integer(Builtin::Pid), self.named_int("pid_t")),
            "tid" => (integer(Builtin::Tid), self.named_int("id_t")),
            "uid" => (integer(Builtin::Uid), self.named_int("uid_t")),
            "gid" => (integer(Builtin::Gid), self.named_int("gid_t")),
            "timestamp" => (integer(Builtin::Timestamp), self.named_int("uint64_t")),
            "walltimestamp" => (integer(Builtin::WallTimestamp), self.named_int("int64_t")),
            "vtimestamp" => return Some(self.vtimestamp(span)),
            // Linux has no interrupt priorities: any interrupt interrupts any code that lets itself be interrupted.
            "ipl" => (TKind::Int(0), self.basic.uint),
            "cpu" => (integer(Builtin::Cpu), self.named_int("processorid_t")),
            "id" => (integer(Builtin::ProbeId), self.basic.uint),
            "epid" => (integer(Builtin::Epid), self.named_int("uint64_t")),
            "caller" => (TKind::Caller, self.named_int("uintptr_t")),
            "ucaller" => (TKind::Ucaller, self.named_int("uintptr_t")),
            "stackdepth" => return Some(Ok(self.stack_depth(false, span))),
            "ustackdepth" => return Some(Ok(self.stack_depth(true, span))),
            "regs" | "vmregs" => return Some(self.no_registers(name, span)),
            "uregs" => {
                let d = Diagnostic::error(tags::D_IDENT_BADREF, span, "`uregs` needs an index, such as `uregs[R_PC]`");
                return Some(self.report(d));
            }
            "errno" => (TKind::Errno, self.basic.int),
            "execname" => (TKind::Comm, self.basic.string),
            "probeprov" => (TKind::ProbePart(ProbePart::Provider), self.basic.string),
            "probemod" => (TKind::ProbePart(ProbePart::Module), self.basic.string),
            "probefunc" => (TKind::ProbePart(ProbePart::Function), self.basic.string),
            "probename" => (TKind::ProbePart(ProbePart::Name), self.basic.string),
            "ppid" => return Some(self.ppid(span)),
            "curthread" => return Some(self.curthread(span)),
            "args" => {
                let d = Diagnostic::error(tags::D_IDENT_BADREF, span, "`args` needs an index, such as `args[0]`");
                return Some(self.report(d));
            }
            "zonename" => {
                let d = Diagnostic::error(tags::D_VAR_UNSUP, span, "Linux has no zones, so there is no `zonename`");
                let help = "a container is known by its namespaces: `curthread->nsproxy`, or by its control group";
                return Some(self.report(d.help(help)));
            }
            _ => return None,
        };
        Some(Ok(TExpr { kind, ty, span }))
    }

    /// One of [`INT_TYPES`].
    pub(super) fn named_int(&mut self, name: &str) -> TypeId {
        match INT_TYPES.iter().find(|t| t.0 == name) {
            Some(&(name, size, signed)) => {
                let to = self.types.int(size, signed);
                self.types.add(probity_ir::TypeKind::Typedef { name: name.into(), to })
            }
            None => self.basic.long,
        }
    }

    pub(super) fn raw_arg(&mut self, n: u32, span: Span) -> Res<TExpr> {
        let ty = self.named_int("int64_t");
        if !self.cx.in_clause {
            return self.err(tags::D_ARGS_NONE, span, "a probe's arguments exist in clauses only");
        }
        if let Some(signature) = self.cx.signature {
            match signature.raw.get(n as usize) {
                Some(probity_ir::Location::None(why)) => {
                    let message = format!("arg{n} is not available: {why}");
                    return self.err(tags::D_ARGS_IDX, span, message);
                }
                Some(_) => {}
                // D says that an argument that a probe does not have is 0.
                None => return Ok(TExpr::int(0, ty, span)),
            }
        }
        Ok(TExpr { kind: TKind::RawArg(n), ty, span })
    }

    fn vtimestamp(&mut self, span: Span) -> Res<TExpr> {
        if self.switch.is_none() {
            self.switch = self.env.task_switch(&mut self.types);
        }
        if self.switch.is_none() {
            let message = "`vtimestamp` needs the kernel's typed tracepoint sched_switch, which was not found";
            let d = Diagnostic::error(tags::D_VAR_UNSUP, span, message);
            return self.report(d.help("use a kernel that has /sys/kernel/btf/vmlinux"));
        }
        let ty = self.named_int("uint64_t");
        Ok(TExpr { kind: TKind::Builtin(Builtin::Vtimestamp), ty, span })
    }

    pub(super) fn task_struct(&mut self, what: &str, span: Span) -> Res<TypeId> {
        match self.env.kernel_type("", "struct", "task_struct", &mut self.types) {
            Some(ty) if self.complete(ty) => Ok(ty),
            _ => {
                let message = format!("`{what}` needs the kernel's type information (BTF), which was not found");
                let d = Diagnostic::error(tags::D_SYM_NOTYPES, span, message);
                self.report(d.help("use a kernel that has /sys/kernel/btf/vmlinux"))
            }
        }
    }

    fn curthread(&mut self, span: Span) -> Res<TExpr> {
        let task = self.task_struct("curthread", span)?;
        let ty = self.types.pointer(task, Space::Kernel);
        Ok(TExpr { kind: TKind::Builtin(Builtin::CurThread), ty, span })
    }

    fn ppid(&mut self, span: Span) -> Res<TExpr> {
        let task = self.task_struct("ppid", span)?;
        let (parent, tgid) = (self.find_member(task, "real_parent"), self.find_member(task, "tgid"));
        let ty = self.named_int("pid_t");
        match (parent, tgid) {
            (Some(parent), Some(tgid)) => {
                Ok(TExpr { kind: TKind::Ppid(parent.bit_offset / 8, tgid.bit_offset / 8), ty, span })
            }
            _ => self.err(tags::D_SYM_NOTYPES, span, "this kernel's `struct task_struct` does not tell the parent"),
        }
    }

    /// Reports a name that stands for nothing.
    pub(super) fn undefined<T>(&mut self, name: &str, span: Span) -> Res<T> {
        if let Some(d) = self.external_used(name, span) {
            return self.report(d);
        }
        let mut names: Vec<&str> = VARIABLES.to_vec();
        names.extend(self.globals.keys().map(String::as_str));
        names.extend(self.inlines.keys().map(String::as_str));
        names.extend(self.enumerators.keys().map(String::as_str));
        for name in crate::library::names().filter(|n| !n.starts_with('_')) {
            names.push(name);
        }
        names.sort_unstable();
        let found = near(name, names).map(str::to_string);
        let mut d = Diagnostic::error(tags::D_IDENT_UNDEF, span, format!("`{name}` is not defined"))
            .dtrace_says(format!("failed to resolve {name}: Unknown variable name"));
        if let Some(found) = found {
            d = d.suggest(span, found.clone(), format!("use `{found}`"));
        } else if function(name).is_some() {
            d = d.help(format!("`{name}` is a function: write `{name}(…)`"));
        }
        self.report(d)
    }
}
