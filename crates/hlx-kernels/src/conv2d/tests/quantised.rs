//! Convolutions over integers: the bits of all devices are those of the specification over written-out patches.

use hlx_core::Arithmetic;

use super::*;
use crate::product::quantised::tests::{assert_words, awkward, defined, every_way};
use crate::product::quantised::{LONGEST, PIECE};
use crate::product::sources::patches::Cut;
use crate::tuning::KernelTuning;

impl Case {
    /// The patch of each output pixel of a sample and group, \[pixels, terms\].
    fn patches(&self, n: usize, group: usize) -> Vec<f32> {
        let [ci, _] = self.spec.group_channels();
        let mut patches = Vec::new();
        for (_, _, pixel) in each(1, 1, self.output) {
            patches.extend(each(1, ci, self.spec.kernel).map(|(_, c, tap)| {
                let place = self.seen(pixel, tap);
                place.map_or(0.0, |at| self.x[self.x_at(n, group * ci + c, at)])
            }));
        }
        patches
    }

    /// The patch of the output's gradient of each input pixel, \[pixels, terms\].
    fn gradient_patches(&self, n: usize, group: usize) -> Vec<f32> {
        let [_, co] = self.spec.group_channels();
        let mut patches = Vec::new();
        for (_, _, place) in each(1, 1, self.spec.input) {
            patches.extend(each(1, co, self.spec.kernel).map(|(_, c, tap)| {
                let mut pixels = each(1, 1, self.output).map(|(_, _, pixel)| pixel);
                let pixel = pixels.find(|&pixel| self.seen(pixel, tap) == Some(place));
                pixel.map_or(0.0, |pixel| self.dy[self.y_at(n, group * co + c, pixel)])
            }));
        }
        patches
    }

    /// A group's weights by the channels of the input, \[ci, co, taps\].
    fn transposed_weight(&self, group: usize) -> Vec<f32> {
        let [ci, co] = self.spec.group_channels();
        let mut transposed = Vec::new();
        for channel in 0..ci {
            let of = |(_, c, tap)| self.weight[self.weight_at(group * co + c, channel, tap)];
            transposed.extend(each(1, co, self.spec.kernel).map(of));
        }
        transposed
    }

    /// Results \[samples, channels, pixels\] of patches \[pixels, terms\] with weights \[channels of a group, terms\].
    fn results(
        &self,
        bias: Option<&[f32]>,
        [channels, pixels]: [usize; 2],
        operands: impl Fn(usize, usize) -> [Vec<f32>; 2],
    ) -> Vec<f32> {
        let mut results = Vec::new();
        for (n, group, _) in each(self.spec.batch, self.spec.groups, [1, 1]) {
            let [patches, weight] = operands(n, group);
            let bias = bias.map(|bias| &bias[group * channels..][..channels]);
            let sizes = [pixels, channels, patches.len() / pixels];
            let of_pixels = defined(&patches, &weight, bias, sizes, PIECE);
            results.extend(transposed(&of_pixels, channels));
        }
        results
    }

