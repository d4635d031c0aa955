//! Batch norm on every device, against f64; shards against passes of their own; empty samples.

use super::*;
use crate::testing::{assert_close, normal, run_everywhere, values};

const EPS: f32 = 1e-5;

fn spec(shards: usize, samples: usize, channels: usize, length: usize) -> BatchNorm {
    BatchNorm {
        shards,
        samples,
        channels,
        length,
    }
}

/// Lengths of one element, of whole and of broken vectors; one and several pieces.
fn shapes() -> [BatchNorm; 7] {
    [
        spec(1, 2, 3, 1),
        spec(2, 33, 5, 1),
        spec(2, 2, 3, 4),
        spec(4, 1, 2, 49),
        spec(1, 3, 2, 2001),
        spec(2, 2, 2, 4100),
        spec(1, 1, 1, 2),
    ]
}

struct Data {
    x: Vec<f32>,
    weight: Vec<f32>,
    bias: Vec<f32>,
    dy: Vec<f32>,
}

fn data(make: fn(u64, usize) -> Vec<f32>, spec: &BatchNorm) -> Data {
    Data {
        x: make(1, spec.len()),
        weight: make(2, spec.channels),
        bias: make(3, spec.channels),
        dy: make(4, spec.len()),
    }
}

/// Returns y, stats, running mean, running variance, the shards tracked, dx, dweight, dbias.
fn run_all(
    data: &Data,
    spec: &BatchNorm,
    empty: Option<u32>,
    momentum: Option<f32>,
) -> Vec<Vec<f32>> {
    let channels = spec.shards * spec.channels;
    run_everywhere("batch_norm", |device, mem| {
        let x = mem.input(device, &data.x)?;
        let weight = mem.input(device, &data.weight)?;
        let bias = mem.input(device, &data.bias)?;
        let dy = mem.input(device, &data.dy)?;
        let mean = mem.input(device, &vec![0.5; spec.channels])?;
        let variance = mem.input(device, &vec![2.0; spec.channels])?;
        let tracked = mem.input_u32(device, &[3])?;
        let counts = match empty {
            Some(empty) => Some(mem.input_u32(device, &[empty])?),
            None => None,
        };
        let counts = counts.as_ref();
        let (y, dx) = (
            mem.output(device, spec.len())?,
            mem.output(device, spec.len())?,
        );
        let stats = mem.output(device, 2 * channels)?;
        let (dw, db) = (mem.output(device, channels)?, mem.output(device, channels)?);
        let running = Running {
            mean: &mean,
            variance: &variance,
            tracked: &tracked,
            momentum,
        };
        batch_norm_statistics(device, &x, counts, Some(&running), None, &stats, spec, EPS)?;
        let t = Some(&tracked);
        batch_norm_apply(device, &x, &weight, &bias, &stats, counts, t, &y, spec)?;
        let sums = [&dw, &db];
        batch_norm_backward(
            device, &x, &weight, &stats, &dy, counts, &dx, sums, false, spec,
        )?;
        Ok(vec![y, stats, mean, variance, tracked, dx, dw, db])
    })
}

struct Reference {
    y: Vec<f64>,
    mean: Vec<f64>,
    variance: Vec<f64>,
    dx: Vec<f64>,
    dweight: Vec<f64>,
    dbias: Vec<f64>,
}

/// The definition in f64, with this many empty samples in the pass, whose y and dx stay 0.
fn reference(data: &Data, spec: &BatchNorm, empty: usize, momentum: Option<f64>) -> Reference {
    let channels = spec.shards * spec.channels;
    let mut out = Reference {
        y: vec![0.0; spec.len()],
        mean: vec![0.5; spec.channels],
        variance: vec![2.0; spec.channels],
        dx: vec![0.0; spec.len()],
        dweight: vec![0.0; channels],
        dbias: vec![0.0; channels],
    };
    let mut seen = 3.0;
    for shard in 0..spec.shards {
        let real = spec.real(empty, shard);
        let n = (real * spec.length) as f64;
        seen += if n >= 2.0 { 1.0 } else { 0.0 };
        for c in 0..spec.channels {
            let place = |t: usize| {
                let sample = (shard + 1) * spec.samples - real + t / spec.length;
                (sample * spec.channels + c) * spec.length + t % spec.length
            };
            let at: Vec<usize> = (0..real * spec.length).map(place).collect();
            let x = |t: usize| f64::from(data.x[at[t]]);
            let dy = |t: usize| f64::from(data.dy[at[t]]);
            let terms = n as usize;
            let sum = |f: &dyn Fn(usize) -> f64| (0..terms).map(f).sum::<f64>();
            let mean = sum(&x) / n.max(1.0);
            let squares = sum(&|t| (x(t) - mean).powi(2));
            let rstd = 1.0 / (squares / n.max(1.0) + f64::from(EPS)).sqrt();
            let normal = |t: usize| (x(t) - mean) * rstd;
            let (weight, bias) = (f64::from(data.weight[c]), f64::from(data.bias[c]));
            let a = sum(&dy);
            let b = sum(&|t| dy(t) * normal(t));
            (
                out.dbias[shard * spec.channels + c],
                out.dweight[shard * spec.channels + c],
            ) = (a, b);
            for (t, &at) in at.iter().enumerate() {
                out.y[at] = normal(t) * weight + bias;
                out.dx[at] = weight * rstd * (dy(t) - a / n - normal(t) * b / n);
            }
            if n >= 2.0 {
                let m = momentum.unwrap_or(1.0 / seen);
                out.mean[c] += m * (mean - out.mean[c]);
                out.variance[c] += m * (squares / (n - 1.0) - out.variance[c]);
            }
        }
    }
    out
}

