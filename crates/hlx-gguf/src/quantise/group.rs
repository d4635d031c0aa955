//! The values that share a scale, and their sums.

/// Adding and subtracting it rounds to whole numbers, ties to even, where they are below 2^51.
const ROUND: f64 = 6_755_399_441_055_744.0;

/// Values, and what the squared error of each counts for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Group<const N: usize> {
    pub x: [f64; N],
    pub w: [f64; N],
}

/// Integers as floats, and the error with them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fit<const N: usize> {
    pub q: [f64; N],
    pub error: f64,
}

/// Weighted sums over a group: of q, of q squared, and of x q.
pub(super) struct Sums {
    pub q: f64,
    pub qq: f64,
    pub xq: f64,
}

/// Sums four lanes, each in order, and joins them in order.
fn sum<const N: usize>(term: impl Fn(usize) -> f64) -> f64 {
    let mut lanes = [0.0; 4];
    for at in 0..N / 4 {
        for (lane, sum) in lanes.iter_mut().enumerate() {
            *sum += term(4 * at + lane);
        }
    }
    (lanes[0] + lanes[1]) + (lanes[2] + lanes[3])
}

/// The nearest whole number, the even one of two.
#[inline(always)]
pub(super) fn nearest(value: f64) -> f64 {
    (value + ROUND) - ROUND
}

impl<const N: usize> Group<N> {
    /// The group at a place of a block.
    pub fn new(values: &[f32], weights: &[f64]) -> Self {
        Self {
            x: std::array::from_fn(|at| f64::from(values[at])),
            w: std::array::from_fn(|at| weights[at]),
        }
    }

    /// The largest magnitude.
    pub fn largest(&self) -> f64 {
        self.x.iter().fold(0.0, |most, x| most.max(x.abs()))
    }

    /// The weighted sums of 1 and of x.
    pub fn totals(&self) -> (f64, f64) {
        (
            sum::<N>(|at| self.w[at]),
            sum::<N>(|at| self.w[at] * self.x[at]),
        )
    }

    /// The integers within a range that are nearest to `inverse * x + offset`.
    pub fn integers(&self, inverse: f64, offset: f64, (least, most): (f64, f64)) -> [f64; N] {
        std::array::from_fn(|at| nearest((self.x[at] * inverse + offset).clamp(least, most)))
    }

    pub fn sums(&self, q: &[f64; N]) -> Sums {
        Sums {
            q: sum::<N>(|at| self.w[at] * q[at]),
            qq: sum::<N>(|at| self.w[at] * q[at] * q[at]),
            xq: sum::<N>(|at| self.w[at] * self.x[at] * q[at]),
        }
    }

    /// The weighted squared error of `scale * q - min`.
    pub fn error(&self, q: &[f64; N], scale: f64, min: f64) -> f64 {
        sum::<N>(|at| {
            let error = self.x[at] - (scale * q[at] - min);
            self.w[at] * error * error
        })
    }

    /// The best integers within a range that has 0, for a scale and a minimum.
    pub fn fit(&self, scale: f64, min: f64, range: (f64, f64)) -> Fit<N> {
        let q = match scale == 0.0 {
            true => [0.0; N],
            false => self.integers(1.0 / scale, min / scale, range),
        };
        Fit {
            error: self.error(&q, scale, min),
            q,
        }
    }
}
