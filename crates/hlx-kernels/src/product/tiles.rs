//! The tiles of C that the shaders of chains have, which one a product takes, and launches of a grid of them.

use hlx_core::{Binding, Buffer, CpuBindings, Device, Shader};

use super::shape::MatMul;
use crate::Result;
use crate::kernel::{Kernel, PushConstants};
use crate::map::MAX_GROUPS;
use crate::tuning::{KernelTuning, ProductTile};

/// Where a shader's terms come from, and what follows its chains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// Two matrices in memory.
    Dense,
    /// The same, and an epilogue that reads a second operand.
    Epilogue,
    /// The same, and an activation whose result is stored beside C.
    Activation,
    /// A weight, and the patches of images.
    Patches,
    /// The gradient of a result, and patches whose pixels are the terms.
    PatchColumns,
    /// The rows of experts, and each one's weight.
    ExpertRows,
    /// The rows of an expert, which are the terms.
    ExpertColumns,
}

/// A shader's tile of C.
#[derive(Debug)]
pub(crate) struct Tile {
    pub form: Form,
    /// Rows and columns of C of a workgroup.
    pub size: [usize; 2],
    /// Terms of a step of the shader.
    pub k_step: usize,
    pub shader: &'static Shader,
}

macro_rules! tiles {
    ($($form:ident [$rows:literal, $columns:literal] $k_step:literal $name:ident $family:ident::$module:ident)+) => {
        $(shader!($name, $family::$module);)+

        /// The tiles that there are, of each form from the largest. Which one a device takes is a matter of its tuning
        /// ([`ProductTuning`](crate::ProductTuning)).
        pub(crate) static TILES: &[Tile] = &[$(Tile {
            form: Form::$form,
            size: [$rows, $columns],
            k_step: $k_step,
            shader: &$name::SHADER,
        }),+];
    };
}

tiles! {
    Dense [128, 128] 8 dense_128x128 matmul::tile_128x128
    Dense [64, 128] 8 dense_64x128 matmul::tile_64x128
    Dense [64, 64] 16 dense_64x64 matmul::tile_64x64
    Dense [64, 64] 8 dense_64x64_short matmul::tile_64x64_short
    Dense [32, 64] 16 dense_32x64 matmul::tile_32x64
    Dense [32, 64] 8 dense_32x64_short matmul::tile_32x64_short
    Epilogue [128, 128] 8 epilogue_128x128 matmul::tile_128x128_epilogue
    Epilogue [64, 128] 8 epilogue_64x128 matmul::tile_64x128_epilogue
    Epilogue [64, 64] 16 epilogue_64x64 matmul::tile_64x64_epilogue
    Epilogue [32, 64] 16 epilogue_32x64 matmul::tile_32x64_epilogue
    Activation [128, 128] 8 activation_128x128 matmul::tile_128x128_activation
    Activation [64, 128] 8 activation_64x128 matmul::tile_64x128_activation
    Activation [64, 64] 16 activation_64x64 matmul::tile_64x64_activation
    Activation [32, 64] 16 activation_32x64 matmul::tile_32x64_activation
    // Loads of patches take turns with the arithmetic of other workgroups, so that shorter steps, which leave room in shared
    // memory for twice as many of these, are faster.
    Patches [128, 128] 8 patches_128x128 conv2d::images_128x128
    Patches [64, 128] 8 patches_64x128 conv2d::images_64x128
    Patches [64, 64] 8 patches_64x64 conv2d::images_64x64
    Patches [32, 64] 16 patches_32x64 conv2d::images_32x64
    // Larger tiles of a weight's gradient leave a processor one workgroup, which waits for its loads.
    PatchColumns [64, 64] 8 patch_columns_64x64 conv2d::weight_64x64
    PatchColumns [32, 64] 16 patch_columns_32x64 conv2d::weight_32x64
    ExpertRows [64, 64] 16 expert_rows_64x64 experts::product_64x64
    ExpertRows [32, 64] 16 expert_rows_32x64 experts::product_32x64
    ExpertColumns [64, 64] 16 expert_columns_64x64 experts::weight_gradient
}

