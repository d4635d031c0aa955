//! Pooling on the CPU: a task a few rows of results, the windows of an axis computed once.

use std::ops::Range;

use rayon::prelude::*;

use super::AvgDivisor;
use super::windows::Axis;
use hlx_core::arith::pos0;

/// Rows for one task: about 4,096 results.
fn rows_a_task(width: usize) -> usize {
    (4096 / width).max(1)
}

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

/// The divisors of a row of results.
fn divisors(row: usize, columns: &[usize], divisor: AvgDivisor, out: &mut Vec<f32>) {
    out.clear();
    out.extend(columns.iter().map(|&column| match divisor {
        AvgDivisor::Fixed(value) => value as f32,
        AvgDivisor::Padded | AvgDivisor::Inside => (row * column) as f32,
    }));
}

/// The averages of all windows.
pub(super) fn avg_forward(
    [rows, columns]: &[Axis; 2],
    divisor: AvgDivisor,
    x: &[f32],
    y: &mut [f32],
) {
    let (row_windows, column_windows) = (windows(rows), windows(columns));
    let row_lengths = lengths(rows, divisor);
    let column_lengths = lengths(columns, divisor);
    let results = y.par_chunks_mut(columns.outputs).enumerate();
    let results = results.with_min_len(rows_a_task(columns.outputs));
    results.for_each_init(Vec::new, |buffer, (row, y)| {
        let (plane, oy) = (row / rows.outputs, row % rows.outputs);
        divisors(row_lengths[oy], &column_lengths, divisor, buffer);
        let window = &row_windows[oy];
        let first = (plane * rows.inputs + window.start) * columns.inputs;
        let x = &x[first..][..window.len() * columns.inputs];
        avg_row(x, columns.inputs, &column_windows, buffer, y);
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
pub(super) fn avg_backward(
    [rows, columns]: &[Axis; 2],
    divisor: AvgDivisor,
    dy: &[f32],
    dx: &mut [f32],
) {
    let (rows_over, columns_over) = (over(rows), over(columns));
    let row_lengths = lengths(rows, divisor);
    let column_lengths = lengths(columns, divisor);
    let results = dx.par_chunks_mut(columns.inputs).enumerate();
    let results = results.with_min_len(rows_a_task(columns.inputs));
    results.for_each_init(Vec::new, |buffer, (row, dx)| {
        let (plane, iy) = (row / rows.inputs, row % rows.inputs);
        dx.fill(0.0);
        for oy in rows_over[iy].clone() {
            divisors(row_lengths[oy], &column_lengths, divisor, buffer);
            let dy = &dy[(plane * rows.outputs + oy) * columns.outputs..][..columns.outputs];
            avg_backward_row(dy, buffer, &columns_over, dx);
        }
        dx.iter_mut().for_each(|dx| *dx = pos0(*dx));
    });
}

multiversion! {
    /// Adds what a row of windows gives to a row of the gradient, and leaves its quotients behind.
    fn avg_backward_row(
        dy: &[f32],
        divisors: &mut [f32],
        over: &[Range<usize>],
        dx: &mut [f32],
    ) {
        for (divisor, dy) in divisors.iter_mut().zip(dy) {
            *divisor = *dy / *divisor;
        }
        for (dx, over) in dx.iter_mut().zip(over) {
            for term in &divisors[over.start..over.end] {
                *dx += *term;
            }
        }
    }
}

/// An element of which a window has a largest.
pub(super) trait Ordered: Copy + Send + Sync {
    /// What a window without an element has.
    const LEAST: Self;

    /// Whether an element takes the place of the largest so far.
    fn is_above(self, largest: Self) -> bool;
}

impl Ordered for f32 {
    const LEAST: Self = Self::NEG_INFINITY;

    fn is_above(self, largest: Self) -> bool {
        self > largest || self.is_nan()
    }
}

impl Ordered for i32 {
    const LEAST: Self = Self::MIN;

    fn is_above(self, largest: Self) -> bool {
        self > largest
    }
}

impl Ordered for u32 {
    const LEAST: Self = Self::MIN;

    fn is_above(self, largest: Self) -> bool {
        self > largest
    }
}

/// The largest element of all windows, and its place.
pub(super) fn max_forward<T: Ordered>(
    [rows, columns]: &[Axis; 2],
    x: &[T],
    y: &mut [T],
    indices: &mut [u32],
) {
    let (row_windows, column_windows) = (windows(rows), windows(columns));
    let results = y.par_chunks_mut(columns.outputs);
    let results = results
        .zip(indices.par_chunks_mut(columns.outputs))
        .enumerate();
    let results = results.with_min_len(rows_a_task(columns.outputs));
    results.for_each(|(row, (y, indices))| {
        let (plane, oy) = (row / rows.outputs, row % rows.outputs);
        let plane_len = rows.inputs * columns.inputs;
        let x = &x[plane * plane_len..][..plane_len];
        for ((y, index), window) in y.iter_mut().zip(indices).zip(&column_windows) {
            (*y, *index) = (T::LEAST, u32::MAX);
            for iy in row_windows[oy].clone().step_by(rows.dilation) {
                for ix in window.clone().step_by(columns.dilation) {
                    let place = iy * columns.inputs + ix;
                    let value = x[place];
                    if *index == u32::MAX || value.is_above(*y) {
                        (*y, *index) = (value, place as u32);
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
    let results = dx.par_chunks_mut(columns.inputs).enumerate();
    let results = results.with_min_len(rows_a_task(columns.inputs));
    results.for_each(|(row, dx)| {
        let (plane, iy) = (row / rows.inputs, row % rows.inputs);
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
