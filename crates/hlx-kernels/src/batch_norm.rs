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
//! Backward, with `n = (x - mean) rstd`: `dbias = sum dy` and `dweight = sum dy n`, a value a shard;
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

use hlx_core::{
    Binding, Buffer, CpuBindings, DType, Device, Launch, Shader, as_u32, groups_1d, push_bytes,
};

use crate::division::division;
use crate::error::{KernelError, check_len, check_sizes, check_that};
use crate::lanes::{LANES, RowGroup};
use crate::map::GROUP_THREADS;
use crate::terms::PIECE;

shader!(statistics, batch_norm::statistics);
shader!(join, batch_norm::join);
shader!(apply, batch_norm::apply);
shader!(backward_sums, batch_norm::backward_sums);
shader!(backward_join, batch_norm::backward_join);
shader!(backward_input, batch_norm::backward_input);

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
    fn check_sizes(&self, name: &'static str) -> Result<(), KernelError> {
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

    /// The number of elements.
    fn len(&self) -> usize {
        self.shards * self.channels * self.terms()
    }

    fn check(&self, name: &'static str) -> Result<(), KernelError> {
        self.check_sizes(name)?;
        let terms = self.terms();
        check_that(name, terms >= 2, || {
            format!("a shard has {terms} values a channel, expected at least 2")
        })?;
        check_that(name, u32::try_from(self.len()).is_ok(), || {
            format!("{} elements are more than 2^32 - 1", self.len())
        })
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
    fn push(&self, eps: f32, momentum: f32) -> statistics::Push {
        let (magic, shift) = division(self.length as u32);
        statistics::Push {
            shards: self.shards as u32,
            samples: self.samples as u32,
            channels: self.channels as u32,
            extent: self.length as u32,
            pieces: self.pieces() as u32,
            magic,
            shift,
            eps,
            momentum,
        }
    }

    /// The push constants of the kernels over elements.
    fn element_push(&self) -> apply::Push {
        let (magic, shift) = division(self.length as u32);
        apply::Push {
            count: self.len() as u32,
            shards: self.shards as u32,
            samples: self.samples as u32,
            channels: self.channels as u32,
            extent: self.length as u32,
            magic,
            shift,
        }
    }
}

/// A launch over rows of lanes or over elements, without its operands.
struct Kernel<'a> {
    name: &'static str,
    shader: &'static Shader,
    /// The constants after those of the frame.
    constants: &'a [(u32, u32)],
    push: &'a [u8],
}

