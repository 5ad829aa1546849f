//! What must hold for any bytes that this crate reads from /proc and sysfs; run by the fuzzer and, shortly, by a test.

use crate::{Version, cpu, features, perf, process, tracefs};

/// Runs every parser over arbitrary bytes.
///
/// # Panics
/// When something that must hold does not: that is the finding.
pub fn fuzz_one(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    for mapping in text.lines().filter_map(process::parse_mapping) {
        assert!(mapping.deleted || !mapping.path.ends_with(" (deleted)"), "{mapping:?}");
    }
    if let Some(status) = process::parse_status(&text) {
        assert_ne!(status.tgid, 0);
    }
    if let Some(cpus) = cpu::parse_list(&text) {
        assert!(cpus.iter().all(|&cpu| cpu <= 1 << 16));
    }
    if let Some(bit) = perf::config_bit(&text) {
        assert!(bit < 64);
    }
    Version::parse(&text);
    features::parse_lockdown(&text);
    features::effective_capabilities(&text);
    tracefs::mounted_at(&text);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_of_what_the_kernel_writes() {
        let text = "32 24 0:8 / /mnt/my\\040\\77 trace rw - tracefs none rw\n\
                    1-2 r-xp 0 0:0 0  /a (deleted)\nTgid:\t12\nUid:\t0\t0\nNSpid:\t12\t3\nCapEff:\t01ff\n";
        let more = "0-3,8,10-65537\nconfig:63-64\n6.18.0-rc1+\nnone [integrity] confidentiality\n0-1,65536";
        for whole in [text, more] {
            for from in 0..whole.len() {
                for to in from..whole.len() {
                    fuzz_one(&whole.as_bytes()[from..=to]);
                }
            }
        }
    }
}
