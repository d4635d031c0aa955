//! The angles of rotary positions, plain and with the scalings of Llama 3, YaRN and LongRoPE.
//!
//! Frequencies are computed once, on the host, in f64 by additions, products and quotients alone, which
//! IEEE 754 rounds alike everywhere; each is then rounded to f32.

use serde::{Deserialize, Serialize};

use crate::limits::{MAX_SIZE, check_sizes};
use crate::wide::{exp, ln};

/// The largest base of the frequencies; models have 10,000 to 10 million.
const MAX_THETA: f64 = 1e15;

/// Rotary positions: element i of a head makes a pair with element i + width / 2, and is rotated by
/// position theta^(-2 i / width).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rotary {
    /// The base of the frequencies.
    pub theta: f64,
    /// The elements of a head that are rotated, the first ones; all of them if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub width: Option<usize>,
    /// How the frequencies are changed for longer sequences.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scaling: Option<RopeScaling>,
}

/// How a model was made to read longer sequences than it was first trained on: Hugging Face's
/// `rope_scaling`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum RopeScaling {
    /// All positions are divided by a factor.
    Linear {
        /// The factor.
        factor: f64,
    },
    /// Long waves are slowed by a factor, short ones stay, with a ramp between (Llama 3.1).
    Llama3 {
        /// The factor.
        factor: f64,
        /// Waves longer than `original / low_freq_factor` are slowed.
        low_freq_factor: f64,
        /// Waves shorter than `original / high_freq_factor` stay.
        high_freq_factor: f64,
        /// The positions before.
        original: usize,
    },
    /// Peng et al. 2023, arXiv:2309.00071.
    Yarn {
        /// The factor.
        factor: f64,
        /// The positions before.
        original: usize,
        /// Waves with more rotations over the old positions stay.
        beta_fast: f64,
        /// Waves with fewer rotations are slowed.
        beta_slow: f64,
        /// What sines and cosines are multiplied by.
        attention_factor: f64,
        /// Whether the ends of the ramp are whole numbers.
        truncate: bool,
    },
    /// The base grows with sequences that are longer than `max_positions`. No model here reads such
    /// sequences, and up to there nothing changes: these are plain frequencies, stored for export.
    Dynamic {
        /// The factor.
        factor: f64,
    },
    /// Ding et al. 2024, arXiv:2402.13753: each frequency is divided by a factor of its own. A model with
    /// more positions than `original` takes the long factors, for every sequence; `transformers` takes
    /// the short ones for passes of up to `original` tokens, whose cached keys then do not fit longer ones.
    LongRope {
        /// The positions before.
        original: usize,
        /// The factor of each pair, of models of up to `original` positions.
        short_factor: Vec<f64>,
        /// The factor of each pair, of models of more.
        long_factor: Vec<f64>,
        /// What sines and cosines are multiplied by.
        attention_factor: f64,
    },
}

impl Rotary {
    /// Plain rotary positions over whole heads.
    pub fn plain(theta: f64) -> Self {
        Self {
            theta,
            width: None,
            scaling: None,
        }
    }

    /// Returns the angle of one step of each pair of a head of this width, in a model of this many
    /// positions.
    pub fn frequencies(&self, head_width: usize, max_positions: usize) -> Vec<f32> {
        let width = self.width.unwrap_or(head_width);
        let plain = (0..width / 2).map(|pair| power(self.theta, -2.0 * pair as f64 / width as f64));
        let scaled = plain
            .enumerate()
            .map(|(pair, frequency)| match &self.scaling {
                None | Some(RopeScaling::Dynamic { .. }) => frequency,
                Some(RopeScaling::Linear { factor }) => frequency / factor,
                Some(scaling @ RopeScaling::Llama3 { .. }) => llama3(scaling, frequency),
                Some(scaling @ RopeScaling::Yarn { .. }) => {
                    yarn(scaling, frequency, pair, width, self.theta)
                }
                Some(RopeScaling::LongRope {
                    original,
                    short_factor,
                    long_factor,
                    ..
                }) => {
                    let factors = match max_positions > *original {
                        true => long_factor,
                        false => short_factor,
                    };
                    frequency / factors.get(pair).copied().unwrap_or(1.0)
                }
            });
        scaled.map(|frequency| frequency as f32).collect()
    }

    /// What sines and cosines are multiplied by.
    pub fn attention_factor(&self) -> f32 {
        match self.scaling {
            Some(
                RopeScaling::Yarn {
                    attention_factor, ..
                }
                | RopeScaling::LongRope {
                    attention_factor, ..
                },
            ) => attention_factor as f32,
            _ => 1.0,
        }
    }

    /// Checks the positions that a scaling was made of, and the numbers that go with them.
    fn check_original(&self) -> Result<(), String> {
        let (original, numbers) = match &self.scaling {
            Some(RopeScaling::Llama3 { original, .. }) => (*original, Vec::new()),
            Some(RopeScaling::Yarn {
                original,
                beta_fast,
                beta_slow,
                attention_factor,
                ..
            }) => (
                *original,
                vec![
                    ("beta_fast", *beta_fast),
                    ("beta_slow", *beta_slow),
                    ("attention_factor", *attention_factor),
                ],
            ),
            Some(RopeScaling::LongRope {
                original,
                attention_factor,
                ..
            }) => (*original, vec![("attention_factor", *attention_factor)]),
            _ => return Ok(()),
        };
        check_sizes(&[("rotary original", original, MAX_SIZE)])?;
        match numbers
            .iter()
            .find(|(_, number)| !number.is_finite() || *number <= 0.0)
        {
            Some((name, found)) => Err(format!(
                "rotary {name} is {found}, expected more than 0 and finite"
            )),
            None => Ok(()),
        }
    }

