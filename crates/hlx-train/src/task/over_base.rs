//! Language models whose adapters are trained over a frozen base that is held as its file has it.

use anyhow::{Context as _, Result, ensure};
use hlx_core::Device;
use hlx_nn::{CausalLm, Model, ParameterBuilder, Weights, import_over};
use serde::{Deserialize, Serialize};

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

/// Makes a model over the base of a configuration, whose digest is proved, with new adapters.
pub(super) fn over_base(
    device: &Device,
    config: &Config,
    base: &Base,
    declare: impl FnOnce(&mut ParameterBuilder) -> hlx_nn::Result<CausalLm>,
) -> Result<Model<CausalLm>> {
    let path = match base {
        Base::Drawn(format) => {
            let model = Model::over_drawn_base(device, config.seed, format, declare)?;
            return Ok(model);
        }
        Base::File(path) => path,
    };
    let named = || format!("lora.base: {}", path.display());
    ensure!(
        is_model(path),
        "{}: holds no model; expected a GGUF file or a model's folder",
        named()
    );
    let stated = config.lora.as_ref();
    let stated = stated.and_then(|lora| lora.base_sha256.as_ref());
    if let Some(stated) = stated.filter(|_| device.has_memory()) {
        let found = base.sha256().with_context(named)?.unwrap_or_default();
        ensure!(
            found == *stated,
            "{}: is another base: its digest is {found}, expected {stated}",
            named()
        );
    }
    import_over(device, path, config.seed, declare).with_context(named)
}

/// Fails for a checkpoint whose adapters stand over another base than the configuration's.
pub(super) fn check_stated(checkpoint: &Checkpoint, config: &Config) -> Result<()> {
    let stated: StatedBase = serde_json::from_slice(checkpoint.file(BASE_FILE)?)?;
    let found = StatedBase::of(config)?;
    ensure!(
        found.as_ref() == Some(&stated),
        "{}: its adapters stand over the base {}, config.toml says {}",
        checkpoint.path().display(),
        stated.sha256.unwrap_or_default(),
        found.and_then(|one| one.sha256).unwrap_or_default()
    );
    Ok(())
}

/// The weights of a checkpoint's model, declared to a builder, as zeros: without the base where the checkpoint has none.
pub(crate) fn build_stored(
    checkpoint: &Checkpoint,
    builder: ParameterBuilder,
    device: &Device,
) -> hlx_nn::Result<Weights> {
    match checkpoint.digests.files.contains_key(BASE_FILE) {
        true => builder.build_adapters_zeroed(device),
        false => builder.build_zeroed(device),
    }
}
