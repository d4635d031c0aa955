//! The product of a step: few rows and long chains, one product behind the other.
//!
//! The chains are those of [`matmul`](fn@crate::product::matmul), and so are the bits. Its tiles leave most of a
//! GPU without work here: of 64 x 512 elements there are 16 of its smallest, and one takes as long as
//! 2,048 terms of 16 multiply-adds a thread. The tiles of `recurrent/product.glsl` have two or eight.

use hlx_core::{Buffer, Device, Shader};

use super::matmul;
use crate::error::{Result, check_sizes};
use crate::kernel::Kernel;
use crate::map::MAX_GROUPS;
use crate::product::shape::MatMul;
use crate::product::tiles::{Grid, Start};

shader!(recurrent::{product_16x16, product_16x64});

/// Rows of a workgroup.
const GROUP_ROWS: usize = 16;

/// Columns of a workgroup, the cycles that a processor takes for a term of its elements (by the
/// instructions of a thread, and four at least, which is how long a multiply-add takes), and the shader.
static TILES: [(usize, usize, &Shader); 2] = [
    (16, 4, &product_16x16::SHADER),
    (64, 11, &product_16x64::SHADER),
];

/// The same of the smallest tile of [`matmul`], rows and columns.
const PLAIN: ([usize; 2], usize) = ([32, 64], 20);

/// Computes `y = x w + bias`, or with `accumulate` adds `x w` to what `y` holds, as a chain that goes on
/// from it: x \[M, K\], w \[K, N\], the sizes of `[m, n, k]`. The bits are those of
/// [`matmul`](fn@crate::product::floats::matmul).
///
/// # Errors
/// Those of [`matmul`](fn@crate::product::floats::matmul).
pub fn step_product(
    device: &Device,
    [x, w]: [&Buffer; 2],
    bias: Option<&Buffer>,
    y: &Buffer,
    [m, n, k]: [usize; 3],
    accumulate: bool,
) -> Result<()> {
    for extents in [[m, k], [k, n], [m, n]] {
        check_sizes("step_product", &extents)?;
    }
    let shape = MatMul {
        accumulate,
        ..MatMul::new(m, n, k)
    };
    let most = device.max_binding_words();
    let whole = |buffer: &Buffer, len: usize| buffer.len() == len && (1..=most).contains(&len);
    let plain = whole(x, m * k) && whole(w, k * n) && whole(y, m * n);
    let one_start = bias.is_none_or(|bias| whole(bias, n) && !accumulate);
    let tile = tile_of(device, m, n).filter(|_| plain && one_start);
    let Some((columns, _, shader)) = tile else {
        return matmul(device, x, w, bias, y, &shape);
    };
    let start = Start::of(accumulate, bias);
    let grid = Grid {
        kernel: Kernel::new("step_product", shader)
            .constants(constants!(0: start as u32, k.is_multiple_of(4)))
            .reads([x, w])
            .reads_if(bias)
            .bind(start.target(y)),
        tile: [GROUP_ROWS, columns],
        extents: [1, m, n],
        cuts_columns: false,
        flops: 2 * (m * n) as u64 * k as u64,
    };
    // The CPU device has taken the other way.
    grid.launch_bound(device, |_| push!(product_16x16 => m, n, k), |_| {})
}

/// The tile that ends first; none where a tile of [`matmul`] does.
fn tile_of(device: &Device, m: usize, n: usize) -> Option<(usize, usize, &'static Shader)> {
    let processors = device.tuning().processors;
    let rounds =
        |[rows, columns]: [usize; 2]| (m.div_ceil(rows) * n.div_ceil(columns)).div_ceil(processors);
    let time = |columns: usize, cycles: usize| rounds([GROUP_ROWS, columns]) * cycles;
    let best = TILES.into_iter().min_by_key(|tile| time(tile.0, tile.1))?;
    let (plain, cycles) = PLAIN;
    let groups = n.div_ceil(16).max(m.div_ceil(GROUP_ROWS));
    let wins = time(best.0, best.1) < rounds(plain) * cycles;
    (!device.is_cpu() && wins && groups <= MAX_GROUPS).then_some(best)
}

#[cfg(test)]
mod tests {
    use hlx_core::Tuning;

    use super::*;
    use crate::testing::{normal, run_everywhere, values};

    /// Of 17 x 67 elements devices of this many processors take the tile of this width; none takes that
    /// of `matmul`.
    const PROCESSORS: [(usize, Option<usize>); 3] = [(1, None), (4, Some(64)), (4096, Some(16))];

    fn with_processors(device: &Device, processors: usize) -> Device {
        let tuning = Tuning {
            processors,
            ..device.tuning().clone()
        };
        device.with_tuning(tuning).expect("a tuning")
    }

    #[test]
    fn every_tile_has_the_bits_of_matmul() {
        let sizes = [
            [1, 1, 1],
            [2, 3, 5],
            [16, 16, 128],
            [17, 67, 127],
            [31, 65, 129],
            [33, 64, 300],
        ];
        for [m, n, k] in hlx_core::testing::cases(sizes, 3) {
            let (x, w, start) = (values(1, m * k), normal(2, k * n), normal(3, m * n));
            for (biased, accumulate) in [(false, false), (true, false), (false, true)] {
                for (processors, _) in PROCESSORS {
                    // The CPU device's bits are those of `matmul`.
                    run_everywhere("step_product", |device, mem| {
                        let device = &with_processors(device, processors);
                        let (x, w) = (mem.input(device, &x)?, mem.input(device, &w)?);
                        let bias = mem.input(device, &start[..n])?;
                        let y = match accumulate {
                            true => mem.input(device, &start)?,
                            false => mem.output(device, m * n)?,
                        };
                        let bias = biased.then_some(&bias);
                        step_product(device, [&x, &w], bias, &y, [m, n, k], accumulate)?;
                        Ok(vec![y])
                    });
                }
            }
        }
    }

    #[test]
    fn few_tiles_take_narrow_ones() {
        let Some(device) = hlx_core::testing::vulkan_devices().into_iter().next() else {
            return;
        };
        for (processors, columns) in PROCESSORS {
            let device = with_processors(&device, processors);
            let found = tile_of(&device, 17, 67).map(|tile| tile.0);
            assert_eq!(found, columns, "{processors}");
        }
        let gpu = with_processors(&device, 132);
        let columns_of = |m, n| tile_of(&gpu, m, n).map(|tile| tile.0);
        assert_eq!(columns_of(64, 2048), Some(64));
        assert_eq!(columns_of(64, 512), Some(16));
        assert_eq!(columns_of(2048, 2048), None);
    }
}
