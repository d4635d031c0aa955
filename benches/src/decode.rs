//! `hlx-bench decode`: a step of generation of a model shaped like Qwen3-0.6B or a Llama, and the floor that the
//! arithmetic sets it.
//!
//! A step appends a token to each row and computes its logits, after a given number of cached tokens: `TokenStep`, as
//! `hlx generate` runs it, except for the download of the logits and the draw. The floor counts three things:
//! - *chains*: an element of a product is one chain of fused multiply-adds, so a product takes as many of
//!   them one after the other as its K. What one takes is measured, by products of one workgroup that
//!   differ in K alone.
//! - *launches* that depend on each other, with the barrier between two: measured on sums of one
//!   row.
//! - *bytes* of the weights and the cache, at the rate of the device's copies.
//!
//! Chains and launches come one after the other; bytes may move meanwhile, and the floor takes the larger.
//!
//! Two lines have the download too: of the logits, and of the likeliest token alone. The last one is the time to
//! the first token: from the ids of the whole prompt on the host to the logits after it.

use anyhow::{Context as _, Result};
use hlx_autograd::{DType, Tensor, no_grad};
use hlx_core::{Arithmetic, Device, Graph, TimingReport};
use hlx_gguf::Recipe;
use hlx_kernels::product::{MatMul, matmul};
use hlx_kernels::reduce::column_sum;
use hlx_nn::{
    CausalConfig, CausalLm, CausalModel, InferenceModel, KvCache, Parameter, ParameterBuilder,
    TokenStep,
};
use hlx_proof::peak::measure;

use crate::blocks;
use crate::maker::Maker;
use crate::measure::{Ready, in_a_row, keeping_unread};
use crate::profile::profile_text;
use crate::{print, say};

/// What is measured.
#[derive(clap::Args)]
pub struct Arguments {
    /// auto, cpu, vulkan or vulkan:N; the environment variable HLX_DEVICE wins.
    #[arg(long, value_name = "DEVICE", default_value = "auto")]
    device: String,
    /// The model's shape.
    #[arg(long, value_enum, default_value_t = ModelShape::Qwen3)]
    shape: ModelShape,
    /// How weights are stored: bf16, f16 or f32; or in blocks, as `hlx quantize --to` names them, such as q4_k_m. Their
    /// arithmetic is integer.
    #[arg(long, value_name = "TYPE", default_value = "bf16")]
    dtype: String,
    /// What products are computed in: portable, integer, fast (bf16) or fast_f16. The floor of the latter three is that of
    /// their bytes, as sums are free.
    #[arg(long, value_name = "NAME", default_value_t = Arithmetic::Portable)]
    arithmetic: Arithmetic,
    /// Sequences that are generated together.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=256))]
    rows: u32,
    /// Tokens in the cache.
    #[arg(long, value_name = "N", default_value_t = 512, value_parser = clap::value_parser!(u32).range(1..=32_768))]
    tokens: u32,
    /// Layers, where they are fewer than the model's.
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=32))]
    layers: u32,
    /// Rows of the vocabulary, where they are fewer than the model's: for devices whose largest binding is smaller.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..))]
    vocabulary: Option<u32>,
    /// Seconds a measurement.
    #[arg(long, value_name = "SECONDS", default_value_t = 2.0)]
    seconds: f64,
    /// A small model, to see that everything works.
    #[arg(long)]
    quick: bool,
}

/// The shapes by name.
#[derive(Clone, Copy, clap::ValueEnum)]
pub enum ModelShape {
    /// Qwen3-0.6B.
    Qwen3,
    /// Llama 3.2 1B.
    #[value(name = "llama-1b")]
    Llama1B,
    /// Llama 3.1 8B.
    #[value(name = "llama-8b")]
    Llama8B,
    /// Qwen3 30B-A3B, a mixture of experts.
    #[value(name = "qwen3-moe")]
    Qwen3Moe,
}

impl ModelShape {
    /// What `--shape` calls it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Qwen3 => "qwen3",
            Self::Llama1B => "llama-1b",
            Self::Llama8B => "llama-8b",
            Self::Qwen3Moe => "qwen3-moe",
        }
    }

    /// Its configuration, with all layers.
    ///
    /// # Errors
    /// HLX has no preset of its name.
    pub fn config(self) -> Result<CausalConfig> {
        let llama = || CausalConfig::preset("llama3").context("no preset of Llama 3");
        match self {
            Self::Qwen3 => qwen3(),
            Self::Llama1B => llama(),
            Self::Qwen3Moe => {
                CausalConfig::preset("qwen3_moe").context("no preset of Qwen3's mixture")
            }
            Self::Llama8B => Ok(CausalConfig {
                width: 4096,
                n_layers: 32,
                head_width: 128,
                feed_forward_width: 14_336,
                tied_output: false,
                ..llama()?
            }),
        }
    }
}

