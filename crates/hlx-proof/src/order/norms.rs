//! The trees of batch norm and RMS norm.

use hlx_core::{Buffer, Device};
use hlx_kernels::KernelError;
use hlx_kernels::batch_norm::{BatchNorm, batch_norm_backward, batch_norm_statistics};
use hlx_kernels::norm::{
    Norm, NormBackwardInput, NormBackwardParams, norm_backward_input, norm_backward_params,
};
use hlx_kernels::testing::TestMemory;

use super::any_axes::{PIECES, assert_sizes};
use super::tree::{Tree, terms};
use super::{Masks, assert_order};

/// One pair per channel, of `samples` samples in one shard: `[samples, pairs, length]`.
fn spec_of(masks: &Masks, samples: usize) -> BatchNorm {
    BatchNorm {
        shards: 1,
        samples,
        channels: masks.len(),
        length: masks.n / samples,
    }
}

/// The masked terms in row-major order of samples and length.
fn channels(masks: &Masks, spec: &BatchNorm) -> Vec<f32> {
    let length = spec.length;
    let planes = (0..spec.samples).flat_map(|s| (0..spec.channels).map(move |pair| (s, pair)));
    planes
        .flat_map(|(s, pair)| (0..length).map(move |at| (pair, s * length + at)))
        .map(|(pair, k)| masks.term(pair, k))
        .collect()
}

/// dbias, with the masks in dy.
fn dbias(
    device: &Device,
    mem: &mut TestMemory,
    dy: &[f32],
    spec: &BatchNorm,
) -> Result<Buffer, KernelError> {
    let channels = spec.channels;
    let (x, dy) = (
        mem.input(device, &vec![1.0; dy.len()])?,
        mem.input(device, dy)?,
    );
    let weight = mem.input(device, &vec![1.0; channels])?;
    let stats = mem.input(device, &[0.0, 1.0].repeat(channels))?;
    let dx = mem.output(device, spec.samples * channels * spec.length)?;
    let (dw, db) = (mem.output(device, channels)?, mem.output(device, channels)?);
    batch_norm_backward(
        device,
        &x,
        &weight,
        &stats,
        &dy,
        None,
        &dx,
        [&dw, &db],
        false,
        spec,
    )?;
    Ok(db)
}

#[test]
fn batch_norm_sums_are_lanes_and_halves_over_samples_and_pixels() {
    for (samples, n) in [(1, 2), (3, 33), (43, 129), (261, 261)] {
        let masks = Masks::all(n);
        let spec = spec_of(&masks, samples);
        let dy = channels(&masks, &spec);
        assert_order(
            "batch_norm_backward",
            &masks,
            &Tree::lanes(terms(n)),
            |device, mem| dbias(device, mem, &dy, &spec),
            super::plain,
        );
    }
}

#[test]
fn long_batch_norm_sums_are_pieces_of_4096() {
    let masks = Masks::of_pieces();
    let spec = spec_of(&masks, 4);
    let dy = channels(&masks, &spec);
    let specified = Tree::flat(terms(PIECES));
    let body = |device: &Device, mem: &mut TestMemory| dbias(device, mem, &dy, &spec);
    assert_sizes("batch_norm_backward", &masks, &specified, body, 0);
}

/// The mean of a power of two of terms is exact, so that it shows the sum.
#[test]
fn batch_norm_means_are_lanes_and_halves() {
    for (samples, n) in [(2, 4), (4, 32), (8, 256)] {
        let masks = Masks::all(n);
        let spec = spec_of(&masks, samples);
        let x = channels(&masks, &spec);
        assert_order(
            "batch_norm_statistics",
            &masks,
            &Tree::lanes(terms(n)),
            |device, mem| {
                let (x, stats) = (mem.input(device, &x)?, mem.output(device, 2 * masks.len())?);
                batch_norm_statistics(device, &x, None, None, None, &stats, &spec, 1.0)?;
                Ok(stats)
            },
            |stats, pair| f64::from(stats[2 * pair]) * n as f64,
        );
    }
}

/// With x, rstd and weight of 1, `dx = dy - (sum dy) / n`: read where dy is 1, for n a power of two.
#[test]
fn rms_norm_backward_is_lanes_and_halves() {
    for n in [4, 32, 128, 256] {
        let masks = Masks::all(n);
        assert_order(
            "rms_norm_backward_input",
            &masks,
            &Tree::lanes(terms(n)),
            |device, mem| {
                let x = mem.input(device, &vec![1.0; n * masks.len()])?;
                let weight = mem.input(device, &vec![1.0; n])?;
                let stats = mem.input(device, &vec![1.0; masks.len()])?;
                let dy = mem.input(device, &masks.rows())?;
                let dx = mem.output(device, n * masks.len())?;
                norm_backward_input(
                    device,
                    &Norm::rms(masks.len(), n, 1e-5),
                    &NormBackwardInput {
                        x: &x,
                        weight: &weight,
                        stats: &stats,
                        dy: &dy,
                        residual: None,
                        dx: &dx,
                    },
                )?;
                Ok(dx)
            },
            |dx, pair| (1.0 - f64::from(dx[pair * n + masks.unit(pair)])) * n as f64,
        );
    }
}

#[test]
fn rms_norm_weights_are_chains_over_rows() {
    let masks = Masks::all(37);
    let cols = masks.len();
    for accumulate in [false, true] {
        let first = usize::from(accumulate);
        let rows = 37 - first;
        // Two shards: the second is read, so that a chain across shards would show.
        let mut masked = vec![1.0; rows * cols];
        masked.extend(masks.columns(first..37));
        let mut stored = vec![1.0; cols];
        stored.extend(masks.columns(0..1));
        assert_order(
            "rms_norm_backward_weight",
            &masks,
            &Tree::chain(terms(37)),
            |device, mem| {
                let x = mem.input(device, &vec![1.0; masked.len()])?;
                let (dy, stats) = (
                    mem.input(device, &masked)?,
                    mem.input(device, &vec![1.0; 2 * rows])?,
                );
                let out = mem.input(device, &stored)?;
                norm_backward_params(
                    device,
                    &Norm::rms(2 * rows, cols, 1e-5),
                    &NormBackwardParams {
                        x: &x,
                        stats: &stats,
                        dy: &dy,
                        dweight: &out,
                        dbias: None,
                        shards: 2,
                        accumulate,
                    },
                )?;
                Ok(out)
            },
            |sums, pair| f64::from(sums[cols + pair]),
        );
    }
}
