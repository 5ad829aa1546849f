//! Finding a member of a JSON text by a path such as `a.b[2].c`: the meaning as plain code, and the routine, which goes through the text
//! once, a byte or a change of mode in each turn.

use super::code::{A, Code, FREE};
use probity_bpf::asm::Label;
use probity_bpf::insn::{AluOp, Cond, R1, R2, R3};

/// The member's text: a string without its quotes (escapes stay as they are), anything else as it is written.
pub fn find<'s>(text: &'s [u8], path: &[u8]) -> Option<&'s [u8]> {
    let mut rest = text;
    let mut path = path;
    loop {
        rest = rest.trim_ascii_start();
        match path {
            [] => break,
            [b'.', more @ ..] => path = more,
            [b'[', more @ ..] => {
                let end = more.iter().position(|&b| b == b']')?;
                let n: usize = std::str::from_utf8(&more[..end]).ok()?.parse().ok()?;
                rest = element(rest, n)?;
                path = &more[end + 1..];
            }
            _ => {
                let end = path.iter().position(|b| b".[".contains(b)).unwrap_or(path.len());
                rest = member(rest, &path[..end])?;
                path = &path[end..];
            }
        }
    }
    let value = &rest[..value_len(rest)?];
    match value {
        [b'"', inside @ .., b'"'] if value.len() > 1 => Some(inside),
        _ => Some(value.trim_ascii_end()),
    }
}

/// How long the value at the start of a text is: up to the `,`, `]` or `}` that ends it.
fn value_len(text: &[u8]) -> Option<usize> {
    let (mut depth, mut quoted, mut escaped) = (0u32, false, false);
    for (i, &b) in text.iter().enumerate() {
        if quoted {
            match b {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => {
                    quoted = false;
                    if depth == 0 {
                        return Some(i + 1);
                    }
                }
                _ => {}
            }
            continue;
        }
        match b {
            b'"' => quoted = true,
            b'{' | b'[' => depth += 1,
            b'}' | b']' | b',' if depth == 0 => return (i > 0).then_some(i),
            b'}' | b']' => {
                depth -= 1;
                if depth == 0 {
                    return Some(i + 1);
                }
            }
            _ => {}
        }
    }
    (depth == 0 && !quoted && !text.is_empty()).then_some(text.len())
}

fn element(text: &[u8], n: usize) -> Option<&[u8]> {
    let mut rest = text.strip_prefix(b"[")?.trim_ascii_start();
    for _ in 0..n {
        rest = rest[value_len(rest)?..].trim_ascii_start().strip_prefix(b",")?.trim_ascii_start();
    }
    Some(rest)
}

fn member<'s>(text: &'s [u8], name: &[u8]) -> Option<&'s [u8]> {
    let mut rest = text.strip_prefix(b"{")?.trim_ascii_start();
    loop {
        let len = value_len(rest)?;
        let key = rest[..len].strip_prefix(b"\"")?.strip_suffix(b"\"")?;
        let value = rest[len..].trim_ascii_start().strip_prefix(b":")?.trim_ascii_start();
        if key == name {
            return Some(value);
        }
        rest = value[value_len(value)?..].trim_ascii_start().strip_prefix(b",")?.trim_ascii_start();
    }
}

/// Places in the text and in the path (the second buffer).
const AT: i16 = FREE;
const PATH: i16 = FREE + 1;
/// What is being done: one of the constants below; and what follows the value that is skipped.
const MODE: i16 = FREE + 2;
const AFTER: i16 = FREE + 3;
/// Of the value that is gone through: nesting, whether in quotes, whether behind a backslash, whether it has any bytes.
const DEPTH: i16 = FREE + 4;
const QUOTED: i16 = FREE + 5;
const ESCAPED: i16 = FREE + 6;
const BEGUN: i16 = FREE + 7;
/// Elements to skip, -1 before the first digit; place in the path of a key's comparison; whether the key is the one.
const COUNT: i16 = FREE + 8;
const KEY_PATH: i16 = FREE + 9;
const MATCH: i16 = FREE + 10;
/// Where the value starts and ends; whether it was found.
const START: i16 = FREE + 11;
const END: i16 = FREE + 12;
const FOUND: i16 = FREE + 13;

