//! Convolutions: bits of all devices are those of the written chains, the gradients are adjoint to
//! the forward pass, and shapes that cannot be are refused.

mod edges;
mod halves;
mod quantised;

use hlx_core::arith;
use hlx_core::cpu::with_flush;
use hlx_core::digest::canonical_bits;

use super::*;
use crate::testing::{TestMemory, devices, normal, run_everywhere, values};

/// A shape, by pairs of y and x: input, kernel, stride, padding, dilation.
fn shape(
    [batch, in_channels, out_channels, groups]: [usize; 4],
    [input, kernel, stride, padding, dilation]: [[usize; 2]; 5],
) -> Conv2d {
    Conv2d {
        batch,
        in_channels,
        out_channels,
        groups,
        input,
        kernel,
        stride,
        padding,
        dilation,
    }
}

impl Conv2d {
    /// Channels of a group on either side.
    fn group_channels(&self) -> [usize; 2] {
        [self.in_channels, self.out_channels].map(|channels| channels / self.groups)
    }
}

/// Shapes of every kind, small enough for devices that emulate the arithmetic.
fn shapes() -> Vec<Conv2d> {
    const ONE: [usize; 2] = [1, 1];
    const ZERO: [usize; 2] = [0, 0];
    vec![
        shape([2, 3, 4, 1], [[5, 7], [3, 3], ONE, ONE, ONE]),
        // Strides, groups and dilation that differ along the axes, padding on one axis alone.
        shape([2, 4, 6, 2], [[9, 8], [3, 2], [2, 1], [2, 0], [1, 3]]),
        // One tap.
        shape([3, 5, 7, 1], [[4, 3], ONE, ONE, ZERO, ONE]),
        // More padding than kernel: results that see zeros alone.
        shape([2, 2, 2, 1], [[3, 3], [2, 2], [1, 2], [4, 3], ONE]),
        // A group a channel.
        shape([2, 6, 6, 6], [[6, 6], [3, 3], [3, 3], ONE, [2, 2]]),
        // One dimension.
        shape([4, 3, 5, 1], [[1, 17], [1, 4], [1, 2], [0, 1], [1, 2]]),
        // A stride past the kernel, and rows that no patch reaches.
        shape([2, 2, 3, 1], [[8, 11], [2, 2], [3, 4], ZERO, ONE]),
        // Past a tile's edge on all sides, with whole vectors.
        shape([4, 8, 68, 1], [[4, 6], [3, 3], ONE, ONE, ONE]),
        // One pixel, as large as the kernel.
        shape([2, 2, 3, 1], [[3, 2], [3, 2], ONE, ZERO, ONE]),
    ]
}

/// A shape's operands.
struct Case {
    spec: Conv2d,
    output: [usize; 2],
    x: Vec<f32>,
    weight: Vec<f32>,
    dy: Vec<f32>,
    /// A start of the forward chains, and one of the transposed convolution's.
    biases: [Vec<f32>; 2],
    /// What partial sums of two shards go on from.
    stored: [Vec<f32>; 2],
}

impl Case {
    fn new(spec: Conv2d, data: fn(u64, usize) -> Vec<f32>) -> Self {
        let output = spec.output().expect("a shape that can be");
        let data = |seed, len| {
            let mut data = data(seed, len);
            for x in data.iter_mut().filter(|x| x.is_subnormal()) {
                *x = x.signum() * 0.0;
            }
            data
        };
        Self {
            spec,
            output,
            x: data(1, spec.input_len()),
            weight: data(2, spec.weight_len()),
            dy: data(3, spec.output_len(output)),
            biases: [data(4, spec.out_channels), data(5, spec.in_channels)],
            stored: [
                data(6, 2 * spec.weight_len()),
                data(7, 2 * spec.out_channels),
            ],
        }
    }

    /// The place in x of a tap of an output pixel, both (y, x); `None` in the padding.
    fn seen(&self, pixel: [usize; 2], tap: [usize; 2]) -> Option<[usize; 2]> {
        let s = &self.spec;
        let along = |axis: usize| {
            let at = (pixel[axis] * s.stride[axis] + tap[axis] * s.dilation[axis])
                .checked_sub(s.padding[axis])?;
            (at < s.input[axis]).then_some(at)
        };
        Some([along(0)?, along(1)?])
    }

