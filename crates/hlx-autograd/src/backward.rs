//! The backward pass: the tape walked by decreasing node number.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use hlx_core::{Buffer, Context};
use hlx_kernels::KernelError;
use hlx_kernels::elementwise::{add, add_assign};
use hlx_kernels::reduce::shard_sum;

use crate::Result;
use crate::error::AutogradError;
use crate::input::{Input, Leaf};
use crate::tape::Node;
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
    buffer: Buffer,
    /// Nothing else reads the buffer, so that the pass may add to it in place.
    owned: bool,
}

impl Gradient {
    /// A gradient in a buffer that nothing else uses.
    pub fn owned(buffer: Buffer) -> Self {
        Self {
            buffer,
            owned: true,
        }
    }

    /// A gradient in a buffer that others read too.
    pub fn shared(buffer: Buffer) -> Self {
        Self {
            buffer,
            owned: false,
        }
    }

    /// The values.
    pub fn buffer(&self) -> &Buffer {
        &self.buffer
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
    /// Leaves that hold a gradient are added to, whatever the plan says (PyTorch's rule).
    keep_filled: bool,
    op: &'static str,
    pending: BTreeMap<u64, Pending>,
    written: HashSet<usize>,
}

impl Backward<'_> {
    /// The device's context.
    pub fn context(&self) -> &Context {
        self.ctx
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
            return self.add_to_leaf(leaf, gradient);
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

    /// Takes what has reached an input so far, for a kernel that adds its own to it; the sum then
    /// goes to [`Backward::add`]. `None` for leaves, and where there is none yet.
    pub(crate) fn take_pending(&mut self, input: &Input) -> Option<Gradient> {
        let node = input.node()?;
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
    pub fn open(&mut self, parameter: impl AsRef<Input>, batch: usize) -> Result<ParameterTarget> {
        let parameter = parameter.as_ref();
        self.check_shards(batch)?;
        let elements = parameter.n_elements();
        let whole = self.plan.shards == 1;
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
    pub(crate) fn open_sum(&mut self, parameter: &Input, batch: usize) -> Result<Option<Buffer>> {
        self.check_shards(batch)?;
        let Some(leaf) = parameter.as_leaf() else {
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
        batch: usize,
    ) -> Result<(ParameterTarget, ParameterTarget)> {
        let (first, second) = (first.as_ref(), second.as_ref());
        self.check_shards(batch)?;
        if let (Some(a), Some(b)) = (first.as_leaf(), second.as_leaf())
            && self.plan.shards == 1
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
        let Some(leaf) = parameter.as_leaf() else {
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
        batch: usize,
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

    fn check_shards(&self, batch: usize) -> Result<()> {
        let shards = self.plan.shards;
        if shards > 0 && batch.is_multiple_of(shards) {
            return Ok(());
        }
        Err(AutogradError::Shards {
            op: self.op,
            shards,
            batch,
        })
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

    fn add_to_leaf(&mut self, leaf: &Leaf, gradient: Gradient) -> Result<()> {
        let accumulate = self.continues(leaf)?;
        self.written.insert(leaf.identity());
        let mut slot = leaf.slot();
        slot.filled = true;
        match slot.buffer.take() {
            Some(buffer) if accumulate => {
                add_assign(self.ctx, &buffer, &gradient.buffer)?;
                slot.buffer = Some(buffer);
            }
            Some(buffer) if slot.external => {
                self.ctx.copy(&gradient.buffer, &buffer)?;
                slot.buffer = Some(buffer);
            }
            _ if gradient.owned => slot.buffer = Some(gradient.buffer),
            _ => {
                let buffer = self.ctx.alloc(gradient.buffer.len())?;
                self.ctx.copy(&gradient.buffer, &buffer)?;
                slot.buffer = Some(buffer);
            }
        }
        Ok(())
    }

    /// Adds a later contribution to an earlier one, in that order.
    fn sum(&self, earlier: Gradient, later: Gradient) -> Result<Gradient> {
        if earlier.owned {
            add_assign(self.ctx, &earlier.buffer, &later.buffer)?;
            return Ok(earlier);
        }
        let total = self.ctx.alloc(earlier.buffer.len())?;
        add(self.ctx, &earlier.buffer, &later.buffer, &total)?;
        Ok(Gradient::owned(total))
    }

    fn run(&mut self) -> Result<()> {
        while let Some((_, Pending { node, gradient })) = self.pending.pop_last() {
            self.op = node.op;
            (node.take()?.backward)(self, gradient)?;
        }
        Ok(())
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
        self.differentiate(
            Some(Gradient::shared(upstream.buffer().clone())),
            plan,
            false,
        )
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
        let ctx = self.context();
        let upstream = match upstream {
            Some(gradient) => gradient,
            None if self.n_elements() == 1 => {
                let one = ctx.alloc(1)?;
                ctx.fill(&one, ONE)?;
                Gradient::owned(one)
            }
            None => {
                return Err(AutogradError::NotScalar {
                    found: self.shape().to_vec(),
                });
            }
        };
        let (pending, written) = (BTreeMap::new(), HashSet::new());
        let mut pass = Backward {
            ctx,
            plan,
            keep_filled,
            op: "backward",
            pending,
            written,
        };
        pass.add(self, upstream)?;
        pass.run()
    }
}
