//! Gradients of convolutions' weights on the CPU: products whose terms are pixels.

use std::ops::Range;

use bytemuck::cast_slice;
use hlx_core::cpu::simd_level;

use super::cpu::WIDEST;
use super::staged::Staging;
use super::{Patches, Runs};
use crate::parallel::{for_each, read, write};
use crate::product::floats::cpu::matmul_of;
use crate::product::floats::pack::{Operand, Panel, Part, Source, pack};
use crate::product::shape::MatMul;
use crate::product::transposed::transpose_block;
use crate::reduce::sum_columns;

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
    /// Calls `visit((sample, group), pixels, first place in the part)` for the stretches of a part that are of one sample.
    fn for_each(
        &self,
        part: &Part<'_>,
        mut visit: impl FnMut((usize, usize), Range<usize>, usize),
    ) {
        let (shard, group) = (part.batch_idx / self.groups, part.batch_idx % self.groups);
        let [first_sample, first_pixel] = self.first;
        let mut done = 0;
        while done < part.terms.len() {
            let term = first_pixel + part.terms.start + done;
            let (sample, pixel) = (first_sample + term / self.pixels, term % self.pixels);
            let count = (part.terms.len() - done).min(self.pixels - pixel);
            let sample = shard * self.samples + sample;
            visit((sample, group), pixel..pixel + count, done);
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
    fn pack(&self, part: &Part<'_>, _staged: &[f32], panel: Panel, to: &mut [f32]) {
        let Terms { groups, pixels, .. } = self.terms;
        self.terms.for_each(part, |(sample, group), stretch, k| {
            let plane = (sample * groups + group) * self.rows + panel.first;
            let rows = Operand {
                data: &self.dy[plane * pixels..][..panel.count * pixels],
                stride: pixels,
                k_contiguous: true,
            };
            let panel = Panel {
                first: 0,
                k_first: stretch.start,
                k_count: stretch.len(),
                ..panel
            };
            pack(rows, panel, &mut to[k * panel.width..]);
        });
    }
}

/// Patches whose pixels are the terms; a vector is a tap of a channel.
#[derive(Clone, Copy)]
struct Taps<'a> {
    terms: Terms,
    staging: &'a Staging,
    images: &'a [f32],
}

impl Source for Taps<'_> {
    fn staged_len(&self, vectors: usize, terms: usize) -> usize {
        let planes = self.staging.most_planes(vectors);
        self.staging
            .most(planes, terms / self.terms.pixels + 2, terms)
    }

    fn stage(&self, part: &Part<'_>, staged: &mut [f32]) {
        let (staging, planes) = (self.staging, self.staging.planes(part.vectors));
        let mut done = 0;
        self.terms.for_each(part, |(sample, group), pixels, _| {
            let first = staging.patches.first_plane(sample, group);
            let window = staging.window(&pixels);
            let planes = first + planes.start..first + planes.end;
            let len = planes.len() * staging.plane_len(&window);
            staging.stage(self.images, planes, &window, &mut staged[done..done + len]);
            done += len;
        });
    }

    fn pack(&self, part: &Part<'_>, staged: &[f32], panel: Panel, to: &mut [f32]) {
        let (staging, planes) = (self.staging, self.staging.planes(part.vectors));
        let to = &mut to[..panel.k_count * panel.width];
        if panel.count < panel.width {
            to.fill(0.0);
        }
        let width = staging.patches.pixels[1];
        let mut done = 0;
        self.terms.for_each(part, |_, pixels, k| {
            let window = staging.window(&pixels);
            let from = &staged[done..];
            done += planes.len() * staging.plane_len(&window);
            let mut taps = [0; WIDEST];
            let places = staging.taps(&window, planes.start, panel.first);
            for (tap, place) in taps[..panel.count].iter_mut().zip(places) {
                *tap = place;
            }
            let taps = &taps[..panel.count];
            let mut at = pixels.start;
            while at < pixels.end {
                // Pixels of one row.
                let count = (width - at % width).min(pixels.end - at);
                let to = &mut to[(k + at - pixels.start) * panel.width..];
                let from = &from[staging.pixel(&window, at)..];
                transpose_run(from, taps, count, panel.width, to);
                at += count;
            }
        });
    }
}

/// Writes `count` neighbours from each of `vectors` on as rows that lie `width` apart. The last block of vectors overlaps its
/// neighbour rather than being narrower: it writes the same values twice.
fn transpose_run(from: &[f32], vectors: &[usize], count: usize, width: usize, to: &mut [f32]) {
    let blocks = match vectors.len() {
        4.. => count / 4 * 4,
        _ => 0,
    };
    let mut i = 0;
    while i < vectors.len() && blocks > 0 {
        i = i.min(vectors.len() - 4);
        let rows: [&[f32]; 4] = std::array::from_fn(|r| &from[vectors[i + r]..][..blocks]);
        for k in (0..blocks).step_by(4) {
            let rows = rows.map(|row| cast_slice(&row[k..k + 4]));
            transpose_block(rows, &mut to[k * width + i..], width);
        }
        i += 4;
    }
    for k in blocks..count {
        for (to, vector) in to[k * width..].iter_mut().zip(vectors) {
            *to = from[vector + k];
        }
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
    let (pixels, staging) = (patches.n_pixels(), Staging::new(patches));
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
            staging: &staging,
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
