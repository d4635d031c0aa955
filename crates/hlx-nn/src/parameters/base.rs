//! Models whose adapters alone are trained, over a frozen base that is held as its file has it (QLoRA).
//!
//! The adapters' parameters, and those of modules that are trained as a whole, are [`Weights`]: they alone have gradients, an optimizer's state, a digest, and a place in the files of
//! a model. The base has memory of its own: matrices in blocks, in 16 bits or in f32, everything else in f32.

use hlx_autograd::{DType, no_grad};
use hlx_core::Device;
use hlx_kernels::product::blocks::{BlockFormat, BlockRows};

use super::builder::Declared;
use super::inference::{allocate, load_values, take_blocks};
use super::{Parameter, ParameterBuilder, Weights};
use crate::Result;
use crate::error::NnError;
use crate::layers::lora::{LoraRules, is_of_adapter, module_of};

/// The frozen parameters of a model, which lie outside of its [`Weights`].
#[derive(Debug)]
pub struct FrozenBase {
    parameters: Vec<Parameter>,
    /// The place of each other parameter among all that were declared.
    places: Vec<usize>,
    n_bytes: usize,
}

impl FrozenBase {
    /// The parameters, in the order of declaration.
    pub fn parameters(&self) -> &[Parameter] {
        &self.parameters
    }

    /// The parameter of a name.
    pub fn get(&self, name: &str) -> Option<&Parameter> {
        self.parameters.iter().find(|one| one.name() == name)
    }

    /// The bytes that they take.
    pub fn n_bytes(&self) -> usize {
        self.n_bytes
    }

    /// The number of their elements.
    pub fn n_elements(&self) -> usize {
        self.parameters.iter().map(Parameter::n_elements).sum()
    }
}

/// What a builder has declared, in two: the base's parameters, and everything else with the place that each parameter had among
/// all.
fn split(builder: ParameterBuilder) -> Result<(Vec<Parameter>, Declared, Vec<usize>)> {
    let rules = builder.adapters::<LoraRules>();
    let is_saved = |one: &Parameter| {
        let rules = rules.as_ref();
        rules.is_some_and(|rules| module_of(one).is_some_and(|module| rules.saves(module)))
    };
    let mut declared = builder.take_declared()?;
    let all = std::mem::take(&mut declared.parameters);
    let (mut base, mut places) = (Vec::new(), Vec::new());
    for (place, parameter) in all.into_iter().enumerate() {
        match is_of_adapter(parameter.name()) || is_saved(&parameter) {
            true => {
                declared.parameters.push(parameter);
                places.push(place);
            }
            false => base.push(parameter),
        }
    }
    let has_adapters = |one: &Parameter| is_of_adapter(one.name());
    match !declared.parameters.iter().any(has_adapters) {
        true => Err(NnError::Config {
            what: "lora",
            reason: "targets name no linear layer of the model".to_owned(),
        }),
        false => Ok((base, declared, places)),
    }
}

impl ParameterBuilder {
    /// Allocates the adapters' parameters, with the initial values that they have beside a trained base, and those of the base
    /// apart and frozen: matrices in blocks where `blocks` gives them, which is asked for each matrix in the order of
    /// declaration, others as zeros of a type, everything else as zeros in f32.
    ///
    /// # Errors
    /// What `blocks` answers; [`NnError::Config`] without adapters; [`NnError::Mismatch`] for blocks of another shape; and as
    /// [`ParameterBuilder::build`].
    pub fn build_over(
        self,
        device: &Device,
        seed: u64,
        dtype: DType,
        blocks: impl FnMut(&Parameter) -> Result<Option<BlockRows>>,
    ) -> Result<Weights> {
        let (parameters, mut declared, places) = split(self)?;
        for parameter in &parameters {
            parameter.requires_grad_(false);
        }
        let n_bytes =
            take_blocks(device, &parameters, blocks)? + allocate(device, dtype, &parameters)?;
        let of_base = |one: &Parameter| parameters.iter().any(|other| other.is_same(one));
        let (frozen, uses): (Vec<_>, Vec<_>) = std::mem::take(&mut declared.uses)
            .into_iter()
            .partition(|another| of_base(another.parameter()));
        declared.uses = uses;
        for another in frozen {
            another.0.set(another.parameter().tensor()?);
        }
        let mut weights = Weights::new(device, declared)?;
        weights.base = Some(FrozenBase {
            parameters,
            places: places.clone(),
            n_bytes,
        });
        if device.has_memory() {
            for (parameter, place) in weights.parameters().iter().zip(places) {
                let values = parameter.0.kind.draw(seed, place, parameter.n_elements());
                device.upload(&parameter.tensor()?.buffer()?, &values)?;
            }
        }
        Ok(weights)
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
                let values = parameter.0.kind.draw(seed, place, parameter.n_elements());
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
        let (parameters, mut declared, _) = split(self)?;
        let of_base = |one: &Parameter| parameters.iter().any(|other| other.is_same(one));
        declared
            .uses
            .retain(|another| !of_base(another.parameter()));
        Weights::new(device, declared)
    }
}

impl Weights {
    /// The frozen base that the adapters stand over, where it lies apart from them.
    pub fn base(&self) -> Option<&FrozenBase> {
        self.base.as_ref()
    }

    /// All parameters in the order of declaration: those of the base too.
    pub fn parameters_and_base(&self) -> Vec<&Parameter> {
        let Some(base) = self.base() else {
            return self.parameters().iter().collect();
        };
        let mut all: Vec<&Parameter> = base.parameters.iter().collect();
        // In the order of their places, so that each moves those behind it to theirs.
        for (parameter, &place) in self.parameters().iter().zip(&base.places) {
            all.insert(place, parameter);
        }
        all
    }

    /// Writes the values of all parameters, those of the base widened to f32, to the parameters of their names in the weights of a
    /// model whose base does not lie apart. One parameter at a time is widened.
    ///
    /// # Errors
    /// [`NnError::Mismatch`] for a parameter that the other model has not, or in another shape, and what a device reports.
    pub fn widen_into(&self, to: &Self) -> Result<()> {
        let base = self.base().map_or(&[][..], FrozenBase::parameters);
        for parameter in base.iter().chain(self.parameters()) {
            let name = parameter.name();
            let place = to.get(name).filter(|to| to.shape() == parameter.shape());
            let Some(place) = place else {
                let reason = format!("{name} of {:?} is missing", parameter.shape());
                return Err(NnError::mismatch("base", reason));
            };
            let values = parameter
                .tensor()?
                .detach()
                .values_apart()?
                .to_vec::<f32>()?;
            to.device()
                .upload(&place.tensor()?.detach().buffer()?, &values)?;
        }
        Ok(())
    }

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
