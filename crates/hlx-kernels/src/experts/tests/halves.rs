//! Products of experts of operands rounded to 16 bits: small integers, whose sums are exact in every order, have the bits of
//! `portable`.

use hlx_core::Half;
use hlx_core::testing::{cases as chosen, cpu};

use super::*;
use crate::product::Role;
use crate::testing::{TestMemory, devices_in_fast};

fn integers(seed: u64, len: usize) -> Vec<f32> {
    let numbers = normal(seed, len).into_iter();
    numbers.map(|x| (2.0 * x).round()).collect()
}

impl Case {
    /// Products of weights in one window, and of weights that lie apart, and gradients of weights.
    fn products(&self, device: &Device, [n, k]: [usize; 2]) -> Result<Vec<Vec<f32>>> {
        let mut mem = TestMemory::default();
        let (rows, experts) = (self.rows.len(), self.choices.experts);
        let stride = usize::next_multiple_of(n * k, 64);
        let weights = integers(2, experts * stride);
        let window = mem.input(device, &weights)?;
        let (_, bounds) = self.table(device, 1)?;
        let mut results = Vec::new();
        for trans_b in [true, false] {
            let product = ExpertsProduct {
                rows,
                n,
                k,
                trans_b,
            };
            let x = mem.input(device, &integers(1, rows * k))?;
            let x = Factor::new(device, Role::Signal, &x, Matrices::rows(1, rows, k))?;
            let of_window = (0..experts).map(|e| window.slice(e * stride, n * k));
            let of_window = of_window.collect::<Result<Vec<_>, _>>()?;
            let mut apart = of_window[..2].to_vec();
            for e in 2..experts {
                apart.push(mem.input(device, &weights[e * stride..][..n * k])?);
            }
            for weights in [of_window, apart] {
                let y = mem.output(device, rows * n)?;
                experts_product(device, &x, &weights, &bounds, &y, &product)?;
                results.push(y);
            }
        }
        let [dy, x] = [integers(3, rows * n), integers(4, rows * k)];
        let [dy, x] = [mem.input(device, &dy)?, mem.input(device, &x)?];
        for shards in [1, 2]
            .into_iter()
            .filter(|&s| self.choices.tokens.is_multiple_of(s))
        {
            let (_, bounds) = self.table(device, shards)?;
            let of = ExpertsGradient::new(device, [&dy, &x], None, [n, k], &bounds, 1)?;
            for expert in [0, 1, experts - 1] {
                let overwritten = mem.output(device, shards * n * k)?;
                let continued = mem.input(device, &integers(5, shards * n * k))?;
                of.of_weight(device, [expert, shards], &overwritten, false)?;
                of.of_weight(device, [expert, shards], &continued, true)?;
                results.extend([overwritten, continued]);
            }
        }
        let found = results
            .iter()
            .map(|result| Ok(device.download::<f32>(result)?));
        let found = found.collect::<Result<Vec<_>>>()?;
        mem.check_fences("products of experts of halves", device)?;
        Ok(found)
    }
}

#[test]
fn exact_sums_have_the_bits_of_portable() -> Result<()> {
    let host = cpu()?;
    let sizes = [[5, 3], [8, 12], [64, 16], [33, 40], [130, 17]];
    let all: Vec<_> = cases().zip(sizes).collect();
    for (case, sizes) in chosen(all, 2) {
        let expected = case.products(&host, sizes)?;
        for half in Half::ALL {
            for device in devices_in_fast(half) {
                let found = case.products(&device, sizes)?;
                assert_eq!(found, expected, "{half:?} {sizes:?} {}", device.info());
            }
        }
    }
    Ok(())
}
