//! Execution: tensors out of the store, kernels in order, results back into it.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use hlx_core::digest::canonical_bits;
use hlx_core::{
    Buffer, CommandBufferPool, ComputePipeline, DescriptorBindingBuilder, DescriptorBindings,
    Device, RecordedCommands,
};
use hlx_store::{Dtype, Handle, Objects, Store};

use super::check::{check, check_limits};
use super::loaded::{self, Loaded};
use super::own;
use super::twins::{self, no_twin};
use super::{ContractError, Kernel, Pipeline, Port};

/// The name of contracts' kernels in timing reports; their own is in errors.
const LAUNCH_NAME: &str = "contract";

/// Pipelines that a process holds at most; one that uses more of them makes some again.
const MAX_PIPELINES: usize = 256;

/// A contract that can be executed: a [`Kernel`] or a [`Pipeline`].
pub trait Executable {
    /// The contract as a pipeline; a kernel is one alone.
    fn as_pipeline(&self) -> Cow<'_, Pipeline>;
}

impl Executable for Kernel {
    fn as_pipeline(&self) -> Cow<'_, Pipeline> {
        Cow::Owned(Pipeline::of(self))
    }
}

impl Executable for Pipeline {
    fn as_pipeline(&self) -> Cow<'_, Pipeline> {
        Cow::Borrowed(self)
    }
}

/// An output with its handle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedHandle {
    /// Its place among the kernels, and its name.
    pub port: Port,
    /// What an element is.
    pub dtype: Dtype,
    /// The extents, outermost first.
    pub shape: Vec<u64>,
    /// The tensor's handle.
    pub handle: Handle,
}

/// The result of an execution.
#[derive(Clone, Debug)]
pub struct Execution {
    /// The result: the tensor's handle of a contract with one output. Of more outputs, the handle
    /// of a list: a line of bytes `KERNEL NAME HANDLE` each, in their order.
    pub handle: Handle,
    /// The outputs.
    pub outputs: Vec<NamedHandle>,
    /// From the submission until the device was done, in milliseconds.
    pub run_ms: f64,
}

/// Executes contracts: for [`Device`].
pub trait Execute {
    /// Executes a contract with the user's store ([`Store::open_default`]) and returns the
    /// handle of its result, which is in the store.
    ///
    /// # Errors
    /// [`ContractError`], by what is wrong: the contract, its shader, an input, the device.
    fn execute(&self, contract: &impl Executable) -> Result<Handle, ContractError>;

    /// Executes a contract with a store of the caller's.
    ///
    /// # Errors
    /// As [`Execute::execute`].
    fn execute_in(
        &self,
        store: &dyn Objects,
        contract: &impl Executable,
    ) -> Result<Execution, ContractError>;

    /// Checks a contract, takes its inputs out of the store and makes it ready to run many times.
    ///
    /// # Errors
    /// As [`Execute::execute`].
    fn prepare(
        &self,
        store: &dyn Objects,
        contract: &impl Executable,
    ) -> Result<Prepared, ContractError>;
}

impl Execute for Device {
    fn execute(&self, contract: &impl Executable) -> Result<Handle, ContractError> {
        let pipeline = contract.as_pipeline();
        let store = Store::open_default().map_err(ContractError::store(&pipeline.name))?;
        Ok(self.execute_in(&store, contract)?.handle)
    }

    fn execute_in(
        &self,
        store: &dyn Objects,
        contract: &impl Executable,
    ) -> Result<Execution, ContractError> {
        self.prepare(store, contract)?.run_into(store)
    }

    fn prepare(
        &self,
        store: &dyn Objects,
        contract: &impl Executable,
    ) -> Result<Prepared, ContractError> {
        let pipeline = contract.as_pipeline();
        pipeline.check()?;
        let mut shaders = Vec::with_capacity(pipeline.kernels.len());
        for kernel in &pipeline.kernels {
            let shader = loaded::load(store, &kernel.name, &kernel.shader)?;
            check(kernel, &shader)?;
            if !self.is_cpu() {
                check_limits(self, kernel, &shader)?;
            }
            shaders.push(shader);
        }
        let buffers = Buffers::new(self, store, &pipeline)?;
        let work = if self.is_cpu() {
            Work::twins(self, &pipeline, &shaders, &buffers)?
        } else {
            Work::record(self, &pipeline, &shaders, &buffers)?
        };
        let outputs = pipeline.outputs.iter().filter_map(|port| {
            let output = pipeline.output(port)?;
            let buffer = buffers.of(port.kernel as usize, output.binding)?.clone();
            Some((port.clone(), output.dtype, output.shape.clone(), buffer))
        });
        Ok(Prepared {
            device: self.clone(),
            name: pipeline.name.clone(),
            outputs: outputs.collect(),
            made: buffers.made,
            _inputs: buffers.inputs,
            work,
            running: Mutex::default(),
        })
    }
}

