//! `LanguageModel`: a model in memory with its tokenizer, and how it is opened or made.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use hlx_autograd::DType;
use hlx_core::{Arithmetic, Device};
use hlx_nn::{
    CausalConfig, CausalLm, CausalModel, LoraConfig, Mode, Model, Parameter, ParameterBuilder,
    has_blocks,
};
use hlx_train::model_folder::{self, is_run};
use hlx_train::model_source::ModelSource;
use hlx_train::opening::{Opened, Opening};
use hlx_train::run::RunFolder;
use hlx_train::text_source::TextSource;
use pyo3::prelude::*;

use crate::device::PyDevice;
use crate::dtype::PyDType;
use crate::error::{of_anyhow, of_core, of_nn, value_error};
use crate::tensor::PyTensor;
use crate::text::tokenizer::PyTokenizer;
use crate::wait::run_as;
use crate::warnings::warned;

/// A model with what lies beside it. It is replaced as a whole: what was made of one before goes on with that one.
pub struct Held {
    /// The model, and its tokenizer.
    pub source: TextSource,
    /// Where it was read from.
    pub folder: Option<PathBuf>,
    /// The numbers of its adapters.
    pub lora: Option<LoraConfig>,
    /// The training passes of graphs that are recorded, whose dropouts count their replays.
    pub recorded: Mutex<Option<Mode>>,
}

impl Held {
    pub fn new(source: TextSource, folder: Option<PathBuf>, lora: Option<LoraConfig>) -> Self {
        Self {
            source,
            folder,
            lora,
            recorded: Mutex::new(None),
        }
    }

    /// The model with its weights in f32.
    ///
    /// # Errors
    /// A model whose matrices are of 16 bits, with the name of what was to be done.
    pub fn whole(&self, operation: &str) -> PyResult<&Arc<Model<CausalLm>>> {
        match self.source.model() {
            Opened::Whole(model) => Ok(model),
            Opened::Half(_) => Err(value_error(format!(
                "{operation}: the model's matrices are held in 16 bits, for inference alone; load it with \
                 dtype=hlx.float32"
            ))),
        }
    }

    /// Where the model was read from, if its matrices are in blocks and it has no adapters.
    pub fn path_of_blocks(&self) -> Option<PathBuf> {
        match self.source.model() {
            Opened::Half(model) => {
                let mut parameters = model.parameters().iter();
                let has_blocks =
                    parameters.any(|one| one.tensor().is_ok_and(|tensor| tensor.is_of_blocks()));
                self.folder.clone().filter(|_| has_blocks)
            }
            Opened::Whole(_) => None,
        }
    }

    /// The device that it computes on.
    pub fn device(&self) -> PyResult<Device> {
        self.source.model().device().map_err(of_nn)
    }

    /// The same with another model of the same shape, or with adapters.
    pub fn with_model(&self, model: Model<CausalLm>, lora: Option<LoraConfig>) -> Self {
        let model = Opened::Whole(Arc::new(model));
        Self::new(self.source.with_model(model), self.folder.clone(), lora)
    }

    /// The type that its matrices are held in.
    fn dtype(&self) -> PyResult<DType> {
        match self.source.model() {
            Opened::Whole(_) => Ok(DType::F32),
            Opened::Half(model) => {
                let mut matrices = model
                    .parameters()
                    .iter()
                    .filter(|one| one.shape().len() == 2);
                let first = matrices.next().map(Parameter::tensor).transpose();
                let first = first.map_err(of_nn)?;
                Ok(first.map_or(DType::F32, |matrix| matrix.dtype()))
            }
        }
    }
}

/// A causal language model, with its tokenizer if it has one.
#[pyclass(frozen, module = "hlx._hlx", name = "LanguageModel")]
pub struct PyLanguageModel(RwLock<Arc<Held>>);

impl PyLanguageModel {
    /// The model now.
    pub fn held(&self) -> Arc<Held> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Puts another model in its place.
    pub fn replace(&self, held: Held) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(held);
    }
}

impl From<Held> for PyLanguageModel {
    fn from(held: Held) -> Self {
        Self(RwLock::new(Arc::new(held)))
    }
}

fn arithmetic_of(name: Option<&str>) -> PyResult<Option<Arithmetic>> {
    let parsed = name.map(str::parse::<Arithmetic>).transpose();
    parsed.map_err(|error| value_error(format!("load_model: arithmetic {error}")))
}

