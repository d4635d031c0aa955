//! Passes of a language model: whole sequences, and what is appended to a cache.

use std::sync::{Mutex, PoisonError};

use hlx_autograd::{Tensor, no_grad};
use hlx_core::{DType, Device};
use hlx_nn::{CausalInput, CausalModel, KvCache, Mode, NnError};
use hlx_train::model_folder::checked_ids;
use hlx_train::opening::Opened;
use pyo3::prelude::*;

use super::held::{Held, PyLanguageModel};
use crate::error::{of_anyhow, of_nn};
use crate::operations::Handle;
use crate::random;
use crate::tensor::PyTensor;
use crate::wait::run_as;

/// The keys and values of sequences that are being continued.
#[pyclass(frozen, module = "hlx._hlx", name = "KvCache")]
pub struct PyKvCache(Mutex<KvCache>);

impl PyKvCache {
    fn with<T>(&self, body: impl FnOnce(&mut KvCache) -> T) -> T {
        body(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[pymethods]
impl PyKvCache {
    /// The tokens of each sequence.
    #[getter]
    fn lengths(&self) -> Vec<usize> {
        self.with(|cache| cache.lengths().to_vec())
    }

    /// The tokens that a sequence can have.
    #[getter]
    fn capacity(&self) -> usize {
        self.with(|cache| cache.capacity())
    }

    /// Forgets the tokens of each sequence from a number on.
    fn truncate(&self, lengths: Vec<usize>) -> PyResult<()> {
        self.with(|cache| cache.truncate(&lengths)).map_err(of_nn)
    }

    /// Has the sequences of these numbers alone, in this order.
    fn retain(&self, py: Python<'_>, sequences: Vec<usize>) -> PyResult<()> {
        run_as(py, of_nn, || self.with(|cache| cache.retain(&sequences)))
    }
}

/// Ids as models read them: u32 on the model's device, one sample a row. On the CPU they are checked, elsewhere one that
/// the vocabulary has not gives NaN.
fn ids_of(held: &Held, ids: &Tensor) -> anyhow::Result<Tensor> {
    let device = held.source.model().device()?;
    let is_checked = ids.device().is_cpu() && !ids.device().is_recording();
    let ids = match is_checked {
        true => checked_ids(&**held.source.model(), ids)?,
        // Negative numbers are outside of every vocabulary in either type.
        false if ids.dtype() == DType::I32 => ids.view_dtype(DType::U32)?,
        false => ids.to_dtype(DType::U32)?,
    };
    Ok(there(&ids, &device)?.with_samples(0)?)
}

fn there(x: &Tensor, device: &Device) -> hlx_autograd::Result<Tensor> {
    match x.device().is_same(device) {
        true => Ok(x.clone()),
        false => x.to(device),
    }
}

/// What a pass reads beside its ids, as u32 on the model's device.
fn numbers_of(held: &Held, given: Option<Handle>) -> anyhow::Result<Option<Tensor>> {
    let Some(given) = given else {
        return Ok(None);
    };
    let device = held.source.model().device()?;
    Ok(Some(there(&given.to_dtype(DType::U32)?, &device)?))
}

/// The mode of a training pass. Where dropouts draw, each pass has a seed of the generator; a recording has one for all
/// of its replays, and the first pass before it makes that.
fn training(held: &Held, device: &Device, seed: Option<u64>) -> hlx_nn::Result<Mode> {
    let mut recorded = held.recorded.lock().unwrap_or_else(PoisonError::into_inner);
    let shared = match &*recorded {
        Some(mode) => mode.clone(),
        None => recorded
            .insert(Mode::train(device, seed.unwrap_or(0))?)
            .clone(),
    };
    match seed {
        Some(seed) if !device.is_recording() => Mode::train(device, seed),
        _ => Ok(shared),
    }
}

#[pymethods]
impl PyLanguageModel {
    /// The logits of ids [B, T], [B, T, V]; with `balance` also the balance losses of a mixture of experts.
    #[pyo3(signature = (ids, *, train = false, documents = None, positions = None, lengths = None, balance = false))]
    fn forward(
        &self,
        py: Python<'_>,
        ids: Handle,
        train: bool,
        documents: Option<Handle>,
        positions: Option<Handle>,
        lengths: Option<Handle>,
        balance: bool,
    ) -> PyResult<(PyTensor, Option<PyTensor>)> {
        let held = self.held();
        let device = held.device()?;
        let draws = match held.source.model() {
            Opened::Whole(model) => train && model.weights().draws_masks(),
            Opened::Half(_) => {
                if train {
                    held.whole("forward in training")?;
                }
                false
            }
        };
        let seed = (draws && !device.is_recording()).then(|| random::next_seed(None));
        let (logits, balance) = run_as(py, of_anyhow, move || {
            let ids = ids_of(&held, &ids)?;
            let [documents, positions, lengths] =
                [documents, positions, lengths].map(|given| numbers_of(&held, given));
            let (documents, positions, lengths) = (documents?, positions?, lengths?);
            let input = CausalInput {
                documents: documents.as_ref(),
                positions: positions.as_ref(),
                lengths: lengths.as_ref(),
                ..CausalInput::new(&ids)
            };
            let mode = match train {
                true => training(&held, &device, seed)?,
                false => Mode::eval(),
            };
            let pass = || match balance {
                true => held.source.model().logits_and_balance(&input, &mode),
                false => Ok((held.source.model().logits(&input, &mode)?, None)),
            };
            let made: Result<_, NnError> = match held.source.model() {
                Opened::Whole(_) => pass(),
                Opened::Half(_) => no_grad(pass),
            };
            Ok(made?)
        })?;
        Ok((logits.into(), balance.map(PyTensor::from)))
    }

    /// An empty cache of sequences.
    fn cache(&self, py: Python<'_>, batch: usize, capacity: usize) -> PyResult<PyKvCache> {
        let held = self.held();
        let device = held.device()?;
        let cache = run_as(py, of_nn, || {
            held.source.model().cache(&device, batch, capacity)
        })?;
        Ok(PyKvCache(Mutex::new(cache)))
    }

    /// Appends the first `new[b]` tokens of row b of the ids [B, T] to the sequences of a cache; their logits [B, T, V].
    fn forward_cached(
        &self,
        py: Python<'_>,
        ids: Handle,
        new: Option<Vec<usize>>,
        cache: &PyKvCache,
    ) -> PyResult<PyTensor> {
        let held = self.held();
        run_as(py, of_anyhow, move || {
            let ids = ids_of(&held, &ids)?;
            let &[batch, time] = ids.shape() else {
                anyhow::bail!("ids: shape {:?}, expected [batch, time]", ids.shape());
            };
            let new = new.unwrap_or_else(|| vec![time; batch]);
            let pass = |cache: &mut KvCache| {
                no_grad(|| held.source.model().logits_cached(&ids, &new, None, cache))
            };
            Ok(cache.with(pass)?)
        })
        .map(PyTensor::from)
    }
}
