//! The D lexer, parser and both renderers of diagnostics: any bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| probity_syntax::fuzz::fuzz_one(data));
