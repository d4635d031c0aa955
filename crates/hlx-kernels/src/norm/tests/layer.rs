//! Layer norm on every device, against f64, and its parameter gradients in pieces.

use crate::norm::{
    Norm, NormBackwardInput, NormBackwardParams, NormForward, norm_backward_input,
    norm_backward_params, norm_forward,
};
use crate::testing::{assert_close, normal, run_everywhere, values};

const EPS: f32 = 1e-5;
const SHAPES: [(usize, usize, usize); 9] = [
    (1, 3, 1),
    (2, 4, 31),
    (1, 8, 32),
    (3, 3, 33),
    (1, 1, 127),
    (4, 9, 128),
    (2, 5, 129),
    (1, 17, 1009),
    (2, 2, 2050),
];

/// Returns y, stats, dx, dweight, dbias.
fn run_all(data: &Data, shards: usize, rows_per_shard: usize, cols: usize) -> Vec<Vec<f32>> {
    let rows = shards * rows_per_shard;
    run_everywhere("layer_norm", |device, mem| {
        let x = mem.input(device, &data.x)?;
        let weight = mem.input(device, &data.weight)?;
        let bias = mem.input(device, &data.bias)?;
        let dy = mem.input(device, &data.dy)?;
        let y = mem.output(device, rows * cols)?;
        let stats = mem.output(device, rows * 2)?;
        let dx = mem.output(device, rows * cols)?;
        let dweight = mem.output(device, shards * cols)?;
        let dbias = mem.output(device, shards * cols)?;
        norm_forward(
            device,
            &Norm::layer(rows, cols, EPS),
            &NormForward {
                x: &x,
                weight: &weight,
                bias: Some(&bias),
                y: &y,
                stats: &stats,
            },
        )?;
        norm_backward_input(
            device,
            &Norm::layer(rows, cols, EPS),
            &NormBackwardInput {
                x: &x,
                weight: &weight,
                stats: &stats,
                dy: &dy,
                residual: None,
                dx: &dx,
            },
        )?;
        norm_backward_params(
            device,
            &Norm::layer(shards * rows_per_shard, cols, EPS),
            &NormBackwardParams {
                x: &x,
                stats: &stats,
                dy: &dy,
                dweight: &dweight,
                dbias: Some(&dbias),
                shards,
                accumulate: false,
            },
        )?;
        Ok(vec![y, stats, dx, dweight, dbias])
    })
}

struct Data {
    x: Vec<f32>,
    weight: Vec<f32>,
    bias: Vec<f32>,
    dy: Vec<f32>,
}

fn data(make: fn(u64, usize) -> Vec<f32>, rows: usize, cols: usize) -> Data {
    Data {
        x: make(1, rows * cols),
        weight: make(2, cols),
        bias: make(3, cols),
        dy: make(4, rows * cols),
    }
}

struct Reference {
    y: Vec<f64>,
    dx: Vec<f64>,
    dweight: Vec<f64>,
    dbias: Vec<f64>,
}

/// The definition in f64; the parameters' gradients summed over all rows.
fn reference(data: &Data, rows: usize, cols: usize) -> Reference {
    let wide = |values: &[f32]| values.iter().map(|&v| f64::from(v)).collect::<Vec<f64>>();
    let (weight, bias) = (wide(&data.weight), wide(&data.bias));
    let mut out = Reference {
        y: vec![],
        dx: vec![],
        dweight: vec![0.0; cols],
        dbias: vec![0.0; cols],
    };
    for row in 0..rows {
        let x = wide(&data.x[row * cols..(row + 1) * cols]);
        let dy = wide(&data.dy[row * cols..(row + 1) * cols]);
        let n = cols as f64;
        let mean = x.iter().sum::<f64>() / n;
        let variance = x.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n;
        let rstd = 1.0 / (variance + f64::from(EPS)).sqrt();
        let normals: Vec<f64> = x.iter().map(|x| (x - mean) * rstd).collect();
        let g: Vec<f64> = dy.iter().zip(&weight).map(|(dy, w)| dy * w).collect();
        let a = g.iter().sum::<f64>() / n;
        let b = g.iter().zip(&normals).map(|(g, n)| g * n).sum::<f64>() / n;
        for col in 0..cols {
            out.y.push(normals[col] * weight[col] + bias[col]);
            out.dx.push(rstd * (g[col] - a - normals[col] * b));
            out.dweight[col] += dy[col] * normals[col];
            out.dbias[col] += dy[col];
        }
    }
    out
}

