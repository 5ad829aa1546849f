//! The error numbers that helpers return, negated as the kernel returns them.

pub(super) const EPERM: i64 = -1;
pub(super) const ENOENT: i64 = -2;
pub(super) const E2BIG: i64 = -7;
pub(super) const EAGAIN: i64 = -11;
pub(super) const ENOMEM: i64 = -12;
pub(super) const EFAULT: i64 = -14;
pub(super) const EEXIST: i64 = -17;
pub(super) const EINVAL: i64 = -22;
pub(super) const ERANGE: i64 = -34;
pub(super) const ENAMETOOLONG: i64 = -36;
pub(super) const EOPNOTSUPP: i64 = -95;
