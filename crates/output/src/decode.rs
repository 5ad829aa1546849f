//! Record bytes to [`Event`]s, by the program's [`probity_ir::Layout`]. Never panics, whatever the bytes.

use crate::Context;
use crate::event::{Event, Fault, Item, ProbeRef, Record, Value, float_of};
use crate::symbol::StackValue;
use probity_ir::{
    Action, FAULT, FAULT_BODY, FieldId, HEADER, Operand, ProbePart, Program, RecordId, RecordLayout, Show, TypeKind,
    TypeTable, UnitId, Val,
};
use std::fmt;

/// Bytes that are no record of the program. It is a bug of ours, or the ring was written by somebody else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecodeError {
    /// Shorter than a record of this kind.
    Short {
        /// Bytes there are.
        len: usize,
        /// Bytes there should be.
        want: usize,
    },
    /// No record has this number.
    Record(u32),
    /// No unit has this number.
    Unit(u32),
    /// The unit has no clause at this position.
    Clause(u32),
    /// The unit has no probe of this index.
    Probe(u32),
    /// The record's layout does not have a field that an action needs.
    Field(u32),
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DecodeError::Short { len, want } => write!(f, "record of {len} bytes where {want} were expected"),
            DecodeError::Record(n) => write!(f, "unknown record number {n}"),
            DecodeError::Unit(n) => write!(f, "fault in unknown unit {n}"),
            DecodeError::Clause(n) => write!(f, "fault in unknown clause {n}"),
            DecodeError::Probe(n) => write!(f, "unknown probe index {n}"),
            DecodeError::Field(n) => write!(f, "record without field {n}"),
        }
    }
}

impl std::error::Error for DecodeError {}

/// Decodes one record, header included, as a ring holds it.
pub fn decode(cx: &Context, bytes: &[u8]) -> Result<Event, DecodeError> {
    let Context { program, layout, plan, types, .. } = *cx;
    let short = |want: usize| DecodeError::Short { len: bytes.len(), want };
    let header = short(HEADER as usize);
    let time = u64_at(bytes, 0).ok_or(header)?;
    let number = u32_at(bytes, 8).ok_or(header)?;
    let cpu = u16_at(bytes, 12).ok_or(header)?;
    let index = u32::from(u16_at(bytes, 14).ok_or(header)?);
    if number == FAULT {
        return fault(program, bytes, time, cpu, index);
    }
    let record = program.records.get(number as usize).ok_or(DecodeError::Record(number))?;
    let places = layout.records.get(number as usize).ok_or(DecodeError::Record(number))?;
    if bytes.len() < places.size as usize {
        return Err(short(places.size as usize));
    }
    let probe = ProbeRef { unit: record.unit, index };
    probe.get(program).ok_or(DecodeError::Probe(index))?;
    let cut = plan.records.get(number as usize).map_or(&[][..], |r| &r.cut);
    let fields = Fields { program, types, unit: record.unit, places, cut, bytes };
    let items = record.actions.iter().map(|a| fields.item(a)).collect::<Result<_, _>>()?;
    Ok(Event::Record(Record { time, cpu, record: RecordId(number), clause: record.clause, probe, items }))
}

fn fault(program: &Program, bytes: &[u8], time: u64, cpu: u16, index: u32) -> Result<Event, DecodeError> {
    let want = (HEADER + FAULT_BODY) as usize;
    let short = DecodeError::Short { len: bytes.len(), want };
    let body = bytes.get(HEADER as usize..want).ok_or(short)?;
    let word = |at| u32_at(body, at).ok_or(short);
    let (unit, clause) = (word(0)?, word(4)?);
    let code = program.units.get(unit as usize).ok_or(DecodeError::Unit(unit))?;
    let clause = code.clauses.get(clause as usize).ok_or(DecodeError::Clause(clause))?.clause;
    let probe = ProbeRef { unit: UnitId(unit), index };
    probe.get(program).ok_or(DecodeError::Probe(index))?;
    Ok(Event::Fault(Fault {
        time,
        cpu,
        probe,
        clause,
        action: word(8)?,
        line: word(12)?,
        code: word(16)?,
        value: u64_at(body, 24).ok_or(short)?,
    }))
}

