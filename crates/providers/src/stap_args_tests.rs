//! What operands mean, one of each form.

use super::*;

fn places(text: &str) -> Vec<Result<Location, String>> {
    let symbol = |name: &str| match name {
        "counter" => Some(0x4000),
        "table.0" => Some(0x5000),
        _ => None,
    };
    let all = operands(text, &Here { vaddr: 0x1100, symbol: &symbol });
    all.into_iter().map(|operand| operand.place).collect()
}

fn place(text: &str) -> Location {
    let mut all = places(text);
    assert_eq!(all.len(), 1, "{text}");
    all.remove(0).unwrap_or_else(|why| panic!("{text}: {why}"))
}

fn why(text: &str) -> String {
    places(text).remove(0).expect_err(text)
}

fn reg(dwarf: u16) -> Location {
    Location::Reg { dwarf }
}

fn low(dwarf: u16, size: u8, signed: bool) -> Location {
    Location::Narrow { of: Box::new(reg(dwarf)), size, signed }
}

fn mem(base: Location, offset: i64, size: u8, signed: bool) -> Location {
    Location::Memory { base: Box::new(base), offset, size, signed, space: Space::User }
}

fn near(offset: i64) -> Location {
    let base = Box::new(Location::Pc { space: Space::User });
    Location::Address { base, offset, space: Space::User }
}

#[test]
fn registers() {
    assert_eq!(place("8@%rax"), reg(0));
    assert_eq!(place("-8@%r15"), reg(15));
    assert_eq!(place("-4@%edi"), low(5, 4, true));
    assert_eq!(place("4@%rdi"), low(5, 4, false));
    assert_eq!(place("8@%edi"), low(5, 4, false));
    assert_eq!(place("-2@%si"), low(4, 2, true));
    assert_eq!(place("1@%sil"), low(4, 1, false));
    assert_eq!(place("1@%bpl"), low(6, 1, false));
    assert_eq!(place("-1@%r8b"), low(8, 1, true));
    assert_eq!(place("2@%r10w"), low(10, 2, false));
    assert_eq!(place("4@%r9d"), low(9, 4, false));
    assert_eq!(place("-1@%ah"), Location::Ctx { offset: 81, size: 1, signed: true });
    assert_eq!(place("%esi"), low(4, 4, false));
    assert_eq!(place("3@%rdi"), Location::Masked { of: Box::new(reg(5)), mask: 0xff_ffff });
    for (text, part) in [("8f@%xmm0", "%xmm0"), ("8@%r16", "%r16"), ("8@%r08", "%r08"), ("8@%st(0)", "st(0)")] {
        assert!(why(text).contains(part), "{text}");
    }
}

#[test]
fn constants() {
    assert_eq!(place("-4@$-1"), Location::Value(-1));
    assert_eq!(place("4@$-1"), Location::Value(0xffff_ffff));
    assert_eq!(place("-1@$255"), Location::Value(-1));
    assert_eq!(place("8@$0x10"), Location::Value(16));
    assert_eq!(place("8@$010"), Location::Value(8));
    assert_eq!(place("8@$18446744073709551615"), Location::Value(-1));
    assert_eq!(place("-8@$-9223372036854775808"), Location::Value(i64::MIN));
    assert_eq!(place("8@$counter+8"), near(0x4008 - 0x1100));
    for text in ["8@$.LC0", "8@$", "8@$0xg", "8@$99999999999999999999"] {
        assert!(why(text).contains("not understood"), "{text}");
    }
}

#[test]
fn memory_by_base_index_and_symbol() {
    assert_eq!(place("8@(%rsp)"), mem(reg(7), 0, 8, false));
    assert_eq!(place("-4@-20(%rbp)"), mem(reg(6), -20, 4, true));
    assert_eq!(place("4@0x10(%eax)"), mem(low(0, 4, false), 16, 4, false));
    assert_eq!(place("1@16-8+2(%rbp)"), mem(reg(6), 10, 1, false));
    assert_eq!(place("8@8(%rax,%rcx,8)"), mem(plus(reg(0), reg(2), 8), 8, 8, false));
    assert_eq!(place("8@(%rax,%rcx)"), mem(plus(reg(0), reg(2), 1), 0, 8, false));
    assert_eq!(place("8@(,%r9,4)"), mem(plus(Location::Value(0), reg(9), 4), 0, 8, false));
    assert_eq!(place("8@(%rsp,%riz,1)"), mem(reg(7), 0, 8, false));
    assert_eq!(place("8@0x1000"), mem(Location::Value(0), 0x1000, 8, false));
    assert_eq!(place("2@counter(%rip)"), mem(near(0x2f00), 0, 2, false));
    assert_eq!(place("2@counter+2(%rip)"), mem(near(0x2f02), 0, 2, false));
    assert_eq!(place("2@4+counter"), mem(near(0x2f04), 0, 2, false));
    assert_eq!(place("4@table.0(,%rdi,4)"), mem(plus(near(0x3f00), reg(5), 4), 0, 4, false));
    assert_eq!(place("4@table.0-4(%rdi)"), mem(plus(near(0x3efc), reg(5), 1), 0, 4, false));
    assert_eq!(place("8f@-8(%rbp)"), mem(reg(6), -8, 8, false));
}

#[test]
fn small_structures_are_their_bytes_and_large_ones_are_refused() {
    let low = mem(reg(6), -8, 4, false);
    let high = plus(mem(reg(6), -4, 2, false), mem(reg(6), -2, 1, false), 1 << 16);
    assert_eq!(place("7@-8(%rbp)"), plus(low, high, 1 << 32));
    let all = places("4@%edi 16@-16(%rbp) -4@$3");
    assert_eq!((all[0].is_ok(), all[2].clone()), (true, Ok(Location::Value(3))));
    assert!(all[1].as_ref().is_err_and(|why| why.contains("16 bytes")));
}

#[test]
fn what_is_not_understood_says_so() {
    for text in [
        "8@%fs:16(%rax)",
        "8@16(%rip)",
        "8@nonesuch(%rip)",
        "8@(%rax,%rcx,3)",
        "8@(%rax,%rcx,4,1)",
        "8@(%al)",
        "8@()",
        "-8(%rbp)",
        "x@%rax",
        "8@QWORD PTR [rbp-8]",
        "0@%rax",
        "8@counter-table.0(%rip)",
    ] {
        assert!(places(text)[0].is_err(), "{text}");
    }
    assert!(places("").is_empty());
    // Blanks belong to no operand but in parentheses.
    assert_eq!(places(" 8@%rax  4@(%rax, %rcx, 4)").len(), 2);
}
