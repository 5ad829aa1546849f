//! DWARF: types, functions and places in an ELF file of any bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| probity_debuginfo::dwarf::fuzz_one(data));
