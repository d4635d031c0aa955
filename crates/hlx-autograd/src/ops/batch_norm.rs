//! Batch norm: in training by the statistics of each shard, in evaluation by running values.

use hlx_core::Buffer;
use hlx_kernels::batch_norm::{
    BatchNorm, Running, batch_norm_apply, batch_norm_backward, batch_norm_statistics,
};

use super::normal::{Norm, add_affine_gradients, beside};
use crate::{AutogradError, Backward, Batch, DType, Gradient, Input, Result, Tensor};

/// How a batch norm in training computes its statistics.
#[derive(Clone, Copy, Debug)]
pub struct BatchNormOptions<'a> {
    /// Added to the variance under the root.
    pub eps: f32,
    /// The weight of a new running value; `None` averages over all shards so far.
    pub momentum: Option<f32>,
    /// Shards that the input's samples belong to; each has statistics of its own.
    pub shards: usize,
    /// The number of empty samples, one u32 on the device: a short batch begins with them, and they
    /// enter no statistic. `None` where all samples are real.
    pub empty: Option<&'a Buffer>,
}

impl Default for BatchNormOptions<'_> {
    /// PyTorch's eps and momentum, one shard, no empty samples.
    fn default() -> Self {
        Self {
            eps: 1e-5,
            momentum: Some(0.1),
            shards: 1,
            empty: None,
        }
    }
}

/// The running values of a batch norm: written in place by [`Tensor::batch_norm`].
#[derive(Clone, Copy, Debug)]
pub struct RunningStatistics<'a> {
    /// \[C\], PyTorch's `running_mean`.
    pub mean: &'a Tensor,
    /// \[C\], PyTorch's `running_var`.
    pub variance: &'a Tensor,
    /// One u32, PyTorch's `num_batches_tracked`: the shards that the values have followed.
    pub tracked: &'a Tensor,
}

const OP: &str = "batch_norm";

impl Tensor {
    /// Normalises each channel of \[N, C, ..\] by the mean and the biased variance of its shard, then
    /// applies gain and bias \[C\], and moves the running values shard by shard, in order, the variance
    /// by the unbiased one: `torch.nn.functional.batch_norm(.., training=True)` of each shard. A pass
    /// that holds a part of a shard has other statistics, and is refused going backward. An input of f16
    /// or bf16 is normalised in f32, and the result rounded once; running values are f32.
    ///
    /// # Errors
    /// [`AutogradError::Shape`], [`AutogradError::Shards`] for shards that do not divide the samples,
    /// [`AutogradError::Samples`] for several shards of an input that does not say where its samples
    /// are, and a kernel error for fewer than two values a channel.
    pub fn batch_norm(
        &self,
        affine: Option<[&Tensor; 2]>,
        running: Option<RunningStatistics<'_>>,
        options: &BatchNormOptions<'_>,
    ) -> Result<Tensor> {
        if self.is_half() {
            return self.affine_in_f32(affine, |x, affine| x.batch_norm(affine, running, options));
        }
        let spec = self.batch_norm_spec(affine, options.shards)?;
        let batch = self.batch_norm_batch(options.shards)?;
        let ctx = self.context();
        let counts = options.empty.cloned();
        let values = match running {
            Some(running) => Some(running_buffers(self, &running, spec.channels)?),
            None => None,
        };
        let (x, eps) = (self.buffer()?, options.eps);
        let stats = ctx.alloc(2 * spec.shards * spec.channels)?;
        let following = values.as_ref().map(|[mean, variance, tracked]| Running {
            mean,
            variance,
            tracked,
            momentum: options.momentum,
        });
        let following = following.as_ref();
        batch_norm_statistics(ctx, &x, counts.as_ref(), following, &stats, &spec, eps)?;
        let [gain, bias] = affine_or_identity(self, affine, spec.channels)?;
        let (w, b) = (gain.buffer()?, bias.buffer()?);
        let y = ctx.alloc(x.len())?;
        let tracked = following.map(|running| running.tracked);
        let empty = counts.as_ref();
        batch_norm_apply(ctx, &x, &w, &b, &stats, empty, tracked, &y, &spec)?;
        let places = [self.input(), gain.input(), bias.input()];
        let (input, weight) = (self.clone(), gain.clone());
        let (x, w) = (self.keep(&x), gain.keep(&w));
        let inputs = [self, &gain, &bias];
        let output = Tensor::of_rule(OP, &inputs, (y, self.shape()), move |pass, dy, _| {
            if pass.is_recorded() {
                // The operations take all samples for real.
                if let Some(counts) = &counts
                    && pass.context().download_u32(counts)? != [0]
                {
                    return Err(AutogradError::NoSecondDerivative { op: OP });
                }
                return recorded(pass, &places, [&input, &weight, dy], &spec, eps);
            }
            check_pass(pass, &spec)?;
            let (ctx, x, w) = (pass.context().clone(), x.values()?, w.values()?);
            let [x_place, gain, bias] = &places;
            let (dw, db) = pass.open_pair(gain, bias, batch)?;
            let (dx, dy, more) = (ctx.alloc(x.len())?, dy.buffer()?, dw.accumulate);
            let (empty, sums) = (counts.as_ref(), [&dw.buffer, &db.buffer]);
            batch_norm_backward(&ctx, &x, &w, &stats, &dy, empty, &dx, sums, more, &spec)?;
            pass.close(dw)?;
            pass.close(db)?;
            pass.add(x_place, Gradient::owned(dx))
        })?;
        Ok(output.with_samples_of(self.samples()))
    }

