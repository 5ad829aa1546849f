//! Aggregations: merging, epochs, order, joins, and how they are printed. The pictures are what DTrace prints for the same values.

use super::*;
use crate::order::{joined, sorted};

const NUMBER: Show = Show::Int { size: 4, signed: true, kind: IntKind::Number };

fn key4() -> (Val, Show) {
    (Val::Int, NUMBER)
}

fn num(value: i64) -> Value {
    Value::Int { value, size: 4, signed: true, kind: Kind::Number }
}

fn name(cap: u32) -> (Val, Show) {
    (Val::Str { cap }, Show::String)
}

/// A bucket's words, all zero but for these.
fn at(func: AggFunc, counts: &[(usize, i64)]) -> Vec<u64> {
    let mut words = vec![0; func.words() as usize];
    for &(i, n) in counts {
        words[i] = n as u64;
    }
    words
}

/// The `quantize` bucket of a value, by the definition.
fn quantize(v: i64) -> usize {
    let zero = buckets::QUANTIZE_ZERO as usize;
    match v {
        0 => zero,
        1.. => zero + 1 + v.ilog2() as usize,
        i64::MIN => 0,
        _ => zero - 1 - v.unsigned_abs().ilog2() as usize,
    }
}

fn quiet() -> Style {
    Style { quiet: true, ..Style::dtrace() }
}

fn printa(w: &mut World, list: &[AggId], format: Option<&str>) -> u32 {
    w.record(1, &[], vec![Action::Printa { format: format.map(parse), aggs: list.to_vec() }])
}

#[test]
fn cpus_and_epochs_are_added_up() {
    let mut w = World::new();
    let sum = w.agg(AggFunc::Sum, &[name(8)]);
    let min = w.agg(AggFunc::Min, &[]);
    let dev = w.agg(AggFunc::Stddev, &[]);
    let word = |v: i64| (i64::MAX as u64).wrapping_sub(v as u64);
    w.feed(sum, 0, &[text("b")], &[3], Store::Kept);
    w.feed(sum, 1, &[text("b")], &[4], Store::Live);
    w.feed(sum, 1, &[text("a")], &[-9i64 as u64], Store::Live);
    w.feed(min, 0, &[], &[word(-100)], Store::Live);
    w.feed(min, 3, &[], &[word(-900)], Store::Live);
    w.feed(dev, 0, &[], &[1, 10, u64::MAX, 0], Store::Live);
    w.feed(dev, 1, &[], &[1, 20, 2, 1], Store::Live);
    assert_eq!(w.aggs.tables[dev.0 as usize].entries[0].words, [2, 30, 1, 2]);
    assert_eq!(
        w.run(quiet(), &[]).0,
        "\n  a                                                                -9\n  \
         b                                                                 7\n             -900\n       4294967295\n"
    );
    // Live words are forgotten when the map is read again, kept ones stay.
    w.aggs.begin(sum);
    let words = |w: &World| w.aggs.tables[0].entries.iter().map(|e| e.words[0] as i64).collect::<Vec<_>>();
    assert_eq!(words(&w), [3, 0]);
    w.feed(sum, 1, &[text("b")], &[5], Store::Live);
    assert_eq!(words(&w), [8, 0]);
    w.aggs.clear(sum);
    assert_eq!(words(&w), [0, 0]);
    w.feed(sum, 2, &[text("a")], &[1], Store::Live);
    assert_eq!(words(&w), [0, 1]);
}

