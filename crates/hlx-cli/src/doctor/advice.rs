//! Which arithmetic to train in on a device, and why.

use hlx_core::{Arithmetic, Device, Half};

use super::rates::written;

/// A recommendation.
pub struct Advice {
    pub arithmetic: Arithmetic,
    /// The reason, in a line.
    pub why: String,
}

impl Advice {
    /// That for a device with these rates of products, in `portable` and `integer`, in operations per second: the faster of
    /// the two, whose bits are the same everywhere; the line names `fast` where the device has it.
    pub fn of(device: &Device, rates: [f64; 2]) -> Self {
        let halves: Vec<Half> = Half::ALL
            .into_iter()
            .filter(|&half| device.half_matrices(half).is_some())
            .collect();
        Self::from(rates, &halves)
    }

    fn from([portable, integer]: [f64; 2], halves: &[Half]) -> Self {
        let (arithmetic, other) = match integer >= portable {
            true => (Arithmetic::Integer, Arithmetic::Portable),
            false => (Arithmetic::Portable, Arithmetic::Integer),
        };
        let (rate, less) = (integer.max(portable), integer.min(portable));
        let mut why = format!(
            "products at {}, {:.1} times {other}, with the same bits on every device",
            written(rate),
            rate / less.max(1.0)
        );
        if let Some(&half) = halves.first() {
            let fast = Arithmetic::Fast(half);
            why += &format!(
                "; `{fast}` has matrices of {} here, for speed where bits of this device model and driver are enough",
                half.dtype()
            );
        }
        Self { arithmetic, why }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_faster_arithmetic_is_recommended_and_fast_is_named_where_it_is() {
        let advice = Advice::from([40e12, 120e12], &[]);
        assert_eq!(advice.arithmetic, Arithmetic::Integer);
        assert_eq!(
            advice.why,
            "products at 120.0 TFLOP/s, 3.0 times portable, with the same bits on every device"
        );
        let advice = Advice::from([2e12, 1e12], &[Half::F16]);
        assert_eq!(advice.arithmetic, Arithmetic::Portable);
        assert!(
            advice.why.contains("; `fast_f16` has matrices of f16 here"),
            "{}",
            advice.why
        );
    }
}
