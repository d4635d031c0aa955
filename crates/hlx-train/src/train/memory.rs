//! What memory a run takes on its device, found by recording a step's passes without allocating them; and where it
//! is too much, which settings take less.

use std::fmt;

use anyhow::{Context as _, Result};
use hlx_autograd::Recompute;
use hlx_nn::MicroBatchPlan;
use serde::Serialize;

use super::Engine;
use crate::rows::{Batch, BatchSizes, Rows};
use crate::task::{Sizes, Task};

/// What a run takes of its device's memory, in bytes: in place before the first step, and by a step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RunMemory {
    /// The device's name.
    pub device: String,
    /// What HLX may hold on the device.
    pub device_bytes: u64,
    /// Parameters, gradients, the optimizer's state, and the sums of a step of several passes.
    pub state_bytes: u64,
    /// What the run holds in the host's memory for the device's kernels ([`train.offload`](crate::config::Offload)).
    #[serde(skip_serializing_if = "is_zero")]
    pub host_bytes: u64,
    /// What the largest pass of a step computes in.
    pub pass_bytes: u64,
    /// Samples computed at a time.
    pub micro_batch_size: usize,
    /// Where the run does not fit: settings with which it does, or else those that take the least.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub smaller: Vec<SmallerRun>,
}

/// Settings that change no bit of a run and take less memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SmallerRun {
    /// `train.micro_batch_size`.
    pub micro_batch_size: usize,
    /// `train.recompute`.
    pub recompute: bool,
    /// `train.recompute_attention`.
    pub recompute_attention: bool,
    /// Whether `train.offload` is `optimizer`, where the run has none.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub offload: bool,
    /// What the run takes with them, state and pass together.
    pub total_bytes: u64,
    /// Whether the device has that much.
    pub fits: bool,
}

/// The error of a run whose step is larger than its device.
#[derive(Clone, Debug)]
pub struct DoesNotFit(pub RunMemory);

impl RunMemory {
    /// State and pass together.
    pub fn total_bytes(&self) -> u64 {
        self.state_bytes.saturating_add(self.pass_bytes)
    }

    /// Whether the device has that much.
    pub fn fits(&self) -> bool {
        self.total_bytes() <= self.device_bytes
    }

    /// The facts as a JSON object of the kind `memory`.
    pub fn to_json(&self) -> serde_json::Value {
        let mut value = serde_json::json!({
            "kind": "memory", "fits": self.fits(), "total_bytes": self.total_bytes(),
        });
        let rest = serde_json::to_value(self).ok();
        if let (Some(value), Some(serde_json::Value::Object(rest))) = (value.as_object_mut(), rest)
        {
            value.extend(rest);
        }
        value
    }
}

impl fmt::Display for SmallerRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "train.micro_batch_size={}", self.micro_batch_size)?;
        if self.recompute {
            write!(f, " train.recompute=true")?;
        }
        if self.recompute_attention {
            write!(f, " train.recompute_attention=true")?;
        }
        if self.offload {
            write!(f, " train.offload=optimizer")?;
        }
        write!(f, " ({})", written(self.total_bytes))
    }
}

impl fmt::Display for DoesNotFit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let run = &self.0;
        write!(
            f,
            "train.micro_batch_size: {} samples take {} ({} of them parameters, gradients and the optimizer's state), \
             and {} has {}",
            run.micro_batch_size,
            written(run.total_bytes()),
            written(run.state_bytes),
            run.device,
            written(run.device_bytes),
        )?;
        let fits = run.smaller.iter().any(|smaller| smaller.fits);
        let ways: Vec<String> = run.smaller.iter().map(ToString::to_string).collect();
        match (fits, &ways[..]) {
            (_, []) => write!(f, "; no setting of the passes takes less"),
            (true, ways) => write!(f, "; it fits with {}", ways.join(", or ")),
            (false, ways) => write!(
                f,
                "; even {} is too much: a smaller model, an optimizer with less state or more ranks take less",
                ways.join(", or ")
            ),
        }
    }
}

impl std::error::Error for DoesNotFit {}

