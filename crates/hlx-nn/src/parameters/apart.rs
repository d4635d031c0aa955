//! Weights beside which the rest of a model lies apart and frozen, in the form that a file has it in.

use hlx_autograd::DType;
use hlx_core::Device;
use hlx_kernels::product::blocks::BlockRows;

use super::builder::Declared;
use super::inference::{allocate, take_blocks};
use super::{FrozenBase, Parameter, ParameterBuilder, Weights};
use crate::Result;
use crate::error::NnError;

/// What a builder has declared, in two: the base's parameters, and everything else with the place that each parameter had among
/// all.
fn split(
    builder: ParameterBuilder,
    is_trained: impl Fn(&Parameter) -> bool,
) -> Result<(Vec<Parameter>, Declared, Vec<usize>)> {
    let mut declared = builder.take_declared()?;
    let all = std::mem::take(&mut declared.parameters);
    let (mut base, mut places) = (Vec::new(), Vec::new());
    for (place, parameter) in all.into_iter().enumerate() {
        match is_trained(&parameter) {
            true => {
                declared.parameters.push(parameter);
                places.push(place);
            }
            false => base.push(parameter),
        }
    }
    Ok((base, declared, places))
}

impl ParameterBuilder {
    /// Allocates the parameters that are trained, with the initial values that they have among all, and the others apart and
    /// frozen: matrices in blocks where `blocks` gives them, which is asked for each matrix in the order of
    /// declaration, others as zeros of a type, everything else as zeros in f32.
    ///
    /// # Errors
    /// What `blocks` answers; [`NnError::Mismatch`] for blocks of another shape; and as [`ParameterBuilder::build`].
    pub(crate) fn build_apart(
        self,
        device: &Device,
        seed: u64,
        dtype: DType,
        is_trained: impl Fn(&Parameter) -> bool,
        blocks: impl FnMut(&Parameter) -> Result<Option<BlockRows>>,
    ) -> Result<Weights> {
        let (parameters, mut declared, places) = split(self, is_trained)?;
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

    /// Allocates the parameters that are trained alone, as zeros: the model cannot be computed, but its files and states can be read.
    ///
    /// # Errors
    /// As [`ParameterBuilder::build`].
    pub(crate) fn build_trained_zeroed(
        self,
        device: &Device,
        is_trained: impl Fn(&Parameter) -> bool,
    ) -> Result<Weights> {
        let (parameters, mut declared, _) = split(self, is_trained)?;
        let of_base = |one: &Parameter| parameters.iter().any(|other| other.is_same(one));
        declared
            .uses
            .retain(|another| !of_base(another.parameter()));
        Weights::new(device, declared)
    }
}

impl Weights {
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
}
