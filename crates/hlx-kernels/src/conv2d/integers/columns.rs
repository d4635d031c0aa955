//! Gradients of weights over integers: an output channel's gradient at all pixels of a shard is a wide row, a tap's elements
//! of the patches a narrow one.

use bytemuck::{cast_slice, cast_slice_mut};
use hlx_core::{Binding, Buffer, Context, DType, Launch, groups_1d, push_bytes};

use super::super::gpu::Product;
use super::super::patches::Patches;
use super::{at_once, cpu, most_bytes};
use crate::KernelError;
use crate::elementwise::add_assign;
use crate::integer::{IntegerProduct, Preparation, Prepared, Width, integer_product};
use crate::map::GROUP_THREADS;
use crate::matmul::{Epilogue, MatMul};

shader!(terms_shader, "conv2d/prepare_terms");
shader!(count_shader, "conv2d/count_pixels");

/// Pieces of rows of a workgroup.
const ROWS: usize = 8;

/// How the terms of a shard, the pixels of its samples in order, are cut into pieces with exponents of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct Cut {
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
    /// Computes `dweight[s, g, m, k]`, the products of the gradients of a shard with its patches; with `accumulate` they are
    /// added to what is stored.
    pub(in super::super) fn launch_weight_integers(
        &self,
        ctx: &Context,
        dy: &Buffer,
        images: &Buffer,
        (dweight, accumulate): (&Buffer, bool),
        shards: usize,
    ) -> Result<(), KernelError> {
        let (samples, groups) = (self.batch / shards, self.patches.groups);
        let cut = Cut::of(samples, self.patches.n_pixels());
        if accumulate && cut.pieces > 1 {
            let sums = ctx.alloc(dweight.len())?;
            self.launch_weight_integers(ctx, dy, images, (&sums, false), shards)?;
            return add_assign(ctx, dweight, &sums);
        }
        let counts = self.counted_pixels(ctx, dy)?;
        let (most, of_piece) = (most_bytes(ctx), groups * cut.padded());
        let shard_bytes = (2 * self.rows + self.terms) * of_piece * cut.pieces;
        let shards_at_once = at_once(shards, shard_bytes, most, 1);
        let pieces_at_once = if shard_bytes <= most { cut.pieces } else { 1 };
        let tap_bytes = shards_at_once * pieces_at_once * of_piece;
        let taps_at_once = at_once(self.terms, tap_bytes, most, 4);
        let of_shard = groups * self.rows * self.terms;
        for shard in (0..shards).step_by(shards_at_once) {
            let n_shards = shards_at_once.min(shards - shard);
            for piece in (0..cut.pieces).step_by(pieces_at_once) {
                let mut part = Part {
                    z: [shard * groups, n_shards * groups],
                    rows: [0, self.rows],
                    pieces: [piece, pieces_at_once],
                    cut,
                    samples,
                };
                let dy = self
                    .of_gradient()
                    .term_rows(ctx, dy, Width::Wide, None, part)?;
                for tap in (0..self.terms).step_by(taps_at_once) {
                    part.rows = [tap, taps_at_once.min(self.terms - tap)];
                    let x = self.term_rows(ctx, images, Width::Narrow, Some(&counts), part)?;
                    let is_whole = n_shards == shards && part.rows[1] == self.terms;
                    let place = [shard * of_shard + tap, self.terms];
                    let terms = part.of(Width::Narrow).terms();
                    let product = IntegerProduct {
                        batch: part.z[1],
                        accumulate: accumulate || piece > 0,
                        within: (!is_whole).then_some(place),
                        ..IntegerProduct::new(self.rows, part.rows[1], terms)
                    };
                    integer_product(ctx, [&dy, &x], None, dweight, &product, Epilogue::None)?;
                }
            }
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
            ..*self
        }
    }

    /// Which pixels of a sample and group have a gradient: i32, \[samples, groups, pixels\].
    fn counted_pixels(&self, ctx: &Context, dy: &Buffer) -> Result<Buffer, KernelError> {
        let (pixels, channels) = (self.patches.n_pixels(), self.rows);
        let planes = self.batch * self.patches.groups;
        let counts = ctx.alloc_typed(DType::I32, planes * pixels)?;
        let push = count_shader::Push {
            planes: planes as u32,
            channels: channels as u32,
            pixels: pixels as u32,
        };
        let launch = Launch {
            name: "integer_counted_pixels",
            shader: &count_shader::SHADER,
            specialization: &[],
            bindings: &[Binding::Read(dy), Binding::Write(&counts)],
            push: push_bytes(&push),
            groups: groups_1d((planes * pixels).div_ceil(GROUP_THREADS)),
        };
        ctx.launch(launch, move |bindings| {
            let ([dy], [counts]) = bindings.split::<1, 1>();
            cpu::counted_pixels(dy, cast_slice_mut(counts), [channels, pixels]);
        })?;
        Ok(counts)
    }

    /// A part of an operand as integers.
    fn term_rows(
        &self,
        ctx: &Context,
        images: &Buffer,
        width: Width,
        counts: Option<&Buffer>,
        part: Part,
    ) -> Result<Prepared, KernelError> {
        let (patches, of) = (self.patches, part.of(width));
        let prepared = Prepared {
            digits: ctx.alloc_typed(DType::I8, of.digits_len())?,
            exponents: ctx.alloc_typed(DType::I32, of.exponents_len())?,
            of,
        };
        let shape = MatMul::new(part.rows[1], part.pieces[1], part.samples);
        let firsts = [part.rows[0], part.z[0]];
        let mut push = self.push_of(&shape, [part.cut.runs, part.cut.samples], firsts);
        [push.z_count, push.piece_first] = [part.z[1] as u32, part.pieces[0] as u32];
        let own = [width == Width::Wide, counts.is_some()].map(u32::from);
        let specialization = [&self.divisors()[..], &[(6, own[0]), (7, own[1])]].concat();
        let launch = Launch {
            name: "prepare_integer_terms",
            shader: &terms_shader::SHADER,
            specialization: &specialization,
            bindings: &[
                Binding::Read(images),
                // Without them any readable buffer is bound and not read.
                Binding::Read(counts.unwrap_or(images)),
                Binding::Write(&prepared.digits),
                Binding::Write(&prepared.exponents),
            ],
            push: push_bytes(&push),
            groups: groups_1d(of.exponents_len().div_ceil(ROWS)),
        };
        let counted = counts.is_some();
        ctx.launch(launch, move |bindings| {
            let ([images, counts], [digits, exponents]) = bindings.split::<2, 2>();
            let counts: Option<&[i32]> = counted.then(|| cast_slice(counts));
            let to = (cast_slice_mut(digits), cast_slice_mut(exponents));
            cpu::term_rows(&patches, (images, counts), &part, of, to);
        })?;
        Ok(prepared)
    }
}
