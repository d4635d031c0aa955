//! The gradients of parameters: one partial sum per shard, and the shards added pairwise.

use std::sync::Arc;

use hlx_core::{Buffer, Device};
use hlx_kernels::KernelError;
use hlx_kernels::reduce::{column_sum, shard_sum};

use super::{Backward, Gradient};
use crate::error::AutogradError;
use crate::graph::input::{Input, Leaf};
use crate::samples::{Batch, Samples};
use crate::{Result, Tensor};

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

impl Backward<'_> {
    /// Adds the gradient of a tensor that was expanded from `from`, a shape of its elements, to dy's: the sum over what
    /// repeats, in the tensor's own shape. Where the samples repeat it, that is a parameter's sum by shards: the elements of each
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
        let shape = x.shape().unwrap_or(from);
        match samples {
            Samples::Along { axis, each } if axes.contains(&axis) && !self.recorded => {
                let count = dy.shape()[axis] / each;
                let totals = per_sample(dy, &axes, axis, each)?;
                let elements = x.n_elements();
                self.parameter(x, Batch::Samples(count), |device, target, shards| {
                    let (rows, accumulate) = (count / shards, target.accumulate);
                    column_sum(
                        device,
                        &totals,
                        &target.buffer,
                        shards,
                        rows,
                        elements,
                        accumulate,
                    )
                })
            }
            Samples::Along { .. } => self.add_tensor(x, &dy.sum_dims(&axes, shape)?),
            Samples::None | Samples::Lost => {
                self.check_shards(match samples {
                    Samples::None => Batch::Unknown,
                    _ => Batch::Lost,
                })?;
                self.add_tensor(x, &dy.sum_dims(&axes, shape)?)
            }
        }
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
        if let Some(leaf) = plain_leaf(parameter)
            && whole
        {
            let accumulate = self.continues(leaf)?;
            let mut slot = leaf.slot();
            if slot.buffer.is_none() {
                slot.buffer = Some(self.device.alloc(elements)?);
            }
            slot.filled = true;
            if let Some(buffer) = slot.buffer.clone() {
                self.note_written(leaf);
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
        let Some(leaf) = plain_leaf(parameter).filter(|_| self.wanted.is_none()) else {
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
                .insert(self.device.alloc(parameter.n_elements())?)
                .clone(),
        };
        slot.filled = true;
        self.note_written(leaf);
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
        if let (Some(a), Some(b)) = (plain_leaf(first), plain_leaf(second))
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
        let leaf = plain_leaf(&parameter);
        if leaf.is_none() && self.plan.accumulate && shards == 1 {
            return Err(AutogradError::DerivedParameter { op: self.op });
        }
        let Some(leaf) = leaf.filter(|_| self.wanted.is_none()) else {
            let total = if shards == 1 {
                buffer
            } else {
                let total = self.device.alloc(elements)?;
                shard_sum(&self.device, &buffer, &total, shards, elements, false)?;
                total
            };
            return self.add(&parameter, Gradient::owned(total));
        };
        let accumulate = self.continues(leaf)?;
        let mut slot = leaf.slot();
        let out = match &slot.buffer {
            Some(out) => out.clone(),
            None => slot.buffer.insert(self.device.alloc(elements)?).clone(),
        };
        slot.filled = true;
        self.note_written(leaf);
        shard_sum(&self.device, &buffer, &out, shards, elements, accumulate)?;
        Ok(())
    }

    /// Computes a parameter's gradient: `kernel(device, target, shards)` writes a partial sum for each
    /// shard, over its block of rows in order, which are then added pairwise.
    ///
    /// # Errors
    /// As [`Backward::open`].
    pub(crate) fn parameter(
        &mut self,
        parameter: &Input,
        batch: Batch,
        kernel: impl FnOnce(&Device, &ParameterTarget, usize) -> Result<(), KernelError>,
    ) -> Result<()> {
        let target = self.open(parameter, batch)?;
        kernel(&self.device, &target, self.plan.shards)?;
        self.close(target)
    }

    fn scratch(&self, elements: usize) -> Result<ParameterTarget> {
        let buffer = self.device.alloc_shape(&[self.plan.shards, elements])?;
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
}

/// A leaf whose gradient may be written as it is computed: no hook waits for the whole.
fn plain_leaf(parameter: &Input) -> Option<&Arc<Leaf>> {
    let leaf = parameter.as_leaf()?;
    leaf.hooks.is_empty().then_some(leaf)
}

/// Sums each sample's elements over the axes: \[samples, what is left\] in row-major order.
fn per_sample(dy: &Tensor, axes: &[usize], axis: usize, each: usize) -> Result<Buffer> {
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
