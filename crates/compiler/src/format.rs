//! The formats of `printf` and `printa`: text to pieces. Owns the syntax and what operand a conversion can take; the
//! consumer owns what it prints.

use probity_ir::{Conversion, Format, Piece};

/// Where each piece stands in the format's bytes.
pub type FormatSpans = Vec<(u32, u32)>;

/// What is wrong with a format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormatError {
    /// First byte of the conversion.
    pub lo: u32,
    /// One past its last byte.
    pub hi: u32,
    /// What is wrong.
    pub message: String,
}

/// What kind of value a conversion takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takes {
    /// An integer or pointer.
    Integer,
    /// A string.
    String,
    /// A floating-point number.
    Float,
    /// A stack.
    Stack,
}

impl Takes {
    /// In words, for messages.
    pub fn words(self) -> &'static str {
        match self {
            Takes::Integer => "an integer",
            Takes::String => "a string",
            Takes::Float => "a floating-point number",
            Takes::Stack => "a stack",
        }
    }
}

/// What a conversion takes.
pub fn takes(conv: &Conversion) -> Takes {
    match conv.letter {
        's' | 'S' => Takes::String,
        'e' | 'E' | 'f' | 'F' | 'g' | 'G' => Takes::Float,
        'k' => Takes::Stack,
        _ => Takes::Integer,
    }
}

/// The widest field that the consumer makes.
const WIDEST: u32 = 1 << 24;
const LETTERS: &[u8] = b"aAcCdiouxXpsSTYkeEfFgGP";

/// Parses a format. Bytes that are no text of UTF-8 become U+FFFD.
pub fn parse(bytes: &[u8]) -> Result<(Format, FormatSpans), FormatError> {
    let mut pieces = Vec::new();
    let mut spans = Vec::new();
    let mut text: Vec<u8> = Vec::new();
    let mut text_start = 0;
    let mut i = 0;
    while i < bytes.len() {
        if bytes[i] != b'%' {
            text.push(bytes[i]);
            i += 1;
            continue;
        }
        if bytes.get(i + 1) == Some(&b'%') {
            text.push(b'%');
            i += 2;
            continue;
        }
        if !text.is_empty() {
            pieces.push(Piece::Text(std::mem::take(&mut text)));
            spans.push((text_start as u32, i as u32));
        }
        let start = i;
        let conv = conversion(bytes, &mut i)?;
        pieces.push(Piece::Conv(conv));
        spans.push((start as u32, i as u32));
        text_start = i;
    }
    if !text.is_empty() {
        pieces.push(Piece::Text(text));
        spans.push((text_start as u32, bytes.len() as u32));
    }
    Ok((Format { pieces }, spans))
}

/// Parses one conversion; `i` is at its `%` and is moved past it.
fn conversion(bytes: &[u8], i: &mut usize) -> Result<Conversion, FormatError> {
    let start = *i;
    *i += 1;
    let mut c = Conversion::default();
    while let Some(b) = bytes.get(*i) {
        match b {
            b'-' => c.left = true,
            b'+' => c.plus = true,
            b' ' => c.space = true,
            b'#' => c.alternate = true,
            b'0' => c.zero = true,
            b'\'' => c.group = true,
            b'@' => c.agg = true,
            // DTrace's width for addresses: as many digits as one can have.
            b'?' => c.width = Some(16),
            _ => break,
        }
        *i += 1;
    }
    let address_width = c.width;
    (c.width, c.width_arg) = amount(bytes, i, start)?;
    if !c.width_arg {
        c.width = c.width.or(address_width);
    }
    // `%8@d` is `%@8d`.
    while bytes.get(*i) == Some(&b'@') {
        c.agg = true;
        *i += 1;
    }
    if bytes.get(*i) == Some(&b'$') {
        *i += 1;
        return Err(error(start, *i, "positional conversions (`%n$`) do not exist in D"));
    }
    if bytes.get(*i) == Some(&b'.') {
        *i += 1;
        (c.precision, c.precision_arg) = amount(bytes, i, start)?;
        if c.precision.is_none() && !c.precision_arg {
            c.precision = Some(0);
        }
    }
    while let Some(b @ (b'h' | b'l' | b'L' | b'w' | b'z' | b't' | b'j')) = bytes.get(*i) {
        c.modifier.push(char::from(*b));
        *i += 1;
    }
    let Some(&letter) = bytes.get(*i) else {
        return Err(error(start, *i, "the format ends inside a conversion"));
    };
    *i += 1;
    let shown = String::from_utf8_lossy(&bytes[start..*i]).into_owned();
    if !letter.is_ascii() || !LETTERS.contains(&letter) {
        return Err(error(start, *i, &format!("`{shown}` is no conversion of D")));
    }
    let modifier_ok = match c.modifier.as_str() {
        "" => true,
        "h" | "hh" | "ll" | "z" | "t" | "j" => b"diouxX".contains(&letter),
        "l" | "w" => b"diouxXcs".contains(&letter),
        "L" => b"eEfFgG".contains(&letter),
        _ => false,
    };
    if !modifier_ok {
        return Err(error(start, *i, &format!("`{shown}` is no conversion of D: `{}` cannot stand there", c.modifier)));
    }
    c.letter = char::from(letter);
    Ok(c)
}