/// How weights are stored.
#[derive(Clone, Copy)]
enum Storage {
    Floats(DType),
    Blocks(Recipe),
}

impl Storage {
    fn named(name: &str) -> Result<Self> {
        Ok(match name {
            "bf16" => Self::Floats(DType::BF16),
            "f16" => Self::Floats(DType::F16),
            "f32" => Self::Floats(DType::F32),
            other => Self::Blocks(Recipe::named(other).with_context(|| {
                let recipes = Recipe::ALL.map(Recipe::name).join(", ");
                format!("--dtype is {other}, expected bf16, f16, f32, {recipes}")
            })?),
        })
    }

    /// The type of what is not in blocks.
    fn dtype(self) -> DType {
        match self {
            Self::Floats(dtype) => dtype,
            Self::Blocks(_) => DType::F32,
        }
    }
}

/// What is generated after the prompt.
#[derive(Clone)]
struct Shape {
    config: CausalConfig,
    rows: usize,
    tokens: usize,
}

/// Launches of a layer that follow each other: queries, keys and values of the normed stream; their norms,
/// rotation and places in the cache; scores; sums of values; the product back and the residual; gate and up
/// of the normed stream; the product back of what the gate lets through, and the residual.
const LEVELS: usize = 7;
/// Those besides: the embedding, what each query sees, the last norm, the logits.
const OTHER_LEVELS: usize = 4;
/// Tokens of a pass that fills the cache.
const PROMPT: usize = 512;

impl Shape {
    fn of(arguments: &Arguments) -> Result<Self> {
        let tokens = match arguments.quick {
            true => QUICK_TOKENS,
            false => arguments.tokens as usize,
        };
        let mut config = match arguments.quick {
            true => quick()?,
            false => arguments.shape.config()?,
        };
        config.n_layers = config.n_layers.min(arguments.layers as usize);
        config.max_positions = tokens;
        if let Some(vocabulary) = arguments.vocabulary {
            config.vocabulary = config.vocabulary.min(vocabulary as usize);
        }
        let rows = arguments.rows as usize;
        Ok(Self {
            config,
            rows,
            tokens,
        })
    }

    fn queries(&self) -> usize {
        self.config.n_heads * self.config.head_width
    }

    fn keys(&self) -> usize {
        self.config.n_kv_heads * self.config.head_width
    }

    /// Multiply-adds that follow each other in products; those of attention are a query's with a key, and
    /// a value's element over all keys.
    fn chained(&self) -> usize {
        let config = &self.config;
        let hidden = config.experts.as_ref().map(|experts| experts.width);
        let hidden = hidden.unwrap_or(config.feed_forward_width);
        let products = 2 * config.width + self.queries() + hidden;
        config.n_layers * (products + config.head_width + self.tokens) + config.width
    }

    fn launches(&self) -> usize {
        self.config.n_layers * LEVELS + OTHER_LEVELS
    }

    /// Bytes of the keys and values of all tokens.
    fn cached_bytes(&self) -> usize {
        8 * self.config.n_layers * self.rows * self.tokens * self.keys()
    }
}

/// The configuration of Qwen3-0.6B.
fn qwen3() -> Result<CausalConfig> {
    CausalConfig::preset("qwen3").context("no preset of Qwen3")
}

const QUICK_TOKENS: usize = 40;

/// A small shape, to see that everything works.
///
/// # Errors
/// As [`ModelShape::config`].
pub fn quick() -> Result<CausalConfig> {
    Ok(CausalConfig {
        vocabulary: 512,
        width: 64,
        n_layers: 1,
        n_heads: 4,
        n_kv_heads: 2,
        head_width: 16,
        feed_forward_width: 96,
        ..qwen3()?
    })
}

/// A model whose cache holds a number of tokens.
struct Generation {
    device: Device,
    shape: Shape,
    model: InferenceModel<CausalLm>,
}

