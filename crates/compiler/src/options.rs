//! The options of `-x` and `#pragma D option`: names, values, defaults and what each does. Owns their syntax; leaves their
//! effect to those who read the fields of [`Options`].

use probity_syntax::attributes::Attributes;

/// The values of all options that have an effect.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Options {
    pub agghist: bool,
    pub aggpack: bool,
    pub aggpercpu: bool,
    pub aggrate: u64,
    pub aggsize: u64,
    pub aggsortkey: bool,
    pub aggsortkeypos: u64,
    pub aggsortpos: u64,
    pub aggsortrev: bool,
    pub aggzoom: bool,
    pub amin: Option<Attributes>,
    pub argref: bool,
    pub bufpolicy: String,
    pub bufresize: String,
    pub quietresize: Option<bool>,
    pub bufsize: u64,
    pub cleanrate: u64,
    pub cpp: bool,
    pub cppargs: Vec<String>,
    pub cpppath: String,
    pub cpu: Option<u64>,
    pub defaultargs: bool,
    pub destructive: bool,
    pub droptags: bool,
    pub dynvarsize: u64,
    pub empty: bool,
    pub errtags: bool,
    pub evaltime: String,
    pub flowindent: bool,
    pub jstackframes: Option<u64>,
    pub jstackstrsize: u64,
    pub libdirs: Vec<String>,
    pub maxframes: Option<u64>,
    pub nolibs: bool,
    pub noresolve: bool,
    pub nspec: u64,
    pub pcapsize: u64,
    pub printsize: u64,
    pub quiet: bool,
    pub rawbytes: bool,
    pub scratchsize: u64,
    pub specsize: u64,
    pub stackframes: u64,
    pub stackindent: u64,
    pub stdc: String,
    pub statusrate: u64,
    pub strsize: u64,
    pub switchrate: u64,
    pub temporal: bool,
    pub ustackframes: u64,
    pub verbose: bool,
    /// No option: set by the drop-in, to compute as DTrace does where C does otherwise.
    pub dropin: bool,
    pub zdefs: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            agghist: false,
            aggpack: false,
            aggpercpu: false,
            aggrate: 1_000_000_000,
            aggsize: 4 << 20,
            aggsortkey: false,
            aggsortkeypos: 0,
            aggsortpos: 0,
            aggsortrev: false,
            aggzoom: false,
            argref: false,
            bufpolicy: "switch".into(),
            bufresize: "auto".into(),
            quietresize: None,
            bufsize: 4 << 20,
            cleanrate: 9_900_990,
            cpp: false,
            cppargs: Vec::new(),
            cpppath: String::new(),
            cpu: None,
            defaultargs: false,
            destructive: false,
            droptags: false,
            dynvarsize: 1 << 20,
            empty: false,
            errtags: false,
            evaltime: String::new(),
            flowindent: false,
            jstackframes: None,
            jstackstrsize: 512,
            amin: None,
            libdirs: Vec::new(),
            nolibs: false,
            maxframes: None,
            noresolve: false,
            nspec: 1,
            pcapsize: 1520,
            printsize: 8192,
            quiet: false,
            rawbytes: false,
            scratchsize: 4096,
            specsize: 4 << 20,
            stackframes: 20,
            stackindent: 14,
            stdc: String::new(),
            statusrate: 1_000_000_000,
            strsize: 256,
            switchrate: 1_000_000_000,
            temporal: false,
            ustackframes: 100,
            verbose: false,
            dropin: false,
            zdefs: false,
        }
    }
}

/// How the value of an option is written, and where it goes.
pub enum Slot {
    /// `on`, `off`, a number; no value means on.
    Flag(fn(&mut Options) -> &mut bool),
    /// As `Flag`; unset is another state.
    Tristate(fn(&mut Options) -> &mut Option<bool>),
    /// A number that is not negative.
    Number(fn(&mut Options) -> &mut u64),
    /// A number from 1; unset means the default.
    Limit(fn(&mut Options) -> &mut Option<u64>),
    /// A CPU's number; unset means all.
    Cpu(fn(&mut Options) -> &mut Option<u64>),
    /// Bytes, with a suffix `k`, `m`, `g` or `t`; at least the second value.
    Size(fn(&mut Options) -> &mut u64, u64),
    /// An interval (`10ms`) or a frequency (`100hz`), kept in nanoseconds.
    Rate(fn(&mut Options) -> &mut u64),
    /// Text.
    Text(fn(&mut Options) -> &mut String),
    /// One word of several.
    Word(fn(&mut Options) -> &mut String, &'static [&'static str]),
    /// A preprocessor flag, kept with this in front.
    Cpp(&'static str),
    /// A directory of D libraries.
    Library,
    /// Attributes: two stabilities and a class.
    Attributes(fn(&mut Options) -> &mut Option<Attributes>),
    /// Accepted with any value, for scripts that set it.
    Ignored,
    /// Accepted with one of these values, for scripts that set it.
    IgnoredWord(&'static [&'static str]),
    /// Refused: what to do instead.
    Refused(&'static str),
}

