//! Nested lists: reading them from text, laying them out, and walking through their items. Knows nothing of programs.

use std::fmt;

/// Lists nested deeper than this are refused, so that no input can exhaust the stack.
const DEPTH: usize = 200;
/// A list that fits in this many columns stands on one line.
const WIDTH: usize = 110;

/// Why a text is no program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError {
    /// The line, from 1.
    pub line: u32,
    /// What was wrong there.
    pub message: String,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.message)
    }
}

impl std::error::Error for ParseError {}

/// What a node is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Body {
    /// A bare word.
    Atom(String),
    /// A quoted string.
    Text(Vec<u8>),
    /// A list.
    List(Vec<Node>),
}

/// A list, word or string and the line it starts in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Node {
    pub(super) line: u32,
    pub(super) body: Body,
}

impl Node {
    pub(super) fn atom(text: impl fmt::Display) -> Node {
        Node { line: 0, body: Body::Atom(text.to_string()) }
    }

    pub(super) fn text(bytes: impl AsRef<[u8]>) -> Node {
        Node { line: 0, body: Body::Text(bytes.as_ref().to_vec()) }
    }

    pub(super) fn list(items: Vec<Node>) -> Node {
        Node { line: 0, body: Body::List(items) }
    }

    pub(super) fn error<T>(&self, message: impl Into<String>) -> Result<T, ParseError> {
        Err(ParseError { line: self.line, message: message.into() })
    }

    /// The items of a list.
    pub(super) fn items(&self) -> Result<Items<'_>, ParseError> {
        match &self.body {
            Body::List(items) => Ok(Items { line: self.line, items }),
            _ => self.error("a list was expected"),
        }
    }

    /// The word, if it is one.
    pub(super) fn as_atom(&self) -> Option<&str> {
        match &self.body {
            Body::Atom(text) => Some(text),
            _ => None,
        }
    }

    /// Writes the node, `indent` columns from the left.
    pub(super) fn write(&self, indent: usize, out: &mut String) {
        let mut line = String::new();
        self.write_line(&mut line);
        let Body::List(items) = &self.body else { return out.push_str(&line) };
        if indent + line.len() <= WIDTH {
            return out.push_str(&line);
        }
        // Words at the start stay on the first line; everything from the first list on gets a line of its own.
        let head = items.iter().position(|n| matches!(n.body, Body::List(_))).unwrap_or(items.len());
        out.push('(');
        for (i, item) in items.iter().enumerate() {
            match i {
                0 => {}
                _ if i < head => out.push(' '),
                _ => {
                    out.push('\n');
                    out.extend(std::iter::repeat_n(' ', indent + 2));
                }
            }
            item.write(indent + 2, out);
        }
        out.push(')');
    }

    fn write_line(&self, out: &mut String) {
        match &self.body {
            Body::Atom(text) => out.push_str(text),
            Body::Text(bytes) => quote(bytes, out),
            Body::List(items) => {
                out.push('(');
                for (i, item) in items.iter().enumerate() {
                    if i > 0 {
                        out.push(' ');
                    }
                    item.write_line(out);
                }
                out.push(')');
            }
        }
    }
}

fn quote(bytes: &[u8], out: &mut String) {
    out.push('"');
    for &byte in bytes {
        match byte {
            b'"' | b'\\' => out.extend(['\\', byte as char]),
            b'\n' => out.push_str("\\n"),
            b' '..=b'~' => out.push(byte as char),
            _ => out.push_str(&format!("\\x{byte:02x}")),
        }
    }
    out.push('"');
}

/// Reads all the nodes of a text.
pub(super) fn read(text: &str) -> Result<Vec<Node>, ParseError> {
    let bytes = text.as_bytes();
    let (mut at, mut line) = (0, 1);
    // Open lists: where each started, and its items so far. The bottom is the whole text.
    let mut open: Vec<(u32, Vec<Node>)> = vec![(1, Vec::new())];
    while let Some(&byte) = bytes.get(at) {
        at += 1;
        let node = match byte {
            b'\n' => {
                line += 1;
                continue;
            }
            b' ' | b'\t' | b'\r' => continue,
            b';' => {
                at += bytes[at..].iter().position(|&b| b == b'\n').unwrap_or(bytes.len() - at);
                continue;
            }
            b'(' if open.len() > DEPTH => return Err(ParseError { line, message: "lists are nested too deep".into() }),
            b'(' => {
                open.push((line, Vec::new()));
                continue;
            }
            b')' => match open.pop() {
                Some((line, items)) if !open.is_empty() => Node { line, body: Body::List(items) },
                _ => return Err(ParseError { line, message: "a ) without its (".into() }),
            },
            b'"' => {
                let (body, len) = unquote(&bytes[at..]).map_err(|message| ParseError { line, message })?;
                let node = Node { line, body: Body::Text(body) };
                line += bytes[at..at + len].iter().filter(|&&b| b == b'\n').count() as u32;
                at += len;
                node
            }
            _ => {
                let len = bytes[at..].iter().position(|b| b" \t\r\n()\";".contains(b)).unwrap_or(bytes.len() - at);
                let word = String::from_utf8_lossy(&bytes[at - 1..at + len]).into_owned();
                at += len;
                Node { line, body: Body::Atom(word) }
            }
        };
        if let Some((_, items)) = open.last_mut() {
            items.push(node);
        }
    }
    match open.pop() {
        Some((_, items)) if open.is_empty() => Ok(items),
        Some((line, _)) => Err(ParseError { line, message: "a ( without its )".into() }),
        None => Ok(Vec::new()),
    }
}

