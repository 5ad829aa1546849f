//! `/proc/PID/maps`, and the modules in it: any bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| probity_debuginfo::proc_maps::fuzz_one(data));
