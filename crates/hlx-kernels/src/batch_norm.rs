//! Batch norm: each channel normalised by the statistics of the shard that a sample belongs to.
//!
//! The terms of a channel in a shard are its elements in the shard's real samples, in row-major order;
//! they are cut into pieces of 4,096. Forward, for n terms: a piece p of `n_p` terms has
//! `S_p = sum x` and `Q_p = sum (x - S_p / n_p)^2`; then `mean = (sum_p S_p) / n`,
//! `M = sum_p (Q_p + n_p (S_p / n_p - mean)^2)`, `variance = M / n`,
//! `rstd = 1 / sqrt(variance + eps)` and `y = fma((x - mean) rstd, weight, bias)`. So x is read once for
//! its statistics, and the variance is as accurate as with a second pass. The running values follow shard
//! by shard, in order: `running_mean = fma(m, mean, (1 - m) running_mean)`, and `running_var` likewise
//! with the unbiased `M / (n - 1)`; a shard of fewer than two terms leaves them.
//!
//! Backward, with `n = (x - mean) rstd`: `dbias = sum dy` and `dweight = sum dy n`, a value per shard;
//! with `a` and `b` these sums over the number of terms,
//! `dx = (weight rstd) ((dy - a) - n b)`, and +0 for samples that are not real.
//!
//! Every sum has the order of general reductions: a piece as a row of [`lanes`](crate::lanes), the
//! pieces' values as one row again. Shapes: x, y, dy, dx `[shards * samples, channels, length]`; weight,
//! bias, running values `[channels]`; stats `[shards, channels, 2]` of (mean, rstd); dweight, dbias
//! `[shards, channels]`; counts `[1]`, the number of empty samples of the pass, which come first: a short
//! batch begins with them, and all others are real.
//! PyTorch: `torch.nn.functional.batch_norm`, of each shard.

mod cpu;
#[cfg(test)]
mod tests;

use hlx_core::{Binding, Buffer, Device, as_u32};

use crate::division::division;
use crate::error::{Result, check_len, check_sizes};
use crate::kernel::{Kernel, PushConstants};
use crate::lanes::LANES;
use crate::map::GROUP_THREADS;
use crate::terms::PIECE;
use crate::tuning::RowCut;

shader!(batch_norm::{statistics, join, apply, backward_sums, backward_join, backward_input});

/// The shape of a batch norm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchNorm {
    /// Shards that the samples belong to.
    pub shards: usize,
    /// Samples of a shard, empty ones included.
    pub samples: usize,
    /// Channels of a sample.
    pub channels: usize,
    /// Elements of a channel of a sample.
    pub length: usize,
}

/// The running values of a batch norm, which follow its statistics.
#[derive(Clone, Copy, Debug)]
pub struct Running<'a> {
    /// `[channels]`.
    pub mean: &'a Buffer,
    /// `[channels]`.
    pub variance: &'a Buffer,
    /// `[1]`, u32: the shards that the running values have followed.
    pub tracked: &'a Buffer,
    /// The weight of a new value; `None` averages over all shards so far, as PyTorch's
    /// `momentum=None`.
    pub momentum: Option<f32>,
}

impl BatchNorm {
    /// Checks the sizes: behind this no number of elements wraps.
    fn check_sizes(&self, name: &'static str) -> Result<()> {
        check_sizes(
            name,
            &[self.shards, self.channels, self.samples, self.length],
        )
    }

    /// Terms of a channel in a shard.
    fn terms(&self) -> usize {
        self.samples * self.length
    }

    fn pieces(&self) -> usize {
        self.terms().div_ceil(PIECE)
    }

    /// Words of the values of all pieces, `[shards, channels, pieces, 2]`: what [`batch_norm_statistics`]
    /// leaves and [`batch_norm_follow`] reads.
    pub fn partials_len(&self) -> usize {
        let terms = self.samples.saturating_mul(self.length);
        let rows = self.shards.saturating_mul(self.channels);
        rows.saturating_mul(terms.div_ceil(PIECE)).saturating_mul(2)
    }
    fn len(&self) -> usize {
        self.shards * self.channels * self.terms()
    }

    fn check(&self, name: &'static str) -> Result<()> {
        self.check_sizes(name)?;
        let terms = self.terms();
        check_that!(name, terms >= 2 =>
            "a shard has {terms} values a channel, expected at least 2")?;
        check_that!(name, u32::try_from(self.len()).is_ok() =>
            "{} elements are more than 2^32 - 1", self.len())
    }

