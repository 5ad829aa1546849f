//! Any bytes at all: decoding and rendering never panic, and totals are kept.

use super::*;
use proptest::prelude::*;

/// A program with a record of every kind of field and action.
fn world() -> World {
    let mut w = World::new();
    let agg = w.agg(
        AggFunc::Lquantize { low: -5, high: 6, step: 2 },
        &[(Val::Int, int(2, true)), (Val::Str { cap: 5 }, Show::String)],
    );
    let keyless = w.agg(AggFunc::Llquantize { factor: 10, low: 0, high: 3, steps: 20 }, &[]);
    let fields = [Val::Int, Val::Str { cap: 9 }, Val::Bytes { len: 3 }, Val::Int];
    let actions = vec![
        Action::Trace(operand(0, int(1, true))),
        Action::Trace(operand(1, Show::String)),
        Action::Trace(operand(2, Show::Bytes { ty: None })),
        Action::Trace(operand(3, Show::ProbePart(ProbePart::Module))),
        // Types that do not go with their fields.
        Action::Trace(operand(0, Show::String)),
        Action::Trace(operand(1, Show::Pointer)),
        Action::Printf {
            format: parse("%d %*d %.*s %S %c %C %Y %T %a %e %g %s\n"),
            operands: (0..14).map(|i| operand(i % 4, if i % 4 == 1 { Show::String } else { int(8, true) })).collect(),
        },
        Action::Normalize(agg, operand(0, int(8, true))),
        Action::Printa { format: None, aggs: vec![agg] },
        Action::Printa { format: Some(parse("%d %s %@d\n")), aggs: vec![agg, keyless] },
        Action::Trunc(agg, Some(operand(3, int(8, true)))),
        Action::Clear(keyless),
        Action::Exit(operand(3, int(4, true))),
    ];
    w.record(0, &fields, actions);
    w.record(1, &[Val::Int], vec![Action::Trace(operand(3, int(8, true)))]);
    w
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn decode_never_panics(
        number in prop_oneof![0u32..4, Just(FAULT), any::<u32>()],
        cpu in any::<u16>(),
        probe in prop_oneof![0u16..8, any::<u16>()],
        body in proptest::collection::vec(any::<u8>(), 0..80),
        cut in 0usize..100,
        low in 0u32..3,
    ) {
        let mut w = world();
        let mut bytes = encode(number, cpu % 64, probe, &body);
        // Half of the faults name a unit and a clause that exist.
        if bytes.len() >= 24 && low < 2 {
            bytes[16..24].copy_from_slice(&[0, 0, 0, 0, low as u8, 0, 0, 0]);
        }
        bytes.truncate(cut.max(8));
        let words = vec![0u8; 4096];
        w.with(|cx, aggs| {
            let _ = aggs.add(cx, AggId(0), &bytes, &words, Store::Kept);
            if let Ok(event) = decode(cx, &bytes) {
                for style in [Style::default(), Style::dtrace(), Style { flowindent: true, rawbytes: true, ..Style::default() }] {
                    let mut out = Vec::new();
                    let mut text = Text::new(style.clone());
                    text.event(cx, &event, aggs, &mut out, &mut Vec::new()).unwrap();
                    text.finish(cx, aggs, &mut out).unwrap();
                    let mut out = Vec::new();
                    Json::new(style).event(cx, &event, aggs, &mut out, &mut Vec::new()).unwrap();
                    for line in out.split(|&b| b == b'\n').filter(|l| !l.is_empty()) {
                        let object: serde_json::Value = serde_json::from_slice(line).unwrap();
                        assert!(object["type"].is_string());
                    }
                }
            }
        });
    }

    #[test]
    fn map_entries_never_panic(
        key in proptest::collection::vec(any::<u8>(), 0..40),
        value in proptest::collection::vec(any::<u8>(), 0..3000),
        agg in 0u32..4,
    ) {
        let mut w = world();
        w.aggs.percpu = true;
        w.with(|cx, aggs| {
            let first = aggs.add(cx, AggId(agg), &key, &value, Store::Live);
            let again = aggs.add(cx, AggId(agg), &key, &value, Store::Kept);
            prop_assert_eq!(first, again);
            for style in [Style::default(), Style::dtrace()] {
                for table in &mut aggs.tables {
                    table.printed = false;
                }
                Text::new(style.clone()).finish(cx, aggs, &mut Vec::new()).unwrap();
                Json::new(style).finish(cx, aggs, &mut Vec::new()).unwrap();
            }
            Ok(())
        })?;
    }

    #[test]
    fn distributions_keep_their_totals(
        counts in proptest::collection::vec(0u32..1_000_000, 1..300),
        func in prop_oneof![
            Just(AggFunc::Quantize),
            (-100i32..100, 1i32..200, 1u16..20).prop_map(|(low, span, step)| AggFunc::Lquantize { low, high: low + span, step }),
            (2u16..12, 0u16..4, 0u16..4, 1u16..40)
                .prop_map(|(factor, low, more, steps)| AggFunc::Llquantize { factor, low, high: low + more, steps }),
        ],
        negative in any::<bool>(),
    ) {
        let mut words = vec![0u64; func.words() as usize];
        for (i, &n) in counts.iter().enumerate() {
            let at = (i * 7) % words.len();
            let n = if negative && i % 3 == 0 { -i64::from(n) } else { i64::from(n) };
            words[at] = words[at].wrapping_add(n as u64);
        }
        let list = histogram::buckets(func, &words);
        prop_assert_eq!(list.len(), words.len());
        for (bucket, &word) in list.iter().zip(&words) {
            prop_assert_eq!(bucket.count, word as i64);
        }
        // Buckets follow each other without a gap.
        for pair in list.windows(2) {
            prop_assert_eq!(pair[0].high.unwrap() + 1, pair[1].low.unwrap());
        }
        prop_assert!(list[0].low.is_none() && list[list.len() - 1].high.is_none());
        // The picture's counts add up to the words', and every bar fits.
        let mut out = Vec::new();
        histogram::draw(func, &words, 1, false, &mut out);
        let text = String::from_utf8(out).unwrap();
        let mut sum = 0i64;
        for line in text.lines().skip(2) {
            let (left, right) = line.split_once('|').unwrap();
            let count = right.trim_start_matches(['@', ' ']).trim();
            sum += count.parse::<i64>().unwrap();
            prop_assert!(left.len() <= 21 + 40 && right.len() <= 1 + 40 + 1 + 20, "{}", line);
        }
        prop_assert_eq!(sum, words.iter().map(|&w| w as i64).sum::<i64>());
    }

    #[test]
    fn merging_does_not_depend_on_the_order(values in proptest::collection::vec(any::<i64>(), 1..20), split in 0usize..20) {
        // Each function's words for one value, as the kernel writes them.
        let of = |func: AggFunc, v: i64| -> Vec<u64> {
            let square = u128::from(v.unsigned_abs()).pow(2);
            match func {
                AggFunc::Min => vec![(i64::MAX as u64).wrapping_sub(v as u64)],
                AggFunc::Max => vec![v as u64 ^ (1 << 63)],
                AggFunc::Stddev => vec![1, v as u64, square as u64, (square >> 64) as u64],
                AggFunc::Avg => vec![1, v as u64],
                _ => vec![v as u64],
            }
        };
        for func in [AggFunc::Sum, AggFunc::Min, AggFunc::Max, AggFunc::Avg, AggFunc::Stddev] {
            let fold = |values: &[i64]| {
                let mut words = vec![0; func.words() as usize];
                values.iter().for_each(|&v| agg::merge(func, &mut words, &of(func, v)));
                words
            };
            let whole = fold(&values);
            let (a, b) = values.split_at(split.min(values.len()));
            let mut parts = fold(b);
            agg::merge(func, &mut parts, &fold(a));
            prop_assert_eq!(&whole, &parts);
            match func {
                AggFunc::Min => prop_assert_eq!(stats::scalar(func, &whole, 1), values.iter().min().copied()),
                AggFunc::Max => prop_assert_eq!(stats::scalar(func, &whole, 1), values.iter().max().copied()),
                _ => prop_assert!(stats::scalar(func, &whole, 1).is_some()),
            }
        }
    }
}
