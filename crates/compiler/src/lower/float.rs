//! Conversions and comparisons of floating-point numbers in integer arithmetic: BPF has no other. The results are IEEE 754's, rounded to
//! the nearest, ties to even. Owns the bits; leaves types to the checker.

use super::clause::ClauseLower;
use probity_ir::{BinOp, Expr, ExprId, StrOp, UnOp, Val};

/// Where expressions are built: in a clause, or computed at once in the tests.
pub(super) trait Build {
    /// Adds an expression.
    fn put(&mut self, e: Expr) -> ExprId;
    /// Evaluates an expression, so that it can be used again.
    fn keep(&mut self, e: ExprId) -> ExprId;
}

impl Build for ClauseLower<'_> {
    fn put(&mut self, e: Expr) -> ExprId {
        self.add(e)
    }

    fn keep(&mut self, e: ExprId) -> ExprId {
        self.hold(e, Val::Int)
    }
}

/// Bits behind the point.
const DOUBLE: u32 = 52;
const FLOAT: u32 = 23;

/// A builder with short names.
struct F<'b>(&'b mut dyn Build);

impl F<'_> {
    fn c(&mut self, v: i64) -> ExprId {
        self.0.put(Expr::Const(v))
    }

    fn op(&mut self, op: BinOp, a: ExprId, b: ExprId) -> ExprId {
        self.0.put(Expr::Bin(op, a, b))
    }

    /// With a constant on the right.
    fn opc(&mut self, op: BinOp, a: ExprId, b: i64) -> ExprId {
        let b = self.c(b);
        self.op(op, a, b)
    }

    fn choose(&mut self, c: ExprId, a: ExprId, b: ExprId) -> ExprId {
        self.0.put(Expr::Cond(c, a, b))
    }

    fn neg(&mut self, a: ExprId) -> ExprId {
        self.0.put(Expr::Un(UnOp::Neg, a))
    }

    fn keep(&mut self, e: ExprId) -> ExprId {
        self.0.keep(e)
    }

    /// `value` and 1 more where `rest`, whose highest bit is worth a half, rounds it up.
    fn round(&mut self, value: ExprId, rest: ExprId) -> ExprId {
        let value = self.keep(value);
        // An odd value makes a tie more than a half.
        let odd = self.opc(BinOp::And, value, 1);
        let rest = self.op(BinOp::Or, rest, odd);
        let half = self.c(i64::MIN);
        let up = self.op(BinOp::LtU, half, rest);
        self.op(BinOp::Add, value, up)
    }

    /// An integer's number with `digits` bits behind the point.
    fn whole_number(&mut self, x: ExprId, signed: bool, digits: u32) -> ExprId {
        let x = self.keep(x);
        let (sign, size) = if signed {
            let sign = self.opc(BinOp::ShrU, x, 63);
            let (sign, minus) = (self.keep(sign), self.neg(x));
            let size = self.choose(sign, minus, x);
            (Some(sign), self.keep(size))
        } else {
            (None, x)
        };
        // The place of the highest bit, by halving.
        let mut rest = size;
        let mut place = self.c(0);
        for step in [32, 16, 8, 4, 2, 1] {
            let below = self.c(((1u64 << step) - 1) as i64);
            let high = self.op(BinOp::LtU, below, rest);
            let by = self.opc(BinOp::Shl, high, i64::from(step).trailing_zeros().into());
            let by = self.keep(by);
            let shifted = self.op(BinOp::ShrU, rest, by);
            rest = self.keep(shifted);
            let sum = self.op(BinOp::Add, place, by);
            place = self.keep(sum);
        }
        let top = self.c(63);
        let up = self.op(BinOp::Sub, top, place);
        let all = self.op(BinOp::Shl, size, up);
        let all = self.keep(all);
        let value = self.opc(BinOp::ShrU, all, i64::from(63 - digits));
        let lost = self.opc(BinOp::Shl, all, i64::from(digits + 1));
        // A mantissa that is rounded up to the next power of two carries into the exponent, as it should.
        let value = self.round(value, lost);
        let bias = if digits == DOUBLE { 1022 } else { 126 };
        let exponent = self.opc(BinOp::Add, place, bias);
        let exponent = self.opc(BinOp::Shl, exponent, digits.into());
        let mut bits = self.op(BinOp::Add, exponent, value);
        if let Some(sign) = sign {
            let sign = self.opc(BinOp::Shl, sign, if digits == DOUBLE { 63 } else { 31 });
            bits = self.op(BinOp::Or, bits, sign);
        }
        let zero = self.c(0);
        self.choose(x, bits, zero)
    }

    /// A double's integer; see the checker for what C leaves open.
    fn cut_off(&mut self, x: ExprId, size: u8, signed: bool) -> ExprId {
        let x = self.keep(x);
        let exponent = self.opc(BinOp::ShrU, x, 52);
        let exponent = self.opc(BinOp::And, exponent, 0x7ff);
        let exponent = self.keep(exponent);
        let fraction = self.opc(BinOp::And, x, (1 << 52) - 1);
        let fraction = self.keep(fraction);
        let mantissa = self.opc(BinOp::Or, fraction, 1 << 52);
        let mantissa = self.keep(mantissa);
        let negative = self.opc(BinOp::ShrU, x, 63);
        let negative = self.keep(negative);
        let point = self.c(1075);
        let right = self.op(BinOp::Sub, point, exponent);
        let right = self.op(BinOp::ShrU, mantissa, right);
        let left = self.opc(BinOp::Sub, exponent, 1075);
        let left = self.op(BinOp::Shl, mantissa, left);
        let large = self.c(1074);
        let large = self.op(BinOp::LtU, large, exponent);
        let value = self.choose(large, left, right);
        // Below 1 nothing is left.
        let one = self.c(1022);
        let some = self.op(BinOp::LtU, one, exponent);
        let zero = self.c(0);
        let value = self.choose(some, value, zero);
        let value = self.keep(value);
        let bits = u32::from(size) * 8;
        let (low, high) = match (signed, size) {
            (true, 8) => (i64::MIN, i64::MAX),
            (false, 8) => (0, -1),
            (true, _) => (-1i64 << (bits - 1), (1i64 << (bits - 1)) - 1),
            (false, _) => (0, (1i64 << bits) - 1),
        };
        let (low, high) = (self.c(low), self.c(high));
        // No bits of a 64-bit integer are that large.
        let far = self.c(1022 + if signed { 63 } else { 64 });
        let far = self.op(BinOp::LtU, far, exponent);
        let far = self.keep(far);
        let beyond = self.op(BinOp::LtU, high, value);
        let beyond = self.0.put(Expr::Or(far, beyond));
        let positive = self.choose(beyond, high, value);
        let minus = if signed {
            let minus = self.neg(value);
            let minus = self.keep(minus);
            let below = self.op(BinOp::LtS, minus, low);
            let below = self.0.put(Expr::Or(far, below));
            self.choose(below, low, minus)
        } else {
            low
        };
        let value = self.choose(negative, minus, positive);
        let special = self.opc(BinOp::Eq, exponent, 0x7ff);
        let none = self.0.put(Expr::And(special, fraction));
        let zero = self.c(0);
        self.choose(none, zero, value)
    }

    /// A float as a double.
    fn widen(&mut self, x: ExprId) -> ExprId {
        let x = self.keep(x);
        let exponent = self.opc(BinOp::ShrU, x, 23);
        let exponent = self.opc(BinOp::And, exponent, 0xff);
        let exponent = self.keep(exponent);
        let fraction = self.opc(BinOp::And, x, (1 << 23) - 1);
        let fraction = self.keep(fraction);
        let special = self.opc(BinOp::Eq, exponent, 0xff);
        let (most, usual) = (self.c(0x7ff), self.opc(BinOp::Add, exponent, 896));
        let wide = self.choose(special, most, usual);
        let wide = self.opc(BinOp::Shl, wide, 52);
        let digits = self.opc(BinOp::Shl, fraction, 29);
        let normal = self.op(BinOp::Or, wide, digits);
        let normal = self.keep(normal);
        // What has no leading 1 is a whole number of the smallest.
        let small = self.whole_number(fraction, false, DOUBLE);
        let small = self.opc(BinOp::Sub, small, 149 << 52);
        let zero = self.c(0);
        let small = self.choose(fraction, small, zero);
        let size = self.choose(exponent, normal, small);
        let sign = self.opc(BinOp::ShrU, x, 31);
        let sign = self.opc(BinOp::Shl, sign, 63);
        self.op(BinOp::Or, size, sign)
    }

    /// A double as a float.
    fn narrow(&mut self, x: ExprId) -> ExprId {
        let x = self.keep(x);
        let exponent = self.opc(BinOp::ShrU, x, 52);
        let exponent = self.opc(BinOp::And, exponent, 0x7ff);
        let exponent = self.keep(exponent);
        let fraction = self.opc(BinOp::And, x, (1 << 52) - 1);
        let fraction = self.keep(fraction);
        let mantissa = self.opc(BinOp::Or, fraction, 1 << 52);
        // Below the least exponent digits are lost: 29 of them with it, one more for each step below.
        let least = self.c(897);
        let below = self.op(BinOp::Sub, least, exponent);
        let below = self.keep(below);
        let zero = self.c(0);
        let tiny = self.op(BinOp::LtS, zero, below);
        let tiny = self.keep(tiny);
        let zero = self.c(0);
        let by = self.choose(tiny, below, zero);
        let by = self.opc(BinOp::Add, by, 29);
        let by = self.keep(by);
        let mantissa = self.keep(mantissa);
        let value = self.op(BinOp::ShrU, mantissa, by);
        let width = self.c(64);
        let up = self.op(BinOp::Sub, width, by);
        let rest = self.op(BinOp::Shl, mantissa, up);
        let value = self.round(value, rest);
        // The leading 1 of the mantissa adds one to the exponent.
        let scaled = self.opc(BinOp::Sub, exponent, 897);
        let zero = self.c(0);
        let scaled = self.choose(tiny, zero, scaled);
        let scaled = self.opc(BinOp::Shl, scaled, 23);
        let finite = self.op(BinOp::Add, scaled, value);
        let gone = self.c(63);
        let gone = self.op(BinOp::LtU, gone, by);
        let zero = self.c(0);
        let finite = self.choose(gone, zero, finite);
        let finite = self.keep(finite);
        let infinity = 0x7f80_0000;
        let over = self.c(1150);
        let over = self.op(BinOp::LtU, over, exponent);
        let most = self.c(infinity);
        let size = self.choose(over, most, finite);
        let special = self.opc(BinOp::Eq, exponent, 0x7ff);
        let none = self.0.put(Expr::And(special, fraction));
        let not_a_number = self.c(0x7fc0_0000);
        let size = self.choose(none, not_a_number, size);
        let sign = self.opc(BinOp::ShrU, x, 63);
        let sign = self.opc(BinOp::Shl, sign, 31);
        self.op(BinOp::Or, size, sign)
    }

    /// A number's place in the order of all numbers, as a signed integer; both zeros have the same.
    fn rank(&mut self, x: ExprId) -> ExprId {
        let below = self.opc(BinOp::ShrS, x, 63);
        let flip = self.opc(BinOp::And, below, i64::MAX);
        let turned = self.op(BinOp::Xor, x, flip);
        let one = self.opc(BinOp::ShrU, x, 63);
        self.op(BinOp::Add, turned, one)
    }

    fn compare(&mut self, op: StrOp, a: ExprId, b: ExprId, size: u8) -> ExprId {
        let mut whole = |x: ExprId| {
            // A float's bits at the top have the same order.
            let x = if size == 4 { self.opc(BinOp::Shl, x, 32) } else { x };
            self.keep(x)
        };
        let (a, b) = (whole(a), whole(b));
        let infinity = if size == 4 { 0xffu64 << 55 } else { 0x7ff << 52 } as i64;
        let mut number = |x: ExprId| {
            let size = self.opc(BinOp::And, x, i64::MAX);
            self.opc(BinOp::LeU, size, infinity)
        };
        let (na, nb) = (number(a), number(b));
        let both = self.0.put(Expr::And(na, nb));
        let both = self.keep(both);
        let (ra, rb) = (self.rank(a), self.rank(b));
        let (op, x, y) = match op {
            StrOp::Eq => (BinOp::Eq, ra, rb),
            StrOp::Ne => (BinOp::Ne, ra, rb),
            StrOp::Lt => (BinOp::LtS, ra, rb),
            StrOp::Le => (BinOp::LeS, ra, rb),
            StrOp::Gt => (BinOp::LtS, rb, ra),
            StrOp::Ge => (BinOp::LeS, rb, ra),
        };
        let holds = self.op(op, x, y);
        // What is no number is unequal to everything, and neither below nor above it.
        let otherwise = self.c(i64::from(op == BinOp::Ne));
        self.choose(both, holds, otherwise)
    }
}

