//! The compute layer: shaders of the user's own over tensors, graphs of launches, and their times.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hlx_autograd::{AutogradError, Tensor, gradients_enabled};
use hlx_contract::spirv::ScalarKind;
use hlx_contract::{Program, Scalar, Shader, SpecializationConstant, inspect};
use hlx_core::{CoreError, Device, Graph, OpenRecording, sizes};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::contract::{interface, of_contract, open};
use crate::device::PyDevice;
use crate::dtype::PyDType;
use crate::error::{Kind, foreign, of_core, raised, value_error};
use crate::fork;
use crate::gate;
use crate::tensor::PyTensor;
use crate::wait::{run, wait};

/// A word as a scalar of its kind; padding is an unsigned integer.
fn scalar(kind: Option<ScalarKind>, word: u32) -> Scalar {
    match kind {
        Some(ScalarKind::Bool) => Scalar::Bool(word != 0),
        Some(ScalarKind::I32) => Scalar::I32(word as i32),
        Some(ScalarKind::F32) => Scalar::f32(f32::from_bits(word)),
        _ => Scalar::U32(word),
    }
}

/// A shader with its pipeline on a device.
#[pyclass(frozen, module = "hlx._hlx")]
pub struct ComputeProgram {
    program: Arc<Program>,
    device: Device,
    name: String,
}

impl ComputeProgram {
    /// The tensors as they are bound. A gradient would get lost, so that a tensor that requires one is refused.
    fn bound(&self, tensors: &[Bound<'_, PyTensor>]) -> PyResult<Vec<Tensor>> {
        let wrong = |place: usize, reason: String| {
            let info = self.program.interface().bindings.get(&(place as u32));
            let declared = info.map_or(String::new(), |info| format!(" ({})", info.name));
            Err(value_error(format!(
                "{}: binding {place}{declared}: {reason}",
                self.name
            )))
        };
        let mut bound = Vec::with_capacity(tensors.len());
        for (place, tensor) in tensors.iter().enumerate() {
            let x = tensor.get().handle();
            if !x.device().is_same(&self.device) {
                let (found, expected) = (x.device().info(), self.device.info());
                return wrong(
                    place,
                    format!("the tensor is on {found}, the kernel on {expected}"),
                );
            }
            if x.requires_grad() && gradients_enabled() {
                let reason = "the tensor requires a gradient, which a kernel of one's own does not give: detach() it, or \
                              use the kernel in an autograd.Function";
                return wrong(place, reason.to_owned());
            }
            bound.push(x);
        }
        Ok(bound)
    }
}

#[pymethods]
impl ComputeProgram {
    /// Makes a shader's pipeline on a device. Constants are ids and words.
    #[new]
    fn new(
        py: Python<'_>,
        device: &PyDevice,
        name: String,
        spirv: &[u8],
        entry_point: &str,
        constants: Vec<(u32, u32)>,
    ) -> PyResult<Self> {
        let device = open(py, device)?;
        let mut shader = Shader::compute(spirv);
        entry_point.clone_into(&mut shader.entry_point);
        let make = || {
            let reflection = inspect(&shader).map_err(of_contract)?;
            let value = |(id, word): (u32, u32)| SpecializationConstant {
                id,
                value: scalar(reflection.constants.get(&id).map(|info| info.kind), word),
            };
            let constants: Vec<_> = constants.into_iter().map(value).collect();
            Program::new(&device, &name, &shader, &constants).map_err(of_contract)
        };
        let program = Arc::new(py.detach(make)?);
        Ok(Self {
            program,
            device,
            name,
        })
    }

    /// The shader's interface, with the workgroup's size under the constants.
    #[getter]
    fn interface<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let found = interface(py, self.program.interface())?;
        found.set_item("workgroup_size", self.program.workgroup_size())?;
        Ok(found)
    }

    /// Launches the shader over tensors in the order of its bindings. `push` is the block's words.
    fn launch(
        &self,
        py: Python<'_>,
        tensors: Vec<Bound<'_, PyTensor>>,
        push: &[u8],
        workgroups: [u32; 3],
    ) -> PyResult<()> {
        let tensors = self.bound(&tensors)?;
        let kinds = &self.program.interface().push_constants;
        let words = push
            .as_chunks()
            .0
            .iter()
            .map(|&word| u32::from_le_bytes(word));
        let push: Vec<Scalar> = kinds
            .iter()
            .zip(words)
            .map(|(&kind, word)| scalar(kind, word))
            .collect();
        let program = &self.program;
        run(py, || {
            let buffers = tensors.iter().map(Tensor::buffer);
            let buffers: Vec<_> = buffers.collect::<hlx_autograd::Result<_>>()?;
            let launched = program.launch(&buffers, &push, workgroups);
            launched.map_err(|error| foreign(of_contract(error)))?;
            // Tensors that do not lie in row-major order were copied, and what was stored goes back.
            let infos = program.interface().bindings.values();
            for ((info, x), buffer) in infos.zip(&tensors).zip(buffers) {
                if info.writes && !x.operand().buffer.overlaps(&buffer) {
                    let written = Tensor::from_buffer(x.device(), buffer, x.shape())?;
                    x.detach().copy_(&written)?;
                }
            }
            Ok(())
        })
    }
}

