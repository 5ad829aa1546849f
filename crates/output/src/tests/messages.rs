//! Drops, faults, errors, and JSON.

use super::*;
use serde_json::{Value as J, json};

fn fault_bytes(code: u32, action: u32, value: u64) -> Vec<u8> {
    let words = [0u32, 1, action, 12, code, 0];
    let mut fields: Vec<u8> = words.iter().flat_map(|w| w.to_ne_bytes()).collect();
    fields.extend(value.to_ne_bytes());
    fields
}

#[test]
fn faults_in_words() {
    let cases = [
        (1, 1, 0x10, "invalid address (0x10) in action #1"),
        (1, 2, u64::MAX, "invalid address in action #2"),
        (4, 1, 0, "divide-by-zero in action #1"),
        (5, 1, 7, "out of scratch space in action #1"),
        (9, 1, 0xff, "bad stack (0xff) in action #1"),
        (10, 1, 0x40, "invalid size (0x40) in action #1"),
        (11, 3, -1i64 as u64, "index out of bounds (-1) in action #3"),
        (99, 1, 0, "unknown fault in action #1"),
        (4, 0, 0, "divide-by-zero"),
    ];
    for (code, action, value, want) in cases {
        let mut w = World::new();
        let records = [(FAULT, 1, 1, fault_bytes(code, action, value))];
        let (out, err) = w.run(Style { quiet: true, ..Style::dtrace() }, &records);
        let head = "error in dt_clause_1 for probe ID 40 (syscall:vmlinux:read:entry): ";
        assert_eq!((out.as_str(), err), ("\n", format!("dtrace: {head}{want}\n")));
        let head = "error on enabled probe ID 8 (ID 40: syscall:vmlinux:read:entry): ";
        let (_, err) = w.run(Style::default(), &records);
        let predicate = if action == 0 { " in predicate" } else { "" };
        assert_eq!(err, format!("probity: {head}{want}{predicate} at line 12\n"));
    }
}

#[test]
fn drops_in_words() {
    let mut w = World::new();
    let plain = Style { quiet: true, ..Style::dtrace() };
    let tagged = Style { droptags: true, ..plain.clone() };
    let count = |cause, cpu, count| DropCount { cause, cpu, count };
    let mut say = |style: &Style, drops: &[DropCount]| {
        let (mut out, mut err, mut text) = (Vec::new(), Vec::new(), Text::new(style.clone()));
        w.with(|cx, aggs| {
            for &d in drops {
                text.event(cx, &Event::Drops(d), aggs, &mut out, &mut err).unwrap();
            }
        });
        assert_eq!(out, b"");
        String::from_utf8(err).unwrap()
    };
    for (drops, want) in [
        (count(Drop::Data, Some(3), 1), "dtrace: 1 drop on CPU 3\n"),
        (count(Drop::Data, Some(0), 12), "dtrace: 12 drops on CPU 0\n"),
        (count(Drop::Aggregation, Some(1), 3), "dtrace: 3 aggregation drops on CPU 1\n"),
        (count(Drop::Dynamic, Some(1), 2), "dtrace: 2 dynamic variable drops\n"),
        (count(Drop::Dynamic, None, 1), "dtrace: 1 dynamic variable drop\n"),
    ] {
        assert_eq!(say(&plain, &[drops]), want);
    }
    assert_eq!(say(&tagged, &[count(Drop::Data, Some(0), 1)]), "dtrace: [DTRACEDROP_PRINCIPAL] 1 drop on CPU 0\n");
    // Every cause that generated code counts: the count first, then the word; the note once.
    for cause in Drop::ALL {
        let got = say(&Style::default(), &[count(cause, Some(1), 5), count(cause, Some(2), 6)]);
        let lines: Vec<_> = got.lines().collect();
        assert_eq!(lines.len(), 3, "{got}");
        assert!(lines[0].starts_with("probity: 5 ") && lines[0].ends_with(" on CPU 1"), "{got}");
        assert!(lines[1].starts_with("probity: note: "), "{got}");
        assert!(lines[2].starts_with("probity: 6 ") && lines[2].ends_with(" on CPU 2"), "{got}");
        // A sum over lines by count must not take the note for one.
        assert!(!lines[1].contains(char::is_numeric), "{got}");
    }
}

fn lines(out: &str) -> Vec<J> {
    out.lines().map(|l| serde_json::from_str(l).unwrap()).collect()
}

