//! `printf` and `printa` formats: a parsed format and typed values to bytes. The rules are C's, with DTrace's exceptions: without a
//! modifier a value is as wide as its own type, a precision of zero is none, `%d` of an unsigned value is unsigned.

use crate::Symbols;
use crate::event::Value;
use crate::symbol::{self, StackValue};
use crate::{decode, histogram, stats};
use probity_ir::{AggFunc, Conversion, Format, Piece};

/// The value of an aggregation, for `%@` conversions.
#[derive(Clone, Copy, Debug)]
pub struct AggValue<'a> {
    /// Its function.
    pub func: AggFunc,
    /// Its words; empty for a key that it does not have.
    pub words: &'a [u64],
    /// What it is divided by.
    pub normal: u64,
}

/// What the conversions need to know beside the values.
#[derive(Clone, Copy)]
pub struct Surroundings<'a> {
    /// Names of addresses, local time.
    pub symbols: &'a dyn Symbols,
    /// Exactly as DTrace does it: `%S` shows the string's NUL, no mark on cut strings, padding counts bytes.
    pub dropin: bool,
    /// User addresses as a file and an offset.
    pub noresolve: bool,
    /// What stands between thousands under the flag `'`.
    pub group: Option<char>,
    /// `aggzoom`: the longest bar of a distribution takes all columns.
    pub zoom: bool,
}

impl Surroundings<'_> {
    fn look(&self) -> symbol::Look {
        symbol::Look { dropin: self.dropin, noresolve: self.noresolve }
    }
}

/// The mark of a string that may have been cut.
pub const CUT: &str = "…";

/// Writes a format with its operands. `%@` conversions take `aggs` in order, and the last one again and again.
/// Operands that are missing are written as nothing.
pub fn format(format: &Format, operands: &[Value], aggs: &[AggValue], around: Surroundings, out: &mut Vec<u8>) {
    let mut operands = operands.iter();
    let mut agg = 0;
    for piece in &format.pieces {
        let conversion = match piece {
            Piece::Text(text) => {
                out.extend_from_slice(text);
                continue;
            }
            Piece::Conv(conversion) => conversion,
        };
        let mut spec = Spec::new(conversion);
        if conversion.width_arg {
            let width = operands.next().map_or(0, Value::int);
            spec.left |= width < 0;
            spec.width = bounded(width.unsigned_abs());
        }
        if conversion.precision_arg {
            let precision = operands.next().map_or(0, Value::int);
            spec.precision = u64::try_from(precision).map_or(0, bounded);
        }
        if conversion.agg {
            let Some(value) = aggs.get(agg).or(aggs.last()) else { continue };
            agg += 1;
            match stats::scalar(value.func, value.words, value.normal) {
                None => histogram::draw(value.func, value.words, value.normal, around.zoom, out),
                Some(number) => {
                    // A key without an entry counts as zero, whatever the words of zero mean.
                    let number = if value.words.is_empty() { 0 } else { number };
                    let signed = value.func != AggFunc::Count;
                    let kind = crate::event::Kind::Number;
                    spec.value(&Value::Int { value: number, size: 8, signed, kind }, around, out);
                }
            }
        } else if let Some(value) = operands.next() {
            spec.value(value, around, out);
        }
    }
}

/// A width or precision that no terminal will ever miss; keeps a hostile `*` operand from filling the memory.
fn bounded(n: u64) -> usize {
    n.min(1 << 24) as usize
}

/// A conversion with its width and precision settled. A precision of 0 is none.
struct Spec<'a> {
    conversion: &'a Conversion,
    left: bool,
    width: usize,
    precision: usize,
}

