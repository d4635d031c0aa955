//! The native tokenizer.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use hlx_nn::gguf_of;
use hlx_text::{ChatTemplate, TextError, Tokenizer, TokenizerFiles};
use hlx_train::companions::Companions;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedStr;
use pyo3::types::{PyBytes, PyDict};

use super::ids::ids_of;
use super::stream::PyDecodeStream;
use super::work::{of_text, work};
use crate::error::of_anyhow;
use crate::warnings::warned;

/// Texts of fewer bytes are encoded on the caller's thread.
const SMALL: usize = 1 << 16;

/// A template that was compiled, the source and the date that were given for it.
pub type Compiled = (Option<String>, Option<String>, Arc<ChatTemplate>);

/// A tokenizer with its tables, and what lay beside its file.
#[pyclass(frozen, name = "NativeTokenizer", module = "hlx._hlx")]
pub struct PyTokenizer {
    pub tokenizer: Arc<Tokenizer>,
    /// The template of the last conversation.
    pub compiled: Mutex<Option<Compiled>>,
}

impl PyTokenizer {
    pub fn new(tokenizer: Arc<Tokenizer>) -> Self {
        Self {
            tokenizer,
            compiled: Mutex::new(None),
        }
    }
}

impl From<Tokenizer> for PyTokenizer {
    fn from(tokenizer: Tokenizer) -> Self {
        Self::new(Arc::new(tokenizer))
    }
}

/// Encodes texts on all cores, in their order.
fn encode_all(
    texts: &[PyBackedStr],
    n_threads: usize,
    encode: impl Fn(&str) -> Result<Vec<u32>, TextError> + Sync,
    stops: impl Fn() -> bool + Sync,
) -> Result<Vec<Vec<u32>>, TextError> {
    let next = AtomicUsize::new(0);
    // By the texts' numbers; of errors the first one counts.
    let found = Mutex::new(vec![None; texts.len()]);
    let serve = || {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(text) = texts.get(at).filter(|_| !stops()) else {
                return;
            };
            let encoded = encode(text);
            if encoded.is_err() {
                // Texts before it may still fail, those after it are not needed.
                next.store(texts.len(), Ordering::Relaxed);
            }
            found.lock().unwrap_or_else(PoisonError::into_inner)[at] = Some(encoded);
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..n_threads.min(texts.len()) {
            // With fewer threads the result is the same.
            let thread = std::thread::Builder::new().name("hlx-encode".to_owned());
            if thread.spawn_scoped(scope, serve).is_err() {
                break;
            }
        }
        serve();
    });
    let found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    found.into_iter().flatten().collect()
}

#[pymethods]
impl PyTokenizer {
    /// Reads a tokenizer.json, or the one of a folder, with what lies beside it; or that of a GGUF file's metadata.
    #[staticmethod]
    fn open(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        if path.is_file() && gguf_of(&path).is_some() {
            let read = warned(py, || py.detach(|| Companions::of(&path)?.need_tokenizer()))?;
            return read.map(Self::from).map_err(of_anyhow);
        }
        let read = warned(py, || py.detach(|| Tokenizer::open(path)))?;
        read.map(Self::from).map_err(of_text)
    }

    /// One token per byte.
    #[staticmethod]
    fn bytes() -> Self {
        Tokenizer::bytes().into()
    }

    /// One token per character of a text.
    #[staticmethod]
    fn characters(text: &str) -> PyResult<Self> {
        Tokenizer::characters_of(text)
            .map(Self::from)
            .map_err(of_text)
    }

    /// A tokenizer of its JSON, with the files that lay beside it.
    #[staticmethod]
    fn from_json(py: Python<'_>, json: &[u8], files: &Bound<'_, PyDict>) -> PyResult<Self> {
        let files: Vec<(String, Vec<u8>)> = files
            .iter()
            .map(|(name, bytes)| Ok((name.extract()?, bytes.extract()?)))
            .collect::<PyResult<_>>()?;
        let files = TokenizerFiles::new(files);
        // What there is to say of them was said when they were read.
        let read = py.detach(|| Tokenizer::from_files(json, files));
        read.map(Self::from).map_err(of_text)
    }

