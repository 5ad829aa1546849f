//! Captured packets: files that tshark and its kin read, and tshark itself, which shows them as they come.
//!
//! With `freopen()` in force packets go to that file in the pcap format. Otherwise tshark is started, if there is one, and what it
//! says is part of the output; without it packets are shown as bytes.

use probity::kernel::clock;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};

/// The pcap format with times in nanoseconds.
const MAGIC: u32 = 0xa1b2_3c4d;
/// What tshark runs as: packets come from strangers, and those who take them apart need no rights.
const NOBODY: u32 = 65_534;

/// By `PCAP_*` constant: the link type of pcap files.
fn link_type(proto: i64) -> u32 {
    match proto {
        // The constants are libpcap's numbers, of which this one is another in files.
        12 => 101,
        other => u32::try_from(other).unwrap_or(0),
    }
}

/// Where packets go.
pub struct Packets {
    most: u64,
    /// By name: each file, and the link type of its packets.
    files: HashMap<Vec<u8>, (File, u32)>,
    shark: Shark,
    /// What the clock that is on the wall is ahead of the one in records, ns.
    ahead: i64,
}

enum Shark {
    /// Nobody has asked for it.
    Unknown,
    /// It cannot be had.
    None,
    /// It runs and takes packets of one link type.
    Runs(Child, u32, Receiver<String>),
}

impl Packets {
    /// Packets of at most so many bytes.
    pub fn new(most: u64) -> Packets {
        Packets { most, files: HashMap::new(), shark: Shark::Unknown, ahead: clock::realtime_offset_ns() }
    }

    /// Takes a packet; whether it went anywhere.
    pub fn take(&mut self, file: Option<&[u8]>, time: u64, proto: i64, len: u32, data: &[u8]) -> Result<bool, String> {
        let link = link_type(proto);
        let time = (time as i64).wrapping_add(self.ahead) as u64;
        let packet = packet(time, len, data);
        let header = header(self.most, link);
        if let Some(name) = file {
            let text = String::from_utf8_lossy(name).into_owned();
            let why = |e: io::Error| format!("couldn't write packets to \"{text}\": {e}");
            let (to, theirs) = match self.files.entry(name.to_vec()) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(new) => {
                    let mut file = File::create(OsStr::from_bytes(name)).map_err(why)?;
                    file.write_all(&header).map_err(why)?;
                    new.insert((file, link))
                }
            };
            if *theirs != link {
                return Err(format!("\"{text}\" holds packets of another kind: use a file for each"));
            }
            return to.write_all(&packet).map(|()| true).map_err(why);
        }
        if matches!(self.shark, Shark::Unknown) {
            self.shark = start(link, &header).unwrap_or(Shark::None);
        }
        let Shark::Runs(child, theirs, _) = &mut self.shark else { return Ok(false) };
        if *theirs != link {
            return Ok(false);
        }
        let written = child.stdin.as_mut().is_some_and(|pipe| pipe.write_all(&packet).is_ok());
        if !written {
            self.shark = Shark::None;
        }
        Ok(written)
    }

    /// What tshark has said since the last call; at the `end`, all that it says.
    pub fn lines(&mut self, end: bool) -> Vec<String> {
        let Shark::Runs(child, _, said) = &mut self.shark else { return Vec::new() };
        if !end {
            return said.try_iter().collect();
        }
        // The end of its input is the end of tshark, and that of what it says.
        drop(child.stdin.take());
        let lines = said.iter().collect();
        let _ = child.wait();
        self.shark = Shark::None;
        lines
    }
}

/// Starts tshark; `None` where it does not start.
fn start(link: u32, header: &[u8]) -> Option<Shark> {
    let path = std::env::var_os("PATH")?;
    let program = std::env::split_paths(&path)
        .filter(|dir| !dir.as_os_str().is_empty())
        .map(|dir| dir.join("tshark"))
        .find(|file| file.is_file())?;
    let mut command = Command::new(program);
    command.args(["-l", "-i", "-"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.current_dir("/").env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").env("HOME", "/nonexistent");
    // An interrupt is for us: we end its input.
    command.process_group(0);
    if probity::kernel::process::own_ids().euid == 0 {
        command.uid(NOBODY).gid(NOBODY);
    }
    let mut child = command.spawn().ok()?;
    // It says that it captures before it does; one that cannot start ends instead.
    let mut word = [0];
    let says = child.stderr.as_mut().is_some_and(|err| matches!(err.read(&mut word), Ok(1)));
    let ready = says && child.stdin.as_mut().is_some_and(|pipe| pipe.write_all(header).is_ok());
    let (Some(out), Some(mut err), true) = (child.stdout.take(), child.stderr.take(), ready) else {
        drop(child.stdin.take());
        let _ = child.wait();
        return None;
    };
    let (say, said) = channel();
    std::thread::spawn(move || drop(io::copy(&mut err, &mut io::sink())));
    std::thread::spawn(move || {
        BufReader::new(out).lines().map_while(Result::ok).for_each(|line| {
            let _ = say.send(line);
        });
    });
    Some(Shark::Runs(child, link, said))
}

/// The head of a pcap file.
fn header(most: u64, link: u32) -> Vec<u8> {
    let mut out = MAGIC.to_ne_bytes().to_vec();
    out.extend(2u16.to_ne_bytes());
    out.extend(4u16.to_ne_bytes());
    out.extend([0; 8]);
    out.extend(u32::try_from(most).unwrap_or(u32::MAX).to_ne_bytes());
    out.extend(link.to_ne_bytes());
    out
}

/// A packet in such a file.
fn packet(time: u64, len: u32, data: &[u8]) -> Vec<u8> {
    let mut out = ((time / 1_000_000_000) as u32).to_ne_bytes().to_vec();
    out.extend(((time % 1_000_000_000) as u32).to_ne_bytes());
    out.extend((data.len() as u32).to_ne_bytes());
    out.extend(len.max(data.len() as u32).to_ne_bytes());
    out.extend(data);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_others_read() {
        let bytes = [header(96, link_type(12)), packet(3_000_000_007, 60, b"abc")].concat();
        assert_eq!(bytes[..4], MAGIC.to_ne_bytes());
        assert_eq!(bytes[16..20], 96u32.to_ne_bytes());
        assert_eq!(bytes[20..24], 101u32.to_ne_bytes());
        assert_eq!(bytes[24..40], [3u32, 7, 3, 60].map(u32::to_ne_bytes).concat());
        assert_eq!(&bytes[40..], b"abc");
    }
}