/// One option.
pub struct OptionDoc {
    /// Its name.
    pub name: &'static str,
    /// Its value.
    pub slot: Slot,
    /// The default as one would write it; empty where there is none.
    pub default: &'static str,
    /// What it does, in one line.
    pub doc: &'static str,
    /// Whether a program may set it while it runs (`setopt`).
    pub dynamic: bool,
}

const fn opt(name: &'static str, slot: Slot, default: &'static str, doc: &'static str) -> OptionDoc {
    OptionDoc { name, slot, default, doc, dynamic: false }
}

const fn dynamic(name: &'static str, slot: Slot, default: &'static str, doc: &'static str) -> OptionDoc {
    OptionDoc { name, slot, default, doc, dynamic: true }
}

/// Every option, sorted by name.
#[rustfmt::skip]
pub static OPTIONS: &[OptionDoc] = &[
    dynamic("agghist", Slot::Flag(|o| &mut o.agghist), "off", "print aggregations of numbers as a bar for each key"),
    dynamic("aggpack", Slot::Flag(|o| &mut o.aggpack), "off", "print each key's distribution in one line"),
    opt("aggpercpu", Slot::Flag(|o| &mut o.aggpercpu), "off", "print aggregations for each CPU too"),
    dynamic("aggrate", Slot::Rate(|o| &mut o.aggrate), "1hz", "accepted; aggregations are read when they are printed"),
    opt("aggsize", Slot::Size(|o| &mut o.aggsize, 1), "4m", "room for an aggregation's keys and values"),
    dynamic("aggsortkey", Slot::Flag(|o| &mut o.aggsortkey), "off", "sort aggregations by key, not by value"),
    dynamic("aggsortkeypos", Slot::Number(|o| &mut o.aggsortkeypos), "0", "which member of the key to sort by first"),
    dynamic("aggsortpos", Slot::Number(|o| &mut o.aggsortpos), "0", "which of several aggregations printa() sorts by"),
    dynamic("aggsortrev", Slot::Flag(|o| &mut o.aggsortrev), "off", "sort aggregations in descending order"),
    dynamic("aggzoom", Slot::Flag(|o| &mut o.aggzoom), "off", "scale bars by the longest, not by the sum"),
    opt("amin", Slot::Attributes(|o| &mut o.amin), "", "the least attributes of a clause, such as Evolving/Evolving/Common"),
    opt("argref", Slot::Flag(|o| &mut o.argref), "off", "do not ask that all script arguments be used"),
    opt("bpflog", Slot::Ignored, "", "accepted for DTrace's scripts; -v shows the verifier's log"),
    opt("bpflogsize", Slot::Ignored, "", "accepted; the verifier's log is as long as it is"),
    opt("btfpath", Slot::Ignored, "", "accepted; BTF comes from /sys/kernel/btf"),
    opt("bufpolicy", Slot::Word(|o| &mut o.bufpolicy, &["switch", "ring", "fill"]), "switch",
        "what happens when a CPU's buffer is full: records are read in time (`switch`), tracing ends (`fill`), or the oldest go (`ring`)"),
    opt("bufresize", Slot::Word(|o| &mut o.bufresize, &["auto", "manual"]), "auto",
        "sizes that are too large are lowered (`auto`) or refused (`manual`)"),
    opt("bufsize", Slot::Size(|o| &mut o.bufsize, 1), "4m", "size of each CPU's ring of records"),
    opt("cleanrate", Slot::Rate(|o| &mut o.cleanrate), "101hz",
        "accepted; a speculation's id is free again as soon as it is committed or discarded"),
    opt("core", Slot::Ignored, "", "accepted; nothing dumps core here"),
    opt("cpp", Slot::Flag(|o| &mut o.cpp), "off", "run the C preprocessor first (-C)"),
    opt("cppargs", Slot::Cpp(""), "", "a flag for the preprocessor"),
    opt("cpphdrs", Slot::Cpp("-H"), "", "let the preprocessor print the names of included files (-H)"),
    opt("cpppath", Slot::Text(|o| &mut o.cpppath), "", "the preprocessor to run"),
    opt("cpu", Slot::Cpu(|o| &mut o.cpu), "", "trace this CPU only"),
    opt("ctfpath", Slot::Ignored, "", "accepted; types come from BTF and DWARF, not from CTF"),
    opt("ctypes", Slot::Ignored, "", "accepted; no CTF is made that could be written"),
    opt("debug", Slot::Ignored, "", "accepted; -v tells how things are done"),
    opt("debugassert", Slot::Ignored, "", "accepted; assertions are a matter of the build"),
    opt("defaultargs", Slot::Flag(|o| &mut o.defaultargs), "off", "missing script arguments are 0 or \"\""),
    opt("define", Slot::Cpp("-D"), "", "define a preprocessor macro (-D)"),
    opt("demangled", Slot::Refused("names are shown as the face has it: demangled by probity, as files have them by dtrace"), "", "refused: names are shown as the face has it"),
    opt("destructive", Slot::Flag(|o| &mut o.destructive), "off", "allow destructive actions (-w)"),
    opt("disasm", Slot::Ignored, "", "accepted; -S lists the programs that are loaded"),
    opt("dofstashpath", Slot::Ignored, "", "accepted; USDT probes are read from ELF notes, not from a daemon's files"),
    opt("droptags", Slot::Flag(|o| &mut o.droptags), "off", "print the tag of each kind of drop"),
    opt("dtypes", Slot::Ignored, "", "accepted; no CTF is made that could be written"),
    opt("dynvarsize", Slot::Size(|o| &mut o.dynvarsize, 1), "1m", "room for associative arrays"),
    opt("empty", Slot::Flag(|o| &mut o.empty), "off", "allow a source text without anything in it"),
    opt("errtags", Slot::Flag(|o| &mut o.errtags), "off", "print the tag of each error"),
    opt("evaltime", Slot::Word(|o| &mut o.evaltime, &["exec", "preinit", "postinit", "main"]), "main",
        "when tracing starts in a process that -c makes"),
    dynamic("flowindent", Slot::Flag(|o| &mut o.flowindent), "off", "indent by entry and return (-F)"),
    opt("grabanon", Slot::Refused("anonymous tracing needs a tracer in the kernel before there are processes: start probity early instead"),
        "", "refused: there is no anonymous tracing"),
    opt("incdir", Slot::Cpp("-I"), "", "a directory for the preprocessor (-I)"),
    opt("iregs", Slot::Ignored, "", "accepted; registers are allocated by the compiler"),
    opt("jstackframes", Slot::Limit(|o| &mut o.jstackframes), "", "frames of jstack(); as `ustackframes` where it is not set"),
    opt("jstackstrsize", Slot::Number(|o| &mut o.jstackstrsize), "512", "kept as jstack()'s `strsz`; names need no room here"),
    opt("kdefs", Slot::Ignored, "", "accepted; kernel symbols are looked up when they are used"),
    opt("knodefs", Slot::Ignored, "", "accepted; kernel symbols are looked up when they are used"),
    opt("late", Slot::IgnoredWord(&["dynamic", "static"]), "", "accepted; processes are watched from their start"),
    opt("lazyload", Slot::Ignored, "", "accepted; nothing is loaded before it is needed"),
    opt("ldpath", Slot::Ignored, "", "accepted; no linker is run"),
    opt("libdir", Slot::Library, "", "a directory of D libraries to be read besides the built-in ones (-L)"),
    opt("linkmode", Slot::IgnoredWord(&["kernel", "primary", "dynamic", "static"]), "kernel", "accepted; kernel symbols are looked up when they are used"),
    opt("linknommap", Slot::Ignored, "", "accepted; no linker is run"),
    opt("linktype", Slot::IgnoredWord(&["elf", "dof"]), "", "accepted; no linker is run"),
    opt("lockmem", Slot::Ignored, "", "accepted; since Linux 5.11 BPF memory is not limited by locked memory"),
    opt("mangled", Slot::Refused("names are shown as the face has it: demangled by probity, as files have them by dtrace"), "", "refused: names are shown as the face has it"),
    opt("maxframes", Slot::Limit(|o| &mut o.maxframes), "", "most frames of a stack; kernel.perf_event_max_stack where it is not set"),
    opt("modpath", Slot::Ignored, "", "accepted; modules' types come from /sys/kernel/btf"),
    opt("nojtanalysis", Slot::Refused("jump tables need no analysis: only instructions that are known to be safe are probed"), "", "refused: jump tables need no analysis"),
    opt("nolibs", Slot::Flag(|o| &mut o.nolibs), "off", "use no D library"),
    opt("noresolve", Slot::Flag(|o| &mut o.noresolve), "off", "print user addresses as `file:0xoffset`, not as symbols"),
    opt("nspec", Slot::Number(|o| &mut o.nspec), "1", "number of speculations at a time"),
    opt("nusdtprobes", Slot::Ignored, "", "accepted; the number of USDT probes has no limit"),
    opt("oformat", Slot::Refused("use --format json for output that programs read"), "", "refused: see --format"),
    opt("pcapsize", Slot::Size(|o| &mut o.pcapsize, 0), "1520", "bytes of a packet that pcap() records"),
    opt("pgmax", Slot::Ignored, "", "accepted; the number of traced processes has no limit"),
    opt("preallocate", Slot::Ignored, "", "accepted; maps grow as they are used"),
    dynamic("printsize", Slot::Size(|o| &mut o.printsize, 0), "8k", "how many bytes of a value print() shows"),
    opt("procfspath", Slot::Ignored, "", "accepted; /proc is where it always is"),
    opt("pspec", Slot::Ignored, "", "accepted; a text is a script, or what its flag says"),
    dynamic("quiet", Slot::Flag(|o| &mut o.quiet), "off", "print only what the program prints (-q)"),
    dynamic("quietresize", Slot::Tristate(|o| &mut o.quietresize), "", "do not tell which sizes were lowered"),
    dynamic("rawbytes", Slot::Flag(|o| &mut o.rawbytes), "off", "print traced bytes always in hexadecimal"),
    opt("scratchsize", Slot::Size(|o| &mut o.scratchsize, 1), "4k", "memory that copyin() may use in one firing"),
    opt("specsize", Slot::Size(|o| &mut o.specsize, 0), "4m", "bytes of records that a speculation holds"),
    opt("stackframes", Slot::Number(|o| &mut o.stackframes), "20", "frames of stack()"),
    dynamic("stackindent", Slot::Number(|o| &mut o.stackindent), "14", "columns that stacks are indented by"),
    opt("statusrate", Slot::Rate(|o| &mut o.statusrate), "1hz",
        "how often drops are reported; slower than 1hz also how often exit() is looked for"),
    opt("stdc", Slot::Word(|o| &mut o.stdc, &["a", "c", "s", "t"]), "a", "the C standard of the preprocessor (-X)"),
    opt("strip", Slot::Ignored, "", "accepted; no linker is run"),
    opt("strsize", Slot::Size(|o| &mut o.strsize, 2), "256", "size of strings, their NUL included"),
    dynamic("switchrate", Slot::Rate(|o| &mut o.switchrate), "1hz",
        "the longest time until a record is printed; slower than 1hz also the shortest"),
    opt("syslibdir", Slot::Ignored, "", "accepted; DTrace's libraries are part of the binary (-L adds others)"),
    opt("sysslice", Slot::Ignored, "", "accepted; processes are told apart by themselves, not by their cgroup"),
    dynamic("temporal", Slot::Flag(|o| &mut o.temporal), "off", "accepted; records of all CPUs are printed in order of time anyway"),
    opt("tree", Slot::Ignored, "", "accepted; the parse tree is not shown"),
    opt("tregs", Slot::Ignored, "", "accepted; keys are put together in memory"),
    opt("udefs", Slot::Ignored, "", "accepted; user symbols are looked up when they are used"),
    opt("undef", Slot::Cpp("-U"), "", "undefine a preprocessor macro (-U)"),
    opt("unodefs", Slot::Ignored, "", "accepted; user symbols are looked up when they are used"),
    opt("unresolved", Slot::Refused("use noresolve to see addresses as numbers"), "", "refused: use noresolve to see addresses as numbers"),
    opt("useruid", Slot::Ignored, "", "accepted; users are told apart by their processes"),
    opt("ustackframes", Slot::Number(|o| &mut o.ustackframes), "100", "frames of ustack()"),
    opt("verbose", Slot::Flag(|o| &mut o.verbose), "off", "tell how things are done (-v)"),
    opt("version", Slot::Refused("the version cannot be chosen"), "", "refused"),
    opt("zdefs", Slot::Flag(|o| &mut o.zdefs), "off", "allow descriptions that match no probe (-Z)"),
    opt("zone", Slot::Refused("Linux has no zones: test a namespace or a cgroup in a predicate"), "", "refused: Linux has no zones"),
];

