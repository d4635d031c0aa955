//! Burn's side of the comparison: the line protocol of benches/src/serve.rs, on Burn's backend for Vulkan.
//!
//! `burn-peer serve --device vulkan|cpu` says `ready DESCRIPTION`, then answers `run CASE` with the milliseconds of a run
//! and `digest CASE` with SHA-256 of what the case computes: the product, or all parameters after three steps. A case is
//! `matmul MxNxK`, `step mlp` or `step NAME` of a transformer. With `cpu` it takes Vulkan's software driver.
//!
//! Weights are filled from a counter, so that every device begins with the same bits. A step uploads the batch, computes
//! forward and backward passes and updates by AdamW. Burn clips the gradient of each tensor by itself, not all together.

#![recursion_limit = "256"]

mod models;

use std::io::{BufRead, Write};
use std::time::Instant;

use burn::backend::wgpu::WgpuDevice;
use burn::backend::{Autodiff, Wgpu};
use burn::grad_clipping::GradientClippingConfig;
use burn::module::{AutodiffModule, Module, ModuleMapper, ModuleVisitor, Param};
use burn::nn::loss::CrossEntropyLossConfig;
use burn::optim::adaptor::OptimizerAdaptor;
use burn::optim::{AdamW, AdamWConfig, GradientsParams, Optimizer};
use burn::prelude::*;
use sha2::{Digest, Sha256};

use models::{MLP, MLP_BATCH, Mlp, Sizes, Transformer, transformer};

type Plain = Wgpu<f32, i32>;
type Trained = Autodiff<Plain>;
type Answer<T> = Result<T, String>;

const LEARNING_RATE: f64 = 3e-4;
/// Seconds of the tries of an answer, and their number.
const SECONDS: f64 = 0.25;
const TRIES: usize = 5;
/// Steps before the digest.
const STEPS: usize = 3;

/// An integer spread over all 32 bits (the finalizer of MurmurHash3).
fn scramble(mut x: u32) -> u32 {
    x = (x ^ (x >> 16)).wrapping_mul(0x85eb_ca6b);
    x = (x ^ (x >> 13)).wrapping_mul(0xc2b2_ae35);
    x ^ (x >> 16)
}

fn values(n: usize, scale: f32) -> Vec<f32> {
    let value = |place: usize| scramble(place as u32) as f32 / (1_u64 << 31) as f32 - 1.0;
    (0..n).map(|place| scale * value(place)).collect()
}

fn ids(n: usize, below: usize) -> Vec<i32> {
    (0..n as u32).map(|place| (scramble(place) % below as u32) as i32).collect()
}

/// Fills matrices from the counter; norms and biases stay as they are.
struct Filler;

impl<B: Backend> ModuleMapper<B> for Filler {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<B, D>>) -> Param<Tensor<B, D>> {
        param.map(|tensor| {
            let shape = tensor.shape();
            match D {
                2 => {
                    let values = values(shape.num_elements(), 0.03);
                    Tensor::from_data(TensorData::new(values, shape), &tensor.device()).require_grad()
                }
                _ => tensor,
            }
        })
    }
}

/// Hashes the parameters in their order.
struct Hasher(Sha256);

impl<B: Backend> ModuleVisitor<B> for Hasher {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<B, D>>) {
        self.0.update(param.val().into_data().as_bytes());
    }
}

/// What is measured.
enum Case {
    Product(Tensor<Plain, 2>, Tensor<Plain, 2>),
    Mlp(Box<Training<Mlp<Trained>>>),
    Transformer(Box<Training<Transformer<Trained>>>, Sizes),
}

struct Training<M: AutodiffModule<Trained>> {
    model: Option<M>,
    optimizer: OptimizerAdaptor<AdamW, M, Trained>,
}

impl<M: AutodiffModule<Trained>> Training<M> {
    fn new(model: M) -> Self {
        let config = AdamWConfig::new()
            .with_weight_decay(0.01)
            .with_grad_clipping(Some(GradientClippingConfig::Norm(1.0)));
        Self { model: Some(model.map(&mut Filler)), optimizer: config.init() }
    }

    fn step(&mut self, loss_of: impl Fn(&M) -> Tensor<Trained, 1>) -> Answer<()> {
        let model = self.model.take().ok_or("a step had failed")?;
        let gradients = loss_of(&model).backward();
        let gradients = GradientsParams::from_grads(gradients, &model);
        self.model = Some(self.optimizer.step(LEARNING_RATE, model, gradients));
        Ok(())
    }

    fn digest(&self) -> Answer<String> {
        let mut hasher = Hasher(Sha256::new());
        self.model.as_ref().ok_or("a step had failed")?.visit(&mut hasher);
        Ok(hex(hasher.0))
    }
}

