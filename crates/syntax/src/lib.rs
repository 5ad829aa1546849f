//! D text to syntax tree with spans, and the diagnostics every later phase uses.
//!
//! It knows no types, no probes and no files: what it must know about names (which are types) and macros the caller
//! tells it.
#![forbid(unsafe_code)]

pub mod ast;
pub mod diag;
pub mod span;
pub mod tags;

pub use diag::{Diagnostic, Note, Severity, Suggestion, near};
pub use span::{Location, Origin, Source, SourceId, Sources, Span};