/// Why an option was not set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OptionError {
    /// There is no such option; the nearest name, if one is near.
    Name(Option<&'static str>),
    /// The value is wrong; what is expected.
    Value(String),
    /// The option cannot be set; why.
    Refused(&'static str),
}

impl OptionError {
    /// The error as DTrace words it.
    pub fn dtrace(&self) -> &'static str {
        match self {
            OptionError::Name(_) => "Invalid option name",
            OptionError::Value(_) => "Invalid value for specified option",
            OptionError::Refused(_) => "Operation not supported",
        }
    }
}

/// The option of that name.
pub fn find(name: &str) -> Option<&'static OptionDoc> {
    OPTIONS.iter().find(|o| o.name == name)
}

impl Options {
    /// Sets an option from its text.
    pub fn set(&mut self, name: &str, value: Option<&str>) -> Result<(), OptionError> {
        let Some(doc) = find(name) else {
            return Err(OptionError::Name(probity_syntax::near(name, OPTIONS.iter().map(|o| o.name))));
        };
        let wrong = |what: &str| OptionError::Value(what.to_string());
        let needed = || value.filter(|v| !v.is_empty());
        match &doc.slot {
            Slot::Flag(field) => {
                *field(self) = number(value.unwrap_or("on")).ok_or_else(|| wrong("`on` or `off`"))? != 0;
            }
            Slot::Tristate(field) => {
                let on = number(value.unwrap_or("on")).ok_or_else(|| wrong("`on` or `off`"))? != 0;
                *field(self) = Some(on);
            }
            Slot::Number(field) => {
                let n = number(value.unwrap_or("0")).ok_or_else(|| wrong("a number that is not negative"))?;
                if n > most(name) {
                    return Err(wrong(&format!("at most {}", most(name))));
                }
                *field(self) = n;
            }
            Slot::Limit(field) => {
                let n = needed().and_then(number).filter(|&n| n > 0);
                *field(self) = Some(n.ok_or_else(|| wrong("a number from 1"))?);
            }
            Slot::Cpu(field) => {
                *field(self) = match needed() {
                    Some(text) => Some(number(text).ok_or_else(|| wrong("a CPU's number"))?),
                    None => None,
                };
            }
            Slot::Size(field, least) => {
                let what = "a size, such as `512k` or `4m`";
                let size = needed().and_then(size).ok_or_else(|| wrong(what))?;
                if size < *least {
                    return Err(wrong(&format!("at least {least} bytes")));
                }
                if size > most(name) {
                    return Err(wrong(&format!("at most {} bytes", most(name))));
                }
                *field(self) = size;
            }
            Slot::Rate(field) => {
                let what = "a rate, such as `10hz` or `100ms`";
                *field(self) = needed().and_then(rate).ok_or_else(|| wrong(what))?;
            }
            Slot::Text(field) => *field(self) = value.unwrap_or("").to_string(),
            Slot::Word(field, words) => {
                let text = value.unwrap_or("");
                if !words.contains(&text) {
                    return Err(wrong(&format!("one of `{}`", words.join("`, `"))));
                }
                *field(self) = text.to_string();
            }
            Slot::Cpp(flag) => {
                let text = value.unwrap_or("");
                match *flag {
                    "" => self.cppargs.extend(text.split_whitespace().map(str::to_string)),
                    flag => self.cppargs.push(format!("{flag}{text}")),
                }
            }
            Slot::Attributes(field) => {
                let what = "two stabilities and a class, such as `Stable/Stable/Common`";
                *field(self) = Some(Attributes::parse(value.unwrap_or("")).ok_or_else(|| wrong(what))?);
            }
            Slot::Library => self.libdirs.push(value.unwrap_or("").to_string()),
            Slot::Ignored => {}
            Slot::IgnoredWord(words) => {
                if !words.contains(&value.unwrap_or("")) {
                    return Err(wrong(&format!("one of `{}`", words.join("`, `"))));
                }
            }
            Slot::Refused(why) => return Err(OptionError::Refused(why)),
        }
        Ok(())
    }
}

