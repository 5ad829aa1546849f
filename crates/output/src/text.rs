//! Text in DTrace's layouts: the heading, a line for each record, flow indentation, default forms of values and aggregations.

use crate::Context;
use crate::agg::{Aggregations, Entry, Table};
use crate::bars;
use crate::decode::raw;
use crate::deed::{Asked, Output};
use crate::drops;
use crate::event::{Event, Item, ProbeRef, Record, Value};
use crate::histogram;
use crate::order;
use crate::printf::{self, AggValue, CUT, Surroundings};
use crate::render::{Renderer, Style, apply};
use crate::stats;
use crate::symbol::{self, StackValue};
use crate::typed::{self, Look};
use probity_ir::{Action, AggFunc, AggId, ClauseId, Drop, Format, Probe, Symbol};
use std::io::{self, Write};

/// The text renderer.
#[derive(Clone, Debug, Default)]
pub struct Text {
    /// How it looks.
    pub style: Style,
    heading: bool,
    /// Flow indentation by CPU.
    indent: Vec<usize>,
    /// The probe and clause of the last record, for flow indentation.
    last: Option<(u32, ClauseId)>,
    /// The firing whose line is not ended yet.
    open: Option<(u16, ProbeRef, ClauseId)>,
    /// Causes of drops whose note has been given.
    noted: Vec<Drop>,
    /// Room for a record's text, kept from one to the next.
    buf: Vec<u8>,
}

/// Width of strings in default forms: after `trace`, in keys.
const TRACE_WIDTH: usize = 33;
const KEY_WIDTH: usize = 50;

impl Text {
    /// A renderer that has printed nothing yet.
    pub fn new(style: Style) -> Text {
        Text { style, ..Text::default() }
    }

