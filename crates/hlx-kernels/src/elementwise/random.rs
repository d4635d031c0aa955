//! Random elements drawn on the device, by index.
//!
//! Element i is made of component `i % 4` of Philox 4x32-10 under the seed's two words as key and
//! `counter = (i / 4, 0, stream, purpose)`; neither the launch nor the device reaches it.
//!
//! | distribution | an element, of its word w (of its block's pair of words, for a normal one) |
//! |---|---|
//! | uniform in [low, high) | `fma(u, high - low, low)`, `u` the upper 24 bits of w times 2^-24; `low` where that rounds to `high` |
//! | normal | Box and Muller's pair, times the deviation, plus the mean |
//! | integers in [low, high) | `low + floor(w (high - low) / 2^32)`: off by 2^-32 at most a value |
//! | Bernoulli | 1 where `u < p`, else 0 |

use hlx_core::arith::uniform;
use hlx_core::{Buffer, DType, Device};

use super::fill::Indices;
use crate::convert::Form;
use crate::draw::{LANES, normal_lanes, philox_lanes};
use crate::error::{Result, check_that};

shader!(random_shader, fill::random);

const NAME: &str = "fill_random";

/// What elements are drawn from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Distribution {
    /// Evenly in `[low, high)`. PyTorch: `Tensor.uniform_`.
    Uniform {
        /// The least value.
        low: f32,
        /// The end, not drawn itself.
        high: f32,
    },
    /// The normal distribution. PyTorch: `Tensor.normal_`.
    Normal {
        /// The mean.
        mean: f32,
        /// The standard deviation.
        deviation: f32,
    },
    /// Whole numbers in `[low, high)`. PyTorch: `torch.randint`.
    Integers {
        /// The least value.
        low: i64,
        /// The end, not drawn itself; at most 2^32 above.
        high: i64,
    },
    /// 1 with probability `p`, else 0. PyTorch: `Tensor.bernoulli_`.
    Bernoulli {
        /// The probability, from 0 to 1.
        p: f32,
    },
}

/// What tells draws apart: equal ones draw equal elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Draw {
    /// The seed.
    pub seed: u64,
    /// The number of the draw.
    pub stream: u32,
    /// What it is for.
    pub purpose: u32,
}

/// Draws every element of `out`, of any type: as f32 (integers as 32-bit ones), then converted as
/// [`copy_strided`](super::copy_strided) does.
///
/// # Errors
/// [`KernelError::Argument`](crate::KernelError::Argument) for a range without values, a probability outside
/// [0, 1], integers for an output of floats, or more elements than 32 bits count; the device's error.
pub fn fill_random(
    device: &Device,
    distribution: Distribution,
    draw: Draw,
    out: &Buffer,
) -> Result<()> {
    check(distribution)?;
    let (stream, purpose) = (draw.stream, draw.purpose);
    let key = [draw.seed as u32, (draw.seed >> 32) as u32];
    let (id, [a, b]) = words(distribution);
    let compute = match distribution {
        Distribution::Integers { low, .. } if low < 0 => DType::I32,
        Distribution::Integers { .. } => DType::U32,
        _ => DType::F32,
    };
    let dtype = out.dtype();
    let fits = compute == DType::F32 || !dtype.is_float();
    check_that!(NAME, fits => "out is {dtype}, expected an integer type or bool for integers")?;
    let parameters = [key[0], key[1], stream, purpose, a, b];
    let form = Form::Of(dtype);
    let mut kernel = Indices::new(NAME, &random_shader::SHADER, compute, form, &parameters);
    kernel.variant = Some(id);
    kernel.launch(device, out, move |first, out| {
        draw_chunk(distribution, key, [stream, purpose], first / 4, out);
    })
}

fn check(distribution: Distribution) -> Result<()> {
    let (holds, reason) = match distribution {
        Distribution::Uniform { low, high } => (
            low < high && (high - low).is_finite(),
            format!("range is {low}..{high}, expected a finite one with values"),
        ),
        Distribution::Normal { mean, deviation } => (
            mean.is_finite() && deviation.is_finite() && deviation >= 0.0,
            format!(
                "mean {mean} and deviation {deviation}, expected finite ones and no negative deviation"
            ),
        ),
        Distribution::Integers { low, high } => (
            low < high
                && (low >= i32::MIN.into() && high <= 1 << 31 || low >= 0 && high <= 1 << 32),
            format!("range is {low}..{high}, expected one of 32-bit values"),
        ),
        Distribution::Bernoulli { p } => (
            (0.0..=1.0).contains(&p),
            format!("p is {p}, expected a probability from 0 to 1"),
        ),
    };
    check_that(NAME, holds, || reason)
}

/// A distribution's id and parameters in the shader, to which a range of 2^32 values is 0.
fn words(distribution: Distribution) -> (u32, [u32; 2]) {
    match distribution {
        Distribution::Uniform { low, high } => (0, [low.to_bits(), high.to_bits()]),
        Distribution::Normal { mean, deviation } => (1, [mean.to_bits(), deviation.to_bits()]),
        Distribution::Integers { low, high } => (2, [low as u32, (high - low) as u32]),
        Distribution::Bernoulli { p } => (3, [p.to_bits(), 0]),
    }
}

multiversion! {
    /// Draws the blocks from `block` on; the last may be cut short.
    fn draw_chunk<A>(
        distribution: Distribution,
        key: [u32; 2],
        counter: [u32; 2],
        block: u32,
        out: &mut [u32],
    ) {
        for (group, out) in out.chunks_mut(4 * LANES).enumerate() {
            let first = block.wrapping_add((group * LANES) as u32);
            let mut lanes = philox_lanes(key, counter, first);
            match distribution {
                Distribution::Uniform { low, high } => {
                    let range = high - low;
                    each(&mut lanes, |word| {
                        let value = A::fma(uniform(word), range, low);
                        (if value < high { value } else { low }).to_bits()
                    });
                }
                Distribution::Normal { mean, deviation } => {
                    normal_lanes::<A>(&mut lanes, |value| A::mul(value, deviation) + mean);
                }
                Distribution::Integers { low, high } => {
                    let range = (high - low) as u64;
                    each(&mut lanes, |word| {
                        (low as u32).wrapping_add(((u64::from(word) * range) >> 32) as u32)
                    });
                }
                Distribution::Bernoulli { p } => {
                    each(&mut lanes, |word| {
                        (if uniform(word) < p { 1.0_f32 } else { 0.0 }).to_bits()
                    });
                }
            }
            for (i, out) in out.iter_mut().enumerate() {
                *out = lanes[i % 4][i / 4];
            }
        }
    }
}

#[inline(always)]
fn each(lanes: &mut [[u32; LANES]; 4], f: impl Fn(u32) -> u32) {
    for word in lanes.as_flattened_mut() {
        *word = f(*word);
    }
}

#[cfg(test)]
mod tests;
