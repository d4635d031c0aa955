//! The forward and backward pass of a micro-batch, recorded as a graph for each shape and replayed.
//! A pass that holds the whole batch ends in the optimizer's update: the step is one graph then.

use std::collections::HashMap;
use std::sync::Arc;

use anyhow::Result;
use hlx_autograd::{Recompute, Tensor, no_grad};
use hlx_core::arith::div;
use hlx_core::cpu::with_flush;
use hlx_core::{Buffer, Device, Graph, MemoryStatistics};
use hlx_kernels::reduce::column_sum;
use hlx_nn::{
    DeferredNorms, MicroBatch, MicroBatchPlan, Mode, NnError, Optimizer, PreparedWeights, Watched,
    Weights,
};

use crate::config::Config;
use crate::rows::{RowTensors, Rows};
use crate::task::Task;

/// Graphs that are held; the least recently used one is dropped for a new one. Each holds its activations,
/// and pairs of many lengths have many shapes.
const MAX_GRAPHS: usize = 16;

/// What is told the number of a window of the gradients that is final.
pub(super) type WindowIsFinal<'a> = &'a mut dyn FnMut(usize) -> Result<()>;

/// What a graph depends on: its inputs' extents, and whether it continues a shard's chain.
type Shape = (Vec<usize>, bool);

/// The passes' graphs of a run, and the buffers that they share.
pub(super) struct PassGraphs {
    device: Device,
    seed: u64,
    label_smoothing: f32,
    /// What of each block is computed again on the way back.
    recompute: Option<Recompute>,
    /// One over the targets of the whole batch.
    scale: Tensor,
    /// The chains over the shards that a pass holds.
    losses: Buffer,
    balance: Option<Balance>,
    /// What products read of the matrices, which the passes of a step share.
    prepared: PreparedWeights,
    /// Computes them anew, before the first of several passes.
    update_prepared: Option<Graph>,
    graphs: HashMap<Shape, PassGraph>,
    clock: u64,
    /// Windows of the gradients that are exchanged while a pass goes on, where ranks share the batch.
    watched: Vec<Buffer>,
    /// Where ranks share the batch and the model has batch norms: what their running values follow.
    norms: Option<StepNorms>,
}

/// The batch norms of a step's passes.
#[derive(Default)]
struct StepNorms {
    /// Empty samples, and the pieces' values of the shards so far.
    n_empty: u32,
    shards: Vec<u32>,
    last: Option<Arc<DeferredNorms>>,
}

/// What is added to the loss to balance a mixture of experts.
struct Balance {
    /// What a shard's balance loss is multiplied by: the coefficient over the shards of the batch.
    factor: f32,
    /// The balance losses of the shards that a pass holds.
    losses: Buffer,
}

impl Balance {
    fn new(device: &Device, config: &Config) -> Result<Option<Self>> {
        let Some(coefficient) = config.train.router_balance else {
            return Ok(None);
        };
        let n_shards = config.shards();
        Ok(Some(Self {
            factor: with_flush(|| div(coefficient as f32, n_shards as f32)),
            losses: device.alloc(n_shards)?,
        }))
    }

    /// Adds the balance losses of a pass's shards to its loss, and stores them.
    fn add(
        &self,
        loss: &Tensor,
        of_shards: &Tensor,
        loss_scale: Option<&Tensor>,
    ) -> hlx_nn::Result<Tensor> {
        let stored = self.losses.slice(0, of_shards.n_elements())?;
        of_shards
            .device()
            .copy(&of_shards.detach().buffer()?, &stored)?;
        let mut of_batch = of_shards.sum()?.mul(self.factor)?.reshape(loss.shape())?;
        if let Some(scale) = loss_scale {
            of_batch = of_batch.mul(scale.reshape(loss.shape())?)?;
        }
        Ok(loss.add(&of_batch)?)
    }
}

/// One recorded pass and its input buffers.
struct PassGraph {
    graph: Graph,
    rows: RowTensors,
    mode: Mode,
    used: u64,
}

impl PassGraphs {
    pub fn new(device: &Device, config: &Config, weights: &Weights) -> Result<Self> {
        Ok(Self {
            device: device.clone(),
            prepared: PreparedWeights::new(weights)?,
            update_prepared: None,
            seed: config.seed,
            label_smoothing: config.train.label_smoothing as f32,
            recompute: config.train.recomputes(),
            scale: Tensor::from_slice(device, &[1.0], &[1])?,
            losses: device.alloc(config.shards())?,
            balance: Balance::new(device, config)?,
            graphs: HashMap::new(),
            clock: 0,
            watched: Vec::new(),
            norms: None,
        })
    }

