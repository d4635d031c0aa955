//! `Tensor`: a typed, strided array on a device, with its place on the tape.

use std::fmt;
use std::sync::{Arc, OnceLock};

use hlx_core::{ALIGNMENT_WORDS, Buffer, Context, DType, Element};
use hlx_kernels::elementwise::copy_strided;
use hlx_kernels::{Layout, Operand};

use crate::Result;
use crate::backward::{Backward, Gradient};
use crate::error::AutogradError;
use crate::input::{Input, Leaf};
use crate::samples::{Batch, Samples};
use crate::saved::{Recipe, Saved};
use crate::tape::{Node, Rule, gradients_enabled};

/// An array on a device. Clones share the memory and the place on the tape.
#[derive(Clone)]
pub struct Tensor(Arc<Inner>);

struct Inner {
    ctx: Context,
    /// The memory that the layout's places count in; views share it.
    storage: Buffer,
    layout: Layout,
    samples: Samples,
    input: Input,
    /// How to compute the values again from what is saved anyway, if that is cheap.
    recipe: OnceLock<Recipe>,
}

impl Tensor {
    /// Uploads values: `shape` gives the extents, outermost first. Subnormals become zero.
    ///
    /// # Errors
    /// [`AutogradError::Shape`] if the shape's product is not the number of values.
    pub fn from_slice(ctx: &Context, values: &[f32], shape: &[usize]) -> Result<Self> {
        check_count("from_slice", values.len(), shape)?;
        Self::from_buffer(ctx, ctx.buffer_f32(values)?, shape)
    }

    /// Uploads ids, such as tokens; no gradient flows into them.
    ///
    /// # Errors
    /// [`AutogradError::Shape`] if the shape's product is not the number of ids.
    pub fn ids(ctx: &Context, ids: &[u32], shape: &[usize]) -> Result<Self> {
        check_count("ids", ids.len(), shape)?;
        Self::from_buffer(ctx, ctx.buffer_u32(ids)?, shape)
    }

    /// Wraps a buffer of values; nothing is copied.
    ///
    /// # Errors
    /// [`AutogradError::Shape`] if the shape's product is not the buffer's length.
    pub fn from_buffer(ctx: &Context, buffer: Buffer, shape: &[usize]) -> Result<Self> {
        check_count("from_buffer", buffer.len(), shape)?;
        let input = Input::constant(buffer.len());
        Self::dense_over(ctx, buffer, shape, Samples::None, input)
    }

    /// Wraps a named parameter and the buffer that its gradient is written into, such as a
    /// window of the one flat gradient buffer of a model.
    ///
    /// # Errors
    /// [`AutogradError::Shape`] if the shape's product is not the length of both buffers.
    pub fn parameter(
        ctx: &Context,
        name: &str,
        values: Buffer,
        gradient: Buffer,
        shape: &[usize],
    ) -> Result<Self> {
        check_count("parameter", values.len(), shape)?;
        check_count("parameter gradient", gradient.len(), shape)?;
        let input = Input::leaf(name, Some(gradient), values.len());
        Self::dense_over(ctx, values, shape, Samples::None, input)
    }

    /// Returns a leaf over the same memory whose gradient is collected, as PyTorch's
    /// `detach().requires_grad_()`.
    #[must_use]
    pub fn with_gradient(&self) -> Self {
        self.at(Input::leaf("(unnamed)", None, self.n_elements()))
    }

    /// Returns a tensor over the same memory that is no part of the tape.
    #[must_use]
    pub fn detach(&self) -> Self {
        self.at(Input::constant(self.n_elements()))
    }

    /// The same memory at another place of the tape.
    fn at(&self, input: Input) -> Self {
        self.view(self.0.layout.clone(), self.0.samples, input)
    }

    /// Other places in the same memory, at a place of the tape.
    pub(crate) fn view(&self, layout: Layout, samples: Samples, input: Input) -> Self {
        Self(Arc::new(Inner {
            ctx: self.0.ctx.clone(),
            storage: self.0.storage.clone(),
            layout,
            samples,
            input,
            recipe: OnceLock::new(),
        }))
    }