    fn around<'a>(&self, cx: &Context<'a>) -> Surroundings<'a> {
        Surroundings {
            symbols: cx.symbols,
            dropin: self.style.dropin,
            noresolve: self.style.noresolve,
            group: self.style.group,
            zoom: self.style.aggzoom,
        }
    }

    fn record(
        &mut self,
        cx: &Context,
        record: &Record,
        aggs: &mut Aggregations,
        buf: &mut Vec<u8>,
        (out, err): (&mut dyn Output, &mut dyn Write),
    ) -> io::Result<()> {
        let firing = (record.cpu, record.probe, record.clause);
        let plan = cx.plan.records.get(record.record.0 as usize);
        let continues = plan.is_some_and(|p| p.continues) && self.open == Some(firing);
        if !continues {
            self.end_line(buf);
            self.start_line(cx, record, buf);
        }
        let actions = cx.program.records.get(record.record.0 as usize).map_or(&[][..], |r| &r.actions);
        for (item, action) in record.items.iter().zip(actions) {
            match (item, action) {
                (Item::Trace(value), _) => self.trace(cx, value, buf),
                (Item::Printf(operands), Action::Printf { format, .. }) => {
                    printf::format(format, operands, &[], self.around(cx), buf);
                }
                (Item::Printa(list), Action::Printa { format, .. }) => {
                    self.printa(cx, format.as_ref(), list, aggs, buf);
                }
                (Item::Print { addr, bytes }, Action::Print { ty, .. }) => {
                    typed::text(cx.types, *ty, bytes, *addr, Look::of(&self.style), buf);
                }
                (Item::Tracemem(bytes), _) => raw_bytes(bytes, buf),
                (item, action) => match Asked::of(item, action, self.around(cx)) {
                    Some(asked) => {
                        out.write_all(buf)?;
                        buf.clear();
                        match out.deed(asked.deed(record.time), &mut self.style) {
                            Ok(true) => {}
                            Ok(false) => {
                                if let Asked::Packet(_, _, data) = asked {
                                    raw_bytes(data, buf);
                                }
                            }
                            Err(message) => {
                                let text = drops::deed_text(cx.program, record, &message, &self.style);
                                // DTrace ends these messages with a line of their own.
                                writeln!(err, "{text}{}", if self.style.dropin { "\n" } else { "" })?;
                            }
                        }
                    }
                    None => apply(item, aggs),
                },
            }
        }
        self.open = Some(firing);
        if !plan.is_some_and(|p| p.open) {
            self.end_line(buf);
        }
        Ok(())
    }

    fn start_line(&mut self, cx: &Context, record: &Record, buf: &mut Vec<u8>) {
        let style = &self.style;
        if !self.heading {
            self.heading = true;
            if style.flowindent {
                put(buf, format_args!("{:>3} {:<41}\n", "CPU", "FUNCTION"));
            } else if style.anonymous && !style.quiet {
                put(buf, format_args!("{:>32}\n", "FUNCTION:NAME"));
            } else if !style.quiet {
                put(buf, format_args!("{:>3} {:>6} {:>32}\n", "CPU", "ID", "FUNCTION:NAME"));
            }
        }
        let Some(probe) = record.probe.get(cx.program) else { return };
        let desc = &probe.desc;
        if self.style.flowindent {
            let name = self.flow(record, probe);
            put(buf, format_args!("{:>3} {name:<41} ", record.cpu));
        } else if !self.style.quiet {
            let width = 31usize.saturating_sub(desc.name.len());
            if !self.style.anonymous {
                put(buf, format_args!("{:>3} {:>6} ", record.cpu, probe.id));
            }
            put(buf, format_args!("{:>width$}:{} ", desc.function, desc.name));
        }
        self.last = Some((probe.id, record.clause));
    }

    /// The indented name of a probe under `-F`.
    fn flow(&mut self, record: &Record, probe: &Probe) -> String {
        let cpu = usize::from(record.cpu);
        if self.indent.len() <= cpu {
            self.indent.resize(cpu + 1, 0);
        }
        let desc = &probe.desc;
        // `method-entry` and the like are entries, `carpentry` is not.
        let is = |what: &str| desc.name.strip_suffix(what).is_some_and(|rest| rest.is_empty() || rest.ends_with('-'));
        // A second clause at the same entry does not indent once more.
        let again = self.last.is_some_and(|(id, clause)| id == probe.id && clause != record.clause);
        let syscall = self.style.crossing.contains(&desc.provider);
        let indent = &mut self.indent[cpu];
        let spaces = |n: usize| " ".repeat(n);
        if is("entry") && !again {
            let name = format!("{}{}{}", spaces(*indent), if syscall { " => " } else { " -> " }, desc.function);
            *indent += 2;
            name
        } else if is("return") {
            *indent = indent.saturating_sub(2);
            format!("{}{}{}", spaces(*indent), if syscall { " <= " } else { " <- " }, desc.function)
        } else {
            format!("{}| {}:{}", spaces(*indent), desc.function, desc.name)
        }
    }

    fn end_line(&mut self, buf: &mut Vec<u8>) {
        if self.open.take().is_some() && !self.style.quiet {
            buf.push(b'\n');
        }
    }

    /// `trace(e)`: a value in its default form.
    fn trace(&self, cx: &Context, value: &Value, buf: &mut Vec<u8>) {
        let (quiet, dropin) = (self.style.quiet, self.style.dropin);
        match value {
            Value::Stack(stack) => self.stack(cx, stack, buf),
            Value::Symbol { what, pid, addr } => self.symbol(cx, *what, *pid, *addr, buf),
            Value::Str { .. } | Value::Text(_) if self.style.rawbytes && dropin => {
                let bytes = value.bytes().unwrap_or(&[]);
                // DTrace's records hold strings of one size.
                let mut whole = bytes[..bytes.len().min(self.style.strsize.saturating_sub(1))].to_vec();
                whole.resize(self.style.strsize, 0);
                raw_bytes(&whole, buf);
            }
            _ if self.style.rawbytes => raw_bytes(&raw(value), buf),
            Value::Int { value, size, signed, .. } => {
                let width = match (quiet, size, signed) {
                    (true, _, _) => 0,
                    (_, 8, true) => 20,
                    (_, 8, false) => 21,
                    (_, 4, _) => 11,
                    (_, 2, _) => 6,
                    _ => 4,
                };
                match signed {
                    true => put(buf, format_args!("{value:>width$}")),
                    false => put(buf, format_args!("{:>width$}", *value as u64)),
                }
            }
            Value::Pointer(p) if dropin => put(buf, format_args!("{p:>width$}", width = if quiet { 0 } else { 21 })),
            Value::Pointer(p) => {
                put(buf, format_args!("{:>width$}", format!("0x{p:x}"), width = if quiet { 0 } else { 21 }));
            }
            Value::Float { bits, .. } => {
                let text = f64::from_bits(*bits).to_string();
                put(buf, format_args!("{text:>width$}", width = if quiet { 0 } else { 20 }));
            }
            Value::Bytes(bytes) if printable(bytes) => {
                let end = bytes.iter().position(|&b| b == 0).unwrap_or(bytes.len());
                self.trace(cx, &Value::Str { bytes: bytes[..end].to_vec(), truncated: false }, buf);
            }
            Value::Bytes(bytes) => raw_bytes(bytes, buf),
            Value::Str { .. } | Value::Text(_) if quiet => self.string(value, 0, buf),
            Value::Str { .. } | Value::Text(_) => {
                buf.extend_from_slice(b"  ");
                self.string(value, TRACE_WIDTH, buf);
            }
        }
    }

    /// A stack: a line for each frame, after one that ends what stands before.
    fn stack(&self, cx: &Context, stack: &StackValue, buf: &mut Vec<u8>) {
        let (lines, note) = stack.lines(cx.symbols, self.look());
        buf.push(b'\n');
        for line in lines.iter().chain(&note) {
            put(buf, format_args!("{:indent$}{line}\n", "", indent = self.style.stackindent));
        }
    }

    /// What an address is in, in its own columns.
    fn symbol(&self, cx: &Context, what: Symbol, pid: u32, addr: u64, buf: &mut Vec<u8>) {
        let text = symbol::symbol(what, pid, addr, cx.symbols, self.look());
        put(buf, format_args!("  {text:<KEY_WIDTH$}"));
    }

    fn look(&self) -> symbol::Look {
        symbol::Look { dropin: self.style.dropin, noresolve: self.style.noresolve }
    }

    /// A string, filled with blanks to `width`.
    fn string(&self, value: &Value, width: usize, buf: &mut Vec<u8>) {
        let bytes = value.bytes().unwrap_or(&[]);
        buf.extend_from_slice(bytes);
        let mut columns = match std::str::from_utf8(bytes) {
            Ok(s) if !self.style.dropin => s.chars().count(),
            _ => bytes.len(),
        };
        if value.truncated() && !self.style.dropin {
            buf.extend_from_slice(CUT.as_bytes());
            columns += 1;
        }
        buf.resize(buf.len() + width.saturating_sub(columns), b' ');
    }

    fn printa(
        &self,
        cx: &Context,
        format: Option<&Format>,
        list: &[AggId],
        aggs: &mut Aggregations,
        buf: &mut Vec<u8>,
    ) {
        if format.is_none() {
            buf.push(b'\n');
        }
        if let (None, [agg]) = (format, list)
            && self.table(cx, *agg, aggs, buf)
        {
            aggs.tables[agg.0 as usize].printed = true;
            return;
        }
        let mut any = false;
        for row in order::joined(aggs, list, &self.style.sort) {
            any = true;
            let tables = list.iter().filter_map(|a| aggs.tables.get(a.0 as usize));
            let values: Vec<_> = tables.zip(&row.entries).map(|(t, e)| agg_value(t, *e)).collect();
            match format {
                Some(format) => printf::format(format, row.key, &values, self.around(cx), buf),
                None => {
                    self.key(cx, row.key, buf);
                    for (value, entry) in values.iter().zip(&row.entries) {
                        self.value(value, buf);
                        self.percpu(value, *entry, buf);
                    }
                    buf.push(b'\n');
                }
            }
        }
        if any {
            for agg in list {
                if let Some(table) = aggs.tables.get_mut(agg.0 as usize) {
                    table.printed = true;
                }
            }
        }
    }

    /// A whole aggregation as a table, where the options ask for one and it has values.
    fn table(&self, cx: &Context, agg: AggId, aggs: &Aggregations, buf: &mut Vec<u8>) -> bool {
        let Some(table) = aggs.tables.get(agg.0 as usize).filter(|t| !t.entries.is_empty()) else { return false };
        let packed = match table.func {
            AggFunc::Quantize | AggFunc::Lquantize { .. } | AggFunc::Llquantize { .. } => self.style.aggpack,
            _ => false,
        };
        let bars = self.style.agghist && stats::scalar(table.func, &[], 1).is_some();
        if !packed && !bars || aggs.percpu {
            return false;
        }
        let mut rows = Vec::new();
        for entry in order::sorted(aggs, agg, &self.style.sort) {
            let mut key = Vec::new();
            self.key(cx, &entry.key, &mut key);
            let words: Vec<_> = String::from_utf8_lossy(&key).split_whitespace().map(str::to_string).collect();
            rows.push(bars::Row { key: words.join(" "), words: &entry.words });
        }
        let draw = if packed { bars::pack } else { bars::hist };
        draw(table.func, &rows, table.normal, self.style.aggzoom, buf);
        true
    }

    /// The members of a key in their default form.
    fn key(&self, cx: &Context, key: &[Value], buf: &mut Vec<u8>) {
        let dropin = self.style.dropin;
        for member in key {
            match member {
                Value::Int { value, size: 8, signed, .. } => match *signed || dropin {
                    true => put(buf, format_args!(" {value:>16}")),
                    false => put(buf, format_args!(" {:>16}", *value as u64)),
                },
                // DTrace shows 32 bits as signed and fewer as unsigned, whatever their type.
                Value::Int { value, size: 4, .. } if dropin => put(buf, format_args!(" {:>8}", *value as i32)),
                Value::Int { value, size: 2, .. } if dropin => put(buf, format_args!(" {:>5}", *value as u16)),
                Value::Int { value, .. } if dropin => put(buf, format_args!(" {:>3}", *value as u8)),
                Value::Int { value, size, .. } => {
                    let width = match size {
                        4 => 8,
                        2 => 5,
                        _ => 3,
                    };
                    put(buf, format_args!(" {value:>width$}"));
                }
                Value::Stack(stack) => self.stack(cx, stack, buf),
                Value::Symbol { what, pid, addr } => self.symbol(cx, *what, *pid, *addr, buf),
                Value::Pointer(p) if dropin => put(buf, format_args!(" {:>16}", *p as i64)),
                Value::Pointer(p) => put(buf, format_args!(" {:>16}", format!("0x{p:x}"))),
                Value::Float { bits, .. } => {
                    put(buf, format_args!(" {:>16}", f64::from_bits(*bits).to_string()));
                }
                Value::Bytes(bytes) if !self.style.rawbytes && printable(bytes) => {
                    let end = bytes.iter().position(|&b| b == 0).unwrap_or(bytes.len());
                    buf.extend_from_slice(b"  ");
                    self.string(&Value::Bytes(bytes[..end].to_vec()), KEY_WIDTH, buf);
                }
                Value::Bytes(bytes) => raw_bytes(bytes, buf),
                Value::Str { .. } | Value::Text(_) => {
                    buf.extend_from_slice(b"  ");
                    self.string(member, KEY_WIDTH, buf);
                }
            }
        }
    }

    fn value(&self, value: &AggValue, buf: &mut Vec<u8>) {
        match stats::scalar(value.func, value.words, value.normal) {
            None => histogram::draw(value.func, value.words, value.normal, self.style.aggzoom, buf),
            // A key that this aggregation does not have.
            Some(_) if value.words.is_empty() => put(buf, format_args!(" {:>16}", 0)),
            // After `clear`: there is nothing to show, and 0 would be a value.
            Some(_) if !self.style.dropin && !stats::has_value(value.func, value.words) => {
                put(buf, format_args!(" {:>16}", "-"));
            }
            Some(n) if matches!(value.func, AggFunc::Count | AggFunc::Stddev) && !self.style.dropin => {
                put(buf, format_args!(" {:>16}", n as u64));
            }
            Some(n) => put(buf, format_args!(" {n:>16}")),
        }
    }

    fn percpu(&self, value: &AggValue, entry: Option<&Entry>, buf: &mut Vec<u8>) {
        for (cpu, words) in entry.map_or(&[][..], |e| &e.cpus).iter().enumerate() {
            put(buf, format_args!("\n    [CPU {cpu}]"));
            self.value(&AggValue { words, ..*value }, buf);
        }
    }
}

