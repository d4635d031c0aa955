//! The parameters and buffers of a model in flat blocks of memory.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

use hlx_autograd::Tensor;
use hlx_core::{Buffer, Device, align_words};
use hlx_kernels::elementwise::add_assign;
use hlx_kernels::tree_digest::TensorSpan;

use super::builder::Declared;
use super::gradients::{FlatGradients, zeros};
use super::{BufferKind, FrozenBase, ModelBuffer, Parameter, ParameterUse, Part};
use crate::Result;
use crate::error::NnError;

/// The values of a model: its parameters in one memory block of one layout, and its buffers in
/// another.
///
/// Each tensor starts at a multiple of 64 words, in the order of declaration; the words between are
/// zero and stay so. What training adds is apart: the gradients, in the layout of the values, are
/// allocated when a backward pass, an optimizer or a [`GradientTree`](crate::GradientTree) first needs
/// them, and optimizers have their own state. Evaluation and generation allocate none of it.
#[derive(Debug)]
pub struct Weights {
    device: Device,
    values: Buffer,
    gradients: Arc<FlatGradients>,
    parameters: Vec<Parameter>,
    offsets: Vec<usize>,
    /// Other uses of parameters, and where their gradients lie among all.
    uses: Vec<(ParameterUse, usize)>,
    /// The buffers that are saved, in one block.
    state: Buffer,
    buffers: Vec<ModelBuffer>,
    buffer_offsets: Vec<usize>,
    /// The buffers that never change.
    constants: Vec<ModelBuffer>,
    draws_masks: bool,
    /// The frozen parameters, where they lie apart.
    pub(super) base: Option<FrozenBase>,
    /// What this process updates, where others update the rest.
    pub(super) part: OnceLock<Part>,
    /// Whether optimizers' state lies in the host's memory.
    pub(super) offloads: AtomicBool,
}

impl Weights {
    /// Allocates what a builder has collected: parameters as zeros, buffers with their first values.
    pub(super) fn new(device: &Device, declared: Declared) -> Result<Self> {
        let Declared {
            parameters,
            uses,
            buffers,
            draws_masks,
            ..
        } = declared;
        let (buffers, constants): (Vec<_>, Vec<_>) =
            buffers.into_iter().partition(ModelBuffer::is_saved);
        let (offsets, words) = places(&parameters, Parameter::n_elements);
        let (use_offsets, use_words) = places(&uses, |one| one.parameter().n_elements());
        let (buffer_offsets, state_words) = places(&buffers, ModelBuffer::n_elements);
        let weights = Self {
            device: device.clone(),
            values: zeros(device, words)?,
            gradients: Arc::new(FlatGradients::new(device, words, use_words)),
            parameters,
            offsets,
            uses: uses
                .into_iter()
                .zip(use_offsets.iter().map(|at| words + at))
                .collect(),
            state: zeros(device, state_words)?,
            buffers,
            buffer_offsets,
            constants,
            draws_masks,
            base: None,
            part: OnceLock::new(),
            offloads: AtomicBool::new(false),
        };
        weights.bind()?;
        weights.reset_buffers()?;
        tracing::debug!("{} parameters in {words} words", weights.parameters.len());
        Ok(weights)
    }

    /// Gives the handles of parameters and buffers their tensors over this memory.
    fn bind(&self) -> Result<()> {
        let device = &self.device;
        for (parameter, &offset) in self.parameters.iter().zip(&self.offsets) {
            let (n, shape) = (parameter.n_elements(), parameter.shape());
            let gradients = Arc::clone(&self.gradients);
            let source = move || Ok(gradients.get()?.own.slice(offset, n)?);
            let (name, values) = (parameter.name(), self.values.slice(offset, n)?);
            let tensor = Tensor::parameter(device, name, values, Arc::new(source), shape)?;
            parameter.0.set(tensor);
        }
        for (another, offset) in &self.uses {
            let (gradients, offset) = (Arc::clone(&self.gradients), *offset);
            let n = another.parameter().n_elements();
            let source = move || Ok(gradients.get()?.all.slice(offset, n)?);
            let tensor = another
                .parameter()
                .tensor()?
                .another_use(Arc::new(source))?;
            another.0.set(tensor);
        }
        for (buffer, &offset) in self.buffers.iter().zip(&self.buffer_offsets) {
            let n = buffer.n_elements();
            let values = self.state.slice(offset, n)?.view_as(buffer.dtype(), n)?;
            buffer
                .0
                .set(Tensor::from_buffer(device, values, buffer.shape())?);
        }
        bind_constants(device, &self.constants)
    }

    /// Writes the first values of all buffers that have any but zero.
    fn reset_buffers(&self) -> Result<()> {
        for buffer in &self.buffers {
            if let BufferKind::Full(value) = buffer.0.kind {
                self.device
                    .fill(&buffer.tensor()?.buffer()?, value.to_bits())?;
            }
        }
        Ok(())
    }

