//! Stacks: what is asked for, and the bytes that a stack is as a value (in records, keys and variables).
//!
//! | offset | size | meaning |
//! |---|---|---|
//! | [`IS_USER`] | 4 | 1 for a user stack, 0 for the kernel's |
//! | [`PID`] | 4 | the process id of a user stack, else 0 |
//! | [`DEPTH`] | 4 | number of frames that follow |
//! | [`STRSIZE`] | 4 | `strsize` as it was asked for |
//! | [`MORE`] | 4 | 1 if there are deeper frames, which are left out |
//! | 20 | 4 | 0 |
//! | [`FRAMES`] | 8 each | addresses, the innermost first; zeros after the last, up to `frames + 1` |
//!
//! The last address is always 0: the kernel is asked for one frame more than is wanted, to know whether there are more.

use crate::location::Location;

/// Offset of the word that tells whose stack it is.
pub const IS_USER: u32 = 0;
/// Offset of the process id.
pub const PID: u32 = 4;
/// Offset of the number of frames.
pub const DEPTH: u32 = 8;
/// Offset of the size of the string table that was asked for.
pub const STRSIZE: u32 = 12;
/// Offset of the word that tells whether there are deeper frames.
pub const MORE: u32 = 16;
/// Offset of the first frame.
pub const FRAMES: u32 = 24;

/// A stack that is asked for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Stack {
    /// The user's rather than the kernel's.
    pub user: bool,
    /// Most frames, at least 1.
    pub frames: u32,
    /// `strsize`, which is only kept.
    pub strsize: u32,
    /// At a function's entry: where its return address is, because the frame pointer is its caller's still, so that the walk misses
    /// the caller. Kernels from 6.11 on find it themselves where the function begins with `endbr64` or `push %rbp`.
    pub entry: Option<Location>,
}

impl Stack {
    /// Size of the value in bytes.
    pub fn size(&self) -> u32 {
        size(self.frames)
    }
}

/// Size in bytes of a stack of at most so many frames.
pub fn size(frames: u32) -> u32 {
    FRAMES + 8 * (frames + 1)
}
