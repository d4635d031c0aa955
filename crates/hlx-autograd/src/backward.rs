//! The backward pass: the tape walked by decreasing node number.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use hlx_core::{Buffer, Context, DType};
use hlx_kernels::elementwise::{Binary, add, add_assign, binary};
use hlx_kernels::reduce::{column_sum, shard_sum};
use hlx_kernels::{KernelError, Layout, Operand};

use crate::Result;
use crate::error::AutogradError;
use crate::input::{Input, Leaf};
use crate::samples::{Batch, Samples};
use crate::tape::{Node, Rule, no_grad};
use crate::tensor::Tensor;

/// The bits of 1.0.
const ONE: u32 = 0x3f80_0000;

/// How a backward pass sums the gradients of parameters.
///
/// Each operation with parameters cuts the leading dimension of its input into `shards` equal
/// blocks, sums the gradient of each as one chain over its rows in order, and adds the shards
/// pairwise: (s0 + s1) + (s2 + s3), and so on. So the bits depend on the batch and on `shards`
/// alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackwardPlan {
    /// The blocks; they must divide the leading dimension.
    pub shards: usize,
    /// Go on from the gradients that are there instead of overwriting them. With one shard the
    /// chain is continued, as if the rows of both passes had come in one; with more, the sum of
    /// the shards is added.
    pub accumulate: bool,
    /// This pass holds the whole batch. Otherwise a parameter that two operations use is refused
    /// ([`AutogradError::SharedParameter`]), as the order of its sum would depend on the split.
    pub whole_batch: bool,
}

impl Default for BackwardPlan {
    fn default() -> Self {
        Self {
            shards: 1,
            accumulate: false,
            whole_batch: true,
        }
    }
}

/// A gradient during the pass.
#[derive(Debug)]
pub struct Gradient {
    values: Values,
    /// Nothing else reads the memory, so that the pass may add to it in place.
    owned: bool,
}

#[derive(Debug)]
enum Values {
    /// Elements in row-major order, of the shape of what the gradient is of.
    Dense(Buffer),
    /// With places of their own, and in a recorded pass with a place on the tape.
    Tensor(Tensor),
}

impl Gradient {
    /// A gradient in a buffer that nothing else uses, in row-major order.
    pub fn owned(buffer: Buffer) -> Self {
        let (values, owned) = (Values::Dense(buffer), true);
        Self { values, owned }
    }

    /// A gradient in a buffer that others read too, in row-major order.
    pub fn shared(buffer: Buffer) -> Self {
        let (values, owned) = (Values::Dense(buffer), false);
        Self { values, owned }
    }

    /// The values in row-major order: their own memory, or a copy of strided ones.
    ///
    /// # Errors
    /// What the device reports.
    pub fn buffer(&self) -> Result<Buffer> {
        match &self.values {
            Values::Dense(buffer) => Ok(buffer.clone()),
            Values::Tensor(tensor) => tensor.buffer(),
        }
    }

    fn of(tensor: Tensor) -> Self {
        let (values, owned) = (Values::Tensor(tensor), false);
        Self { values, owned }
    }

    fn tensor(&self, ctx: &Context, shape: &[usize]) -> Result<Tensor> {
        match &self.values {
            Values::Dense(buffer) => Tensor::from_buffer(ctx, buffer.clone(), shape),
            Values::Tensor(tensor) => Ok(tensor.clone()),
        }
    }
}

/// Where an operation writes the gradient of a parameter, between [`Backward::open`] and
/// [`Backward::close`].
#[derive(Debug)]
pub struct ParameterTarget {
    parameter: Option<Input>,
    /// The buffer to write, of `shards` times the parameter's elements.
    pub buffer: Buffer,
    /// Whether the kernel's chains continue from what the buffer holds.
    pub accumulate: bool,
    direct: bool,
}

/// The gradient of a tensor, incomplete until all its consumers have been differentiated.
struct Pending {
    node: Arc<Node>,
    gradient: Gradient,
}

/// A running backward pass, as the operations see it.
pub struct Backward<'a> {
    ctx: &'a Context,
    plan: &'a BackwardPlan,
    /// The derivatives go on the tape themselves, and what they need stays.
    recorded: bool,
    /// Of a pass that collects the gradients of some tensors instead of those of the leaves, what
    /// has reached each so far.
    wanted: Option<HashMap<usize, Option<Gradient>>>,
    /// Leaves that hold a gradient are added to, whatever the plan says (PyTorch's rule).
    keep_filled: bool,
    op: &'static str,
    pending: BTreeMap<u64, Pending>,
    written: HashSet<usize>,
}