    /// The shards that running values follow, with `empty` samples in the pass: those of two values a
    /// channel or more.
    pub fn followed(&self, empty: usize) -> usize {
        let terms = |shard: usize| self.real(empty, shard).saturating_mul(self.length);
        let follows = |shard: &usize| terms(*shard) >= 2;
        (0..self.shards).filter(follows).count()
    }

    /// Real samples of a shard, with `empty` samples in the pass.
    fn real(&self, empty: usize, shard: usize) -> usize {
        let first = shard.saturating_mul(self.samples);
        self.samples - empty.saturating_sub(first).min(self.samples)
    }

    /// The push constants of the kernels over pieces.
    fn push(&self, eps: f32, momentum: Option<f32>) -> PushConstants {
        let (magic, shift) = division(self.length as u32);
        push!(statistics =>
            shards: self.shards, samples: self.samples, channels: self.channels, extent: self.length,
            pieces: self.pieces(), magic, shift, eps, momentum: momentum.unwrap_or(0.0)
        )
    }
}

/// Launches a kernel over rows of lanes, whose threads may hold `cols` elements at once; `constants` come after those of the
/// frame.
fn launch_rows<const R: usize, const W: usize>(
    device: &Device,
    kernel: &Kernel<'_>,
    constants: &[(u32, u32)],
    push: &PushConstants,
    rows: usize,
    cols: usize,
    body: impl Fn([&[f32]; R], [&mut [f32]; W]) + Send + Sync + 'static,
) -> Result<()> {
    // Blocks by powers of two: few pipelines serve all lengths.
    let held = cols.div_ceil(LANES).max(1).next_power_of_two() * LANES;
    let (group, cols) = match RowCut::held(device, held) {
        Some(group) => (group, held),
        None => (RowCut::streamed(device, LANES), LANES),
    };
    let kernel = kernel
        .constants(group.specialization(cols))
        .constants(constants);
    kernel.launch(device, *push, group.groups(rows), body)
}

/// Launches a kernel of four elements per thread.
fn launch_elements<const R: usize, const W: usize>(
    device: &Device,
    kernel: &Kernel<'_>,
    constants: &[(u32, u32)],
    spec: &BatchNorm,
    body: impl Fn([&[f32]; R], [&mut [f32]; W]) + Send + Sync + 'static,
) -> Result<()> {
    let whole = spec.length.is_multiple_of(4);
    let groups = spec.len().div_ceil(4 * GROUP_THREADS);
    let (magic, shift) = division(spec.length as u32);
    let push = push!(apply =>
        count: spec.len(), shards: spec.shards, samples: spec.samples, channels: spec.channels,
        extent: spec.length, magic, shift
    );
    let kernel = kernel.constants(constants!(5: whole)).constants(constants);
    kernel.launch(device, push, groups, body)
}

/// Elements that a row's threads load before they add: 4,096 for the statistics, which need them
/// twice, and half as many of each of two tensors.
const HELD: usize = PIECE;
const HELD_OF_TWO: usize = PIECE / 2;

/// The number of empty samples in the pass, from the counts where there are any.
fn empty_of(counted: bool, counts: &[f32]) -> usize {
    match counted {
        true => as_u32(counts)[0] as usize,
        false => 0,
    }
}

/// Computes the statistics of every shard; overwrites `stats`, and moves the running values.
/// [`batch_norm_apply`] counts the shards in [`Running::tracked`].
///
/// `counts`: `[1]`, u32, the empty samples, or `None` where there are none; `partials`: where to leave the values of
/// all pieces, [`BatchNorm::partials_len`] words, if anywhere.
///
/// # Errors
/// If a buffer has another length, a shard has fewer than two values per channel, or the launch fails.
#[allow(clippy::too_many_arguments)] // One kernel's buffers and shape, flat as everywhere here.
pub fn batch_norm_statistics(
    device: &Device,
    x: &Buffer,
    counts: Option<&Buffer>,
    running: Option<&Running<'_>>,
    partials: Option<&Buffer>,
    stats: &Buffer,
    spec: &BatchNorm,
    eps: f32,
) -> Result<()> {
    const NAME: &str = "batch_norm_statistics";
    let (spec, counted) = (*spec, counts.is_some());
    spec.check(NAME)?;
    let partials = &match partials {
        Some(partials) => partials.clone(),
        None => device.alloc(spec.partials_len())?,
    };
    let kernel = Kernel::new(NAME, &statistics::SHADER)
        .read_if("counts", counts, 1)?
        .read("x", x, spec.len())?
        .write("partials", partials, spec.partials_len())?;
    check_len(NAME, "stats", stats, [2, spec.shards, spec.channels])?;
    let push = spec.push(eps, running.and_then(|running| running.momentum));
    let rows = spec.shards * spec.channels * spec.pieces();
    let cols = spec.terms().min(HELD);
    let body = move |[counts, x]: [&[f32]; 2], [partials]: [&mut [f32]; 1]| {
        cpu::statistics(x, partials, empty_of(counted, counts), &spec);
    };
    let constants = constants!(4: counted);
    launch_rows(device, &kernel, &constants, &push, rows, cols, body)?;
    launch_join(device, counts, partials, stats, running, &spec, eps)
}

