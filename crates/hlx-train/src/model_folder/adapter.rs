//! Folders of adapters of the library PEFT, and the model under an adapter of its output.

use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use hlx_core::files::{self, place};
use hlx_nn::{CausalConfig, CausalLm, Model, PEFT_CONFIG_FILE, PEFT_FILE};

/// PEFT's file of older versions, which can hold programs.
const OLD_FILE: &str = "adapter_model.bin";

/// Reads the two files of an adapter: its numbers and its tensors.
///
/// # Errors
/// The system's message with the file; a pointer of git-lfs; tensors that are not safetensors.
pub(super) fn read(folder: &Path) -> Result<(Vec<u8>, Vec<u8>)> {
    let path = place(folder, PEFT_CONFIG_FILE);
    let numbers = files::read_json(&path).with_context(|| path.display().to_string())?;
    let path = place(folder, PEFT_FILE);
    let named = || path.display().to_string();
    ensure!(
        path.exists() || !folder.join(OLD_FILE).exists(),
        "{}: {OLD_FILE} can hold programs and is not read; load it once with PEFT and `save_pretrained`, which \
         writes {PEFT_FILE}",
        folder.display()
    );
    let tensors = files::read(&path).with_context(named)?;
    ensure!(
        !files::is_lfs_pointer(&tensors),
        "{}: {}",
        named(),
        files::IS_LFS_POINTER
    );
    Ok((numbers, tensors))
}

/// A tied model with its output as a matrix of its own, as PEFT adapts it: the embedding stays what it was.
///
/// # Errors
/// What the device reports.
pub(super) fn untied(tied: &Model<CausalLm>, config: &mut CausalConfig) -> Result<Model<CausalLm>> {
    config.tied_output = false;
    let device = tied.weights().device();
    let model = Model::zeroed(device, |b| CausalLm::new(b, config))?;
    for parameter in model.weights().parameters() {
        let own = tied.weights().get(parameter.name());
        let source = own.or_else(|| tied.weights().get("model.embed_tokens.weight"));
        let source = source.context("the model has no embedding")?;
        let values = source.tensor()?.detach().to_vec::<f32>()?;
        device.upload(&parameter.tensor()?.detach().buffer()?, &values)?;
    }
    Ok(model)
}
