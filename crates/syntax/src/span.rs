//! Source texts and places in them. Owns the line arithmetic, including the line numbers that a preprocessor's
//! `# 1 "file"` markers give; never opens a file: texts are handed in.

use std::ops::Range;

/// Names one source text of a [`Sources`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct SourceId(pub u32);

/// A half-open range of bytes of one source text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Span {
    /// The text.
    pub source: SourceId,
    /// First byte.
    pub lo: u32,
    /// One past the last byte; never below `lo`.
    pub hi: u32,
}

impl Span {
    /// The span of the bytes `lo..hi` of `source`.
    pub fn new(source: SourceId, lo: u32, hi: u32) -> Span {
        Span { source, lo, hi: hi.max(lo) }
    }

    /// The smallest span that covers both; `self` where they are in different sources.
    pub fn to(self, other: Span) -> Span {
        if self.source != other.source {
            return self;
        }
        Span { source: self.source, lo: self.lo.min(other.lo), hi: self.hi.max(other.hi) }
    }

    /// The empty span at its end.
    pub fn end(self) -> Span {
        Span { lo: self.hi, ..self }
    }

    /// As a range of bytes.
    pub fn range(self) -> Range<usize> {
        self.lo as usize..self.hi as usize
    }
}

/// Where a text came from; decides the head of DTrace's error line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A script: `-s file`, or a script named alone. Errors carry line numbers.
    File(String),
    /// The text of a `-n`, `-P`, `-m`, `-f` or `-i` flag, by letter.
    Flag(char),
    /// A library file shipped with the tool or given by `-L`.
    Library(String),
}

/// From this line of the text on, lines are numbered as if they stood in another file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineMarker {
    /// Offset of the first byte after the marker's own line.
    pub at: u32,
    /// The number of the line that starts at `at`.
    pub line: u32,
    /// The file that the marker names; `None` keeps the name before it.
    pub file: Option<String>,
}

/// One source text.
#[derive(Clone, Debug)]
pub struct Source {
    /// Where it came from.
    pub origin: Origin,
    /// The text; bytes that are not UTF-8 have become U+FFFD.
    pub text: String,
    /// Offset of the first byte of each line.
    pub line_starts: Vec<u32>,
    /// The `#line` and `# 1 "file"` markers, by offset.
    pub markers: Vec<LineMarker>,
}

/// A place as people count: file, line and column, the latter two from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    /// The file, or the flag as `-n`.
    pub name: String,
    /// Line, as renumbered by markers.
    pub line: u32,
    /// Column in characters.
    pub column: u32,
}

/// All the source texts of one run.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// By [`SourceId`].
    pub sources: Vec<Source>,
}

impl Sources {
    /// No texts.
    pub fn new() -> Sources {
        Sources::default()
    }

    /// Takes in a text; one longer than a span can address (4 GiB) is cut there.
    pub fn add(&mut self, origin: Origin, text: impl Into<String>) -> SourceId {
        let mut text = text.into();
        if text.len() > u32::MAX as usize - 1 {
            let mut end = u32::MAX as usize - 1;
            while !text.is_char_boundary(end) {
                end -= 1;
            }
            text.truncate(end);
        }
        let mut line_starts = vec![0u32];
        line_starts.extend(text.bytes().enumerate().filter(|(_, b)| *b == b'\n').map(|(i, _)| i as u32 + 1));
        let markers = find_markers(&text, &line_starts);
        self.sources.push(Source { origin, text, line_starts, markers });
        SourceId(self.sources.len() as u32 - 1)
    }

    /// Takes in a text of any bytes.
    pub fn add_bytes(&mut self, origin: Origin, bytes: &[u8]) -> SourceId {
        self.add(origin, String::from_utf8_lossy(bytes))
    }

    /// The source, if the id is of this collection.
    pub fn get(&self, id: SourceId) -> Option<&Source> {
        self.sources.get(id.0 as usize)
    }

    /// The text under a span; empty where the span is not of this collection or not on character boundaries.
    pub fn text(&self, span: Span) -> &str {
        self.get(span.source).and_then(|s| s.text.get(span.range())).unwrap_or("")
    }

