//! Model files: `model.safetensors` with the weights and `config.json` with the sizes.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use hlx_core::Context;

use crate::error::NnError;
use crate::{Result, Transformer, TransformerConfig};

/// The file of the weights.
pub const MODEL_FILE: &str = "model.safetensors";

/// The file of the sizes.
pub const CONFIG_FILE: &str = "config.json";

/// Writes a model into a folder, which is made if it is not there. Each file is written beside
/// its place, forced to disk and renamed, so that an interruption leaves the old one.
///
/// # Errors
/// [`NnError::File`] with the system's reason, and what the device reports.
pub fn save_model(folder: &Path, model: &Transformer) -> Result<()> {
    fs::create_dir_all(folder).map_err(|error| NnError::file(folder, error))?;
    let config = serde_json::to_string_pretty(model.config())
        .map_err(|error| NnError::file(&folder.join(CONFIG_FILE), error))?;
    write_whole(&folder.join(MODEL_FILE), &model.store().to_safetensors()?)?;
    write_whole(&folder.join(CONFIG_FILE), (config + "\n").as_bytes())
}

/// Reads a model from the folder that [`save_model`] wrote.
///
/// # Errors
/// [`NnError::File`] for a file that is missing, truncated, malformed, or whose tensors are not
/// those of its configuration, with the first that differs; and what the device reports.
pub fn load_model(ctx: &Context, folder: &Path) -> Result<Transformer> {
    let config_path = folder.join(CONFIG_FILE);
    let text = read(&config_path)?;
    let config: TransformerConfig =
        serde_json::from_slice(&text).map_err(|error| NnError::file(&config_path, error))?;
    let model_path = folder.join(MODEL_FILE);
    let bytes = read(&model_path)?;
    let model = Transformer::zeroed(ctx, &config)?;
    model
        .store()
        .load_safetensors(&bytes)
        .map_err(|error| match error {
            NnError::Mismatch { what, reason } => {
                NnError::file(&model_path, format!("{what}: {reason}"))
            }
            other => other,
        })?;
    tracing::debug!("read the model of {}", folder.display());
    Ok(model)
}

fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).map_err(|error| NnError::file(path, error))
}

fn write_whole(path: &Path, bytes: &[u8]) -> Result<()> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".part");
    let write = || -> std::io::Result<()> {
        let mut file = File::create(&beside)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&beside, path)
    };
    write().map_err(|error| NnError::file(path, error))
}