    /// The gradients of the weights, in pieces of the pixels of a shard; pixels where the operand with two digits, dy or the patches, is zeros
    /// alone are zeros of the other.
    fn weight_gradient(&self, shards: usize, accumulate: bool, dy_is_wide: bool) -> Vec<f32> {
        let ([ci, co], pixels) = (self.spec.group_channels(), area(self.output));
        let (samples, terms) = (self.spec.batch / shards, ci * area(self.spec.kernel));
        let mut found = Vec::new();
        for (shard, group, _) in each(shards, self.spec.groups, [1, 1]) {
            let mut dy = vec![Vec::new(); co];
            let mut x = Vec::new();
            for n in shard * samples..(shard + 1) * samples {
                let of_sample = self.patches(n, group);
                let planes =
                    &self.dy[(n * self.spec.groups + group) * co * pixels..][..co * pixels];
                for (pixel, patch) in of_sample.chunks(terms).enumerate() {
                    let at_pixel = planes.iter().skip(pixel).step_by(pixels);
                    let counts = match dy_is_wide {
                        true => at_pixel.clone().any(|dy| *dy != 0.0),
                        false => patch.iter().any(|x| *x != 0.0),
                    };
                    let counted = |x: &f32| if counts { *x } else { 0.0 };
                    x.extend(patch.iter().map(counted));
                    let values = at_pixel.map(counted).zip(&mut dy);
                    values.for_each(|(value, dy)| dy.push(value));
                }
            }
            let x: Vec<Vec<f32>> = transposed(&x, terms)
                .chunks((samples * pixels).max(1))
                .map(<[f32]>::to_vec)
                .collect();
            let cut = |rows: &[Vec<f32>], piece: &[usize; 2]| -> Vec<f32> {
                let of_row = |row: &Vec<f32>| row[piece[0]..piece[1]].to_vec();
                rows.iter().flat_map(of_row).collect()
            };
            let mut sums: Option<Vec<f32>> = None;
            for piece in pieces(samples, pixels) {
                let sizes = [co, terms, piece[1] - piece[0]];
                let (dy, x) = (cut(&dy, &piece), cut(&x, &piece));
                let of_piece = match dy_is_wide {
                    true => defined(&dy, &x, None, sizes, LONGEST),
                    false => {
                        let sizes = [terms, co, sizes[2]];
                        transposed(&defined(&x, &dy, None, sizes, LONGEST), co)
                    }
                };
                sums = Some(match sums {
                    None => of_piece,
                    Some(sums) => added(&sums, &of_piece),
                });
            }
            found.extend(sums.expect("a piece"));
        }
        match accumulate {
            true => added(&found, &self.stored[0][..shards * self.weight.len()]),
            false => found,
        }
    }
}

fn added(a: &[f32], b: &[f32]) -> Vec<f32> {
    with_flush(|| a.iter().zip(b).map(|(a, b)| arith::add(*a, *b)).collect())
}

/// The transpose of a matrix of this many columns.
fn transposed(x: &[f32], columns: usize) -> Vec<f32> {
    let column = |at: usize| x.iter().skip(at).step_by(columns).copied();
    (0..columns).flat_map(column).collect()
}

/// The pieces of a shard's terms, as docs/numerics.md has them.
fn pieces(samples: usize, pixels: usize) -> Vec<[usize; 2]> {
    let mut pieces = Vec::new();
    if pixels > 16_384 {
        let length = pixels.div_ceil(pixels.div_ceil(16_384));
        for sample in 0..samples {
            for first in (0..pixels).step_by(length) {
                let end = pixels.min(first + length);
                pieces.push([first, end].map(|pixel| sample * pixels + pixel));
            }
        }
        return pieces;
    }
    // Samples that fit, then as few pieces as they need, of equally many.
    let fit = 16_384 / pixels;
    let of_piece = samples.div_ceil(samples.div_ceil(fit));
    for first in (0..samples).step_by(of_piece) {
        pieces.push([first, samples.min(first + of_piece)].map(|sample| sample * pixels));
    }
    pieces
}

/// Handles of the device by each way, with as much memory for patches as it has, and with little.
fn handles(device: &Device) -> Vec<Device> {
    let mut little = KernelTuning::of(device).clone();
    little.integer_patch_bytes = 1 << 10;
    let little = little.on(device).expect("a tuning");
    let handles = every_way(device).into_iter().chain([little]);
    handles
        .map(|device| device.with_arithmetic(Arithmetic::Integer))
        .collect()
}