    /// Normalises each channel of \[N, C, ..\] by the given mean and variance \[C\], such as running
    /// values, then applies gain and bias \[C\]: `torch.nn.functional.batch_norm(.., training=False)`.
    /// No gradient flows into mean and variance.
    ///
    /// # Errors
    /// [`AutogradError::Shape`].
    pub fn batch_norm_by(
        &self,
        mean: &Tensor,
        variance: &Tensor,
        affine: Option<[&Tensor; 2]>,
        eps: f32,
    ) -> Result<Tensor> {
        let others = [("mean", Some(mean)), ("variance", Some(variance))];
        self.same_context(OP, others)?;
        if self.is_half() {
            let [mean, variance] = [mean, variance].map(|values| values.to_dtype(DType::F32));
            let (mean, variance) = (mean?, variance?);
            return self.affine_in_f32(affine, |x, affine| {
                x.batch_norm_by(&mean, &variance, affine, eps)
            });
        }
        let spec = self.batch_norm_spec(affine, 1)?;
        mean.expect_shape(OP, "mean", &[spec.channels])?;
        variance.expect_shape(OP, "variance", &[spec.channels])?;
        let [gain, bias] = affine_or_identity(self, affine, spec.channels)?;
        let (mean, variance) = (mean.detach(), variance.detach());
        let rstd = variance.add(eps)?.sqrt()?.reciprocal()?;
        let ctx = self.context();
        let y = ctx.alloc(self.n_elements())?;
        if self.n_elements() > 0 {
            let stats = Tensor::stack(&[&mean, &rstd], -1)?.buffer()?;
            let (x, w, b) = (self.buffer()?, gain.buffer()?, bias.buffer()?);
            batch_norm_apply(ctx, &x, &w, &b, &stats, None, None, &y, &spec)?;
        }
        let places = [self.input(), gain.input(), bias.input()];
        let (samples, rank, weight) = (self.samples(), self.rank(), gain.clone());
        // Only the gain's gradient reads x.
        let x = gain.requires_grad().then(|| self.clone());
        let inputs = [self, &gain, &bias];
        let output = Tensor::of_rule(OP, &inputs, (y, self.shape()), move |pass, dy, _| {
            let rstd = beside(&rstd, rank)?;
            let normal = match &x {
                Some(x) => x.sub(beside(&mean, rank)?)?.mul(&rstd)?,
                None => dy.clone(),
            };
            let [x_place, gain, bias] = &places;
            add_affine_gradients(pass, [gain, bias], [dy, &normal], samples)?;
            match x_place.requires_grad() {
                true => pass.add_tensor(x_place, &dy.mul(beside(&weight, rank)?.mul(rstd)?)?),
                false => Ok(()),
            }
        })?;
        Ok(output.with_samples_of(self.samples()))
    }

