//! `syscall:vmlinux:NAME:entry` and `return`, and `syscall:ia32:NAME:…` for the calls of 32-bit programs.
//!
//! One program serves all entries and one all returns, however many are asked for: each is on one raw tracepoint and finds its
//! probe by the call's number. That it is a BTF tracepoint where there is BTF is for speed: `pt_regs` is then read without
//! a helper.

use crate::arch;
use crate::kernel_types::{SyscallTypes, field_types};
use crate::kinds::{bare, ctx_arg, ctx_number, raw_tracepoint, tp_btf};
use crate::sdt::is_signed;
use crate::syscall_names::{Table, tracefs_name};
use crate::{Attachment, Provider, Stability};
use probity_debuginfo::tracefs_format;
use probity_ir::{Arg, COMPAT_BASE, Location, ProbeDesc, Selector, Signature, Space, Test, TypeTable, glob, is_glob};
use probity_kernel::{Error, Kind, Prog, System, attach};

/// The provider `syscall`.
pub struct Syscall;

/// The module of 64-bit calls.
const MODULE: &str = "vmlinux";

/// The names of the two probes of a call.
const NAMES: [&str; 2] = ["entry", "return"];

/// The number of the first probe: `FIRST_ID + 2 * index + is_return`.
const FIRST_ID: u32 = 100;

/// Indexes are below this: both tables.
const LIMIT: u32 = 2 * COMPAT_BASE;

/// What the calls of other systems, and of the C library, are here.
const ELSEWHERE: [(&str, &str); 30] = [
    ("rexit", "exit_group"),
    ("_exit", "exit_group"),
    ("exece", "execve"),
    ("exec", "execve"),
    ("forksys", "clone"),
    ("fork1", "clone"),
    ("vforksys", "vfork"),
    ("open64", "openat"),
    ("open_nocancel", "openat"),
    ("creat64", "openat"),
    ("stat64", "newfstatat"),
    ("fstatat", "newfstatat"),
    ("fstatat64", "newfstatat"),
    ("lstat64", "newfstatat"),
    ("xstat", "newfstatat"),
    ("pread", "pread64"),
    ("pwrite", "pwrite64"),
    ("read_nocancel", "read"),
    ("write_nocancel", "write"),
    ("so_socket", "socket"),
    ("send", "sendto"),
    ("recv", "recvfrom"),
    ("wait", "wait4"),
    ("waitpid", "wait4"),
    ("waitsys", "waitid"),
    ("lwp_create", "clone"),
    ("lwp_park", "futex"),
    ("pollsys", "ppoll"),
    ("sigaction", "rt_sigaction"),
    ("sleep", "clock_nanosleep"),
];

/// What a probe's name means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Call {
    table: Table,
    number: u32,
    on_return: bool,
}

impl Call {
    fn of(sys: &System, probe: &ProbeDesc) -> Result<Call, Error> {
        let missing = || Error::new(Kind::NotFound, format!("there is no probe {probe}"));
        let table = match probe.module.as_str() {
            MODULE => Table::Native,
            arch::COMPAT_MODULE => Table::Compat,
            _ => return Err(missing()),
        };
        let place = NAMES.iter().position(|name| *name == probe.name).ok_or_else(missing)?;
        let number = table.number(&probe.function, sys.version()?).ok_or_else(missing)?;
        Ok(Call { table, number, on_return: place == 1 })
    }

    /// As the selector computes it.
    fn index(self) -> u32 {
        self.number + if self.table == Table::Compat { COMPAT_BASE } else { 0 }
    }
}

/// Whether the kernel serves 32-bit programs: only then is there a switch for their vDSO.
fn has_compat(sys: &System) -> bool {
    sys.path("proc/sys/abi/vsyscall32").exists()
}

