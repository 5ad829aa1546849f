//! Tests of the whole way from bytes to output, and what they share: a program with one unit, and its records' bytes.

mod aggs;
mod bytes;
mod formats;
mod layouts;
mod messages;
mod typed;

use crate::*;
use probity_ir::*;

/// Everything that a [`Context`] borrows, and the consumer's state.
pub struct World {
    pub program: Program,
    pub layout: Layout,
    pub types: TypeTable,
    pub aggs: Aggregations,
}

/// A `Show` of an integer.
pub fn int(size: u8, signed: bool) -> Show {
    Show::Int { size, signed, kind: IntKind::Number }
}

/// An operand that is field `n`.
pub fn operand(n: u32, show: Show) -> Operand {
    Operand { field: FieldId(n), show }
}

/// A signed 64-bit value.
pub fn long(value: i64) -> Value {
    Value::Int { value, size: 8, signed: true, kind: Kind::Number }
}

/// A string that is whole.
pub fn text(s: &str) -> Value {
    Value::Str { bytes: s.into(), truncated: false }
}

/// A format, parsed well enough for tests.
pub fn parse(format: &str) -> Format {
    let mut pieces = Vec::new();
    let mut chars = format.chars().peekable();
    let mut literal = String::new();
    while let Some(c) = chars.next() {
        if c != '%' {
            literal.push(c);
            continue;
        }
        let mut conversion = Conversion::default();
        let mut dot = false;
        loop {
            let c = chars.next().expect("a letter");
            match c {
                '-' => conversion.left = true,
                '+' => conversion.plus = true,
                ' ' => conversion.space = true,
                '#' => conversion.alternate = true,
                '@' => conversion.agg = true,
                '.' => (dot, conversion.precision) = (true, Some(0)),
                '*' if dot => conversion.precision_arg = true,
                '*' => conversion.width_arg = true,
                '0' if !dot && conversion.width.is_none() => conversion.zero = true,
                '0'..='9' => {
                    let n = if dot { &mut conversion.precision } else { &mut conversion.width };
                    *n = Some(n.unwrap_or(0) * 10 + c.to_digit(10).expect("a digit"));
                }
                'h' | 'l' | 'L' | 'w' => conversion.modifier.push(c),
                _ => {
                    conversion.letter = c;
                    break;
                }
            }
        }
        if conversion.letter == '%' {
            literal.push('%');
            continue;
        }
        if !literal.is_empty() {
            pieces.push(Piece::Text(std::mem::take(&mut literal).into_bytes()));
        }
        pieces.push(Piece::Conv(conversion));
    }
    if !literal.is_empty() {
        pieces.push(Piece::Text(literal.into_bytes()));
    }
    Format { pieces }
}

impl World {
    /// A program with BEGIN, `read` and `method` probes in one unit, and nothing in it.
    pub fn new() -> World {
        let probe = |id, p: &str, m: &str, f: &str, n: &str| Some(Probe { id, desc: ProbeDesc::new(p, m, f, n) });
        let prog = ProgKind { prog_type: 0, attach_type: 0, btf_id: 0, sleepable: false, ctx: Ctx::Args };
        let clause = |n| ClauseCode {
            clause: ClauseId(n),
            probes: Vec::new(),
            exprs: vec![Expr::Const(0), Expr::Str(b"abc".to_vec()), Expr::Comm],
            temps: Vec::new(),
            predicate: None,
            body: Vec::new(),
        };
        let unit = Unit {
            name: "u".into(),
            prog,
            selector: Selector::Cookie,
            probes: vec![
                probe(1, "dtrace", "", "", "BEGIN"),
                probe(40, "syscall", "vmlinux", "read", "entry"),
                probe(41, "syscall", "vmlinux", "read", "return"),
                probe(7, "foo1", "a.out", "main", "method-entry"),
                probe(8, "foo1", "a.out", "main", "method-return"),
                probe(9, "foo1", "a.out", "main", "carpentry"),
                None,
            ],
            phase: Phase::Run,
            clauses: vec![clause(0), clause(1)],
        };
        let clauses = [3, 8].map(|line| Clause { span: (0, 0, 0), line }).to_vec();
        let program = Program { units: vec![unit], clauses, ..Program::default() };
        World {
            program,
            layout: Layout { ncpu: 4, ..Layout::default() },
            types: TypeTable::default(),
            aggs: Aggregations::default(),
        }
    }

    /// Adds a record of a clause and the statement that writes it.
    pub fn record(&mut self, clause: u32, fields: &[Val], actions: Vec<Action>) -> u32 {
        let number = self.program.records.len() as u32;
        let mut size = HEADER;
        let mut places = Vec::new();
        for &val in fields {
            places.push((size, val));
            size += match val {
                Val::Int => 8,
                Val::Str { cap: n } | Val::Bytes { len: n } => n.next_multiple_of(8),
            };
        }
        self.layout.records.push(RecordLayout { size, fields: places });
        self.program.records.push(probity_ir::Record {
            clause: ClauseId(clause),
            unit: UnitId(0),
            ring: RingKind::Data,
            fields: fields.to_vec(),
            actions,
        });
        let values = fields.iter().map(|v| ExprId(if matches!(v, Val::Int) { 0 } else { 2 })).collect();
        self.program.units[0].clauses[clause as usize].body.push(Stmt::Emit { record: RecordId(number), values });
        number
    }

