//! Declaring the parameters and buffers of a model, and giving them memory.

use std::any::Any;
use std::collections::HashSet;
use std::fmt::Display;
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use hlx_core::{Device, align_words, sizes};

use super::{BufferKind, Inner, ModelBuffer, Parameter, ParameterUse, Weights};
use crate::Result;
use crate::error::NnError;
use crate::init::Init;

/// Collects the parameters and buffers that layers declare; [`ParameterBuilder::build`] gives them
/// memory. A layer is given the builder of its own name, which [`ParameterBuilder::child`] makes:
///
/// ```
/// use hlx_core::Device;
/// use hlx_nn::{Linear, ParameterBuilder};
///
/// let mut b = ParameterBuilder::new();
/// let fc1 = Linear::new(&mut b.child("fc1"), 784, 128);
/// let weights = b.build(&Device::open("cpu")?, 42)?;
/// assert_eq!(weights.parameters()[0].name(), "fc1.weight");
/// # Ok::<(), hlx_nn::NnError>(())
/// ```
#[derive(Debug, Default)]
pub struct ParameterBuilder {
    declared: Arc<Mutex<Declared>>,
    /// The scope's name and a dot, or nothing.
    prefix: String,
}

/// What the layers of a model have declared, in order.
#[derive(Debug, Default)]
pub(super) struct Declared {
    pub parameters: Vec<Parameter>,
    pub uses: Vec<ParameterUse>,
    pub buffers: Vec<ModelBuffer>,
    /// Places of dropouts that have been given out.
    pub n_dropouts: u32,
    /// Whether one of them has a probability above 0.
    pub draws_masks: bool,
    /// Which layers have adapters, in words of the layers that read it.
    adapters: Option<Arc<dyn Any + Send + Sync>>,
}

impl ParameterBuilder {
    /// Starts without parameters.
    pub fn new() -> Self {
        Self::default()
    }

    /// Says which of the layers that are declared from here on have adapters.
    pub(crate) fn set_adapters<T: Any + Send + Sync>(&mut self, adapters: T) {
        self.declared().adapters = Some(Arc::new(adapters));
    }

    /// What was said about adapters, if it was said in this type.
    pub(crate) fn adapters<T: Any + Send + Sync>(&self) -> Option<Arc<T>> {
        self.declared().adapters.clone()?.downcast().ok()
    }

    /// The full name of the layer whose builder this is; none of a model's own builder.
    pub(crate) fn scope(&self) -> Option<&str> {
        self.prefix.strip_suffix('.')
    }

    /// The builder of a part of the model: what is declared to it is named `NAME.` and its own name.
    /// `name` may be a number, as of the layers of a list.
    #[must_use]
    pub fn child(&self, name: impl Display) -> Self {
        Self {
            declared: Arc::clone(&self.declared),
            prefix: format!("{}{name}.", self.prefix),
        }
    }

    /// A second handle of this builder, with its name.
    pub(crate) fn same_scope(&self) -> Self {
        Self {
            declared: Arc::clone(&self.declared),
            prefix: self.prefix.clone(),
        }
    }

    /// Declares a parameter, as PyTorch's `register_parameter`. Its index, which keys its initial
    /// values, is the number of parameters declared before to any builder of the model.
    pub fn parameter(&mut self, name: &str, shape: &[usize], init: Init) -> Parameter {
        let parameter = Parameter(Inner::new(self.full_name(name), shape, init));
        self.declared().parameters.push(parameter.clone());
        parameter
    }

    /// Declares another use of a parameter of the model, whose gradient is summed apart: what PyTorch does
    /// by assigning one parameter to two layers.
    pub fn another_use(&mut self, parameter: &Parameter) -> ParameterUse {
        let inner = Inner::new(
            parameter.name().to_owned(),
            parameter.shape(),
            parameter.clone(),
        );
        let another = ParameterUse(inner);
        self.declared().uses.push(another.clone());
        another
    }

    /// Declares a buffer of f32 values, all `value` at first, as PyTorch's `register_buffer`.
    pub fn buffer(&mut self, name: &str, shape: &[usize], value: f32) -> ModelBuffer {
        self.add_buffer(name, shape, BufferKind::Full(value))
    }

    /// Declares a buffer of one u32, 0 at first, such as batch norm's `num_batches_tracked`. Files
    /// have it as a 64-bit integer, as PyTorch's do.
    pub fn count(&mut self, name: &str) -> ModelBuffer {
        self.add_buffer(name, &[], BufferKind::Count)
    }

