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

use crate::error::{Result, check_sizes};
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
) -> Result<()> {
    const NAME: &str = "dropout";
    let (p, batch) = (config.p, config.batch);
    check_sizes(NAME, &[batch, config.time, config.width])?;
    let per_sample = config.time * config.width;
    check_that!(NAME, (0.0..=1.0).contains(&p) => "p is {p}, expected a probability from 0 to 1")?;
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
mod tests;
