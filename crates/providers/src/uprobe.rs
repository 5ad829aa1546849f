//! `uprobe:FILE:FUNCTION:NAME`: functions of a file in every process that runs or maps it.
//!
//! Owns how a file may be named: by path, as a command is, or as a library is. Probes keep the name that the user wrote.

use crate::user::{self, Object, unreadable};
use crate::{Attachment, Provider};
use probity_debuginfo::elf::Elf;
use probity_debuginfo::ldcache::resolve_binary;
use probity_ir::{ProbeDesc, Signature, TypeId, TypeTable, is_glob};
use probity_kernel::{Error, Kind, Prog, System};
use std::path::{Path, PathBuf};

/// The provider `uprobe`.
pub struct Uprobe;

/// Where commands are when the environment does not say.
const USUAL_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Finds the file: a path if there is a slash, else a command, else a library, else a file here.
fn resolve(sys: &System, module: &str) -> Result<PathBuf, Error> {
    let commands = std::env::var("PATH").unwrap_or_else(|_| USUAL_PATH.to_owned());
    resolve_binary(module, &commands, &sys.path("/")).or_else(|error| {
        let here = Path::new(module);
        if here.is_file() { Ok(here.to_owned()) } else { Err(unreadable(error, here)) }
    })
}

/// The scope of types of the program that a clause's probe is in.
const PROGRAM: &str = "pid";

impl Uprobe {
    fn objects(&self, sys: &System, module: &str) -> Result<Vec<Object>, Error> {
        Ok(vec![Object { module: module.to_owned(), path: resolve(sys, module)? }])
    }
}

