//! Scaled dot-product attention of several heads.

mod packed;
mod spec;
#[cfg(test)]
mod tests;

use hlx_core::{Arithmetic, Buffer};
use hlx_kernels::attention::ranged::{
    AttentionGradients, AttentionInputs, AttentionSaved, IntegerOperands, RangedAttention,
    few_queries_attention_forward, key_ranges, query_ranges, ranged_attention_backward,
    ranged_attention_forward,
};
use hlx_kernels::{KernelError, Layout};

use crate::graph::saved::Saved;
use crate::graph::tape::gradients_enabled;
use crate::{Gradient, Result, Tensor, kept};

pub use spec::AttentionSpec;
use spec::SavedLimits;

const OP: &str = "attention";

impl Tensor {
    /// Computes softmax(Q Kᵀ scale) V in each head, over the keys that `spec` lets a query see, as
    /// `torch.nn.functional.scaled_dot_product_attention(enable_gqa=True)`.
    ///
    /// This tensor, the queries, is \[B, T, H, D\]; `k` and `v` are \[B, S, G, D\], where G divides H:
    /// query head h reads key head h / (H / G). D goes from 1 to 256, and views need no copy unless
    /// their last dimension has gaps. The result is \[B, T, H, D\]; a query that sees no key gives
    /// zeros. PyTorch's tensors are \[B, H, T, D\], and its `is_causal` counts the first query as the
    /// first position: here the queries are the last positions, unless `first_positions` says otherwise.
    ///
    /// No T x S matrix is stored. In the `integer` arithmetic its products are exact sums over integers, too. A query's
    /// bits depend on the keys of its own document alone: not on what is packed beside it, on padding, on the batch, nor
    /// on how many queries come at a time.
    ///
    /// # Errors
    /// [`AutogradError::Shape`](crate::AutogradError::Shape) and
    /// [`AutogradError::DType`](crate::AutogradError::DType) for unfitting operands, and
    /// [`AutogradError::Argument`](crate::AutogradError::Argument) if positions are needed and there are
    /// more queries than keys.
    #[doc = example!(
        "// 4 positions, 6 query heads on 2 key heads of width 8.",
        "let q = Tensor::randn(&device, &[1, 4, 6, 8], 1)?;",
        "let k = Tensor::randn(&device, &[1, 4, 2, 8], 2)?;",
        "let v = Tensor::randn(&device, &[1, 4, 2, 8], 3)?;",
        "let all = q.attention(&k, &v, &AttentionSpec::causal())?;",
        "// The last query by itself, as from a cache, has the same bits.",
        "let last = q.narrow(1, 3, 1)?.attention(&k, &v, &AttentionSpec::causal())?;",
        "assert_eq!(last.to_vec()?, all.narrow(1, 3, 1)?.to_vec()?);"
    )]
    pub fn attention(&self, k: &Tensor, v: &Tensor, spec: &AttentionSpec) -> Result<Tensor> {
        self.same_device(OP, [("k", Some(k)), ("v", Some(v))])?;
        let attention = spec.sizes([self, k, v])?;
        let [q, k, v] = [self.dense_rows()?, k.dense_rows()?, v.dense_rows()?];
        let is_taped = gradients_enabled() && [&q, &k, &v].iter().any(|x| x.requires_grad());
        let attended = Attended::forward([&q, &k, &v], spec, attention, is_taped)?;
        let (o, places) = (attended.o.clone(), [q.input(), k.input(), v.input()]);
        let operands = [q.clone(), k.clone(), v.clone()];
        Tensor::from_operation(OP, &[&q, &k, &v], o, q.shape(), move |pass, d_o| {
            let gradients = attended.backward(&operands, &d_o.buffer()?)?;
            for (place, gradient) in places.iter().zip(gradients) {
                pass.add(place, Gradient::owned(gradient))?;
            }
            Ok(())
        })
    }

    /// The tensor itself where kernels can read its rows, else a contiguous copy.
    fn dense_rows(&self) -> Result<Tensor> {
        let (shape, strides) = (self.shape(), self.layout().strides());
        let dense = shape[3] == 1 || strides[3] == 1;
        match dense && strides.iter().all(|&stride| stride >= 0) {
            true => Ok(self.clone()),
            false => self.contiguous(),
        }
    }
}

/// A forward pass, and what it leaves for the backward pass.
struct Attended {
    attention: RangedAttention,
    limits: SavedLimits,
    query_ranges: Buffer,
    counter: Option<Buffer>,
    o: Buffer,
    stats: Buffer,
    output: Saved,
    /// In the integer arithmetic what both passes read of q, k and v.
    integers: Option<IntegerOperands>,
}