    fn x_at(&self, n: usize, channel: usize, [y, x]: [usize; 2]) -> usize {
        let [h, w] = self.spec.input;
        ((n * self.spec.in_channels + channel) * h + y) * w + x
    }

    fn y_at(&self, n: usize, channel: usize, [y, x]: [usize; 2]) -> usize {
        let [h, w] = self.output;
        ((n * self.spec.out_channels + channel) * h + y) * w + x
    }

    fn weight_at(&self, out_channel: usize, channel: usize, [y, x]: [usize; 2]) -> usize {
        let [kh, kw] = self.spec.kernel;
        let [ci, _] = self.spec.group_channels();
        ((out_channel * ci + channel) * kh + y) * kw + x
    }

    /// The forward chains, spelled out.
    fn forward(&self, bias: Option<&[f32]>) -> Vec<f32> {
        let [ci, co] = self.spec.group_channels();
        let mut y = vec![0.0; self.dy.len()];
        for (n, channel, pixel) in each(self.spec.batch, self.spec.out_channels, self.output) {
            let first = channel / co * ci;
            let mut acc = bias.map_or(0.0, |bias| bias[channel]);
            for (_, c, tap) in each(1, ci, self.spec.kernel) {
                let place = self.seen(pixel, tap);
                let x = place.map_or(0.0, |at| self.x[self.x_at(n, first + c, at)]);
                acc = arith::fma(self.weight[self.weight_at(channel, c, tap)], x, acc);
            }
            y[self.y_at(n, channel, pixel)] = arith::pos0(acc);
        }
        y
    }

    /// The chains of the input's gradient, spelled out: every pixel is tried for every tap.
    fn backward_input(&self, bias: Option<&[f32]>) -> Vec<f32> {
        let [ci, co] = self.spec.group_channels();
        let mut dx = vec![0.0; self.x.len()];
        for (n, channel, place) in each(self.spec.batch, self.spec.in_channels, self.spec.input) {
            let group = channel / ci;
            let mut acc = bias.map_or(0.0, |bias| bias[channel]);
            for (_, c, tap) in each(1, co, self.spec.kernel) {
                let out_channel = group * co + c;
                let pixel = each(1, 1, self.output)
                    .map(|(_, _, pixel)| pixel)
                    .find(|&pixel| self.seen(pixel, tap) == Some(place));
                let dy = pixel.map_or(0.0, |pixel| self.dy[self.y_at(n, out_channel, pixel)]);
                let weight = self.weight[self.weight_at(out_channel, channel % ci, tap)];
                acc = arith::fma(weight, dy, acc);
            }
            dx[self.x_at(n, channel, place)] = arith::pos0(acc);
        }
        dx
    }

    /// The chains of the parameters' gradients, spelled out, from zero or from what is stored.
    fn backward_parameters(&self, shards: usize, accumulate: bool) -> [Vec<f32>; 2] {
        let [ci, co] = self.spec.group_channels();
        let samples = self.spec.batch / shards;
        let [mut dweight, mut dbias] = self.starts(shards, accumulate);
        for (shard, channel, tap) in each(shards, self.spec.out_channels, self.spec.kernel) {
            for c in 0..ci {
                let at = shard * self.weight.len() + self.weight_at(channel, c, tap);
                let pixels = self.output[0] * self.output[1];
                // Planes of 512 pixels are cut: a run is a chain of its own, added to the total.
                let cut = (pixels >= 512).then(|| {
                    let runs = pixels.div_ceil(1024);
                    pixels.div_ceil(runs).next_multiple_of(4)
                });
                let mut total = dweight[at];
                let mut acc = if cut.is_some() { 0.0 } else { total };
                for (n, _, pixel) in each(samples, 1, self.output) {
                    let n = shard * samples + n;
                    let place = self.seen(pixel, tap);
                    let first = channel / co * ci;
                    let x = place.map_or(0.0, |at| self.x[self.x_at(n, first + c, at)]);
                    acc = arith::fma(self.dy[self.y_at(n, channel, pixel)], x, acc);
                    let done = pixel[0] * self.output[1] + pixel[1] + 1;
                    if cut.is_some_and(|run| done.is_multiple_of(run) || done == pixels) {
                        (total, acc) = (total + acc, 0.0);
                    }
                }
                dweight[at] = arith::pos0(if cut.is_some() { total } else { acc });
            }
        }
        for (shard, channel, _) in each(shards, self.spec.out_channels, [1, 1]) {
            let mut acc = dbias[shard * self.spec.out_channels + channel];
            for (n, _, pixel) in each(samples, 1, self.output) {
                acc += self.dy[self.y_at(shard * samples + n, channel, pixel)];
            }
            dbias[shard * self.spec.out_channels + channel] = arith::pos0(acc);
        }
        [dweight, dbias]
    }