impl Provider for Syscall {
    fn name(&self) -> &'static str {
        "syscall"
    }

    fn crosses(&self) -> bool {
        true
    }

    fn beyond_dtrace(&self, probe: &ProbeDesc) -> bool {
        probe.module == arch::COMPAT_MODULE
    }

    fn id(&self, sys: &System, probe: &ProbeDesc) -> u32 {
        Call::of(sys, probe).map_or(0, |call| FIRST_ID + 2 * call.index() + u32::from(call.on_return))
    }

    fn hint(&self, _sys: &System, pattern: &ProbeDesc) -> Option<String> {
        let (theirs, ours) = ELSEWHERE.iter().find(|(theirs, _)| *theirs == pattern.function)?;
        let (provider, name) = (self.name(), &pattern.name);
        Some(format!(
            "{provider}:{MODULE}:{ours}:{name} ({theirs} of the C library or of other systems is {ours} here)"
        ))
    }

    fn stability(&self) -> Stability {
        Stability::with_args(["Private", "Private", "ISA"])
    }

    fn probes(&self, sys: &System, pattern: &ProbeDesc, found: &mut dyn FnMut(ProbeDesc)) -> Result<(), Error> {
        let names: Vec<&str> = NAMES.into_iter().filter(|name| glob(&pattern.name, name)).collect();
        if names.is_empty() {
            return Ok(());
        }
        let version = sys.version()?;
        for (table, module) in [(Table::Native, MODULE), (Table::Compat, arch::COMPAT_MODULE)] {
            if !glob(&pattern.module, module) || (table == Table::Compat && !has_compat(sys)) {
                continue;
            }
            let mut report = |function: &str| {
                names.iter().for_each(|name| found(ProbeDesc::new(self.name(), module, function, name)));
            };
            if pattern.function.is_empty() || is_glob(&pattern.function) {
                table
                    .all(version)
                    .filter(|(_, function)| glob(&pattern.function, function))
                    .for_each(|(_, function)| report(function));
            } else if table.number(&pattern.function, version).is_some() {
                report(&pattern.function);
            }
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
        let call = Call::of(sys, probe)?;
        let kernel = SyscallTypes::of(sys);
        let btf_id = if call.on_return { kernel.sys_exit } else { kernel.sys_enter };
        let context = Context { typed: btf_id.is_some() };
        let number = match call.on_return {
            false => ctx_number(1),
            // The record of a return has the result where that of an entry has the number.
            true => context.register(arch::pt_regs::ORIG_AX),
        };
        let compat = has_compat(sys).then(|| (context.status(kernel.compat_status), arch::COMPAT_FLAG));
        let selector = Selector::Syscall { number, compat, limit: LIMIT };
        let kind = btf_id.map_or_else(raw_tracepoint, tp_btf);
        let mut signature = bare(kind, probe.name.clone(), selector);
        signature.index = call.index();
        if call.on_return {
            let result = ctx_number(1);
            signature.raw = vec![result.clone(), result.clone()];
            signature.errno = Some(result);
            if typed {
                let ty = types.int(8, true);
                let arg =
                    |name: &str| Arg { name: name.to_owned(), ty, location: ctx_number(1), translated: String::new() };
                signature.args = vec![arg("ret"), arg("ret")];
            }
            return Ok(signature);
        }
        signature.raw = context.arguments(call.table);
        if typed {
            signature.args = match call.table {
                Table::Native => native_args(sys, &probe.function, &signature.raw, types),
                // tracefs does not describe them, and some take an argument of 64 bits in two.
                Table::Compat => untyped_args(&signature.raw, types.int(4, false)),
            };
        }
        Ok(signature)
    }

    fn attach(&self, sys: &System, probes: &[(u32, ProbeDesc)], prog: &Prog) -> Result<Attachment, Error> {
        let Some((_, first)) = probes.first() else { return Ok(Attachment::default()) };
        let tracepoint = if Call::of(sys, first)?.on_return { "sys_exit" } else { "sys_enter" };
        let (link, how) = match prog.attach_type() {
            Some(kind) if kind != 0 => (attach::tp_btf(prog, 0), format!("tp_btf {tracepoint}")),
            _ => (attach::raw_tracepoint(prog, tracepoint, 0), format!("raw_tp {tracepoint}")),
        };
        Ok(Attachment { links: vec![link?], how, ..Attachment::default() })
    }
}

/// How the program can read what its tracepoint hands it.
#[derive(Clone, Copy)]
struct Context {
    /// The verifier knows the types of the arguments.
    typed: bool,
}

impl Context {
    /// A word of the `pt_regs` in argument 0; a number to the verifier, whatever it means to the program that calls.
    fn register(self, offset: u32) -> Location {
        let base = Box::new(ctx_arg(0));
        match self.typed {
            true => Location::Btf { base, offset, size: 8, signed: true },
            false => Location::Memory { base, offset: i64::from(offset), size: 8, signed: false, space: Space::Kernel },
        }
    }

