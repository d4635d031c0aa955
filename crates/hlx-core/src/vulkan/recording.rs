//! A graph being recorded: its launches are held until all are known, then put in order, given
//! their memory and their pipelines, and written into one command buffer.

use std::collections::HashMap;
use std::sync::Arc;

use super::arguments::{Arguments, check};
use super::pace::Groups;
use super::pipeline::{Pipeline, PipelineRequest, Pipelines};
use super::recorded::Recorded;
use super::recorder::{Measured, Recorder};
use super::schedule::schedule;
use super::{Pace, VulkanDevice};
use crate::error::CoreError;
use crate::fusion::{CHAIN_NAME, Chain, Fusable, Node, Planned, fuse};
use crate::launch::{Binding, Launch};
use crate::memory::{
    BlockSource, Buffer, Heirs, Lifetimes, MemoryPlan, MemoryStatistics, PlannedMemory, TensorPool,
};
use crate::recording::RecordingOptions;
use crate::timing::Work;
use crate::unread::{needed, written_twice};
use crate::view::{Access, View};
use crate::watched::final_after;

/// The launches of a graph.
pub(super) struct Recording {
    device: Arc<VulkanDevice>,
    pace: Pace,
    timing: bool,
    options: RecordingOptions,
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
    /// For a launch that may be joined with others.
    fusable: Option<Arc<dyn Fusable>>,
}

enum Action {
    /// A launch of a pipeline of the user's.
    Made {
        pipeline: Arc<Pipeline>,
        push: Vec<u8>,
        groups: [u32; 3],
    },
    Dispatch {
        request: PipelineRequest,
        push: Vec<u8>,
        groups: [u32; 3],
        /// What the launch is cut into; the whole of it, unless it is too long for a submission.
        ranges: Vec<Groups>,
    },
    Fill(u32),
    /// From the first argument to the second.
    Copy,
}

impl Recording {
    pub fn new(
        device: &Arc<VulkanDevice>,
        source: &Arc<BlockSource>,
        pace: Pace,
        timing: bool,
        options: RecordingOptions,
    ) -> Self {
        Self {
            device: Arc::clone(device),
            pace,
            timing,
            options,
            operations: Vec::new(),
            plan: MemoryPlan::new(Arc::clone(source)),
            inputs: HashMap::new(),
        }
    }

    /// Makes a buffer that has no place until the graph ends, or refuses a size that no memory has.
    pub fn allocate(&self, len: usize) -> Result<Buffer, CoreError> {
        self.plan.allocate(len)
    }

    /// How long a submission of the graph may take, in nanoseconds.
    pub fn limit_ns(&self) -> f64 {
        self.pace.limit_ns
    }

