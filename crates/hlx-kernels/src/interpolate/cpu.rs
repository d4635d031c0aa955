//! Interpolation on the CPU: a task a few rows of results, places and weights of an axis computed once.

use std::ops::Range;

use hlx_core::arith::{self, pos0};

use super::Interpolation;
use crate::window::each_row;

/// The CPU's side of `shaders/interpolate/places.glsl`: where the outputs of an axis lie.
#[derive(Clone, Copy, Debug)]
pub(super) struct Axis {
    pub inputs: usize,
    pub outputs: usize,
    pub scale: f32,
    pub mode: Interpolation,
}

/// An output's two inputs and their weights.
#[derive(Clone, Copy)]
struct Between {
    source: [usize; 2],
    weight: [f32; 2],
}

impl Axis {
    fn place_of(&self, o: usize) -> f32 {
        if self.mode != Interpolation::Bilinear {
            return arith::mul(o as f32, self.scale);
        }
        let place = arith::fma(self.scale, o as f32 + 0.5, -0.5);
        if place < 0.0 { 0.0 } else { place }
    }

    fn source_of(&self, o: usize) -> usize {
        // The cast rounds towards zero, and places are not negative.
        (self.place_of(o) as usize).min(self.inputs - 1)
    }

    fn between(&self, o: usize) -> Between {
        let before = self.source_of(o);
        let right = self.place_of(o) - before as f32;
        let right = if right > 1.0 { 1.0 } else { right };
        Between {
            source: [before, (before + 1).min(self.inputs - 1)],
            weight: [1.0 - right, right],
        }
    }

    fn all_between(&self) -> Vec<Between> {
        (0..self.outputs).map(|o| self.between(o)).collect()
    }

    /// For each input, the outputs whose source it is, or the one before it if `neighbours`.
    fn outputs_of_all(&self, neighbours: bool) -> Vec<Range<usize>> {
        let mut first_from = vec![self.outputs; self.inputs + 1];
        for o in (0..self.outputs).rev() {
            first_from[self.source_of(o)] = o;
        }
        for i in (0..self.inputs).rev() {
            first_from[i] = first_from[i].min(first_from[i + 1]);
        }
        let first = |i: usize| first_from[if neighbours { i.saturating_sub(1) } else { i }];
        (0..self.inputs)
            .map(|i| first(i)..first_from[i + 1])
            .collect()
    }
}

impl Between {
    /// The weight of input i, one of the sources.
    #[inline(always)]
    fn weight_of(&self, i: usize) -> f32 {
        match (self.source[0] == i, self.source[1] == i) {
            (false, _) => self.weight[1],
            (true, false) => self.weight[0],
            (true, true) => self.weight[0] + self.weight[1],
        }
    }
}

pub(super) fn nearest_forward([rows, columns]: &[Axis; 2], x: &[f32], y: &mut [f32]) {
    let sources: Vec<usize> = (0..columns.outputs).map(|o| columns.source_of(o)).collect();
    each_row(y, [rows.outputs, columns.outputs], |plane, oy, y| {
        let row = plane * rows.inputs + rows.source_of(oy);
        let x = &x[row * columns.inputs..][..columns.inputs];
        for (y, source) in y.iter_mut().zip(&sources) {
            *y = x[*source];
        }
    });
}

pub(super) fn nearest_backward([rows, columns]: &[Axis; 2], dy: &[f32], dx: &mut [f32]) {
    let [row_outputs, column_outputs] = [rows, columns].map(|axis| axis.outputs_of_all(false));
    each_row(dx, [rows.inputs, columns.inputs], |plane, iy, dx| {
        for (dx, outputs) in dx.iter_mut().zip(&column_outputs) {
            let mut sum = 0.0;
            for oy in row_outputs[iy].clone() {
                let row = &dy[(plane * rows.outputs + oy) * columns.outputs..][..columns.outputs];
                for dy in &row[outputs.clone()] {
                    sum += *dy;
                }
            }
            *dx = pos0(sum);
        }
    });
}

pub(super) fn bilinear_forward([rows, columns]: &[Axis; 2], x: &[f32], y: &mut [f32]) {
    let [row_places, column_places] = [rows, columns].map(Axis::all_between);
    each_row(y, [rows.outputs, columns.outputs], |plane, oy, y| {
        let place = row_places[oy];
        let [upper, lower] = place.source.map(|row| {
            let row = plane * rows.inputs + row;
            &x[row * columns.inputs..][..columns.inputs]
        });
        bilinear_row(upper, lower, place.weight, &column_places, y);
    });
}

multiversion! {
    fn bilinear_row<A>(
        upper: &[f32],
        lower: &[f32],
        weight: [f32; 2],
        columns: &[Between],
        y: &mut [f32],
    ) {
        for (y, column) in y.iter_mut().zip(columns) {
            let ([left, right], [l, r]) = (column.source, column.weight);
            let above = A::fma(r, upper[right], A::mul(l, upper[left]));
            let below = A::fma(r, lower[right], A::mul(l, lower[left]));
            *y = A::fma(weight[1], below, A::mul(weight[0], above));
        }
    }
}

pub(super) fn bilinear_backward([rows, columns]: &[Axis; 2], dy: &[f32], dx: &mut [f32]) {
    let [row_places, column_places] = [rows, columns].map(Axis::all_between);
    let [row_outputs, column_outputs] = [rows, columns].map(|axis| axis.outputs_of_all(true));
    each_row(dx, [rows.inputs, columns.inputs], |plane, iy, dx| {
        dx.fill(0.0);
        for oy in row_outputs[iy].clone() {
            let dy = &dy[(plane * rows.outputs + oy) * columns.outputs..][..columns.outputs];
            let wy = row_places[oy].weight_of(iy);
            bilinear_backward_row(dy, wy, &column_places, &column_outputs, dx);
        }
        dx.iter_mut().for_each(|dx| *dx = pos0(*dx));
    });
}

multiversion! {
    /// Continues the chains of a row of the gradient over one row of outputs.
    fn bilinear_backward_row<A>(
        dy: &[f32],
        wy: f32,
        places: &[Between],
        outputs: &[Range<usize>],
        dx: &mut [f32],
    ) {
        for (ix, (dx, outputs)) in dx.iter_mut().zip(outputs).enumerate() {
            for ox in outputs.start..outputs.end {
                *dx = A::fma(A::mul(wy, places[ox].weight_of(ix)), dy[ox], *dx);
            }
        }
    }
}
