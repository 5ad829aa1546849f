//! ELF files: sections, symbols, segments, notes, instruction boundaries: any bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| probity_debuginfo::elf::fuzz_one(data));
