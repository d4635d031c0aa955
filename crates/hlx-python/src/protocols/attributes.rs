//! How tensors are made by their class, and what is known of one.

use hlx_autograd::Tensor;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::buffers::address;
use crate::create::from_data;
use crate::device::PyDevice;
use crate::dtype::{PyDType, default_float};
use crate::error::{Kind, raised, type_error};
use crate::tensor::{PyTensor, size};
use crate::wait::run;

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
            n => Err(type_error(format!(
                "Tensor: {n} arguments, expected a shape or one sequence"
            ))),
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
        address(&self.handle()).map(|address| address.map_or(0, |at| at as usize))
    }

    /// Whether the elements are in row-major order.
    fn is_contiguous(&self) -> bool {
        self.handle().layout().is_contiguous()
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
