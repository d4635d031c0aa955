//! `Tensor`: a typed, strided array on a device, with its place on the tape.

mod check;
mod read;
mod storage;
mod taped;

use std::fmt;
use std::sync::{Arc, OnceLock};

use hlx_core::{Buffer, DType, Device, Element, last_moment};
use hlx_kernels::Layout;
use hlx_kernels::product::{Matrices, Operand, Role, takes_sources};

use crate::Result;
use crate::error::AutogradError;
use crate::graph::input::{GradientSource, Input, Leaf};
use crate::graph::saved::{Again, Saved};
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
    /// Uploads elements of any type in row-major order: `shape` gives the extents, outermost first. Subnormals
    /// become zeros of their sign.
    ///
    /// # Errors
    /// [`AutogradError::Shape`] if the shape's product is not the number of elements.
    #[doc = example!(
        "let x = Tensor::from_slice(&device, &[1.0, 2.0, 3.0, 4.0], &[2, 2])?;",
        "assert_eq!((x.shape(), x.dtype()), (&[2, 2][..], DType::F32));",
        "assert_eq!(Tensor::from_slice(&device, &[1_i32, 2], &[2])?.dtype(), DType::I32);"
    )]
    pub fn from_slice<T: Element>(
        device: &Device,
        elements: &[T],
        shape: &[usize],
    ) -> Result<Self> {
        check_count("from_slice", elements.len(), shape)?;
        Self::from_buffer(device, device.buffer_of(elements)?, shape)
    }

    /// Wraps a buffer of values; nothing is copied.
    ///
    /// # Errors
    /// [`AutogradError::Shape`] if the shape's product is not the buffer's length.
    #[doc = example!(
        "let x = Tensor::from_buffer(&device, device.buffer_of(&[1.0, 2.0])?, &[2, 1])?;",
        "assert_eq!(x.to_vec::<f32>()?, [1.0, 2.0]);"
    )]
    pub fn from_buffer(device: &Device, buffer: Buffer, shape: &[usize]) -> Result<Self> {
        check_count("from_buffer", buffer.len(), shape)?;
        let input = Input::constant(buffer.len());
        Self::dense_over(device, buffer, shape, Samples::None, input)
    }

    /// Wraps a named parameter. Its gradient is written into the buffer that `gradient` gives when a
    /// backward pass first reaches the parameter, such as a window of the one flat gradient buffer of
    /// a model: who never goes backward needs none.
    ///
    /// # Errors
    /// [`AutogradError::Shape`] if the shape's product is not the length of `values`. A backward pass
    /// fails with what `gradient` answers.
    #[doc = example!(
        "let gradient = device.alloc(2)?;",
        "let own = gradient.clone();",
        "let w = Tensor::parameter(&device, \"w\", device.buffer_of(&[1.0, 2.0])?, std::sync::Arc::new(move || Ok(own.clone())), &[2])?;",
        "w.square()?.sum()?.backward()?;",
        "assert_eq!(device.download::<f32>(&gradient)?, [2.0, 4.0]);"
    )]
    pub fn parameter(
        device: &Device,
        name: &str,
        values: Buffer,
        gradient: GradientSource,
        shape: &[usize],
    ) -> Result<Self> {
        check_count("parameter", values.len(), shape)?;
        let source = checked(gradient, values.len());
        let input = Input::leaf(name, Some(source), shape);
        Self::dense_over(device, values, shape, Samples::None, input)
    }

    /// Returns another use of this parameter, such as an embedding that is the output projection too:
    /// the same memory, and a gradient that is summed apart, into the buffer that `gradient` gives, so that
    /// its bits do not depend on how a batch is split. A pass over the whole batch adds it to the
    /// parameter's own gradient at its end, in the order in which the uses went forward; after passes over
    /// parts that is for the caller to do. Hooks of the parameter see the gradient of its first use alone.
    ///
    /// # Errors
    /// [`AutogradError::Argument`] if the tensor is no parameter.
    #[doc = example!(
        "let [own, of_use] = [device.alloc(2)?, device.alloc(2)?];",
        "let (first, second) = (own.clone(), of_use.clone());",
        "let w = Tensor::parameter(&device, \"w\", device.buffer_of(&[1.0, 2.0])?, std::sync::Arc::new(move || Ok(first.clone())), &[2])?;",
        "let again = w.another_use(std::sync::Arc::new(move || Ok(second.clone())))?;",
        "w.square()?.add(again.mul(3.0)?)?.sum()?.backward()?;",
        "assert_eq!(w.grad().unwrap().to_vec::<f32>()?, [5.0, 7.0]);"
    )]
    pub fn another_use(&self, gradient: GradientSource) -> Result<Self> {
        let Some(leaf) = self.0.input.as_leaf() else {
            return Err(AutogradError::Argument {
                op: "another_use",
                reason: format!("the tensor {} is no parameter", self.described()),
            });
        };
        let first = leaf.first_use.as_ref().unwrap_or(leaf);
        let source = checked(gradient, self.n_elements());
        Ok(self.at(Input::another_use(first, source)))
    }

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

    /// The same memory at another place of the tape.
    pub(crate) fn at(&self, input: Input) -> Self {
        self.with_layout(self.0.layout.clone(), self.0.samples, input)
    }

    /// Other places in the same memory, at a place of the tape that tells how the values came about.
    pub(crate) fn with_layout(&self, layout: Layout, samples: Samples, input: Input) -> Self {
        Self(Arc::new(Inner {
            device: self.0.device.clone(),
            storage: self.0.storage.clone(),
            layout,
            samples,
            of_leaf: self.0.of_leaf || input.as_leaf().is_some(),
            input,
            born: self.0.born,
            placed: last_moment(),
            again: OnceLock::new(),
        }))
    }

    /// The same memory as elements of another type of the same width, without a gradient.
    pub(crate) fn retyped(&self, dtype: DType) -> Result<Self> {
        let memory = self.0.storage.try_memory()?;
        let storage = memory.view_as(dtype, memory.len())?;
        Ok(Self(Arc::new(Inner {
            device: self.0.device.clone(),
            storage: Storage::Memory(storage),
            layout: self.0.layout.clone(),
            input: Input::constant(self.n_elements()),
            placed: last_moment(),
            again: OnceLock::new(),
            ..*self.0
        })))
    }

    /// The same values of the same history, with the samples of a batch elsewhere.
    fn with_samples_at(&self, samples: Samples) -> Self {
        Self(Arc::new(Inner {
            device: self.0.device.clone(),
            storage: self.0.storage.clone(),
            layout: self.0.layout.clone(),
            samples,
            input: self.0.input.clone(),
            again: OnceLock::new(),
            ..*self.0
        }))
    }

    /// The same memory, whose values have just been changed by an operation at this place of the tape.
    pub(crate) fn changed_by(&self, input: Input, samples: Samples) -> Self {
        Self(Arc::new(Inner {
            device: self.0.device.clone(),
            storage: self.0.storage.clone(),
            layout: self.0.layout.clone(),
            samples,
            input,
            born: last_moment(),
            placed: last_moment(),
            of_leaf: self.0.of_leaf,
            again: OnceLock::new(),
        }))
    }

    /// The same values as made now: a gradient that a hook has given is none that was saved.
    pub(crate) fn as_new(&self) -> Self {
        self.changed_by(self.input(), self.samples())
    }

    /// States that the samples of a batch lie along a dimension, one index each. The batch of a
    /// training pass needs it where the pass sums by shards ([`BackwardPlan`](crate::BackwardPlan));
    /// operations carry it on.
    ///
    /// # Errors
    /// [`AutogradError::Shape`] if the tensor has no such dimension.
    #[doc = example!(
        x: "assert_eq!(x.with_samples(0)?.samples(), Samples::Along { axis: 0, each: 1 });"
    )]
    pub fn with_samples(&self, axis: usize) -> Result<Self> {
        if axis >= self.rank() {
            let expected = format!("one with a dimension {axis}");
            return Err(self.shape_error("with_samples", "the tensor", expected));
        }
        Ok(self.with_samples_at(Samples::along(axis)))
    }

    /// A buffer's elements in row-major order.
    pub(crate) fn dense_over(
        device: &Device,
        buffer: Buffer,
        shape: &[usize],
        samples: Samples,
        input: Input,
    ) -> Result<Self> {
        Self::dense_in(device, Storage::Memory(buffer), shape, samples, input)
    }

    /// All elements of a storage in row-major order.
    fn dense_in(
        device: &Device,
        storage: Storage,
        shape: &[usize],
        samples: Samples,
        input: Input,
    ) -> Result<Self> {
        Ok(Self(Arc::new(Inner {
            device: device.clone(),
            storage,
            layout: Layout::contiguous(shape)?,
            samples,
            of_leaf: input.as_leaf().is_some(),
            input,
            born: last_moment(),
            placed: last_moment(),
            again: OnceLock::new(),
        })))
    }

    /// The tensor with its samples where an operation has moved them.
    #[doc = example!(x: "assert_eq!(x.with_samples_of(Samples::Lost).samples(), Samples::Lost);")]
    pub fn with_samples_of(self, samples: Samples) -> Self {
        if samples == self.samples() {
            return self;
        }
        self.with_samples_at(samples)
    }

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
            let origin = self.recipe().and_then(|again| again.origin.as_ref());
            // The rows of norms come with them.
            let origin = origin.filter(|origin| takes_sources(device) && !origin.is_of_norm());
            match origin {
                Some(origin) => {
                    origin.with_source(|source| Ok(Operand::new(device, role, source, of)?))
                }
                None => Ok(Operand::new(device, role, &values()?, of)?),
            }
        })
    }

    /// Saves the values for a backward pass, as cheaply as that can be.
    pub(crate) fn save(&self) -> Result<Saved> {
        Saved::of(self, self.recipe())
    }

    /// Saves the values themselves, which [`Tensor::buffer`] has returned, for a backward pass.
    pub(crate) fn save_values(&self, values: &Buffer) -> Saved {
        Saved::held(values.clone(), self.described())
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

    /// Whether a backward pass through this tensor collects or passes on a gradient.
    #[doc = example!(x: "assert!(!x.requires_grad() && x.with_gradient().exp()?.requires_grad());")]
    pub fn requires_grad(&self) -> bool {
        self.0.input.requires_grad()
    }

    /// The name of the operation that put this tensor on the tape; `None` for leaves and for tensors that
    /// require no gradient. PyTorch's `grad_fn`.
    #[doc = example!(
        x: "assert_eq!(x.with_gradient().exp()?.grad_fn(), Some(\"exp\"));",
        "assert_eq!(x.exp()?.grad_fn(), None);"
    )]
    pub fn grad_fn(&self) -> Option<&'static str> {
        self.0.input.node().map(|node| node.op)
    }

    /// The gradient that backward passes have left in this leaf since [`Tensor::zero_grad`];
    /// `None` before, and for tensors that are no leaves.
    #[doc = example!(
        x: "let x = x.with_gradient();",
        "assert!(x.grad().is_none());",
        "x.sum()?.backward()?;",
        "assert_eq!(x.grad().unwrap().to_vec::<f32>()?, [1.0; 6]);"
    )]
    pub fn grad(&self) -> Option<Tensor> {
        let slot = self.leaf()?.slot();
        if let Some(gradient) = &slot.tensor {
            return Some(gradient.clone());
        }
        let buffer = slot.buffer.as_ref().filter(|_| slot.filled)?;
        let input = Input::constant(buffer.len());
        let (device, shape) = (self.device(), self.shape());
        Self::dense_over(device, buffer.clone(), shape, Samples::None, input).ok()
    }

    /// Whether [`Tensor::grad`] gives a gradient.
    #[doc = example!(
        x: "let x = x.with_gradient();",
        "x.sum()?.backward()?;",
        "assert!(x.has_grad());"
    )]
    pub fn has_grad(&self) -> bool {
        self.leaf().is_some_and(|leaf| {
            let slot = leaf.slot();
            slot.tensor.is_some() || (slot.filled && slot.buffer.is_some())
        })
    }

    /// Gives this leaf a gradient, to which the next backward pass adds; the memory is shared if its elements
    /// are in row-major order.
    ///
    /// # Errors
    /// [`AutogradError::Argument`] if the tensor is no leaf that requires a gradient, and as
    /// [`Tensor::backward_from`] for a gradient of another shape, type or device.
    #[doc = example!(
        x: "let w = x.with_gradient();",
        "w.set_grad(&x)?;",
        "w.sum()?.backward()?;",
        "assert_eq!(w.grad().unwrap().to_vec::<f32>()?, [2.0, 3.0, 4.0, 5.0, 6.0, 7.0]);"
    )]
    pub fn set_grad(&self, gradient: &Tensor) -> Result<()> {
        const OP: &str = "set_grad";
        let Some(leaf) = self.leaf() else {
            return Err(AutogradError::Argument {
                op: OP,
                reason: format!(
                    "the tensor {} is no leaf that requires a gradient",
                    self.described()
                ),
            });
        };
        self.same_device(OP, [("the gradient", Some(gradient))])?;
        gradient.expect_type(OP, "the gradient", self.dtype())?;
        if gradient.shape() != self.shape() {
            let expected = format!("{:?}", self.shape());
            return Err(gradient.shape_error(OP, "the gradient", expected));
        }
        let values = gradient.buffer()?;
        let mut slot = leaf.slot();
        slot.fetch()?;
        match slot.buffer.clone().filter(|_| slot.external) {
            Some(own) => self.device().copy(&values, &own)?,
            None => {
                slot.buffer = Some(values);
                slot.tensor = gradient.requires_grad().then(|| gradient.clone());
            }
        }
        slot.filled = true;
        Ok(())
    }

    /// Discards this leaf's gradient: the next backward pass overwrites it. Nothing is written to
    /// the device.
    #[doc = example!(
        x: "let x = x.with_gradient();",
        "x.sum()?.backward()?;",
        "x.zero_grad();",
        "assert!(x.grad().is_none());"
    )]
    pub fn zero_grad(&self) {
        if let Some(leaf) = self.leaf() {
            let mut slot = leaf.slot();
            slot.filled = false;
            slot.tensor = None;
            if !slot.external {
                slot.buffer = None;
            }
        }
    }

    pub(crate) fn leaf(&self) -> Option<&Leaf> {
        self.0.input.as_leaf().map(|leaf| &**leaf)
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

/// A source of gradients that refuses a buffer of another length.
fn checked(gradient: GradientSource, expected: usize) -> GradientSource {
    Arc::new(move || {
        let buffer = gradient()?;
        check_count("parameter gradient", buffer.len(), &[expected])?;
        Ok(buffer)
    })
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
