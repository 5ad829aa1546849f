//! DTrace's layouts of records: heading, columns, default forms, flow indentation, hexadecimal tables.

use super::*;

fn quiet(style: Style) -> Style {
    Style { quiet: true, ..style }
}

#[test]
fn trace_of_each_type() {
    for (size, signed, value, want, bare) in [
        (1, true, -1, "   -1", "-1"),
        (1, false, 255, " 255", "255"),
        (2, true, -1, "    -1", "-1"),
        (2, false, 65535, " 65535", "65535"),
        (4, true, -1, "         -1", "-1"),
        (4, false, 4294967295, " 4294967295", "4294967295"),
        (8, true, -1, "                  -1", "-1"),
        (8, false, -1, " 18446744073709551615", "18446744073709551615"),
    ] {
        let mut w = World::new();
        w.record(0, &[Val::Int], vec![Action::Trace(operand(0, int(size, signed)))]);
        let records = [(0, 1, 0, ints(&[value]))];
        // One byte signed is as wide as unsigned.
        let want = if size == 1 && signed { "  -1" } else { want };
        let line = format!("  1      1                           :BEGIN {want}\n");
        let head = "CPU     ID                    FUNCTION:NAME\n";
        assert_eq!(w.run(Style::dtrace(), &records).0, format!("{head}{line}\n"), "{size} {signed}");
        assert_eq!(w.run(quiet(Style::dtrace()), &records).0, format!("{bare}\n"), "{size} {signed}");
    }
}

#[test]
fn trace_of_strings_pointers_and_bytes() {
    let mut w = World::new();
    let actions = vec![
        Action::Trace(operand(0, Show::String)),
        Action::Trace(operand(1, Show::Pointer)),
        Action::Trace(operand(2, Show::ProbePart(ProbePart::Function))),
        Action::Default,
    ];
    w.record(0, &[Val::Str { cap: 8 }, Val::Int, Val::Int], actions);
    let mut fields = string(b"a", 8);
    fields.extend(ints(&[0x1000, 1]));
    let records = [(0, 0, 1, fields)];
    assert_eq!(
        w.run(Style::dtrace(), &records).0,
        "CPU     ID                    FUNCTION:NAME\n\
         \x20 0     40                       read:entry   a                                                 4096  read                             \n\n"
    );
    assert_eq!(w.run(quiet(Style::dtrace()), &records).0, "a4096read\n");
    assert_eq!(w.run(quiet(Style::default()), &records).0, "a0x1000read");

    let mut w = World::new();
    w.record(0, &[Val::Bytes { len: 18 }], vec![Action::Trace(operand(0, Show::Bytes { ty: None }))]);
    let mut fields = b"dtrace\0\0\x7f\xff 012345 ".to_vec();
    fields.resize(24, 0);
    assert_eq!(
        w.run(quiet(Style::dtrace()), &[(0, 0, 0, fields)]).0,
        "\n             0  1  2  3  4  5  6  7  8  9  a  b  c  d  e  f  0123456789abcdef\n\
         \x20        0: 64 74 72 61 63 65 00 00 7f ff 20 30 31 32 33 34  dtrace.... 01234\n\
         \x20       10: 35 20                                            5 \n\n"
    );
}

#[test]
fn each_record_has_a_line_and_the_heading_comes_once() {
    let mut w = World::new();
    w.record(
        0,
        &[Val::Int],
        vec![Action::Printf { format: parse("x %d\n"), operands: vec![operand(0, int(4, true))] }],
    );
    w.record(1, &[], vec![Action::Default]);
    let records = [(0, 0, 0, ints(&[5])), (1, 3, 1, vec![]), (0, 0, 0, ints(&[6]))];
    let want = "CPU     ID                    FUNCTION:NAME\n\
                \x20 0      1                           :BEGIN x 5\n\n\
                \x20 3     40                       read:entry \n\
                \x20 0      1                           :BEGIN x 6\n\n";
    assert_eq!(w.run(Style::dtrace(), &records).0, format!("{want}\n"));
    // Our own form has no empty line where nothing follows.
    assert_eq!(w.run(Style::default(), &records).0, want);
    assert_eq!(w.run(quiet(Style::dtrace()), &records).0, "x 5\nx 6\n\n");
    assert_eq!(w.run(quiet(Style::default()), &records).0, "x 5\nx 6\n");
}