impl Renderer for Text {
    fn event(
        &mut self,
        cx: &Context,
        event: &Event,
        aggs: &mut Aggregations,
        out: &mut dyn Output,
        err: &mut dyn Write,
    ) -> io::Result<()> {
        match event {
            Event::Record(record) => {
                let mut buf = std::mem::take(&mut self.buf);
                buf.clear();
                let done = self.record(cx, record, aggs, &mut buf, (out, err)).and_then(|()| out.write_all(&buf));
                self.buf = buf;
                done
            }
            Event::Fault(fault) => {
                self.flush(out)?;
                writeln!(err, "{}", drops::fault_text(cx.program, fault, &self.style))
            }
            Event::Drops(count) => {
                self.flush(out)?;
                writeln!(err, "{}", drops::drop_text(count, &self.style))?;
                if !self.style.dropin && !self.noted.contains(&count.cause) {
                    self.noted.push(count.cause);
                    writeln!(err, "{}: note: {}", self.style.prefix, drops::drop_note(count.cause))?;
                }
                Ok(())
            }
            Event::Error(message) => {
                self.flush(out)?;
                writeln!(err, "{}: {message}", self.style.prefix)
            }
            Event::Exit(_) => self.flush(out),
        }
    }

    fn flush(&mut self, out: &mut dyn Write) -> io::Result<()> {
        let mut buf = Vec::new();
        self.end_line(&mut buf);
        out.write_all(&buf)
    }