    /// Declares a list of ids that never change and that no file holds, as PyTorch's
    /// `register_buffer(persistent=False)`.
    pub fn ids(&mut self, name: &str, ids: Vec<u32>) -> ModelBuffer {
        self.add_buffer(name, &[ids.len()], BufferKind::Ids(ids))
    }

    /// Declares values that never change and that no file holds, as [`ParameterBuilder::ids`].
    pub fn constant(&mut self, name: &str, values: Vec<f32>) -> ModelBuffer {
        self.add_buffer(name, &[values.len()], BufferKind::Constant(values))
    }

    /// Numbers a dropout of probability `p`: no two of one model draw the same masks.
    pub fn dropout_place(&mut self, p: f32) -> u32 {
        let mut declared = self.declared();
        declared.n_dropouts += 1;
        declared.draws_masks |= p > 0.0;
        declared.n_dropouts - 1
    }

    fn add_buffer(&mut self, name: &str, shape: &[usize], kind: BufferKind) -> ModelBuffer {
        let buffer = ModelBuffer(Inner::new(self.full_name(name), shape, kind));
        self.declared().buffers.push(buffer.clone());
        buffer
    }

    fn full_name(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    fn declared(&self) -> MutexGuard<'_, Declared> {
        self.declared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Allocates all parameters and buffers and draws their initial values.
    ///
    /// # Errors
    /// [`NnError::DuplicateParameter`]; for parameters that no memory holds, an error that names the first; and what
    /// the device reports.
    pub fn build(self, device: &Device, seed: u64) -> Result<Weights> {
        let weights = self.build_zeroed(device)?;
        if !device.has_memory() {
            return Ok(weights);
        }
        let drawn = weights.parameters().iter().enumerate();
        let drawn = drawn.filter(|(_, parameter)| parameter.0.kind != Init::Zeros);
        thread::scope(|scope| {
            // One parameter is uploaded while the next is drawn.
            let (sender, receiver) = sync_channel(1);
            scope.spawn(move || {
                for (parameter_idx, parameter) in drawn {
                    let n = parameter.n_elements();
                    let values = parameter.0.kind.draw(seed, parameter_idx, n);
                    if sender.send((parameter, values)).is_err() {
                        return; // An upload has failed.
                    }
                }
            });
            for (parameter, values) in receiver {
                device.upload(&parameter.tensor()?.buffer()?, &values)?;
            }
            Ok(())
        })
        .map(|()| weights)
    }

    /// Allocates all parameters as zeros, for values that come from a file. Buffers have their
    /// initial values.
    ///
    /// # Errors
    /// As [`ParameterBuilder::build`].
    pub fn build_zeroed(self, device: &Device) -> Result<Weights> {
        Weights::new(device, self.take_declared()?)
    }

    /// The names of the parameters that have been declared so far, and of the buffers that files hold after them:
    /// the order of digests.
    pub fn names(&self) -> Vec<String> {
        let declared = self.declared();
        let parameters = declared.parameters.iter().map(Parameter::name);
        let buffers = declared.buffers.iter();
        let buffers = buffers.filter(|buffer| buffer.is_saved());
        let names = parameters.chain(buffers.map(ModelBuffer::name));
        names.map(str::to_owned).collect()
    }

    /// The parameters that have been declared so far.
    pub(crate) fn declared_parameters(&self) -> Vec<Parameter> {
        self.declared().parameters.clone()
    }

    /// What has been declared, each under a name of its own and of a size that memory may hold, all together too.
    pub(super) fn take_declared(self) -> Result<Declared> {
        let declared = std::mem::take(&mut *self.declared());
        let mut names = HashSet::new();
        let parameters = declared.parameters.iter().map(Parameter::name);
        for name in parameters.chain(declared.buffers.iter().map(ModelBuffer::name)) {
            if !names.insert(name) {
                return Err(NnError::DuplicateParameter {
                    name: name.to_owned(),
                });
            }
        }
        let parameters = declared
            .parameters
            .iter()
            .map(|one| (one.name(), one.shape()));
        let uses = declared.uses.iter().map(ParameterUse::parameter);
        let uses = uses.map(|one| (one.name(), one.shape()));
        let buffers = declared.buffers.iter().map(|one| (one.name(), one.shape()));
        let mut words = 0;
        for (name, shape) in parameters.chain(uses).chain(buffers) {
            let own = align_words(sizes::elements(name, shape)?);
            words = sizes::sum("parameters", &[words, own])?;
        }
        Ok(declared)
    }
}
