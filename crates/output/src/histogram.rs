//! Distributions: the buckets of a quantizing function with their bounds, and DTrace's picture of them.

use probity_ir::{AggFunc, buckets};

/// One bucket of a distribution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bucket {
    /// The lowest value it counts; `None` if there is no lower bound.
    pub low: Option<i64>,
    /// The highest value it counts; `None` if there is no upper bound.
    pub high: Option<i64>,
    /// How many it counted, weights added; not normalized.
    pub count: i64,
}

/// Columns of a bar.
const BAR: usize = 40;

/// DTrace's name for a bucket of `quantize`: its bound that is nearest to zero.
pub(crate) fn quantize_bound(bucket: u32) -> i64 {
    let zero = buckets::QUANTIZE_ZERO;
    match bucket {
        b if b < zero => -(1i64 << (zero - 1 - b).min(62)),
        b if b == zero => 0,
        b => 1i64 << (b - zero - 1).min(62),
    }
}

/// All buckets of a value, lowest first. Empty for functions that are no distribution.
pub fn buckets(func: AggFunc, words: &[u64]) -> Vec<Bucket> {
    let count = |i: usize| words.get(i).copied().unwrap_or(0) as i64;
    let bucket = |low: Option<i64>, high: Option<i64>, i: usize| Bucket { low, high, count: count(i) };
    match func {
        AggFunc::Quantize => (0..buckets::QUANTIZE)
            .map(|i| {
                let bound = quantize_bound(i);
                let far = bound.checked_mul(2);
                let (low, high) = match i.cmp(&buckets::QUANTIZE_ZERO) {
                    std::cmp::Ordering::Less if i == 0 => (None, Some(bound)),
                    std::cmp::Ordering::Less => (far.map(|f| f + 1), Some(bound)),
                    std::cmp::Ordering::Equal => (Some(0), Some(0)),
                    std::cmp::Ordering::Greater if i == buckets::QUANTIZE - 1 => (Some(bound), None),
                    std::cmp::Ordering::Greater => (Some(bound), far.map(|f| f - 1)),
                };
                bucket(low, high, i as usize)
            })
            .collect(),
        AggFunc::Lquantize { low, high, step } => {
            let levels = buckets::lquantize_levels(low, high, step);
            let at = |i: u32| i64::from(low) + i64::from(i) * i64::from(step.max(1));
            let mut list = vec![bucket(None, Some(i64::from(low) - 1), 0)];
            for i in 0..levels {
                list.push(bucket(Some(at(i)), Some((at(i + 1) - 1).min(i64::from(high) - 1)), i as usize + 1));
            }
            list.push(bucket(Some(i64::from(high)), None, levels as usize + 1));
            list
        }
        AggFunc::Llquantize { factor, low, high, steps } => {
            let bounds = buckets::llquantize_bounds(factor, low, high, steps);
            let n = bounds.len();
            let mut list = Vec::with_capacity(2 * n + 1);
            for k in (0..n).rev() {
                list.push(bucket(bounds.get(k + 1).map(|b| 1 - b), Some(-bounds[k]), n - 1 - k));
            }
            let near = bounds.first().map_or(0, |b| b - 1);
            list.push(bucket(Some(-near), Some(near), n));
            for k in 0..n {
                list.push(bucket(Some(bounds[k]), bounds.get(k + 1).map(|b| b - 1), n + 1 + k));
            }
            list
        }
        _ => Vec::new(),
    }
}

/// The first and last bucket that the picture shows: those that are not empty, and one on each side.
pub(crate) fn range(func: AggFunc, list: &[Bucket]) -> (usize, usize) {
    let last = list.len() - 1;
    let full = |b: &Bucket| b.count != 0;
    match (list.iter().position(full), list.iter().rposition(full)) {
        (Some(a), Some(b)) => (a.saturating_sub(1), (b + 1).min(last)),
        _ => match func {
            AggFunc::Quantize => (buckets::QUANTIZE_ZERO as usize - 1, buckets::QUANTIZE_ZERO as usize + 1),
            AggFunc::Llquantize { .. } => (last / 2, (last / 2 + 2).min(last)),
            _ => (0, 2.min(last)),
        },
    }
}

