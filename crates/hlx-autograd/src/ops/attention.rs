//! Scaled dot-product attention of several heads.

mod packed;
mod spec;
#[cfg(test)]
mod tests;

use hlx_core::{Buffer, Device};
use hlx_kernels::attention::{Attention, AttentionOperands, AttentionOutput, PreparedAttention};
use hlx_kernels::{KernelError, Layout, Operand};

use crate::graph::saved::Saved;
use crate::graph::tape::gradients_enabled;
use crate::{Gradient, Input, Result, Tensor, reuse};

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
    /// No T x S matrix is stored. In the `integer` arithmetic its products are exact sums over quantised operands, too. A query's
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
        "assert_eq!(last.to_vec::<f32>()?, all.narrow(1, 3, 1)?.to_vec::<f32>()?);"
    )]
    pub fn attention(&self, k: &Tensor, v: &Tensor, spec: &AttentionSpec) -> Result<Tensor> {
        self.same_device(OP, [("k", Some(k)), ("v", Some(v))])?;
        let attention = spec.fitting([self, k, v])?;
        let [q, k, v] = [self.dense_rows()?, k.dense_rows()?, v.dense_rows()?];
        let heads = Heads::Apart([q.clone(), k.clone(), v.clone()]);
        attended(heads, &[&q, &k, &v], spec, attention, q.shape())
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

/// The queries, keys and values that both passes read.
#[allow(clippy::large_enum_variant)] // One value per pass.
enum Heads {
    /// \[B, T, H, D\], and twice \[B, S, G, D\].
    Apart([Tensor; 3]),
    /// \[B, T, 3C\], and where each lies in it.
    Packed(Saved, Box<[Layout; 3]>),
}

/// What both passes read.
struct SavedOperands {
    heads: Heads,
    limits: SavedLimits,
    counter: Option<Buffer>,
}

impl SavedOperands {
    /// Calls `launch` with them.
    fn with<R>(
        &self,
        launch: impl FnOnce(&AttentionOperands<'_>) -> Result<R, KernelError>,
    ) -> Result<R> {
        self.limits.with(|limits| {
            let operands = |heads, packed| AttentionOperands {
                heads,
                packed,
                limits,
                counter: self.counter.as_ref(),
            };
            Ok(match &self.heads {
                Heads::Apart(all) => launch(&operands(all.each_ref().map(Tensor::operand), None)),
                Heads::Packed(saved, layouts) => {
                    let buffer = &saved.values()?;
                    let heads = layouts.each_ref();
                    let heads = heads.map(|layout| Operand { buffer, layout });
                    launch(&operands(heads, Some(buffer)))
                }
            }?)
        })
    }
}

/// What a backward pass reads besides the output.
enum BackwardOperands {
    Values(SavedOperands),
    /// The kernels have what they read of the values: the length of a packed operand, with where each lay in it, and the rest.
    Places(
        Option<(usize, Box<[Layout; 3]>)>,
        SavedLimits,
        Option<Buffer>,
    ),
}

impl BackwardOperands {
    /// Of operands that are `len` elements where they are packed.
    fn new(saved: SavedOperands, reads_values: bool, len: usize) -> Self {
        if reads_values {
            return Self::Values(saved);
        }
        let packed = match saved.heads {
            Heads::Apart(_) => None,
            Heads::Packed(_, layouts) => Some((len, layouts)),
        };
        Self::Places(packed, saved.limits, saved.counter)
    }

    /// The gradients of the operands.
    fn gradients(
        &self,
        device: &Device,
        prepared: &PreparedAttention,
        output: &AttentionOutput<'_>,
    ) -> Result<Vec<Buffer>> {
        match self {
            Self::Values(saved) => {
                saved.with(|operands| prepared.backward(device, operands, output))
            }
            Self::Places(packed, limits, counter) => limits.with(|limits| {
                let packed = packed.as_ref();
                let packed = packed.map(|(len, layouts)| (*len, layouts.each_ref()));
                let limits = (limits, counter.as_ref());
                Ok(prepared.backward_of_places(device, packed, limits, output)?)
            }),
        }
    }
}

/// Attention of the shape `shape`, whose gradients are those of `inputs`.
fn attended(
    heads: Heads,
    inputs: &[&Tensor],
    spec: &AttentionSpec,
    attention: Attention,
    shape: &[usize],
) -> Result<Tensor> {
    let device = inputs[0].device().clone();
    let is_taped = gradients_enabled() && inputs.iter().any(|x| x.requires_grad());
    let saved = SavedOperands {
        heads,
        limits: spec.limits(inputs[0], &attention)?,
        counter: spec.dropped().map(|mask| mask.counter.clone()),
    };
    let prepared =
        saved.with(|operands| PreparedAttention::new(&device, operands, &attention, is_taped))?;
    let [o, stats] = reuse::results(|| saved.with(|operands| prepared.forward(&device, operands)))?;
    let name = || format!("{shape:?} of attention");
    let output = match is_taped {
        true => Saved::activation(&device, &o, name)?,
        false => Saved::held(o.clone(), name()),
    };
    let reads_values = prepared.reads_operands(&device);
    let operands = BackwardOperands::new(saved, reads_values, inputs[0].n_elements());
    let places: Vec<Input> = inputs.iter().map(|x| x.input()).collect();
    Tensor::from_operation(OP, inputs, o, shape, move |pass, d_o| {
        let (o, d_o) = (&output.values()?, &d_o.buffer()?);
        let stats = &stats;
        let gradients =
            operands.gradients(&device, &prepared, &AttentionOutput { o, stats, d_o })?;
        for (place, gradient) in places.iter().zip(gradients) {
            pass.add(place, Gradient::owned(gradient))?;
        }
        Ok(())
    })
}
