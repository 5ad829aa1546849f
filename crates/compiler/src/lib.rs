//! The compiler: D text and an environment to a BPF object and its layout.
//!
//! The passes, in order; each file owns one:
//! parse (`probity-syntax`) → `expand` → `bind` → `check` → `lower` → `fold` → `layout` → `select` → `alloc` → `emit` → `verify`.
#![forbid(unsafe_code)]

mod alloc;
mod arch;
pub mod codegen;
mod emit;
pub mod env;
mod fold;
mod layout;
mod select;
mod vcode;
mod verify;

pub use codegen::{CodegenError, CodegenOptions, codegen, listing};
pub use select::probes::epid;
pub use env::{Env, EnvError};