/// The most that an option can be, where what it is used for has a limit.
fn most(name: &str) -> u64 {
    match name {
        "strsize" => 1 << 20,
        "nspec" => probity_ir::MAX_SPECULATIONS.into(),
        "pcapsize" => 65_535 + 1,
        _ => u64::MAX,
    }
}

/// DTrace's words for on and off, or a C number. No text is off, as it is for DTrace.
fn number(text: &str) -> Option<u64> {
    match text.to_ascii_lowercase().as_str() {
        "yes" | "enable" | "enabled" | "true" | "on" | "set" => Some(1),
        "" | "no" | "disable" | "disabled" | "false" | "off" | "unset" => Some(0),
        lower => c_number(lower),
    }
}

/// A C integer constant that is not negative.
fn c_number(text: &str) -> Option<u64> {
    let (digits, radix) = match text.strip_prefix("0x") {
        Some(hex) => (hex, 16),
        None if text.len() > 1 && text.starts_with('0') => (&text[1..], 8),
        None => (text, 10),
    };
    // `from_str_radix` takes a sign; an option does not.
    digits.bytes().all(|b| b.is_ascii_alphanumeric()).then(|| u64::from_str_radix(digits, radix).ok()).flatten()
}

fn split_suffix(text: &str) -> (String, String) {
    let lower = text.to_ascii_lowercase();
    let hex = lower.starts_with("0x");
    let at = lower
        .char_indices()
        .skip(if hex { 2 } else { 0 })
        .find(|(_, c)| if hex { !c.is_ascii_hexdigit() } else { !c.is_ascii_digit() })
        .map_or(lower.len(), |(i, _)| i);
    (lower[..at].to_string(), lower[at..].to_string())
}

