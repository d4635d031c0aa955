//! Convolutions of quantised operands, by the specification of [`crate::product::quantised`]: products of patches, as many
//! at a time as fit in bounded memory. How many changes no bit.
//! A patch of a pixel is a row with two digits, a channel's weights a row with one.

use hlx_core::{Buffer, Device};

use super::Product;
use crate::Result;
use crate::kernel::Kernel;
use crate::product::floats::Epilogue;
use crate::product::formats::Format;
use crate::product::quantised::{
    DigitRows, Digits, IntegerProduct, Preparation, Prepared, integer_product,
};
use crate::product::role::Role;
use crate::tuning::KernelTuning;

pub(crate) use pieces::Cut;

mod columns;
mod cpu;
mod pieces;

/// Bytes of digits that a launch's operand may take.
pub(super) fn most_bytes(device: &Device) -> usize {
    let most = KernelTuning::of(device).integer_patch_bytes;
    most.min(device.max_binding_words().saturating_mul(4))
}

/// So many of `all` at a time as have at most `most` bytes, a multiple of `of`, if not all of them.
pub(super) fn at_once(all: usize, bytes: usize, most: usize, of: usize) -> usize {
    match all * bytes <= most {
        true => all,
        false => (most / bytes.max(1) / of * of).clamp(of.min(all), all),
    }
}

shader!(patches_shader, conv2d::prepare_patches);

/// Pieces of rows of a workgroup.
const ROWS: usize = 8;

impl Product {
    /// Computes `y[s, g, m, p]`, the products of a group's weights with the patches.
    pub(in super::super) fn launch_quantised(
        &self,
        device: &Device,
        format: &Format,
        weight: &Buffer,
        images: &Buffer,
        bias: Option<&Buffer>,
        y: &Buffer,
    ) -> Result<()> {
        let Self { rows, terms, .. } = *self;
        let (groups, pixels) = (self.patches.groups, self.patches.n_pixels());
        let n_digits = (format.digits)(Role::Weight);
        let of_weight = Preparation::of_rows(groups * rows, terms, n_digits);
        let weight = Prepared::new(device, weight, of_weight)?;
        let n_digits = (format.digits)(Role::Signal);
        let (row_bytes, most) = (n_digits.planes() * of_weight.padded(), most_bytes(device));
        let samples = at_once(self.batch, groups * pixels * row_bytes, most, 1);
        let pixels_at_once = at_once(pixels, groups * row_bytes, most, 64);
        for first in (0..self.batch).step_by(samples) {
            let samples = [first, samples.min(self.batch - first)];
            for pixel in (0..pixels).step_by(pixels_at_once) {
                let of_pixels = [pixel, pixels_at_once.min(pixels - pixel)];
                let patches = self.patch_rows(device, images, n_digits, samples, of_pixels)?;
                let is_whole = samples[1] == self.batch && of_pixels[1] == pixels;
                let place = [first * groups * rows * pixels + pixel, pixels];
                let product = IntegerProduct {
                    batch: samples[1] * groups,
                    groups: Some(groups),
                    transposed: true,
                    within: (!is_whole).then_some(place),
                    ..IntegerProduct::new(of_pixels[1], rows, terms)
                };
                let operands = [&patches, &weight];
                integer_product(device, operands, bias, y, &product, Epilogue::None)?;
            }
        }
        Ok(())
    }

    /// The patches of some samples' and pixels, \[samples, groups, pixels\] rows.
    fn patch_rows(
        &self,
        device: &Device,
        images: &Buffer,
        n_digits: Digits,
        [first_sample, samples]: [usize; 2],
        [first_pixel, pixels]: [usize; 2],
    ) -> Result<Prepared> {
        let patches = self.patches;
        let rows = samples * patches.groups * pixels;
        let of = Preparation::of_rows(rows, self.terms, n_digits);
        let prepared = Prepared::empty(device, of)?;
        let (runs, firsts) = ([of.padded() / 4, 1], [first_pixel, first_sample]);
        let push = self.push([rows, pixels, self.terms], runs, firsts, [0, 0]);
        let constants = self.divisors();
        let kernel = Kernel::new("prepare_integer_patches", &patches_shader::SHADER)
            .constants(constants)
            .reads([images])
            .writes(prepared.written());
        let groups = of.exponents_len().div_ceil(ROWS);
        kernel.launch(device, push, groups, move |[images], written| {
            let [digits, exponents] = written;
            let rows = DigitRows::new(digits, exponents, &of, of.pieces());
            cpu::patch_rows(
                &patches,
                images,
                first_sample,
                first_pixel,
                pixels,
                of,
                rows,
            );
        })?;
        Ok(prepared)
    }
}
