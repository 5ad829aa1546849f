//! `io:::start` and `io:::done`: requests to block devices.
//!
//! What waits for a request, no tracepoint says. Devices without request queues (zram, persistent memory) have no requests.

use crate::derived::{Derived, DerivedProbe, Source, Typed, Value, translated};

const REQUEST: &[Typed] = &[
    translated(Value::Arg(0), "struct request *", "bufinfo_t *"),
    translated(Value::Arg(0), "struct request *", "devinfo_t *"),
    translated(Value::Arg(0), "struct request *", "fileinfo_t *"),
];
const RAW: &[Value] = &[Value::Arg(0)];
const NOWHERE: &[Source] = &[Source::Nowhere("no tracepoint says that a thread waits for a request")];

const fn probe(name: &'static str, from: &'static [Source]) -> DerivedProbe {
    DerivedProbe { name, from, when: None, raw: RAW, args: REQUEST }
}

/// The provider `io`.
pub(crate) static IO: Derived = Derived {
    name: "io",
    first_id: 10_200,
    probes: &[
        probe("done", &[Source::Tracepoint("block_io_done"), Source::Tracepoint("block_rq_complete")]),
        // Before Linux 6.5: when it goes to the driver, not when it is made.
        probe("start", &[Source::Tracepoint("block_io_start"), Source::Tracepoint("block_rq_issue")]),
        probe("wait-done", NOWHERE),
        probe("wait-start", NOWHERE),
    ],
};
