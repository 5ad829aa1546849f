//! JSON, one object a line.
//!
//! Every object has `type`:
//!
//! - `record`: `time` (ns, monotonic), `cpu`, `probe` {`id`, `provider`, `module`, `function`, `name`}, `clause` (line of the
//!   source), `items`: `{"action":"trace","value":V}` (for arrays and structs with their `ctype` and, as `typed`, P), `{"action":"printf","text":S,"args":[V…]}`, `{"action":"default"}`,
//!   `{"action":"tracemem","value":{"bytes":"hex"}}`, and `{"action":"print","ctype":"struct s","value":P}` with `"address":"0x…"` for what
//!   a pointer points to and `"truncated":true` beyond `printsize`. P is an object with the members' names, an array, a string for characters,
//!   an enumerator's name, `"0x…"` for a pointer, or a number; `{"action":"system","command":S}`, `{"action":"freopen","file":S}`,
//!   `{"action":"ftruncate"}`, `{"action":"setopt","option":S,"value":S}`, `{"action":"pcap","protocol":n,"length":n,"data":{"bytes":"hex"}}`
//! - `aggregation`: `name`, `function`, `normal` when not 1, `entries` in order: `key` (array of V), and `value` (a number, `null`
//!   where there is none) or `buckets` (`[{"lo","hi","count"}…]`, those that are not empty; `null` is no bound), and `cpus` with `aggpercpu`
//! - `drops`: `cause`, `tag`, `cpu` (`null` for all together), `count`, `message`
//! - `fault`: `time`, `cpu`, `probe`, `action`, `line`, `code`, `fault`, `value`, `message`
//! - `error`: `message`; `exit`: `status`
//!
//! A value V is a number (all 64 bits), `"0x…"` for a pointer, `{"bytes":"hex"}` for raw bytes, a string S otherwise. S is a JSON string if it
//! is UTF-8, else `{"bytes":"hex"}`; a string that may have been cut is `{"text":S,"truncated":true}`. So nothing is lost. A stack is
//! `{"stack":[{"address":"0x…","name":S}…]}`, with `pid` for a user's and `"truncated":true` where it is deeper.

use crate::Context;
use crate::agg::{Aggregations, Table};
use crate::deed::{Asked, Output};
use crate::drops::{deed_text, drop_name, drop_tag, drop_text, fault_name, fault_text};
use crate::event::{Event, Fault, Item, ProbeRef, Record, Value};
use crate::histogram;
use crate::order;
use crate::printf::{self, Surroundings};
use crate::render::{Renderer, Style, apply};
use crate::stats;
use crate::symbol;
use crate::typed;
use probity_ir::{Action, AggFunc, AggId, Operand, Show};
use serde_json::{Value as J, json};
use std::fmt::Write as _;
use std::io::{self, Write};

/// The JSON renderer.
#[derive(Clone, Debug, Default)]
pub struct Json {
    /// How it looks: the order of aggregations and the words of messages.
    pub style: Style,
}

impl Json {
    /// A renderer of this style.
    pub fn new(style: Style) -> Json {
        Json { style }
    }

