//! The command on the running kernel. Every test skips, with a line, where BPF is not permitted.
#![allow(clippy::print_stderr)] // skipped tests say so

mod accounting;
mod actions;
mod awaited;
mod corpus;
mod declared;
mod end;
mod exact;
mod faces;
mod field;
mod field_output;
mod field_values;
mod front;
mod language;
mod libraries;
mod limit;
mod machine;
mod memory;
mod mistakes;
mod nothing_left;
mod output;
mod probes;
mod reference;
mod speculate;
mod stacks;
mod subroutines;
mod tools;
mod user_types;