    /// Lets the running values of batch norms follow at the end of each step, by the shards of all ranks.
    pub fn defer_norms(&mut self) {
        self.norms = Some(StepNorms::default());
    }

    /// Lets [`PassGraphs::replay`] tell when each of these windows of the gradients is final.
    pub fn watch(&mut self, windows: Vec<Buffer>) {
        self.watched = windows;
    }

    /// What this rank's passes have left of a step for batch norms: the number of empty samples, then
    /// the shards' values; nothing without batch norms.
    pub fn take_norms(&mut self) -> Option<Vec<u32>> {
        let norms = self.norms.as_mut()?;
        let mut words = vec![std::mem::take(&mut norms.n_empty)];
        words.append(&mut norms.shards);
        Some(words)
    }

    /// Moves the running values by what all ranks have left, in the order of the ranks.
    pub fn follow_norms(&self, ranks: &[Vec<u32>], n_shards: usize) -> Result<()> {
        let last = self.norms.as_ref().and_then(|norms| norms.last.as_ref());
        let Some(last) = last else {
            return Ok(());
        };
        let n_empty = ranks.iter().filter_map(|words| words.first()).sum();
        let shards = ranks.iter().flat_map(|words| words.iter().skip(1));
        let shards: Vec<u32> = shards.copied().collect();
        Ok(last.follow(&self.device, &shards, n_shards, n_empty)?)
    }

    /// Sets what the coming passes divide the loss by.
    pub fn set_target_count(&self, n_targets: usize) -> Result<()> {
        let scale = with_flush(|| div(1.0, n_targets as f32));
        Ok(self.device.upload(&self.scale.buffer()?, &[scale])?)
    }

    /// Prepares what the coming passes of a step share; a pass over the whole batch does so itself.
    pub fn begin_step(&mut self, plan: &MicroBatchPlan) -> Result<()> {
        if plan.is_one_pass() || !self.prepared.change() {
            return Ok(());
        }
        if self.update_prepared.is_none() {
            let (graph, ()) = self.device.record(|| self.prepared.update())?;
            self.update_prepared = Some(graph);
        }
        if let Some(graph) = &self.update_prepared {
            graph.replay()?;
        }
        Ok(())
    }

    /// The sums of the losses of the shards in the last pass.
    pub fn losses(&self) -> &Buffer {
        &self.losses
    }

    /// The balance losses of the shards in the last pass, where they are trained on.
    pub fn balance_losses(&self) -> Option<&Buffer> {
        self.balance.as_ref().map(|balance| &balance.losses)
    }

    /// The losses of a pass over a whole batch, for an update in the same graph.
    pub fn watched(&self) -> Watched {
        Watched {
            words: self.losses.clone(),
            runs: 1,
            run: self.losses.len(),
            stride: 0,
        }
    }

    /// Runs a micro-batch: its gradients and losses are left in the weights and in
    /// [`PassGraphs::losses`]. If it is the whole batch, the optimizer's update runs too. `is_final` is called
    /// with the number of each watched window once the launches that write it are launched.
    pub fn replay(
        &mut self,
        task: &Task,
        optimizer: &dyn Optimizer,
        rows: &Rows,
        pass: &MicroBatch,
        step: u64,
        is_final: Option<WindowIsFinal<'_>>,
    ) -> Result<()> {
        let shape = (rows.shape.clone(), pass.plan.accumulate);
        if !self.graphs.contains_key(&shape) {
            self.make_room();
            let graph = self.record(task, optimizer, rows, pass)?;
            self.graphs.insert(shape.clone(), graph);
        }
        self.clock += 1;
        let Some(pass_graph) = self.graphs.get_mut(&shape) else {
            return Ok(());
        };
        pass_graph.used = self.clock;
        let mode = &pass_graph.mode;
        rows.upload(&self.device, &pass_graph.rows)?;
        mode.set_empty_samples(rows.n_empty as u32)?;
        if task.weights().draws_masks() {
            mode.set_counter(step as u32, pass.first_sample as u32)?;
        }
        match is_final {
            None => pass_graph.graph.replay()?,
            Some(is_final) => pass_graph.graph.replay_watched(is_final)?,
        }
        if let Some((norms, used)) = self.norms.as_mut().zip(mode.deferred_norms()) {
            norms.n_empty += rows.n_empty as u32;
            norms.shards.extend(used.shards(&self.device)?);
            norms.last = Some(Arc::clone(used));
        }
        Ok(())
    }

