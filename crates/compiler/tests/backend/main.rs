//! The back end from outside: programs written as IR, run in the interpreter, and loaded on the running kernel, whose
//! verifier is the judge.

mod build;
mod load;
mod run;
