//! Normalisation over the last dimensions: layer norm and RMS norm.

use std::sync::Arc;

use hlx_core::{Buffer, Device};
use hlx_kernels::norm::{
    Norm, NormBackwardInput, NormBackwardParams, NormForward, norm_backward_input,
    norm_backward_params, norm_forward,
};
use hlx_kernels::product::quantised::prepare_norm;
use hlx_kernels::product::{remember_norm, takes_norm, takes_norm_again};

use super::normal;
use crate::graph::saved::{Again, Origin, Saved};
use crate::graph::saved_tensor::SavedTensor;
use crate::{Backward, Batch, DType, Gradient, Input, Result, Tensor};

const RMS_NORM: &str = "rms_norm";

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
        "assert_eq!(x.layer_norm(&weight, &bias, 1e-5)?.to_vec::<f32>()?[1], 0.0);"
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
        let norm = Norm::layer(rows, columns, eps);
        normed("layer_norm", norm, self, [weight, weight], Some(bias))
    }

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
        self.normed_by_rms(normalized, weight, 0.0, eps)
    }

    /// As [`Tensor::rms_norm`] with the gain 1 + `weight`, as Gemma's norms.
    ///
    /// # Errors
    /// As [`Tensor::rms_norm`].
    #[doc = example!(
        x: "let y = x.rms_norm_one_plus(&[3], &Tensor::zeros(&device, &[3], DType::F32)?, 1e-6)?;",
        "assert_eq!(y.to_vec::<f32>()?, x.rms_norm(&[3], None, 1e-6)?.to_vec::<f32>()?);"
    )]
    pub fn rms_norm_one_plus(
        &self,
        normalized: &[usize],
        weight: &Tensor,
        eps: f32,
    ) -> Result<Tensor> {
        self.normed_by_rms(normalized, Some(weight), 1.0, eps)
    }

    /// The norm with a gain of `weight` plus a number, whose derivative by the weight is the gain's.
    fn normed_by_rms(
        &self,
        normalized: &[usize],
        weight: Option<&Tensor>,
        offset: f32,
        eps: f32,
    ) -> Result<Tensor> {
        self.same_device(RMS_NORM, [("weight", weight)])?;
        if self.is_half() {
            let weight = weight.map(Tensor::widened).transpose()?;
            return self.in_f32(|x| x.normed_by_rms(normalized, weight.as_ref(), offset, eps));
        }
        self.expect_type(RMS_NORM, "the input", DType::F32)?;
        if !self.shape().ends_with(normalized) || normalized.is_empty() {
            let expected = format!("one that ends in {normalized:?}");
            return Err(self.shape_error(RMS_NORM, "the input", expected));
        }
        let columns: usize = normalized.iter().product();
        let rows = self.n_elements().checked_div(columns).unwrap_or(0);
        let weight = match weight {
            Some(weight) => {
                weight.expect_shape(RMS_NORM, "weight", normalized)?;
                weight.clone()
            }
            None => Tensor::ones(self.device(), normalized, DType::F32)?,
        };
        let gain = match offset {
            0.0 => weight.clone(),
            _ => weight.add(offset)?,
        };
        let norm = Norm::rms(rows, columns, eps);
        normed(RMS_NORM, norm, self, [&weight, &gain], None)
    }
}

