//! Bucket boundaries of the quantizing functions: shared by the code that counts and the consumer that prints.

/// Number of buckets of `quantize`. Bucket [`QUANTIZE_ZERO`] counts 0; bucket `ZERO + 1 + k` counts `2^k .. 2^(k+1)`, bucket
/// `ZERO - 1 - k` counts `-2^(k+1) < v <= -2^k` (and `i64::MIN` is in the lowest).
pub const QUANTIZE: u32 = 127;
/// The bucket of zero.
pub const QUANTIZE_ZERO: u32 = 63;

/// Number of inner buckets of `lquantize`; bucket 0 counts what is below `low`, the last what is `high` or above, bucket
/// `1 + (v - low) / step` the rest.
pub fn lquantize_levels(low: i32, high: i32, step: u16) -> u32 {
    let span = (high as i64 - low as i64).max(0) as u64;
    span.div_ceil(step.max(1) as u64) as u32
}

/// The lower bounds of the positive buckets of `llquantize`, ascending; the last element is the lower bound of the overflow
/// bucket (`i64::MAX` where it would not fit 63 bits). With `n` bounds the value has `2n + 1` words: word `n` counts
/// `|v| < bounds[0]`, word `n + 1 + k` counts `bounds[k] <= v < bounds[k + 1]`, word `n - 1 - k` counts the mirror image.
///
/// Each magnitude `factor^m .. factor^(m+1)` for `m` in `low..=high` is cut in `s - s/factor` equal buckets where `s` is `steps` or, if that
/// is less, `factor^(m+1)`: at the multiples of `factor^(m+1) / s`, so that the first may be narrower than the others.
pub fn llquantize_bounds(factor: u16, low: u16, high: u16, steps: u16) -> Vec<i64> {
    let clamp = |v: u128| i64::try_from(v).unwrap_or(i64::MAX);
    let factor = u128::from(factor.max(2));
    let mut bounds = Vec::new();
    let mut from = 1u128;
    for _ in 0..low.min(63) {
        from = from.saturating_mul(factor);
    }
    for _ in low..=high.min(low.saturating_add(64)) {
        let to = from.saturating_mul(factor);
        let parts = u128::from(steps.max(1)).min(to);
        let width = (to / parts).max(1);
        let mut at = from;
        while at < to && at <= i64::MAX as u128 {
            bounds.push(clamp(at));
            // The next multiple: only the first bucket of a magnitude may be narrower than the others.
            at = (at / width + 1) * width;
        }
        from = to;
    }
    bounds.push(clamp(from));
    bounds.dedup();
    bounds
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn llquantize_bounds_are_dtraces() {
        let bounds = |f, l, h, s| llquantize_bounds(f, l, h, s);
        assert_eq!(bounds(10, 0, 1, 5), [1, 2, 4, 6, 8, 10, 20, 40, 60, 80, 100]);
        assert_eq!(bounds(10, 0, 1, 20)[..12], [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 15, 20]);
        assert_eq!(bounds(4, 0, 1, 2), [1, 2, 4, 8, 16]);
        assert_eq!(bounds(4, 0, 1, 8), [1, 2, 3, 4, 6, 8, 10, 12, 14, 16]);
        assert_eq!(bounds(10, 0, 3, 1), [1, 10, 100, 1000, 10000]);
        assert_eq!(bounds(3, 3, 3, 27)[..4], [27, 30, 33, 36]);
        assert_eq!(bounds(2, 62, 63, 2), [1 << 62, i64::MAX]);
    }
}
