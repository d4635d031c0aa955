//! Gradients: backward passes, hooks, operations of Python's own, and the thread's mode.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use hlx_autograd::{
    Autocast, BackwardPlan, Half, Hook, Result, Tensor, gradients_enabled, no_grad,
    set_gradients_enabled,
};
use pyo3::prelude::*;

use crate::dtype::PyDType;
use crate::error::{Kind, foreign, of_tensor, raised, type_error};
use crate::read::grad_fn_name;
use crate::tensor::PyTensor;
use crate::wait::{run, run_at_once};

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

/// Sets what products of this thread are computed in on the CPU device, or on Vulkan devices: with operands of this type, or in
/// the arithmetic of their device.
#[pyfunction]
#[pyo3(signature = (on_cpu, dtype))]
pub fn set_autocast(on_cpu: bool, dtype: Option<&PyDType>) -> PyResult<()> {
    let half = match dtype.map(|dtype| dtype.name()) {
        None => None,
        Some("bfloat16") => Some(Half::Bf16),
        Some("float16") => Some(Half::F16),
        Some(other) => {
            return Err(type_error(format!(
                "autocast: dtype is {other}, expected float16 or bfloat16"
            )));
        }
    };
    let mut here = Autocast::here();
    match on_cpu {
        true => here.cpu = half,
        false => here.vulkan = half,
    }
    here.set();
    Ok(())
}

/// The types that products of this thread are computed with, on the CPU device and on Vulkan devices.
#[pyfunction]
pub fn autocast_types() -> (Option<PyDType>, Option<PyDType>) {
    let here = Autocast::here();
    let of = |half: Option<Half>| half.map(|half| PyDType::from(half.dtype()));
    (of(here.cpu), of(here.vulkan))
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

/// Adds the gradients of some tensors' sum to what the leaves hold. With several shards the pass is not kept.
#[pyfunction]
#[pyo3(signature = (tensors, given, keep, create, shards = 1))]
pub fn backward(
    py: Python<'_>,
    tensors: Tensors<'_>,
    given: Vec<Option<Bound<'_, PyTensor>>>,
    keep: bool,
    create: bool,
    shards: usize,
) -> PyResult<()> {
    let roots = roots(&tensors, given);
    run(py, move || {
        if shards != 1 {
            let plan = BackwardPlan {
                shards,
                ..BackwardPlan::default()
            };
            return no_grad(|| Tensor::backward_of_with(&borrowed(&roots), &plan));
        }
        let recorded = keep || create;
        with_graph(create, || Tensor::backward_of(&borrowed(&roots), recorded))
    })
}

/// The tensor with its samples along an axis, which sums by shards cut.
#[pyfunction]
pub fn with_samples(x: Bound<'_, PyTensor>, axis: usize) -> PyResult<PyTensor> {
    let made = run_at_once(|| x.get().handle().with_samples(axis))?;
    Ok(PyTensor::of(&x, made))
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

#[pymethods]
impl PyTensor {
    /// Whether a backward pass collects or passes on a gradient here.
    #[getter]
    fn requires_grad(&self) -> bool {
        self.handle().requires_grad()
    }

    #[setter]
    fn set_requires_grad(&self, py: Python<'_>, requires_grad: bool) -> PyResult<()> {
        if requires_grad && !self.handle().dtype().is_float() {
            let found = PyDType::from(self.handle().dtype()).name();
            let text = format!("requires_grad_: the tensor is of {found}, expected a float type");
            return Err(raised(Kind::Runtime, text));
        }
        self.change(py, |x| x.requires_grad_(requires_grad).map(|_| ()))
    }

    /// Sets whether a backward pass collects a gradient here, and returns the tensor.
    #[pyo3(signature = (requires_grad = true))]
    fn requires_grad_<'py>(
        slf: Bound<'py, Self>,
        requires_grad: bool,
    ) -> PyResult<Bound<'py, Self>> {
        slf.get().set_requires_grad(slf.py(), requires_grad)?;
        Ok(slf)
    }

    /// Whether no operation on the tape has made the tensor.
    #[getter]
    fn is_leaf(&self) -> bool {
        self.handle().is_leaf()
    }

    /// The name of the operation that made the tensor, if it is on the tape.
    #[getter]
    fn grad_fn(&self) -> Option<String> {
        self.handle().grad_fn().map(grad_fn_name)
    }

    /// The gradient that backward passes have left here, or None.
    #[getter]
    fn grad(&self) -> Option<Self> {
        if let Some(retained) = self.retained.get() {
            let retained = retained.lock().unwrap_or_else(PoisonError::into_inner);
            return retained.clone().map(Self::from);
        }
        self.handle().grad().map(Self::from)
    }

    #[setter]
    fn set_grad(&self, py: Python<'_>, gradient: Option<Bound<'_, Self>>) -> PyResult<()> {
        let x = self.handle();
        let Some(gradient) = gradient else {
            x.zero_grad();
            if let Some(retained) = self.retained.get() {
                *retained.lock().unwrap_or_else(PoisonError::into_inner) = None;
            }
            return Ok(());
        };
        let gradient = gradient.get().handle();
        run(py, move || x.set_grad(&gradient))
    }

    /// Has backward passes leave the gradient of a tensor that is no leaf in `grad`.
    fn retain_grad(&self) -> PyResult<()> {
        let x = self.handle();
        if x.is_leaf() || self.retained.get().is_some() {
            return match x.requires_grad() {
                true => Ok(()),
                false => Err(raised(
                    Kind::Runtime,
                    "retain_grad: the tensor requires no gradient",
                )),
            };
        }
        let place = Arc::new(Mutex::new(None));
        let kept = Arc::clone(&place);
        let hook = move |gradient: &Tensor| {
            let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
            *kept = Some(match kept.take() {
                Some(earlier) => Tensor::add(&earlier, gradient)?,
                None => gradient.clone(),
            });
            Ok(None)
        };
        x.register_hook(hook).map_err(of_tensor)?;
        let _ = self.retained.set(place);
        Ok(())
    }

    /// The same memory without the tape; what is assigned goes into this tensor.
    #[getter]
    fn data(&self) -> Self {
        self.handle().detach().into()
    }

    #[setter]
    fn set_data(&self, py: Python<'_>, value: Bound<'_, Self>) -> PyResult<()> {
        let source = value.get().handle();
        let x = self.handle();
        if x.shape() != source.shape() || x.dtype() != source.dtype() {
            return Err(type_error(
                "data: expected a tensor of the same shape and type",
            ));
        }
        run(py, move || {
            let mut x = x.detach();
            x.copy_(&source)?;
            Ok(())
        })
    }
}