#[test]
fn agrees_with_f64_on_every_device() {
    for (shards, rows_per_shard, cols) in SHAPES {
        let rows = shards * rows_per_shard;
        let data = data(normal, rows, cols);
        let got = run_all(&data, shards, rows_per_shard, cols);
        let want = reference(&data, rows, cols);
        assert_close("y", &got[0], &want.y, 1e-5, 1e-5);
        // One column alone divides rounding errors by sqrt(eps).
        let dx_error = if cols == 1 { 1e-3 } else { 3e-5 };
        assert_close("dx", &got[2], &want.dx, 1e-5, dx_error);
        let over_shards = |partial: &[f32]| -> Vec<f32> {
            (0..cols)
                .map(|col| (0..shards).map(|shard| partial[shard * cols + col]).sum())
                .collect()
        };
        assert_close("dweight", &over_shards(&got[3]), &want.dweight, 1e-5, 1e-4);
        assert_close("dbias", &over_shards(&got[4]), &want.dbias, 1e-5, 1e-5);
    }
}

#[test]
fn awkward_values_have_equal_bits() {
    for (shards, rows_per_shard, cols) in SHAPES {
        let data = data(values, shards * rows_per_shard, cols);
        run_all(&data, shards, rows_per_shard, cols);
    }
}

/// A shard's gradient in one piece and in two, the second going on from the first.
#[test]
fn accumulation_continues_the_chain() {
    let (rows, cut, cols) = (13, 5, 70);
    let data = data(normal, rows, cols);
    let stats = values(9, rows * 2);
    let got = run_everywhere("layer_norm_backward_params", |device, mem| {
        let mut outputs = vec![];
        for cuts in [vec![0, rows], vec![0, cut, rows]] {
            let dweight = mem.output(device, cols)?;
            let dbias = mem.output(device, cols)?;
            for piece in cuts.windows(2).map(|ends| ends[0]..ends[1]) {
                let elements = piece.start * cols..piece.end * cols;
                let x = mem.input(device, &data.x[elements.clone()])?;
                let dy = mem.input(device, &data.dy[elements])?;
                let stats = mem.input(device, &stats[piece.start * 2..piece.end * 2])?;
                let more = piece.start > 0;
                let n = piece.len();
                norm_backward_params(
                    device,
                    &Norm::layer(n, cols, EPS),
                    &NormBackwardParams {
                        x: &x,
                        stats: &stats,
                        dy: &dy,
                        dweight: &dweight,
                        dbias: Some(&dbias),
                        shards: 1,
                        accumulate: more,
                    },
                )?;
            }
            outputs.extend([dweight, dbias]);
        }
        Ok(outputs)
    });
    assert_eq!(got[0], got[2]);
    assert_eq!(got[1], got[3]);
}

#[test]
fn wrong_lengths_are_named() {
    let device = hlx_core::testing::cpu().expect("cpu");
    let x = device.buffer_of(&[0.0; 8]).expect("buffer");
    let other = device.buffer_of(&[0.0; 4]).expect("buffer");
    let error = norm_forward(
        &device,
        &Norm::layer(2, 4, EPS),
        &NormForward {
            x: &x,
            weight: &x,
            bias: Some(&other),
            y: &x,
            stats: &other,
        },
    )
    .expect_err("weight is long");
    assert_eq!(
        error.to_string(),
        "layer_norm_forward: weight has 8 elements, expected 4"
    );
}

#[test]
fn a_gradient_around_the_norm_is_added_as_by_an_addition() {
    for (shards, rows_per_shard, cols) in SHAPES {
        let rows = shards * rows_per_shard;
        let data = data(values, rows, cols);
        let around = normal(9, rows * cols);
        let got = run_everywhere("layer_norm_backward_input_add", |device, mem| {
            let x = mem.input(device, &data.x)?;
            let weight = mem.input(device, &data.weight)?;
            let dy = mem.input(device, &data.dy)?;
            let residual = mem.input(device, &around)?;
            let stats = mem.input(device, &[0.25, 1.5].repeat(rows))?;
            let (dx, sum) = (
                mem.output(device, rows * cols)?,
                mem.output(device, rows * cols)?,
            );
            let norm = Norm::layer(rows, cols, EPS);
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
                residual: Some(&residual),
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
