//! Models for inference alone, whose matrices are kept in 16 bits.

use std::ops::Deref;

use hlx_autograd::{DType, Tensor};
use hlx_core::Context;

use super::weights::bind_constants;
use super::{BufferKind, ModelBuffer, Parameter, ParameterBuilder};
use crate::Result;
use crate::error::NnError;

/// A module whose parameters are kept for inference: matrices in f16, bf16 or f32, everything else, such as
/// gains and biases, in f32. It can be used as the module itself; it has no gradients and no digest.
///
/// What it computes has the bits of the same model with the rounded values in f32: products widen each
/// element exactly.
///
/// ```
/// use hlx_autograd::{DType, Tensor};
/// use hlx_core::Context;
/// use hlx_nn::{ForwardContext, InferenceModel, Linear, Module};
///
/// let ctx = Context::open("cpu")?;
/// let model = InferenceModel::zeroed(&ctx, DType::BF16, |b| Ok(Linear::new(b, 64, 10)))?;
/// // 64 x 10 weights of two bytes and 10 biases of four.
/// assert_eq!(model.n_bytes(), 1280 + 40);
/// model.load(&model.parameters()[0], &[0.5; 640])?;
/// let y = model.forward(&Tensor::ones(&ctx, &[1, 64], DType::F32)?, &ForwardContext::eval())?;
/// assert_eq!(y.to_vec()?, [32.0; 10]);
/// # Ok::<(), hlx_nn::NnError>(())
/// ```
#[derive(Debug)]
pub struct InferenceModel<M> {
    module: M,
    parameters: Vec<Parameter>,
    ctx: Context,
    n_bytes: usize,
}

impl<M> InferenceModel<M> {
    /// Declares a module whose parameters are zeros, with matrices of a type; buffers have their first
    /// values.
    ///
    /// # Errors
    /// What `declare` answers; [`NnError::Config`] for a type other than f32, f16 and bf16;
    /// [`NnError::DuplicateParameter`], and what the device reports.
    pub fn zeroed(
        ctx: &Context,
        dtype: DType,
        declare: impl FnOnce(&mut ParameterBuilder) -> Result<M>,
    ) -> Result<Self> {
        if !dtype.is_float() {
            return Err(NnError::Config {
                what: "inference",
                reason: format!("weights of {dtype}, expected f32, f16 or bf16"),
            });
        }
        let mut builder = ParameterBuilder::new();
        let module = declare(&mut builder)?;
        let declared = builder.take_declared()?;
        let mut n_bytes = 0;
        for parameter in &declared.parameters {
            let dtype = match parameter.shape().len() {
                2 => dtype,
                _ => DType::F32,
            };
            n_bytes += parameter.n_elements() * dtype.size();
            parameter.requires_grad_(false);
            parameter
                .0
                .set(Tensor::zeros(ctx, parameter.shape(), dtype)?);
        }
        for another in &declared.uses {
            another.0.set(another.parameter().tensor()?);
        }
        let (buffers, constants): (Vec<_>, Vec<_>) = declared
            .buffers
            .into_iter()
            .partition(ModelBuffer::is_saved);
        for buffer in &buffers {
            let value = match buffer.0.kind {
                BufferKind::Full(value) => value,
                _ => 0.0,
            };
            let tensor = Tensor::full(ctx, buffer.shape(), value, buffer.dtype())?;
            buffer.0.set(tensor);
        }
        bind_constants(ctx, &constants)?;
        Ok(Self {
            module,
            parameters: declared.parameters,
            ctx: ctx.clone(),
            n_bytes,
        })
    }

    /// Replaces a parameter's values by these, rounded to its type: to the nearest, ties to even.
    ///
    /// # Errors
    /// [`NnError::Mismatch`] for another number of values, and what the device reports.
    pub fn load(&self, parameter: &Parameter, values: &[f32]) -> Result<()> {
        let (found, expected) = (values.len(), parameter.n_elements());
        if found != expected {
            let reason = format!(
                "{} has {found} elements, expected {expected}",
                parameter.name()
            );
            return Err(NnError::mismatch("inference", reason));
        }
        let values = Tensor::from_slice(&self.ctx, values, parameter.shape())?;
        parameter.tensor()?.copy_(&values)?;
        Ok(())
    }

    /// All parameters, in the order of declaration.
    pub fn parameters(&self) -> &[Parameter] {
        &self.parameters
    }

    /// The bytes that the parameters take.
    pub fn n_bytes(&self) -> usize {
        self.n_bytes
    }

    /// The module.
    pub fn module(&self) -> &M {
        &self.module
    }
}

impl<M> Deref for InferenceModel<M> {
    type Target = M;

    fn deref(&self) -> &M {
        &self.module
    }
}