/// A width or precision: a number or `*`.
fn amount(bytes: &[u8], i: &mut usize, start: usize) -> Result<(Option<u32>, bool), FormatError> {
    if bytes.get(*i) == Some(&b'*') {
        *i += 1;
        return Ok((None, true));
    }
    let from = *i;
    while bytes.get(*i).is_some_and(u8::is_ascii_digit) {
        *i += 1;
    }
    if *i == from {
        return Ok((None, false));
    }
    let digits = std::str::from_utf8(&bytes[from..*i]).unwrap_or("");
    match digits.parse::<u32>() {
        // The consumer pads with as many characters: a bound keeps that finite.
        Ok(n) if n <= WIDEST => Ok((Some(n), false)),
        _ => Err(error(start, *i, &format!("a width or precision is at most {WIDEST}"))),
    }
}

fn error(lo: usize, hi: usize, message: &str) -> FormatError {
    FormatError { lo: lo as u32, hi: hi as u32, message: message.to_string() }
}

/// The offset in the text of a string literal, its opening quote included, of each byte that it stands for, and of its end.
pub fn literal_offsets(source: &str) -> Vec<u32> {
    let bytes = source.as_bytes();
    let mut offsets = Vec::new();
    let mut i = 1;
    while i < bytes.len() && bytes[i] != b'"' {
        offsets.push(i as u32);
        if bytes[i] != b'\\' {
            i += 1;
            continue;
        }
        let octal = |b: Option<&u8>| b.is_some_and(|b| (b'0'..=b'7').contains(b));
        i += match bytes.get(i + 1) {
            Some(b'x') => 2 + bytes[i + 2..].iter().take(2).take_while(|b| b.is_ascii_hexdigit()).count(),
            b if octal(b) => 1 + bytes[i + 1..].iter().take(3).take_while(|b| octal(Some(b))).count(),
            _ => 2,
        };
    }
    offsets.push(i as u32);
    offsets
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces() {
        let (f, spans) = parse(b"a%%b %-08.3lld|%*s%@d").unwrap();
        assert_eq!(f.pieces.len(), 5);
        assert_eq!(f.pieces[0], Piece::Text("a%b ".into()));
        let Piece::Conv(c) = &f.pieces[1] else { panic!() };
        assert!(
            c.left && c.zero && c.width == Some(8) && c.precision == Some(3) && c.modifier == "ll" && c.letter == 'd'
        );
        let Piece::Conv(c) = &f.pieces[3] else { panic!() };
        assert!(c.width_arg && c.letter == 's');
        let Piece::Conv(c) = &f.pieces[4] else { panic!() };
        assert!(c.agg);
        assert_eq!(spans[1], (5, 14));
    }

    #[test]
    fn text_is_bytes() {
        let (f, _) = parse(b"\xc0\xa8%%\xff%d").unwrap();
        assert_eq!(f.pieces[0], Piece::Text(b"\xc0\xa8%\xff".to_vec()));
    }

    #[test]
    fn wrong_formats() {
        for bad in ["%", "%5", "%q", "%hs", "%1$d", "%99999999999d", "%lls", "%n"] {
            assert!(parse(bad.as_bytes()).is_err(), "{bad}");
        }
    }

    #[test]
    fn offsets_skip_escapes() {
        assert_eq!(literal_offsets("\"a\\n%d\""), [1, 2, 4, 5, 6]);
        assert_eq!(literal_offsets("\"\\x41\\101b\""), [1, 5, 9, 10]);
        assert_eq!(literal_offsets(""), [1]);
    }
}