    fn starts(&self, shards: usize, accumulate: bool) -> [Vec<f32>; 2] {
        let lens = [self.weight.len(), self.spec.out_channels];
        std::array::from_fn(|i| match accumulate {
            true => self.stored[i][..shards * lens[i]].to_vec(),
            false => vec![0.0; shards * lens[i]],
        })
    }

    /// Forward, the input's gradient and those of the parameters on every device.
    fn run(&self, has_bias: bool, shards: usize, accumulate: bool) -> Vec<Vec<f32>> {
        let spec = &self.spec;
        run_everywhere(&format!("conv2d {spec:?}"), |device, mem| {
            let [x, weight, dy] = self.operands(device, mem)?;
            let biases = [0, 1].map(|i| mem.input(device, &self.biases[i]));
            let [bias, transposed_bias] = biases;
            let (bias, transposed_bias) = (bias?, transposed_bias?);
            let (y, dx) = (
                mem.output(device, self.dy.len())?,
                mem.output(device, self.x.len())?,
            );
            conv2d_forward(device, &x, &weight, has_bias.then_some(&bias), &y, spec)?;
            match has_bias {
                true => {
                    let bias = Some(&transposed_bias);
                    conv_transpose2d_forward(device, &dy, &weight, bias, &dx, spec)?;
                }
                false => conv2d_backward_input(device, &dy, &weight, &dx, spec)?,
            }
            let [dweight, dbias] = self
                .starts(shards, accumulate)
                .map(|start| match accumulate {
                    true => mem.input(device, &start),
                    false => mem.output(device, start.len()),
                });
            let (dweight, dbias) = (dweight?, dbias?);
            conv2d_backward_weight(device, &x, &dy, &dweight, shards, accumulate, spec)?;
            conv2d_backward_bias(device, &dy, &dbias, shards, accumulate, spec)?;
            Ok(vec![y, dx, dweight, dbias])
        })
    }

    fn operands(&self, device: &Device, mem: &mut TestMemory) -> Result<[Buffer; 3]> {
        Ok([
            mem.input(device, &self.x)?,
            mem.input(device, &self.weight)?,
            mem.input(device, &self.dy)?,
        ])
    }

    /// The same, as they are written.
    fn chains(&self, has_bias: bool, shards: usize, accumulate: bool) -> Vec<Vec<f32>> {
        let bias = |i: usize| has_bias.then_some(&self.biases[i][..]);
        with_flush(|| {
            let [dweight, dbias] = self.backward_parameters(shards, accumulate);
            vec![
                self.forward(bias(0)),
                self.backward_input(bias(1)),
                dweight,
                dbias,
            ]
        })
    }
}

/// Every sample, channel and place of a plane, in memory's order.
fn each(
    samples: usize,
    channels: usize,
    [height, width]: [usize; 2],
) -> impl Iterator<Item = (usize, usize, [usize; 2])> {
    (0..samples * channels * height * width).map(move |at| {
        let (plane, place) = (at / (height * width), at % (height * width));
        (
            plane / channels,
            plane % channels,
            [place / width, place % width],
        )
    })
}

fn assert_same_bits(name: &str, got: &[Vec<f32>], want: &[Vec<f32>]) {
    for (which, (got, want)) in ["y", "dx", "dweight", "dbias"]
        .iter()
        .zip(got.iter().zip(want))
    {
        assert_bits(&format!("{name}: {which}"), got, want);
    }
}