/// A number as the checker knows its type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Number {
    /// An integer: size, signed.
    Int(u8, bool),
    /// A floating-point number of 4 or 8 bytes.
    Float(u8),
}

/// Converts a number; one of the two is floating-point.
pub(super) fn convert(build: &mut dyn Build, x: ExprId, from: Number, to: Number) -> ExprId {
    let mut f = F(build);
    match (from, to) {
        (Number::Int(_, signed), Number::Float(4)) => f.whole_number(x, signed, FLOAT),
        (Number::Int(_, signed), Number::Float(_)) => f.whole_number(x, signed, DOUBLE),
        (Number::Float(4), Number::Float(8)) => f.widen(x),
        (Number::Float(8), Number::Float(4)) => f.narrow(x),
        (Number::Float(4), Number::Int(size, signed)) => {
            let x = f.widen(x);
            f.cut_off(x, size, signed)
        }
        (Number::Float(_), Number::Int(size, signed)) => f.cut_off(x, size, signed),
        _ => x,
    }
}

/// Compares two numbers of `size` bytes: 0 or 1.
pub(super) fn compare(build: &mut dyn Build, op: StrOp, a: ExprId, b: ExprId, size: u8) -> ExprId {
    F(build).compare(op, a, b, size)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Computes every expression as it is added.
    #[derive(Default)]
    struct Now(Vec<i64>);

    impl Build for Now {
        fn put(&mut self, e: Expr) -> ExprId {
            let at = |id: ExprId| self.0[id.0 as usize];
            let v = match e {
                Expr::Const(v) => v,
                Expr::Un(UnOp::Neg, a) => at(a).wrapping_neg(),
                Expr::And(a, b) => (at(a) != 0 && at(b) != 0).into(),
                Expr::Or(a, b) => (at(a) != 0 || at(b) != 0).into(),
                Expr::Cond(c, a, b) => at(if at(c) != 0 { a } else { b }),
                Expr::Bin(op, a, b) => {
                    let (x, y) = (at(a), at(b));
                    match op {
                        BinOp::Add => x.wrapping_add(y),
                        BinOp::Sub => x.wrapping_sub(y),
                        BinOp::And => x & y,
                        BinOp::Or => x | y,
                        BinOp::Xor => x ^ y,
                        BinOp::Shl => x.wrapping_shl(y as u32),
                        BinOp::ShrU => (x as u64).wrapping_shr(y as u32) as i64,
                        BinOp::ShrS => x.wrapping_shr(y as u32),
                        BinOp::Eq => (x == y).into(),
                        BinOp::Ne => (x != y).into(),
                        BinOp::LtU => ((x as u64) < y as u64).into(),
                        BinOp::LeU => (x as u64 <= y as u64).into(),
                        BinOp::LtS => (x < y).into(),
                        BinOp::LeS => (x <= y).into(),
                        _ => unreachable!("{op:?}"),
                    }
                }
                _ => unreachable!("{e:?}"),
            };
            self.0.push(v);
            ExprId(self.0.len() as u32 - 1)
        }

        fn keep(&mut self, e: ExprId) -> ExprId {
            e
        }
    }

    fn converted(x: i64, from: Number, to: Number) -> i64 {
        let mut now = Now(vec![x]);
        let id = convert(&mut now, ExprId(0), from, to);
        now.0[id.0 as usize]
    }

    /// Bit patterns at all the edges, and a reproducible crowd between them.
    fn patterns() -> Vec<u64> {
        let mut list = vec![0, 1, 2, 3, u64::MAX, 1 << 63, (1 << 63) - 1, 1 << 52, (1 << 53) - 1, (1 << 53) + 1];
        for x in
            [0.5, 0.99999, 1.0, 1.5, 2.5, -1.0, -2.5, 127.6, -128.5, 255.5, 256.0, 65535.9, 2147483647.5, 1e9, 1e19]
        {
            list.extend([x, -x, 1.0 / x].map(f64::to_bits));
        }
        for x in [f64::MAX, f64::MIN_POSITIVE, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 9.223_372_036_854_776e18] {
            list.push(x.to_bits());
        }
        for x in [f32::MAX, f32::MIN_POSITIVE, f32::INFINITY, f32::NAN, 1e-45, 1.1e-44, 3.4e38, 16777217.0] {
            list.extend([u64::from(x.to_bits()), f64::from(x).to_bits(), f64::from(x).to_bits() + 1]);
        }
        for exponent in 0..64 {
            list.extend([1u64 << exponent, (1u64 << exponent).wrapping_sub(1), (3u64 << exponent) >> 1]);
        }
        let mut state = 0x9e37_79b9_7f4a_7c15u64;
        for _ in 0..20_000 {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            // Exponents of all sizes, and those near the range of floats and integers often.
            let near = 0x370 + (state >> 20) % 0xa0;
            list.extend([state, state >> (state & 63), state & !(0x7ff << 52) | near << 52]);
        }
        list
    }

    #[test]
    fn conversions_are_the_machines() {
        for bits in patterns() {
            let (i, d, f) = (bits as i64, f64::from_bits(bits), f32::from_bits(bits as u32));
            let float = |x: f32| if x.is_nan() { 0x7fc0_0000 } else { i64::from(x.to_bits()) };
            let (int, uint) = (Number::Int(8, true), Number::Int(8, false));
            let (single, double) = (Number::Float(4), Number::Float(8));
            assert_eq!(converted(i, int, double), (i as f64).to_bits() as i64, "{i}");
            assert_eq!(converted(i, uint, double), (bits as f64).to_bits() as i64, "{bits}");
            assert_eq!(converted(i, int, single), float(i as f32), "{i}");
            assert_eq!(converted(i, uint, single), float(bits as f32), "{bits}");
            let narrow = converted(i, double, single);
            assert_eq!(if d.is_nan() { narrow & 0x7fff_ffff } else { narrow }, float(d as f32), "{bits:x}");
            let wide = f64::from_bits(converted(bits as u32 as i64, single, double) as u64);
            assert!(wide.is_nan() && f.is_nan() || wide.to_bits() == f64::from(f).to_bits(), "{bits:x}");
            assert_eq!(converted(i, double, int), d as i64, "{d:e}");
            assert_eq!(converted(i, double, uint), d as u64 as i64, "{d:e}");
            assert_eq!(converted(i, double, Number::Int(4, true)), i64::from(d as i32), "{d:e}");
            assert_eq!(converted(i, double, Number::Int(1, true)), i64::from(d as i8), "{d:e}");
            assert_eq!(converted(i, double, Number::Int(2, false)), i64::from(d as u16), "{d:e}");
            assert_eq!(converted(bits as u32 as i64, single, int), f as i64, "{f:e}");
        }
    }

    #[test]
    fn comparisons_are_the_machines() {
        let all = patterns();
        let ops = [StrOp::Eq, StrOp::Ne, StrOp::Lt, StrOp::Le, StrOp::Gt, StrOp::Ge];
        for (i, &x) in all.iter().enumerate().step_by(7) {
            for &y in all.iter().skip(i % 97).step_by(4001).chain([&x, &0, &(1 << 63), &f64::NAN.to_bits()]) {
                let (a, b) = (f64::from_bits(x), f64::from_bits(y));
                let (c, d) = (f32::from_bits(x as u32), f32::from_bits(y as u32));
                let holds = [a == b, a != b, a < b, a <= b, a > b, a >= b];
                let single = [c == d, c != d, c < d, c <= d, c > d, c >= d];
                for ((op, holds), single) in ops.into_iter().zip(holds).zip(single) {
                    let mut now = Now(vec![x as i64, y as i64, i64::from(x as u32), i64::from(y as u32)]);
                    let id = compare(&mut now, op, ExprId(0), ExprId(1), 8);
                    assert_eq!(now.0[id.0 as usize], i64::from(holds), "{a:e} {op:?} {b:e}");
                    let id = compare(&mut now, op, ExprId(2), ExprId(3), 4);
                    assert_eq!(now.0[id.0 as usize], i64::from(single), "{c:e} {op:?} {d:e}");
                }
            }
        }
    }
}