impl Provider for Uprobe {
    fn name(&self) -> &'static str {
        "uprobe"
    }

    fn hint(&self, sys: &System, pattern: &ProbeDesc) -> Option<String> {
        let function = &pattern.function;
        if pattern.provider != self.name() || function.is_empty() || is_glob(function) {
            return None;
        }
        // A function that the file only imports is in a library that it needs.
        let path = resolve(sys, &pattern.module).ok()?;
        let needed = Elf::open(path).ok()?.needed().ok()?;
        let library = needed.into_iter().find(|library| {
            let elf = resolve(sys, library).ok().and_then(|path| Elf::open(path).ok());
            elf.is_some_and(|elf| elf.function(function).is_ok_and(|func| func.is_some()))
        })?;
        let (provider, module, name) = (self.name(), &pattern.module, &pattern.name);
        Some(format!("{provider}:{library}:{function}:{name} ({module} imports {function} from {library})"))
    }

    fn probes(&self, sys: &System, pattern: &ProbeDesc, found: &mut dyn FnMut(ProbeDesc)) -> Result<(), Error> {
        // Files are not listed: under an open provider, the module is some other provider's.
        if pattern.provider != self.name() {
            return Ok(());
        }
        // A name with glob characters may be a file's all the same.
        if pattern.module.is_empty() || (is_glob(&pattern.module) && resolve(sys, &pattern.module).is_err()) {
            let error =
                Error::new(Kind::Invalid, format!("{} probes need a file", self.name())).context(pattern.to_string());
            return Err(error.help("write uprobe:/path/of/program:function:entry, or uprobe:libc.so.6:malloc:entry"));
        }
        let object = Object { module: pattern.module.clone(), path: resolve(sys, &pattern.module)? };
        user::find(&object, pattern, &mut |function, name| {
            found(ProbeDesc::new(self.name(), &object.module, function, name));
        })
    }

    fn signature(
        &self,
        sys: &System,
        probe: &ProbeDesc,
        typed: bool,
        types: &mut TypeTable,
    ) -> Result<Signature, Error> {
        let mut signature = user::signature(sys, probe)?;
        if typed {
            user::typed_arguments(&self.objects(sys, &probe.module)?, probe, &mut signature, types)?;
        }
        signature.group = format!("{}:{}", self.name(), signature.group);
        Ok(signature)
    }

    fn attach(&self, sys: &System, probes: &[(u32, ProbeDesc)], prog: &Prog) -> Result<Attachment, Error> {
        user::attach(sys, probes, prog, None, &|module| self.objects(sys, module))
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
        let probe = probe.filter(|probe| scope == PROGRAM && probe.provider == self.name())?;
        Some(self.objects(sys, &probe.module).and_then(|objects| user::named_type(&objects, keyword, name, types)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Counter, Shell, live};
    use probity_ir::{Location, Space};
    use probity_kernel::Feature;

    fn found(pattern: [&str; 4]) -> Result<Vec<String>, Error> {
        let [p, m, f, n] = pattern;
        let mut all = Vec::new();
        let sys = System::live();
        Uprobe.probes(&sys, &ProbeDesc::new(p, m, f, n), &mut |desc| all.push(desc.to_string()))?;
        Ok(all)
    }

    /// The library that holds a function of C that tests can call.
    const LIBC: &str = "libc.so.6";

    #[test]
    fn files_by_every_name() {
        assert_eq!(found(["uprobe", LIBC, "malloc", "entry"]).unwrap(), ["uprobe:libc.so.6:malloc:entry"]);
        assert_eq!(
            found(["uprobe", "libc", "malloc", ""]).unwrap()[..2],
            ["uprobe:libc:malloc:entry".to_owned(), "uprobe:libc:malloc:return".to_owned()]
        );
        assert_eq!(found(["uprobe", "libc", "malloc", "0"]).unwrap(), ["uprobe:libc:malloc:0"]);
        assert_eq!(found(["uprobe", "libc", "mallo[c]", "entry"]).unwrap(), ["uprobe:libc:malloc:entry"]);
        assert!(found(["uprobe", "libc", "nonesuch", "entry"]).unwrap().is_empty());
        assert!(found(["uprobe", LIBC, "", "entry"]).unwrap().len() > 1000);
        assert!(found(["", LIBC, "malloc", "entry"]).unwrap().is_empty());
    }

    #[test]
    fn what_cannot_be_probed_has_a_reason() {
        for (pattern, part) in [
            (["uprobe", "", "", ""], "need a file"),
            (["uprobe", "no-such-program", "main", "entry"], "no-such-program"),
            (["uprobe", "/no/such", "main", "entry"], "/no/such"),
            (["uprobe", "/etc/passwd", "main", "entry"], "ELF"),
            (["uprobe", LIBC, "strlen", "entry"], "several implementations"),
            (["uprobe", LIBC, "malloc", "fffff"], "bytes"),
            (["uprobe", LIBC, "-", "1"], "no code"),
        ] {
            let error = found(pattern).unwrap_err().to_string();
            assert!(error.contains(part), "{pattern:?}: {error}");
        }
        // endbr64 has four bytes.
        let inside = found(["uprobe", LIBC, "malloc", "1"]).unwrap_err().to_string();
        assert!(inside.contains("no instruction starts"), "{inside}");
    }

    #[test]
    fn stripped_code_by_address() {
        let sys = System::live();
        let Ok(path) = resolve(&sys, "sleep") else { return };
        let entry = Elf::open(path).unwrap().entry();
        let site = found(["uprobe", "sleep", "-", &format!("{entry:x}")]).unwrap();
        assert_eq!(site, [format!("uprobe:sleep:-:{entry:x}")]);
        // xor %ebp,%ebp and endbr64 are both longer than a byte.
        let error = found(["uprobe", "sleep", "-", &format!("{:x}", entry + 1)]).unwrap_err().to_string();
        assert!(error.contains("no instruction starts"), "{error}");
    }

    #[test]
    fn imports_are_traced_to_their_library() {
        let pattern = ProbeDesc::new("uprobe", "sleep", "nanosleep", "entry");
        let hint = Uprobe.hint(&System::live(), &pattern);
        assert!(hint.is_none_or(|hint| hint.starts_with("uprobe:libc.so.6:nanosleep:entry")));
    }

    #[test]
    fn entry_and_return_fire_with_their_values() {
        if !live() {
            return;
        }
        let sys = System::live();
        let mut shell = Shell::start();
        for multi in [true, false] {
            if multi && !sys.has(Feature::UprobeMulti) {
                continue;
            }
            sys.assume(Feature::UprobeMulti, multi);
            let only = Some(shell.pid());
            let entry = Counter::attach(&Uprobe, &sys, ["uprobe", LIBC, "chdir", "entry"], only, |signature| {
                // The first byte of the first argument, a string.
                let base = Box::new(signature.raw[0].clone());
                Some(Location::Memory { base, offset: 0, size: 1, signed: false, space: Space::User })
            });
            let pattern = ["uprobe", LIBC, "chdir", "return"];
            let ret = Counter::attach(&Uprobe, &sys, pattern, only, |signature| Some(signature.raw[1].clone()));
            shell.run("cd /; cd /; cd /no/such");
            assert_eq!(entry.get(0), (3, u64::from(b'/')), "multi {multi}");
            assert_eq!(ret.get(0).0, 3);
            assert_eq!(ret.get(0).1 as i32, -1);
        }
    }
}
