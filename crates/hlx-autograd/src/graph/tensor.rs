//! `Tensor`: a typed, strided array on a device, with its place on the tape.

mod check;
mod gradient;
mod make;
mod place;
mod read;
mod saving;
mod storage;
mod taped;

use std::fmt;
use std::sync::{Arc, OnceLock};

use hlx_core::{DType, Device};
use hlx_kernels::Layout;

use crate::Result;
use crate::error::AutogradError;
use crate::graph::input::Input;
use crate::graph::saved::Again;
use crate::samples::{Batch, Samples};
pub(crate) use check::check_count;
use storage::Storage;

/// An array on a device. Clones share the memory and the place on the tape.
#[derive(Clone)]
pub struct Tensor(Arc<Inner>);

struct Inner {
    device: Device,
    /// What the layout's places count in; views share it.
    storage: Storage,
    layout: Layout,
    samples: Samples,
    input: Input,
    /// The moment at which the values were made; views have that of what they view.
    born: u64,
    /// The moment at which the place on the tape told how the values came about.
    placed: u64,
    /// Whether the memory is that of a leaf.
    of_leaf: bool,
    /// How to compute the values again from what is saved anyway, if that is cheap.
    again: OnceLock<Again>,
}

/// Whether elements are floats of 16 bits.
pub(crate) fn is_half(dtype: DType) -> bool {
    matches!(dtype, DType::F16 | DType::BF16)
}

impl Tensor {
    /// Returns a leaf over the same memory whose gradient is collected, as PyTorch's
    /// `detach().requires_grad_()`.
    #[must_use]
    #[doc = example!(x: "assert!(x.with_gradient().requires_grad());")]
    pub fn with_gradient(&self) -> Self {
        self.at(Input::leaf("(unnamed)", None, self.shape()))
    }

    /// Returns a tensor over the same memory that is no part of the tape.
    #[must_use]
    #[doc = example!(x: "assert!(!x.with_gradient().exp()?.detach().requires_grad());")]
    pub fn detach(&self) -> Self {
        self.at(Input::constant(self.n_elements()))
    }

    /// Whether an element was changed in place after a moment, of values that were made by then.
    pub(crate) fn changed_since(&self, moment: u64) -> bool {
        let (first, end) = self.0.layout.span();
        let memory = self.0.storage.changing();
        self.0.born <= moment
            && memory.is_some_and(|memory| memory.changed_after(moment, first..end))
    }

    /// Whether the memory is that of a leaf, so that a change in place would change the leaf.
    pub(crate) fn is_of_leaf(&self) -> bool {
        self.0.of_leaf
    }

    /// Checks that no change in place through another view, with a derivative, has left this tensor
    /// with a history that is not that of its values.
    pub(crate) fn check_history(&self, op: &'static str) -> Result<()> {
        let (first, end) = self.0.layout.span();
        let memory = self.0.storage.changing();
        if !memory.is_some_and(|memory| memory.rebased_after(self.0.placed, first..end)) {
            return Ok(());
        }
        let tensor = self.described();
        Err(AutogradError::History { op, tensor })
    }

    /// What errors call the tensor: its shape and where it comes from.
    pub(crate) fn described(&self) -> String {
        format!("{:?} of {}", self.shape(), self.0.input.description())
    }

    /// Whether two handles are of one tensor.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// The device.
    #[doc = example!(x: "assert!(x.device().is_same(&device));")]
    pub fn device(&self) -> &Device {
        &self.0.device
    }

    /// Where the elements lie in memory.
    #[doc = example!(x: "assert_eq!(x.transpose(0, 1)?.layout().strides(), [1, 3]);")]
    pub fn layout(&self) -> &Layout {
        &self.0.layout
    }

    /// Where the samples of a batch lie.
    #[doc = example!(x: "assert_eq!(x.samples(), Samples::None);")]
    pub fn samples(&self) -> Samples {
        self.0.samples
    }

    /// The extents, outermost first; empty for a scalar.
    #[doc = example!(x: "assert_eq!(x.shape(), [2, 3]);")]
    pub fn shape(&self) -> &[usize] {
        self.0.layout.shape()
    }

    /// The number of dimensions.
    #[doc = example!(x: "assert_eq!(x.rank(), 2);")]
    pub fn rank(&self) -> usize {
        self.0.layout.rank()
    }

    /// The number of elements.
    #[doc = example!(x: "assert_eq!(x.n_elements(), 6);")]
    pub fn n_elements(&self) -> usize {
        self.0.layout.n_elements()
    }

    /// The type of the elements.
    #[doc = example!(x: "assert_eq!(x.dtype(), DType::F32);")]
    pub fn dtype(&self) -> DType {
        self.0.storage.dtype()
    }

    /// The tensor's place on the tape, without its values.
    #[doc = example!(x: "assert_eq!(x.input().n_elements(), 6);")]
    pub fn input(&self) -> Input {
        self.0.input.clone()
    }

    /// How the rows of an operation over this input are cut into shards.
    pub(crate) fn batch(&self) -> Batch {
        Batch::of(self.samples(), self.layout())
    }
}

impl fmt::Debug for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Tensor({:?} of {}, {})",
            self.shape(),
            self.dtype(),
            self.0.input.description()
        )
    }
}

impl AsRef<Input> for Tensor {
    fn as_ref(&self) -> &Input {
        &self.0.input
    }
}