/// Bytes as they are read: `512 MiB`, `3.4 GiB`.
pub fn written(bytes: u64) -> String {
    let (kib, mib, gib) = (1_u64 << 10, 1_u64 << 20, 1_u64 << 30);
    let of = |unit: u64| bytes as f64 / unit as f64;
    match bytes {
        0..1024 => format!("{bytes} bytes"),
        _ if bytes < mib => format!("{:.1} KiB", of(kib)),
        _ if bytes < gib => format!("{:.1} MiB", of(mib)),
        _ => format!("{:.1} GiB", of(gib)),
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
pub(super) fn is_zero(bytes: &u64) -> bool {
    *bytes == 0
}

/// What is measured of one choice of settings.
pub(super) struct Needs<'a> {
    engine: &'a Engine,
    /// The samples of the batch with the longest rows.
    samples: Vec<usize>,
    epoch: u64,
    /// The gradients of all parameters.
    gradient_bytes: u64,
}

/// Measures what a run takes; where that is more than the device has, looks for settings that take less.
///
/// # Errors
/// A sample that cannot be read; what the device reports.
pub(super) fn run_memory(engine: &Engine, epoch: u64) -> Result<RunMemory> {
    let (device, config) = (&engine.device, &engine.config);
    let needs = Needs::new(engine, epoch)?;
    let recompute = config.train.recomputes();
    let pass_bytes = needs.pass_bytes(&engine.plan, recompute)?;
    // What a first recording of the device allocates for itself is in it, too.
    let held = device.held_bytes();
    let mut run = RunMemory {
        device: device.info().name.clone(),
        device_bytes: device.budget_bytes(),
        state_bytes: held,
        host_bytes: device.host_bytes(),
        pass_bytes,
        micro_batch_size: engine.plan.micro_batch_size,
        smaller: Vec::new(),
    };
    if !run.fits() {
        run.smaller = needs.all_smaller(&run)?;
    }
    Ok(run)
}

/// The bytes of an optimizer's state.
pub(super) fn optimizer_bytes(optimizer: &dyn hlx_nn::Optimizer) -> u64 {
    let buffers = optimizer.buffers().into_iter();
    buffers.map(|(_, buffer)| 4 * buffer.len() as u64).sum()
}

impl<'a> Needs<'a> {
    pub fn new(engine: &'a Engine, epoch: u64) -> Result<Self> {
        Ok(Self {
            engine,
            samples: longest(engine),
            epoch,
            gradient_bytes: 4 * engine.weights().all_gradients()?.len() as u64,
        })
    }
}

impl Needs<'_> {
    /// Settings that take less and change no bit: of the passes, and if those do not help, with the optimizer's state in the
    /// host's memory.
    pub fn all_smaller(&self, run: &RunMemory) -> Result<Vec<SmallerRun>> {
        let engine = self.engine;
        let now = engine.config.train.recomputes();
        let ways = self.smaller(run, now)?;
        let is_offloaded = engine.config.train.offload.is_some() || engine.device.is_cpu();
        if is_offloaded || ways.iter().any(|way| way.fits) {
            return Ok(ways);
        }
        let state = optimizer_bytes(engine.optimizer.as_ref());
        let offloaded = RunMemory {
            state_bytes: run.state_bytes.saturating_sub(state),
            ..run.clone()
        };
        let mut ways = match offloaded.fits() {
            true => vec![SmallerRun {
                micro_batch_size: run.micro_batch_size,
                recompute: now.is_some(),
                recompute_attention: now == Some(Recompute::All),
                offload: true,
                total_bytes: offloaded.total_bytes(),
                fits: true,
            }],
            false => self.smaller(&offloaded, now)?,
        };
        ways.iter_mut().for_each(|way| way.offload = true);
        Ok(ways)
    }

    /// What the largest pass of a plan, and its sums, take beside what the device holds already.
    fn pass_bytes(&self, plan: &MicroBatchPlan, recompute: Option<Recompute>) -> Result<u64> {
        let engine = self.engine;
        let batch = self.batch(plan.micro_batch_size)?;
        let elements = |rows: &Rows| rows.shape.iter().product::<usize>();
        let passes = batch.micro_batches.iter().zip(&plan.passes);
        let (rows, pass) = passes
            .max_by_key(|(rows, _)| elements(rows))
            .context("a step without samples")?;
        let (task, optimizer) = (&engine.task, engine.optimizer.as_ref());
        let found = engine
            .passes
            .measure(task, optimizer, rows, pass, recompute)?;
        let sums = |plan| sums_bytes(plan, self.gradient_bytes);
        let more_sums = sums(plan).saturating_sub(sums(&engine.plan));
        let own = found.in_use_bytes + 8 * elements(rows) as u64 + more_sums;
        let pool = engine.device.memory();
        let free = pool.held_bytes.saturating_sub(pool.in_use_bytes);
        Ok(found.held_bytes - found.in_use_bytes + own.saturating_sub(free))
    }

    /// This rank's rows of a step, cut into micro-batches of some samples.
    fn batch(&self, micro_batch_size: usize) -> Result<Batch> {
        let shards = &self.engine.shards;
        let mine = shards.samples();
        let sizes = BatchSizes {
            batch_size: shards.batch_size(),
            micro_batch_size,
            first_sample: mine.start,
            n_samples: mine.len(),
        };
        let task = &self.engine.task;
        task.batch_apart(&self.samples, self.epoch, sizes)
    }

    /// For each way to recompute that the run does not use less of already, the most samples that fit; where none
    /// does, the way that takes the least.
    pub fn smaller(&self, run: &RunMemory, now: Option<Recompute>) -> Result<Vec<SmallerRun>> {
        let (mut fitting, mut least) = (Vec::new(), None::<SmallerRun>);
        for recompute in ways(&self.engine.task, now) {
            for size in sizes(self.engine) {
                if size > run.micro_batch_size || size == run.micro_batch_size && recompute == now {
                    continue;
                }
                let plan = MicroBatchPlan::of(&self.engine.shards, size)?;
                let total = run.state_bytes + self.pass_bytes(&plan, recompute)?;
                let found = SmallerRun {
                    micro_batch_size: size,
                    recompute: recompute.is_some(),
                    recompute_attention: recompute == Some(Recompute::All),
                    offload: false,
                    total_bytes: total,
                    fits: total <= run.device_bytes,
                };
                if found.fits {
                    fitting.push(found);
                    break;
                }
                if least.as_ref().is_none_or(|least| total < least.total_bytes) {
                    least = Some(found);
                }
            }
        }
        let smallest = least.filter(|least| least.total_bytes < run.total_bytes());
        Ok(match fitting.is_empty() {
            true => smallest.into_iter().collect(),
            false => without_worse(fitting),
        })
    }
}