#[test]
fn json_records() {
    let mut w = World::new();
    let agg = w.agg(AggFunc::Quantize, &[(Val::Str { cap: 8 }, Show::String)]);
    let sum = w.agg(AggFunc::Max, &[]);
    let actions = vec![
        Action::Trace(operand(0, int(8, false))),
        Action::Trace(operand(1, Show::String)),
        Action::Printf {
            format: parse("n %d %s\n"),
            operands: vec![operand(0, int(8, true)), operand(2, Show::Pointer)],
        },
        Action::Printa { format: None, aggs: vec![agg] },
        Action::Clear(sum),
        Action::Trace(operand(3, Show::Bytes { ty: None })),
        Action::Exit(operand(0, int(4, true))),
    ];
    w.record(0, &[Val::Int, Val::Str { cap: 8 }, Val::Int, Val::Bytes { len: 2 }], actions);
    let mut words = vec![0; 127];
    words[63] = 2;
    words[64 + 3] = 5;
    w.feed(agg, 0, &[Value::Bytes(b"\"\xff".to_vec())], &words, Store::Kept);
    w.feed(sum, 0, &[], &[7 ^ (1 << 63)], Store::Kept);
    let fields = |s: &[u8]| [ints(&[-1]), string(s, 8), ints(&[0x1000]), string(b"\x01\xfe", 2)].concat();
    let records = [(0, 1, 1, fields(b"a\xffb")), (0, 1, 1, fields(b"\"\n\x01\xc3\xa9"))];
    let (out, err) = w.render(&mut Json::new(Style::default()), &records);
    assert_eq!(err, "");
    let got = lines(&out);
    let probe = json!({"id": 40, "provider": "syscall", "module": "vmlinux", "function": "read", "name": "entry"});
    let printf = json!({"action": "printf", "text": "n -1 4096\n", "args": [-1, "0x1000"]});
    let record =
        |items: J| json!({"type": "record", "time": 1000, "cpu": 1, "probe": probe, "clause": 3, "items": items});
    let max = u64::MAX;
    assert_eq!(
        got[0],
        record(json!([
            {"action": "trace", "value": max},
            {"action": "trace", "value": {"bytes": "61ff62"}},
            printf,
        ]))
    );
    assert_eq!(
        got[1],
        json!({"type": "aggregation", "name": "a0", "function": "quantize", "entries": [
            {"key": [{"bytes": "22ff"}], "buckets": [{"lo": 0, "hi": 0, "count": 2}, {"lo": 8, "hi": 15, "count": 5}]}
        ]})
    );
    assert_eq!(got[2], record(json!([{"action": "trace", "value": {"bytes": "01fe"}}])));
    assert_eq!(got[3]["items"][1]["value"], json!("\"\n\x01é"));
    // Printed already, and cleared.
    let last = got.last().unwrap();
    assert_eq!(
        *last,
        json!({"type": "aggregation", "name": "a1", "function": "max", "entries": [{"key": [], "value": null}]})
    );
    assert_eq!(got.len(), 7);
}

#[test]
fn json_messages() {
    let mut w = World::new();
    let mut out = Vec::new();
    let mut r = Json::new(Style::default());
    w.with(|cx, aggs| {
        let fault = decode(cx, &encode(FAULT, 1, 1, &fault_bytes(1, 2, 0x10))).unwrap();
        let drops = Event::Drops(DropCount { cause: Drop::Data, cpu: Some(1), count: 7 });
        for event in [fault, drops, Event::Error("a \"b\"".into()), Event::Exit(3)] {
            r.event(cx, &event, aggs, &mut out, &mut Vec::new()).unwrap();
        }
        r.finish(cx, aggs, &mut out).unwrap();
    });
    let got = lines(std::str::from_utf8(&out).unwrap());
    assert_eq!(got[0]["type"], "fault");
    assert_eq!(
        (&got[0]["fault"], &got[0]["value"], &got[0]["line"]),
        (&json!("invalid address"), &json!(16), &json!(12))
    );
    assert_eq!(
        got[1],
        json!({"type": "drops", "cause": "data", "tag": "DTRACEDROP_PRINCIPAL", "cpu": 1, "count": 7,
               "message": "probity: 7 drops on CPU 1"})
    );
    assert_eq!(got[2], json!({"type": "error", "message": "a \"b\""}));
    assert_eq!(got[3], json!({"type": "exit", "status": 3}));
}

#[test]
fn json_marks_cut_strings() {
    let mut w = World::new();
    w.record(0, &[Val::Str { cap: 4 }], vec![Action::Trace(operand(0, Show::String))]);
    let (out, _) = w.render(&mut Json::default(), &[(0, 0, 0, string(b"abc", 4))]);
    assert_eq!(lines(&out)[0]["items"][0]["value"], json!({"text": "abc", "truncated": true}));
}
