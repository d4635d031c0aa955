//! Parameters and buffers: declared by layers, stored flat. All values lie in one memory block, all
//! gradients, once a backward pass needs them, in a second of the same layout.

mod apart;
mod base;
mod builder;
mod files;
mod finite;
mod gradients;
mod inference;
mod parts;
mod prepared;
mod set;
mod weights;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use hlx_autograd::{DType, Tensor};
use hlx_core::sizes;

pub use self::base::FrozenBase;
pub use self::builder::ParameterBuilder;
pub use self::files::WeightsSnapshot;
pub(crate) use self::files::{as_f32, format_error};
pub use self::finite::check_finite;
pub(crate) use self::finite::non_finite;
pub use self::inference::InferenceModel;
pub(crate) use self::inference::load_values;
pub use self::parts::{Part, Parts, Undivided};
pub use self::prepared::PreparedWeights;
pub use self::set::ParameterSet;
pub(crate) use self::set::matches;
pub use self::weights::Weights;
use crate::Result;
use crate::error::NnError;
use crate::init::Init;

/// A handle to a parameter, held by the layer that uses it. Clones are the same parameter.
#[derive(Clone, Debug)]
pub struct Parameter(Arc<Inner<Init>>);

/// Another use of a parameter, such as an embedding that is the output projection too: its gradient is
/// summed apart, and then added to the parameter's ([`Tensor::another_use`]). Clones are the same use.
#[derive(Clone, Debug)]
pub struct ParameterUse(Arc<Inner<Parameter>>);

/// A handle to a buffer of a model: a named tensor that is no parameter, such as a running mean.
/// As PyTorch's `register_buffer`: it is saved, digested and moved with the parameters, and receives
/// no gradient. Clones are the same buffer.
#[derive(Clone, Debug)]
pub struct ModelBuffer(Arc<Inner<BufferKind>>);

/// What a buffer holds at first.
#[derive(Clone, Debug, PartialEq)]
enum BufferKind {
    /// f32 values of one number.
    Full(f32),
    /// A count, u32; in files a 64-bit integer, as in PyTorch's.
    Count,
    /// Ids that never change, u32; no part of files and digests.
    Ids(Vec<u32>),
    /// f32 values that never change; no part of files and digests.
    Constant(Vec<f32>),
}

impl BufferKind {
    fn dtype(&self) -> DType {
        match self {
            Self::Full(_) | Self::Constant(_) => DType::F32,
            Self::Count | Self::Ids(_) => DType::U32,
        }
    }
}

#[derive(Debug)]
struct Inner<K> {
    name: String,
    shape: Vec<usize>,
    /// What it holds at first.
    kind: K,
    tensor: RwLock<Option<Tensor>>,
    /// Of a parameter: no gradient is wanted.
    is_frozen: AtomicBool,
    /// Of a parameter: it is the matrix of a linear layer.
    is_multiplied: AtomicBool,
    /// Of a parameter: it is one of a layer's matrices that products read together.
    is_of_list: AtomicBool,
}

impl<K> Inner<K> {
    fn new(name: String, shape: &[usize], kind: K) -> Arc<Self> {
        Arc::new(Self {
            name,
            shape: shape.to_vec(),
            kind,
            tensor: RwLock::new(None),
            is_frozen: AtomicBool::new(false),
            is_multiplied: AtomicBool::new(false),
            is_of_list: AtomicBool::new(false),
        })
    }

    fn n_elements(&self) -> usize {
        // A shape that no memory holds is refused when the parameters are built.
        sizes::checked_elements(&self.shape).unwrap_or(usize::MAX)
    }

    fn tensor(&self) -> Result<Tensor> {
        let tensor = self.tensor.read().unwrap_or_else(PoisonError::into_inner);
        tensor.clone().ok_or_else(|| NnError::NotBuilt {
            name: self.name.clone(),
        })
    }

    fn set(&self, tensor: Tensor) {
        let mut place = self.tensor.write().unwrap_or_else(PoisonError::into_inner);
        *place = Some(tensor);
    }
}

