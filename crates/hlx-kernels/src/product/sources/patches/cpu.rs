//! Convolutions on the CPU: the product of `matmul`, whose panels are packed from staged images.

use hlx_core::cpu::simd_level;

use super::Patches;
use super::phases::by_phases;
use super::staged::{Staging, TapPlaces};
use crate::parallel::{for_each, write};
use crate::product::floats::cpu::matmul_of;
use crate::product::floats::pack::{Panel, Part, Source};
use crate::product::floats::packed_rows::PackedRows;
use crate::product::shape::MatMul;

/// Columns of the widest panel.
pub(super) const WIDEST: usize = 32;
/// Lengths of runs that are copied by vectors.
const RUNS: [usize; 4] = [32, 16, 8, 4];

/// Patches whose taps are the terms; a vector is a pixel of one sample.
#[derive(Clone, Copy)]
struct Pixels<'a> {
    staging: &'a Staging,
    images: &'a [f32],
}

impl Source for Pixels<'_> {
    fn staged_len(&self, vectors: usize, terms: usize) -> usize {
        let planes = self.staging.most_planes(terms);
        self.staging.most(planes, 1, vectors)
    }

    fn stage(&self, part: &Part<'_>, staged: &mut [f32]) {
        let (staging, groups) = (self.staging, self.staging.patches.groups);
        let first = staging
            .patches
            .first_plane(part.batch_idx / groups, part.batch_idx % groups);
        let planes = staging.planes(part.terms);
        let planes = first + planes.start..first + planes.end;
        staging.stage(self.images, planes, &staging.window(part.vectors), staged);
    }

    fn pack(&self, part: &Part<'_>, staged: &[f32], panel: Panel, to: &mut [f32]) {
        let (staging, window) = (self.staging, self.staging.window(part.vectors));
        let first_plane = staging.planes(part.terms).start;
        let taps = staging.taps(&window, first_plane, panel.k_first);
        let run = self.run(&panel);
        let mut places = [0; WIDEST];
        let places = &mut places[..panel.count / run];
        for (i, place) in places.iter_mut().enumerate() {
            *place = staging.pixel(&window, panel.first + i * run);
        }
        let to = &mut to[..panel.k_count * panel.width];
        if panel.count < panel.width {
            to.fill(0.0);
        }
        copy_runs(staged, taps, places, run, panel.width, to);
    }
}

impl Pixels<'_> {
    /// The most pixels of a panel, 1 or a whole vector, of which each so many lie in one row.
    fn run(&self, panel: &Panel) -> usize {
        let width = self.staging.patches.pixels[1];
        let fits = |run: usize| {
            let mut firsts = (panel.first..panel.first + panel.count).step_by(run);
            panel.count.is_multiple_of(run) && firsts.all(|first| first % width + run <= width)
        };
        RUNS.into_iter().find(|&run| fits(run)).unwrap_or(1)
    }
}

hlx_core::multiversion! {
    /// Copies the runs at `places` from each tap, of this length and behind each other, into a row of `width`.
    fn copy_runs(
        from: &[f32],
        taps: TapPlaces<'_>,
        places: &[usize],
        run: usize,
        width: usize,
        to: &mut [f32],
    ) {
        match run {
            32 => copy_rows::<32>(from, taps, places, width, to),
            16 => copy_rows::<16>(from, taps, places, width, to),
            8 => copy_rows::<8>(from, taps, places, width, to),
            4 => copy_rows::<4>(from, taps, places, width, to),
            _ => copy_rows::<1>(from, taps, places, width, to),
        }
    }
}

#[inline(always)]
fn copy_rows<const RUN: usize>(
    from: &[f32],
    taps: TapPlaces<'_>,
    places: &[usize],
    width: usize,
    to: &mut [f32],
) {
    for (to, tap) in to.chunks_exact_mut(width).zip(taps) {
        let from = &from[tap..];
        for (to, &place) in to.as_chunks_mut::<RUN>().0.iter_mut().zip(places) {
            *to = *from[place..].first_chunk::<RUN>().expect("a run of a row");
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
    if patches.divide != [1, 1] && weight.iter().all(|weight| weight.is_finite()) {
        let of_phase = |patches, shape, weight: &[f32], y: &mut [f32]| {
            product(patches, shape, [weight, images], bias, y);
        };
        return by_phases(&patches, [rows, terms], weight, bias, y, of_phase);
    }
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
    let (mut tiles, staging) = (Vec::new(), Staging::new(patches));
    let weights = PackedRows::new(simd_level(), weight, [rows, terms], &mut tiles);
    let images = Pixels {
        staging: &staging,
        images,
    };
    matmul_of(simd_level(), &shape, weights, images, None, y);
}
