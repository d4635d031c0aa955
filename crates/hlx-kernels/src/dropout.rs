//! Dropout: elements are zeroed with probability `p`, the others grow by `1 / (1 - p)`.
//!
//! x, y `[B, T, C]`. The uniform number of an element, in [0, 1) with 24 bits, is component
//! `index % 4` of Philox 4x32-10 (Salmon et al., SC 2011) under the seed's two words as key and
//! `counter = (index / 4, sample_base + b, step, purpose)`, where `index = t C + c` counts within
//! the sample. It depends on neither B, T nor the launch: a sample has the same mask alone, in
//! any micro-batch, and padded. An element stays if its number is at least `p`; then
//! `y = x (1 / (1 - p))`, else +0. The backward pass is the same call on `dy`.

use hlx_core::arith::{div, philox4x32, sub};
use hlx_core::{Buffer, Device, as_u32};

use crate::error::{KernelError, check_sizes, check_that};
use crate::kernel::Kernel;
use crate::map::{CHUNK, GROUP_THREADS};
use crate::parallel;

shader!(dropout_shader, dropout::dropout);

/// The parameters of one dropout.
#[derive(Clone, Copy, Debug)]
pub struct Dropout {
    /// The probability of zero, from 0 to 1.
    pub p: f32,
    /// The run's seed.
    pub seed: u64,
    /// Which dropout of the model this is; two of one purpose have one mask.
    pub purpose: u32,
    /// Samples.
    pub batch: usize,
    /// Positions of a sample, padding included.
    pub time: usize,
    /// Columns of a position.
    pub width: usize,
}

/// Computes `y = x / (1 - p)` where the mask keeps an element, else 0.
///
/// `counter` holds two u32 words, `[step, sample_base]`: the step's number, and the index in the
/// global batch of this batch's first sample. They lie on the device so that a recorded step can
/// be replayed.
///
/// # Errors
/// A shape error, a probability outside [0, 1], or the device's error.
pub fn dropout(
    device: &Device,
    x: &Buffer,
    y: &Buffer,
    counter: &Buffer,
    config: &Dropout,
) -> Result<(), KernelError> {
    const NAME: &str = "dropout";
    let (p, batch) = (config.p, config.batch);
    check_sizes(NAME, &[batch, config.time, config.width])?;
    let per_sample = config.time * config.width;
    check_that(NAME, (0.0..=1.0).contains(&p), || {
        format!("p is {p}, expected a probability from 0 to 1")
    })?;
    let kernel = Kernel::new(NAME, &dropout_shader::SHADER)
        .read("x", x, [batch, per_sample])?
        .read("counter", counter, 2)?
        .write("y", y, [batch, per_sample])?;
    let factor = hlx_core::cpu::with_flush(|| div(1.0, sub(1.0, p)));
    let mask = Mask {
        key: [config.seed as u32, (config.seed >> 32) as u32],
        sample: 0,
        step: 0,
        purpose: config.purpose,
        p,
        factor,
    };
    let push = push!(dropout_shader =>
        batch, per_sample, seed_low: mask.key[0], seed_high: mask.key[1], purpose: mask.purpose, p, factor
    );
    let groups = (batch * per_sample.div_ceil(4)).div_ceil(GROUP_THREADS);
    kernel.launch(device, push, groups, move |[x, counter], [y]| {
        let [step, sample_base] = [as_u32(counter)[0], as_u32(counter)[1]];
        let tiles = parallel::tiles(y, per_sample, CHUNK);
        parallel::for_each(tiles, |_, (sample_idx, first, y)| {
            let sample = sample_base.wrapping_add(sample_idx as u32);
            let mask = Mask {
                sample,
                step,
                ..mask
            };
            let x = &x[sample_idx * per_sample + first..][..y.len()];
            drop_chunk(mask, (first / 4) as u32, x, y);
        });
    })
}

/// What the mask of one sample depends on.
#[derive(Clone, Copy)]
struct Mask {
    key: [u32; 2],
    sample: u32,
    step: u32,
    purpose: u32,
    p: f32,
    factor: f32,
}

/// Counters that are drawn together, one a SIMD lane.
const LANES: usize = 16;

