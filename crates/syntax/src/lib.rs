//! D text to syntax tree with spans, and the diagnostics every later phase uses.
//!
//! It knows no types, no probes and no files: what it must know about names (which are types) and macros the caller
//! tells it.
#![forbid(unsafe_code)]

pub mod ast;
pub mod attributes;
pub mod diag;
pub mod dump;
pub mod fmt;
pub mod fuzz;
mod lex;
pub mod macros;
pub mod parse;
mod pragma;
mod probespec;
pub mod render;
pub mod span;
pub mod tags;
mod token;

pub use diag::{Diagnostic, Note, Severity, Suggestion, distance, near};
pub use macros::Macros;
pub use parse::{MAX_DEPTH, ParseOptions, SpecKind, parse, parse_clause_flag};
pub use render::{render_dtrace, render_pretty};
pub use span::{Location, Origin, Source, SourceId, Sources, Span};
