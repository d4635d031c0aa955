//! Tests of the recurrent steps: formulas in f64, and derivatives against central differences of them.

use super::*;
use crate::testing::{assert_close, normal, run_everywhere};

const SIZES: [[usize; 3]; 4] = [[1, 1, 1], [2, 3, 31], [3, 2, 32], [5, 4, 67]];

fn steps(cell: Cell, [batch, time, width]: [usize; 3]) -> Vec<TimeStep> {
    let step = |position, previous| TimeStep {
        cell,
        batch,
        time,
        width,
        position,
        previous,
    };
    // The first of a sequence that goes backward, and one in its middle that goes forward.
    let mut steps = vec![step(time - 1, None)];
    steps.extend((time > 1).then(|| step(1, Some(0))));
    steps
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// The sums of the gates of one unit: of the inputs, and of the hidden state.
type Sums = [[f64; 4]; 2];

/// c and h of an LSTM's unit, and its gates.
fn lstm_unit([x, s]: Sums, cell: f64) -> ([f64; 4], f64, f64) {
    let sum = |gate: usize| x[gate] + s[gate];
    let gates = [
        sigmoid(sum(0)),
        sigmoid(sum(1)),
        sum(2).tanh(),
        sigmoid(sum(3)),
    ];
    let c = gates[1] * cell + gates[0] * gates[2];
    (gates, c, gates[3] * c.tanh())
}

/// h of a GRU's unit, and the gates that are stored.
fn gru_unit([x, s]: Sums, hidden: f64) -> ([f64; 4], f64) {
    let (r, z) = (sigmoid(x[0] + s[0]), sigmoid(x[1] + s[1]));
    let n = (x[2] + r * s[2]).tanh();
    ([r, z, n, s[2]], (1.0 - z) * n + z * hidden)
}

/// The derivative of a function by one of its arguments.
fn slope(f: impl Fn(f64) -> f64) -> f64 {
    const STEP: f64 = 1e-5;
    (f(STEP) - f(-STEP)) / (2.0 * STEP)
}

/// The elements of a unit's gates in `[rows, gates, H]`.
fn gates_of(values: &[f32], row: usize, gates: usize, width: usize, unit: usize) -> [f64; 4] {
    std::array::from_fn(|gate| match gate < gates {
        true => f64::from(values[(row * gates + gate) * width + unit]),
        false => 0.0,
    })
}

/// Every sample's row of the position and of the step, and every unit.
fn units(step: TimeStep) -> impl Iterator<Item = (usize, usize, usize)> {
    (0..step.batch * step.width).map(move |i| {
        let (sample, unit) = (i / step.width, i % step.width);
        (sample * step.time + step.position, sample, unit)
    })
}

#[test]
fn lstm_steps_are_the_formulas() {
    for step in SIZES.into_iter().flat_map(|sizes| steps(Cell::Lstm, sizes)) {
        let (n_units, all, width) = (step.units(), step.all(), step.width);
        let (x, s, cell) = (
            normal(1, 4 * all),
            normal(2, 4 * n_units),
            normal(3, n_units),
        );
        let got = run_everywhere("lstm_forward", |device, mem| {
            let buffers = [
                mem.input(device, &x)?,
                mem.input(device, &s)?,
                mem.input(device, &cell)?,
                mem.output(device, n_units)?,
                mem.input(device, &vec![0.0; 4 * all])?,
                mem.input(device, &vec![0.0; 2 * all])?,
            ];
            let [x, from_hidden, cell, hidden, gates, out] = &buffers;
            let arguments = CellForward {
                x,
                from_hidden,
                cells: Some(cell),
                hidden,
                gates,
                out,
            };
            cell_forward(device, step, &arguments)?;
            Ok(buffers[2..].to_vec())
        });
        let (mut cells, mut hidden) = (vec![0.0; n_units], vec![0.0; n_units]);
        let (mut gates, mut out) = (vec![0.0; 4 * all], vec![0.0; 2 * all]);
        for (row, sample, unit) in units(step) {
            let at = sample * width + unit;
            let sums = [
                gates_of(&x, row, 4, width, unit),
                gates_of(&s, sample, 4, width, unit),
            ];
            let (saved, c, h) = lstm_unit(sums, f64::from(cell[at]));
            (cells[at], hidden[at]) = (c, h);
            (out[row * width + unit], out[all + row * width + unit]) = (h, c);
            for (gate, value) in saved.into_iter().enumerate() {
                gates[(row * 4 + gate) * width + unit] = value;
            }
        }
        for (name, (got, want)) in ["cell", "hidden", "gates", "out"]
            .into_iter()
            .zip(got.iter().zip([cells, hidden, gates, out]))
        {
            assert_close(name, got, &want, 2e-6, 1e-6);
        }
    }
}

#[test]
fn lstm_derivatives_are_those_of_the_formulas() {
    for step in SIZES.into_iter().flat_map(|sizes| steps(Cell::Lstm, sizes)) {
        let (n_units, all, width) = (step.units(), step.all(), step.width);
        let (x, s) = (normal(1, 4 * all), normal(2, 4 * n_units));
        let (first, mut out) = (normal(3, n_units), normal(4, 2 * all));
        let (dout, dhidden, dcell) = (normal(5, 2 * all), normal(6, n_units), normal(7, n_units));
        let mut gates = vec![0.0_f32; 4 * all];
        let (mut dsums, mut dbefore) = (vec![0.0; 4 * all], vec![0.0; n_units]);
        let mut dstep = vec![0.0; 4 * n_units];
        for (row, sample, unit) in units(step) {
            let at = sample * width + unit;
            let earlier = match step.previous {
                None => first[at],
                Some(previous) => out[all + (sample * step.time + previous) * width + unit],
            };
            let sums = [
                gates_of(&x, row, 4, width, unit),
                gates_of(&s, sample, 4, width, unit),
            ];
            let earlier = f64::from(earlier);
            let (saved, c, _) = lstm_unit(sums, earlier);
            out[all + row * width + unit] = c as f32;
            let dh = f64::from(dout[row * width + unit]) + f64::from(dhidden[at]);
            let dc = f64::from(dout[all + row * width + unit]) + f64::from(dcell[at]);
            let loss = |sums: Sums, cell: f64| {
                let (_, c, h) = lstm_unit(sums, cell);
                dh * h + dc * c
            };
            for (gate, value) in saved.into_iter().enumerate() {
                gates[(row * 4 + gate) * width + unit] = value as f32;
                let moved = |by: f64| {
                    let mut sums = sums;
                    sums[0][gate] += by;
                    loss(sums, earlier)
                };
                dsums[(row * 4 + gate) * width + unit] = slope(moved);
                dstep[(sample * 4 + gate) * width + unit] = slope(moved);
            }
            dbefore[at] = slope(|by| loss(sums, earlier + by));
        }
        let got = run_everywhere("lstm_backward", |device, mem| {
            let inputs = [
                mem.input(device, &gates)?,
                mem.input(device, &out)?,
                mem.input(device, &first)?,
                mem.input(device, &dout)?,
                mem.input(device, &dhidden)?,
            ];
            let outputs = [
                mem.input(device, &dcell)?,
                mem.output(device, 4 * n_units)?,
                mem.input(device, &vec![0.0; 4 * all])?,
            ];
            let arguments = CellBackward {
                gates: &inputs[0],
                out: &inputs[1],
                first: &inputs[2],
                dout: &inputs[3],
                dhidden: &inputs[4],
                dcells: Some(&outputs[0]),
                dstep: &outputs[1],
                dx: &outputs[2],
                dfrom_hidden: None,
            };
            cell_backward(device, step, &arguments)?;
            Ok(outputs.to_vec())
        });
        assert_close("dcell", &got[0], &dbefore, 5e-6, 5e-6);
        assert_close("dstep", &got[1], &dstep, 5e-6, 5e-6);
        assert_close("dgates", &got[2], &dsums, 5e-6, 5e-6);
    }
}

#[test]
fn gru_steps_are_the_formulas() {
    for step in SIZES.into_iter().flat_map(|sizes| steps(Cell::Gru, sizes)) {
        let (n_units, all, width) = (step.units(), step.all(), step.width);
        let (x, s) = (normal(1, 3 * all), normal(2, 3 * n_units));
        let before = normal(3, n_units);
        let got = run_everywhere("gru_forward", |device, mem| {
            let buffers = [
                mem.input(device, &x)?,
                mem.input(device, &s)?,
                mem.input(device, &before)?,
                mem.input(device, &vec![0.0; 4 * all])?,
                mem.input(device, &vec![0.0; all])?,
            ];
            let [x, from_hidden, hidden, gates, out] = &buffers;
            let arguments = CellForward {
                x,
                from_hidden,
                cells: None,
                hidden,
                gates,
                out,
            };
            cell_forward(device, step, &arguments)?;
            Ok(buffers[2..].to_vec())
        });
        let (mut hidden, mut gates) = (vec![0.0; n_units], vec![0.0; 4 * all]);
        let mut out = vec![0.0; all];
        for (row, sample, unit) in units(step) {
            let at = sample * width + unit;
            let sums = [
                gates_of(&x, row, 3, width, unit),
                gates_of(&s, sample, 3, width, unit),
            ];
            let (saved, h) = gru_unit(sums, f64::from(before[at]));
            (hidden[at], out[row * width + unit]) = (h, h);
            for (gate, value) in saved.into_iter().enumerate() {
                gates[(row * 4 + gate) * width + unit] = value;
            }
        }
        for (name, (got, want)) in ["hidden", "gates", "out"]
            .into_iter()
            .zip(got.iter().zip([hidden, gates, out]))
        {
            assert_close(name, got, &want, 2e-6, 1e-6);
        }
    }
}

#[test]
fn gru_derivatives_are_those_of_the_formulas() {
    for step in SIZES.into_iter().flat_map(|sizes| steps(Cell::Gru, sizes)) {
        let (n_units, all, width) = (step.units(), step.all(), step.width);
        let (x, s) = (normal(1, 3 * all), normal(2, 3 * n_units));
        let (first, out) = (normal(3, n_units), normal(4, all));
        let (dout, dhidden) = (normal(5, all), normal(6, n_units));
        let mut gates = vec![0.0_f32; 4 * all];
        let (mut dx, mut ds) = (vec![0.0; 3 * all], vec![0.0; 3 * all]);
        let (mut dbefore, mut dstep) = (vec![0.0; n_units], vec![0.0; 3 * n_units]);
        for (row, sample, unit) in units(step) {
            let at = sample * width + unit;
            let earlier = f64::from(match step.previous {
                None => first[at],
                Some(previous) => out[(sample * step.time + previous) * width + unit],
            });
            let sums = [
                gates_of(&x, row, 3, width, unit),
                gates_of(&s, sample, 3, width, unit),
            ];
            let (saved, _) = gru_unit(sums, earlier);
            let dh = f64::from(dout[row * width + unit]) + f64::from(dhidden[at]);
            for (gate, value) in saved.into_iter().enumerate() {
                gates[(row * 4 + gate) * width + unit] = value as f32;
            }
            for gate in 0..3 {
                let by = |which: usize| {
                    slope(|by| {
                        let mut sums = sums;
                        sums[which][gate] += by;
                        dh * gru_unit(sums, earlier).1
                    })
                };
                dx[(row * 3 + gate) * width + unit] = by(0);
                ds[(row * 3 + gate) * width + unit] = by(1);
                dstep[(sample * 3 + gate) * width + unit] = by(1);
            }
            dbefore[at] = slope(|by| dh * gru_unit(sums, earlier + by).1);
        }
        let got = run_everywhere("gru_backward", |device, mem| {
            let inputs = [
                mem.input(device, &gates)?,
                mem.input(device, &out)?,
                mem.input(device, &first)?,
                mem.input(device, &dout)?,
            ];
            let outputs = [
                mem.input(device, &dhidden)?,
                mem.output(device, 3 * n_units)?,
                mem.input(device, &vec![0.0; 3 * all])?,
                mem.input(device, &vec![0.0; 3 * all])?,
            ];
            let arguments = CellBackward {
                gates: &inputs[0],
                out: &inputs[1],
                first: &inputs[2],
                dout: &inputs[3],
                dhidden: &outputs[0],
                dcells: None,
                dstep: &outputs[1],
                dx: &outputs[2],
                dfrom_hidden: Some(&outputs[3]),
            };
            cell_backward(device, step, &arguments)?;
            Ok(outputs.to_vec())
        });
        let wanted = [dbefore, dstep, dx, ds];
        for (name, (got, want)) in ["dhidden", "dstep", "dx", "dfrom_hidden"]
            .into_iter()
            .zip(got.iter().zip(wanted))
        {
            assert_close(name, got, &want, 5e-6, 5e-6);
        }
    }
}

#[test]
fn positions_and_lengths_that_do_not_fit_are_refused() {
    let device = hlx_core::testing::cpu().expect("the CPU device opens");
    let words = |n: usize| device.buffer_of(&vec![0.0; n]).expect("memory");
    let (x, s, hidden, gates, out) = (words(36), words(12), words(4), words(48), words(12));
    let message = |position, hidden: &Buffer| {
        let step = TimeStep {
            cell: Cell::Gru,
            batch: 2,
            time: 3,
            width: 2,
            position,
            previous: None,
        };
        let arguments = CellForward {
            x: &x,
            from_hidden: &s,
            cells: None,
            hidden,
            gates: &gates,
            out: &out,
        };
        cell_forward(&device, step, &arguments)
            .expect_err("refused")
            .to_string()
    };
    let expected = "gru_forward: position is 3 after None, expected below 3";
    assert_eq!(message(3, &hidden), expected);
    let expected = "gru_forward: hidden has 5 elements, expected 4";
    assert_eq!(message(2, &words(5)), expected);
}
