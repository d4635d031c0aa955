//! A case made ready on a device: its buffers, and the launches of one run.

use anyhow::{Result, bail};
use hlx_core::{Buffer, Device};
use hlx_kernels::activation::{Activation, activation_backward, activation_forward};
use hlx_kernels::cross_entropy::{cross_entropy_backward, cross_entropy_forward};
use hlx_kernels::elementwise;
use hlx_kernels::embedding::{
    EmbeddingSizes, embedding_backward, embedding_backward_sum, embedding_forward, sums_shards,
};
use hlx_kernels::norm::{
    Norm, NormBackwardInput, NormBackwardParams, NormForward, norm_backward_input,
    norm_backward_params, norm_forward,
};
use hlx_kernels::optimizer::{Hyper, Update, adamw_step};
use hlx_kernels::product::{Epilogue, FloatProduct, MatMul, matmul};
use hlx_kernels::reduce::{column_sum, global_norm, shard_sum};
use hlx_kernels::softmax::{softmax_backward, softmax_forward};
use hlx_kernels::tree_digest::{DigestKind, TensorSpan, TreeDigester};

use crate::attention::attention;
use crate::axes::axes;
use crate::cases::Case;
use crate::chains::chains;
use crate::convolution::convolution;
use crate::integers;
use crate::maker::{Launches, Maker, SHARDS, first};
use crate::norms::norms;
use crate::recurrent::lstm;
use crate::strided::strided;

const EPSILON: f32 = 1e-5;

/// Prepares an operation: every case but a step.
///
/// # Errors
/// A device without the memory; an operation that does not exist.
pub fn prepare(device: &Device, case: &Case) -> Result<Launches> {
    let op = case.op.as_str();
    match case.sizes[..] {
        _ if case.family() == "norm" => norms(device, op, &case.sizes),
        _ if case.family() == "strided" => strided(device, op, &case.sizes),
        [batch, time, input, units] if case.family() == "lstm" => {
            lstm(device, op == "lstm_backward", [batch, time, input, units])
        }
        [n, c, d, extent, kernel] => convolution(device, op, [n, c, d, extent, kernel]),
        [m, n, k] if case.family() == "integer" => integers::product(device, op, [m, n, k]),
        [m, n, k] if case.family() == "matmul" => product(device, op, [m, n, k]),
        [n, vocabulary, width] => embedding(device, op, [n, vocabulary, width]),
        [batch, time, heads, head_width] => attention(device, op, [batch, time, heads, head_width]),
        [rows, cols] => match case.family() {
            "axes" => axes(device, op, [rows, cols]),
            "chains" => chains(device, op, rows, cols),
            "layer_norm" => layer_norm(device, op, rows, cols),
            "cross_entropy" => loss(device, op == "cross_entropy_backward", rows, cols),
            _ => table(device, op, rows, cols),
        },
        [n] => flat(device, op, n),
        _ => bail!("{} is no single operation", case.name()),
    }
}

fn product(device: &Device, op: &str, [m, n, k]: [usize; 3]) -> Result<Launches> {
    let make = Maker(device);
    let (a, b) = (make.values(m * k)?, make.values(k * n)?);
    let (bias, c) = (make.values(n)?, make.empty(m * n)?);
    let device = device.clone();
    let shape = MatMul {
        trans_a: matches!(op, "matmul_tn"),
        trans_b: matches!(op, "matmul_nt" | "linear" | "linear_gelu"),
        ..MatMul::new(m, n, k)
    };
    Ok(match op {
        "weight_gradient" => {
            let partials = make.empty(SHARDS * m * n)?;
            let shape = MatMul {
                batch: SHARDS,
                trans_a: true,
                ..MatMul::new(m, n, k / SHARDS)
            };
            Box::new(move || {
                matmul(&device, &a, &b, None, &partials, &shape)?;
                shard_sum(&device, &partials, &c, SHARDS, m * n, false)
            })
        }
        "linear" => Box::new(move || matmul(&device, &a, &b, Some(&bias), &c, &shape)),
        "linear_gelu" => {
            let y = make.empty(m * n)?;
            Box::new(move || {
                let epilogue = Epilogue::Activation {
                    kind: Activation::GELU,
                    out: &y,
                };
                FloatProduct {
                    bias: Some(&bias),
                    epilogue,
                    ..FloatProduct::new([&a, &b], &c, shape)
                }
                .run(&device)
            })
        }
        _ => Box::new(move || matmul(&device, &a, &b, None, &c, &shape)),
    })
}

fn embedding(device: &Device, op: &str, [n, vocabulary, width]: [usize; 3]) -> Result<Launches> {
    let make = Maker(device);
    let (ids, rows) = (make.ids(n, vocabulary)?, make.values(n * width)?);
    let weight = make.values(vocabulary * width)?;
    let device = device.clone();
    if op == "embedding_forward" {
        return Ok(Box::new(move || {
            embedding_forward(&device, &ids, &weight, &rows, n, vocabulary, width)
        }));
    }
    let partials = make.empty(SHARDS * vocabulary * width)?;
    Ok(Box::new(move || {
        let sizes = EmbeddingSizes {
            shards: SHARDS,
            rows_per_shard: n / SHARDS,
            vocabulary,
            width,
        };
        if sums_shards(&device, SHARDS, vocabulary) {
            return embedding_backward_sum(&device, &ids, &rows, &weight, sizes);
        }
        embedding_backward(&device, &ids, &rows, &partials, sizes, false)?;
        shard_sum(
            &device,
            &partials,
            &weight,
            SHARDS,
            vocabulary * width,
            false,
        )
    }))
}

