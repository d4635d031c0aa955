//! `hlx-bench causal`: training steps of a language model shaped like Qwen3 or Llama, from random weights.
//!
//! A step is that of the trainer: the ids go up, and one recording with forward, loss of all positions,
//! backward, clip at 1.0 and AdamW is replayed. The report has the time of a step, the memory that the
//! device holds, the share of the peak, and the time of each kernel. With `--peers` PyTorch trains the same
//! shape in turns (`benches/peers/causal.py`), and a row is put into `causal.csv`.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Result, bail, ensure};
use hlx_autograd::Recompute;
use hlx_core::{Arithmetic, Device, TimingReport};
use hlx_nn::{Architecture, CausalConfig, CausalLm, Model};
use hlx_proof::peak::{Peak, measure};

use crate::causal_table::{CausalRow, CausalTable, MODES, PeerStep};
use crate::facts::facts;
use crate::profile::profile_text;
use crate::side::{Measured, Session, Side, known};
use crate::statistics::median;
use crate::step::{Training, tokens};
use crate::table::digits;
use crate::{note, print, say};

/// The baseline that the time of whole trainings is stated for: pairs of text, and how often each is seen.
const BASELINE: [usize; 2] = [182, 250];

/// What is trained and measured.
#[derive(clap::Args)]
pub struct Arguments {
    /// qwen3-0.6b, qwen3-1.7b, llama3.2-1b, or quick: a small one, to see that everything works.
    #[arg(long, value_name = "NAME", default_value = "qwen3-0.6b")]
    model: String,
    /// Sequences in a batch.
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=1024))]
    batch: u32,
    /// Tokens of a sequence.
    #[arg(long, value_name = "N", default_value_t = 1024, value_parser = clap::value_parser!(u32).range(1..=32_768))]
    tokens: u32,
    /// Compute the inside of each block but attention again on the way back, which takes less memory.
    #[arg(long)]
    recompute: bool,
    /// With --recompute, compute attention again too.
    #[arg(long, requires = "recompute")]
    recompute_attention: bool,
    /// Steps in a row, timed together.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    steps: u32,
    /// Rows of steps, of which the median counts; one before them does not.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// auto, cpu, vulkan or vulkan:N; the environment variable HLX_DEVICE wins.
    #[arg(long, value_name = "DEVICE", default_value = "auto")]
    device: String,
    /// What products are computed in: portable, integer, fast (bf16) or fast_f16.
    #[arg(long, value_name = "NAME", default_value_t)]
    arithmetic: Arithmetic,
    /// Measure PyTorch in turns.
    #[arg(long)]
    peers: bool,
    /// Put the row into DIR/causal.csv, in the place of one of the same shape.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// The Python that has PyTorch.
    #[arg(long, value_name = "PROGRAM", default_value = "python3")]
    python: String,
    /// PyTorch's side.
    #[arg(long, value_name = "FILE", default_value = "benches/peers/causal.py")]
    script: PathBuf,
    /// PyTorch's model: transformers, torch, or auto.
    #[arg(long, value_name = "NAME", default_value = "auto")]
    source: String,
}

/// Finds a shape by its name.
pub fn model_of(name: &str) -> Option<CausalConfig> {
    let qwen3 = CausalConfig::preset("qwen3")?;
    Some(match name {
        "qwen3-0.6b" => qwen3,
        "qwen3-1.7b" => CausalConfig {
            width: 2048,
            feed_forward_width: 6144,
            ..qwen3
        },
        "llama3.2-1b" => CausalConfig::preset("llama3")?,
        "quick" => CausalConfig {
            vocabulary: 512,
            width: 64,
            n_layers: 2,
            n_heads: 4,
            n_kv_heads: 2,
            head_width: 32,
            feed_forward_width: 96,
            max_positions: 256,
            ..qwen3
        },
        _ => return None,
    })
}

/// A shape and the batch that it is trained on.
struct Case {
    name: String,
    model: CausalConfig,
    batch: usize,
    tokens: usize,
    recompute: Option<Recompute>,
    steps: usize,
}