    /// Checks the numbers.
    pub(super) fn check(&self, head_width: usize) -> Result<(), String> {
        let width = self.width.unwrap_or(head_width);
        if !width.is_multiple_of(2) || width == 0 || width > head_width {
            return Err(format!(
                "rotary width is {width}, expected an even number up to the head's {head_width}"
            ));
        }
        let at_least_one = |name: &str, value: f64| match value.is_finite() && value >= 1.0 {
            true => Ok(()),
            false => Err(format!("rotary {name} is {value}, expected at least 1")),
        };
        at_least_one("theta", self.theta)?;
        if self.theta > MAX_THETA {
            let found = self.theta;
            return Err(format!(
                "rotary theta is {found:e}, expected at most {MAX_THETA:e}"
            ));
        }
        self.check_original()?;
        match &self.scaling {
            None => Ok(()),
            Some(
                RopeScaling::Linear { factor }
                | RopeScaling::Yarn { factor, .. }
                | RopeScaling::Dynamic { factor },
            ) => at_least_one("factor", *factor),
            Some(RopeScaling::LongRope {
                short_factor,
                long_factor,
                ..
            }) => {
                let pairs = width / 2;
                let is_unfit = |factor: &f64| !factor.is_finite() || *factor <= 0.0;
                for (name, factors) in
                    [("short_factor", short_factor), ("long_factor", long_factor)]
                {
                    let found = factors.len();
                    if found != pairs || factors.iter().any(is_unfit) {
                        return Err(format!(
                            "rotary {name} has {found} numbers, expected {pairs} above 0"
                        ));
                    }
                }
                Ok(())
            }
            Some(RopeScaling::Llama3 {
                factor,
                low_freq_factor,
                high_freq_factor,
                ..
            }) => {
                at_least_one("factor", *factor)?;
                match *low_freq_factor > 0.0
                    && high_freq_factor.is_finite()
                    && high_freq_factor > low_freq_factor
                {
                    true => Ok(()),
                    false => Err(format!(
                        "rotary high_freq_factor is {high_freq_factor}, expected more than \
                         low_freq_factor, which is {low_freq_factor}"
                    )),
                }
            }
        }
    }
}

impl RopeScaling {
    /// YaRN's factor of sines and cosines where none is given: 0.1 ln(factor) + 1.
    pub fn yarn_attention_factor(factor: f64) -> f64 {
        Self::yarn_scale(factor, 1.0)
    }

    /// YaRN's 0.1 scale ln(factor) + 1; of two such scales (`mscale` and `mscale_all_dim`) the quotient takes the
    /// place of [`RopeScaling::yarn_attention_factor`].
    pub fn yarn_scale(factor: f64, scale: f64) -> f64 {
        match factor <= 1.0 {
            true => 1.0,
            false => 0.1 * scale * ln(factor) + 1.0,
        }
    }

    /// LongRoPE's factor of sines and cosines where none is given: sqrt(1 + ln(factor) / ln(original)).
    pub fn long_rope_attention_factor(factor: f64, original: usize) -> f64 {
        match factor <= 1.0 {
            true => 1.0,
            false => (1.0 + ln(factor) / ln(original as f64)).sqrt(),
        }
    }
}

fn llama3(scaling: &RopeScaling, frequency: f64) -> f64 {
    let &RopeScaling::Llama3 {
        factor,
        low_freq_factor,
        high_freq_factor,
        original,
    } = scaling
    else {
        return frequency;
    };
    let original = original as f64;
    let wavelength = 2.0 * std::f64::consts::PI / frequency;
    if wavelength < original / high_freq_factor {
        return frequency;
    }
    if wavelength > original / low_freq_factor {
        return frequency / factor;
    }
    let share = (original / wavelength - low_freq_factor) / (high_freq_factor - low_freq_factor);
    (1.0 - share) * frequency / factor + share * frequency
}

fn yarn(scaling: &RopeScaling, frequency: f64, pair: usize, width: usize, theta: f64) -> f64 {
    let &RopeScaling::Yarn {
        factor,
        original,
        beta_fast,
        beta_slow,
        truncate,
        ..
    } = scaling
    else {
        return frequency;
    };
    // The pair whose wave has a given number of rotations over the original positions.
    let pair_of = |rotations: f64| {
        let ratio = original as f64 / (rotations * 2.0 * std::f64::consts::PI);
        width as f64 * ln(ratio) / (2.0 * ln(theta))
    };
    let (mut low, mut high) = (pair_of(beta_fast), pair_of(beta_slow));
    if truncate {
        (low, high) = (low.floor(), high.ceil());
    }
    (low, high) = (low.max(0.0), high.min(width as f64 - 1.0));
    if low == high {
        high += 0.001;
    }
    let slowed = ((pair as f64 - low) / (high - low)).clamp(0.0, 1.0);
    frequency / factor * slowed + frequency * (1.0 - slowed)
}

/// base^exponent for a base above 0.
fn power(base: f64, exponent: f64) -> f64 {
    exp(exponent * ln(base))
}

#[cfg(test)]
mod tests;