#[test]
fn parts_of_keyless_values() {
    let mut w = World::new();
    let keyed = w.agg(AggFunc::Count, &[key4()]);
    let plain = w.agg(AggFunc::Sum, &[]);
    let zero = [0u8; 32];
    // The word after the value's says that the zero is an honest one.
    let mut touched = zero;
    touched[8] = 1;
    let add = |w: &mut World, part: u32, value: &[u8]| {
        w.with(|cx, aggs| aggs.add(cx, plain, &part.to_ne_bytes(), value, Store::Live))
    };
    assert_eq!(add(&mut w, 2, &zero), Ok(()));
    assert_eq!(w.run(quiet(), &[]).0, "\n");
    assert_eq!(add(&mut w, 2, &touched), Ok(()));
    assert_eq!(w.run(quiet(), &[]).0, "\n                0\n");
    w.aggs.percpu = true;
    let mut seven = zero;
    seven[0] = 7;
    for part in [2, 6] {
        assert_eq!(add(&mut w, part, &seven), Ok(()));
    }
    let entry = &w.aggs.tables[1].entries[0];
    assert_eq!((&entry.words[..], &entry.cpus[2][..]), (&[14][..], &[14][..]));
    assert!(add(&mut w, 2, &zero[..7]).is_err());
    w.with(|cx, aggs| {
        let (key, one) = (ints(&[0, 5]), 1u64.to_ne_bytes());
        assert!(aggs.add(cx, keyed, &key[..12], &one, Store::Live).is_err());
        assert!(aggs.add(cx, keyed, &key, &one[..7], Store::Live).is_err());
        assert!(aggs.add(cx, AggId(9), &key, &one, Store::Live).is_err());
        assert!(aggs.add(cx, plain, &[0; 3], &one, Store::Live).is_err());
    });
}

#[test]
fn probe_parts_in_keys_are_merged_by_text() {
    let mut w = World::new();
    let agg = w.agg(AggFunc::Count, &[(Val::Int, Show::ProbePart(ProbePart::Function))]);
    for (index, n) in [(1, 1), (2, 10), (3, 100)] {
        w.feed(agg, 0, &[long(index)], &[n], Store::Live);
    }
    let got: Vec<_> = w.aggs.tables[0].entries.iter().map(|e| (e.key[0].clone(), e.words[0])).collect();
    assert_eq!(got, [(Value::Text("read".into()), 11), (Value::Text("main".into()), 100)]);
}

#[test]
fn keys_in_their_columns() {
    let show = |size, signed| (Val::Int, int(size, signed));
    let key = [show(1, true), show(2, true), show(4, true), show(8, true), name(16), (Val::Int, Show::Pointer)];
    let mut w = World::new();
    let agg = w.agg(AggFunc::Count, &key);
    let value = [long(-1), long(-2), long(-3), long(-4), text("x"), Value::Pointer(0x1000)];
    w.feed(agg, 0, &value, &[5], Store::Live);
    let x = format!("  {:<50}", "x");
    // DTrace shows narrow keys as unsigned.
    assert_eq!(
        w.run(quiet(), &[]).0,
        format!("\n 255 65534       -3               -4{x}             4096                5\n")
    );
    w.aggs.tables[0].printed = false;
    let own = Style { quiet: true, ..Style::default() };
    assert_eq!(
        w.run(own, &[]).0,
        format!("\n  -1    -2       -3               -4{x}           0x1000                5\n")
    );
}

#[test]
fn order_by_value_then_key() {
    let mut w = World::new();
    let agg = w.agg(AggFunc::Sum, &[name(16), key4()]);
    for (s, n, v) in [("b", 1, 2), ("a", 2, 2), ("c", -1, -5), ("d", 0, 7)] {
        w.feed(agg, 0, &[text(s), num(n)], &[v as u64], Store::Live);
    }
    let order = |w: &World, sort: Sort| -> String {
        let list = sorted(&w.aggs, agg, &sort);
        list.iter().map(|e| String::from_utf8(e.key[0].bytes().unwrap().to_vec()).unwrap()).collect()
    };
    let sort = Sort::default();
    assert_eq!(order(&w, sort), "cabd");
    assert_eq!(order(&w, Sort { reverse: true, ..sort }), "dbac");
    assert_eq!(order(&w, Sort { key: true, ..sort }), "abcd");
    // DTrace takes -1 as unsigned, we as what it is.
    assert_eq!(order(&w, Sort { key: true, keypos: 1, ..sort }), "dbac");
    assert_eq!(order(&w, Sort { key: true, keypos: 1, signed: true, ..sort }), "cdba");
    assert_eq!(order(&w, Sort { key: true, keypos: 2, ..sort }), "abcd");
}

