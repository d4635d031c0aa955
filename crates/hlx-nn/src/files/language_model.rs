//! The files of any causal language model: those of [`save_model`](crate::save_model), or a Hugging Face folder.

use std::path::Path;

use hlx_autograd::DType;
use hlx_core::Device;
use serde_json::Value;

use super::hugging_face::{import_hugging_face, import_hugging_face_as, read_hugging_face_config};
use super::model_file::{CONFIG_FILE, ModelConfig, check_room, read_config, read_weights};
use crate::error::NnError;
use crate::{CausalLm, InferenceModel, LanguageModel, LanguageModelConfig, Model, Result};

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