    /// The kernels' shape, from an input \[N, C, ..\] whose other arguments are checked.
    fn batch_norm_spec(&self, affine: Option<[&Tensor; 2]>, shards: usize) -> Result<BatchNorm> {
        self.expect_type(OP, "the input", DType::F32)?;
        let &[samples, channels, ref inner @ ..] = self.shape() else {
            return Err(self.shape_error(OP, "the input", "[N, C, ..]"));
        };
        if shards == 0 || !samples.is_multiple_of(shards) {
            let (op, batch) = (OP, samples);
            return Err(AutogradError::Shards { op, shards, batch });
        }
        if let Some([weight, bias]) = affine {
            self.same_context(OP, [("weight", Some(weight)), ("bias", Some(bias))])?;
            weight.expect_shape(OP, "weight", &[channels])?;
            bias.expect_shape(OP, "bias", &[channels])?;
        }
        Ok(BatchNorm {
            shards,
            samples: samples / shards,
            channels,
            length: inner.iter().product(),
        })
    }

    /// Where the samples are; several shards need them in the first dimension.
    fn batch_norm_batch(&self, shards: usize) -> Result<Batch> {
        let reason = match self.batch() {
            Batch::Samples(n) if n == self.shape()[0] => return Ok(Batch::Samples(n)),
            Batch::Unknown if shards == 1 => return Ok(Batch::Unknown),
            Batch::Unknown => "nothing says where the input's samples are (Tensor::with_samples)",
            _ => "the input's samples are mixed or not in its first dimension",
        };
        Err(AutogradError::Samples { op: OP, reason })
    }
}

/// Gain and bias, or ones and zeros.
fn affine_or_identity(
    x: &Tensor,
    affine: Option<[&Tensor; 2]>,
    channels: usize,
) -> Result<[Tensor; 2]> {
    match affine {
        Some([weight, bias]) => Ok([weight.clone(), bias.clone()]),
        None => Ok([
            Tensor::ones(x.context(), &[channels], DType::F32)?,
            Tensor::zeros(x.context(), &[channels], DType::F32)?,
        ]),
    }
}

/// The memory of the running values, which the kernels write.
fn running_buffers(
    x: &Tensor,
    running: &RunningStatistics<'_>,
    channels: usize,
) -> Result<[Buffer; 3]> {
    let (mean, variance, tracked) = (running.mean, running.variance, running.tracked);
    mean.expect_shape(OP, "running_mean", &[channels])?;
    variance.expect_shape(OP, "running_var", &[channels])?;
    tracked.expect_type(OP, "num_batches_tracked", DType::U32)?;
    let own = |(argument, tensor): (&'static str, &Tensor)| {
        x.same_context(OP, [(argument, Some(tensor))])?;
        let buffer = tensor.buffer()?;
        match tensor.operand().buffer.overlaps(&buffer) {
            true => Ok(buffer),
            false => Err(tensor.shape_error(OP, argument, "a contiguous tensor")),
        }
    };
    Ok([
        own(("running_mean", mean))?,
        own(("running_var", variance))?,
        own(("num_batches_tracked", tracked))?,
    ])
}

/// Checks that a pass sums by the shards of the statistics, and holds whole ones.
fn check_pass(pass: &Backward<'_>, spec: &BatchNorm) -> Result<()> {
    let shards = spec.shards;
    if pass.shards() != shards {
        let found = pass.shards();
        let reason = format!("the pass sums by {found} shards, the statistics are of {shards}");
        return Err(AutogradError::Argument { op: OP, reason });
    }
    if pass.continues_shard() {
        let reason = "a pass over a part of a shard has other statistics; use whole shards";
        let reason = reason.to_owned();
        return Err(AutogradError::Argument { op: OP, reason });
    }
    Ok(())
}

