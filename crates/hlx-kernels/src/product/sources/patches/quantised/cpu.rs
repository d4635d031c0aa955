//! The operands of convolutions over integers on the CPU: rows gathered from the images, then prepared.

use bytemuck::cast_slice_mut;

use super::super::Patches;
use super::pieces::Selection;
use crate::parallel::{self, write};
use crate::product::floats::pack::Panel;
use crate::product::quantised::specification::magnitude;
use crate::product::quantised::{DigitRows, Preparation};

/// Pixels whose patches are gathered together.
const TOGETHER: usize = 16;

/// Prepares the patches of pixels, \[samples, groups, pixels\] rows, from a sample and a pixel on.
pub(super) fn patch_rows(
    patches: &Patches,
    images: &[f32],
    first_sample: usize,
    first_pixel: usize,
    pixels: usize,
    of: Preparation,
    rows: DigitRows<'_>,
) {
    let (terms, patches) = (of.k, *patches);
    let mut tasks = rows.tasks(TOGETHER);
    parallel::for_each(write(&mut tasks, 1), |task, rows| {
        parallel::scratch(terms * (TOGETHER + 1), |gathered: &mut [f32]| {
            let (columns, own) = gathered.split_at_mut(terms * TOGETHER);
            let (mut at, end) = (task * TOGETHER, task * TOGETHER + rows[0].len());
            while at < end {
                // Of one sample and group.
                let (z, pixel) = (at / pixels, at % pixels);
                let count = (end - at).min(pixels - pixel);
                let first = first_pixel + pixel;
                let panel = Panel::new(&(first..first + count), &(0..terms), TOGETHER);
                let batch_idx = first_sample * patches.groups + z;
                patches.gather_panel(images, batch_idx, panel, columns);
                for i in 0..count {
                    for (own, column) in own.iter_mut().zip(columns.chunks_exact(TOGETHER)) {
                        *own = column[i];
                    }
                    rows[0].prepare(own, of.piece);
                }
                at += count;
            }
        });
    });
}

/// Prepares a selection of an operand of a weight's gradient; pixels that `counts` leaves out are zeros.
pub(super) fn term_rows(
    patches: &Patches,
    images: &[f32],
    counts: Option<&[i32]>,
    selection: &Selection,
    of: Preparation,
    rows: DigitRows<'_>,
) {
    let pixels = patches.n_pixels();
    let (groups, cut) = (patches.groups, selection.cut);
    let stride = of.k / selection.pieces[1].max(1);
    let mut tasks = rows.tasks(1);
    parallel::for_each(write(&mut tasks, 1), |at, rows| {
        let z = selection.z[0] + at / selection.rows[1];
        let (shard, group) = (z / groups, z % groups);
        let tap = patches.tap(selection.rows[0] + at % selection.rows[1]);
        parallel::scratch(of.k, |all: &mut [f32]| {
            all.fill(0.0);
            for (number, row) in all.chunks_mut(stride.max(1)).enumerate() {
                let piece = selection.pieces[0] + number;
                let first = piece / cut.runs * cut.samples;
                let first_pixel = piece % cut.runs * cut.terms;
                let count = pixels.min(first_pixel + cut.terms) - first_pixel.min(pixels);
                let samples = first..selection.samples.min(first + cut.samples);
                for (sample, row) in samples.zip(row.chunks_mut(count.max(1))) {
                    let sample = shard * selection.samples + sample;
                    let row = &mut row[..count];
                    let first_plane = patches.first_plane(sample, group);
                    let pixel = patches.pixel(first_pixel);
                    patches.gather(images, first_plane, tap, pixel, row);
                    if let Some(counts) = counts {
                        let at = (sample * groups + group) * pixels + first_pixel;
                        let left_out = counts[at..].iter().map(|count| *count == 0);
                        for (x, _) in row.iter_mut().zip(left_out).filter(|(_, out)| *out) {
                            *x = 0.0;
                        }
                    }
                }
            }
            rows[0].prepare(all, stride);
        });
    });
}

/// Writes which pixels of a sample and group have a patch that is not zeros alone.
pub(super) fn counted_pixels(patches: &Patches, images: &[f32], counts: &mut [f32], terms: usize) {
    let counts: &mut [i32] = cast_slice_mut(counts);
    parallel::for_each(write(counts, patches.n_pixels()), |plane, counts| {
        counts.fill(0);
        let (sample, group) = (plane / patches.groups, plane % patches.groups);
        let first_plane = patches.first_plane(sample, group);
        let mut tap = patches.tap(0);
        parallel::scratch(counts.len(), |row: &mut [f32]| {
            for _ in 0..terms {
                patches.gather(images, first_plane, tap, [0, 0], row);
                for (count, x) in counts.iter_mut().zip(&*row) {
                    *count |= i32::from(magnitude(*x) != 0);
                }
                tap = patches.tap_after(tap);
            }
        });
    });
}
