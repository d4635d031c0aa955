//! A case made ready on a device: its buffers, and the launches of one run.

use anyhow::{Context as _, Result, bail};
use hlx_core::{Buffer, Context};
use hlx_kernels::activation::{Activation, activation_backward, activation_forward};
use hlx_kernels::attention::{AttentionShape, attention_backward, attention_forward};
use hlx_kernels::cross_entropy::{cross_entropy_backward, cross_entropy_forward};
use hlx_kernels::embedding::{embedding_backward, embedding_forward};
use hlx_kernels::layer_norm::{
    layer_norm_backward_input, layer_norm_backward_params, layer_norm_forward,
};
use hlx_kernels::matmul::{Epilogue, MatMul, matmul, matmul_with};
use hlx_kernels::optimizer::{Hyper, Update, adamw_step};
use hlx_kernels::reduce::{column_sum, global_norm, shard_sum};
use hlx_kernels::softmax::{softmax_backward, softmax_forward};
use hlx_kernels::tree_digest::{DigestKind, TensorSpan, TreeDigester};
use hlx_kernels::{KernelError, elementwise};

use crate::axes::axes;
use crate::cases::Case;
use crate::chains::chains;
use crate::convolution::convolution;
use crate::integers;
use crate::norms::norms;
use crate::recurrent::lstm;
use crate::strided::strided;

/// The launches of one run of an operation.
pub type Launches = Box<dyn Fn() -> Result<(), KernelError>>;

/// Shards of a batch, as a training run has them by default.
pub(crate) const SHARDS: usize = 8;
const EPSILON: f32 = 1e-5;

/// An integer spread over all 32 bits (the finalizer of MurmurHash3).
pub fn scramble(mut x: u32) -> u32 {
    x = (x ^ (x >> 16)).wrapping_mul(0x85eb_ca6b);
    x = (x ^ (x >> 13)).wrapping_mul(0xc2b2_ae35);
    x ^ (x >> 16)
}

/// Makes buffers of a case.
pub(crate) struct Maker<'a>(pub &'a Context);

impl Maker<'_> {
    /// Values spread evenly over -1 to 1: real data, which costs a chip more power than zeros.
    pub fn values(&self, len: usize) -> Result<Buffer> {
        let value = |i: usize| scramble(i as u32) as f32 / (1_u64 << 31) as f32 - 1.0;
        Ok(self
            .0
            .buffer_f32(&(0..len).map(value).collect::<Vec<_>>())?)
    }

    pub fn ids(&self, len: usize, below: usize) -> Result<Buffer> {
        let ids: Vec<u32> = (0..len as u32)
            .map(|i| scramble(i) % below as u32)
            .collect();
        Ok(self.0.buffer_u32(&ids)?)
    }

    pub fn empty(&self, len: usize) -> Result<Buffer> {
        let buffer = self.0.alloc(len)?;
        self.0.fill(&buffer, 0)?;
        Ok(buffer)
    }
}

/// Prepares an operation: every case but a step.
///
/// # Errors
/// A device without the memory; an operation that does not exist.
pub fn prepare(ctx: &Context, case: &Case) -> Result<Launches> {
    let op = case.op.as_str();
    match case.sizes[..] {
        _ if case.family() == "norm" => norms(ctx, op, &case.sizes),
        _ if case.family() == "strided" => strided(ctx, op, &case.sizes),
        [batch, time, input, units] if case.family() == "lstm" => {
            lstm(ctx, op == "lstm_backward", [batch, time, input, units])
        }
        [n, c, d, extent, kernel] => convolution(ctx, op, [n, c, d, extent, kernel]),
        [m, n, k] if case.family() == "integer" => integers::product(ctx, op, [m, n, k]),
        [m, n, k] if case.family() == "matmul" => product(ctx, op, [m, n, k]),
        [n, vocabulary, width] => embedding(ctx, op, [n, vocabulary, width]),
        [batch, time, heads, head_width] => {
            let shape = AttentionShape {
                batch,
                time,
                heads,
                head_width,
            };
            match op {
                "integer_attention_forward" => integers::attention(ctx, false, shape),
                "integer_attention_backward" => integers::attention(ctx, true, shape),
                _ => attention(ctx, op == "attention_backward", shape),
            }
        }
        [rows, cols] => match case.family() {
            "axes" => axes(ctx, op, [rows, cols]),
            "chains" => chains(ctx, op, rows, cols),
            "layer_norm" => layer_norm(ctx, op, rows, cols),
            "cross_entropy" => loss(ctx, op == "cross_entropy_backward", rows, cols),
            _ => table(ctx, op, rows, cols),
        },
        [n] => flat(ctx, op, n),
        _ => bail!("{} is no single operation", case.name()),
    }
}