    /// Holds the buffers that are not the graph's own.
    fn hold_inputs(&mut self, bindings: &[Binding<'_>]) {
        for buffer in bindings.iter().map(Binding::buffer) {
            if !buffer.is_unplaced() {
                let place = (buffer.block().id, buffer.offset());
                self.inputs.entry(place).or_insert_with(|| buffer.clone());
            }
        }
    }

    pub fn dispatch(
        &mut self,
        launch: &Launch<'_>,
        work: Work,
        fusable: Option<Arc<dyn Fusable>>,
    ) -> Result<(), CoreError> {
        let arguments: Vec<View> = launch.bindings.iter().map(View::of).collect();
        let mut operation = self.operation(launch, work, arguments)?;
        operation.fusable = fusable;
        if launch.groups.contains(&0) {
            return Ok(());
        }
        self.hold_inputs(launch.bindings);
        self.operations.push(operation);
        Ok(())
    }

    /// Adds a launch of a pipeline that is made already.
    pub fn dispatch_made(
        &mut self,
        name: &'static str,
        pipeline: &Arc<Pipeline>,
        bindings: &[Binding<'_>],
        push: &[u8],
        groups: [u32; 3],
    ) -> Result<(), CoreError> {
        let arguments: Vec<View> = bindings.iter().map(View::of).collect();
        check(&self.device, name, &arguments, push, groups)?;
        if groups.contains(&0) {
            return Ok(());
        }
        self.hold_inputs(bindings);
        self.operations.push(Operation {
            name,
            work: Work::of(bindings),
            action: Action::Made {
                pipeline: Arc::clone(pipeline),
                push: push.to_vec(),
                groups,
            },
            arguments,
            fusable: None,
        });
        Ok(())
    }

    /// A launch over these windows in the place of its bindings.
    fn operation(
        &self,
        launch: &Launch<'_>,
        work: Work,
        arguments: Vec<View>,
    ) -> Result<Operation, CoreError> {
        let (device, name) = (&self.device, launch.name);
        check(device, name, &arguments, launch.push, launch.groups)?;
        let ranges = self.pace.cut(launch, work);
        let based = ranges.len() > 1;
        let request = PipelineRequest::of(launch, arguments.len(), device, based);
        Ok(Operation {
            name,
            work,
            action: Action::Dispatch {
                request,
                push: launch.push.to_vec(),
                groups: launch.groups,
                ranges,
            },
            arguments,
            fusable: None,
        })
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
        self.hold_inputs(bindings);
        self.operations.push(Operation {
            name,
            work: Work::of(bindings),
            action,
            arguments: bindings.iter().map(View::of).collect(),
            fusable: None,
        });
    }

    /// Drops the operations whose results nobody reads. What is written a second time is written to memory that nobody
    /// reads.
    fn skip_unread(&mut self) -> Result<(), CoreError> {
        let arguments = self.operations.iter().map(|op| op.arguments.as_slice());
        let arguments: Vec<&[View]> = arguments.collect();
        let needed = needed(&arguments, &self.plan.dropped());
        for (at, argument) in written_twice(&arguments, &needed) {
            let view = &mut self.operations[at].arguments[argument];
            *view = View::of(&Binding::Write(&self.plan.allocate(view.len)?));
        }
        let mut needed = needed.into_iter();
        self.operations.retain(|_| needed.next().unwrap_or(true));
        Ok(())
    }

    /// Joins chains of launches.
    fn join(&mut self) -> Result<(), CoreError> {
        let accesses = self.accesses();
        let nodes = self.operations.iter().zip(&accesses);
        let nodes: Vec<Node<'_>> = nodes
            .map(|(operation, accesses)| Node {
                accesses,
                fusable: operation.fusable.as_ref(),
            })
            .collect();
        let dropped = self.plan.dropped();
        let limits = self.device.limits();
        let planned = fuse(&nodes, &|block| dropped.contains(&block), limits);
        let mut taken: Vec<Option<Operation>> = Vec::new();
        taken.extend(self.operations.drain(..).map(Some));
        for planned in planned {
            let operation = match planned {
                Planned::Alone(at) => taken[at].take(),
                Planned::Chain(chain) => Some(self.joined(&chain, &taken)?),
            };
            self.operations.extend(operation);
        }
        Ok(())
    }

    fn joined(
        &self,
        chain: &Chain,
        operations: &[Option<Operation>],
    ) -> Result<Operation, CoreError> {
        let of = |&(launch, binding): &(usize, usize)| {
            Some(operations[launch].as_ref()?.arguments[binding].clone())
        };
        let arguments: Vec<View> = chain.bindings.iter().filter_map(of).collect();
        let members = chain.members.iter();
        let members = members.filter_map(|&at| operations[at].as_ref());
        let work = Work {
            bytes: arguments.iter().map(View::bytes).sum(),
            flops: members
                .map(|operation| operation.work.flops)
                .fold(0, u64::saturating_add),
        };
        let joined = chain.join()?;
        let launch = Launch {
            name: CHAIN_NAME,
            shader: joined.shader,
            specialization: &joined.specialization,
            bindings: &[],
            push: &joined.push,
            groups: joined.groups,
        };
        self.operation(&launch, work, arguments)
    }

    fn accesses(&self) -> Vec<Vec<Access>> {
        self.operations.iter().map(Operation::accesses).collect()
    }

    /// Drops what nobody reads, and joins what can be joined.
    fn drop_and_join(&mut self) -> Result<(), CoreError> {
        if self.options.skips_unread {
            self.skip_unread()?;
        }
        match self.options.joins {
            true => self.join(),
            false => Ok(()),
        }
    }

    /// The memory that the graph would hold.
    pub fn measure(mut self) -> Result<MemoryStatistics, CoreError> {
        self.drop_and_join()?;
        let (_, levels) = schedule(&self.accesses());
        let lifetimes = self.lifetimes(&levels);
        let heirs = self.heirs(&levels, &lifetimes);
        Ok(self.plan.measure(&lifetimes, &heirs))
    }

    /// Writes the graph, cut where the watched windows are final; buffers whose handles are still held get
    /// their place in `pool`.
    pub fn finish(
        mut self,
        pool: &Arc<TensorPool>,
        watched: &[Buffer],
    ) -> Result<Finished, CoreError> {
        let recorded = self.operations.len();
        self.drop_and_join()?;
        let accesses = self.accesses();
        let (order, levels) = schedule(&accesses);
        let places = accesses.iter().map(Vec::as_slice);
        let final_after = final_after(watched, places.zip(levels.iter().copied()));
        let lifetimes = self.lifetimes(&levels);
        let heirs = self.heirs(&levels, &lifetimes);
        let memory = self.plan.place(&lifetimes, &heirs, pool)?;
        let pipelines = self.device.pipelines().prepare(
            &self.device,
            self.operations.iter().filter_map(Operation::request),
        )?;
        let mut writer = Writer::new(&self)?;
        let (mut cuts, mut final_after) = (Vec::new(), final_after.into_iter().peekable());
        for idx in order {
            // A level's launches run side by side, so the cut is after the last of them.
            while final_after.next_if(|&after| after <= levels[idx]).is_some() {
                cuts.push(writer.cut()?);
            }
            writer.write(&self.operations[idx], &pipelines)?;
        }
        for _ in final_after {
            cuts.push(writer.cut()?);
        }
        let segments = writer.finish()?;
        tracing::debug!(
            recorded,
            launches = self.operations.len(),
            barriers = segments.iter().map(Recorded::barriers).sum::<usize>(),
            levels = levels.iter().max().map_or(0, |level| level + 1),
            command_buffers = segments.len(),
            memory = ?memory.statistics,
            "recorded a graph"
        );
        Ok(Finished {
            launches: self.operations.len(),
            segments,
            cuts,
            memory,
            inputs: self.inputs.into_values().collect(),
        })
    }

    /// The estimated time of all launches, in nanoseconds.
    fn estimate_ns(&self) -> f64 {
        let estimates = self.operations.iter();
        estimates.map(|op| self.pace.estimate_ns(op.work)).sum()
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

impl Recording {
    /// The results that take the memory of what they are made of: whole buffers without handles, of which
    /// one is read for the last time, and by nobody else at its level, where the other is written first.
    fn heirs(&self, levels: &[usize], lifetimes: &Lifetimes) -> Heirs {
        let dropped = self.plan.dropped();
        let touches =
            |operation: &Operation, id| operation.arguments.iter().any(|v| v.block_id() == id);
        let mut heirs = Heirs::new();
        for (operation, &level) in self.operations.iter().zip(levels) {
            let Some(result) = operation.arguments.iter().find(|view| view.replaces) else {
                continue;
            };
            let source = &operation.arguments[0];
            let (from, to) = (source.block_id(), result.block_id());
            let are_whole = source.is_whole() && result.is_whole() && source.len == result.len;
            let are_dropped = from != to && dropped.contains(&from) && dropped.contains(&to);
            let ends = lifetimes.get(&from).is_some_and(|life| life.1 == level);
            let begins = lifetimes.get(&to).is_some_and(|life| life.0 == level);
            let at_level = self.operations.iter().zip(levels);
            let users = at_level.filter(|(other, at)| **at == level && touches(other, from));
            if are_whole && are_dropped && ends && begins && users.count() == 1 {
                heirs.insert(to, from);
            }
        }
        heirs
    }
}

/// A graph that is written.
pub(super) struct Finished {
    /// The number of launches.
    pub launches: usize,
    /// Its command buffers, in order.
    pub segments: Vec<Recorded>,
    /// How many of them go before each watched window is final.
    pub cuts: Vec<usize>,
    /// The memory of its own buffers.
    pub memory: PlannedMemory,
    /// The buffers from outside.
    pub inputs: Vec<Buffer>,
}

/// Writes a graph's launches into command buffers: one, unless the graph is long.
struct Writer<'a> {
    device: &'a Arc<VulkanDevice>,
    pace: Pace,
    /// The estimated time at which the next command buffer is begun, in nanoseconds.
    segment_ns: f64,
    measured: Measured,
    recorder: Recorder,
    segments: Vec<Recorded>,
}

impl<'a> Writer<'a> {
    /// A graph that takes more than a submission by estimate is cut and measured. Below, it is one
    /// command buffer, and costs no timestamp.
    fn new(recording: &'a Recording) -> Result<Self, CoreError> {
        let (device, pace) = (&recording.device, recording.pace);
        let long = recording.estimate_ns() > pace.limit_ns;
        let (segment_ns, whole) = match long {
            true => (pace.segment_ns(), Measured::Whole),
            false => (f64::INFINITY, Measured::No),
        };
        let measured = match recording.timing {
            true => Measured::Launches,
            false => whole,
        };
        Ok(Self {
            device,
            pace,
            segment_ns,
            measured,
            recorder: Recorder::begin(device, measured, None)?,
            segments: Vec::new(),
        })
    }

    fn write(&mut self, operation: &Operation, pipelines: &Pipelines) -> Result<(), CoreError> {
        let (name, arguments) = (operation.name, operation.arguments.as_slice());
        match &operation.action {
            Action::Made {
                pipeline,
                push,
                groups,
            } => {
                let arguments = Arguments {
                    views: arguments,
                    push,
                    groups: Groups::all(*groups),
                };
                let recorder = self.recorder_for(operation.work)?;
                recorder.dispatch(name, operation.work, pipeline, &arguments)
            }
            Action::Dispatch {
                request,
                push,
                groups,
                ranges,
            } => {
                let pipeline = pipelines.get(request).ok_or_else(|| {
                    CoreError::invalid(name, "its pipeline was not made with the others")
                })?;
                for &range in ranges {
                    let work = range.share(operation.work, *groups);
                    let arguments = Arguments {
                        views: arguments,
                        push,
                        groups: range,
                    };
                    self.recorder_for(work)?
                        .dispatch(name, work, pipeline, &arguments)?;
                }
                Ok(())
            }
            Action::Fill(word) => {
                let recorder = self.recorder_for(operation.work)?;
                recorder.fill(&arguments[0], *word)
            }
            Action::Copy => {
                let recorder = self.recorder_for(operation.work)?;
                recorder.copy(&arguments[0], &arguments[1])
            }
        }
    }

    /// The command buffer that takes the next launch, of this work.
    fn recorder_for(&mut self, work: Work) -> Result<&mut Recorder, CoreError> {
        let estimate = self.pace.estimate_ns(work);
        if self.recorder.estimate_ns() + estimate > self.segment_ns {
            self.cut()?;
        }
        self.recorder.add_estimate(estimate);
        Ok(&mut self.recorder)
    }

    /// Ends the command buffer if it holds a launch; returns the number of those that are full.
    fn cut(&mut self) -> Result<usize, CoreError> {
        if self.recorder.launches() > 0 {
            let next = Recorder::begin(self.device, self.measured, None)?;
            let full = std::mem::replace(&mut self.recorder, next);
            self.segments.push(full.finish()?);
        }
        Ok(self.segments.len())
    }

    fn finish(mut self) -> Result<Vec<Recorded>, CoreError> {
        if self.recorder.launches() > 0 || self.segments.is_empty() {
            self.segments.push(self.recorder.finish()?);
        }
        Ok(self.segments)
    }
}

impl Operation {
    fn accesses(&self) -> Vec<Access> {
        self.arguments.iter().map(View::access).collect()
    }

    fn request(&self) -> Option<&PipelineRequest> {
        match &self.action {
            Action::Dispatch { request, .. } => Some(request),
            Action::Made { .. } | Action::Fill(_) | Action::Copy => None,
        }
    }
}
