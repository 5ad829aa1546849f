//! The back end's entry: a checked program to a BPF object and its layout.

use probity_bpf::Object;
use probity_ir::{Layout, Program};

/// Sizes and facts of the target system that the generated code depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodegenOptions {
    /// Number of possible CPUs.
    pub ncpu: u32,
    /// Bytes of one CPU's data ring (`bufsize`); rounded up to a power of two of at least a page.
    pub ring_size: u32,
    /// Most keys of an aggregation's map, all CPUs together (from `aggsize`).
    pub agg_entries: u32,
    /// Most elements of an associative array (from `dynvarsize`).
    pub dyn_entries: u32,
    /// Bytes of scratch memory that `copyin` may use in one firing (from `scratchsize`).
    pub scratch: u32,
}

/// Why a checked program has no code: a limit of BPF, told with the source line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodegenError {
    /// What is too much, and what would help.
    pub message: String,
    /// The clause's position in its unit and the source line, where known.
    pub line: Option<u32>,
}

/// Generates the object for a checked program.
pub fn codegen(_program: &Program, _options: &CodegenOptions) -> Result<(Object, Layout), CodegenError> {
    Err(CodegenError { message: "codegen is being written".into(), line: None })
}
