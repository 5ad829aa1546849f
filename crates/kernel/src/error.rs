//! The error of everything the system refuses: its kind, its cause, and what would help.
//!
//! One opaque type, displayed in one line. A verifier log is carried beside the message, never in it (G3). Leaves out
//! diagnostics about the user's program (`syntax`) and run-time faults (events, `output`).

use std::fmt;
use std::io;

/// The result of every fallible function of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What sort of refusal an [`Error`] is; callers decide by this, never by the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// A privilege is missing, or lockdown or a security module forbids it.
    Permission,
    /// A file, function, tracepoint, map or key that is not there.
    NotFound,
    /// The kernel or the processor lacks the facility.
    Unsupported,
    /// The verifier rejected a program: a bug of ours (G3); see [`Error::verifier_log`].
    Rejected,
    /// Memory, file descriptors, map entries or another limit ran out.
    Limit,
    /// An argument that cannot be right.
    Invalid,
    /// The process has ended.
    Gone,
    /// Something else holds it (a breakpoint register, a trace attachment).
    Busy,
    /// Any other failed operation.
    Io,
}

/// What the system refused, why, and what would help.
pub struct Error(Box<Inner>);

struct Inner {
    kind: Kind,
    what: String,
    context: Vec<String>,
    help: Option<String>,
    tag: Option<&'static str>,
    log: Option<String>,
    slot: Option<u32>,
    program: Option<usize>,
    source: Option<io::Error>,
}

impl Error {
    /// Makes an error of `kind` that says `what` failed.
    pub fn new(kind: Kind, what: impl Into<String>) -> Error {
        Error(Box::new(Inner {
            kind,
            what: what.into(),
            context: Vec::new(),
            help: None,
            tag: None,
            log: None,
            slot: None,
            program: None,
            source: None,
        }))
    }

    /// Makes an error from a failed system call or file operation; the kind follows from the errno.
    pub fn io(source: io::Error, what: impl Into<String>) -> Error {
        let mut error = Error::new(kind_of(&source), what);
        error.0.source = Some(source);
        error
    }

    /// Makes an error from the calling thread's errno.
    pub fn last_os(what: impl Into<String>) -> Error {
        Error::io(io::Error::last_os_error(), what)
    }

    /// Replaces the kind, where the errno alone misleads.
    pub fn with_kind(mut self, kind: Kind) -> Error {
        self.0.kind = kind;
        self
    }

    /// Adds what would help: a privilege, an option, a kernel version.
    pub fn help(mut self, text: impl Into<String>) -> Error {
        self.0.help = Some(text.into());
        self
    }

    /// Names the diagnostic that it becomes when a program's text is to blame, such as `D_PROC_FUNC`.
    pub fn tagged(mut self, tag: &'static str) -> Error {
        self.0.tag = Some(tag);
        self
    }

    /// Returns the name of the diagnostic that it becomes.
    pub fn tag(&self) -> Option<&'static str> {
        self.0.tag
    }

    /// Prefixes what was being done: a probe, a path.
    pub fn context(mut self, text: impl Into<String>) -> Error {
        self.0.context.push(text.into());
        self
    }

    /// Adds the verifier's log.
    pub fn with_log(mut self, log: String) -> Error {
        self.0.log = Some(log);
        self
    }

    /// Notes the slot of the instruction that was rejected.
    pub(crate) fn at_slot(mut self, slot: u32) -> Error {
        self.0.slot = Some(slot);
        self
    }

    /// Notes the index in the object of the program that was not loaded.
    pub(crate) fn in_program(mut self, index: usize) -> Error {
        self.0.program = Some(index);
        self
    }

    /// Returns what sort of refusal it is.
    pub fn kind(&self) -> Kind {
        self.0.kind
    }

    /// Returns the errno, where a system call failed.
    pub fn errno(&self) -> Option<i32> {
        self.0.source.as_ref().and_then(io::Error::raw_os_error)
    }

    /// Returns which program of the object was not loaded, and at which slot the verifier gave up, if it said so.
    pub fn rejected_at(&self) -> Option<(usize, Option<u32>)> {
        self.0.program.map(|program| (program, self.0.slot))
    }

    /// Returns the verifier's log of a rejected program, for `-v` and bug reports.
    pub fn verifier_log(&self) -> Option<&str> {
        self.0.log.as_deref()
    }
}

fn kind_of(error: &io::Error) -> Kind {
    match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => Kind::Permission,
        Some(libc::ENOENT | libc::ENOTDIR | libc::ENODEV | libc::ENXIO) => Kind::NotFound,
        Some(libc::ENOSYS | libc::EOPNOTSUPP | 524) => Kind::Unsupported,
        Some(libc::E2BIG | libc::ENOMEM | libc::EMFILE | libc::ENFILE | libc::ENOSPC) => Kind::Limit,
        Some(libc::EINVAL | libc::ENAMETOOLONG | libc::EBADF | libc::EFAULT | libc::ERANGE) => Kind::Invalid,
        Some(libc::ESRCH | libc::ECHILD) => Kind::Gone,
        Some(libc::EBUSY | libc::EEXIST) => Kind::Busy,
        _ => match error.kind() {
            io::ErrorKind::NotFound => Kind::NotFound,
            io::ErrorKind::PermissionDenied => Kind::Permission,
            _ => Kind::Io,
        },
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for context in self.0.context.iter().rev() {
            write!(f, "{context}: ")?;
        }
        f.write_str(&self.0.what)?;
        match &self.0.source {
            // 524 is ENOTSUPP, which the kernel leaks and the C library has no words for.
            Some(source) if source.raw_os_error() == Some(524) => f.write_str(": not supported by this kernel")?,
            Some(source) => match source.raw_os_error() {
                // The standard library appends "(os error N)", which tells a user nothing.
                Some(_) => {
                    let text = source.to_string();
                    write!(f, ": {}", text.split(" (os error").next().unwrap_or(&text))?;
                }
                None => write!(f, ": {source}")?,
            },
            None => {}
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_with_cause_and_help() {
        let error = Error::io(io::Error::from_raw_os_error(libc::EPERM), "cannot load the program")
            .context("syscall:::entry")
            .context("prog.d")
            .help("run as root");
        assert_eq!(error.kind(), Kind::Permission);
        assert_eq!(error.errno(), Some(libc::EPERM));
        assert_eq!(
            error.to_string(),
            "prog.d: syscall:::entry: cannot load the program: Operation not permitted (run as root)"
        );
    }

    #[test]
    fn the_leaked_errno_has_words() {
        let error = Error::io(io::Error::from_raw_os_error(524), "cannot attach");
        assert_eq!(error.kind(), Kind::Unsupported);
        assert_eq!(error.to_string(), "cannot attach: not supported by this kernel");
    }
}
