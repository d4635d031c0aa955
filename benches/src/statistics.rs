//! The numbers that describe repeated measurements.

/// Mean, deviation, extremes and median of some measurements.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Statistics {
    /// How many there are.
    pub count: usize,
    /// Their mean.
    pub mean: f64,
    /// The standard deviation of a sample (n - 1 in the denominator); 0 for a single one.
    pub deviation: f64,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
    /// The middle one, or the mean of the two in the middle.
    pub median: f64,
}

impl Statistics {
    /// Describes values; zeros for none.
    pub fn of(values: &[f64]) -> Self {
        if values.is_empty() {
            return Self::default();
        }
        let count = values.len();
        let mean = values.iter().sum::<f64>() / count as f64;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        Self {
            count,
            mean,
            deviation: (squares / (count - 1).max(1) as f64).sqrt(),
            min: sorted[0],
            max: sorted[count - 1],
            median: (sorted[(count - 1) / 2] + sorted[count / 2]) / 2.0,
        }
    }
}

/// The median of values; 0 for none.
pub fn median(values: &[f64]) -> f64 {
    Statistics::of(values).median
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn describes_even_and_odd_counts() {
        let odd = Statistics::of(&[3.0, 1.0, 2.0]);
        let expected = Statistics {
            count: 3,
            mean: 2.0,
            deviation: 1.0,
            min: 1.0,
            max: 3.0,
            median: 2.0,
        };
        assert_eq!(odd, expected);
        let even = Statistics::of(&[4.0, 1.0, 2.0, 9.0]);
        assert_eq!((even.median, even.mean), (3.0, 4.0));
        assert!((even.deviation - (38.0_f64 / 3.0).sqrt()).abs() < 1e-12);
    }

    #[test]
    fn one_value_has_no_deviation_and_none_is_zero() {
        let one = Statistics::of(&[5.0]);
        assert_eq!((one.deviation, one.median, one.min), (0.0, 5.0, 5.0));
        assert_eq!(Statistics::of(&[]), Statistics::default());
    }
}