impl Case {
    fn of(arguments: &Arguments) -> Result<Self> {
        let name = arguments.model.clone();
        let names = "qwen3-0.6b, qwen3-1.7b, llama3.2-1b, quick";
        let Some(model) = model_of(&name) else {
            bail!("no model `{name}`; there are {names}");
        };
        let tokens = arguments.tokens as usize;
        ensure!(
            tokens <= model.max_positions,
            "--tokens is {tokens}, but {name} has {} positions",
            model.max_positions
        );
        Ok(Self {
            name,
            model,
            batch: arguments.batch as usize,
            tokens,
            recompute: arguments
                .recompute
                .then_some(match arguments.recompute_attention {
                    true => Recompute::All,
                    false => Recompute::AllButAttention,
                }),
            steps: arguments.steps as usize,
        })
    }

    fn tokens_per_step(&self) -> f64 {
        (self.batch * self.tokens) as f64
    }

    /// Weights of products: an embedding is one of the output's where it is tied.
    fn weights(&self) -> f64 {
        let model = &self.model;
        let heads = 2 * (model.n_heads + model.n_kv_heads) * model.head_width;
        let layer = model.width * (heads + 3 * model.feed_forward_width);
        (model.n_layers * layer + model.vocabulary * model.width) as f64
    }

    /// Operations of a step's products and attention, without what is computed again: each product
    /// once forward and twice backward, attention with two products forward and five backward below the
    /// diagonal.
    fn flops(&self) -> f64 {
        let model = &self.model;
        let pairs = self.tokens_per_step() * (self.tokens as f64 + 1.0) / 2.0;
        let width = (model.n_layers * model.n_heads * model.head_width) as f64;
        6.0 * self.weights() * self.tokens_per_step() + 14.0 * pairs * width
    }

    /// The request to PyTorch's side in a mode.
    fn request(&self, mode: &str) -> String {
        let model = &self.model;
        let class = match model.architecture {
            Architecture::Qwen3 => "qwen3",
            _ => "llama",
        };
        let numbers = [
            ("vocabulary", model.vocabulary),
            ("width", model.width),
            ("layers", model.n_layers),
            ("heads", model.n_heads),
            ("kv_heads", model.n_kv_heads),
            ("head_width", model.head_width),
            ("feed_forward", model.feed_forward_width),
            ("tied", usize::from(model.tied_output)),
            ("batch", self.batch),
            ("tokens", self.tokens),
            ("recompute", usize::from(self.recompute.is_some())),
            ("steps", self.steps),
        ];
        let numbers = numbers.map(|(key, number)| format!("{key}={number}"));
        format!("causal class={class} {} mode={mode}", numbers.join(" "))
    }
}

/// Measures and prints; with `--peers` in turns with PyTorch.
///
/// # Errors
/// A shape that does not exist, what the device reports, or a side that cannot be started.
pub fn run(arguments: &Arguments) -> Result<()> {
    let case = Case::of(arguments)?;
    let device = Device::open_from_env(&arguments.device)?;
    let device = device.in_arithmetic(arguments.arithmetic)?;
    let mut facts = facts(&device);
    say!("{}, {}", device.info(), device.info().driver);
    let peak = measure(&device)?;
    let mut peer = match arguments.peers {
        true => Some(Session::serve(&peer_side(arguments, device.is_cpu()))?),
        false => None,
    };
    if let Some(peer) = &peer {
        facts.push(("peer".to_owned(), peer.description.clone()));
    }
    let start = Instant::now();
    let mut training = training_of(&device, &case)?;
    let recorded = start.elapsed().as_secs_f64();
    let first_loss = {
        training.step()?;
        training.loss()?
    };
    say!(
        "{}: {} million parameters, {} rows of {} tokens, {} launches, recorded in {recorded:.1} s",
        case.name,
        digits(case.weights() * 1e-6),
        case.batch,
        case.tokens,
        training.launches()
    );
    let row = in_turns(
        &device,
        &mut training,
        peer.as_mut(),
        &case,
        arguments.rounds,
    )?;
    let loss = training.loss()?;
    say!("loss of the repeated batch: {first_loss:.4} at first, {loss:.4} at last");
    report(&row, &case, peak);
    if let Some(peer) = peer {
        peer.end()?;
    }
    drop(training);
    print::on_stdout(format_args!("{}", profile_text(&profile(&device, &case)?)));
    if let Some(out) = &arguments.out {
        CausalTable::add(out, facts, row)?;
        say!("wrote {}", out.join("causal.csv").display());
    }
    Ok(())
}

