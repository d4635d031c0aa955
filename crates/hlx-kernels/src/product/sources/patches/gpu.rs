//! The launches of a convolution's products, forward and backward: tiles, push constants, cuts.

use hlx_core::{
    Arithmetic, Binding, Buffer, CpuBindings, Device, Launch, Shader, Work, push_bytes,
};

use super::cpu;
use super::integers::Wide;
use super::{Patches, Runs};
use crate::KernelError;
use crate::map::MAX_GROUPS;
use crate::product::floats::MatMul;
use crate::product::floats::table::Tile;
use crate::reduce::column_sum;

shader!(images_128x128, conv2d::images_128x128);
shader!(images_64x128, conv2d::images_64x128);
shader!(images_64x64, conv2d::images_64x64);
shader!(images_32x64, conv2d::images_32x64);
shader!(weight_128x128, conv2d::weight_128x128);
shader!(weight_64x128, conv2d::weight_64x128);
shader!(weight_64x64, conv2d::weight_64x64);
shader!(weight_32x64, conv2d::weight_32x64);

use images_32x64::Push;

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
struct Grid {
    shape: MatMul,
    shader: &'static Shader,
    tile: &'static Tile,
    /// Vectors are loaded of the first operand, stored of the result.
    vectors: [bool; 2],
    start: u32,
    /// An even number of steps.
    even: bool,
    /// Constants 6 and on, which the weight's shaders have of their own.
    own: Vec<bool>,
    /// Runs of a z and those of a sample.
    runs: [usize; 2],
    /// Multiply-adds of a column.
    column_terms: usize,
}

/// Where the shaders' chains start: constant 4.
const START_ZERO: u32 = 0;
const START_BIAS: u32 = 1;
const START_STORED: u32 = 2;

impl Product {
    /// Launches `y[s, g, m, p]`, the chain over a group's taps, from zero or the bias.
    pub fn launch(
        &self,
        device: &Device,
        weight: &Buffer,
        images: &Buffer,
        bias: Option<&Buffer>,
        y: &Buffer,
    ) -> Result<(), KernelError> {
        if y.is_empty() {
            return Ok(());
        }
        if device.arithmetic() == Arithmetic::Integer {
            return self.launch_integers(device, weight, images, bias, y);
        }
        let Self {
            patches,
            rows,
            terms,
            ..
        } = *self;
        let pixels = patches.n_pixels();
        let shape = MatMul {
            batch: patches.groups,
            ..MatMul::new(rows, self.batch * pixels, terms)
        };
        let tile = tile_of(device, &shape);
        let grid = Grid {
            shape,
            shader: images_shader(tile),
            tile,
            vectors: [terms, pixels].map(|n| n.is_multiple_of(4)),
            start: bias.map_or(START_ZERO, |_| START_BIAS),
            even: terms.is_multiple_of(2 * terms_a_step(tile)),
            own: Vec::new(),
            runs: [1, 1],
            column_terms: rows * terms,
        };
        // Without a bias any readable buffer is bound and not read.
        let bindings = [
            Binding::Read(weight),
            Binding::Read(images),
            Binding::Read(bias.unwrap_or(weight)),
            Binding::Write(y),
        ];
        let has_bias = bias.is_some();
        self.launch_grid(device, &grid, &bindings, move |bindings| {
            let ([weight, images, bias], [y]) = bindings.split::<3, 1>();
            let bias = has_bias.then_some(bias);
            cpu::product(patches, [rows, terms], [weight, images], bias, y);
        })
    }

    /// Launches `dweight[s, g, m, k]`, the chains over a shard's pixels, from zero or what is stored; over integers, with
    /// the wide operand.
    pub fn launch_weight(
        &self,
        device: &Device,
        [dy, images]: [&Buffer; 2],
        wide: Wide,
        (dweight, accumulate): (&Buffer, bool),
        shards: usize,
    ) -> Result<(), KernelError> {
        if device.arithmetic() == Arithmetic::Integer {
            let to = (dweight, accumulate);
            return self.launch_weight_integers(device, [dy, images], wide, to, shards);
        }
        if let Some(shape) = self.stored_shape(device, shards) {
            return self.launch_stored(device, shape, [dy, images], (dweight, accumulate), shards);
        }
        let samples = self.batch / shards;
        let runs = Runs::of(self.patches.n_pixels());
        let of_shard = runs.map_or(1, |runs| samples * runs.of_sample);
        let whole = self.weight_shape(shards, samples);
        let one = runs.is_none() || of_shard == 1 && !accumulate;
        if device.is_cpu() || one || fills(device, &whole) {
            let start = if accumulate { START_STORED } else { START_ZERO };
            let grid = self.weight_grid(device, whole, of_shard, start);
            return self.launch_weight_grid(device, &grid, [dy, images], dweight, shards);
        }
        // Too few tiles for the device: each run's sums are stored, then added in order.
        let size = dweight.len() / shards;
        let n_runs = shards * of_shard;
        let of_runs = device.alloc_shape(&[n_runs, size])?;
        let apart = self.weight_shape(n_runs, 1);
        let grid = self.weight_grid(device, apart, 1, START_ZERO);
        self.launch_weight_grid(device, &grid, [dy, images], &of_runs, shards)?;
        column_sum(
            device, &of_runs, dweight, shards, of_shard, size, accumulate,
        )
    }

