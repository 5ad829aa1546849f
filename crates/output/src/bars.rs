//! Whole aggregations as tables: `agghist` (a bar for each key), `aggpack` (a distribution in one line). `aggzoom` scales both, and
//! DTrace's pictures, by the largest value rather than by the sum. Owns these layouts; what a key looks like comes from the renderer.

use crate::histogram::{self, Bucket};
use crate::stats;
use probity_ir::AggFunc;
use std::io::Write;

/// A row of a table.
pub struct Row<'a> {
    /// The key, in its default form.
    pub key: String,
    /// The value's words.
    pub words: &'a [u64],
}

/// Blocks of eighths, from nothing to all.
const BLOCKS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// The least width of a column of keys.
const KEY: usize = 16;

/// The columns that keys take.
fn width(rows: &[Row], least: usize) -> usize {
    rows.iter().map(|r| r.key.chars().count()).max().unwrap_or(0).max(least)
}

/// `agghist`: each key's value as a bar.
pub fn hist(func: AggFunc, rows: &[Row], normal: u64, zoom: bool, out: &mut Vec<u8>) {
    let width = width(rows, KEY);
    let values: Vec<i64> = rows.iter().map(|r| stats::scalar(func, r.words, normal).unwrap_or(0)).collect();
    let scale = histogram::Scale::of(values.iter().copied(), zoom);
    histogram::heading("key", width, out);
    for (row, value) in rows.iter().zip(values) {
        // A count has all 64 bits.
        let shown = match func {
            AggFunc::Count | AggFunc::Stddev => (value as u64).to_string(),
            _ => value.to_string(),
        };
        let key = format!("{:>width$}", row.key);
        histogram::line(&key, value, &shown, &scale, out);
    }
}

/// `aggpack`: each key's distribution in one line, all of them with the same buckets.
pub fn pack(func: AggFunc, rows: &[Row], normal: u64, zoom: bool, out: &mut Vec<u8>) {
    let lists: Vec<Vec<Bucket>> = rows.iter().map(|r| histogram::buckets(func, r.words)).collect();
    let Some(first) = lists.first() else { return };
    let ranges = lists.iter().map(|l| histogram::range(func, l));
    let (low, high) = ranges.fold((first.len() - 1, 0), |(low, high), (a, b)| (low.min(a), high.max(b)));
    let keyed = rows.iter().any(|r| !r.key.is_empty());
    let width = if keyed { width(rows, 3) } else { 0 };
    let (min, max) = (histogram::name(func, first, low, low), histogram::name(func, first, high, low));
    let (left, right) = (min.len().max(3), max.len().max(3));
    let title = if keyed { "key" } else { "" };
    let line = "-".repeat(high - low + 1);
    // Writing to a vector cannot fail.
    let _ = writeln!(out, "\n{title:>width$} {:>left$} .{line}. {:<right$} | count", "min", "max");
    for (row, list) in rows.iter().zip(&lists) {
        let counts = || list[low..=high].iter().map(|b| u128::from(b.count.unsigned_abs()));
        let whole = if zoom { counts().max().unwrap_or(0) } else { counts().sum() };
        let blocks: String = counts()
            .map(|n| match n {
                0 => BLOCKS[0],
                // The least that is not nothing can be seen.
                n => BLOCKS[(((n * 16 + whole) / (2 * whole.max(1))) as usize).clamp(1, 8)],
            })
            .collect();
        let total: i64 = list.iter().fold(0, |sum, b| sum.wrapping_add(b.count));
        let total = total.wrapping_div(i64::try_from(normal.max(1)).unwrap_or(i64::MAX));
        let _ = writeln!(out, "{:>width$} {min:>left$} :{blocks}: {max:<right$} | {total}", row.key);
    }
}
