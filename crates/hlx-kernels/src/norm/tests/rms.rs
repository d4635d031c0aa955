//! RMS norm on every device, against f64, and its gain's gradient in pieces.

use crate::norm::{
    Norm, NormBackwardInput, NormBackwardParams, NormForward, norm_backward_input,
    norm_backward_params, norm_forward,
};
use crate::testing::{assert_close, normal, run_everywhere, values};

const EPS: f32 = 1e-5;
const SHAPES: [(usize, usize, usize); 8] = [
    (1, 3, 1),
    (2, 4, 31),
    (3, 3, 33),
    (1, 1, 127),
    (4, 9, 128),
    (2, 5, 129),
    (1, 17, 1009),
    (2, 2, 2050),
];

/// x, weight, dy.
type Data = [Vec<f32>; 3];

fn data(make: fn(u64, usize) -> Vec<f32>, rows: usize, cols: usize) -> Data {
    [make(1, rows * cols), make(2, cols), make(4, rows * cols)]
}

/// Returns y, stats, dx, dweight.
fn run_all([x, weight, dy]: &Data, shards: usize, per: usize, cols: usize) -> Vec<Vec<f32>> {
    let rows = shards * per;
    run_everywhere("rms_norm", |device, mem| {
        let (x, w, dy) = (
            mem.input(device, x)?,
            mem.input(device, weight)?,
            mem.input(device, dy)?,
        );
        let (y, dx) = (
            mem.output(device, rows * cols)?,
            mem.output(device, rows * cols)?,
        );
        let (stats, dweight) = (
            mem.output(device, rows)?,
            mem.output(device, shards * cols)?,
        );
        norm_forward(
            device,
            &Norm::rms(rows, cols, EPS),
            &NormForward {
                x: &x,
                weight: &w,
                bias: None,
                y: &y,
                stats: &stats,
            },
        )?;
        norm_backward_input(
            device,
            &Norm::rms(rows, cols, EPS),
            &NormBackwardInput {
                x: &x,
                weight: &w,
                stats: &stats,
                dy: &dy,
                residual: None,
                dx: &dx,
            },
        )?;
        norm_backward_params(
            device,
            &Norm::rms(shards * per, cols, EPS),
            &NormBackwardParams {
                x: &x,
                stats: &stats,
                dy: &dy,
                dweight: &dweight,
                dbias: None,
                shards,
                accumulate: false,
            },
        )?;
        Ok(vec![y, stats, dx, dweight])
    })
}

#[test]
fn agrees_with_f64_on_every_device() {
    for (shards, per, cols) in SHAPES {
        let data = data(normal, shards * per, cols);
        let got = run_all(&data, shards, per, cols);
        let [x, weight, dy] =
            data.map(|values| values.into_iter().map(f64::from).collect::<Vec<_>>());
        let (mut y, mut dx, mut dweight) = (vec![], vec![], vec![0.0; shards * cols]);
        for (row, (x, dy)) in x.chunks(cols).zip(dy.chunks(cols)).enumerate() {
            let n = cols as f64;
            let square = x.iter().map(|x| x * x).sum::<f64>() / n;
            let rstd = 1.0 / (square + f64::from(EPS)).sqrt();
            let b = (0..cols)
                .map(|c| dy[c] * weight[c] * x[c] * rstd)
                .sum::<f64>()
                / n;
            for c in 0..cols {
                y.push(x[c] * rstd * weight[c]);
                dx.push(rstd * (dy[c] * weight[c] - x[c] * rstd * b));
                dweight[row / per * cols + c] += dy[c] * x[c] * rstd;
            }
        }
        assert_close("y", &got[0], &y, 1e-5, 1e-6);
        // One column alone is its own norm: what is left of dx are rounding errors.
        assert_close(
            "dx",
            &got[2],
            &dx,
            1e-5,
            if cols == 1 { 1e-3 } else { 1e-5 },
        );
        assert_close("dweight", &got[3], &dweight, 1e-5, 1e-5);
    }
}

#[test]
fn a_gradient_around_the_norm_is_added_as_by_an_addition() {
    for (shards, per, cols) in SHAPES {
        let rows = shards * per;
        let [x, weight, dy] = data(values, rows, cols);
        let around = normal(9, rows * cols);
        let got = run_everywhere("rms_norm_backward_input_add", |device, mem| {
            let (x, weight) = (mem.input(device, &x)?, mem.input(device, &weight)?);
            let (dy, around) = (mem.input(device, &dy)?, mem.input(device, &around)?);
            let stats = mem.input(device, &vec![1.5; rows])?;
            let (dx, sum) = (
                mem.output(device, rows * cols)?,
                mem.output(device, rows * cols)?,
            );
            let norm = Norm::rms(rows, cols, EPS);
            let alone = NormBackwardInput {
                x: &x,
                weight: &weight,
                stats: &stats,
                dy: &dy,
                residual: None,
                dx: &dx,
            };
            norm_backward_input(device, &norm, &alone)?;
            let around = NormBackwardInput {
                residual: Some(&around),
                dx: &sum,
                ..alone
            };
            norm_backward_input(device, &norm, &around)?;
            Ok(vec![dx, sum])
        });
        for ((dx, around), sum) in got[0].iter().zip(&around).zip(&got[1]) {
            let expected = hlx_core::cpu::with_flush(|| around + dx);
            assert!(expected.to_bits() == sum.to_bits() || expected.is_nan() && sum.is_nan());
        }
    }
}

#[test]
fn awkward_values_have_equal_bits() {
    for (shards, per, cols) in SHAPES {
        run_all(&data(values, shards * per, cols), shards, per, cols);
    }
}

/// A shard's gradient in one piece and in two, the second going on from the first.
#[test]
fn accumulation_continues_the_chain() {
    let (rows, cut, cols) = (13, 5, 70);
    let [x, _, dy] = data(normal, rows, cols);
    let rstd = values(9, rows);
    let got = run_everywhere("rms_norm_backward_weight", |device, mem| {
        let mut outputs = vec![];
        for cuts in [vec![0, rows], vec![0, cut, rows]] {
            let dweight = mem.output(device, cols)?;
            for piece in cuts.windows(2).map(|ends| ends[0]..ends[1]) {
                let elements = piece.start * cols..piece.end * cols;
                let (x, dy) = (
                    mem.input(device, &x[elements.clone()])?,
                    mem.input(device, &dy[elements])?,
                );
                let stats = mem.input(device, &rstd[piece.clone()])?;
                let more = piece.start > 0;
                norm_backward_params(
                    device,
                    &Norm::rms(piece.len(), cols, EPS),
                    &NormBackwardParams {
                        x: &x,
                        stats: &stats,
                        dy: &dy,
                        dweight: &dweight,
                        dbias: None,
                        shards: 1,
                        accumulate: more,
                    },
                )?;
            }
            outputs.push(dweight);
        }
        Ok(outputs)
    });
    assert_eq!(got[0], got[1]);
}

#[test]
fn wrong_lengths_are_named() {
    let device = hlx_core::testing::cpu().expect("cpu");
    let x = device.buffer_of(&[0.0; 8]).expect("buffer");
    let stats = device.buffer_of(&[0.0; 2]).expect("buffer");
    let error = norm_forward(
        &device,
        &Norm::rms(2, 4, EPS),
        &NormForward {
            x: &x,
            weight: &x,
            bias: None,
            y: &x,
            stats: &stats,
        },
    )
    .expect_err("weight is long");
    assert_eq!(
        error.to_string(),
        "rms_norm_forward: weight has 8 elements, expected 4"
    );
}