impl Attended {
    fn forward(
        [q, k, v]: [&Tensor; 3],
        spec: &AttentionSpec,
        attention: RangedAttention,
        is_taped: bool,
    ) -> Result<Self> {
        let device = q.device();
        let limits = spec.limits(q, &attention)?;
        let ranges = device.alloc_shape(&[4, attention.batch, attention.queries])?;
        query_ranges(device, &limits.values()?.limits(), &ranges, &attention)?;
        let counter = spec.dropped().map(|mask| mask.counter.clone());
        let inputs = AttentionInputs {
            q: q.operand(),
            k: k.operand(),
            v: v.operand(),
            query_ranges: &ranges,
            counter: counter.as_ref(),
        };
        // Where documents begin, blocks of keys differ from query to query.
        let few = attention.is_of_few_queries(device) && spec.documents.is_none();
        let integers = match device.arithmetic() {
            Arithmetic::Integer => {
                Some(IntegerOperands::new(device, &inputs, &attention, is_taped)?)
            }
            Arithmetic::Portable => None,
        };
        let [o, stats] = kept::results(|| {
            let o = device.alloc(q.n_elements())?;
            let stats =
                device.alloc_shape(&[2, attention.batch, attention.heads, attention.queries])?;
            match (&integers, few) {
                (Some(operands), _) => operands.forward(device, &inputs, &o, &stats, &attention)?,
                (None, true) => {
                    few_queries_attention_forward(device, &inputs, &o, &stats, &attention)?;
                }
                (None, false) => ranged_attention_forward(device, &inputs, &o, &stats, &attention)?,
            }
            Ok([o, stats])
        })?;
        let output = Saved::kept(o.clone(), format!("{:?} of attention", q.shape()));
        Ok(Self {
            attention,
            limits,
            query_ranges: ranges,
            counter,
            o,
            stats,
            output,
            integers,
        })
    }

    /// The gradients of q, k and v.
    fn backward(&self, operands: &[Tensor; 3], d_o: &Buffer) -> Result<[Buffer; 3]> {
        let device = operands[0].device();
        if self.integers.is_some() {
            let (joint, layouts) = AttentionGradients::allocate(device, &self.attention)?;
            self.backward_into(operands, d_o, &joint, layouts.each_ref())?;
            let [q, k, v] = layouts;
            let part = |of: Layout| joint.slice(of.offset(), of.n_elements());
            return Ok([part(q)?, part(k)?, part(v)?]);
        }
        let [q, k, v] = operands.each_ref().map(Tensor::n_elements);
        let gradients = [device.alloc(q)?, device.alloc(k)?, device.alloc(v)?];
        let targets = gradients.each_ref();
        self.with_saved(operands, d_o, |inputs, saved| {
            ranged_attention_backward(device, inputs, saved, targets, &self.attention)
        })?;
        Ok(gradients)
    }

    /// In the integer arithmetic the gradients, where they lie in one buffer.
    fn backward_into(
        &self,
        operands: &[Tensor; 3],
        d_o: &Buffer,
        buffer: &Buffer,
        layouts: [&Layout; 3],
    ) -> Result<()> {
        let Some(integers) = &self.integers else {
            return Ok(());
        };
        let (device, gradients) = (operands[0].device(), AttentionGradients { buffer, layouts });
        self.with_saved(operands, d_o, |inputs, saved| {
            integers.backward(device, inputs, saved, &gradients, &self.attention)
        })
    }

    /// Calls `launch` with what a backward pass reads.
    fn with_saved(
        &self,
        [q, k, v]: &[Tensor; 3],
        d_o: &Buffer,
        launch: impl FnOnce(&AttentionInputs<'_>, &AttentionSaved<'_>) -> Result<(), KernelError>,
    ) -> Result<()> {
        let (device, attention) = (q.device(), &self.attention);
        let ranges = device.alloc_shape(&[4, attention.batch, attention.keys])?;
        key_ranges(device, &self.limits.values()?.limits(), &ranges, attention)?;
        let delta = device.alloc_shape(&[attention.batch, attention.heads, attention.queries])?;
        let inputs = AttentionInputs {
            q: q.operand(),
            k: k.operand(),
            v: v.operand(),
            query_ranges: &self.query_ranges,
            counter: self.counter.as_ref(),
        };
        let saved = AttentionSaved {
            key_ranges: &ranges,
            o: &self.output.values()?,
            stats: &self.stats,
            d_o,
            delta: &delta,
        };
        Ok(launch(&inputs, &saved)?)
    }
}
