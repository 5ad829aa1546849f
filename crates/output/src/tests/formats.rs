//! printf, case by case. Expectations are what C's printf gives, except where D differs.

use super::*;
use crate::printf::{AggValue, Surroundings, format};

fn run(f: &str, operands: &[Value], dropin: bool) -> String {
    let mut out = Vec::new();
    format(
        &parse(f),
        operands,
        &[],
        Surroundings { symbols: &NoSymbols, dropin, noresolve: false, group: Some(','), zoom: false },
        &mut out,
    );
    String::from_utf8_lossy(&out).into_owned()
}

fn num(value: i64, size: u8, signed: bool) -> Value {
    Value::Int { value, size, signed, kind: Kind::Number }
}

#[test]
fn integers_are_as_wide_as_their_type() {
    for (f, value, size, signed, want) in [
        ("%d", -1, 4, true, "-1"),
        ("%u", -1, 4, true, "4294967295"),
        ("%u", -1, 1, true, "255"),
        ("%u", -1, 2, true, "65535"),
        ("%u", -1, 8, true, "18446744073709551615"),
        ("%d", i64::MIN, 8, true, "-9223372036854775808"),
        ("%d", i64::MAX, 8, true, "9223372036854775807"),
        ("%d", -1, 8, false, "18446744073709551615"),
        ("%i", 4294967295, 4, false, "4294967295"),
        ("%x", -1, 4, true, "ffffffff"),
        ("%X", -17, 1, true, "EF"),
        ("%o", -17, 2, true, "177757"),
        ("%x", 0x1234_5678_90ab_cdef, 8, true, "1234567890abcdef"),
        ("%p", 0x1000, 8, false, "1000"),
        // Modifiers narrow and widen as in C.
        ("%hhd", 300, 4, true, "44"),
        ("%hhd", 200, 4, true, "-56"),
        ("%hd", 65535, 2, false, "-1"),
        ("%hu", 65536 + 7, 4, true, "7"),
        ("%ld", -1, 4, true, "-1"),
        ("%lu", -1, 4, true, "18446744073709551615"),
        ("%llx", -1, 4, true, "ffffffffffffffff"),
        ("%lx", -1, 8, true, "ffffffffffffffff"),
    ] {
        assert_eq!(run(f, &[num(value, size, signed)], true), want, "{f} {value} {size} {signed}");
        assert_eq!(run(f, &[num(value, size, signed)], false), want, "{f} {value} {size} {signed}");
    }
}

#[test]
fn flags_widths_and_precisions() {
    for (f, value, want) in [
        ("%8d|", 123, "     123|"),
        ("%-8d|", 123, "123     |"),
        ("%08d|", 123, "00000123|"),
        ("%08d|", -123, "-0000123|"),
        ("%-08d|", 123, "123     |"),
        ("%+d|", 123, "+123|"),
        ("%+d|", -123, "-123|"),
        ("% d|", 123, " 123|"),
        ("% 8d|", 123, "     123|"),
        ("%+8d|", 123, "    +123|"),
        ("%.5d|", 123, "00123|"),
        ("%8.5d|", -123, "  -00123|"),
        ("%08.5d|", 123, "   00123|"),
        ("%#x|", 0x123, "0x123|"),
        ("%#x|", 0, "0|"),
        ("%#8x|", 0x123, "   0x123|"),
        ("%#08x|", 0x123, "0x000123|"),
        ("%#-8X|", 0xab, "0XAB    |"),
        ("%#o|", 8, "010|"),
        ("%#o|", 0, "0|"),
        ("%1d|", 123, "123|"),
        ("%0d|", 1, "1|"),
        ("%.0d|", 0, "0|"),
        ("100%%|%d", 1, "100%|1"),
    ] {
        assert_eq!(run(f, &[num(value, 4, true)], true), want, "{f} {value}");
    }
    // Signs belong to signed conversions only.
    assert_eq!(run("%+u|%+x|% u", &[long(1), long(1), long(1)], true), "1|1|1");
}

