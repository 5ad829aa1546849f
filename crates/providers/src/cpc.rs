//! `cpc:::EVENT-MODE-COUNT`: every `COUNT`th occurrence of an event of the processor or the kernel, on every CPU.
//!
//! Events have perf's names with `_` for `-`, in small letters; `rHEX` is the processor's own event with that code. Clocks count
//! nanoseconds. Where a machine shows no counters (most virtual machines), only the kernel's own events are there.

use crate::kinds::{bare, perf_event};
use crate::{Attachment, Provider, Stability};
use probity_ir::{Location, ProbeDesc, Selector, Signature, Space, TypeTable, glob, is_glob};
use probity_kernel::attach::sample;
use probity_kernel::perf::{Mode, Rate, Source};
use probity_kernel::{Error, Kind, Prog, System};

/// The provider `cpc`.
pub struct Cpc;

/// The kernel's own events: names, and their numbers in perf.
const SOFTWARE: [(&str, u64); 14] = [
    ("cpu_clock", 0),
    ("task_clock", 1),
    ("page_faults", 2),
    ("faults", 2),
    ("context_switches", 3),
    ("cs", 3),
    ("cpu_migrations", 4),
    ("migrations", 4),
    ("page_faults_min", 5),
    ("minor_faults", 5),
    ("page_faults_maj", 6),
    ("major_faults", 6),
    ("alignment_faults", 7),
    ("emulation_faults", 8),
];

/// The events that every processor's counters have in some form.
const HARDWARE: [(&str, u64); 12] = [
    ("cpu_cycles", 0),
    ("cycles", 0),
    ("instructions", 1),
    ("cache_references", 2),
    ("cache_misses", 3),
    ("branch_instructions", 4),
    ("branches", 4),
    ("branch_misses", 5),
    ("bus_cycles", 6),
    ("stalled_cycles_frontend", 7),
    ("stalled_cycles_backend", 8),
    ("ref_cycles", 9),
];

/// Caches and what happens in them: names, and their numbers in perf.
const CACHES: [(&str, u64); 7] =
    [("l1_dcache", 0), ("l1_icache", 1), ("llc", 2), ("dtlb", 3), ("itlb", 4), ("branch", 5), ("node", 6)];
const CACHE_EVENTS: [(&str, u64); 6] = [
    ("_loads", 0),
    ("_load_misses", 0x1_0000),
    ("_stores", 0x100),
    ("_store_misses", 0x1_0100),
    ("_prefetches", 0x200),
    ("_prefetch_misses", 0x1_0200),
];

const TYPE_CACHE: u32 = 3;
const TYPE_RAW: u32 = 4;

/// perf's constants' names are names too.
const PREFIXES: [(&str, bool); 2] = [("perf_count_sw_", true), ("perf_count_hw_", false)];

/// The shortest period of a clock, in nanoseconds; the kernel would lengthen a shorter one without a word.
const SHORTEST: u64 = 10_000;

/// The period of listed probes: so long that the most frequent event does no harm.
const LISTED: &str = "-all-1000000000";

const MODES: [(&str, Mode); 3] = [("all", Mode::All), ("user", Mode::User), ("kernel", Mode::Kernel)];

/// What a name asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Asked {
    source: Source,
    mode: Mode,
    period: u64,
}

fn event(name: &str) -> Option<Source> {
    let software = |name: &str| SOFTWARE.iter().find(|(known, _)| *known == name).map(|(_, n)| Source::Software(*n));
    let hardware = |name: &str| HARDWARE.iter().find(|(known, _)| *known == name).map(|(_, n)| Source::Hardware(*n));
    for (prefix, of_software) in PREFIXES {
        if let Some(name) = name.strip_prefix(prefix) {
            return if of_software { software(name) } else { hardware(name) };
        }
    }
    let cache = || {
        let (cache, event) = CACHES.iter().find_map(|cache| Some((cache, name.strip_prefix(cache.0)?)))?;
        let (_, code) = CACHE_EVENTS.iter().find(|(known, _)| *known == event)?;
        Some(Source::Raw(TYPE_CACHE, cache.1 | code))
    };
    let raw = || {
        let digits = name.strip_prefix('r').filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()))?;
        Some(Source::Raw(TYPE_RAW, u64::from_str_radix(digits, 16).ok()?))
    };
    software(name).or_else(|| hardware(name)).or_else(cache).or_else(raw)
}

/// Reads a name. `None` if it is no name of this provider's; `Err` says why it cannot be served.
fn parse(name: &str) -> Option<Result<Asked, String>> {
    let (event_name, rest) = name.split_once('-')?;
    let (mode, count) = rest.split_once('-')?;
    let mode = MODES.iter().find(|(known, _)| *known == mode)?.1;
    let Some(source) = event(event_name) else {
        return Some(Err(format!("there is no event {event_name}: `-l -P cpc` lists those of this machine")));
    };
    let digits = !count.is_empty() && count.bytes().all(|digit| digit.is_ascii_digit());
    let period = match count.parse::<u64>().ok().filter(|period| digits && *period > 0) {
        Some(period) => period,
        None => return Some(Err(format!("{count:?} is no number of events between two firings"))),
    };
    let clock = matches!(source, Source::Software(0 | 1));
    Some(match clock && period < SHORTEST {
        true => Err(format!("every {period} ns is too often for a clock: the shortest period is {SHORTEST}")),
        false => Ok(Asked { source, mode, period }),
    })
}

/// Whether the machine has counters: their device is called differently on each architecture.
fn has_counters(sys: &System) -> bool {
    let Ok(entries) = std::fs::read_dir(sys.path("sys/bus/event_source/devices")) else { return false };
    entries.flatten().any(|entry| {
        let name = entry.file_name();
        name.to_str().is_some_and(|name| name == "cpu" || name.starts_with("cpu_") || name.starts_with("armv"))
    })
}

