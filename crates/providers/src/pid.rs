//! `pidPID:MODULE:FUNCTION:NAME`: functions of one process, in its executable and the libraries that it has mapped.
//!
//! Owns the ways to name a process's files: a base name, a library's name up to `.so`, `a.out` for the executable, globs. Files
//! are reached through the process's own /proc entries, so that other roots, mount namespaces and removed files do not matter.
//! Probes stay in the one process; all its threads are covered.

use crate::user::{self, Object, unreadable};
use crate::{Attachment, Provider};
use probity_debuginfo::elf::Elf;
use probity_debuginfo::ldcache::resolve_binary;
use probity_ir::{ProbeDesc, Signature, TypeId, TypeTable, glob, is_glob};
use probity_kernel::process::Mapping;
use probity_kernel::{Error, Kind, Prog, System};
use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

/// The provider `pid`.
pub struct Pid;

/// The module name that means the executable, whatever its own.
const EXECUTABLE: &str = "a.out";

/// Libraries that one process can have mapped or need, at most; more is a cycle or hostile.
const MOST_LIBRARIES: usize = 4096;

/// The process id in a provider's full name.
fn pid_of(provider: &str) -> Option<u32> {
    let digits = provider.strip_prefix("pid")?;
    let number = !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit());
    number.then(|| digits.parse().ok()).flatten()
}

/// The processes that a pattern for providers means: `pid1234`; `p*d1234`, one process by its number after a glob that fits; or,
/// if it begins with `pid`, all whose numbers fit (`pid*`, `pid12??`).
fn pids_of(sys: &System, provider: &str) -> Result<Vec<u32>, Error> {
    let bad = || {
        let error = Error::new(Kind::Invalid, format!("{provider:?} is no process id")).tagged("D_PROC_BADPID");
        error.help("write pid1234 or pid$target")
    };
    if !is_glob(provider) {
        return pid_of(provider).filter(|pid| *pid != 0).map(|pid| vec![pid]).ok_or_else(bad);
    }
    if let Some(pid) = numbered(provider) {
        return Ok(vec![pid]);
    }
    let pids = sys.processes()?;
    Ok(pids.into_iter().filter(|pid| glob(provider, &format!("pid{pid}"))).collect())
}

/// The process that a glob for providers ends in the number of.
fn numbered(provider: &str) -> Option<u32> {
    let digits = provider.trim_end_matches(|c: char| c.is_ascii_digit()).len();
    let pid = provider[digits..].parse().ok().filter(|pid| *pid != 0)?;
    (digits > 0 && glob(provider, &format!("pid{pid}"))).then_some(pid)
}

fn required_pid(probe: &ProbeDesc) -> Result<u32, Error> {
    pid_of(&probe.provider).ok_or_else(|| {
        Error::new(Kind::Invalid, format!("{:?} is no process id", probe.provider)).help("write pid1234 or pid$target")
    })
}

/// A file of a process.
pub(crate) struct Mapped {
    /// The file.
    pub object: Object,
    /// Whether it is the process's program.
    pub executable: bool,
}

/// Lists the files with code that a process has mapped, the executable first.
pub(crate) fn mapped(sys: &System, pid: u32) -> Result<Vec<Mapped>, Error> {
    let maps = sys.maps(pid)?;
    if maps.is_empty() {
        let what = format!("process {pid} has no memory of its own: it is a kernel thread or has ended");
        return Err(Error::new(Kind::Gone, what));
    }
    let exe = sys.exe(pid)?;
    let exe = exe.to_string_lossy();
    let exe = exe.strip_suffix(" (deleted)").unwrap_or(&exe);
    let mut seen = BTreeSet::new();
    let mut all = Vec::new();
    for mapping in &maps {
        if !mapping.executable || mapping.inode == 0 || !seen.insert((mapping.device, mapping.inode)) {
            continue;
        }
        let executable = mapping.path == exe;
        let path = if executable { sys.exe_path(pid) } else { path_of(sys, pid, mapping) };
        all.push(Mapped { object: Object { module: base_name(&mapping.path), path }, executable });
    }
    // Not even that is mapped for a moment of exec(2).
    if !all.iter().any(|mapped| mapped.executable) {
        all.push(Mapped { object: Object { module: base_name(exe), path: sys.exe_path(pid) }, executable: true });
    }
    all.sort_by_key(|mapped| !mapped.executable);
    if all.len() <= 2 {
        all.extend(not_yet_mapped(sys, pid, &all)?);
    }
    Ok(all)
}

fn base_name(path: &str) -> String {
    path.rsplit('/').next().unwrap_or(path).to_owned()
}

