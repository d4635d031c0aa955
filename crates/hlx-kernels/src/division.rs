//! Division of 32-bit words by a number that is known before a launch, for shaders.

/// Multiplier and shift with which 32-bit words are divided by `divisor`, 2 or more: for
/// `t = high word of multiplier * n` the quotient is `(t + (n - t) / 2) >> shift` (T. Granlund and
/// P. Montgomery, *Division by invariant integers using multiplication*, 1994, figure 4.1).
pub(crate) fn division(divisor: u32) -> (u32, u32) {
    let divisor = u64::from(divisor.max(2));
    let bits = 64 - (divisor - 1).leading_zeros();
    let multiplier = ((((1_u64 << bits) - divisor) << 32) / divisor) + 1;
    (multiplier as u32, bits - 1)
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
}