impl Parameter {
    /// The name, such as `blocks.0.attention.qkv.weight`.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// The extents, outermost first.
    pub fn shape(&self) -> &[usize] {
        &self.0.shape
    }

    /// The values that it begins with in a model of a seed, where it is the parameter of this number.
    pub(crate) fn first_values(&self, seed: u64, place: usize) -> Vec<f32> {
        self.0.kind.draw(seed, place, self.n_elements())
    }

    /// The number of elements.
    pub fn n_elements(&self) -> usize {
        self.0.n_elements()
    }

    /// Returns the values as a leaf of the tape.
    ///
    /// # Errors
    /// [`NnError::NotBuilt`] before [`ParameterBuilder::build`].
    pub fn tensor(&self) -> Result<Tensor> {
        let tensor = self.0.tensor()?;
        Ok(match self.requires_grad() {
            true => tensor,
            false => tensor.detach(),
        })
    }

    /// Whether training changes it; true unless [`Parameter::requires_grad_`] says otherwise.
    pub fn requires_grad(&self) -> bool {
        !self.0.is_frozen.load(Ordering::Relaxed)
    }

    /// Says whether training changes it, as PyTorch's `parameter.requires_grad_`. No gradient is computed
    /// for a frozen parameter, and it is no part of the gradient's norm; optimizers made from here on leave
    /// it, and their state of it, as it is. Call it before the first backward pass.
    pub fn requires_grad_(&self, requires_grad: bool) {
        self.0.is_frozen.store(!requires_grad, Ordering::Relaxed);
    }

    /// States that a layer multiplies its input by this matrix, \[N, K\].
    pub(crate) fn of_product(self) -> Self {
        self.set_multiplied(true);
        self
    }

    /// Says whether a layer multiplies its input by this matrix alone.
    pub(crate) fn set_multiplied(&self, is_multiplied: bool) {
        self.0.is_multiplied.store(is_multiplied, Ordering::Relaxed);
    }

    /// Whether a layer multiplies its input by it.
    pub(crate) fn is_multiplied(&self) -> bool {
        self.0.is_multiplied.load(Ordering::Relaxed)
    }

    /// States that products read this matrix together with others of its layer, as the matrices of a mixture's experts: their
    /// names differ in a number alone.
    pub(crate) fn set_of_list(&self) {
        self.0.is_of_list.store(true, Ordering::Relaxed);
    }

    /// Whether products read it together with others.
    pub(crate) fn is_of_list(&self) -> bool {
        self.0.is_of_list.load(Ordering::Relaxed)
    }

    /// Whether two handles are of one parameter.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl ParameterUse {
    /// The parameter.
    pub fn parameter(&self) -> &Parameter {
        &self.0.kind
    }

    /// Returns the values as a leaf of the tape.
    ///
    /// # Errors
    /// [`NnError::NotBuilt`] before [`ParameterBuilder::build`].
    pub fn tensor(&self) -> Result<Tensor> {
        self.0.tensor()
    }
}

impl ModelBuffer {
    /// The name, such as `layer1.0.bn1.running_mean`.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// The extents, outermost first.
    pub fn shape(&self) -> &[usize] {
        &self.0.shape
    }

    /// The number of elements.
    pub fn n_elements(&self) -> usize {
        self.0.n_elements()
    }

    /// The type of the elements: f32, or u32 of counts and ids.
    pub fn dtype(&self) -> DType {
        self.0.kind.dtype()
    }

    /// Returns the values; a kernel that is given the tensor's memory changes them.
    ///
    /// # Errors
    /// [`NnError::NotBuilt`] before [`ParameterBuilder::build`].
    pub fn tensor(&self) -> Result<Tensor> {
        self.0.tensor()
    }

    /// Whether it is a part of files and digests.
    fn is_saved(&self) -> bool {
        !matches!(self.0.kind, BufferKind::Ids(_) | BufferKind::Constant(_))
    }
}

#[cfg(test)]
mod tests;
