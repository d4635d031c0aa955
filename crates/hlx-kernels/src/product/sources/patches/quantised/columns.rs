//! Gradients of weights from quantised operands: an output channel's gradient at all pixels of a shard is a row with two
//! digits, a tap's elements of the patches a row with one.

use bytemuck::cast_slice;
use hlx_core::{Buffer, DType, Device};

use super::super::{Patches, Product};
use super::pieces::{Cut, Selection};
use super::{at_once, cpu, most_bytes};
use crate::Result;
use crate::elementwise::add_assign;
use crate::kernel::Kernel;
use crate::map::GROUP_THREADS;
use crate::product::floats::Epilogue;
use crate::product::formats::Format;
use crate::product::quantised::{DigitRows, Digits, IntegerProduct, Prepared, integer_product};
use crate::product::role::Role;

shader!(conv2d::{prepare_terms as terms_shader, count_pixels as count_shader});

/// Pieces of rows of a workgroup.
const ROWS: usize = 8;

/// An operand of a weight's gradient, by the images that its rows are gathered from.
struct Side<'a> {
    product: Product,
    images: &'a Buffer,
    n_digits: Digits,
    /// The pixels that enter the maxima of what was saved.
    counts: Option<&'a Buffer>,
}

impl Product {
    /// Computes `dweight[s, g, m, k]`, the products of dy with the patches of a shard; with `accumulate` they are added to
    /// what is stored. The roles are those of dy and of the images, which are the gradient of a transposed convolution's output.
    pub(in super::super) fn launch_weight_quantised(
        &self,
        device: &Device,
        [dy, images]: [&Buffer; 2],
        format: &Format,
        roles: [Role; 2],
        dweight: &Buffer,
        accumulate: bool,
        shards: usize,
    ) -> Result<()> {
        let (samples, groups) = (self.batch / shards, self.patches.groups);
        let cut = Cut::of(samples, self.patches.n_pixels());
        if accumulate && cut.pieces > 1 {
            let sums = device.alloc(dweight.len())?;
            self.launch_weight_quantised(
                device,
                [dy, images],
                format,
                roles,
                &sums,
                false,
                shards,
            )?;
            return add_assign(device, dweight, &sums);
        }
        let of_dy = self.of_gradient();
        let counts = &match roles[0] {
            Role::Gradient => of_dy.counted_pixels(device, dy)?,
            _ => self.counted_pixels(device, images)?,
        };
        let side = |product, images, role| Side {
            product,
            images,
            n_digits: (format.digits)(role),
            counts: (role == Role::Saved).then_some(counts),
        };
        let sides = [side(of_dy, dy, roles[0]), side(*self, images, roles[1])];
        let [dy_planes, image_planes] = [0, 1].map(|side: usize| sides[side].n_digits.planes());
        let (most, of_piece) = (most_bytes(device), groups * cut.padded());
        let rows = dy_planes * self.rows + image_planes * self.terms;
        let shard_bytes = rows * of_piece * cut.pieces;
        let n_shards = at_once(shards, shard_bytes, most, 1);
        let n_pieces = if shard_bytes <= most { cut.pieces } else { 1 };
        let tap_bytes = image_planes * n_shards * n_pieces * of_piece;
        let n_taps = at_once(self.terms, tap_bytes, most, 4);
        for shard in (0..shards).step_by(n_shards) {
            let z = [shard * groups, n_shards.min(shards - shard) * groups];
            for piece in (0..cut.pieces).step_by(n_pieces) {
                let selection = Selection {
                    z,
                    rows: [0, self.rows],
                    pieces: [piece, n_pieces],
                    cut,
                    samples,
                };
                let accumulate = accumulate || piece > 0;
                self.part_of_weight(device, &sides, selection, n_taps, dweight, accumulate)?;
            }
        }
        Ok(())
    }