/// At a value: what the path wants of it.
const SEEK: i32 = 0;
/// In the path's index.
const INDEX: i32 = 1;
/// At an element.
const ELEMENT: i32 = 2;
/// Before a key, in one, behind one.
const KEY: i32 = 3;
const KEY_BYTES: i32 = 4;
const COLON: i32 = 5;
/// In a value.
const VALUE: i32 = 6;
/// Behind a skipped element, a skipped member, and the value that is wanted.
const NEXT_ELEMENT: i32 = 7;
const NEXT_MEMBER: i32 = 8;
const DONE: i32 = 9;

/// `json`
pub(super) fn routine(c: &mut Code<'_>) {
    let [found, plain] = std::array::from_fn(|_| c.label());
    for word in [AT, PATH, MODE, FOUND, START, END] {
        c.set_imm(word, 0);
    }
    let size = i64::from(c.routine.size);
    c.repeat(4 * size, step);
    c.get(R1, FOUND);
    c.when(Cond::Ne, R1, 0, found);
    c.give_none();
    c.bind(found);
    c.get(R1, START);
    c.get(R2, END);
    c.mov(R3, R2);
    c.op(AluOp::Sub, R3, R1);
    c.when(Cond::Sle, R3, 1, plain);
    c.byte(R3, A, R1);
    c.when(Cond::Ne, R3, i32::from(b'"'), plain);
    c.mov(R3, R2);
    c.add(R3, -1);
    c.byte(R3, A, R3);
    c.when(Cond::Ne, R3, i32::from(b'"'), plain);
    c.add(R1, 1);
    c.add(R2, -1);
    c.bind(plain);
    c.terminate(A, R2);
    c.give(A, R1);
}

/// Goes to `label` if the byte in r2 is white space.
fn if_space(c: &mut Code<'_>, label: Label) {
    for space in [b'\t', b'\n', 0x0c, b'\r', b' '] {
        c.when(Cond::Eq, R2, i32::from(space), label);
    }
}

/// Goes on in another mode with the next turn.
fn mode(c: &mut Code<'_>, mode: i32) {
    c.set_imm(MODE, mode);
    c.next();
}

/// Goes through the value at `AT`, and does `after` behind it.
fn value(c: &mut Code<'_>, after: i32) {
    c.set_imm(AFTER, after);
    for word in [DEPTH, QUOTED, ESCAPED, BEGUN] {
        c.set_imm(word, 0);
    }
    mode(c, VALUE);
}

