//! The table of function starts in stripped files: any bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| probity_providers::unwind_table::fuzz_one(data));
