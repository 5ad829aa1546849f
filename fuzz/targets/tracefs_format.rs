//! `format` files of tracefs, and the types of their fields: any bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| probity_debuginfo::tracefs_format::fuzz_one(data));