/// Opens a model with its adapters' numbers.
fn opened(device: &Device, folder: PathBuf, opening: Opening<'_>) -> anyhow::Result<Held> {
    let is_whole = opening.dtype.is_none_or(|dtype| dtype == DType::F32);
    if let Some(adapter) = opening.adapter.filter(|_| is_whole) {
        let keeps_blocks = opening.dtype.is_none() && has_blocks(&folder)?;
        let usual = match keeps_blocks {
            true => Arithmetic::Integer,
            false => Arithmetic::default(),
        };
        let device = device.in_arithmetic(opening.arithmetic.unwrap_or(usual))?;
        let (model, lora) = match keeps_blocks {
            true => model_folder::open_adapted_in_blocks(&device, &folder, adapter)?,
            false => model_folder::open_adapted(&device, &folder, adapter)?,
        };
        model.weights().freeze_all_but_lora(&lora)?;
        let source = ModelSource::at(&folder)?.with_model(Opened::Whole(Arc::new(model)))?;
        return Ok(Held::new(source, Some(folder), Some(lora)));
    }
    let source = TextSource::open(device, &folder, opening)?;
    let lora = match is_run(&folder)? {
        true => RunFolder::open_checkpoint(&folder)?.0.config()?.lora(),
        false => None,
    };
    Ok(Held::new(source, Some(folder), lora))
}

#[pymethods]
impl PyLanguageModel {
    /// Reads a run, one of its checkpoints, a model's folder, a Hugging Face folder or a GGUF file.
    #[staticmethod]
    fn open(
        py: Python<'_>,
        folder: PathBuf,
        device: &Bound<'_, PyAny>,
        dtype: Option<&PyDType>,
        arithmetic: Option<&str>,
        adapter: Option<PathBuf>,
        average: bool,
    ) -> PyResult<Self> {
        let dtype = dtype.map(|dtype| dtype.stored("load_model")).transpose()?;
        let device = PyDevice::from_argument(Some(device))?.open(py)?;
        let of_device = (device.arithmetic() != Arithmetic::default()).then(|| device.arithmetic());
        let arithmetic = arithmetic_of(arithmetic)?.or(of_device);
        let open = move || {
            let opening = Opening {
                average,
                dtype,
                arithmetic,
                adapter: adapter.as_deref(),
            };
            opened(&device, folder, opening)
        };
        let held = warned(py, || run_as(py, of_anyhow, open))??;
        Ok(held.into())
    }

    /// Makes a model of a configuration in JSON, its weights drawn by a seed.
    #[staticmethod]
    fn create(
        py: Python<'_>,
        config: &str,
        device: &Bound<'_, PyAny>,
        seed: u64,
    ) -> PyResult<Self> {
        let config = CausalConfig::from_json(config.as_bytes())
            .map_err(|error| value_error(format!("CausalLM: config: {error}")))?;
        let device = PyDevice::from_argument(Some(device))?.open(py)?;
        let model = run_as(py, of_nn, move || {
            Model::new(&device, seed, |b| CausalLm::new(b, &config))
        })?;
        let model = Opened::Whole(Arc::new(model));
        Ok(Held::new(TextSource::Ids(Box::new(model)), None, None).into())
    }

    /// The configuration of a name at its usual sizes, with changes, both in JSON.
    #[staticmethod]
    fn preset(name: &str, changes: &str) -> PyResult<String> {
        hlx_train::config::preset(name, changes)
            .map_err(|error| value_error(format!("preset: {error:#}")))
    }

