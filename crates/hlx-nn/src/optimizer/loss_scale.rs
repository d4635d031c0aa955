//! The scale of a loss: gradients are computed of the loss times a number, so that those of f16 do not underflow, and the
//! optimizer divides them by it.

use hlx_autograd::{Tensor, no_grad};
use hlx_core::{Buffer, DType, Device};

use super::checks::refused;
use super::drive::Drive;
use super::{Optimizer, OwnLayout, Watched};
use crate::{Result, Weights};

/// The names of the scale and of its count in an optimizer's state.
const NAMES: [&str; 2] = ["loss_scale", "loss_scale_steps"];
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
    words: [Buffer; 2],
    one: Buffer,
    rule: Option<ScaleRule>,
}

impl LossScale {
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

/// An optimizer whose gradients are those of a scaled loss. Each step divides them by the scale, skips the step where they
/// are not finite ([`Optimizer::guard`]), and changes the scale by its rule. PyTorch: `torch.amp.GradScaler`.
///
/// The device does so, and nothing waits; the scale is a part of the optimizer's state, and so of checkpoints and digests.
///
/// ```
/// use hlx_core::Device;
/// use hlx_nn::{Init, LossScaling, Optimizer, ParameterBuilder, SGD, SGDConfig, Scaled};
///
/// let device = Device::open("cpu")?;
/// let mut builder = ParameterBuilder::new();
/// let weight = builder.parameter("weight", &[2], Init::Ones);
/// let weights = builder.build(&device, 0)?;
/// let sgd = Box::new(SGD::new(&weights, SGDConfig::default())?);
/// let mut optimizer = Scaled::new(&weights, sgd, LossScaling::dynamic())?;
/// weight.tensor()?.sum()?.mul(optimizer.scale()?)?.backward()?;
/// optimizer.step(&weights, 0.25)?;
/// assert_eq!(weights.download(weights.values())?, [[0.75, 0.75]]);
/// # Ok::<(), hlx_nn::NnError>(())
/// ```
pub struct Scaled {
    inner: Box<dyn Optimizer>,
    scale: LossScale,
    layout: OwnLayout,
}

impl Scaled {
    /// Scales the loss of the gradients that `inner` reads.
    ///
    /// # Errors
    /// [`NnError::Config`](crate::NnError::Config) for numbers out of range, and what the device reports.
    pub fn new(
        weights: &Weights,
        mut inner: Box<dyn Optimizer>,
        scaling: LossScaling,
    ) -> Result<Self> {
        scaling.check()?;
        let device = weights.device().clone();
        let layout = OwnLayout::of_one_word();
        let words = [
            device.buffer_of(&[scaling.initial])?,
            device.buffer_of(&[0.0_f32])?,
        ];
        let scale = LossScale {
            words,
            one: device.buffer_of(&[1.0_f32])?,
            rule: scaling.rule,
            device,
        };
        inner.scale_loss(scale.clone());
        Ok(Self {
            inner,
            scale,
            layout,
        })
    }

    /// The scale of the next step, which waits for the device.
    ///
    /// # Errors
    /// What the device reports.
    pub fn scale(&self) -> Result<f32> {
        Ok(self.scale.tensor(&self.scale.words[0])?.item::<f32>()?)
    }
}

impl Optimizer for Scaled {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn drive(&self) -> &Drive {
        self.inner.drive()
    }

    fn drive_mut(&mut self) -> &mut Drive {
        self.inner.drive_mut()
    }

    fn prepare(&mut self, learning_rate: f64) -> Result<()> {
        self.inner.prepare(learning_rate)
    }

    fn update(&self, weights: &Weights) -> Result<()> {
        self.inner.update(weights)
    }

    fn buffers(&self) -> Vec<(&'static str, &Buffer)> {
        let mut buffers = self.inner.buffers();
        buffers.extend(NAMES.into_iter().zip(&self.scale.words));
        buffers
    }

