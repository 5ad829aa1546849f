//! The back end from outside: programs written as IR, run in the interpreter, and loaded on the running kernel, whose
//! verifier is the judge.

#![allow(clippy::print_stderr)] // Tests say why they skip.

mod build;
mod load;
mod run;
