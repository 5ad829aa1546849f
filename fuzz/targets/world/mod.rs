//! The fixed program that `output` decodes records of: every kind of field, action and aggregating function.

use probity_ir::*;

/// A program and its bytes.
pub struct World {
    pub program: Program,
    pub layout: Layout,
}

const NCPU: u32 = 4;

fn int(size: u8, signed: bool, kind: IntKind) -> Show {
    Show::Int { size, signed, kind }
}

fn operand(n: u32, show: Show) -> Operand {
    Operand { field: FieldId(n), show }
}

/// A format of one conversion after a word: flags, then a letter.
fn conversion(set: impl FnOnce(&mut Conversion), letter: char) -> [Piece; 2] {
    let mut conversion = Conversion { letter, ..Conversion::default() };
    set(&mut conversion);
    [Piece::Text(" x ".into()), Piece::Conv(conversion)]
}

fn format(pieces: impl IntoIterator<Item = [Piece; 2]>) -> Format {
    Format { pieces: pieces.into_iter().flatten().collect() }
}

fn place(vals: impl IntoIterator<Item = Val>, start: u32) -> (u32, Vec<(u32, Val)>) {
    let mut size = start;
    let mut fields = Vec::new();
    for val in vals {
        fields.push((size, val));
        size += match val {
            Val::Int => 8,
            Val::Str { cap: n } | Val::Bytes { len: n } => n.next_multiple_of(8),
        };
    }
    (size, fields)
}