/// Runs an operation's launches once, so that what a backward needs is there.
pub(crate) fn first(launches: impl Fn() -> Result<(), KernelError>) -> Result<()> {
    launches().context("preparing")
}

fn product(ctx: &Context, op: &str, [m, n, k]: [usize; 3]) -> Result<Launches> {
    let make = Maker(ctx);
    let (a, b) = (make.values(m * k)?, make.values(k * n)?);
    let (bias, c) = (make.values(n)?, make.empty(m * n)?);
    let ctx = ctx.clone();
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
                matmul(&ctx, &a, &b, None, &partials, &shape)?;
                shard_sum(&ctx, &partials, &c, SHARDS, m * n, false)
            })
        }
        "linear" => Box::new(move || matmul(&ctx, &a, &b, Some(&bias), &c, &shape)),
        "linear_gelu" => {
            let y = make.empty(m * n)?;
            Box::new(move || {
                let epilogue = Epilogue::Activation {
                    kind: Activation::Gelu,
                    out: &y,
                };
                matmul_with(&ctx, &a, &b, Some(&bias), &c, &shape, epilogue)
            })
        }
        _ => Box::new(move || matmul(&ctx, &a, &b, None, &c, &shape)),
    })
}

fn embedding(ctx: &Context, op: &str, [n, vocabulary, width]: [usize; 3]) -> Result<Launches> {
    let make = Maker(ctx);
    let (ids, rows) = (make.ids(n, vocabulary)?, make.values(n * width)?);
    let weight = make.values(vocabulary * width)?;
    let ctx = ctx.clone();
    if op == "embedding_forward" {
        return Ok(Box::new(move || {
            embedding_forward(&ctx, &ids, &weight, &rows, n, vocabulary, width)
        }));
    }
    let partials = make.empty(SHARDS * vocabulary * width)?;
    Ok(Box::new(move || {
        let per_shard = n / SHARDS;
        embedding_backward(
            &ctx, &ids, &rows, &partials, SHARDS, per_shard, vocabulary, width, false,
        )?;
        shard_sum(&ctx, &partials, &weight, SHARDS, vocabulary * width, false)
    }))
}

fn attention(ctx: &Context, backward: bool, shape: AttentionShape) -> Result<Launches> {
    let make = Maker(ctx);
    let queries = shape.batch * shape.time * shape.heads;
    let width = shape.head_width;
    let (qkv, o) = (
        make.values(3 * queries * width)?,
        make.empty(queries * width)?,
    );
    let stats = make.empty(2 * queries)?;
    let ctx = ctx.clone();
    if !backward {
        return Ok(Box::new(move || {
            attention_forward(&ctx, &qkv, &o, &stats, &shape)
        }));
    }
    let (d_o, delta) = (make.values(queries * width)?, make.empty(queries)?);
    let dqkv = make.empty(3 * queries * width)?;
    first(|| attention_forward(&ctx, &qkv, &o, &stats, &shape))?;
    Ok(Box::new(move || {
        attention_backward(&ctx, &qkv, &o, &stats, &d_o, &delta, &dqkv, &shape)
    }))
}

fn layer_norm(ctx: &Context, op: &str, rows: usize, cols: usize) -> Result<Launches> {
    let make = Maker(ctx);
    let (x, y) = (make.values(rows * cols)?, make.empty(rows * cols)?);
    let (weight, bias) = (make.values(cols)?, make.values(cols)?);
    let stats = make.empty(2 * rows)?;
    let ctx = ctx.clone();
    if op == "layer_norm_forward" {
        return Ok(Box::new(move || {
            layer_norm_forward(&ctx, &x, &weight, &bias, &y, &stats, rows, cols, EPSILON)
        }));
    }
    first(|| layer_norm_forward(&ctx, &x, &weight, &bias, &y, &stats, rows, cols, EPSILON))?;
    let dy = make.values(rows * cols)?;
    if op == "layer_norm_backward" {
        return Ok(Box::new(move || {
            layer_norm_backward_input(&ctx, &x, &weight, &stats, &dy, &y, rows, cols)
        }));
    }
    let partials = [make.empty(SHARDS * cols)?, make.empty(SHARDS * cols)?];
    Ok(Box::new(move || {
        let [dweight, dbias] = &partials;
        let per_shard = rows / SHARDS;
        layer_norm_backward_params(
            &ctx, &x, &stats, &dy, dweight, dbias, SHARDS, per_shard, cols, false,
        )?;
        shard_sum(&ctx, dweight, &weight, SHARDS, cols, false)?;
        shard_sum(&ctx, dbias, &bias, SHARDS, cols, false)
    }))
}

