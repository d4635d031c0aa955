//! Training tokenizers.

use std::ops::ControlFlow;
use std::path::PathBuf;

use hlx_text::{BpeTrainer, ScanOptions, TextError, WordCounts, characters_of_files, count_words};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedStr;

use super::prepare::format_of;
use super::tokenizer::PyTokenizer;
use super::work::{Teller, work};

/// How far the training is: the share, and the tokens that there are.
type Reached = (f64, u64);

fn trained(
    trainer: &BpeTrainer,
    counts: WordCounts,
    teller: &Teller<Reached>,
) -> Result<PyTokenizer, TextError> {
    let progress = |have: usize, wanted: usize| {
        teller.tell((0.5 + 0.5 * have as f64 / wanted as f64, have as u64))
    };
    trainer.train(counts, progress).map(PyTokenizer::from)
}

/// Calls a function of Python with what was reached.
fn teller_of(
    py: Python<'_>,
    progress: Option<&Bound<'_, PyAny>>,
) -> impl FnMut(Reached) -> PyResult<()> {
    let progress = progress.map(|function| function.clone().unbind());
    move |(done, n_tokens)| match &progress {
        Some(function) => function.call1(py, (done, 0, n_tokens)).map(drop),
        None => Ok(()),
    }
}

/// Files, as a pass over them reads them.
fn scan_options(
    files: Vec<PathBuf>,
    format: Option<&str>,
    threads: Option<usize>,
) -> PyResult<ScanOptions> {
    let mut options = ScanOptions::new(files);
    options.format = format_of("train", format)?;
    options.threads = threads.unwrap_or(options.threads);
    Ok(options)
}

/// Trains byte-level BPE on files.
#[pyfunction]
pub fn train_tokenizer(
    py: Python<'_>,
    files: Vec<PathBuf>,
    trainer: (usize, u64, Vec<String>),
    format: Option<&str>,
    threads: Option<usize>,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<PyTokenizer> {
    let options = scan_options(files, format, threads)?;
    let trainer = trainer_of(trainer);
    work(py, teller_of(py, progress), |teller| {
        let counts = count_words(&options, |done, _| teller.tell((0.5 * done, 0)))?;
        trained(&trainer, counts, teller)
    })
}

/// The tokenizer of the characters of files.
#[pyfunction]
pub fn characters_tokenizer(
    py: Python<'_>,
    files: Vec<PathBuf>,
    format: Option<&str>,
    threads: Option<usize>,
) -> PyResult<PyTokenizer> {
    let options = scan_options(files, format, threads)?;
    work(
        py,
        |()| Ok(()),
        |teller| {
            let made = characters_of_files(&options, |_, _| teller.go_on());
            made.map(PyTokenizer::from)
        },
    )
}

fn trainer_of(
    (vocabulary_size, min_frequency, special_tokens): (usize, u64, Vec<String>),
) -> BpeTrainer {
    BpeTrainer {
        vocabulary_size,
        min_frequency,
        special_tokens,
    }
}

/// The words of texts that come one after the other, and the tokenizer that is trained on them.
#[pyclass(module = "hlx._hlx", name = "WordCounter")]
#[derive(Default)]
pub struct PyWordCounter(WordCounts);

#[pymethods]
impl PyWordCounter {
    #[new]
    fn new() -> Self {
        Self::default()
    }

    /// Counts the words of texts.
    fn add(&mut self, py: Python<'_>, texts: Vec<PyBackedStr>) -> PyResult<()> {
        let counts = &mut self.0;
        work(
            py,
            |()| Ok(()),
            |teller| {
                for text in &texts {
                    if let ControlFlow::Break(()) = teller.go_on() {
                        break;
                    }
                    counts.add(text);
                }
                Ok(())
            },
        )
    }

    /// Trains byte-level BPE on the words, which are gone afterwards.
    fn train(
        &mut self,
        py: Python<'_>,
        trainer: (usize, u64, Vec<String>),
        progress: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<PyTokenizer> {
        let counts = std::mem::take(&mut self.0);
        let trainer = trainer_of(trainer);
        work(py, teller_of(py, progress), |teller| {
            trained(&trainer, counts, teller)
        })
    }
}
