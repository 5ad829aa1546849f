//! The pace of the consumer: how often it reads the rings, and how often it looks whether tracing is to end.

use probity_compiler::Options;
use probity_output::Item;
use std::time::Duration;

/// The longest pause between two looks at the rings while nothing happens.
pub const IDLE: Duration = Duration::from_millis(50);

/// How often records are read and the state is looked at. Faster than asked for is no harm, and the default is not waited for;
/// who asks for slower than that gets it.
pub struct Rates {
    options: Options,
    last_read: u64,
    last_look: u64,
}

/// The rates' default, ns.
const DEFAULT_RATE: u64 = 1_000_000_000;

impl Rates {
    pub fn new(options: &Options) -> Rates {
        let now = probity_kernel::clock::monotonic_ns();
        Rates { options: options.clone(), last_read: now, last_look: now }
    }

    pub fn slow(&self) -> bool {
        self.options.switchrate > DEFAULT_RATE
    }

    /// Whether it is time to read the rings.
    pub fn read(&mut self, now: u64) -> bool {
        let due = !self.slow() || now.saturating_sub(self.last_read) >= self.options.switchrate;
        self.last_read = if due { now } else { self.last_read };
        due
    }

    /// Whether it is time to see if tracing is to end.
    pub fn look(&mut self, now: u64) -> bool {
        let rate = self.options.statusrate;
        let due = rate <= DEFAULT_RATE || now.saturating_sub(self.last_look) >= rate;
        self.last_look = if due { now } else { self.last_look };
        due
    }

    /// The longest pause.
    pub fn idle(&self) -> Duration {
        IDLE.min(Duration::from_nanos(self.options.switchrate.max(1_000_000)))
    }

    pub fn set(&mut self, item: &Item) {
        if let Item::Setopt(name, value) = item
            && matches!(name.as_str(), "switchrate" | "aggrate")
        {
            // A wrong value is reported by the consumer.
            let _ = self.options.set(name, value.as_deref());
        }
    }
}
