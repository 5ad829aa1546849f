//! The compiler: D text and an environment to a BPF object and its layout.
//!
//! The passes, in order; each file owns one:
//! parse (`probity-syntax`) → `expand` → `bind` → `check` → `lower` → `fold` → `layout` → `select` → `alloc` → `emit` → `verify`.
#![forbid(unsafe_code)]

pub mod codegen;
pub mod env;

pub use codegen::{CodegenError, CodegenOptions, codegen};
pub use env::{Env, EnvError};