impl Tile {
    /// Picks the tile of a form whose fullest processor ends first, by the device's tuning; where there is none of the form,
    /// the next smaller one. No choice changes a bit.
    pub fn choose(device: &Device, shape: &MatMul, form: Form) -> &'static Self {
        let processors = device.tuning().processors;
        let rated = KernelTuning::of(device).products.tiles.iter();
        let extents = [shape.batch, shape.m, shape.n];
        let tiles = rated.filter_map(|rated| {
            let tile = Self::largest(Form::Dense, [rated.rows, rated.columns]);
            let is_rated = tile.size == [rated.rows, rated.columns];
            let time = time_of_fullest(extents, rated, processors);
            let found = (tile.size, rated.short_steps);
            (is_rated && tile.fits(device, shape)).then_some((found, time))
        });
        let best = tiles.min_by(|(_, x), (_, y)| x.total_cmp(y));
        let (size, short) = best.map_or(([0, 0], false), |(found, _)| found);
        // For an A that is stored transposed shorter steps are faster with any number of workgroups.
        Self::largest(form, size).with_steps(short || shape.trans_a)
    }

    /// The largest tile of a form that is no larger than a size; the smallest one if all are.
    pub fn largest(form: Form, [rows, columns]: [usize; 2]) -> &'static Self {
        let long = |tile: &&Tile| tile.form == form && !tile.has_longer_steps();
        let mut tiles = TILES.iter().filter(long);
        let mut last = &TILES[0];
        tiles
            .find(|tile| {
                last = tile;
                tile.size[0] <= rows && tile.size[1] <= columns
            })
            .unwrap_or(last)
    }

    /// The tile of this form and size with the shorter steps, if that is wanted and there is one.
    pub fn with_steps(&'static self, short: bool) -> &'static Self {
        let shorter = self.twins().find(|tile| tile.k_step < self.k_step);
        shorter.filter(|_| short).unwrap_or(self)
    }

    fn has_longer_steps(&self) -> bool {
        self.twins().any(|tile| tile.k_step > self.k_step)
    }

    /// The tiles of this form and size.
    fn twins(&self) -> impl Iterator<Item = &'static Self> {
        let (form, size) = (self.form, self.size);
        let mut all = TILES.iter();
        std::iter::from_fn(move || all.find(|tile| (tile.form, tile.size) == (form, size)))
    }

    /// Whether the device's limits allow the tile, and the grid's its launch.
    fn fits(&self, device: &Device, shape: &MatMul) -> bool {
        let [rows, columns] = self.size;
        let groups = shape.m.div_ceil(rows).max(shape.n.div_ceil(columns));
        let shared = 2 * self.k_step * (rows + columns + 8) * 4;
        groups <= MAX_GROUPS
            && (device.is_cpu() || shared <= device.info().shared_memory_bytes as usize)
    }
}

/// How long the fullest processor works on the tiles of so many matrices, rows and columns of C, in an arbitrary unit.
pub(crate) fn time_of_fullest(
    [batch, m, n]: [usize; 3],
    tile: &ProductTile,
    processors: usize,
) -> f64 {
    let groups = batch * m.div_ceil(tile.rows) * n.div_ceil(tile.columns);
    let most = groups.div_ceil(processors);
    let held = tile.gflops.len();
    let time = |together: usize| match together {
        0 => 0.0,
        n => n as f64 / tile.gflops[n - 1],
    };
    let tiles = (most / held) as f64 * time(held) + time(most % held);
    tiles * (tile.rows * tile.columns) as f64
}

/// Where chains start: the shaders' constant START.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Start {
    Zero = 0,
    /// At a bias per column.
    Bias = 1,
    /// At what C holds.
    Stored = 2,
}

impl Start {
    /// That of a product that continues from C, or from a bias where there is one.
    pub fn of(accumulate: bool, bias: Option<&Buffer>) -> Self {
        match (accumulate, bias) {
            (true, _) => Self::Stored,
            (false, Some(_)) => Self::Bias,
            (false, None) => Self::Zero,
        }
    }