/// The bytes of a quoted string and how much of `bytes` it takes, its closing quote included.
fn unquote(bytes: &[u8]) -> Result<(Vec<u8>, usize), String> {
    let mut out = Vec::new();
    let mut at = 0;
    loop {
        let byte = *bytes.get(at).ok_or("a string without its closing quote")?;
        at += 1;
        match byte {
            b'"' => return Ok((out, at)),
            b'\\' => {
                match bytes.get(at) {
                    Some(b'n') => out.push(b'\n'),
                    Some(&b @ (b'"' | b'\\')) => out.push(b),
                    Some(b'x') => {
                        let digits = bytes.get(at + 1..at + 3).and_then(|d| std::str::from_utf8(d).ok());
                        let value = digits.and_then(|d| u8::from_str_radix(d, 16).ok());
                        out.push(value.ok_or("\\x wants two hexadecimal digits")?);
                        at += 2;
                    }
                    _ => return Err("an unknown escape in a string".into()),
                }
                at += 1;
            }
            _ => out.push(byte),
        }
    }
}

/// The items of a list that are still to be taken.
#[derive(Clone)]
pub(super) struct Items<'n> {
    pub(super) line: u32,
    items: &'n [Node],
}

impl<'n> Items<'n> {
    pub(super) fn of(line: u32, items: &'n [Node]) -> Items<'n> {
        Items { line, items }
    }

    pub(super) fn error<T>(&self, message: impl Into<String>) -> Result<T, ParseError> {
        Err(ParseError { line: self.line, message: message.into() })
    }

    pub(super) fn peek(&self) -> Option<&'n Node> {
        self.items.first()
    }

    pub(super) fn take(&mut self) -> Option<&'n Node> {
        let (first, rest) = self.items.split_first()?;
        self.items = rest;
        self.line = first.line;
        Some(first)
    }

    pub(super) fn node(&mut self) -> Result<&'n Node, ParseError> {
        match self.take() {
            Some(node) => Ok(node),
            None => self.error("the list is too short"),
        }
    }

    pub(super) fn atom(&mut self) -> Result<&'n str, ParseError> {
        let node = self.node()?;
        node.as_atom().map_or_else(|| node.error("a word was expected"), Ok)
    }

    /// A word that is one of the given.
    pub(super) fn word<T: Copy>(&mut self, words: &[(&str, T)]) -> Result<T, ParseError> {
        let found = self.atom()?;
        match words.iter().find(|(word, _)| *word == found) {
            Some(&(_, value)) => Ok(value),
            None => self.error(format!("`{found}` is not known here")),
        }
    }

    /// Takes the next item if it is this word.
    pub(super) fn flag(&mut self, word: &str) -> bool {
        let there = self.peek().and_then(Node::as_atom) == Some(word);
        if there {
            self.take();
        }
        there
    }

    pub(super) fn number<T: std::str::FromStr>(&mut self) -> Result<T, ParseError> {
        let word = self.atom()?;
        word.parse().or_else(|_| self.error(format!("`{word}` is not a number that fits here")))
    }

    /// A number with the letter of its kind, and perhaps a name after it.
    pub(super) fn id(&mut self, prefix: &str) -> Result<u32, ParseError> {
        let word = self.atom()?;
        let digits = word.strip_prefix(prefix).map(|rest| rest.split(':').next().unwrap_or(rest));
        match digits.and_then(|d| d.parse().ok()) {
            Some(id) => Ok(id),
            None => self.error(format!("`{word}` is no `{prefix}` and number")),
        }
    }

    pub(super) fn bytes(&mut self) -> Result<Vec<u8>, ParseError> {
        let node = self.node()?;
        match &node.body {
            Body::Text(bytes) => Ok(bytes.clone()),
            _ => node.error("a quoted string was expected"),
        }
    }

    pub(super) fn string(&mut self) -> Result<String, ParseError> {
        let bytes = self.bytes()?;
        String::from_utf8(bytes).or_else(|_| self.error("a string is not UTF-8"))
    }

    pub(super) fn list(&mut self) -> Result<Items<'n>, ParseError> {
        self.node()?.items()
    }

    /// All the rest, each read by `read`.
    pub(super) fn rest<T>(
        mut self,
        mut read: impl FnMut(&mut Items<'n>) -> Result<T, ParseError>,
    ) -> Result<Vec<T>, ParseError> {
        let mut out = Vec::new();
        while self.peek().is_some() {
            out.push(read(&mut self)?);
        }
        Ok(out)
    }

    /// Refuses items that nobody took.
    pub(super) fn end(&self) -> Result<(), ParseError> {
        match self.peek() {
            Some(node) => node.error("the list is too long"),
            None => Ok(()),
        }
    }
}