    /// The product of a weight's gradient in `parts`, each of the terms of so many samples or of a run.
    fn weight_shape(&self, parts: usize, samples: usize) -> MatMul {
        let pixels = self.patches.n_pixels();
        let terms = Runs::of(pixels).map_or(samples * pixels, |runs| runs.length);
        MatMul {
            batch: parts * self.patches.groups,
            ..MatMul::new(self.rows, self.terms, terms)
        }
    }

    /// The grid of a weight's gradient whose z are of `runs` runs each.
    fn weight_grid(&self, device: &Device, shape: MatMul, runs: usize, start: u32) -> Grid {
        let (tile, [_, width]) = (weight_tile(device, &shape), self.patches.pixels);
        let pixels = self.patches.n_pixels();
        let cut = Runs::of(pixels);
        let ragged = cut.is_some_and(|cut| !pixels.is_multiple_of(cut.length));
        let across = cut.is_none();
        // A chain from a stored value is not cut; totals start from it.
        let summed = !across && (runs > 1 || start != START_ZERO);
        Grid {
            shader: weight_shader(tile),
            tile,
            vectors: [pixels, self.terms].map(|n| n.is_multiple_of(4)),
            start,
            even: shape.k.is_multiple_of(2 * terms_a_step(tile)) && !ragged,
            own: vec![summed, across, width.is_multiple_of(4)],
            runs: [runs, cut.map_or(1, |cut| cut.of_sample)],
            column_terms: self.rows * if across { shape.k } else { runs * shape.k },
            shape,
        }
    }

    fn launch_weight_grid(
        &self,
        device: &Device,
        grid: &Grid,
        [dy, images]: [&Buffer; 2],
        dweight: &Buffer,
        shards: usize,
    ) -> Result<(), KernelError> {
        let Self {
            patches,
            rows,
            terms,
            ..
        } = *self;
        let accumulate = grid.start == START_STORED;
        let samples = self.batch / shards;
        let target = match accumulate {
            true => Binding::ReadWrite(dweight),
            false => Binding::Write(dweight),
        };
        let bindings = [Binding::Read(dy), Binding::Read(images), target];
        self.launch_grid(device, grid, &bindings, move |bindings| {
            let ([dy, images], [dweight]) = bindings.split::<2, 1>();
            let sizes = ([rows, terms], [samples, shards]);
            cpu::weight_product(patches, sizes.0, sizes.1, [dy, images], accumulate, dweight);
        })
    }

    /// Launches a grid in as many pieces as a launch can have workgroups; the CPU needs one.
    fn launch_grid(
        &self,
        device: &Device,
        grid: &Grid,
        bindings: &[Binding<'_>],
        body: impl Fn(&mut CpuBindings<'_>) + Copy + Send + Sync + 'static,
    ) -> Result<(), KernelError> {
        let Grid {
            shape,
            shader,
            tile,
            ..
        } = grid;
        let [vector_a, vector_c] = grid.vectors.map(u32::from);
        let mut specialization = self.divisors().to_vec();
        specialization.extend([
            (2, vector_a),
            (3, vector_c),
            (4, grid.start),
            (5, u32::from(grid.even)),
        ]);
        specialization.extend((6..).zip(grid.own.iter().map(|&own| u32::from(own))));
        let (columns, matrices) = match device.is_cpu() {
            true => (shape.n, shape.batch),
            false => (MAX_GROUPS * tile.columns, MAX_GROUPS),
        };
        for z_first in (0..shape.batch).step_by(matrices) {
            for column_first in (0..shape.n).step_by(columns) {
                let push = self.push_of(shape, grid.runs, [column_first, z_first]);
                let n = columns.min(shape.n - column_first);
                let z = matrices.min(shape.batch - z_first);
                let launch = Launch {
                    name: self.name,
                    shader,
                    specialization: &specialization,
                    bindings,
                    push: push_bytes(&push),
                    groups: [n.div_ceil(tile.columns), shape.m.div_ceil(tile.rows), z]
                        .map(|groups| groups as u32),
                };
                let work = Work {
                    flops: 2 * (z * n) as u64 * grid.column_terms as u64,
                    ..launch.work()
                };
                device.launch_counted(launch, work, body)?;
            }
        }
        Ok(())
    }

    /// The push constants of every shader, from a column and a z on.
    pub(super) fn push_of(
        &self,
        shape: &MatMul,
        runs: [usize; 2],
        [column_first, z_first]: [usize; 2],
    ) -> Push {
        let p = &self.patches;
        let [runs, sample_runs] = runs.map(|runs| runs as u32);
        let pixels = Divisor::new(p.n_pixels());
        let width = Divisor::new(p.pixels[1]);
        let taps = Divisor::new(p.n_taps());
        let taps_width = Divisor::new(p.taps[1]);
        Push {
            m: shape.m as u32,
            n: shape.n as u32,
            k: shape.k as u32,
            groups: p.groups as u32,
            column_first: column_first as u32,
            z_first: z_first as u32,
            pixels: pixels.value,
            pixels_magic: pixels.magic,
            pixels_shift: pixels.shift,
            width: width.value,
            width_magic: width.magic,
            width_shift: width.shift,
            taps: taps.value,
            taps_magic: taps.magic,
            taps_shift: taps.shift,
            taps_width: taps_width.value,
            taps_width_magic: taps_width.magic,
            taps_width_shift: taps_width.shift,
            image_height: p.image[0] as u32,
            image_width: p.image[1] as u32,
            image_channels: p.channels as u32,
            scale_y: p.scale[0] as u32,
            scale_x: p.scale[1] as u32,
            first_y: p.first[0] as u32,
            first_x: p.first[1] as u32,
            step_y: p.step[0] as u32,
            step_x: p.step[1] as u32,
            height: p.pixels[0] as u32,
            runs,
            sample_runs,
            z_count: 0,
            piece_first: 0,
        }
    }

    /// The constants DIVIDE_Y and DIVIDE_X.
    pub(super) fn divisors(&self) -> [(u32, u32); 2] {
        let [divide_y, divide_x] = self.patches.divide.map(|divide| divide as u32);
        [(0, divide_y), (1, divide_x)]
    }
}

/// Picks a tile as for a product; more columns than a launch has are cut into several.
fn tile_of(device: &Device, shape: &MatMul) -> &'static Tile {
    let n = shape.n.min(MAX_GROUPS * 64);
    Tile::choose(device, &MatMul { n, ..*shape })
}

/// The tile of a weight's gradient: 64 x 64 wherever a larger one would do. Larger tiles leave a
/// processor one workgroup, which waits for its loads.
fn weight_tile(device: &Device, shape: &MatMul) -> &'static Tile {
    let tile = tile_of(device, shape);
    match tile.rows {
        64.. => Tile::of_size(64, 64).unwrap_or(tile),
        _ => tile,
    }
}