#[test]
fn widths_and_precisions_as_operands() {
    for (width, want) in [(0, "1|"), (1, "1|"), (5, "    1|"), (-5, "1    |")] {
        assert_eq!(run("%*d|", &[num(width, 4, true), num(1, 4, true)], true), want);
    }
    for (precision, want) in [(0, "hello"), (1, "h"), (4, "hell"), (9, "hello"), (-1, "hello")] {
        assert_eq!(run("%.*s", &[num(precision, 4, true), text("hello")], true), want, "{precision}");
    }
    assert_eq!(run("%*.*s|", &[num(7, 4, true), num(3, 4, true), text("hello")], true), "    hel|");
    // What no operand is there for is left out, and a hostile width is bounded.
    assert_eq!(run("%d %s|", &[long(1)], true), "1 |");
    assert!(run("%*d", &[long(i64::MAX), long(1)], true).len() <= 1 << 24);
    assert!(run("%*d", &[long(i64::MIN), long(1)], true).len() <= 1 << 24);
}

#[test]
fn strings_and_characters() {
    for (f, value, dropin, want) in [
        ("%s|", text("hello"), true, "hello|"),
        ("%.0s|", text("hello"), true, "hello|"),
        ("%.2s|", text("hello"), true, "he|"),
        ("%8s|", text("hello"), true, "   hello|"),
        ("%-8s|", text("hello"), true, "hello   |"),
        ("%2.1s|", text("hello"), true, " h|"),
        // Padding counts bytes in DTrace, characters with us.
        ("%-4s|", text("hé"), true, "hé |"),
        ("%-4s|", text("hé"), false, "hé  |"),
        ("%.2s|", text("héé"), false, "hé|"),
        ("%s|", Value::Text("read".into()), true, "read|"),
        ("%s|", Value::Bytes(b"abc\0def".to_vec()), true, "abc|"),
        ("%S|", text("a\tb\"\\\x01\n"), false, "a\\tb\\\"\\\\\\001\\n|"),
        ("%S|", text("ab"), true, "ab\\0|"),
        ("%c|", num(97, 4, true), true, "a|"),
        ("%3c|", num(97, 1, true), true, "  a|"),
        ("%lc|", num(0xe9, 4, true), true, "é|"),
        ("%C|", num(10, 1, true), true, "\\n|"),
        ("%C|", num(97, 1, true), true, "a|"),
        ("%s|", num(5, 4, true), true, "5|"),
        ("%d|", text("x"), true, "x|"),
    ] {
        assert_eq!(run(f, std::slice::from_ref(&value), dropin), want, "{f} {value:?}");
    }
    let cut = Value::Str { bytes: b"abc".to_vec(), truncated: true };
    assert_eq!(run("%s|", std::slice::from_ref(&cut), true), "abc|");
    assert_eq!(run("%s|%6s|%.2s", &[cut.clone(), cut.clone(), cut], false), "abc…|  abc…|ab");
}

#[test]
fn floating_conversions_of_integers() {
    for (f, value, want) in [
        ("%f", 3, "3.000000"),
        ("%.2f", -3, "-3.00"),
        ("%e", 12345, "1.234500e+04"),
        ("%E", 0, "0.000000E+00"),
        ("%g", 100000, "100000"),
        ("%g", 1000000, "1e+06"),
        ("%g", 1234567, "1.23457e+06"),
        ("%010.3f", -2, "-00002.000"),
    ] {
        assert_eq!(run(f, &[long(value)], true), want, "{f} {value}");
    }
}