    /// The names that `preset` knows.
    #[staticmethod]
    fn presets() -> Vec<&'static str> {
        CausalConfig::PRESETS.to_vec()
    }

    /// The configuration, in JSON.
    #[getter]
    fn config(&self) -> PyResult<String> {
        let held = self.held();
        let text = serde_json::to_string(held.source.model().config());
        text.map_err(|error| value_error(error.to_string()))
    }

    #[getter]
    fn vocabulary_size(&self) -> usize {
        self.held().source.model().vocabulary()
    }

    #[getter]
    fn max_positions(&self) -> usize {
        self.held().source.model().max_positions()
    }

    #[getter]
    fn folder(&self) -> Option<PathBuf> {
        self.held().folder.clone()
    }

    #[getter]
    fn device(&self) -> PyResult<PyDevice> {
        Ok(PyDevice::of(&self.held().device()?))
    }

    #[getter]
    fn dtype(&self) -> PyResult<PyDType> {
        Ok(self.held().dtype()?.into())
    }

    /// The tokens that end a text.
    #[getter]
    fn end_tokens(&self) -> Vec<u32> {
        self.held().source.end_tokens().to_vec()
    }

    #[getter]
    fn tokenizer(&self) -> Option<PyTokenizer> {
        let tokenizer = self.held().source.tokenizer()?;
        Some(PyTokenizer::new(Arc::new(tokenizer)))
    }

    /// Gives the model a tokenizer in the place of its own.
    fn set_tokenizer(&self, tokenizer: &PyTokenizer) -> PyResult<()> {
        let held = self.held();
        let (model, tokenizer) = (held.source.model().clone(), (*tokenizer.tokenizer).clone());
        let source = held.source.with_tokenizer(model, tokenizer);
        let source = source.map_err(of_anyhow)?;
        self.replace(Held::new(source, None, held.lora.clone()));
        Ok(())
    }

    /// The parameters in the order of declaration: names, tensors over the model's own memory, and whether each
    /// requires a gradient.
    fn parameters(&self) -> PyResult<Vec<(String, PyTensor, bool)>> {
        let held = self.held();
        let parameters = match held.source.model() {
            Opened::Whole(model) => model.weights().parameters(),
            Opened::Half(model) => model.parameters(),
        };
        let is_whole = matches!(held.source.model(), Opened::Whole(_));
        let parameters = parameters.iter().map(|one| {
            let tensor = one.tensor().map_err(of_nn)?;
            let trains = is_whole && one.requires_grad();
            Ok((one.name().to_owned(), tensor.into(), trains))
        });
        parameters.collect()
    }

    /// Says of the parameter of a place whether it requires a gradient, and returns its tensor.
    fn set_requires_grad(&self, place: usize, requires_grad: bool) -> PyResult<PyTensor> {
        let held = self.held();
        let weights = held.whole("requires_grad_")?.weights();
        let Some(parameter) = weights.parameters().get(place) else {
            return Err(value_error(format!(
                "requires_grad_: there is no parameter {place}"
            )));
        };
        parameter.requires_grad_(requires_grad);
        if !requires_grad && weights.has_gradients() {
            // What a pass has left there is no part of the gradients' norm.
            let offset = weights.spans("")[place].offset;
            let flat = weights.gradients().map_err(of_nn)?;
            let left = flat.slice(offset, parameter.n_elements());
            let left = left.map_err(of_core)?;
            parameter.tensor().map_err(of_nn)?.zero_grad();
            weights.device().fill(&left, 0).map_err(of_core)?;
        }
        Ok(parameter.tensor().map_err(of_nn)?.into())
    }

    /// A copy of the model with memory of its own, on a device.
    fn copy(&self, py: Python<'_>, device: &Bound<'_, PyAny>) -> PyResult<Self> {
        let device = PyDevice::from_argument(Some(device))?.open(py)?;
        let held = self.held();
        let model = held.whole("to")?;
        if model.weights().base().is_some() {
            return Err(value_error(
                "to: the base in blocks stays on its device; load the model on the other one",
            ));
        }
        let made = run_as(py, of_nn, || copied(model, &device, held.lora.as_ref()))?;
        Ok(held.with_model(made, held.lora.clone()).into())
    }

    /// Moves the model to a device.
    fn move_to(&self, py: Python<'_>, device: &Bound<'_, PyAny>) -> PyResult<()> {
        let there = self.copy(py, device)?;
        let held = there.held();
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = held;
        Ok(())
    }
}

/// A copy of a model on a device, with its adapters and frozen parameters.
pub fn copied(
    model: &Model<CausalLm>,
    device: &Device,
    lora: Option<&LoraConfig>,
) -> hlx_nn::Result<Model<CausalLm>> {
    let config = model.config();
    let made = Model::zeroed(device, |b: &mut ParameterBuilder| {
        if let Some(lora) = lora {
            b.with_lora(lora.clone());
        }
        CausalLm::new(b, config)
    })?;
    let (from, to) = (model.weights(), made.weights());
    to.load_safetensors(&from.to_safetensors()?)?;
    for (from, to) in from.parameters().iter().zip(to.parameters()) {
        to.requires_grad_(from.requires_grad());
    }
    Ok(made)
}