    /// The tokenizer as HLX reads it.
    #[getter]
    fn json<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, self.tokenizer.to_json().as_bytes())
    }

    /// The tokenizer as a tokenizer.json of other programs.
    #[getter]
    fn exported(&self) -> String {
        self.tokenizer.to_tokenizer_json()
    }

    /// The files that lay beside the tokenizer's.
    #[getter]
    fn files<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let found = PyDict::new(py);
        if let Some(files) = self.tokenizer.files() {
            for (name, bytes) in files.files() {
                found.set_item(name, PyBytes::new(py, bytes))?;
            }
        }
        Ok(found)
    }

    #[getter]
    fn digest(&self) -> &str {
        self.tokenizer.digest()
    }

    #[getter]
    fn vocab_size(&self) -> usize {
        self.tokenizer.vocabulary_size()
    }

    /// The tokens of a text, with those that the tokenizer puts around one or without.
    fn encode(&self, py: Python<'_>, text: &str, specials: bool) -> PyResult<Vec<u32>> {
        let tokenizer = &self.tokenizer;
        let encoded = py.detach(|| match specials {
            true => tokenizer.encode_with_specials(text),
            false => tokenizer.encode(text),
        });
        encoded.map_err(of_text)
    }

    /// The tokens of texts.
    fn encode_batch(
        &self,
        py: Python<'_>,
        texts: Vec<PyBackedStr>,
        specials: bool,
    ) -> PyResult<Vec<Vec<u32>>> {
        let tokenizer = &self.tokenizer;
        let encode = |text: &str| match specials {
            true => tokenizer.encode_with_specials(text),
            false => tokenizer.encode(text),
        };
        if texts.iter().map(|text| text.len()).sum::<usize>() < SMALL {
            let encoded = py.detach(|| encode_all(&texts, 1, encode, || false));
            return encoded.map_err(of_text);
        }
        let n_threads = std::thread::available_parallelism().map_or(1, usize::from);
        work(
            py,
            |()| Ok(()),
            |teller| encode_all(&texts, n_threads, encode, || teller.go_on().is_break()),
        )
    }

    /// The text of tokens, special ones left out or not.
    fn decode(
        &self,
        py: Python<'_>,
        ids: &Bound<'_, PyAny>,
        skip_specials: bool,
    ) -> PyResult<String> {
        let ids = ids_of("decode", ids)?;
        let tokenizer = &self.tokenizer;
        let decoded = py.detach(|| match skip_specials {
            true => tokenizer.decode(&ids),
            false => tokenizer.decode_all(&ids),
        });
        decoded.map_err(of_text)
    }

    /// Starts decoding what follows a prompt token by token.
    fn stream(&self, prompt: &Bound<'_, PyAny>) -> PyResult<PyDecodeStream> {
        PyDecodeStream::after(Arc::clone(&self.tokenizer), &ids_of("stream", prompt)?)
    }

    fn token_to_id(&self, token: &str) -> Option<u32> {
        self.tokenizer.token_to_id(token)
    }

    fn id_to_token(&self, id: u32) -> Option<String> {
        self.tokenizer.id_to_token(id)
    }

    /// The special token of a name: bos, eos, pad or separator.
    fn special(&self, name: &str) -> Option<u32> {
        let specials = self.tokenizer.specials();
        match name {
            "bos" => specials.bos,
            "eos" => specials.eos,
            "pad" => specials.pad,
            "separator" => specials.separator,
            _ => None,
        }
    }

    /// All special tokens, in rising order.
    #[getter]
    fn specials(&self) -> Vec<u32> {
        self.tokenizer.specials().all.clone()
    }

    /// The special tokens that files state, by their names: their texts.
    #[getter]
    fn stated(&self) -> Vec<(String, String)> {
        let templates = self.tokenizer.chat_templates();
        templates.map_or(Vec::new(), |templates| templates.tokens().to_vec())
    }

    /// The tokens that are put in front of a text, and after it.
    #[getter]
    fn surroundings(&self) -> (Vec<u32>, Vec<u32>) {
        let tokenizer = &self.tokenizer;
        (
            tokenizer.text_begin().to_vec(),
            tokenizer.text_end().to_vec(),
        )
    }
}