#[test]
fn addresses_and_times() {
    struct Names;
    impl Symbols for Names {
        fn kernel(&self, addr: u64) -> Named {
            match addr {
                0x1000..0x1011 => {
                    Named { module: "vmlinux".into(), symbol: "f".into(), start: 0x1000, ..Named::default() }
                }
                _ => Named::default(),
            }
        }
        fn zone(&self, _: i64) -> (i32, String) {
            (7200, "CEST".into())
        }
    }
    let run = |f: &str, v: Value, symbols: &dyn Symbols| {
        let mut out = Vec::new();
        format(
            &parse(f),
            &[v],
            &[],
            Surroundings { symbols, dropin: true, noresolve: false, group: Some(','), zoom: false },
            &mut out,
        );
        String::from_utf8(out).unwrap()
    };
    assert_eq!(run("%a", Value::Pointer(0x1010), &Names), "vmlinux`f+0x10");
    assert_eq!(run("%16a|", Value::Pointer(0x1011), &Names), "          0x1011|");
    let user = Value::Symbol { what: probity_ir::Symbol::UserAddress, pid: 1, addr: 0x1010 };
    assert_eq!(run("%A", user, &Names), "0x1010");
    let s = 1_000_000_000;
    assert_eq!(run("%Y", long(123_787_200 * s), &NoSymbols), "1973 Dec  3 17:20:00");
    assert_eq!(run("%Y", long(0), &NoSymbols), "1970 Jan  1 00:00:00");
    assert_eq!(run("%Y", long(951_782_400 * s - 1), &NoSymbols), "2000 Feb 28 23:59:59");
    assert_eq!(run("%Y", long(951_782_400 * s), &NoSymbols), "2000 Feb 29 00:00:00");
    assert_eq!(run("%Y", long(4_102_444_800 * s), &NoSymbols), "2100 Jan  1 00:00:00");
    assert_eq!(run("%T", long(123_787_200 * s), &Names), "Mon, 03 Dec 1973 19:20:00 CEST");
    // The year is the one of the ISO week.
    assert_eq!(run("%T", long(1_230_681_600 * s), &NoSymbols), "Wed, 31 Dec 2009 00:00:00 UTC");
    assert_eq!(run("%T", long(1_262_304_000 * s), &NoSymbols), "Fri, 01 Jan 2009 00:00:00 UTC");
    assert_eq!(run("%Y", long(-1), &NoSymbols), "2554 Jul 21 23:34:33");
}

#[test]
fn aggregation_values() {
    let value = |func, words| AggValue { func, words, normal: 1 };
    let list = [value(AggFunc::Count, &[3][..]), value(AggFunc::Sum, &[u64::MAX][..]), value(AggFunc::Max, &[][..])];
    let mut out = Vec::new();
    let around = Surroundings { symbols: &NoSymbols, dropin: true, noresolve: false, group: Some(','), zoom: false };
    format(&parse("%s: %@d %@5d %@x %@x %d\n"), &[text("k"), long(9)], &list, around, &mut out);
    // Beyond the last the last is taken again.
    assert_eq!(String::from_utf8(out).unwrap(), "k: 3    -1 0 0 9\n");
}

#[test]
fn thousands_are_grouped_as_the_locale_has_it() {
    let grouped = |f: &str, v: Value, group| {
        let mut format = parse(f);
        for piece in &mut format.pieces {
            if let Piece::Conv(c) = piece {
                c.group = true;
            }
        }
        let around = Surroundings { symbols: &NoSymbols, dropin: true, noresolve: false, group, zoom: false };
        let mut out = Vec::new();
        crate::printf::format(&format, &[v], &[], around, &mut out);
        String::from_utf8(out).unwrap()
    };
    assert_eq!(grouped("%d", long(-1_234_567), Some(',')), "-1,234,567");
    assert_eq!(grouped("%d", long(123), Some(',')), "123");
    assert_eq!(grouped("%12d|", long(1000), Some('.')), "       1.000|");
    assert_eq!(grouped("%d", long(1000), None), "1000");
    assert_eq!(grouped("%x", long(0x12345), Some(',')), "12345");
    assert_eq!(grouped("%.1f", Value::Float { bits: 1234.5f64.to_bits(), size: 8 }, Some(',')), "1,234.5");
}
