//! Model files: `model.safetensors` with the weights and `config.json` with the sizes.

use std::fmt::Display;
use std::fs;
use std::path::Path;

use hlx_core::{Device, files};

use crate::error::NnError;
use crate::{CausalConfig, CausalLm, Model, ParameterBuilder, Result, Weights, check_finite};

/// The file of the weights.
pub const MODEL_FILE: &str = "model.safetensors";

/// The file of the sizes.
pub const CONFIG_FILE: &str = "config.json";

/// A model whose shape can be written down.
pub trait ModelConfig {
    /// The text of its `config.json`.
    ///
    /// # Errors
    /// The serialiser's message.
    fn config_json(&self) -> serde_json::Result<String>;
}

impl ModelConfig for CausalLm {
    fn config_json(&self) -> serde_json::Result<String> {
        serde_json::to_string_pretty(self.config())
    }
}

/// Writes a model into a folder, which is made if it is not there. An interruption leaves the old
/// model or the new one, and never the weights of one with the sizes of the other
/// ([`files::write_set`]).
///
/// # Errors
/// [`NnError::File`] with the system's reason, and what the device reports.
pub fn save_model(folder: &Path, model: &Model<impl ModelConfig>) -> Result<()> {
    write_files(folder, &model_files(model)?)
}

/// The files of a model's folder, as [`save_model`] writes them: names and bytes.
///
/// # Errors
/// [`NnError::File`] with the serialiser's message, and what the device reports.
pub fn model_files(model: &Model<impl ModelConfig>) -> Result<[(&'static str, Vec<u8>); 2]> {
    let config = model
        .config_json()
        .map_err(|error| NnError::file(Path::new(CONFIG_FILE), error))?
        + "\n";
    let weights = model.weights().to_safetensors()?;
    Ok([(MODEL_FILE, weights), (CONFIG_FILE, config.into_bytes())])
}

/// Writes the files of a model together.
pub(crate) fn write_files(folder: &Path, contents: &[(&'static str, Vec<u8>); 2]) -> Result<()> {
    let contents = contents.each_ref().map(|(name, bytes)| (*name, &bytes[..]));
    let written = files::write_set(folder, &contents, &[]);
    written.map_err(|error| NnError::file(folder, error))
}

/// Reads a model from the folder that [`save_model`] wrote.
///
/// # Errors
/// [`NnError::File`] for a file that is missing, truncated, malformed, or whose tensors are not
/// those of its configuration, with the first that differs, or not finite; and what the device reports.
pub fn load_model(device: &Device, folder: &Path) -> Result<Model<CausalLm>> {
    let config = config_of(folder)?;
    let model = Model::zeroed(device, |b| {
        let model = CausalLm::new(b, &config)?;
        check_room(folder, b)?;
        Ok(model)
    })?;
    read_weights(folder, model.weights())?;
    Ok(model)
}

/// Reads the shape of a model from the folder that [`save_model`] wrote.
pub(super) fn config_of(folder: &Path) -> Result<CausalConfig> {
    let fail = |error: &dyn Display| NnError::file(&files::place(folder, CONFIG_FILE), error);
    let config = CausalConfig::from_json(&read_config(folder)?);
    let config = config.map_err(|error| fail(&error))?;
    config.validate().map_err(|error| fail(&error))?;
    Ok(config)
}

/// Reads the bytes of `config.json` of a folder that [`save_model`] wrote.
pub(super) fn read_config(folder: &Path) -> Result<Vec<u8>> {
    let path = files::place(folder, CONFIG_FILE);
    files::read_json(&path).map_err(|error| NnError::file(&path, error))
}

/// Fails for more parameters than the file of a folder can hold, before they have memory.
fn check_room(folder: &Path, declared: &ParameterBuilder) -> Result<()> {
    let path = files::place(folder, MODEL_FILE);
    let Ok(found) = fs::metadata(&path) else {
        // The file's reader says what is wrong with it.
        return Ok(());
    };
    let parameters = declared.declared_parameters();
    let elements = parameters.iter().map(|one| {
        let extents = one.shape().iter().map(|&extent| extent as u128);
        extents.product::<u128>()
    });
    let (count, length) = (elements.sum::<u128>(), found.len());
    // No type of a parameter is less than a byte.
    match u128::from(length) < count {
        true => Err(NnError::file(
            &path,
            format!("has {length} bytes, too few for the {count} parameters of {CONFIG_FILE}"),
        )),
        false => Ok(()),
    }
}

/// Reads the weights of a folder that [`save_model`] wrote.
fn read_weights(folder: &Path, weights: &Weights) -> Result<()> {
    let path = files::place(folder, MODEL_FILE);
    let bytes = read(&path)?;
    let loaded = check_finite(&bytes).and_then(|()| weights.load_safetensors(&bytes));
    tracing::debug!("read the model of {}", folder.display());
    loaded.map_err(|error| match error {
        NnError::Mismatch { what, reason } => NnError::file(&path, format!("{what}: {reason}")),
        other => other,
    })
}

fn read(path: &Path) -> Result<Vec<u8>> {
    files::read(path).map_err(|error| NnError::file(path, error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TransformerConfig;

    fn model(width: usize) -> Model<CausalLm> {
        let config = TransformerConfig {
            vocabulary: 256,
            width,
            n_layers: 1,
            n_heads: 1,
            feed_forward_width: 2 * width,
            positions: 8,
            dropout: 0.0,
            attention_dropout: 0.0,
        };
        let device = hlx_core::testing::cpu().expect("the CPU device opens");
        Model::new(&device, 3, |b| CausalLm::new(b, &config.into())).expect("makes")
    }

    fn digest(folder: &Path) -> Result<String> {
        let device = hlx_core::testing::cpu()?;
        load_model(&device, folder)?.weights().digest()
    }

    const PENDING: &str = "pending";

    /// Versions of HLX without a list of the files in `pending` stopped after each of their renames and
    /// removals, as a crash would.
    #[test]
    fn a_crash_leaves_no_new_weights_beside_old_sizes() -> Result<()> {
        let folder = std::env::temp_dir().join(format!("hlx-model-{}", std::process::id()));
        let (old, new) = (model(8), model(16));
        for stop in 0..4 {
            let _ = fs::remove_dir_all(&folder);
            save_model(&folder, &old)?;
            save_model(&folder.join("new"), &new)?;
            fs::rename(folder.join("new"), folder.join(PENDING)).expect("renames");
            let at = |name: &str| folder.join(name);
            if stop > 0 {
                fs::remove_file(at(CONFIG_FILE)).expect("removes");
            }
            for name in [MODEL_FILE, CONFIG_FILE].into_iter().take(stop.max(1) - 1) {
                fs::rename(at(PENDING).join(name), at(name)).expect("renames");
            }
            assert_eq!(digest(&folder)?, new.weights().digest()?, "stop {stop}");
            save_model(&folder, &old)?;
            assert_eq!(digest(&folder)?, old.weights().digest()?, "stop {stop}");
            assert_eq!(fs::read_dir(&folder).expect("reads").count(), 2);
        }
        fs::remove_dir_all(&folder).expect("cleared");
        Ok(())
    }
}
