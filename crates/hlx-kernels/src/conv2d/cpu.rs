//! Convolutions on the CPU: the product of `matmul`, whose panels are packed from the images.

use hlx_core::cpu::simd_level;
use rayon::prelude::*;

use super::patches::Patches;
use crate::matmul::MatMul;
use crate::matmul::cpu::matmul_of;
use crate::matmul::pack::{Matrices, Operand, Panel, Source, pack};

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
        let (sample, group) = (batch_idx / groups, batch_idx % groups);
        let first_plane = self.patches.first_plane(sample, group);
        let pixel = self.patches.pixel(panel.first);
        let mut tap = self.patches.tap(panel.k_first);
        for row in to.chunks_exact_mut(panel.width).take(panel.k_count) {
            let (row, rest) = row.split_at_mut(panel.count);
            rest.fill(0.0);
            self.patches
                .gather(self.images, first_plane, tap, pixel, row);
            tap = self.patches.tap_after(tap);
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
        let Terms { groups, pixels, .. } = self.terms;
        self.terms.for_each(
            batch_idx,
            &panel,
            pixels,
            |(sample, group), pixel, k, count| {
                let plane = (sample * groups + group) * self.rows + panel.first;
                let rows = Operand {
                    data: &self.dy[plane * pixels..][..panel.count * pixels],
                    stride: pixels,
                    k_contiguous: true,
                };
                let part = part_of(panel, pixel, count);
                pack(rows, part, &mut to[k * panel.width..]);
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
        /// Vectors of the widest panel.
        const WIDEST: usize = 32;
        let mut rows = [0.0; RUN * WIDEST];
        self.terms.for_each(
            batch_idx,
            &panel,
            RUN,
            |(sample, group), pixel, k, count| {
                let first_plane = self.patches.first_plane(sample, group);
                let pixel = self.patches.pixel(pixel);
                let mut tap = self.patches.tap(panel.first);
                for row in rows.chunks_exact_mut(RUN).take(panel.count) {
                    let row = &mut row[..count];
                    self.patches
                        .gather(self.images, first_plane, tap, pixel, row);
                    tap = self.patches.tap_after(tap);
                }
                let rows = Operand {
                    data: &rows,
                    stride: RUN,
                    k_contiguous: true,
                };
                pack(rows, part_of(panel, 0, count), &mut to[k * panel.width..]);
            },
        );
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
