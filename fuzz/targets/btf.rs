//! BTF blobs, looked up in and imported from: any bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| probity_debuginfo::btf_import::fuzz_one(data));