/// A norm of x. The normal values are multiplied by the gain, whose gradient is the weight's; a layer norm has a bias.
fn normed(
    op: &'static str,
    norm: Norm,
    x: &Tensor,
    [weight, gain]: [&Tensor; 2],
    bias: Option<&Tensor>,
) -> Result<Tensor> {
    let device = x.device();
    let operands = Operands {
        x: x.buffer()?,
        gain: gain.buffer()?,
        bias: bias.map(Tensor::buffer).transpose()?,
    };
    let y = device.alloc(x.n_elements())?;
    let stats = device.alloc_shape(&[norm.rows, norm.n_stats()])?;
    operands.forward(device, &norm, &y, &stats)?;
    let is_operand = takes_norm(device, [norm.rows, norm.cols]);
    if is_operand {
        let Operands { x, gain, bias } = &operands;
        let digits = prepare_norm(device, &norm, x, gain, bias.as_ref(), &stats)?;
        remember_norm(device, &y, digits);
    }
    let saved_x = x.save_activation(&operands.x)?;
    // (In `fast` the statistics are those of x itself: no device computes what another has computed.)
    let is_of_rounded = saved_x.is_rounded() && device.product_arithmetic().half().is_none();
    let stats = match is_of_rounded {
        true => operands.statistics_of(device, &norm, &saved_x)?,
        false => stats,
    };
    let is_source = is_operand || takes_norm_again(device);
    let takes_origin = is_source || saved_x.is_rounded();
    let saved = Operands {
        x: saved_x,
        gain: gain.save_values(&operands.gain),
        bias: bias
            .zip(operands.bias)
            .map(|(bias, b)| bias.save_values(&b)),
    };
    // The result of a layer norm is computed again where that saves much memory; that of an RMS norm as an operand alone.
    let origin = is_source.then(|| saved.clone().origin(stats.clone()));
    let again = (norm.centred || takes_origin).then(|| saved.clone().again(device, norm, origin));
    let rule = Rule {
        norm,
        stats,
        saved,
        signal: SavedTensor::of(x)?,
        gain: gain.clone(),
        x: x.input(),
        weight: weight.input(),
        bias: bias.map(Tensor::input),
    };
    let batch = x.batch();
    let inputs: Vec<_> = [x, weight].into_iter().chain(bias).collect();
    let y = Tensor::of_rule(op, &inputs, (y, x.shape()), move |pass, dy, _| {
        match pass.is_recorded() {
            true => rule.recorded(pass, dy),
            false => rule.launched(pass, &dy.buffer()?, batch),
        }
    })?;
    Ok(match again {
        Some(again) => y.with_recipe(again),
        None => y,
    })
}

/// What the forward kernel reads, as buffers or saved for later.
#[derive(Clone)]
struct Operands<B> {
    x: B,
    gain: B,
    bias: Option<B>,
}

impl Operands<Buffer> {
    /// Launches the forward kernel; for a tensor without rows there is nothing to launch.
    fn forward(&self, device: &Device, norm: &Norm, y: &Buffer, stats: &Buffer) -> Result<()> {
        if norm.rows == 0 && norm.cols > 0 {
            return Ok(());
        }
        let buffers = NormForward {
            x: &self.x,
            weight: &self.gain,
            bias: self.bias.as_ref(),
            y,
            stats,
        };
        Ok(norm_forward(device, norm, &buffers)?)
    }

    /// The statistics of x as it was saved, rounded: those that its derivative and the norm computed again have.
    fn statistics_of(&self, device: &Device, norm: &Norm, x: &Saved) -> Result<Buffer> {
        let rounded = Self {
            x: x.values()?,
            gain: self.gain.clone(),
            bias: self.bias.clone(),
        };
        let y = device.alloc(rounded.x.len())?;
        let stats = device.alloc_shape(&[norm.rows, norm.n_stats()])?;
        rounded.forward(device, norm, &y, &stats)?;
        Ok(stats)
    }
}

impl Operands<Saved> {
    /// What the result is computed from.
    fn origin(self, stats: Buffer) -> Origin {
        let (x, weight) = (Box::new(self.x), Box::new(self.gain));
        match self.bias.map(Box::new) {
            Some(bias) => Origin::LayerNorm {
                x,
                stats,
                weight,
                bias,
            },
            None => Origin::RmsNorm { x, stats, weight },
        }
    }

    /// The norm once more.
    fn again(self, device: &Device, norm: Norm, origin: Option<Origin>) -> Again {
        let device = device.clone();
        let recipe = Arc::new(move || {
            let operands = Operands {
                x: self.x.values()?,
                gain: self.gain.values()?,
                bias: self.bias.as_ref().map(Saved::values).transpose()?,
            };
            let y = device.alloc(operands.x.len())?;
            let stats = device.alloc_shape(&[norm.n_stats(), norm.rows])?;
            operands.forward(&device, &norm, &y, &stats)?;
            Ok(y)
        });
        // The rows of norms come with them.
        Again {
            recipe,
            origin,
            source: None,
        }
    }
}

/// The backward pass of a norm.
struct Rule {
    norm: Norm,
    stats: Buffer,
    saved: Operands<Saved>,
    /// For derivatives that are operations, as `gain`.
    signal: SavedTensor,
    gain: Tensor,
    x: Input,
    weight: Input,
    bias: Option<Input>,
}