/// Moves the running values by the shards whose pieces have left `partials`
/// ([`batch_norm_statistics`]), in order, `counts` being the empty samples of all of them: what the
/// statistics themselves do where one process has all shards. [`Running::tracked`] is not changed.
///
/// # Errors
/// If a buffer has another length, or the launch fails.
pub fn batch_norm_follow(
    device: &Device,
    partials: &Buffer,
    counts: &Buffer,
    running: &Running<'_>,
    spec: &BatchNorm,
) -> Result<()> {
    const NAME: &str = "batch_norm_follow";
    spec.check_sizes(NAME)?;
    check_len(NAME, "partials", partials, spec.partials_len())?;
    check_len(NAME, "counts", counts, 1)?;
    // The statistics themselves were used by the passes.
    let stats = device.alloc_shape(&[2, spec.shards, spec.channels])?;
    let counts = Some(counts);
    launch_join(device, counts, partials, &stats, Some(running), spec, 1.0)
}

fn launch_join(
    device: &Device,
    counts: Option<&Buffer>,
    partials: &Buffer,
    stats: &Buffer,
    running: Option<&Running<'_>>,
    spec: &BatchNorm,
    eps: f32,
) -> Result<()> {
    const NAME: &str = "batch_norm_join";
    let (spec, counted, tracks) = (*spec, counts.is_some(), running.is_some());
    let momentum = running.and_then(|running| running.momentum);
    if let Some(running) = running {
        check_len(NAME, "running_mean", running.mean, spec.channels)?;
        check_len(NAME, "running_var", running.variance, spec.channels)?;
        check_len(NAME, "tracked", running.tracked, 1)?;
    }
    let constants = constants!(4: counted, tracks, tracks && momentum.is_none());
    let kernel = Kernel::new(NAME, &join::SHADER)
        .reads_if(counts)
        .reads([partials])
        .writes([stats])
        .writes_if(running.map(|running| Binding::ReadWrite(running.mean)))
        .writes_if(running.map(|running| Binding::ReadWrite(running.variance)))
        .reads_if(running.map(|running| running.tracked));
    let push = spec.push(eps, momentum);
    let body = move |[counts, partials, tracked]: [&[f32]; 3], written: [&mut [f32]; 3]| {
        let [stats, mean, variance] = written;
        let empty = empty_of(counted, counts);
        cpu::join(partials, stats, empty, eps, &spec);
        if tracks {
            let seen = as_u32(tracked)[0];
            let follow = cpu::Follow { seen, momentum };
            cpu::follow(partials, stats, mean, variance, empty, follow, &spec);
        }
    };
    launch_rows(
        device,
        &kernel,
        &constants,
        &push,
        spec.channels,
        LANES,
        body,
    )
}

