//! A matrix transposed: `y[c, r] = x[r, c]`, words as they are.

use hlx_core::{Buffer, Device};

use crate::kernel::Kernel;
use crate::{Result, map, parallel};

shader!(shader, transpose::transpose);

/// Rows and columns of the tile that a workgroup transposes.
const TILE: usize = 32;

/// Writes `x` `[rows, columns]` to `y` `[columns, rows]`. PyTorch: `x.t().contiguous()`.
///
/// # Errors
/// [`KernelError::Length`](crate::KernelError::Length) for a buffer of another length than `rows * columns`;
/// [`KernelError::Argument`](crate::KernelError::Argument) for more elements or tiles than a launch can have.
pub fn transpose(
    device: &Device,
    x: &Buffer,
    rows: usize,
    columns: usize,
    y: &Buffer,
) -> Result<()> {
    const NAME: &str = "transpose";
    let kernel = Kernel::new(NAME, &shader::SHADER)
        .read("x", x, [rows, columns])?
        .write("y", y, [rows, columns])?;
    let most = map::MAX_GROUPS * TILE;
    let fits = rows.max(columns) <= most && rows * columns <= u32::MAX as usize;
    check_that!(NAME, fits => "{rows} x {columns}, expected at most {most} rows and columns")?;
    if x.is_empty() {
        return Ok(());
    }
    let groups = [columns, rows].map(|extent| extent.div_ceil(TILE) as u32);
    let (push, groups) = (push!(shader => rows, columns), [groups[0], groups[1], 1]);
    kernel.launch(device, push, groups, move |[x], [y]| {
        parallel::for_each(parallel::write(y, TILE * rows), |strip, y| {
            for row in 0..rows {
                let x = &x[row * columns + strip * TILE..];
                for (y, x) in y[row..].iter_mut().step_by(rows).zip(x) {
                    *y = *x;
                }
            }
        });
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{run_everywhere, values};

    #[test]
    fn rows_become_columns() {
        for [rows, columns] in [[1, 1], [1, 77], [31, 33], [32, 64], [100, 70], [257, 5]] {
            let data = values(1, rows * columns);
            let got = run_everywhere("transpose", |device, mem| {
                let x = mem.input(device, &data)?;
                let (y, again) = (
                    mem.output(device, data.len())?,
                    mem.output(device, data.len())?,
                );
                transpose(device, &x, rows, columns, &y)?;
                transpose(device, &y, columns, rows, &again)?;
                Ok(vec![x, y, again])
            });
            let bits = |x: &[f32]| x.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
            assert_eq!(bits(&got[0]), bits(&got[2]));
            for (at, y) in got[1].iter().enumerate() {
                let from = at % rows * columns + at / rows;
                assert_eq!(y.to_bits(), got[0][from].to_bits(), "{rows} x {columns}");
            }
        }
    }

    /// A driver gave the second pipeline of a module that of the first, which knows no part but the first.
    #[test]
    fn a_launch_cut_into_parts_behind_a_whole_one_writes_every_part() {
        let (rows, columns) = (33, 70);
        let data = values(2, rows * columns);
        let got = run_everywhere("transpose", |device, mem| {
            let mut slow = device.tuning().clone();
            (slow.bytes_per_second, slow.submission_ms) = (1e4, 200.0);
            let x = mem.input(device, &data)?;
            let (whole, parts) = (
                mem.output(device, data.len())?,
                mem.output(device, data.len())?,
            );
            transpose(device, &x, rows, columns, &whole)?;
            transpose(&device.with_tuning(slow)?, &x, rows, columns, &parts)?;
            Ok(vec![whole, parts])
        });
        assert_eq!(got[0], got[1]);
    }

    #[test]
    fn a_wrong_length_is_named() {
        let device = hlx_core::testing::cpu().expect("the CPU device");
        let (x, y) = (
            device.alloc(6).expect("memory"),
            device.alloc(5).expect("memory"),
        );
        let error = transpose(&device, &x, 2, 3, &y).expect_err("a wrong length");
        assert_eq!(error.to_string(), "transpose: y has 5 elements, expected 6");
    }
}
