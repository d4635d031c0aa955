//! Functions of f64 that have the same bits on every platform, whose own mathematics differ.

/// The natural logarithm of a positive normal number, within 1e-15 of its size: the exponent's part, and
/// 2 atanh((m - 1) / (m + 1)) of the significand m as a series.
pub fn ln(x: f64) -> f64 {
    let bits = x.to_bits();
    let mut exponent = (bits >> 52) as i64 - 1023;
    let mut m = f64::from_bits((bits & ((1 << 52) - 1)) | (1023 << 52));
    if m > std::f64::consts::SQRT_2 {
        m *= 0.5;
        exponent += 1;
    }
    let t = (m - 1.0) / (m + 1.0);
    // |t| < 0.172: the term of t^41 is below 1e-32.
    let series = (0..=20)
        .rev()
        .fold(0.0, |sum, n| sum * (t * t) + 1.0 / f64::from(2 * n + 1));
    exponent as f64 * std::f64::consts::LN_2 + 2.0 * t * series
}

/// The exponential of a number up to 700, within 1e-15 of itself: 2^n times a series. Below -700 it is 0.
pub fn exp(x: f64) -> f64 {
    if x < -700.0 {
        return 0.0;
    }
    let n = (x / std::f64::consts::LN_2).round();
    let r = x - n * std::f64::consts::LN_2;
    // |r| < 0.35: the term of r^20 is below 1e-27.
    let series = (1..=20)
        .rev()
        .fold(1.0, |sum, n| 1.0 + sum * r / f64::from(n));
    series * f64::from_bits(((1023 + n as i64) as u64) << 52)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_functions_are_each_others_inverse() {
        let near = |found: f64, expected: f64| {
            let error = (found - expected).abs();
            assert!(
                error <= 1e-15 * expected.abs().max(1.0),
                "{found} {expected}"
            );
        };
        near(ln(std::f64::consts::E), 1.0);
        near(exp(1.0) / std::f64::consts::E, 1.0);
        for n in -60..60 {
            let x = f64::from(n) * 0.37;
            near(ln(exp(x)), x);
        }
        assert_eq!(exp(-701.0), 0.0);
        assert!(exp(-699.0) > 0.0);
    }
}
