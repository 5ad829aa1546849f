//! USDT notes of ELF files: any bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| probity_debuginfo::stapsdt::fuzz_one(data));
