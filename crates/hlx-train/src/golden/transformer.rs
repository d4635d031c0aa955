//! The golden transformer: two blocks, 20 pairs, 8 steps over three epochs.
//!
//! A batch of 8 is two shards in micro-batches of two, so that chains are continued and sums
//! are added in the tree; the third batch of an epoch is short. The clip is below the norms.

use anyhow::{Error, Result, bail};
use hlx_autograd::no_grad;
use hlx_core::{Arithmetic, Device};
use hlx_nn::Mode;

use super::{GoldenDigests, logits_digest};
use crate::config::{Config, Format};
use crate::data::{Dataset, TokenRows};
use crate::rows::Rows;
use crate::run::Progress;
use crate::task::{Corpus, Task};
use crate::train::Engine;

const STEPS: u64 = 8;

const CONFIG: &str = include_str!("transformer.toml");

/// Numbers and their squares.
fn pairs() -> String {
    let pair = |n: u32| {
        let square = n * n;
        format!("{{\"input\": \"{n} times {n}\", \"output\": \"{square}\"}}\n")
    };
    (0..20).map(pair).collect()
}

pub(super) fn train(device: &Device, arithmetic: Arithmetic) -> Result<GoldenDigests> {
    let (mut engine, mut progress) = prepare(device, arithmetic)?;
    while progress.step < STEPS {
        engine.one_step(&mut progress)?;
        if engine.epoch_ends(&progress) {
            engine.next_epoch(&mut progress);
        }
    }
    let weights = engine.weights();
    Ok(GoldenDigests {
        parameters: weights.digest()?,
        optimizer: engine.optimizer.digest(weights)?,
        logits: logits(&engine)?,
    })
}

fn prepare(device: &Device, arithmetic: Arithmetic) -> Result<(Engine, Progress)> {
    let overrides: &[&str] = match arithmetic {
        Arithmetic::Portable => &[],
        Arithmetic::Fast(_) => {
            bail!("fast has no golden digests: its bits are those of a device")
        }
        // The exponents of a gradient are of a shard: a pass has whole ones.
        Arithmetic::Integer => &["arithmetic=integer", "train.micro_batch_size=4"],
    };
    let overrides = overrides.iter().map(|text| text.parse());
    let overrides: Vec<_> = overrides.collect::<Result<_, _>>().map_err(Error::msg)?;
    let config = Config::parse(CONFIG, "golden transformer", &overrides)?;
    let positions = config.positions();
    let corpus = pairs();
    let data = Dataset::from_bytes(corpus.as_bytes(), "golden pairs", Format::Pairs, positions)?;
    Engine::new(device, config, Corpus::Tokens(data), None)
}

/// The logits of all pairs in one batch, without dropout.
fn logits(engine: &Engine) -> Result<String> {
    let Task::Bytes(task) = &engine.task else {
        bail!("the task is no language model");
    };
    let samples: Vec<Option<usize>> = (0..task.data.len()).map(Some).collect();
    let rows = TokenRows::new(&task.data, &samples, engine.config.positions())?;
    let rows = Rows::from(rows).to_tensors(&engine.device)?;
    let logits = no_grad(|| engine.task.forward(&rows, &Mode::eval()))?;
    Ok(logits_digest(logits.shape(), &logits.to_vec::<f32>()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_learns_and_its_gradients_are_clipped() {
        let device = hlx_core::testing::cpu().expect("the CPU device opens");
        let (mut engine, mut progress) = prepare(&device, Arithmetic::Portable).expect("prepares");
        let mut steps = Vec::new();
        for _ in 0..STEPS {
            engine.one_step(&mut progress).expect("steps");
            if engine.epoch_ends(&progress) {
                engine.next_epoch(&mut progress);
            }
            let losses = engine
                .ring
                .take_all(&device)
                .expect("sends")
                .expect("a loss");
            steps.extend(engine.receive(losses).expect("receives"));
        }
        assert!(
            steps.iter().all(|step| step.grad_norm > 0.5),
            "the clip is 0.5"
        );
        let mean = |at: usize| f64::from(steps[at].loss) / steps[at].n_targets as f64;
        assert!(mean(7) < 0.8 * mean(0), "{} {}", mean(0), mean(7));
        // Rows of different lengths, and a last batch that is short.
        assert_eq!((engine.batches.per_epoch(), progress.epoch), (3, 2));
    }
}
