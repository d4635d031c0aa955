//! Attention over a packed query, key and value.

use hlx_core::Arithmetic;
use hlx_kernels::attention::dropped::{
    DroppedWeights, dropped_attention_backward, dropped_attention_forward,
};
use hlx_kernels::attention::{AttentionShape, attention_backward, attention_forward};

use super::spec::weight_dropout;
use super::{Attended, AttentionSpec, OP};
use crate::graph::saved::Saved;
use crate::graph::tape::gradients_enabled;
use crate::ops::DropoutMask;
use crate::{DType, Gradient, Result, Tensor, kept};

/// The widest head of the kernels for packed causal attention.
const WIDEST_PACKED: usize = 128;

impl Tensor {
    /// Computes [`Tensor::attention`] from the packed \[B, T, 3C\] (all heads' queries, then keys, then
    /// values; C = H D) into \[B, T, C\].
    ///
    /// In the `portable` arithmetic, plain causal attention of heads up to 128 wide has kernels of its own, with the
    /// same bits; on GPUs, of heads up to 64 wide, with dropout too.
    ///
    /// # Errors
    /// [`AutogradError::Shape`](crate::AutogradError::Shape) unless the shape is \[B, T, 3 H D\]; as
    /// [`Tensor::attention`].
    #[doc = example!(
        "// One sample of 4 positions: queries, keys and values of 2 heads of width 3.",
        "let qkv = Tensor::randn(&device, &[1, 4, 3 * 2 * 3], 7)?;",
        "let y = qkv.packed_attention(2, &AttentionSpec::causal())?;",
        "assert_eq!(y.shape(), [1, 4, 6]);"
    )]
    pub fn packed_attention(&self, heads: usize, spec: &AttentionSpec) -> Result<Tensor> {
        self.expect_type(OP, "qkv", DType::F32)?;
        let expected = || format!("[batch, time, 3 x {heads} heads x head width]");
        let &[batch, time, packed] = self.shape() else {
            return Err(self.shape_error(OP, "qkv", expected()));
        };
        if heads == 0 || packed % (3 * heads) != 0 {
            return Err(self.shape_error(OP, "qkv", expected()));
        }
        let head_width = packed / (3 * heads);
        let shape = AttentionShape {
            batch,
            time,
            heads,
            head_width,
        };
        let dropped = spec.dropped();
        let fits = match dropped {
            None => head_width <= WIDEST_PACKED,
            Some(_) => DroppedWeights::fits(self.device(), &shape),
        };
        let portable = self.device().arithmetic() == Arithmetic::Portable;
        if portable && spec.is_plain_causal() && fits {
            return self.causal(shape, dropped.cloned());
        }
        let [q, k, v] = parts(&self.detach(), &shape)?;
        let is_taped = gradients_enabled() && self.requires_grad();
        let sizes = spec.sizes([&q, &k, &v])?;
        let attended = Attended::forward([&q, &k, &v], spec, sizes, is_taped)?;
        let (o, place) = (attended.o.clone(), self.input());
        let out_shape = [batch, time, heads * head_width];
        Tensor::from_operation(OP, &[self], o, &out_shape, move |pass, d_o| {
            let device = pass.device().clone();
            let (operands, d_o) = ([q, k, v], d_o.buffer()?);
            if attended.integers.is_some() {
                let joint = device.alloc(place.n_elements())?;
                let packed = Tensor::from_buffer(&device, joint.clone(), &[batch, time, packed])?;
                let of = parts(&packed, &shape)?;
                let layouts = of.each_ref().map(Tensor::layout);
                attended.backward_into(&operands, &d_o, &joint, layouts)?;
                return pass.add(&place, Gradient::owned(joint));
            }
            let gradients = attended.backward(&operands, &d_o)?;
            let [dq, dk, dv] =
                gradients.map(|gradient| Tensor::from_buffer(&device, gradient, &out_shape));
            let joined = Tensor::cat(&[&dq?, &dk?, &dv?], 2)?;
            pass.add(&place, Gradient::owned(joined.buffer()?))
        })
    }

    /// Plain causal attention, by the kernels for it; weights may be dropped.
    fn causal(&self, shape: AttentionShape, dropout: Option<DropoutMask>) -> Result<Tensor> {
        let AttentionShape {
            batch,
            time,
            heads,
            head_width,
        } = shape;
        let device = self.device();
        let out_shape = [batch, time, heads * head_width];
        let qkv = self.buffer()?;
        let [o, stats] = kept::results(|| {
            let o = device.alloc_shape(&out_shape)?;
            let stats = device.alloc_shape(&[batch, heads, time, 2])?;
            match dropout.as_ref().map(dropped_weights) {
                None => attention_forward(device, &qkv, &o, &stats, &shape)?,
                Some(dropped) => {
                    dropped_attention_forward(device, &qkv, &o, &stats, &shape, &dropped)?;
                }
            }
            Ok([o, stats])
        })?;
        let output = Saved::kept(o.clone(), format!("{out_shape:?} of attention"));
        let (x, qkv) = (self.input(), self.keep(&qkv));
        Tensor::from_operation(OP, &[self], o, &out_shape, move |pass, d_o| {
            let device = pass.device();
            let (qkv, o, d_o) = (&qkv.values()?, &output.values()?, &d_o.buffer()?);
            let delta = &device.alloc_shape(&[batch, heads, time])?;
            let dqkv = device.alloc(qkv.len())?;
            match dropout.as_ref().map(dropped_weights) {
                None => attention_backward(device, qkv, o, &stats, d_o, delta, &dqkv, &shape)?,
                Some(dropped) => dropped_attention_backward(
                    device, qkv, o, &stats, d_o, delta, &dqkv, &shape, &dropped,
                )?,
            }
            pass.add(&x, Gradient::owned(dqkv))
        })
    }
}

/// The queries, keys and values, \[B, T, H, D\], of a packed \[B, T, 3C\].
fn parts(packed: &Tensor, shape: &AttentionShape) -> Result<[Tensor; 3]> {
    let AttentionShape {
        batch,
        time,
        heads,
        head_width,
    } = *shape;
    let parts = packed.reshape(&[batch, time, 3, heads, head_width])?;
    Ok([
        parts.select(2, 0)?,
        parts.select(2, 1)?,
        parts.select(2, 2)?,
    ])
}

fn dropped_weights(mask: &DropoutMask) -> DroppedWeights<'_> {
    DroppedWeights {
        dropout: weight_dropout(mask),
        counter: &mask.counter,
    }
}
