//! Decoding token by token.

use std::sync::{Arc, Mutex, PoisonError};

use hlx_text::{DecodeStream, Tokenizer};
use pyo3::prelude::*;

use super::work::of_text;
use crate::error::{Kind, raised};

/// A text that grows by tokens.
#[pyclass(frozen, module = "hlx._hlx", name = "DecodeStream")]
pub struct PyDecodeStream {
    /// Dropped before the tokenizer that it borrows; none after its end.
    stream: Mutex<Option<DecodeStream<'static>>>,
    _tokenizer: Arc<Tokenizer>,
}

impl PyDecodeStream {
    /// Starts decoding what follows a prompt.
    pub fn after(tokenizer: Arc<Tokenizer>, prompt: &[u32]) -> PyResult<Self> {
        // SAFETY: the tokenizer lies in the memory of the `Arc`, which the value holds for as long as the stream: its
        // field is dropped after the stream's, and neither leaves the value.
        let borrowed: &'static Tokenizer = unsafe { &*Arc::as_ptr(&tokenizer) };
        let stream = borrowed.stream_after(prompt).map_err(of_text)?;
        Ok(Self {
            stream: Mutex::new(Some(stream)),
            _tokenizer: tokenizer,
        })
    }
}

fn ended() -> PyErr {
    raised(Kind::Runtime, "stream: it has ended; begin another one")
}

#[pymethods]
impl PyDecodeStream {
    /// Adds a token; the text that is clear now and was not before.
    fn push(&self, token: u32) -> PyResult<String> {
        let mut stream = self.stream.lock().unwrap_or_else(PoisonError::into_inner);
        let stream = stream.as_mut().ok_or_else(ended)?;
        let new = stream.push(token).map_err(of_text)?;
        Ok(new.unwrap_or_default())
    }

    /// What is left at the end.
    fn finish(&self) -> PyResult<String> {
        let stream = self
            .stream
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        stream.ok_or_else(ended)?.finish().map_err(of_text)
    }
}