impl<'a> Backward<'a> {
    fn new(ctx: &'a Context, plan: &'a BackwardPlan, keep_filled: bool) -> Self {
        Self {
            ctx,
            plan,
            recorded: false,
            wanted: None,
            keep_filled,
            op: "backward",
            pending: BTreeMap::new(),
            written: HashSet::new(),
        }
    }

    /// The device's context.
    pub fn context(&self) -> &Context {
        self.ctx
    }

    /// Whether the pass is recorded on the tape, so that derivatives must be made of operations.
    pub fn is_recorded(&self) -> bool {
        self.recorded
    }

    /// The plan's number of shards.
    pub fn shards(&self) -> usize {
        self.plan.shards
    }

    /// Adds a gradient to an input's; does nothing if the input requires none.
    ///
    /// # Errors
    /// What the device reports, and [`AutogradError::SharedParameter`].
    pub fn add(&mut self, input: impl AsRef<Input>, gradient: Gradient) -> Result<()> {
        let input = input.as_ref();
        if let Some(leaf) = input.as_leaf() {
            return match self.wanted {
                Some(_) => self.add_to_wanted(leaf.identity(), gradient),
                None => self.add_to_leaf(leaf, input.n_elements(), gradient),
            };
        }
        let Some(node) = input.node() else {
            return Ok(());
        };
        let gradient = match self.pending.remove(&node.id) {
            None => gradient,
            Some(earlier) => self.sum(earlier.gradient, gradient)?,
        };
        self.pending.insert(
            node.id,
            Pending {
                node: Arc::clone(node),
                gradient,
            },
        );
        Ok(())
    }

    /// Adds a gradient that operations have computed.
    ///
    /// # Errors
    /// As [`Backward::add`].
    pub fn add_tensor(&mut self, input: impl AsRef<Input>, gradient: &Tensor) -> Result<()> {
        self.add(input, Gradient::of(gradient.clone()))
    }

    /// Adds the gradient of a tensor of shape `from` that was expanded to dy's: the sum over what
    /// repeats. Where the samples repeat it, that is a parameter's sum by shards: the elements of each
    /// sample in the order of general reductions, the samples of a shard as one chain in order, the
    /// shards pairwise. Else it is one general reduction.
    ///
    /// # Errors
    /// As [`Backward::open`].
    pub(crate) fn add_expanded(
        &mut self,
        x: &Input,
        from: &[usize],
        dy: &Tensor,
        samples: Samples,
    ) -> Result<()> {
        let added = dy.rank() - from.len();
        let repeats =
            |axis: usize| axis < added || (from[axis - added] == 1 && dy.shape()[axis] != 1);
        let axes: Vec<usize> = (0..dy.rank()).filter(|&axis| repeats(axis)).collect();
        match samples {
            Samples::Along { axis, each } if axes.contains(&axis) && !self.recorded => {
                let count = dy.shape()[axis] / each;
                let totals = per_sample(dy, &axes, (axis, each))?;
                let elements = x.n_elements();
                self.parameter(x, Batch::Samples(count), |ctx, target, shards| {
                    let (rows, accumulate) = (count / shards, target.accumulate);
                    column_sum(
                        ctx,
                        &totals,
                        &target.buffer,
                        shards,
                        rows,
                        elements,
                        accumulate,
                    )
                })
            }
            Samples::Along { .. } => self.add_tensor(x, &dy.sum_dims(&axes, from)?),
            Samples::None | Samples::Lost => {
                self.check_shards(match samples {
                    Samples::None => Batch::Unknown,
                    _ => Batch::Lost,
                })?;
                self.add_tensor(x, &dy.sum_dims(&axes, from)?)
            }
        }
    }

    /// Takes what has reached an input so far, for a kernel that adds its own to it; the sum then
    /// goes to [`Backward::add`]. `None` for leaves, and where there is none yet.
    pub(crate) fn take_pending(&mut self, input: &Input) -> Option<Gradient> {
        let node = input.node()?;
        if self.wanted.is_some() {
            return None;
        }
        Some(self.pending.remove(&node.id)?.gradient)
    }

