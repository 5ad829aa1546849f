//! Whatever is printed is read back, and nothing that is read makes the parser panic.

use super::*;
use crate::*;

/// A small generator of pseudo-random numbers, so that every run tests the same.
struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, n: u32) -> u32 {
        ((self.next() >> 32) % u64::from(n.max(1))) as u32
    }

    fn flip(&mut self) -> bool {
        self.below(2) == 0
    }

    fn pick<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u32) as usize].clone()
    }

    fn list<T>(&mut self, most: u32, mut make: impl FnMut(&mut Rng) -> T) -> Vec<T> {
        (0..self.below(most + 1)).map(|_| make(self)).collect()
    }

    fn option<T>(&mut self, make: impl FnOnce(&mut Rng) -> T) -> Option<T> {
        if self.flip() { Some(make(self)) } else { None }
    }

    fn text(&mut self) -> String {
        self.pick(&["", "x", "read", "a b", "q\"uo\\te", "line\nline", "\u{e9}\u{1}", "(;)", "\\x41"]).to_owned()
    }

    fn bytes(&mut self) -> Vec<u8> {
        self.list(6, |r| r.next() as u8)
    }

    fn val(&mut self) -> Val {
        match self.below(3) {
            0 => Val::Int,
            1 => Val::Str { cap: self.below(300) },
            _ => Val::Bytes { len: self.below(300) },
        }
    }

    fn space(&mut self) -> Space {
        self.pick(&[Space::Kernel, Space::User, Space::Absent, Space::Scratch])
    }

    fn part(&mut self) -> ProbePart {
        self.pick(&[ProbePart::Provider, ProbePart::Module, ProbePart::Function, ProbePart::Name])
    }

    fn size(&mut self) -> u8 {
        self.pick(&[1, 2, 4, 8])
    }

    fn location(&mut self, depth: u32) -> Location {
        let (offset, size, signed) = (self.below(5000), self.size(), self.flip());
        let far = self.next() as i64;
        match self.below(if depth == 0 { 7 } else { 15 }) {
            0 => Location::Value(far),
            1 => Location::Ctx { offset, size, signed },
            2 => Location::Reg { dwarf: offset as u16 },
            3 => Location::Pc { space: self.space() },
            4 => Location::CurrentTask,
            5 => Location::None(self.text()),
            6 => Location::Site,
            7 => Location::Memory {
                base: Box::new(self.location(depth - 1)),
                offset: far,
                size,
                signed,
                space: self.space(),
            },
            8 => Location::Btf { base: Box::new(self.location(depth - 1)), offset, size, signed },
            9 => Location::Narrow { of: Box::new(self.location(depth - 1)), size, signed },
            10 => Location::Address { base: Box::new(self.location(depth - 1)), offset: far, space: self.space() },
            11 => Location::Masked { of: Box::new(self.location(depth - 1)), mask: far },
            12 => Location::Case {
                test: Box::new(self.test(depth - 1)),
                then: Box::new(self.location(depth - 1)),
                otherwise: Box::new(self.location(depth - 1)),
            },
            13 => Location::Sum {
                base: Box::new(self.location(depth - 1)),
                plus: Box::new(self.location(depth - 1)),
                times: far,
            },
            _ if self.flip() => Location::DataLoc { offset },
            _ => Location::CtxAddress { offset },
        }
    }

    fn test(&mut self, depth: u32) -> Test {
        let (low, high) = (self.next() as i64, self.next() as i64);
        match self.below(if depth == 0 { 2 } else { 4 }) {
            0 => Test::Within { value: self.location(depth), low, high },
            1 => Test::Less { a: self.location(depth), b: self.location(depth) },
            2 => Test::All(self.list(3, |r| r.test(depth - 1))),
            _ => Test::Any(self.list(3, |r| r.test(depth - 1))),
        }
    }

    fn id(&mut self) -> ExprId {
        ExprId(self.below(100))
    }

    fn ids(&mut self) -> Vec<ExprId> {
        self.list(3, Rng::id)
    }

    fn expr(&mut self) -> Expr {
        let (a, b, c) = (self.id(), self.id(), self.id());
        let (size, signed, space, cap) = (self.size(), self.flip(), self.space(), self.below(600));
        match self.below(29) {
            0 => Expr::Const(self.next() as i64),
            1 => Expr::Loc(self.location(3)),
            2 => Expr::Builtin(self.pick(&super::print::BUILTINS.iter().map(|b| b.1).collect::<Vec<_>>())),
            3 => Expr::Temp(TempId(cap)),
            4 => Expr::Var(VarId(self.below(4))),
            5 => Expr::Elem(ArrayId(self.below(4)), self.ids()),
            6 => Expr::Un(self.pick(&[UnOp::Neg, UnOp::Not, UnOp::LogNot]), a),
            7 => Expr::Bin(self.pick(&super::print::BIN_OPS.iter().map(|b| b.1).collect::<Vec<_>>()), a, b),
            8 => Expr::Ext { of: a, size, signed },
            9 => Expr::And(a, b),
            10 => Expr::Or(a, b),
            11 => Expr::Cond(a, b, c),
            12 => Expr::Load { addr: a, size, signed, space },
            13 => Expr::StrCmp(self.pick(&super::print::STR_OPS.iter().map(|b| b.1).collect::<Vec<_>>()), a, b),
            14 if self.flip() => Expr::ScratchAddr(a),
            14 => Expr::StrLen(a),
            15 => Expr::Str(self.bytes()),
            16 => Expr::Comm,
            17 => Expr::ProbeText(self.part()),
            18 => Expr::ProbeIndex,
            19 => Expr::ReadStr { addr: a, space, cap, max: self.option(Rng::id) },
            20 => Expr::StrJoin { a, b, cap },
            21 => {
                let sub = self.pick(&crate::Sub::ALL.iter().map(|s| s.1).collect::<Vec<_>>());
                Expr::Sub { sub, args: self.ids(), cap }
            }
            24 => {
                let entry = self.option(|r| r.location(2));
                Expr::Stack(Stack { user: signed, frames: cap, strsize: self.below(99), entry })
            }
            22 => Expr::Part { of: a, offset: cap, size, signed },
            23 => Expr::UserAddr(a),
            25 => Expr::AddrOf(self.place()),
            26 => Expr::Bounded { index: a, len: cap },
            27 => Expr::CharAt { of: a, index: b },
            _ => Expr::ReadBytes { addr: a, space, len: cap },
        }
    }

    fn place(&mut self) -> Place {
        if self.flip() { Place::Var(VarId(self.below(4))) } else { Place::Elem(ArrayId(self.below(4)), self.ids()) }
    }

    fn stmt(&mut self, depth: u32) -> Stmt {
        let (a, b) = (self.id(), self.id());
        let temp = TempId(self.below(9));
        match self.below(if depth == 0 { 12 } else { 13 }) {
            0 => Stmt::SetTemp(temp, a),
            1 => Stmt::SetVar(VarId(self.below(4)), a),
            2 => Stmt::AddVar { var: VarId(self.below(4)), by: a, old: self.option(|_| temp) },
            3 => Stmt::SetElem(ArrayId(self.below(4)), self.ids(), a),
            4 => Stmt::AddElem { array: ArrayId(self.below(4)), key: self.ids(), by: a, old: self.option(|_| temp) },
            5 => match self.below(4) {
                0 => Stmt::Alloc { dst: temp, len: a },
                1 => Stmt::Copy { to: a, from: b, space: self.space(), len: self.id() },
                2 => Stmt::CopyOut { to: a, from: b, space: self.space(), len: self.id(), text: self.flip() },
                _ => Stmt::CopyIn { dst: temp, addr: a, len: b, space: self.space() },
            },
            6 => Stmt::Aggregate { agg: AggId(self.below(3)), key: self.ids(), args: self.ids() },
            7 => Stmt::Emit { record: RecordId(self.below(9)), values: self.ids() },
            8 => Stmt::Stop,
            9 => Stmt::Act {
                act: self.pick(&[
                    KernelAct::SpecStart,
                    KernelAct::SpecUse,
                    KernelAct::SpecRoom { bytes: 40 },
                    KernelAct::SpecEnd,
                    KernelAct::Raise,
                    KernelAct::Chill,
                    KernelAct::Return,
                ]),
                dst: self.option(|_| temp),
                args: self.ids(),
            },
            10 => Stmt::Mark { line: self.below(999), action: self.below(9) },
            11 => {
                let to = match self.below(3) {
                    0 => Dest::Scratch,
                    1 => Dest::Global,
                    _ => Dest::Place(self.place()),
                };
                Stmt::Store { to, offset: a, value: b, size: self.below(99) }
            }
            _ => Stmt::If {
                cond: a,
                then: self.list(3, |r| r.stmt(depth - 1)),
                otherwise: self.list(2, |r| r.stmt(depth - 1)),
            },
        }
    }

    fn show(&mut self) -> Show {
        match self.below(8) {
            5 => Show::Stack,
            6 => Show::Symbol(self.pick(&super::print::SYMBOLS.iter().map(|s| s.1).collect::<Vec<_>>())),
            0 => Show::Int {
                size: self.size(),
                signed: self.flip(),
                kind: self.pick(&[IntKind::Number, IntKind::Char, IntKind::Bool]),
            },
            1 => Show::Pointer,
            4 => Show::Float { size: self.pick(&[4, 8]) },
            2 => Show::String,
            3 => Show::Bytes { ty: self.option(|r| TypeId(r.below(99))) },
            _ => Show::ProbePart(self.part()),
        }
    }

    fn operand(&mut self) -> Operand {
        Operand { field: FieldId(self.below(9)), show: self.show() }
    }

    fn format(&mut self) -> Format {
        let pieces = self.list(3, |r| {
            if r.flip() {
                return Piece::Text(r.bytes());
            }
            Piece::Conv(Conversion {
                left: r.flip(),
                plus: r.flip(),
                space: r.flip(),
                alternate: r.flip(),
                zero: r.flip(),
                group: r.flip(),
                agg: r.flip(),
                width: r.option(|r| r.below(99)),
                width_arg: r.flip(),
                precision: r.option(|r| r.below(99)),
                precision_arg: r.flip(),
                modifier: r.pick(&["", "ll", "h"]).to_owned(),
                letter: r.pick(&['d', 's', '"', '\u{e9}']),
            })
        });
        Format { pieces }
    }

    fn action(&mut self) -> Action {
        let agg = AggId(self.below(4));
        match self.below(18) {
            0 => Action::Trace(self.operand()),
            1 => Action::Printf { format: self.format(), operands: self.list(3, Rng::operand) },
            2 => Action::Printa { format: self.option(Rng::format), aggs: self.list(3, |r| AggId(r.below(4))) },
            3 => Action::Exit(self.operand()),
            4 => Action::Clear(agg),
            5 => Action::Trunc(agg, self.option(Rng::operand)),
            6 => Action::Normalize(agg, self.operand()),
            7 => Action::Denormalize(agg),
            8 => Action::Print { addr: self.option(Rng::operand), value: self.operand(), ty: TypeId(self.below(99)) },
            9 => Action::Tracemem { data: self.operand(), size: self.option(Rng::operand) },
            12 => Action::System { format: self.format(), operands: self.list(3, Rng::operand) },
            13 => Action::Freopen { format: self.format(), operands: self.list(3, Rng::operand) },
            14 => Action::Ftruncate,
            15 => Action::Setopt(self.operand(), self.option(Rng::operand)),
            16 => Action::Pcap {
                proto: self.operand(),
                len: self.operand(),
                captured: self.operand(),
                data: self.operand(),
            },
            10 => Action::Commit(self.operand()),
            11 => Action::Discard(self.operand()),
            _ => Action::Default,
        }
    }

    fn func(&mut self) -> AggFunc {
        let n = self.below(60_000) as u16;
        self.pick(&[
            AggFunc::Count,
            AggFunc::Sum,
            AggFunc::Min,
            AggFunc::Max,
            AggFunc::Avg,
            AggFunc::Stddev,
            AggFunc::Quantize,
            AggFunc::Lquantize { low: -i32::from(n), high: i32::MAX, step: n },
            AggFunc::Llquantize { factor: n, low: 0, high: 3, steps: n },
        ])
    }

    fn prog(&mut self) -> ProgKind {
        ProgKind {
            prog_type: self.below(40),
            attach_type: self.below(60),
            btf_id: self.next() as u32,
            sleepable: self.flip(),
            ctx: self.pick(&[Ctx::Args, Ctx::Regs, Ctx::PerfEvent, Ctx::Record]),
        }
    }

    fn selector(&mut self) -> Selector {
        match self.below(3) {
            0 => Selector::One,
            1 => Selector::Cookie,
            _ => Selector::Syscall {
                number: self.location(2),
                compat: self.option(|r| (r.location(2), r.next())),
                limit: self.below(1000),
            },
        }
    }

    fn phase(&mut self) -> Phase {
        self.pick(&[Phase::Begin, Phase::Run, Phase::Timer, Phase::End, Phase::Always])
    }

    fn code(&mut self) -> ClauseCode {
        ClauseCode {
            clause: ClauseId(self.below(4)),
            probes: self.list(4, |r| r.below(900)),
            exprs: self.list(12, Rng::expr),
            temps: self.list(3, Rng::val),
            predicate: self.option(Rng::id),
            body: self.list(6, |r| r.stmt(3)),
        }
    }

    fn scope(&mut self) -> Scope {
        self.pick(&[Scope::Global, Scope::Thread, Scope::Clause])
    }

    fn program(&mut self) -> Program {
        Program {
            oncpu: self.option(|r| UnitId(r.below(9))),
            upkeep: self.option(|r| Upkeep { array: ArrayId(r.below(9)), units: r.list(3, |r| UnitId(r.below(9))) }),
            nspec: 1 + self.below(9),
            specsize: self.next(),
            cpu: self.option(|r| r.below(9)),
            clauses: self.list(3, |r| Clause { span: (r.below(9), r.below(999), r.below(999)), line: r.below(99) }),
            vars: self.list(4, |r| Var { name: r.text(), scope: r.scope(), val: r.val() }),
            arrays: self.list(3, |r| Array {
                name: r.text(),
                scope: r.scope(),
                key: r.list(3, Rng::val),
                val: r.val(),
            }),
            aggs: self.list(3, |r| Agg {
                name: r.text(),
                func: r.func(),
                key: r.list(3, |r| (r.val(), r.show())),
                resettable: r.flip(),
                probes_of: r.option(|r| UnitId(r.below(9))),
            }),
            records: self.list(3, |r| Record {
                clause: ClauseId(r.below(9)),
                unit: UnitId(r.below(9)),
                ring: r.pick(&[RingKind::Data, RingKind::Control, RingKind::Speculation]),
                fields: r.list(3, Rng::val),
                actions: r.list(3, Rng::action),
            }),
            units: self.list(3, |r| Unit {
                name: r.text(),
                prog: r.prog(),
                selector: r.selector(),
                probes: r.list(3, |r| {
                    r.option(|r| Probe {
                        id: r.below(9999),
                        desc: ProbeDesc::new(&r.text(), &r.text(), &r.text(), &r.text()),
                    })
                }),
                phase: r.phase(),
                clauses: r.list(3, Rng::code),
            }),
        }
    }

    fn signature(&mut self) -> Signature {
        Signature {
            prog: self.prog(),
            phase: self.phase(),
            group: self.text(),
            selector: self.selector(),
            index: self.below(900),
            when: self.option(|r| r.test(2)),
            raw: self.list(4, |r| r.location(2)),
            args: self.list(3, |r| Arg {
                name: r.text(),
                ty: TypeId(r.below(99)),
                location: r.location(3),
                translated: r.text(),
            }),
            errno: self.option(|r| r.location(2)),
            caller: self.option(|r| r.location(2)),
            ucaller: self.option(|r| r.location(2)),
        }
    }
}

