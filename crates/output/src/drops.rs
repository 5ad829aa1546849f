//! The words for drops and faults: DTrace's texts and tags where it has them, our own for what it does not count.

use crate::event::{DropCount, Fault, Record};
use crate::render::Style;
use probity_ir::{Drop, Program};

/// DTrace's tag of a cause, as `-x droptags` shows it.
pub fn drop_tag(cause: Drop) -> &'static str {
    match cause {
        Drop::Data | Drop::Control => "DTRACEDROP_PRINCIPAL",
        Drop::Aggregation => "DTRACEDROP_AGGREGATION",
        Drop::Dynamic | Drop::Thread => "DTRACEDROP_DYNAMIC",
        Drop::Scratch => "DTRACEDROP_SCRATCH",
        Drop::Fault => "DTRACEDROP_FAULT",
        Drop::ErrorFault => "DTRACEDROP_DBLERROR",
        Drop::Speculation => "DTRACEDROP_SPEC",
        Drop::NoSpeculation => "DTRACEDROP_SPECUNAVAIL",
        Drop::Missed => "DTRACEDROP_MISSED",
    }
}

/// A cause's name in JSON.
pub fn drop_name(cause: Drop) -> &'static str {
    match cause {
        Drop::Data => "data",
        Drop::Control => "control",
        Drop::Aggregation => "aggregation",
        Drop::Dynamic => "dynamic",
        Drop::Thread => "thread",
        Drop::Scratch => "scratch",
        Drop::Fault => "fault",
        Drop::ErrorFault => "error-fault",
        Drop::Speculation => "speculation",
        Drop::NoSpeculation => "no-speculation",
        Drop::Missed => "missed",
    }
}

/// One line without its end: `dtrace: 3 aggregation drops on CPU 1`.
pub fn drop_text(drops: &DropCount, style: &Style) -> String {
    let tag = if style.droptags { format!("[{}] ", drop_tag(drops.cause)) } else { String::new() };
    let what = match drops.cause {
        Drop::Data => "drop",
        Drop::Control => "control drop",
        Drop::Aggregation => "aggregation drop",
        Drop::Dynamic => "dynamic variable drop",
        Drop::Thread => "thread-local variable drop",
        Drop::Scratch => "scratch space drop",
        Drop::Fault => "fault report drop",
        Drop::ErrorFault => "error",
        Drop::Speculation => "speculative drop",
        Drop::NoSpeculation => "failed speculation",
        Drop::Missed => "missed firing",
    };
    let plural = if drops.count == 1 { "" } else { "s" };
    let why = match drops.cause {
        Drop::NoSpeculation => " (no speculative buffer available)",
        Drop::ErrorFault => " in ERROR probe enabling",
        _ => "",
    };
    // DTrace counts variables for all CPUs together and does not say where.
    let with_cpu = !style.dropin || matches!(drops.cause, Drop::Data | Drop::Control | Drop::Aggregation);
    let place = match drops.cpu {
        Some(cpu) if with_cpu => format!(" on CPU {cpu}"),
        _ => String::new(),
    };
    format!("{}: {tag}{} {what}{plural}{why}{place}", style.prefix, drops.count)
}

/// How to have fewer of these; said once for each cause.
pub fn drop_note(cause: Drop) -> &'static str {
    match cause {
        Drop::Data => {
            "more records came than could be written: raise the buffers with -b or -x bufsize, or record less"
        }
        Drop::Control => "too many exit, clear or printa records at once: fire these from fewer probes",
        Drop::Aggregation => {
            "the aggregation is full (raise -x aggsize, or use fewer keys), or the kernel had no memory at hand for a new key"
        }
        Drop::Dynamic => "the associative arrays are full: raise -x dynvarsize, or set elements to zero when done",
        Drop::Thread => "no room for a thread-local variable: raise -x dynvarsize, or set variables to zero when done",
        Drop::Scratch => "too many probes were interrupted by others on one CPU: their firings did nothing",
        Drop::ErrorFault => "a clause of ERROR went wrong itself; ERROR is not fired for that: correct the clause",
        Drop::Fault => "more faults came than could be reported: correct the ones that were",
        Drop::Speculation => "a speculation is full: raise -x specsize, or record less in it",
        Drop::NoSpeculation => "all speculations are in use: raise -x nspec, or commit and discard them sooner",
        Drop::Missed => {
            "the kernel did not run a program while the same CPU was in it already: these firings are in no count"
        }
    }
}

/// DTrace's wording of a fault.
pub fn fault_name(code: u32) -> &'static str {
    match code {
        1 => "invalid address",
        2 => "invalid alignment",
        3 => "illegal operation",
        4 => "divide-by-zero",
        5 => "out of scratch space",
        6 => "invalid kernel access",
        7 => "invalid user access",
        8 => "tuple stack overflow",
        9 => "bad stack",
        10 => "invalid size",
        11 => "index out of bounds",
        _ => "unknown fault",
    }
}

/// The illegal value, where the fault has one.
fn fault_detail(fault: &Fault) -> String {
    match fault.code {
        1 if fault.value == u64::MAX => String::new(),
        1 | 2 | 9 | 10 => format!(" (0x{:x})", fault.value),
        11 => format!(" ({})", fault.value as i64),
        _ => String::new(),
    }
}

/// One line without its end: an action that the consumer could not do.
pub fn deed_text(program: &Program, record: &Record, message: &str, style: &Style) -> String {
    let (id, desc) = match record.probe.get(program) {
        Some(probe) => (probe.id, probe.desc.to_string()),
        None => (0, "<unknown probe>".into()),
    };
    let epid = probity_ir::epid(program, record.probe.unit, record.clause, record.probe.index);
    format!("{}: error on enabled probe ID {epid} (ID {id}: {desc}): {message}", style.prefix)
}

/// One line without its end:
/// `dtrace: error in dt_clause_0 for probe ID 1 (dtrace:::BEGIN): invalid address (0x0) in action #1`.
/// Our own form has the number of the enabling and the line of the source.
pub fn fault_text(program: &Program, fault: &Fault, style: &Style) -> String {
    let (id, desc) = match fault.probe.get(program) {
        Some(probe) => (probe.id, probe.desc.to_string()),
        None => (0, "<unknown probe>".into()),
    };
    let action = match fault.action {
        0 if style.dropin => String::new(),
        0 => " in predicate".to_string(),
        n => format!(" in action #{n}"),
    };
    let line = match fault.line {
        n if n > 0 && !style.dropin => format!(" at line {n}"),
        _ => String::new(),
    };
    let place = match style.dropin {
        true => format!("in dt_clause_{} for probe ID {id} ({desc})", fault.clause.0),
        false => {
            let enabling = probity_ir::epid(program, fault.probe.unit, fault.clause, fault.probe.index);
            format!("on enabled probe ID {enabling} (ID {id}: {desc})")
        }
    };
    format!("{}: error {place}: {}{}{action}{line}", style.prefix, fault_name(fault.code), fault_detail(fault),)
}
