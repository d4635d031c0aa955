//! Batch norm: in training by the statistics of each shard, in evaluation by running values.

use hlx_core::Buffer;
use hlx_kernels::batch_norm::{
    BatchNorm, Running, batch_norm_apply, batch_norm_backward, batch_norm_statistics,
};

use super::join::Padding;
use super::normal::{Norm, add_affine_gradients, beside};
use crate::graph::saved_tensor::SavedTensor;
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
    /// Where the values of all pieces are left
    /// ([`partials_len`](hlx_kernels::batch_norm::BatchNorm::partials_len) words), for running values that
    /// follow later.
    pub partials: Option<&'a Buffer>,
}

impl Default for BatchNormOptions<'_> {
    /// PyTorch's eps and momentum, one shard, no empty samples.
    fn default() -> Self {
        Self {
            eps: 1e-5,
            momentum: Some(0.1),
            shards: 1,
            empty: None,
            partials: None,
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
    /// are, and a kernel error for fewer than two values per channel.
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
        let device = self.device();
        let counts = options.empty.cloned();
        let values = match running {
            Some(running) => Some(running_buffers(self, &running, spec.channels)?),
            None => None,
        };
        let (x, eps) = (self.buffer()?, options.eps);
        let stats = device.alloc_shape(&[2, spec.shards, spec.channels])?;
        let following = values.as_ref().map(|[mean, variance, tracked]| Running {
            mean,
            variance,
            tracked,
            momentum: options.momentum,
        });
        let following = following.as_ref();
        let (empty, partials) = (counts.as_ref(), options.partials);
        batch_norm_statistics(device, &x, empty, following, partials, &stats, &spec, eps)?;
        let [gain, bias] = affine_or_identity(self, affine, spec.channels)?;
        let (w, b) = (gain.buffer()?, bias.buffer()?);
        let y = device.alloc(x.len())?;
        let tracked = following.map(|running| running.tracked);
        batch_norm_apply(device, &x, &w, &b, &stats, empty, tracked, &y, &spec)?;
        let places = [self.input(), gain.input(), bias.input()];
        let (input, weight) = (SavedTensor::of(self)?, gain.clone());
        let (x, w) = (self.save_activation(&x)?, gain.save_values(&w));
        let inputs = [self, &gain, &bias];
        let output = Tensor::of_rule(OP, &inputs, (y, self.shape()), move |pass, dy, _| {
            if pass.is_recorded() {
                let empty = match &counts {
                    Some(counts) => pass.device().download_words(counts)?[0] as usize,
                    None => 0,
                };
                return recorded(
                    pass,
                    &places,
                    [&input.tensor()?, &weight, dy],
                    &spec,
                    eps,
                    empty,
                );
            }
            check_pass(pass, &spec)?;
            let (device, x, w) = (pass.device().clone(), x.values()?, w.values()?);
            let [x_place, gain, bias] = &places;
            let (dw, db) = pass.open_pair(gain, bias, batch)?;
            let (dx, dy, more) = (device.alloc(x.len())?, dy.buffer()?, dw.accumulate);
            let (empty, sums) = (counts.as_ref(), [&dw.buffer, &db.buffer]);
            batch_norm_backward(&device, &x, &w, &stats, &dy, empty, &dx, sums, more, &spec)?;
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
        self.same_device(OP, others)?;
        if self.is_half() {
            let (mean, variance) = (mean.widened()?, variance.widened()?);
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
        let device = self.device();
        let y = device.alloc(self.n_elements())?;
        if self.n_elements() > 0 {
            let stats = Tensor::stack(&[&mean, &rstd], -1)?.buffer()?;
            let (x, w, b) = (self.buffer()?, gain.buffer()?, bias.buffer()?);
            batch_norm_apply(device, &x, &w, &b, &stats, None, None, &y, &spec)?;
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
            self.same_device(OP, [("weight", Some(weight)), ("bias", Some(bias))])?;
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
            Tensor::ones(x.device(), &[channels], DType::F32)?,
            Tensor::zeros(x.device(), &[channels], DType::F32)?,
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
        x.same_device(OP, [(argument, Some(tensor))])?;
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

/// The derivatives as operations of x, the gain and dy. The first `empty` samples enter no sum and have
/// no gradient.
fn recorded(
    pass: &mut Backward<'_>,
    [x_place, gain, bias]: &[Input; 3],
    [x, weight, dy]: [&Tensor; 3],
    spec: &BatchNorm,
    eps: f32,
    empty: usize,
) -> Result<()> {
    let shape = [spec.shards, spec.samples, spec.channels, spec.length];
    let (x, dy_of_shards) = (x.reshape(&shape)?, dy.reshape(&shape)?);
    let norm = Norm {
        dims: &[1, 3],
        eps,
        centred: true,
    };
    // Shards without a real sample have no part; one that begins with empty samples is a part of its own.
    let samples = spec.samples.max(1);
    let (shard, first) = (empty / samples, empty % samples);
    let begun = usize::from(first > 0);
    let whole = spec.shards.saturating_sub(shard + begun);
    let parts = [(shard, begun, first), (shard + begun, whole, 0)];
    let (mut dx, mut dgain, mut dbias) = (Vec::new(), Vec::new(), Vec::new());
    for (shard, n_shards, first) in parts.into_iter().filter(|&(_, n_shards, _)| n_shards > 0) {
        let real = |all: &Tensor| {
            let part = all.narrow(0, shard, n_shards)?;
            part.narrow(1, first, spec.samples - first)
        };
        let (x, dy) = (real(&x)?, real(&dy_of_shards)?);
        let [normal, slope] = norm.slope(&x, &dy.mul(beside(weight, 3)?)?)?;
        let after = spec.shards - shard - n_shards;
        let around = [(0, 0), (0, 0), (first, 0), (shard, after)];
        let around = around.map(|(before, after)| (before as isize, after as isize));
        dx.push(match empty {
            0 => slope,
            _ => slope.pad(&around, Padding::Constant(0.0))?,
        });
        dgain.push(dy.mul(normal)?.sum_dim(&[0, 1, 3], false)?);
        dbias.push(dy.sum_dim(&[0, 1, 3], false)?);
    }
    let all = [
        (x_place, dx, dy.shape()),
        (gain, dgain, weight.shape()),
        (bias, dbias, weight.shape()),
    ];
    for (place, parts, shape) in all.into_iter().filter(|(place, ..)| place.requires_grad()) {
        let mut parts = parts.into_iter();
        let first = parts.next();
        let mut sum = first.map_or_else(|| Tensor::zeros(dy.device(), shape, DType::F32), Ok)?;
        for part in parts {
            sum = sum.add(part)?;
        }
        pass.add_tensor(place, &sum.reshape(shape)?)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
