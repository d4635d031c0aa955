//! Optimizers over the flat buffers of a model's weights, by `torch.optim`'s formulas.
//!
//! A step has two parts. [`Optimizer::prepare`] counts the step and uploads its numbers (rate,
//! bias corrections) to a small buffer; [`Optimizer::update`] launches the gradient norm, the
//! clip and the update, all of which read that buffer, so that a recorded update stays valid.
//! Parameters of several groups ([`ParameterGroup`]) are updated by one launch.

mod adafactor;
mod adagrad;
mod adam;
mod adamw_8bit;
mod averaged;
mod checks;
mod clip;
mod common;
mod drive;
mod flat;
mod groups;
mod layout;
mod lion;
mod loss_scale;
mod muon;
mod rmsprop;
mod scaled;
mod sgd;
mod state;

use hlx_autograd::Tensor;
use hlx_core::Buffer;
pub use hlx_kernels::optimizer::Watched;
pub use hlx_kernels::optimizer::muon::NewtonSchulz;

pub use adafactor::{Adafactor, AdafactorConfig};
pub use adagrad::{Adagrad, AdagradConfig};
pub use adam::{Adam, AdamConfig, AdamW, AdamWConfig};
pub use adamw_8bit::AdamW8bit;
pub use averaged::{AVERAGE, Averaged};
pub use clip::{clip_grad_norm_, clip_grad_value_};
pub use common::Common;
pub use flat::{FlatOptimizer, UpdateRule};
pub use groups::ParameterGroup;
pub use layout::{OwnLayout, StateSpan, state_spans};
pub use lion::{Lion, LionConfig};
pub use loss_scale::{LossScale, LossScaling, ScaleRule};
pub use muon::{Muon, MuonAdjust, MuonConfig};
pub use rmsprop::{RMSprop, RMSpropConfig};
pub use scaled::Scaled;
pub use sgd::{SGD, SGDConfig};
pub use state::{OptimizerState, StateTensor};

use crate::{Result, Weights};
use drive::Drive;

/// What all optimizers do.
pub trait Optimizer {
    /// The name of the algorithm, which is part of its saved state.
    fn name(&self) -> &'static str;

    /// What every optimizer has: the groups, the steps so far, the norm and the clip.
    #[doc(hidden)]
    fn drive(&self) -> &Drive;

    /// As [`Optimizer::drive`], to be changed.
    #[doc(hidden)]
    fn drive_mut(&mut self) -> &mut Drive;

    /// The number of steps prepared so far.
    fn step_count(&self) -> u64 {
        self.drive().steps
    }

    /// Begins the next step with a learning rate: uploads its numbers. Not to be recorded.
    ///
    /// # Errors
    /// What the device reports.
    fn prepare(&mut self, learning_rate: f64) -> Result<()>;

    /// Launches the step that [`Optimizer::prepare`] began: the norm of all gradients, the clip
    /// and the update of all parameters. Can be recorded and replayed.
    ///
    /// # Errors
    /// [`NnError::MissingGradient`](crate::NnError::MissingGradient), and what the device
    /// reports.
    fn update(&self, weights: &Weights) -> Result<()>;

    /// Prepares and launches a step.
    ///
    /// # Errors
    /// As its two parts.
    fn step(&mut self, weights: &Weights, learning_rate: f64) -> Result<()> {
        weights.check_gradients()?;
        self.prepare(learning_rate)?;
        self.update(weights)
    }

    /// The global norm of the last step's gradients before the clip, one element on the device.
    fn gradient_norm(&self) -> &Buffer {
        &self.drive().norm
    }

    /// From now on skips every step whose gradient norm, or a watched value such as a shard's loss, is NaN
    /// or infinite: parameters and state stay what they are, and the step is counted. The device decides,
    /// so that nothing waits. Call it before an update is recorded.
    fn guard(&mut self, watched: Watched) {
        self.drive_mut().guard = Some(watched);
    }

