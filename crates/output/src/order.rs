//! The order in which an aggregation's keys are printed: by value, or by key, as the `aggsort*` options say; and the join of several
//! aggregations on their keys. The rules are DTrace's.

use crate::agg::{Aggregations, Entry};
use crate::event::Value;
use crate::stats;
use probity_ir::{AggFunc, AggId, buckets};
use std::cmp::Ordering;
use std::collections::HashMap;

/// How aggregations are sorted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sort {
    /// `aggsortkey`: by key rather than by value.
    pub key: bool,
    /// `aggsortkeypos`: the key's member that counts first, from 0; beyond the last it is 0.
    pub keypos: u32,
    /// `aggsortpos`: the aggregation of a joined `printa` that counts first, from 0; beyond the last it is 0.
    pub pos: u32,
    /// `aggsortrev`: in reverse.
    pub reverse: bool,
    /// Signed integers in keys are compared as signed. DTrace compares them as unsigned.
    pub signed: bool,
}

/// One line of a (joined) aggregation.
#[derive(Clone, Debug)]
pub struct Row<'a> {
    /// The key.
    pub key: &'a [Value],
    /// By aggregation: its entry of this key, if it has one.
    pub entries: Vec<Option<&'a Entry>>,
}

/// The entries of one aggregation in order.
pub fn sorted<'a>(aggs: &'a Aggregations, agg: AggId, sort: &Sort) -> Vec<&'a Entry> {
    let Some(table) = aggs.tables.get(agg.0 as usize) else { return Vec::new() };
    // Weighed once each: a distribution's weight is the sum of all its buckets.
    let mut entries: Vec<(Weight, &Entry)> = table.entries.iter().map(|e| (weight(table.func, &e.words), e)).collect();
    entries.sort_by(|(x, a), (y, b)| {
        let key = || by_key(&a.key, &b.key, sort.keypos, sort.signed);
        let order = if sort.key { key() } else { x.cmp(y).then_with(key) };
        if sort.reverse { order.reverse() } else { order }
    });
    entries.into_iter().map(|(_, e)| e).collect()
}

/// The rows of several aggregations that have keys of the same types, side by side. A key that any of them has is a row.
pub fn joined<'a>(aggs: &'a Aggregations, list: &[AggId], sort: &Sort) -> Vec<Row<'a>> {
    let mut rows: Vec<Row> = Vec::new();
    let mut find: HashMap<&[Value], usize> = HashMap::new();
    let tables: Vec<_> = list.iter().filter_map(|a| aggs.tables.get(a.0 as usize)).collect();
    for (column, table) in tables.iter().enumerate() {
        for entry in &table.entries {
            let row = *find.entry(&entry.key).or_insert_with(|| {
                rows.push(Row { key: &entry.key, entries: vec![None; tables.len()] });
                rows.len() - 1
            });
            rows[row].entries[column] = Some(entry);
        }
    }
    let first = if (sort.pos as usize) < tables.len() { sort.pos as usize } else { 0 };
    let weigh = |row: &Row| -> Vec<Weight> {
        let columns = (0..tables.len()).map(|i| (first + i) % tables.len());
        // A missing entry counts as zero, whatever zero is in words.
        columns.map(|c| row.entries[c].map_or((0, 0), |e| weight(tables[c].func, &e.words))).collect()
    };
    let mut rows: Vec<(Vec<Weight>, Row)> = rows.into_iter().map(|row| (weigh(&row), row)).collect();
    rows.sort_by(|(x, a), (y, b)| {
        let key = || by_key(a.key, b.key, sort.keypos, sort.signed);
        let order = if sort.key { key().then_with(|| x.cmp(y)) } else { x.cmp(y).then_with(key) };
        if sort.reverse { order.reverse() } else { order }
    });
    rows.into_iter().map(|(_, row)| row).collect()
}

/// A value as it is sorted.
pub(crate) type Weight = (i128, i64);

/// What a value is sorted by: its number, or the sum of a distribution and then its weight at zero.
pub(crate) fn weight(func: AggFunc, words: &[u64]) -> Weight {
    let count = |i: usize| words.get(i).copied().unwrap_or(0) as i64;
    let part = |bound: i64, i: usize| i128::from(bound).saturating_mul(i128::from(count(i)));
    match func {
        AggFunc::Quantize => {
            let sum = (0..buckets::QUANTIZE)
                .fold(0i128, |sum, i| sum.saturating_add(part(crate::histogram::quantize_bound(i), i as usize)));
            (sum, count(buckets::QUANTIZE_ZERO as usize))
        }
        AggFunc::Lquantize { low, high, step } => {
            let levels = buckets::lquantize_levels(low, high, step);
            let bound = |i: u32| i64::from(low) + i64::from(i) * i64::from(step);
            let mut sum = part(i64::from(low) - 1, 0);
            let mut zero = if low == 1 { count(0) } else { 0 };
            for i in 0..levels {
                sum = sum.saturating_add(part(bound(i), i as usize + 1));
                if bound(i) == 0 {
                    zero = count(i as usize + 1);
                }
            }
            sum = sum.saturating_add(part(bound(levels) + 1, levels as usize + 1));
            if bound(levels) == -1 {
                zero = count(levels as usize + 1);
            }
            (sum, zero)
        }
        AggFunc::Llquantize { factor, low, high, steps } => {
            let bounds = buckets::llquantize_bounds(factor, low, high, steps);
            let n = bounds.len();
            let sum = bounds.iter().enumerate().fold(0i128, |sum, (k, &bound)| {
                sum.saturating_add(part(bound, n + 1 + k)).saturating_sub(part(bound, n - 1 - k))
            });
            (sum, count(n))
        }
        AggFunc::Count => (i128::from(count(0) as u64), 0),
        _ => (i128::from(stats::scalar(func, words, 1).unwrap_or(0)), 0),
    }
}

/// Compares two keys, the member at `first` before those after it, then from the start.
pub fn by_key(a: &[Value], b: &[Value], first: u32, signed: bool) -> Ordering {
    let n = a.len().min(b.len());
    let first = if (first as usize) < n { first as usize } else { 0 };
    (0..n).fold(a.len().cmp(&b.len()), |order, i| {
        order.then_with(|| by_member(&a[(first + i) % n], &b[(first + i) % n], signed))
    })
}

fn by_member(a: &Value, b: &Value, signed: bool) -> Ordering {
    match (a, b) {
        (Value::Int { value: x, signed: true, .. }, Value::Int { value: y, .. }) if signed => x.cmp(y),
        (Value::Int { value: x, size, .. }, Value::Int { value: y, .. }) => {
            let unsigned = |v: i64| crate::decode::extend(v as u64, *size, false) as u64;
            unsigned(*x).cmp(&unsigned(*y))
        }
        (Value::Pointer(x), Value::Pointer(y)) => x.cmp(y),
        _ => match (a.bytes(), b.bytes()) {
            (Some(x), Some(y)) => x.cmp(y),
            _ => a.cmp(b),
        },
    }
}