    fn record(
        &mut self,
        cx: &Context,
        record: &Record,
        aggs: &mut Aggregations,
        out: &mut dyn Output,
    ) -> io::Result<()> {
        let actions = cx.program.records.get(record.record.0 as usize).map_or(&[][..], |r| &r.actions);
        let mut items = Vec::new();
        for (item, action) in record.items.iter().zip(actions) {
            match (item, action) {
                (Item::Trace(value), action) => {
                    let mut item = json!({"action": "trace", "value": value_json(cx, value)});
                    // Bytes of a known type are shown as that too.
                    if let (Value::Bytes(bytes), Action::Trace(Operand { show: Show::Bytes { ty: Some(ty) }, .. })) =
                        (value, action)
                    {
                        item["ctype"] = typed::type_name(cx.types, *ty).into();
                        item["typed"] = typed::json(cx.types, *ty, bytes, u64::MAX);
                    }
                    items.push(item);
                }
                (Item::Printf(operands), Action::Printf { format, .. }) => {
                    let mut text = Vec::new();
                    let around = Surroundings {
                        symbols: cx.symbols,
                        dropin: self.style.dropin,
                        noresolve: self.style.noresolve,
                        group: self.style.group,
                        zoom: self.style.aggzoom,
                    };
                    printf::format(format, operands, &[], around, &mut text);
                    let args: Vec<J> = operands.iter().map(|v| value_json(cx, v)).collect();
                    items.push(json!({"action": "printf", "text": text_json(&text), "args": args}));
                }
                (Item::Print { addr, bytes }, Action::Print { ty, .. }) => {
                    let value = typed::json(cx.types, *ty, bytes, self.style.printsize);
                    let mut item = json!({"action": "print", "ctype": typed::type_name(cx.types, *ty), "value": value});
                    if let Some(addr) = addr {
                        item["address"] = format!("0x{addr:x}").into();
                    }
                    if bytes.len() as u64 > self.style.printsize {
                        item["truncated"] = true.into();
                    }
                    items.push(item);
                }
                (Item::Tracemem(bytes), _) => items.push(json!({"action": "tracemem", "value": hex(bytes)})),
                (Item::Default, _) => items.push(json!({"action": "default"})),
                (Item::Printa(list), _) => {
                    self.record_line(cx, record, &mut items, out)?;
                    for &agg in list {
                        self.aggregation(cx, agg, aggs, out)?;
                    }
                }
                (item, action) => match Asked::of(
                    item,
                    action,
                    Surroundings {
                        symbols: cx.symbols,
                        dropin: self.style.dropin,
                        noresolve: self.style.noresolve,
                        group: self.style.group,
                        zoom: self.style.aggzoom,
                    },
                ) {
                    Some(asked) => {
                        items.push(asked_json(&asked));
                        self.record_line(cx, record, &mut items, out)?;
                        if let Err(message) = out.deed(asked.deed(record.time), &mut self.style) {
                            let message = deed_text(cx.program, record, &message, &self.style);
                            writeln!(out, "{}", json!({"type": "error", "message": message}))?;
                        }
                    }
                    None => apply(item, aggs),
                },
            }
        }
        self.record_line(cx, record, &mut items, out)
    }

    /// Writes what has been gathered of a record, if anything.
    fn record_line(&self, cx: &Context, record: &Record, items: &mut Vec<J>, out: &mut dyn Write) -> io::Result<()> {
        if items.is_empty() {
            return Ok(());
        }
        let line = cx.program.clauses.get(record.clause.0 as usize).map(|c| c.line);
        let object = json!({
            "type": "record",
            "time": record.time,
            "cpu": record.cpu,
            "probe": probe_json(cx, record.probe),
            "clause": line,
            "items": std::mem::take(items),
        });
        writeln!(out, "{object}")
    }

    fn aggregation(&self, cx: &Context, agg: AggId, aggs: &mut Aggregations, out: &mut dyn Write) -> io::Result<()> {
        let Some(table) = aggs.tables.get(agg.0 as usize) else { return Ok(()) };
        let name = cx.program.aggs.get(agg.0 as usize).map_or("", |a| &a.name);
        let mut entries = Vec::new();
        for entry in order::sorted(aggs, agg, &self.style.sort) {
            let key: Vec<J> = entry.key.iter().map(|v| value_json(cx, v)).collect();
            let mut object = json!({"key": key});
            let (field, value) = words_json(table, &entry.words);
            object[field] = value;
            if !entry.cpus.is_empty() {
                object["cpus"] = entry.cpus.iter().map(|w| words_json(table, w).1).collect();
            }
            entries.push(object);
        }
        let printed = !entries.is_empty();
        let mut object = json!({"type": "aggregation", "name": name, "function": function_name(table.func)});
        if table.normal != 1 {
            object["normal"] = table.normal.into();
        }
        object["entries"] = entries.into();
        writeln!(out, "{object}")?;
        if printed {
            aggs.tables[agg.0 as usize].printed = true;
        }
        Ok(())
    }

    fn fault(&self, cx: &Context, fault: &Fault) -> J {
        json!({
            "type": "fault",
            "time": fault.time,
            "cpu": fault.cpu,
            "probe": probe_json(cx, fault.probe),
            "action": fault.action,
            "line": fault.line,
            "code": fault.code,
            "fault": fault_name(fault.code),
            "value": fault.value,
            "message": fault_text(cx.program, fault, &self.style),
        })
    }
}

fn asked_json(asked: &Asked) -> J {
    match asked {
        Asked::System(command) => json!({"action": "system", "command": text_json(command)}),
        Asked::Freopen(file) => json!({"action": "freopen", "file": text_json(file)}),
        Asked::Ftruncate => json!({"action": "ftruncate"}),
        Asked::Setopt(name, value) => json!({"action": "setopt", "option": name, "value": value}),
        Asked::Packet(proto, len, data) => {
            json!({"action": "pcap", "protocol": proto, "length": len, "data": hex(data)})
        }
    }
}

