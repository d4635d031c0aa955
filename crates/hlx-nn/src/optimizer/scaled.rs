//! An optimizer of a scaled loss.

use hlx_core::Buffer;

use super::drive::Drive;
use super::loss_scale::{LossScale, LossScaling};
use super::{Optimizer, OwnLayout};
use crate::{Result, Weights};

/// The names of the scale and of its count in an optimizer's state.
const NAMES: [&str; 2] = ["loss_scale", "loss_scale_steps"];

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
        let scale = LossScale::new(weights.device(), scaling)?;
        let layout = OwnLayout::of_one_word();
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
        Ok(self.scale.value()?.item::<f32>()?)
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
    use hlx_core::Device;

    use super::super::ScaleRule;
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