    /// Adds an aggregation.
    pub fn agg(&mut self, func: AggFunc, key: &[(Val, Show)]) -> AggId {
        let id = AggId(self.program.aggs.len() as u32);
        let mut size = 8;
        let mut fields = Vec::new();
        for &(val, _) in key {
            fields.push((size, val));
            size += match val {
                Val::Int => 8,
                Val::Str { cap: n } | Val::Bytes { len: n } => n.next_multiple_of(8),
            };
        }
        let key_size = if key.is_empty() { 4 } else { size };
        self.layout.aggs.push(AggLayout {
            map: 0,
            key_size,
            fields,
            words: func.words(),
            tag: 0,
            stride: 32 * func.words(),
        });
        self.program.aggs.push(Agg {
            name: format!("a{}", id.0),
            func,
            key: key.to_vec(),
            resettable: true,
            probes_of: Some(UnitId(0)),
        });
        self.aggs = Aggregations { percpu: self.aggs.percpu, ..Aggregations::new(&self.program) };
        let key = key.iter().map(|_| ExprId(2)).collect();
        let body = &mut self.program.units[0].clauses[0].body;
        body.push(Stmt::Aggregate { agg: id, key, args: Vec::new() });
        id
    }

    /// Calls `f` with the program's context.
    pub fn with<T>(&mut self, f: impl FnOnce(&Context, &mut Aggregations) -> T) -> T {
        let plan = Plan::new(&self.program);
        let Self { program, layout, types, .. } = self;
        let cx = Context { program, layout, types, plan: &plan, symbols: &NoSymbols };
        f(&cx, &mut self.aggs)
    }

    /// Feeds one CPU's value under a key of integers and strings.
    pub fn feed(&mut self, agg: AggId, cpu: u32, key: &[Value], words: &[u64], store: Store) {
        let layout = self.layout.aggs[agg.0 as usize].clone();
        let mut bytes = vec![0; layout.key_size as usize];
        bytes[..4].copy_from_slice(&cpu.to_ne_bytes());
        for (value, &(at, _)) in key.iter().zip(&layout.fields) {
            let raw = match value {
                Value::Int { value, .. } => value.to_ne_bytes().to_vec(),
                Value::Pointer(p) => p.to_ne_bytes().to_vec(),
                other => other.bytes().unwrap().to_vec(),
            };
            bytes[at as usize..at as usize + raw.len()].copy_from_slice(&raw);
        }
        let value: Vec<u8> = words.iter().flat_map(|w| w.to_ne_bytes()).collect();
        self.with(|cx, aggs| aggs.add(cx, agg, &bytes, &value, store)).unwrap();
    }

    /// Renders records, given as (number, CPU, probe index, field bytes); then ends. Returns both outputs.
    pub fn run(&mut self, style: Style, records: &[(u32, u16, u16, Vec<u8>)]) -> (String, String) {
        self.render(&mut Text::new(style), records)
    }

    /// [`World::run`] with any renderer.
    pub fn render(&mut self, r: &mut dyn Renderer, records: &[(u32, u16, u16, Vec<u8>)]) -> (String, String) {
        let (mut out, mut err) = (Vec::new(), Vec::new());
        self.with(|cx, aggs| {
            for (number, cpu, probe, fields) in records {
                let bytes = encode(*number, *cpu, *probe, fields);
                let event = decode(cx, &bytes).unwrap();
                r.event(cx, &event, aggs, &mut out, &mut err).unwrap();
            }
            r.flush(&mut out).unwrap();
            r.finish(cx, aggs, &mut out).unwrap();
        });
        (String::from_utf8(out).unwrap(), String::from_utf8(err).unwrap())
    }
}

/// A record as a ring has it.
pub fn encode(number: u32, cpu: u16, probe: u16, fields: &[u8]) -> Vec<u8> {
    let mut bytes = 1_000u64.to_ne_bytes().to_vec();
    bytes.extend(number.to_ne_bytes());
    bytes.extend(cpu.to_ne_bytes());
    bytes.extend(probe.to_ne_bytes());
    bytes.extend(fields);
    bytes
}

/// Integer fields.
pub fn ints(values: &[i64]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_ne_bytes()).collect()
}

/// A string field of capacity `cap`.
pub fn string(s: &[u8], cap: usize) -> Vec<u8> {
    let mut bytes = s.to_vec();
    bytes.resize(cap.next_multiple_of(8), 0);
    bytes
}