    fn finish(&mut self, cx: &Context, aggs: &mut Aggregations, out: &mut dyn Write) -> io::Result<()> {
        let mut buf = Vec::new();
        self.end_line(&mut buf);
        let start = buf.len();
        buf.push(b'\n');
        let mut list: Vec<usize> = (0..aggs.tables.len()).filter(|&i| !aggs.tables[i].printed).collect();
        if self.style.sort.reverse {
            list.reverse();
        }
        let mut any = false;
        for i in list {
            if self.table(cx, AggId(i as u32), aggs, &mut buf) {
                any = true;
                continue;
            }
            for entry in order::sorted(aggs, AggId(i as u32), &self.style.sort) {
                any = true;
                let value = agg_value(&aggs.tables[i], Some(entry));
                self.key(cx, &entry.key, &mut buf);
                self.value(&value, &mut buf);
                self.percpu(&value, Some(entry), &mut buf);
                buf.push(b'\n');
            }
        }
        // DTrace ends with an empty line in any case.
        if !any && !self.style.dropin {
            buf.truncate(start);
        }
        out.write_all(&buf)
    }

    fn style(&mut self) -> &mut Style {
        &mut self.style
    }
}

fn agg_value<'a>(table: &Table, entry: Option<&'a Entry>) -> AggValue<'a> {
    AggValue { func: table.func, words: entry.map_or(&[], |e| &e.words), normal: table.normal }
}