    /// Opens the gradient of a parameter for writing: the operation computes one partial sum a
    /// shard, each over its block of rows in order, into `[shards, elements]`.
    ///
    /// `batch` is the leading dimension that the shards cut.
    ///
    /// # Errors
    /// [`AutogradError::Shards`] if the shards do not divide the batch,
    /// [`AutogradError::SharedParameter`], and what the device reports.
    pub fn open(
        &mut self,
        parameter: impl AsRef<Input>,
        batch: impl Into<Batch>,
    ) -> Result<ParameterTarget> {
        let parameter = parameter.as_ref();
        self.check_shards(batch.into())?;
        let elements = parameter.n_elements();
        let whole = self.plan.shards == 1 && self.wanted.is_none();
        if let Some(leaf) = parameter.as_leaf()
            && whole
        {
            let accumulate = self.continues(leaf)?;
            let mut slot = leaf.slot();
            if slot.buffer.is_none() {
                slot.buffer = Some(self.ctx.alloc(elements)?);
            }
            slot.filled = true;
            if let Some(buffer) = slot.buffer.clone() {
                self.written.insert(leaf.identity());
                let parameter = Some(parameter.clone());
                return Ok(ParameterTarget {
                    parameter,
                    buffer,
                    accumulate,
                    direct: true,
                });
            }
        }
        let mut target = self.scratch(elements)?;
        target.parameter = Some(parameter.clone());
        Ok(target)
    }

    /// Opens the gradient of a parameter for a kernel that adds its shards itself, into
    /// `[elements]`, where this pass writes the gradient and adds to nothing. `None` otherwise:
    /// then [`Backward::open`] it is.
    ///
    /// # Errors
    /// As [`Backward::open`].
    pub(crate) fn open_sum(&mut self, parameter: &Input, batch: Batch) -> Result<Option<Buffer>> {
        self.check_shards(batch)?;
        let Some(leaf) = parameter.as_leaf().filter(|_| self.wanted.is_none()) else {
            return Ok(None);
        };
        if self.continues(leaf)? {
            return Ok(None);
        }
        let mut slot = leaf.slot();
        let buffer = match &slot.buffer {
            Some(buffer) => buffer.clone(),
            None => slot
                .buffer
                .insert(self.ctx.alloc(parameter.n_elements())?)
                .clone(),
        };
        slot.filled = true;
        self.written.insert(leaf.identity());
        Ok(Some(buffer))
    }

    /// Opens two parameters of one kernel, such as gain and bias: both written in place or both
    /// as partial sums, as the kernel has one `accumulate` for both.
    ///
    /// # Errors
    /// As [`Backward::open`].
    pub fn open_pair(
        &mut self,
        first: impl AsRef<Input>,
        second: impl AsRef<Input>,
        batch: impl Into<Batch>,
    ) -> Result<(ParameterTarget, ParameterTarget)> {
        let (first, second) = (first.as_ref(), second.as_ref());
        let batch = batch.into();
        self.check_shards(batch)?;
        if let (Some(a), Some(b)) = (first.as_leaf(), second.as_leaf())
            && self.plan.shards == 1
            && self.wanted.is_none()
            && a.identity() != b.identity()
            && self.continues(a)? == self.continues(b)?
        {
            return Ok((self.open(first, batch)?, self.open(second, batch)?));
        }
        let mut targets = (
            self.scratch(first.n_elements())?,
            self.scratch(second.n_elements())?,
        );
        targets.0.parameter = Some(first.clone()).filter(Input::requires_grad);
        targets.1.parameter = Some(second.clone()).filter(Input::requires_grad);
        Ok(targets)
    }

    /// Closes a parameter's gradient: adds the shards pairwise where there are several.
    ///
    /// # Errors
    /// As [`Backward::open`].
    pub fn close(&mut self, target: ParameterTarget) -> Result<()> {
        let ParameterTarget {
            parameter,
            buffer,
            direct,
            ..
        } = target;
        let Some(parameter) = parameter.filter(|_| !direct) else {
            return Ok(());
        };
        let (elements, shards) = (parameter.n_elements(), self.plan.shards);
        if parameter.as_leaf().is_none() && self.plan.accumulate && shards == 1 {
            return Err(AutogradError::DerivedParameter { op: self.op });
        }
        let Some(leaf) = parameter.as_leaf().filter(|_| self.wanted.is_none()) else {
            let total = if shards == 1 {
                buffer
            } else {
                let total = self.ctx.alloc(elements)?;
                shard_sum(self.ctx, &buffer, &total, shards, elements, false)?;
                total
            };
            return self.add(&parameter, Gradient::owned(total));
        };
        let accumulate = self.continues(leaf)?;
        let mut slot = leaf.slot();
        let out = match &slot.buffer {
            Some(out) => out.clone(),
            None => slot.buffer.insert(self.ctx.alloc(elements)?).clone(),
        };
        slot.filled = true;
        self.written.insert(leaf.identity());
        shard_sum(self.ctx, &buffer, &out, shards, elements, accumulate)?;
        Ok(())
    }