#[test]
fn joined_aggregations() {
    let mut w = World::new();
    let foo = w.agg(AggFunc::Sum, &[key4()]);
    let bar = w.agg(AggFunc::Sum, &[key4()]);
    let bop = w.agg(AggFunc::Quantize, &[key4()]);
    let low = w.agg(AggFunc::Min, &[key4()]);
    w.feed(foo, 0, &[num(123)], &[123], Store::Live);
    w.feed(bar, 0, &[num(456)], &[456], Store::Live);
    w.feed(foo, 0, &[num(789)], &[789], Store::Live);
    w.feed(bar, 0, &[num(789)], &[789], Store::Live);
    let format = Some("%10d %@10d %@10d %@d\n");
    let plain = printa(&mut w, &[foo, bar, low], format);
    let records = [(plain, 0, 0, vec![])];
    let out = w.run(quiet(), &records).0;
    assert_eq!(
        out,
        "       456          0        456 0\n       123        123          0 0\n       789        789        789 0\n\n"
    );
    let rows = |w: &World, sort: Sort, list: &[AggId]| -> Vec<i64> {
        joined(&w.aggs, list, &sort).iter().map(|r| r.key[0].int()).collect()
    };
    assert_eq!(rows(&w, Sort { pos: 1, ..Sort::default() }, &[foo, bar]), [123, 456, 789]);
    assert_eq!(rows(&w, Sort { pos: 7, ..Sort::default() }, &[foo, bar]), [456, 123, 789]);
    assert_eq!(rows(&w, Sort { key: true, ..Sort::default() }, &[foo, bar]), [123, 456, 789]);
    assert_eq!(rows(&w, Sort { reverse: true, ..Sort::default() }, &[foo, bar]), [789, 123, 456]);
    // The same one several times.
    assert_eq!(rows(&w, Sort::default(), &[foo, foo, bar]), [456, 123, 789]);
    let default = printa(&mut w, &[foo, bop], None);
    let out = w.run(quiet(), &[(default, 0, 0, vec![])]).0;
    let bucket = |v: i64| format!("{v:>16} |{:40} 0        \n", "");
    let empty = format!("\n{HEAD}{}{}{}\n", bucket(-1), bucket(0), bucket(1));
    assert_eq!(out, format!("\n      123              123{empty}      789              789{empty}\n"));
}

#[test]
fn trunc_keeps_the_highest_or_lowest() {
    let keys = |count: Option<i64>| -> Vec<i64> {
        let mut w = World::new();
        let agg = w.agg(AggFunc::Sum, &[key4()]);
        for i in 0..5 {
            w.feed(agg, 0, &[num(i)], &[i as u64 * 10], Store::Kept);
        }
        w.aggs.truncate(agg, count);
        // Both an old and a new key go on counting.
        w.feed(agg, 1, &[num(4)], &[1], Store::Live);
        w.feed(agg, 1, &[num(9)], &[1], Store::Live);
        let mut list: Vec<_> = w.aggs.tables[0].entries.iter().map(|e| e.key[0].int()).collect();
        list.sort();
        list
    };
    assert_eq!(keys(Some(2)), [3, 4, 9]);
    assert_eq!(keys(Some(-2)), [0, 1, 4, 9]);
    assert_eq!(keys(Some(0)), [4, 9]);
    assert_eq!(keys(None), [4, 9]);
    assert_eq!(keys(Some(i64::MAX)), [0, 1, 2, 3, 4, 9]);
    assert_eq!(keys(Some(i64::MIN)), [0, 1, 2, 3, 4, 9]);
}

