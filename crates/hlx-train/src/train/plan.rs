//! What a run would take of its device's memory, kind by kind, and what would make it fit: found on a device without memory,
//! so that it is known of models that no device at hand holds.

use std::fmt;

use anyhow::Result;
use hlx_core::Device;
use serde::Serialize;

use super::memory::{Needs, is_zero, optimizer_bytes, run_memory};
use super::{Engine, RunMemory, SmallerRun, TrainOptions, written};
use crate::config::{Config, Offload, OptimizerKind};
use crate::task::Corpus;

/// The memory of a run, which nothing is allocated for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TrainPlan {
    /// Elements of the model's parameters.
    pub n_parameters: usize,
    /// Bytes of the parameters.
    pub parameter_bytes: u64,
    /// Bytes of the frozen base of adapters, where it lies apart.
    #[serde(skip_serializing_if = "is_zero")]
    pub base_bytes: u64,
    /// Bytes of the gradients.
    pub gradient_bytes: u64,
    /// Bytes of the optimizer's state, wherever it lies.
    pub optimizer_bytes: u64,
    /// What else is in place before a step: operands that are prepared, sums of passes, the model's buffers.
    pub other_bytes: u64,
    /// All of it together, and the passes; `smaller` are settings that change no bit.
    pub memory: RunMemory,
    /// Optimizers with less state, which train to other bits, and what the run takes with them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub optimizers: Vec<OtherOptimizer>,
}

/// What a run takes with another optimizer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OtherOptimizer {
    /// `train.optimizer`.
    pub optimizer: OptimizerKind,
    /// Bytes of its state.
    pub optimizer_bytes: u64,
    /// What the run takes with it.
    pub total_bytes: u64,
    /// Whether the device has that much.
    pub fits: bool,
    /// Where it does not: settings of the passes beside it with which it does.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub smaller: Vec<SmallerRun>,
}

impl TrainPlan {
    /// Finds what a run would take on a device, which must not have allocated anything and allocates nothing.
    ///
    /// # Errors
    /// As [`Trainer::new`](super::Trainer::new), except for memory that the device lacks.
    pub fn new(device: &Device, config: Config, options: &TrainOptions) -> Result<Self> {
        device.give_no_memory();
        let corpus = Corpus::load(&options.data_path, &config)?;
        let (engine, progress) = Engine::new(device, config, corpus, None)?;
        let memory = run_memory(&engine, progress.epoch)?;
        let weights = engine.weights();
        let parameter_bytes = 4 * weights.n_words() as u64;
        let gradient_bytes = 4 * weights.all_gradients()?.len() as u64;
        let optimizer_bytes = optimizer_bytes(engine.optimizer.as_ref());
        let on_device = optimizer_bytes.saturating_sub(memory.host_bytes);
        let base_bytes = weights.base().map_or(0, |base| base.n_bytes() as u64);
        let known = parameter_bytes + base_bytes + gradient_bytes + on_device;
        Ok(Self {
            n_parameters: weights.n_elements(),
            parameter_bytes,
            base_bytes,
            gradient_bytes,
            optimizer_bytes,
            other_bytes: memory.state_bytes.saturating_sub(known),
            optimizers: others(&engine, &memory, optimizer_bytes)?,
            memory,
        })
    }

    /// The facts as a JSON object of the kind `plan`.
    pub fn to_json(&self) -> serde_json::Value {
        let mut value = serde_json::json!({
            "kind": "plan", "fits": self.memory.fits(), "total_bytes": self.memory.total_bytes(),
        });
        let rest = serde_json::to_value(self).ok();
        if let (Some(value), Some(serde_json::Value::Object(rest))) = (value.as_object_mut(), rest)
        {
            value.extend(rest);
        }
        value
    }
}

/// The optimizers with less state than the run's, where they are of the same kind.
fn others(engine: &Engine, memory: &RunMemory, now: u64) -> Result<Vec<OtherOptimizer>> {
    let is_adam = matches!(
        engine.config.train.optimizer,
        OptimizerKind::Adam | OptimizerKind::Adamw | OptimizerKind::Adamw8bit
    );
    if !is_adam {
        return Ok(Vec::new());
    }
    let needs = Needs::new(engine, 0)?;
    let is_on_device =
        engine.config.train.offload != Some(Offload::Optimizer) || engine.device.is_cpu();
    let mut found = Vec::new();
    for optimizer in [OptimizerKind::Adamw8bit, OptimizerKind::Adafactor] {
        let mut config = engine.config.clone();
        (config.train.optimizer, config.optimizer) = (optimizer, Default::default());
        let made = config.make_optimizer(engine.weights())?;
        let bytes = optimizer_bytes(made.as_ref());
        if bytes >= now {
            continue;
        }
        let less = if is_on_device { now - bytes } else { 0 };
        let run = RunMemory {
            state_bytes: memory.state_bytes.saturating_sub(less),
            smaller: Vec::new(),
            ..memory.clone()
        };
        found.push(OtherOptimizer {
            optimizer,
            optimizer_bytes: bytes,
            total_bytes: run.total_bytes(),
            fits: run.fits(),
            smaller: match run.fits() {
                true => Vec::new(),
                false => {
                    let ways = needs.smaller(&run, engine.config.train.recomputes())?;
                    ways.into_iter().filter(|way| way.fits).collect()
                }
            },
        });
    }
    Ok(found)
}

impl fmt::Display for TrainPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let memory = &self.memory;
        let place = if memory.host_bytes > 0 {
            ", in the host's memory"
        } else {
            ""
        };
        writeln!(f, "parameters   {}", written(self.parameter_bytes))?;
        if self.base_bytes > 0 {
            writeln!(f, "base         {}", written(self.base_bytes))?;
        }
        writeln!(f, "gradients    {}", written(self.gradient_bytes))?;
        writeln!(f, "optimizer    {}{place}", written(self.optimizer_bytes))?;
        writeln!(f, "other state  {}", written(self.other_bytes))?;
        writeln!(
            f,
            "a pass       {} ({} samples at a time)",
            written(memory.pass_bytes),
            memory.micro_batch_size
        )?;
        let verdict = if memory.fits() {
            "fits"
        } else {
            "does not fit"
        };
        write!(
            f,
            "together     {} of the {} that {} has: it {verdict}",
            written(memory.total_bytes()),
            written(memory.device_bytes),
            memory.device
        )?;
        for way in &memory.smaller {
            let verdict = if way.fits {
                "fits, with the same bits,"
            } else {
                "still too much:"
            };
            write!(f, "\n{verdict} with {way}")?;
        }
        for other in &self.optimizers {
            let name = toml::Value::try_from(other.optimizer).ok();
            let name = name
                .as_ref()
                .and_then(toml::Value::as_str)
                .unwrap_or_default();
            let (total, state) = (written(other.total_bytes), written(other.optimizer_bytes));
            let verdict = match (memory.fits(), other.fits) {
                (true, _) => "less",
                (false, true) => "fits",
                (false, false) => "still too much",
            };
            write!(
                f,
                "\n{verdict}, with other bits, with train.optimizer={name} ({total}, {state} of it state)"
            )?;
            for way in &other.smaller {
                write!(
                    f,
                    "\nfits, with other bits, with train.optimizer={name} {way}"
                )?;
            }
        }
        Ok(())
    }
}
