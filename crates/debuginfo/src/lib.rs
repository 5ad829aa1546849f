//! BTF, ELF, kallsyms and tracefs formats to types, addresses and symbols.
//!
//! Every reader works on demand: it maps or reads the file, scans for what is asked, and keeps no table of the rest.
//! All of them read foreign bytes: whatever these hold, the answer is a value or an [`Error`], never a panic and never
//! an endless loop. Nothing here attaches, loads or creates anything.
#![deny(unsafe_code)]

pub mod btf;
pub mod btf_import;
pub mod btf_types;
pub mod ctype;
pub mod dwarf;
pub mod elf;
mod elf_image;
pub mod error;
pub mod kallsyms;
pub mod ksymbols;
pub mod ldcache;
pub mod map;
pub mod proc_maps;
mod reader;
pub mod stapsdt;
pub mod tracefs_format;
pub mod usymbols;
pub mod x86_len;

pub use error::{Error, Kind, Result};

#[cfg(test)]
mod mutate;
