//! Attention over a packed query, key and value.

use hlx_kernels::attention::layouts_of_packed;

use super::{AttentionSpec, Heads, OP, attended};
use crate::{DType, Result, Tensor};

impl Tensor {
    /// Computes [`Tensor::attention`] from the packed \[B, T, 3C\] (all heads' queries, then keys, then
    /// values; C = H D) into \[B, T, C\].
    ///
    /// In the `portable` arithmetic, plain causal attention with heads of up to 128 columns has kernels of its own, with the
    /// same bits; on GPUs, with heads of up to 64 columns, with dropout too.
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
        self.expect_head_width("qkv", head_width)?;
        let sizes = spec.sizes(batch, [time; 2], [heads; 2], head_width);
        let layouts = layouts_of_packed(&sizes)?;
        let operands = Heads::Packed(self.save_values(&self.buffer()?), Box::new(layouts));
        attended(
            operands,
            &[self],
            spec,
            sizes,
            &[batch, time, heads * head_width],
        )
    }
}