impl Renderer for Json {
    fn event(
        &mut self,
        cx: &Context,
        event: &Event,
        aggs: &mut Aggregations,
        out: &mut dyn Output,
        _err: &mut dyn Write,
    ) -> io::Result<()> {
        let object = match event {
            Event::Record(record) => return self.record(cx, record, aggs, out),
            Event::Fault(fault) => self.fault(cx, fault),
            Event::Drops(drops) => json!({
                "type": "drops",
                "cause": drop_name(drops.cause),
                "tag": drop_tag(drops.cause),
                "cpu": drops.cpu,
                "count": drops.count,
                "message": drop_text(drops, &self.style),
            }),
            Event::Error(message) => json!({"type": "error", "message": message}),
            Event::Exit(status) => json!({"type": "exit", "status": status}),
        };
        writeln!(out, "{object}")
    }

    fn flush(&mut self, _out: &mut dyn Write) -> io::Result<()> {
        Ok(())
    }

    fn finish(&mut self, cx: &Context, aggs: &mut Aggregations, out: &mut dyn Write) -> io::Result<()> {
        for i in 0..aggs.tables.len() {
            let table = &aggs.tables[i];
            if !table.printed && !table.entries.is_empty() {
                self.aggregation(cx, AggId(i as u32), aggs, out)?;
            }
        }
        Ok(())
    }

    fn style(&mut self) -> &mut Style {
        &mut self.style
    }
}

fn function_name(func: AggFunc) -> &'static str {
    match func {
        AggFunc::Count => "count",
        AggFunc::Sum => "sum",
        AggFunc::Min => "min",
        AggFunc::Max => "max",
        AggFunc::Avg => "avg",
        AggFunc::Stddev => "stddev",
        AggFunc::Quantize => "quantize",
        AggFunc::Lquantize { .. } => "lquantize",
        AggFunc::Llquantize { .. } => "llquantize",
    }
}

/// A value's field and what is in it.
fn words_json(table: &Table, words: &[u64]) -> (&'static str, J) {
    match stats::scalar(table.func, words, table.normal) {
        Some(_) if !stats::has_value(table.func, words) => ("value", J::Null),
        Some(n) if matches!(table.func, AggFunc::Count | AggFunc::Stddev) => ("value", (n as u64).into()),
        Some(n) => ("value", n.into()),
        None => {
            let normal = i64::try_from(table.normal.max(1)).unwrap_or(i64::MAX);
            let full = histogram::buckets(table.func, words).into_iter().filter(|b| b.count != 0);
            ("buckets", full.map(|b| json!({"lo": b.low, "hi": b.high, "count": b.count / normal})).collect())
        }
    }
}

fn probe_json(cx: &Context, probe: ProbeRef) -> J {
    match probe.get(cx.program) {
        None => J::Null,
        Some(p) => json!({
            "id": p.id,
            "provider": p.desc.provider,
            "module": p.desc.module,
            "function": p.desc.function,
            "name": p.desc.name,
        }),
    }
}

fn value_json(cx: &Context, value: &Value) -> J {
    match value {
        Value::Int { value, signed: true, .. } => (*value).into(),
        Value::Int { value, .. } => (*value as u64).into(),
        Value::Pointer(p) => format!("0x{p:x}").into(),
        Value::Float { bits, .. } => typed::float_json(f64::from_bits(*bits)),
        Value::Str { bytes, truncated: true } => json!({"text": text_json(bytes), "truncated": true}),
        Value::Str { bytes, .. } => text_json(bytes),
        Value::Bytes(bytes) => hex(bytes),
        Value::Stack(stack) => stack.json(cx.symbols),
        Value::Symbol { what, pid, addr } => {
            let look = symbol::Look { dropin: false, noresolve: false };
            symbol::symbol(*what, *pid, *addr, cx.symbols, look).into()
        }
        Value::Text(text) => text.as_str().into(),
    }
}

pub(crate) fn text_json(bytes: &[u8]) -> J {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.into(),
        Err(_) => hex(bytes),
    }
}

fn hex(bytes: &[u8]) -> J {
    let mut text = String::with_capacity(2 * bytes.len());
    for b in bytes {
        // Writing to a string cannot fail.
        let _ = write!(text, "{b:02x}");
    }
    json!({"bytes": text})
}