fn check(case: &Case, shards: usize, has_bias: bool) {
    let spec = &case.spec;
    let got = run_everywhere(&format!("conv2d over integers {spec:?}"), |device, mem| {
        let [x, weight, dy] = case.operands(device, mem)?;
        let biases = [0, 1].map(|i| mem.input(device, &case.biases[i]));
        let [bias, transposed_bias] = biases;
        let (bias, transposed_bias) = (bias?, transposed_bias?);
        let mut outputs = Vec::new();
        for device in &handles(device) {
            let (y, dx) = (
                mem.output(device, case.dy.len())?,
                mem.output(device, case.x.len())?,
            );
            conv2d_forward(device, &x, &weight, has_bias.then_some(&bias), &y, spec)?;
            match has_bias {
                true => {
                    let bias = Some(&transposed_bias);
                    conv_transpose2d_forward(device, &dy, &weight, bias, &dx, spec)?;
                }
                false => conv2d_backward_input(device, &dy, &weight, &dx, spec)?,
            }
            let dweight = mem.output(device, shards * case.weight.len())?;
            conv2d_backward_weight(device, &x, &dy, &dweight, shards, false, spec)?;
            let continued = mem.input(device, &case.stored[0][..shards * case.weight.len()])?;
            conv2d_backward_weight(device, &x, &dy, &continued, shards, true, spec)?;
            let transposed = mem.output(device, shards * case.weight.len())?;
            conv_transpose2d_backward_weight(device, &dy, &x, &transposed, shards, false, spec)?;
            outputs.extend([y, dx, dweight, continued, transposed]);
        }
        Ok(outputs)
    });
    let [ci, co] = spec.group_channels();
    let bias = |i: usize| has_bias.then_some(&case.biases[i][..]);
    let group_weight = case.weight.len() / spec.groups;
    let expected = [
        case.results(bias(0), [co, area(case.output)], |n, group| {
            let weight = case.weight[group * group_weight..][..group_weight].to_vec();
            [case.patches(n, group), weight]
        }),
        case.results(bias(1), [ci, area(spec.input)], |n, group| {
            [
                case.gradient_patches(n, group),
                case.transposed_weight(group),
            ]
        }),
        case.weight_gradient(shards, false, true),
        case.weight_gradient(shards, true, true),
        case.weight_gradient(shards, false, false),
    ];
    for (at, found) in got.iter().enumerate() {
        let name = format!("{spec:?}, handle {}, output {}", at / 5, at % 5);
        assert_words(&name, found, &expected[at % 5]);
    }
}

#[test]
fn every_shape_has_the_bits_of_products_of_patches() {
    for (i, spec) in shapes().into_iter().enumerate() {
        let shards = if spec.batch % 2 == 0 { 1 + i % 2 } else { 1 };
        let mut case = Case::new(spec, |seed, len| {
            awkward(seed, len.div_ceil(31), 31)[..len].to_vec()
        });
        // A sample without a gradient, and pixels without, whose inputs count nowhere.
        let [of_dy, of_x] = [case.dy.len(), case.x.len()].map(|len| len / case.spec.batch);
        case.dy[..of_dy].fill(0.0);
        case.x[..of_x].iter_mut().step_by(7).for_each(|x| *x = 1e35);
        check(&case, shards, i % 2 == 0);
    }
}

#[test]
fn large_planes_and_many_samples_are_cut_into_pieces() {
    const ONE: [usize; 2] = [1, 1];
    let chosen = [
        // Two samples and one; runs of a sample, of which the last is shorter.
        ([3, 1, 2, 1], [80, 80]),
        ([2, 2, 2, 2], [1, 16_391]),
    ];
    for sizes in hlx_core::testing::cases(chosen, 2) {
        let spec = shape(sizes.0, [sizes.1, [1, 2], ONE, [0, 1], ONE]);
        check(&Case::new(spec, values), 1, false);
    }
    let cut = |samples, pixels| {
        let cut = Cut::of(samples, pixels);
        [cut.samples, cut.runs, cut.pieces, cut.terms]
    };
    assert_eq!(cut(1, 16_384), [1, 1, 1, 16_384]);
    assert_eq!(cut(3, 16_385), [1, 2, 6, 8_193]);
    assert_eq!(cut(5, 4_096), [3, 1, 2, 12_288]);
    assert_eq!(cut(1_000, 196), [77, 1, 13, 15_092]);
    assert_eq!(cut(2, 3 * 16_384 + 1), [1, 4, 8, 12_289]);
}

#[test]
fn rows_with_nan_and_infinity_give_nan() {
    let spec = shape([2, 2, 3, 1], [[4, 5], [3, 3], [1, 1], [1, 1], [1, 1]]);
    let mut case = Case::new(spec, normal);
    case.x[7] = f32::INFINITY;
    case.weight[20] = f32::NAN;
    case.dy[61] = f32::NEG_INFINITY;
    check(&case, 2, false);
}
