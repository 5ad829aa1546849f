//! A command of our own (`-c`): started stopped, run up to a place, then let go; its end and exit status. And a process that
//! was stopped where it started (`-W`): held, run up to a place, then let go.
//!
//! Owns all use of `ptrace(2)`. While it is held the command dies with us, so that a killed tracer never leaves a
//! process with a breakpoint in it or one that runs unobserved (G1); once let go it is an ordinary child. A process of others is let
//! go when we die, so that nothing is ever written into it. Leaves out finding addresses (`debuginfo`).

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus};
use std::ptr::null_mut;
use std::time::{Duration, Instant};

use crate::error::{Error, Kind, Result};
use crate::perf;
use crate::process::Process;
use crate::system::System;

#[cfg(target_arch = "x86_64")]
const BREAKPOINT: &[u8] = &[0xcc];
#[cfg(target_arch = "aarch64")]
const BREAKPOINT: &[u8] = &[0x00, 0x00, 0x20, 0xd4];

/// How far the program counter has moved when the breakpoint is reported.
#[cfg(target_arch = "x86_64")]
const PAST: u64 = 1;
#[cfg(target_arch = "aarch64")]
const PAST: u64 = 0;

/// Splits a command line into words at white space. Quotes (`'…'`, `"…"`) keep white space, and a backslash keeps the
/// next character, except within single quotes; nothing else is expanded.
pub fn split_words(line: &str) -> Result<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        match (quote, c) {
            (Some(q), c) if c == q => quote = None,
            (Some('\''), c) => word.get_or_insert_default().push(c),
            (_, '\\') => match chars.next() {
                // Within double quotes a backslash is special only before what it could hide.
                Some(next) if quote.is_some() && !matches!(next, '"' | '\\' | '$' | '`') => {
                    word.get_or_insert_default().extend(['\\', next]);
                }
                Some(next) => word.get_or_insert_default().push(next),
                None => return Err(Error::new(Kind::Invalid, "the command ends in a backslash")),
            },
            (Some(_), c) => word.get_or_insert_default().push(c),
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, c) if c.is_ascii_whitespace() => words.extend(word.take()),
            (None, c) => word.get_or_insert_default().push(c),
        }
    }
    if let Some(quote) = quote {
        return Err(Error::new(Kind::Invalid, format!("the command lacks a closing {quote}")));
    }
    words.extend(word);
    match words.is_empty() {
        true => Err(Error::new(Kind::Invalid, "the command is empty")),
        false => Ok(words),
    }
}

/// A command that was started here. Readable (as a descriptor) when it has ended.
///
/// Until it is let go, only the thread that started it may use it; that is how ptrace works. Dropping it before kills it;
/// dropping it afterwards leaves it running.
#[derive(Debug)]
pub struct Child {
    process: Process,
    name: String,
    /// The thread that started it.
    tracer: i32,
    state: State,
    /// It was started here.
    ours: bool,
}

/// How long a process may take from the signal that stops it until it is stopped.
const STOPPING: Duration = Duration::from_secs(2);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Stopped, in our hands.
    Held,
    /// Runs by itself.
    Free,
    Ended(ExitStatus),
}

impl Child {
    /// Starts a command and stops it when it has been loaded and nothing of it has run yet, not even the dynamic
    /// linker. The first word is looked up in `PATH`.
    pub fn spawn(words: &[String]) -> Result<Child> {
        let [name, args @ ..] = words else {
            return Err(Error::new(Kind::Invalid, "the command is empty"));
        };
        let mut command = Command::new(name);
        command.args(args);
        // SAFETY: between fork and exec only ptrace(2) is called, which is async-signal-safe.
        unsafe {
            command.pre_exec(|| {
                let ret = libc::ptrace(libc::PTRACE_TRACEME, 0, null_mut::<u8>(), null_mut::<u8>());
                if ret < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
            });
        }
        // The signal mask is emptied by the standard library.
        let child = command.spawn().map_err(|error| Error::io(error, format!("cannot run {name}")))?;
        let pid = child.id();
        // The standard library's own waiting would take ptrace's stops for exits; it is not used further.
        drop(child);
        let mut child = Child {
            process: Process::grab(pid)?,
            name: name.clone(),
            tracer: gettid(),
            state: State::Held,
            ours: true,
        };
        child.wait_stop()?;
        child.ptrace(libc::PTRACE_SETOPTIONS, 0, libc::PTRACE_O_EXITKILL as u64, "hold")?;
        Ok(child)
    }

