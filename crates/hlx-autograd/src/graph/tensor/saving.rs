//! What of a tensor is saved for the backward pass, and what its values are computed from again.

use hlx_core::{Buffer, DType, Device, Half};
use hlx_kernels::product::{Matrices, Operand, Role, takes_sources};

use super::Tensor;
use crate::Result;
use crate::graph::saved::{Again, Saved, rounded_bits, rounds};
use crate::graph::tape::gradients_enabled;

impl Tensor {
    /// Notes how to compute these values again from what the backward pass has anyway.
    pub(crate) fn with_recipe(self, again: Again) -> Self {
        if self.requires_grad() || takes_sources(self.device()) {
            // The tensor is new, so that it has no recipe yet.
            let _ = self.0.again.set(again);
        }
        self
    }

    /// How to compute the values again, if that was noted.
    pub(crate) fn recipe(&self) -> Option<&Again> {
        self.0.again.get()
    }

    /// The values as the operand of a product: the one that is remembered of them, or a new one of what they are computed
    /// from, or else of `values`, which are theirs in row-major order.
    pub(crate) fn product_operand(
        &self,
        role: Role,
        of: Matrices,
        values: impl FnOnce() -> Result<Buffer>,
    ) -> Result<Operand> {
        let (device, of_leaf) = (self.device(), self.is_of_leaf());
        if role == Role::Weight
            && let Some(operand) = self.operand_of_blocks(of)?
        {
            return Ok(operand);
        }
        Operand::remembered(device, self.operand(), of_leaf, role, of, || {
            let origin = self.recipe().and_then(|again| again.source.as_ref());
            let origin = origin.filter(|_| takes_sources(device));
            match origin {
                Some(origin) => {
                    origin.with_source(|source| Ok(Operand::new(device, role, source, of)?))
                }
                None => {
                    let values = shared_halves(device, role, values()?)?;
                    Ok(Operand::new(device, role, &values, of)?)
                }
            }
        })
    }

    /// Saves the values for a backward pass, as cheaply as that can be.
    pub(crate) fn save(&self) -> Result<Saved> {
        Saved::of(self, self.recipe())
    }

    /// Saves values of an activation, which [`Tensor::buffer`] has returned: in 16 bits if the device saves activations so
    /// and an operation on the tape has computed them.
    pub(crate) fn save_activation(&self, values: &Buffer) -> Result<Saved> {
        let is_computed = self.requires_grad() && !self.is_of_leaf() && gradients_enabled();
        match is_computed {
            true => Saved::activation(self.device(), values, || self.described()),
            false => Ok(self.save_values(values)),
        }
    }

    /// Saves the values themselves, which [`Tensor::buffer`] has returned, for a backward pass.
    pub(crate) fn save_values(&self, values: &Buffer) -> Saved {
        Saved::held(values.clone(), self.described())
    }
}

/// Values for a product, in bf16 where both products read that and activations are saved so: what is rounded for one serves the
/// other.
fn shared_halves(device: &Device, role: Role, values: Buffer) -> Result<Buffer> {
    let reads_halves =
        device.product_arithmetic().half() == Some(Half::Bf16) && role == Role::Signal;
    let is_saved = gradients_enabled() && rounds(device);
    match reads_halves && is_saved && values.dtype() == DType::F32 && !values.is_empty() {
        true => rounded_bits(device, &values),
        false => Ok(values),
    }
}
