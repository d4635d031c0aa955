//! A gradient during a backward pass.

use hlx_core::{Buffer, Device};

use crate::{Result, Tensor};

/// A gradient during the pass.
#[derive(Debug)]
pub struct Gradient {
    pub(super) values: Values,
    /// Nothing else reads the memory, so that the pass may add to it in place.
    pub(super) owned: bool,
}

#[derive(Debug)]
pub(super) enum Values {
    /// Elements in row-major order, of the shape of what the gradient is of.
    Dense(Buffer),
    /// With places of their own, and in a recorded pass with a place on the tape.
    Tensor(Tensor),
}

impl Gradient {
    /// A gradient in a buffer that nothing else uses, in row-major order.
    pub fn owned(buffer: Buffer) -> Self {
        let (values, owned) = (Values::Dense(buffer), true);
        Self { values, owned }
    }

    /// A gradient in a buffer that others read too, in row-major order.
    pub fn shared(buffer: Buffer) -> Self {
        let (values, owned) = (Values::Dense(buffer), false);
        Self { values, owned }
    }

    /// The values in row-major order: their own memory, or a copy of strided ones.
    ///
    /// # Errors
    /// What the device reports.
    pub fn buffer(&self) -> Result<Buffer> {
        match &self.values {
            Values::Dense(buffer) => Ok(buffer.clone()),
            Values::Tensor(tensor) => tensor.buffer(),
        }
    }

    /// Tells the watch that a tensor's values will be read.
    pub(super) fn read(&self) {
        if let Values::Tensor(tensor) = &self.values {
            super::watch::reads(tensor);
        }
    }

    pub(super) fn of(tensor: Tensor) -> Self {
        let (values, owned) = (Values::Tensor(tensor), false);
        Self { values, owned }
    }

    pub(super) fn tensor(&self, device: &Device, shape: &[usize]) -> Result<Tensor> {
        match &self.values {
            Values::Dense(buffer) => Tensor::from_buffer(device, buffer.clone(), shape),
            Values::Tensor(tensor) => Ok(tensor.clone()),
        }
    }

    /// Whether these values are in memory that only this gradient has.
    pub(super) fn is_copy(&self, values: &Buffer) -> bool {
        match &self.values {
            Values::Dense(_) => false,
            Values::Tensor(tensor) => !tensor.operand().buffer.overlaps(values),
        }
    }
}
