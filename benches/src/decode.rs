//! `hlx-bench decode`: a step of generation of a model shaped like Qwen3-0.6B, and the floor that the
//! arithmetic sets it.
//!
//! A step appends a token to each row and computes its logits, behind so many cached tokens. It is recorded
//! once and replayed, so that no time of the host is in it. The floor counts three things:
//! - *chains*: an element of a product is one chain of fused multiply-adds, so a product takes as many of
//!   them one after the other as its K. What one takes is measured, by products of one workgroup that
//!   differ in K alone.
//! - *launches* that depend on each other, with the barrier between two: measured on sums of one
//!   row.
//! - *bytes* of the weights and the cache, at the rate of the device's copies.
//!
//! Chains and launches come one after the other; bytes may move meanwhile, and the floor takes the larger.

use anyhow::{Result, bail};
use hlx_autograd::{Activation, AttentionSpec, AutogradError, DType, Tensor, no_grad};
use hlx_core::{Context, Graph};
use hlx_kernels::matmul::{MatMul, matmul};
use hlx_kernels::reduce::column_sum;
use hlx_proof::peak::measure;

use crate::measure::{Ready, in_a_row};
use crate::work::Maker;

/// What is measured.
#[derive(clap::Args)]
pub struct Arguments {
    /// auto, cpu, vulkan or vulkan:N; the environment variable HLX_DEVICE wins.
    #[arg(long, value_name = "DEVICE", default_value = "auto")]
    device: String,
    /// How weights are stored: bf16, f16 or f32.
    #[arg(long, value_name = "TYPE", default_value = "bf16")]
    dtype: String,
    /// Sequences that are generated together.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=256))]
    rows: u32,
    /// Tokens in the cache.
    #[arg(long, value_name = "N", default_value_t = 512, value_parser = clap::value_parser!(u32).range(1..=32_768))]
    tokens: u32,
    /// Layers; the model has 28.
    #[arg(long, value_name = "N", default_value_t = 28, value_parser = clap::value_parser!(u32).range(1..=28))]
    layers: u32,
    /// Seconds a measurement.
    #[arg(long, value_name = "SECONDS", default_value_t = 2.0)]
    seconds: f64,
    /// A small model, to see that everything works.
    #[arg(long)]
    quick: bool,
}

/// The extents of the model.
#[derive(Clone, Copy)]
struct Shape {
    width: usize,
    heads: usize,
    key_heads: usize,
    head_width: usize,
    hidden: usize,
    vocabulary: usize,
    layers: usize,
    rows: usize,
    tokens: usize,
}

/// `config.json` of Qwen3-0.6B.
const QWEN3: Shape = Shape {
    width: 1024,
    heads: 16,
    key_heads: 8,
    head_width: 128,
    hidden: 3072,
    vocabulary: 151_936,
    layers: 28,
    rows: 1,
    tokens: 512,
};
const QUICK: Shape = Shape {
    width: 64,
    heads: 4,
    key_heads: 2,
    head_width: 16,
    hidden: 96,
    vocabulary: 512,
    layers: 1,
    rows: 1,
    tokens: 40,
};
const EPSILON: f32 = 1e-6;
/// Launches of a layer that follow each other: norm; products of q, k and v; their norms; rotation; the
/// cache; attention; its product and the residual; norm; gate and up; the gate's activation, joined with
/// the product by element; down and the residual.
const LEVELS: usize = 11;

impl Shape {
    fn of(arguments: &Arguments) -> Self {
        let shape = if arguments.quick { QUICK } else { QWEN3 };
        Self {
            rows: arguments.rows as usize,
            layers: shape.layers.min(arguments.layers as usize),
            tokens: match arguments.quick {
                true => shape.tokens,
                false => arguments.tokens as usize,
            },
            ..shape
        }
    }

    fn queries(&self) -> usize {
        self.heads * self.head_width
    }

    fn keys(&self) -> usize {
        self.key_heads * self.head_width
    }

    /// Parameters in matrices; the embedding's is the output's.
    fn parameters(&self) -> usize {
        let attention = self.width * (2 * self.queries() + 2 * self.keys());
        self.layers * (attention + 3 * self.width * self.hidden) + self.vocabulary * self.width
    }

    /// Multiply-adds that follow each other in products; those of attention are a query's with a key, and
    /// a value's element over all keys.
    fn chained(&self) -> usize {
        let products = 2 * self.width + self.queries() + self.hidden;
        self.layers * (products + self.head_width + self.tokens) + self.width
    }

    fn launches(&self) -> usize {
        self.layers * LEVELS + 2
    }

    fn bytes(&self, dtype: DType) -> usize {
        let cache = 2 * self.layers * self.rows * self.tokens * self.keys();
        self.parameters() * dtype.size() + 4 * cache
    }
}

/// The weights of a layer, its cache, and the place of the token in it.
struct Layer {
    qkv: [Tensor; 3],
    out: Tensor,
    gate: Tensor,
    up: Tensor,
    down: Tensor,
    norms: [Tensor; 2],
    head_norms: [Tensor; 2],
    cache: [Tensor; 2],
}