    /// C as a launch binds it.
    pub fn target(self, c: &Buffer) -> Binding<'_> {
        match self {
            Self::Stored => Binding::ReadWrite(c),
            Self::Zero | Self::Bias => Binding::Write(c),
        }
    }
}

/// The launches of a tile's kernel over matrices of C.
pub(super) struct Grid<'a> {
    pub kernel: Kernel<'a>,
    /// Rows and columns of C of a workgroup.
    pub tile: [usize; 2],
    /// Matrices of C, which are the z of the grid, and their rows and columns.
    pub extents: [usize; 3],
    /// Whether the push constants have a first column, so that columns may be spread over several launches.
    pub cuts_columns: bool,
    pub flops: u64,
}

impl Grid<'_> {
    /// Launches in as many parts as a launch can have workgroups, whose push constants `push` makes from the first column
    /// and the first matrix; the CPU needs one.
    pub fn launch<const R: usize, const W: usize>(
        &self,
        device: &Device,
        push: impl Fn([usize; 2]) -> PushConstants,
        cpu: impl Fn([&[f32]; R], [&mut [f32]; W]) + Copy + Send + Sync + 'static,
    ) -> Result<()> {
        self.launch_bound(device, push, move |bindings| {
            let (read, written) = bindings.split::<R, W>();
            cpu(read, written);
        })
    }

    /// As [`Grid::launch`], with a body that takes the bindings apart itself.
    pub fn launch_bound(
        &self,
        device: &Device,
        push: impl Fn([usize; 2]) -> PushConstants,
        cpu: impl Fn(&mut CpuBindings<'_>) + Copy + Send + Sync + 'static,
    ) -> Result<()> {
        let [batch, m, n] = self.extents;
        let [rows, columns] = self.tile;
        let cut = |all: usize, most: usize, cuts: bool| match cuts && !device.is_cpu() {
            true => most,
            false => all.max(1),
        };
        let n_at_once = cut(n, MAX_GROUPS * columns, self.cuts_columns);
        let z_at_once = cut(batch, MAX_GROUPS, true);
        let all = (batch * n).max(1) as u128;
        for z_first in (0..batch).step_by(z_at_once) {
            for column_first in (0..n).step_by(n_at_once) {
                let n = n_at_once.min(n - column_first);
                let z = z_at_once.min(batch - z_first);
                let groups = [n.div_ceil(columns), m.div_ceil(rows), z];
                let groups = groups.map(|groups| groups as u32);
                let flops = u128::from(self.flops) * (z * n) as u128 / all;
                let kernel = self.kernel.flops(flops as u64);
                kernel.launch_bound(device, push([column_first, z_first]), groups, cpu)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use hlx_core::{DeviceInfo, DeviceKind, IntegerPath, Tuning};

    use super::*;

    /// The tile that a GPU of 132 processors takes.
    fn chosen(shape: &MatMul) -> [usize; 2] {
        let cpu = hlx_core::testing::cpu().expect("cpu");
        let gpu = DeviceInfo {
            kind: DeviceKind::VulkanGpu,
            processors: 132,
            ..cpu.info().clone()
        };
        let tuned = cpu.with_tuning(Tuning::of(&gpu, true)).expect("tuning");
        let kernels = KernelTuning::new(&gpu, true, IntegerPath::Plain);
        let tuned = kernels.on(&tuned).expect("tuning");
        let tile = Tile::choose(&tuned, shape, Form::Epilogue);
        tile.size
    }

    #[test]
    fn small_products_take_small_tiles() {
        let square = |n| MatMul::new(n, n, n);
        assert_eq!(chosen(&square(256)), [32, 64]);
        assert_eq!(chosen(&square(2048)), [128, 128]);
        assert_eq!(chosen(&square(4096)), [64, 128]);
        assert_eq!(chosen(&MatMul::new(1024, 1024, 256)), [64, 64]);
        let gradients = MatMul {
            batch: 8,
            ..MatMul::new(768, 3072, 2048)
        };
        assert_eq!(chosen(&gradients), [64, 128]);
    }
}
