//! `Tensor`: a contiguous row-major array on a device, with its place on the tape.

use std::fmt;
use std::sync::{Arc, OnceLock};

use hlx_core::{Buffer, Context};

use crate::Result;
use crate::backward::{Backward, Gradient};
use crate::error::AutogradError;
use crate::input::{Input, Leaf};
use crate::saved::{Recipe, Saved};
use crate::tape::{Node, gradients_enabled};

/// What the 4-byte words of a tensor are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataType {
    /// IEEE binary32 values.
    F32,
    /// Unsigned ids, such as tokens and targets.
    U32,
}

impl fmt::Display for DataType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::F32 => "f32 values",
            Self::U32 => "u32 ids",
        })
    }
}

/// An array on a device. Clones share the memory and the place on the tape.
#[derive(Clone)]
pub struct Tensor(Arc<Inner>);

struct Inner {
    ctx: Context,
    buffer: Buffer,
    shape: Vec<usize>,
    data_type: DataType,
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
        Self::ids_from_buffer(ctx, ctx.buffer_u32(ids)?, shape)
    }

    /// Wraps a buffer of values; nothing is copied.
    ///
    /// # Errors
    /// [`AutogradError::Shape`] if the shape's product is not the buffer's length.
    pub fn from_buffer(ctx: &Context, buffer: Buffer, shape: &[usize]) -> Result<Self> {
        check_count("from_buffer", buffer.len(), shape)?;
        let input = Input::constant(buffer.len());
        Ok(Self::new(ctx, buffer, shape, DataType::F32, input))
    }

    /// Wraps a buffer of ids; nothing is copied.
    ///
    /// # Errors
    /// [`AutogradError::Shape`] if the shape's product is not the buffer's length.
    pub fn ids_from_buffer(ctx: &Context, buffer: Buffer, shape: &[usize]) -> Result<Self> {
        check_count("ids_from_buffer", buffer.len(), shape)?;
        let input = Input::constant(buffer.len());
        Ok(Self::new(ctx, buffer, shape, DataType::U32, input))
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
        Ok(Self::new(ctx, values, shape, DataType::F32, input))
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
        let Inner {
            ctx,
            buffer,
            shape,
            data_type,
            ..
        } = &*self.0;
        Self::new(ctx, buffer.clone(), shape, *data_type, input)
    }

    /// Makes the output of an operation and puts on the tape how to differentiate it.
    ///
    /// `backward` takes the output's gradient and hands each input's to the pass (see
    /// [`Backward`]). It goes on the tape, with all it captures, only if one of `inputs` requires a
    /// gradient and this thread is not within [`no_grad`](crate::no_grad). Capture the buffers that
    /// the derivative reads and [`Tensor::input`] of the others: captured tensors keep their memory.
    /// To save the output itself, capture its buffer: the tensor would keep itself alive.
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
        let others = inputs.iter().map(|input| ("an input", Some(*input)));
        inputs[0].same_context(op, others)?;
        let tracked = gradients_enabled() && inputs.iter().any(|input| input.requires_grad());
        let input = if tracked {
            let producers = inputs.iter().filter_map(|input| input.0.input.node());
            let node = Node::new(op, producers.cloned().collect(), Box::new(backward));
            Input::operation(node, buffer.len())
        } else {
            Input::constant(buffer.len())
        };
        Ok(Self::new(
            inputs[0].context(),
            buffer,
            shape,
            DataType::F32,
            input,
        ))
    }

    fn new(
        ctx: &Context,
        buffer: Buffer,
        shape: &[usize],
        data_type: DataType,
        input: Input,
    ) -> Self {
        let ctx = ctx.clone();
        Self(Arc::new(Inner {
            ctx,
            buffer,
            shape: shape.to_vec(),
            data_type,
            input,
            recipe: OnceLock::new(),
        }))
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
    pub(crate) fn save(&self) -> Saved {
        Saved::of(&self.0.ctx, &self.0.buffer, self.0.recipe.get())
    }

    /// The device's context.
    pub fn context(&self) -> &Context {
        &self.0.ctx
    }

    /// The memory.
    pub fn buffer(&self) -> &Buffer {
        &self.0.buffer
    }

    /// The extents, outermost first; empty for a scalar.
    pub fn shape(&self) -> &[usize] {
        &self.0.shape
    }

    /// The number of elements.
    pub fn n_elements(&self) -> usize {
        self.0.buffer.len()
    }

    /// What the elements are.
    pub fn data_type(&self) -> DataType {
        self.0.data_type
    }

    /// Whether a backward pass through this tensor collects or passes on a gradient.
    pub fn requires_grad(&self) -> bool {
        self.0.input.requires_grad()
    }

    /// Downloads the values; waits for the device.
    ///
    /// # Errors
    /// [`AutogradError::DataType`] for ids, and what the device reports.
    pub fn to_vec(&self) -> Result<Vec<f32>> {
        self.expect_type("to_vec", "the tensor", DataType::F32)?;
        Ok(self.0.ctx.download_f32(&self.0.buffer)?)
    }

    /// Downloads the ids; waits for the device.
    ///
    /// # Errors
    /// [`AutogradError::DataType`] for values, and what the device reports.
    pub fn to_ids(&self) -> Result<Vec<u32>> {
        self.expect_type("to_ids", "the tensor", DataType::U32)?;
        Ok(self.0.ctx.download_u32(&self.0.buffer)?)
    }

    /// The gradient that backward passes have left in this leaf since [`Tensor::zero_grad`];
    /// `None` before, and for tensors that are no leaves.
    pub fn grad(&self) -> Option<Tensor> {
        let slot = self.leaf()?.slot();
        let buffer = slot.buffer.as_ref().filter(|_| slot.filled)?;
        let input = Input::constant(buffer.len());
        let shape = self.shape();
        Some(Self::new(
            self.context(),
            buffer.clone(),
            shape,
            DataType::F32,
            input,
        ))
    }

    /// Discards this leaf's gradient: the next backward pass overwrites it. Nothing is written to
    /// the device.
    pub fn zero_grad(&self) {
        if let Some(leaf) = self.leaf() {
            let mut slot = leaf.slot();
            slot.filled = false;
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
        expected: DataType,
    ) -> Result<()> {
        let found = self.data_type();
        if found == expected {
            return Ok(());
        }
        Err(AutogradError::DataType {
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
        self.expect_type(op, argument, DataType::F32)?;
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
        self.expect_type(op, "the input", DataType::F32)?;
        match self.shape().split_last() {
            Some((&columns, leading)) => Ok((leading.iter().product(), columns)),
            None => Err(self.shape_error(op, "the input", "at least one dimension")),
        }
    }

    /// The leading extent, over which the shard rule cuts; 1 for a single row.
    pub(crate) fn batch(&self) -> usize {
        if self.shape().len() > 1 {
            self.shape()[0]
        } else {
            1
        }
    }
}

impl fmt::Debug for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Tensor({:?} of {}, {})",
            self.shape(),
            self.data_type(),
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
    if shape.iter().product::<usize>() == found && found > 0 {
        return Ok(());
    }
    let expected = format!("one of {found} elements (and at least one)");
    Err(AutogradError::Shape {
        op,
        argument: "the tensor",
        found: shape.to_vec(),
        expected,
    })
}