/// Computes y from the statistics; overwrites y, and adds to [`Running::tracked`] the shards that the
/// running values have followed.
///
/// # Errors
/// If a buffer has another length, or the launch fails.
#[allow(clippy::too_many_arguments)] // One kernel's buffers and shape, flat as everywhere here.
pub fn batch_norm_apply(
    device: &Device,
    x: &Buffer,
    weight: &Buffer,
    bias: &Buffer,
    stats: &Buffer,
    counts: Option<&Buffer>,
    tracked: Option<&Buffer>,
    y: &Buffer,
    spec: &BatchNorm,
) -> Result<()> {
    const NAME: &str = "batch_norm_apply";
    let (spec, counted, tracks) = (*spec, counts.is_some(), tracked.is_some());
    spec.check_sizes(NAME)?;
    let kernel = Kernel::new(NAME, &apply::SHADER)
        .read_if("counts", counts, 1)?
        .read("x", x, spec.len())?
        .read("weight", weight, spec.channels)?
        .read("bias", bias, spec.channels)?
        .read("stats", stats, [2, spec.shards, spec.channels])?
        .write("y", y, spec.len())?;
    let kernel = match tracked {
        Some(tracked) => kernel.update("tracked", tracked, 1)?,
        None => kernel.writes_if(None),
    };
    let constants = [(4, u32::from(counted)), (6, u32::from(tracks))];
    let body = move |[counts, x, weight, bias, stats]: [&[f32]; 5], written: [&mut [f32]; 2]| {
        let [y, tracked] = written;
        cpu::apply(x, [weight, bias, stats], y, &spec);
        if tracks {
            let empty = empty_of(counted, counts);
            let n = tracked[0].to_bits() + spec.followed(empty) as u32;
            tracked[0] = f32::from_bits(n);
        }
    };
    launch_elements(device, &kernel, &constants, &spec, body)
}

/// Computes dx, and the shards' dweight and dbias; overwrites all three, or with `accumulate` adds to
/// dweight and dbias.
///
/// # Errors
/// As [`batch_norm_statistics`].
#[allow(clippy::too_many_arguments)] // As above.
pub fn batch_norm_backward(
    device: &Device,
    x: &Buffer,
    weight: &Buffer,
    stats: &Buffer,
    dy: &Buffer,
    counts: Option<&Buffer>,
    dx: &Buffer,
    [dweight, dbias]: [&Buffer; 2],
    accumulate: bool,
    spec: &BatchNorm,
) -> Result<()> {
    const NAME: &str = "batch_norm_backward";
    let (spec, counted) = (*spec, counts.is_some());
    spec.check(NAME)?;
    let channels = spec.shards * spec.channels;
    for (argument, buffer, len) in [
        ("x", x, spec.len()),
        ("dy", dy, spec.len()),
        ("dx", dx, spec.len()),
        ("weight", weight, spec.channels),
        ("stats", stats, 2 * channels),
        ("dweight", dweight, channels),
        ("dbias", dbias, channels),
    ] {
        check_len(NAME, argument, buffer, len)?;
    }
    check_len(NAME, "counts", counts, 1)?;
    let partials = device.alloc_shape(&[2, channels, spec.pieces()])?;
    let means = device.alloc_shape(&[2, channels])?;
    let sums = Kernel::new("batch_norm_backward_sums", &backward_sums::SHADER)
        .reads_if(counts)
        .reads([x, dy, stats])
        .writes([&partials]);
    let join = Kernel::new("batch_norm_backward_join", &backward_join::SHADER)
        .reads_if(counts)
        .reads([&partials])
        .writes([&means])
        .updates([dweight, dbias]);
    let input = Kernel::new("batch_norm_backward_input", &backward_input::SHADER)
        .reads_if(counts)
        .reads([x, dy, weight, stats, &means])
        .writes([dx]);
    let push = spec.push(0.0, None);
    let of_counts = (4, u32::from(counted));
    let (rows, cols) = (channels * spec.pieces(), spec.terms().min(HELD_OF_TWO));
    let body = move |[counts, x, dy, stats]: [&[f32]; 4], [partials]: [&mut [f32]; 1]| {
        cpu::backward_sums([x, dy, stats], partials, empty_of(counted, counts), &spec);
    };
    launch_rows(device, &sums, &[of_counts], &push, rows, cols, body)?;
    let constants = [of_counts, (5, u32::from(accumulate))];
    let body = move |[counts, partials]: [&[f32]; 2], [means, dweight, dbias]: [&mut [f32]; 3]| {
        let empty = empty_of(counted, counts);
        cpu::backward_join(partials, means, [dweight, dbias], accumulate, empty, &spec);
    };
    launch_rows(device, &join, &constants, &push, channels, LANES, body)?;
    let body = move |[counts, x, dy, weight, stats, means]: [&[f32]; 6], [dx]: [&mut [f32]; 1]| {
        let empty = empty_of(counted, counts);
        cpu::backward_input([x, dy, weight, stats, means], dx, empty, &spec);
    };
    launch_elements(device, &input, &[of_counts], &spec, body)
}
