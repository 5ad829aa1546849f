//! What a record asks for besides text: commands, another output file, options, captured packets. The consumer does them, in
//! their turn between pieces of text.

use crate::event::{Item, Value};
use crate::printf::{self, Surroundings};
use crate::render::Style;
use probity_ir::Action;
use std::io::Write;

/// One such thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deed<'a> {
    /// `system()`: the shell's command.
    System(&'a [u8]),
    /// `freopen()`: the file; empty for the first output.
    Freopen(&'a [u8]),
    /// `ftruncate()`
    Ftruncate,
    /// `setopt()`
    Setopt {
        /// The option.
        name: &'a str,
        /// Its value, if given.
        value: Option<&'a str>,
    },
    /// `pcap()`
    Packet {
        /// `CLOCK_MONOTONIC` nanoseconds.
        time: u64,
        /// What the data begin with: a `PCAP_*` constant.
        proto: i64,
        /// The packet's length.
        len: u32,
        /// As many of its bytes as were recorded.
        data: &'a [u8],
    },
}

/// Where the answer is written, by one who can also do [`Deed`]s.
pub trait Output: Write {
    /// Does it; what was written before is out already. Options that change how output looks are applied to `style`. The result is
    /// whether that is all: a packet that went nowhere is shown as bytes.
    ///
    /// # Errors
    /// Why it could not be done, in one line without its end.
    fn deed(&mut self, deed: Deed<'_>, style: &mut Style) -> Result<bool, String>;
}

/// Does nothing: for renderers that are asked for text alone.
impl Output for Vec<u8> {
    fn deed(&mut self, _deed: Deed<'_>, _style: &mut Style) -> Result<bool, String> {
        Ok(false)
    }
}

/// A deed that a record asks for, with its texts made.
pub(crate) enum Asked<'a> {
    System(Vec<u8>),
    Freopen(Vec<u8>),
    Ftruncate,
    Setopt(&'a str, Option<&'a str>),
    Packet(i64, u32, &'a [u8]),
}

impl Asked<'_> {
    /// What an item asks for, if anything.
    pub fn of<'a>(item: &'a Item, action: &Action, around: Surroundings<'_>) -> Option<Asked<'a>> {
        // A command is no place for the mark of a cut string.
        let around = Surroundings { dropin: true, ..around };
        let text = |format, values: &[Value]| {
            let mut text = Vec::new();
            printf::format(format, values, &[], around, &mut text);
            text
        };
        Some(match (item, action) {
            (Item::System(values), Action::System { format, .. }) => Asked::System(text(format, values)),
            (Item::Freopen(values), Action::Freopen { format, .. }) => Asked::Freopen(text(format, values)),
            (Item::Ftruncate, _) => Asked::Ftruncate,
            (Item::Setopt(name, value), _) => Asked::Setopt(name, value.as_deref()),
            (Item::Pcap { proto, len, data }, _) => Asked::Packet(*proto, *len, data),
            _ => return None,
        })
    }

    pub fn deed(&self, time: u64) -> Deed<'_> {
        match self {
            Asked::System(command) => Deed::System(command),
            Asked::Freopen(name) => Deed::Freopen(name),
            Asked::Ftruncate => Deed::Ftruncate,
            Asked::Setopt(name, value) => Deed::Setopt { name, value: *value },
            Asked::Packet(proto, len, data) => Deed::Packet { time, proto: *proto, len: *len, data },
        }
    }
}
