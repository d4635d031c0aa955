//! Convolutions on the CPU: the product of `matmul`, whose panels are packed from the images.

use hlx_core::cpu::simd_level;
use rayon::prelude::*;

use super::patches::Patches;
use crate::matmul::MatMul;
use crate::matmul::cpu::matmul_of;
use crate::matmul::pack::{Matrices, Panel, Source};

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
struct Pixels<'a> {
    patches: Patches,
    images: &'a [f32],
}

impl Source for Pixels<'_> {
    fn pack(&self, batch_idx: usize, panel: Panel, to: &mut [f32]) {
        let groups = self.patches.groups;
        let image = (batch_idx / groups, batch_idx % groups);
        let rows = to.chunks_exact_mut(panel.width).take(panel.k_count);
        for (k, row) in rows.enumerate() {
            let (row, rest) = row.split_at_mut(panel.count);
            rest.fill(0.0);
            let tap = panel.k_first + k;
            self.patches
                .gather(self.images, image, tap, panel.first, row);
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
        let planes = y.par_chunks_mut(pixels).enumerate();
        planes.for_each(|(plane, y)| y.fill(bias[plane % bias.len()]));
    }
    let shape = MatMul {
        batch: y.len() / (rows * pixels),
        accumulate: bias.is_some(),
        ..MatMul::new(rows, pixels, terms)
    };
    let weights = Weights {
        groups: patches.groups,
        matrices: Matrices {
            data: weight,
            size: rows * terms,
            stride: rows * terms,
            row: terms,
            k_contiguous: true,
        },
    };
    let images = Pixels { patches, images };
    matmul_of(simd_level(), &shape, weights, images, None, y);
}

/// How the terms of a weight's gradient, the pixels of a shard's samples in order, lie in memory: a
/// matrix of the batch is a group of a shard.
#[derive(Clone, Copy)]
struct Terms {
    samples: usize,
    groups: usize,
    pixels: usize,
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
        let mut done = 0;
        while done < panel.k_count {
            let term = panel.k_first + done;
            let (sample, pixel) = (term / self.pixels, term % self.pixels);
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
        to[..panel.k_count * panel.width].fill(0.0);
        let Terms { groups, pixels, .. } = self.terms;
        self.terms.for_each(
            batch_idx,
            &panel,
            pixels,
            |(sample, group), pixel, k, count| {
                for i in 0..panel.count {
                    let plane = (sample * groups + group) * self.rows + panel.first + i;
                    let from = &self.dy[plane * pixels + pixel..][..count];
                    store_column(from, &panel, (k, i), to);
                }
            },
        );
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
        to[..panel.k_count * panel.width].fill(0.0);
        let mut run = [0.0; RUN];
        self.terms
            .for_each(batch_idx, &panel, RUN, |image, pixel, k, count| {
                let run = &mut run[..count];
                for i in 0..panel.count {
                    self.patches
                        .gather(self.images, image, panel.first + i, pixel, run);
                    store_column(run, &panel, (k, i), to);
                }
            });
    }
}

/// Stores a stretch of vector `i` of a panel from place k on.
fn store_column(from: &[f32], panel: &Panel, (k, i): (usize, usize), to: &mut [f32]) {
    let to = to[k * panel.width + i..].iter_mut().step_by(panel.width);
    for (to, from) in to.zip(from) {
        *to = *from;
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
    let terms = Terms {
        samples,
        groups: patches.groups,
        pixels: patches.n_pixels(),
    };
    let shape = MatMul {
        batch: shards * patches.groups,
        accumulate,
        ..MatMul::new(rows, columns, samples * terms.pixels)
    };
    let gradients = Gradients { terms, rows, dy };
    let taps = Taps {
        terms,
        patches,
        images,
    };
    matmul_of(simd_level(), &shape, gradients, taps, None, dweight);
}