struct Fields<'a> {
    program: &'a Program,
    types: &'a TypeTable,
    unit: UnitId,
    places: &'a RecordLayout,
    cut: &'a [bool],
    bytes: &'a [u8],
}

impl Fields<'_> {
    fn item(&self, action: &Action) -> Result<Item, DecodeError> {
        Ok(match action {
            Action::Trace(operand) => Item::Trace(self.value(operand)?),
            Action::Printf { operands, .. } => {
                Item::Printf(operands.iter().map(|o| self.value(o)).collect::<Result<_, _>>()?)
            }
            Action::Printa { aggs, .. } => Item::Printa(aggs.clone()),
            Action::Print { addr, value, ty: _ } => {
                let addr = addr.as_ref().map(|a| self.value(a)).transpose()?.map(|a| a.int() as u64);
                Item::Print { addr, bytes: raw(&self.stored(value)?) }
            }
            Action::Tracemem { data, size } => {
                let mut bytes = raw(&self.value(data)?);
                if let Some(size) = size {
                    let size = self.value(size)?.int();
                    bytes.truncate(usize::try_from(size).unwrap_or(usize::MAX));
                }
                Item::Tracemem(bytes)
            }
            Action::Exit(status) => Item::Exit(self.value(status)?.int() as i32),
            Action::Clear(agg) => Item::Clear(*agg),
            Action::Trunc(agg, count) => {
                Item::Trunc(*agg, count.as_ref().map(|c| self.value(c)).transpose()?.map(|v| v.int()))
            }
            Action::Normalize(agg, by) => Item::Normalize(*agg, self.value(by)?.int() as u64),
            Action::Denormalize(agg) => Item::Denormalize(*agg),
            Action::System { operands, .. } => {
                Item::System(operands.iter().map(|o| self.value(o)).collect::<Result<_, _>>()?)
            }
            Action::Freopen { operands, .. } => {
                Item::Freopen(operands.iter().map(|o| self.value(o)).collect::<Result<_, _>>()?)
            }
            Action::Ftruncate => Item::Ftruncate,
            Action::Setopt(name, value) => {
                let text =
                    |o: &Operand| self.value(o).map(|v| String::from_utf8_lossy(v.bytes().unwrap_or(&[])).into_owned());
                Item::Setopt(text(name)?, value.as_ref().map(text).transpose()?)
            }
            Action::Pcap { proto, len, captured, data } => {
                let captured = self.value(captured)?.int().max(0) as usize;
                let mut bytes = self.value(data)?.bytes().unwrap_or(&[]).to_vec();
                bytes.truncate(captured);
                Item::Pcap { proto: self.value(proto)?.int(), len: self.value(len)?.int() as u32, data: bytes }
            }
            Action::Commit(handle) => Item::Commit(self.value(handle)?.int() as u64),
            Action::Discard(handle) => Item::Discard(self.value(handle)?.int() as u64),
            Action::Default => Item::Default,
        })
    }

    fn value(&self, operand: &Operand) -> Result<Value, DecodeError> {
        let FieldId(n) = operand.field;
        let &(offset, val) = self.places.fields.get(n as usize).ok_or(DecodeError::Field(n))?;
        if let (Show::Bytes { ty: Some(ty) }, Val::Bytes { len: 16 }) = (&operand.show, val)
            && let TypeKind::Float { .. } = self.types.get(self.types.resolve(*ty))
            && let Some(x) = self.bytes.get(offset as usize..offset as usize + 16).and_then(float_of)
        {
            return Ok(Value::Float { bits: x.to_bits(), size: 16 });
        }
        self.stored(operand)
    }

    /// The value as the record has it: a `long double` is bytes.
    fn stored(&self, operand: &Operand) -> Result<Value, DecodeError> {
        let FieldId(n) = operand.field;
        let &(offset, val) = self.places.fields.get(n as usize).ok_or(DecodeError::Field(n))?;
        let cut = self.cut.get(n as usize).copied().unwrap_or(false);
        member(self.bytes, offset, val, &operand.show, cut, |part, raw| {
            part_text(self.program, self.unit, raw as u32, part).map(str::to_string)
        })
        .ok_or(DecodeError::Field(n))
    }
}

