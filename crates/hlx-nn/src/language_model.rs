//! Any causal language model that HLX trains, and its files.

use std::path::Path;

use hlx_autograd::{DType, Tensor};
use hlx_core::Device;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::NnError;
use crate::model_file::{check_room, read_config, read_weights};
use crate::{
    Architecture, CONFIG_FILE, CacheStep, CausalConfig, CausalInput, CausalLm, CausalModel,
    InferenceModel, KvCache, Members, Mode, Model, ModelConfig, Module, ParameterBuilder, Result,
    Transformer, TransformerConfig, import_hugging_face, import_hugging_face_as,
    read_hugging_face_config,
};

/// The shape of a [`LanguageModel`]; in a `config.json` told apart by the key `architecture`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum LanguageModelConfig {
    /// Of a [`Transformer`].
    Transformer(TransformerConfig),
    /// Of a [`CausalLm`].
    Causal(Box<CausalConfig>),
}

impl LanguageModelConfig {
    /// Checks that such a model can be made.
    ///
    /// # Errors
    /// [`NnError::Config`] with the value that cannot be.
    pub fn validate(&self) -> Result<()> {
        match self {
            Self::Transformer(config) => config.validate(),
            Self::Causal(config) => config.validate(),
        }
    }

    /// The family whose names the model's files have; [`Architecture::Custom`] of a [`Transformer`].
    pub fn architecture(&self) -> Architecture {
        match self {
            Self::Transformer(_) => Architecture::Custom,
            Self::Causal(config) => config.architecture,
        }
    }
}

impl<'de> Deserialize<'de> for LanguageModelConfig {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        let parsed = match value.get("architecture") {
            Some(_) => serde_json::from_value(value).map(|causal| Self::Causal(Box::new(causal))),
            None => serde_json::from_value(value).map(Self::Transformer),
        };
        parsed.map_err(serde::de::Error::custom)
    }
}

/// A [`Transformer`] or a [`CausalLm`], as a configuration says.
#[derive(Debug)]
pub enum LanguageModel {
    /// In the shape of GPT-2, with an output projection of its own.
    Transformer(Transformer),
    /// One of today's architectures.
    Causal(Box<CausalLm>),
}

impl LanguageModel {
    /// Declares the model.
    ///
    /// # Errors
    /// [`NnError::Config`].
    pub fn new(builder: &mut ParameterBuilder, config: &LanguageModelConfig) -> Result<Self> {
        Ok(match config {
            LanguageModelConfig::Transformer(config) => {
                Self::Transformer(Transformer::new(builder, config)?)
            }
            LanguageModelConfig::Causal(config) => {
                Self::Causal(Box::new(CausalLm::new(builder, config)?))
            }
        })
    }

    /// The shape.
    pub fn config(&self) -> LanguageModelConfig {
        match self {
            Self::Transformer(model) => LanguageModelConfig::Transformer(model.config().clone()),
            Self::Causal(model) => LanguageModelConfig::Causal(Box::new(model.config().clone())),
        }
    }

    /// The device of its parameters.
    ///
    /// # Errors
    /// [`NnError::NotBuilt`].
    pub fn device(&self) -> Result<Device> {
        match self.members().parameters.first() {
            Some(parameter) => Ok(parameter.tensor()?.device().clone()),
            None => Err(NnError::NotBuilt {
                name: "of the model".to_owned(),
            }),
        }
    }

    fn inner(&self) -> &dyn CausalModel {
        match self {
            Self::Transformer(model) => model,
            Self::Causal(model) => &**model,
        }
    }
}

/// Reads the shape of a model from the `config.json` of a folder that [`save_model`](crate::save_model)
/// wrote, or of a Hugging Face folder.
///
/// # Errors
/// As [`load_model`](crate::load_model) and [`read_hugging_face_config`].
pub fn read_language_model_config(folder: &Path) -> Result<LanguageModelConfig> {
    let fail = |error: serde_json::Error| NnError::file(&folder.join(CONFIG_FILE), error);
    let value: Value = serde_json::from_slice(&read_config(folder)?).map_err(fail)?;
    if is_hugging_face(&value) {
        let config = read_hugging_face_config(folder)?;
        return Ok(LanguageModelConfig::Causal(Box::new(config)));
    }
    let config: LanguageModelConfig = serde_json::from_value(value).map_err(fail)?;
    let checked = config.validate();
    checked.map_err(|error| NnError::file(&folder.join(CONFIG_FILE), error))?;
    Ok(config)
}

