//! The products of a convolution: weights with patches forward and backward, and gradients with patches for the weights.

use hlx_core::{Buffer, Device};

use super::{Patches, Runs, cpu, cpu_weight};
use crate::Result;
use crate::division::Divisor;
use crate::kernel::{Kernel, PushConstants};
use crate::map::MAX_GROUPS;
use crate::product::formats::Format;
use crate::product::role::Role;
use crate::product::shape::MatMul;
use crate::product::tiles::{Form, Grid, Start, Tile, patches_32x64};
use crate::reduce::column_sum;

/// A product of each group's weights with patches, or of gradients with patches for the weights.
#[derive(Clone, Copy)]
pub(crate) struct Product {
    pub name: &'static str,
    pub batch: usize,
    pub patches: Patches,
    /// Channels of a group on the side of the results.
    pub rows: usize,
    /// Taps of all channels that a result sees.
    pub terms: usize,
}

/// What is launched of a product, as the shaders count it.
struct Call {
    shape: MatMul,
    tile: &'static Tile,
    start: Start,
    /// Vectors are loaded of the first operand, stored of the result; an even number of steps; and from constant 6 on, what the
    /// weight's shaders have of their own.
    flags: Vec<bool>,
    /// Runs of a z and those of a sample.
    runs: [usize; 2],
    /// Multiply-adds of a column.
    column_terms: usize,
}

impl Product {
    /// Launches `y[s, g, m, p]`, the chain over a group's taps, from zero or the bias.
    pub fn launch(
        &self,
        device: &Device,
        weight: &Buffer,
        images: &Buffer,
        bias: Option<&Buffer>,
        y: &Buffer,
    ) -> Result<()> {
        if y.is_empty() {
            return Ok(());
        }
        if let Some(half) = Role::Signal.half(device) {
            return self.launch_halves(device, half, [weight, images], bias, y);
        }
        if let Some(format) = Format::of(device) {
            return self.launch_quantised(device, format, weight, images, bias, y);
        }
        let ([rows, terms], patches) = ([self.rows, self.terms], self.patches);
        let pixels = patches.n_pixels();
        let shape = MatMul {
            batch: patches.groups,
            ..MatMul::new(rows, self.batch * pixels, terms)
        };
        let tile = tile_of(device, &shape, Form::Patches);
        let [vector_a, vector_c] = [terms, pixels].map(|n| n.is_multiple_of(4));
        let call = Call {
            shape,
            tile,
            start: Start::of(false, bias),
            flags: vec![vector_a, vector_c, terms.is_multiple_of(2 * tile.k_step)],
            runs: [1, 1],
            column_terms: rows * terms,
        };
        let kernel = Kernel::new(self.name, tile.shader)
            .reads([weight, images])
            .reads_if(bias)
            .writes([y]);
        let has_bias = bias.is_some();
        self.launch_call(device, &call, kernel, move |[weight, images, bias], [y]| {
            let bias = has_bias.then_some(bias);
            cpu::product(patches, [rows, terms], [weight, images], bias, y);
        })
    }

    /// Launches `dweight[s, g, m, k]`, the chains over a shard's pixels, from zero or what is stored; the roles are
    /// those of dy and of the images.
    pub fn launch_weight(
        &self,
        device: &Device,
        [dy, images]: [&Buffer; 2],
        roles: [Role; 2],
        dweight: &Buffer,
        accumulate: bool,
        shards: usize,
    ) -> Result<()> {
        if let Some(half) = Role::Gradient.half(device) {
            let operands = [dy, images];
            return self.launch_weight_halves(device, half, operands, dweight, accumulate, shards);
        }
        if let Some(format) = Format::of(device) {
            return self.launch_weight_quantised(
                device,
                [dy, images],
                format,
                roles,
                dweight,
                accumulate,
                shards,
            );
        }
        if let Some(shape) = self.stored_shape(device, shards) {
            return self.launch_stored(device, shape, [dy, images], dweight, accumulate, shards);
        }
        let samples = self.batch / shards;
        let runs = Runs::of(self.patches.n_pixels());
        let of_shard = runs.map_or(1, |runs| samples * runs.of_sample);
        let whole = self.weight_shape(shards, samples);
        let ([rows, terms], patches) = ([self.rows, self.terms], self.patches);
        let launch = |shape: MatMul, runs: usize, start: Start, to: &Buffer| {
            let call = self.weight_call(device, shape, runs, start);
            let kernel = Kernel::new(self.name, call.tile.shader)
                .reads([dy, images])
                .bind(start.target(to));
            self.launch_call(device, &call, kernel, move |[dy, images], [to]| {
                let (of, accumulate) = ([samples, shards], start == Start::Stored);
                cpu_weight::weight_product(
                    patches,
                    [rows, terms],
                    of,
                    [dy, images],
                    accumulate,
                    to,
                );
            })
        };
        let one = runs.is_none() || of_shard == 1 && !accumulate;
        if device.is_cpu() || one || fills(device, &whole) {
            return launch(whole, of_shard, Start::of(accumulate, None), dweight);
        }
        // Too few tiles for the device: each run's sums are stored, then added in order.
        let (size, n_runs) = (dweight.len() / shards, shards * of_shard);
        let sums = device.alloc_shape(&[n_runs, size])?;
        launch(self.weight_shape(n_runs, 1), 1, Start::Zero, &sums)?;
        column_sum(device, &sums, dweight, shards, of_shard, size, accumulate)
    }

