//! `hlx.Tensor`: a handle of a tensor, with Python's protocols.

mod index;
pub mod operators;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};

use hlx_autograd::{Result, Tensor, enable_grad, gradients_enabled};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyTuple;

use crate::create::from_data;
use crate::device::PyDevice;
use crate::dtype::{PyDType, default_float};
use crate::error::{Kind, raised, type_error};
use crate::wait::run;

pub use index::TensorIterator;
pub use operators::named_binary;

/// A typed array on a device, with PyTorch's operations, whose bits are the same on every device.
///
/// Made by `hlx.tensor` and its like; operations return new ones.
#[pyclass(frozen, subclass, weakref, name = "Tensor", module = "hlx")]
pub struct PyTensor {
    /// Replaced by operations in place, which move the tensor on the tape.
    handle: RwLock<Tensor>,
    /// How often the tensor was moved there.
    moves: AtomicU64,
    /// What the tensor is a view of.
    viewed: Option<Viewed>,
    /// The gradient of a tensor that is no leaf, where it was asked for.
    retained: OnceLock<Arc<Mutex<Option<Tensor>>>>,
}

/// The tensor whose memory a view shares.
struct Viewed {
    base: Py<PyTensor>,
    /// The base's moves when the view's handle was made: later ones make another.
    seen: AtomicU64,
}

impl From<Tensor> for PyTensor {
    fn from(tensor: Tensor) -> Self {
        Self {
            handle: RwLock::new(tensor),
            moves: AtomicU64::new(0),
            viewed: None,
            retained: OnceLock::new(),
        }
    }
}

impl PyTensor {
    /// A tensor that an operation on `x` has returned: a view where it shares the memory of `x`.
    pub fn of(x: &Bound<'_, Self>, tensor: Tensor) -> Self {
        let own = x.get().handle();
        if !own.operand().buffer.overlaps(tensor.operand().buffer) {
            return tensor.into();
        }
        let base = match &x.get().viewed {
            Some(viewed) => viewed.base.clone_ref(x.py()),
            None => x.clone().unbind(),
        };
        let seen = AtomicU64::new(base.get().moves.load(Ordering::Acquire));
        Self {
            viewed: Some(Viewed { base, seen }),
            ..tensor.into()
        }
    }

    /// The tensor now.
    pub fn handle(&self) -> Tensor {
        if let Some(viewed) = &self.viewed {
            let moves = viewed.base.get().moves.load(Ordering::Acquire);
            if viewed.seen.load(Ordering::Acquire) != moves {
                self.view_again(viewed, moves);
            }
        }
        let handle = self.handle.read().unwrap_or_else(PoisonError::into_inner);
        handle.clone()
    }

    /// Takes the history of the base, which an operation in place has moved.
    fn view_again(&self, viewed: &Viewed, moves: u64) {
        let base = viewed.base.get().handle();
        let mut handle = self.handle.write().unwrap_or_else(PoisonError::into_inner);
        // Where it fails, the tape refuses the old handle in the next operation.
        if let Ok(again) = enable_grad(|| base.viewed_again(&handle)) {
            *handle = again;
        }
        viewed.seen.store(moves, Ordering::Release);
    }

    /// Puts another handle in the tensor's place.
    pub fn replace(&self, tensor: Tensor) {
        let moved = tensor.requires_grad();
        *self.handle.write().unwrap_or_else(PoisonError::into_inner) = tensor;
        if moved {
            self.moves.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// Runs an operation on the tensor without the interpreter's lock.
    pub fn apply(
        &self,
        py: Python<'_>,
        operation: impl FnOnce(&Tensor) -> Result<Tensor> + Send,
    ) -> PyResult<Self> {
        let x = self.handle();
        run(py, move || operation(&x)).map(Self::from)
    }

    /// Changes the tensor by an operation in place of its own.
    pub fn change(
        &self,
        py: Python<'_>,
        operation: impl FnOnce(&mut Tensor) -> Result<()> + Send,
    ) -> PyResult<()> {
        let mut x = self.handle();
        let changed = run(py, move || {
            operation(&mut x)?;
            Ok(x)
        })?;
        self.replace(changed);
        Ok(())
    }

    /// Writes what an operation returns for the tensor into its memory, by the tape's rules for changes in place.
    pub fn write(
        &self,
        py: Python<'_>,
        name: &'static str,
        operation: impl FnOnce(&Tensor) -> Result<Tensor> + Send,
    ) -> PyResult<()> {
        let Some(viewed) = self.viewed.as_ref().filter(|_| gradients_enabled()) else {
            return self.change(py, move |x| x.in_place(name, operation).map(|_| ()));
        };
        let (mut base, mut x) = (viewed.base.get().handle(), self.handle());
        let (base, x) = run(py, move || {
            Tensor::in_place_of_base(&mut base, &mut x, name, operation)?;
            Ok((base, x))
        })?;
        if x.requires_grad() {
            viewed.base.get().replace(base);
            let moves = viewed.base.get().moves.load(Ordering::Acquire);
            viewed.seen.store(moves, Ordering::Release);
        }
        *self.handle.write().unwrap_or_else(PoisonError::into_inner) = x;
        Ok(())
    }
}

/// A shape as `hlx.Size`.
pub fn size<'py>(py: Python<'py>, shape: &[usize]) -> PyResult<Bound<'py, PyAny>> {
    static SIZE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let class = SIZE.get_or_try_init(py, || -> PyResult<_> {
        Ok(py.import("hlx._size")?.getattr("Size")?.unbind())
    })?;
    class.bind(py).call1((PyTuple::new(py, shape)?,))
}

