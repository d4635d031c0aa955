//! RMS normalisation over the last dimensions, with gain.

use std::sync::Arc;

use hlx_core::{Buffer, Device};
use hlx_kernels::product::quantised::prepare_rms_norm;
use hlx_kernels::product::{remember_norm, takes_norm};
use hlx_kernels::rms_norm::{
    rms_norm_backward_input, rms_norm_backward_input_add, rms_norm_backward_weight,
    rms_norm_forward,
};

use super::normal::Norm;
use crate::graph::saved::{Again, Origin, Saved};
use crate::{DType, Gradient, Result, Tensor};

const OP: &str = "rms_norm";

impl Tensor {
    /// Computes y = x / sqrt(mean(x²) + eps) · weight over the last dimensions, those of
    /// `normalized`, as `torch.nn.functional.rms_norm`. `weight` has this shape; without it the gain
    /// is 1. An input of f16 or bf16 is normalised in f32, and the result rounded once.
    ///
    /// # Errors
    /// [`AutogradError::Shape`](crate::AutogradError::Shape) unless the input's shape ends in
    /// `normalized`, and a kernel error for rows without elements.
    pub fn rms_norm(
        &self,
        normalized: &[usize],
        weight: Option<&Tensor>,
        eps: f32,
    ) -> Result<Tensor> {
        self.rms_normed(normalized, weight, 0.0, eps)
    }

    /// As [`Tensor::rms_norm`] with the gain 1 + `weight`, as Gemma's norms.
    ///
    /// # Errors
    /// As [`Tensor::rms_norm`].
    #[doc = example!(
        x: "let y = x.rms_norm_one_plus(&[3], &Tensor::zeros(&device, &[3], DType::F32)?, 1e-6)?;",
        "assert_eq!(y.to_vec()?, x.rms_norm(&[3], None, 1e-6)?.to_vec()?);"
    )]
    pub fn rms_norm_one_plus(
        &self,
        normalized: &[usize],
        weight: &Tensor,
        eps: f32,
    ) -> Result<Tensor> {
        self.rms_normed(normalized, Some(weight), 1.0, eps)
    }

    /// The norm with a gain of `weight` plus a number, whose derivative by the weight is the gain's.
    fn rms_normed(
        &self,
        normalized: &[usize],
        weight: Option<&Tensor>,
        offset: f32,
        eps: f32,
    ) -> Result<Tensor> {
        self.same_device(OP, [("weight", weight)])?;
        if self.is_half() {
            let weight = weight.map(Tensor::widened).transpose()?;
            return self.in_f32(|x| x.rms_normed(normalized, weight.as_ref(), offset, eps));
        }
        self.expect_type(OP, "the input", DType::F32)?;
        if !self.shape().ends_with(normalized) || normalized.is_empty() {
            let expected = format!("one that ends in {normalized:?}");
            return Err(self.shape_error(OP, "the input", expected));
        }
        let columns: usize = normalized.iter().product();
        let rows = self.n_elements().checked_div(columns).unwrap_or(0);
        let device = self.device();
        let weight = match weight {
            Some(weight) => {
                weight.expect_shape(OP, "weight", normalized)?;
                weight.clone()
            }
            None => Tensor::ones(device, normalized, DType::F32)?,
        };
        let gain = match offset {
            0.0 => weight.clone(),
            _ => weight.add(offset)?,
        };
        let (x, w) = (self.buffer()?, gain.buffer()?);
        let y = device.alloc(x.len())?;
        let stats = device.alloc(rows)?;
        if rows > 0 || columns == 0 {
            rms_norm_forward(device, &x, &w, &y, &stats, rows, columns, eps)?;
        }
        let is_operand = takes_norm(device, [rows, columns]);
        if is_operand {
            let digits = prepare_rms_norm(device, &x, &w, &stats, eps, [rows, columns])?;
            remember_norm(device, &y, digits);
        }
        let places = [self.input(), weight.input()];
        let (x, w) = (self.keep(&x), gain.keep(&w));
        let again = is_operand.then(|| again(device, [x.clone(), w.clone()], stats.clone(), eps));
        let (input, factor, batch) = (self.clone(), gain.clone(), self.batch());
        let dims: Vec<isize> = (1..=normalized.len() as isize).map(|back| -back).collect();
        let inputs = [self, &weight];
        let y = Tensor::of_rule(OP, &inputs, (y, self.shape()), move |pass, dy, _| {
            let [x_place, weight] = &places;
            if pass.is_recorded() {
                let norm = Norm {
                    dims: &dims,
                    eps,
                    centred: false,
                };
                let [normal, dx] = norm.slope(&input, &dy.mul(&factor)?)?;
                if weight.requires_grad() {
                    let axes: Vec<usize> = (0..dy.rank() - dims.len()).collect();
                    let dw = dy.mul(normal)?.sum_dims(&axes, factor.shape())?;
                    pass.add_tensor(weight, &dw)?;
                }
                return pass.add_tensor(x_place, &dx);
            }
            let (x, dy, stats) = (x.values()?, dy.buffer()?, &stats);
            if weight.requires_grad() {
                pass.parameter(weight, batch, |device, target, shards| {
                    let (out, more) = (&target.buffer, target.accumulate);
                    let per = rows / shards;
                    rms_norm_backward_weight(
                        device, &x, stats, &dy, out, shards, per, columns, more,
                    )
                })?;
            }
            if !x_place.requires_grad() {
                return Ok(());
            }
            let dx = pass.device().alloc(x.len())?;
            if rows > 0 {
                // The gradient around the branch, of x + branch(norm(x)).
                let around = pass.take_pending(x_place).map(|around| around.buffer());
                let around = around.transpose()?;
                let (device, w, x) = (pass.device(), &w.values()?, &x);
                match &around {
                    None => rms_norm_backward_input(device, x, w, stats, &dy, &dx, rows, columns)?,
                    Some(around) => rms_norm_backward_input_add(
                        device, x, w, stats, &dy, around, &dx, rows, columns,
                    )?,
                }
            }
            pass.add(x_place, Gradient::owned(dx))
        })?;
        Ok(match again {
            Some(again) => y.with_recipe(again),
            None => y,
        })
    }
}

