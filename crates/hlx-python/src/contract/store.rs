//! Stores of content-addressed objects: in the process's memory, or a folder.

use half::{bf16, f16};
use hlx_autograd::Tensor;
use hlx_core::digest::canonical_bits;
use hlx_core::{DType, Device};
use hlx_store::{Content, Dtype, Handle, MemoryStore, Objects, Store, StoredTensor};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use super::{of_store, parse};
use crate::device::PyDevice;
use crate::error::{Kind, raised};
use crate::read::words;
use crate::tensor::PyTensor;
use crate::wait::run;

/// Where `hlx.collapse` puts objects.
#[pyclass(frozen, name = "ObjectStore", module = "hlx._hlx")]
#[derive(Clone)]
pub struct PyStore(Place);

#[derive(Clone)]
enum Place {
    Memory(MemoryStore),
    Folder(Store),
}

impl PyStore {
    pub fn objects(&self) -> &dyn Objects {
        match &self.0 {
            Place::Memory(memory) => memory,
            Place::Folder(folder) => folder,
        }
    }

    fn memory(&self, operation: &str) -> PyResult<&MemoryStore> {
        match &self.0 {
            Place::Memory(memory) => Ok(memory),
            Place::Folder(folder) => {
                let path = folder.path().display();
                let text = format!("{operation}: {path} is a folder; `hlx store gc` collects it");
                Err(raised(Kind::Value, text))
            }
        }
    }
}

/// The type that the store has for a tensor's, by its name.
fn stored_dtype(dtype: DType) -> PyResult<Dtype> {
    dtype.name().parse().map_err(of_store)
}

/// A tensor's type for what the store holds.
fn tensor_dtype(handle: &Handle, dtype: Dtype) -> PyResult<DType> {
    let found = DType::ALL
        .into_iter()
        .find(|other| other.name() == dtype.name());
    found.ok_or_else(|| {
        let text =
            format!("resolve: {handle} is a tensor of {dtype}, which tensors of HLX do not have");
        raised(Kind::Type, text)
    })
}

/// Elements as bytes; every NaN of f32 as 0x7fc00000, since payloads differ between devices.
fn bytes_of(words: &[u32], dtype: DType, n_elements: usize) -> Vec<u8> {
    let map = |word: u32| match dtype {
        DType::F32 => canonical_bits(f32::from_bits(word)),
        _ => word,
    };
    let mut bytes: Vec<u8> = words
        .iter()
        .flat_map(|&word| map(word).to_le_bytes())
        .collect();
    bytes.truncate(n_elements * dtype.size());
    bytes
}

/// A stored tensor on a device.
fn loaded(device: &Device, stored: &StoredTensor, dtype: DType) -> hlx_autograd::Result<Tensor> {
    let (data, shape) = (&stored.data, &stored.shape);
    // Floats are uploaded as numbers, so that subnormals become zeros.
    match dtype {
        DType::F32 => {
            let values: Vec<f32> = data
                .as_chunks()
                .0
                .iter()
                .map(|&b| f32::from_le_bytes(b))
                .collect();
            Tensor::from_slice(device, &values, shape)
        }
        DType::F16 => {
            let values: Vec<f16> = data
                .as_chunks()
                .0
                .iter()
                .map(|&b| f16::from_le_bytes(b))
                .collect();
            Tensor::from_slice(device, &values, shape)
        }
        DType::BF16 => {
            let values: Vec<bf16> = data
                .as_chunks()
                .0
                .iter()
                .map(|&b| bf16::from_le_bytes(b))
                .collect();
            Tensor::from_slice(device, &values, shape)
        }
        _ => {
            let n_elements = data.len() / dtype.size();
            let buffer = device.alloc_typed(dtype, n_elements)?;
            let word = |chunk: &[u8]| {
                let mut word = [0; 4];
                word[..chunk.len()].copy_from_slice(chunk);
                u32::from_le_bytes(word)
            };
            let words: Vec<u32> = data.chunks(4).map(word).collect();
            if n_elements > 0 {
                device.upload_words(&buffer, &words)?;
            }
            Tensor::from_buffer(device, buffer, shape)
        }
    }
}

