//! Adapters over a frozen base that is held as its file has it (QLoRA).
//!
//! The adapters' parameters, and those of modules that are trained as a whole, are [`Weights`]: they alone have gradients, an
//! optimizer's state, a digest, and a place in the files of a model. The base has memory of its own: matrices in blocks, in 16 bits or
//! in f32, everything else in f32.

use hlx_autograd::{DType, no_grad};
use hlx_core::Device;
use hlx_kernels::product::blocks::{BlockFormat, BlockRows};

use super::config::refused;
use super::weights::module_of;
use super::{LoraRules, is_of_adapter};
use crate::parameters::{FrozenBase, load_values};
use crate::{Parameter, ParameterBuilder, Result, Weights};

/// Which of a builder's parameters are trained.
///
/// # Errors
/// [`NnError::Config`](crate::NnError::Config) without adapters.
fn trained(builder: &ParameterBuilder) -> Result<impl Fn(&Parameter) -> bool + use<>> {
    let declared = builder.declared_parameters();
    if !declared.iter().any(|one| is_of_adapter(one.name())) {
        return Err(refused("targets name no linear layer of the model"));
    }
    let rules = builder.adapters::<LoraRules>();
    Ok(move |one: &Parameter| {
        let rules = rules.as_ref();
        is_of_adapter(one.name())
            || rules.is_some_and(|rules| module_of(one).is_some_and(|module| rules.saves(module)))
    })
}

impl ParameterBuilder {
    /// Allocates the adapters' parameters, with the initial values that they have beside a trained base, and those of the base
    /// apart and frozen: matrices in blocks where `blocks` gives them, which is asked for each matrix in the order of
    /// declaration, others as zeros of a type, everything else as zeros in f32.
    ///
    /// # Errors
    /// What `blocks` answers; [`NnError::Config`](crate::NnError::Config) without adapters;
    /// [`NnError::Mismatch`](crate::NnError::Mismatch) for blocks of another shape; and as [`ParameterBuilder::build`].
    pub fn build_over(
        self,
        device: &Device,
        seed: u64,
        dtype: DType,
        blocks: impl FnMut(&Parameter) -> Result<Option<BlockRows>>,
    ) -> Result<Weights> {
        let is_trained = trained(&self)?;
        self.build_apart(device, seed, dtype, is_trained, blocks)
    }

    /// As [`ParameterBuilder::build_over`], over a base that is drawn from the seed: matrices in blocks of a format where their rows
    /// fit it, everything else as a new model has it. Such a base has the size and the speed of a file's, for plans and benchmarks.
    ///
    /// # Errors
    /// As [`ParameterBuilder::build_over`].
    pub fn build_over_drawn(
        self,
        device: &Device,
        seed: u64,
        format: &'static BlockFormat,
    ) -> Result<Weights> {
        let mut at = 0;
        let weights = self.build_over(device, seed, DType::F32, |parameter| {
            at += 1;
            let &[n, k] = parameter.shape() else {
                return Ok(None);
            };
            if !k.is_multiple_of(format.block) {
                return Ok(None);
            }
            Ok(Some(BlockRows::drawn(device, format, [n, k], seed ^ at)?))
        })?;
        let base = weights.base().map_or(&[][..], FrozenBase::parameters);
        for (place, parameter) in base.iter().enumerate().filter(|_| device.has_memory()) {
            if !parameter.tensor()?.is_of_blocks() {
                let values = parameter.first_values(seed, place);
                load_values(device, parameter, &values)?;
            }
        }
        weights.begin_magnitudes()?;
        Ok(weights)
    }

    /// Allocates the adapters' parameters alone, as zeros: the model cannot be computed, but its files and states can be read.
    ///
    /// # Errors
    /// As [`ParameterBuilder::build_over`].
    pub fn build_adapters_zeroed(self, device: &Device) -> Result<Weights> {
        let is_trained = trained(&self)?;
        self.build_trained_zeroed(device, is_trained)
    }
}

impl Weights {
    /// Sets the magnitudes of weight-decomposed adapters over a base to the norms of its rows, once the base has its values.
    pub(crate) fn begin_magnitudes(&self) -> Result<()> {
        let Some(base) = self.base().filter(|_| self.device().has_memory()) else {
            return Ok(());
        };
        for adapter in self.adapters().filter(|one| one.magnitude.is_some()) {
            if let Some(weight) = base.get(&format!("{}.weight", adapter.layer)) {
                let weight = weight.tensor()?;
                let matrix = no_grad(|| weight.values_apart())?;
                self.set_magnitude(adapter, &matrix)?;
            }
        }
        Ok(())
    }
}
