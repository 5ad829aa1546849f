//! C declarations as tracefs and signatures write them: any bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| probity_debuginfo::ctype::fuzz_one(data));
