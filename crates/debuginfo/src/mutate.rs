//! Deterministic mutation, for short fuzz runs in the tests.

/// A small generator of numbers that look random (xorshift64*).
pub(crate) struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub fn below(&mut self, limit: usize) -> usize {
        (self.next() >> 33) as usize % limit.max(1)
    }
}

/// Runs `f` over `rounds` variants of `seed`: flipped bits, interesting numbers, cuts, copies within.
pub(crate) fn mutate(seed: &[u8], rounds: usize, mut f: impl FnMut(&[u8])) {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    f(seed);
    for _ in 0..rounds {
        let mut bytes = seed.to_vec();
        for _ in 0..1 + random.below(4) {
            if bytes.is_empty() {
                break;
            }
            let at = random.below(bytes.len());
            match random.below(6) {
                0 => bytes[at] ^= 1 << random.below(8),
                1 => bytes[at] = random.next() as u8,
                2 => {
                    let number = [0u32, 1, 0x7fff_ffff, 0x8000_0000, 0xffff_ffff, 0xffff_fff0, 0xffff, 0x1_0000];
                    let number = number[random.below(8)].to_le_bytes();
                    for (byte, &new) in bytes[at..].iter_mut().zip(&number) {
                        *byte = new;
                    }
                }
                3 => bytes.truncate(at),
                4 => {
                    let from = random.below(bytes.len());
                    let len = random.below(32).min(bytes.len() - from.max(at));
                    bytes.copy_within(from..from + len, at);
                }
                _ => bytes.insert(at, random.next() as u8),
            }
        }
        f(&bytes);
    }
}
