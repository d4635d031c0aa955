//! The shaders' tiles of C, and which one a shape takes.

use hlx_core::{Device, Shader};

use super::{MAX_GROUPS, MatMul};
use crate::tuning::KernelTuning;

shader!(tile_128x128, matmul::tile_128x128);
shader!(tile_64x128, matmul::tile_64x128);
shader!(tile_64x64, matmul::tile_64x64);
shader!(tile_64x64_short, matmul::tile_64x64_short);
shader!(tile_32x64, matmul::tile_32x64);

pub(crate) use tile_32x64::Push;

/// A shader's tile of C.
#[derive(Debug)]
pub(crate) struct Tile {
    /// Rows and columns of C a workgroup.
    pub rows: usize,
    pub columns: usize,
    /// Terms of k that a step of the shader takes.
    pub k_step: usize,
    shader: fn() -> &'static Shader,
}

/// The tiles that there are shaders for, from the largest. Which one a device takes is a matter of
/// its tuning ([`ProductTuning`](crate::ProductTuning)).
pub(crate) static TILES: [Tile; 5] = [
    Tile {
        rows: 128,
        columns: 128,
        k_step: 8,
        shader: || &tile_128x128::SHADER,
    },
    Tile {
        rows: 64,
        columns: 128,
        k_step: 8,
        shader: || &tile_64x128::SHADER,
    },
    Tile {
        rows: 64,
        columns: 64,
        k_step: 16,
        shader: || &tile_64x64::SHADER,
    },
    SHORT,
    Tile {
        rows: 32,
        columns: 64,
        k_step: 16,
        shader: || &tile_32x64::SHADER,
    },
];

/// The tile of 64 x 64 by half as many terms a step, of products whose rows of A are its columns in memory.
const SHORT: Tile = Tile {
    rows: 64,
    columns: 64,
    k_step: 8,
    shader: || &tile_64x64_short::SHADER,
};

impl Tile {
    /// Picks the tile whose fullest processor ends first, by the device's tuning. No choice changes
    /// a bit.
    pub fn choose(device: &Device, shape: &MatMul) -> &'static Self {
        let processors = device.tuning().processors;
        let rated = KernelTuning::of(device).products.tiles.iter();
        let shaders = rated.filter_map(|rated| {
            let tile = Self::of_size(rated.rows, rated.columns)?;
            Some((tile, tile.cost(shape, &rated.gflops, processors)))
        });
        shaders
            .filter(|(tile, _)| tile.fits(device, shape))
            .min_by(|(_, x), (_, y)| x.total_cmp(y))
            .map_or(&TILES[TILES.len() - 1], |(tile, _)| tile)
    }

    /// The variant of the tile that a product without an epilogue takes: there are shaders with one for the tile itself alone.
    pub fn for_plain(&'static self, shape: &MatMul) -> &'static Self {
        match [self.rows, self.columns] == [SHORT.rows, SHORT.columns] && shape.trans_a {
            true => &TILES[3],
            false => self,
        }
    }

    /// Whether it is a variant without epilogues.
    pub fn is_plain(&self) -> bool {
        (self.rows, self.columns, self.k_step) == (SHORT.rows, SHORT.columns, SHORT.k_step)
    }

    /// Whether the device's limits allow the tile, and the grid's its launch.
    fn fits(&self, device: &Device, shape: &MatMul) -> bool {
        let groups = shape
            .m
            .div_ceil(self.rows)
            .max(shape.n.div_ceil(self.columns));
        let shared = 2 * self.k_step * (self.rows + self.columns + 8) * 4;
        groups <= MAX_GROUPS
            && (device.is_cpu() || shared <= device.info().shared_memory_bytes as usize)
    }

    /// Time of the fullest processor, in an arbitrary unit: `gflops` is what one reaches with one,
    /// two, ... workgroups at a time, up to as many as it holds.
    fn cost(&self, shape: &MatMul, gflops: &[f64], processors: usize) -> f64 {
        let groups = shape.batch * shape.m.div_ceil(self.rows) * shape.n.div_ceil(self.columns);
        let most = groups.div_ceil(processors);
        let held = gflops.len();
        let time = |together: usize| match together {
            0 => 0.0,
            n => n as f64 / gflops[n - 1],
        };
        let rounds = (most / held) as f64 * time(held) + time(most % held);
        rounds * (self.rows * self.columns) as f64
    }

    /// The tile of this size.
    pub fn of_size(rows: usize, columns: usize) -> Option<&'static Self> {
        TILES
            .iter()
            .find(|tile| (tile.rows, tile.columns) == (rows, columns))
    }

    pub fn shader(&self) -> &'static Shader {
        (self.shader)()
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
        let tile = Tile::choose(&tuned, shape);
        [tile.rows, tile.columns]
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
