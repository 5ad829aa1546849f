//! Waiting for several descriptors at once, and the descriptors that are made to be waited for: events and signals.
//!
//! Owns epoll, eventfd and signalfd. Timers live in `clock`, process descriptors in `process`.

use std::io;
use std::mem::{MaybeUninit, size_of};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::Duration;

use crate::error::{Error, Result};

/// Waits until one of its descriptors is readable.
#[derive(Debug)]
pub struct Poller {
    epoll: OwnedFd,
}

impl Poller {
    /// Makes a poller of nothing.
    pub fn new() -> Result<Poller> {
        // SAFETY: no preconditions.
        let fd = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        Ok(Poller { epoll: owned(fd).map_err(|error| Error::io(error, "cannot make an epoll descriptor"))? })
    }

    /// Watches `fd`, which must stay open until it is removed; `token` names it in [`Poller::wait`]'s answer.
    pub fn add(&self, fd: impl AsFd, token: u64) -> Result<()> {
        let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: token };
        // SAFETY: both descriptors are open; the event is valid.
        let ret =
            unsafe { libc::epoll_ctl(self.epoll.as_raw_fd(), libc::EPOLL_CTL_ADD, fd.as_fd().as_raw_fd(), &mut event) };
        if ret < 0 { Err(Error::last_os("cannot watch a descriptor")) } else { Ok(()) }
    }

    /// Watches `fd` no more.
    pub fn remove(&self, fd: impl AsFd) -> Result<()> {
        // SAFETY: both descriptors are open.
        let ret = unsafe {
            libc::epoll_ctl(self.epoll.as_raw_fd(), libc::EPOLL_CTL_DEL, fd.as_fd().as_raw_fd(), std::ptr::null_mut())
        };
        if ret < 0 { Err(Error::last_os("cannot stop watching a descriptor")) } else { Ok(()) }
    }

    /// Waits until a descriptor is readable or hung up, or `timeout` has passed (`None`: for ever), and puts the tokens
    /// of those that are into `ready`. A signal ends the wait early, with none.
    ///
    /// A ring is readable while a record in it is being written; a caller that finds no committed record there
    /// should wait a little before it asks again.
    pub fn wait(&self, timeout: Option<Duration>, ready: &mut Vec<u64>) -> Result<()> {
        ready.clear();
        // Rounded up, or a remainder below 1 ms would be a busy loop.
        let timeout = timeout.map_or(-1, |t| t.as_nanos().div_ceil(1_000_000).min(i32::MAX as u128) as i32);
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; 64];
        // SAFETY: the array has the length that is passed.
        let ret =
            unsafe { libc::epoll_wait(self.epoll.as_raw_fd(), events.as_mut_ptr(), events.len() as i32, timeout) };
        if ret < 0 {
            let error = io::Error::last_os_error();
            return match error.kind() {
                io::ErrorKind::Interrupted => Ok(()),
                _ => Err(Error::io(error, "cannot wait for events")),
            };
        }
        ready.extend(events[..ret as usize].iter().map(|event| event.u64));
        Ok(())
    }
}

/// A counter that makes itself readable: wakes a [`Poller`] from another thread.
#[derive(Debug)]
pub struct Event(OwnedFd);

impl Event {
    /// Makes an event that is not set.
    pub fn new() -> Result<Event> {
        // SAFETY: no preconditions.
        let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        Ok(Event(owned(fd).map_err(|error| Error::io(error, "cannot make an event descriptor"))?))
    }

    /// Sets it.
    pub fn set(&self) {
        let one = 1u64;
        // SAFETY: eight readable bytes. It cannot fail but by overflow, when it is set already.
        unsafe { libc::write(self.0.as_raw_fd(), (&raw const one).cast(), 8) };
    }

    /// Returns whether it was set, and resets it.
    pub fn take(&self) -> bool {
        read_u64(self.0.as_fd()).is_some()
    }
}

impl AsFd for Event {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Signals, blocked and read from a descriptor instead; dropping unblocks them again.
#[derive(Debug)]
pub struct Signals {
    fd: OwnedFd,
    set: Vec<i32>,
}

impl Signals {
    /// Blocks `signals` (such as `libc::SIGINT`) in the calling thread, and in those that it starts later, and collects
    /// them. Must come before other threads start. Children run by [`crate::child`] start with none blocked.
    pub fn new(signals: &[i32]) -> Result<Signals> {
        let set = signal_set(signals);
        // SAFETY: the set is initialised.
        unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &set, std::ptr::null_mut()) };
        // SAFETY: as above.
        let fd = unsafe { libc::signalfd(-1, &set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) };
        let fd = owned(fd).map_err(|error| Error::io(error, "cannot make a signal descriptor"))?;
        Ok(Signals { fd, set: signals.to_vec() })
    }

    /// Takes the next signal that has arrived, if any.
    pub fn take(&self) -> Option<i32> {
        let mut info = MaybeUninit::<libc::signalfd_siginfo>::uninit();
        let size = size_of::<libc::signalfd_siginfo>();
        // SAFETY: the buffer has `size` bytes.
        let ret = unsafe { libc::read(self.fd.as_raw_fd(), info.as_mut_ptr().cast(), size) };
        if ret != size as isize {
            return None;
        }
        // SAFETY: the kernel has written all of it.
        Some(unsafe { info.assume_init() }.ssi_signo as i32)
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        let set = signal_set(&self.set);
        // SAFETY: the set is initialised.
        unsafe { libc::pthread_sigmask(libc::SIG_UNBLOCK, &set, std::ptr::null_mut()) };
    }
}

fn signal_set(signals: &[i32]) -> libc::sigset_t {
    let mut set = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: sigemptyset initialises the set; sigaddset refuses numbers that are no signals.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        for signal in signals {
            libc::sigaddset(set.as_mut_ptr(), *signal);
        }
        set.assume_init()
    }
}

/// Takes a descriptor that a system call has just returned.
pub(crate) fn owned(fd: i32) -> io::Result<OwnedFd> {
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: fresh from the kernel; nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Reads the counter of an eventfd or timerfd; `None` if it is zero.
pub(crate) fn read_u64(fd: BorrowedFd<'_>) -> Option<u64> {
    let mut value = 0u64;
    // SAFETY: eight writable bytes.
    let ret = unsafe { libc::read(fd.as_raw_fd(), (&raw mut value).cast(), 8) };
    (ret == 8).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_wake_and_reset() {
        let poller = Poller::new().unwrap();
        let event = Event::new().unwrap();
        poller.add(&event, 7).unwrap();
        let mut ready = Vec::new();
        poller.wait(Some(Duration::ZERO), &mut ready).unwrap();
        assert!(ready.is_empty());
        event.set();
        poller.wait(None, &mut ready).unwrap();
        assert_eq!(ready, [7]);
        assert!(event.take());
        assert!(!event.take());
        poller.remove(&event).unwrap();
    }

    #[test]
    fn signals_are_read_not_delivered() {
        let signals = Signals::new(&[libc::SIGUSR2]).unwrap();
        // SAFETY: sends a signal to this very thread, where it is blocked.
        unsafe { libc::pthread_kill(libc::pthread_self(), libc::SIGUSR2) };
        assert_eq!(signals.take(), Some(libc::SIGUSR2));
        assert_eq!(signals.take(), None);
    }
}
