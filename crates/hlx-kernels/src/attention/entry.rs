//! Attention for the layers above: one entry for every arithmetic, layout and device.

use hlx_core::{Buffer, Device};

use super::dropped::{DroppedWeights, dropped_attention_backward, dropped_attention_forward};
use super::plan::Plan;
use super::ranged::{
    self, AttentionInputs, AttentionSaved, IntegerOperands, JointGradients, Limits,
    RangedAttention, few_queries_attention_forward, query_ranges, ranged_attention_backward,
    ranged_attention_forward,
};
use super::{AttentionShape, attention_backward, attention_forward};
use crate::elementwise::assign_strided;
use crate::{KernelError, Layout, Operand};

/// What both passes of an attention read.
#[derive(Clone, Copy, Debug)]
pub struct AttentionOperands<'a> {
    /// q, `[B, T, H, D]`, k and v, `[B, S, G, D]`; their last dimension is dense.
    pub heads: [Operand<'a>; 3],
    /// The memory of all three, if they lie in it as [`layouts_of_packed`] says.
    pub packed: Option<&'a Buffer>,
    /// What limits the keys that a query sees.
    pub limits: Limits<'a>,
    /// Where weights are dropped two words, `[step, first sample]`, as in
    /// [`dropout`](crate::dropout::dropout).
    pub counter: Option<&'a Buffer>,
}

/// Where q, k and v lie in a packed `[B, T, 3, H, D]`.
///
/// # Errors
/// If it has more elements than memory.
pub fn layouts_of_packed(attention: &RangedAttention) -> Result<[Layout; 3], KernelError> {
    let of = attention;
    let joint = Layout::contiguous(&[of.batch, of.queries, 3, of.heads, of.head_width])?;
    let part = |idx| {
        let part = joint.select(2, idx);
        part.map_err(|reason| KernelError::Argument {
            operation: "attention",
            reason,
        })
    };
    Ok([part(0)?, part(1)?, part(2)?])
}

/// What a backward pass reads besides the operands.
#[derive(Clone, Copy, Debug)]
pub struct AttentionOutput<'a> {
    /// The forward's output.
    pub o: &'a Buffer,
    /// The forward's statistics.
    pub stats: &'a Buffer,
    /// The gradient of `o`.
    pub d_o: &'a Buffer,
}

/// An attention whose kernels are chosen, with what they read instead of the operands.
pub struct PreparedAttention {
    attention: RangedAttention,
    kernels: Kernels,
}

/// The kernels, with what queries see where they read it.
enum Kernels {
    Packed(AttentionShape),
    Integers(Buffer, Box<IntegerOperands>),
    Few(Buffer),
    Rows(Buffer),
}

impl PreparedAttention {
    /// Chooses kernels for a forward pass, and a backward pass if there is one, and launches what prepares operands.
    ///
    /// # Errors
    /// If a buffer or operand has another shape, a size is out of range, or a launch fails.
    pub fn new(
        device: &Device,
        operands: &AttentionOperands<'_>,
        attention: &RangedAttention,
        for_backward: bool,
    ) -> Result<Self, KernelError> {
        Self::over(device, operands, None, attention, for_backward)
    }

    /// As [`PreparedAttention::new`]; `ranges` are what queries see, where that is known.
    pub(super) fn over(
        device: &Device,
        operands: &AttentionOperands<'_>,
        ranges: Option<&Buffer>,
        attention: &RangedAttention,
        for_backward: bool,
    ) -> Result<Self, KernelError> {
        let ranges = || match ranges {
            Some(ranges) => Ok(ranges.clone()),
            None => operands.ranges(device, attention),
        };
        let kernels = match Plan::of(device, operands, attention) {
            Plan::Packed(shape) => Kernels::Packed(shape),
            Plan::Few => Kernels::Few(ranges()?),
            Plan::Rows => Kernels::Rows(ranges()?),
            Plan::Integers => {
                let ranges = ranges()?;
                let inputs = operands.inputs(&ranges);
                let integers = IntegerOperands::new(device, &inputs, attention, for_backward)?;
                Kernels::Integers(ranges, Box::new(integers))
            }
        };
        Ok(Self {
            attention: *attention,
            kernels,
        })
    }

    /// Computes `o`, `[B, T, H, D]`, and the statistics that the backward needs, `[B, H, T, 2]`, of the operands that
    /// were prepared.
    ///
    /// # Errors
    /// As [`PreparedAttention::new`].
    pub fn forward(
        &self,
        device: &Device,
        operands: &AttentionOperands<'_>,
    ) -> Result<[Buffer; 2], KernelError> {
        let of = &self.attention;
        let o = &device.alloc_shape(&[of.batch, of.queries, of.heads, of.head_width])?;
        let stats = &device.alloc_shape(&[2, of.batch, of.heads, of.queries])?;
        match &self.kernels {
            Kernels::Packed(shape) => {
                let qkv = operands.packed()?;
                match operands.dropped(of) {
                    None => attention_forward(device, qkv, o, stats, shape)?,
                    Some(dropped) => {
                        dropped_attention_forward(device, qkv, o, stats, shape, &dropped)?;
                    }
                }
            }
            Kernels::Integers(ranges, integers) => {
                integers.forward(device, &operands.inputs(ranges), o, stats, of)?;
            }
            Kernels::Few(ranges) => {
                few_queries_attention_forward(device, &operands.inputs(ranges), o, stats, of)?;
            }
            Kernels::Rows(ranges) => {
                ranged_attention_forward(device, &operands.inputs(ranges), o, stats, of)?;
            }
        }
        Ok([o.clone(), stats.clone()])
    }

