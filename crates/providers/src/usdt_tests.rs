//! How declared probes are named, and that a probe at several places is one.

use super::*;

#[test]
fn numbers_at_the_end_are_processes() {
    let all = |text| splits(text).map(|(name, pid)| format!("{name}|{pid}")).collect::<Vec<_>>();
    assert_eq!(all("foo123"), ["foo|123", "foo1|23", "foo12|3"]);
    assert_eq!(all("foo0"), Vec::<String>::new());
    assert_eq!(all("foo10"), ["foo|10"]);
    assert_eq!(all("foo"), Vec::<String>::new());
    assert_eq!(all(""), Vec::<String>::new());
    assert!(may_end_in("foo*", 7) && may_end_in("foo*34", 1234) && may_end_in("fo*o1234", 4));
    assert!(!may_end_in("foo*34", 12));
}

#[test]
fn other_providers_keep_their_names() {
    for name in ["foo123", "python*", "foo*123", "_x9"] {
        assert!(Usdt.serves(name), "{name}");
    }
    for name in ["", "*", "pid123", "pid*", "sys*", "syscall", "foo", "123*", "p*"] {
        assert!(!Usdt.serves(name), "{name}");
    }
}

#[test]
fn a_place_chooses_its_arguments() {
    let probe = ProbeDesc::new("p1", "m", "f", "n");
    let site = |text: &str| operands(text, &Here { vaddr: 0, symbol: &|_| None });
    let same = argument(&probe, 0, &[site("4@%edi"), site("4@%edi")]);
    assert!(matches!(same, Location::Narrow { .. }));
    let differ = argument(&probe, 0, &[site("8@%rdi"), site("8@%rsi"), site("8@%rdi")]);
    let at = |n| Test::Within { value: Location::Site, low: n, high: n };
    let expected = Location::Case {
        test: Box::new(Test::Any(vec![at(0), at(2)])),
        then: Box::new(Location::Reg { dwarf: 5 }),
        otherwise: Box::new(Location::Reg { dwarf: 4 }),
    };
    assert_eq!(differ, expected);
    let Location::None(why) = argument(&probe, 1, &[site("8@%rdi 16@(%rsp)")]) else { panic!() };
    assert!(why.contains("of p1:m:f:n: it is") && why.contains("16 bytes"), "{why}");
    let Location::None(why) = argument(&probe, 1, &[site("8@%rdi 8@%rsi"), site("8@%rdi")]) else { panic!() };
    assert!(why.contains("only 1 arguments at one of its places"), "{why}");
}
