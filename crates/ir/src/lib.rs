//! The nouns that Probity's phases exchange: types, probes, signatures, programs and layouts.
//!
//! Every item here is plain data with public fields. Nothing in this crate computes: the checker that gives
//! these nouns their meaning is `probity-compiler`, the code that runs them is generated there too, and the
//! consumer in `probity-output` reads records by [`layout::Layout`], the one byte contract between both.
#![forbid(unsafe_code)]

pub mod action;
pub mod buckets;
mod epid;
pub mod glob;
pub mod layout;
pub mod location;
pub mod probe;
pub mod program;
pub mod stack;
pub mod sub;
pub mod text;
pub mod types;

pub use action::*;
pub use epid::{applies, epid};
pub use glob::*;
pub use layout::*;
pub use location::*;
pub use probe::*;
pub use program::*;
pub use stack::Stack;
pub use sub::*;
pub use types::*;
