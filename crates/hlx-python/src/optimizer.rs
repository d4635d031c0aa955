//! The optimizers of hlx-nn over tensors of Python: one flat buffer of values, one of gradients.

use std::collections::HashSet;
use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hlx_autograd::Tensor;
use hlx_nn::{
    Adafactor, AdafactorConfig, Adagrad, AdagradConfig, Adam, AdamConfig, AdamW, AdamW8bit,
    AdamWConfig, CausalLm, Common, Init, Lion, LionConfig, Model, Muon, MuonAdjust, MuonConfig,
    NnError, Optimizer, OptimizerState, ParameterBuilder, ParameterGroup, RMSprop, RMSpropConfig,
    SGD, SGDConfig, StateTensor, Weights, state_spans,
};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::error::{Kind, of_nn, of_tensor, raised, value_error};
use crate::fork;
use crate::models::PyLanguageModel;
use crate::read::floats;
use crate::tensor::PyTensor;

/// Parameters of Python in flat buffers, and what updates them.
#[pyclass(frozen, module = "hlx._hlx", name = "OptimizerState")]
pub struct PyOptimizer {
    parameters: Vec<Py<PyTensor>>,
    inner: Mutex<Inner>,
}

/// The flat buffers, and what updates them.
pub struct Inner {
    pub weights: Flat,
    optimizer: Algorithm,
    /// The places of the parameters of Python among those of the weights.
    places: Vec<usize>,
}

/// The flat buffers.
pub enum Flat {
    /// Made for the parameters.
    Own(Box<Weights>),
    /// Those of a language model, whose layers read them.
    OfModel(Arc<Model<CausalLm>>),
}

impl Deref for Flat {
    type Target = Weights;

    fn deref(&self) -> &Weights {
        match self {
            Self::Own(weights) => weights,
            Self::OfModel(model) => model.weights(),
        }
    }
}

/// A number of the settings.
fn number<'py, T>(settings: &Bound<'py, PyDict>, name: &str, default: T) -> PyResult<T>
where
    T: for<'a> FromPyObject<'a, 'py, Error = PyErr>,
{
    match settings.get_item(name)? {
        Some(value) => value.extract(),
        None => Ok(default),
    }
}

/// The groups of parameters, by the numbers of their members.
fn members(
    weights: &Weights,
    places: &[usize],
    listed: &[Bound<'_, PyDict>],
) -> PyResult<Vec<ParameterGroup>> {
    let group = |listed: &Bound<'_, PyDict>| -> PyResult<ParameterGroup> {
        let members: Vec<usize> = match listed.get_item("parameters")? {
            Some(members) => members.extract()?,
            None => return Err(value_error("optimizer: a group names no parameters")),
        };
        let parameters = weights.parameters();
        let of_group = |member: &usize| parameters.get(*places.get(*member)?).cloned();
        let members: Vec<_> = members.iter().filter_map(of_group).collect();
        let chosen = weights.select(|parameter| members.iter().any(|it| it.is_same(parameter)));
        let decay: Option<f64> = match listed.get_item("weight_decay")? {
            Some(decay) => decay.extract()?,
            None => None,
        };
        let group = ParameterGroup::new(chosen).with_lr_factor(number(listed, "lr_factor", 1.0)?);
        Ok(match decay {
            Some(decay) => group.with_weight_decay(decay),
            None => group,
        })
    };
    listed.iter().map(group).collect()
}

fn common(
    settings: &Bound<'_, PyDict>,
    groups: Vec<ParameterGroup>,
    weight_decay: f64,
) -> PyResult<Common> {
    Ok(Common {
        weight_decay: number(settings, "weight_decay", weight_decay)?,
        skips_norm: true,
        groups,
        ..Common::default()
    })
}