/// Copies a tensor into an allocation of its own on a device, without the tape.
#[pyfunction]
pub fn isolate(py: Python<'_>, tensor: &PyTensor, device: &PyDevice) -> PyResult<PyTensor> {
    let (x, device) = (tensor.handle().detach(), device.open(py)?);
    run(py, || {
        let x = x.to(&device)?;
        let source = x.buffer()?;
        let own = device.alloc_isolated(source.words())?;
        let own = own.view_as(source.dtype(), source.len())?;
        if !source.is_empty() {
            device.copy(&source, &own)?;
        }
        Tensor::from_buffer(&device, own, x.shape())
    })
    .map(PyTensor::from)
}

/// Zeros in an allocation of their own on a device.
#[pyfunction]
pub fn isolated_zeros(
    py: Python<'_>,
    device: &PyDevice,
    shape: Vec<usize>,
    dtype: &PyDType,
) -> PyResult<PyTensor> {
    let (device, dtype) = (device.open(py)?, dtype.stored("zeros")?);
    run(py, || {
        let n_elements = sizes::elements("zeros", &shape)?;
        let own = device.alloc_isolated(dtype.words(n_elements))?;
        let own = own.view_as(dtype, n_elements)?;
        if n_elements > 0 {
            device.fill(&own, 0)?;
        }
        Tensor::from_buffer(&device, own, &shape)
    })
    .map(PyTensor::from)
}

/// Opens a device and returns its own name: `vulkan:0` for `vulkan`.
#[pyfunction]
pub fn open_device(py: Python<'_>, device: &PyDevice) -> PyResult<PyDevice> {
    Ok(PyDevice::of(&device.open(py)?))
}

/// A graph that is recorded and replayed.
#[pyclass(frozen, module = "hlx._hlx")]
pub struct RecordedGraph {
    device: Device,
    state: Mutex<State>,
}

enum State {
    New,
    Open(OpenRecording),
    Done(Arc<Graph>),
    /// The recording has failed, or its body has raised.
    Failed,
}

impl RecordedGraph {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn graph(&self) -> PyResult<Arc<Graph>> {
        let text = match &*self.state() {
            State::Done(graph) => return Ok(Arc::clone(graph)),
            State::New => "nothing was recorded: use `with` on it",
            State::Open(_) => "it is still being recorded",
            State::Failed => "its recording failed",
        };
        Err(raised(Kind::Runtime, format!("graph: {text}")))
    }
}

#[pymethods]
impl RecordedGraph {
    #[new]
    fn new(py: Python<'_>, device: &PyDevice) -> PyResult<Self> {
        Ok(Self {
            device: open(py, device)?,
            state: Mutex::new(State::New),
        })
    }

    /// Starts recording what this thread launches on the device. What other threads launch meanwhile is an error there,
    /// or waits for the end of the recording.
    #[pyo3(signature = (others_wait = false))]
    fn start(&self, py: Python<'_>, others_wait: bool) -> PyResult<()> {
        fork::check()?;
        if !matches!(&*self.state(), State::New) {
            return Err(raised(
                Kind::Runtime,
                "graph: it is recorded once; make another one",
            ));
        }
        if others_wait {
            gate::begin(py)?;
        }
        let recording = py.detach(|| self.device.start_recording());
        let recording = recording.map_err(|error| {
            gate::end();
            of_core(error)
        })?;
        *self.state() = State::Open(recording);
        Ok(())
    }

    /// Ends the recording; without `finish` it is dropped.
    fn end(&self, py: Python<'_>, finish: bool) -> PyResult<()> {
        let open = std::mem::replace(&mut *self.state(), State::Failed);
        let State::Open(recording) = open else {
            return Ok(());
        };
        if !finish {
            drop(recording);
            gate::end();
            return Ok(());
        }
        let graph = py.detach(|| recording.finish());
        gate::end();
        let graph = graph.map_err(of_core)?;
        *self.state() = State::Done(Arc::new(graph));
        Ok(())
    }

    /// Launches all that was recorded, `times` times.
    fn replay(&self, py: Python<'_>, times: usize) -> PyResult<()> {
        let graph = self.graph()?;
        let replay = || (0..times).try_for_each(|_| graph.replay());
        run(py, || {
            replay().map_err(|error: CoreError| AutogradError::from(error))
        })
    }

    fn __len__(&self) -> PyResult<usize> {
        Ok(self.graph()?.len())
    }
}

/// Turns the measurement of launches' times on or off, after all work launched so far.
#[pyfunction]
pub fn set_timing(py: Python<'_>, device: &PyDevice, on: bool) -> PyResult<()> {
    let device = device.open(py)?;
    wait(py, &device.clone(), move || {
        device.sync()?;
        device.set_timing(on);
        Ok(())
    })
}

/// Kernels as name, calls and milliseconds, the longest first; launches as name, start and duration in microseconds.
type Times = (Vec<(String, u64, f64)>, Vec<(&'static str, f64, f64)>);

/// Waits for all work; returns and clears the times measured so far.
#[pyfunction]
pub fn take_timing(py: Python<'_>, device: &PyDevice) -> PyResult<Times> {
    let device = device.open(py)?;
    let report = wait(py, &device.clone(), move || Ok(device.take_timing()?))?;
    let kernels = report.kernels.into_iter();
    let kernels = kernels.map(|kernel| (kernel.name, kernel.calls, kernel.total_ms));
    let launches = report.launches.into_iter();
    let launches = launches.map(|launch| (launch.name, launch.start_us, launch.duration_us));
    Ok((kernels.collect(), launches.collect()))
}