multiversion! {
    /// One chunk of a sample, whose first counter is `first_quad`.
    fn drop_chunk<A>(mask: Mask, first_quad: u32, x: &[f32], y: &mut [f32]) {
        let blocks = x.chunks(4 * LANES).zip(y.chunks_mut(4 * LANES));
        for (block_idx, (x, y)) in blocks.enumerate() {
            let first = first_quad + (block_idx * LANES) as u32;
            let mut words = [[0_u32; 4]; LANES];
            for (lane, words) in words.iter_mut().enumerate() {
                let counter = [first + lane as u32, mask.sample, mask.step, mask.purpose];
                *words = philox4x32(counter, mask.key);
            }
            for ((x, y), word) in x.iter().zip(y).zip(words.as_flattened()) {
                let uniform = (*word >> 8) as f32 * (1.0 / 16_777_216.0);
                *y = if uniform >= mask.p { A::mul(*x, mask.factor) } else { 0.0 };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{normal, run_everywhere};

    const P: f32 = 0.3;

    fn config(batch: usize, time: usize, width: usize) -> Dropout {
        Dropout {
            p: P,
            seed: 0x1234_5678_9abc_def0,
            purpose: 7,
            batch,
            time,
            width,
        }
    }

    /// Runs dropout on every device for the samples from `base` on.
    fn masked(x: &[f32], config: Dropout, step: u32, base: u32) -> Vec<f32> {
        let mut got = run_everywhere("dropout", |device, mem| {
            let input = mem.input(device, x)?;
            let counter = mem.input_u32(device, &[step, base])?;
            let y = mem.output(device, x.len())?;
            dropout(device, &input, &y, &counter, &config)?;
            Ok(vec![y])
        });
        got.remove(0)
    }

    #[test]
    fn the_share_of_zeros_and_the_scale_are_right() {
        for (batch, time, width) in [(1, 1, 1), (3, 5, 7), (2, 33, 31), (4, 64, 65)] {
            let n = batch * time * width;
            let y = masked(&vec![2.0; n], config(batch, time, width), 3, 0);
            let kept = y.iter().filter(|y| **y != 0.0).count();
            let deviation = (kept as f64 - 0.7 * n as f64) / (0.21 * n as f64).sqrt();
            assert!(deviation.abs() < 5.0, "{kept} of {n} stay");
            assert!(y.iter().all(|y| *y == 0.0 || (*y - 2.0 / 0.7).abs() < 1e-6));
        }
    }

    /// The mask of a sample is the same in any batch and at any padded length.
    #[test]
    fn the_mask_depends_on_the_sample_alone() {
        let (batch, time, width) = (6, 9, 7);
        let per_sample = time * width;
        let x = normal(1, batch * per_sample);
        let whole = masked(&x, config(batch, time, width), 11, 40);
        for (base, n) in [(0, 2), (2, 1), (3, 3)] {
            let piece = &x[base * per_sample..(base + n) * per_sample];
            let got = masked(piece, config(n, time, width), 11, 40 + base as u32);
            assert_eq!(got, whole[base * per_sample..(base + n) * per_sample]);
        }
        let longer = time + 4;
        let mut padded = vec![0.0; batch * longer * width];
        for (sample, row) in x.chunks(per_sample).zip(padded.chunks_mut(longer * width)) {
            row[..per_sample].copy_from_slice(sample);
        }
        let got = masked(&padded, config(batch, longer, width), 11, 40);
        for (row, want) in got.chunks(longer * width).zip(whole.chunks(per_sample)) {
            assert_eq!(&row[..per_sample], want);
        }
    }

    #[test]
    fn step_purpose_and_seed_change_the_mask() {
        let x = vec![1.0; 400];
        let base = config(1, 20, 20);
        let first = masked(&x, base, 0, 0);
        assert_eq!(first, masked(&x, base, 0, 0));
        assert_ne!(first, masked(&x, base, 1, 0));
        assert_ne!(first, masked(&x, base, 0, 1));
        assert_ne!(first, masked(&x, Dropout { purpose: 8, ..base }, 0, 0));
        assert_ne!(
            first,
            masked(
                &x,
                Dropout {
                    seed: base.seed ^ (1 << 40),
                    ..base
                },
                0,
                0
            )
        );
    }

    #[test]
    fn the_ends_of_the_range_keep_all_and_nothing() {
        let x = normal(2, 100);
        let base = config(1, 10, 10);
        assert_eq!(masked(&x, Dropout { p: 0.0, ..base }, 0, 0), x);
        assert_eq!(masked(&x, Dropout { p: 1.0, ..base }, 0, 0), vec![0.0; 100]);
        let device = hlx_core::testing::cpu().expect("the CPU device");
        let (x, y) = (
            device.alloc(100).expect("memory"),
            device.alloc(100).expect("memory"),
        );
        let counter = device.buffer_of::<u32>(&[0, 0]).expect("memory");
        let error = dropout(&device, &x, &y, &counter, &Dropout { p: 1.5, ..base })
            .expect_err("no probability");
        assert_eq!(
            error.to_string(),
            "dropout: p is 1.5, expected a probability from 0 to 1"
        );
    }
}
