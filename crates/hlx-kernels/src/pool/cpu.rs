//! Pooling on the CPU: a task a few rows of results, the windows of an axis computed once.

use std::ops::Range;

use hlx_core::arith::pos0;

use super::AvgDivisor;
use super::windows::Axis;
use crate::parallel::{self, write};
use crate::window::{each_row, rows_a_task};

/// The windows of an axis's outputs.
fn windows(axis: &Axis) -> Vec<Range<usize>> {
    (0..axis.outputs).map(|o| axis.window(o)).collect()
}

/// The outputs over an axis's inputs.
fn over(axis: &Axis) -> Vec<Range<usize>> {
    (0..axis.inputs).map(|i| axis.over(i)).collect()
}

/// The part of the divisors that an axis has: the product of both is a window's.
fn lengths(axis: &Axis, divisor: AvgDivisor) -> Vec<usize> {
    let length = |o: usize| match divisor {
        AvgDivisor::Padded => axis.padded_length(o),
        AvgDivisor::Inside => axis.window(o).len(),
        AvgDivisor::Fixed(_) => 1,
    };
    (0..axis.outputs).map(length).collect()
}

/// The divisors of a plane's results, row by row.
fn divisors([rows, columns]: &[Axis; 2], divisor: AvgDivisor) -> Vec<Vec<f32>> {
    let columns = lengths(columns, divisor);
    let of = |row: usize, column: usize| match divisor {
        AvgDivisor::Fixed(value) => value as f32,
        AvgDivisor::Padded | AvgDivisor::Inside => (row * column) as f32,
    };
    let of_row = |row: usize| columns.iter().map(|&column| of(row, column)).collect();
    lengths(rows, divisor).into_iter().map(of_row).collect()
}

/// The averages of all windows.
pub(super) fn avg_forward(axes: &[Axis; 2], divisor: AvgDivisor, x: &[f32], y: &mut [f32]) {
    let ([rows, columns], divisors) = (axes, divisors(axes, divisor));
    let (row_windows, column_windows) = (windows(rows), windows(columns));
    each_row(y, [rows.outputs, columns.outputs], |plane, oy, y| {
        let window = &row_windows[oy];
        let first = (plane * rows.inputs + window.start) * columns.inputs;
        let x = &x[first..][..window.len() * columns.inputs];
        avg_row(x, columns.inputs, &column_windows, &divisors[oy], y);
    });
}

multiversion! {
    /// A row of averages over these rows of x.
    fn avg_row(x: &[f32], width: usize, windows: &[Range<usize>], divisors: &[f32], y: &mut [f32]) {
        for ((y, window), divisor) in y.iter_mut().zip(windows).zip(divisors) {
            let mut sum = 0.0;
            for row in x.chunks_exact(width) {
                for x in &row[window.start..window.end] {
                    sum += *x;
                }
            }
            *y = pos0(sum) / *divisor;
        }
    }
}

/// The gradient of the averages' input.
pub(super) fn avg_backward(axes: &[Axis; 2], divisor: AvgDivisor, dy: &[f32], dx: &mut [f32]) {
    let ([rows, columns], divisors) = (axes, divisors(axes, divisor));
    let (rows_over, columns_over) = (over(rows), over(columns));
    let a_task = rows_a_task(columns.inputs);
    parallel::for_each(write(dx, a_task * columns.inputs), |task, dx| {
        let mut quotients = vec![0.0; columns.outputs];
        for (row, dx) in (task * a_task..).zip(dx.chunks_mut(columns.inputs)) {
            let (plane, iy) = (row / rows.inputs, row % rows.inputs);
            dx.fill(0.0);
            for oy in rows_over[iy].clone() {
                let dy = &dy[(plane * rows.outputs + oy) * columns.outputs..][..columns.outputs];
                avg_backward_row(dy, &divisors[oy], &columns_over, &mut quotients, dx);
            }
            dx.iter_mut().for_each(|dx| *dx = pos0(*dx));
        }
    });
}

multiversion! {
    /// Adds what a row of windows gives to a row of the gradient.
    fn avg_backward_row(
        dy: &[f32],
        divisors: &[f32],
        over: &[Range<usize>],
        quotients: &mut [f32],
        dx: &mut [f32],
    ) {
        for ((quotient, dy), divisor) in quotients.iter_mut().zip(dy).zip(divisors) {
            *quotient = *dy / *divisor;
        }
        for (dx, over) in dx.iter_mut().zip(over) {
            for term in &quotients[over.start..over.end] {
                *dx += *term;
            }
        }
    }
}

/// An element of which a window has a largest.
pub(super) trait Ordered: Copy + PartialOrd + Send + Sync {
    /// What a window without an element has.
    const LEAST: Self;

    /// Whether an element takes the place of the largest so far.
    fn is_above(self, largest: Self) -> bool {
        self > largest
    }
}

impl Ordered for f32 {
    const LEAST: Self = Self::NEG_INFINITY;

    fn is_above(self, largest: Self) -> bool {
        self > largest || self.is_nan()
    }
}

impl Ordered for i32 {
    const LEAST: Self = Self::MIN;
}

impl Ordered for u32 {
    const LEAST: Self = Self::MIN;
}

/// The largest element of all windows, and its place.
pub(super) fn max_forward<T: Ordered>(
    [rows, columns]: &[Axis; 2],
    x: &[T],
    y: &mut [T],
    indices: &mut [u32],
) {
    let (row_windows, column_windows) = (windows(rows), windows(columns));
    let (width, plane_len) = (columns.outputs, rows.inputs * columns.inputs);
    let a_task = rows_a_task(width);
    let results = (write(y, a_task * width), write(indices, a_task * width));
    parallel::for_each(results, |task, (y, indices)| {
        let results = y.chunks_mut(width).zip(indices.chunks_mut(width));
        for (row, (y, indices)) in (task * a_task..).zip(results) {
            let x = &x[row / rows.outputs * plane_len..][..plane_len];
            let window = &row_windows[row % rows.outputs];
            for ((y, index), columns_of) in y.iter_mut().zip(indices).zip(&column_windows) {
                (*y, *index) = (T::LEAST, u32::MAX);
                for iy in window.clone().step_by(rows.dilation) {
                    for ix in columns_of.clone().step_by(columns.dilation) {
                        let place = iy * columns.inputs + ix;
                        let value = x[place];
                        if *index == u32::MAX || value.is_above(*y) {
                            (*y, *index) = (value, place as u32);
                        }
                    }
                }
            }
        }
    });
}

/// The gradient of the maxima's input.
pub(super) fn max_backward(
    [rows, columns]: &[Axis; 2],
    dy: &[f32],
    indices: &[u32],
    dx: &mut [f32],
) {
    let (rows_over, columns_over) = (over(rows), over(columns));
    each_row(dx, [rows.inputs, columns.inputs], |plane, iy, dx| {
        for (ix, (dx, over)) in dx.iter_mut().zip(&columns_over).enumerate() {
            let place = (iy * columns.inputs + ix) as u32;
            let mut sum = 0.0;
            for oy in rows_over[iy].clone() {
                let first = (plane * rows.outputs + oy) * columns.outputs;
                for at in first + over.start..first + over.end {
                    if indices[at] == place {
                        sum += dy[at];
                    }
                }
            }
            *dx = pos0(sum);
        }
    });
}
