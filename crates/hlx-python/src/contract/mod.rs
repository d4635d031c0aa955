//! Kernels by contract: stores of content-addressed objects, contracts in their JSON form, and their execution.

mod store;

use hlx_contract::spirv::{Reflection, ScalarKind};
use hlx_contract::{
    Contract, ContractError, Encoded, Execute, Execution, Prepared, Shader, inspect,
};
use hlx_core::{Arithmetic, CoreError, Device};
use hlx_store::{Handle, StoreError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use crate::device::PyDevice;
use crate::error::{Kind, foreign, of_core, raised, value_error};
use crate::fork;
use crate::wait::wait;

pub use store::PyStore;

/// The exception for an error of a store.
pub(crate) fn of_store(error: StoreError) -> PyErr {
    match error {
        StoreError::Device(error) => of_core(error),
        StoreError::Io { .. } | StoreError::Damaged { .. } | StoreError::Stray { .. } => {
            raised(Kind::Runtime, error.to_string())
        }
        other => value_error(other.to_string()),
    }
}

/// The exception for an error of a contract.
pub(crate) fn of_contract(error: ContractError) -> PyErr {
    let text = error.to_string();
    let kind = match error {
        ContractError::Device { .. } => Kind::Runtime,
        ContractError::Store {
            source: StoreError::Io { .. } | StoreError::Damaged { .. },
            ..
        } => Kind::Runtime,
        ContractError::Core { source, .. } => match source {
            CoreError::OutOfMemory { .. } => Kind::Memory,
            CoreError::OtherDevice { .. } | CoreError::Invalid { .. } => Kind::Value,
            _ => Kind::Runtime,
        },
        _ => Kind::Value,
    };
    raised(kind, text)
}

/// Reads a handle, such as `sha256:...`.
pub(crate) fn parse(handle: &str) -> PyResult<Handle> {
    handle.parse().map_err(of_store)
}

/// Checks the text of a handle and returns it.
#[pyfunction]
pub fn check_handle(handle: &str) -> PyResult<String> {
    Ok(parse(handle)?.to_string())
}

/// The open device for contracts: they state their arithmetic themselves.
pub(crate) fn open(py: Python<'_>, device: &PyDevice) -> PyResult<Device> {
    Ok(device.open(py)?.with_arithmetic(Arithmetic::Portable))
}

fn names(kinds: &[ScalarKind]) -> Vec<&'static str> {
    kinds.iter().map(|kind| kind.name()).collect()
}

/// A shader's interface for Python: workgroup size, bindings, push constants, specialization constants.
pub(crate) fn interface<'py>(
    py: Python<'py>,
    reflection: &Reflection,
) -> PyResult<Bound<'py, PyDict>> {
    let bindings = PyList::empty(py);
    for info in reflection.bindings.values() {
        let row = (
            info.binding,
            &info.name,
            names(&info.elements),
            info.reads,
            info.writes,
        );
        bindings.append(row)?;
    }
    let constants = PyDict::new(py);
    for (id, info) in &reflection.constants {
        constants.set_item(id, (&info.name, info.kind.name(), info.default))?;
    }
    let words = reflection.push_constants.iter();
    let words: Vec<Option<&str>> = words.map(|word| word.map(ScalarKind::name)).collect();
    let found = PyDict::new(py);
    found.set_item("workgroup_size", reflection.workgroup_size(&[]).ok())?;
    found.set_item("bindings", bindings)?;
    found.set_item("push_constants", words)?;
    found.set_item("constants", constants)?;
    Ok(found)
}

/// Validates SPIR-V and returns its interface.
#[pyfunction]
pub fn inspect_spirv<'py>(
    py: Python<'py>,
    spirv: &[u8],
    entry_point: &str,
) -> PyResult<Bound<'py, PyDict>> {
    let mut shader = Shader::compute(spirv);
    entry_point.clone_into(&mut shader.entry_point);
    let reflection = py.detach(|| inspect(&shader).map_err(of_contract))?;
    interface(py, &reflection)
}

/// Finds a shader by its handle and returns its interface. `contract` is what needs it, in errors.
#[pyfunction]
pub fn shader_interface<'py>(
    py: Python<'py>,
    store: &PyStore,
    contract: &str,
    shader: &str,
) -> PyResult<Bound<'py, PyDict>> {
    let shader = parse(shader)?;
    let objects = store.objects();
    let find = || hlx_contract::interface(objects, contract, &shader).map_err(of_contract);
    interface(py, &py.detach(find)?)
}

