//! The parameters of a model in two flat buffers of one layout: values and gradients.

use hlx_core::{Buffer, Context};
use hlx_kernels::tree_digest::TensorSpan;

use super::Parameter;
use crate::Result;
use crate::error::NnError;

/// All parameters of a model: one buffer of values, one of gradients, one layout.
///
/// Each parameter starts at a multiple of 64 words, in the order of declaration; the words
/// between are zero in both buffers and stay so.
#[derive(Debug)]
pub struct ParameterStore {
    pub(super) ctx: Context,
    pub(super) values: Buffer,
    pub(super) gradients: Buffer,
    pub(super) parameters: Vec<Parameter>,
    pub(super) offsets: Vec<usize>,
}

impl ParameterStore {
    /// The device's context.
    pub fn context(&self) -> &Context {
        &self.ctx
    }

    /// All values, padding included.
    pub fn values(&self) -> &Buffer {
        &self.values
    }

    /// All gradients, in the layout of the values.
    pub fn gradients(&self) -> &Buffer {
        &self.gradients
    }

    /// The parameters in the order of declaration.
    pub fn parameters(&self) -> &[Parameter] {
        &self.parameters
    }

    /// The parameter of a name.
    pub fn get(&self, name: &str) -> Option<&Parameter> {
        self.parameters
            .iter()
            .find(|parameter| parameter.name() == name)
    }

    /// The number of parameters' elements, without padding.
    pub fn n_elements(&self) -> usize {
        self.parameters.iter().map(Parameter::n_elements).sum()
    }

    /// The words of a flat buffer: the elements and the padding between them.
    pub fn n_words(&self) -> usize {
        self.values.len()
    }

    /// Where each parameter lies in a flat buffer of this layout, in the order of declaration,
    /// with a prefix for the names.
    pub fn spans(&self, prefix: &str) -> Vec<TensorSpan> {
        let span = |(parameter, &offset): (&Parameter, &usize)| TensorSpan {
            name: format!("{prefix}{}", parameter.name()),
            shape: parameter.shape().to_vec(),
            offset,
        };
        self.parameters
            .iter()
            .zip(&self.offsets)
            .map(span)
            .collect()
    }

    /// Makes a buffer of zeros in the layout of the values, such as an optimizer's moments.
    ///
    /// # Errors
    /// What the device reports.
    pub fn zeros_like(&self) -> Result<Buffer> {
        zeros(&self.ctx, self.n_words())
    }

    /// Discards all gradients: the next backward pass overwrites them.
    ///
    /// # Errors
    /// [`NnError::NotBuilt`], which a store from a builder never gives.
    pub fn zero_grad(&self) -> Result<()> {
        for parameter in &self.parameters {
            parameter.tensor()?.zero_grad();
        }
        Ok(())
    }

    /// Checks that a backward pass has reached every parameter.
    ///
    /// # Errors
    /// [`NnError::MissingGradient`] for the first that none has.
    pub fn check_gradients(&self) -> Result<()> {
        for parameter in &self.parameters {
            if parameter.tensor()?.grad().is_none() {
                return Err(NnError::MissingGradient {
                    name: parameter.name().to_owned(),
                });
            }
        }
        Ok(())
    }

    /// Downloads a flat buffer of this layout and cuts it into one vector a parameter, in the
    /// order of declaration.
    ///
    /// # Errors
    /// What the device reports.
    pub fn download(&self, flat: &Buffer) -> Result<Vec<Vec<f32>>> {
        let words = self.ctx.download_f32(flat)?;
        let cut = |(parameter, &offset): (&Parameter, &usize)| {
            words[offset..offset + parameter.n_elements()].to_vec()
        };
        Ok(self.parameters.iter().zip(&self.offsets).map(cut).collect())
    }

    /// Uploads one vector a parameter, in the order of declaration, into a flat buffer of this
    /// layout.
    ///
    /// # Errors
    /// [`NnError::Mismatch`] if a length is wrong, and what the device reports.
    pub fn upload(&self, flat: &Buffer, values: &[Vec<f32>]) -> Result<()> {
        if values.len() != self.parameters.len() {
            let reason = format!(
                "{} tensors, expected {}",
                values.len(),
                self.parameters.len()
            );
            return Err(NnError::mismatch("upload", reason));
        }
        for ((parameter, &offset), values) in self.parameters.iter().zip(&self.offsets).zip(values)
        {
            let n = parameter.n_elements();
            if values.len() != n {
                let (name, found) = (parameter.name(), values.len());
                let reason = format!("{name} has {found} elements, expected {n}");
                return Err(NnError::mismatch("upload", reason));
            }
            self.ctx.upload_f32(&flat.slice(offset, n)?, values)?;
        }
        Ok(())
    }
}

pub(super) fn zeros(ctx: &Context, words: usize) -> Result<Buffer> {
    let buffer = ctx.alloc(words)?;
    ctx.fill(&buffer, 0)?;
    Ok(buffer)
}