/// The optimizers of hlx-nn, whose settings may change between steps.
macro_rules! optimizers {
    ($($variant:ident $config:ident $decay:literal { $($field:ident: $default:expr),* };)+) => {
        /// One of hlx-nn's optimizers, by PyTorch's name.
        #[allow(clippy::upper_case_acronyms)]
        enum Algorithm {
            $($variant($variant),)+
            Muon(Muon),
        }

        impl Algorithm {
            /// The optimizer of a name, with PyTorch's defaults for settings that are not named.
            fn new(
                kind: &str,
                weights: &Weights,
                settings: &Bound<'_, PyDict>,
                groups: Vec<ParameterGroup>,
            ) -> PyResult<Self> {
                match kind {
                    $(stringify!($variant) => {
                        let config = $config {
                            $($field: number(settings, stringify!($field), $default)?,)*
                            common: common(settings, groups, $decay)?,
                        };
                        $variant::new(weights, config).map(Self::$variant).map_err(of_nn)
                    })+
                    "Muon" => {
                        let config = muon(settings, common(settings, groups, 0.1)?)?;
                        Muon::new(weights, config).map(Self::Muon).map_err(of_nn)
                    }
                    other => {
                        let text = format!("optimizer: there is none of the name {other:?}");
                        Err(value_error(text))
                    }
                }
            }

            /// Gives the optimizer other settings from the next step on.
            fn set(&mut self, settings: &Bound<'_, PyDict>) -> PyResult<()> {
                match self {
                    $(Self::$variant(optimizer) => {
                        let config = $config {
                            $($field: number(settings, stringify!($field), $default)?,)*
                            common: common(settings, Vec::new(), $decay)?,
                        };
                        optimizer.set_rule(config).map_err(of_nn)
                    })+
                    Self::Muon(optimizer) => {
                        let config = muon(settings, common(settings, Vec::new(), 0.1)?)?;
                        optimizer.set_config(config).map_err(of_nn)
                    }
                }
            }

            fn get(&self) -> &dyn Optimizer {
                match self {
                    $(Self::$variant(optimizer) => optimizer,)+
                    Self::Muon(optimizer) => optimizer,
                }
            }

            fn get_mut(&mut self) -> &mut dyn Optimizer {
                match self {
                    $(Self::$variant(optimizer) => optimizer,)+
                    Self::Muon(optimizer) => optimizer,
                }
            }
        }
    };
}

optimizers! {
    SGD SGDConfig 0.0 { momentum: 0.0, dampening: 0.0, nesterov: false };
    Adam AdamConfig 0.0 { betas: [0.9, 0.999], eps: 1e-8 };
    AdamW AdamWConfig 0.01 { betas: [0.9, 0.999], eps: 1e-8 };
    AdamW8bit AdamWConfig 0.01 { betas: [0.9, 0.999], eps: 1e-8 };
    Adagrad AdagradConfig 0.0 { lr_decay: 0.0, initial_accumulator_value: 0.0, eps: 1e-10 };
    RMSprop RMSpropConfig 0.0 { alpha: 0.99, eps: 1e-8, momentum: 0.0, centered: false };
    Lion LionConfig 0.0 { betas: [0.9, 0.99] };
    Adafactor AdafactorConfig 0.0 { beta2_decay: -0.8, eps: [f64::from(f32::EPSILON), 1e-3], d: 1.0 };
}

fn muon(settings: &Bound<'_, PyDict>, common: Common) -> PyResult<MuonConfig> {
    let default = MuonConfig::default();
    let adjust: Option<String> = number(settings, "adjust_lr_fn", None)?;
    let mut newton_schulz = default.newton_schulz;
    newton_schulz.steps = number(settings, "ns_steps", newton_schulz.steps)?;
    newton_schulz.coefficients = number(settings, "ns_coefficients", newton_schulz.coefficients)?;
    newton_schulz.epsilon = number(settings, "eps", newton_schulz.epsilon)?;
    Ok(MuonConfig {
        adamw_parameters: number(settings, "adamw_parameters", default.adamw_parameters)?,
        momentum: number(settings, "momentum", default.momentum)?,
        nesterov: number(settings, "nesterov", default.nesterov)?,
        newton_schulz,
        adjust: match adjust.as_deref() {
            None | Some("original") => MuonAdjust::Original,
            Some("match_rms_adamw") => MuonAdjust::MatchRmsAdamw,
            Some("spectral_unclamped") => MuonAdjust::SpectralUnclamped,
            Some(other) => {
                let text = format!(
                    "Muon: adjust_lr_fn is {other:?}, expected original, match_rms_adamw or spectral_unclamped"
                );
                return Err(value_error(text));
            }
        },
        adamw_betas: number(settings, "adamw_betas", default.adamw_betas)?,
        adamw_eps: number(settings, "adamw_eps", default.adamw_eps)?,
        adamw_weight_decay: number(settings, "adamw_weight_decay", default.adamw_weight_decay)?,
        adamw_lr_factor: number(settings, "adamw_lr_factor", default.adamw_lr_factor)?,
        common,
    })
}