impl Rule {
    /// The derivatives by kernels.
    fn launched(&self, pass: &mut Backward<'_>, dy: &Buffer, batch: Batch) -> Result<()> {
        let x = self.saved.x.values()?;
        self.add_parameters(pass, [&x, dy], batch)?;
        if !self.x.requires_grad() {
            return Ok(());
        }
        let (device, weight) = (pass.device().clone(), self.saved.gain.values()?);
        let dx = device.alloc(x.len())?;
        if self.norm.rows > 0 {
            // The gradient around the branch, of x + branch(norm(x)).
            let around = pass.take_pending(&self.x).map(|around| around.buffer());
            let around = around.transpose()?;
            let buffers = NormBackwardInput {
                x: &x,
                weight: &weight,
                stats: &self.stats,
                dy,
                residual: around.as_ref(),
                dx: &dx,
            };
            norm_backward_input(&device, &self.norm, &buffers)?;
        }
        pass.add(&self.x, Gradient::owned(dx))
    }

    /// The gradients of weight and bias, where one is wanted.
    fn add_parameters(
        &self,
        pass: &mut Backward<'_>,
        [x, dy]: [&Buffer; 2],
        batch: Batch,
    ) -> Result<()> {
        let bias = self.bias.as_ref();
        if !self.weight.requires_grad() && !bias.is_some_and(Input::requires_grad) {
            return Ok(());
        }
        let (dweight, dbias) = match bias {
            Some(bias) => {
                let (dweight, dbias) = pass.open_pair(&self.weight, bias, batch)?;
                (dweight, Some(dbias))
            }
            None => (pass.open(&self.weight, batch)?, None),
        };
        let buffers = NormBackwardParams {
            x,
            stats: &self.stats,
            dy,
            dweight: &dweight.buffer,
            dbias: dbias.as_ref().map(|dbias| &dbias.buffer),
            shards: pass.shards(),
            accumulate: dweight.accumulate,
        };
        norm_backward_params(pass.device(), &self.norm, &buffers)?;
        pass.close(dweight)?;
        dbias.map_or(Ok(()), |dbias| pass.close(dbias))
    }

    /// The derivatives as operations.
    fn recorded(&self, pass: &mut Backward<'_>, dy: &Tensor) -> Result<()> {
        let shape = self.gain.shape();
        let dims: Vec<isize> = (1..=shape.len() as isize).map(|back| -back).collect();
        let norm = normal::Norm {
            dims: &dims,
            eps: self.norm.eps,
            centred: self.norm.centred,
        };
        let [normal, dx] = norm.slope(&self.signal.tensor()?, &dy.mul(&self.gain)?)?;
        let leading: Vec<usize> = (0..dy.rank() - dims.len()).collect();
        if self.weight.requires_grad() {
            let dweight = dy.mul(normal)?.sum_dims(&leading, shape)?;
            pass.add_tensor(&self.weight, &dweight)?;
        }
        if let Some(bias) = self.bias.as_ref().filter(|bias| bias.requires_grad()) {
            pass.add_tensor(bias, &dy.sum_dims(&leading, shape)?)?;
        }
        match self.x.requires_grad() {
            true => pass.add_tensor(&self.x, &dx),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::graph::tape::enable_grad;
    use crate::ops::test_support::{check, input, message};
    use crate::{DType, Tensor};

    #[test]
    fn a_second_derivative_of_layer_norm_agrees_with_finite_differences() {
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
    fn derivatives_of_layer_norm_agree_with_finite_differences() {
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

    #[test]
    fn derivatives_of_rms_norm_agree_with_finite_differences() {
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
    fn a_second_derivative_of_rms_norm_agrees_with_finite_differences() {
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
            let half = [x.to_dtype(dtype)?, weight.to_dtype(dtype)?];
            let norm = |x: &Tensor, weight: &Tensor| x.rms_norm_one_plus(&[4], weight, 0.1);
            let in_f32 = norm(
                &half[0].to_dtype(DType::F32)?,
                &half[1].to_dtype(DType::F32)?,
            )?;
            let found = norm(&half[0], &half[1])?;
            assert_eq!(found.dtype(), dtype);
            assert!(
                found.equal(&in_f32.to_dtype(dtype)?)?,
                "{dtype}: {found}, not {in_f32}"
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
