//! Attention for the layers above: one entry for every arithmetic, layout and device.

use hlx_core::{Buffer, Device};

use super::few;
use super::halves::HalfOperands;
use super::operands::{AttentionGradients, AttentionOperands, AttentionOutput};
use super::packed::Packed;
use super::pass::{RangedPass, Saved};
use super::plan::Schedule;
use super::quantised::{QuantisedOperands, joint_gradients};
use super::ranges::{Limits, key_ranges};
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
                let Some(half) = device.product_arithmetic().half() else {
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
        let layouts = operands.heads.map(|x| x.layout);
        if self.writes_one_buffer(device) {
            let packed = operands.packed.map(|packed| (packed.len(), layouts));
            let joint = JointGradients::new(device, &self.attention, packed)?;
            self.backward_to(device, operands, output, &joint.gradients())?;
            return joint.parts();
        }
        let of = &self.attention;
        let alloc = |layout: &&Layout| device.alloc(layout.n_elements());
        let buffers: Vec<_> = layouts.iter().map(alloc).collect::<Result<_, _>>()?;
        let [of_queries, of_keys] = &of.layouts()?;
        let contiguous = [of_queries, of_keys, of_keys];
        let gradients = AttentionGradients {
            delta: &device.alloc_shape(&[of.batch, of.heads, of.queries])?,
            heads: [0, 1, 2].map(|i| Operand::new(&buffers[i], contiguous[i])),
        };
        self.backward_to(device, operands, output, &gradients)?;
        let Some(packed) = operands.packed else {
            return Ok(buffers);
        };
        let joint = device.alloc(packed.len())?;
        for ((buffer, from), to) in buffers.iter().zip(contiguous).zip(layouts) {
            assign_strided(device, Operand::new(buffer, from), Operand::new(&joint, to))?;
        }
        Ok(vec![joint])
    }

    /// Whether a backward pass reads the operands' values again; if not, [`PreparedAttention::backward_of_places`] computes it.
    pub fn reads_operands(&self, device: &Device) -> bool {
        matches!(self.kernels, Kernels::Packed) || !self.writes_one_buffer(device)
    }

    /// As [`PreparedAttention::backward`], without the operands' values: `packed` is the packed operand's length with the places of q, k and v in
    /// it, and the limits come with the counter.
    ///
    /// # Errors
    /// As [`PreparedAttention::backward`], and for kernels that read the values.
    pub fn backward_of_places(
        &self,
        device: &Device,
        packed: Option<(usize, [&Layout; 3])>,
        (limits, counter): (Limits<'_>, Option<&Buffer>),
        output: &AttentionOutput<'_>,
    ) -> Result<Vec<Buffer>> {
        const NAME: &str = "attention_backward";
        check_that!(NAME, !self.reads_operands(device) => "the kernels read the operands' values")?;
        // The gradients lie where the operands did, in memory of their own.
        let joint = JointGradients::new(device, &self.attention, packed)?;
        let gradients = joint.gradients();
        let operands = AttentionOperands {
            heads: gradients.heads,
            packed: packed.map(|_| &joint.buffer),
            limits,
            counter,
        };
        self.backward_to(device, &operands, output, &gradients)?;
        joint.parts()
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

/// The memory of gradients in one buffer.
struct JointGradients {
    buffer: Buffer,
    layouts: [Layout; 3],
    is_packed: bool,
    delta: Buffer,
}

impl JointGradients {
    /// At the places in a packed operand of a length, or one behind the other.
    fn new(device: &Device, of: &Attention, packed: Option<(usize, [&Layout; 3])>) -> Result<Self> {
        let (len, layouts) = match packed {
            Some((len, layouts)) => (len, layouts.map(Layout::clone)),
            None => joint_gradients(of)?,
        };
        Ok(Self {
            buffer: device.alloc(len)?,
            layouts,
            is_packed: packed.is_some(),
            delta: device.alloc_shape(&[of.batch, of.heads, of.queries])?,
        })
    }

    fn gradients(&self) -> AttentionGradients<'_> {
        let heads = self.layouts.each_ref();
        AttentionGradients {
            delta: &self.delta,
            heads: heads.map(|layout| Operand::new(&self.buffer, layout)),
        }
    }

    /// The packed gradient, or those of q, k and v.
    fn parts(self) -> Result<Vec<Buffer>> {
        if self.is_packed {
            return Ok(vec![self.buffer]);
        }
        let parts = self.layouts.iter();
        let parts = parts.map(|part| self.buffer.slice(part.offset(), part.n_elements()));
        Ok(parts.collect::<Result<_, _>>()?)
    }
}