fn step(c: &mut Code<'_>) {
    let byte = i32::from;
    let b = c.routine.b();
    let [none, skip, seek, index, element, key, key_bytes, colon, in_value, next_element, next_member] =
        std::array::from_fn(|_| c.label());
    c.get(R1, AT);
    c.byte(R2, A, R1);
    c.get(R3, MODE);
    c.when(Cond::Eq, R3, VALUE, in_value);
    c.when(Cond::Eq, R3, KEY_BYTES, key_bytes);
    c.when(Cond::Eq, R3, INDEX, index);
    // All others look at what is behind white space.
    if_space(c, skip);
    c.when(Cond::Eq, R3, SEEK, seek);
    c.when(Cond::Eq, R3, ELEMENT, element);
    c.when(Cond::Eq, R3, KEY, key);
    c.when(Cond::Eq, R3, COLON, colon);
    c.when(Cond::Eq, R3, NEXT_ELEMENT, next_element);
    c.when(Cond::Eq, R3, NEXT_MEMBER, next_member);
    c.bind(none);
    c.stop();
    c.bind(skip);
    c.bump(AT, 1);
    c.next();

    c.bind(seek);
    let [wanted, dot, array] = std::array::from_fn(|_| c.label());
    c.get(R3, PATH);
    c.byte(R3, b, R3);
    c.when(Cond::Eq, R3, 0, wanted);
    c.when(Cond::Eq, R3, byte(b'.'), dot);
    c.when(Cond::Eq, R3, byte(b'['), array);
    c.when(Cond::Ne, R2, byte(b'{'), none);
    c.bump(AT, 1);
    mode(c, KEY);
    c.bind(wanted);
    c.set(START, R1);
    value(c, DONE);
    c.bind(dot);
    c.bump(PATH, 1);
    c.next();
    c.bind(array);
    c.when(Cond::Ne, R2, byte(b'['), none);
    c.bump(AT, 1);
    c.bump(PATH, 1);
    c.set_imm(COUNT, -1);
    mode(c, INDEX);

    c.bind(index);
    let [digit, first] = std::array::from_fn(|_| c.label());
    c.get(R3, PATH);
    c.byte(R2, b, R3);
    c.bump(PATH, 1);
    c.get(R3, COUNT);
    c.add(R2, -byte(b'0'));
    c.when(Cond::Le, R2, 9, digit);
    c.when(Cond::Ne, R2, byte(b']') - byte(b'0'), none);
    c.when(Cond::Slt, R3, 0, none);
    mode(c, ELEMENT);
    c.bind(digit);
    c.when(Cond::Sge, R3, 0, first);
    c.mov(R3, 0);
    c.bind(first);
    // More elements than any text has; and no overflow.
    c.when(Cond::Sgt, R3, 1 << 28, none);
    c.op(AluOp::Mul, R3, 10);
    c.add(R3, R2);
    c.set(COUNT, R3);
    c.next();

    c.bind(element);
    let there = c.label();
    c.get(R3, COUNT);
    c.when(Cond::Eq, R3, 0, there);
    c.bump(COUNT, -1);
    value(c, NEXT_ELEMENT);
    c.bind(there);
    mode(c, SEEK);
    c.bind(next_element);
    c.when(Cond::Ne, R2, byte(b','), none);
    c.bump(AT, 1);
    mode(c, ELEMENT);
    c.bind(next_member);
    c.when(Cond::Ne, R2, byte(b','), none);
    c.bump(AT, 1);
    mode(c, KEY);

    c.bind(key);
    c.when(Cond::Ne, R2, byte(b'"'), none);
    c.bump(AT, 1);
    c.get(R3, PATH);
    c.set(KEY_PATH, R3);
    c.set_imm(MATCH, 1);
    c.set_imm(ESCAPED, 0);
    mode(c, KEY_BYTES);

    c.bind(key_bytes);
    let [plain, ended, differs, other, same] = std::array::from_fn(|_| c.label());
    c.when(Cond::Eq, R2, 0, none);
    c.bump(AT, 1);
    c.get(R3, ESCAPED);
    c.set_imm(ESCAPED, 0);
    c.when(Cond::Ne, R3, 0, plain);
    c.when(Cond::Eq, R2, byte(b'"'), ended);
    c.when(Cond::Ne, R2, byte(b'\\'), plain);
    c.set_imm(ESCAPED, 1);
    c.bind(plain);
    c.get(R3, KEY_PATH);
    c.byte(R3, b, R3);
    for end in [0, byte(b'.'), byte(b'[')] {
        c.when(Cond::Eq, R3, end, differs);
    }
    c.when(Cond::Ne, R3, R2, differs);
    c.bump(KEY_PATH, 1);
    c.next();
    c.bind(differs);
    c.set_imm(MATCH, 0);
    c.next();
    c.bind(ended);
    c.get(R1, KEY_PATH);
    c.byte(R3, b, R1);
    for end in [0, byte(b'.'), byte(b'[')] {
        c.when(Cond::Eq, R3, end, same);
    }
    c.bind(other);
    c.set_imm(MATCH, 0);
    mode(c, COLON);
    c.bind(same);
    c.get(R3, MATCH);
    c.when(Cond::Eq, R3, 0, other);
    c.set(PATH, R1);
    mode(c, COLON);

    c.bind(colon);
    let not_it = c.label();
    c.when(Cond::Ne, R2, byte(b':'), none);
    c.bump(AT, 1);
    c.get(R3, MATCH);
    c.when(Cond::Eq, R3, 0, not_it);
    mode(c, SEEK);
    c.bind(not_it);
    value(c, NEXT_MEMBER);

    c.bind(in_value);
    in_value_step(c, none, skip);
}