/// Whether a product's tiles keep every processor busy.
fn fills(device: &Device, shape: &MatMul) -> bool {
    /// Workgroups a processor that hide each other's waiting.
    const TOGETHER: usize = 4;
    let tile = weight_tile(device, shape);
    let tiles = shape.m.div_ceil(tile.rows) * shape.n.div_ceil(tile.columns);
    shape.batch * tiles >= TOGETHER * device.tuning().processors
}

/// Terms of a step. Loads from images take turns with the arithmetic of other workgroups, so half of a
/// product's 64 x 64 tile, which leaves room in shared memory for twice as many, is faster here.
fn terms_a_step(tile: &Tile) -> usize {
    match (tile.rows, tile.columns) {
        (64, 64) => 8,
        _ => tile.k_step,
    }
}

fn images_shader(tile: &Tile) -> &'static Shader {
    match (tile.rows, tile.columns) {
        (128, 128) => &images_128x128::SHADER,
        (64, 128) => &images_64x128::SHADER,
        (64, 64) => &images_64x64::SHADER,
        _ => &images_32x64::SHADER,
    }
}

fn weight_shader(tile: &Tile) -> &'static Shader {
    match (tile.rows, tile.columns) {
        (128, 128) => &weight_128x128::SHADER,
        (64, 128) => &weight_64x128::SHADER,
        (64, 64) => &weight_64x64::SHADER,
        _ => &weight_32x64::SHADER,
    }
}

/// A divisor of numbers below 2^31, as shaders multiply by it: `DIVIDED` in `images.glsl`.
#[derive(Clone, Copy, Debug)]
struct Divisor {
    value: u32,
    magic: u32,
    shift: u32,
}

impl Divisor {
    fn new(value: usize) -> Self {
        let shift = (value as u64).next_power_of_two().trailing_zeros();
        let over = (1_u64 << shift) - value as u64;
        Self {
            value: value as u32,
            magic: ((over << 32) / value as u64 + 1) as u32,
            shift,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn divisors_give_the_quotients_of_all_sizes() {
        let divided = |n: u32, d: &Divisor| {
            let high = (u64::from(n) * u64::from(d.magic)) >> 32;
            (high as u32 + n) >> d.shift
        };
        let last = i32::MAX as u32;
        let divisors = (1..600).chain([1023, 1024, 1025, 3136, 50_176, 65_537, 1 << 30, last]);
        for value in divisors {
            let d = Divisor::new(value as usize);
            let multiples = (0..40).map(|i| last / value / 39 * i * value);
            let near = multiples.flat_map(|n| [n.saturating_sub(1), n, n + 1]);
            for n in near.chain([last - 1, last]) {
                let n = n.min(last);
                assert_eq!(divided(n, &d), n / value, "{n} / {value}");
            }
        }
    }
}
