//! Providers whose probes are made of other events: a table says, for each probe, which tracepoint it comes from, under which
//! condition, and how its arguments are computed from the tracepoint's.
//!
//! Owns the tables' vocabulary and what it means in locations. The tables are in a file for each provider.

use crate::kernel_types::{field_types, kernel_btf};
use crate::kinds::{bare, raw_tracepoint, tp_btf};
use crate::rawtp::Tracepoint;
use crate::syscall::Calls;
use crate::{Attachment, Provider, Stability};
use probity_debuginfo::tracefs_format::{Field, Place};
use probity_ir::{Arg, Location, ProbeDesc, Selector, Signature, Space, Test, TypeTable, glob};
use probity_kernel::{Error, Kind, Prog, System, attach};

/// A provider that is a table.
pub(crate) struct Derived {
    /// Its name.
    pub name: &'static str,
    /// The number of its first probe.
    pub first_id: u32,
    /// Its probes.
    pub probes: &'static [DerivedProbe],
}

/// The module of all probes.
const MODULE: &str = "vmlinux";

/// One probe.
pub(crate) struct DerivedProbe {
    pub name: &'static str,
    /// Where its events come from; the first of these that the kernel has.
    pub from: &'static [Source],
    /// Which of the events are the probe's.
    pub when: Option<Cond>,
    /// `arg0`, `arg1`, …
    pub raw: &'static [Value],
    /// `args[0]`, `args[1]`, …
    pub args: &'static [Typed],
}

/// A row of a provider's table.
pub(crate) const fn probe(
    name: &'static str,
    from: &'static [Source],
    when: Option<Cond>,
    raw: &'static [Value],
    args: &'static [Typed],
) -> DerivedProbe {
    DerivedProbe { name, from, when, raw, args }
}

