//! Models for inference alone, whose matrices are held in 16 bits.

use std::collections::BTreeMap;
use std::ops::Deref;

use hlx_autograd::{DType, Tensor};
use hlx_core::{ALIGNMENT_WORDS, Device};
use hlx_kernels::product::blocks::BlockRows;

use super::weights::bind_constants;
use super::{BufferKind, ModelBuffer, Parameter, ParameterBuilder, Weights};
use crate::Result;
use crate::error::NnError;

/// Matrices of more elements, such as embeddings, have memory of their own.
const LARGEST_JOINED: usize = 1 << 26;

/// A module whose parameters are held for inference: matrices in f16, bf16 or f32, everything else, such as
/// gains and biases, in f32. It can be used as the module itself; it has no gradients and no digest.
///
/// What it computes has the bits of the same model with the rounded values in f32: products widen each
/// element exactly.
///
/// ```
/// use hlx_autograd::{DType, Tensor};
/// use hlx_core::Device;
/// use hlx_nn::{Mode, InferenceModel, Linear, Module};
///
/// let device = Device::open("cpu")?;
/// let model = InferenceModel::zeroed(&device, DType::BF16, |b| Ok(Linear::new(b, 64, 10)))?;
/// // 64 x 10 weights of two bytes and 10 biases of four.
/// assert_eq!(model.n_bytes(), 1280 + 40);
/// model.load(&model.parameters()[0], &[0.5; 640])?;
/// let y = model.forward(&Tensor::ones(&device, &[1, 64], DType::F32)?, &Mode::eval())?;
/// assert_eq!(y.to_vec::<f32>()?, [32.0; 10]);
/// # Ok::<(), hlx_nn::NnError>(())
/// ```
#[derive(Debug)]
pub struct InferenceModel<M> {
    module: M,
    parameters: Vec<Parameter>,
    device: Device,
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
        device: &Device,
        dtype: DType,
        declare: impl FnOnce(&mut ParameterBuilder) -> Result<M>,
    ) -> Result<Self> {
        Self::with_blocks(device, dtype, declare, |_| Ok(None))
    }

    /// As [`InferenceModel::zeroed`], with matrices in blocks where `blocks` gives them, which is asked for each matrix in the
    /// order of declaration. In the `integer` arithmetic they are multiplied as they lie ([`Tensor::from_blocks`]).
    ///
    /// # Errors
    /// As [`InferenceModel::zeroed`], what `blocks` answers, and [`NnError::Mismatch`] for blocks of another shape.
    pub fn with_blocks(
        device: &Device,
        dtype: DType,
        declare: impl FnOnce(&mut ParameterBuilder) -> Result<M>,
        blocks: impl FnMut(&Parameter) -> Result<Option<BlockRows>>,
    ) -> Result<Self> {
        check_dtype(dtype)?;
        let mut builder = ParameterBuilder::new();
        let module = declare(&mut builder)?;
        let declared = builder.take_declared()?;
        for parameter in &declared.parameters {
            parameter.requires_grad_(false);
        }
        let n_bytes = take_blocks(device, &declared.parameters, blocks)?
            + allocate(device, dtype, &declared.parameters)?;
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
            let tensor = Tensor::full(device, buffer.shape(), value, buffer.dtype())?;
            buffer.0.set(tensor);
        }
        bind_constants(device, &constants)?;
        Ok(Self {
            module,
            parameters: declared.parameters,
            device: device.clone(),
            n_bytes,
        })
    }

    /// The same parameters under another module, such as one that holds this one.
    pub fn map<N>(self, wrap: impl FnOnce(M) -> N) -> InferenceModel<N> {
        InferenceModel {
            module: wrap(self.module),
            parameters: self.parameters,
            device: self.device,
            n_bytes: self.n_bytes,
        }
    }

    /// Declares a module as [`InferenceModel::zeroed`] and loads the values of a model's weights, which may
    /// lie on another device.
    ///
    /// # Errors
    /// As [`InferenceModel::zeroed`] and [`InferenceModel::load`]; [`NnError::Mismatch`] for weights without
    /// one of the parameters, or with buffers.
    pub fn rounded(
        device: &Device,
        dtype: DType,
        weights: &Weights,
        declare: impl FnOnce(&mut ParameterBuilder) -> Result<M>,
    ) -> Result<Self> {
        let model = Self::zeroed(device, dtype, declare)?;
        if let Some(buffer) = weights.buffers().first() {
            let reason = format!("the buffer {} cannot be taken over", buffer.name());
            return Err(NnError::mismatch("inference", reason));
        }
        for parameter in &model.parameters {
            let Some(from) = weights.get(parameter.name()) else {
                let reason = format!("{} is missing", parameter.name());
                return Err(NnError::mismatch("inference", reason));
            };
            model.load(parameter, &from.tensor()?.detach().to_vec::<f32>()?)?;
        }
        Ok(model)
    }

    /// Replaces a parameter's values by these, rounded to its type: to the nearest, ties to even.
    ///
    /// In the integer arithmetic a graph that was recorded before, such as a [`TokenStep`](crate::TokenStep)'s, may go on
    /// with the quantised old values; record it again.
    ///
    /// # Errors
    /// [`NnError::Mismatch`] for another number of values, or a finite one that the type rounds to infinity;
    /// and what the device reports.
    pub fn load(&self, parameter: &Parameter, values: &[f32]) -> Result<()> {
        load_values(&self.device, parameter, values)
    }

    /// The device.
    pub fn device(&self) -> &Device {
        &self.device
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

impl Weights {
    /// Rounds the matrices to a type in place, to the nearest, ties to even, and holds them in f32: the model
    /// computes the bits of an [`InferenceModel`] of that type.
    ///
    /// # Errors
    /// [`NnError::Config`] for a type other than f32, f16 and bf16, [`NnError::Mismatch`] for a finite value
    /// that the type rounds to infinity, and what the device reports.
    pub fn round_matrices(&self, dtype: DType) -> Result<()> {
        check_dtype(dtype)?;
        if dtype == DType::F32 {
            return Ok(());
        }
        for parameter in self.parameters().iter().filter(|one| one.is_matrix()) {
            let values = parameter.tensor()?.detach();
            check_range(parameter.name(), &values.to_vec::<f32>()?, dtype)?;
            let rounded = values.to_dtype(dtype)?.to_dtype(DType::F32)?;
            self.device().copy(&rounded.buffer()?, &values.buffer()?)?;
        }
        Ok(())
    }
}

impl Parameter {
    /// Whether models for inference hold it in 16 bits.
    fn is_matrix(&self) -> bool {
        self.shape().len() == 2
    }
}

fn check_dtype(dtype: DType) -> Result<()> {
    if dtype.is_float() {
        return Ok(());
    }
    Err(NnError::Config {
        what: "inference",
        reason: format!("weights of {dtype}, expected f32, f16 or bf16"),
    })
}

/// Fails for finite values that a type rounds to infinity.
fn check_range(name: &str, values: &[f32], dtype: DType) -> Result<()> {
    // Half a place above the largest: ties go to the even number, which is 2^16 or 2^128.
    let limit = match dtype {
        DType::F16 => 65_520.0,
        DType::BF16 => f32::from_bits(0x7f7f_8000),
        _ => return Ok(()),
    };
    let past = |value: &&f32| value.is_finite() && value.abs() >= limit;
    match values.iter().find(past) {
        Some(value) => {
            let reason = format!("{name} holds {value:e}, which {dtype} does not reach");
            Err(NnError::mismatch("inference", reason))
        }
        None => Ok(()),
    }
}

/// Replaces the values of a frozen parameter by these, rounded to its type.
pub(crate) fn load_values(device: &Device, parameter: &Parameter, values: &[f32]) -> Result<()> {
    let (found, expected) = (values.len(), parameter.n_elements());
    if found != expected {
        let reason = format!(
            "{} has {found} elements, expected {expected}",
            parameter.name()
        );
        return Err(NnError::mismatch("inference", reason));
    }
    let mut place = parameter.tensor()?.detach();
    check_range(parameter.name(), values, place.dtype())?;
    place.copy_(&Tensor::from_slice(device, values, parameter.shape())?)?;
    Ok(())
}

/// Gives the matrices their blocks that have some, and returns the bytes. Those of a list of experts lie side by side.
pub(super) fn take_blocks(
    device: &Device,
    parameters: &[Parameter],
    mut blocks: impl FnMut(&Parameter) -> Result<Option<BlockRows>>,
) -> Result<usize> {
    let (mut n_bytes, mut of_list) = (0, Vec::new());
    for parameter in parameters.iter().filter(|one| one.is_matrix()) {
        if !parameter.is_of_list() {
            join(device, std::mem::take(&mut of_list))?;
        }
        let Some(rows) = blocks(parameter)? else {
            continue;
        };
        if rows.sizes != parameter.shape() {
            let (name, found) = (parameter.name(), rows.sizes);
            let reason = format!(
                "{name} has blocks of {found:?}, expected {:?}",
                parameter.shape()
            );
            return Err(NnError::mismatch("inference", reason));
        }
        n_bytes += rows.n_bytes();
        match parameter.is_of_list() {
            true => of_list.push((parameter, rows)),
            false => parameter.0.set(Tensor::from_blocks(device, rows)?),
        }
    }
    join(device, of_list)?;
    Ok(n_bytes)
}

/// Puts the weights of each list side by side and hands them to their parameters. The names of a list differ in a number alone.
fn join(device: &Device, of_lists: Vec<(&Parameter, BlockRows)>) -> Result<()> {
    let mut lists: BTreeMap<String, Vec<(&Parameter, BlockRows)>> = BTreeMap::new();
    for (parameter, rows) in of_lists {
        let name = parameter.name().replace(|c: char| c.is_ascii_digit(), "");
        lists.entry(name).or_default().push((parameter, rows));
    }
    for list in lists.into_values() {
        let (parameters, rows): (Vec<_>, Vec<_>) = list.into_iter().unzip();
        let rows = match device.has_memory() {
            true => BlockRows::side_by_side(device, rows)?,
            false => rows,
        };
        for (parameter, rows) in parameters.into_iter().zip(rows) {
            parameter.0.set(Tensor::from_blocks(device, rows)?);
        }
    }
    Ok(())
}

/// Gives every other parameter its memory, matrices that of a type, and returns the bytes. Matrices of one number of
/// columns that follow each other lie in one buffer, so that those which one input goes through can be one
/// product.
pub(super) fn allocate(device: &Device, dtype: DType, parameters: &[Parameter]) -> Result<usize> {
    let mut n_bytes = 0;
    // Those in blocks have theirs.
    let is_without = |parameter: &&Parameter| parameter.tensor().is_err();
    for parameter in parameters.iter().filter(|one| !one.is_matrix()) {
        n_bytes += parameter.n_elements() * DType::F32.size(); // The builder has checked all sizes.
        let zeros = Tensor::zeros(device, parameter.shape(), DType::F32)?;
        parameter.0.set(zeros);
    }
    let matrices = parameters.iter().filter(|one| one.is_matrix());
    let matrices: Vec<&Parameter> = matrices.filter(is_without).collect();
    let unit = ALIGNMENT_WORDS * dtype.per_word();
    let small = |parameter: &Parameter| parameter.n_elements() <= LARGEST_JOINED;
    let alike = |a: &Parameter, b: &Parameter| a.shape()[1] == b.shape()[1] && small(a) && small(b);
    for run in matrices.chunk_by(|a, b| alike(a, b)) {
        let place = |parameter: &Parameter| parameter.n_elements().next_multiple_of(unit);
        let memory = Tensor::zeros(device, &[run.iter().map(|one| place(one)).sum()], dtype)?;
        let (memory, mut first) = (memory.buffer()?, 0);
        for parameter in run {
            n_bytes += parameter.n_elements() * dtype.size();
            let window = memory.slice(first, parameter.n_elements())?;
            parameter
                .0
                .set(Tensor::from_buffer(device, window, parameter.shape())?);
            first += place(parameter);
        }
    }
    Ok(n_bytes)
}