fn assert_bits(name: &str, got: &[f32], want: &[f32]) {
    assert_eq!(got.len(), want.len(), "{name}: length");
    for (at, (got, want)) in got.iter().zip(want).enumerate() {
        assert_eq!(
            canonical_bits(*got),
            canonical_bits(*want),
            "{name}: element {at}: {got:e}, chain {want:e}"
        );
    }
}

#[test]
fn every_shape_has_the_bits_of_the_written_chains() {
    for (i, spec) in shapes().into_iter().enumerate() {
        let shards = if spec.batch % 2 == 0 { 1 + i % 2 } else { 1 };
        let (has_bias, accumulate) = (i % 2 == 0, i % 3 == 1);
        let case = Case::new(spec, values);
        let got = case.run(has_bias, shards, accumulate);
        assert_same_bits(
            &format!("{spec:?}"),
            &got,
            &case.chains(has_bias, shards, accumulate),
        );
    }
}

#[test]
fn runs_of_large_planes_have_the_bits_of_the_written_chains() {
    const ONE: [usize; 2] = [1, 1];
    let large = |sizes, input, kernel: [usize; 2], stride| {
        let padding = [kernel[0] / 2, kernel[1] / 2];
        shape(sizes, [input, kernel, stride, padding, ONE])
    };
    let specs = [
        large([2, 3, 4, 1], [24, 24], [3, 3], ONE), // One run a sample, rows of whole vectors.
        large([4, 2, 6, 2], [41, 37], [3, 2], ONE), // Two runs, the last of them shorter.
        large([2, 2, 3, 1], [80, 57], [1, 3], [2, 1]), // Three, and a stride.
    ];
    for (i, spec) in specs.into_iter().enumerate() {
        let case = Case::new(spec, values);
        for (shards, accumulate) in [(1, i == 1), (2, i != 1)] {
            let [want, _] = with_flush(|| case.backward_parameters(shards, accumulate));
            // With one processor its tiles are enough, and a workgroup adds the runs; with many,
            // they are stored.
            for processors in [1, 1 << 14] {
                let name = format!("{spec:?}, {shards} shards, {processors} processors");
                let got = run_everywhere(&name, |device, mem| {
                    let mut tuning = device.tuning().clone();
                    tuning.processors = processors;
                    let device = &device.with_tuning(tuning)?;
                    let [x, _, dy] = case.operands(device, mem)?;
                    let [start, _] = case.starts(shards, accumulate);
                    let dweight = match accumulate {
                        true => mem.input(device, &start)?,
                        false => mem.output(device, start.len())?,
                    };
                    conv2d_backward_weight(device, &x, &dy, &dweight, shards, accumulate, &spec)?;
                    Ok(vec![dweight])
                });
                assert_bits(&name, &got[0], &want);
            }
        }
    }
}

#[test]
fn stored_patches_have_the_bits_of_the_written_chains() {
    for (i, spec) in shapes().into_iter().enumerate() {
        let case = Case::new(spec, values);
        let shards = if spec.batch.is_multiple_of(2) { 2 } else { 1 };
        let accumulate = i % 2 == 0;
        let [want, _] = with_flush(|| case.backward_parameters(shards, accumulate));
        let name = format!("{spec:?}, {shards} shards");
        let got = run_everywhere(&name, |device, mem| {
            let mut tuning = device.tuning().clone();
            // So slow that every product takes long enough.
            tuning.flops_per_second = 1.0;
            let device = &device.with_tuning(tuning)?;
            let [x, _, dy] = case.operands(device, mem)?;
            let [start, _] = case.starts(shards, accumulate);
            let dweight = match accumulate {
                true => mem.input(device, &start)?,
                false => mem.output(device, start.len())?,
            };
            conv2d_backward_weight(device, &x, &dy, &dweight, shards, accumulate, &spec)?;
            Ok(vec![dweight])
        });
        assert_bits(&name, &got[0], &want);
    }
}

