//! What the running kernel can do, found out when first asked for.
//!
//! Owns version, lockdown, capabilities and one answer per [`Feature`]. An answer can be forced (`-x`, tests). What only an
//! attempt can tell (fentry, kprobes under lockdown) is not guessed here: the attempt's error says so.

use std::fmt;
use std::sync::OnceLock;

use crate::error::{Error, Kind, Result};
use crate::perf::ProbePmu;
use crate::sys;
use crate::system::System;

/// A kernel's version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(pub u32, pub u32, pub u32);

impl Version {
    /// Parses the leading numbers of a release such as `6.1.0-13-amd64`.
    pub fn parse(release: &str) -> Option<Version> {
        let mut parts = release.trim().split('.').map(|part| {
            let digits = part.len() - part.trim_start_matches(|c: char| c.is_ascii_digit()).len();
            part[..digits].parse::<u32>().ok()
        });
        let (major, minor) = (parts.next()??, parts.next()??);
        Some(Version(major, minor, parts.next().flatten().unwrap_or(0)))
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.0, self.1, self.2)
    }
}

/// How far the kernel is locked down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lockdown {
    /// Not at all, or the kernel has no lockdown.
    None,
    /// Kernel memory cannot be changed.
    Integrity,
    /// Nor read: tracing of the kernel is refused.
    Confidentiality,
}

/// Something that not every supported kernel offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Feature {
    /// Type information of the kernel itself, for BTF raw tracepoints and fentry.
    Btf,
    /// One link for many uprobes (Linux 6.6).
    UprobeMulti,
    /// The uprobe PMU (`CONFIG_UPROBE_EVENTS`).
    UprobePmu,
    /// The kprobe PMU (`CONFIG_KPROBE_EVENTS`).
    KprobePmu,
    /// Cookies on raw tracepoints (Linux 6.10).
    RawTracepointCookie,
}

impl System {
    /// Returns the kernel's version.
    pub fn version(&self) -> Result<Version> {
        if let Some(version) = self.version.get() {
            return Ok(*version);
        }
        let release = self.read("proc/sys/kernel/osrelease")?;
        let version = Version::parse(&release).ok_or_else(|| {
            Error::new(Kind::Io, format!("the kernel's release is not understood: {:?}", release.trim()))
        })?;
        Ok(*self.version.get_or_init(|| version))
    }

    /// Returns how far the kernel is locked down, as far as can be seen.
    pub fn lockdown(&self) -> Lockdown {
        *self.lockdown.get_or_init(|| parse_lockdown(&self.read("sys/kernel/security/lockdown").unwrap_or_default()))
    }

    /// Returns whether the kernel has `feature`, finding out the first time.
    pub fn has(&self, feature: Feature) -> bool {
        if let Some(known) = self.known().get(&feature) {
            return *known;
        }
        let has = match feature {
            Feature::Btf => self.path("sys/kernel/btf/vmlinux").exists(),
            Feature::UprobeMulti => self.is_live() && crate::attach::knows_uprobe_multi(),
            Feature::UprobePmu => ProbePmu::read(self, "uprobe").is_ok(),
            Feature::KprobePmu => ProbePmu::read(self, "kprobe").is_ok(),
            Feature::RawTracepointCookie => self.version().is_ok_and(|version| version >= Version(6, 10, 0)),
        };
        self.assume(feature, has);
        has
    }

    /// Takes it for granted from now on that the kernel has or lacks `feature`.
    pub fn assume(&self, feature: Feature, has: bool) {
        self.known().insert(feature, has);
    }

    fn known(&self) -> std::sync::MutexGuard<'_, std::collections::BTreeMap<Feature, bool>> {
        // A thread that panicked while it held the lock left a complete map behind.
        self.features.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// Parses `none [integrity] confidentiality`.
pub(crate) fn parse_lockdown(text: &str) -> Lockdown {
    match text.split('[').nth(1).and_then(|rest| rest.split(']').next()) {
        Some("integrity") => Lockdown::Integrity,
        Some("confidentiality") => Lockdown::Confidentiality,
        _ => Lockdown::None,
    }
}

/// A capability that tracing needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capability {
    /// To follow other users' processes.
    SysPtrace = 19,
    /// Stands for the next two as well.
    SysAdmin = 21,
    /// To open events and read kernel memory from programs.
    Perfmon = 38,
    /// To load programs and create maps.
    Bpf = 39,
}