    /// Moves parameters and buffers to another device, as `torch.nn.Module.to`: the model's layers
    /// use the new memory from here on. Gradients are discarded. An optimizer made before holds
    /// memory of the old device: make it anew.
    ///
    /// # Errors
    /// [`NnError::Config`] for adapters over a base that lies apart, which stays where it is; what either device reports.
    pub fn to(&mut self, device: &Device) -> Result<()> {
        if device.is_same(&self.device) {
            return Ok(());
        }
        if self.base.is_some() {
            return Err(NnError::Config {
                what: "to",
                reason: "the base in blocks stays on its device: open the model on the other one"
                    .to_owned(),
            });
        }
        let move_over = |from: &Buffer| -> Result<Buffer> {
            let buffer = device.alloc(from.len())?;
            device.upload_words(&buffer, &self.device.download_words(from)?)?;
            Ok(buffer)
        };
        let (values, state) = (move_over(&self.values)?, move_over(&self.state)?);
        let use_words = self.gradients.all_words() - values.len();
        self.gradients = Arc::new(FlatGradients::new(device, values.len(), use_words));
        (self.values, self.state, self.device) = (values, state, device.clone());
        self.bind()
    }

    /// The device.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// All values, padding included.
    pub fn values(&self) -> &Buffer {
        &self.values
    }

    /// All gradients, in the layout of the values; allocated by the first call.
    ///
    /// # Errors
    /// What the device reports, and a first call while a graph is being recorded.
    pub fn gradients(&self) -> Result<&Buffer> {
        Ok(&self.gradients.get()?.own)
    }

    /// All gradients and behind them those of other uses of parameters, which [`Weights::add_uses`] adds.
    ///
    /// # Errors
    /// As [`Weights::gradients`].
    pub fn all_gradients(&self) -> Result<&Buffer> {
        Ok(&self.gradients.get()?.all)
    }

    /// Makes a buffer of zeros for all gradients.
    pub(crate) fn zeros_like_all_gradients(&self) -> Result<Buffer> {
        Ok(zeros(&self.device, self.gradients.all_words())?)
    }

    /// Adds the gradients of other uses to those of the parameters, in the order of declaration, once
    /// both are those of the whole batch. A frozen parameter has no gradient of its own, which a pass would
    /// overwrite: the first other use's stands in its place, as after a pass over the whole batch.
    ///
    /// # Errors
    /// What the device reports.
    pub fn add_uses(&self) -> Result<()> {
        let mut placed = HashSet::new();
        for ((own, at), (another, _)) in self.use_places()?.into_iter().zip(&self.uses) {
            let (all, n) = (self.all_gradients()?, own.len());
            let (total, root) = (all.slice(own.start, n)?, all.slice(at, n)?);
            let is_frozen = !another.parameter().requires_grad();
            match is_frozen && placed.insert(own.start) {
                true => self.device.copy(&root, &total)?,
                false => add_assign(&self.device, &total, &root)?,
            }
        }
        Ok(())
    }

    /// Of each other use of a parameter, in the order of declaration: the parameter's words, and where
    /// among all gradients the use's begin.
    pub(super) fn use_places(&self) -> Result<Vec<(Range<usize>, usize)>> {
        let place = |(another, at): &(ParameterUse, usize)| {
            let parameter = another.parameter();
            let mut own = self.parameters.iter().zip(&self.offsets);
            let own = own.find(|(one, _)| one.is_same(parameter));
            let Some((_, &own)) = own else {
                let reason = format!("{} is of another model", parameter.name());
                return Err(NnError::mismatch("parameters", reason));
            };
            Ok((own..own + parameter.n_elements(), *at))
        };
        self.uses.iter().map(place).collect()
    }

    /// Whether gradients have been allocated.
    pub fn has_gradients(&self) -> bool {
        self.gradients.allocated().is_some()
    }

    /// The buffers that are saved, in the order of declaration, such as running means.
    pub fn buffers(&self) -> &[ModelBuffer] {
        &self.buffers
    }

    /// The saved buffers' memory in one piece, padding included; counts are words of it.
    pub fn buffer_values(&self) -> &Buffer {
        &self.state
    }

    /// Whether the model has a dropout with a probability above 0, which draws masks in training.
    pub fn draws_masks(&self) -> bool {
        self.draws_masks
    }

    /// The parameters in the order of declaration.
    pub fn parameters(&self) -> &[Parameter] {
        &self.parameters
    }

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

    /// The words of one parameter in a flat buffer of this layout, with the padding behind it.
    pub(super) fn range(&self, parameter_idx: usize) -> Range<usize> {
        let start = self.offsets[parameter_idx];
        let n = self.parameters[parameter_idx].n_elements();
        start..start + align_words(n)
    }

