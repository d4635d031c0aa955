//! Tokens on disk, and the rows that are cut of them.

use std::ops::Range;
use std::path::PathBuf;

use hlx_autograd::Tensor;
use hlx_kernels::cross_entropy::IGNORE_INDEX;
use hlx_text::{
    Document, PackedDocuments, PaddedDocuments, TextError, TokenBatch, TokenSamples, TokenShards,
    Windows,
};
use pyo3::prelude::*;

use super::work::{of_text, work};
use crate::device::PyDevice;
use crate::error::value_error;
use crate::tensor::PyTensor;
use crate::wait::run;

/// A target that counts nothing, as in PyTorch.
const IGNORED: i32 = -100;

/// The first and the last token and one, and the same of documents.
type Part = ((u64, u64), (u64, u64));

/// A tensor on the CPU device.
fn tensor(py: Python<'_>, values: Vec<i32>, shape: &[usize]) -> PyResult<PyTensor> {
    let device = PyDevice::cpu().open(py)?;
    run(py, || Tensor::from_slice(&device, &values, shape)).map(PyTensor::from)
}

/// Words as numbers of Python's side.
fn signed(words: Vec<u32>) -> Vec<i32> {
    let signed = words.into_iter().map(|word| match word {
        IGNORE_INDEX => IGNORED,
        word => word as i32,
    });
    signed.collect()
}

/// Tokens on disk, or in memory.
#[pyclass(frozen, module = "hlx._hlx", name = "TokenShards")]
pub struct PyShards(TokenShards);

impl PyShards {
    pub fn new(shards: TokenShards) -> Self {
        Self(shards)
    }
}

#[pymethods]
impl PyShards {
    /// Opens a folder of shards, or a .bin of nanoGPT or llm.c.
    #[staticmethod]
    fn open(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        let opened = py.detach(|| TokenShards::open(path));
        opened.map(Self).map_err(of_text)
    }

    /// Documents in memory: tokens, and whether each is trained on.
    #[staticmethod]
    fn of_documents(
        py: Python<'_>,
        vocab_size: usize,
        documents: Vec<(Vec<u32>, Option<Vec<bool>>)>,
    ) -> PyResult<Self> {
        let documents = documents.into_iter();
        let documents = documents.map(|(tokens, trained)| Document { tokens, trained });
        let documents: Vec<Document> = documents.collect();
        let made = py.detach(|| TokenShards::from_documents(vocab_size, &documents));
        made.map(Self).map_err(of_text)
    }

    #[getter]
    fn n_tokens(&self) -> u64 {
        self.0.len()
    }

    #[getter]
    fn n_documents(&self) -> u64 {
        self.0.n_documents()
    }

    #[getter]
    fn vocab_size(&self) -> usize {
        self.0.vocabulary_size()
    }

    #[getter]
    fn has_masks(&self) -> bool {
        self.0.has_masks()
    }

    /// The digest of the tokenizer that made the tokens.
    #[getter]
    fn tokenizer_digest(&self) -> Option<&str> {
        self.0.tokenizer_digest()
    }

    /// The identity of the tokens.
    fn digest(&self, py: Python<'_>) -> PyResult<String> {
        work(py, |()| Ok(()), |_| self.0.digest().map(str::to_owned))
    }

    /// Compares every file with its digest.
    fn verify(&self, py: Python<'_>) -> PyResult<()> {
        work(py, |()| Ok(()), |_| self.0.verify())
    }

    /// The tokens of a range, [n].
    fn read(&self, py: Python<'_>, start: u64, end: u64) -> PyResult<PyTensor> {
        let words = py.detach(|| self.0.read(start..end)).map_err(of_text)?;
        let n = words.len();
        tensor(py, signed(words), &[n])
    }

    /// Whether each token of a range is trained on.
    fn trained(&self, py: Python<'_>, start: u64, end: u64) -> PyResult<Vec<bool>> {
        py.detach(|| self.0.trained(start..end)).map_err(of_text)
    }

    /// The range of a document's tokens.
    fn document(&self, number: u64) -> PyResult<(u64, u64)> {
        let Range { start, end } = self.0.document(number).map_err(of_text)?;
        Ok((start, end))
    }

    /// The document that holds a token.
    fn document_at(&self, token: u64) -> PyResult<u64> {
        self.0.document_at(token).map_err(of_text)
    }

    /// What is trained on and what is held out.
    fn split(&self, fraction: f64) -> PyResult<(Part, Part)> {
        let split = self.0.split(fraction).map_err(of_text)?;
        let of = |part: hlx_text::TokenRange| {
            let (tokens, documents) = (part.tokens, part.documents);
            ((tokens.start, tokens.end), (documents.start, documents.end))
        };
        Ok((of(split.train), of(split.eval)))
    }

