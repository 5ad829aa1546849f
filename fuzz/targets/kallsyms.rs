//! `/proc/kallsyms`: any bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| probity_debuginfo::kallsyms::fuzz_one(data));