    /// The product of a weight's gradient in `parts`, each of the terms of this many samples or of a run.
    fn weight_shape(&self, parts: usize, samples: usize) -> MatMul {
        let pixels = self.patches.n_pixels();
        let terms = Runs::of(pixels).map_or(samples * pixels, |runs| runs.length);
        MatMul {
            batch: parts * self.patches.groups,
            ..MatMul::new(self.rows, self.terms, terms)
        }
    }

    /// The call of a weight's gradient whose z are of `runs` runs each.
    fn weight_call(&self, device: &Device, shape: MatMul, runs: usize, start: Start) -> Call {
        let tile = tile_of(device, &shape, Form::PatchColumns);
        let (pixels, [_, width]) = (self.patches.n_pixels(), self.patches.pixels);
        let cut = Runs::of(pixels);
        let ragged = cut.is_some_and(|cut| !pixels.is_multiple_of(cut.length));
        let across = cut.is_none();
        // A chain from a stored value is not cut; totals start from it.
        let summed = !across && (runs > 1 || start != Start::Zero);
        let even = shape.k.is_multiple_of(2 * tile.k_step) && !ragged;
        let [vector_a, vector_c, quads] = [pixels, self.terms, width].map(|n| n.is_multiple_of(4));
        Call {
            tile,
            start,
            flags: vec![vector_a, vector_c, even, summed, across, quads],
            runs: [runs, cut.map_or(1, |cut| cut.of_sample)],
            column_terms: self.rows * if across { shape.k } else { runs * shape.k },
            shape,
        }
    }

    fn launch_call<const R: usize>(
        &self,
        device: &Device,
        call: &Call,
        kernel: Kernel<'_>,
        body: impl Fn([&[f32]; R], [&mut [f32]; 1]) + Copy + Send + Sync + 'static,
    ) -> Result<()> {
        let MatMul { batch, m, n, k, .. } = call.shape;
        let flags = call.flags.iter().map(|&flag| u32::from(flag));
        let flags: Vec<_> = [2, 3, 5, 6, 7, 8].into_iter().zip(flags).collect();
        let kernel = kernel
            .constants(self.divisors())
            .constants(constants!(4: call.start as u32));
        let grid = Grid {
            kernel: kernel.constants(flags),
            tile: call.tile.size,
            extents: [batch, m, n],
            cuts_columns: true,
            flops: 2 * (batch * n) as u64 * call.column_terms as u64,
        };
        let push = |firsts| self.push([m, n, k], call.runs, firsts, [0, 0]);
        grid.launch(device, push, body)
    }

    /// The push constants of every shader, from a column and a z on. The last two are a number of z and a first piece.
    pub(super) fn push(
        &self,
        [m, n, k]: [usize; 3],
        [runs, sample_runs]: [usize; 2],
        [column_first, z_first]: [usize; 2],
        [z_count, piece_first]: [usize; 2],
    ) -> PushConstants {
        let p = &self.patches;
        let divisors = [p.n_pixels(), p.pixels[1], p.n_taps(), p.taps[1]];
        let [pixels, width, taps, taps_width] = divisors.map(Divisor::new);
        let [scale_y, scale_x] = p.scale.map(|x| x as u32);
        let [first_y, first_x] = p.first.map(|x| x as u32);
        let [step_y, step_x] = p.step.map(|x| x as u32);
        push!(patches_32x64 =>
            m, n, k, groups: p.groups, column_first, z_first,
            pixels: pixels.value, pixels_magic: pixels.magic, pixels_shift: pixels.shift,
            width: width.value, width_magic: width.magic, width_shift: width.shift,
            taps: taps.value, taps_magic: taps.magic, taps_shift: taps.shift,
            taps_width: taps_width.value, taps_width_magic: taps_width.magic, taps_width_shift: taps_width.shift,
            image_height: p.image[0], image_width: p.image[1], image_channels: p.channels,
            scale_y, scale_x, first_y, first_x, step_y, step_x,
            height: p.pixels[0], runs, sample_runs, z_count, piece_first)
    }

    /// The constants DIVIDE_Y and DIVIDE_X.
    pub(super) fn divisors(&self) -> [(u32, u32); 2] {
        let [divide_y, divide_x] = self.patches.divide.map(|divide| divide as u32);
        constants!(0: divide_y, divide_x)
    }
}

/// Picks a tile as for a product; more columns than a launch has are cut into several.
fn tile_of(device: &Device, shape: &MatMul, form: Form) -> &'static Tile {
    let n = shape.n.min(MAX_GROUPS * 64);
    Tile::choose(device, &MatMul { n, ..*shape }, form)
}

/// Whether the tiles of a weight's gradient keep every processor busy.
fn fills(device: &Device, shape: &MatMul) -> bool {
    /// Workgroups a processor that hide each other's waiting.
    const TOGETHER: usize = 4;
    let [rows, columns] = tile_of(device, shape, Form::PatchColumns).size;
    let tiles = shape.m.div_ceil(rows) * shape.n.div_ceil(columns);
    shape.batch * tiles >= TOGETHER * device.tuning().processors
}