fn put(buf: &mut Vec<u8>, args: std::fmt::Arguments) {
    // Writing to a vector cannot fail.
    let _ = buf.write_fmt(args);
}

/// Whether DTrace takes bytes for a string: printable characters, then nothing but NULs.
fn printable(bytes: &[u8]) -> bool {
    let end = bytes.iter().position(|&b| b == 0).unwrap_or(bytes.len());
    let text = |b: u8| (b' '..=b'~').contains(&b) || matches!(b, 7..=13);
    end > 0 && bytes[..end].iter().all(|&b| text(b)) && bytes[end..].iter().all(|&b| b == 0)
}

/// Bytes as a table in hexadecimal, with their characters beside them.
fn raw_bytes(bytes: &[u8], buf: &mut Vec<u8>) {
    if bytes.is_empty() {
        return;
    }
    put(buf, format_args!("\n{:11}", ""));
    for digit in "0123456789abcdef".chars() {
        put(buf, format_args!("  {digit}"));
    }
    buf.extend_from_slice(b"  0123456789abcdef\n");
    for (i, row) in bytes.chunks(16).enumerate() {
        put(buf, format_args!("{:5}{:5x}:", "", i * 16));
        for b in row {
            put(buf, format_args!(" {b:02x}"));
        }
        buf.resize(buf.len() + 3 * (16 - row.len()) + 2, b' ');
        buf.extend(row.iter().map(|&b| if (b' '..=b'~').contains(&b) { b } else { b'.' }));
        buf.push(b'\n');
    }
}