impl Generation {
    fn new(device: &Device, shape: Shape, storage: Storage) -> Result<Self> {
        let declare = |b: &mut ParameterBuilder| CausalLm::new(b, &shape.config);
        let blocks = |parameter: &Parameter| match storage {
            Storage::Floats(_) => Ok(None),
            Storage::Blocks(recipe) => {
                blocks::of_parameter(device, &shape.config, recipe, parameter)
            }
        };
        let model = InferenceModel::with_blocks(device, storage.dtype(), declare, blocks)?;
        for parameter in model.parameters() {
            if parameter.tensor()?.is_of_blocks() {
                continue;
            }
            let values = Maker(device).values(parameter.n_elements())?;
            // Small enough that activations stay ordinary numbers.
            let values = Tensor::from_buffer(device, values, parameter.shape())?.mul(0.05)?;
            let mut weight = parameter.tensor()?;
            no_grad(|| weight.copy_(&values).map(drop))?;
        }
        Ok(Self {
            device: device.clone(),
            shape,
            model,
        })
    }

    /// A cache with all tokens but one.
    fn cache(&self) -> Result<KvCache> {
        let (rows, tokens) = (self.shape.rows, self.shape.tokens);
        let mut cache = self.model.cache(&self.device, rows, tokens)?;
        let mut held = 0;
        while held + 1 < tokens {
            let time = PROMPT.min(tokens - 1 - held);
            self.append(time, &mut cache)?;
            held += time;
        }
        Ok(cache)
    }

    /// Appends this many tokens to each sequence; the logits of the next ones.
    fn append(&self, time: usize, cache: &mut KvCache) -> Result<Tensor> {
        let rows = self.shape.rows;
        let ids = Tensor::from_slice::<u32>(&self.device, &vec![1; rows * time], &[rows, time])?;
        let last: Vec<u32> = (1..=rows).map(|row| (row * time - 1) as u32).collect();
        let last = Tensor::from_slice::<u32>(&self.device, &last, &[rows])?;
        let new = vec![time; rows];
        Ok(no_grad(|| {
            self.model.logits_cached(&ids, &new, Some(&last), cache)
        })?)
    }

    /// Milliseconds from a prompt of all tokens to the logits after it.
    fn first_ms(&self, seconds: f64) -> Result<f64> {
        let (rows, tokens) = (self.shape.rows, self.shape.tokens);
        let mut cache = self.model.cache(&self.device, rows, tokens)?;
        in_a_row(&self.device, seconds, |count| {
            (0..count).try_for_each(|_| {
                cache.truncate(&vec![0; rows])?;
                self.append(tokens, &mut cache).map(drop)
            })
        })
    }

    /// The time of each kernel of the first token, or of a step.
    fn profile(&self, first: bool) -> Result<TimingReport> {
        let (rows, tokens) = (self.shape.rows, self.shape.tokens);
        self.device.set_timing(true);
        let timed = || -> Result<TimingReport> {
            let mut cache = match first {
                true => self.model.cache(&self.device, rows, tokens)?,
                false => self.cache()?,
            };
            let held = cache.lengths().to_vec();
            let mut step = TokenStep::new(&*self.model);
            let mut report = None;
            // The last one counts: the first makes pipelines.
            for _ in 0..3 {
                cache.truncate(&held)?;
                self.device.take_timing()?;
                match first {
                    true => self.append(tokens, &mut cache)?,
                    false => step.logits(&vec![1; rows], &mut cache)?,
                };
                report = Some(self.device.take_timing()?);
            }
            report.context("nothing was timed")
        };
        let report = timed();
        self.device.set_timing(false);
        report
    }

    /// Milliseconds of a token, including the host's part, except for the download of its logits, and the launches.
    fn step_ms(&self, seconds: f64) -> Result<(f64, usize)> {
        let (rows, tokens) = (self.shape.rows, self.shape.tokens);
        let mut cache = self.cache()?;
        let mut step = TokenStep::new(&*self.model);
        let ms = in_a_row(&self.device, seconds, |count| {
            (0..count).try_for_each(|_| {
                cache.truncate(&vec![tokens - 1; rows])?;
                Ok(step.logits(&vec![1; rows], &mut cache).map(drop)?)
            })
        })?;
        Ok((ms, step.n_launches()))
    }