/// Where events come from.
pub(crate) enum Source {
    /// A tracepoint.
    Tracepoint(&'static str),
    /// Several tracepoints with the same arguments.
    Tracepoints(&'static [&'static str]),
    /// Entries of system calls.
    Entry,
    /// Returns of system calls.
    Return,
    /// No tracepoint says it, for this reason.
    Nowhere(&'static str),
}

/// A typed argument.
pub(crate) struct Typed {
    /// What it is.
    pub value: Value,
    /// Its C type in the kernel.
    pub ty: &'static str,
    /// D's type that it is translated to, if any.
    pub translated: &'static str,
}

/// A value of an event.
pub(crate) enum Value {
    /// Argument `n` of the tracepoint.
    Arg(usize),
    /// Argument `n` of the system call: a number, or a pointer into user memory.
    CallArg(usize),
    /// The result of the system call.
    Result,
    /// The current task.
    Task,
    /// A constant.
    Const(i64),
    /// A member, by its path, of the struct that a value points to.
    Member(&'static Value, &'static str, &'static str),
    /// A pointer that may be null: what it points to is read with care.
    Nullable(&'static Value),
    /// The bits of a mask.
    Masked(&'static Value, i64),
    /// No event tells it, for this reason.
    Unknown(&'static str),
    /// One value or another.
    Case(&'static Cond, &'static Value, &'static Value),
}

/// A condition on values of an event.
pub(crate) enum Cond {
    Is(Value, i64),
    Within(Value, i64, i64),
    /// The one value is less than the other.
    Less(Value, Value),
    /// The tracepoint's argument `n` is not zero where the kernel passes that argument; else the other condition.
    Flag(usize, &'static Cond),
    /// The value is the address of one of these functions.
    Function(Value, &'static [&'static str]),
    /// The system call is one of these.
    Call(&'static [&'static str]),
    All(&'static [Cond]),
}

/// A value that is shown as it is.
pub(crate) const fn plain(value: Value, ty: &'static str) -> Typed {
    Typed { value, ty, translated: "" }
}

/// A value that a translator makes another of.
pub(crate) const fn translated(value: Value, ty: &'static str, translated: &'static str) -> Typed {
    Typed { value, ty, translated }
}

/// The source that a probe has on a system.
enum Chosen<'a> {
    Typed(Tracepoint, &'a str),
    Raw(&'static [&'static str]),
    Calls(Calls, bool),
}

impl Source {
    fn choose(&self, sys: &System) -> Result<Option<Chosen<'static>>, Error> {
        Ok(match self {
            Source::Tracepoint(name) => Tracepoint::find(sys, name).map(|found| Chosen::Typed(found, name)),
            Source::Tracepoints(names) => Some(Chosen::Raw(names)),
            Source::Entry => Some(Chosen::Calls(Calls::of(sys, false), false)),
            Source::Return => Some(Chosen::Calls(Calls::of(sys, true), true)),
            Source::Nowhere(why) => return Err(Error::new(Kind::Unsupported, *why)),
        })
    }
}

/// Makes locations of values.
struct Maker<'a> {
    sys: &'a System,
    source: &'a Chosen<'a>,
}

impl Maker<'_> {
    fn value(&self, value: &Value) -> Result<Location, Error> {
        Ok(match (value, self.source) {
            (Value::Arg(n), Chosen::Typed(tracepoint, _)) => tracepoint.location(*n),
            (Value::Arg(n), _) => Location::Ctx { offset: 8 * *n as u32, size: 8, signed: false },
            (Value::CallArg(n), Chosen::Calls(calls, _)) => calls.argument(*n),
            (Value::Result, Chosen::Calls(calls, _)) => calls.result(),
            (Value::CallArg(_) | Value::Result, _) => Location::None("the event is no system call".to_owned()),
            (Value::Task, _) => Location::CurrentTask,
            (Value::Const(value), _) => Location::Value(*value),
            (Value::Unknown(why), _) => Location::None((*why).to_owned()),
            (Value::Member(base, of, path), _) => self.member(base, of, path)?,
            (Value::Nullable(of), _) => self.value(of)?,
            (Value::Masked(of, mask), _) => Location::Masked { of: Box::new(self.value(of)?), mask: *mask },
            (Value::Case(test, then, otherwise), _) => Location::Case {
                test: Box::new(self.test(test)?),
                then: Box::new(self.value(then)?),
                otherwise: Box::new(self.value(otherwise)?),
            },
        })
    }

    fn member(&self, base: &Value, of: &str, path: &str) -> Result<Location, Error> {
        let btf = kernel_btf(self.sys).ok_or_else(no_types)?;
        let place = btf.member_offset(of, path);
        let Some(place) = place.filter(|place| place.bit_size == 0 && matches!(place.size, 1 | 2 | 4 | 8)) else {
            return Err(Error::new(Kind::Unsupported, format!("this kernel's struct {of} has no member {path}")));
        };
        // Tasks are alive while their tracepoints run; what they point to is read with care.
        let alive = matches!(base, Value::Task)
            || (matches!(base, Value::Arg(_)) && matches!(self.source, Chosen::Typed(..)) && of == "task_struct");
        let base = Box::new(self.value(base)?);
        let (offset, size, signed) = (place.bit_offset / 8, place.size as u8, place.signed);
        Ok(match alive {
            true => Location::Btf { base, offset, size, signed },
            false => Location::Memory { base, offset: offset.into(), size, signed, space: Space::Kernel },
        })
    }

    fn test(&self, cond: &Cond) -> Result<Test, Error> {
        Ok(match cond {
            Cond::Is(value, wanted) => Test::Within { value: self.value(value)?, low: *wanted, high: *wanted },
            Cond::Within(value, low, high) => Test::Within { value: self.value(value)?, low: *low, high: *high },
            Cond::Less(a, b) => Test::Less { a: self.value(a)?, b: self.value(b)? },
            Cond::Flag(n, otherwise) => match self.source {
                Chosen::Typed(tracepoint, _) if *n < tracepoint.proto.params.len() => {
                    Test::Within { value: tracepoint.location(*n), low: 1, high: i64::MAX }
                }
                _ => self.test(otherwise)?,
            },
            Cond::Function(value, names) => {
                let value = self.value(value)?;
                let found = addresses(self.sys, names)?.into_iter().map(|address| address as i64);
                Test::Any(found.map(|at| Test::Within { value: value.clone(), low: at, high: at }).collect())
            }
            Cond::Call(names) => match self.source {
                Chosen::Calls(calls, _) => calls.is_any(self.sys, names)?,
                _ => Test::Any(Vec::new()),
            },
            Cond::All(all) => Test::All(all.iter().map(|cond| self.test(cond)).collect::<Result<_, _>>()?),
        })
    }
}

/// The addresses of kernel functions, of those that there are.
fn addresses(sys: &System, names: &[&str]) -> Result<Vec<u64>, Error> {
    let text = sys.read("proc/kallsyms")?;
    let mut found = Vec::new();
    for line in text.lines() {
        let mut words = line.split_ascii_whitespace();
        if let (Some(address), Some(_), Some(name)) = (words.next(), words.next(), words.next())
            && names.contains(&name)
        {
            found.extend(u64::from_str_radix(address, 16).ok().filter(|&address| address != 0));
        }
    }
    if found.is_empty() {
        let what = format!("the kernel does not tell where its function {} is", names.join(" or "));
        return Err(Error::new(Kind::Unsupported, what).help("it takes root, and kernel.kptr_restrict below 2"));
    }
    Ok(found)
}

fn no_types() -> Error {
    Error::new(
        Kind::Unsupported,
        "the kernel has no type information (BTF), which tells where its structures' members are",
    )
    .help("use a kernel that has /sys/kernel/btf/vmlinux")
}

/// A C type's text as the field of a record of that type.
fn field_of(ctype: &str) -> Field {
    Field {
        name: String::new(),
        ctype: ctype.to_owned(),
        offset: 0,
        size: if ctype == "int" { 4 } else { 8 },
        signed: ctype == "int",
        array: None,
        place: Place::Inline,
    }
}

impl Derived {
    fn find(&self, probe: &ProbeDesc) -> Result<(usize, &'static DerivedProbe), Error> {
        let found = self.probes.iter().enumerate().find(|(_, known)| known.name == probe.name);
        found.ok_or_else(|| Error::new(Kind::NotFound, format!("there is no probe {probe}")))
    }

