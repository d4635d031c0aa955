//! `lora.base`: the frozen base of adapters, held as a file has it (QLoRA).

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use hlx_core::Device;
use hlx_kernels::product::blocks::{BLOCK_FORMATS, BlockFormat};
use hlx_nn::{load_language_model, stored_sha256};

use super::Config;
use super::fault::{Checked, fault};

/// What a base begins with that is no file.
const DRAWN: &str = "drawn:";

/// The frozen base of a run's adapters.
#[derive(Clone, Debug, PartialEq)]
pub enum Base {
    /// A GGUF file, or a model's folder.
    File(PathBuf),
    /// Matrices of random integers in blocks of a format, drawn from the seed: `drawn:Q4_K`.
    Drawn(&'static BlockFormat),
}

impl Base {
    fn parse(text: &str) -> Result<Self> {
        let Some(name) = text.strip_prefix(DRAWN) else {
            return Ok(Self::File(text.into()));
        };
        match BlockFormat::named(name) {
            Some(format) => Ok(Self::Drawn(format)),
            None => {
                let known: Vec<&str> = BLOCK_FORMATS.iter().map(|one| one.name).collect();
                bail!(
                    "{name} is no format of blocks, expected one of {}",
                    known.join(", ")
                )
            }
        }
    }

    /// The SHA-256 of a base: of tensors as they are stored, of a GGUF file and of a folder in NF4 ([`stored_sha256`]), of another
    /// model's parameters; none of a drawn base, which the seed is the whole of.
    ///
    /// # Errors
    /// A path that is no model, and a damaged file.
    pub fn sha256(&self) -> Result<Option<String>> {
        let Self::File(path) = self else {
            return Ok(None);
        };
        Ok(Some(match stored_sha256(path)? {
            Some(digest) => digest,
            None => load_language_model(&Device::cpu()?, path)?
                .weights()
                .digest()?,
        }))
    }
}

impl Config {
    /// The frozen base of the adapters, where `lora.base` names one.
    ///
    /// # Errors
    /// A drawn base of a format that is not known.
    pub fn base(&self) -> Result<Option<Base>> {
        let base = self.lora.as_ref().and_then(|lora| lora.base.as_deref());
        base.map(Base::parse).transpose().context("lora.base")
    }

    /// The model that the run begins with: that of `train.init_from`, or the base of the adapters.
    pub fn begins_with(&self) -> Option<&Path> {
        let lora = self.lora.as_ref();
        let base = lora.and_then(|lora| lora.base.as_deref());
        let file = base.filter(|base| !base.starts_with(DRAWN));
        self.train.init_from.as_deref().or(file).map(Path::new)
    }

    /// Names the files of the first weights and of the base by absolute paths, and states the digest of the base, which decides
    /// the bits of a run.
    ///
    /// # Errors
    /// As [`Base::sha256`].
    pub fn resolve_first_weights(&mut self) -> Result<()> {
        let absolute = |path: &str| -> Result<String> {
            let absolute = std::path::absolute(path)?;
            Ok(absolute.to_string_lossy().into_owned())
        };
        if let Some(from) = &mut self.train.init_from {
            *from = absolute(from)?;
        }
        let base = self.base()?;
        let (Some(base), Some(lora)) = (base, &mut self.lora) else {
            return Ok(());
        };
        if let Base::File(path) = &base {
            lora.base = Some(absolute(&path.to_string_lossy())?);
        }
        if lora.base_sha256.is_none() {
            lora.base_sha256 = base.sha256().context("lora.base")?;
        }
        Ok(())
    }

    pub(super) fn check_base(&self) -> Checked {
        let is_begun = self.train.init_from.is_some();
        match self.base() {
            Err(error) => fault("lora.base", format!("{:#}", error.root_cause())),
            Ok(Some(_)) if is_begun => {
                fault("lora.base", "stands beside train.init_from, expected one")
            }
            Ok(None) if !is_begun => fault(
                "lora",
                "needs train.init_from, the model that is adapted, or lora.base, a model that stays as it is stored",
            ),
            Ok(_) => Ok(()),
        }
    }
}