#[pymethods]
impl PyTensor {
    /// NumPy leaves operators to the tensor.
    #[classattr]
    #[pyo3(name = "__array_priority__")]
    const ARRAY_PRIORITY: i32 = 1000;

    /// Zeros of a shape, floats of a sequence, or another tensor's memory without its history. `hlx.tensor` and
    /// `hlx.zeros` say more.
    #[new]
    #[pyo3(signature = (*data, device = None))]
    fn new(
        py: Python<'_>,
        data: &Bound<'_, PyTuple>,
        device: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        if let Ok((tensor,)) = data.extract::<(Bound<'_, Self>,)>() {
            return Ok(tensor.get().handle().detach().into());
        }
        let (device, dtype) = (PyDevice::from_argument(device)?.open(py)?, default_float());
        if let Ok(shape) = data.extract::<Vec<usize>>() {
            let shape = if shape.is_empty() { vec![0] } else { shape };
            return run(py, move || Tensor::zeros(&device, &shape, dtype)).map(Self::from);
        }
        match data.len() {
            1 => {
                let made = from_data(&data.get_item(0)?, Some(dtype), &device, "Tensor");
                made.map(Self::from)
            }
            n => Err(type_error(format!("Tensor: {n} arguments, expected a shape or one sequence"))),
        }
    }

    /// The extents, outermost first.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        size(py, self.handle().shape())
    }

    /// The type of the elements.
    #[getter]
    fn dtype(&self) -> PyDType {
        self.handle().dtype().into()
    }

    /// The device.
    #[getter]
    fn device(&self) -> PyDevice {
        PyDevice::of(self.handle().device())
    }

    /// The number of dimensions.
    #[getter]
    fn ndim(&self) -> usize {
        self.handle().rank()
    }

    /// The number of elements.
    fn numel(&self) -> usize {
        self.handle().n_elements()
    }

    /// Elements from one place to the next, per dimension, or of one.
    #[pyo3(signature = (dim = None))]
    fn stride<'py>(&self, py: Python<'py>, dim: Option<isize>) -> PyResult<Bound<'py, PyAny>> {
        let x = self.handle();
        let strides = x.layout().strides().to_vec();
        let Some(dim) = dim else {
            return Ok(PyTuple::new(py, strides)?.into_any());
        };
        let rank = strides.len() as isize;
        let axis = if dim < 0 { dim + rank } else { dim };
        match usize::try_from(axis)
            .ok()
            .and_then(|axis| strides.get(axis))
        {
            Some(stride) => Ok(stride.into_pyobject(py)?.into_any()),
            None => {
                let text =
                    format!("stride: dimension {dim} is out of range for a tensor of {rank}");
                Err(raised(Kind::Index, text))
            }
        }
    }

    /// The place of the first element in its memory.
    fn storage_offset(&self) -> usize {
        self.handle().layout().offset()
    }

    /// The address of the first element on the CPU device, and 0 elsewhere.
    fn data_ptr(&self) -> PyResult<usize> {
        crate::exchange::address(&self.handle()).map(|address| address.map_or(0, |at| at as usize))
    }

    /// Whether the elements are in row-major order.
    fn is_contiguous(&self) -> bool {
        self.handle().layout().is_contiguous()
    }

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
        self.handle().grad_fn().map(crate::read::grad_fn_name)
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
        x.register_hook(hook).map_err(crate::error::of_tensor)?;
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

    fn __len__(&self) -> PyResult<usize> {
        match self.handle().shape().first() {
            Some(&extent) => Ok(extent),
            None => Err(type_error("len: the tensor has no dimensions")),
        }
    }

    fn __hash__(slf: Bound<'_, Self>) -> isize {
        slf.as_ptr() as isize >> 4
    }
}
