//! What the system-call layer reads from /proc and sysfs: any bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use probity_kernel::{Version, cpu, process};

fuzz_target!(|data: &[u8]| {
    let text = String::from_utf8_lossy(data);
    for mapping in text.lines().filter_map(process::parse_mapping) {
        assert!(!mapping.path.ends_with(" (deleted)") || mapping.deleted);
    }
    if let Some(status) = process::parse_status(&text) {
        assert_ne!(status.tgid, 0);
    }
    // No list is longer than the largest CPU number for each of its parts.
    if let Some(cpus) = cpu::parse_list(&text) {
        assert!(cpus.iter().all(|&cpu| cpu <= 1 << 16));
    }
    let _ = Version::parse(&text);
});
