//! A graph being recorded: its launches are kept until all are known, then put in order, given
//! their memory and their pipelines, and written into one command buffer.

use std::collections::HashMap;
use std::sync::Arc;

use super::VulkanDevice;
use super::pipeline::PipelineRequest;
use super::recorder::{Arguments, Recorded, Recorder, View, check};
use super::schedule::{Access, schedule};
use crate::error::CoreError;
use crate::launch::{Binding, Launch};
use crate::memory::{BlockSource, Buffer, Lifetimes, MemoryPlan, PlannedMemory, TensorPool};
use crate::profile::Work;

/// The launches of a graph.
pub(super) struct Recording {
    device: Arc<VulkanDevice>,
    profiling: bool,
    operations: Vec<Operation>,
    /// Places the buffers that the graph allocates.
    plan: Arc<MemoryPlan>,
    /// The buffers from outside, by block and first word. The graph owns them: replays touch
    /// them, however early their other handles are dropped.
    inputs: HashMap<(u64, usize), Buffer>,
}

/// One launch, fill or copy.
struct Operation {
    name: &'static str,
    work: Work,
    action: Action,
    arguments: Vec<View>,
}

enum Action {
    Dispatch {
        request: PipelineRequest,
        push: Vec<u8>,
        groups: [u32; 3],
    },
    Fill(u32),
    /// From the first argument to the second.
    Copy,
}

impl Recording {
    pub fn new(device: &Arc<VulkanDevice>, source: &Arc<BlockSource>, profiling: bool) -> Self {
        Self {
            device: Arc::clone(device),
            profiling,
            operations: Vec::new(),
            plan: MemoryPlan::new(Arc::clone(source)),
            inputs: HashMap::new(),
        }
    }

    /// Makes a buffer that has no place until the graph ends.
    pub fn allocate(&self, len: usize) -> Buffer {
        self.plan.allocate(len)
    }

    /// Keeps the buffers that are not the graph's own.
    fn keep_inputs(&mut self, bindings: &[Binding<'_>]) {
        for buffer in bindings.iter().map(Binding::buffer) {
            if !buffer.is_unplaced() {
                let place = (buffer.block().id, buffer.offset());
                self.inputs.entry(place).or_insert_with(|| buffer.clone());
            }
        }
    }

    pub fn dispatch(&mut self, launch: &Launch<'_>, work: Work) -> Result<(), CoreError> {
        let arguments: Vec<View> = launch.bindings.iter().map(View::of).collect();
        check(
            &self.device,
            launch.name,
            &arguments,
            launch.push,
            launch.groups,
        )?;
        if launch.groups.contains(&0) {
            return Ok(());
        }
        self.keep_inputs(launch.bindings);
        self.operations.push(Operation {
            name: launch.name,
            work,
            action: Action::Dispatch {
                request: PipelineRequest::of(launch, &self.device),
                push: launch.push.to_vec(),
                groups: launch.groups,
            },
            arguments,
        });
        Ok(())
    }

    pub fn fill(&mut self, buffer: &Buffer, word: u32) {
        self.transfer("fill", Action::Fill(word), &[Binding::Write(buffer)]);
    }

    pub fn copy(&mut self, source: &Buffer, target: &Buffer) {
        let bindings = [Binding::Read(source), Binding::Write(target)];
        self.transfer("copy", Action::Copy, &bindings);
    }

    fn transfer(&mut self, name: &'static str, action: Action, bindings: &[Binding<'_>]) {
        if bindings[0].buffer().is_empty() {
            return;
        }
        self.keep_inputs(bindings);
        self.operations.push(Operation {
            name,
            work: Work::of(bindings),
            action,
            arguments: bindings.iter().map(View::of).collect(),
        });
    }

    /// Writes the graph; buffers whose handles are still held get their place in `pool`. Returns
    /// the memory of the graph's own buffers, and the buffers from outside.
    pub fn finish(
        self,
        pool: &Arc<TensorPool>,
    ) -> Result<(Recorded, PlannedMemory, Vec<Buffer>), CoreError> {
        let accesses: Vec<Vec<Access>> = self.operations.iter().map(Operation::accesses).collect();
        let (order, levels) = schedule(&accesses);
        let memory = self.plan.place(&self.lifetimes(&levels), pool)?;
        let pipelines = self.device.pipelines().prepare(
            &self.device,
            self.operations.iter().filter_map(Operation::request),
        )?;
        let mut recorder = Recorder::begin(&self.device, self.profiling, None)?;
        for idx in order {
            let operation = &self.operations[idx];
            let (name, arguments) = (operation.name, operation.arguments.as_slice());
            match &operation.action {
                Action::Dispatch {
                    request,
                    push,
                    groups,
                } => {
                    let pipeline = pipelines.get(request).ok_or_else(|| {
                        CoreError::invalid(name, "its pipeline was not made with the others")
                    })?;
                    let arguments = Arguments {
                        views: arguments,
                        push,
                        groups: *groups,
                    };
                    recorder.dispatch((name, operation.work), pipeline, &arguments)?;
                }
                Action::Fill(word) => recorder.fill(&arguments[0], *word)?,
                Action::Copy => recorder.copy(&arguments[0], &arguments[1])?,
            }
        }
        tracing::debug!(
            launches = recorder.launches(),
            barriers = recorder.barriers(),
            levels = levels.iter().max().map_or(0, |level| level + 1),
            memory = ?memory.statistics,
            "recorded a graph"
        );
        let inputs = self.inputs.into_values().collect();
        Ok((recorder.finish()?, memory, inputs))
    }

    /// The first and last level that touches each block.
    fn lifetimes(&self, levels: &[usize]) -> Lifetimes {
        let mut lifetimes = Lifetimes::new();
        for (operation, &level) in self.operations.iter().zip(levels) {
            for view in &operation.arguments {
                let life = lifetimes.entry(view.block_id()).or_insert((level, level));
                *life = (life.0.min(level), life.1.max(level));
            }
        }
        lifetimes
    }
}

impl Operation {
    fn accesses(&self) -> Vec<Access> {
        let access = |view: &View| Access {
            range: view.range(),
            writes: view.writes,
        };
        self.arguments.iter().map(access).collect()
    }

    fn request(&self) -> Option<&PipelineRequest> {
        match &self.action {
            Action::Dispatch { request, .. } => Some(request),
            Action::Fill(_) | Action::Copy => None,
        }
    }
}
