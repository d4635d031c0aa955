//! The native layer of the Python package `hlx`, imported as `hlx._hlx`.

use pyo3::pymodule;

#[pymodule]
mod _hlx {}
