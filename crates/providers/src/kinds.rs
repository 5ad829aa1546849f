//! The program types that providers ask for, by what runs them.

use probity_ir::{Ctx, Location, Phase, ProgKind, Selector, Signature};

const KPROBE: u32 = 2;
const TRACEPOINT: u32 = 5;
const PERF_EVENT: u32 = 7;
const RAW_TRACEPOINT: u32 = 17;
const TRACING: u32 = 26;

const TRACE_RAW_TP: u32 = 23;
const TRACE_UPROBE_MULTI: u32 = 48;

/// A program that the consumer runs with `BPF_PROG_TEST_RUN`, or that is attached to a raw tracepoint.
pub fn raw_tracepoint() -> ProgKind {
    ProgKind { prog_type: RAW_TRACEPOINT, attach_type: 0, btf_id: 0, sleepable: false, ctx: Ctx::Args }
}

/// A raw tracepoint whose arguments the verifier knows by type; `btf_id` is that of the typedef `btf_trace_NAME`.
pub fn tp_btf(btf_id: u32) -> ProgKind {
    ProgKind { prog_type: TRACING, attach_type: TRACE_RAW_TP, btf_id, ..raw_tracepoint() }
}

/// A program on a sampling event.
pub fn perf_event() -> ProgKind {
    ProgKind { prog_type: PERF_EVENT, ctx: Ctx::PerfEvent, ..raw_tracepoint() }
}

/// A program that gets a tracepoint's record.
pub fn tracepoint() -> ProgKind {
    ProgKind { prog_type: TRACEPOINT, ctx: Ctx::Record, ..raw_tracepoint() }
}

/// A program on user-space instructions: for a multi-link, or for one event per place.
pub fn uprobe(multi: bool, sleepable: bool) -> ProgKind {
    let attach_type = if multi { TRACE_UPROBE_MULTI } else { 0 };
    ProgKind { prog_type: KPROBE, attach_type, sleepable, ctx: Ctx::Regs, ..raw_tracepoint() }
}

/// A signature with neither arguments nor errno.
pub fn bare(prog: ProgKind, group: String, selector: Selector) -> Signature {
    Signature {
        prog,
        phase: Phase::Run,
        group,
        selector,
        when: None,
        index: 0,
        raw: Vec::new(),
        args: Vec::new(),
        errno: None,
        caller: None,
        ucaller: None,
    }
}

/// Argument `n`, a number, of a context that is an array of 64-bit arguments.
pub fn ctx_number(n: u32) -> Location {
    Location::Ctx { offset: 8 * n, size: 8, signed: true }
}

/// Argument `n`, a pointer where the verifier knows types, of a context that is an array of 64-bit arguments.
pub fn ctx_arg(n: u32) -> Location {
    Location::Ctx { offset: 8 * n, size: 8, signed: false }
}