impl<'a> Spec<'a> {
    fn new(conversion: &'a Conversion) -> Spec<'a> {
        let settled = |n: Option<u32>| n.map_or(0, |n| bounded(u64::from(n)));
        let (width, precision) = (settled(conversion.width), settled(conversion.precision));
        Spec { conversion, left: conversion.left, width, precision }
    }

    fn value(&self, value: &Value, around: Surroundings, out: &mut Vec<u8>) {
        match (self.conversion.letter, value) {
            (_, Value::Stack(stack)) => self.stack(stack, around, out),
            ('a' | 'A', Value::Symbol { what, pid, addr }) => {
                self.pad(symbol::symbol(*what, *pid, *addr, around.symbols, around.look()).as_bytes(), false, out);
            }
            ('a' | 'A', v) => {
                let addr = v.int() as u64;
                self.pad(symbol::address(&around.symbols.kernel(addr), addr).as_bytes(), false, out);
            }
            ('Y', v) => self.pad(time(v.int(), around.symbols).as_bytes(), false, out),
            ('T', v) => self.pad(time_822(v.int(), around.symbols).as_bytes(), false, out),
            ('c', Value::Int { value, .. }) => self.character(*value, out),
            ('C', Value::Int { value, .. }) => {
                let mut text = Vec::new();
                escape(&[*value as u8], &mut text);
                self.text(&text, around, out);
            }
            ('S', v) if v.bytes().is_some() => {
                let mut text = Vec::new();
                escape(string(v), &mut text);
                if around.dropin && !v.truncated() {
                    text.extend_from_slice(b"\\0");
                }
                self.mark(v, &mut text, around);
                self.text(&text, around, out);
            }
            ('e' | 'E' | 'f' | 'F' | 'g' | 'G', Value::Int { value, signed, .. }) => {
                let x = if *signed { *value as f64 } else { *value as u64 as f64 };
                self.float(x, around, out);
            }
            (_, Value::Float { bits, .. }) => self.float(f64::from_bits(*bits), around, out),
            (_, Value::Int { value, size, signed, .. }) => self.int(*value, *size, *signed, around, out),
            (_, Value::Pointer(p) | Value::Symbol { addr: p, .. }) => self.int(*p as i64, 8, false, around, out),
            (_, v) => {
                let mut text = string(v).to_vec();
                self.mark(v, &mut text, around);
                self.text(&text, around, out);
            }
        }
    }

    fn mark(&self, value: &Value, text: &mut Vec<u8>, around: Surroundings) {
        if value.truncated() && !around.dropin && self.precision == 0 {
            text.extend_from_slice(CUT.as_bytes());
        }
    }

    fn int(&self, value: i64, size: u8, signed: bool, around: Surroundings, out: &mut Vec<u8>) {
        let narrowed = match self.conversion.modifier.as_str() {
            "hh" => Some(1),
            "h" => Some(2),
            "l" | "ll" | "L" | "j" | "z" | "t" | "q" => Some(8),
            _ => None,
        };
        let letter = match self.conversion.letter {
            'i' | 's' | 'S' | 'c' | 'C' => 'd',
            letter => letter,
        };
        let decimal = letter == 'd';
        // With a modifier the conversion decides the signedness, as in C; without one the value's type does.
        let signed = decimal && (narrowed.is_some() || signed);
        let value = decode::extend(value as u64, narrowed.unwrap_or(size), signed);
        let negative = signed && value < 0;
        let magnitude = if negative { value.unsigned_abs() } else { value as u64 };
        let mut digits = match letter {
            'x' | 'p' => format!("{magnitude:x}"),
            'X' => format!("{magnitude:X}"),
            'o' => format!("{magnitude:o}"),
            _ => magnitude.to_string(),
        };
        if digits.len() < self.precision {
            digits.insert_str(0, &"0".repeat(self.precision - digits.len()));
        }
        if matches!(letter, 'd' | 'u') {
            self.group(&mut digits, around);
        }
        let mut sign = match (negative, signed && self.conversion.plus, signed && self.conversion.space) {
            (true, _, _) => "-",
            (_, true, _) => "+",
            (_, _, true) => " ",
            _ => "",
        };
        if self.conversion.alternate && magnitude != 0 {
            match letter {
                'x' | 'p' => sign = "0x",
                'X' => sign = "0X",
                'o' if !digits.starts_with('0') => digits.insert(0, '0'),
                _ => {}
            }
        }
        self.number(sign, &digits, self.precision == 0, out);
    }

    /// Puts the locale's character between the thousands of a number's whole part.
    fn group(&self, digits: &mut String, around: Surroundings) {
        let Some(mark) = around.group.filter(|_| self.conversion.group) else { return };
        let whole = digits.bytes().take_while(u8::is_ascii_digit).count();
        for at in (1..whole).rev().filter(|at| (whole - at) % 3 == 0) {
            digits.insert(at, mark);
        }
    }

    /// Pads a number: zeros go between the sign and the digits.
    fn number(&self, sign: &str, digits: &str, zeros: bool, out: &mut Vec<u8>) {
        let fill = self.width.saturating_sub(sign.len() + digits.len());
        let zeros = zeros && self.conversion.zero && !self.left;
        if !self.left && !zeros {
            out.resize(out.len() + fill, b' ');
        }
        out.extend_from_slice(sign.as_bytes());
        if zeros {
            out.resize(out.len() + fill, b'0');
        }
        out.extend_from_slice(digits.as_bytes());
        if self.left {
            out.resize(out.len() + fill, b' ');
        }
    }

    fn character(&self, value: i64, out: &mut Vec<u8>) {
        let mut buffer = [0; 4];
        match self.conversion.modifier.as_str() {
            "l" | "w" => {
                let c = u32::try_from(value & 0xffff_ffff).ok().and_then(char::from_u32).unwrap_or('\u{fffd}');
                self.pad(c.encode_utf8(&mut buffer).as_bytes(), true, out);
            }
            _ => self.pad(&[value as u8], false, out),
        }
    }

    /// `%k`: a line for each frame. As in DTrace, `-` and a width indent them.
    fn stack(&self, stack: &StackValue, around: Surroundings, out: &mut Vec<u8>) {
        let (lines, note) = stack.lines(around.symbols, around.look());
        out.push(b'\n');
        for line in lines.iter().chain(&note) {
            if self.left {
                out.resize(out.len() + self.width, b' ');
            }
            self.pad(line.as_bytes(), false, out);
            out.push(b'\n');
        }
    }

    /// A string: cut to the precision, padded to the width.
    fn text(&self, text: &[u8], around: Surroundings, out: &mut Vec<u8>) {
        let by_chars = !around.dropin;
        let cut = match self.precision {
            0 => text,
            n => match std::str::from_utf8(text) {
                Ok(s) if by_chars => s.char_indices().nth(n).map_or(text, |(at, _)| &text[..at]),
                _ => &text[..n.min(text.len())],
            },
        };
        self.pad(cut, by_chars, out);
    }

    fn pad(&self, text: &[u8], by_chars: bool, out: &mut Vec<u8>) {
        let columns = match std::str::from_utf8(text) {
            Ok(s) if by_chars => s.chars().count(),
            _ => text.len(),
        };
        let fill = self.width.saturating_sub(columns);
        if !self.left {
            out.resize(out.len() + fill, b' ');
        }
        out.extend_from_slice(text);
        if self.left {
            out.resize(out.len() + fill, b' ');
        }
    }

    fn float(&self, x: f64, around: Surroundings, out: &mut Vec<u8>) {
        let precision = match (self.conversion.precision, self.conversion.precision_arg) {
            (None, false) => 6,
            _ => self.precision.min(60),
        };
        let letter = self.conversion.letter;
        let mut text = match letter.to_ascii_lowercase() {
            'e' => exponent(x.abs(), precision),
            'f' => format!("{:.precision$}", x.abs()),
            _ => shortest(x.abs(), precision.max(1)),
        };
        if letter.is_ascii_uppercase() {
            text.make_ascii_uppercase();
        }
        self.group(&mut text, around);
        let sign = match (x < 0.0, self.conversion.plus, self.conversion.space) {
            (true, _, _) => "-",
            (_, true, _) => "+",
            (_, _, true) => " ",
            _ => "",
        };
        self.number(sign, &text, true, out);
    }
}

/// C's `%e`: at least two digits of exponent, always signed.
fn exponent(x: f64, precision: usize) -> String {
    let text = format!("{x:.precision$e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let (sign, digits) = match exponent.strip_prefix('-') {
        Some(digits) => ('-', digits),
        None => ('+', exponent),
    };
    format!("{mantissa}e{sign}{digits:0>2}")
}

/// C's `%g`: the shorter of both forms, without trailing zeros.
fn shortest(x: f64, precision: usize) -> String {
    let text = exponent(x, precision - 1);
    let power: i32 = text.split_once('e').and_then(|(_, e)| e.parse().ok()).unwrap_or(0);
    let strip = |t: &str| match t.contains('.') {
        true => t.trim_end_matches('0').trim_end_matches('.').to_string(),
        false => t.to_string(),
    };
    if power < -4 || power >= precision as i32 {
        let (mantissa, e) = text.split_once('e').unwrap_or((&text, "+00"));
        format!("{}e{e}", strip(mantissa))
    } else {
        let decimals = (precision as i32 - 1 - power).max(0) as usize;
        strip(&format!("{x:.decimals$}"))
    }
}

/// The bytes of a string up to its NUL.
fn string(value: &Value) -> &[u8] {
    let bytes = value.bytes().unwrap_or(&[]);
    match value {
        Value::Bytes(_) => &bytes[..bytes.iter().position(|&b| b == 0).unwrap_or(bytes.len())],
        _ => bytes,
    }
}

/// Writes bytes so that each can be seen: C's escapes, octal for what has none.
pub fn escape(bytes: &[u8], out: &mut Vec<u8>) {
    for &b in bytes {
        let short = match b {
            0 => b'0',
            7 => b'a',
            8 => b'b',
            12 => b'f',
            b'\n' => b'n',
            b'\r' => b'r',
            b'\t' => b't',
            11 => b'v',
            b'"' => b'"',
            b'\\' => b'\\',
            b' '..=b'~' => {
                out.push(b);
                continue;
            }
            _ => {
                out.extend_from_slice(format!("\\{b:03o}").as_bytes());
                continue;
            }
        };
        out.extend_from_slice(&[b'\\', short]);
    }
}

const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const DAYS: [&str; 7] = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];