    /// From now on takes the gradients as those of a loss times `scale`: divides them by it, skips every step whose gradient
    /// norm is not finite, and changes the scale by its rule. [`Scaled`] calls it, before an update is recorded.
    fn scale_loss(&mut self, scale: LossScale) {
        self.drive_mut().loss_scale = Some(scale);
    }

    /// What the loss of the next step is to be multiplied by, \[1\] on the device; `None` for nothing.
    fn loss_scale(&self) -> Option<Result<Tensor>> {
        self.drive().loss_scale.as_ref().map(LossScale::value)
    }

    /// Gives a group ([`Common::groups`]) other numbers from the next step on: the factor of the rate, and the weight
    /// decay, by default the optimizer's.
    ///
    /// # Errors
    /// [`NnError::Config`](crate::NnError::Config) for numbers out of range or a group that there is not.
    fn set_group(&mut self, group: usize, lr_factor: f64, weight_decay: Option<f64>) -> Result<()> {
        let assignment = &mut self.drive_mut().assignment;
        assignment.set(group, lr_factor, weight_decay)
    }

    /// The state's buffers with their names: of the words that this process updates
    /// ([`Weights::updated`]), by default all, in the layout that [`Optimizer::layout`] states.
    fn buffers(&self) -> Vec<(&'static str, &Buffer)>;

    /// The layout of one of the state's buffers; `None` for that of the weights' values.
    fn layout(&self, _buffer: &str) -> Option<&OwnLayout> {
        None
    }

    /// Sets the number of steps prepared so far, for a run that is resumed.
    fn set_step_count(&mut self, steps: u64) {
        self.drive_mut().steps = steps;
    }

    /// Downloads the state: the step and one tensor a buffer and parameter. Of a process that updates a
    /// part, [`Optimizer::state_of`] takes the whole buffers.
    ///
    /// # Errors
    /// What the device reports.
    fn state(&self, weights: &Weights) -> Result<OptimizerState> {
        self.state_of(weights, &self.buffers())
    }

    /// As [`Optimizer::state`], of whole buffers in the place of this process's
    /// ([`gather_state`](crate::gather_state)).
    ///
    /// # Errors
    /// What the device reports.
    fn state_of(
        &self,
        weights: &Weights,
        buffers: &[(&'static str, &Buffer)],
    ) -> Result<OptimizerState> {
        let spans =
            |name: &str| state_spans(self.layout(name), weights, name, 0..weights.n_words());
        state::export(self.name(), self.step_count(), buffers, spans, weights)
    }

    /// As [`Optimizer::state`], every tensor in f32 and with its parameter's extents where the state has
    /// a moment of each element: a form that [`Optimizer::load_state`] takes too.
    ///
    /// # Errors
    /// What the device reports.
    fn float_state(&self, weights: &Weights) -> Result<OptimizerState> {
        let mut whole = self.state(weights)?;
        let names = self.buffers().into_iter().map(|(name, _)| name);
        let spans = names
            .flat_map(|name| state_spans(self.layout(name), weights, name, 0..weights.n_words()));
        state::unpack(&mut whole, spans)?;
        Ok(whole)
    }

    /// Restores a whole state, of which a process that updates a part takes its own; nothing is written
    /// unless all of it fits.
    ///
    /// # Errors
    /// [`NnError::Mismatch`](crate::NnError::Mismatch) for a state of another algorithm or model.
    fn load_state(&mut self, weights: &Weights, saved: &OptimizerState) -> Result<()> {
        let spans = |name: &str| state_spans(self.layout(name), weights, name, weights.updated());
        state::import(self.name(), &self.buffers(), spans, weights, saved)?;
        self.set_step_count(saved.step);
        Ok(())
    }

    /// Returns the SHA-256 over the state's tensors, in the order of their names.
    ///
    /// # Errors
    /// What the device reports.
    fn digest(&self, weights: &Weights) -> Result<String> {
        Ok(self.state(weights)?.digest())
    }
}