    /// Takes hold of a process, not of ours, that a signal has stopped or is just stopping. It does not stay stopped by that: when we
    /// end, however that is, it runs on. Errors: [`Kind::Gone`] if it has ended; others if it cannot be held, as when it is being
    /// debugged; then it is as it was.
    pub fn seize(sys: &System, pid: u32) -> Result<Child> {
        let process = Process::grab(pid)?;
        let begun = Instant::now();
        loop {
            let state = sys.status(pid)?.state;
            match state {
                'T' => break,
                'Z' | 'X' => return Err(Error::new(Kind::Gone, format!("process {pid} has ended"))),
                't' => return Err(Error::new(Kind::Invalid, format!("process {pid} is traced by another"))),
                _ if begun.elapsed() > STOPPING => {
                    return Err(Error::new(Kind::Invalid, format!("process {pid} has not stopped")));
                }
                _ => std::thread::sleep(Duration::from_millis(1)),
            }
        }
        // SAFETY: plain numbers.
        let ret = unsafe { libc::ptrace(libc::PTRACE_SEIZE, pid as libc::pid_t, null_mut::<u8>(), null_mut::<u8>()) };
        if ret < 0 {
            return Err(Error::last_os(format!("cannot hold process {pid}")));
        }
        // It is in our hands now, so the stop can be ended; at once, because it would outlive us.
        let continued = process.signal(libc::SIGCONT);
        let name = sys.comm(pid).unwrap_or_default();
        let mut child = Child { process, name, tracer: gettid(), state: State::Held, ours: false };
        child.wait_stop()?;
        continued?;
        Ok(child)
    }

    /// Returns its process number.
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Returns whether it is stopped in our hands.
    pub fn is_held(&self) -> bool {
        self.state == State::Held
    }

    /// Lets it run up to the program's entry point: the dynamic linker has mapped the libraries that it was linked with and
    /// (glibc) run their constructors; the program's own, and `main`, have not run.
    pub fn run_to_entry(&mut self, sys: &System) -> Result<()> {
        const AT_ENTRY: u64 = 9;
        let entry = sys
            .auxv(self.pid(), AT_ENTRY)?
            .ok_or_else(|| Error::new(Kind::Io, format!("{} has no entry point", self.name)))?;
        self.run_to(sys, entry)
    }

    /// Lets it run until it is about to execute the instruction at `address`, which must be mapped by then.
    ///
    /// Signals that arrive meanwhile are delivered. Errors: [`Kind::Gone`] if it ends before.
    pub fn run_to(&mut self, sys: &System, address: u64) -> Result<()> {
        if self.program_counter()? == address {
            return Ok(());
        }
        if !self.ours {
            // What is written into the code of a process that survives us would stay there if we were killed.
            let stop = perf::stop_at(address, self.pid())?;
            let arrived = self.continue_to(address);
            drop(stop);
            return arrived;
        }
        let mut original = [0; 8];
        sys.read_memory(self.pid(), address, &mut original)?;
        let mut patched = original;
        patched[..BREAKPOINT.len()].copy_from_slice(BREAKPOINT);
        self.poke(address, patched)?;
        self.continue_to(address + PAST)?;
        self.poke(address, original)?;
        self.set_program_counter(address)
    }

    /// Lets it run until it stops by a trap with its program counter at `address`; signals that arrive meanwhile are delivered.
    fn continue_to(&mut self, address: u64) -> Result<()> {
        let mut signal = 0;
        loop {
            self.ptrace(libc::PTRACE_CONT, 0, signal, "continue")?;
            signal = self.wait_stop()? as u64;
            if signal == libc::SIGTRAP as u64 {
                if self.program_counter()? == address {
                    return Ok(());
                }
                // A breakpoint of its own would be fatal to it untraced as well, but an exec's stop would not.
                signal = 0;
            }
        }
    }