/// A contract whose inputs are on the device and whose kernels are made.
pub struct Prepared {
    device: Device,
    name: String,
    outputs: Vec<(Port, Dtype, Vec<u64>, Buffer)>,
    /// What kernels write: zeros at the start of every run.
    made: Vec<Buffer>,
    _inputs: HashMap<(Handle, Dtype), Buffer>,
    work: Work,
    /// Held by a run: all of them write the same outputs.
    running: Mutex<()>,
}

/// The kernels of a prepared contract.
enum Work {
    Twins(Vec<(Kernel, &'static own::Own, Vec<Buffer>)>),
    Recorded(RecordedCommands),
}

impl Prepared {
    /// Runs it and returns the handles of its outputs; nothing is stored.
    ///
    /// # Errors
    /// [`ContractError::Core`] with the device's message.
    pub fn run(&self) -> Result<Execution, ContractError> {
        self.results(|dtype, shape, bytes| {
            Handle::of_tensor(dtype, shape, bytes).map_err(ContractError::store(&self.name))
        })
    }

    /// Runs it and puts its outputs into a store.
    ///
    /// # Errors
    /// As [`Prepared::run`], and [`ContractError::Store`].
    pub fn run_into(&self, store: &dyn Objects) -> Result<Execution, ContractError> {
        let failed = || ContractError::store(&self.name);
        let execution = self.results(|dtype, shape, bytes| {
            store.put_tensor(dtype, shape, bytes).map_err(failed())
        })?;
        if execution.outputs.len() > 1 {
            store
                .put_bytes(&list(&execution.outputs))
                .map_err(failed())?;
        }
        Ok(execution)
    }

    fn results(
        &self,
        mut name: impl FnMut(Dtype, &[usize], &[u8]) -> Result<Handle, ContractError>,
    ) -> Result<Execution, ContractError> {
        let failed = || ContractError::core(&self.name);
        let _running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        for buffer in &self.made {
            self.device.fill(buffer, 0).map_err(failed())?;
        }
        let start = Instant::now();
        match &self.work {
            Work::Recorded(commands) => commands.submit().map_err(failed())?,
            Work::Twins(twins) => {
                for (kernel, own, buffers) in twins {
                    twins::run(own, &self.device, kernel, buffers)?;
                }
            }
        }
        self.device.sync().map_err(failed())?;
        let run_ms = start.elapsed().as_secs_f64() * 1e3;
        let mut outputs = Vec::with_capacity(self.outputs.len());
        for (port, dtype, shape, buffer) in &self.outputs {
            let words = self.device.download_words(buffer).map_err(failed())?;
            let bytes = canonical_bytes(*dtype, words);
            let extents: Vec<usize> = shape.iter().map(|&extent| extent as usize).collect();
            outputs.push(NamedHandle {
                port: port.clone(),
                dtype: *dtype,
                shape: shape.clone(),
                handle: name(*dtype, &extents, &bytes)?,
            });
        }
        let handle = match &outputs[..] {
            [one] => one.handle,
            several => Handle::of_bytes(&list(several)),
        };
        Ok(Execution {
            handle,
            outputs,
            run_ms,
        })
    }
}

/// The list of several outputs, one line each.
fn list(outputs: &[NamedHandle]) -> Vec<u8> {
    let line = |output: &NamedHandle| {
        let Port { kernel, name } = &output.port;
        format!("{kernel} {name} {}\n", output.handle)
    };
    outputs.iter().map(line).collect::<String>().into_bytes()
}

/// A tensor's bytes, every NaN as 0x7fc00000: payloads differ between devices.
fn canonical_bytes(dtype: Dtype, words: Vec<u32>) -> Vec<u8> {
    let map = |word: u32| match dtype {
        Dtype::F32 => canonical_bits(f32::from_bits(word)),
        _ => word,
    };
    words
        .into_iter()
        .flat_map(|word| map(word).to_le_bytes())
        .collect()
}

/// The buffers of a pipeline: by kernel and binding.
struct Buffers {
    by_port: HashMap<(usize, u32), Buffer>,
    inputs: HashMap<(Handle, Dtype), Buffer>,
    made: Vec<Buffer>,
}

impl Buffers {
    fn new(
        device: &Device,
        store: &dyn Objects,
        pipeline: &Pipeline,
    ) -> Result<Self, ContractError> {
        let mut buffers = Self {
            by_port: HashMap::new(),
            inputs: HashMap::new(),
            made: Vec::new(),
        };
        for (place, kernel) in pipeline.kernels.iter().enumerate() {
            for output in &kernel.outputs {
                let n: u64 = output.shape.iter().product();
                let failed = ContractError::core(&kernel.name);
                let buffer = device.alloc_isolated(n as usize).map_err(failed)?;
                buffers.made.push(buffer.clone());
                buffers.by_port.insert((place, output.binding), buffer);
            }
        }
        for (place, kernel) in pipeline.kernels.iter().enumerate() {
            for bound in kernel.bound().iter().filter(|bound| !bound.is_output) {
                let port = Port::new(place as u32, bound.name);
                let input = kernel
                    .inputs
                    .iter()
                    .find(|input| input.binding == bound.binding);
                let buffer = match input.and_then(|input| input.tensor) {
                    Some(handle) => buffers.input(device, store, kernel, bound, handle)?,
                    None => buffers.linked(pipeline, &port).ok_or_else(|| {
                        kernel.binding_error(bound, "neither a tensor nor a link")
                    })?,
                };
                buffers.by_port.insert((place, bound.binding), buffer);
            }
        }
        Ok(buffers)
    }

    fn of(&self, kernel: usize, binding: u32) -> Option<&Buffer> {
        self.by_port.get(&(kernel, binding))
    }

    fn linked(&self, pipeline: &Pipeline, to: &Port) -> Option<Buffer> {
        let link = pipeline.links.iter().find(|link| link.to == *to)?;
        let output = pipeline.output(&link.from)?;
        self.of(link.from.kernel as usize, output.binding).cloned()
    }

    /// Takes a tensor out of the store; one that is named twice lies on the device once.
    fn input(
        &mut self,
        device: &Device,
        store: &dyn Objects,
        kernel: &Kernel,
        bound: &super::kernel::Bound<'_>,
        handle: Handle,
    ) -> Result<Buffer, ContractError> {
        let wrong = |reason: String| kernel.binding_error(bound, reason);
        let tensor = store
            .get_tensor(&handle)
            .map_err(|error| wrong(error.to_string()))?;
        let shape: Vec<u64> = tensor.shape.iter().map(|&extent| extent as u64).collect();
        if tensor.dtype != bound.dtype || shape != bound.shape {
            let (found, expected) = (tensor.dtype, bound.dtype);
            let reason = format!(
                "{handle} is {found} {shape:?}, expected {expected} {:?}",
                bound.shape
            );
            return Err(wrong(reason));
        }
        if let Some(buffer) = self.inputs.get(&(handle, tensor.dtype)) {
            return Ok(buffer.clone());
        }
        let words = tensor.data.as_chunks::<4>().0;
        let words: Vec<u32> = words
            .iter()
            .map(|&bytes| u32::from_le_bytes(bytes))
            .collect();
        let failed = || ContractError::core(&kernel.name);
        let buffer = device.alloc_isolated(words.len()).map_err(failed())?;
        match tensor.dtype {
            Dtype::F32 => {
                let values: Vec<f32> = words.into_iter().map(f32::from_bits).collect();
                device.upload(&buffer, &values)
            }
            _ => device.upload_words(&buffer, &words),
        }
        .map_err(failed())?;
        self.inputs.insert((handle, tensor.dtype), buffer.clone());
        Ok(buffer)
    }

    /// The buffers of a kernel in binding order.
    fn of_kernel(&self, place: usize, kernel: &Kernel) -> Vec<Buffer> {
        let bound = kernel.bound();
        bound
            .iter()
            .filter_map(|bound| self.of(place, bound.binding).cloned())
            .collect()
    }
}

impl Work {
    fn twins(
        device: &Device,
        pipeline: &Pipeline,
        shaders: &[Arc<Loaded>],
        buffers: &Buffers,
    ) -> Result<Self, ContractError> {
        let mut twins = Vec::with_capacity(shaders.len());
        for (place, (kernel, shader)) in pipeline.kernels.iter().zip(shaders).enumerate() {
            let why = format!("shader {} is not one of HLX's own", shader.handle);
            let own =
                own::by_handle(&shader.handle).ok_or_else(|| no_twin(device, kernel, &why))?;
            twins.push((kernel.clone(), own, buffers.of_kernel(place, kernel)));
        }
        Ok(Self::Twins(twins))
    }

    fn record(
        device: &Device,
        pipeline: &Pipeline,
        shaders: &[Arc<Loaded>],
        buffers: &Buffers,
    ) -> Result<Self, ContractError> {
        let mut dispatches = Vec::with_capacity(shaders.len());
        for (place, (kernel, shader)) in pipeline.kernels.iter().zip(shaders).enumerate() {
            let compiled = compiled(device, LAUNCH_NAME, kernel, shader)?;
            let bindings = bind(kernel, shader, &compiled, &buffers.of_kernel(place, kernel))?;
            dispatches.push((compiled, bindings, kernel.push_bytes(), kernel.workgroups));
        }
        let failed = || ContractError::core(&pipeline.name);
        let pool = CommandBufferPool::new(device).map_err(failed())?;
        let recorded = pool.record(|recorder| {
            dispatches
                .iter()
                .try_for_each(|(compiled, bindings, push, workgroups)| {
                    recorder.dispatch(compiled, bindings, push, *workgroups)
                })
        });
        Ok(Self::Recorded(recorded.map_err(failed())?))
    }
}

fn bind(
    kernel: &Kernel,
    shader: &Loaded,
    compiled: &ComputePipeline,
    buffers: &[Buffer],
) -> Result<DescriptorBindings, ContractError> {
    let builder = DescriptorBindingBuilder::new();
    let bound = kernel.bound();
    let builder = bound
        .iter()
        .zip(buffers)
        .fold(builder, |builder, (bound, buffer)| {
            let reads = shader
                .reflection
                .bindings
                .get(&bound.binding)
                .is_some_and(|info| info.reads);
            match (bound.is_output, reads) {
                (false, _) => builder.read(buffer),
                (true, false) => builder.write(buffer),
                (true, true) => builder.read_write(buffer),
            }
        });
    builder
        .build(compiled)
        .map_err(ContractError::core(&kernel.name))
}

/// What makes two pipelines the same: the opened device, the name in reports, the shader, and its constants.
type Key = (String, &'static str, Handle, Vec<(u32, u32)>);

/// Returns the pipeline of a kernel, made once a process and device.
pub(crate) fn compiled(
    device: &Device,
    name: &'static str,
    kernel: &Kernel,
    shader: &Loaded,
) -> Result<ComputePipeline, ContractError> {
    static COMPILED: Mutex<Option<HashMap<Key, ComputePipeline>>> = Mutex::new(None);
    let mut pipelines = COMPILED.lock().unwrap_or_else(PoisonError::into_inner);
    let pipelines = pipelines.get_or_insert_default();
    let constants = kernel.constants();
    let key = (
        device.label().to_owned(),
        name,
        shader.handle,
        constants.clone(),
    );
    if let Some(compiled) = pipelines.get(&key) {
        return Ok(compiled.clone());
    }
    // SAFETY: the validator has passed the module, and its reflection gave the interface.
    let made = unsafe {
        ComputePipeline::from_spirv(
            device,
            name,
            &shader.words,
            &shader.entry_point,
            &constants,
            shader.reflection.bindings.len(),
            4 * shader.reflection.push_constants.len(),
        )
    };
    let made = made.map_err(|error| ContractError::Device {
        contract: kernel.name.clone(),
        device: device.info().name.clone(),
        reason: error.to_string(),
    })?;
    if pipelines.len() >= MAX_PIPELINES {
        pipelines.clear();
    }
    pipelines.insert(key, made.clone());
    Ok(made)
}