    /// Cuts a part into rows of a kind.
    fn rows(
        &self,
        py: Python<'_>,
        kind: &str,
        length: usize,
        seed: Option<u64>,
        part: Part,
        multiple: usize,
    ) -> PyResult<PyRows> {
        let (tokens, documents) = (part.0.0..part.0.1, part.1.0..part.1.1);
        let shards = self.0.clone();
        let kind = kind.to_owned();
        let make = move || -> Result<Box<dyn TokenSamples>, TextError> {
            let windows = || match seed {
                Some(seed) => Windows::new(shards.clone(), tokens.clone(), length, seed),
                None => Windows::in_order(shards.clone(), tokens.clone(), length),
            };
            Ok(match kind.as_str() {
                "windows" => Box::new(windows()?),
                "separate_windows" => Box::new(windows()?.with_separate_documents()),
                "packed" => Box::new(match seed {
                    Some(seed) => PackedDocuments::new(shards, documents, length, seed)?,
                    None => PackedDocuments::in_order(shards, documents, length)?,
                }),
                _ => {
                    let rows = match seed {
                        Some(seed) => PaddedDocuments::new(shards, documents, length, seed)?,
                        None => PaddedDocuments::in_order(shards, documents, length)?,
                    };
                    Box::new(rows.with_time_multiple(multiple))
                }
            })
        };
        let samples = py.detach(make).map_err(of_text)?;
        // Windows at random offsets have as many as in order.
        let windows = (part.0.1 - part.0.0).saturating_sub(1);
        let per_epoch = samples.per_epoch();
        Ok(PyRows {
            per_epoch: per_epoch.unwrap_or(windows.div_ceil(length as u64)),
            samples,
        })
    }
}

/// Rows by number.
#[pyclass(frozen, module = "hlx._hlx", name = "TokenRows")]
pub struct PyRows {
    samples: Box<dyn TokenSamples>,
    per_epoch: u64,
}

/// Puts the samples of several numbers below each other, padded to the longest.
fn joined(parts: Vec<TokenBatch>) -> TokenBatch {
    let time = parts.iter().map(|part| part.time).max().unwrap_or(0);
    let rows = parts.iter().map(|part| part.rows).sum();
    let mut all = TokenBatch {
        rows,
        time,
        ids: Vec::with_capacity(rows * time),
        targets: Vec::with_capacity(rows * time),
        lengths: Vec::with_capacity(rows),
        document_starts: Vec::with_capacity(rows * time),
        positions: Vec::with_capacity(rows * time),
        n_targets: 0,
        n_inputs: 0,
    };
    for part in parts {
        for row in 0..part.rows {
            let of = |values: &[u32]| values[row * part.time..][..part.time].to_vec();
            let end = all.ids.len() + time;
            all.ids.extend(of(&part.ids));
            all.ids.resize(end, 0);
            all.targets.extend(of(&part.targets));
            all.targets.resize(end, IGNORE_INDEX);
            all.positions.extend(of(&part.positions));
            all.positions.resize(end, 0);
            all.document_starts.extend(of(&part.document_starts));
            // A position of padding is a document of its own.
            all.document_starts.extend(part.time as u32..time as u32);
        }
        all.lengths.extend(part.lengths);
        all.n_targets += part.n_targets;
        all.n_inputs += part.n_inputs;
    }
    all
}

/// The ids, targets, document starts and positions [B, T], and the lengths [B].
type Tensors = (PyTensor, PyTensor, PyTensor, PyTensor, PyTensor);

fn tensors(py: Python<'_>, batch: TokenBatch) -> PyResult<Tensors> {
    let shape = [batch.rows, batch.time];
    Ok((
        tensor(py, signed(batch.ids), &shape)?,
        tensor(py, signed(batch.targets), &shape)?,
        tensor(py, signed(batch.document_starts), &shape)?,
        tensor(py, signed(batch.positions), &shape)?,
        tensor(py, signed(batch.lengths), &shape[..1])?,
    ))
}

#[pymethods]
impl PyRows {
    /// The rows of an epoch; of windows at random offsets as many as there are in order.
    #[getter]
    fn per_epoch(&self) -> u64 {
        self.per_epoch
    }

    /// The rows from a number on.
    fn batch(&self, py: Python<'_>, first: u64, rows: usize) -> PyResult<Tensors> {
        let made = py.detach(|| self.samples.batch(first, rows));
        tensors(py, made.map_err(of_text)?)
    }

    /// The rows of numbers.
    fn gather(&self, py: Python<'_>, numbers: Vec<u64>) -> PyResult<Tensors> {
        if numbers.is_empty() {
            return Err(value_error("rows: a batch of no row"));
        }
        let made = py.detach(|| {
            let parts = numbers.iter().map(|&number| self.samples.batch(number, 1));
            Ok(joined(parts.collect::<Result<_, TextError>>()?))
        });
        tensors(py, made.map_err(of_text)?)
    }
}
