//! The affine map of the last dimension.

use hlx_kernels::matmul::{MatMul, matmul};
use hlx_kernels::reduce::column_sum;

use super::matmul::weight_gradient;
use crate::{Gradient, Result, Tensor};

impl Tensor {
    /// Computes y = x Wᵀ + bias over the last dimension, \[.., K\] to \[.., N\], as
    /// `torch.nn.functional.linear`.
    ///
    /// `weight` is \[N, K\], `bias` \[N\]; each element's chain starts from its bias.
    ///
    /// # Errors
    /// [`AutogradError::Shape`](crate::AutogradError::Shape).
    pub fn linear(&self, weight: &Tensor, bias: Option<&Tensor>) -> Result<Tensor> {
        let (rows, k) = self.rows_and_columns("linear")?;
        let n = match weight.shape() {
            &[n, columns] if columns == k => n,
            _ => return Err(weight.shape_error("linear", "weight", format!("[N, {k}]"))),
        };
        if let Some(bias) = bias {
            bias.expect_shape("linear", "bias", &[n])?;
        }
        let ctx = self.context();
        let y = ctx.alloc(rows * n)?;
        let product = MatMul {
            trans_b: true,
            ..MatMul::new(rows, n, k)
        };
        matmul(
            ctx,
            self.buffer(),
            weight.buffer(),
            bias.map(Tensor::buffer),
            &y,
            &product,
        )?;
        let mut shape = self.shape().to_vec();
        shape[self.shape().len() - 1] = n;
        let saved = self.save();
        let (x, weight, bias) = (self.clone(), weight.clone(), bias.cloned());
        let mut inputs = vec![self.clone(), weight.clone()];
        inputs.extend(bias.clone());
        let inputs: Vec<&Tensor> = inputs.iter().collect();
        Tensor::from_operation("linear", &inputs, y, &shape, move |pass, dy| {
            let batch = x.batch();
            if let Some(bias) = bias.filter(Tensor::requires_grad) {
                let target = pass.open(&bias, batch)?;
                let (shards, accumulate) = (pass.shards(), target.accumulate);
                let (ctx, rows) = (pass.context(), rows / shards);
                column_sum(
                    ctx,
                    dy.buffer(),
                    &target.buffer,
                    shards,
                    rows,
                    n,
                    accumulate,
                )?;
                pass.close(target)?;
            }
            if weight.requires_grad() {
                weight_gradient(
                    pass,
                    &weight,
                    (dy.buffer(), n),
                    (&saved.values()?, k),
                    rows,
                    batch,
                )?;
            }
            if !x.requires_grad() {
                return Ok(());
            }
            let dx = pass.context().alloc(rows * k)?;
            let product = MatMul::new(rows, k, n);
            matmul(
                pass.context(),
                dy.buffer(),
                weight.buffer(),
                None,
                &dx,
                &product,
            )?;
            pass.add(&x, Gradient::owned(dx))
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::ops::test_support::{check, input, message};

    #[test]
    fn derivatives_agree_with_finite_differences() {
        let inputs = [input(1, &[2, 3, 5]), input(2, &[4, 5]), input(3, &[4])];
        check("linear", &inputs, |x| x[0].linear(&x[1], Some(&x[2])));
        check("linear", &inputs[..2], |x| x[0].linear(&x[1], None));
        check("linear", &[input(1, &[5]), input(2, &[4, 5])], |x| {
            x[0].linear(&x[1], None)
        });
    }

    #[test]
    fn a_bias_of_another_width_is_refused() {
        let (x, weight, bias) = (input(1, &[3, 5]), input(2, &[4, 5]), input(3, &[5]));
        let text = message(x.linear(&weight, Some(&bias)));
        assert_eq!(text, "linear: bias has shape [5], expected [4]");
    }
}