/// Puts a contract in its JSON form into a store, a shader once it is validated, and returns its handle.
#[pyfunction]
pub fn put_contract(py: Python<'_>, store: &PyStore, json: &str) -> PyResult<String> {
    let objects = store.objects();
    let put = || {
        let contract = Contract::from_json(json).map_err(of_contract)?;
        if let Contract::Shader(shader) = &contract {
            inspect(shader).map_err(of_contract)?;
        }
        contract.put(objects).map_err(of_contract)
    };
    Ok(py.detach(put)?.to_string())
}

/// Makes the contract of one of HLX's own kernels in its JSON form: a product, of the sizes m, n and k, or the sum of two
/// tensors of a shape.
#[pyfunction]
pub fn own_kernel(
    kind: &str,
    name: &str,
    sizes: Vec<usize>,
    inputs: Vec<String>,
) -> PyResult<String> {
    let handles: Vec<Option<Handle>> = inputs
        .iter()
        .map(|input| parse(input).map(Some))
        .collect::<PyResult<_>>()?;
    let made = match (kind, &sizes[..], &handles[..]) {
        ("product", &[m, n, k], &[a, b, bias]) => {
            hlx_contract::product(name, [m, n, k], [a, b, bias])
        }
        ("sum", shape, &[a, b]) => hlx_contract::sum(name, shape, [a, b]),
        _ => {
            return Err(value_error(format!(
                "{name}: no kernel {kind} of these inputs"
            )));
        }
    };
    let kernel = made.map_err(of_contract)?;
    kernel.to_json().map_err(of_contract)
}

/// Reads a contract's canonical encoding and returns its JSON form, or None for other bytes.
#[pyfunction]
pub fn contract_json(encoded: &[u8]) -> PyResult<Option<String>> {
    match Contract::from_bytes(encoded) {
        Ok(contract) => contract.to_json().map(Some).map_err(of_contract),
        Err(_) => Ok(None),
    }
}

/// The handle of a result; its outputs as kernel, name, dtype, shape and handle; the time in milliseconds.
type Ran = (
    String,
    Vec<(u32, String, &'static str, Vec<u64>, String)>,
    f64,
);

fn ran(execution: Execution) -> Ran {
    let outputs = execution.outputs.into_iter().map(|output| {
        let (dtype, handle) = (output.dtype.name(), output.handle.to_string());
        (
            output.port.kernel,
            output.port.name,
            dtype,
            output.shape,
            handle,
        )
    });
    let outputs = outputs.collect();
    (execution.handle.to_string(), outputs, execution.run_ms)
}

const NOT_EXECUTABLE: &str =
    "contract: a shader (900), expected a kernel (901) or a pipeline (902)";

/// A contract whose inputs are on the device and whose pipelines are made.
#[pyclass(frozen, module = "hlx._hlx")]
pub struct PreparedContract {
    prepared: std::sync::Arc<Prepared>,
    device: Device,
    store: PyStore,
}

#[pymethods]
impl PreparedContract {
    /// Makes a contract in its JSON form ready.
    #[new]
    fn new(py: Python<'_>, device: &PyDevice, store: &PyStore, json: &str) -> PyResult<Self> {
        let (device, store) = (open(py, device)?, store.clone());
        let prepare = || {
            let prepared = match Contract::from_json(json).map_err(of_contract)? {
                Contract::Kernel(kernel) => device.prepare(store.objects(), &kernel),
                Contract::Pipeline(pipeline) => device.prepare(store.objects(), &pipeline),
                Contract::Shader(_) => return Err(value_error(NOT_EXECUTABLE)),
            };
            prepared.map_err(of_contract)
        };
        let prepared = py.detach(prepare)?.into();
        Ok(Self {
            prepared,
            device,
            store,
        })
    }

    /// Runs it, and puts its outputs into the store unless `stored` is false.
    fn run(&self, py: Python<'_>, stored: bool) -> PyResult<Ran> {
        fork::check()?;
        let (prepared, store) = (self.prepared.clone(), self.store.clone());
        let execution = wait(py, &self.device, move || {
            let ran = match stored {
                true => prepared.run_into(store.objects()),
                false => prepared.run(),
            };
            ran.map_err(|error| foreign(of_contract(error)))
        });
        Ok(ran(execution?))
    }
}
