//! Adapters merged into the weights that they stand over: of runs, of runs over a base in blocks, and of the library PEFT.

use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use hlx_core::Device;
use hlx_gguf::NewKinds;
use hlx_nn::{CausalLm, Model};

use super::gguf::{check_output, write_model};
use super::write::folders_of;
use super::{is_run, open_adapted};
use crate::trained::Trained;

/// Reads a model with its adapters, `W + (alpha / rank) B A`, in f32 on the CPU: a run of adapters, or a model's folder or file with
/// an adapter of the library PEFT. The blocks of a base are widened.
///
/// # Errors
/// As [`Trained::open`] and [`open_adapted`]; a run without adapters, and one whose base is another one than it was trained over.
pub fn merged(path: &Path, adapter: Option<&Path>) -> Result<Model<CausalLm>> {
    let device = Device::cpu()?;
    let (model, lora) = match adapter {
        Some(adapter) => open_adapted(&device, path, adapter)?,
        None => {
            let trained = Trained::open(&device, path, false)?;
            let lora = trained.config.lora();
            let lora = lora
                .with_context(|| format!("{}: has no adapters (section [lora])", path.display()))?;
            (widened(&device, trained)?, lora)
        }
    };
    let weights = model.weights();
    weights.merge_lora(&lora)?;
    let merged = Model::zeroed(&device, |b| CausalLm::new(b, model.config()))?;
    merged
        .weights()
        .load_safetensors(&weights.base_to_safetensors()?)?;
    Ok(merged)
}

/// A run's model, with its base widened where it lies apart.
fn widened(device: &Device, trained: Trained) -> Result<Model<CausalLm>> {
    if trained.model.weights().base().is_none() {
        return Ok(trained.model);
    }
    let declare = crate::task::language(&trained.config, trained.model.config().clone());
    let model = Model::zeroed(device, declare)?;
    trained.model.weights().widen_into(model.weights())?;
    Ok(model)
}

/// Writes a merged model ([`merged`]) and its tokenizer as a GGUF file, in blocks or in floats. Returns the bytes of its tensors.
///
/// # Errors
/// As [`merged`] and [`export_gguf`](super::export_gguf).
pub fn merge_to_gguf(
    path: &Path,
    adapter: Option<&Path>,
    to: &Path,
    kinds: NewKinds,
) -> Result<u64> {
    let mut read = folders_of(path)?;
    read.extend(adapter.map(Path::to_owned));
    check_output(path, to, &read)?;
    let model = merged(path, adapter)?;
    ensure!(
        is_run(path)? || model.config().family().is_some(),
        "{}: a GGUF file has no place for such a model",
        path.display()
    );
    write_model(&model, path, &read[0], to, kinds, None)
}
