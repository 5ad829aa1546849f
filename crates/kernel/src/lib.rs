//! bpf(2), perf_event_open(2), links, maps, rings, /proc, feature probes.
//!
//! The only crate with unsafe code. It knows nothing of D: it loads a [`probity_bpf::Object`], attaches its programs, and hands
//! out bytes. Everything made here is owned by a descriptor and ends with it (G1).

pub mod attach;
pub mod child;
pub mod clock;
pub mod cpu;
pub mod error;
pub mod features;
mod func_info;
pub mod fuzz;
pub mod grace;
pub mod load;
pub mod map;
pub mod mappings;
pub mod perf;
pub mod poll;
pub mod process;
pub mod ring;
pub mod sys;
pub mod system;
pub mod tracefs;

pub use attach::Attachment;
pub use error::{Error, Kind, Result};
pub use features::{Feature, Lockdown, Version, can_bpf};
pub use load::{Loaded, Prog, load};
pub use map::{Map, Mapped, Update};
pub use poll::{Event, Poller, Signals};
pub use ring::Ring;
pub use system::System;
pub use tracefs::Tracefs;
