//! The operands of convolutions over integers on the CPU: rows gathered from the images, then prepared.

use rayon::prelude::*;

use super::super::Patches;
use super::super::cpu::Pixels;
use super::columns::Part;
use crate::product::floats::pack::{Panel, Source};
use crate::product::quantised::law::magnitude;
use crate::product::quantised::{Preparation, prepare_row};

/// Pixels whose patches are gathered together.
const TOGETHER: usize = 16;

/// The digits and the exponents of an operand.
type To<'a> = (&'a mut [i8], &'a mut [i32]);

/// The digits of rows, by planes, and their exponents, in tasks of so many rows.
fn tasks<'a>(
    (digits, exponents): To<'a>,
    of: Preparation,
    rows: usize,
) -> Vec<([&'a mut [i8]; 2], &'a mut [i32])> {
    let digits = &mut digits[..of.digits_len()];
    let plane = of.rows * of.padded();
    let (mut upper, mut lower) = digits.split_at_mut(of.digits_len() - plane);
    let exponents = exponents[..of.exponents_len()].chunks_mut(rows * of.pieces());
    let with_digits = |exponents: &'a mut [i32]| {
        let len = exponents.len() / of.pieces() * of.padded();
        let planes = [
            upper.split_off_mut(..len.min(upper.len())),
            lower.split_off_mut(..len),
        ];
        (planes.map(Option::unwrap_or_default), exponents)
    };
    exponents.map(with_digits).collect()
}

/// Prepares a row of pieces that begin `piece` terms apart in it, as in its digits.
fn prepare_pieces(
    row: &[f32],
    [upper, lower]: [&mut [i8]; 2],
    exponents: &mut [i32],
    piece: usize,
) {
    let padded = lower.len();
    for (number, exponent) in exponents.iter_mut().enumerate() {
        let first = number * piece;
        let to = first..padded.min(first + piece);
        let terms = &row[first.min(row.len())..row.len().min(to.end)];
        let upper = upper.get_mut(to.clone()).unwrap_or_default();
        *exponent = prepare_row(terms, upper, &mut lower[to]);
    }
}

/// Prepares the patches of pixels, \[samples, groups, pixels\] rows, from a sample and a pixel on.
pub(super) fn patch_rows(
    patches: &Patches,
    images: &[f32],
    (first_sample, first_pixel, pixels): (usize, usize, usize),
    of: Preparation,
    to: To<'_>,
) {
    let terms = of.k;
    let tasks = tasks(to, of, TOGETHER).into_par_iter().enumerate();
    tasks.for_each_init(Vec::new, |gathered, (task, (planes, exponents))| {
        let rows = exponents.len() / of.pieces();
        gathered.resize(terms * (TOGETHER + 1), 0.0);
        let (columns, own) = gathered.split_at_mut(terms * TOGETHER);
        let mut done = 0;
        let [mut upper, mut lower] = planes;
        let mut exponents = exponents;
        while done < rows {
            // Of one sample and group.
            let at = task * TOGETHER + done;
            let (z, pixel) = (at / pixels, at % pixels);
            let count = (rows - done).min(pixels - pixel);
            let panel = Panel {
                first: first_pixel + pixel,
                count,
                k_first: 0,
                k_count: terms,
                width: TOGETHER,
            };
            let source = Pixels {
                patches: *patches,
                images,
            };
            source.pack(first_sample * patches.groups + z, panel, columns);
            for i in 0..count {
                for (own, column) in own.iter_mut().zip(columns.chunks_exact(TOGETHER)) {
                    *own = column[i];
                }
                let planes = [&mut upper, &mut lower].map(|plane| {
                    let len = of.padded().min(plane.len());
                    plane.split_off_mut(..len).unwrap_or_default()
                });
                let exponents = exponents.split_off_mut(..of.pieces()).unwrap_or_default();
                prepare_pieces(own, planes, exponents, of.piece);
            }
            done += count;
        }
    });
}

/// Prepares a part of an operand of a weight's gradient; pixels that `counts` leaves out are zeros.
pub(super) fn term_rows(
    patches: &Patches,
    (images, counts): (&[f32], Option<&[i32]>),
    part: &Part,
    of: Preparation,
    to: To<'_>,
) {
    let pixels = patches.n_pixels();
    let (groups, cut) = (patches.groups, part.cut);
    let stride = of.k / part.pieces[1].max(1);
    let tasks = tasks(to, of, 1).into_par_iter().enumerate();
    tasks.for_each_init(Vec::new, |row, (at, (planes, exponents))| {
        row.resize(of.k, 0.0);
        row.fill(0.0);
        let z = part.z[0] + at / part.rows[1];
        let (shard, group) = (z / groups, z % groups);
        let tap = patches.tap(part.rows[0] + at % part.rows[1]);
        for (number, row) in row.chunks_mut(stride.max(1)).enumerate() {
            let piece = part.pieces[0] + number;
            let first = piece / cut.runs * cut.samples;
            let first_pixel = piece % cut.runs * cut.terms;
            let count = pixels.min(first_pixel + cut.terms) - first_pixel.min(pixels);
            let samples = first..part.samples.min(first + cut.samples);
            for (sample, row) in samples.zip(row.chunks_mut(count.max(1))) {
                let sample = shard * part.samples + sample;
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
        prepare_pieces(row, planes, exponents, stride);
    });
}

/// Writes which pixels of a sample and group have a patch that is not zeros alone.
pub(super) fn counted_pixels(patches: &Patches, images: &[f32], counts: &mut [i32], terms: usize) {
    let planes = counts.par_chunks_mut(patches.n_pixels()).enumerate();
    planes.for_each_init(Vec::new, |row, (plane, counts)| {
        row.resize(counts.len(), 0.0);
        counts.fill(0);
        let (sample, group) = (plane / patches.groups, plane % patches.groups);
        let first_plane = patches.first_plane(sample, group);
        let mut tap = patches.tap(0);
        for _ in 0..terms {
            patches.gather(images, first_plane, tap, [0, 0], row);
            for (count, x) in counts.iter_mut().zip(&*row) {
                *count |= i32::from(magnitude(*x) != 0);
            }
            tap = patches.tap_after(tap);
        }
    });
}
