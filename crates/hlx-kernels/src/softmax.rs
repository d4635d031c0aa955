//! Softmax over the last dimension.
//!
//! Forward: `y[r, c] = exp(x[r, c] - m_r) * (1 / s_r)` with `m_r = max_c x[r, c]` and
//! `s_r = sum_c exp(x[r, c] - m_r)`. Backward: `dx[r, c] = y[r, c] * (dy[r, c] - sum_k y[r, k] *
//! dy[r, k])`. Shapes: all `[rows, cols]`. The sums have the row order of [`lanes`].
//! PyTorch: `torch.softmax(x, dim=-1)`.

use hlx_core::{Buffer, Device, arith};

use crate::Result;
use crate::lanes::{self, rows_a_task};
use crate::parallel::{self, read, write};
use crate::rows::Rows;

shader!(softmax::{forward, backward, forward_held, backward_held});

/// Computes `y = softmax(x)` row by row; overwrites `y`.
///
/// `x`, `y`: `[rows, cols]`.
///
/// # Errors
/// If a buffer has another length, or the launch fails.
pub fn softmax_forward(
    device: &Device,
    x: &Buffer,
    y: &Buffer,
    rows: usize,
    cols: usize,
) -> Result<()> {
    const NAME: &str = "softmax_forward";
    let row_kernel = Rows::new(device, NAME, rows, cols)?;
    let kernel = row_kernel
        .kernel(NAME, &forward::SHADER, &forward_held::SHADER)
        .read("x", x, [rows, cols])?
        .write("y", y, [rows, cols])?;
    row_kernel.launch(device, &kernel, &[], &[], move |[x], [y]| {
        let task = rows_a_task(cols) * cols;
        let pieces = (read(x, task), write(y, task));
        parallel::for_each(pieces, |_, (x, y)| forward_rows(x, y, cols));
    })
}

/// Computes `dx` from the forward's output and the gradient of it; overwrites `dx`.
///
/// `y`, `dy`, `dx`: `[rows, cols]`.
///
/// # Errors
/// As [`softmax_forward`].
pub fn softmax_backward(
    device: &Device,
    y: &Buffer,
    dy: &Buffer,
    dx: &Buffer,
    rows: usize,
    cols: usize,
) -> Result<()> {
    const NAME: &str = "softmax_backward";
    let row_kernel = Rows::new(device, NAME, rows, cols)?;
    let kernel = row_kernel
        .kernel(NAME, &backward::SHADER, &backward_held::SHADER)
        .read("y", y, [rows, cols])?
        .read("dy", dy, [rows, cols])?
        .write("dx", dx, [rows, cols])?;
    row_kernel.launch(device, &kernel, &[], &[], move |[y, dy], [dx]| {
        let task = rows_a_task(cols) * cols;
        let pieces = (read(y, task), read(dy, task), write(dx, task));
        parallel::for_each(pieces, |_, (y, dy, dx)| backward_rows(y, dy, dx, cols));
    })
}

multiversion! {
    fn forward_rows<A>(x: &[f32], y: &mut [f32], cols: usize) {
        for (x, y) in x.chunks_exact(cols).zip(y.chunks_exact_mut(cols)) {
            let top = lanes::max(x);
            for (y, &x) in y.iter_mut().zip(x) {
                *y = A::exp(x - top);
            }
            let inverse = arith::div(1.0, lanes::sum([&*y], |[y]| y));
            for y in y {
                *y = A::mul(*y, inverse);
            }
        }
    }

    fn backward_rows<A>(y: &[f32], dy: &[f32], dx: &mut [f32], cols: usize) {
        let rows = y.chunks_exact(cols).zip(dy.chunks_exact(cols));
        for ((y, dy), dx) in rows.zip(dx.chunks_exact_mut(cols)) {
            let inner = lanes::sum([y, dy], |[y, dy]| A::mul(y, dy));
            for ((dx, &y), &dy) in dx.iter_mut().zip(y).zip(dy) {
                *dx = A::mul(y, dy - inner);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{assert_close, normal, run_everywhere, values};

    const SHAPES: [(usize, usize); 9] = [
        (3, 1),
        (7, 31),
        (8, 32),
        (9, 33),
        (1, 127),
        (33, 128),
        (2, 129),
        (5, 1009),
        (3, 4100),
    ];

    fn forward_and_backward(x: &[f32], dy: &[f32], rows: usize, cols: usize) -> Vec<Vec<f32>> {
        run_everywhere("softmax", |device, mem| {
            let x = mem.input(device, x)?;
            let y = mem.output(device, rows * cols)?;
            softmax_forward(device, &x, &y, rows, cols)?;
            let dy = mem.input(device, dy)?;
            let dx = mem.output(device, rows * cols)?;
            softmax_backward(device, &y, &dy, &dx, rows, cols)?;
            Ok(vec![y, dx])
        })
    }

    /// The definition in f64, forward and backward.
    fn reference(x: &[f32], dy: &[f32]) -> (Vec<f64>, Vec<f64>) {
        let top = x.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let powers: Vec<f64> = x.iter().map(|&x| f64::from(x - top).exp()).collect();
        let sum: f64 = powers.iter().sum();
        let y: Vec<f64> = powers.iter().map(|p| p / sum).collect();
        let inner: f64 = y.iter().zip(dy).map(|(y, &dy)| y * f64::from(dy)).sum();
        let dx = y.iter().zip(dy).map(|(y, &dy)| y * (f64::from(dy) - inner));
        let dx = dx.collect();
        (y, dx)
    }

    #[test]
    fn agrees_with_f64_on_every_device() {
        for (rows, cols) in SHAPES {
            let x = normal(1, rows * cols);
            let dy = normal(2, rows * cols);
            let got = forward_and_backward(&x, &dy, rows, cols);
            for row in 0..rows {
                let range = row * cols..(row + 1) * cols;
                let (y, dx) = reference(&x[range.clone()], &dy[range.clone()]);
                assert_close("y", &got[0][range.clone()], &y, 2e-6, 1e-9);
                assert_close("dx", &got[1][range], &dx, 1e-5, 1e-6);
            }
        }
    }

    #[test]
    fn awkward_values_have_equal_bits() {
        for (rows, cols) in SHAPES {
            forward_and_backward(&values(3, rows * cols), &values(4, rows * cols), rows, cols);
        }
    }

    #[test]
    fn wrong_lengths_are_named() {
        let device = hlx_core::testing::cpu().expect("cpu");
        let x = device.buffer_of(&[0.0; 6]).expect("buffer");
        let y = device.buffer_of(&[0.0; 5]).expect("buffer");
        let error = softmax_forward(&device, &x, &y, 2, 3).expect_err("y is short");
        assert_eq!(
            error.to_string(),
            "softmax_forward: y has 5 elements, expected 6"
        );
        let error = softmax_forward(&device, &x, &x, 6, 0).expect_err("no columns");
        assert_eq!(error.to_string(), "softmax_forward: a row has no elements");
    }
}