    /// The flag word that tells 32-bit calls.
    fn status(self, offset: u32) -> Location {
        let base = Box::new(Location::CurrentTask);
        match self.typed {
            true => Location::Btf { base, offset, size: 4, signed: false },
            false => Location::Memory { base, offset: i64::from(offset), size: 4, signed: false, space: Space::Kernel },
        }
    }

    fn arguments(self, table: Table) -> Vec<Location> {
        match table {
            Table::Native => arch::SYSCALL_ARGUMENTS.into_iter().map(|offset| self.register(offset)).collect(),
            // The upper halves are whatever the register held.
            Table::Compat => arch::COMPAT_ARGUMENTS
                .into_iter()
                .map(|offset| Location::Narrow { of: Box::new(self.register(offset)), size: 4, signed: false })
                .collect(),
        }
    }
}

/// What other providers make probes of: any system call's entry or return, on a program of its own.
pub(crate) struct Calls {
    context: Context,
    btf_id: Option<u32>,
    /// The flag word that tells 32-bit calls, where the kernel has such.
    flags: Option<Location>,
    on_return: bool,
}

impl Calls {
    /// Entries or returns, as this kernel shows them.
    pub fn of(sys: &System, on_return: bool) -> Calls {
        let kernel = SyscallTypes::of(sys);
        let btf_id = if on_return { kernel.sys_exit } else { kernel.sys_enter };
        let context = Context { typed: btf_id.is_some() };
        let flags = has_compat(sys).then(|| context.status(kernel.compat_status));
        Calls { context, btf_id, flags, on_return }
    }

    /// The program's kind.
    pub fn kind(&self) -> probity_ir::ProgKind {
        self.btf_id.map_or_else(raw_tracepoint, tp_btf)
    }

    /// Argument `n`, wherever the calling program's kind of call has it.
    pub fn argument(&self, n: usize) -> Location {
        if self.on_return {
            return Location::None("a call's arguments are known at its entry only".to_owned());
        }
        let place = |table| self.context.arguments(table).into_iter().nth(n);
        let none = || Location::None(format!("system calls have no argument {n}"));
        let native = place(Table::Native).unwrap_or_else(none);
        match self.is_compat() {
            Some(test) => {
                let then = Box::new(place(Table::Compat).unwrap_or_else(none));
                Location::Case { test: Box::new(test), then, otherwise: Box::new(native) }
            }
            None => native,
        }
    }

    /// The result.
    pub fn result(&self) -> Location {
        match self.on_return {
            true => ctx_number(1),
            false => Location::None("the call has no result yet".to_owned()),
        }
    }

    /// Whether the call is one of these.
    pub fn is_any(&self, sys: &System, names: &[&str]) -> Result<Test, Error> {
        let version = sys.version()?;
        let number = if self.on_return { self.context.register(arch::pt_regs::ORIG_AX) } else { ctx_number(1) };
        let among = |table: Table| {
            let numbers = names.iter().filter_map(|name| table.number(name, version)).map(i64::from);
            Test::Any(numbers.map(|n| Test::Within { value: number.clone(), low: n, high: n }).collect())
        };
        let Some(compat) = self.is_compat() else { return Ok(among(Table::Native)) };
        let native = self.flag().map(|value| Test::Within { value, low: 0, high: 0 });
        let native = std::iter::once(among(Table::Native)).chain(native);
        Ok(Test::Any(vec![Test::All(native.collect()), Test::All(vec![among(Table::Compat), compat])]))
    }

    fn flag(&self) -> Option<Location> {
        let of = Box::new(self.flags.clone()?);
        Some(Location::Masked { of, mask: arch::COMPAT_FLAG as i64 })
    }

    fn is_compat(&self) -> Option<Test> {
        self.flag().map(|value| Test::Within { value, low: 1, high: i64::MAX })
    }
}

