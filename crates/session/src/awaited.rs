//! Waiting for processes to start (`-W`): a question of our own, which stops what has one of the names at its exec.
//!
//! The signal that stops such a process is sent in its own exec, so nothing of the new program has run. Then it is held by ptrace
//! instead, so that it runs on when we are killed; only between the two could it be left stopped.

use crate::live::{Consumer, start};
use crate::symbols::SystemSymbols;
use crate::target::{Targets, Until};
use probity_compiler::{Input, Options, Source};
use probity_kernel::process::Process;
use probity_kernel::{Error, Kind, System};
use probity_output::{Aggregations, Context, Event, Item};
use probity_syntax::{Macros, Origin};
use std::fmt::Write;

/// As much of a name as the kernel keeps with a thread.
const COMM: usize = 15;

impl Targets {
    /// Waits until a process of each of the names has started, and holds them at a point of their start; calls `ready` when none can
    /// be missed any more. A name that is given twice is waited for twice. Returns their numbers in the order of the names.
    pub fn wait_for(
        &mut self,
        sys: &System,
        names: &[String],
        until: Until,
        ready: impl FnOnce(),
    ) -> Result<Vec<u32>, Error> {
        let mut options = Options { destructive: true, quiet: true, nolibs: true, ..Options::default() };
        // What is stopped should not be so for long.
        options.switchrate = 5_000_000;
        let mut unique: Vec<&String> = names.iter().collect();
        unique.sort();
        unique.dedup();
        let text = question(&unique, names);
        let args = [String::from("-W")].into_iter().chain(unique.iter().map(|name| kept(name).into())).collect();
        let input = Input {
            sources: vec![Source { origin: Origin::Flag('W'), text }],
            macros: Macros { args, ..Macros::default() },
            options,
            libraries: Vec::new(),
        };
        let (compiled, _, diagnostics) = crate::compile(sys, &input);
        let compiled = compiled.ok_or_else(|| {
            let why = diagnostics.iter().find(|d| d.is_error()).map_or(String::new(), |d| d.message.clone());
            Error::new(Kind::Invalid, format!("the start of processes cannot be watched: {why}"))
        })?;
        let symbols = SystemSymbols::new(sys, false);
        let mut session = start(sys, &compiled, &symbols)?;
        let found = names.iter().map(|name| (name.clone(), None)).collect();
        let mut waiter = Waiter { sys, targets: self, until, unique, found };
        session.begin(&mut waiter)?;
        ready();
        session.run(&mut waiter, &mut Targets::default(), None)?;
        session.stop(&mut waiter)?;
        Ok(waiter.found.into_iter().filter_map(|(_, pid)| pid).collect())
    }
}

/// A clause for each name: it stops as many processes as are waited for, and tells which.
fn question(unique: &[&String], names: &[String]) -> String {
    let mut text = String::new();
    for (i, name) in unique.iter().enumerate() {
        let (n, count) = (i + 1, names.iter().filter(|other| other == name).count());
        // The rest of a long name is compared by the consumer, which must see all that begin like it.
        let condition = match kept(name).len() {
            len if len < name.len() => format!("substr(execname, 0, {len}) == $${n}"),
            _ => format!("execname == $${n} && seen{n} < {count}"),
        };
        let _ = writeln!(text, "proc:::exec-success /{condition}/ {{ seen{n}++; stop(); trace({i}); trace(pid); }}");
    }
    text
}

/// The part of a name that the kernel keeps.
fn kept(name: &str) -> &str {
    let mut end = name.len().min(COMM);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    &name[..end]
}

/// Receives what has started.
struct Waiter<'a> {
    sys: &'a System,
    targets: &'a mut Targets,
    until: Until,
    unique: Vec<&'a String>,
    /// The names, and which process each is.
    found: Vec<(String, Option<u32>)>,
}

impl Waiter<'_> {
    fn started(&mut self, pid: u32, name: &str) -> Result<(), Error> {
        let wanted = self.found.iter_mut().find(|(other, found)| other == name && found.is_none());
        if let Some((_, found)) = wanted
            && (name.len() <= COMM || self.sys.executed(pid).is_some_and(|executed| executed == name.as_bytes()))
        {
            *found = Some(pid);
            return self.targets.hold(self.sys, pid, self.until);
        }
        // Another one: it runs on.
        Process::grab(pid).and_then(|process| process.signal(crate::target::SIGCONT)).or_else(|e| match e.kind() {
            Kind::Gone | Kind::NotFound => Ok(()),
            _ => Err(e),
        })
    }
}

impl Consumer for Waiter<'_> {
    fn event(&mut self, _: &Context<'_>, event: &Event, _: &mut Aggregations) -> Result<(), Error> {
        match event {
            Event::Record(record) => {
                let numbers: Vec<i64> = record.items.iter().filter_map(number).collect();
                let [name, pid] = numbers[..] else { return Ok(()) };
                match self.unique.get(name as usize).copied() {
                    Some(name) => self.started(pid as u32, name),
                    None => Ok(()),
                }
            }
            Event::Fault(_) => {
                Err(Error::new(Kind::Invalid, "a process of that name has started and could not be held"))
            }
            Event::Error(text) => Err(Error::new(Kind::Invalid, text.clone())),
            _ => Ok(()),
        }
    }

    fn turn(&mut self) -> Result<(), Error> {
        Ok(())
    }

    fn interrupted(&mut self) -> bool {
        false
    }

    fn closed(&self) -> bool {
        self.found.iter().all(|(_, pid)| pid.is_some())
    }
}

fn number(item: &Item) -> Option<i64> {
    match item {
        Item::Trace(value) => Some(value.int()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_are_cut_between_characters() {
        assert_eq!(kept("sleep"), "sleep");
        assert_eq!(kept("exactly-fifteen"), "exactly-fifteen");
        assert_eq!(kept("more-than-fifteen"), "more-than-fifte");
        assert_eq!(kept("fourteen-bytesö"), "fourteen-bytes");
    }
}
