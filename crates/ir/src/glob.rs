//! DTrace's globs: `*`, `?`, `[set]`, `[!set]`, ranges, and `\` before a literal character. An empty pattern matches anything.

/// Whether `text` matches `pattern`.
pub fn glob(pattern: &str, text: &str) -> bool {
    pattern.is_empty() || matches(pattern.as_bytes(), text.as_bytes())
}

/// Whether `pattern` has any glob character that is not escaped.
pub fn is_glob(pattern: &str) -> bool {
    let mut escaped = false;
    pattern.bytes().any(|b| {
        let hit = !escaped && matches!(b, b'*' | b'?' | b'[' | b'\\');
        escaped = !escaped && b == b'\\';
        hit
    })
}

fn matches(mut p: &[u8], mut t: &[u8]) -> bool {
    // Backtracks to the last star only, so the time is bounded by the product of the lengths.
    let mut star: Option<(&[u8], &[u8])> = None;
    loop {
        if let Some((b'*', rest)) = p.split_first() {
            star = Some((rest, t));
            p = rest;
            continue;
        }
        if let (Some(&c), false) = (t.first(), p.is_empty()) {
            if let Some(rest) = one(p, c) {
                p = rest;
                t = &t[1..];
                continue;
            }
        } else if t.is_empty() && p.is_empty() {
            return true;
        }
        match star {
            Some((sp, st)) if !st.is_empty() => {
                star = Some((sp, &st[1..]));
                p = sp;
                t = &st[1..];
            }
            _ => return false,
        }
    }
}

/// Matches one character; returns the rest of the pattern.
fn one(p: &[u8], c: u8) -> Option<&[u8]> {
    match p {
        [b'?', rest @ ..] => Some(rest),
        [b'\\', lit, rest @ ..] => (*lit == c).then_some(rest),
        [b'[', rest @ ..] => {
            let (negate, mut set) = match rest {
                [b'!' | b'^', r @ ..] => (true, r),
                r => (false, r),
            };
            let mut hit = false;
            let mut first = true;
            loop {
                match set {
                    // An unclosed bracket is a literal one.
                    [] => return (c == b'[').then_some(rest),
                    [b']', r @ ..] if !first => return (hit != negate).then_some(r),
                    [lo, b'-', hi, r @ ..] if *hi != b']' => {
                        hit |= (*lo..=*hi).contains(&c);
                        set = r;
                    }
                    [b'\\', x, r @ ..] | [x, r @ ..] => {
                        hit |= *x == c;
                        set = r;
                    }
                }
                first = false;
            }
        }
        [lit, rest @ ..] => (*lit == c).then_some(rest),
        [] => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs() {
        for (p, t, want) in [
            ("", "x", true),
            ("read", "read", true),
            ("read", "readv", false),
            ("read*", "readv", true),
            ("*ea*", "read", true),
            ("*ea", "read", false),
            ("r?ad", "read", true),
            ("[a-r]ead", "read", true),
            ("[!a-r]ead", "read", false),
            ("[!s]ead", "read", true),
            ("[]x]a", "]a", true),
            ("a[b", "a[b", true),
            ("\\*", "*", true),
            ("\\*", "x", false),
            ("*a*a*a*b", "aaaaaaaaaaaaaaaaaaaaaaaaaaaa", false),
            ("*", "", true),
            ("?", "", false),
        ] {
            assert_eq!(glob(p, t), want, "{p} {t}");
        }
        assert!(is_glob("a*") && !is_glob("a.b") && is_glob("[x]"));
    }
}
