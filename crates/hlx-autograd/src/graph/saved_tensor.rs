//! What an operation saves of an input whose derivative is made of operations: the tensor, or its values in 16 bits.

use hlx_core::{DType, Device};

use crate::graph::input::Input;
use crate::graph::saved::{Saved, rounds};
use crate::samples::Samples;
use crate::{Result, Tensor};

/// A tensor for a derivative, which a recorded pass may differentiate again.
#[derive(Clone)]
pub(crate) enum SavedTensor {
    /// The tensor, which holds its memory.
    Whole(Tensor),
    /// Its values as they were saved, and its place on the tape.
    Parts(Box<Parts>),
}

/// What makes the tensor again.
#[derive(Clone)]
pub(crate) struct Parts {
    device: Device,
    values: Saved,
    shape: Vec<usize>,
    samples: Samples,
    input: Input,
}

impl SavedTensor {
    /// Saves a tensor: in 16 bits if the device saves activations so and it is one that lies in order.
    pub fn of(tensor: &Tensor) -> Result<Self> {
        let is_dense = tensor.dtype() == DType::F32 && tensor.layout().is_contiguous();
        if !is_dense || !rounds(tensor.device()) {
            return Ok(Self::Whole(tensor.clone()));
        }
        match tensor.save()? {
            Saved::Held(_) => Ok(Self::Whole(tensor.clone())),
            values => Ok(Self::Parts(Box::new(Parts {
                device: tensor.device().clone(),
                values,
                shape: tensor.shape().to_vec(),
                samples: tensor.samples(),
                input: tensor.input(),
            }))),
        }
    }

    /// The tensor at its place on the tape, of the values that were saved.
    ///
    /// # Errors
    /// As [`Saved::values`].
    pub fn tensor(&self) -> Result<Tensor> {
        match self {
            Self::Whole(tensor) => Ok(tensor.clone()),
            Self::Parts(parts) => {
                let values = parts.values.values()?;
                let tensor = Tensor::from_buffer(&parts.device, values, &parts.shape)?;
                Ok(tensor
                    .with_samples_of(parts.samples)
                    .at(parts.input.clone()))
            }
        }
    }
}