    /// Lets it go: it runs by itself from now on, and is no longer traced.
    pub fn detach(&mut self) -> Result<()> {
        if self.state == State::Held {
            self.ptrace(libc::PTRACE_DETACH, 0, 0, "let go")?;
            self.state = State::Free;
        }
        Ok(())
    }

    /// Returns its exit status if it has ended.
    pub fn try_wait(&mut self) -> Result<Option<ExitStatus>> {
        match self.state {
            State::Ended(status) => Ok(Some(status)),
            State::Held => Ok(None),
            State::Free => self.reap(libc::WNOHANG),
        }
    }

    /// Waits until it has ended and returns its exit status. It must have been let go.
    pub fn wait(&mut self) -> Result<ExitStatus> {
        self.detach()?;
        loop {
            if let State::Ended(status) = self.state {
                return Ok(status);
            }
            self.reap(0)?;
        }
    }

    /// Kills it and waits for its end.
    pub fn kill(&mut self) -> Result<()> {
        if let State::Ended(_) = self.state {
            return Ok(());
        }
        // Its end is what is wanted: that it has come already is no failure.
        if let Err(error) = self.process.signal(libc::SIGKILL) {
            log::debug!("{error}");
        }
        while !matches!(self.state, State::Ended(_)) {
            self.reap(0)?;
        }
        Ok(())
    }

    /// Waits for a change of state, which for a traced child includes stops; notes its end.
    fn reap(&mut self, flags: i32) -> Result<Option<ExitStatus>> {
        let mut status = 0;
        loop {
            // SAFETY: the status is writable; the pid is that of a child that has not been reaped.
            let ret = unsafe { libc::waitpid(self.pid() as libc::pid_t, &mut status, flags | libc::__WALL) };
            match ret {
                0 => return Ok(None),
                _ if ret > 0 => break,
                _ => {
                    let error = io::Error::last_os_error();
                    if error.kind() != io::ErrorKind::Interrupted {
                        return Err(Error::io(error, format!("cannot wait for {}", self.name)));
                    }
                }
            }
        }
        if libc::WIFSTOPPED(status) || libc::WIFCONTINUED(status) {
            return Ok(None);
        }
        let status = ExitStatus::from_raw(status);
        self.state = State::Ended(status);
        Ok(Some(status))
    }

    /// Waits until it stops, and returns the signal.
    fn wait_stop(&mut self) -> Result<i32> {
        let mut status = 0;
        loop {
            // SAFETY: as in `reap`.
            let ret = unsafe { libc::waitpid(self.pid() as libc::pid_t, &mut status, libc::__WALL) };
            if ret >= 0 {
                break;
            }
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(Error::io(error, format!("cannot wait for {}", self.name)));
            }
        }
        if libc::WIFSTOPPED(status) {
            return Ok(libc::WSTOPSIG(status));
        }
        let status = ExitStatus::from_raw(status);
        self.state = State::Ended(status);
        Err(Error::new(Kind::Gone, format!("{} ended before it could be traced ({status})", self.name)))
    }

    fn poke(&self, address: u64, bytes: [u8; 8]) -> Result<()> {
        self.ptrace(libc::PTRACE_POKETEXT, address, u64::from_ne_bytes(bytes), "set a breakpoint in")
    }

    fn ptrace(&self, request: libc::c_uint, address: u64, data: u64, verb: &str) -> Result<()> {
        if self.tracer != gettid() || self.state != State::Held {
            return Err(Error::new(
                Kind::Invalid,
                format!("cannot {verb} {}: only the thread that started it can, while it is stopped", self.name),
            ));
        }
        // SAFETY: the requests used here take numbers, or the address of a register set that the caller keeps alive.
        let ret = unsafe { libc::ptrace(request as _, self.pid() as libc::pid_t, address, data) };
        if ret < 0 { Err(Error::last_os(format!("cannot {verb} {}", self.name))) } else { Ok(()) }
    }

    #[cfg(target_arch = "x86_64")]
    fn registers(&self) -> Result<libc::user_regs_struct> {
        // SAFETY: all zero is a valid register set.
        let mut registers: libc::user_regs_struct = unsafe { std::mem::zeroed() };
        self.ptrace(libc::PTRACE_GETREGS, 0, &raw mut registers as u64, "read the registers of")?;
        Ok(registers)
    }

    #[cfg(target_arch = "x86_64")]
    fn program_counter(&self) -> Result<u64> {
        Ok(self.registers()?.rip)
    }

    #[cfg(target_arch = "x86_64")]
    fn set_program_counter(&self, address: u64) -> Result<()> {
        let mut registers = self.registers()?;
        registers.rip = address;
        self.ptrace(libc::PTRACE_SETREGS, 0, &raw mut registers as u64, "set the registers of")
    }

    #[cfg(target_arch = "aarch64")]
    fn program_counter(&self) -> Result<u64> {
        // SAFETY: all zero is a valid register set.
        let mut registers: libc::user_regs_struct = unsafe { std::mem::zeroed() };
        let mut io = libc::iovec { iov_base: (&raw mut registers).cast(), iov_len: size_of_val(&registers) };
        const NT_PRSTATUS: u64 = 1;
        self.ptrace(libc::PTRACE_GETREGSET, NT_PRSTATUS, &raw mut io as u64, "read the registers of")?;
        Ok(registers.pc)
    }

    /// The breakpoint is reported where it is: there is nothing to set back.
    #[cfg(target_arch = "aarch64")]
    fn set_program_counter(&self, _address: u64) -> Result<()> {
        Ok(())
    }
}

