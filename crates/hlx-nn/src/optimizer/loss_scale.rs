//! The scale of a loss: gradients are computed of the loss times a number, so that those of f16 do not underflow, and the
//! optimizer divides them by it.

use hlx_autograd::{Tensor, no_grad};
use hlx_core::{Buffer, DType, Device};

use super::Watched;
use super::checks::refused;
use crate::Result;

/// The scale does not grow beyond this: its reciprocal stays a normal number.
const LARGEST: f32 = f32::from_bits(0x7e80_0000); // 2^126

/// How a loss is scaled.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LossScaling {
    /// The first scale.
    pub initial: f32,
    /// How it changes; it stays if left out.
    pub rule: Option<ScaleRule>,
}

/// How a scale follows the gradients, as `torch.amp.GradScaler`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ScaleRule {
    /// What it is multiplied by after `growth_interval` steps in a row with finite gradients.
    pub growth_factor: f32,
    /// What it is multiplied by after a step without.
    pub backoff_factor: f32,
    /// Those steps.
    pub growth_interval: u32,
}

impl Default for ScaleRule {
    /// PyTorch's: 2, 0.5 and 2,000.
    fn default() -> Self {
        Self {
            growth_factor: 2.0,
            backoff_factor: 0.5,
            growth_interval: 2000,
        }
    }
}

impl LossScaling {
    /// PyTorch's: 65,536 at first, and its rule.
    pub fn dynamic() -> Self {
        Self {
            initial: 65_536.0,
            rule: Some(ScaleRule::default()),
        }
    }

    /// A scale that stays.
    pub fn fixed(scale: f32) -> Self {
        Self {
            initial: scale,
            rule: None,
        }
    }

    /// Fails for numbers that are out of range.
    fn check(&self) -> Result<()> {
        let is_scale = |x: f32| (1.0 / LARGEST..=LARGEST).contains(&x);
        let refuse = |what: &str, found: f32, expected: &str| {
            Err(refused(format!("{what} is {found}, expected {expected}")))
        };
        if !is_scale(self.initial) {
            return refuse("the loss scale", self.initial, "one of 2^-126 to 2^126");
        }
        match self.rule {
            Some(rule) if rule.growth_factor.is_nan() || rule.growth_factor <= 1.0 => {
                refuse("growth_factor", rule.growth_factor, "more than 1")
            }
            Some(rule) if !(rule.backoff_factor > 0.0 && rule.backoff_factor < 1.0) => {
                refuse("backoff_factor", rule.backoff_factor, "within (0, 1)")
            }
            Some(rule) if rule.growth_interval == 0 || rule.growth_interval > 1 << 24 => {
                let found = rule.growth_interval as f32;
                refuse("growth_interval", found, "one of 1 to 16,777,216")
            }
            _ => Ok(()),
        }
    }
}

/// A scale on the device, and how an optimizer reads and changes it in a step.
#[derive(Clone, Debug)]
pub struct LossScale {
    device: Device,
    /// The scale, and the steps with finite gradients since it changed.
    pub(super) words: [Buffer; 2],
    one: Buffer,
    rule: Option<ScaleRule>,
}

impl LossScale {
    /// Makes the first scale.
    ///
    /// # Errors
    /// [`NnError::Config`](crate::NnError::Config) for numbers out of range, and what the device reports.
    pub(super) fn new(device: &Device, scaling: LossScaling) -> Result<Self> {
        scaling.check()?;
        Ok(Self {
            device: device.clone(),
            words: [
                device.buffer_of(&[scaling.initial])?,
                device.buffer_of(&[0.0_f32])?,
            ],
            one: device.buffer_of(&[1.0_f32])?,
            rule: scaling.rule,
        })
    }

    /// The scale, \[1\].
    pub(super) fn value(&self) -> Result<Tensor> {
        self.tensor(&self.words[0])
    }

    /// What is watched where the norm alone decides: a number that is always finite.
    pub(super) fn quiet(&self) -> Watched {
        Watched {
            words: self.one.clone(),
            runs: 1,
            run: 1,
            stride: 1,
        }
    }

    /// Divides the norm of scaled gradients by the scale.
    pub(super) fn unscale(&self, norm: &Buffer) -> Result<()> {
        no_grad(|| {
            let true_norm = self.tensor(norm)?.mul(self.reciprocal()?)?;
            self.write(&true_norm, norm)
        })
    }

    /// Lets the factor of the gradients, negative of a step that is skipped, divide by the scale; and the scale follow.
    pub(super) fn follow(&self, factor: &Buffer) -> Result<()> {
        no_grad(|| {
            let [scale, steps] = &self.words;
            let before = self.tensor(factor)?;
            let divided = before.mul(self.reciprocal()?)?;
            if let Some(rule) = self.rule {
                let is_bad = before.lt(0.0)?;
                let [scale_now, steps_now] = [self.tensor(scale)?, self.tensor(steps)?];
                let good = steps_now.add(1.0)?;
                let grows = good.ge(rule.growth_interval as f32)?;
                let grown = scale_now.mul(rule.growth_factor)?.minimum(LARGEST)?;
                let next = grown.where_(&grows, &scale_now)?;
                let next = scale_now.mul(rule.backoff_factor)?.where_(&is_bad, &next)?;
                // A scale of 0 would never grow again.
                let next = next.maximum(1.0 / LARGEST)?;
                let good = good.masked_fill(&grows.logical_or(&is_bad)?, 0.0)?;
                self.write(&next, scale)?;
                self.write(&good, steps)?;
            }
            self.write(&divided, factor)
        })
    }

    fn reciprocal(&self) -> Result<Tensor> {
        Ok(self.tensor(&self.one)?.div(self.tensor(&self.words[0])?)?)
    }

    fn tensor(&self, word: &Buffer) -> Result<Tensor> {
        Ok(Tensor::from_buffer(&self.device, word.slice(0, 1)?, &[1])?)
    }

    fn write(&self, value: &Tensor, to: &Buffer) -> Result<()> {
        let to = to.slice(0, 1)?.view_as(DType::F32, 1)?;
        Ok(self.device.copy(&value.buffer()?, &to)?)
    }
}
