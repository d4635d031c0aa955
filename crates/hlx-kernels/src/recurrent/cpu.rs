//! The cells' steps on the CPU: a task per sample, each unit with the operations of its shader.

use hlx_core::CpuBindings;
use hlx_core::arith::{add, sub};

use super::TimeStep;
use crate::parallel::{for_each, write};

/// A step's row of a tensor with `gates` rows of H for each position, in a sample's part of it.
fn at(step: TimeStep, gates: usize) -> std::ops::Range<usize> {
    let len = gates * step.width;
    step.position * len..(step.position + 1) * len
}

/// A sample's row of the step's position in `[B, T, H]`.
fn row(step: TimeStep, sample: usize, all: &[f32]) -> &[f32] {
    &all[sample * step.time * step.width..][at(step, 1)]
}

/// The row before it in `[B, T, H]`, or the sample's row of the first state.
fn before<'a>(step: TimeStep, sample: usize, all: &'a [f32], first: &'a [f32]) -> &'a [f32] {
    let width = step.width;
    let (from, row) = match step.previous {
        Some(previous) => (all, sample * step.time + previous),
        None => (first, sample),
    };
    &from[row * width..(row + 1) * width]
}

pub(super) fn lstm_forward(step: TimeStep, bindings: &mut CpuBindings<'_>) {
    let ([x, from_hidden], [cell, hidden, gates, out]) = bindings.split();
    let (width, all) = (step.width, step.time * step.width);
    let (out_h, out_c) = out.split_at_mut(step.all());
    let samples = (
        write(cell, width),
        write(hidden, width),
        write(gates, 4 * all),
        write(out_h, all),
        write(out_c, all),
    );
    for_each(samples, |sample, (cell, hidden, gates, out_h, out_c)| {
        let x = &x[sample * 4 * all..][at(step, 4)];
        let from_hidden = &from_hidden[sample * 4 * width..][..4 * width];
        lstm_forward_row(x, from_hidden, &mut gates[at(step, 4)], cell, hidden);
        out_h[at(step, 1)].copy_from_slice(hidden);
        out_c[at(step, 1)].copy_from_slice(cell);
    });
}

multiversion! {
    fn lstm_forward_row<A>(
        x: &[f32],
        from_hidden: &[f32],
        gates: &mut [f32],
        cell: &mut [f32],
        hidden: &mut [f32],
    ) {
        let width = cell.len();
        for (gate, ((x, s), y)) in x
            .chunks(width)
            .zip(from_hidden.chunks(width))
            .zip(gates.chunks_mut(width))
            .enumerate()
        {
            for ((y, x), s) in y.iter_mut().zip(x).zip(s) {
                let sum = add(*x, *s);
                *y = if gate == 2 { A::tanh(sum) } else { A::sigmoid(sum) };
            }
        }
        let (i, rest) = gates.split_at(width);
        let (f, rest) = rest.split_at(width);
        let (g, o) = rest.split_at(width);
        for (unit, (cell, hidden)) in cell.iter_mut().zip(hidden).enumerate() {
            *cell = A::fma(f[unit], *cell, A::mul(i[unit], g[unit]));
            *hidden = A::mul(o[unit], A::tanh(*cell));
        }
    }
}

pub(super) fn lstm_backward(step: TimeStep, bindings: &mut CpuBindings<'_>) {
    let (read, [dcell, dstep, dgates]) = bindings.split();
    let [gates, out, first_cell, dout, dhidden] = read;
    let (width, all) = (step.width, step.time * step.width);
    let (_, cells) = out.split_at(step.all());
    let (dout_h, dout_c) = dout.split_at(step.all());
    let rows = (write(dcell, width), write(dstep, 4 * width));
    for_each(
        (rows, write(dgates, 4 * all)),
        |sample, ((dcell, dstep), dgates)| {
            let states = Cells {
                gates: &gates[sample * 4 * all..][at(step, 4)],
                cell: row(step, sample, cells),
                earlier: before(step, sample, cells, first_cell),
            };
            let incoming = [
                row(step, sample, dout_h),
                row(step, sample, dout_c),
                &dhidden[sample * width..][..width],
            ];
            lstm_backward_row(states, incoming, dcell, dstep);
            dgates[at(step, 4)].copy_from_slice(dstep);
        },
    );
}

/// What a step's derivative reads of a sample.
#[derive(Clone, Copy)]
struct Cells<'a> {
    gates: &'a [f32],
    cell: &'a [f32],
    earlier: &'a [f32],
}