/// The arguments as tracefs describes them, or all six as `long`.
fn native_args(sys: &System, function: &str, raw: &[Location], types: &mut TypeTable) -> Vec<Arg> {
    let path = format!("events/syscalls/sys_enter_{}/format", tracefs_name(function));
    let text = sys.tracefs().and_then(|tracefs| tracefs.read(&path));
    let format = text.ok().and_then(|text| tracefs_format::parse(&text).ok());
    let Some(mut format) = format else { return untyped_args(raw, types.int(8, true)) };
    // The number comes first, under a name that varies.
    format.fields.retain(|field| !field.name.contains("syscall_nr"));
    let kinds = field_types(sys, &format.fields, Space::User, types);
    let fields = format.fields.into_iter().zip(kinds).zip(raw);
    fields
        .map(|((field, ty), raw)| {
            let location = match types.size(ty) {
                Some(size @ (1 | 2 | 4)) => {
                    let (of, signed) = (Box::new(raw.clone()), is_signed(ty, types));
                    Location::Narrow { of, size: size as u8, signed }
                }
                _ => raw.clone(),
            };
            Arg { name: field.name, ty, location, translated: String::new() }
        })
        .collect()
}

fn untyped_args(raw: &[Location], ty: probity_ir::TypeId) -> Vec<Arg> {
    let arg = |(n, location): (usize, &Location)| Arg {
        name: format!("arg{n}"),
        ty,
        location: location.clone(),
        translated: String::new(),
    };
    raw.iter().enumerate().map(arg).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Counter, live, this_thread};
    use probity_kernel::Feature;

    fn found(pattern: [&str; 4]) -> Vec<String> {
        let [p, m, f, n] = pattern;
        let mut all = Vec::new();
        let sys = System::live();
        Syscall.probes(&sys, &ProbeDesc::new(p, m, f, n), &mut |desc| all.push(desc.to_string())).unwrap();
        all
    }

    #[test]
    fn patterns_find_calls() {
        assert_eq!(found(["syscall", "", "read", "entry"])[0], "syscall:vmlinux:read:entry");
        assert_eq!(
            found(["syscall", "vmlinux", "read*", "return"])[..2],
            ["syscall:vmlinux:read:return".to_owned(), "syscall:vmlinux:readv:return".to_owned()]
        );
        assert!(found(["syscall", "vmlinux", "", "entry"]).len() > 300);
        assert!(found(["syscall", "", "nonesuch", ""]).is_empty());
        assert!(found(["syscall", "", "read", "exit"]).is_empty());
        assert!(found(["syscall", "libc", "", ""]).is_empty());
    }

    #[test]
    fn numbers_are_distinct_and_indexes_below_the_limit() {
        let sys = System::live();
        let mut ids = std::collections::BTreeSet::new();
        let mut types = TypeTable::default();
        let mut count = 0;
        Syscall
            .probes(&sys, &ProbeDesc::default(), &mut |desc| {
                count += 1;
                ids.insert(Syscall.id(&sys, &desc));
                assert!(Syscall.signature(&sys, &desc, false, &mut types).unwrap().index < LIMIT);
            })
            .unwrap();
        assert_eq!(ids.len(), count);
        assert!(!ids.contains(&0));
    }

    fn getppid(times: usize) {
        for _ in 0..times {
            std::hint::black_box(std::os::unix::process::parent_id());
        }
    }

    #[test]
    fn one_link_counts_every_call_exactly() {
        if !live() {
            return;
        }
        let sys = System::live();
        let number = Table::Native.number("getppid", sys.version().unwrap()).unwrap();
        for btf in [true, false] {
            sys.assume(Feature::Btf, btf && sys.path("sys/kernel/btf/vmlinux").exists());
            let counter = Counter::attach(&Syscall, &sys, ["", "vmlinux", "", "entry"], Some(this_thread()), |_| None);
            assert_eq!(counter.attachment.links.len(), 1);
            let before = counter.get(number).0;
            getppid(1000);
            assert_eq!(counter.get(number).0 - before, 1000);
        }
    }

    #[test]
    fn a_return_has_the_number_and_the_result() {
        if !live() {
            return;
        }
        let sys = System::live();
        let number = Table::Native.number("getppid", sys.version().unwrap()).unwrap();
        for btf in [true, false] {
            sys.assume(Feature::Btf, btf && sys.path("sys/kernel/btf/vmlinux").exists());
            let pattern = ["syscall", "vmlinux", "getppid", "return"];
            let counter =
                Counter::attach(&Syscall, &sys, pattern, Some(this_thread()), |signature| signature.errno.clone());
            getppid(10);
            let (count, result) = counter.get(number);
            assert!(count >= 10, "{count}");
            assert_eq!(result, u64::from(std::os::unix::process::parent_id()));
        }
    }

    #[test]
    fn arguments_are_in_their_places() {
        if !live() {
            return;
        }
        let sys = System::live();
        let number = Table::Native.number("getpriority", sys.version().unwrap()).unwrap();
        let pattern = ["syscall", "vmlinux", "statx", "entry"];
        let counter =
            Counter::attach(&Syscall, &sys, pattern, Some(this_thread()), |signature| Some(signature.raw[0].clone()));
        // A path that begins with a slash: the directory's descriptor is AT_FDCWD.
        let _ = std::fs::metadata("/");
        let statx = Table::Native.number("statx", sys.version().unwrap()).unwrap();
        let (count, first) = counter.get(statx);
        assert!(count >= 1);
        assert_eq!(first as i32, -100);
        assert_ne!(number, statx);
    }

    #[test]
    fn arguments_are_typed() {
        if !live() {
            return;
        }
        let sys = System::live();
        let mut types = TypeTable::default();
        let mut args = |function: &str, name: &str| {
            let probe = ProbeDesc::new("syscall", MODULE, function, name);
            let signature = Syscall.signature(&sys, &probe, true, &mut types).unwrap();
            let text = |arg: &Arg| format!("{} {}", types.name(arg.ty), arg.name);
            (signature.args.iter().map(text).collect::<Vec<_>>(), signature.args)
        };
        let (texts, openat) = args("openat", "entry");
        assert_eq!(texts, ["int dfd", "char * filename", "int flags", "umode_t mode"]);
        assert!(matches!(openat[0].location, Location::Narrow { size: 4, signed: true, .. }));
        assert!(matches!(openat[1].location, Location::Btf { .. } | Location::Memory { .. }));
        assert!(matches!(openat[3].location, Location::Narrow { size: 2, signed: false, .. }));
        assert_eq!(args("fstat", "entry").0, ["unsigned int fd", "struct stat * statbuf"]);
        assert!(args("getppid", "entry").0.is_empty());
        assert_eq!(args("read", "return").0.len(), 2);
    }

    /// A 32-bit program of 98 bytes: getppid, exit.
    fn compat_program() -> Vec<u8> {
        let code = [0xb8, 64, 0, 0, 0, 0xcd, 0x80, 0xb8, 1, 0, 0, 0, 0xcd, 0x80];
        let base = 0x0804_8000_u32;
        let size = 84 + code.len() as u32;
        let mut elf = b"\x7fELF\x01\x01\x01".to_vec();
        elf.resize(16, 0);
        // Type and machine, version, entry, program headers, sections, flags.
        elf.extend([2, 0, 3, 0]);
        [1, base + 84, 52, 0, 0].iter().for_each(|word| elf.extend(word.to_le_bytes()));
        [52_u16, 32, 1, 0, 0, 0].iter().for_each(|half| elf.extend(half.to_le_bytes()));
        [1, 0, base, base, size, size, 5, 0x1000].iter().for_each(|word| elf.extend(word.to_le_bytes()));
        elf.extend(code);
        elf
    }

    #[test]
    fn calls_of_32_bit_programs_have_their_own_probes() {
        use std::os::unix::fs::PermissionsExt;
        let sys = System::live();
        if !live() || !has_compat(&sys) {
            return;
        }
        let path = std::env::temp_dir().join(format!("probity-compat-{}", std::process::id()));
        std::fs::write(&path, compat_program()).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        let number = Table::Compat.number("getppid", sys.version().unwrap()).unwrap();
        for btf in [true, false] {
            sys.assume(Feature::Btf, btf && sys.path("sys/kernel/btf/vmlinux").exists());
            let entry = Counter::attach(&Syscall, &sys, ["", "ia32", "getppid", "entry"], None, |_| None);
            let ret = Counter::attach(&Syscall, &sys, ["", "ia32", "getppid", "return"], None, |signature| {
                Some(signature.raw[1].clone())
            });
            let ran = std::process::Command::new(&path).status();
            // Some machines have the calls but forbid the programs.
            if ran.is_ok() {
                assert_eq!(entry.get(COMPAT_BASE + number).0, 1);
                assert_eq!(ret.get(COMPAT_BASE + number), (1, u64::from(std::process::id())));
            }
        }
        std::fs::remove_file(&path).unwrap();
    }
}
