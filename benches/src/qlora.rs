//! `hlx-bench qlora`: training steps of adapters over a frozen base in blocks, drawn from a seed, with what memory they take.

use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use hlx_autograd::Recompute;
use hlx_core::{Arithmetic, Device};
use hlx_kernels::product::blocks::BlockFormat;
use hlx_nn::{CausalConfig, CausalLm, LoraConfig, Model};

use crate::causal::model_of;
use crate::say;
use crate::step::{Training, tokens};

/// What is trained and measured.
#[derive(clap::Args)]
pub struct Arguments {
    /// 7b, the shape of Llama 2 7B; or qwen3-0.6b, qwen3-1.7b, llama3.2-1b, or quick, a small one.
    #[arg(long, value_name = "NAME", default_value = "7b")]
    shape: String,
    /// The blocks of the base.
    #[arg(long, value_name = "FORMAT", default_value = "Q4_K")]
    format: String,
    /// The rank of the adapters, which all layers of a block have.
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=4096))]
    rank: u32,
    /// Sequences in a batch.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1024))]
    batch: u32,
    /// Tokens of a sequence.
    #[arg(long, value_name = "N", default_value_t = 1024, value_parser = clap::value_parser!(u32).range(1..=32_768))]
    tokens: u32,
    /// Save what a step computes within blocks instead of computing it again, which takes more memory.
    #[arg(long)]
    save_all: bool,
    /// Steps, each timed.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    steps: u32,
    /// auto, cpu, vulkan or vulkan:N; the environment variable HLX_DEVICE wins.
    #[arg(long, value_name = "DEVICE", default_value = "auto")]
    device: String,
    /// What products are computed in: integer or portable.
    #[arg(long, value_name = "NAME", default_value_t = Arithmetic::Integer)]
    arithmetic: Arithmetic,
}

/// Finds a shape by its name.
fn shape_of(name: &str) -> Option<CausalConfig> {
    if name != "7b" {
        return model_of(name);
    }
    Some(CausalConfig {
        vocabulary: 32_000,
        width: 4096,
        n_layers: 32,
        n_heads: 32,
        n_kv_heads: 32,
        head_width: 128,
        feed_forward_width: 11_008,
        tied_output: false,
        ..CausalConfig::preset("llama3")?
    })
}

fn gib(bytes: u64) -> String {
    format!("{:.2} GiB", bytes as f64 / (1_u64 << 30) as f64)
}

/// Draws the base, trains and prints a line for each step.
///
/// # Errors
/// A shape or a format that does not exist, and what the device reports.
pub fn run(arguments: &Arguments) -> Result<()> {
    let name = &arguments.shape;
    let config = shape_of(name).with_context(|| format!("no shape `{name}`"))?;
    let format = BlockFormat::named(&arguments.format)
        .with_context(|| format!("no format of blocks `{}`", arguments.format))?;
    let [batch, time] = [arguments.batch, arguments.tokens].map(|n| n as usize);
    ensure!(
        time <= config.max_positions,
        "--tokens is {time}, but {name} has {} positions",
        config.max_positions
    );
    let device = Device::open_from_env(&arguments.device)?;
    let device = device.with_arithmetic(arguments.arithmetic);
    say!("{}, {}", device.info(), device.info().driver);
    let lora = LoraConfig {
        rank: arguments.rank as usize,
        alpha: 2.0 * f64::from(arguments.rank),
        targets: vec!["*.self_attn.*".to_owned(), "*.mlp.*".to_owned()],
        ..LoraConfig::default()
    };
    let start = Instant::now();
    let model = Model::over_drawn_base(&device, 1, format, |b| {
        b.with_lora(lora);
        CausalLm::new(b, &config)
    })?;
    device.sync()?;
    let base = model.weights().base().context("a base")?;
    say!(
        "{name}: {} of {} million parameters in {}, {:.1} million of adapters; drawn in {:.1} s",
        gib(base.n_bytes() as u64),
        base.n_elements() / 1_000_000,
        format.name,
        model.weights().n_elements() as f64 * 1e-6,
        start.elapsed().as_secs_f64()
    );
    let uploads = tokens(&device, config.vocabulary, [batch, time])?;
    let recompute = (!arguments.save_all).then_some(Recompute::All);
    let start = Instant::now();
    let mut training = Training::record(&device, model, uploads, recompute)?;
    device.sync()?;
    device.trim_memory();
    say!(
        "recorded in {:.1} s: {} launches, {} held on the device",
        start.elapsed().as_secs_f64(),
        training.launches(),
        gib(device.held_bytes())
    );
    for step in 1..=arguments.steps {
        let start = Instant::now();
        training.step()?;
        let loss = training.loss()?;
        let seconds = start.elapsed().as_secs_f64();
        say!(
            "step {step}: loss {loss:.4} ({:08x}), {:.0} ms, {:.0} tokens/s",
            loss.to_bits(),
            1e3 * seconds,
            (batch * time) as f64 / seconds
        );
    }
    say!("digest of the adapters: {}", training.digest()?);
    Ok(())
}