fn in_value_step(c: &mut Code<'_>, none: Label, skip: Label) {
    let byte = i32::from;
    let [
        text_end,
        quoted,
        escaped,
        backslash,
        quote_ends,
        quote,
        opens,
        ends,
        closes,
        comma,
        counts,
        ended,
        here,
        begun,
    ] = std::array::from_fn(|_| c.label());
    c.when(Cond::Eq, R2, 0, text_end);
    c.get(R3, QUOTED);
    c.when(Cond::Ne, R3, 0, quoted);
    c.when(Cond::Eq, R2, byte(b'"'), quote);
    c.when(Cond::Eq, R2, byte(b'{'), opens);
    c.when(Cond::Eq, R2, byte(b'['), opens);
    c.when(Cond::Eq, R2, byte(b'}'), closes);
    c.when(Cond::Eq, R2, byte(b']'), closes);
    c.when(Cond::Eq, R2, byte(b','), comma);
    if_space(c, skip);
    c.goto(counts);

    c.bind(quoted);
    c.get(R3, ESCAPED);
    c.when(Cond::Ne, R3, 0, escaped);
    c.when(Cond::Eq, R2, byte(b'\\'), backslash);
    c.when(Cond::Eq, R2, byte(b'"'), quote_ends);
    c.goto(counts);
    c.bind(escaped);
    c.set_imm(ESCAPED, 0);
    c.goto(counts);
    c.bind(backslash);
    c.set_imm(ESCAPED, 1);
    c.goto(counts);
    c.bind(quote_ends);
    c.set_imm(QUOTED, 0);
    c.get(R3, DEPTH);
    c.when(Cond::Ne, R3, 0, counts);
    c.bind(ends);
    c.add(R1, 1);
    c.set(AT, R1);
    c.set(END, R1);
    c.goto(ended);

    c.bind(quote);
    c.set_imm(QUOTED, 1);
    c.goto(counts);
    c.bind(opens);
    c.bump(DEPTH, 1);
    c.goto(counts);
    c.bind(closes);
    c.get(R3, DEPTH);
    c.when(Cond::Sle, R3, 0, here);
    c.add(R3, -1);
    c.set(DEPTH, R3);
    c.when(Cond::Eq, R3, 0, ends);
    c.goto(counts);
    c.bind(comma);
    c.get(R3, DEPTH);
    c.when(Cond::Sle, R3, 0, here);
    // What is not white space may be the value's last byte.
    c.bind(counts);
    c.set_imm(BEGUN, 1);
    c.add(R1, 1);
    c.set(AT, R1);
    c.set(END, R1);
    c.next();

    c.bind(text_end);
    c.get(R3, DEPTH);
    c.when(Cond::Sgt, R3, 0, none);
    c.get(R3, QUOTED);
    c.when(Cond::Ne, R3, 0, none);
    c.bind(here);
    c.get(R3, BEGUN);
    c.when(Cond::Eq, R3, 0, none);
    c.bind(ended);
    c.get(R3, AFTER);
    c.set(MODE, R3);
    c.when(Cond::Ne, R3, DONE, begun);
    c.set_imm(FOUND, 1);
    c.stop();
    c.bind(begun);
    c.next();
}

#[cfg(test)]
mod tests {
    #[test]
    fn members() {
        let text = br#"{"a": 1, "b": {"c": ["x", "y\"z", {"d": null}]}, "e" : [1,2 , [3]], "f": "" }"#;
        let find = |path: &str| super::find(text, path.as_bytes()).map(|b| std::str::from_utf8(b).unwrap());
        assert_eq!(find("a"), Some("1"));
        assert_eq!(find("b.c[1]"), Some("y\\\"z"));
        assert_eq!(find("b.c[2].d"), Some("null"));
        assert_eq!(find("e"), Some("[1,2 , [3]]"));
        assert_eq!(find("e[1]"), Some("2"));
        assert_eq!(find("e[2][0]"), Some("3"));
        assert_eq!(find("f"), Some(""));
        assert_eq!(find("g"), None);
        assert_eq!(find("e[3]"), None);
        assert_eq!(find("a.b"), None);
    }
}