    /// States that the samples of a batch lie along a dimension, one index each. The batch of a
    /// training pass needs it where the pass sums by shards ([`BackwardPlan`](crate::BackwardPlan));
    /// operations carry it on.
    ///
    /// # Errors
    /// [`AutogradError::Shape`] if the tensor has no such dimension.
    pub fn with_samples(&self, axis: usize) -> Result<Self> {
        if axis >= self.rank() {
            let expected = format!("one with a dimension {axis}");
            return Err(self.shape_error("with_samples", "the tensor", expected));
        }
        let input = self.input();
        Ok(self.view(self.0.layout.clone(), Samples::along(axis), input))
    }

    /// Makes the output of an operation and puts on the tape how to differentiate it.
    ///
    /// `backward` takes the output's gradient and hands each input's to the pass (see
    /// [`Backward`]). It goes on the tape, with all it captures, only if one of `inputs` requires a
    /// gradient and this thread is not within [`no_grad`](crate::no_grad). Capture the buffers that
    /// the derivative reads and [`Tensor::input`] of the others: captured tensors keep their memory.
    /// To save the output itself, capture its buffer: the tensor would keep itself alive.
    ///
    /// The output's samples are those of the inputs, if they agree; an operation that moves them
    /// says so with [`Tensor::with_samples_of`].
    ///
    /// # Errors
    /// [`AutogradError::Shape`] if the shape's product is not the buffer's length,
    /// [`AutogradError::Context`] if the inputs are not of one context.
    pub fn from_operation(
        op: &'static str,
        inputs: &[&Tensor],
        buffer: Buffer,
        shape: &[usize],
        backward: impl FnOnce(&mut Backward<'_>, Gradient) -> Result<()> + Send + 'static,
    ) -> Result<Self> {
        check_count(op, buffer.len(), shape)?;
        let rule = || Rule::Once(Box::new(backward));
        let input = Self::place(op, inputs, (shape, buffer.len()), rule)?;
        let samples = Samples::join(inputs.iter().map(|input| input.samples()));
        let samples = samples.moved(|axis| Some(axis).filter(|&axis| axis < shape.len()));
        Self::dense_over(inputs[0].context(), buffer, shape, samples, input)
    }

    /// The output of an operation whose derivative is made of operations: `rule(pass, dy, None)` hands
    /// the gradients of the inputs to the pass.
    pub(crate) fn of_rule(
        op: &'static str,
        inputs: &[&Tensor],
        output: (Buffer, &[usize]),
        rule: impl Fn(&mut Backward<'_>, &Tensor, Option<&Tensor>) -> Result<()> + Send + Sync + 'static,
    ) -> Result<Self> {
        Self::of_saving_rule(op, inputs, output, false, rule)
    }

    /// As [`Tensor::of_rule`], of a rule that gets the output too: `rule(pass, dy, Some(y))`.
    pub(crate) fn of_output_rule(
        op: &'static str,
        inputs: &[&Tensor],
        output: (Buffer, &[usize]),
        rule: impl Fn(&mut Backward<'_>, &Tensor, Option<&Tensor>) -> Result<()> + Send + Sync + 'static,
    ) -> Result<Self> {
        Self::of_saving_rule(op, inputs, output, true, rule)
    }

    fn of_saving_rule(
        op: &'static str,
        inputs: &[&Tensor],
        (buffer, shape): (Buffer, &[usize]),
        saves_output: bool,
        rule: impl Fn(&mut Backward<'_>, &Tensor, Option<&Tensor>) -> Result<()> + Send + Sync + 'static,
    ) -> Result<Self> {
        check_count(op, buffer.len(), shape)?;
        let samples = Samples::join(inputs.iter().map(|input| input.samples()));
        let samples = samples.moved(|axis| Some(axis).filter(|&axis| axis < shape.len()));
        let (ctx, len) = (inputs[0].context(), buffer.len());
        let constant = Input::constant(len);
        let values = Self::dense_over(ctx, buffer, shape, samples, constant)?;
        let output = saves_output.then(|| values.clone());
        let rule = Arc::new(rule);
        let input = Self::place(op, inputs, (shape, len), || Rule::Tensors { rule, output })?;
        Ok(values.at(input))
    }

    /// The place on the tape of an operation's output: a node if a gradient is wanted.
    pub(crate) fn place(
        op: &'static str,
        inputs: &[&Tensor],
        (shape, n_elements): (&[usize], usize),
        rule: impl FnOnce() -> Rule,
    ) -> Result<Input> {
        let others = inputs.iter().map(|input| ("an input", Some(*input)));
        inputs[0].same_context(op, others)?;
        let tracked = gradients_enabled() && inputs.iter().any(|input| input.requires_grad());
        if !tracked {
            return Ok(Input::constant(n_elements));
        }
        let producers = inputs.iter().filter_map(|input| input.0.input.node());
        let node = Node::new(op, shape, producers.cloned().collect(), rule());
        Ok(Input::operation(node, n_elements))
    }

    /// A buffer's elements in row-major order.
    pub(crate) fn dense_over(
        ctx: &Context,
        buffer: Buffer,
        shape: &[usize],
        samples: Samples,
        input: Input,
    ) -> Result<Self> {
        Ok(Self(Arc::new(Inner {
            ctx: ctx.clone(),
            storage: buffer,
            layout: Layout::contiguous(shape)?,
            samples,
            input,
            recipe: OnceLock::new(),
        })))
    }

    /// The tensor with its samples where an operation has moved them.
    pub fn with_samples_of(self, samples: Samples) -> Self {
        if samples == self.samples() {
            return self;
        }
        let input = self.input();
        self.view(self.0.layout.clone(), samples, input)
    }

    /// Notes how to compute these values again from what the backward pass has anyway.
    pub(crate) fn with_recipe(self, recipe: Recipe) -> Self {
        if self.requires_grad() {
            // The tensor is new, so that it has no recipe yet.
            let _ = self.0.recipe.set(recipe);
        }
        self
    }

    /// Saves the values for a backward pass, as cheaply as that can be.
    pub(crate) fn save(&self) -> Result<Saved> {
        Ok(Saved::of(&self.0.ctx, &self.buffer()?, self.0.recipe.get()))
    }

    /// The device's context.
    pub fn context(&self) -> &Context {
        &self.0.ctx
    }

    /// The elements in row-major order: the tensor's own memory if they lie so, else a copy.
    ///
    /// # Errors
    /// What the device reports.
    pub fn buffer(&self) -> Result<Buffer> {
        let layout = &self.0.layout;
        let unit = ALIGNMENT_WORDS * self.dtype().per_word();
        if layout.is_contiguous() && layout.offset().is_multiple_of(unit) {
            let (offset, len) = (layout.offset(), self.n_elements());
            return Ok(self.0.storage.slice(offset, len)?);
        }
        let out = self.0.ctx.alloc_typed(self.dtype(), self.n_elements())?;
        copy_strided(&self.0.ctx, self.operand(), &out)?;
        Ok(out)
    }

    /// The memory and the elements' places in it, for kernels that take strides.
    pub fn operand(&self) -> Operand<'_> {
        Operand {
            buffer: &self.0.storage,
            layout: &self.0.layout,
        }
    }

    /// Where the elements lie in memory.
    pub fn layout(&self) -> &Layout {
        &self.0.layout
    }

    /// Where the samples of a batch lie.
    pub fn samples(&self) -> Samples {
        self.0.samples
    }

    /// The extents, outermost first; empty for a scalar.
    pub fn shape(&self) -> &[usize] {
        self.0.layout.shape()
    }

    /// The number of dimensions.
    pub fn rank(&self) -> usize {
        self.0.layout.rank()
    }

    /// The number of elements.
    pub fn n_elements(&self) -> usize {
        self.0.layout.n_elements()
    }

    /// The type of the elements.
    pub fn dtype(&self) -> DType {
        self.0.storage.dtype()
    }

    /// Whether a backward pass through this tensor collects or passes on a gradient.
    pub fn requires_grad(&self) -> bool {
        self.0.input.requires_grad()
    }

    /// Downloads f32 values in row-major order; waits for the device.
    ///
    /// # Errors
    /// [`AutogradError::DType`] for another type, and what the device reports.
    pub fn to_vec(&self) -> Result<Vec<f32>> {
        self.to_vec_of("to_vec")
    }

    /// Downloads ids in row-major order; waits for the device.
    ///
    /// # Errors
    /// [`AutogradError::DType`] for another type, and what the device reports.
    pub fn to_ids(&self) -> Result<Vec<u32>> {
        self.to_vec_of("to_ids")
    }

    /// Downloads elements of any type in row-major order; waits for the device.
    ///
    /// # Errors
    /// [`AutogradError::DType`] for another type, and what the device reports.
    pub fn to_elements<T: Element>(&self) -> Result<Vec<T>> {
        self.to_vec_of("to_elements")
    }

    /// Downloads the one element of a tensor, as `torch.Tensor.item`; waits for the device.
    ///
    /// # Errors
    /// [`AutogradError::Shape`] for more or fewer elements, [`AutogradError::DType`] for another type.
    pub fn item<T: Element>(&self) -> Result<T> {
        match self.to_vec_of("item")?.as_slice() {
            &[element] => Ok(element),
            _ => Err(self.shape_error("item", "the tensor", "one element")),
        }
    }

    fn to_vec_of<T: Element>(&self, op: &'static str) -> Result<Vec<T>> {
        self.expect_type(op, "the tensor", T::DTYPE)?;
        if self.n_elements() == 0 {
            return Ok(Vec::new());
        }
        Ok(self.0.ctx.download(&self.buffer()?)?)
    }

    /// The gradient that backward passes have left in this leaf since [`Tensor::zero_grad`];
    /// `None` before, and for tensors that are no leaves.
    pub fn grad(&self) -> Option<Tensor> {
        let slot = self.leaf()?.slot();
        if let Some(gradient) = &slot.tensor {
            return Some(gradient.clone());
        }
        let buffer = slot.buffer.as_ref().filter(|_| slot.filled)?;
        let input = Input::constant(buffer.len());
        let (ctx, shape) = (self.context(), self.shape());
        Self::dense_over(ctx, buffer.clone(), shape, Samples::None, input).ok()
    }

    /// Discards this leaf's gradient: the next backward pass overwrites it. Nothing is written to
    /// the device.
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
    pub fn input(&self) -> Input {
        self.0.input.clone()
    }

    /// Checks that an operation's other arguments are of this tensor's context.
    pub(crate) fn same_context<'a>(
        &self,
        op: &'static str,
        others: impl IntoIterator<Item = (&'static str, Option<&'a Tensor>)>,
    ) -> Result<()> {
        for (argument, other) in others {
            let Some(other) = other.filter(|other| !other.context().is_same(self.context())) else {
                continue;
            };
            return Err(AutogradError::Context {
                op,
                argument,
                found: other.context().label().to_owned(),
                expected: self.context().label().to_owned(),
            });
        }
        Ok(())
    }

    pub(crate) fn expect_type(
        &self,
        op: &'static str,
        argument: &'static str,
        expected: DType,
    ) -> Result<()> {
        let found = self.dtype();
        if found == expected {
            return Ok(());
        }
        Err(AutogradError::DType {
            op,
            argument,
            found,
            expected,
        })
    }

    /// Checks that this argument holds values of the given shape.
    pub(crate) fn expect_shape(
        &self,
        op: &'static str,
        argument: &'static str,
        expected: &[usize],
    ) -> Result<()> {
        self.expect_type(op, argument, DType::F32)?;
        if self.shape() == expected {
            return Ok(());
        }
        Err(self.shape_error(op, argument, format!("{expected:?}")))
    }

    pub(crate) fn shape_error(
        &self,
        op: &'static str,
        argument: &'static str,
        expected: impl Into<String>,
    ) -> AutogradError {
        let found = self.shape().to_vec();
        AutogradError::Shape {
            op,
            argument,
            found,
            expected: expected.into(),
        }
    }

    /// Splits the shape into rows (all but the last extent) and columns (the last).
    pub(crate) fn rows_and_columns(&self, op: &'static str) -> Result<(usize, usize)> {
        self.expect_type(op, "the input", DType::F32)?;
        match self.shape().split_last() {
            Some((&columns, leading)) => Ok((leading.iter().product(), columns)),
            None => Err(self.shape_error(op, "the input", "at least one dimension")),
        }
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

fn check_count(op: &'static str, found: usize, shape: &[usize]) -> Result<()> {
    if shape.iter().product::<usize>() == found {
        return Ok(());
    }
    Err(AutogradError::Shape {
        op,
        argument: "the tensor",
        found: shape.to_vec(),
        expected: format!("one of {found} elements"),
    })
}
