//! Gradients of weights over integers: an output channel's gradient at all pixels of a shard is a wide row, a tap's elements
//! of the patches a narrow one.

use bytemuck::{cast_slice, cast_slice_mut};
use hlx_core::{Buffer, DType, Device};

use super::super::Patches;
use super::super::Product;
use super::{at_once, cpu, most_bytes};
use crate::KernelError;
use crate::elementwise::add_assign;
use crate::kernel::{Kernel, PushConstants};
use crate::map::GROUP_THREADS;
use crate::product::floats::Epilogue;
use crate::product::formats::Format;
use crate::product::operand::Role;
use crate::product::quantised::{IntegerProduct, Preparation, Prepared, Width, integer_product};
use crate::product::shape::MatMul;

shader!(terms_shader, conv2d::prepare_terms);
shader!(count_shader, conv2d::count_pixels);

/// Pieces of rows of a workgroup.
const ROWS: usize = 8;

/// How the terms of a shard, the pixels of its samples in order, are cut into pieces with exponents of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cut {
    /// Samples of a piece; the last piece may have fewer.
    pub samples: usize,
    /// Pieces of a sample, where it has several.
    pub runs: usize,
    /// Pieces of a shard.
    pub pieces: usize,
    /// Terms of a piece; the last one of a sample or of a shard may have fewer.
    pub terms: usize,
}

impl Cut {
    /// That of a shard of so many samples: the fewest pieces of at most 16,384 terms and of equally many samples, or the
    /// fewest runs of a sample's pixels of at most as many and of equal lengths.
    pub fn of(samples: usize, pixels: usize) -> Self {
        const MOST: usize = 16_384;
        let runs = pixels.div_ceil(MOST);
        if runs > 1 {
            return Self {
                samples: 1,
                runs,
                pieces: samples * runs,
                terms: pixels.div_ceil(runs),
            };
        }
        let pieces = samples.div_ceil(MOST / pixels.max(1)).max(1);
        let of_piece = samples.div_ceil(pieces);
        Self {
            samples: of_piece,
            runs: 1,
            pieces: samples.div_ceil(of_piece.max(1)),
            terms: of_piece * pixels,
        }
    }

    /// Digits of a piece.
    fn padded(&self) -> usize {
        Preparation::of_rows(1, self.terms, Width::Narrow).padded()
    }
}

/// Both operands of a weight's gradient.
struct WeightOperands<'a> {
    dy: (Product, &'a Buffer),
    images: (Product, &'a Buffer),
    widths: [Width; 2],
    roles: [Role; 2],
    /// The pixels that enter the maxima of what was saved.
    counts: Buffer,
}

/// Some rows of an operand: of so many z, of each so many rows, and so many pieces; each with the first one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    pub z: [usize; 2],
    pub rows: [usize; 2],
    pub pieces: [usize; 2],
    pub cut: Cut,
    /// Samples of a shard.
    pub samples: usize,
}

impl Part {
    /// The rows as an operand.
    fn of(&self, width: Width) -> Preparation {
        let terms = self.pieces[1] * self.cut.padded();
        let of = Preparation::of_rows(self.z[1] * self.rows[1], terms, width);
        match self.pieces[1] {
            // One shader for pieces of any length.
            1 => of.whole(),
            _ => of.in_pieces(self.cut.padded()),
        }
    }
}

