//! Attention for the layers above: one entry for every arithmetic, layout and device.

use hlx_core::{Buffer, Device};

use super::dropped::{DroppedWeights, dropped_attention_backward, dropped_attention_forward};
use super::plan::Plan;
use super::ranged::{
    AttentionInputs, AttentionSaved, IntegerOperands, JointGradients, Limits, RangedAttention,
    few_queries_attention_forward, key_ranges, query_ranges, ranged_attention_backward,
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
    let RangedAttention {
        batch,
        queries,
        heads,
        head_width,
        ..
    } = *attention;
    let joint = Layout::contiguous(&[batch, queries, 3, heads, head_width])?;
    let part = |idx| {
        joint
            .select(2, idx)
            .map_err(|reason| KernelError::Argument {
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

#[allow(clippy::large_enum_variant)] // One value per pass.
enum Kernels {
    Packed(AttentionShape),
    Ranged {
        query_ranges: Buffer,
        kernels: RangedKernels,
    },
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
        let kernels = match Plan::of(device, operands, attention) {
            Plan::Packed(shape) => Kernels::Packed(shape),
            plan => {
                attention.check("attention")?;
                let ranges = device.alloc_shape(&[4, attention.batch, attention.queries])?;
                query_ranges(device, &operands.limits, &ranges, attention)?;
                let inputs = operands.inputs(&ranges);
                let kernels = RangedKernels::new(device, plan, &inputs, attention, for_backward)?;
                Kernels::Ranged {
                    query_ranges: ranges,
                    kernels,
                }
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
        let attention = &self.attention;
        let [o, stats] = outputs(device, attention)?;
        match &self.kernels {
            Kernels::Packed(shape) => {
                let qkv = operands.packed()?;
                match operands.dropped(attention) {
                    None => attention_forward(device, qkv, &o, &stats, shape)?,
                    Some(dropped) => {
                        dropped_attention_forward(device, qkv, &o, &stats, shape, &dropped)?;
                    }
                }
            }
            Kernels::Ranged {
                query_ranges,
                kernels,
            } => {
                let inputs = operands.inputs(query_ranges);
                kernels.forward(device, &inputs, [&o, &stats], attention)?;
            }
        }
        Ok([o, stats])
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
        match &self.kernels {
            Kernels::Packed(shape) => {
                let qkv = operands.packed()?;
                let dqkv = device.alloc(qkv.len())?;
                match operands.dropped(attention) {
                    None => attention_backward(device, qkv, o, stats, d_o, delta, &dqkv, shape)?,
                    Some(dropped) => dropped_attention_backward(
                        device, qkv, o, stats, d_o, delta, &dqkv, shape, &dropped,
                    )?,
                }
                Ok(vec![dqkv])
            }
            Kernels::Ranged {
                query_ranges,
                kernels,
            } => {
                let ranges = device.alloc_shape(&[4, attention.batch, attention.keys])?;
                key_ranges(device, &operands.limits, &ranges, attention)?;
                let saved = AttentionSaved {
                    key_ranges: &ranges,
                    o,
                    stats,
                    d_o,
                    delta,
                };
                let inputs = operands.inputs(query_ranges);
                kernels.backward(device, &inputs, &saved, operands.packed, attention)
            }
        }
    }
}

/// Allocates `o` and its statistics.
pub(super) fn outputs(
    device: &Device,
    attention: &RangedAttention,
) -> Result<[Buffer; 2], KernelError> {
    let RangedAttention {
        batch,
        queries,
        heads,
        head_width,
        ..
    } = *attention;
    Ok([
        device.alloc_shape(&[batch, queries, heads, head_width])?,
        device.alloc_shape(&[2, batch, heads, queries])?,
    ])
}

impl<'a> AttentionOperands<'a> {
    pub(super) fn inputs(&self, query_ranges: &'a Buffer) -> AttentionInputs<'a> {
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
}

/// The kernels over ranges of one attention.
#[allow(clippy::large_enum_variant)] // One value per pass.
pub(super) enum RangedKernels {
    /// With the integers that they read instead of q, k and v.
    Integers(IntegerOperands),
    Few,
    Rows,
}

impl RangedKernels {
    pub fn new(
        device: &Device,
        plan: Plan,
        inputs: &AttentionInputs<'_>,
        attention: &RangedAttention,
        for_backward: bool,
    ) -> Result<Self, KernelError> {
        Ok(match plan {
            Plan::Integers => Self::Integers(IntegerOperands::new(
                device,
                inputs,
                attention,
                for_backward,
            )?),
            Plan::Few => Self::Few,
            Plan::Rows | Plan::Packed(_) => Self::Rows,
        })
    }

    pub fn forward(
        &self,
        device: &Device,
        inputs: &AttentionInputs<'_>,
        [o, stats]: [&Buffer; 2],
        attention: &RangedAttention,
    ) -> Result<(), KernelError> {
        match self {
            Self::Integers(operands) => operands.forward(device, inputs, o, stats, attention),
            Self::Few => few_queries_attention_forward(device, inputs, o, stats, attention),
            Self::Rows => ranged_attention_forward(device, inputs, o, stats, attention),
        }
    }

    /// The gradients of q, k and v, or of the memory in which they are packed.
    fn backward(
        &self,
        device: &Device,
        inputs: &AttentionInputs<'_>,
        saved: &AttentionSaved<'_>,
        packed: Option<&Buffer>,
        attention: &RangedAttention,
    ) -> Result<Vec<Buffer>, KernelError> {
        let operands = [inputs.q, inputs.k, inputs.v];
        if let Self::Integers(integers) = self {
            let (buffer, layouts) = match packed {
                Some(packed) => (
                    device.alloc(packed.len())?,
                    operands.map(|operand| operand.layout.clone()),
                ),
                None => JointGradients::allocate(device, attention)?,
            };
            let joint = JointGradients {
                buffer: &buffer,
                layouts: layouts.each_ref(),
            };
            integers.backward(device, inputs, saved, &joint, attention)?;
            return match packed {
                Some(_) => Ok(vec![buffer]),
                None => joint.parts(),
            };
        }
        let gradients = operands.map(|operand| device.alloc(operand.layout.n_elements()));
        let [dq, dk, dv] = gradients;
        let gradients = [dq?, dk?, dv?];
        ranged_attention_backward(device, inputs, saved, gradients.each_ref(), attention)?;
        let Some(packed) = packed else {
            return Ok(gradients.into());
        };
        let joint = device.alloc(packed.len())?;
        for (buffer, operand) in gradients.iter().zip(operands) {
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