    /// Computes the gradients of q, k and v, contiguous, or of the packed operand alone.
    ///
    /// # Errors
    /// As [`PreparedAttention::new`], and if no backward pass was prepared.
    pub fn backward(
        &self,
        device: &Device,
        operands: &AttentionOperands<'_>,
        output: &AttentionOutput<'_>,
    ) -> Result<Vec<Buffer>, KernelError> {
        let attention = &self.attention;
        let delta = &device.alloc_shape(&[attention.batch, attention.heads, attention.queries])?;
        let AttentionOutput { o, stats, d_o } = *output;
        let ranges = match &self.kernels {
            Kernels::Packed(shape) => {
                let qkv = operands.packed()?;
                let dqkv = device.alloc(qkv.len())?;
                match operands.dropped(attention) {
                    None => attention_backward(device, qkv, o, stats, d_o, delta, &dqkv, shape)?,
                    Some(dropped) => dropped_attention_backward(
                        device, qkv, o, stats, d_o, delta, &dqkv, shape, &dropped,
                    )?,
                }
                return Ok(vec![dqkv]);
            }
            Kernels::Integers(ranges, _) | Kernels::Few(ranges) | Kernels::Rows(ranges) => ranges,
        };
        let key_ranges = &device.alloc_shape(&[4, attention.batch, attention.keys])?;
        ranged::key_ranges(device, &operands.limits, key_ranges, attention)?;
        let saved = AttentionSaved {
            key_ranges,
            o,
            stats,
            d_o,
            delta,
        };
        let inputs = operands.inputs(ranges);
        match &self.kernels {
            Kernels::Integers(_, integers) => {
                operands.integer_gradients(device, integers, &inputs, &saved, attention)
            }
            _ => operands.gradients(device, &inputs, &saved, attention),
        }
    }
}

impl<'a> AttentionOperands<'a> {
    /// What queries see.
    fn ranges(&self, device: &Device, attention: &RangedAttention) -> Result<Buffer, KernelError> {
        attention.check("attention")?;
        let ranges = device.alloc_shape(&[4, attention.batch, attention.queries])?;
        query_ranges(device, &self.limits, &ranges, attention)?;
        Ok(ranges)
    }

    fn inputs(&self, query_ranges: &'a Buffer) -> AttentionInputs<'a> {
        let [q, k, v] = self.heads;
        AttentionInputs {
            q,
            k,
            v,
            query_ranges,
            counter: self.counter,
        }
    }

    fn packed(&self) -> Result<&'a Buffer, KernelError> {
        self.packed.ok_or_else(|| KernelError::Argument {
            operation: "attention",
            reason: "q, k and v lie apart, expected those that were prepared, packed".to_owned(),
        })
    }

    fn dropped(&self, attention: &RangedAttention) -> Option<DroppedWeights<'a>> {
        let (dropout, counter) = attention.dropout.zip(self.counter)?;
        Some(DroppedWeights { dropout, counter })
    }

    /// The gradients from integers, by kernels that write them where they lie.
    fn integer_gradients(
        &self,
        device: &Device,
        integers: &IntegerOperands,
        inputs: &AttentionInputs<'_>,
        saved: &AttentionSaved<'_>,
        attention: &RangedAttention,
    ) -> Result<Vec<Buffer>, KernelError> {
        let (buffer, layouts) = match self.packed {
            Some(packed) => (
                device.alloc(packed.len())?,
                self.heads.map(|operand| operand.layout.clone()),
            ),
            None => JointGradients::allocate(device, attention)?,
        };
        let joint = JointGradients {
            buffer: &buffer,
            layouts: layouts.each_ref(),
        };
        integers.backward(device, inputs, saved, &joint, attention)?;
        match self.packed {
            Some(_) => Ok(vec![buffer]),
            None => joint.parts(),
        }
    }

    /// The gradients from floats.
    fn gradients(
        &self,
        device: &Device,
        inputs: &AttentionInputs<'_>,
        saved: &AttentionSaved<'_>,
        attention: &RangedAttention,
    ) -> Result<Vec<Buffer>, KernelError> {
        let alloc = |operand: Operand<'_>| device.alloc(operand.layout.n_elements());
        let [q, k, v] = self.heads;
        let gradients = [alloc(q)?, alloc(k)?, alloc(v)?];
        ranged_attention_backward(device, inputs, saved, gradients.each_ref(), attention)?;
        let Some(packed) = self.packed else {
            return Ok(gradients.into());
        };
        let joint = device.alloc(packed.len())?;
        for (buffer, operand) in gradients.iter().zip(self.heads) {
            let layout = &Layout::contiguous(operand.layout.shape())?;
            let to = Operand {
                buffer: &joint,
                layout: operand.layout,
            };
            assign_strided(device, Operand { buffer, layout }, to)?;
        }
        Ok(vec![joint])
    }
}