/// Where this process can open what that one has mapped.
fn path_of(sys: &System, pid: u32, mapping: &Mapping) -> PathBuf {
    let path = sys.path_in(pid, &mapping.path);
    // The path may lead to another file since, such as an upgraded library. Inodes of overlay file systems may differ
    // although the file is the same, which costs nothing: the other way works for them too.
    let same = !mapping.deleted && std::fs::metadata(&path).is_ok_and(|meta| meta.ino() == mapping.inode);
    if same { path } else { sys.path(format!("proc/{pid}/map_files/{:x}-{:x}", mapping.start, mapping.end)) }
}

/// Lists the libraries that a process needs but has not mapped, because it has only begun (`-c` stops it there): the kernel
/// places probes in them as soon as they are mapped, before their first instruction.
fn not_yet_mapped(sys: &System, pid: u32, mapped: &[Mapped]) -> Result<Vec<Mapped>, Error> {
    let Some(exe) = mapped.iter().find(|mapped| mapped.executable) else { return Ok(Vec::new()) };
    let elf = Elf::open(&exe.object.path).map_err(|error| unreadable(error, &exe.object.path))?;
    let mut open = elf.needed().unwrap_or_default();
    let known: BTreeSet<&str> = mapped.iter().map(|mapped| mapped.object.module.as_str()).collect();
    let mut seen = BTreeSet::new();
    let mut all = Vec::new();
    let root = sys.path_in(pid, "/");
    while let Some(name) = open.pop() {
        let base = base_name(&name);
        if known.contains(base.as_str()) || seen.len() > MOST_LIBRARIES || !seen.insert(base.clone()) {
            continue;
        }
        // What cannot be found or read is the dynamic linker's trouble, and will be the process's end.
        let Ok(path) = resolve_binary(&name, "", &root) else { continue };
        let Ok(elf) = Elf::open(&path) else { continue };
        open.extend(elf.needed().unwrap_or_default());
        all.push(Mapped { object: Object { module: base, path }, executable: false });
    }
    Ok(all)
}

/// The files that a pattern's module field means, called as it calls them.
pub(crate) fn matching(all: Vec<Mapped>, module: &str) -> Vec<Object> {
    if module == EXECUTABLE {
        let executables = all.into_iter().filter(|mapped| mapped.executable);
        return executables.map(|mapped| Object { module: EXECUTABLE.to_owned(), ..mapped.object }).collect();
    }
    let named = |by: fn(&str) -> &str| all.iter().any(|mapped| glob(module, by(&mapped.object.module)));
    // `libc` means `libc.so.6`, unless something is really called `libc`.
    let by: fn(&str) -> &str = if named(|base| base) || !named(stem) { |base| base } else { stem };
    let begins = |base: &str| base.strip_prefix(module).is_some_and(|rest| rest.starts_with('.'));
    // Nor are `libc.so` and `libfoo-1` names of files, mostly.
    let prefix = !module.is_empty() && !is_glob(module) && !named(by);
    let means = |object: &Object| if prefix { begins(&object.module) } else { glob(module, by(&object.module)) };
    all.into_iter().map(|mapped| mapped.object).filter(means).collect()
}

/// A library's name up to its `.so`.
fn stem(base: &str) -> &str {
    base.split_once(".so").map_or(base, |(stem, _)| stem)
}

fn only_executable(object: &Object) -> Error {
    let what =
        format!("addresses of {} are not known before it is loaded: function - is for {EXECUTABLE}", object.module);
    let error = Error::new(Kind::Invalid, what).tagged("D_PROC_LIB");
    error.help("uprobe:FILE:-:ADDRESS takes addresses in any file")
}

/// The files that have a probe's module name.
fn called(all: Vec<Mapped>, module: &str) -> Vec<Object> {
    let means = |file: &Mapped| file.object.module == module || (module == EXECUTABLE && file.executable);
    all.into_iter().filter(means).map(|file| file.object).collect()
}

/// What is wrong with a description of which nothing was found, if a process's files can tell.
fn no_function(pattern: &ProbeDesc, objects: &[Object]) -> Option<Error> {
    let exact = |text: &str| !text.is_empty() && !is_glob(text);
    let [object] = objects else { return None };
    if !exact(&pattern.module) || !exact(&pattern.function) {
        return None;
    }
    let what = format!("{} has no function {}", object.module, pattern.function);
    Some(Error::new(Kind::NotFound, what).tagged("D_PROC_FUNC"))
}