#[test]
fn a_samples_runs_do_not_depend_on_the_pass_that_holds_it() {
    let spec = shape([4, 2, 3, 1], [[32, 32], [3, 3], [1, 1], [1, 1], [1, 1]]);
    let case = Case::new(spec, normal);
    let weights = run_everywhere("conv2d runs by passes", |device, mem| {
        let [x, _, dy] = case.operands(device, mem)?;
        let whole = mem.output(device, spec.weight_len())?;
        let parts = mem.output(device, spec.weight_len())?;
        conv2d_backward_weight(device, &x, &dy, &whole, 1, false, &spec)?;
        for (first, count, accumulate) in [(0, 1, false), (1, 3, true)] {
            let part = Conv2d {
                batch: count,
                ..spec
            };
            let [x_len, y_len] = [spec.input_len() / 4, spec.output_len(case.output) / 4];
            let x = x.slice(first * x_len, count * x_len)?;
            let dy = dy.slice(first * y_len, count * y_len)?;
            conv2d_backward_weight(device, &x, &dy, &parts, 1, accumulate, &part)?;
        }
        Ok(vec![whole, parts])
    });
    assert_eq!(weights[0], weights[1]);
}

#[test]
fn gradients_are_adjoint_to_the_forward_pass() {
    // sum(y dy) = sum(x dx) = sum(weight dweight), as the convolution is linear in both.
    let dot = |a: &[f32], b: &[f32]| -> f64 {
        let terms = a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b));
        terms.sum()
    };
    for spec in shapes() {
        let case = Case::new(spec, normal);
        let found = case.run(false, 1, false);
        let forward = dot(&found[0], &case.dy);
        let scale = found[0]
            .iter()
            .zip(&case.dy)
            .map(|(y, dy)| f64::from(y * dy).abs());
        let bound = 1e-5 * scale.sum::<f64>();
        for backward in [dot(&case.x, &found[1]), dot(&case.weight, &found[2])] {
            assert!(
                (forward - backward).abs() <= bound,
                "{spec:?}: {forward} and {backward}"
            );
        }
    }
}

#[test]
fn a_zero_of_the_padding_is_a_term_like_any_other() {
    // Times an infinite weight it is NaN; in the middle of the image the result is infinite.
    let spec = shape([1, 1, 1, 1], [[3, 3], [3, 3], [1, 1], [1, 1], [1, 1]]);
    let mut case = Case::new(spec, normal);
    case.x.fill(1.0);
    case.dy.fill(1.0);
    case.weight[0] = f32::INFINITY;
    let got = case.run(false, 1, false);
    assert_same_bits("an infinite weight", &got, &case.chains(false, 1, false));
    assert!(
        got[0][0].is_nan() && got[0][4] == f32::INFINITY,
        "{:?}",
        got[0]
    );
}

#[test]
fn a_zero_between_the_pixels_of_a_stride_is_a_term_like_any_other() {
    // The CPU leaves such terms out if no weight is infinite or NaN.
    let stride = [2, 3];
    let spec = shape([2, 2, 3, 1], [[7, 9], [3, 3], stride, [1, 1], [1, 1]]);
    for weight in [1.5, f32::INFINITY, f32::NAN] {
        let mut case = Case::new(spec, normal);
        case.weight[0] = weight;
        let got = case.run(true, 1, false);
        assert_same_bits("weights of any kind", &got, &case.chains(true, 1, false));
        let is_nan = got[1].iter().filter(|dx| dx.is_nan()).count();
        assert_eq!(is_nan > 0, !weight.is_finite(), "{weight}: {:?}", got[1]);
    }
}

#[test]
fn negative_zero_never_leaves_a_chain() {
    let mut case = Case::new(shapes()[0], normal);
    for (data, value) in [
        (&mut case.x, 1e-30),
        (&mut case.weight, -1e-30),
        (&mut case.dy, 1e-30),
    ] {
        data.fill(value);
    }
    let got = case.run(false, 1, false);
    assert!(
        got[..2].iter().flatten().all(|x| x.to_bits() == 0),
        "{got:?}"
    );
}

#[test]
fn a_sample_has_the_same_bits_in_any_batch() {
    let spec = shapes()[7];
    let (all, one) = (Case::new(spec, values), Conv2d { batch: 1, ..spec });
    let mut alone = Case::new(one, values);
    let last = |data: &[f32]| data[data.len() - data.len() / spec.batch..].to_vec();
    alone.x = last(&all.x);
    alone.dy = last(&all.dy);
    let (all, alone) = (all.run(true, 1, false), alone.run(true, 1, false));
    for i in [0, 1] {
        assert_same_bits("a sample", &[last(&all[i])], &alone[i..i + 1]);
    }
}