/// Why a tensor is no parameter of an optimizer.
fn unfit(x: &Tensor, first: &Tensor) -> Option<&'static str> {
    match () {
        _ if !x.dtype().is_float() || x.dtype() != hlx_core::DType::F32 => {
            Some("is not of float32")
        }
        _ if !x.is_leaf() => Some("is the result of an operation, expected a leaf"),
        _ if !x.requires_grad() => Some("requires no gradient"),
        _ if !x.device().is_same(first.device()) => Some("is on another device than the first"),
        _ => None,
    }
}

/// Zeros for what a state does not name.
fn zeros_beside(saved: &[StateTensor], inner: &Inner) -> Vec<StateTensor> {
    let named: HashSet<&str> = saved.iter().map(|one| one.name.as_str()).collect();
    let mut left = Vec::new();
    let (optimizer, weights) = (inner.optimizer.get(), &inner.weights);
    for (buffer, _) in optimizer.buffers() {
        for span in state_spans(optimizer.layout(buffer), weights, buffer, weights.updated()) {
            if !named.contains(span.name.as_str()) {
                left.push(StateTensor {
                    values: vec![0.0; span.shape.iter().product()],
                    name: span.name,
                    shape: span.shape,
                });
            }
        }
    }
    left
}

impl PyOptimizer {
    /// An optimizer of all parameters of a language model that require a gradient.
    fn of_model(
        kind: &str,
        parameters: Vec<(String, Bound<'_, PyTensor>)>,
        settings: &Bound<'_, PyDict>,
        groups: &[Bound<'_, PyDict>],
        owner: &PyLanguageModel,
    ) -> PyResult<Self> {
        let held = owner.held();
        let model = Arc::clone(held.whole("optimizer")?);
        let weights = model.weights();
        let mut places = Vec::with_capacity(parameters.len());
        for (name, _) in &parameters {
            let place = weights
                .parameters()
                .iter()
                .position(|one| one.name() == name);
            let no_place = || format!("optimizer: the language model has no parameter {name}");
            places.push(place.ok_or_else(|| value_error(no_place()))?);
        }
        let trained = weights.parameters().iter().enumerate();
        let mut trained = trained.filter(|(_, parameter)| parameter.requires_grad());
        if let Some((_, left)) = trained.find(|(place, _)| !places.contains(place)) {
            let text = format!(
                "optimizer: {} of the language model requires a gradient and is not among the parameters; give all of \
                 them, or freeze it by requires_grad_(False)",
                left.name()
            );
            return Err(value_error(text));
        }
        let groups = members(weights, &places, groups)?;
        let optimizer = Algorithm::new(kind, weights, settings, groups)?;
        let parameters = parameters.into_iter();
        Ok(Self {
            parameters: parameters.map(|(_, tensor)| tensor.unbind()).collect(),
            inner: Mutex::new(Inner {
                weights: Flat::OfModel(model),
                optimizer,
                places,
            }),
        })
    }

    /// The flat buffers, and what updates them.
    pub fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Checks that the tensors of Python are still the windows of the flat buffer, as one that was given to another
    /// optimizer, or moved to another device, is not.
    ///
    /// # Errors
    /// Python's `RuntimeError` that names the parameter.
    pub fn check(&self, py: Python<'_>, inner: &Inner) -> PyResult<()> {
        fork::check()?;
        for (own, &at) in self.parameters.iter().zip(&inner.places) {
            let parameter = &inner.weights.parameters()[at];
            let place = parameter.tensor().map_err(of_nn)?;
            let x = own.bind(py).get().handle();
            if !x.operand().buffer.overlaps(place.operand().buffer) {
                let name = parameter.name();
                let text = format!(
                    "optimizer step: parameter {name} was moved, or given to another optimizer; make a new optimizer"
                );
                return Err(raised(Kind::Runtime, text));
            }
            if x.requires_grad()
                && !place.has_grad()
                && let Some(gradient) = x.grad()
            {
                // It was frozen and made a leaf again in between, with a gradient of its own.
                place.set_grad(&gradient).map_err(of_tensor)?;
                own.bind(py).get().replace(place);
            }
        }
        Ok(())
    }

    /// Runs a change of the optimizer without the interpreter's lock.
    ///
    /// # Errors
    /// Those of the change.
    pub fn run<T: Send>(
        &self,
        py: Python<'_>,
        change: impl FnOnce(&mut Inner) -> Result<T, NnError> + Send,
    ) -> PyResult<T> {
        py.detach(|| change(&mut self.lock())).map_err(of_nn)
    }
}

#[pymethods]
impl PyOptimizer {
    /// Moves named parameters into flat buffers; the tensors stay the same objects. Groups have `parameters`, their
    /// numbers, and may have `lr_factor` and `weight_decay`. The parameters of a language model, `owner`, are in such
    /// buffers already.
    #[new]
    #[pyo3(signature = (kind, parameters, settings, groups, owner = None))]
    fn new(
        kind: &str,
        parameters: Vec<(String, Bound<'_, PyTensor>)>,
        settings: &Bound<'_, PyDict>,
        groups: Vec<Bound<'_, PyDict>>,
        owner: Option<&PyLanguageModel>,
    ) -> PyResult<Self> {
        if let Some(owner) = owner {
            return Self::of_model(kind, parameters, settings, &groups, owner);
        }
        let tensors: Vec<Tensor> = parameters.iter().map(|(_, it)| it.get().handle()).collect();
        let Some(first) = tensors.first() else {
            return Err(value_error("optimizer: there are no parameters"));
        };
        for ((name, _), x) in parameters.iter().zip(&tensors) {
            if let Some(reason) = unfit(x, first) {
                return Err(value_error(format!("optimizer: parameter {name} {reason}")));
            }
        }
        let mut builder = ParameterBuilder::new();
        for ((name, _), x) in parameters.iter().zip(&tensors) {
            builder.parameter(name, x.shape(), Init::Zeros);
        }
        let weights = builder.build_zeroed(first.device()).map_err(of_nn)?;
        let places: Vec<usize> = (0..parameters.len()).collect();
        let groups = members(&weights, &places, &groups)?;
        let optimizer = Algorithm::new(kind, &weights, settings, groups)?;
        for ((own, x), parameter) in parameters.iter().zip(&tensors).zip(weights.parameters()) {
            let place = parameter.tensor().map_err(of_nn)?;
            let mut values = place.detach();
            values.copy_(&x.detach()).map_err(of_tensor)?;
            if let Some(gradient) = x.grad() {
                place.set_grad(&gradient).map_err(of_tensor)?;
            }
            own.1.get().replace(place);
        }
        Ok(Self {
            parameters: parameters
                .into_iter()
                .map(|(_, tensor)| tensor.unbind())
                .collect(),
            inner: Mutex::new(Inner {
                weights: Flat::Own(Box::new(weights)),
                optimizer,
                places,
            }),
        })
    }

    /// Updates all parameters by their gradients: [`PyOptimizer::prepare`], then [`PyOptimizer::update`].
    #[pyo3(signature = (lr, settings = None, groups = None))]
    fn step(
        &self,
        py: Python<'_>,
        lr: f64,
        settings: Option<&Bound<'_, PyDict>>,
        groups: Option<Vec<(f64, Option<f64>)>>,
    ) -> PyResult<()> {
        self.check(py, &self.lock())?;
        self.run(py, |inner| inner.weights.check_gradients())?;
        self.prepare(py, lr, settings, groups)?;
        self.run(py, |inner| inner.optimizer.get().update(&inner.weights))
    }

    /// Begins a step: uploads its numbers, and is no part of a recording. `settings` and `groups`, the factor of the
    /// rate and the weight decay of each group, take the place of those before.
    #[pyo3(signature = (lr, settings = None, groups = None))]
    fn prepare(
        &self,
        py: Python<'_>,
        lr: f64,
        settings: Option<&Bound<'_, PyDict>>,
        groups: Option<Vec<(f64, Option<f64>)>>,
    ) -> PyResult<()> {
        {
            let mut inner = self.lock();
            if let Some(settings) = settings {
                inner.optimizer.set(settings)?;
            }
            for (group, (factor, decay)) in groups.unwrap_or_default().into_iter().enumerate() {
                let changed = inner.optimizer.get_mut().set_group(group, factor, decay);
                changed.map_err(of_nn)?;
            }
        }
        self.run(py, |inner| inner.optimizer.get_mut().prepare(lr))
    }

    /// Launches the step that `prepare` began; it may be recorded.
    fn update(&self, py: Python<'_>) -> PyResult<()> {
        self.check(py, &self.lock())?;
        self.run(py, |inner| inner.optimizer.get().update(&inner.weights))
    }

    /// Forgets all gradients.
    fn zero_grad(&self, py: Python<'_>) -> PyResult<()> {
        self.check(py, &self.lock())?;
        for parameter in self.lock().weights.parameters() {
            parameter.tensor().map_err(of_nn)?.zero_grad();
        }
        Ok(())
    }

    /// The number of steps taken.
    #[getter]
    fn steps(&self) -> u64 {
        self.lock().optimizer.get().step_count()
    }

    /// The SHA-256 over names, shapes and values of the parameters, as `hlx digest` states it of a run.
    fn parameters_digest(&self, py: Python<'_>) -> PyResult<String> {
        self.run(py, |inner| inner.weights.digest())
    }

    /// The SHA-256 over the optimizer's state.
    fn digest(&self, py: Python<'_>) -> PyResult<String> {
        self.run(py, |inner| inner.optimizer.get().digest(&inner.weights))
    }

    /// The names of the state's buffers, such as `mean`.
    fn buffers(&self) -> Vec<&'static str> {
        let inner = self.lock();
        let buffers = inner.optimizer.get().buffers().into_iter();
        buffers.map(|(name, _)| name).collect()
    }

    /// The state's tensors by name, such as `mean/weight`, on the CPU.
    fn state<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let (state, own) = self.run(py, |inner| {
            let state = inner.optimizer.get().float_state(&inner.weights)?;
            let parameters = inner
                .places
                .iter()
                .map(|&at| &inner.weights.parameters()[at]);
            let own: HashSet<String> = parameters.map(|one| one.name().to_owned()).collect();
            Ok((state, own))
        })?;
        let cpu = crate::device::PyDevice::cpu().open(py)?;
        let tensors = PyDict::new(py);
        for StateTensor {
            name,
            shape,
            values,
        } in state.tensors
        {
            // A language model has frozen parameters beside those that are trained.
            if name
                .split_once('/')
                .is_none_or(|(_, parameter)| !own.contains(parameter))
            {
                continue;
            }
            let tensor = Tensor::from_slice(&cpu, &values, &shape).map_err(of_tensor)?;
            tensors.set_item(name, Bound::new(py, PyTensor::from(tensor))?)?;
        }
        Ok(tensors)
    }

    /// Restores a state, of which what is not given is zeros; nothing is written unless all of it fits.
    fn load_state(&self, py: Python<'_>, tensors: &Bound<'_, PyDict>, steps: u64) -> PyResult<()> {
        let mut saved = Vec::with_capacity(tensors.len());
        for (name, tensor) in tensors.iter() {
            let x = tensor.cast::<PyTensor>()?.get().handle();
            saved.push(StateTensor {
                name: name.extract()?,
                shape: x.shape().to_vec(),
                values: floats(py, &x)?,
            });
        }
        self.run(py, |inner| {
            saved.append(&mut zeros_beside(&saved, inner));
            saved.sort_by(|one, two| one.name.cmp(&two.name));
            let state = OptimizerState {
                optimizer: inner.optimizer.get().name().to_owned(),
                step: steps,
                tensors: saved,
            };
            inner.optimizer.get_mut().load_state(&inner.weights, &state)
        })
    }
}