/// How long bars are.
pub(crate) struct Scale {
    /// What a bar of all columns stands for.
    whole: u128,
    positive: bool,
    negative: bool,
}

impl Scale {
    /// The scale of values that are shown together: by their sum, or by the largest.
    pub(crate) fn of(values: impl Iterator<Item = i64> + Clone, zoom: bool) -> Scale {
        let sizes = values.clone().map(|v| u128::from(v.unsigned_abs()));
        Scale {
            whole: if zoom { sizes.max().unwrap_or(0) } else { sizes.sum() },
            positive: values.clone().any(|v| v > 0),
            negative: values.clone().any(|v| v < 0),
        }
    }
}

/// A newline and the heading above bars.
pub(crate) fn heading(title: &str, width: usize, out: &mut Vec<u8>) {
    use std::io::Write;
    let bars = "------------- Distribution -------------";
    // Writing to a vector cannot fail.
    let _ = writeln!(out, "\n{title:>width$} {bars:>41} {:<9}", "count");
}

/// A line with a bar.
pub(crate) fn line(label: &str, value: i64, shown: &str, scale: &Scale, out: &mut Vec<u8>) {
    use std::io::Write;
    let &Scale { whole, positive, negative } = scale;
    let columns = if positive && negative { BAR / 2 } else { BAR };
    let length = u128::from(value.unsigned_abs()) * columns as u128;
    // Rounds to the nearest column.
    let bar = if whole == 0 { 0 } else { ((2 * length + whole) / (2 * whole)) as usize };
    let bar = bar.min(columns);
    let (left, right) = if value < 0 { (bar, 0) } else { (0, bar) };
    let left_columns = if negative { columns } else { 0 };
    let right_columns = if positive || !negative { columns } else { 0 };
    let blank = left_columns - left.min(left_columns);
    let _ = writeln!(
        out,
        "{label} {:blank$}{:@<left$}|{:@<right$}{:rest$} {shown:<9}",
        "",
        "",
        "",
        "",
        rest = right_columns - right.min(right_columns),
    );
}

/// Draws a distribution: a newline, the heading, and a line for each bucket. `zoom` scales the bars by the longest.
pub fn draw(func: AggFunc, words: &[u64], normal: u64, zoom: bool, out: &mut Vec<u8>) {
    let list = buckets(func, words);
    if list.is_empty() {
        return;
    }
    let (first, last) = range(func, &list);
    let shown = &list[first..=last];
    let scale = Scale::of(shown.iter().map(|b| b.count), zoom);
    heading("value", 16, out);
    for (i, b) in shown.iter().enumerate() {
        let label = format!("{:>16}", name(func, &list, first + i, first));
        let count = b.count.wrapping_div(i64::try_from(normal.max(1)).unwrap_or(i64::MAX));
        line(&label, b.count, &count.to_string(), &scale, out);
    }
}

/// How DTrace names bucket `i` of a picture that begins with bucket `first`.
pub(crate) fn name(func: AggFunc, list: &[Bucket], i: usize, first: usize) -> String {
    let zero = list.len() / 2;
    label(func, &list[i], i, zero, first >= zero)
}

/// How DTrace names a bucket.
fn label(func: AggFunc, b: &Bucket, i: usize, zero: usize, only_positive: bool) -> String {
    match func {
        AggFunc::Quantize => quantize_bound(i as u32).to_string(),
        AggFunc::Llquantize { .. } => match (b.low, b.high) {
            (Some(0), _) if i == zero => "0".into(),
            (_, Some(high)) if i == zero && only_positive => format!("< {}", high + 1),
            (_, Some(high)) if i == zero => format!("abs() < {}", high + 1),
            (None, Some(high)) => format!("<= {high}"),
            (Some(low), None) => format!(">= {low}"),
            (_, Some(high)) if i < zero => high.to_string(),
            (low, _) => low.unwrap_or(0).to_string(),
        },
        _ => match (b.low, b.high) {
            (None, Some(high)) => format!("< {}", high + 1),
            (Some(low), None) => format!(">= {low}"),
            (low, _) => low.unwrap_or(0).to_string(),
        },
    }
}
