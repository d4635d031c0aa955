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
        let others = [("weight", Some(weight)), ("bias", Some(bias))];
        self.same_context("layer_norm", others)?;
        let (rows, columns) = self.rows_and_columns("layer_norm")?;
        weight.expect_shape("layer_norm", "weight", &[columns])?;
        bias.expect_shape("layer_norm", "bias", &[columns])?;
        let ctx = self.context();
        let y = ctx.alloc(self.n_elements())?;
        let stats = ctx.alloc(2 * rows)?;
        let again = [self.buffer()?, weight.buffer()?, bias.buffer()?];
        let [x_values, w, b] = &again;
        layer_norm_forward(ctx, x_values, w, b, &y, &stats, rows, columns, eps)?;
        let [x, gain, shift] = [self, weight, bias].map(Tensor::input);
        let (x_values, batch) = (x_values.clone(), self.batch());
        let w = x.requires_grad().then(|| w.clone());
        let inputs = [self, weight, bias];
        let y = Tensor::from_operation("layer_norm", &inputs, y, self.shape(), move |pass, dy| {
            let ctx = pass.context().clone();
            let (x_values, dy) = (&x_values, &dy.buffer()?);
            if gain.requires_grad() || shift.requires_grad() {
                let (dw, db) = pass.open_pair(&gain, &shift, batch)?;
                let (shards, accumulate) = (pass.shards(), dw.accumulate);
                layer_norm_backward_params(
                    &ctx,
                    x_values,
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
            let Some(w) = &w else {
                return Ok(());
            };
            let dx = ctx.alloc(x.n_elements())?;
            match pass.take_pending(&x) {
                None => {
                    layer_norm_backward_input(&ctx, x_values, w, &stats, dy, &dx, rows, columns)?;
                }
                // The gradient around the branch, of x + branch(norm(x)).
                Some(around) => layer_norm_backward_input_add(
                    &ctx,
                    x_values,
                    w,
                    &stats,
                    dy,
                    &around.buffer()?,
                    &dx,
                    rows,
                    columns,
                )?,
            }
            pass.add(&x, Gradient::owned(dx))
        })?;
        let ctx = ctx.clone();
        Ok(y.with_recipe(Arc::new(move || {
            let [x, w, b] = &again;
            let (y, stats) = (ctx.alloc(x.len())?, ctx.alloc(2 * rows)?);
            layer_norm_forward(&ctx, x, w, b, &y, &stats, rows, columns, eps)?;
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