#[test]
fn what_is_printed_is_read_back() {
    let mut rng = Rng(0x1234_5678_9abc_def1);
    for _ in 0..400 {
        let program = rng.program();
        let text = print(&program);
        assert_eq!(parse(&text).as_ref(), Ok(&program), "{text}");
        let location = rng.location(6);
        assert_eq!(parse_location(&print_location(&location)), Ok(location));
        let signature = rng.signature();
        assert_eq!(parse_signature(&print_signature(&signature)), Ok(signature));
    }
}

#[test]
fn damaged_text_is_refused_or_read_but_never_panics() {
    let mut rng = Rng(0xfeed_beef_1357_9bdf);
    for _ in 0..300 {
        let mut text = print(&rng.program()).into_bytes();
        for _ in 0..=rng.below(4) {
            if text.is_empty() {
                continue;
            }
            let at = rng.below(text.len() as u32) as usize;
            match rng.below(4) {
                0 => text[at] = rng.pick(b"()\";%\\x09 \n\xff"),
                1 => drop(text.remove(at)),
                2 => text.truncate(at),
                _ => text.insert(at, rng.pick(b"()\";-: 9")),
            }
        }
        let text = String::from_utf8_lossy(&text);
        if let Err(error) = parse(&text) {
            let lines = text.lines().count() as u32 + 1;
            assert!(error.line >= 1 && error.line <= lines && !error.message.is_empty(), "{error}");
        }
        let _ = (parse_location(&text), parse_signature(&text));
    }
}

