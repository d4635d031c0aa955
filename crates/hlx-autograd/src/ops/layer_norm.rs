//! Layer normalisation over the last dimension, with gain and bias.

use std::sync::Arc;

use hlx_kernels::layer_norm::{
    layer_norm_backward_input, layer_norm_backward_input_add, layer_norm_backward_params,
    layer_norm_forward,
};

use crate::{Gradient, Result, Tensor};

impl Tensor {
    /// Computes y = (x - mean) / sqrt(variance + eps) · weight + bias over the last dimension,
    /// C, with the variance over C elements, as `torch.nn.functional.layer_norm`.
    ///
    /// `weight` and `bias` have shape \[C\].
    ///
    /// # Errors
    /// [`AutogradError::Shape`](crate::AutogradError::Shape).
    pub fn layer_norm(&self, weight: &Tensor, bias: &Tensor, eps: f32) -> Result<Tensor> {
        let (rows, columns) = self.rows_and_columns("layer_norm")?;
        weight.expect_shape("layer_norm", "weight", &[columns])?;
        bias.expect_shape("layer_norm", "bias", &[columns])?;
        let ctx = self.context();
        let y = ctx.alloc(self.n_elements())?;
        let stats = ctx.alloc(2 * rows)?;
        let (w, b) = (weight.buffer(), bias.buffer());
        layer_norm_forward(ctx, self.buffer(), w, b, &y, &stats, rows, columns, eps)?;
        let (x, weight, bias) = (self.clone(), weight.clone(), bias.clone());
        let inputs = [&x.clone(), &weight.clone(), &bias.clone()];
        let again = inputs.map(Tensor::clone);
        let y = Tensor::from_operation("layer_norm", &inputs, y, self.shape(), move |pass, dy| {
            let ctx = pass.context().clone();
            let (x_buffer, dy) = (x.buffer(), dy.buffer());
            if weight.requires_grad() || bias.requires_grad() {
                let (dw, db) = pass.open_pair(&weight, &bias, x.batch())?;
                let (shards, accumulate) = (pass.shards(), dw.accumulate);
                layer_norm_backward_params(
                    &ctx,
                    x_buffer,
                    &stats,
                    dy,
                    &dw.buffer,
                    &db.buffer,
                    shards,
                    rows / shards,
                    columns,
                    accumulate,
                )?;
                pass.close(dw)?;
                pass.close(db)?;
            }
            if !x.requires_grad() {
                return Ok(());
            }
            let dx = ctx.alloc(x.n_elements())?;
            let w = weight.buffer();
            match pass.take_pending(&x) {
                None => {
                    layer_norm_backward_input(&ctx, x_buffer, w, &stats, dy, &dx, rows, columns)?;
                }
                // The gradient around the branch, of x + branch(norm(x)).
                Some(around) => layer_norm_backward_input_add(
                    &ctx,
                    x_buffer,
                    w,
                    &stats,
                    dy,
                    around.buffer(),
                    &dx,
                    rows,
                    columns,
                )?,
            }
            pass.add(&x, Gradient::owned(dx))
        })?;
        Ok(y.with_recipe(Arc::new(move || {
            let [x, weight, bias] = &again;
            let ctx = x.context();
            let (y, stats) = (ctx.alloc(x.n_elements())?, ctx.alloc(2 * rows)?);
            let (x, w, b) = (x.buffer(), weight.buffer(), bias.buffer());
            layer_norm_forward(ctx, x, w, b, &y, &stats, rows, columns, eps)?;
            Ok(y)
        })))
    }
}

#[cfg(test)]
mod tests {
    use crate::ops::test_support::{check, input, message};

    #[test]
    fn derivatives_agree_with_finite_differences() {
        let inputs = [input(1, &[2, 3, 7]), input(2, &[7]), input(3, &[7])];
        check("layer_norm", &inputs, |x| {
            x[0].layer_norm(&x[1], &x[2], 1e-5)
        });
    }

    #[test]
    fn a_weight_of_another_width_is_refused() {
        let text = message(input(1, &[2, 8]).layer_norm(&input(2, &[6]), &input(3, &[8]), 1e-5));
        assert_eq!(text, "layer_norm: weight has shape [6], expected [8]");
    }
}