fn layer_norm(device: &Device, op: &str, rows: usize, cols: usize) -> Result<Launches> {
    let make = Maker(device);
    let (x, y) = (make.values(rows * cols)?, make.empty(rows * cols)?);
    let (weight, bias) = (make.values(cols)?, make.values(cols)?);
    let stats = make.empty(2 * rows)?;
    let device = device.clone();
    if op == "layer_norm_forward" {
        return Ok(Box::new(move || {
            norm_forward(
                &device,
                &Norm::layer(rows, cols, EPSILON),
                &NormForward {
                    x: &x,
                    weight: &weight,
                    bias: Some(&bias),
                    y: &y,
                    stats: &stats,
                },
            )
        }));
    }
    first(|| {
        norm_forward(
            &device,
            &Norm::layer(rows, cols, EPSILON),
            &NormForward {
                x: &x,
                weight: &weight,
                bias: Some(&bias),
                y: &y,
                stats: &stats,
            },
        )
    })?;
    let dy = make.values(rows * cols)?;
    if op == "layer_norm_backward" {
        return Ok(Box::new(move || {
            norm_backward_input(
                &device,
                &Norm::layer(rows, cols, EPSILON),
                &NormBackwardInput {
                    x: &x,
                    weight: &weight,
                    stats: &stats,
                    dy: &dy,
                    residual: None,
                    dx: &y,
                },
            )
        }));
    }
    let partials = [make.empty(SHARDS * cols)?, make.empty(SHARDS * cols)?];
    Ok(Box::new(move || {
        let [dweight, dbias] = &partials;
        let per_shard = rows / SHARDS;
        norm_backward_params(
            &device,
            &Norm::layer(SHARDS * per_shard, cols, EPSILON),
            &NormBackwardParams {
                x: &x,
                stats: &stats,
                dy: &dy,
                dweight,
                dbias: Some(dbias),
                shards: SHARDS,
                accumulate: false,
            },
        )?;
        shard_sum(&device, dweight, &weight, SHARDS, cols, false)?;
        shard_sum(&device, dbias, &bias, SHARDS, cols, false)
    }))
}

fn loss(device: &Device, backward: bool, rows: usize, classes: usize) -> Result<Launches> {
    let make = Maker(device);
    let (logits, targets) = (make.values(rows * classes)?, make.ids(rows, classes)?);
    let (losses, stats) = (make.empty(rows)?, make.empty(2 * rows)?);
    let device = device.clone();
    let forward = move |device: &Device, logits: &Buffer, targets: &Buffer, stats: &Buffer| {
        cross_entropy_forward(device, logits, targets, &losses, stats, rows, classes, 0.0)
    };
    if !backward {
        return Ok(Box::new(move || {
            forward(&device, &logits, &targets, &stats)
        }));
    }
    first(|| forward(&device, &logits, &targets, &stats))?;
    let scale = device.buffer_of(&[1.0 / rows as f32])?;
    let dlogits = make.empty(rows * classes)?;
    Ok(Box::new(move || {
        cross_entropy_backward(
            &device, &logits, &targets, &stats, &scale, &dlogits, rows, classes, 0.0,
        )
    }))
}

fn table(device: &Device, op: &str, rows: usize, cols: usize) -> Result<Launches> {
    let make = Maker(device);
    let (x, y) = (make.values(rows * cols)?, make.empty(rows * cols)?);
    let backward = op.ends_with("_backward");
    let dy = make.values(if backward { rows * cols } else { 0 })?;
    let (partials, sums) = (make.empty(SHARDS * cols)?, make.empty(cols)?);
    let device = device.clone();
    Ok(match op {
        "softmax_forward" => Box::new(move || softmax_forward(&device, &x, &y, rows, cols)),
        "softmax_backward" => {
            let dx = make.empty(x.len())?;
            first(|| softmax_forward(&device, &x, &y, rows, cols))?;
            Box::new(move || softmax_backward(&device, &y, &dy, &dx, rows, cols))
        }
        "gelu_forward" => Box::new(move || activation_forward(&device, Activation::GELU, &x, &y)),
        "gelu_backward" => {
            Box::new(move || activation_backward(&device, Activation::GELU, &x, &dy, &y))
        }
        "column_sum" => Box::new(move || {
            column_sum(&device, &x, &partials, SHARDS, rows / SHARDS, cols, false)?;
            shard_sum(&device, &partials, &sums, SHARDS, cols, false)
        }),
        _ => bail!("no operation `{op}` over a table"),
    })
}

fn flat(device: &Device, op: &str, n: usize) -> Result<Launches> {
    let make = Maker(device);
    let (x, y) = (make.values(n)?, make.values(n)?);
    let out = make.empty(1)?;
    let device = device.clone();
    Ok(match op {
        "global_norm" => Box::new(move || global_norm(&device, &x, &out)),
        "add" => {
            let sum = make.empty(x.len())?;
            Box::new(move || elementwise::add(&device, &x, &y, &sum))
        }
        "adamw" => {
            let (mean, square) = (make.empty(x.len())?, make.empty(x.len())?);
            let hyper = device.buffer_of::<u32>(&Hyper::default().to_words())?;
            let clip = device.buffer_of(&[1.0])?;
            Box::new(move || {
                let update = Update::new(&x, &y, &hyper, &clip);
                adamw_step(&device, &update, &mean, &square)
            })
        }
        "tree_digest" => {
            let whole = TensorSpan {
                name: op.to_owned(),
                shape: vec![n],
                offset: 0,
            };
            let digester = TreeDigester::new(&device, DigestKind::F32, vec![whole])?;
            Box::new(move || digester.launch(&x))
        }
        _ => bail!("no operation `{op}` over a flat buffer"),
    })
}