    fn chosen(&self, sys: &System, probe: &ProbeDesc) -> Result<(Chosen<'static>, &'static DerivedProbe), Error> {
        let (_, known) = self.find(probe)?;
        for source in known.from {
            if let Some(chosen) = source.choose(sys).map_err(|error| error.context(probe.to_string()))? {
                return Ok((chosen, known));
            }
        }
        let none = Error::new(Kind::Unsupported, "this kernel has no tracepoint for it, or does not describe it (BTF)");
        Err(none.context(probe.to_string()))
    }
}

impl Provider for Derived {
    fn name(&self) -> &'static str {
        self.name
    }

    fn id(&self, _sys: &System, probe: &ProbeDesc) -> u32 {
        self.find(probe).map_or(0, |(n, _)| self.first_id + n as u32)
    }

    fn stability(&self) -> Stability {
        Stability::with_args(["Evolving", "Evolving", "ISA"])
    }

    fn probes(&self, _sys: &System, pattern: &ProbeDesc, found: &mut dyn FnMut(ProbeDesc)) -> Result<(), Error> {
        if glob(&pattern.module, MODULE) && glob(&pattern.function, "") {
            let names = self.probes.iter().map(|probe| probe.name).filter(|name| glob(&pattern.name, name));
            names.for_each(|name| found(ProbeDesc::new(self.name, MODULE, "", name)));
        }
        Ok(())
    }

    fn signature(
        &self,
        sys: &System,
        probe: &ProbeDesc,
        typed: bool,
        types: &mut TypeTable,
    ) -> Result<Signature, Error> {
        let group = format!("{}:{}", self.name, probe.name);
        let (source, known) = self.chosen(sys, probe)?;
        let kind = match &source {
            Chosen::Typed(tracepoint, _) => tp_btf(tracepoint.proto.id),
            Chosen::Raw(_) => raw_tracepoint(),
            Chosen::Calls(calls, _) => calls.kind(),
        };
        let maker = Maker { sys, source: &source };
        let mut signature = bare(kind, group, Selector::One);
        signature.when = known.when.as_ref().map(|cond| maker.test(cond)).transpose()?;
        for value in known.raw {
            signature.raw.push(maker.value(value)?);
        }
        for arg in known.args.iter().filter(|_| typed) {
            let space = if arg.translated == "string" { Space::User } else { Space::Kernel };
            let ty = field_types(sys, &[field_of(arg.ty)], space, types)[0];
            let (location, translated) = (maker.value(&arg.value)?, arg.translated.to_owned());
            signature.args.push(Arg { name: String::new(), ty, location, translated });
        }
        Ok(signature)
    }

    fn attach(&self, sys: &System, probes: &[(u32, ProbeDesc)], prog: &Prog) -> Result<Attachment, Error> {
        let mut attachment = Attachment::default();
        for (_, probe) in probes {
            let (source, _) = self.chosen(sys, probe)?;
            let names: &[&str] = match &source {
                Chosen::Typed(_, name) => &[name],
                Chosen::Raw(names) => names,
                Chosen::Calls(_, false) => &["sys_enter"],
                Chosen::Calls(_, true) => &["sys_exit"],
            };
            let typed = prog.attach_type().is_some_and(|kind| kind != 0);
            for name in names {
                let link = if typed { attach::tp_btf(prog, 0) } else { attach::raw_tracepoint(prog, name, 0) };
                attachment.links.push(link?);
            }
            attachment.how = format!("{} {}", if typed { "tp_btf" } else { "raw_tp" }, names.join(" "));
        }
        Ok(attachment)
    }
}
