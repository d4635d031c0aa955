//! The best scale without a minimum: all roundings between two scales are gone through.
//!
//! For integers q the best scale of x = d q is sum(w x q) / sum(w q q), and the error is the less the larger
//! sum(w x q)^2 / sum(w q q). As 1 / d grows, each q changes by one at known places. Between two places all q are the
//! same, so that visiting the places in order finds the best of all scales of the range.

/// Values whose common scale is searched, and the range of their integers.
pub(super) struct Sweep<'a> {
    pub x: &'a [f64],
    pub w: &'a [f64],
    pub least: f64,
    pub most: f64,
    /// Whether the scale may be negative.
    pub both_signs: bool,
}

/// A q that changes: the place as bits of a positive float, and which.
type Event = (u64, u32);

impl Sweep<'_> {
    /// The best scale found; 0 where all values are.
    pub fn best_scale(&self, events: &mut Vec<Event>) -> f64 {
        let largest = self.x.iter().fold(0.0, |most: f64, x| most.max(x.abs()));
        if largest == 0.0 {
            return 0.0;
        }
        let (mut best, mut scale) = (0.0, 0.0);
        let signs: &[f64] = if self.both_signs {
            &[1.0, -1.0]
        } else {
            &[1.0]
        };
        for &sign in signs {
            let (score, found) = self.of_sign(sign, largest, events);
            if score > best {
                (best, scale) = (score, sign * found);
            }
        }
        scale
    }

    /// The least and the largest 1 / d that are visited: from scales that reach past the largest value to those
    /// that cut it off.
    fn bounds(&self, largest: f64) -> (f64, f64) {
        let levels = self.most.max(-self.least);
        match levels > 20.0 {
            true => (0.75 * levels / largest, 1.06 * levels / largest),
            false => (0.75 * levels / largest, 2.0 * levels / largest),
        }
    }

    /// The score and the scale of the best place for values of one sign.
    fn of_sign(&self, sign: f64, largest: f64, events: &mut Vec<Event>) -> (f64, f64) {
        let (first, last) = self.bounds(largest);
        let (mut xq, mut qq) = (0.0, 0.0);
        events.clear();
        for (at, (&x, &w)) in self.x.iter().zip(self.w).enumerate() {
            let cap = if x * sign < 0.0 {
                -self.least
            } else {
                self.most
            };
            let x = x.abs();
            let mut q = super::group::nearest((x * first).min(cap));
            xq += w * x * q;
            qq += w * q * q;
            while q < cap {
                let place = (q + 0.5) / x;
                // Of a zero the place is an infinity.
                if place >= last {
                    break;
                }
                events.push((place.to_bits(), at as u32));
                q += 1.0;
            }
        }
        let mut best = (if qq > 0.0 { xq * xq / qq } else { 0.0 }, xq, qq);
        events.sort_unstable();
        let mut q = self.first_integers(sign, first);
        for &(_, at) in events.iter() {
            let at = at as usize;
            let w = self.w[at];
            xq += w * self.x[at].abs();
            qq += w * (2.0 * q[at] + 1.0);
            q[at] += 1.0;
            let score = xq * xq / qq;
            if score > best.0 {
                best = (score, xq, qq);
            }
        }
        match best.2 > 0.0 {
            true => (best.0, best.1 / best.2),
            false => (0.0, 0.0),
        }
    }

    /// The magnitudes of the integers at the first place.
    fn first_integers(&self, sign: f64, first: f64) -> [f64; 32] {
        let mut q = [0.0; 32];
        for (q, &x) in q.iter_mut().zip(self.x) {
            let cap = if x * sign < 0.0 {
                -self.least
            } else {
                self.most
            };
            *q = super::group::nearest((x.abs() * first).min(cap));
        }
        q
    }
}