    fn layout(&self, buffer: &str) -> Option<&OwnLayout> {
        match NAMES.contains(&buffer) {
            true => Some(&self.layout),
            false => self.inner.layout(buffer),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AdamW, AdamWConfig, Averaged, Init, ParameterBuilder};

    /// Leaves a gradient of these elements, times the scale, and takes a step.
    fn step(weights: &Weights, optimizer: &mut dyn Optimizer, gradient: f32) -> Result<()> {
        let scale = optimizer.loss_scale().transpose()?;
        let scale = scale.map_or(Ok(1.0), |scale| scale.item::<f32>())?;
        let weight = weights.parameters()[0].tensor()?;
        weight.zero_grad();
        weight.sum()?.mul(gradient * scale)?.backward()?;
        optimizer.step(weights, 0.1)
    }

    fn built(device: &Device) -> Result<(Weights, Box<dyn Optimizer>)> {
        let mut builder = ParameterBuilder::new();
        builder.parameter("weight", &[5], Init::Ones);
        let weights = builder.build(device, 0)?;
        let adamw = Box::new(AdamW::new(&weights, AdamWConfig::default())?);
        Ok((weights, adamw))
    }

    #[test]
    fn a_scale_follows_the_rule_and_a_bad_step_changes_nothing_else() -> Result<()> {
        for device in hlx_core::testing::devices() {
            let (weights, adamw) = built(device)?;
            let rule = ScaleRule {
                growth_interval: 2,
                ..ScaleRule::default()
            };
            let scaling = LossScaling {
                initial: 1024.0,
                rule: Some(rule),
            };
            let mut optimizer = Scaled::new(&weights, adamw, scaling)?;
            let mut scales = Vec::new();
            let mut before = weights.download(weights.values())?;
            for (gradient, moves) in [
                (0.5, true),
                (f32::INFINITY, false),
                (0.25, true),
                (0.5, true),
                (f32::NAN, false),
            ] {
                step(&weights, &mut optimizer, gradient)?;
                scales.push(optimizer.scale()?);
                let now = weights.download(weights.values())?;
                assert_eq!(now != before, moves, "{gradient}");
                before = now;
            }
            assert_eq!(scales, [1024.0, 512.0, 512.0, 1024.0, 512.0]);
            step(&weights, &mut optimizer, 0.5)?;
            let norm = device.download::<f32>(optimizer.gradient_norm())?[0];
            assert!((norm - 0.5 * 5_f32.sqrt()).abs() < 1e-6, "{norm}: unscaled");
        }
        Ok(())
    }

    #[test]
    fn scales_that_are_powers_of_two_change_no_bit() -> Result<()> {
        let device = hlx_core::testing::cpu()?;
        let trained = |scaling: Option<LossScaling>| -> Result<String> {
            let (weights, adamw) = built(&device)?;
            let mut optimizer: Box<dyn Optimizer> = match scaling {
                Some(scaling) => Box::new(Scaled::new(&weights, adamw, scaling)?),
                None => adamw,
            };
            for n in 0..4 {
                step(&weights, optimizer.as_mut(), 0.3 + n as f32)?;
            }
            weights.digest()
        };
        assert_eq!(trained(Some(LossScaling::fixed(4096.0)))?, trained(None)?);
        Ok(())
    }

    #[test]
    fn a_scale_is_a_part_of_the_state_and_comes_back() -> Result<()> {
        let device = hlx_core::testing::cpu()?;
        let make = || -> Result<(Weights, Scaled)> {
            let (weights, adamw) = built(&device)?;
            let averaged = Box::new(Averaged::new(&weights, adamw, 0.9)?);
            let scaled = Scaled::new(&weights, averaged, LossScaling::dynamic())?;
            Ok((weights, scaled))
        };
        let (weights, mut optimizer) = make()?;
        let fresh = optimizer.digest(&weights)?;
        step(&weights, &mut optimizer, f32::INFINITY)?;
        let state = optimizer.state(&weights)?;
        let named = |name: &str| state.tensors.iter().find(|one| one.name == name);
        assert_eq!(named("loss_scale").expect("a tensor").values, [32_768.0]);
        assert_eq!(named("loss_scale_steps").expect("a tensor").values, [0.0]);
        let (others, mut again) = make()?;
        again.load_state(&others, &state)?;
        assert_eq!(again.scale()?, 32_768.0);
        assert_eq!(again.digest(&others)?, optimizer.digest(&weights)?);
        assert_ne!(fresh, optimizer.digest(&weights)?);
        Ok(())
    }

    #[test]
    fn numbers_out_of_range_are_refused() -> Result<()> {
        let device = hlx_core::testing::cpu()?;
        for scaling in [0.0, -1.0, f32::NAN, f32::INFINITY] {
            let (weights, adamw) = built(&device)?;
            let refused = Scaled::new(&weights, adamw, LossScaling::fixed(scaling));
            let line = refused.err().expect("refused").to_string();
            assert!(line.contains("the loss scale is"), "{line}");
        }
        Ok(())
    }
}