/// A model behind so many tokens.
struct Model {
    shape: Shape,
    layers: Vec<Layer>,
    table: Tensor,
    final_norm: Tensor,
    ids: Tensor,
    positions: Tensor,
    frequencies: Tensor,
}

impl Model {
    fn new(ctx: &Context, shape: Shape, dtype: DType) -> Result<Self> {
        let values = |extents: &[usize]| -> Result<Tensor> {
            let buffer = Maker(ctx).values(extents.iter().product())?;
            // Small enough that activations stay ordinary numbers.
            Ok(Tensor::from_buffer(ctx, buffer, extents)?.scale(0.05)?)
        };
        let weight = |n, k| Ok::<_, anyhow::Error>(values(&[n, k])?.to_dtype(dtype)?);
        let (width, hidden) = (shape.width, shape.hidden);
        let cached = [shape.rows, shape.tokens, shape.key_heads, shape.head_width];
        let layer = |_| -> Result<Layer> {
            Ok(Layer {
                qkv: [
                    weight(shape.queries(), width)?,
                    weight(shape.keys(), width)?,
                    weight(shape.keys(), width)?,
                ],
                out: weight(width, shape.queries())?,
                gate: weight(hidden, width)?,
                up: weight(hidden, width)?,
                down: weight(width, hidden)?,
                norms: [values(&[width])?, values(&[width])?],
                head_norms: [values(&[shape.head_width])?, values(&[shape.head_width])?],
                cache: [values(&cached)?, values(&cached)?],
            })
        };
        let ids = vec![1; shape.rows];
        let positions = vec![shape.tokens as u32 - 1; shape.rows];
        Ok(Self {
            shape,
            layers: (0..shape.layers).map(layer).collect::<Result<_>>()?,
            table: weight(shape.vocabulary, width)?,
            final_norm: values(&[width])?,
            ids: Tensor::ids(ctx, &ids, &[shape.rows, 1])?,
            positions: Tensor::ids(ctx, &positions, &[shape.rows, 1])?,
            frequencies: values(&[shape.head_width / 2])?,
        })
    }

    /// Logits of the token behind the cached ones, whose last place it takes.
    fn step(&self) -> Result<Tensor, AutogradError> {
        let Shape {
            rows, head_width, ..
        } = self.shape;
        let mut x = self.ids.embedding(&self.table)?.to_dtype(DType::F32)?;
        for layer in &self.layers {
            let h = x.rms_norm(&[self.shape.width], Some(&layer.norms[0]), EPSILON)?;
            let project = |weight: &Tensor| {
                let y = h.linear(weight, None)?;
                y.reshape(&[rows, 1, weight.shape()[0] / head_width, head_width])
            };
            let turned = |x: Tensor, norm| {
                let normed = x.rms_norm(&[head_width], Some(norm), EPSILON)?;
                normed.rope(&self.positions, &self.frequencies, 1.0)
            };
            let q = turned(project(&layer.qkv[0])?, &layer.head_norms[0])?;
            let k = turned(project(&layer.qkv[1])?, &layer.head_norms[1])?;
            let v = project(&layer.qkv[2])?;
            for (cache, new) in layer.cache.iter().zip([&k, &v]) {
                cache.narrow(1, self.shape.tokens - 1, 1)?.copy_(new)?;
            }
            let [keys, values] = &layer.cache;
            let y = q.attention(keys, values, &AttentionSpec::causal())?;
            x = y.flatten(2, 3)?.linear_add(&layer.out, None, &x)?;
            let h = x.rms_norm(&[self.shape.width], Some(&layer.norms[1]), EPSILON)?;
            let gate = h.linear(&layer.gate, None)?.activation(Activation::Silu)?;
            let hidden = gate.mul(&h.linear(&layer.up, None)?)?;
            x = hidden.linear_add(&layer.down, None, &x)?;
        }
        let x = x.rms_norm(&[self.shape.width], Some(&self.final_norm), EPSILON)?;
        x.linear(&self.table, None)
    }

    /// The products of a step alone, each waiting for those before it as in the step.
    fn products(&self) -> Result<(), AutogradError> {
        let (ctx, rows) = (self.ids.context(), self.shape.rows);
        let mut x = Tensor::ones(ctx, &[rows, self.shape.width], DType::F32)?;
        for layer in &self.layers {
            let q = x.linear(&layer.qkv[0], None)?;
            x.linear(&layer.qkv[1], None)?;
            x.linear(&layer.qkv[2], None)?;
            x = q.linear_add(&layer.out, None, &x)?;
            let gate = x.linear(&layer.gate, None)?;
            x.linear(&layer.up, None)?;
            x = gate.linear_add(&layer.down, None, &x)?;
        }
        x.linear(&self.table, None).map(drop)
    }
}

