//! `profile-N` and `tick-N`: probes that fire by time, on every CPU or on one.
//!
//! Any rate is a probe; they are made as they are asked for. `profile-N` samples the CPUs' clocks with a period that is
//! exact in nanoseconds. `tick-N` is a timer of the consumer's, which fires on an idle machine too.

use crate::arch;
use crate::kinds::{bare, perf_event, raw_tracepoint};
use crate::{Attachment, Provider, Stability, Timer};
use probity_ir::{Location, Phase, ProbeDesc, Selector, Signature, Space, TypeTable, glob, is_glob};
use probity_kernel::attach::sample;
use probity_kernel::perf::{Mode, Rate, Source};
use probity_kernel::{Error, Kind, Prog, System};

/// The provider `profile`.
pub struct Profile;

/// The shortest period, in nanoseconds: DTrace's.
const SHORTEST: u64 = 200_000;

/// Units, in nanoseconds. Hertz, the default, is the odd one.
const UNITS: [(&str, u64); 14] = [
    ("ns", 1),
    ("nsec", 1),
    ("us", 1_000),
    ("usec", 1_000),
    ("ms", 1_000_000),
    ("msec", 1_000_000),
    ("s", 1_000_000_000),
    ("sec", 1_000_000_000),
    ("m", 60_000_000_000),
    ("min", 60_000_000_000),
    ("h", 3_600_000_000_000),
    ("hour", 3_600_000_000_000),
    ("d", 86_400_000_000_000),
    ("day", 86_400_000_000_000),
];

/// The probes that a pattern with globs finds.
const USUAL: [&str; 13] = [
    "profile-97",
    "profile-199",
    "profile-499",
    "profile-997",
    "profile-1999",
    "profile-4001",
    "profile-4999",
    "tick-1",
    "tick-10",
    "tick-100",
    "tick-500",
    "tick-1000",
    "tick-5000",
];

/// What a probe's name asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Asked {
    /// `profile-N` rather than `tick-N`.
    every_cpu: bool,
    /// Nanoseconds.
    period: u64,
}

/// Reads a name. `None` if it is no name of this provider's at all; `Err` says why it cannot be served.
fn parse(name: &str) -> Option<Result<Asked, String>> {
    let (every_cpu, rate) = match (name.strip_prefix("profile-"), name.strip_prefix("tick-")) {
        (Some(rate), _) => (true, rate),
        (_, Some(rate)) => (false, rate),
        _ => return None,
    };
    let digits = rate.bytes().take_while(u8::is_ascii_digit).count();
    // `tick-foo` may be someone else's probe.
    if digits == 0 {
        return None;
    }
    Some(period(rate, digits).map(|period| Asked { every_cpu, period }))
}

fn period(rate: &str, digits: usize) -> Result<u64, String> {
    let (number, unit) = rate.split_at(digits);
    let number: u64 = number.parse().map_err(|_| format!("{number} is too large"))?;
    if number == 0 {
        return Err("a rate of 0 never fires".to_owned());
    }
    let unit = unit.to_ascii_lowercase();
    let period = if unit.is_empty() || unit == "hz" {
        1_000_000_000 / number
    } else {
        let Some((_, ns)) = UNITS.iter().find(|(name, _)| *name == unit) else {
            return Err(format!("{unit:?} is no unit of time: use ns, us, ms, s, m, h, d or hz"));
        };
        number.checked_mul(*ns).filter(|ns| *ns <= i64::MAX as u64).ok_or("the period is longer than 292 years")?
    };
    if period < SHORTEST {
        return Err(format!("every {period} ns is too often: the shortest period is {} us (5000 hz)", SHORTEST / 1000));
    }
    Ok(period)
}

fn asked(probe: &ProbeDesc) -> Result<Asked, Error> {
    match parse(&probe.name) {
        Some(Ok(asked)) => Ok(asked),
        Some(Err(reason)) => Err(Error::new(Kind::Invalid, reason).context(probe.to_string())),
        None => Err(Error::new(Kind::NotFound, format!("there is no probe {probe}"))),
    }
}

