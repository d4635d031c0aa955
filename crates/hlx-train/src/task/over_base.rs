//! Language models whose adapters are trained over a frozen base that is held as its file has it.

use anyhow::{Context as _, Result, ensure};
use hlx_core::Device;
use hlx_nn::{CausalConfig, CausalLm, Model, import_over};
use serde::{Deserialize, Serialize};

use super::language;
use super::make::{checked_sizes, prove_weights};
use crate::config::{Base, Config};
use crate::opening::is_model;
use crate::run::{BASE_FILE, Checkpoint};

/// What a checkpoint states of the base, which it does not hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct StatedBase {
    /// [`Base::sha256`]; none of a drawn base.
    pub sha256: Option<String>,
}

impl StatedBase {
    /// What is stated of the base of a configuration, if it has one.
    pub fn of(config: &Config) -> Result<Option<Self>> {
        let lora = config.lora.as_ref();
        let sha256 = lora.and_then(|lora| lora.base_sha256.clone());
        Ok(config.base()?.map(|_| Self { sha256 }))
    }

    /// The bytes of a checkpoint's file.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let mut bytes = serde_json::to_vec_pretty(self)?;
        bytes.push(b'\n');
        Ok(bytes)
    }
}

/// Makes the model of a configuration over its base: with new adapters, or with those of a checkpoint, whose digest is proved as
/// the base's is.
pub(super) fn over_base(
    device: &Device,
    config: &Config,
    base: &Base,
    sizes: CausalConfig,
    checkpoint: Option<&Checkpoint>,
) -> Result<Model<CausalLm>> {
    if let Some(checkpoint) = checkpoint {
        checked_sizes(checkpoint, &sizes)?;
    }
    let declare = language(config, sizes);
    let model = match base {
        Base::Drawn(format) => Model::over_drawn_base(device, config.seed, format, declare)?,
        Base::File(path) => {
            let named = || format!("lora.base: {}", path.display());
            ensure!(
                is_model(path),
                "{}: holds no model; expected a GGUF file or a model's folder",
                named()
            );
            let stated = config
                .lora
                .as_ref()
                .and_then(|lora| lora.base_sha256.clone());
            if device.has_memory() {
                let found = base.sha256().with_context(named)?;
                ensure!(
                    stated.is_none() || found == stated,
                    "{}: is another base: its digest is {}, expected {}",
                    named(),
                    found.unwrap_or_default(),
                    stated.unwrap_or_default()
                );
            }
            import_over(device, path, config.seed, declare).with_context(named)?
        }
    };
    if let Some(checkpoint) = checkpoint {
        if checkpoint.digests.files.contains_key(BASE_FILE) {
            let stated: StatedBase = serde_json::from_slice(checkpoint.file(BASE_FILE)?)?;
            let found = StatedBase::of(config)?;
            ensure!(
                found.as_ref() == Some(&stated),
                "{}: its adapters stand over the base {}, config.toml says {}",
                checkpoint.path().display(),
                stated.sha256.unwrap_or_default(),
                found.and_then(|one| one.sha256).unwrap_or_default()
            );
        }
        prove_weights(checkpoint, model.weights())?;
    }
    Ok(model)
}

/// The weights of a checkpoint's model, declared to a builder, as zeros: without the base where the checkpoint has none.
pub(crate) fn build_stored(
    checkpoint: &Checkpoint,
    builder: hlx_nn::ParameterBuilder,
    device: &Device,
) -> hlx_nn::Result<hlx_nn::Weights> {
    match checkpoint.digests.files.contains_key(BASE_FILE) {
        true => builder.build_adapters_zeroed(device),
        false => builder.build_zeroed(device),
    }
}