fn peer_side(arguments: &Arguments, is_cpu: bool) -> Side {
    Side {
        program: arguments.python.clone(),
        first_arguments: vec![arguments.script.display().to_string()],
        device: if is_cpu { "cpu" } else { "cuda" }.to_owned(),
        last_arguments: vec!["--source".to_owned(), arguments.source.clone()],
        threads: None,
    }
}

/// Makes the model and records its step.
fn training_of(device: &Device, case: &Case) -> Result<Training> {
    let model = Model::new(device, 1, |b| CausalLm::new(b, &case.model))?;
    let uploads = tokens(device, case.model.vocabulary, [case.batch, case.tokens])?;
    let training = Training::record(device, model, uploads, case.recompute)?;
    // What only the recording needed goes back before memory is counted.
    device.sync()?;
    device.trim_memory();
    Ok(training)
}

/// Measures rows of steps on both sides, A B A B; the first row of each does not count.
fn in_turns(
    device: &Device,
    training: &mut Training,
    mut peer: Option<&mut Session>,
    case: &Case,
    rounds: u32,
) -> Result<CausalRow> {
    let modes = MODES.iter().filter(|mode| !device.is_cpu() || mode.on_cpu);
    let mut theirs: Vec<(String, Measured)> = modes
        .map(|mode| (case.request(mode.request), Measured::default()))
        .collect();
    let mut times = Vec::new();
    for round in 0..=rounds {
        let steps = if round == 0 { 1 } else { case.steps };
        let start = Instant::now();
        (0..steps).try_for_each(|_| training.step())?;
        device.sync()?;
        let ms = start.elapsed().as_secs_f64() * 1e3 / steps as f64;
        note!("round {round}: HLX {} ms", digits(ms));
        if let Some(peer) = peer.as_deref_mut() {
            for (request, measured) in &mut theirs {
                measured.measure(peer, request, None)?;
            }
        }
        match round {
            0 => theirs.iter_mut().for_each(|(_, measured)| measured.clear()),
            _ => times.push(ms),
        }
    }
    let mut peers = [PeerStep::default(); MODES.len()];
    for (step, (_, measured)) in peers.iter_mut().zip(&theirs) {
        *step = PeerStep {
            ms: measured.median_ms(),
            bytes: known(&measured.bytes),
        };
    }
    Ok(CausalRow {
        model: case.name.clone(),
        batch: case.batch,
        tokens: case.tokens,
        recompute: case.recompute.is_some(),
        steps: case.steps * rounds as usize,
        ms: median(&times),
        bytes: device.held_bytes() as f64,
        tflops: case.flops() / median(&times) * 1e-9,
        peers,
    })
}