multiversion! {
    fn lstm_backward_row<A>(
        states: Cells<'_>,
        incoming: [&[f32]; 3],
        dcell: &mut [f32],
        dstep: &mut [f32],
    ) {
        let width = dcell.len();
        let [dout_h, dout_c, dhidden] = incoming;
        for unit in 0..width {
            let [i, f, g, o] = [0, 1, 2, 3].map(|gate| states.gates[gate * width + unit]);
            let curve = A::tanh(states.cell[unit]);
            let dh = add(dout_h[unit], dhidden[unit]);
            let dc = add(dout_c[unit], dcell[unit]);
            let dc = A::fma(A::mul(dh, o), A::fma(-curve, curve, 1.0), dc);
            let sigmoid_slope = |s| A::mul(s, sub(1.0, s));
            dstep[unit] = A::mul(A::mul(dc, g), sigmoid_slope(i));
            dstep[width + unit] = A::mul(A::mul(dc, states.earlier[unit]), sigmoid_slope(f));
            dstep[2 * width + unit] = A::mul(A::mul(dc, i), A::fma(-g, g, 1.0));
            dstep[3 * width + unit] = A::mul(A::mul(dh, curve), sigmoid_slope(o));
            dcell[unit] = A::mul(dc, f);
        }
    }
}

pub(super) fn gru_forward(step: TimeStep, bindings: &mut CpuBindings<'_>) {
    let ([x, from_hidden], [hidden, gates, out]) = bindings.split();
    let (width, all) = (step.width, step.time * step.width);
    let samples = (write(hidden, width), write(gates, 4 * all), write(out, all));
    for_each(samples, |sample, (hidden, gates, out)| {
        let x = &x[sample * 3 * all..][at(step, 3)];
        let from_hidden = &from_hidden[sample * 3 * width..][..3 * width];
        gru_forward_row(x, from_hidden, &mut gates[at(step, 4)], hidden);
        out[at(step, 1)].copy_from_slice(hidden);
    });
}

multiversion! {
    fn gru_forward_row<A>(x: &[f32], from_hidden: &[f32], gates: &mut [f32], hidden: &mut [f32]) {
        let width = hidden.len();
        for (unit, h) in hidden.iter_mut().enumerate() {
            let sum = |gate: usize| add(x[gate * width + unit], from_hidden[gate * width + unit]);
            let (r, z) = (A::sigmoid(sum(0)), A::sigmoid(sum(1)));
            let inner = from_hidden[2 * width + unit];
            let n = A::tanh(A::fma(r, inner, x[2 * width + unit]));
            *h = A::fma(z, sub(*h, n), n);
            gates[unit] = r;
            gates[width + unit] = z;
            gates[2 * width + unit] = n;
            gates[3 * width + unit] = inner;
        }
    }
}

pub(super) fn gru_backward(step: TimeStep, bindings: &mut CpuBindings<'_>) {
    let ([gates, out, first_hidden, dout], written) = bindings.split();
    let [dhidden, dstep, dx, dfrom_hidden] = written;
    let (width, all) = (step.width, step.time * step.width);
    let samples = (
        write(dhidden, width),
        write(dstep, 3 * width),
        write(dx, 3 * all),
        write(dfrom_hidden, 3 * all),
    );
    for_each(samples, |sample, (dhidden, dstep, dx, dfrom_hidden)| {
        let gates = &gates[sample * 4 * all..][at(step, 4)];
        let earlier = before(step, sample, out, first_hidden);
        let dout = row(step, sample, dout);
        gru_backward_row(gates, earlier, dout, dhidden, dstep, &mut dx[at(step, 3)]);
        dfrom_hidden[at(step, 3)].copy_from_slice(dstep);
    });
}

multiversion! {
    fn gru_backward_row<A>(
        gates: &[f32],
        earlier: &[f32],
        dout: &[f32],
        dhidden: &mut [f32],
        dstep: &mut [f32],
        dx: &mut [f32],
    ) {
        let width = dhidden.len();
        for unit in 0..width {
            let [r, z, n, inner] = [0, 1, 2, 3].map(|gate| gates[gate * width + unit]);
            let dh = add(dout[unit], dhidden[unit]);
            let sigmoid_slope = |s| A::mul(s, sub(1.0, s));
            let dn = A::mul(A::mul(dh, sub(1.0, z)), A::fma(-n, n, 1.0));
            let dz = A::mul(A::mul(dh, sub(earlier[unit], n)), sigmoid_slope(z));
            let dr = A::mul(A::mul(dn, inner), sigmoid_slope(r));
            for (gate, value) in [dr, dz, dn].into_iter().enumerate() {
                dx[gate * width + unit] = value;
            }
            for (gate, value) in [dr, dz, A::mul(dn, r)].into_iter().enumerate() {
                dstep[gate * width + unit] = value;
            }
            dhidden[unit] = A::mul(dh, z);
        }
    }
}
