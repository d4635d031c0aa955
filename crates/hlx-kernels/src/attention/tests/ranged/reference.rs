//! Attention over ranges in f64, with the rule of what a query sees key by key.

use super::*;

impl Case {
    pub fn position(&self, sample: usize, query: usize) -> usize {
        let attention = &self.attention;
        let last = attention.keys.saturating_sub(attention.queries);
        let firsts = self.first_positions.as_ref();
        query + firsts.map_or(last, |firsts| firsts[sample] as usize)
    }

    /// Whether a query sees a key: the rule of `Limits`, key by key.
    pub fn sees(&self, sample: usize, query: usize, key: usize) -> bool {
        let attention = &self.attention;
        let p = self.position(sample, query);
        let len = self
            .lengths
            .as_ref()
            .map(|lengths| lengths[sample] as usize);
        let document = |at: usize| match &self.documents {
            Some(starts) if at < attention.keys => Some(starts[sample * attention.keys + at]),
            Some(_) => None,
            None => Some(0),
        };
        let of_query = document(p);
        let window = attention.window.unwrap_or(usize::MAX / 2);
        key < len.unwrap_or(attention.keys)
            && of_query.is_some()
            && of_query == document(key)
            && key + window > p
            && match attention.causal {
                true => key <= p && len.is_none_or(|len| p < len),
                false => key < p + window,
            }
    }

    /// The factor of a weight where weights are dropped.
    pub fn factor(&self, sample: usize, head: usize, query: usize, key: usize) -> f64 {
        let Some(WeightDropout { p, seed, purpose }) = self.attention.dropout else {
            return 1.0;
        };
        let [step, first] = self.counter;
        let seed = [seed as u32, (seed >> 32) as u32];
        let own = philox4x32([0, first + sample as u32, step, purpose], seed);
        let starts = self.documents.as_ref();
        let first_key = starts.map_or(0, |starts| starts[sample * self.attention.keys + key]);
        let place = key as u32 - first_key;
        let position = self.position(sample, query) as u32;
        let words = philox4x32([place / 4, position, head as u32, 0], [own[0], own[1]]);
        match arith::uniform(words[place as usize % 4]) >= p {
            true => 1.0 / (1.0 - f64::from(p)),
            false => 0.0,
        }
    }

    /// o, dq, dk and dv in f64.
    pub fn reference(&self) -> [Vec<f64>; 4] {
        let attention = &self.attention;
        let Attention {
            heads,
            key_heads,
            head_width: width,
            ..
        } = *attention;
        let [mut o, mut dq] = [0; 2].map(|_| vec![0.0; attention.output_len()]);
        let [mut dk, mut dv] = [0; 2].map(|_| vec![0.0; attention.key_len()]);
        let scale = f64::from(attention.scale);
        let dot = |x: &[f32], y: &[f32]| -> f64 {
            let products = x.iter().zip(y);
            products.map(|(&x, &y)| f64::from(x) * f64::from(y)).sum()
        };
        let rows = (0..attention.batch * attention.queries * heads).map(|row| {
            let (sample, query) = (
                row / heads / attention.queries,
                row / heads % attention.queries,
            );
            (row, sample, query, row % heads)
        });
        for (row, sample, query, head) in rows {
            let at = row * width;
            let (q, d_o) = (&self.q[at..][..width], &self.d_o[at..][..width]);
            let keys = (0..attention.keys).filter(|&key| self.sees(sample, query, key));
            let keys: Vec<usize> = keys.collect();
            let place = |key: usize| {
                let of_head = head / (heads / key_heads);
                ((sample * attention.keys + key) * key_heads + of_head) * width
            };
            // Scores, and what their caps' derivatives are.
            let scores = keys.iter().map(|&key| {
                let s = dot(q, &self.k[place(key)..][..width]) * scale;
                attention.soft_cap.map_or((s, 1.0), |cap| {
                    let t = (s / f64::from(cap)).tanh();
                    (f64::from(cap) * t, 1.0 - t * t)
                })
            });
            let scores: Vec<(f64, f64)> = scores.collect();
            let top = scores.iter().fold(f64::NEG_INFINITY, |top, s| top.max(s.0));
            let sum: f64 = scores.iter().map(|s| (s.0 - top).exp()).sum();
            let weights = keys.iter().zip(&scores).map(|(&key, s)| {
                let factor = self.factor(sample, head, query, key);
                ((s.0 - top).exp() / sum, factor, s.1)
            });
            let weights: Vec<(f64, f64, f64)> = weights.collect();
            for (&key, (p, factor, _)) in keys.iter().zip(&weights) {
                for d in 0..width {
                    o[at + d] += p * factor * f64::from(self.v[place(key) + d]);
                }
            }
            let upstream = o[at..][..width].iter().zip(d_o);
            let delta: f64 = upstream.map(|(o, &d_o)| o * f64::from(d_o)).sum();
            for (&key, (p, factor, slope)) in keys.iter().zip(&weights) {
                let place = place(key);
                let dp = factor * dot(d_o, &self.v[place..][..width]);
                let ds = p * (dp - delta) * slope * scale;
                for d in 0..width {
                    dq[at + d] += ds * f64::from(self.k[place + d]);
                    dk[place + d] += ds * f64::from(q[d]);
                    dv[place + d] += p * factor * f64::from(d_o[d]);
                }
            }
        }
        [o, dq, dk, dv]
    }
}