    /// Computes a parameter's gradient: `kernel(ctx, target, shards)` writes a partial sum for each
    /// shard, over its block of rows in order, which are then added pairwise.
    ///
    /// # Errors
    /// As [`Backward::open`].
    pub(crate) fn parameter(
        &mut self,
        parameter: &Input,
        batch: Batch,
        kernel: impl FnOnce(&Context, &ParameterTarget, usize) -> Result<(), KernelError>,
    ) -> Result<()> {
        let target = self.open(parameter, batch)?;
        kernel(self.ctx, &target, self.plan.shards)?;
        self.close(target)
    }

    fn scratch(&self, elements: usize) -> Result<ParameterTarget> {
        let buffer = self.ctx.alloc(self.plan.shards * elements)?;
        Ok(ParameterTarget {
            parameter: None,
            buffer,
            accumulate: false,
            direct: false,
        })
    }

    /// Checks that the plan's shards cut the rows of an operation. A batch of which nothing is known
    /// is one sum, which only a pass over all of it in one shard may make.
    fn check_shards(&self, batch: Batch) -> Result<()> {
        let (op, shards) = (self.op, self.plan.shards);
        let reason = match batch {
            Batch::Samples(batch) if shards > 0 && batch.is_multiple_of(shards) => return Ok(()),
            Batch::Samples(batch) => return Err(AutogradError::Shards { op, shards, batch }),
            _ if shards == 1 && self.plan.whole_batch => return Ok(()),
            Batch::Unknown => "nothing says where the input's samples are (Tensor::with_samples)",
            Batch::Lost => "the input's samples are mixed or not in its first dimension",
        };
        Err(AutogradError::Samples { op, reason })
    }

    /// Whether a leaf's next gradient is added to what is there.
    fn continues(&self, leaf: &Leaf) -> Result<bool> {
        if self.written.contains(&leaf.identity()) {
            if !self.plan.whole_batch {
                let parameter = leaf.name.clone();
                return Err(AutogradError::SharedParameter {
                    op: self.op,
                    parameter,
                });
            }
            return Ok(true);
        }
        let slot = leaf.slot();
        let has_buffer = slot.buffer.is_some();
        Ok((self.plan.accumulate && has_buffer) || (self.keep_filled && slot.filled))
    }

    fn add_to_leaf(&mut self, leaf: &Leaf, elements: usize, gradient: Gradient) -> Result<()> {
        let accumulate = self.continues(leaf)?;
        self.written.insert(leaf.identity());
        let mut slot = leaf.slot();
        slot.filled = true;
        if self.recorded && !slot.external {
            let Values::Tensor(mut total) = gradient.values else {
                return Err(AutogradError::NoSecondDerivative { op: self.op });
            };
            if let Some(earlier) = slot.tensor.take().filter(|_| accumulate) {
                total = earlier.add(&total)?;
            }
            slot.buffer = Some(total.buffer()?);
            slot.tensor = Some(total);
            return Ok(());
        }
        slot.tensor = None;
        let values = gradient.buffer()?;
        let own = gradient.owned || gradient.is_copy(&values);
        match slot.buffer.take() {
            Some(buffer) if accumulate => {
                slot.buffer = Some(self.added(buffer, true, &values)?);
            }
            Some(buffer) if slot.external => {
                self.ctx.copy(&values, &buffer)?;
                slot.buffer = Some(buffer);
            }
            _ if own => slot.buffer = Some(values),
            _ => {
                let buffer = self.ctx.alloc_typed(values.dtype(), elements)?;
                self.ctx.copy(&values, &buffer)?;
                slot.buffer = Some(buffer);
            }
        }
        Ok(())
    }

