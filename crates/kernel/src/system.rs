//! The system as the rest of Probity sees it: one root for /proc, /sys and tracefs, and what the kernel can do.
//!
//! Owns path resolution, so that tests can give a directory tree instead of the machine ([`System::at`]). Everything is
//! read when it is first asked for. System calls on real kernel objects (`load`, `attach`) do not go through here.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock};

use crate::error::{Error, Kind, Result};
use crate::features::{Feature, Lockdown, Version};
use crate::tracefs::Tracefs;

/// A root directory, and what has been found out about the system under it.
#[derive(Debug)]
pub struct System {
    root: PathBuf,
    live: bool,
    tracefs: OnceLock<Tracefs>,
    pub(crate) version: OnceLock<Version>,
    pub(crate) lockdown: OnceLock<Lockdown>,
    pub(crate) features: Mutex<BTreeMap<Feature, bool>>,
}

impl System {
    /// The machine that this runs on.
    pub fn live() -> System {
        System::new(PathBuf::from("/"), true)
    }

    /// A directory tree with `proc` and `sys` in it, for tests; features that are found out by system calls are absent
    /// until [`System::assume`] says otherwise.
    pub fn at(root: impl Into<PathBuf>) -> System {
        System::new(root.into(), false)
    }

    fn new(root: PathBuf, live: bool) -> System {
        System {
            root,
            live,
            tracefs: OnceLock::new(),
            version: OnceLock::new(),
            lockdown: OnceLock::new(),
            features: Mutex::default(),
        }
    }

    /// Returns whether this is the machine that this runs on.
    pub fn is_live(&self) -> bool {
        self.live
    }

    /// Returns where `path` (`/proc/1/maps` or `proc/1/maps`) lies.
    pub fn path(&self, path: impl AsRef<Path>) -> PathBuf {
        let path = path.as_ref();
        self.root.join(path.strip_prefix("/").unwrap_or(path))
    }

    /// Reads a file as text; bytes that are no UTF-8 are replaced.
    pub fn read(&self, path: &str) -> Result<String> {
        self.read_bytes(path).map(|bytes| match String::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
        })
    }

    /// Reads a file.
    pub fn read_bytes(&self, path: &str) -> Result<Vec<u8>> {
        let full = self.path(path);
        std::fs::read(&full).map_err(|error| Error::io(error, format!("cannot read {}", full.display())))
    }

    /// Returns tracefs: the mounted one, or one made for this process alone; see [`Tracefs`].
    pub fn tracefs(&self) -> Result<&Tracefs> {
        if let Some(tracefs) = self.tracefs.get() {
            return Ok(tracefs);
        }
        let opened = match self.live {
            true => Tracefs::open()?,
            false => Tracefs::at(self.path("sys/kernel/tracing")),
        };
        Ok(self.tracefs.get_or_init(|| opened))
    }

    /// Returns the CPUs that are online, ascending.
    pub fn online_cpus(&self) -> Result<Vec<u32>> {
        self.cpus("sys/devices/system/cpu/online")
    }

    /// Returns the CPUs that may ever be there, ascending.
    pub fn possible_cpus(&self) -> Result<Vec<u32>> {
        self.cpus("sys/devices/system/cpu/possible")
    }

    fn cpus(&self, path: &str) -> Result<Vec<u32>> {
        let text = self.read(path)?;
        crate::cpu::parse_list(&text)
            .filter(|cpus| !cpus.is_empty())
            .ok_or_else(|| Error::new(Kind::Io, format!("/{path} is no list of CPUs: {:?}", text.trim())))
    }
}