/// Returns whether this process has `capability` in effect.
pub fn has_capability(capability: Capability) -> bool {
    std::fs::read_to_string("/proc/self/status")
        .ok()
        .and_then(|status| effective_capabilities(&status))
        .is_some_and(|bits| bits >> capability as u32 & 1 == 1)
}

pub(crate) fn effective_capabilities(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"))?;
    u64::from_str_radix(line.trim(), 16).ok()
}

/// What would help where the kernel says "not permitted": a missing capability, or lockdown, or something else.
pub(crate) fn privilege_help() -> String {
    let admin = has_capability(Capability::SysAdmin);
    let missing: Vec<&str> = [(Capability::Bpf, "CAP_BPF"), (Capability::Perfmon, "CAP_PERFMON")]
        .into_iter()
        .filter(|(capability, _)| !admin && !has_capability(*capability))
        .map(|(_, name)| name)
        .collect();
    if !missing.is_empty() {
        return format!("tracing needs root, or the capabilities {}", missing.join(" and "));
    }
    let lockdown = std::fs::read_to_string("/sys/kernel/security/lockdown").unwrap_or_default();
    match parse_lockdown(&lockdown) {
        Lockdown::Confidentiality => "the kernel is locked down (confidentiality), which forbids tracing it".into(),
        Lockdown::Integrity => "the kernel is locked down (integrity), which forbids some tracing".into(),
        Lockdown::None => {
            "this process has the capabilities; a security module, a container or the kernel's build forbids it".into()
        }
    }
}

/// Returns whether this process may load tracing programs here, by loading one; for tests that need to.
pub fn can_bpf() -> bool {
    static CAN: OnceLock<bool> = OnceLock::new();
    *CAN.get_or_init(|| {
        // r0 = 0; exit
        let insns = [0xb7, 0x95];
        let attr = sys::ProgAttr {
            prog_type: sys::prog_type::RAW_TRACEPOINT,
            insns: &insns,
            name: "probe",
            ..Default::default()
        };
        sys::prog_load(&attr, &mut []).is_ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_parse_and_order() {
        assert_eq!(Version::parse("6.1.0-13-amd64\n"), Some(Version(6, 1, 0)));
        assert_eq!(Version::parse("6.18-rc1"), Some(Version(6, 18, 0)));
        assert_eq!(Version::parse("6"), None);
        assert_eq!(Version::parse("x.y"), None);
        assert!(Version(6, 10, 0) > Version(6, 6, 99));
    }

    #[test]
    fn lockdown_is_the_bracketed_word() {
        assert_eq!(parse_lockdown("[none] integrity confidentiality\n"), Lockdown::None);
        assert_eq!(parse_lockdown("none [integrity] confidentiality\n"), Lockdown::Integrity);
        assert_eq!(parse_lockdown("none integrity [confidentiality]\n"), Lockdown::Confidentiality);
        assert_eq!(parse_lockdown(""), Lockdown::None);
    }

    #[test]
    fn capabilities_parse() {
        assert_eq!(effective_capabilities("Name:\tx\nCapEff:\t000001fffeffffff\n"), Some(0x1ff_feff_ffff));
        assert_eq!(effective_capabilities("Name:\tx\n"), None);
    }

    #[test]
    fn a_tree_has_what_is_in_it() {
        let dir = std::env::temp_dir().join(format!("probity-features-{}", std::process::id()));
        let pmu = dir.join("sys/bus/event_source/devices/uprobe");
        std::fs::create_dir_all(pmu.join("format")).unwrap();
        std::fs::create_dir_all(dir.join("proc/sys/kernel")).unwrap();
        std::fs::write(pmu.join("type"), "9\n").unwrap();
        std::fs::write(pmu.join("format/retprobe"), "config:0\n").unwrap();
        std::fs::write(pmu.join("format/ref_ctr_offset"), "config:32-63\n").unwrap();
        std::fs::write(dir.join("proc/sys/kernel/osrelease"), "6.1.0-test\n").unwrap();
        let sys = System::at(&dir);
        let read = ProbePmu::read(&sys, "uprobe").unwrap();
        assert_eq!(read, ProbePmu { kind: 9, return_bit: 0, semaphore_shift: Some(32) });
        assert!(sys.has(Feature::UprobePmu));
        assert!(!sys.has(Feature::KprobePmu));
        assert!(!sys.has(Feature::UprobeMulti));
        assert!(!sys.has(Feature::RawTracepointCookie));
        sys.assume(Feature::UprobeMulti, true);
        assert!(sys.has(Feature::UprobeMulti));
        assert_eq!(ProbePmu::read(&sys, "kprobe").unwrap_err().kind(), Kind::Unsupported);
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
