//! AdamW with moments in 8 bits (Dettmers et al. 2021).

use hlx_core::{Buffer, align_words};
use hlx_kernels::optimizer::Hyper;
use hlx_kernels::optimizer::eight_bit::{BlockedParameter, Blocks, LEAST_PACKED, adamw_8bit_step};

use super::drive::{Drive, updated};
use super::layout::{OwnLayout, elements, zeros};
use super::{AdamWConfig, Optimizer, UpdateRule};
use crate::{Result, Weights};

/// AdamW whose moments take a byte each and a scale for every 256 elements: 2.1 bytes per parameter instead of 8.
/// Parameters of fewer than 4,096 elements have f32 moments. "Moments in 8 bits" of `docs/numerics.md` has
/// the arithmetic, which is the same on all devices and for every number of ranks.
///
/// Frozen parameters have no state. A state's tensor of bytes is named as that of floats, such as
/// `mean/blocks.0.mlp.fc.weight`, and has the words of its blocks as its only extent.
///
/// ```
/// use hlx_core::Device;
/// use hlx_nn::{AdamW8bit, AdamWConfig, Init, Optimizer, ParameterBuilder};
///
/// let device = Device::open("cpu")?;
/// let mut builder = ParameterBuilder::new();
/// let weight = builder.parameter("weight", &[64, 128], Init::Ones);
/// let weights = builder.build(&device, 0)?;
/// let mut optimizer = AdamW8bit::new(&weights, AdamWConfig::default())?;
/// weight.tensor()?.sum()?.backward()?;
/// optimizer.step(&weights, 0.1)?;
/// assert_eq!(optimizer.state(&weights)?.tensors[0].shape, [8192 / 256 * 65]);
/// # Ok::<(), hlx_nn::NnError>(())
/// ```
#[derive(Debug)]
pub struct AdamW8bit {
    rule: AdamWConfig,
    drive: Drive,
    layouts: [OwnLayout; 2],
    blocks: Blocks,
    moments: [Buffer; 2],
}

const BUFFERS: [&str; 2] = ["mean", "square"];

impl AdamW8bit {
    /// Makes the optimizer of a model's weights, with moments of zero.
    ///
    /// # Errors
    /// [`NnError::Config`](crate::NnError::Config) for numbers out of range or a group
    /// without parameters, and what the device reports.
    pub fn new(weights: &Weights, rule: AdamWConfig) -> Result<Self> {
        rule.check()?;
        rule.common.check()?;
        let drive = Drive::new(weights, &rule.common)?;
        let layouts = [true, false].map(|is_first| OwnLayout::of_bytes(weights, is_first));
        let (places, updated) = (weights.spans(""), weights.updated());
        let (mut parameters, mut state_at) = (Vec::new(), 0);
        for parameter_idx in layouts[0].parameters() {
            let place = &places[parameter_idx];
            let n = place.shape.iter().product();
            let [start, end] = elements(place.offset, n, &updated);
            let one = BlockedParameter {
                params_at: (place.offset + start).saturating_sub(updated.start),
                state_at,
                len: end - start,
                is_packed: n >= LEAST_PACKED,
                row: drive.assignment.of_parameters()[parameter_idx] as u32,
            };
            if one.len > 0 {
                state_at += align_words(one.state_words());
                parameters.push(one);
            }
        }
        let [mean, square] = &layouts;
        Ok(Self {
            drive,
            blocks: Blocks::new(weights.device(), &parameters)?,
            moments: [zeros(mean, weights)?, zeros(square, weights)?],
            rule,
            layouts,
        })
    }

    /// The rule and its numbers.
    pub fn rule(&self) -> &AdamWConfig {
        &self.rule
    }

    /// Gives the rule other numbers from the next step on; the groups stay.
    ///
    /// # Errors
    /// [`NnError::Config`](crate::NnError::Config) for numbers out of range.
    pub fn set_rule(&mut self, rule: AdamWConfig) -> Result<()> {
        rule.check()?;
        rule.common.check()?;
        self.rule = rule;
        Ok(())
    }
}

impl Optimizer for AdamW8bit {
    fn name(&self) -> &'static str {
        "adamw8bit"
    }

    fn drive(&self) -> &Drive {
        &self.drive
    }

    fn drive_mut(&mut self) -> &mut Drive {
        &mut self.drive
    }

    fn prepare(&mut self, learning_rate: f64) -> Result<()> {
        let base = self.rule.hyper(self.drive.steps + 1, learning_rate);
        let common = &self.rule.common;
        self.drive
            .upload_groups(common, |lr_factor, weight_decay| Hyper {
                learning_rate: base.learning_rate * lr_factor,
                weight_decay,
                ..base
            })
    }

    fn update(&self, weights: &Weights) -> Result<()> {
        self.drive.measure(weights)?;
        let updated = updated(weights)?;
        let (update, [mean, square]) = (self.drive.update(&updated), &self.moments);
        adamw_8bit_step(weights.device(), &update, &self.blocks, mean, square)?;
        self.drive.changed(weights);
        Ok(())
    }

    fn buffers(&self) -> Vec<(&'static str, &Buffer)> {
        BUFFERS.into_iter().zip(&self.moments).collect()
    }

    fn layout(&self, buffer: &str) -> Option<&OwnLayout> {
        OwnLayout::named(&BUFFERS, &self.layouts, buffer)
    }
}
