//! Convolutions of operands rounded to 16 bits: small integers, whose sums are exact in every order, have the bits of `portable`;
//! other numbers are near its results of the rounded operands, and on the CPU equal to them.

use hlx_core::testing::{cases, cpu};
use hlx_core::{Device, Half};

use super::*;
use crate::testing::devices_in_fast;
use crate::tuning::KernelTuning;

/// Small integers, whose sums of products are exact.
fn integers(seed: u64, len: usize) -> Vec<f32> {
    let numbers = normal(seed, len).into_iter();
    numbers.map(|x| (2.0 * x).round()).collect()
}

fn bf16_numbers(seed: u64, len: usize) -> Vec<f32> {
    let numbers = normal(seed, len).into_iter();
    numbers.map(|x| half::bf16::from_f32(x).to_f32()).collect()
}

impl Case {
    /// What every launcher computes of products, on a device.
    fn products(&self, device: &Device) -> Result<Vec<Vec<f32>>> {
        let mut mem = TestMemory::default();
        let s = &self.spec;
        let [x, dy] = [mem.input(device, &self.x)?, mem.input(device, &self.dy)?];
        let weight = mem.input(device, &self.weight)?;
        let biases = [
            mem.input(device, &self.biases[0])?,
            mem.input(device, &self.biases[1])?,
        ];
        let mut results = Vec::new();
        for bias in [None, Some(&biases[0])] {
            let y = mem.output(device, s.output_len(self.output))?;
            conv2d_forward(device, &x, &weight, bias, &y, s)?;
            results.push(y);
        }
        let dx = mem.output(device, s.input_len())?;
        conv2d_backward_input(device, &dy, &weight, &dx, s)?;
        let transposed = mem.output(device, s.input_len())?;
        conv_transpose2d_forward(device, &dy, &weight, Some(&biases[1]), &transposed, s)?;
        results.extend([dx, transposed]);
        for shards in [1, 2]
            .into_iter()
            .filter(|shards| s.batch.is_multiple_of(*shards))
        {
            let len = shards * s.weight_len();
            let dweight = mem.output(device, len)?;
            conv2d_backward_weight(device, &x, &dy, &dweight, shards, false, s)?;
            let of_transposed = mem.output(device, len)?;
            conv_transpose2d_backward_weight(device, &dy, &x, &of_transposed, shards, false, s)?;
            let continued = mem.input(device, &self.stored[0][..len])?;
            conv2d_backward_weight(device, &x, &dy, &continued, shards, true, s)?;
            results.extend([dweight, of_transposed, continued]);
        }
        let found = results
            .iter()
            .map(|result| Ok(device.download::<f32>(result)?));
        let found = found.collect::<Result<Vec<_>>>()?;
        mem.check_fences("convolutions of halves", device)?;
        Ok(found)
    }
}

#[test]
fn exact_sums_have_the_bits_of_portable() -> Result<()> {
    let host = cpu()?;
    for spec in cases(shapes(), 4) {
        let case = Case::new(spec, integers);
        let expected = case.products(&host)?;
        for half in Half::ALL {
            for device in devices_in_fast(half) {
                let found = case.products(&device)?;
                assert_eq!(found, expected, "{half:?} {spec:?} {}", device.info());
            }
        }
    }
    Ok(())
}

#[test]
fn results_are_near_portable_of_the_rounded_operands() -> Result<()> {
    let host = cpu()?;
    for spec in cases(shapes(), 4) {
        let case = Case::new(spec, bf16_numbers);
        let expected = case.products(&host)?;
        // Operands of bf16 alone: f16 would round them again.
        for device in devices_in_fast(Half::Bf16) {
            let found = case.products(&device)?;
            if device.is_cpu() {
                assert_eq!(found, expected, "{spec:?}");
            }
            for (found, expected) in found.iter().flatten().zip(expected.iter().flatten()) {
                let bound = 1e-4 * (1.0 + expected.abs());
                assert!(
                    (found - expected).abs() < bound,
                    "{spec:?}: {found}, {expected}"
                );
            }
        }
    }
    Ok(())
}

/// Operands that have to be rounded first: within the bounds of sums of rounded products.
#[test]
fn rounding_operands_costs_what_their_precision_says() -> Result<()> {
    let host = cpu()?;
    for spec in cases(shapes(), 4) {
        let case = Case::new(spec, normal);
        let expected = case.products(&host)?;
        for (half, step) in [
            (Half::Bf16, 2.0_f32.powi(-8)),
            (Half::F16, 2.0_f32.powi(-11)),
        ] {
            for device in devices_in_fast(half) {
                let found = case.products(&device)?;
                assert_ne!(found, expected, "{half:?} rounds nothing");
                for (found, expected) in found.iter().flatten().zip(expected.iter().flatten()) {
                    // Two operands of at most 4.5 are rounded in each of at most 160 terms.
                    let bound = 160.0 * 2.0 * step * 4.5 * 4.5 / 4.0;
                    assert!((found - expected).abs() < bound, "{half:?} {spec:?}");
                }
            }
        }
    }
    Ok(())
}

#[test]
fn how_many_patches_are_stored_changes_no_bit() -> Result<()> {
    for half in Half::ALL {
        for device in devices_in_fast(half) {
            let mut little = KernelTuning::of(&device).clone();
            little.integer_patch_bytes = 1 << 10;
            let little = little.on(&device).expect("a tuning");
            for spec in cases(shapes(), 5) {
                let case = Case::new(spec, normal);
                assert_eq!(
                    case.products(&device)?,
                    case.products(&little)?,
                    "{half:?} {spec:?}"
                );
            }
        }
    }
    Ok(())
}
