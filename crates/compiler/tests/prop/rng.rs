//! Pseudo-random numbers and choices, the same for the same seed.

/// A generator of pseudo-random numbers (xorshift64*).
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// The generator of a seed.
    pub fn new(seed: u64) -> Rng {
        let mut rng = Rng(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5851_f42d_4c95_7f2d | 1);
        for _ in 0..8 {
            rng.next();
        }
        rng
    }

    /// 64 bits.
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// Below `n`.
    pub fn below(&mut self, n: u64) -> u64 {
        (self.next() >> 33) % n.max(1)
    }

    /// True in `percent` of 100.
    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// One of these.
    pub fn pick<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize].clone()
    }

    /// A number, often one at which something changes.
    pub fn number(&mut self) -> i64 {
        match self.below(5) {
            0 => self.below(10) as i64,
            1 => self.pick(&[
                -1,
                0,
                1,
                63,
                64,
                65,
                127,
                128,
                255,
                256,
                -128,
                -129,
                i64::from(i32::MAX),
                i64::from(i32::MIN),
                1 << 31,
                (1 << 32) - 1,
                1 << 32,
                i64::MAX,
                i64::MIN,
                i64::MIN + 1,
                1 << 62,
            ]),
            2 => self.below(2000) as i64 - 1000,
            3 => 1i64.wrapping_shl(self.below(64) as u32).wrapping_sub(self.below(3) as i64),
            _ => self.next() as i64,
        }
    }

    /// Text of at most `most` bytes.
    pub fn text(&mut self, most: u64) -> Vec<u8> {
        let len = match self.below(4) {
            0 => 0,
            1 => self.below(4).min(most),
            2 => self.below(most.min(16) + 1),
            _ => self.below(most + 1),
        };
        // Few letters, so that strings are equal, or begin equally, often.
        let high = self.chance(10);
        (0..len)
            .map(|_| if high && self.chance(30) { 0x80 + self.below(128) as u8 } else { b'a' + self.below(2) as u8 })
            .collect()
    }
}