/// Milliseconds of a recorded graph.
fn timed(ctx: &Context, seconds: f64, graph: &Graph) -> Result<f64> {
    in_a_row(ctx, seconds, |count| {
        Ok((0..count).try_for_each(|_| graph.replay())?)
    })
}

/// Nanoseconds of a term of a chain: by products of eight columns over 8,192 and 40,960 terms.
fn term_ns(ctx: &Context, seconds: f64, dtype: DType) -> Result<f64> {
    let time = |k: usize| -> Result<f64> {
        let make = Maker(ctx);
        let (x, y) = (make.values(k)?, make.empty(8)?);
        let weight = Tensor::from_buffer(ctx, make.values(8 * k)?, &[8, k])?.to_dtype(dtype)?;
        let weight = weight.buffer()?;
        let shape = MatMul {
            trans_b: true,
            ..MatMul::new(1, 8, k)
        };
        let of = ctx.clone();
        let launches = move || matmul(&of, &x, &weight, None, &y, &shape);
        Ready::Launches(Box::new(launches)).run_in_a_row(ctx, seconds)
    };
    Ok((time(40_960)? - time(8192)?) * 1e6 / 32_768.0)
}

/// Microseconds of a launch that waits for the one before it.
fn launch_us(ctx: &Context, seconds: f64) -> Result<f64> {
    const LAUNCHES: usize = 200;
    let (x, y) = (Maker(ctx).values(64)?, Maker(ctx).empty(64)?);
    // Column sums are no element-wise launches, which a recording would join.
    let (graph, ()) = ctx.record(|| {
        (0..LAUNCHES / 2).try_for_each(|_| {
            column_sum(ctx, &x, &y, 1, 1, 64, false)?;
            column_sum(ctx, &y, &x, 1, 1, 64, false)
        })
    })?;
    Ok(timed(ctx, seconds, &graph)? * 1e3 / LAUNCHES as f64)
}

/// Measures a step, and prints it beside its floor.
///
/// # Errors
/// An unknown type; what the device reports.
pub fn run(arguments: &Arguments) -> Result<()> {
    let dtype = match arguments.dtype.as_str() {
        "bf16" => DType::BF16,
        "f16" => DType::F16,
        "f32" => DType::F32,
        other => bail!("--dtype is {other}, expected bf16, f16 or f32"),
    };
    let ctx = Context::open_from_env(&arguments.device)?;
    let (shape, seconds) = (Shape::of(arguments), arguments.seconds);
    let peak = measure(&ctx)?;
    println!("{}, {}", ctx.info(), ctx.info().driver);
    println!(
        "{} layers, {} million parameters in {dtype}, {} rows, {} tokens in the cache",
        shape.layers,
        shape.parameters() / 1_000_000,
        shape.rows,
        shape.tokens
    );
    let (term, launch) = (term_ns(&ctx, seconds, dtype)?, launch_us(&ctx, seconds)?);
    let chains_ms = shape.chained() as f64 * term * 1e-6;
    let launches_ms = shape.launches() as f64 * launch * 1e-3;
    let bytes = shape.bytes(dtype) as f64;
    let bytes_ms = bytes / peak.bytes * 1e3;
    let floor = (chains_ms + launches_ms).max(bytes_ms);
    let model = Model::new(&ctx, shape, dtype)?;
    let (products, ()) = no_grad(|| ctx.record(|| model.products()))?;
    let products_ms = timed(&ctx, seconds, &products)?;
    drop(products);
    let (step, _) = no_grad(|| ctx.record(|| model.step()))?;
    let step_ms = timed(&ctx, seconds, &step)?;
    let line = |what: &str, ms: f64, detail: String| println!("{what:<10} {ms:8.3} ms  {detail}");
    line(
        "chains",
        chains_ms,
        format!("{} multiply-adds of {term:.2} ns", shape.chained()),
    );
    line(
        "launches",
        launches_ms,
        format!("{} of {launch:.2} us", shape.launches()),
    );
    let copied = format!(
        "{:.0} MB at {:.0} GB/s of copies",
        bytes * 1e-6,
        peak.bytes * 1e-9
    );
    line("bytes", bytes_ms, copied);
    let tokens = |ms: f64| format!("{:.0} tokens/s", shape.rows as f64 / ms * 1e3);
    line("floor", floor, tokens(floor));
    let moved = |ms: f64| format!("{:.0} GB/s", bytes / ms * 1e-6);
    line("products", products_ms, moved(products_ms));
    let share = 100.0 * floor / step_ms;
    let detail = format!(
        "{}, {}, {share:.0}% of the floor, {} launches",
        tokens(step_ms),
        moved(step_ms),
        step.len()
    );
    line("step", step_ms, detail);
    Ok(())
}

/// Computes the logits of a step of a small model with weights of a type: for tests.
///
/// # Errors
/// What the device reports.
pub fn small_logits(ctx: &Context, dtype: DType) -> Result<Vec<f32>> {
    let model = Model::new(ctx, QUICK, dtype)?;
    no_grad(|| model.products())?;
    Ok(no_grad(|| model.step())?.to_vec()?)
}
