//! Layer normalisation over the last dimensions, with gain and bias.

use std::sync::Arc;

use hlx_kernels::layer_norm::{
    layer_norm_backward_input, layer_norm_backward_input_add, layer_norm_backward_params,
    layer_norm_forward,
};
use hlx_kernels::product::quantised::prepare_layer_norm;
use hlx_kernels::product::{remember_norm, takes_norm};

use super::normal::Norm;
use crate::graph::saved::{Again, Origin};
use crate::{Backward, Gradient, Input, Result, Tensor};

impl Tensor {
    /// Computes y = (x - mean) / sqrt(variance + eps) · weight + bias over the last dimensions, with
    /// the biased variance, as `torch.nn.functional.layer_norm`.
    ///
    /// `weight` and `bias` have the shape of the dimensions that share a mean, such as \[C\]. An input of
    /// f16 or bf16 is normalised in f32, and the result rounded once.
    ///
    /// # Errors
    /// [`AutogradError::Shape`](crate::AutogradError::Shape).
    #[doc = example!(
        x: "let (weight, bias) = (Tensor::ones(&device, &[3], DType::F32)?, Tensor::zeros(&device, &[3], DType::F32)?);",
        "assert_eq!(x.layer_norm(&weight, &bias, 1e-5)?.to_vec()?[1], 0.0);"
    )]
    pub fn layer_norm(&self, weight: &Tensor, bias: &Tensor, eps: f32) -> Result<Tensor> {
        let others = [("weight", Some(weight)), ("bias", Some(bias))];
        self.same_device("layer_norm", others)?;
        if self.is_half() {
            let (weight, bias) = (weight.widened()?, bias.widened()?);
            return self.in_f32(|x| x.layer_norm(&weight, &bias, eps));
        }
        self.rows_and_columns("layer_norm")?;
        let leading = self.rank() - weight.rank().clamp(1, self.rank());
        let normalized = &self.shape()[leading..];
        weight.expect_shape("layer_norm", "weight", normalized)?;
        bias.expect_shape("layer_norm", "bias", normalized)?;
        let rows: usize = self.shape()[..leading].iter().product();
        let columns: usize = normalized.iter().product();
        let device = self.device();
        let y = device.alloc(self.n_elements())?;
        let [x_values, w, b] = [self.buffer()?, weight.buffer()?, bias.buffer()?];
        let stats = device.alloc_shape(&[rows, 2])?;
        layer_norm_forward(device, &x_values, &w, &b, &y, &stats, rows, columns, eps)?;
        let shape = [rows, columns];
        let is_operand = takes_norm(device, shape);
        if is_operand {
            let digits = prepare_layer_norm(device, &x_values, [&w, &b], &stats, eps, shape)?;
            remember_norm(device, &y, digits);
        }
        let again = [self.keep(&x_values), weight.keep(&w), bias.keep(&b)];
        let origin = is_operand.then(|| {
            let [x, weight, bias] = again.clone().map(Box::new);
            let stats = stats.clone();
            Origin::LayerNorm {
                x,
                stats,
                weight,
                bias,
            }
        });
        let [x, gain, shift] = [self, weight, bias].map(Tensor::input);
        let (x_values, batch) = (again[0].clone(), self.batch());
        let w = x.requires_grad().then(|| again[1].clone());
        let inputs = [self, weight, bias];
        let (input, factor) = (self.clone(), weight.clone());
        let y = Tensor::of_rule(
            "layer_norm",
            &inputs,
            (y, self.shape()),
            move |pass, dy, _| {
                if pass.is_recorded() {
                    return recorded(pass, [&x, &gain, &shift], [&input, &factor, dy], eps);
                }
                let device = pass.device().clone();
                let (x_values, dy) = (&x_values.values()?, &dy.buffer()?);
                let stats = &stats;
                if gain.requires_grad() || shift.requires_grad() {
                    let (dw, db) = pass.open_pair(&gain, &shift, batch)?;
                    let (shards, accumulate) = (pass.shards(), dw.accumulate);
                    layer_norm_backward_params(
                        &device,
                        x_values,
                        stats,
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
                let w = &w.values()?;
                let dx = device.alloc(x.n_elements())?;
                match pass.take_pending(&x) {
                    None => {
                        layer_norm_backward_input(
                            &device, x_values, w, stats, dy, &dx, rows, columns,
                        )?;
                    }
                    // The gradient around the branch, of x + branch(norm(x)).
                    Some(around) => layer_norm_backward_input_add(
                        &device,
                        x_values,
                        w,
                        stats,
                        dy,
                        &around.buffer()?,
                        &dx,
                        rows,
                        columns,
                    )?,
                }
                pass.add(&x, Gradient::owned(dx))
            },
        )?;
        let device = device.clone();
        let recipe = Arc::new(move || {
            let [x, w, b] = &again;
            let (x, w, b) = (&x.values()?, &w.values()?, &b.values()?);
            let (y, stats) = (device.alloc(x.len())?, device.alloc_shape(&[2, rows])?);
            layer_norm_forward(&device, x, w, b, &y, &stats, rows, columns, eps)?;
            Ok(y)
        });
        Ok(y.with_recipe(Again { recipe, origin }))
    }
}

/// The derivatives as operations; `values` are x, the gain and dy.
fn recorded(
    pass: &mut Backward<'_>,
    [x_place, gain, shift]: [&Input; 3],
    [x, weight, dy]: [&Tensor; 3],
    eps: f32,
) -> Result<()> {
    let dims: Vec<isize> = (1..=weight.rank() as isize).map(|back| -back).collect();
    let norm = Norm {
        dims: &dims,
        eps,
        centred: true,
    };
    let [normal, dx] = norm.slope(x, &dy.mul(weight)?)?;
    let leading: Vec<usize> = (0..dy.rank() - dims.len()).collect();
    if gain.requires_grad() {
        let dw = dy.mul(normal)?.sum_dims(&leading, weight.shape())?;
        pass.add_tensor(gain, &dw)?;
    }
    if shift.requires_grad() {
        pass.add_tensor(shift, &dy.sum_dims(&leading, weight.shape())?)?;
    }
    match x_place.requires_grad() {
        true => pass.add_tensor(x_place, &dx),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use crate::graph::tape::enable_grad;
    use crate::ops::test_support::{check, input, message};

    #[test]
    fn a_second_derivative_agrees_with_finite_differences() {
        let inputs = [input(1, &[2, 5]), input(2, &[5]), input(3, &[5])];
        check("layer_norm", &inputs, |x| {
            enable_grad(|| {
                let signal = match x[0].requires_grad() {
                    true => x[0].clone(),
                    false => x[0].with_gradient(),
                };
                let y = signal.layer_norm(&x[1], &x[2], 1e-3)?;
                let slope = y.tanh()?.sum()?.gradients(&[&signal], true)?.remove(0);
                slope.expect("the signal is used").square()?.sum()
            })
        });
    }

    #[test]
    fn derivatives_agree_with_finite_differences() {
        let inputs = [input(1, &[2, 3, 7]), input(2, &[7]), input(3, &[7])];
        check("layer_norm", &inputs, |x| {
            x[0].layer_norm(&x[1], &x[2], 1e-5)
        });
        let inputs = [input(1, &[2, 3, 4]), input(2, &[3, 4]), input(3, &[3, 4])];
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
