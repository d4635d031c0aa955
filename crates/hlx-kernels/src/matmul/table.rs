//! The shaders' tiles of C, and which one a shape takes.

use hlx_core::{Context, Shader};

use super::{MAX_GROUPS, MatMul};

shader!(tile_128x128, "../../shaders/spv/matmul/tile_128x128.spv");
shader!(tile_64x128, "../../shaders/spv/matmul/tile_64x128.spv");
shader!(tile_64x64, "../../shaders/spv/matmul/tile_64x64.spv");
shader!(tile_32x64, "../../shaders/spv/matmul/tile_32x64.spv");

pub(crate) use tile_32x64::Push;

/// A shader's tile of C.
#[derive(Debug)]
pub(crate) struct Tile {
    /// Rows and columns of C a workgroup.
    pub rows: usize,
    pub columns: usize,
    /// Terms of k that a step of the shader takes.
    pub k_step: usize,
    /// What a processor reaches with one, two, ... workgroups at a time, up to as many as it
    /// holds, in GFLOP/s: an H200's, from products of 512 to 4096 (docs/benchmarks.md).
    rates: &'static [f64],
    shader: fn() -> &'static Shader,
}

/// The tiles, from the largest: a large one reads less memory and less shared memory a product,
/// a small one spreads over more processors.
pub(crate) static TILES: [Tile; 4] = [
    Tile {
        rows: 128,
        columns: 128,
        k_step: 8,
        rates: &[314.0, 350.0],
        shader: || &tile_128x128::SHADER,
    },
    Tile {
        rows: 64,
        columns: 128,
        k_step: 8,
        rates: &[270.0, 335.0, 372.0],
        shader: || &tile_64x128::SHADER,
    },
    Tile {
        rows: 64,
        columns: 64,
        k_step: 16,
        rates: &[198.0, 275.0, 287.0, 297.0],
        shader: || &tile_64x64::SHADER,
    },
    Tile {
        rows: 32,
        columns: 64,
        k_step: 16,
        rates: &[130.0, 165.0, 190.0, 210.0, 220.0],
        shader: || &tile_32x64::SHADER,
    },
];

/// Processors of the device that the table was measured on.
const PROCESSORS: usize = 132;

impl Tile {
    /// Picks the tile whose fullest processor ends first, by the table. The shape and the
    /// device's limits alone decide, and no choice changes a bit. A device that emulates the
    /// arithmetic takes the smallest shader: it is compute-bound with any.
    pub fn choose(ctx: &Context, shape: &MatMul) -> &'static Self {
        let smallest = &TILES[TILES.len() - 1];
        if !ctx.native_arithmetic() {
            return smallest;
        }
        TILES
            .iter()
            .filter(|tile| tile.fits(ctx, shape))
            .min_by(|x, y| x.cost(shape).total_cmp(&y.cost(shape)))
            .unwrap_or(smallest)
    }

    /// Whether the device's limits allow the tile, and the grid's its launch.
    fn fits(&self, ctx: &Context, shape: &MatMul) -> bool {
        let groups = shape
            .m
            .div_ceil(self.rows)
            .max(shape.n.div_ceil(self.columns));
        let shared = 2 * self.k_step * (self.rows + self.columns + 8) * 4;
        groups <= MAX_GROUPS && (ctx.is_cpu() || shared <= ctx.info().shared_memory_bytes as usize)
    }

    /// Time of the fullest processor, in an arbitrary unit.
    fn cost(&self, shape: &MatMul) -> f64 {
        let groups = shape.batch * shape.m.div_ceil(self.rows) * shape.n.div_ceil(self.columns);
        let most = groups.div_ceil(PROCESSORS);
        let held = self.rates.len();
        let time = |together: usize| match together {
            0 => 0.0,
            n => n as f64 / self.rates[n - 1],
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
    use super::*;

    /// The tile that a device with native arithmetic and ample limits takes.
    fn chosen(shape: &MatMul) -> [usize; 2] {
        let best = TILES
            .iter()
            .min_by(|x, y| x.cost(shape).total_cmp(&y.cost(shape)))
            .expect("a tile");
        [best.rows, best.columns]
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
