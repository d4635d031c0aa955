//! The native tokenizer.

use std::sync::Arc;

use hlx_text::Tokenizer;
use pyo3::prelude::*;

/// A tokenizer with its tables; Python's class has what lay beside its file as well.
#[pyclass(frozen, name = "NativeTokenizer", module = "hlx._hlx")]
pub struct PyTokenizer(pub Arc<Tokenizer>);

impl PyTokenizer {
    pub fn new(tokenizer: Arc<Tokenizer>) -> Self {
        Self(tokenizer)
    }
}