    /// Adds a later contribution to an earlier one, in its memory where nothing else reads it.
    fn added(&self, earlier: Buffer, owned: bool, later: &Buffer) -> Result<Buffer> {
        let (dtype, len) = (earlier.dtype(), earlier.len());
        if dtype == DType::F32 && owned {
            add_assign(self.ctx, &earlier, later)?;
            return Ok(earlier);
        }
        let total = self.ctx.alloc_typed(dtype, len)?;
        if dtype == DType::F32 {
            add(self.ctx, &earlier, later, &total)?;
            return Ok(total);
        }
        let layout = Layout::contiguous(&[len])?;
        let [one, two] = [&earlier, later].map(|buffer| Operand {
            buffer,
            layout: &layout,
        });
        binary(self.ctx, Binary::Add, DType::F32, one, two, &total)?;
        Ok(total)
    }

    /// Adds to the gradient of a wanted tensor; drops that of another leaf.
    fn add_to_wanted(&mut self, identity: usize, gradient: Gradient) -> Result<()> {
        let Some(slot) = self.wanted.as_mut().and_then(|all| all.get_mut(&identity)) else {
            return Ok(());
        };
        let total = match slot.take() {
            None => gradient,
            Some(earlier) => self.sum(earlier, gradient)?,
        };
        if let Some(slot) = self.wanted.as_mut().and_then(|all| all.get_mut(&identity)) {
            *slot = Some(total);
        }
        Ok(())
    }

    /// Adds a later contribution to an earlier one, in that order.
    fn sum(&self, earlier: Gradient, later: Gradient) -> Result<Gradient> {
        if let (true, Values::Tensor(one), Values::Tensor(two)) =
            (self.recorded, &earlier.values, &later.values)
        {
            return Ok(Gradient::of(one.add(two)?));
        }
        let (owned, two) = (earlier.owned, later.buffer()?);
        Ok(Gradient::owned(self.added(
            earlier.buffer()?,
            owned,
            &two,
        )?))
    }

    fn run(&mut self) -> Result<()> {
        while let Some((_, Pending { node, gradient })) = self.pending.pop_last() {
            self.op = node.op;
            let identity = std::ptr::from_ref(&*node) as usize;
            if self
                .wanted
                .as_ref()
                .is_some_and(|all| all.contains_key(&identity))
            {
                let reached = gradient.tensor(self.ctx, &node.shape)?;
                self.add_to_wanted(identity, Gradient::of(reached))?;
            }
            if self.recorded {
                let (rule, output) = node.rule()?;
                let dy = gradient.tensor(self.ctx, &node.shape)?;
                let input = |y: &Tensor| Input::output_of(Arc::clone(&node), y.n_elements());
                let output = output.map(|y| y.view(y.layout().clone(), y.samples(), input(&y)));
                rule(self, &dy, output.as_ref())?;
                continue;
            }
            match node.take()?.rule {
                Rule::Once(backward) => backward(self, gradient)?,
                Rule::Tensors { rule, output } => {
                    let dy = gradient.tensor(self.ctx, &node.shape)?;
                    no_grad(|| rule(self, &dy, output.as_ref()))?;
                }
            }
        }
        Ok(())
    }
}

/// Sums each sample's elements over the axes: \[samples, what is left\] in row-major order.
fn per_sample(dy: &Tensor, axes: &[usize], (axis, each): (usize, usize)) -> Result<Buffer> {
    let mut shape = dy.shape().to_vec();
    shape[axis] /= each;
    shape.insert(axis + 1, each);
    let mut order: Vec<isize> = (0..shape.len() as isize).collect();
    order.remove(axis);
    order.insert(0, axis as isize);
    let apart = dy.reshape(&shape)?.permute(&order)?;
    // The samples' axis is in front now, and `each` where it was: all others have moved by one.
    let inner: Vec<usize> = axes.iter().map(|&at| at + 1).collect();
    apart.sum_buffer(&inner)
}

impl Gradient {
    /// Whether these values are in memory that only this gradient has.
    fn is_copy(&self, values: &Buffer) -> bool {
        match &self.values {
            Values::Dense(_) => false,
            Values::Tensor(tensor) => !tensor.operand().buffer.overlaps(values),
        }
    }
}

impl Tensor {
    /// Differentiates this scalar with respect to every leaf that it depends on; a leaf that
    /// holds a gradient is added to, as in PyTorch.
    ///
    /// What the graph saved is freed on the way; a second pass through it is an error.
    ///
    /// # Errors
    /// [`AutogradError::NotScalar`], [`AutogradError::NoGraph`], [`AutogradError::Freed`], and
    /// what the device reports.
    pub fn backward(&self) -> Result<()> {
        self.differentiate(None, &BackwardPlan::default(), true)
    }