fn hex(hasher: Sha256) -> String {
    hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

fn loss(logits: Tensor<Trained, 2>, targets: Tensor<Trained, 1, Int>) -> Tensor<Trained, 1> {
    let device = logits.device();
    CrossEntropyLossConfig::new().init(&device).forward(logits, targets)
}

impl Case {
    fn new(name: &str, device: &WgpuDevice) -> Answer<Self> {
        let unknown = || format!("no case `{name}`");
        let (operation, rest) = name.split_once(' ').ok_or_else(unknown)?;
        match (operation, rest) {
            ("matmul", sizes) => {
                let sizes: Vec<usize> = sizes.split('x').filter_map(|size| size.parse().ok()).collect();
                let [m, n, k] = sizes[..] else { return Err(unknown()) };
                let matrix = |rows: usize, cols: usize| {
                    let data = TensorData::new(values(rows * cols, 1.0), [rows, cols]);
                    Tensor::from_data(data, device)
                };
                Ok(Self::Product(matrix(m, k), matrix(k, n)))
            }
            ("step", "mlp") => Ok(Self::Mlp(Box::new(Training::new(Mlp::new(device))))),
            ("step", model) => {
                let sizes = transformer(model).ok_or_else(unknown)?;
                let model = Transformer::new(&sizes, device);
                Ok(Self::Transformer(Box::new(Training::new(model)), sizes))
            }
            _ => Err(unknown()),
        }
    }

    fn run(&mut self, device: &WgpuDevice) -> Answer<()> {
        match self {
            Self::Product(a, b) => drop(a.clone().matmul(b.clone())),
            Self::Mlp(training) => {
                let inputs = TensorData::new(values(MLP_BATCH * MLP[0], 1.0), [MLP_BATCH, MLP[0]]);
                let targets = TensorData::new(ids(MLP_BATCH, MLP[3]), [MLP_BATCH]);
                training.step(|model| {
                    let logits = model.forward(Tensor::from_data(inputs.clone(), device));
                    loss(logits, Tensor::from_data(targets.clone(), device))
                })?;
            }
            Self::Transformer(training, sizes) => {
                let (b, t) = (sizes.batch, sizes.positions);
                let tokens = ids(b * t + 1, sizes.vocabulary);
                let inputs = TensorData::new(tokens[..b * t].to_vec(), [b, t]);
                let targets = TensorData::new(tokens[1..].to_vec(), [b * t]);
                training.step(|model| {
                    let logits = model.forward(Tensor::from_data(inputs.clone(), device));
                    loss(logits, Tensor::from_data(targets.clone(), device))
                })?;
            }
        }
        Ok(())
    }

    fn digest(&mut self, device: &WgpuDevice) -> Answer<String> {
        if let Self::Product(a, b) = self {
            let data = a.clone().matmul(b.clone()).into_data();
            return Ok(hex(Sha256::new_with_prefix(data.as_bytes())));
        }
        for _ in 0..STEPS {
            self.run(device)?;
        }
        match self {
            Self::Mlp(training) => training.digest(),
            Self::Transformer(training, _) => training.digest(),
            Self::Product(..) => Err("a product has no steps".to_owned()),
        }
    }
}

fn sync(device: &WgpuDevice) -> Answer<()> {
    Plain::sync(device).map_err(|error| format!("{error:?}"))
}

/// Milliseconds a run: the median of several tries, each of many runs.
fn in_a_row(case: &mut Case, device: &WgpuDevice) -> Answer<f64> {
    let mut timed = |count: usize| -> Answer<f64> {
        sync(device)?;
        let start = Instant::now();
        for _ in 0..count {
            case.run(device)?;
        }
        sync(device)?;
        Ok(start.elapsed().as_secs_f64() * 1e3 / count as f64)
    };
    // Burn tries its kernels in the first runs.
    timed(1)?;
    let once = timed(2)?;
    let count = (SECONDS * 1e3 / (TRIES as f64 * once)).clamp(1.0, 1e5) as usize;
    let mut times = (0..TRIES).map(|_| timed(count)).collect::<Answer<Vec<f64>>>()?;
    times.sort_by(f64::total_cmp);
    Ok(times[TRIES / 2])
}

fn answer(line: &str, held: &mut Option<(String, Case)>, device: &WgpuDevice) -> Answer<String> {
    let (verb, name) = line.split_once(' ').ok_or_else(|| format!("`{line}` is no request"))?;
    match verb {
        "digest" => Ok(format!("digest={}", Case::new(name, device)?.digest(device)?)),
        "run" => {
            if held.as_ref().is_none_or(|(other, _)| other != name) {
                *held = Some((name.to_owned(), Case::new(name, device)?));
            }
            let (_, case) = held.as_mut().ok_or("no case")?;
            Ok(format!("ms={:.6}", in_a_row(case, device)?))
        }
        _ => Err(format!("`{line}` is no request")),
    }
}

fn main() -> std::io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let device = match arguments.iter().position(|word| word == "--device").map(|place| &arguments[place + 1]) {
        Some(name) if name == "cpu" => WgpuDevice::Cpu,
        _ => WgpuDevice::DiscreteGpu(0),
    };
    let mut out = std::io::stdout();
    let shaders = if cfg!(feature = "spirv") { "SPIR-V" } else { "WGSL by wgpu" };
    writeln!(out, "ready Burn 0.20.1, Vulkan, {shaders}, {device:?}")?;
    out.flush()?;
    let mut held = None;
    for line in std::io::stdin().lock().lines() {
        match answer(&line?, &mut held, &device) {
            Ok(text) => writeln!(out, "ok {text}")?,
            Err(error) => writeln!(out, "error {error}")?,
        }
        out.flush()?;
    }
    Ok(())
}