impl Kernel<'_> {
    /// Launches a workgroup's rows: `cols` is what a row's threads may hold at once.
    fn rows(
        &self,
        device: &Device,
        (rows, cols): (usize, usize),
        bindings: &[Binding<'_>],
        body: impl Fn(&mut CpuBindings<'_>) + Send + Sync + 'static,
    ) -> Result<(), KernelError> {
        // Blocks by powers of two: few pipelines serve all lengths.
        let held = cols.div_ceil(LANES).max(1).next_power_of_two() * LANES;
        let (group, cols) = match RowGroup::held(device, held) {
            Some(group) => (group, held),
            None => (RowGroup::streamed(device, LANES).0, LANES),
        };
        let specialization = [&group.specialization(cols)[..], self.constants].concat();
        let launch = Launch {
            name: self.name,
            shader: self.shader,
            specialization: &specialization,
            bindings,
            push: self.push,
            groups: group.groups(rows),
        };
        Ok(device.launch(launch, body)?)
    }

    /// Launches four elements a thread.
    fn elements(
        &self,
        device: &Device,
        spec: &BatchNorm,
        bindings: &[Binding<'_>],
        body: impl Fn(&mut CpuBindings<'_>) + Send + Sync + 'static,
    ) -> Result<(), KernelError> {
        let whole = (5, u32::from(spec.length.is_multiple_of(4)));
        let specialization = [&[whole][..], self.constants].concat();
        let launch = Launch {
            name: self.name,
            shader: self.shader,
            specialization: &specialization,
            bindings,
            push: self.push,
            groups: groups_1d(spec.len().div_ceil(4 * GROUP_THREADS)),
        };
        Ok(device.launch(launch, body)?)
    }
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
/// `counts`: `[1]`, u32, the empty samples, or `None` where there are none.
///
/// # Errors
/// If a buffer has another length, a shard has fewer than two values a channel, or the launch fails.
pub fn batch_norm_statistics(
    device: &Device,
    x: &Buffer,
    counts: Option<&Buffer>,
    running: Option<&Running<'_>>,
    stats: &Buffer,
    spec: &BatchNorm,
    eps: f32,
) -> Result<(), KernelError> {
    let partials = device.alloc(spec.partials_len())?;
    batch_norm_statistics_kept(device, (x, counts), running, &partials, stats, spec, eps)
}

/// As [`batch_norm_statistics`], and leaves the values of all pieces in `partials`, whose length is
/// [`BatchNorm::partials_len`].
///
/// # Errors
/// As [`batch_norm_statistics`].
pub fn batch_norm_statistics_kept(
    device: &Device,
    (x, counts): (&Buffer, Option<&Buffer>),
    running: Option<&Running<'_>>,
    partials: &Buffer,
    stats: &Buffer,
    spec: &BatchNorm,
    eps: f32,
) -> Result<(), KernelError> {
    const NAME: &str = "batch_norm_statistics";
    let (spec, counted) = (*spec, counts.is_some());
    spec.check(NAME)?;
    check_operands(NAME, &[("x", x)], counts, &spec)?;
    let channels = spec.shards * spec.channels;
    check_len(NAME, "stats", stats, [2, channels])?;
    check_len(NAME, "partials", partials, spec.partials_len())?;
    let push = spec.push(
        eps,
        running.and_then(|running| running.momentum).unwrap_or(0.0),
    );
    let constants = [(4, u32::from(counted))];
    // Without counts the binding is not read; any buffer will do.
    let counts = counts.unwrap_or(x);
    let kernel = Kernel {
        name: NAME,
        shader: &statistics::SHADER,
        constants: &constants,
        push: push_bytes(&push),
    };
    let bindings = [
        Binding::Read(counts),
        Binding::Read(x),
        Binding::Write(partials),
    ];
    let rows = channels * spec.pieces();
    kernel.rows(
        device,
        (rows, spec.terms().min(HELD)),
        &bindings,
        move |b| {
            let ([counts, x], [partials]) = b.split();
            cpu::statistics(x, partials, empty_of(counted, counts), &spec);
        },
    )?;
    launch_join(
        device,
        counts,
        partials,
        stats,
        running,
        (&spec, counted, eps),
    )
}

/// Moves the running values by the shards whose pieces have left `partials`
/// ([`batch_norm_statistics_kept`]), in order, `counts` being the empty samples of all of them: what the
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
) -> Result<(), KernelError> {
    const NAME: &str = "batch_norm_follow";
    spec.check_sizes(NAME)?;
    check_len(NAME, "partials", partials, spec.partials_len())?;
    check_len(NAME, "counts", counts, 1)?;
    // The statistics themselves were used by the passes.
    let stats = device.alloc_shape(&[2, spec.shards, spec.channels])?;
    let how = (spec, true, 1.0);
    launch_join(device, counts, partials, &stats, Some(running), how)
}

fn launch_join(
    device: &Device,
    counts: &Buffer,
    partials: &Buffer,
    stats: &Buffer,
    running: Option<&Running<'_>>,
    (spec, counted, eps): (&BatchNorm, bool, f32),
) -> Result<(), KernelError> {
    const NAME: &str = "batch_norm_join";
    let (spec, tracks) = (*spec, running.is_some());
    let momentum = running.and_then(|running| running.momentum);
    let [mean, variance] = match running {
        Some(running) => [running.mean.clone(), running.variance.clone()],
        None => [device.alloc(spec.channels)?, device.alloc(spec.channels)?],
    };
    check_len(NAME, "running_mean", &mean, spec.channels)?;
    check_len(NAME, "running_var", &variance, spec.channels)?;
    if let Some(running) = running {
        check_len(NAME, "tracked", running.tracked, 1)?;
    }
    let push = spec.push(eps, momentum.unwrap_or(0.0));
    let constants = [
        (4, u32::from(counted)),
        (5, u32::from(tracks)),
        (6, u32::from(tracks && momentum.is_none())),
    ];
    let kernel = Kernel {
        name: NAME,
        shader: &join::SHADER,
        constants: &constants,
        push: push_bytes(&push),
    };
    let bindings = [
        Binding::Read(counts),
        Binding::Read(partials),
        Binding::Write(stats),
        Binding::ReadWrite(&mean),
        Binding::ReadWrite(&variance),
        Binding::Read(running.map_or(partials, |running| running.tracked)),
    ];
    kernel.rows(device, (spec.channels, LANES), &bindings, move |b| {
        let ([counts, partials, tracked], [stats, mean, variance]) = b.split();
        let empty = empty_of(counted, counts);
        cpu::join(partials, stats, empty, eps, &spec);
        if tracks {
            let follow = cpu::Follow {
                seen: as_u32(tracked)[0],
                momentum,
            };
            cpu::follow(partials, stats, (mean, variance), empty, follow, &spec);
        }
    })
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
) -> Result<(), KernelError> {
    const NAME: &str = "batch_norm_apply";
    let (spec, counted, tracks) = (*spec, counts.is_some(), tracked.is_some());
    spec.check_sizes(NAME)?;
    check_operands(NAME, &[("x", x), ("y", y)], counts, &spec)?;
    check_len(NAME, "weight", weight, spec.channels)?;
    check_len(NAME, "bias", bias, spec.channels)?;
    check_len(NAME, "stats", stats, [2, spec.shards, spec.channels])?;
    let tracked = match tracked {
        Some(tracked) => tracked.clone(),
        None => device.alloc_typed(DType::U32, 1)?,
    };
    check_len(NAME, "tracked", &tracked, 1)?;
    let push = spec.element_push();
    let kernel = Kernel {
        name: NAME,
        shader: &apply::SHADER,
        constants: &[(4, u32::from(counted)), (6, u32::from(tracks))],
        push: push_bytes(&push),
    };
    let bindings = [
        Binding::Read(counts.unwrap_or(x)),
        Binding::Read(x),
        Binding::Read(weight),
        Binding::Read(bias),
        Binding::Read(stats),
        Binding::Write(y),
        Binding::ReadWrite(&tracked),
    ];
    kernel.elements(device, &spec, &bindings, move |b| {
        let ([counts, x, weight, bias, stats], [y, tracked]) = b.split();
        cpu::apply(x, [weight, bias, stats], y, &spec);
        if tracks {
            let empty = empty_of(counted, counts);
            let n = tracked[0].to_bits() + spec.followed(empty) as u32;
            tracked[0] = f32::from_bits(n);
        }
    })
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
) -> Result<(), KernelError> {
    const NAME: &str = "batch_norm_backward";
    let (spec, counted) = (*spec, counts.is_some());
    spec.check(NAME)?;
    check_operands(NAME, &[("x", x), ("dy", dy), ("dx", dx)], counts, &spec)?;
    let channels = spec.shards * spec.channels;
    check_len(NAME, "weight", weight, spec.channels)?;
    check_len(NAME, "stats", stats, [2, channels])?;
    check_len(NAME, "dweight", dweight, channels)?;
    check_len(NAME, "dbias", dbias, channels)?;
    let counts = counts.unwrap_or(x);
    let partials = device.alloc_shape(&[2, channels, spec.pieces()])?;
    let means = device.alloc_shape(&[2, channels])?;
    let push = spec.push(0.0, 0.0);
    let sums = Kernel {
        name: "batch_norm_backward_sums",
        shader: &backward_sums::SHADER,
        constants: &[(4, u32::from(counted))],
        push: push_bytes(&push),
    };
    let [counts_read, x_read] = [Binding::Read(counts), Binding::Read(x)];
    let (dy_read, stats_read) = (Binding::Read(dy), Binding::Read(stats));
    let bindings = [
        counts_read,
        x_read,
        dy_read,
        stats_read,
        Binding::Write(&partials),
    ];
    let shape = (channels * spec.pieces(), spec.terms().min(HELD_OF_TWO));
    sums.rows(device, shape, &bindings, move |b| {
        let ([counts, x, dy, stats], [partials]) = b.split();
        cpu::backward_sums([x, dy, stats], partials, empty_of(counted, counts), &spec);
    })?;
    let join = Kernel {
        name: "batch_norm_backward_join",
        shader: &backward_join::SHADER,
        constants: &[(4, u32::from(counted)), (5, u32::from(accumulate))],
        push: push_bytes(&push),
    };
    let bindings = [
        counts_read,
        Binding::Read(&partials),
        Binding::Write(&means),
        Binding::ReadWrite(dweight),
        Binding::ReadWrite(dbias),
    ];
    join.rows(device, (channels, LANES), &bindings, move |b| {
        let ([counts, partials], [means, dweight, dbias]) = b.split();
        let empty = empty_of(counted, counts);
        cpu::backward_join(partials, means, [dweight, dbias], accumulate, empty, &spec);
    })?;
    let push = spec.element_push();
    let input = Kernel {
        name: "batch_norm_backward_input",
        shader: &backward_input::SHADER,
        constants: &[(4, u32::from(counted))],
        push: push_bytes(&push),
    };
    let bindings = [
        counts_read,
        x_read,
        dy_read,
        Binding::Read(weight),
        stats_read,
        Binding::Read(&means),
        Binding::Write(dx),
    ];
    input.elements(device, &spec, &bindings, move |b| {
        let ([counts, x, dy, weight, stats, means], [dx]) = b.split();
        let empty = empty_of(counted, counts);
        cpu::backward_input([x, dy, weight, stats, means], dx, empty, &spec);
    })
}

/// Checks the tensors of the shape, and the counts.
fn check_operands(
    name: &'static str,
    tensors: &[(&'static str, &Buffer)],
    counts: Option<&Buffer>,
    spec: &BatchNorm,
) -> Result<(), KernelError> {
    for (argument, tensor) in tensors {
        check_len(name, argument, tensor, spec.len())?;
    }
    match counts {
        Some(counts) => check_len(name, "counts", counts, 1),
        None => Ok(()),
    }
}
