//! Convolutions on the CPU: the product of `matmul`, whose panels are packed from the images.

use hlx_core::cpu::simd_level;

use super::{Patches, Runs};
use crate::parallel::{for_each, read, write};
use crate::product::floats::cpu::matmul_of;
use crate::product::floats::pack::{Matrices, Operand, Panel, Source, pack};
use crate::product::shape::MatMul;
use crate::reduce::sum_columns;

/// The weight of each group, the same for all samples; a matrix of the batch is a group of a sample.
#[derive(Clone, Copy)]
struct Weights<'a> {
    groups: usize,
    matrices: Matrices<'a>,
}

impl Source for Weights<'_> {
    fn pack(&self, batch_idx: usize, panel: Panel, to: &mut [f32]) {
        self.matrices.pack(batch_idx % self.groups, panel, to);
    }
}

/// Patches whose taps are the terms; a vector is a pixel of one sample.
#[derive(Clone, Copy)]
pub(super) struct Pixels<'a> {
    pub patches: Patches,
    pub images: &'a [f32],
}

impl Source for Pixels<'_> {
    fn pack(&self, batch_idx: usize, panel: Panel, to: &mut [f32]) {
        let (patches, groups) = (&self.patches, self.patches.groups);
        let first_plane = patches.first_plane(batch_idx / groups, batch_idx % groups);
        let pixel = patches.pixel(panel.first);
        let mut tap = patches.tap(panel.k_first);
        for row in to.chunks_exact_mut(panel.width).take(panel.k_count) {
            let (row, rest) = row.split_at_mut(panel.count);
            rest.fill(0.0);
            patches.gather(self.images, first_plane, tap, pixel, row);
            tap = patches.tap_after(tap);
        }
    }
}

/// Computes results `[batch, groups, rows, pixels]` of weights `[groups, rows, terms]`.
pub(super) fn product(
    patches: Patches,
    [rows, terms]: [usize; 2],
    [weight, images]: [&[f32]; 2],
    bias: Option<&[f32]>,
    y: &mut [f32],
) {
    let pixels = patches.n_pixels();
    if let Some(bias) = bias {
        let start = |plane: usize, y: &mut [f32]| y.fill(bias[plane % bias.len()]);
        for_each(write(y, pixels), start);
    }
    let shape = MatMul {
        batch: y.len() / (rows * pixels),
        accumulate: bias.is_some(),
        ..MatMul::new(rows, pixels, terms)
    };
    let weights = Weights {
        groups: patches.groups,
        matrices: Matrices::new(weight, rows * terms, terms, true),
    };
    let images = Pixels { patches, images };
    matmul_of(simd_level(), &shape, weights, images, None, y);
}

/// How the terms of a weight's gradient, pixels of a shard's samples in order, lie in memory: a
/// matrix of the batch is a group of a shard.
#[derive(Clone, Copy)]
struct Terms {
    samples: usize,
    groups: usize,
    pixels: usize,
    /// The sample of the shard and the pixel that the first term is.
    first: [usize; 2],
}

impl Terms {
    /// Calls `visit(sample, group, first pixel, first place in the panel, count)` for the stretches
    /// of a panel that are of one sample and at most `longest`.
    fn for_each(
        &self,
        batch_idx: usize,
        panel: &Panel,
        longest: usize,
        mut visit: impl FnMut((usize, usize), usize, usize, usize),
    ) {
        let (shard, group) = (batch_idx / self.groups, batch_idx % self.groups);
        let [first_sample, first_pixel] = self.first;
        let mut done = 0;
        while done < panel.k_count {
            let term = first_pixel + panel.k_first + done;
            let (sample, pixel) = (first_sample + term / self.pixels, term % self.pixels);
            let left = (panel.k_count - done).min(self.pixels - pixel);
            let count = left.min(longest);
            visit((shard * self.samples + sample, group), pixel, done, count);
            done += count;
        }
    }
}

/// The gradient of the results; a vector is an output channel.
#[derive(Clone, Copy)]
struct Gradients<'a> {
    terms: Terms,
    rows: usize,
    dy: &'a [f32],
}