fn size(text: &str) -> Option<u64> {
    let (digits, suffix) = split_suffix(text);
    let shift = match suffix.as_str() {
        "" => 0,
        "k" => 10,
        "m" => 20,
        "g" => 30,
        "t" => 40,
        _ => return None,
    };
    c_number(&digits)?.checked_mul(1 << shift).filter(|&n| i64::try_from(n).is_ok())
}

fn rate(text: &str) -> Option<u64> {
    let (digits, suffix) = split_suffix(text);
    let n = c_number(&digits)?;
    let unit = match suffix.as_str() {
        "" | "ns" | "nsec" => 1,
        "us" | "usec" => 1_000,
        "ms" | "msec" => 1_000_000,
        "s" | "sec" => 1_000_000_000,
        "m" | "min" => 60_000_000_000,
        "h" | "hour" => 3_600_000_000_000,
        "d" | "day" => 86_400_000_000_000,
        "hz" => return Some(1_000_000_000u64.checked_div(n).unwrap_or(0)),
        _ => return None,
    };
    n.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values() {
        let mut o = Options::default();
        o.set("quiet", None).unwrap();
        assert!(o.quiet);
        o.set("quiet", Some("off")).unwrap();
        assert!(!o.quiet);
        o.set("bufsize", Some("512K")).unwrap();
        assert_eq!(o.bufsize, 512 << 10);
        o.set("switchrate", Some("100hz")).unwrap();
        assert_eq!(o.switchrate, 10_000_000);
        o.set("switchrate", Some("20ms")).unwrap();
        assert_eq!(o.switchrate, 20_000_000);
        o.set("define", Some("X=1")).unwrap();
        assert_eq!(o.cppargs, ["-DX=1"]);
        assert_eq!(o.set("quite", None), Err(OptionError::Name(Some("quiet"))));
        for (name, value) in [
            ("bufsize", "-1"),
            ("bufsize", "4q"),
            ("strsize", "1"),
            ("aggrate", "x"),
            ("nspec", "-3"),
            ("nspec", "4097"),
            ("strsize", "2m"),
        ] {
            assert!(matches!(o.set(name, Some(value)), Err(OptionError::Value(_))), "{name}={value}");
        }
        assert!(o.set("version", Some("1.0")).is_err());
    }

    #[test]
    fn the_table_is_sorted_and_its_defaults_are_true() {
        assert!(OPTIONS.windows(2).all(|w| w[0].name < w[1].name));
        for doc in OPTIONS.iter().filter(|d| !d.default.is_empty()) {
            let mut o = Options::default();
            o.set(doc.name, Some(doc.default)).unwrap_or_else(|e| panic!("{}: {e:?}", doc.name));
            if doc.name != "evaltime" && doc.name != "stdc" {
                assert_eq!(o, Options::default(), "{}", doc.name);
            }
        }
    }
}
