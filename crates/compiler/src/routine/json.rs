//! Finding a member of a JSON text by a path such as `a.b[2].c`. Owns the meaning as plain code.

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
