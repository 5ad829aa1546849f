//! The text form of programs, locations and signatures: any text is read or refused, and what is read prints to the
//! same again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use probity_ir::text;

fuzz_target!(|data: &[u8]| {
    let input = String::from_utf8_lossy(data);
    match text::parse(&input) {
        Ok(program) => {
            let printed = text::print(&program);
            assert_eq!(text::parse(&printed).as_ref(), Ok(&program), "{printed}");
        }
        Err(error) => drop(error.to_string()),
    }
    if let Ok(location) = text::parse_location(&input) {
        let printed = text::print_location(&location);
        assert_eq!(text::parse_location(&printed).as_ref(), Ok(&location), "{printed}");
    }
    if let Ok(signature) = text::parse_signature(&input) {
        let printed = text::print_signature(&signature);
        assert_eq!(text::parse_signature(&printed).as_ref(), Ok(&signature), "{printed}");
    }
});