#[test]
fn a_line_goes_on_over_the_records_of_one_firing() {
    let mut w = World::new();
    w.record(0, &[Val::Int], vec![Action::Trace(operand(0, int(1, false)))]);
    w.record(0, &[Val::Int], vec![Action::Exit(operand(0, int(4, true)))]);
    let records = [(0, 0, 0, ints(&[1])), (1, 0, 0, ints(&[0]))];
    let head = "CPU     ID                    FUNCTION:NAME\n";
    let line = "  0      1                           :BEGIN    1\n";
    assert_eq!(w.run(Style::default(), &records).0, format!("{head}{line}"));
    // Another firing, and one whose first record was lost.
    let records = [(0, 0, 0, ints(&[1])), (0, 0, 0, ints(&[1])), (1, 1, 0, ints(&[0]))];
    let alone = "  1      1                           :BEGIN \n";
    assert_eq!(w.run(Style::default(), &records).0, format!("{head}{line}{line}{alone}"));
}

#[test]
fn a_record_that_another_need_not_precede_starts_a_line() {
    let mut w = World::new();
    w.record(0, &[], vec![Action::Default]);
    w.record(0, &[], vec![Action::Default]);
    w.record(0, &[], vec![Action::Default]);
    let body = &mut w.program.units[0].clauses[0].body;
    let (third, second, first) = (body.pop().unwrap(), body.pop().unwrap(), body.pop().unwrap());
    body.push(Stmt::If { cond: ExprId(0), then: vec![first], otherwise: vec![second] });
    body.push(third);
    let plan = Plan::new(&w.program);
    let got: Vec<_> = plan.records.iter().map(|r| (r.continues, r.open)).collect();
    assert_eq!(got, [(false, true), (false, true), (true, false)]);
}

#[test]
fn flow_indentation() {
    let mut w = World::new();
    w.record(0, &[], vec![Action::Default]);
    w.record(1, &[], vec![Action::Default]);
    let fire = |probe: u16| (0u32, 0u16, probe, Vec::new());
    let records = [
        fire(0),
        fire(1),
        fire(3),
        fire(5),
        (1, 0, 3, vec![]),
        // The second clause of the same entry does not indent again.
        (0, 0, 3, vec![]),
        fire(4),
        fire(4),
        (0, 1, 2, vec![]),
        fire(2),
        fire(2),
    ];
    let style = Style { flowindent: true, crossing: vec!["syscall".into()], ..Style::dtrace() };
    let want = "\
CPU FUNCTION                                 
  0 | :BEGIN                                  
  0  => read                                  
  0    -> main                                
  0     | main:carpentry                      
  0      -> main                              
  0       | main:method-entry                 
  0      <- main                              
  0    <- main                                
  1  <= read                                  
  0  <= read                                  
  0  <= read                                  

";
    let got = w.run(style, &records).0;
    let trim = |s: &str| s.lines().map(|l| l.trim_end().to_string()).collect::<Vec<_>>();
    assert_eq!(trim(&got), trim(want));
    // Columns: CPU, a blank, 41 of name, a blank.
    assert!(got.lines().nth(2).unwrap().len() == 46, "{got}");
    // Under -F the names are there even when quiet, the newlines are the program's own.
    let style = Style { flowindent: true, crossing: vec!["syscall".into()], quiet: true, ..Style::dtrace() };
    assert_eq!(w.run(style, &[fire(0)]).0.lines().count(), 2);
}

#[test]
fn cut_strings_are_marked() {
    let mut w = World::new();
    w.record(0, &[Val::Str { cap: 8 }], vec![Action::Trace(operand(0, Show::String))]);
    for (bytes, cut) in [(&b"abcdefg"[..], true), (b"abcdef", false), (b"", false), (b"abcdefgh", true)] {
        let records = [(0, 0, 0, string(bytes, 8))];
        let plain = String::from_utf8(bytes.to_vec()).unwrap();
        let mark = if cut { "…" } else { "" };
        assert_eq!(w.run(quiet(Style::default()), &records).0, format!("{plain}{mark}"));
        assert_eq!(w.run(quiet(Style::dtrace()), &records).0, format!("{plain}\n"));
    }
    // A constant is exactly as long as its capacity.
    if let Stmt::Emit { values, .. } = &mut w.program.units[0].clauses[0].body[0] {
        values[0] = ExprId(1);
    }
    assert_eq!(w.run(quiet(Style::default()), &[(0, 0, 0, string(b"abcdefg", 8))]).0, "abcdefg");
}
