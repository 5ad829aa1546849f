//! bpf(2), perf_event_open(2), links, maps, rings, /proc, feature probes.