#[test]
fn printed_once_cleared_and_normalized() {
    let mut w = World::new();
    let a = w.agg(AggFunc::Avg, &[]);
    let b = w.agg(AggFunc::Count, &[]);
    let m = w.agg(AggFunc::Max, &[]);
    let never = w.agg(AggFunc::Count, &[]);
    w.feed(a, 0, &[], &[2, 30], Store::Kept);
    w.feed(b, 0, &[], &[10], Store::Kept);
    w.feed(m, 0, &[], &[9 ^ (1 << 63)], Store::Kept);
    let normal = w.record(
        1,
        &[Val::Int],
        vec![
            Action::Normalize(b, operand(0, int(8, true))),
            Action::Printa { format: Some(parse("b %@d\n")), aggs: vec![b] },
            Action::Denormalize(b),
            Action::Printa { format: Some(parse("b %@d\n")), aggs: vec![b] },
            Action::Printa { format: None, aggs: vec![never] },
            Action::Clear(a),
            Action::Clear(m),
        ],
    );
    let records = [(normal, 0, 0, ints(&[5]))];
    let largest = i64::MIN;
    assert_eq!(w.run(quiet(), &records).0, format!("b 2\nb 10\n\n\n                0\n {largest:>16}\n"));
    for table in &mut w.aggs.tables {
        table.printed = false;
    }
    let own = Style { quiet: true, ..Style::default() };
    assert_eq!(w.run(own, &[]).0, "\n                -\n               10\n                -\n");
}

#[test]
fn per_cpu_values() {
    let mut w = World::new();
    w.aggs.percpu = true;
    let agg = w.agg(AggFunc::Count, &[key4()]);
    w.feed(agg, 1, &[num(3)], &[5], Store::Live);
    w.feed(agg, 2, &[num(3)], &[6], Store::Kept);
    let line = |cpu, n| format!("\n    [CPU {cpu}] {n:>16}");
    let want = format!("\n        3 {:>16}{}{}{}{}\n", 11, line(0, 0), line(1, 5), line(2, 6), line(3, 0));
    assert_eq!(w.run(quiet(), &[]).0, want);
}

const HEAD: &str = "           value  ------------- Distribution ------------- count    \n";

/// The picture of one value.
fn picture(func: AggFunc, words: &[u64], normal: u64) -> String {
    let mut out = Vec::new();
    histogram::draw(func, words, normal, false, &mut out);
    String::from_utf8(out).unwrap().trim_start_matches('\n').strip_prefix(HEAD).unwrap().to_string()
}

#[test]
fn quantize_pictures() {
    let f = AggFunc::Quantize;
    let of = |values: &[i64]| {
        let mut words = at(f, &[]);
        for &v in values {
            words[quantize(v)] += 1;
        }
        picture(f, &words, 1)
    };
    assert_eq!(
        of(&[10, 20, 30, 40, 50]),
        "               4 |                                         0        \n\
         \x20              8 |@@@@@@@@                                 1        \n\
         \x20             16 |@@@@@@@@@@@@@@@@                         2        \n\
         \x20             32 |@@@@@@@@@@@@@@@@                         2        \n\
         \x20             64 |                                         0        \n"
    );
    assert_eq!(
        of(&[]),
        "              -1 |                                         0        \n\
         \x20              0 |                                         0        \n\
         \x20              1 |                                         0        \n"
    );
    // At the ends there is no empty bucket beyond.
    let ends = of(&[i64::MIN, i64::MAX]);
    assert_eq!(ends.lines().count(), 127);
    assert!(ends.starts_with("-4611686018427387904 |@@@@@@@@@@@@@@@@@@@@                     1        \n"));
    assert!(
        ends.ends_with(" 4611686018427387904 |@@@@@@@@@@@@@@@@@@@@                     1        \n")
            || ends.ends_with("4611686018427387904 |@@@@@@@@@@@@@@@@@@@@                     1        \n")
    );
    // Negative weights go to the left, both kinds share the width.
    assert_eq!(
        picture(f, &at(f, &[(quantize(1), -12)]), 1),
        "               0                                         | 0        \n\
         \x20              1 @@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@| -12      \n\
         \x20              2                                         | 0        \n"
    );
    assert_eq!(
        picture(f, &at(f, &[(quantize(1), -123), (quantize(2), -123), (quantize(4), 246)]), 1),
        "               0                     |                     0        \n\
         \x20              1                @@@@@|                     -123     \n\
         \x20              2                @@@@@|                     -123     \n\
         \x20              4                     |@@@@@@@@@@           246      \n\
         \x20              8                     |                     0        \n"
    );
    // Normalization changes the numbers, not the bars.
    let normal = picture(f, &at(f, &[(quantize(1), 50)]), 5);
    assert!(normal.contains("1 |@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@ 10       \n"), "{normal}");
}

