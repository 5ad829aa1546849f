//! The rings, merged by time: one data ring for each CPU, the fault ring and the control ring.
//!
//! A record's time is taken just before its room is reserved, so a ring is almost sorted in itself, and the merge takes the
//! oldest head. A head that is still being written holds the others back for a moment, because it may be older than they are.

use probity_ir::{DataRings, Layout};
use probity_kernel::ring::{Next, Ring};
use probity_kernel::{Error, Kind, Loaded, clock};

/// How long a record that is being written may hold others back, in ns: a preempted program must not stop the output.
const PATIENCE: u64 = 200_000_000;

/// What is known of a ring's head.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Head {
    Unknown,
    Empty,
    Busy,
    Time(u64),
}

/// All rings of a session.
pub struct Merge {
    rings: Vec<Ring>,
    heads: Vec<Head>,
    /// Since when a record that is being written holds the others back.
    held: Option<u64>,
    /// How many records have been handed out.
    pub records: u64,
}

impl Merge {
    /// Maps the rings of a loaded object. The control ring is the last.
    pub fn new(loaded: &Loaded, layout: &Layout) -> Result<Merge, Error> {
        let map = |index: u32| {
            let missing = || Error::new(Kind::Invalid, format!("the object has no map {index}"));
            loaded.maps.get(index as usize).ok_or_else(missing)
        };
        let mut rings = Vec::new();
        match &layout.data_rings {
            DataRings::None => {}
            DataRings::Each(maps) => {
                for &index in maps {
                    rings.push(Ring::new(map(index)?)?);
                }
            }
            DataRings::Nested(outer) => {
                for inner in map(*outer)?.inner() {
                    rings.push(Ring::new(inner)?);
                }
            }
        }
        if let Some(faults) = layout.fault_ring {
            rings.push(Ring::new(map(faults)?)?);
        }
        rings.push(Ring::new(map(layout.control_ring)?)?);
        let heads = vec![Head::Unknown; rings.len()];
        Ok(Merge { rings, heads, held: None, records: 0 })
    }

    /// The control ring, to wait on.
    pub fn control(&self) -> &Ring {
        self.rings.last().expect("there is a control ring")
    }

    /// Whether some data ring is so full that it should be read now rather than at the next turn.
    pub fn pressed(&self) -> bool {
        self.rings.iter().any(|r| r.used() * 4 > r.size())
    }

    /// Hands out records in the order of their times, up to time `until` if given, until there are none or `f` returns
    /// `false`. Returns whether it stopped for `f`'s sake.
    pub fn drain(&mut self, until: Option<u64>, f: &mut dyn FnMut(&[u8]) -> bool) -> bool {
        self.heads.fill(Head::Unknown);
        loop {
            let mut oldest: Option<(u64, usize)> = None;
            let mut second = u64::MAX;
            let mut busy = false;
            for i in 0..self.rings.len() {
                if self.heads[i] == Head::Unknown {
                    self.heads[i] = look(&mut self.rings[i]);
                }
                match self.heads[i] {
                    Head::Time(t) => match oldest {
                        Some((o, _)) if o <= t => second = second.min(t),
                        Some((o, _)) => {
                            second = second.min(o);
                            oldest = Some((t, i));
                        }
                        None => oldest = Some((t, i)),
                    },
                    Head::Busy => busy = true,
                    Head::Empty | Head::Unknown => {}
                }
            }
            let Some((time, index)) = oldest else {
                if !busy {
                    self.held = None;
                }
                return false;
            };
            if until.is_some_and(|u| time > u) {
                return false;
            }
            if busy {
                let now = clock::monotonic_ns();
                if now.saturating_sub(*self.held.get_or_insert(now)) < PATIENCE {
                    return false;
                }
            } else {
                self.held = None;
            }
            // As long as this ring stays the oldest, the others need no second look.
            let ring = &mut self.rings[index];
            self.heads[index] = loop {
                match ring.peek() {
                    Next::Empty => break Head::Empty,
                    Next::Busy => break Head::Busy,
                    Next::Record(bytes) => {
                        let t = time_of(bytes);
                        if t > second || until.is_some_and(|u| t > u) {
                            break Head::Time(t);
                        }
                        let go_on = f(bytes);
                        ring.pop();
                        self.records += 1;
                        if !go_on {
                            return true;
                        }
                    }
                }
            };
        }
    }
}

fn look(ring: &mut Ring) -> Head {
    match ring.peek() {
        Next::Empty => Head::Empty,
        Next::Busy => Head::Busy,
        Next::Record(bytes) => Head::Time(time_of(bytes)),
    }
}

/// The time in a record's header; a record that has none is handed out at once.
fn time_of(bytes: &[u8]) -> u64 {
    bytes.first_chunk().map_or(0, |b| u64::from_ne_bytes(*b))
}
