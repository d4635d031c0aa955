//! Transposed convolutions with a stride, cut by the place of their pixels within a stride.
//!
//! A pixel of such a phase meets every `stride`-th tap alone; its other terms are zeros times a weight, which change no chain
//! as long as that weight is finite. So each phase is a convolution of fewer taps and stride 1.

use super::Patches;
use crate::parallel::{for_each, write};

/// The pixels of a phase along an axis, and their taps.
struct Axis {
    /// The first pixel; the others follow at the stride.
    first: usize,
    pixels: usize,
    /// Taps of the whole convolution that lead from these pixels to an element of the images.
    taps: Vec<usize>,
    /// As in [`Patches`].
    origin: isize,
    step: isize,
}

impl Axis {
    fn all(patches: &Patches, axis: usize) -> Vec<Self> {
        let divide = patches.divide[axis];
        let pixels = patches.pixels[axis];
        let of = |first: usize| {
            let place = |tap: usize| patches.unbounded(axis, first, tap);
            let meets = |tap: &usize| place(*tap) % divide as isize == 0;
            let taps: Vec<_> = (0..patches.taps[axis]).filter(meets).collect();
            let places: Vec<_> = taps
                .iter()
                .map(|&tap| place(tap) / divide as isize)
                .collect();
            Self {
                first,
                pixels: (pixels - first).div_ceil(divide),
                taps,
                origin: places.first().copied().unwrap_or(0),
                step: places.get(1).map_or(0, |second| second - places[0]),
            }
        };
        (0..divide.min(pixels)).map(of).collect()
    }
}

/// Computes results `[batch, groups, rows, pixels]` phase by phase; `product` computes those of patches whose divisor is 1 from
/// their weights, of `[rows, terms]`. None of the weights may be infinite or NaN.
pub(super) fn by_phases(
    patches: &Patches,
    [rows, terms]: [usize; 2],
    weight: &[f32],
    bias: Option<&[f32]>,
    y: &mut [f32],
    product: impl Fn(Patches, [usize; 2], &[f32], &mut [f32]),
) {
    let (n_pixels, n_taps) = (patches.n_pixels(), patches.n_taps());
    let planes = y.len() / n_pixels;
    let [vertical, horizontal] = [0, 1].map(|axis| Axis::all(patches, axis));
    let phases = vertical
        .iter()
        .flat_map(|y| horizontal.iter().map(move |x| [y, x]));
    let phases: Vec<_> = phases
        .map(|axes| {
            let of_phase = Patches {
                pixels: axes.map(|axis| axis.pixels),
                taps: axes.map(|axis| axis.taps.len()),
                first: axes.map(|axis| axis.origin),
                step: axes.map(|axis| axis.step),
                divide: [1, 1],
                ..*patches
            };
            let mut results = Vec::new();
            if of_phase.n_taps() > 0 {
                let taps = |kernel: &[f32], to: &mut Vec<f32>| {
                    for &ky in &axes[0].taps {
                        let row = &kernel[ky * patches.taps[1]..];
                        to.extend(axes[1].taps.iter().map(|&kx| row[kx]));
                    }
                };
                let mut weights = Vec::with_capacity(weight.len() / n_taps * of_phase.n_taps());
                weight
                    .chunks_exact(n_taps)
                    .for_each(|kernel| taps(kernel, &mut weights));
                results.resize(planes * of_phase.n_pixels(), 0.0);
                let shape = [rows, terms / n_taps * of_phase.n_taps()];
                product(of_phase, shape, &weights, &mut results);
            }
            (axes, of_phase.n_pixels(), results)
        })
        .collect();
    for_each(write(y, n_pixels), |plane, y| {
        // The sum of no terms: a bias of -0 becomes +0.
        let start = bias.map_or(0.0, |bias| bias[plane % bias.len()] + 0.0);
        for (axes, n_pixels, results) in &phases {
            let own = results.get(plane * n_pixels..(plane + 1) * n_pixels);
            for row in 0..axes[0].pixels {
                let first =
                    (axes[0].first + row * patches.divide[0]) * patches.pixels[1] + axes[1].first;
                let to = y[first..]
                    .iter_mut()
                    .step_by(patches.divide[1])
                    .take(axes[1].pixels);
                match own {
                    Some(own) => to
                        .zip(&own[row * axes[1].pixels..])
                        .for_each(|(to, x)| *to = *x),
                    None => to.for_each(|to| *to = start),
                }
            }
        }
    });
}
