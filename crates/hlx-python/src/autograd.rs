//! Gradients: backward passes, hooks, operations of Python's own, and the thread's mode.

use std::collections::HashMap;
use std::sync::{Mutex, OnceLock, PoisonError};

use hlx_autograd::{Hook, Result, Tensor, gradients_enabled, no_grad, set_gradients_enabled};
use pyo3::prelude::*;

use crate::error::{foreign, of_tensor, type_error};
use crate::tensor::PyTensor;
use crate::wait::run;

/// Tensors of Python.
pub type Tensors<'py> = Vec<Bound<'py, PyTensor>>;

/// The handles of tensors.
pub fn handles(tensors: &[Bound<'_, PyTensor>]) -> Vec<Tensor> {
    tensors.iter().map(|tensor| tensor.get().handle()).collect()
}

/// Whether operations of this thread go on the tape.
#[pyfunction]
pub fn is_grad_enabled() -> bool {
    gradients_enabled()
}

/// Sets whether operations of this thread go on the tape, and returns whether they did.
#[pyfunction]
pub fn set_grad_enabled(enabled: bool) -> bool {
    set_gradients_enabled(enabled)
}

/// What a pass starts from, with the gradients given.
type Roots = Vec<(Tensor, Option<Tensor>)>;

fn roots(tensors: &[Bound<'_, PyTensor>], given: Vec<Option<Bound<'_, PyTensor>>>) -> Roots {
    let mut given = given.into_iter();
    let root = |tensor: &Bound<'_, PyTensor>| {
        let upstream = given.next().flatten();
        (
            tensor.get().handle(),
            upstream.map(|upstream| upstream.get().handle()),
        )
    };
    tensors.iter().map(root).collect()
}

fn borrowed(roots: &Roots) -> Vec<(&Tensor, Option<&Tensor>)> {
    roots
        .iter()
        .map(|(root, given)| (root, given.as_ref()))
        .collect()
}

/// A pass that keeps the graph is one that is recorded, and whose own operations may stay off the tape.
fn with_graph<R>(create: bool, body: impl FnOnce() -> R) -> R {
    match create {
        true => body(),
        false => no_grad(body),
    }
}

/// Adds the gradients of some tensors' sum to what the leaves hold.
#[pyfunction]
pub fn backward(
    py: Python<'_>,
    tensors: Tensors<'_>,
    given: Vec<Option<Bound<'_, PyTensor>>>,
    keep: bool,
    create: bool,
) -> PyResult<()> {
    let roots = roots(&tensors, given);
    run(py, move || {
        let recorded = keep || create;
        with_graph(create, || Tensor::backward_of(&borrowed(&roots), recorded))
    })
}

/// The gradients of some tensors' sum by others; None where it does not depend on one.
#[pyfunction]
pub fn gradients(
    py: Python<'_>,
    tensors: Tensors<'_>,
    inputs: Tensors<'_>,
    given: Vec<Option<Bound<'_, PyTensor>>>,
    keep: bool,
    create: bool,
) -> PyResult<Vec<Option<PyTensor>>> {
    let (roots, inputs) = (roots(&tensors, given), handles(&inputs));
    let found = run(py, move || {
        let by: Vec<&Tensor> = inputs.iter().collect();
        let recorded = keep || create;
        with_graph(create, || {
            Tensor::gradients_of(&borrowed(&roots), &by, recorded)
        })
    })?;
    Ok(found
        .into_iter()
        .map(|gradient| gradient.map(PyTensor::from))
        .collect())
}

/// A hook that is registered, until it is removed.
#[pyclass(frozen, module = "hlx")]
pub struct HookHandle(Hook);

#[pymethods]
impl HookHandle {
    /// Removes the hook.
    fn remove(&self) {
        self.0.remove();
    }

    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, _exception: &Bound<'_, pyo3::types::PyTuple>) {
        self.remove();
    }
}

/// Calls a function of Python with a gradient; what it returns takes the gradient's place.
fn hooked(hook: &Py<PyAny>, gradient: &Tensor) -> Result<Option<Tensor>> {
    let replaced = Python::attach(|py| {
        let given = Bound::new(py, PyTensor::from(gradient.clone()))?;
        let result = hook.bind(py).call1((given,))?;
        if result.is_none() {
            return Ok(None);
        }
        match result.cast::<PyTensor>() {
            Ok(tensor) => Ok(Some(tensor.get().handle())),
            Err(_) => {
                let found = result.get_type().name()?;
                Err(type_error(format!(
                    "register_hook: the hook returned a {found}, expected a tensor or None"
                )))
            }
        }
    });
    replaced.map_err(foreign)
}

#[pymethods]
impl PyTensor {
    /// Calls `hook` with this tensor's gradient in every backward pass.
    ///
    /// A tensor that it returns takes the gradient's place. `remove()` of the result ends it.
    ///
    /// >>> x = hlx.ones(2, requires_grad=True)
    /// >>> hook = x.register_hook(lambda gradient: gradient * 10)
    /// >>> (x * 3).sum().backward()
    /// >>> x.grad
    /// tensor([30., 30.])
    fn register_hook(&self, hook: Py<PyAny>) -> PyResult<HookHandle> {
        let registered = self
            .handle()
            .register_hook(move |gradient| hooked(&hook, gradient));
        registered.map(HookHandle).map_err(of_tensor)
    }
}

/// A name that lives as long as the process, as those of operations do.
pub fn lasting(name: &str) -> &'static str {
    static NAMES: OnceLock<Mutex<HashMap<String, &'static str>>> = OnceLock::new();
    let names = NAMES.get_or_init(Mutex::default);
    let mut names = names.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(name) = names.get(name) {
        return name;
    }
    let lasting: &'static str = Box::leak(name.to_owned().into_boxed_str());
    names.insert(name.to_owned(), lasting);
    lasting
}

/// Puts the result of an operation of Python's own on the tape: `derivative(gradient)` returns the gradients of the
/// inputs in order, None where there is none.
#[pyfunction]
pub fn custom(
    py: Python<'_>,
    name: &str,
    inputs: Tensors<'_>,
    output: &PyTensor,
    derivative: Py<PyAny>,
) -> PyResult<PyTensor> {
    let (name, inputs, output) = (lasting(name), handles(&inputs), output.handle().detach());
    let backward = move |gradient: &Tensor| {
        let gradients = Python::attach(|py| {
            let given = Bound::new(py, PyTensor::from(gradient.clone()))?;
            let gradients = derivative.bind(py).call1((given,))?;
            let gradients: Vec<Option<Bound<'_, PyTensor>>> = gradients.extract()?;
            let handle =
                |gradient: Option<Bound<'_, PyTensor>>| gradient.map(|it| it.get().handle());
            PyResult::Ok(gradients.into_iter().map(handle).collect())
        });
        gradients.map_err(foreign)
    };
    let taped = run(py, move || {
        let inputs: Vec<&Tensor> = inputs.iter().collect();
        Tensor::from_tensors(name, &inputs, output.buffer()?, output.shape(), backward)
    });
    taped.map(PyTensor::from)
}
