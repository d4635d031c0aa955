//! Attention for the layers above: one entry for every arithmetic, layout and device.

use hlx_core::{Buffer, Device};

use super::few;
use super::halves::HalfOperands;
use super::operands::{AttentionGradients, AttentionOperands, AttentionOutput};
use super::packed::Packed;
use super::pass::{RangedPass, Saved};
use super::plan::Schedule;
use super::quantised::{QuantisedOperands, joint_gradients};
use super::ranges::key_ranges;
use super::sizes::Attention;
use crate::elementwise::assign_strided;
use crate::{KernelError, Layout, Operand, Result};

/// An attention whose kernels are chosen, with what they read instead of the operands.
pub struct PreparedAttention {
    attention: Attention,
    kernels: Kernels,
}

/// The kernels, with what queries see where they read it.
enum Kernels {
    Packed,
    Quantised(Buffer, Box<QuantisedOperands>),
    Halves(Buffer, Box<HalfOperands>),
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
        attention: &Attention,
        for_backward: bool,
    ) -> Result<Self> {
        let schedule = Schedule::of(device, operands, attention);
        Self::by(schedule, device, operands, None, attention, for_backward)
    }

    /// As [`PreparedAttention::new`], by these kernels; `ranges` are what queries see, where that is known.
    ///
    /// # Errors
    /// As [`PreparedAttention::new`]; kernels that do not take the operands may refuse them in a pass.
    pub fn by(
        schedule: Schedule,
        device: &Device,
        operands: &AttentionOperands<'_>,
        ranges: Option<&Buffer>,
        attention: &Attention,
        for_backward: bool,
    ) -> Result<Self> {
        let ranges = || match ranges {
            Some(ranges) => Ok(ranges.clone()),
            None => operands.ranges(device, attention),
        };
        let kernels = match schedule {
            Schedule::Packed => Kernels::Packed,
            Schedule::Few => Kernels::Few(ranges()?),
            Schedule::Rows => Kernels::Rows(ranges()?),
            Schedule::Halves => {
                let Some(half) = device.arithmetic().half() else {
                    let reason = "the device computes in no arithmetic of 16 bits".to_owned();
                    return Err(KernelError::argument("half_attention")(reason));
                };
                let ranges = ranges()?;
                let pass = RangedPass::new("half_attention", device, operands, &ranges, attention)?;
                let operands = HalfOperands::new(&pass, half)?;
                Kernels::Halves(ranges, Box::new(operands))
            }
            Schedule::Quantised => {
                let ranges = ranges()?;
                let pass =
                    RangedPass::new("integer_attention", device, operands, &ranges, attention)?;
                let operands = QuantisedOperands::new(&pass, for_backward)?;
                Kernels::Quantised(ranges, Box::new(operands))
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
    ) -> Result<[Buffer; 2]> {
        let of = &self.attention;
        let o = device.alloc_shape(&[of.batch, of.queries, of.heads, of.head_width])?;
        let stats = device.alloc_shape(&[2, of.batch, of.heads, of.queries])?;
        self.forward_to(device, operands, [&o, &stats])?;
        Ok([o, stats])
    }

    /// As [`PreparedAttention::forward`]; overwrites `o` and the statistics.
    ///
    /// # Errors
    /// As [`PreparedAttention::new`].
    pub fn forward_to(
        &self,
        device: &Device,
        operands: &AttentionOperands<'_>,
        outputs: [&Buffer; 2],
    ) -> Result<()> {
        let of = &self.attention;
        match &self.kernels {
            Kernels::Packed => self.packed(device, operands)?.forward(outputs),
            Kernels::Quantised(ranges, quantised) => {
                const NAME: &str = "integer_attention_forward";
                let pass = RangedPass::new(NAME, device, operands, ranges, of)?;
                quantised.forward(&pass, outputs)
            }
            Kernels::Halves(ranges, halves) => {
                const NAME: &str = "half_attention_forward";
                let pass = RangedPass::new(NAME, device, operands, ranges, of)?;
                halves.forward(&pass, outputs)
            }
            Kernels::Few(ranges) => {
                const NAME: &str = "few_queries_attention_forward";
                let pass = RangedPass::new(NAME, device, operands, ranges, of)?;
                few::OF_FLOATS.forward(device, pass.words(), ranges, None, outputs, pass.placed)
            }
            Kernels::Rows(ranges) => {
                const NAME: &str = "ranged_attention_forward";
                RangedPass::new(NAME, device, operands, ranges, of)?.forward(outputs)
            }
        }
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
    ) -> Result<Vec<Buffer>> {
        let of = &self.attention;
        let delta = &device.alloc_shape(&[of.batch, of.heads, of.queries])?;
        let run = |buffers: [&Buffer; 3], layouts: [&Layout; 3]| {
            let heads = [0, 1, 2].map(|i| Operand::new(buffers[i], layouts[i]));
            let gradients = AttentionGradients { delta, heads };
            self.backward_to(device, operands, output, &gradients)
        };
        let layouts = operands.heads.map(|x| x.layout);
        let packed = operands.packed.map(|packed| device.alloc(packed.len()));
        let packed = packed.transpose()?;
        match (self.writes_one_buffer(device), packed) {
            (true, Some(joint)) => {
                run([&joint; 3], layouts)?;
                Ok(vec![joint])
            }
            (true, None) => {
                let (len, layouts) = joint_gradients(of)?;
                let joint = device.alloc(len)?;
                run([&joint; 3], layouts.each_ref())?;
                let parts = layouts.iter();
                let parts = parts.map(|part| joint.slice(part.offset(), part.n_elements()));
                Ok(parts.collect::<Result<_, _>>()?)
            }
            (false, joint) => {
                let alloc = |layout: &&Layout| device.alloc(layout.n_elements());
                let buffers: Vec<_> = layouts.iter().map(alloc).collect::<Result<_, _>>()?;
                let [of_queries, of_keys] = &of.layouts()?;
                let contiguous = [of_queries, of_keys, of_keys];
                run([&buffers[0], &buffers[1], &buffers[2]], contiguous)?;
                let Some(joint) = joint else {
                    return Ok(buffers);
                };
                for ((buffer, from), to) in buffers.iter().zip(contiguous).zip(layouts) {
                    assign_strided(device, Operand::new(buffer, from), Operand::new(&joint, to))?;
                }
                Ok(vec![joint])
            }
        }
    }

    /// As [`PreparedAttention::backward`]; overwrites the gradients and delta.
    ///
    /// # Errors
    /// As [`PreparedAttention::backward`].
    pub fn backward_to(
        &self,
        device: &Device,
        operands: &AttentionOperands<'_>,
        output: &AttentionOutput<'_>,
        gradients: &AttentionGradients<'_>,
    ) -> Result<()> {
        let (of, delta) = (&self.attention, gradients.delta);
        let (ranges, name) = match &self.kernels {
            Kernels::Packed => {
                let dqkv = gradients.heads[0].buffer;
                return self.packed(device, operands)?.backward(output, delta, dqkv);
            }
            Kernels::Quantised(ranges, _) => (ranges, "integer_attention_backward"),
            Kernels::Halves(ranges, _) => (ranges, "half_attention_backward"),
            Kernels::Few(ranges) | Kernels::Rows(ranges) => (ranges, "ranged_attention_backward"),
        };
        let of_keys = &device.alloc_shape(&[4, of.batch, of.keys])?;
        key_ranges(device, &operands.limits, of_keys, of)?;
        let saved = Saved {
            output,
            key_ranges: of_keys,
            delta,
        };
        let pass = RangedPass::new(name, device, operands, ranges, of)?;
        match &self.kernels {
            Kernels::Quantised(_, quantised) => quantised.backward(&pass, &saved, gradients),
            Kernels::Halves(_, halves) => halves.backward(&pass, &saved, gradients),
            _ => pass.backward(&saved, gradients),
        }
    }

    /// Whether the kernels write the gradients into one buffer, at the places of the operands.
    fn writes_one_buffer(&self, device: &Device) -> bool {
        match &self.kernels {
            Kernels::Packed | Kernels::Quantised(..) => true,
            Kernels::Halves(..) => !device.is_cpu(),
            Kernels::Few(_) | Kernels::Rows(_) => false,
        }
    }

    fn packed<'a>(
        &self,
        device: &'a Device,
        operands: &AttentionOperands<'a>,
    ) -> Result<Packed<'a>> {
        Ok(Packed {
            device,
            qkv: operands.packed()?,
            counter: operands.counter,
            attention: self.attention,
        })
    }
}