/// The derivatives as operations; `values` are x, the gain and dy.
fn recorded(
    pass: &mut Backward<'_>,
    [x_place, gain, bias]: &[Input; 3],
    [x, weight, dy]: [&Tensor; 3],
    spec: &BatchNorm,
    eps: f32,
) -> Result<()> {
    let shape = [spec.shards, spec.samples, spec.channels, spec.length];
    let (x, apart) = (x.reshape(&shape)?, dy.reshape(&shape)?);
    let g = apart.mul(beside(weight, 3)?)?;
    let dims = &[1, 3];
    let norm = Norm {
        dims,
        eps,
        centred: true,
    };
    let [normal, dx] = norm.slope(&x, &g)?;
    if gain.requires_grad() {
        pass.add_tensor(gain, &apart.mul(normal)?.sum_dim(&[0, 1, 3], false)?)?;
    }
    if bias.requires_grad() {
        pass.add_tensor(bias, &apart.sum_dim(&[0, 1, 3], false)?)?;
    }
    match x_place.requires_grad() {
        true => pass.add_tensor(x_place, &dx.reshape(dy.shape())?),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::BackwardPlan;
    use crate::ops::test_support::{check, input, message};
    use crate::tape::enable_grad;

    fn operands() -> [Tensor; 3] {
        [input(1, &[4, 3, 2, 2]), input(2, &[3]), input(3, &[3])]
    }

    #[test]
    fn derivatives_agree_with_finite_differences() {
        let options = BatchNormOptions::default();
        check("batch_norm", &operands(), |x| {
            x[0].batch_norm(Some([&x[1], &x[2]]), None, &options)
        });
        check("batch_norm", &[input(1, &[5, 3])], |x| {
            x[0].batch_norm(None, None, &options)
        });
        let (mean, variance) = (input(4, &[3]), input(5, &[3]).abs().expect("values"));
        check("batch_norm", &operands(), |x| {
            x[0].batch_norm_by(&mean, &variance, Some([&x[1], &x[2]]), 0.1)
        });
    }

    #[test]
    fn a_second_derivative_agrees_with_finite_differences() {
        let options = BatchNormOptions::default();
        check("batch_norm", &[input(1, &[3, 2, 2]), input(2, &[2])], |x| {
            enable_grad(|| {
                let signal = match x[0].requires_grad() {
                    true => x[0].clone(),
                    false => x[0].with_gradient(),
                };
                let bias = x[1].zeros_like()?;
                let y = signal.batch_norm(Some([&x[1], &bias]), None, &options)?;
                let slope = y.tanh()?.sum()?.gradients(&[&signal], true)?.remove(0);
                slope.expect("the signal is used").square()?.sum()
            })
        });
    }

    #[test]
    fn the_statistics_are_of_each_shard() -> Result<()> {
        let [x, weight, bias] = operands();
        let affine = Some([&weight, &bias]);
        let by = |shards| BatchNormOptions {
            shards,
            ..BatchNormOptions::default()
        };
        let y = x.with_samples(0)?.batch_norm(affine, None, &by(2))?;
        for shard in 0..2 {
            let alone = x
                .narrow(0, 2 * shard, 2)?
                .batch_norm(affine, None, &by(1))?;
            assert_eq!(y.narrow(0, 2 * shard, 2)?.to_vec()?, alone.to_vec()?);
        }
        let text = message(x.batch_norm(affine, None, &by(2)));
        assert!(text.contains("nothing says where"), "{text}");
        let text = message(x.with_samples(0)?.batch_norm(affine, None, &by(3)));
        assert_eq!(text, "batch_norm: 3 shards do not divide a batch of 4");
        Ok(())
    }

    #[test]
    fn passes_by_other_shards_or_parts_of_one_are_refused() -> Result<()> {
        let [x, weight, bias] = operands();
        let (x, weight) = (x.with_samples(0)?, weight.with_gradient());
        let loss = || x.batch_norm(Some([&weight, &bias]), None, &Default::default());
        let refused = |shards: usize, accumulate: bool| {
            let plan = BackwardPlan {
                shards,
                accumulate,
                whole_batch: false,
            };
            let pass = loss()?.sum()?.backward_with(&plan);
            Ok::<_, AutogradError>(pass.expect_err("refused").to_string())
        };
        assert_eq!(
            refused(2, false)?,
            "batch_norm: the pass sums by 2 shards, the statistics are of 1"
        );
        let text = refused(1, true)?;
        assert!(text.contains("a part of a shard"), "{text}");
        loss()?.sum()?.backward_with(&BackwardPlan::default())
    }

    #[test]
    fn unfitting_arguments_are_refused() {
        let [x, weight, bias] = operands();
        let options = BatchNormOptions::default();
        let text = message(x.batch_norm(Some([&bias, &input(1, &[4])]), None, &options));
        assert_eq!(text, "batch_norm: bias has shape [4], expected [3]");
        let text = message(input(1, &[4]).batch_norm(None, None, &options));
        assert_eq!(
            text,
            "batch_norm: the input has shape [4], expected [N, C, ..]"
        );
        let text = message(input(1, &[1, 3]).batch_norm(None, None, &options));
        assert!(text.contains("1 values a channel"), "{text}");
        let text = message(x.batch_norm_by(&weight, &input(1, &[2]), None, 1e-5));
        assert_eq!(text, "batch_norm: variance has shape [2], expected [3]");
    }
}