#[test]
fn lquantize_pictures() {
    let f = AggFunc::Lquantize { low: 0, high: 4, step: 1 };
    assert_eq!(
        picture(f, &at(f, &[(1, 2), (2, 6), (3, 19)]), 1),
        "             < 0 |                                         0        \n\
         \x20              0 |@@@                                      2        \n\
         \x20              1 |@@@@@@@@@                                6        \n\
         \x20              2 |@@@@@@@@@@@@@@@@@@@@@@@@@@@@             19       \n\
         \x20              3 |                                         0        \n"
    );
    let f = AggFunc::Lquantize { low: -10, high: 10, step: 1 };
    assert_eq!(
        picture(f, &at(f, &[]), 1),
        "           < -10 |                                         0        \n\
         \x20            -10 |                                         0        \n\
         \x20             -9 |                                         0        \n"
    );
    let f = AggFunc::Lquantize { low: 0, high: 1000, step: 100 };
    assert_eq!(
        picture(f, &at(f, &[(10, 1), (11, 3)]), 1),
        "             800 |                                         0        \n\
         \x20            900 |@@@@@@@@@@                               1        \n\
         \x20        >= 1000 |@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@           3        \n"
    );
    // A last bucket that is narrower than the others.
    let f = AggFunc::Lquantize { low: 0, high: 10, step: 3 };
    let list = histogram::buckets(f, &at(f, &[]));
    let bounds: Vec<_> = list.iter().map(|b| (b.low, b.high)).collect();
    assert_eq!(
        bounds,
        [
            (None, Some(-1)),
            (Some(0), Some(2)),
            (Some(3), Some(5)),
            (Some(6), Some(8)),
            (Some(9), Some(9)),
            (Some(10), None)
        ]
    );
}

#[test]
fn llquantize_pictures() {
    let f = AggFunc::Llquantize { factor: 10, low: 0, high: 5, steps: 5 };
    let bounds = buckets::llquantize_bounds(10, 0, 5, 5);
    let k = |v: i64| bounds.len() + 1 + bounds.iter().rposition(|&b| b <= v).unwrap();
    assert_eq!(
        picture(f, &at(f, &[(k(320), 8)]), 1),
        "             100 |                                         0        \n\
         \x20            200 |@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@ 8        \n\
         \x20            400 |                                         0        \n"
    );
    // The bucket around zero: by its bound where it is wider than 0.
    let f = AggFunc::Llquantize { factor: 3, low: 3, high: 5, steps: 27 };
    let n = buckets::llquantize_bounds(3, 3, 5, 27).len();
    let got = picture(f, &at(f, &[(n, 27), (n + 1, 3)]), 1);
    assert!(got.starts_with("             -27 |"), "{got}");
    assert!(got.contains("\n      abs() < 27 |@@@@"), "{got}");
    let got = picture(f, &at(f, &[(n + 1, 3)]), 1);
    assert!(got.starts_with("            < 27 |"), "{got}");
    let got = picture(f, &at(f, &[(2 * n, 771), (0, 1)]), 1);
    assert!(got.starts_with("         <= -729 |") && got.contains("\n          >= 729 |"), "{got}");
    // Nothing at all: the first bucket above zero and its neighbours.
    let f = AggFunc::Llquantize { factor: 2, low: 0, high: 1, steps: 4 };
    let got = picture(f, &at(f, &[]), 1);
    let labels: Vec<_> = got.lines().map(|l| l.split('|').next().unwrap().trim().to_string()).collect();
    assert_eq!(labels, ["0", "1", "2"]);
}