/// A point in local time.
struct Local {
    year: i64,
    /// From 0.
    month: usize,
    day: i64,
    /// Day of the week, Sunday is 0.
    weekday: usize,
    /// Day of the year, from 0.
    yearday: i64,
    clock: String,
    zone: String,
}

fn local(nanoseconds: i64, symbols: &dyn Symbols) -> Local {
    let seconds = (nanoseconds as u64 / 1_000_000_000) as i64;
    let (east, zone) = symbols.zone(seconds);
    let seconds = seconds + i64::from(east);
    let (days, rest) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let leap = |y: i64| (y % 4 == 0 && y % 100 != 0) || y % 400 == 0;
    // 64-bit nanoseconds end in 2554: counting years and months one by one is quick enough and plain.
    let (mut year, mut yearday) = (1970, days);
    while yearday < 0 {
        year -= 1;
        yearday += if leap(year) { 366 } else { 365 };
    }
    loop {
        let length = if leap(year) { 366 } else { 365 };
        if yearday < length {
            break;
        }
        yearday -= length;
        year += 1;
    }
    let february = if leap(year) { 29 } else { 28 };
    let lengths = [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let (mut month, mut day) = (0, yearday);
    while month < 11 && day >= lengths[month] {
        day -= lengths[month];
        month += 1;
    }
    let clock = format!("{:02}:{:02}:{:02}", rest / 3600, rest / 60 % 60, rest % 60);
    Local { year, month, day: day + 1, weekday: (days + 4).rem_euclid(7) as usize, yearday, clock, zone }
}

/// `%Y`: `1973 Dec  3 17:20:00`.
fn time(nanoseconds: i64, symbols: &dyn Symbols) -> String {
    let t = local(nanoseconds, symbols);
    format!("{} {} {:>2} {}", t.year, MONTHS[t.month], t.day, t.clock)
}

/// `%T`: `Mon, 03 Dec 1973 17:20:00 UTC`. The year is the ISO week's, as DTrace has it.
fn time_822(nanoseconds: i64, symbols: &dyn Symbols) -> String {
    let t = local(nanoseconds, symbols);
    // The year of the week's Thursday.
    let thursday = t.yearday + 3 - (t.weekday as i64 + 6) % 7;
    let leap = (t.year % 4 == 0 && t.year % 100 != 0) || t.year % 400 == 0;
    let length = if leap { 366 } else { 365 };
    let year = t.year + i64::from(thursday >= length) - i64::from(thursday < 0);
    format!("{}, {:02} {} {year} {} {}", DAYS[t.weekday], t.day, MONTHS[t.month], t.clock, t.zone)
}
