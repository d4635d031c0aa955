//! `hlx.Tensor`: a handle of a tensor, with Python's protocols.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};

use hlx_autograd::{Result, Tensor, enable_grad, gradients_enabled};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyTuple;

use crate::wait::run;

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
    pub retained: OnceLock<Arc<Mutex<Option<Tensor>>>>,
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
        let is_leaf = |x: Tensor| x.requires_grad() && x.is_leaf();
        let viewed = self.viewed.as_ref().filter(|_| gradients_enabled());
        // A view that was made a leaf is nobody's view to the tape.
        let Some(viewed) = viewed.filter(|_| !is_leaf(self.handle())) else {
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
