//! Writes what a session finds: the renderer, the output file, and when to stop.

use crate::args::{Args, Face, Format};
use crate::output::{Out, Sink, append, dress};
use anyhow::{Context as _, Result};
use probity::Consumer;
use probity::compiler::Options;
use probity::kernel::{self, Error, Poller, Signals};
use probity::output::{Aggregations, Context, Event, Json, Renderer, Style, Text};
use std::io::{self, Write};
use std::sync::Arc;

/// The consumer of the command.
pub struct Printer {
    renderer: Box<dyn Renderer>,
    out: Out,
    /// Set by the first signal.
    wake: Arc<kernel::Event>,
    /// The reader of our output has gone away.
    pub closed: bool,
}

/// Opens the output.
pub fn open(args: &Args, options: &Options) -> Result<Printer> {
    let dropin = args.face == Face::Dtrace;
    let mut style = if dropin { Style::dtrace() } else { Style::default() };
    // DTrace's own test suite sets this.
    style.group = thousands();
    style.anonymous = dropin && std::env::var_os("_DTRACE_TESTING").is_some();
    dress(&mut style, options);
    style.crossing = probity::crossing_providers();
    let renderer: Box<dyn Renderer> = match args.format {
        Format::Text => Box::new(Text::new(style)),
        Format::Json => Box::new(Json::new(style)),
    };
    let sink = match &args.output {
        Some(path) => append(path.as_bytes()).with_context(|| format!("failed to open output file '{path}'"))?,
        None => Sink::Stdout,
    };
    let wake = watch_signals().context("cannot wait for signals")?;
    Ok(Printer { renderer, out: Out::new(sink, options), wake, closed: false })
}

/// The first signal sets the event that is returned; a second one ends the process at once, whatever the other threads are stuck
/// in, be it a pipe that nobody reads. Nothing is left behind by that (G1).
fn watch_signals() -> Result<Arc<kernel::Event>, Error> {
    let signals = Signals::new(&[libc::SIGINT, libc::SIGTERM, libc::SIGHUP])?;
    let poller = Poller::new()?;
    poller.add(&signals, 0)?;
    let wake = Arc::new(kernel::Event::new()?);
    let first = wake.clone();
    let watch = move || {
        let mut ready = Vec::new();
        let mut seen = false;
        while poller.wait(None, &mut ready).is_ok() {
            while let Some(signal) = signals.take() {
                if seen {
                    std::process::exit(128 + signal);
                }
                seen = true;
                first.set();
            }
        }
    };
    let thread = std::thread::Builder::new().name("signals".into()).spawn(watch);
    thread.map_err(|e| Error::io(e, "cannot start the thread that watches for signals"))?;
    Ok(wake)
}

impl Printer {
    /// What becomes readable when a signal arrives.
    pub fn wake(&self) -> Arc<kernel::Event> {
        self.wake.clone()
    }

    /// Prints the aggregations that were not printed yet.
    pub fn finish(&mut self, cx: &Context<'_>, aggs: &mut Aggregations) -> Result<(), Error> {
        let result = self.renderer.finish(cx, aggs, &mut self.out).and_then(|()| self.out.packets(true));
        self.check(result)?;
        self.turn()
    }

    /// A closed pipe is no error: it ends the run quietly.
    fn check(&mut self, result: io::Result<()>) -> Result<(), Error> {
        match result {
            Ok(()) => Ok(()),
            Err(e) if e.kind() == io::ErrorKind::BrokenPipe => {
                self.closed = true;
                Ok(())
            }
            Err(e) => Err(Error::io(e, "cannot write the output")),
        }
    }
}

impl Consumer for Printer {
    fn event(&mut self, cx: &Context<'_>, event: &Event, aggs: &mut Aggregations) -> Result<(), Error> {
        if self.closed {
            return Ok(());
        }
        if !matches!(event, Event::Record(_)) {
            // What is said on the other stream should not overtake what was printed before it.
            let result = self.out.flush();
            self.check(result)?;
        }
        let result = self.renderer.event(cx, event, aggs, &mut self.out, &mut io::stderr());
        self.check(result)
    }

    fn turn(&mut self) -> Result<(), Error> {
        if self.closed {
            return Ok(());
        }
        let result = self.renderer.flush(&mut self.out);
        let result = result.and_then(|()| self.out.packets(false)).and_then(|()| self.out.flush());
        self.check(result)
    }

    fn interrupted(&mut self) -> bool {
        self.wake.take()
    }

    fn closed(&self) -> bool {
        self.closed
    }
}

/// What the user's language has between thousands, as far as it is known here; nothing in the C locale.
fn thousands() -> Option<char> {
    let set = |name| std::env::var(name).ok().filter(|v| !v.is_empty());
    let locale = set("LC_ALL").or_else(|| set("LC_NUMERIC")).or_else(|| set("LANG"))?;
    match locale.get(..2)? {
        "en" | "zh" | "ja" | "ko" | "th" | "he" => Some(','),
        "de" | "es" | "it" | "nl" | "id" | "tr" | "da" => Some('.'),
        _ => None,
    }
}