    fn make_room(&mut self) {
        if self.graphs.len() < MAX_GRAPHS {
            return;
        }
        let oldest = self
            .graphs
            .iter()
            .min_by_key(|(_, pass_graph)| pass_graph.used);
        if let Some(shape) = oldest.map(|(shape, _)| shape.clone()) {
            self.graphs.remove(&shape);
        }
    }

    fn record(
        &self,
        task: &Task,
        optimizer: &dyn Optimizer,
        rows: &Rows,
        pass: &MicroBatch,
    ) -> Result<PassGraph> {
        let shape = &rows.shape;
        let (rows, mode) = self.inputs(rows, pass, self.recompute)?;
        let launch = || self.launch(task, optimizer, &rows, &mode, pass);
        let (graph, ()) = self.device.record_watched(&self.watched, launch)?;
        tracing::debug!(inputs = ?shape, launches = graph.len(), "recorded a pass");
        Ok(PassGraph {
            graph,
            rows,
            mode,
            used: 0,
        })
    }

    /// The memory that the graph of a pass over these rows would hold, with what is recomputed as given. Nothing is
    /// allocated but the rows, until this returns.
    pub fn measure(
        &self,
        task: &Task,
        optimizer: &dyn Optimizer,
        rows: &Rows,
        pass: &MicroBatch,
        recompute: Option<Recompute>,
    ) -> Result<MemoryStatistics> {
        let (rows, mode) = self.inputs(rows, pass, recompute)?;
        let launch = || self.launch(task, optimizer, &rows, &mode, pass);
        Ok(self.device.measure(launch)?)
    }

    /// The rows on the device, and the mode of a pass over them.
    fn inputs(
        &self,
        rows: &Rows,
        pass: &MicroBatch,
        recompute: Option<Recompute>,
    ) -> Result<(RowTensors, Mode)> {
        let rows = rows.to_tensors(&self.device)?;
        let is_part = pass.plan.accumulate || pass.level.is_none();
        let mode = Mode::train(&self.device, self.seed)?;
        let mode = mode
            .with_shards(pass.plan.shards, is_part)
            .with_recomputation(recompute);
        let mode = match self.norms {
            Some(_) => mode.with_deferred_norms(),
            None => mode,
        };
        // Each replay sets the counter, by the step and the first sample.
        mode.set_counter(0, 0)?;
        Ok((rows, mode))
    }

    /// Launches a pass, and the update after one over the whole batch.
    fn launch(
        &self,
        task: &Task,
        optimizer: &dyn Optimizer,
        rows: &RowTensors,
        mode: &Mode,
        pass: &MicroBatch,
    ) -> Result<(), NnError> {
        let held = pass.plan.shards;
        let losses = self.losses.slice(0, held)?;
        if pass.plan.whole_batch {
            self.prepared.update()?;
        }
        self.prepared.use_in_recording();
        let (logits, of_shards) = match &self.balance {
            Some(_) => task.forward_with_balance(rows, mode)?,
            None => (task.forward(rows, mode)?, None),
        };
        let loss_scale = optimizer.loss_scale().transpose()?;
        let scale = match &loss_scale {
            Some(loss_scale) => no_grad(|| self.scale.mul(loss_scale))?,
            None => self.scale.clone(),
        };
        let (mut loss, row_losses) =
            logits.cross_entropy_with_rows(&rows.targets, &scale, self.label_smoothing)?;
        if let Some((balance, of_shards)) = self.balance.as_ref().zip(of_shards) {
            loss = balance.add(&loss, &of_shards, loss_scale.as_ref())?;
        }
        let rows_per_shard = rows.targets.n_elements() / held;
        column_sum(
            &self.device,
            &row_losses.buffer()?,
            &losses,
            held,
            rows_per_shard,
            1,
            pass.plan.accumulate,
        )?;
        loss.backward_with(&pass.plan)?;
        if pass.plan.whole_batch {
            optimizer.update(task.weights())?;
        }
        Ok(())
    }
}
