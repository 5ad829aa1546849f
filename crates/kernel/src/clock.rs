//! Clocks and timers.
//!
//! Owns the offset between the clock that programs read (monotonic, `bpf_ktime_get_ns`) and the time of day, and timers that
//! a [`crate::poll::Poller`] waits for.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use crate::error::{Error, Result};
use crate::poll::{owned, read_u64};

fn read(clock: libc::clockid_t) -> u64 {
    let mut time = MaybeUninit::<libc::timespec>::uninit();
    // SAFETY: the clocks asked for always exist, so the time is written.
    let time = unsafe {
        libc::clock_gettime(clock, time.as_mut_ptr());
        time.assume_init()
    };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Returns the monotonic clock in nanoseconds: what programs read, and DTrace's `timestamp`.
pub fn monotonic_ns() -> u64 {
    read(libc::CLOCK_MONOTONIC)
}

/// Returns the time of day in nanoseconds since 1970.
pub fn realtime_ns() -> u64 {
    read(libc::CLOCK_REALTIME)
}

/// Returns what to add to the monotonic clock to get the time of day, in nanoseconds. It changes when the time is set.
pub fn realtime_offset_ns() -> i64 {
    // The time of day is read between two readings of the other; the closest pair of several is the best.
    (0..8)
        .map(|_| {
            let (before, time, after) = (monotonic_ns(), realtime_ns(), monotonic_ns());
            (after - before, time as i64 - (before + (after - before) / 2) as i64)
        })
        .min_by_key(|(spread, _)| *spread)
        .map_or(0, |(_, offset)| offset)
}

/// The local time zone at `seconds` since the epoch: seconds east of UTC, and the zone's short name.
pub fn zone(seconds: i64) -> (i32, String) {
    // SAFETY: an all-zero `tm` is valid; `localtime_r` fills it.
    let mut tm: libc::tm = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers are valid for the call.
    if unsafe { libc::localtime_r(&seconds, &mut tm) }.is_null() || tm.tm_zone.is_null() {
        return (0, "UTC".into());
    }
    // SAFETY: the C library's own string, which lives as long as the process.
    let name = unsafe { std::ffi::CStr::from_ptr(tm.tm_zone) }.to_string_lossy().into_owned();
    (tm.tm_gmtoff as i32, name)
}

/// A timer on the monotonic clock, readable when it has expired; it also fires on an idle machine.
#[derive(Debug)]
pub struct Timer(OwnedFd);

impl Timer {
    /// Makes a timer that expires after `first` and then every `interval`; an interval of zero means once only. A `first` of
    /// zero expires at once.
    pub fn new(first: Duration, interval: Duration) -> Result<Timer> {
        // SAFETY: no preconditions.
        let fd = unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, libc::TFD_CLOEXEC | libc::TFD_NONBLOCK) };
        let timer = Timer(owned(fd).map_err(|error| Error::io(error, "cannot make a timer"))?);
        // Zero would disarm it.
        timer.set(first.max(Duration::from_nanos(1)), interval)?;
        Ok(timer)
    }

    /// Makes a timer that expires every `interval`.
    pub fn every(interval: Duration) -> Result<Timer> {
        Timer::new(interval, interval)
    }

    /// Sets it anew; a `first` of zero stops it.
    pub fn set(&self, first: Duration, interval: Duration) -> Result<()> {
        let spec = libc::itimerspec { it_interval: timespec(interval), it_value: timespec(first) };
        // SAFETY: the specification is valid.
        let ret = unsafe { libc::timerfd_settime(self.0.as_raw_fd(), 0, &spec, std::ptr::null_mut()) };
        if ret < 0 { Err(Error::last_os("cannot set a timer")) } else { Ok(()) }
    }

    /// Returns how often it has expired since it was last asked.
    pub fn take(&self) -> u64 {
        read_u64(self.0.as_fd()).unwrap_or(0)
    }
}

impl AsFd for Timer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn timespec(duration: Duration) -> libc::timespec {
    // SAFETY: all zero is a valid time; on some targets there is padding, so that it cannot be written as a literal.
    let mut spec: libc::timespec = unsafe { std::mem::zeroed() };
    spec.tv_sec = duration.as_secs().min(i64::MAX as u64) as libc::time_t;
    spec.tv_nsec = duration.subsec_nanos() as libc::c_long;
    spec
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::poll::Poller;

    #[test]
    fn timers_expire_and_count() {
        let timer = Timer::new(Duration::ZERO, Duration::from_millis(1)).unwrap();
        let poller = Poller::new().unwrap();
        poller.add(&timer, 1).unwrap();
        let mut ready = Vec::new();
        poller.wait(None, &mut ready).unwrap();
        assert!(timer.take() >= 1);
        timer.set(Duration::ZERO, Duration::ZERO).unwrap();
        assert_eq!(timer.take(), 0);
    }

    #[test]
    fn the_offset_leads_to_the_time_of_day() {
        let now = (monotonic_ns() as i64 + realtime_offset_ns()) as u64;
        // A minute allows for a clock being set while this runs.
        assert!(now.abs_diff(realtime_ns()) < 60_000_000_000);
    }
}
