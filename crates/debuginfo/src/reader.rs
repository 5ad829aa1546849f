//! Bounds-checked little-endian reads from a byte slice, shared by the binary readers.

/// Returns the `N` bytes at `offset`, or `None` past the end.
pub(crate) fn array<const N: usize>(bytes: &[u8], offset: usize) -> Option<[u8; N]> {
    bytes.get(offset..)?.first_chunk().copied()
}

/// Returns the byte at `offset`.
pub(crate) fn u8_at(bytes: &[u8], offset: usize) -> Option<u8> {
    bytes.get(offset).copied()
}

/// Returns the 16-bit number at `offset`.
pub(crate) fn u16_at(bytes: &[u8], offset: usize) -> Option<u16> {
    array(bytes, offset).map(u16::from_le_bytes)
}

/// Returns the 32-bit number at `offset`.
pub(crate) fn u32_at(bytes: &[u8], offset: usize) -> Option<u32> {
    array(bytes, offset).map(u32::from_le_bytes)
}

/// Returns the 64-bit number at `offset`.
pub(crate) fn u64_at(bytes: &[u8], offset: usize) -> Option<u64> {
    array(bytes, offset).map(u64::from_le_bytes)
}

/// Returns the bytes from `offset` up to a NUL; `None` past the end or without a NUL.
pub(crate) fn cstr_at(bytes: &[u8], offset: usize) -> Option<&[u8]> {
    let rest = bytes.get(offset..)?;
    rest.iter().position(|&b| b == 0).map(|end| &rest[..end])
}

/// Whether the string at `offset` is exactly `name`; cheaper than finding its end.
pub(crate) fn cstr_is(bytes: &[u8], offset: usize, name: &[u8]) -> bool {
    match bytes.get(offset..) {
        // Nearly all differ in the first byte.
        Some(rest) if rest.first() == name.first() => {
            rest.len() > name.len() && rest[name.len()] == 0 && &rest[..name.len()] == name
        }
        _ => false,
    }
}