/// Reads one field of a record or one member of a key. `part` finds the text of a [`Show::ProbePart`]. `None` when the field is
/// not within `bytes`.
pub(crate) fn member(
    bytes: &[u8],
    offset: u32,
    val: Val,
    show: &Show,
    cut: bool,
    part: impl Fn(ProbePart, u64) -> Option<String>,
) -> Option<Value> {
    let offset = offset as usize;
    let raw = match val {
        Val::Int => {
            let raw = u64_at(bytes, offset)?;
            return Some(match show {
                Show::Int { size, signed, kind } => Value::Int {
                    value: extend(raw, *size, *signed),
                    size: *size,
                    signed: *signed,
                    kind: (*kind).into(),
                },
                Show::Pointer => Value::Pointer(raw),
                Show::Float { size: 4 } => {
                    Value::Float { bits: f64::from(f32::from_bits(raw as u32)).to_bits(), size: 4 }
                }
                Show::Float { size } => Value::Float { bits: raw, size: *size },
                Show::ProbePart(which) => Value::Text(part(*which, raw).unwrap_or_else(|| "<unknown>".into())),
                Show::Symbol(what) => Value::Symbol { what: *what, pid: 0, addr: raw },
                Show::String | Show::Bytes { .. } | Show::Stack => Value::Bytes(raw.to_ne_bytes().to_vec()),
            });
        }
        Val::Str { cap } => bytes.get(offset..offset.checked_add(cap as usize)?)?,
        Val::Bytes { len } => bytes.get(offset..offset.checked_add(len as usize)?)?,
    };
    match show {
        Show::Stack => return StackValue::read(raw).map(Value::Stack),
        Show::Symbol(what) => {
            let (pid, addr) = (u64_at(raw, 0)? as u32, u64_at(raw, 8)?);
            return Some(Value::Symbol { what: *what, pid, addr });
        }
        _ => {}
    }
    if matches!(val, Val::Str { .. }) || matches!(show, Show::String) {
        let end = raw.iter().position(|&b| b == 0).unwrap_or(raw.len());
        // The writer ends a string at its capacity's last byte at the latest.
        let truncated = cut && matches!(val, Val::Str { cap } if cap > 1) && end + 1 >= raw.len();
        return Some(Value::Str { bytes: raw[..end].to_vec(), truncated });
    }
    Some(Value::Bytes(raw.to_vec()))
}

/// The bytes that a value has in memory.
pub(crate) fn raw(value: &Value) -> Vec<u8> {
    match value {
        Value::Int { value, size, .. } => value.to_le_bytes()[..usize::from(*size).min(8)].to_vec(),
        Value::Pointer(p) => p.to_le_bytes().to_vec(),
        Value::Float { bits, size: 4 } => (f64::from_bits(*bits) as f32).to_le_bytes().to_vec(),
        Value::Float { bits, .. } => bits.to_le_bytes().to_vec(),
        other => other.bytes().unwrap_or(&[]).to_vec(),
    }
}

/// The text of a part of a probe's description.
pub(crate) fn part_text(program: &Program, unit: UnitId, index: u32, part: ProbePart) -> Option<&str> {
    let desc = &ProbeRef { unit, index }.get(program)?.desc;
    Some(match part {
        ProbePart::Provider => &desc.provider,
        ProbePart::Module => &desc.module,
        ProbePart::Function => &desc.function,
        ProbePart::Name => &desc.name,
    })
}

/// The low `size` bytes of `raw`, extended to 64 bits.
pub(crate) fn extend(raw: u64, size: u8, signed: bool) -> i64 {
    match (size, signed) {
        (1, true) => raw as i8 as i64,
        (1, false) => raw as u8 as i64,
        (2, true) => raw as i16 as i64,
        (2, false) => raw as u16 as i64,
        (4, true) => raw as i32 as i64,
        (4, false) => raw as u32 as i64,
        _ => raw as i64,
    }
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at.checked_add(2)?)?.try_into().ok()?))
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(bytes.get(at..at.checked_add(8)?)?.try_into().ok()?))
}