    /// Milliseconds of a token and the next one's logits, or itself where the likeliest is taken, on the host.
    fn token_ms(&self, seconds: f64, is_likeliest: bool) -> Result<f64> {
        let (rows, tokens) = (self.shape.rows, self.shape.tokens);
        let (mut cache, ids) = (self.cache()?, vec![1; rows]);
        let mut step = TokenStep::new(&*self.model);
        in_a_row(&self.device, seconds, |count| {
            (0..count).try_for_each(|_| {
                cache.truncate(&vec![tokens - 1; rows])?;
                match is_likeliest {
                    true => drop(step.likeliest(&ids, &mut cache)?.to_vec::<u32>()?),
                    false => drop(step.logits(&ids, &mut cache)?.to_vec::<f32>()?),
                }
                Ok(())
            })
        })
    }

    /// Bytes of the weights that a step of one sequence reads: of a mixture those of as many experts as a token has, if all
    /// weights take as many bits.
    fn read_bytes(&self) -> usize {
        let bytes = self.model.n_bytes() as f64;
        let Some(experts) = &self.shape.config.experts else {
            return self.model.n_bytes();
        };
        let (mut all, mut of_experts) = (0, 0);
        for parameter in self.model.parameters() {
            let is_of_expert = parameter.name().contains(".experts.");
            all += parameter.n_elements();
            of_experts += usize::from(is_of_expert) * parameter.n_elements();
        }
        let read = experts.per_token as f64 / experts.n_experts as f64;
        (bytes * (1.0 - of_experts as f64 / all as f64 * (1.0 - read))) as usize
    }

    /// The products of a step alone, each waiting for those before it as in the step.
    fn products(&self) -> Result<()> {
        let weight = |name: &str| -> Result<Tensor> {
            let parameters = self.model.parameters().iter();
            let mut named = parameters.filter(|parameter| parameter.name() == name);
            let parameter = named
                .next()
                .with_context(|| format!("no parameter {name}"))?;
            Ok(parameter.tensor()?)
        };
        let config = &self.shape.config;
        let mut x = Tensor::ones(&self.device, &[self.shape.rows, config.width], DType::F32)?;
        for layer in 0..config.n_layers {
            let of_layer = |name: &str| weight(&format!("model.layers.{layer}.{name}.weight"));
            let q = x.linear(&of_layer("self_attn.q_proj")?, None)?;
            x.linear(&of_layer("self_attn.k_proj")?, None)?;
            x.linear(&of_layer("self_attn.v_proj")?, None)?;
            x = q.linear_add(&of_layer("self_attn.o_proj")?, None, &x)?;
            // Of a mixture as many experts as a token has.
            let networks: Vec<String> = match &config.experts {
                None => vec!["mlp".to_owned()],
                Some(experts) => {
                    let expert = |idx: usize| format!("mlp.experts.{idx}");
                    (0..experts.per_token).map(expert).collect()
                }
            };
            for network in networks {
                let of_network = |name: &str| of_layer(&format!("{network}.{name}"));
                let gate = x.linear(&of_network("gate_proj")?, None)?;
                x.linear(&of_network("up_proj")?, None)?;
                x = gate.linear_add(&of_network("down_proj")?, None, &x)?;
            }
        }
        let output = match config.tied_output {
            true => "model.embed_tokens.weight",
            false => "lm_head.weight",
        };
        x.linear(&weight(output)?, None)?;
        Ok(())
    }
}

/// Milliseconds of a recorded graph.
fn timed(device: &Device, seconds: f64, graph: &Graph) -> Result<f64> {
    in_a_row(device, seconds, |count| {
        Ok((0..count).try_for_each(|_| graph.replay())?)
    })
}

/// Nanoseconds of a term of a chain: by products of eight columns over 8,192 and 40,960 terms.
fn term_ns(device: &Device, seconds: f64, dtype: DType) -> Result<f64> {
    let time = |k: usize| -> Result<f64> {
        let make = Maker(device);
        let (x, y) = (make.values(k)?, make.empty(8)?);
        let weight = Tensor::from_buffer(device, make.values(8 * k)?, &[8, k])?.to_dtype(dtype)?;
        let weight = weight.buffer()?;
        let shape = MatMul {
            trans_b: true,
            ..MatMul::new(1, 8, k)
        };
        let of = device.clone();
        let launches = move || matmul(&of, &x, &weight, None, &y, &shape);
        Ready::Launches(Box::new(launches)).run_in_a_row(device, seconds)
    };
    Ok((time(40_960)? - time(8192)?) * 1e6 / 32_768.0)
}