fn asked(sys: &System, probe: &ProbeDesc) -> Result<Asked, Error> {
    let invalid = |why: String| Error::new(Kind::Invalid, why).context(probe.to_string());
    let asked = match parse(&probe.name) {
        Some(asked) => asked.map_err(invalid)?,
        None => {
            let error = Error::new(Kind::NotFound, format!("there is no probe {probe}"));
            return Err(
                error.help("names are EVENT-MODE-COUNT, as cpu_clock-all-1000000; the modes are all, user, kernel")
            );
        }
    };
    if !matches!(asked.source, Source::Software(_)) && !has_counters(sys) {
        let error = Error::new(Kind::Unsupported, "this machine shows no hardware counters (most virtual ones do not)");
        return Err(error.help("the kernel's own events are there: cpu_clock, page_faults, context_switches, …"));
    }
    Ok(asked)
}

/// The events that this machine has, by the names that are listed.
fn listed(sys: &System) -> Vec<String> {
    let of = |prefix: &'static str, events: &'static [(&str, u64)]| {
        let mut seen = Vec::new();
        // Of several names of one event, the first.
        let first = events.iter().filter(move |event| {
            let new = !seen.contains(&event.1);
            seen.push(event.1);
            new
        });
        first.map(move |(name, _)| format!("{prefix}{name}"))
    };
    let mut names: Vec<String> = of("perf_count_sw_", &SOFTWARE).collect();
    if has_counters(sys) {
        names.extend(of("perf_count_hw_", &HARDWARE));
    }
    names
}

impl Provider for Cpc {
    fn name(&self) -> &'static str {
        "cpc"
    }

    fn stability(&self) -> Stability {
        Stability::with_args(["Evolving", "Evolving", "Common"])
    }

    fn probes(&self, sys: &System, pattern: &ProbeDesc, found: &mut dyn FnMut(ProbeDesc)) -> Result<(), Error> {
        if !glob(&pattern.module, "") || !glob(&pattern.function, "") {
            return Ok(());
        }
        let desc = |name: &str| ProbeDesc::new(self.name(), "", "", name);
        if pattern.name.is_empty() || is_glob(&pattern.name) {
            let names = listed(sys).into_iter().map(|name| name + LISTED);
            names.filter(|name| glob(&pattern.name, name)).for_each(|name| found(desc(&name)));
        } else if parse(&pattern.name).is_some() {
            let probe = desc(&pattern.name);
            asked(sys, &probe)?;
            found(probe);
        }
        Ok(())
    }

    fn signature(
        &self,
        sys: &System,
        probe: &ProbeDesc,
        _typed: bool,
        _types: &mut TypeTable,
    ) -> Result<Signature, Error> {
        asked(sys, probe)?;
        let mut signature = bare(perf_event(), self.name().to_owned(), Selector::Cookie);
        signature.raw = vec![Location::Pc { space: Space::Kernel }, Location::Pc { space: Space::User }];
        Ok(signature)
    }

    fn attach(&self, sys: &System, probes: &[(u32, ProbeDesc)], prog: &Prog) -> Result<Attachment, Error> {
        let mut attachment = Attachment::default();
        let cpus = sys.online_cpus()?;
        for (index, probe) in probes {
            let Asked { source, mode, period } = asked(sys, probe)?;
            let link = sample(prog, &source, Rate::Period(period), mode, &cpus, u64::from(*index));
            attachment.links.push(link.map_err(|error| error.context(probe.to_string()))?);
            attachment.how = format!("perf_event {source:?} on {} CPUs", cpus.len());
        }
        Ok(attachment)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Counter, live};

    #[test]
    fn names_are_events_modes_and_counts() {
        let ok = |source, mode, period| Some(Ok(Asked { source, mode, period }));
        assert_eq!(parse("cpu_clock-all-50000000"), ok(Source::Software(0), Mode::All, 50_000_000));
        assert_eq!(parse("perf_count_sw_page_faults-user-1"), ok(Source::Software(2), Mode::User, 1));
        assert_eq!(parse("instructions-kernel-100"), ok(Source::Hardware(1), Mode::Kernel, 100));
        assert_eq!(parse("perf_count_hw_cycles-all-7"), ok(Source::Hardware(0), Mode::All, 7));
        assert_eq!(parse("llc_load_misses-all-9"), ok(Source::Raw(TYPE_CACHE, 0x1_0002), Mode::All, 9));
        assert_eq!(parse("r1b-all-9"), ok(Source::Raw(TYPE_RAW, 0x1b), Mode::All, 9));
        for (name, part) in [
            ("cpu_clock-all-100", "too often"),
            ("cpu_clock-all-10000bonehead", "no number"),
            ("cpu_clock-all-", "no number"),
            ("cs-all-0", "no number"),
            ("PAPI_tot_ins-all-10000", "no event"),
        ] {
            assert!(parse(name).unwrap().unwrap_err().contains(part), "{name}");
        }
        for other in ["tick-1s", "profile-97", "cpu_clock", "cpu_clock-some-1", ""] {
            assert_eq!(parse(other), None, "{other}");
        }
    }

    #[test]
    fn page_faults_are_counted() {
        if !live() {
            return;
        }
        let sys = System::live();
        let counter = Counter::attach(&Cpc, &sys, ["cpc", "", "", "page_faults-user-1"], None, |_| None);
        std::process::Command::new("/bin/true").status().unwrap();
        assert!(counter.get(0).0 > 10);
    }
}