fn compare(spec: &BatchNorm, empty: Option<u32>, momentum: Option<f32>) {
    let data = data(normal, spec);
    let mut got = run_all(&data, spec, empty, momentum);
    let empty = empty.map_or(0, |empty| empty as usize);
    let want = reference(&data, spec, empty, momentum.map(f64::from));
    // What an empty sample's y is, nobody reads.
    got[0][..empty * spec.channels * spec.length].fill(0.0);
    assert_close("y", &got[0], &want.y, 1e-5, 2e-5);
    assert_close("running_mean", &got[2], &want.mean, 1e-5, 1e-5);
    assert_close("running_var", &got[3], &want.variance, 1e-5, 1e-5);
    // Two terms cancel: dx is as small as the rounding of its parts times rstd.
    assert_close("dx", &got[5], &want.dx, 1e-4, 1e-4);
    assert_close("dweight", &got[6], &want.dweight, 1e-4, 1e-4);
    assert_close("dbias", &got[7], &want.dbias, 1e-5, 1e-4);
    let shards = (0..spec.shards).filter(|&s| spec.real(empty, s) * spec.length >= 2);
    assert_eq!(got[4][0].to_bits(), 3 + shards.count() as u32);
}

#[test]
fn agrees_with_f64_on_every_device() {
    for spec in shapes() {
        compare(&spec, None, Some(0.1));
    }
    compare(&spec(2, 2, 3, 5), None, None);
}

#[test]
fn empty_samples_enter_no_statistic() {
    for empty in [0, 1, 3, 4, 7, 8] {
        compare(&spec(4, 2, 3, 6), Some(empty), None);
    }
    // One real value per channel in the first shard: no statistic of two values, no running value.
    compare(&spec(2, 3, 2, 1), Some(2), Some(0.25));
    compare(&spec(1, 4, 2, 1500), Some(1), Some(0.25));
}

#[test]
fn awkward_values_have_equal_bits() {
    for spec in shapes() {
        run_all(&data(values, &spec), &spec, None, Some(0.1));
    }
}

/// The bits of a shard do not depend on the shards beside it.
#[test]
fn shards_are_passes_of_their_own() {
    let whole = spec(4, 2, 3, 9);
    let all = data(normal, &whole);
    let together = run_all(&all, &whole, None, Some(0.1));
    let one = spec(1, 2, 3, 9);
    for shard in 0..4 {
        let cut = |values: &[f32]| values[shard * one.len()..(shard + 1) * one.len()].to_vec();
        let part = Data {
            x: cut(&all.x),
            dy: cut(&all.dy),
            weight: all.weight.clone(),
            bias: all.bias.clone(),
        };
        let alone = run_all(&part, &one, None, Some(0.1));
        assert_eq!(alone[0], cut(&together[0]), "y");
        assert_eq!(alone[1], together[1][shard * 6..][..6], "stats");
        assert_eq!(alone[5], cut(&together[5]), "dx");
        assert_eq!(alone[6], together[6][shard * 3..][..3], "dweight");
    }
}

#[test]
fn a_variance_far_from_zero_is_accurate() {
    let spec = spec(1, 4, 1, 2100);
    let mut data = data(normal, &spec);
    for x in &mut data.x {
        *x = 1000.0 + *x * 0.01;
    }
    let got = run_all(&data, &spec, None, Some(1.0));
    let want = reference(&data, &spec, 0, Some(1.0));
    assert_close("running_var", &got[3], &want.variance, 1e-4, 1e-9);
}

#[test]
fn gradients_are_added_to_the_stored_ones() {
    let spec = spec(2, 2, 3, 5);
    let data = data(normal, &spec);
    let got = run_everywhere("batch_norm_backward", |device, mem| {
        let x = mem.input(device, &data.x)?;
        let weight = mem.input(device, &data.weight)?;
        let dy = mem.input(device, &data.dy)?;
        let stats = mem.input(device, &[0.25, 1.5].repeat(6))?;
        let mut outputs = vec![];
        for more in [false, true] {
            let dx = mem.output(device, spec.len())?;
            let dw = mem.input(device, &[7.0; 6])?;
            let db = mem.input(device, &[9.0; 6])?;
            let sums = [&dw, &db];
            batch_norm_backward(
                device, &x, &weight, &stats, &dy, None, &dx, sums, more, &spec,
            )?;
            outputs.extend([dw, db]);
        }
        Ok(outputs)
    });
    for (stored, (first, second)) in [(7.0, (0, 2)), (9.0, (1, 3))] {
        for (one, two) in got[first].iter().zip(&got[second]) {
            assert_eq!(stored + one, *two);
        }
    }
}

#[test]
fn one_value_a_channel_is_refused() {
    let device = hlx_core::testing::cpu().expect("cpu");
    let x = device.buffer_of(&[0.0; 4]).expect("buffer");
    let error = batch_norm_statistics(&device, &x, None, None, None, &x, &spec(2, 1, 2, 1), EPS)
        .expect_err("one value");
    assert_eq!(
        error.to_string(),
        "batch_norm_statistics: a shard has 1 values a channel, expected at least 2"
    );
}
