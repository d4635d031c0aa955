//! `x[..]`: Python's indices as HLX's, reading, writing and iterating.

use std::sync::atomic::{AtomicUsize, Ordering};

use hlx_autograd::{Index, Tensor, gradients_enabled};
use hlx_core::DType;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyEllipsis, PyInt, PyList, PySlice, PyTuple};

use crate::arguments::Whole;
use crate::create::from_data;
use crate::error::{Kind, raised, type_error, value_error};
use crate::operand::Other;
use crate::tensor::PyTensor;
use crate::wait::{checked, run, run_at_once};

/// The items of an index, of which a tensor has at most a few.
fn items(x: &Tensor, index: &Bound<'_, PyAny>) -> PyResult<Vec<Index>> {
    match index.cast::<PyTuple>() {
        Ok(tuple) => tuple.iter().map(|item| item_of(x, &item)).collect(),
        Err(_) => Ok(vec![item_of(x, index)?]),
    }
}

fn item_of(x: &Tensor, item: &Bound<'_, PyAny>) -> PyResult<Index> {
    if let Ok(tensor) = item.cast::<PyTensor>() {
        return of_tensor(tensor.get().handle());
    }
    if let Ok(range) = item.cast::<PySlice>() {
        return of_slice(range);
    }
    if item.is_none() {
        return Ok(Index::New);
    }
    if item.is_instance_of::<PyEllipsis>() {
        return Ok(Index::Ellipsis);
    }
    if item.is_instance_of::<PyBool>() {
        return Err(raised(
            Kind::Index,
            "index: a truth value is no index here; use a mask, a tensor of bool",
        ));
    }
    if item.is_instance_of::<PyInt>() || (item.hasattr("__index__")? && !item.hasattr("__len__")?) {
        let Whole(place) = item.extract()?;
        return Ok(Index::At(place as isize));
    }
    let is_places = item.is_instance_of::<PyList>() || item.hasattr("__len__")?;
    if is_places && !item.is_instance_of::<pyo3::types::PyString>() {
        let empty = item.len().is_ok_and(|n| n == 0) && item.is_instance_of::<PyList>();
        let dtype = empty.then_some(DType::I32);
        return of_tensor(from_data(item, dtype, x.device(), "index")?);
    }
    let found = item.get_type().name()?;
    let text = format!(
        "index: an item is a {found}, expected an integer, a slice, None, ..., or integers or bools in a tensor or list"
    );
    Err(raised(Kind::Index, text))
}

fn of_tensor(places: Tensor) -> PyResult<Index> {
    match places.dtype() {
        DType::U8 | DType::I8 => {
            let wide = places
                .to_dtype(DType::I32)
                .map_err(crate::error::of_tensor)?;
            Ok(Index::Tensor(wide))
        }
        dtype if dtype.is_float() => {
            let found = crate::dtype::PyDType::from(dtype).name();
            let text = format!("index: a tensor of {found}, expected integers or bool");
            Err(raised(Kind::Index, text))
        }
        _ => Ok(Index::Tensor(places)),
    }
}

fn of_slice(range: &Bound<'_, PySlice>) -> PyResult<Index> {
    let part = |name: &str| -> PyResult<Option<isize>> {
        let value = range.getattr(name)?;
        if value.is_none() {
            return Ok(None);
        }
        let whole = value
            .call_method0("__index__")
            .map_err(|_| type_error(format!("index: the {name} of a slice is no integer")))?;
        // Ends past any extent are brought to it.
        Ok(Some(whole.extract().unwrap_or(match whole.gt(0)? {
            true => isize::MAX,
            false => isize::MIN + 1,
        })))
    };
    let (start, end) = (part("start")?, part("stop")?);
    let step = part("step")?.unwrap_or(1);
    match usize::try_from(step) {
        Ok(step) if step > 0 => Ok(Index::Range { start, end, step }),
        _ => Err(value_error(format!(
            "index: a slice has step {step}, expected at least 1; use flip for the reverse order"
        ))),
    }
}

/// Whether the index reads no values of tensors, so that it is a view.
fn is_view(items: &[Index]) -> bool {
    !items.iter().any(|item| matches!(item, Index::Tensor(_)))
}

#[pymethods]
impl PyTensor {
    fn __getitem__(slf: Bound<'_, Self>, index: &Bound<'_, PyAny>) -> PyResult<Self> {
        let x = slf.get().handle();
        let items = items(&x, index)?;
        if is_view(&items) {
            let view = run_at_once(move || x.index(&items))?;
            return Ok(Self::of(&slf, view));
        }
        run(slf.py(), move || checked(&x, x.index(&items)?)).map(Self::from)
    }

    fn __setitem__(
        &self,
        py: Python<'_>,
        index: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let x = self.handle();
        let items = items(&x, index)?;
        let value = match Other::of(value) {
            Some(other) => other.beside(&x)?,
            None => from_data(value, None, x.device(), "index_put_")?,
        };
        let tracked = gradients_enabled() && (x.requires_grad() || value.requires_grad());
        if tracked {
            return self.write(py, "index_put_", move |x| {
                x.index_put(&items, &value, false)
            });
        }
        self.change(py, move |x| {
            x.index_put_(&items, &value, false)?;
            checked(x, ())
        })
    }

    fn __iter__(slf: Bound<'_, Self>) -> PyResult<TensorIterator> {
        match slf.get().handle().rank() {
            0 => Err(type_error("iter: the tensor has no dimensions")),
            _ => Ok(TensorIterator {
                tensor: slf.unbind(),
                next: AtomicUsize::new(0),
            }),
        }
    }
}

/// The parts of a tensor along its first dimension, one after the other.
#[pyclass(frozen, module = "hlx")]
pub struct TensorIterator {
    tensor: Py<PyTensor>,
    next: AtomicUsize,
}

#[pymethods]
impl TensorIterator {
    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __len__(&self) -> usize {
        let extent = self.tensor.get().handle().shape()[0];
        extent.saturating_sub(self.next.load(Ordering::Relaxed))
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<PyTensor>> {
        let place = self.next.fetch_add(1, Ordering::Relaxed);
        let x = self.tensor.get().handle();
        if place >= x.shape()[0] {
            return Ok(None);
        }
        let part = run_at_once(|| x.select(0, place))?;
        Ok(Some(PyTensor::of(self.tensor.bind(py), part)))
    }
}