impl Product {
    /// Computes `dweight[s, g, m, k]`, the products of dy with the patches of a shard; with `accumulate` they are added to
    /// what is stored. The roles are those of dy and of the images, which are the gradient of a transposed convolution's output.
    pub(in super::super) fn launch_weight_integers(
        &self,
        device: &Device,
        [dy, images]: [&Buffer; 2],
        (format, roles): (&Format, [Role; 2]),
        (dweight, accumulate): (&Buffer, bool),
        shards: usize,
    ) -> Result<(), KernelError> {
        let (samples, groups) = (self.batch / shards, self.patches.groups);
        let cut = Cut::of(samples, self.patches.n_pixels());
        if accumulate && cut.pieces > 1 {
            let sums = device.alloc(dweight.len())?;
            self.launch_weight_integers(
                device,
                [dy, images],
                (format, roles),
                (&sums, false),
                shards,
            )?;
            return add_assign(device, dweight, &sums);
        }
        let of_dy = self.of_gradient();
        let operands = WeightOperands {
            widths: roles.map(format.width),
            roles,
            counts: match roles[0] {
                Role::Gradient => of_dy.counted_pixels(device, dy)?,
                _ => self.counted_pixels(device, images)?,
            },
            dy: (of_dy, dy),
            images: (*self, images),
        };
        let [dy_planes, image_planes] = operands.widths.map(Width::planes);
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
                let part = Part {
                    z,
                    rows: [0, self.rows],
                    pieces: [piece, n_pieces],
                    cut,
                    samples,
                };
                let accumulate = accumulate || piece > 0;
                self.part_of_weight(device, &operands, part, n_taps, (dweight, accumulate))?;
            }
        }
        Ok(())
    }

    /// Computes a part's products, so many taps at a time.
    fn part_of_weight(
        &self,
        device: &Device,
        operands: &WeightOperands<'_>,
        mut part: Part,
        n_taps: usize,
        (dweight, accumulate): (&Buffer, bool),
    ) -> Result<(), KernelError> {
        let (of_z, [dy_width, x_width]) = (self.rows * self.terms, operands.widths);
        let [dy_counts, x_counts] = operands
            .roles
            .map(|role| (role == Role::Saved).then_some(&operands.counts));
        let (of_dy, dy) = &operands.dy;
        let dy = of_dy.term_rows(device, dy, dy_width, dy_counts, part)?;
        for tap in (0..self.terms).step_by(n_taps) {
            part.rows = [tap, n_taps.min(self.terms - tap)];
            let (of_images, images) = &operands.images;
            let x = of_images.term_rows(device, images, x_width, x_counts, part)?;
            let terms = part.of(Width::Narrow).k;
            // The operand with more digits is the left one.
            let transposed = x_width.planes() > dy_width.planes();
            let (pair, [m, n]) = match transposed {
                false => ([&dy, &x], [self.rows, part.rows[1]]),
                true => ([&x, &dy], [part.rows[1], self.rows]),
            };
            let is_whole = part.z[1] * of_z == dweight.len() && part.rows[1] == self.terms;
            let place = [part.z[0] * of_z + tap, self.terms];
            let product = IntegerProduct {
                batch: part.z[1],
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
    fn of_gradient(&self) -> Self {
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
    fn counted_pixels(&self, device: &Device, images: &Buffer) -> Result<Buffer, KernelError> {
        let (patches, pixels, terms) = (self.patches, self.patches.n_pixels(), self.terms);
        let planes = self.batch * patches.groups;
        let counts = device.alloc_shape_typed(DType::I32, &[planes, pixels])?;
        let push = self.push_of(&MatMul::new(planes, 1, terms), [1, 1], [0, 0]);
        let constants = self.divisors();
        let kernel = Kernel::new("integer_counted_pixels", &count_shader::SHADER)
            .constants(&constants)
            .reads([images])
            .writes([&counts]);
        let groups = (planes * pixels).div_ceil(GROUP_THREADS);
        kernel.launch(
            device,
            PushConstants::of(&push),
            groups,
            move |[images], [counts]| {
                cpu::counted_pixels(&patches, images, cast_slice_mut(counts), terms);
            },
        )?;
        Ok(counts)
    }

    /// A part of an operand as integers.
    fn term_rows(
        &self,
        device: &Device,
        images: &Buffer,
        width: Width,
        counts: Option<&Buffer>,
        part: Part,
    ) -> Result<Prepared, KernelError> {
        let (patches, of) = (self.patches, part.of(width));
        let prepared = Prepared::empty(device, of)?;
        let shape = MatMul::new(part.rows[1], part.pieces[1], part.samples);
        let firsts = [part.rows[0], part.z[0]];
        let mut push = self.push_of(&shape, [part.cut.runs, part.cut.samples], firsts);
        [push.z_count, push.piece_first] = [part.z[1] as u32, part.pieces[0] as u32];
        let own = [width == Width::Wide, counts.is_some()].map(u32::from);
        let constants = [&self.divisors()[..], &[(6, own[0]), (7, own[1])]].concat();
        let kernel = Kernel::new("prepare_integer_terms", &terms_shader::SHADER)
            .constants(&constants)
            .reads([images])
            .reads_if(counts)
            .writes(prepared.written());
        let counted = counts.is_some();
        let groups = of.exponents_len().div_ceil(ROWS);
        kernel.launch(
            device,
            PushConstants::of(&push),
            groups,
            move |[images, counts], [digits, exponents]| {
                let counts: Option<&[i32]> = counted.then(|| cast_slice(counts));
                let to = (cast_slice_mut(digits), cast_slice_mut(exponents));
                cpu::term_rows(&patches, (images, counts), &part, of, to);
            },
        )?;
        Ok(prepared)
    }
}
