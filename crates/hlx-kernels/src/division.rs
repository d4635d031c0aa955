//! Division of 32-bit words by a number that is known before a launch, for shaders: a multiplication and a shift
//! (T. Granlund and P. Montgomery, *Division by invariant integers using multiplication*, 1994, figure 4.1).

/// A divisor of numbers below 2^31: for `t = high word of magic * n` the quotient is `(t + n) >> shift`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Divisor {
    pub value: u32,
    pub magic: u32,
    pub shift: u32,
}

impl Divisor {
    /// That of 1 or more.
    pub fn new(value: usize) -> Self {
        let shift = (value as u64).next_power_of_two().trailing_zeros();
        let over = (1_u64 << shift) - value as u64;
        Self {
            value: value as u32,
            magic: ((over << 32) / value as u64 + 1) as u32,
            shift,
        }
    }
}

/// Multiplier and shift with which any 32-bit words are divided by `divisor`, 2 or more: for
/// `t = high word of multiplier * n` the quotient is `(t + (n - t) / 2) >> shift`.
pub(crate) fn division(divisor: u32) -> (u32, u32) {
    let divisor = Divisor::new(divisor.max(2) as usize);
    (divisor.magic, divisor.shift - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn division_is_exact() {
        let edges = [
            0,
            1,
            2,
            4095,
            4096,
            4097,
            0x7fff_ffff,
            0x8000_0000,
            u32::MAX,
        ];
        for divisor in (2..70).chain([127, 1000, 4096, 65_537, 0x8000_0001, u32::MAX - 1, u32::MAX])
        {
            let (multiplier, shift) = division(divisor);
            for n in edges
                .into_iter()
                .chain([divisor - 1, divisor, divisor.wrapping_mul(3)])
            {
                let high = ((u64::from(multiplier) * u64::from(n)) >> 32) as u32;
                assert_eq!(
                    (high + ((n - high) >> 1)) >> shift,
                    n / divisor,
                    "{n} / {divisor}"
                );
            }
        }
    }

    #[test]
    fn divisors_give_the_quotients_of_all_sizes() {
        let divided = |n: u32, d: &Divisor| {
            let high = (u64::from(n) * u64::from(d.magic)) >> 32;
            (high as u32 + n) >> d.shift
        };
        let last = i32::MAX as u32;
        let divisors = (1..600).chain([1023, 1024, 1025, 3136, 50_176, 65_537, 1 << 30, last]);
        for value in divisors {
            let d = Divisor::new(value as usize);
            let multiples = (0..40).map(|i| last / value / 39 * i * value);
            let near = multiples.flat_map(|n| [n.saturating_sub(1), n, n + 1]);
            for n in near.chain([last - 1, last]) {
                let n = n.min(last);
                assert_eq!(divided(n, &d), n / value, "{n} / {value}");
            }
        }
    }
}