impl Source for Gradients<'_> {
    fn pack(&self, batch_idx: usize, panel: Panel, to: &mut [f32]) {
        let Terms { groups, pixels, .. } = self.terms;
        let pack_stretch = |(sample, group), pixel, k: usize, count| {
            let plane = (sample * groups + group) * self.rows + panel.first;
            let rows = Operand {
                data: &self.dy[plane * pixels..][..panel.count * pixels],
                stride: pixels,
                k_contiguous: true,
            };
            let part = part_of(panel, pixel, count);
            pack(rows, part, &mut to[k * panel.width..]);
        };
        self.terms.for_each(batch_idx, &panel, pixels, pack_stretch);
    }
}

/// Patches whose pixels are the terms; a vector is a tap of a channel.
#[derive(Clone, Copy)]
struct Taps<'a> {
    terms: Terms,
    patches: Patches,
    images: &'a [f32],
}

impl Source for Taps<'_> {
    fn pack(&self, batch_idx: usize, panel: Panel, to: &mut [f32]) {
        /// Pixels gathered at a time.
        const RUN: usize = 128;
        /// Vectors of the widest panel.
        const WIDEST: usize = 32;
        let mut rows = [0.0; RUN * WIDEST];
        let (patches, images) = (&self.patches, self.images);
        let pack_stretch = |(sample, group), pixel, k: usize, count| {
            let first_plane = patches.first_plane(sample, group);
            let pixel = patches.pixel(pixel);
            let mut tap = patches.tap(panel.first);
            for row in rows.chunks_exact_mut(RUN).take(panel.count) {
                patches.gather(images, first_plane, tap, pixel, &mut row[..count]);
                tap = patches.tap_after(tap);
            }
            let rows = Operand {
                data: &rows,
                stride: RUN,
                k_contiguous: true,
            };
            pack(rows, part_of(panel, 0, count), &mut to[k * panel.width..]);
        };
        self.terms.for_each(batch_idx, &panel, RUN, pack_stretch);
    }
}

/// Terms of a panel whose vectors are the first of an operand of their own.
fn part_of(panel: Panel, k_first: usize, k_count: usize) -> Panel {
    Panel {
        first: 0,
        k_first,
        k_count,
        ..panel
    }
}

/// Computes partial sums `[shards, groups, rows, columns]` of the weight's gradient.
pub(super) fn weight_product(
    patches: Patches,
    [rows, columns]: [usize; 2],
    [samples, shards]: [usize; 2],
    [dy, images]: [&[f32]; 2],
    accumulate: bool,
    dweight: &mut [f32],
) {
    let pixels = patches.n_pixels();
    let product = |first: [usize; 2], count: usize, accumulate: bool, out: &mut [f32]| {
        let terms = Terms {
            samples,
            groups: patches.groups,
            pixels,
            first,
        };
        let shape = MatMul {
            batch: shards * patches.groups,
            accumulate,
            ..MatMul::new(rows, columns, count)
        };
        let gradients = Gradients { terms, rows, dy };
        let taps = Taps {
            terms,
            patches,
            images,
        };
        matmul_of(simd_level(), &shape, gradients, taps, None, out);
    };
    let Some(runs) = Runs::of(pixels) else {
        return product([0, 0], samples * pixels, accumulate, dweight);
    };
    let mut of_run = Vec::new();
    for run in 0..samples * runs.of_sample {
        let pixel = run % runs.of_sample * runs.length;
        let count = runs.length.min(pixels - pixel);
        let first = [run / runs.of_sample, pixel];
        if run == 0 && !accumulate {
            // 0 + x is x: no chain ends in -0.
            product(first, count, false, dweight);
            continue;
        }
        of_run.resize(dweight.len(), 0.0);
        product(first, count, false, &mut of_run);
        add_to(dweight, &of_run);
    }
}

/// Adds the sums of a run: `sum = sum + x`, -0 to +0.
fn add_to(sums: &mut [f32], of_run: &[f32]) {
    /// Elements of one task.
    const TASK: usize = 1 << 14;
    let tasks = (write(sums, TASK), read(of_run, TASK));
    for_each(tasks, |_, (sums, of_run)| {
        sum_columns(of_run, of_run.len(), 0, sums);
    });
}
