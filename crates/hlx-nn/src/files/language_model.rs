//! The files of any causal language model: those of [`save_model`](crate::save_model), or a Hugging Face folder.

use std::path::Path;

use hlx_autograd::DType;
use hlx_core::Device;
use serde_json::Value;

use super::hugging_face::{
    gguf_of, import_hugging_face, import_hugging_face_as, read_hugging_face_config,
};
use super::model_file::{CONFIG_FILE, config_of, load_model, read_config};
use crate::error::NnError;
use crate::{CausalConfig, CausalLm, InferenceModel, Model, Result};

/// Reads the shape of a model from the `config.json` of a folder that [`save_model`](crate::save_model)
/// wrote, or of a Hugging Face folder.
///
/// # Errors
/// As [`load_model`](crate::load_model) and [`read_hugging_face_config`].
pub fn read_language_model_config(folder: &Path) -> Result<CausalConfig> {
    match is_hugging_face_folder(folder)? {
        true => read_hugging_face_config(folder),
        false => config_of(folder),
    }
}

/// Reads a model from a folder that [`save_model`](crate::save_model) wrote, from a Hugging Face folder, or from a GGUF
/// file.
///
/// # Errors
/// As [`load_model`](crate::load_model) and [`import_hugging_face`].
pub fn load_language_model(device: &Device, folder: &Path) -> Result<Model<CausalLm>> {
    match is_hugging_face_folder(folder)? {
        true => import_hugging_face(device, folder),
        false => load_model(device, folder),
    }
}

/// As [`load_language_model`], for inference, with matrices held in a type.
///
/// # Errors
/// As [`load_language_model`] and [`import_hugging_face_as`].
pub fn load_language_model_as(
    device: &Device,
    folder: &Path,
    dtype: DType,
) -> Result<InferenceModel<CausalLm>> {
    if is_hugging_face_folder(folder)? {
        return import_hugging_face_as(device, folder, dtype);
    }
    let whole = load_model(&Device::cpu()?, folder)?;
    InferenceModel::rounded(device, dtype, whole.weights(), |b| {
        CausalLm::new(b, whole.config())
    })
}

/// Whether the `config.json` of a folder is of Hugging Face's form, or a path is that of a GGUF file.
///
/// # Errors
/// [`NnError::File`] for a file that is missing or broken.
pub fn is_hugging_face_folder(folder: &Path) -> Result<bool> {
    // A file states what a folder's configuration does.
    if folder.is_file() && gguf_of(folder).is_some() {
        return Ok(true);
    }
    let fail = |error: serde_json::Error| NnError::file(&folder.join(CONFIG_FILE), error);
    let config: Value = serde_json::from_slice(&read_config(folder)?).map_err(fail)?;
    let keys = ["architectures", "model_type"];
    Ok(keys.iter().any(|key| config.get(key).is_some()))
}