    /// Where each saved buffer lies in [`Weights::buffer_values`], in the order of declaration.
    pub fn buffer_spans(&self) -> Vec<TensorSpan> {
        let span = |(buffer, &offset): (&ModelBuffer, &usize)| TensorSpan {
            name: buffer.name().to_owned(),
            shape: buffer.shape().to_vec(),
            offset,
        };
        let places = self.buffers.iter().zip(&self.buffer_offsets);
        places.map(span).collect()
    }

    /// Downloads every saved buffer's words, in the order of declaration.
    ///
    /// # Errors
    /// What the device reports.
    pub(super) fn download_buffers(&self) -> Result<Vec<Vec<u32>>> {
        let words = match self.buffers.is_empty() {
            true => Vec::new(),
            false => self.device.download_words(&self.state)?,
        };
        let cut = |(buffer, &offset): (&ModelBuffer, &usize)| {
            words[offset..offset + buffer.n_elements()].to_vec()
        };
        let places = self.buffers.iter().zip(&self.buffer_offsets);
        Ok(places.map(cut).collect())
    }

    /// Whether there is a parameter that training leaves as it is ([`Parameter::requires_grad_`]).
    pub fn has_frozen(&self) -> bool {
        !self.parameters.iter().all(Parameter::requires_grad)
    }

    /// Makes a buffer of zeros in the layout of the values, such as an optimizer's moments.
    ///
    /// # Errors
    /// What the device reports.
    pub fn zeros_like(&self) -> Result<Buffer> {
        Ok(zeros(&self.device, self.n_words())?)
    }

    /// Discards all gradients: the next backward pass overwrites them.
    ///
    /// # Errors
    /// [`NnError::NotBuilt`], which weights from a builder never give.
    pub fn zero_grad(&self) -> Result<()> {
        for parameter in &self.parameters {
            parameter.tensor()?.zero_grad();
        }
        for (another, _) in &self.uses {
            another.tensor()?.zero_grad();
        }
        Ok(())
    }

    /// Checks that a backward pass has reached every parameter that is not frozen.
    ///
    /// # Errors
    /// [`NnError::MissingGradient`] for the first that none has.
    pub fn check_gradients(&self) -> Result<()> {
        for parameter in self.parameters.iter().filter(|one| one.requires_grad()) {
            if !parameter.tensor()?.has_grad() {
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
        let words = self.device.download::<f32>(flat)?;
        Ok(self.cut(&words).map(<[f32]>::to_vec).collect())
    }

    /// The words of each parameter, in the order of declaration, in those of a flat buffer of this layout.
    pub(super) fn cut<'a>(&'a self, words: &'a [f32]) -> impl Iterator<Item = &'a [f32]> {
        let places = self.parameters.iter().zip(&self.offsets);
        places.map(|(parameter, &offset)| &words[offset..offset + parameter.n_elements()])
    }

    /// Uploads one vector a parameter, in the order of declaration, into a flat buffer of this
    /// layout.
    ///
    /// # Errors
    /// [`NnError::Mismatch`] if a length is wrong, and what the device reports.
    pub fn upload(&self, flat: &Buffer, values: &[Vec<f32>]) -> Result<()> {
        self.check_lengths(values)?;
        for (&offset, values) in self.offsets.iter().zip(values) {
            let window = flat.slice(offset, values.len())?;
            self.device.upload(&window, values)?;
        }
        Ok(())
    }

    /// Fails unless there is one vector a parameter, of its length.
    pub(super) fn check_lengths<V: AsRef<[f32]>>(&self, values: &[V]) -> Result<()> {
        let (found, expected) = (values.len(), self.parameters.len());
        if found != expected {
            let reason = format!("{found} tensors, expected {expected}");
            return Err(NnError::mismatch("upload", reason));
        }
        for (parameter, values) in self.parameters.iter().zip(values) {
            let (found, expected) = (values.as_ref().len(), parameter.n_elements());
            if found != expected {
                let name = parameter.name();
                let reason = format!("{name} has {found} elements, expected {expected}");
                return Err(NnError::mismatch("upload", reason));
            }
        }
        Ok(())
    }
}

/// Where tensors of these sizes lie in a flat buffer, and its words.
fn places<T>(tensors: &[T], n_elements: impl Fn(&T) -> usize) -> (Vec<usize>, usize) {
    let mut words = 0;
    let place = |tensor: &T| {
        let offset = words;
        words += align_words(n_elements(tensor));
        offset
    };
    let offsets = tensors.iter().map(place).collect();
    (offsets, words)
}

/// Gives the handles of what never changes their tensors.
pub(super) fn bind_constants(device: &Device, constants: &[ModelBuffer]) -> Result<()> {
    for constant in constants {
        match &constant.0.kind {
            BufferKind::Ids(ids) => {
                constant
                    .0
                    .set(Tensor::from_slice::<u32>(device, ids, constant.shape())?)
            }
            BufferKind::Constant(values) => {
                let tensor = Tensor::from_slice(device, values, constant.shape())?;
                constant.0.set(tensor);
            }
            BufferKind::Full(_) | BufferKind::Count => {}
        }
    }
    Ok(())
}