/// Prints the row, and what it means for the baseline's training.
fn report(row: &CausalRow, case: &Case, peak: Peak) {
    let share = 100.0 * row.tflops * 1e12 / peak.flops;
    let line = |what: &str, ms: f64, bytes: Option<f64>| {
        let memory = bytes.map_or("-".to_owned(), |bytes| digits(bytes * 1e-9));
        let [pairs, epochs] = BASELINE;
        let steps = pairs.div_ceil(case.batch) * epochs;
        let hours = steps as f64 * ms / 3.6e6;
        say!(
            "{what:<14} {:>9} ms  {:>9} tokens/s  {memory:>6} GB  {epochs} epochs of {pairs} samples: \
             {} h (extrapolated)",
            digits(ms),
            digits(case.tokens_per_step() / ms * 1e3),
            digits(hours)
        );
    };
    line("HLX", row.ms, Some(row.bytes));
    for (mode, step) in MODES.iter().zip(&row.peers) {
        if let Some(ms) = step.ms {
            line(mode.heading, ms, step.bytes);
        }
    }
    say!(
        "{} TFLOP/s of products and attention, {share:.1}% of the peak of {}",
        digits(row.tflops),
        digits(peak.flops * 1e-12)
    );
}

/// The time of each kernel in a step that is recorded with its launches timed one by one; they run one
/// after the other then.
fn profile(device: &Device, case: &Case) -> Result<TimingReport> {
    device.set_timing(true);
    let timed = || -> Result<TimingReport> {
        let mut training = training_of(device, case)?;
        training.step()?;
        device.take_timing()?;
        training.step()?;
        Ok(device.take_timing()?)
    };
    let report = timed();
    device.set_timing(false);
    report
}

#[cfg(test)]
mod tests {
    use anyhow::Context as _;

    use super::*;

    fn quick(recompute: Option<Recompute>) -> Case {
        Case {
            name: "quick".to_owned(),
            model: model_of("quick").expect("a model"),
            batch: 4,
            tokens: 32,
            recompute,
            steps: 2,
        }
    }

    #[test]
    fn steps_are_measured_and_recomputation_keeps_the_loss() -> Result<()> {
        for device in hlx_core::testing::own_devices() {
            let (mut losses, mut launches) = (Vec::new(), Vec::new());
            let (all, most) = (Some(Recompute::All), Some(Recompute::AllButAttention));
            for case in [quick(None), quick(all), quick(most)] {
                let mut training = training_of(&device, &case)?;
                training.step()?;
                let first = training.loss()?;
                assert!((first - 512_f32.ln()).abs() < 0.5, "{first}");
                let row = in_turns(&device, &mut training, None, &case, 2)?;
                assert!(row.ms > 0.0 && row.bytes > 0.0 && row.tflops > 0.0);
                assert_eq!((row.steps, row.recompute), (4, case.recompute.is_some()));
                losses.push(training.loss()?.to_bits());
                launches.push(training.launches());
            }
            assert_eq!(losses, [losses[0]; 3]);
            assert!(
                launches[0] < launches[2] && launches[2] < launches[1],
                "{launches:?}"
            );
        }
        Ok(())
    }

    #[test]
    fn weights_and_operations_are_those_of_the_shape() -> Result<()> {
        let case = Case {
            model: model_of("qwen3-0.6b").context("a model")?,
            tokens: 1024,
            ..quick(None)
        };
        // 596 million parameters, of which norms have 0.07.
        assert!(
            (case.weights() * 1e-6 - 595.98).abs() < 0.1,
            "{}",
            case.weights()
        );
        let plain = 6.0 * case.weights() * 4096.0;
        let attention = 14.0 * 4096.0 * 512.5 * 28.0 * 2048.0;
        assert!((case.flops() / (plain + attention) - 1.0).abs() < 1e-9);
        let large = model_of("qwen3-1.7b").context("a model")?;
        let large = Case {
            model: large,
            ..case
        };
        assert!(
            (large.weights() * 1e-9 - 1.7206).abs() < 1e-3,
            "{}",
            large.weights()
        );
        assert!(model_of("qwen9").is_none());
        Ok(())
    }

    #[test]
    fn a_request_names_the_whole_shape() {
        let expected = "causal class=qwen3 vocabulary=512 width=64 layers=2 heads=4 kv_heads=2 \
                        head_width=32 feed_forward=96 tied=1 batch=4 tokens=32 recompute=1 steps=2 \
                        mode=tf32";
        assert_eq!(quick(Some(Recompute::All)).request("tf32"), expected);
    }
}