impl Provider for Pid {
    fn name(&self) -> &'static str {
        "pid"
    }

    fn serves(&self, provider: &str) -> bool {
        pid_of(provider).is_some()
            || (is_glob(provider) && (numbered(provider).is_some() || provider.starts_with("pid")))
    }

    fn probes(&self, sys: &System, pattern: &ProbeDesc, found: &mut dyn FnMut(ProbeDesc)) -> Result<(), Error> {
        let pids = pids_of(sys, &pattern.provider)?;
        let mut any = false;
        let mut refused = None;
        for &pid in &pids {
            let files = match mapped(sys, pid) {
                Ok(files) => files,
                Err(error) if pids.len() == 1 => return Err(error),
                // One that has ended meanwhile, or a kernel thread.
                Err(_) => continue,
            };
            let provider = format!("{}{pid}", self.name());
            let executable = files.iter().find(|file| file.executable).map(|file| file.object.module.clone());
            let objects = matching(files, &pattern.module);
            for object in &objects {
                let result = match pattern.function == user::WHOLE_FILE
                    && object.module != EXECUTABLE
                    && executable.as_ref() != Some(&object.module)
                {
                    true => Err(only_executable(object)),
                    false => user::find(object, pattern, &mut |function, name| {
                        any = true;
                        found(ProbeDesc::new(&provider, &object.module, function, name));
                    }),
                };
                // Another file may have what this one cannot serve.
                if let Err(error) = result {
                    log::info!("{pattern}: {error}");
                    refused.get_or_insert(error);
                }
            }
            if !any && pids.len() == 1 {
                refused = refused.or_else(|| no_function(pattern, &objects));
            }
        }
        match refused {
            Some(error) if !any => Err(error),
            _ => Ok(()),
        }
    }

    fn signature(
        &self,
        sys: &System,
        probe: &ProbeDesc,
        typed: bool,
        types: &mut TypeTable,
    ) -> Result<Signature, Error> {
        let pid = required_pid(probe)?;
        let mut signature = user::signature(sys, probe)?;
        if typed {
            user::typed_arguments(&called(mapped(sys, pid)?, &probe.module), probe, &mut signature, types)?;
        }
        signature.group = format!("pid{pid}:{}", signature.group);
        Ok(signature)
    }

    fn raw_follows_types(&self) -> bool {
        true
    }

    fn user_type(
        &self,
        sys: &System,
        scope: &str,
        probe: Option<&ProbeDesc>,
        keyword: &str,
        name: &str,
        types: &mut TypeTable,
    ) -> Option<Result<TypeId, Error>> {
        let pid = match scope == self.name() {
            true => pid_of(&probe?.provider)?,
            false => pid_of(scope)?,
        };
        // The probe's own file comes first, then the executable, then libraries.
        let own = |file: &Mapped| probe.is_some_and(|probe| probe.module == file.object.module);
        Some(mapped(sys, pid).and_then(|mut files| {
            files.sort_by_key(|file| (!own(file), !file.executable));
            let objects: Vec<Object> = files.into_iter().map(|file| file.object).collect();
            user::named_type(&objects, keyword, name, types)
        }))
    }

    fn attach(&self, sys: &System, probes: &[(u32, ProbeDesc)], prog: &Prog) -> Result<Attachment, Error> {
        let Some((_, first)) = probes.first() else { return Ok(Attachment::default()) };
        let pid = required_pid(first)?;
        let all: Vec<Object> = mapped(sys, pid)?
            .into_iter()
            .flat_map(|mapped| {
                let alias =
                    mapped.executable.then(|| Object { module: EXECUTABLE.to_owned(), ..mapped.object.clone() });
                [Some(mapped.object), alias].into_iter().flatten()
            })
            .collect();
        user::attach(sys, probes, prog, Some(pid), &|module| {
            let mut objects: Vec<Object> = all.iter().filter(|object| object.module == module).cloned().collect();
            // An executable that really is called a.out must not be probed twice.
            objects.sort();
            objects.dedup();
            if objects.is_empty() {
                return Err(Error::new(Kind::NotFound, format!("process {pid} has no file {module} mapped")));
            }
            Ok(objects)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Counter, Shell, live, this_thread};
    use probity_kernel::Feature;

    #[test]
    fn process_ids_are_digits() {
        assert_eq!(pid_of("pid1234"), Some(1234));
        for bad in ["pid", "pid*", "pid+1", "pid-1", "pid12x", "pid99999999999", "pi", "", "profile"] {
            assert_eq!(pid_of(bad), None, "{bad}");
        }
    }

    #[test]
    fn modules_by_every_name() {
        let all = || {
            ["prog", "libc.so.6", "libcap.so.2", "ld-linux-x86-64.so.2"].map(|name| Mapped {
                object: Object { module: name.to_owned(), path: PathBuf::from(name) },
                executable: name == "prog",
            })
        };
        let names = |module: &str| -> Vec<String> {
            matching(all().into(), module).into_iter().map(|object| object.module).collect()
        };
        assert_eq!(names("a.out"), ["a.out"]);
        assert_eq!(names("prog"), ["prog"]);
        assert_eq!(names("libc.so.6"), ["libc.so.6"]);
        assert_eq!(names("libc"), ["libc.so.6"]);
        assert_eq!(names("libc*"), ["libc.so.6", "libcap.so.2"]);
        assert_eq!(names("lib?"), ["libc.so.6"]);
        assert_eq!(names("").len(), 4);
        assert_eq!(names("*").len(), 4);
        assert!(names("libm").is_empty());
    }

    #[test]
    fn a_process_that_is_not_is_said_so() {
        let sys = System::live();
        let pattern = ProbeDesc::new("pid4194999", "", "main", "entry");
        let error = Pid.probes(&sys, &pattern, &mut |_| {}).unwrap_err();
        assert!(error.to_string().contains("4194999"), "{error}");
        // A kernel thread, where there is one.
        if sys.comm(2).is_ok_and(|comm| comm == "kthreadd") {
            let error = Pid.probes(&sys, &ProbeDesc::new("pid2", "", "", "entry"), &mut |_| {}).unwrap_err();
            assert!(error.to_string().contains("kernel thread"), "{error}");
        }
    }

    #[test]
    fn every_function_of_a_library_by_one_link() {
        if !live() {
            return;
        }
        let sys = System::live();
        if !sys.has(Feature::UprobeMulti) {
            return;
        }
        let mut shell = Shell::start();
        let provider = format!("pid{}", shell.pid());
        let counter = Counter::attach(&Pid, &sys, [&provider, "libc.so.6", "", "entry"], None, |_| None);
        assert_eq!(counter.attachment.links.len(), 1, "{:?}", counter.attachment.skipped);
        let mut functions = Vec::new();
        let pattern = ProbeDesc::new(&provider, "libc.so.6", "", "entry");
        Pid.probes(&sys, &pattern, &mut |desc| functions.push(desc.function)).unwrap();
        assert!(functions.len() > 1000);
        let chdir = functions.iter().position(|function| function.ends_with("chdir") && !function.contains("fchdir"));
        shell.run("cd /; cd /");
        assert_eq!(counter.get(chdir.unwrap() as u32).0, 2);
    }

    /// Called by nothing but its test.
    #[inline(never)]
    extern "C" fn probity_providers_test_target(n: u64) -> u64 {
        std::hint::black_box(n) * 2 + 1
    }

    #[test]
    fn the_executable_by_entry_return_and_instruction() {
        if !live() {
            return;
        }
        let sys = System::live();
        let own = format!("pid{}", std::process::id());
        let mut name = String::new();
        let pattern = ProbeDesc::new(&own, "a.out", "*probity_providers_test_target*", "entry");
        Pid.probes(&sys, &pattern, &mut |desc| name = desc.function).unwrap();
        let name = name.as_str();
        let attach =
            |place: &str, pick| Counter::attach(&Pid, &sys, [&own, "a.out", name, place], Some(this_thread()), pick);
        let entry = attach("entry", |signature| Some(signature.raw[0].clone()));
        let ret = attach("return", |signature| Some(signature.raw[1].clone()));
        let first = attach("0", |_| None);
        for n in 0..100 {
            std::hint::black_box(probity_providers_test_target(n));
        }
        assert_eq!((entry.get(0), ret.get(0)), ((100, 99), (100, 199)));
        assert_eq!(first.get(0).0, 100);
        // With an open name, every instruction is a probe.
        let mut names = Vec::new();
        Pid.probes(&sys, &ProbeDesc::new(&own, "a.out", name, ""), &mut |desc| names.push(desc.name)).unwrap();
        assert_eq!(names[..3], ["entry", "return", "0"]);
        assert!(names.len() > 5, "{names:?}");
    }

    #[test]
    fn other_processes_are_left_alone() {
        if !live() {
            return;
        }
        let sys = System::live();
        let (mut traced, mut other) = (Shell::start(), Shell::start());
        let provider = format!("pid{}", traced.pid());
        let counter = Counter::attach(&Pid, &sys, [&provider, "libc", "chdir", "entry"], None, |_| None);
        other.run("cd /");
        assert_eq!(counter.get(0).0, 0);
        traced.run("cd /");
        assert_eq!(counter.get(0).0, 1);
    }

    #[test]
    fn a_process_that_has_only_begun_has_its_libraries() {
        if !live() {
            return;
        }
        let sys = System::live();
        let shell = Shell::start();
        let all = mapped(&sys, shell.pid()).unwrap();
        let exe = all.into_iter().filter(|mapped| mapped.executable).collect::<Vec<_>>();
        let needed = not_yet_mapped(&sys, shell.pid(), &exe).unwrap();
        let libc = needed.iter().find(|mapped| mapped.object.module == "libc.so.6").unwrap();
        assert!(libc.object.path.is_file());
    }
}
