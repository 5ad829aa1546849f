//! The text form of programs, locations and signatures: printed for people and tests, and read back.
//!
//! It is made of nested lists, `(head item …)`; `;` starts a comment. Things with a number are written with a letter for their
//! kind: `v2` variable, `a0` array, `@1` aggregation, `r3` record, `c0` clause, `u1` unit, `%7` expression, `t0` temporary, `f1`
//! field, `ty4` type. A name after a colon (`v2:count`) is for the reader and is not looked at when parsing. This owns the notation and nothing else:
//! whether a parsed program makes sense is for others to say.

mod node;
mod parse;
mod print;

pub use node::ParseError;
pub use parse::{parse, parse_location, parse_signature};
pub use print::{print, print_location, print_signature};

#[cfg(test)]
mod tests;