/// Whether a `config.json` is of Hugging Face's form.
fn is_hugging_face(config: &Value) -> bool {
    ["architectures", "model_type"]
        .iter()
        .any(|key| config.get(key).is_some())
}

/// Reads a model from a folder that [`save_model`](crate::save_model) wrote, or from a Hugging Face
/// folder.
///
/// # Errors
/// As [`load_model`](crate::load_model) and [`import_hugging_face`].
pub fn load_language_model(device: &Device, folder: &Path) -> Result<Model<LanguageModel>> {
    if is_hugging_face_folder(folder)? {
        return Ok(import_hugging_face(device, folder)?
            .map(|model| LanguageModel::Causal(Box::new(model))));
    }
    let config = read_language_model_config(folder)?;
    let model = Model::zeroed(device, |b| {
        let model = LanguageModel::new(b, &config)?;
        check_room(folder, b)?;
        Ok(model)
    })?;
    read_weights(folder, model.weights())?;
    Ok(model)
}

/// As [`load_language_model`], for inference, with matrices kept in a type.
///
/// # Errors
/// As [`load_language_model`] and [`import_hugging_face_as`].
pub fn load_language_model_as(
    device: &Device,
    folder: &Path,
    dtype: DType,
) -> Result<InferenceModel<LanguageModel>> {
    if is_hugging_face_folder(folder)? {
        let model = import_hugging_face_as(device, folder, dtype)?;
        return Ok(model.map(|model| LanguageModel::Causal(Box::new(model))));
    }
    let whole = load_language_model(&Device::cpu()?, folder)?;
    InferenceModel::rounded(device, dtype, whole.weights(), |b| {
        LanguageModel::new(b, &whole.config())
    })
}

/// Whether the `config.json` of a folder is of Hugging Face's form.
///
/// # Errors
/// [`NnError::File`] for a file that is missing or broken.
pub fn is_hugging_face_folder(folder: &Path) -> Result<bool> {
    let fail = |error: serde_json::Error| NnError::file(&folder.join(CONFIG_FILE), error);
    let value = serde_json::from_slice(&read_config(folder)?).map_err(fail)?;
    Ok(is_hugging_face(&value))
}

impl ModelConfig for CausalLm {
    fn config_json(&self) -> serde_json::Result<String> {
        serde_json::to_string_pretty(self.config())
    }
}

impl ModelConfig for LanguageModel {
    fn config_json(&self) -> serde_json::Result<String> {
        serde_json::to_string_pretty(&self.config())
    }
}

impl Module for LanguageModel {
    fn members(&self) -> Members {
        self.inner().members()
    }

    fn forward(&self, ids: &Tensor, mode: &Mode) -> Result<Tensor> {
        self.inner().forward(ids, mode)
    }
}

impl CausalModel for LanguageModel {
    fn vocabulary(&self) -> usize {
        self.inner().vocabulary()
    }

    fn max_positions(&self) -> usize {
        self.inner().max_positions()
    }

    fn logits(&self, input: &CausalInput<'_>, mode: &Mode) -> Result<Tensor> {
        self.inner().logits(input, mode)
    }

    fn logits_and_balance(
        &self,
        input: &CausalInput<'_>,
        mode: &Mode,
    ) -> Result<(Tensor, Option<Tensor>)> {
        self.inner().logits_and_balance(input, mode)
    }

    fn cache(&self, device: &Device, batch: usize, capacity: usize) -> Result<KvCache> {
        self.inner().cache(device, batch, capacity)
    }

    fn logits_of_step(
        &self,
        ids: &Tensor,
        rows: Option<&Tensor>,
        step: CacheStep<'_>,
    ) -> Result<Tensor> {
        self.inner().logits_of_step(ids, rows, step)
    }
}