fn loss(ctx: &Context, backward: bool, rows: usize, classes: usize) -> Result<Launches> {
    let make = Maker(ctx);
    let (logits, targets) = (make.values(rows * classes)?, make.ids(rows, classes)?);
    let (losses, stats) = (make.empty(rows)?, make.empty(2 * rows)?);
    let ctx = ctx.clone();
    let forward = move |ctx: &Context, logits: &Buffer, targets: &Buffer, stats: &Buffer| {
        cross_entropy_forward(ctx, logits, targets, &losses, stats, rows, classes, 0.0)
    };
    if !backward {
        return Ok(Box::new(move || forward(&ctx, &logits, &targets, &stats)));
    }
    first(|| forward(&ctx, &logits, &targets, &stats))?;
    let scale = ctx.buffer_f32(&[1.0 / rows as f32])?;
    let dlogits = make.empty(rows * classes)?;
    Ok(Box::new(move || {
        cross_entropy_backward(
            &ctx, &logits, &targets, &stats, &scale, &dlogits, rows, classes, 0.0,
        )
    }))
}

fn table(ctx: &Context, op: &str, rows: usize, cols: usize) -> Result<Launches> {
    let make = Maker(ctx);
    let (x, y) = (make.values(rows * cols)?, make.empty(rows * cols)?);
    let backward = op.ends_with("_backward");
    let dy = make.values(if backward { rows * cols } else { 0 })?;
    let (partials, sums) = (make.empty(SHARDS * cols)?, make.empty(cols)?);
    let ctx = ctx.clone();
    Ok(match op {
        "softmax_forward" => Box::new(move || softmax_forward(&ctx, &x, &y, rows, cols)),
        "softmax_backward" => {
            let dx = make_like(&ctx, &x)?;
            first(|| softmax_forward(&ctx, &x, &y, rows, cols))?;
            Box::new(move || softmax_backward(&ctx, &y, &dy, &dx, rows, cols))
        }
        "gelu_forward" => Box::new(move || activation_forward(&ctx, Activation::Gelu, &x, &y)),
        "gelu_backward" => {
            Box::new(move || activation_backward(&ctx, Activation::Gelu, &x, &dy, &y))
        }
        "column_sum" => Box::new(move || {
            column_sum(&ctx, &x, &partials, SHARDS, rows / SHARDS, cols, false)?;
            shard_sum(&ctx, &partials, &sums, SHARDS, cols, false)
        }),
        _ => bail!("no operation `{op}` over a table"),
    })
}

fn make_like(ctx: &Context, buffer: &Buffer) -> Result<Buffer> {
    Maker(ctx).empty(buffer.len())
}

fn flat(ctx: &Context, op: &str, n: usize) -> Result<Launches> {
    let make = Maker(ctx);
    let (x, y) = (make.values(n)?, make.values(n)?);
    let out = make.empty(1)?;
    let ctx = ctx.clone();
    Ok(match op {
        "global_norm" => Box::new(move || global_norm(&ctx, &x, &out)),
        "add" => {
            let sum = make_like(&ctx, &x)?;
            Box::new(move || elementwise::add(&ctx, &x, &y, &sum))
        }
        "adamw" => {
            let (mean, square) = (make_like(&ctx, &x)?, make_like(&ctx, &x)?);
            let hyper = ctx.buffer_u32(&Hyper::default().to_words())?;
            let clip = ctx.buffer_f32(&[1.0])?;
            Box::new(move || {
                let update = Update::new(&x, &y, &hyper, &clip);
                adamw_step(&ctx, &update, &mean, &square)
            })
        }
        "tree_digest" => {
            let whole = TensorSpan {
                name: op.to_owned(),
                shape: vec![n],
                offset: 0,
            };
            let digester = TreeDigester::new(&ctx, DigestKind::F32, vec![whole])?;
            Box::new(move || digester.launch(&x))
        }
        _ => bail!("no operation `{op}` over a flat buffer"),
    })
}