    /// Computes the products of a selection, `n_taps` taps at a time.
    fn part_of_weight(
        &self,
        device: &Device,
        [of_dy, of_images]: &[Side<'_>; 2],
        mut selection: Selection,
        n_taps: usize,
        dweight: &Buffer,
        accumulate: bool,
    ) -> Result<()> {
        let of_z = self.rows * self.terms;
        let dy = of_dy.rows(device, selection)?;
        for tap in (0..self.terms).step_by(n_taps) {
            selection.rows = [tap, n_taps.min(self.terms - tap)];
            let x = of_images.rows(device, selection)?;
            let terms = selection.of(Digits::One).k;
            // The operand with more digits is the left one.
            let transposed = of_images.n_digits.planes() > of_dy.n_digits.planes();
            let (pair, [m, n]) = match transposed {
                false => ([&dy, &x], [self.rows, selection.rows[1]]),
                true => ([&x, &dy], [selection.rows[1], self.rows]),
            };
            let is_whole =
                selection.z[1] * of_z == dweight.len() && selection.rows[1] == self.terms;
            let place = [selection.z[0] * of_z + tap, self.terms];
            let product = IntegerProduct {
                batch: selection.z[1],
                accumulate,
                transposed,
                within: (!is_whole).then_some(place),
                ..IntegerProduct::new(m, n, terms)
            };
            integer_product(device, pair, None, dweight, &product, Epilogue::None)?;
        }
        Ok(())
    }

    /// The gradient of the output as images of one tap.
    pub(in super::super) fn of_gradient(&self) -> Self {
        let Patches { pixels, groups, .. } = self.patches;
        Self {
            patches: Patches {
                pixels,
                taps: [1, 1],
                image: pixels,
                channels: groups * self.rows,
                groups,
                scale: [1, 1],
                first: [0, 0],
                step: [1, 1],
                divide: [1, 1],
            },
            terms: self.rows,
            ..*self
        }
    }

    /// Which pixels of a sample and group have a patch that is not zeros alone: i32, \[samples, groups, pixels\].
    fn counted_pixels(&self, device: &Device, images: &Buffer) -> Result<Buffer> {
        let (patches, pixels, terms) = (self.patches, self.patches.n_pixels(), self.terms);
        let planes = self.batch * patches.groups;
        let counts = device.alloc_shape_typed(DType::I32, &[planes, pixels])?;
        let push = self.push([planes, 1, terms], [1, 1], [0, 0], [0, 0]);
        let constants = self.divisors();
        let kernel = Kernel::new("integer_counted_pixels", &count_shader::SHADER)
            .constants(constants)
            .reads([images])
            .writes([&counts]);
        let groups = (planes * pixels).div_ceil(GROUP_THREADS);
        kernel.launch(device, push, groups, move |[images], [counts]| {
            cpu::counted_pixels(&patches, images, counts, terms);
        })?;
        Ok(counts)
    }
}

impl Side<'_> {
    /// A selection of the operand, quantised.
    fn rows(&self, device: &Device, selection: Selection) -> Result<Prepared> {
        let (patches, of) = (self.product.patches, selection.of(self.n_digits));
        let prepared = Prepared::empty(device, of)?;
        let [[row_first, rows], [z_first, z_count], [piece_first, pieces]] =
            [selection.rows, selection.z, selection.pieces];
        let push = self.product.push(
            [rows, pieces, selection.samples],
            [selection.cut.runs, selection.cut.samples],
            [row_first, z_first],
            [z_count, piece_first],
        );
        let counted = self.counts.is_some();
        let kernel = Kernel::new("prepare_integer_terms", &terms_shader::SHADER)
            .constants(self.product.divisors())
            .constants(constants!(6: self.n_digits == Digits::Two, counted))
            .reads([self.images])
            .reads_if(self.counts)
            .writes(prepared.written());
        let groups = of.exponents_len().div_ceil(ROWS);
        kernel.launch(device, push, groups, move |read, [digits, exponents]| {
            let [images, counts] = read;
            let counts: Option<&[i32]> = counted.then(|| cast_slice(counts));
            let rows = DigitRows::new(digits, exponents, &of, of.pieces());
            cpu::term_rows(&patches, images, counts, &selection, of, rows);
        })?;
        Ok(prepared)
    }
}