impl World {
    pub fn new() -> World {
        let probe = |id, p: &str, f: &str, n: &str| Some(Probe { id, desc: ProbeDesc::new(p, "m", f, n) });
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
            prog: ProgKind { prog_type: 0, attach_type: 0, btf_id: 0, sleepable: false, ctx: Ctx::Args },
            selector: Selector::Cookie,
            probes: vec![
                probe(1, "dtrace", "", "BEGIN"),
                probe(2, "syscall", "read", "entry"),
                probe(3, "syscall", "read", "return"),
                None,
            ],
            phase: Phase::Run,
            clauses: vec![clause(0), clause(1)],
        };
        let clauses = [3, 8].map(|line| Clause { span: (0, 0, 0), line }).to_vec();
        let mut world = World {
            program: Program { units: vec![unit], clauses, ..Program::default() },
            layout: Layout { ncpu: NCPU, ..Layout::default() },
        };
        world.all_aggs();
        world.all_records();
        world
    }

    /// Bytes of a whole key and a whole value (or part of one) of an aggregation.
    pub fn sizes(&self, agg: AggId) -> (usize, usize) {
        let Some(layout) = self.layout.aggs.get(agg.0 as usize) else { return (8, 8) };
        (layout.key_size as usize, (8 * (layout.words + 1)) as usize)
    }

    fn all_aggs(&mut self) {
        let text = (Val::Str { cap: 12 }, Show::String);
        let number = (Val::Int, int(4, true, IntKind::Number));
        let raw = (Val::Bytes { len: 5 }, Show::Bytes { ty: None });
        let part = (Val::Int, Show::ProbePart(ProbePart::Function));
        let funcs = [
            AggFunc::Count,
            AggFunc::Sum,
            AggFunc::Min,
            AggFunc::Max,
            AggFunc::Avg,
            AggFunc::Stddev,
            AggFunc::Quantize,
            AggFunc::Lquantize { low: -5, high: 50, step: 7 },
            AggFunc::Llquantize { factor: 10, low: 0, high: 6, steps: 20 },
        ];
        for (i, func) in funcs.into_iter().enumerate() {
            self.agg(func, &[], i % 2 == 0);
            self.agg(func, std::slice::from_ref(&number), i % 2 == 0);
        }
        self.agg(AggFunc::Sum, &[text.clone(), part], true);
        self.agg(AggFunc::Quantize, &[raw, (Val::Int, Show::Pointer), text], false);
    }

    fn agg(&mut self, func: AggFunc, key: &[(Val, Show)], resettable: bool) {
        let id = AggId(self.program.aggs.len() as u32);
        let (size, fields) = place(key.iter().map(|&(val, _)| val), 8);
        let key_size = if key.is_empty() { 4 } else { size };
        let (words, stride) = (func.words(), (8 * (func.words() + 1)).next_multiple_of(64));
        self.layout.aggs.push(AggLayout { map: 0, key_size, fields, words, stride, tag: 0 });
        let probes_of = Some(UnitId(0));
        self.program.aggs.push(Agg { name: format!("a{}", id.0), func, key: key.to_vec(), resettable, probes_of });
        let key = key.iter().map(|_| ExprId(2)).collect();
        self.program.units[0].clauses[0].body.push(Stmt::Aggregate { agg: id, key, args: Vec::new() });
    }

    fn record(&mut self, clause: u32, fields: &[Val], actions: Vec<Action>) {
        let number = self.program.records.len() as u32;
        let (size, places) = place(fields.iter().copied(), HEADER);
        self.layout.records.push(RecordLayout { size, fields: places });
        let values = fields.iter().map(|v| ExprId(if matches!(v, Val::Int) { 0 } else { 2 })).collect();
        let (ring, fields) = (RingKind::Data, fields.to_vec());
        self.program.records.push(Record { clause: ClauseId(clause), unit: UnitId(0), ring, fields, actions });
        let body = &mut self.program.units[0].clauses[clause as usize].body;
        body.push(Stmt::Emit { record: RecordId(number), values });
    }

    fn all_records(&mut self) {
        let text = Val::Str { cap: 10 };
        let raw = Val::Bytes { len: 12 };
        // Each way to show a field.
        let shows = [
            (Val::Int, int(1, true, IntKind::Char)),
            (Val::Int, int(1, false, IntKind::Bool)),
            (Val::Int, int(2, true, IntKind::Number)),
            (Val::Int, int(8, false, IntKind::Number)),
            (Val::Int, Show::Pointer),
            (Val::Int, Show::ProbePart(ProbePart::Module)),
            (Val::Int, Show::String),
            (text, Show::String),
            (text, Show::Bytes { ty: None }),
            (raw, Show::Bytes { ty: None }),
            (raw, Show::String),
            (raw, int(4, true, IntKind::Number)),
        ];
        let fields: Vec<Val> = shows.iter().map(|&(val, _)| val).collect();
        let operands: Vec<Operand> =
            shows.iter().enumerate().map(|(n, (_, show))| operand(n as u32, show.clone())).collect();
        self.record(0, &fields, operands.iter().cloned().map(Action::Trace).collect());
        for operand in operands {
            let val = fields[operand.field.0 as usize];
            self.record(1, &[val], vec![Action::Trace(Operand { field: FieldId(0), ..operand }), Action::Default]);
        }
        // Each conversion, once of an integer, once of a string, once of bytes.
        let letters = "aAcCdDiIeEfFgGhkoOpPsSTuUwWxXyYZ?";
        let long = int(8, true, IntKind::Number);
        for (val, show) in [(Val::Int, long.clone()), (text, Show::String), (raw, Show::Bytes { ty: None })] {
            let format = format(letters.chars().map(|letter| conversion(|_| (), letter)));
            let operands = letters.chars().map(|_| operand(0, show.clone())).collect();
            self.record(1, &[val], vec![Action::Printf { format, operands }]);
        }
        // Flags, widths and precisions, also such as come from the record.
        let flags: [fn(&mut Conversion); 8] = [
            |c| (c.left, c.width) = (true, Some(12)),
            |c| (c.plus, c.zero, c.width) = (true, true, Some(9)),
            |c| (c.space, c.alternate) = (true, true),
            |c| (c.group, c.precision) = (true, Some(3)),
            |c| (c.width_arg, c.left) = (true, true),
            |c| c.precision_arg = true,
            |c| (c.width_arg, c.precision_arg, c.zero) = (true, true, true),
            |c| (c.modifier, c.precision) = ("hh".into(), Some(0)),
        ];
        for letter in "dxosScefgpY".chars() {
            for set in flags {
                let format = format([conversion(set, letter)]);
                let show = if matches!(letter, 's' | 'S') { Show::String } else { long.clone() };
                let mut operands = vec![operand(2, show)];
                let Piece::Conv(c) = &format.pieces[1] else { continue };
                operands.splice(0..0, c.precision_arg.then(|| operand(1, int(4, true, IntKind::Number))));
                operands.splice(0..0, c.width_arg.then(|| operand(0, int(4, true, IntKind::Number))));
                let last = if matches!(letter, 's' | 'S') { text } else { Val::Int };
                self.record(1, &[Val::Int, Val::Int, last], vec![Action::Printf { format, operands }]);
            }
        }
        // What is done to aggregations, one by one and joined.
        let count = self.program.aggs.len() as u32;
        for agg in (0..count).map(AggId) {
            self.record(1, &[], vec![Action::Printa { format: None, aggs: vec![agg] }]);
            let by = || operand(0, long.clone());
            self.record(1, &[Val::Int], vec![Action::Normalize(agg, by())]);
            self.record(1, &[Val::Int], vec![Action::Trunc(agg, Some(by()))]);
            self.record(1, &[], vec![Action::Clear(agg), Action::Denormalize(agg), Action::Trunc(agg, None)]);
        }
        for first in 0..2 {
            // Those of even number have no key, those of odd number an integer, up to the last two.
            let aggs: Vec<AggId> = (0..count - 2).filter(|n| n % 2 == first).map(AggId).collect();
            let pieces = aggs.iter().map(|_| conversion(|c| c.agg = true, 'd'));
            let key = (first == 1).then(|| conversion(|c| c.width = Some(20), 'd'));
            let format = Some(format(key.into_iter().chain(pieces)));
            self.record(0, &[], vec![Action::Printa { format, aggs: aggs.clone() }]);
            self.record(0, &[], vec![Action::Printa { format: None, aggs }]);
        }
        self.record(0, &[Val::Int], vec![Action::Exit(operand(0, int(4, true, IntKind::Number)))]);
        // Fields that the record does not have.
        self.record(0, &[Val::Int], vec![Action::Trace(operand(7, Show::String))]);
    }
}