/// The norm once more.
fn again(device: &Device, [x, weight]: [Saved; 2], stats: Buffer, eps: f32) -> Again {
    let origin = Origin::RmsNorm {
        x: Box::new(x.clone()),
        stats,
        weight: Box::new(weight.clone()),
    };
    let device = device.clone();
    let recipe = Arc::new(move || {
        let (x, weight) = (x.values()?, weight.values()?);
        let (columns, y) = (weight.len(), device.alloc(x.len())?);
        let rows = x.len() / columns.max(1);
        rms_norm_forward(
            &device,
            &x,
            &weight,
            &y,
            &device.alloc(rows)?,
            rows,
            columns,
            eps,
        )?;
        Ok(y)
    });
    Again {
        recipe,
        origin: Some(origin),
    }
}

#[cfg(test)]
mod tests {
    use crate::graph::tape::enable_grad;
    use crate::ops::test_support::{check, input, message};
    use crate::{DType, Tensor};

    #[test]
    fn derivatives_agree_with_finite_differences() {
        check("rms_norm", &[input(1, &[2, 3, 7]), input(2, &[7])], |x| {
            x[0].rms_norm(&[7], Some(&x[1]), 1e-5)
        });
        check("rms_norm", &[input(1, &[4, 3, 2])], |x| {
            x[0].rms_norm(&[3, 2], None, 1e-5)
        });
        check("rms_norm", &[input(1, &[2, 3, 7]), input(2, &[7])], |x| {
            x[0].rms_norm_one_plus(&[7], &x[1], 1e-5)
        });
    }

    #[test]
    fn a_second_derivative_agrees_with_finite_differences() {
        check("rms_norm", &[input(1, &[2, 5]), input(2, &[5])], |x| {
            enable_grad(|| {
                let signal = match x[0].requires_grad() {
                    true => x[0].clone(),
                    false => x[0].with_gradient(),
                };
                let y = signal.rms_norm(&[5], Some(&x[1]), 1e-3)?;
                let slope = y.tanh()?.sum()?.gradients(&[&signal], true)?.remove(0);
                slope.expect("the signal is used").square()?.sum()
            })
        });
    }

    #[test]
    fn a_norm_of_one_plus_a_weight_keeps_the_one_for_16_bits() -> crate::Result<()> {
        let (x, weight) = (input(1, &[2, 4]), input(2, &[4]));
        for dtype in [DType::F16, DType::BF16] {
            let narrow = [x.to_dtype(dtype)?, weight.to_dtype(dtype)?];
            let norm = |x: &Tensor, weight: &Tensor| x.rms_norm_one_plus(&[4], weight, 0.1);
            let wide = norm(
                &narrow[0].to_dtype(DType::F32)?,
                &narrow[1].to_dtype(DType::F32)?,
            )?;
            let found = norm(&narrow[0], &narrow[1])?;
            assert_eq!(found.dtype(), dtype);
            assert!(
                found.equal(&wide.to_dtype(dtype)?)?,
                "{dtype}: {found}, not {wide}"
            );
        }
        Ok(())
    }

    #[test]
    fn unfitting_shapes_are_refused() {
        let text = message(input(1, &[2, 8]).rms_norm(&[6], None, 1e-5));
        assert_eq!(
            text,
            "rms_norm: the input has shape [2, 8], expected one that ends in [6]"
        );
        let text = message(input(1, &[2, 8]).rms_norm(&[8], Some(&input(2, &[6])), 1e-5));
        assert_eq!(text, "rms_norm: weight has shape [6], expected [8]");
    }
}
