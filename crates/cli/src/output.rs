//! Where the answer goes: the file or stream that is the output now, the commands that a program runs in between, the options
//! that it sets, and the packets that it captures.

use crate::packets::Packets;
use probity::compiler::Options;
use probity::compiler::options::{self, OptionError};
use probity::output::{Deed, Output, Style};
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufWriter, Seek, Write};
use std::os::unix::ffi::OsStrExt;
use std::process::Command;

/// The output and what is done with it.
pub struct Out {
    /// Where it goes now.
    now: BufWriter<Sink>,
    /// Where it went at first, while it goes elsewhere.
    first: Option<Sink>,
    options: Options,
    packets: Packets,
}

/// A place to write to.
pub enum Sink {
    /// Standard output.
    Stdout,
    /// A file, and its name.
    File(File, Vec<u8>),
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Sink::Stdout => io::stdout().write(bytes),
            Sink::File(file, _) => file.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Sink::Stdout => io::stdout().flush(),
            Sink::File(file, _) => file.flush(),
        }
    }
}

/// Opens a file as output is: what it holds stays.
pub fn append(name: &[u8]) -> io::Result<Sink> {
    let file = File::options().append(true).create(true).open(OsStr::from_bytes(name))?;
    Ok(Sink::File(file, name.to_vec()))
}

impl Out {
    /// Output that goes to `sink` at first.
    pub fn new(sink: Sink, options: &Options) -> Out {
        let packets = Packets::new(options.pcapsize);
        Out { now: BufWriter::with_capacity(1 << 16, sink), first: None, options: options.clone(), packets }
    }

    /// Writes what has come in from the program that shows packets; `end` waits for it to end.
    pub fn packets(&mut self, end: bool) -> io::Result<()> {
        let lines = self.packets.lines(end);
        lines.iter().try_for_each(|line| writeln!(self.now, "pcap \t{line}"))
    }

    fn system(&mut self, command: &[u8]) -> Result<bool, String> {
        let text = String::from_utf8_lossy(command).into_owned();
        let why = |e: io::Error| format!("couldn't run {text:?}: {e}");
        let status = Command::new("/bin/sh").arg("-c").arg(OsStr::from_bytes(command)).status();
        status.map(|_| true).map_err(why)
    }

    fn freopen(&mut self, name: &[u8]) -> Result<bool, String> {
        let next = if name.is_empty() {
            match self.first.take() {
                Some(first) => first,
                None => return Ok(true),
            }
        } else {
            let text = String::from_utf8_lossy(name).into_owned();
            append(name).map_err(|e| format!("couldn't freopen() \"{text}\": {}", plain(&e)))?
        };
        let before = std::mem::replace(&mut self.now, BufWriter::with_capacity(1 << 16, next));
        if !name.is_empty() && self.first.is_none() {
            self.first = before.into_inner().ok();
        }
        Ok(true)
    }

    fn truncate(&mut self) -> Result<bool, String> {
        let why = |e: io::Error| format!("couldn't ftruncate() output: {}", plain(&e));
        match self.now.get_mut() {
            Sink::File(file, _) => file.set_len(0).and_then(|()| file.rewind()).map(|()| true).map_err(why),
            // A terminal or a pipe holds nothing; a file that the shell opened does.
            Sink::Stdout => {
                let stdout = io::stdout();
                let copy = std::os::fd::AsFd::as_fd(&stdout).try_clone_to_owned().map_err(why)?;
                let mut file = File::from(copy);
                if file.metadata().map_err(why)?.is_file() {
                    file.set_len(0).and_then(|()| file.rewind()).map_err(why)?;
                }
                Ok(true)
            }
        }
    }

    fn setopt(&mut self, name: &str, value: Option<&str>, style: &mut Style) -> Result<bool, String> {
        let shown = value.unwrap_or("1");
        let fail = |why: &str| Err(format!("couldn't set option \"{name}\" to \"{shown}\": {why}"));
        let Some(doc) = options::find(name) else { return fail("Invalid option name") };
        if !doc.dynamic {
            return fail("Operation illegal when tracing is active");
        }
        match self.options.set(name, value) {
            Ok(()) => {
                dress(style, &self.options);
                Ok(true)
            }
            Err(OptionError::Name(_)) => fail("Invalid option name"),
            Err(_) => fail("Invalid value for specified option"),
        }
    }
}

/// Gives a style what the options say of it.
pub fn dress(style: &mut Style, options: &Options) {
    style.quiet = options.quiet;
    style.flowindent = options.flowindent;
    style.rawbytes = options.rawbytes;
    style.strsize = options.strsize.min(1 << 20) as usize;
    style.printsize = options.printsize;
    style.agghist = options.agghist;
    style.aggpack = options.aggpack;
    style.aggzoom = options.aggzoom;
    style.droptags = options.droptags;
    style.stackindent = options.stackindent.min(1 << 10) as usize;
    style.noresolve = options.noresolve;
    style.sort.key = options.aggsortkey;
    style.sort.keypos = options.aggsortkeypos as u32;
    style.sort.pos = options.aggsortpos as u32;
    style.sort.reverse = options.aggsortrev;
}

/// An error of the system without its number.
fn plain(e: &io::Error) -> String {
    let text = e.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_string()
}

impl Write for Out {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.now.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.now.flush()
    }
}

impl Output for Out {
    fn deed(&mut self, deed: Deed<'_>, style: &mut Style) -> Result<bool, String> {
        self.now.flush().map_err(|e| format!("cannot write the output: {e}"))?;
        match deed {
            Deed::System(command) => self.system(command),
            Deed::Freopen(name) => self.freopen(name),
            Deed::Ftruncate => self.truncate(),
            Deed::Setopt { name, value } => self.setopt(name, value, style),
            Deed::Packet { time, proto, len, data } => {
                let file = match (self.now.get_ref(), &self.first) {
                    (Sink::File(_, name), Some(_)) => Some(name.clone()),
                    _ => None,
                };
                self.packets.take(file.as_deref(), time, proto, len, data)
            }
        }
    }
}
