//! Causal attention of several heads over a packed query, key and value.

use hlx_kernels::attention::{AttentionShape, attention_backward, attention_forward};

use crate::saved::Saved;
use crate::{DType, Gradient, Result, Tensor};

impl Tensor {
    /// Computes causal attention, softmax(Q Kᵀ / sqrt(D)) V a head, from the packed \[B, T, 3C\]
    /// (all heads' queries, then keys, then values; C = H D) into \[B, T, C\], as
    /// `torch.nn.functional.scaled_dot_product_attention(is_causal=True)`.
    ///
    /// The T x T matrix is never stored; the backward pass computes it again from a maximum and
    /// a sum a row.
    ///
    /// # Errors
    /// [`AutogradError::Shape`](crate::AutogradError::Shape) unless the shape is \[B, T, 3 H D\].
    #[doc = example!(
        "// One sample of 4 positions: queries, keys and values of 2 heads of width 3.",
        "let qkv = Tensor::randn(&ctx, &[1, 4, 3 * 2 * 3], 7)?;",
        "assert_eq!(qkv.attention(2)?.shape(), [1, 4, 6]);"
    )]
    pub fn attention(&self, heads: usize) -> Result<Tensor> {
        self.expect_type("attention", "qkv", DType::F32)?;
        let expected = || format!("[batch, time, 3 x {heads} heads x head width]");
        let &[batch, time, packed] = self.shape() else {
            return Err(self.shape_error("attention", "qkv", expected()));
        };
        if heads == 0 || packed % (3 * heads) != 0 {
            return Err(self.shape_error("attention", "qkv", expected()));
        }
        let shape = AttentionShape {
            batch,
            time,
            heads,
            head_width: packed / (3 * heads),
        };
        let ctx = self.context();
        let o = ctx.alloc(batch * time * packed / 3)?;
        let stats = ctx.alloc(batch * heads * time * 2)?;
        let qkv = self.buffer()?;
        attention_forward(ctx, &qkv, &o, &stats, &shape)?;
        let out_shape = [batch, time, packed / 3];
        let output = Saved::kept(o.clone(), format!("{out_shape:?} of attention"));
        let (x, qkv) = (self.input(), self.keep(&qkv));
        Tensor::from_operation("attention", &[self], o, &out_shape, move |pass, d_o| {
            let ctx = pass.context();
            let (qkv, output) = (qkv.values()?, output.values()?);
            let delta = ctx.alloc(batch * heads * time)?;
            let dqkv = ctx.alloc(qkv.len())?;
            let d_o = &d_o.buffer()?;
            attention_backward(ctx, &qkv, &output, &stats, d_o, &delta, &dqkv, &shape)?;
            pass.add(&x, Gradient::owned(dqkv))
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::ops::test_support::{check, input, message};

    #[test]
    fn derivatives_agree_with_finite_differences() {
        check("attention", &[input(1, &[2, 5, 3 * 2 * 4])], |x| {
            x[0].attention(2)
        });
        check("attention", &[input(2, &[1, 34, 3 * 2])], |x| {
            x[0].attention(1)
        });
    }

    #[test]
    fn a_width_that_the_heads_do_not_divide_is_refused() {
        let text = message(input(1, &[2, 5, 24]).attention(3));
        let expected = "attention: qkv has shape [2, 5, 24], expected [batch, time, 3 x 3 heads x \
                        head width]";
        assert_eq!(text, expected);
    }
}
