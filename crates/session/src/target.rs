//! The processes that a question is about: commands started for it (`-c`), processes it was pointed at (`-p`), and those that
//! it waited for (`-W`).

use probity_debuginfo::elf::Elf;
use probity_kernel::child::{Child, split_words};
use probity_kernel::process::Process;
use probity_kernel::{Error, Kind, Poller, System};
use std::process::ExitStatus;

/// The signal that ends a stop, on all machines that there are.
pub(crate) const SIGCONT: i32 = 18;

/// How far a command runs before it is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// Before the dynamic linker has run.
    Exec,
    /// Where its libraries are mapped and nothing of its own has run.
    Entry,
    /// Where `main` begins; [`Until::Entry`] where its symbols do not tell where that is.
    Main,
}

/// The address of `main` in a process, by the symbols of its executable.
fn main_of(sys: &System, pid: u32) -> Option<u64> {
    const AT_ENTRY: u64 = 9;
    let elf = Elf::open(sys.exe_path(pid)).ok()?;
    let main = elf.function("main").ok().flatten().filter(|main| elf.is_code(main.offset))?;
    // The entry point is where both the file and the process say, whatever the executable was moved by.
    let entry = sys.auxv(pid, AT_ENTRY).ok().flatten()?;
    Some(entry.wrapping_sub(elf.entry()).wrapping_add(main.vaddr))
}

/// Lets a held process run up to a point of its start.
fn run_up_to(sys: &System, child: &mut Child, until: Until) -> Result<(), Error> {
    if until != Until::Exec {
        child.run_to_entry(sys)?;
    }
    if until == Until::Main
        && let Some(main) = main_of(sys, child.pid())
    {
        child.run_to(sys, main)?;
    }
    Ok(())
}

/// The targets of a session, in the order they were named. Dropping it kills the commands that still run, as DTrace does:
/// they were started for the question.
#[derive(Default)]
pub struct Targets {
    children: Vec<(Child, Option<ExitStatus>)>,
    processes: Vec<Process>,
    /// Of the processes, those that are held since they started.
    held: Vec<Child>,
    /// Of the processes, those that are stopped by a signal since they started.
    stopped: Vec<Process>,
}

impl Targets {
    /// Starts a command and holds it at a point of its start.
    pub fn spawn(&mut self, sys: &System, command: &str, until: Until) -> Result<u32, Error> {
        let words = split_words(command)?;
        if words.is_empty() {
            return Err(Error::new(Kind::Invalid, "the command is empty"));
        }
        let mut child = Child::spawn(&words)?;
        run_up_to(sys, &mut child, until)?;
        let pid = child.pid();
        self.children.push((child, None));
        Ok(pid)
    }

    /// Takes a running process as a target.
    pub fn grab(&mut self, pid: u32) -> Result<u32, Error> {
        let process = Process::grab(pid)?;
        // One that has ended, but whose parent has not asked how, is there and has nothing to trace.
        if !process.is_alive() {
            return Err(Error::new(Kind::Gone, format!("process {pid} has ended")));
        }
        self.processes.push(process);
        Ok(pid)
    }

    /// Takes a process as a target that has just started and that a signal is stopping; holds it at a point of its start.
    pub(crate) fn hold(&mut self, sys: &System, pid: u32, until: Until) -> Result<(), Error> {
        let process = Process::grab(pid)?;
        match Child::seize(sys, pid) {
            Ok(mut child) => {
                run_up_to(sys, &mut child, until)?;
                self.held.push(child);
            }
            Err(e) if e.kind() == Kind::Gone => return Err(e),
            // A debugger has it, or the system's policy forbids to hold it: then it stays stopped as it is.
            Err(_) => self.stopped.push(Process::grab(pid)?),
        }
        self.processes.push(process);
        Ok(())
    }

    /// Their process numbers.
    pub fn pids(&self) -> impl Iterator<Item = u32> + '_ {
        let children = self.children.iter().map(|(child, _)| child.pid());
        children.chain(self.processes.iter().map(Process::pid))
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.children.is_empty() && self.processes.is_empty()
    }

    /// Lets the commands run, and the processes that were waited for.
    pub fn release(&mut self) -> Result<(), Error> {
        self.children.iter_mut().try_for_each(|(child, _)| child.detach())?;
        self.let_go();
        Ok(())
    }

    fn let_go(&mut self) {
        // One that was killed meanwhile cannot be let go, and has ended; that is seen later.
        self.held.drain(..).for_each(drop);
        self.stopped.drain(..).for_each(|process| drop(process.signal(SIGCONT)));
    }

    /// Watches for the targets' end; tokens count up from `first`.
    pub(crate) fn watch(&self, poller: &Poller, first: u64) -> Result<(), Error> {
        let mut token = first;
        for (child, _) in &self.children {
            poller.add(child, token)?;
            token += 1;
        }
        for process in &self.processes {
            poller.add(process, token)?;
            token += 1;
        }
        Ok(())
    }

    /// Whether there were targets and all have ended.
    pub(crate) fn all_ended(&mut self) -> Result<bool, Error> {
        for (child, status) in &mut self.children {
            if status.is_none() {
                *status = child.try_wait()?;
            }
        }
        let ended = self.children.iter().all(|(_, s)| s.is_some()) && self.processes.iter().all(|p| !p.is_alive());
        Ok(!self.is_empty() && ended)
    }

    /// The exit status of the first command, if it has ended.
    pub fn status(&self) -> Option<ExitStatus> {
        self.children.first().and_then(|(_, status)| *status)
    }
}

impl Drop for Targets {
    fn drop(&mut self) {
        self.let_go();
        for (child, _) in self.children.iter_mut().filter(|(_, status)| status.is_none()) {
            // It may have ended meanwhile.
            let _ = child.kill();
        }
    }
}
