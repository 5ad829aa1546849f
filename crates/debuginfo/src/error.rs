//! The error of every reader here: what sort it is, what was read, where in it the fault is, and what would help.

use std::fmt;
use std::io;

/// The result of every fallible function of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What sort of failure an [`Error`] is; callers decide by this, never by the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// A file, symbol or type that is not there.
    NotFound,
    /// A privilege is missing, or the kernel hides what was asked.
    Permission,
    /// The bytes are not what they should be.
    Malformed,
    /// A valid file of a sort that is not handled (another architecture, an object file).
    Unsupported,
    /// Any other failed operation.
    Io,
}

/// What could not be read, why, and what would help.
pub struct Error(Box<Inner>);

struct Inner {
    kind: Kind,
    what: String,
    context: Vec<String>,
    help: Option<String>,
    source: Option<io::Error>,
}

impl Error {
    /// Makes an error of `kind` that says `what` failed.
    pub fn new(kind: Kind, what: impl Into<String>) -> Error {
        Error(Box::new(Inner { kind, what: what.into(), context: Vec::new(), help: None, source: None }))
    }

    /// Makes an error about bytes that are not what they should be.
    pub fn malformed(what: impl Into<String>) -> Error {
        Error::new(Kind::Malformed, what)
    }

    /// Makes an error about something that is not there.
    pub fn not_found(what: impl Into<String>) -> Error {
        Error::new(Kind::NotFound, what)
    }

    /// Makes an error from a failed file operation.
    pub fn io(source: io::Error, what: impl Into<String>) -> Error {
        let kind = match source.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Kind::NotFound,
            io::ErrorKind::PermissionDenied => Kind::Permission,
            _ => Kind::Io,
        };
        let mut error = Error::new(kind, what);
        error.0.source = Some(source);
        error
    }

    /// Adds what would help: a privilege, an option, a package.
    pub fn help(mut self, text: impl Into<String>) -> Error {
        self.0.help = Some(text.into());
        self
    }

    /// Prefixes what was being read: a path, a section, a type.
    pub fn context(mut self, text: impl Into<String>) -> Error {
        self.0.context.push(text.into());
        self
    }

    /// Returns what sort of failure it is.
    pub fn kind(&self) -> Kind {
        self.0.kind
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for context in self.0.context.iter().rev() {
            write!(f, "{context}: ")?;
        }
        f.write_str(&self.0.what)?;
        if let Some(source) = &self.0.source {
            // The standard library appends "(os error N)", which tells a user nothing.
            let text = source.to_string();
            write!(f, ": {}", text.split(" (os error").next().unwrap_or(&text))?;
        }
        if let Some(help) = &self.0.help {
            write!(f, " ({help})")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {self}", self.0.kind)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_ref().map(|source| source as _)
    }
}
