//! The results of aggregating functions, from a value's words. The arithmetic is DTrace's, so that numbers agree to the last digit.

use probity_ir::AggFunc;

/// The result of a function that has a single number, divided by `normal`. `None` for the quantizations.
///
/// A `min` or `max` that has no value yet (after `clear`) is the end of the range that any value beats, as in DTrace.
pub fn scalar(func: AggFunc, words: &[u64], normal: u64) -> Option<i64> {
    let word = |i: usize| words.get(i).copied().unwrap_or(0);
    let normal_signed = i64::try_from(normal).unwrap_or(i64::MAX).max(1);
    Some(match func {
        AggFunc::Count => (word(0) / normal.max(1)) as i64,
        AggFunc::Sum => (word(0) as i64).wrapping_div(normal_signed),
        AggFunc::Min => (i64::MAX as u64).wrapping_sub(word(0)) as i64 / normal_signed,
        AggFunc::Max => (word(0) ^ (1 << 63)) as i64 / normal_signed,
        AggFunc::Avg => average(word(0), word(1) as i64, normal_signed),
        AggFunc::Stddev => {
            stddev(word(0), word(1) as i64, u128::from(word(3)) << 64 | u128::from(word(2)), normal) as i64
        }
        AggFunc::Quantize | AggFunc::Lquantize { .. } | AggFunc::Llquantize { .. } => return None,
    })
}

/// Whether a value has been aggregated at all; `false` after `clear` for the functions that have no natural zero.
pub fn has_value(func: AggFunc, words: &[u64]) -> bool {
    match func {
        AggFunc::Min | AggFunc::Max | AggFunc::Avg | AggFunc::Stddev => words.first().is_some_and(|&w| w != 0),
        _ => true,
    }
}

fn average(count: u64, sum: i64, normal: i64) -> i64 {
    match i64::try_from(count) {
        Ok(0) => 0,
        Ok(count) => sum.wrapping_div(normal).wrapping_div(count),
        Err(_) => 0,
    }
}

/// The square root of the mean of the squares less the square of the mean; each step in whole numbers.
fn stddev(count: u64, sum: i64, squares: u128, normal: u64) -> u64 {
    if count == 0 {
        return 0;
    }
    let normal = normal.max(1);
    let mean_of_squares = squares / u128::from(normal) / u128::from(count);
    let mean = average(count, sum, i64::try_from(normal).unwrap_or(i64::MAX));
    let square_of_mean = u128::from(mean.unsigned_abs()).pow(2);
    mean_of_squares.saturating_sub(square_of_mean).isqrt() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(values: &[i64]) -> [u64; 4] {
        let squares: u128 = values.iter().map(|&v| u128::from(v.unsigned_abs()).pow(2)).sum();
        let sum = values.iter().fold(0i64, |a, &b| a.wrapping_add(b));
        [values.len() as u64, sum as u64, squares as u64, (squares >> 64) as u64]
    }

    #[test]
    fn results() {
        let stddev = |v: &[i64]| scalar(AggFunc::Stddev, &words(v), 1);
        assert_eq!(stddev(&[10, 20]), Some(5));
        assert_eq!(stddev(&[10, 20, 30, 40, 50]), Some(14));
        assert_eq!(stddev(&[-10, -20]), Some(5));
        assert_eq!(stddev(&[i64::MAX / 2, -(i64::MAX / 2)]), Some(i64::MAX / 2));
        assert_eq!(stddev(&[]), Some(0));
        assert_eq!(scalar(AggFunc::Avg, &words(&[-900, -450]), 1), Some(-675));
        assert_eq!(scalar(AggFunc::Avg, &[0, 0], 1), Some(0));
        assert_eq!(scalar(AggFunc::Sum, &[-10i64 as u64], 5), Some(-2));
        assert_eq!(scalar(AggFunc::Count, &[u64::MAX], 1), Some(-1));
        for v in [0, 1, -1, i64::MIN, i64::MAX, -900] {
            assert_eq!(scalar(AggFunc::Min, &[(i64::MAX as u64).wrapping_sub(v as u64)], 1), Some(v));
            assert_eq!(scalar(AggFunc::Max, &[v as u64 ^ (1 << 63)], 1), Some(v));
        }
    }
}