impl Provider for Profile {
    fn name(&self) -> &'static str {
        "profile"
    }

    fn stability(&self) -> Stability {
        Stability::with_args(["Evolving", "Evolving", "Common"])
    }

    fn probes(&self, _sys: &System, pattern: &ProbeDesc, found: &mut dyn FnMut(ProbeDesc)) -> Result<(), Error> {
        if !glob(&pattern.module, "") || !glob(&pattern.function, "") {
            return Ok(());
        }
        let desc = |name: &str| ProbeDesc::new(self.name(), "", "", name);
        if pattern.name.is_empty() || is_glob(&pattern.name) {
            USUAL.iter().filter(|name| glob(&pattern.name, name)).for_each(|name| found(desc(name)));
        } else if parse(&pattern.name).is_some() {
            let probe = desc(&pattern.name);
            asked(&probe)?;
            found(probe);
        }
        Ok(())
    }

    fn signature(
        &self,
        _sys: &System,
        probe: &ProbeDesc,
        _typed: bool,
        _types: &mut TypeTable,
    ) -> Result<Signature, Error> {
        let Asked { every_cpu, .. } = asked(probe)?;
        if !every_cpu {
            // The consumer is always in user mode of its own process when it runs this.
            let mut signature = bare(raw_tracepoint(), probe.name.clone(), Selector::One);
            signature.phase = Phase::Timer;
            signature.raw = vec![Location::Value(0), arch::user_pc()];
            return Ok(signature);
        }
        let mut signature = bare(perf_event(), "profile".to_owned(), Selector::Cookie);
        signature.raw = vec![Location::Pc { space: Space::Kernel }, Location::Pc { space: Space::User }];
        Ok(signature)
    }

    fn attach(&self, sys: &System, probes: &[(u32, ProbeDesc)], prog: &Prog) -> Result<Attachment, Error> {
        let mut attachment = Attachment::default();
        let cpus = sys.online_cpus()?;
        for (index, probe) in probes {
            let Asked { every_cpu, period } = asked(probe)?;
            if every_cpu {
                let rate = Rate::Period(period);
                let link = sample(prog, &Source::CpuClock, rate, Mode::All, &cpus, u64::from(*index))
                    .map_err(|error| error.context(probe.to_string()))?;
                attachment.links.push(link);
                attachment.how = format!("perf_event cpu-clock on {} CPUs", cpus.len());
            } else {
                attachment.timers.push(Timer { period, index: *index, prog: prog.clone() });
                attachment.how = "the consumer's timer".to_owned();
            }
        }
        Ok(attachment)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_and_units() {
        let profile = |period| Some(Ok(Asked { every_cpu: true, period }));
        let tick = |period| Some(Ok(Asked { every_cpu: false, period }));
        assert_eq!(parse("profile-997"), profile(1_003_009));
        assert_eq!(parse("profile-4999"), profile(200_040));
        assert_eq!(parse("profile-5000hz"), profile(200_000));
        assert_eq!(parse("profile-10ms"), profile(10_000_000));
        assert_eq!(parse("profile-250usec"), profile(250_000));
        assert_eq!(parse("tick-1"), tick(1_000_000_000));
        assert_eq!(parse("tick-1s"), tick(1_000_000_000));
        assert_eq!(parse("tick-1SEC"), tick(1_000_000_000));
        assert_eq!(parse("tick-200000ns"), tick(200_000));
        assert_eq!(parse("tick-2m"), tick(120_000_000_000));
        assert_eq!(parse("tick-1h"), tick(3_600_000_000_000));
        assert_eq!(parse("tick-1day"), tick(86_400_000_000_000));
        assert_eq!(parse("tick-foo"), None);
        assert_eq!(parse("BEGIN"), None);
    }

    #[test]
    fn what_cannot_be_has_a_reason() {
        for (name, part) in [
            ("profile-0", "never fires"),
            ("profile-5001", "too often"),
            ("tick-2000000000", "too often"),
            ("tick-199us", "200 us"),
            ("tick-5parsec", "no unit"),
            ("tick-99999999999999999999", "too large"),
            ("tick-999999999999d", "292 years"),
        ] {
            let reason = parse(name).unwrap().unwrap_err();
            assert!(reason.contains(part), "{name}: {reason}");
        }
    }

    #[test]
    fn samples_come_at_their_rate() {
        if !crate::testing::live() {
            return;
        }
        use crate::testing::Counter;
        let sys = System::live();
        let pattern = ["profile", "", "", "profile-1ms"];
        let counter = Counter::attach(&Profile, &sys, pattern, None, |signature| Some(signature.raw[1].clone()));
        let start = std::time::Instant::now();
        // Busy, because an idle CPU's clock may not fire.
        while counter.get(0).0 == 0 && start.elapsed().as_secs() < 10 {
            std::hint::spin_loop();
        }
        assert!(counter.get(0).0 > 0);
        assert_ne!(counter.get(0).1, 0);
    }

    #[test]
    fn a_tick_is_a_timer_of_the_consumers() {
        if !crate::testing::live() {
            return;
        }
        let sys = System::live();
        let counter = crate::testing::Counter::attach(&Profile, &sys, ["", "", "", "tick-5ms"], None, |_| None);
        assert!(counter.attachment.links.is_empty());
        let [timer] = &counter.attachment.timers[..] else { panic!("one timer") };
        assert_eq!((timer.period, timer.index), (5_000_000, 0));
        timer.prog.test_run(&[], None).unwrap();
        assert_eq!(counter.get(0).0, 1);
    }

    #[test]
    fn patterns_find_rates() {
        let sys = System::live();
        let found = |name: &str| {
            let mut all = Vec::new();
            let result = Profile.probes(&sys, &ProbeDesc::new("", "", "", name), &mut |desc| all.push(desc.name));
            result.map(|()| all)
        };
        assert_eq!(found("tick-7ms").unwrap(), ["tick-7ms"]);
        assert_eq!(found("tick-*").unwrap().len(), 6);
        assert_eq!(found("").unwrap().len(), USUAL.len());
        assert!(found("entry").unwrap().is_empty());
        assert!(found("tick-0").unwrap_err().to_string().contains("never fires"));
    }
}