/// Microseconds of a launch that waits for the one before it.
fn launch_us(device: &Device, seconds: f64) -> Result<f64> {
    const LAUNCHES: usize = 200;
    let (x, y) = (Maker(device).values(64)?, Maker(device).empty(64)?);
    // Column sums are not element-wise launches, which a recording would join.
    let (graph, ()) = device.record(|| {
        (0..LAUNCHES / 2).try_for_each(|_| {
            column_sum(device, &x, &y, 1, 1, 64, false)?;
            column_sum(device, &y, &x, 1, 1, 64, false)
        })
    })?;
    Ok(timed(device, seconds, &graph)? * 1e3 / LAUNCHES as f64)
}

/// Measures a step, and prints it beside its floor.
///
/// # Errors
/// An unknown type; what the device reports.
pub fn run(arguments: &Arguments) -> Result<()> {
    let storage = Storage::named(&arguments.dtype)?;
    let dtype = storage.dtype();
    let arithmetic = match storage {
        Storage::Floats(_) => arguments.arithmetic,
        Storage::Blocks(_) => Arithmetic::Integer,
    };
    let device = Device::open_from_env(&arguments.device)?.in_arithmetic(arithmetic)?;
    let (shape, seconds) = (Shape::of(arguments)?, arguments.seconds);
    let peak = measure(&device)?;
    let (term, launch) = (
        term_ns(&device, seconds, dtype)?,
        launch_us(&device, seconds)?,
    );
    let generation = Generation::new(&device, shape.clone(), storage)?;
    say!("{}, {}", device.info(), device.info().driver);
    say!(
        "{} layers, {} MB of weights in {}, {} rows, {} tokens in the cache, {}",
        shape.config.n_layers,
        generation.model.n_bytes() / 1_000_000,
        arguments.dtype,
        shape.rows,
        shape.tokens,
        arithmetic
    );
    let chains_ms = shape.chained() as f64 * term * 1e-6;
    let launches_ms = shape.launches() as f64 * launch * 1e-3;
    let weights = match (arithmetic, storage) {
        // A byte each, once they are prepared.
        (Arithmetic::Integer, Storage::Floats(dtype)) => generation.read_bytes() / dtype.size(),
        _ => generation.read_bytes(),
    };
    let bytes = (weights + shape.cached_bytes()) as f64;
    let bytes_ms = bytes / peak.bytes * 1e3;
    let floor = match arithmetic {
        Arithmetic::Portable => (chains_ms + launches_ms).max(bytes_ms),
        Arithmetic::Integer | Arithmetic::Fast(_) => bytes_ms,
    };
    // The integers of the weights are made before a graph is recorded, as by a prompt.
    no_grad(|| generation.products())?;
    let (products, ()) = no_grad(|| keeping_unread(&device)?.record(|| generation.products()))?;
    let products_ms = timed(&device, seconds, &products)?;
    drop(products);
    let (step_ms, n_launches) = generation.step_ms(seconds)?;
    let line = |what: &str, ms: f64, detail: String| say!("{what:<10} {ms:8.3} ms  {detail}");
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
        n_launches
    );
    line("step", step_ms, detail);
    for (what, is_likeliest) in [("logits", false), ("likeliest", true)] {
        let ms = generation.token_ms(seconds, is_likeliest)?;
        line(what, ms, format!("{}, on the host", tokens(ms)));
    }
    let first_ms = generation.first_ms(seconds)?;
    let prompt = (shape.rows * shape.tokens) as f64;
    line(
        "first",
        first_ms,
        format!("{:.0} tokens/s of the prompt", prompt / first_ms * 1e3),
    );
    for (what, first) in [("A step", false), ("The first token", true)] {
        print::on_stdout(format_args!(
            "\n{what}:{}",
            profile_text(&generation.profile(first)?)
        ));
    }
    Ok(())
}

/// Computes the logits of a step of a small model with weights of a type: for tests.
///
/// # Errors
/// What the device reports.
pub fn small_logits(device: &Device, dtype: DType) -> Result<Vec<f32>> {
    let shape = Shape {
        config: quick()?,
        rows: 1,
        tokens: QUICK_TOKENS,
    };
    let generation = Generation::new(device, shape, Storage::Floats(dtype))?;
    no_grad(|| generation.products())?;
    let (mut cache, mut step) = (generation.cache()?, TokenStep::new(&*generation.model));
    Ok(step.logits(&[1], &mut cache)?.to_vec::<f32>()?)
}