/// Those that compute more samples at a time than the ones before, which recompute less.
fn without_worse(fitting: Vec<SmallerRun>) -> Vec<SmallerRun> {
    let mut most = 0;
    let is_better = |run: &SmallerRun| {
        let better = run.micro_batch_size > most;
        most = most.max(run.micro_batch_size);
        better
    };
    fitting.into_iter().filter(is_better).collect()
}

/// The ways to recompute from the run's own on, which take less and less memory; classifiers have one.
fn ways(task: &Task, now: Option<Recompute>) -> Vec<Option<Recompute>> {
    let all = [None, Some(Recompute::AllButAttention), Some(Recompute::All)];
    let is_language = matches!(task.sizes(), Sizes::Language(_));
    let ways = all.into_iter().skip_while(|way| *way != now);
    ways.take(if is_language { all.len() } else { 1 }).collect()
}

/// The micro-batches that the shards of a batch can be cut into, the largest first.
fn sizes(engine: &Engine) -> Vec<usize> {
    let shards = &engine.shards;
    let size = shards.shard_size();
    let whole = (0..=shards.n_shards().ilog2()).rev().map(|n| size << n);
    let parts = (1..size).rev().filter(|part| size.is_multiple_of(*part));
    whole.chain(parts).collect()
}

/// The partial sums of the tree over the passes of a step.
fn sums_bytes(plan: &MicroBatchPlan, gradient_bytes: u64) -> u64 {
    let sums = plan.passes.iter().filter(|pass| pass.level.is_some());
    u64::from(sums.count().max(1).ilog2()) * gradient_bytes
}

/// A batch of the samples with the longest rows; the first batch where all are equally long, or nobody knows.
fn longest(engine: &Engine) -> Vec<usize> {
    let batch_size = engine.shards.batch_size();
    let train = &engine.split.train;
    match &engine.task {
        Task::Bytes(task) if task.windows.is_none() => {
            let mut samples = train.clone();
            samples.sort_by_key(|&index| std::cmp::Reverse(task.data.time(index)));
            samples.truncate(batch_size);
            samples
        }
        _ => engine.batches.samples(&engine.batches.order(0), 0),
    }
}
