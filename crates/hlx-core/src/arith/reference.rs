//! f64 references and the measure of errors: for tests and for exhaustive comparisons, never for
//! what a kernel computes.

/// The distance of `got` from `want` in units of the last place of the correctly rounded result.
/// Results below the normal numbers are not measured.
pub fn ulps(got: f32, want: f64) -> f64 {
    let rounded = want as f32;
    if want.is_nan() || got.is_nan() {
        return if want.is_nan() == got.is_nan() {
            0.0
        } else {
            f64::INFINITY
        };
    }
    if rounded.is_infinite() || got.is_infinite() {
        return if rounded == got { 0.0 } else { f64::INFINITY };
    }
    if want.abs() < f64::from(f32::MIN_POSITIVE) {
        return if f64::from(got).abs() <= f64::from(f32::MIN_POSITIVE) {
            0.0
        } else {
            f64::INFINITY
        };
    }
    let exponent = (want.to_bits() >> 52 & 0x7ff) as i32 - 1023;
    // Times 2^(23 - exponent).
    (f64::from(got) - want).abs() * f64::from_bits(((1046 - exponent) as u64) << 52)
}

/// erf in f64: the Taylor series below 2.5, a continued fraction of erfc above (Lentz).
pub fn erf(x: f64) -> f64 {
    if x.is_nan() {
        return x;
    }
    let t = x.abs();
    let value = if t < 2.5 {
        let (mut term, mut sum, mut n) = (t, t, 0.0);
        while term.abs() > 1e-18 * sum.abs() {
            n += 1.0;
            term *= -t * t / n;
            sum += term / (2.0 * n + 1.0);
        }
        sum * std::f64::consts::FRAC_2_SQRT_PI
    } else if t < 6.0 {
        // erfc(t) = exp(-t^2)/sqrt(pi) / (t + (1/2)/(t + 1/(t + (3/2)/(t + ...))))
        let fraction = (1..=120)
            .rev()
            .fold(t, |below, k| t + 0.5 * f64::from(k) / below);
        1.0 - (-t * t).exp() * std::f64::consts::FRAC_2_SQRT_PI * 0.5 / fraction
    } else {
        1.0
    };
    value.copysign(x)
}

/// A small generator of test inputs (xorshift; not the library's Philox, which is under test).
#[cfg(test)]
pub struct Inputs(u64);

#[cfg(test)]
impl Inputs {
    /// A generator whose inputs the seed fixes.
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// 32 random bits.
    pub fn bits(&mut self) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32) as u32
    }

    /// Any float: every pattern of bits is as likely.
    pub fn any(&mut self) -> f32 {
        f32::from_bits(self.bits())
    }

    /// A float of random significand and sign whose exponent lies in the range.
    pub fn scaled(&mut self, exponents: std::ops::RangeInclusive<i32>) -> f32 {
        let span = (exponents.end() - exponents.start() + 1) as u32;
        let exponent = exponents.start() + (self.bits() % span) as i32;
        f32::from_bits(self.bits() & 0x807f_ffff | ((exponent + 127) as u32) << 23)
    }
}

/// Zeros, infinities, NaN, the ends of the range, small integers, and neighbours of each.
#[cfg(test)]
pub fn edges() -> Vec<f32> {
    let mut bits = vec![
        0x7fc0_0000_u32,
        0x7f80_0000,
        0x7f7f_ffff,
        0x0080_0000,
        0x0080_0001,
        0,
    ];
    bits.extend([1, 0x007f_ffff, 0x0040_0000]);
    for exponent in [
        1, 2, 3, 24, 25, 63, 64, 101, 103, 120, 125, 126, 127, 128, 129, 150, 190, 253, 254,
    ] {
        let power = exponent << 23;
        bits.extend([
            power - 1,
            power,
            power + 1,
            power | 0x0055_5555,
            power | 0x007f_ffff,
        ]);
    }
    bits.iter()
        .flat_map(|bits| [*bits, bits | 0x8000_0000])
        .map(f32::from_bits)
        .collect()
}
