//! Lengths of x86 instructions: any bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| probity_debuginfo::x86_len::fuzz_one(data));
