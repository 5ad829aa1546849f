//! What the system-call layer reads from /proc and sysfs: any bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| probity_kernel::fuzz::fuzz_one(data));