#[test]
fn distributions_are_sorted_by_their_sum() {
    let f = AggFunc::Quantize;
    let mut w = World::new();
    let agg = w.agg(f, &[key4()]);
    w.feed(agg, 0, &[num(1)], &at(f, &[(quantize(1024), 1)]), Store::Live);
    w.feed(agg, 0, &[num(2)], &at(f, &[(quantize(1), 2000)]), Store::Live);
    w.feed(agg, 0, &[num(3)], &at(f, &[(quantize(-1), 2000)]), Store::Live);
    w.feed(agg, 0, &[num(4)], &at(f, &[(quantize(-1), 2000), (quantize(0), 1)]), Store::Live);
    w.feed(agg, 0, &[num(5)], &at(f, &[(0, -1), (126, i64::MAX)]), Store::Live);
    let keys: Vec<_> = sorted(&w.aggs, agg, &Sort::default()).iter().map(|e| e.key[0].int()).collect();
    assert_eq!(keys, [3, 4, 1, 2, 5]);
    let f = AggFunc::Lquantize { low: -2, high: 3, step: 1 };
    let mut w = World::new();
    let agg = w.agg(f, &[key4()]);
    w.feed(agg, 0, &[num(1)], &at(f, &[(6, 1)]), Store::Live);
    w.feed(agg, 0, &[num(2)], &at(f, &[(0, 1)]), Store::Live);
    w.feed(agg, 0, &[num(3)], &at(f, &[(3, 5)]), Store::Live);
    w.feed(agg, 0, &[num(4)], &at(f, &[]), Store::Live);
    let keys: Vec<_> = sorted(&w.aggs, agg, &Sort::default()).iter().map(|e| e.key[0].int()).collect();
    assert_eq!(keys, [2, 4, 3, 1]);
}

#[test]
fn bars_beside_keys_and_packed_distributions() {
    let mut world = World::new();
    let key = [(Val::Str { cap: 8 }, Show::String)];
    let (sums, many) = (world.agg(AggFunc::Sum, &key), world.agg(AggFunc::Quantize, &key));
    for (name, n) in [("ten", 10u64), ("thirty", 30)] {
        world.feed(sums, 0, &[text(name)], &[n], Store::Live);
        let mut words = vec![0; AggFunc::Quantize.words() as usize];
        words[probity_ir::buckets::QUANTIZE_ZERO as usize + 1] = n;
        words[probity_ir::buckets::QUANTIZE_ZERO as usize + 3] = 10;
        world.feed(many, 1, &[text(name)], &words, Store::Live);
    }
    let style = Style { agghist: true, aggpack: true, ..Style::default() };
    let want = "
             key  ------------- Distribution ------------- count    
             ten |@@@@@@@@@@                               10       
          thirty |@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@           30       

   key min .-----. max | count
   ten   0 : ▄ ▄ : 8   | 20
thirty   0 : ▆ ▂ : 8   | 40
";
    assert_eq!(world.run(style.clone(), &[]).0, format!("\n{want}"));
    let zoomed = world.run(Style { aggzoom: true, ..style }, &[]).0;
    assert!(zoomed.contains(&format!("thirty |{} 30", "@".repeat(40))), "{zoomed}");
    assert!(zoomed.contains("thirty   0 : █ ▃ : 8   | 40"), "{zoomed}");
}