#[test]
fn deep_nesting_is_an_error() {
    let text = "(".repeat(100_000);
    assert!(parse(&text).unwrap_err().message.contains("too deep"));
    let text = format!("{}(value 1){}", "(narrow ".repeat(150), " 4 signed)".repeat(150));
    assert!(parse_location(&text).is_ok());
}

#[test]
fn errors_name_their_line() {
    let error = parse("; a comment\n(var v0 \"x\" global int)\n(var v2 \"y\" global int)\n").unwrap_err();
    assert_eq!(error.to_string(), "line 3: v1 comes next, not v2");
    assert_eq!(parse("(stop)").unwrap_err().to_string(), "line 1: `stop` is nothing that a program has");
    assert_eq!(parse("(var v0 \"x").unwrap_err().message, "a string without its closing quote");
}

#[test]
fn a_program_reads_well() {
    let code = ClauseCode {
        clause: ClauseId(0),
        probes: vec![0],
        exprs: vec![Expr::Const(1), Expr::Var(VarId(0)), Expr::Bin(BinOp::Add, ExprId(1), ExprId(0))],
        temps: vec![],
        predicate: None,
        body: vec![Stmt::SetVar(VarId(0), ExprId(2))],
    };
    let program = Program {
        vars: vec![Var { name: "n".into(), scope: Scope::Global, val: Val::Int }],
        units: vec![Unit {
            name: "begin".into(),
            prog: ProgKind { prog_type: 17, attach_type: 0, btf_id: 0, sleepable: false, ctx: Ctx::Args },
            selector: Selector::One,
            probes: vec![Some(Probe { id: 1, desc: ProbeDesc::new("dtrace", "", "", "BEGIN") })],
            phase: Phase::Begin,
            clauses: vec![code],
        }],
        ..Program::default()
    };
    let want = r#"(var v0 "n" global int)
(unit u0 "begin" begin
  (prog args 17 0 0)
  (select one)
  (probe 1 "dtrace" "" "" "BEGIN")
  (code c0 (probes 0) (temps) (%0 const 1) (%1 var v0:n) (%2 add %1 %0) (body (set v0:n %2))))
"#;
    assert_eq!(print(&program), want);
}