impl AsFd for Child {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.process.as_fd()
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if self.state == State::Held
            && let Err(error) = if self.ours { self.kill() } else { self.detach() }
        {
            log::debug!("{error}");
        }
    }
}

fn gettid() -> i32 {
    // SAFETY: no preconditions.
    unsafe { libc::gettid() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        split_words(line).unwrap()
    }

    #[test]
    fn command_lines_split() {
        assert_eq!(words(" ls -l\t/tmp \n"), ["ls", "-l", "/tmp"]);
        assert_eq!(words(r#"sh -c 'echo "a  b" \n' x"#), ["sh", "-c", r#"echo "a  b" \n"#, "x"]);
        assert_eq!(words(r#"a\ b "c \"d\" \n" '' e"f"g"#), ["a b", r#"c "d" \n"#, "", "efg"]);
        for bad in ["", "  ", "a 'b", "a \"b", "a\\"] {
            assert_eq!(split_words(bad).unwrap_err().kind(), Kind::Invalid, "{bad}");
        }
    }

    #[test]
    fn a_command_waits_until_it_is_let_go() {
        let sys = System::live();
        let mut child = Child::spawn(&words("sh -c 'exit 7'")).unwrap();
        assert!(child.is_held());
        assert_eq!(sys.status(child.pid()).unwrap().state, 't');
        // Nothing but the program and its linker are mapped yet.
        assert!(!sys.maps(child.pid()).unwrap().iter().any(|mapping| mapping.path.contains("libc.so")));
        child.run_to_entry(&sys).unwrap();
        let pid = child.pid();
        let libraries = sys.maps(pid).unwrap().iter().filter(|m| m.path.contains(".so")).count();
        assert!(libraries > 0);
        assert_eq!(child.try_wait().unwrap(), None);
        child.detach().unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(7));
        assert_eq!(child.try_wait().unwrap().unwrap().code(), Some(7));
    }

    #[test]
    fn what_cannot_run_is_an_error() {
        let error = Child::spawn(&["/no/such/program".to_owned()]).unwrap_err();
        assert_eq!(error.kind(), Kind::NotFound);
        assert!(error.to_string().contains("/no/such/program"));
    }

    #[test]
    fn dropping_a_held_command_kills_it() {
        let child = Child::spawn(&words("sleep 1000")).unwrap();
        let pid = child.pid();
        drop(child);
        assert_eq!(Process::grab(pid).unwrap_err().kind(), Kind::Gone);
    }

    #[test]
    fn only_the_starting_thread_may_let_it_go() {
        let mut child = Child::spawn(&words("sleep 1000")).unwrap();
        let child = std::thread::spawn(move || {
            assert_eq!(child.detach().unwrap_err().kind(), Kind::Invalid);
            child
        });
        let mut child = child.join().unwrap();
        child.detach().unwrap();
        child.kill().unwrap();
        assert!(child.try_wait().unwrap().unwrap().code().is_none());
    }
}