#[pymethods]
impl PyStore {
    /// A store in this process's memory, the user's store, or the store in a folder.
    #[new]
    #[pyo3(signature = (path = None, *, user = false))]
    fn new(py: Python<'_>, path: Option<std::path::PathBuf>, user: bool) -> PyResult<Self> {
        let opened = py.detach(|| match path {
            Some(path) => Store::open(path).map(Place::Folder),
            None if user => Store::open_default().map(Place::Folder),
            None => Ok(Place::Memory(MemoryStore::default())),
        });
        opened.map(Self).map_err(of_store)
    }

    /// The folder; None for a store in memory.
    #[getter]
    fn path(&self) -> Option<std::path::PathBuf> {
        match &self.0 {
            Place::Memory(_) => None,
            Place::Folder(folder) => Some(folder.path().to_owned()),
        }
    }

    fn put_bytes(&self, py: Python<'_>, data: &[u8]) -> PyResult<String> {
        let put = py.detach(|| self.objects().put_bytes(data));
        Ok(put.map_err(of_store)?.to_string())
    }

    fn put_tensor(&self, py: Python<'_>, tensor: &PyTensor) -> PyResult<String> {
        let x = tensor.handle();
        let (words, dtype) = (words(py, &x)?, x.dtype());
        let stored = stored_dtype(dtype)?;
        let put = py.detach(|| {
            let bytes = bytes_of(&words, dtype, x.n_elements());
            self.objects().put_tensor(stored, x.shape(), &bytes)
        });
        Ok(put.map_err(of_store)?.to_string())
    }

    /// What an object is: None for bytes, dtype and shape of a tensor.
    fn content(
        &self,
        py: Python<'_>,
        handle: &str,
    ) -> PyResult<Option<(&'static str, Vec<usize>)>> {
        let handle = parse(handle)?;
        match py
            .detach(|| self.objects().content(&handle))
            .map_err(of_store)?
        {
            Content::Bytes => Ok(None),
            Content::Tensor { dtype, shape } => Ok(Some((dtype.name(), shape))),
        }
    }

    fn contains(&self, py: Python<'_>, handle: &str) -> PyResult<bool> {
        let handle = parse(handle)?;
        py.detach(|| self.objects().contains(&handle))
            .map_err(of_store)
    }

    fn get_bytes<'py>(&self, py: Python<'py>, handle: &str) -> PyResult<Bound<'py, PyBytes>> {
        let handle = parse(handle)?;
        let bytes = py
            .detach(|| self.objects().get_bytes(&handle))
            .map_err(of_store)?;
        Ok(PyBytes::new(py, &bytes))
    }

    fn get_tensor(&self, py: Python<'_>, handle: &str, device: &PyDevice) -> PyResult<PyTensor> {
        let handle = parse(handle)?;
        let device = device.open(py)?;
        let stored = py
            .detach(|| self.objects().get_tensor(&handle))
            .map_err(of_store)?;
        let dtype = tensor_dtype(&handle, stored.dtype)?;
        run(py, || loaded(&device, &stored, dtype)).map(PyTensor::from)
    }

    /// Removes an object from memory; false if it was not there.
    fn remove(&self, handle: &str) -> PyResult<bool> {
        Ok(self.memory("remove")?.remove(&parse(handle)?))
    }

    /// Removes all objects from memory.
    fn clear(&self) -> PyResult<()> {
        self.memory("clear")?.clear();
        Ok(())
    }

    /// The bytes of the objects in memory.
    #[getter]
    fn nbytes(&self) -> PyResult<usize> {
        Ok(self.memory("nbytes")?.bytes())
    }

    fn __len__(&self) -> PyResult<usize> {
        Ok(self.memory("len")?.len())
    }
}