    /// Where the span starts, as people count.
    pub fn locate(&self, span: Span) -> Option<Location> {
        let source = self.get(span.source)?;
        let lo = span.lo.min(source.text.len() as u32);
        let index = source.line_index(lo);
        let start = source.line_starts[index] as usize;
        let column = source.text.as_bytes()[start..lo as usize].iter().filter(|b| (**b & 0xc0) != 0x80).count();
        let (name, line) = source.name_and_line(lo);
        Some(Location { name: name.to_string(), line, column: column as u32 + 1 })
    }
}

impl Source {
    /// The file, library or flag (`-n`) that the text came from.
    pub fn name(&self) -> &str {
        match &self.origin {
            Origin::File(path) | Origin::Library(path) => path,
            Origin::Flag('n') => "-n",
            Origin::Flag('P') => "-P",
            Origin::Flag('m') => "-m",
            Origin::Flag('f') => "-f",
            Origin::Flag('i') => "-i",
            Origin::Flag(_) => "<command line>",
        }
    }

    /// Index into `line_starts` of the line that holds the offset.
    pub fn line_index(&self, offset: u32) -> usize {
        self.line_starts.partition_point(|start| *start <= offset).saturating_sub(1)
    }

    /// The file name and line number in force at an offset, markers applied.
    pub fn name_and_line(&self, offset: u32) -> (&str, u32) {
        let index = self.line_index(offset) as u32;
        let before = self.markers.partition_point(|m| m.at <= offset);
        let Some(marker) = before.checked_sub(1).map(|i| &self.markers[i]) else {
            return (self.name(), index + 1);
        };
        let name = self.markers[..before].iter().rev().find_map(|m| m.file.as_deref()).unwrap_or(self.name());
        (name, marker.line.saturating_add(index - self.line_index(marker.at) as u32))
    }
}

/// Finds `#line 5 "f"` and the preprocessor's `# 5 "f" flags`.
fn find_markers(text: &str, line_starts: &[u32]) -> Vec<LineMarker> {
    let mut markers = Vec::new();
    if !text.contains('#') {
        return markers;
    }
    for (index, start) in line_starts.iter().enumerate() {
        let end = line_starts.get(index + 1).map_or(text.len(), |next| *next as usize - 1);
        let line = text[*start as usize..end].trim_start();
        let Some(rest) = line.strip_prefix('#') else { continue };
        let rest = rest.trim_start();
        let rest = rest.strip_prefix("line").map_or(rest, str::trim_start);
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let Ok(number) = rest[..digits].parse::<u32>() else { continue };
        let file =
            rest[digits..].trim_start().strip_prefix('"').and_then(|f| f.split_once('"')).map(|(f, _)| f.to_string());
        if let Some(next) = line_starts.get(index + 1) {
            markers.push(LineMarker { at: *next, line: number, file });
        }
    }
    markers
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line_of(text: &str, needle: &str) -> (String, u32, u32) {
        let mut sources = Sources::new();
        let id = sources.add(Origin::File("a.d".into()), text);
        let at = text.find(needle).unwrap() as u32;
        let place = sources.locate(Span::new(id, at, at + 1)).unwrap();
        (place.name, place.line, place.column)
    }

    #[test]
    fn lines_and_columns_start_at_one() {
        assert_eq!(line_of("ab\ncXd", "X"), ("a.d".into(), 2, 2));
        assert_eq!(line_of("é X", "X"), ("a.d".into(), 1, 3));
        assert_eq!(line_of("X", "X"), ("a.d".into(), 1, 1));
    }

    #[test]
    fn markers_renumber() {
        assert_eq!(line_of("# 1 \"b.d\"\n\nX", "X"), ("b.d".into(), 2, 1));
        assert_eq!(line_of("#line 40\nX", "X"), ("a.d".into(), 40, 1));
        assert_eq!(line_of("# 1 \"b.d\" 2\n#line 7\n X", "X"), ("b.d".into(), 7, 2));
    }
}
