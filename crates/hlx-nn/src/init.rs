//! Initial values, drawn on the host from a counter.

use std::num::NonZero;
use std::thread::{self, available_parallelism};

use hlx_core::cpu::with_flush;
use hlx_kernels::draw::{draw_normal, draw_uniform};

/// The purpose number of the first parameter's draws; parameter i has this plus i. Dropout has
/// the numbers from [`DROPOUT_PURPOSE`] on, and those below are free for data.
const INIT_PURPOSE: u32 = 0x8000_0000;

/// The purpose number of a model's first dropout.
pub(crate) const DROPOUT_PURPOSE: u32 = 0x4000_0000;

/// The distribution of a parameter's initial values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Init {
    /// All +0: biases.
    Zeros,
    /// All 1: gains.
    Ones,
    /// Normal with mean 0.
    Normal {
        /// The standard deviation.
        std: f32,
    },
    /// Uniform from -bound to bound.
    Uniform {
        /// The largest magnitude.
        bound: f32,
    },
}

impl Init {
    /// PyTorch's distribution of the weights and biases of linear layers and convolutions, uniform
    /// within +-1 / sqrt(fan_in), where `fan_in` counts the inputs of an output. It is what
    /// `kaiming_uniform_(a=sqrt(5))` comes to.
    pub fn uniform_of(fan_in: usize) -> Self {
        // Division and square root are correctly rounded everywhere: the same bits on any host.
        let bound = match fan_in {
            0 => 0.0,
            _ => 1.0 / (fan_in as f32).sqrt(),
        };
        Self::Uniform { bound }
    }

    /// Draws the values of the parameter with this index.
    ///
    /// Elements 4j to 4j + 3 come from the Philox block with key = seed and counter =
    /// (j, 0, 0, purpose): two pairs of normal values by HLX's own log, sine and cosine, or four
    /// uniform values.
    pub(crate) fn draw(self, seed: u64, parameter_idx: usize, n: usize) -> Vec<f32> {
        let key = [seed as u32, (seed >> 32) as u32];
        let purpose = INIT_PURPOSE + parameter_idx as u32;
        match self {
            Self::Zeros => vec![0.0; n],
            Self::Ones => vec![1.0; n],
            Self::Normal { std } => blocks(n, |first_block, values| {
                draw_normal(key, purpose, std, first_block, values);
            }),
            Self::Uniform { bound } => blocks(n, |first_block, values| {
                draw_uniform(key, purpose, bound, first_block, values);
            }),
        }
    }
}

/// Blocks of four that a thread draws at a time.
const BLOCKS_A_THREAD: usize = 1 << 14;

/// Draws on all cores: a value depends on its index alone. `draw` fills the blocks of four from one on.
fn blocks(n: usize, draw: impl Fn(u32, &mut [f32]) + Sync) -> Vec<f32> {
    let mut values = vec![0.0; n];
    let cores = available_parallelism().map_or(1, NonZero::get);
    let blocks = n.div_ceil(4).div_ceil(cores).max(BLOCKS_A_THREAD);
    thread::scope(|scope| {
        for (chunk_idx, chunk) in values.chunks_mut(4 * blocks).enumerate() {
            let first_block = (chunk_idx * blocks) as u32;
            let draw = &draw;
            scope.spawn(move || with_flush(|| draw(first_block, chunk)));
        }
    });
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_draws_are_normal() {
        let values = Init::Normal { std: 0.02 }.draw(7, 3, 100_001);
        let n = values.len() as f64;
        let mean = values.iter().map(|&x| f64::from(x)).sum::<f64>() / n;
        let variance = values.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>() / n;
        assert!(mean.abs() < 2e-4, "mean {mean}");
        assert!(
            (variance.sqrt() / 0.02 - 1.0).abs() < 0.01,
            "deviation {}",
            variance.sqrt()
        );
        let within = values.iter().filter(|x| x.abs() < 0.02).count() as f64 / n;
        assert!(
            (within - 0.6827).abs() < 0.01,
            "{within} within one deviation"
        );
    }

    #[test]
    fn seed_parameter_and_element_choose_the_value_and_the_length_does_not() {
        let normal = Init::Normal { std: 1.0 };
        let long = normal.draw(7, 3, 8 * BLOCKS_A_THREAD + 3);
        assert_eq!(
            normal.draw(7, 3, 4 * BLOCKS_A_THREAD + 5),
            long[..4 * BLOCKS_A_THREAD + 5]
        );
        let values = normal.draw(7, 3, 10);
        assert_eq!(normal.draw(7, 3, 7), values[..7]);
        assert_ne!(normal.draw(8, 3, 10), values);
        assert_ne!(normal.draw(7 + (1 << 32), 3, 10), values);
        assert_ne!(normal.draw(7, 4, 10), values);
    }

    #[test]
    fn uniform_draws_fill_their_range_evenly() {
        let Init::Uniform { bound } = Init::uniform_of(16) else {
            panic!("uniform");
        };
        assert_eq!(bound, 0.25);
        let values = Init::Uniform { bound }.draw(7, 3, 100_001);
        assert!(values.iter().all(|x| (-bound..=bound).contains(x)));
        let mut counts = [0; 10];
        for x in &values {
            counts[((x + bound) / (2.0 * bound) * 9.9999) as usize] += 1;
        }
        // A tenth each; the deviation of a count is 95.
        assert!(
            counts.iter().all(|count| (9_500..10_500).contains(count)),
            "{counts:?}"
        );
        assert_eq!(Init::Uniform { bound }.draw(7, 3, 9), values[..9]);
        assert_eq!(Init::uniform_of(0), Init::Uniform { bound: 0.0 });
    }
}