    /// Differentiates this scalar with sums of parameter gradients as the plan says; leaves that
    /// hold a gradient are overwritten unless the plan accumulates.
    ///
    /// # Errors
    /// As [`Tensor::backward`], [`AutogradError::Shards`] and
    /// [`AutogradError::SharedParameter`].
    pub fn backward_with(&self, plan: &BackwardPlan) -> Result<()> {
        self.differentiate(None, plan, false)
    }

    /// Differentiates the sum of this tensor's elements weighted by `upstream`, a tensor of the
    /// same shape.
    ///
    /// # Errors
    /// As [`Tensor::backward_with`], and [`AutogradError::Shape`].
    pub fn backward_from(&self, upstream: &Tensor, plan: &BackwardPlan) -> Result<()> {
        self.same_context("backward_from", [("the upstream gradient", Some(upstream))])?;
        upstream.expect_shape("backward_from", "the upstream gradient", self.shape())?;
        self.differentiate(Some(Gradient::shared(upstream.buffer()?)), plan, false)
    }

    /// Differentiates as [`Tensor::backward`], and records the pass on the tape: the gradients that
    /// it leaves in the leaves can be differentiated again (PyTorch's `create_graph=True`). Nothing
    /// that the graph saved is freed.
    ///
    /// # Errors
    /// As [`Tensor::backward`], and [`AutogradError::NoSecondDerivative`].
    pub fn backward_recorded(&self) -> Result<()> {
        let plan = BackwardPlan::default();
        let upstream = self.unit_gradient()?;
        let mut pass = Backward::new(self.context(), &plan, true);
        pass.recorded = true;
        pass.add_tensor(self, &upstream)?;
        pass.run()
    }

    /// Computes the gradients of this scalar by some tensors, leaves or not, and leaves the gradients
    /// of all leaves as they are, as `torch.autograd.grad`. With `recorded` the results can be
    /// differentiated again, and the graph stays. `None` where the scalar does not depend on a tensor.
    ///
    /// # Errors
    /// As [`Tensor::backward`] and [`Tensor::backward_recorded`].
    pub fn gradients(&self, by: &[&Tensor], recorded: bool) -> Result<Vec<Option<Tensor>>> {
        let plan = BackwardPlan::default();
        let upstream = self.unit_gradient()?;
        let mut pass = Backward::new(self.context(), &plan, false);
        pass.recorded = recorded;
        let identities: Vec<_> = by.iter().map(|tensor| tensor.input().identity()).collect();
        let wanted = identities
            .iter()
            .flatten()
            .map(|&identity| (identity, None));
        pass.wanted = Some(wanted.collect());
        pass.add_tensor(self, &upstream)?;
        pass.run()?;
        let reached = pass.wanted.take().unwrap_or_default();
        let of = |(identity, tensor): (&Option<usize>, &&Tensor)| {
            let gradient = identity.and_then(|identity| reached.get(&identity)?.as_ref());
            gradient
                .map(|gradient| gradient.tensor(tensor.context(), tensor.shape()))
                .transpose()
        };
        identities.iter().zip(by).map(of).collect()
    }

    /// The gradient that a pass starts from: one.
    fn unit_gradient(&self) -> Result<Tensor> {
        if !self.requires_grad() {
            return Err(AutogradError::NoGraph);
        }
        if self.n_elements() != 1 {
            return Err(AutogradError::NotScalar {
                found: self.shape().to_vec(),
            });
        }
        let one = self.context().alloc(1)?;
        self.context().fill(&one, ONE)?;
        Tensor::from_buffer(self.context(), one, self.shape())
    }

    fn differentiate(
        &self,
        upstream: Option<Gradient>,
        plan: &BackwardPlan,
        keep_filled: bool,
    ) -> Result<()> {
        if !self.requires_grad() {
            return Err(AutogradError::NoGraph);
        }
        let upstream = match upstream {
            Some(gradient) => gradient,
            None => Gradient::owned(self.unit_gradient()?.buffer()?),
        };
        let mut pass = Backward::new(self.context(), plan, keep_filled);
        pass.add(self, upstream)?;
        pass.run()
    }
}
